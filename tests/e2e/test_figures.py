"""Figures of speed and accuracy that the pages state are those of docs/figures.json, and these follow from files of bench/results;
the program's forecast of the full scale agrees with them."""
import copy
import glob
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import MOAO, ROOT, environment  # noqa: E402

# what is physics, generated from params.def or tested in another place
OTHERS = {"docs/model.md", "docs/validation.md", "docs/parameters.md"}
PAGES = ["README.md", "CHANGELOG.md"] + sorted(p for p in (os.path.relpath(q, ROOT) for q in glob.glob(os.path.join(ROOT, "docs/*.md")))
                                               if p not in OTHERS)
# every number in the cells of a table of these pages is a figure
TABLES = {"docs/performance.md"}
NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
CLAIM = re.compile(r"(?<![\w.^/])(?:%s (?:s|ms|us|ns|h|min|days|[GT]FLOP/s|GB/s|times)(?![\w/])|\d+(?:\.\d+)?e-\d+)" % NUMBER)
TO_DO = "measured: add it with its run and result; a setting: to not_measured"
LINES = 60  # of a result that belong to its headline


def read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        return f.read()


def prose(text, page):
    """A page without blocks and words of code, targets of links and, of the changes, what is released."""
    if page == "CHANGELOG.md":
        text = re.search(r"^## Unreleased\n(.*?)(?=^## )", text, re.S | re.M).group(1)
    text = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    return re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "", text))


def flat(text):
    """A text without ends of lines."""
    return re.sub(r"\s+", " ", text)


def number(text):
    """A text's first number, and half a unit of its last digit."""
    m = re.search(r"(\d[\d,]*)(\.\d+)?(e[-+]?\d+)?", text)
    digits = len(m.group(2) or ".") - 1
    return float(m.group(0).replace(",", "")), 0.5 * 10.0 ** (int((m.group(3) or "e0")[1:]) - digits)


def wrong_values(figures):
    """Figures that their results do not give."""
    found = []
    for f in figures["figures"]:
        run = figures["runs"][f["run"]]
        lacking = [k for k in ("machine", "date", "revision", "command", "file", "after") if not run.get(k)]
        text = read(run["file"])
        place = text.find(run["after"])
        if lacking or place < 0:
            found.append("%s: the run lacks %s" % (f["run"], lacking or "its headline in " + run["file"]))
            continue
        there = {float(n) for n in re.findall(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?", "\n".join(text[place:].split("\n")[:LINES]))}
        used = [float(n) for n in re.findall(r"\d+\.\d+(?:e[-+]?\d+)?|\d{5,}", f["from"].replace("86400", ""))]
        value, half = number(f["text"])
        if not re.fullmatch(r"[-\d.e+*/() ]+", f["from"]) or not used or not set(used) <= there:
            found.append("%s (%s): %s has no such numbers" % (f["text"], f["from"], run["file"]))
        elif abs(eval(f["from"]) - value) > 1.0001 * half:
            found.append("%s (%s): %s is %g" % (f["text"], f["what"], f["from"], eval(f["from"])))
    return found


def wrong_pages(figures, pages):
    """Figures that are not on their pages, and claims of pages that are no figures."""
    found, known = [], {p: set(figures["not_measured"].get(p, [])) for p in pages}
    for f in figures["figures"]:
        for p in f["pages"]:
            known[p].add(f["text"])
            if not re.search(r"(?<![\w.])%s(?!\w|\.\d)" % re.escape(f["text"]), flat(pages[p])):
                found.append("%s: does not say %s (%s)" % (p, f["text"], f["what"]))
    for p, text in pages.items():
        found += ["%s: %s is no figure of docs/figures.json (%s)" % (p, c, TO_DO) for c in CLAIM.findall(flat(text)) if c not in known[p]]
        for row in re.findall(r"^\|(?! *-)(.*)\|$(?!\n\| *-)", text, re.M) if p in TABLES else []:  # without headers
            for cell in row.split("|")[1:]:
                rest = cell
                for t in sorted(known[p], key=len, reverse=True):
                    rest = re.sub(r"(?<![\w.])%s(?!\w|\.\d)" % re.escape(t), "", rest)
                if re.search(r"(?<![\w-])\d", rest):
                    found.append("%s: %s in a table is no figure of docs/figures.json" % (p, cell.strip()))
    return found


class Figures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.figures = json.loads(read("docs/figures.json"))
        cls.pages = {p: prose(read(p), p) for p in PAGES}

    def test_results(self):
        """Each figure follows from numbers of its result file, with machine, date, revision and command."""
        self.assertEqual(wrong_values(self.figures), [])
        self.assertGreater(len(self.figures["figures"]), 60)

    def test_pages(self):
        """Pages state these figures and no others."""
        self.assertEqual(wrong_pages(self.figures, self.pages), [])

    def test_notices(self):
        """A figure that no file holds, a changed value and a changed page are noticed."""
        other = copy.deepcopy(self.figures)
        other["figures"][0]["text"] = "9.99"
        other["figures"][1]["from"] = "123.456"
        self.assertEqual(len(wrong_values(other)), 2)
        page = dict(self.pages)
        page["README.md"] = page["README.md"].replace("1.65 s", "1.25 s")
        self.assertEqual(len(wrong_pages(self.figures, page)), 2)
        page["docs/performance.md"] = page["docs/performance.md"].replace("| 0.645 |", "| 0.655 |")
        self.assertEqual(len(wrong_pages(self.figures, page)), 4)

    def test_not_measured(self):
        """Settings that no page states any more are no longer listed."""
        for page, texts in self.figures["not_measured"].items():
            for text in texts:
                self.assertIn(text, flat(self.pages[page]), page)


class Forecast(unittest.TestCase):
    def test_scaling_model(self):
        """The table of docs/scaling.md is what its program prints."""
        p = subprocess.run([sys.executable, os.path.join(ROOT, "bench/scaling_model.py")], stdout=subprocess.PIPE,
                           universal_newlines=True, check=True)
        self.assertIn("```\n%s\n```" % p.stdout.rstrip(), read("docs/scaling.md"))

    def test_compressed_on_cpu(self):
        """A compressed factor on a CPU is forecast with the CPU's covariances, not with a GPU's."""
        seconds = []
        for form in ("dense", "tlr"):
            p = subprocess.run([MOAO, "check", "params/mosaic.yaml", "--gflops", "20", "--json", "compute.backend=cpu", "lgs_defaults.nssp=18",
                                "ngs_defaults.nssp=16", "dm.nssp=20", "compute.format=" + form, "targets={list: [[0, 0]]}"], env=environment(OMP_NUM_THREADS="1"), cwd=ROOT,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
            seconds.append(float(re.search(rb'"seconds": ([\d.]+)', p.stdout).group(1)))
        self.assertAlmostEqual(seconds[1] / seconds[0], 1, delta=0.25, msg=seconds)

    def test_full_scale(self):
        """moao check forecasts a night on an H200 within 15 % of the figures, from their rate of dgemm."""
        figures = {f["what"]: number(f["text"])[0] for f in json.loads(read("docs/figures.json"))["figures"]}
        wanted = (("double", figures["a night on 1 GPU, default, double"] * 86400), ("mixed", figures["a night on 1 GPU, default, mixed"] * 3600))
        for precision, night in wanted:
            p = subprocess.run([MOAO, "check", "params/mosaic.yaml", "--gpus", "1", "--json", "output.budget=none",
                                "targets.sampling=exact", "compute.precision=" + precision], env=environment(), cwd=ROOT, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, check=True)
            seconds, rate = (float(re.search(rb'"%s": ([\d.]+)' % k, p.stdout).group(1)) for k in (b"seconds", b"rank_gflops"))
            self.assertAlmostEqual(seconds / night, 1, delta=0.15, msg=precision)
        self.assertAlmostEqual(rate, 1e3 * figures["dgemm of an H200"], delta=500)
        shown = subprocess.run([MOAO, "check", "params/mosaic.yaml", "compute.backend=gpu"], env=environment(), cwd=ROOT,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True, check=False).stdout
        self.assertIn("dgemm of an H200: 64000.0 GFLOP/s", shown)
        self.assertNotIn("measured here", shown)


if __name__ == "__main__":
    unittest.main()
