"""Every text that a run or a sweep writes is read back as it was typed: all of ASCII, and characters of other scripts."""
# timeout: 200
import csv
import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest

import yaml
from astropy.io import fits

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "python"))
from moao_test import MOAO, environment, patience  # noqa: E402
import moao  # noqa: E402
from moao.reading import text_of  # noqa: E402

ASCII = "".join(map(chr, range(0x20, 0x7f)))
SCRIPTS = ["Müller, l'été", "星とガイド", "ΑΩ ≤ µ", "🔭", "e\u0301 \u202eabc", "\u0085\u00a0\u2028|", "\ufffd"]
ODD = ["", " a ", "\\u0041", "\\\\", "'", "''", '"', "a & b &", "&" * 70, "x" * 68 + "'", "=1+1", "@a", "+a", "-a", "-5", "#a", "a: b", "[a]", "{a}", "%s%n",
       "null", "1e5", "yes", "<!--<script>", "@DATA@", "x" * 200, "'" * 150]
CASE = """
telescope: {diameter: 4, obscuration: 0.2}
dm: {nssp: 4}
psf: {wavelengths: [1.65], residual: sensor}
output: {psf: none}
"""


def doubled(text):
    """In double quotes, as YAML has it."""
    return yaml.safe_dump(text, default_style='"', width=10 ** 9).rstrip("\n")


class Texts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def moao(self, *args, code=0):
        p = subprocess.run([MOAO, *args], cwd=self.dir, env=environment(), capture_output=True, timeout=patience(120))
        self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        return p

    def case(self, title, names, sensors, profile="night.yaml"):
        wanted = yaml.safe_load(CASE)
        wanted.update(title=title, targets={"list": [[i, 0] for i in range(len(names))], "names": names},
                      sensors=[{"type": "ngs", "name": n, "nssp": 4, "slope": "points", "direction": [20, 10 * i], "magnitude": 10}
                               for i, n in enumerate(sensors)],
                      atmosphere={"profiles": [{"time": 0, "file": profile}]})
        with open(self.path("case.yaml"), "w", encoding="utf-8") as f:
            yaml.safe_dump(wanted, f, width=10 ** 9)
        with open(self.path(profile), "w", encoding="utf-8") as f:
            f.write("r0: 0.15\nlayers: {altitude: [0, 4000], fraction: [0.6, 0.4]}\n")

    def test_run(self):
        """Titles and names in headers, columns, the table of parameters, run.json, effective.yaml and the error budget."""
        title = ASCII + "".join(SCRIPTS) + "|".join(ODD)
        names = [n for n in [ASCII[:47].strip(), ASCII[47:], *SCRIPTS, *ODD] if n.strip() == n and 0 < len(n.encode()) < 48]
        sensors = ["é'\"\\ &=1,🔭", "=A1", ASCII[1:31], ASCII[31:62], ASCII[62:93]]
        profile, out = "nuit é'\"&星.yaml", "out é'\"&星 =1"
        self.case(title, names, sensors, profile)
        self.moao("run", "case.yaml", "-o", out)
        run = moao.open(self.path(out))
        self.assertEqual(run.title, title)
        self.assertEqual(run.names, names)
        self.assertEqual([text_of(n) for n in run.guide_stars["NAME"]], sensors)
        self.assertEqual([text_of(n) for n in run.exposures["PROFILE"]], [profile])
        with open(self.path(out, "effective.yaml"), encoding="ascii") as f:
            effective = f.read()
        self.assertEqual(run.parameters_text, effective)
        told = yaml.safe_load(effective)
        self.assertEqual((told["title"], told["targets"]["names"], [s["name"] for s in told["sensors"]]), (title, names, sensors))
        with open(self.path(out, "run.json"), encoding="utf-8") as f:
            json.load(f)
        with fits.open(self.path(out, "maps.fits")) as f:  # as another program sees it
            f.verify("exception")
            for hdu in f:
                self.assertTrue(all(32 <= ord(c) < 127 for c in hdu.header.tostring()))
        p = self.moao("budget", out, "--csv")
        rows = list(csv.reader(p.stdout.decode().splitlines()))
        self.assertEqual(rows[1][1:2], [names[0]])
        self.assertEqual([n for n in rows[0] if n.startswith("noise of ")][1], "noise of =A1_nm")
        p = self.moao("budget", out, "--json", "--target", names[1])
        told = json.loads(p.stdout.decode())
        self.assertEqual((told["directory"], told["target"]), (out, 2))
        self.assertEqual([s["term"] for t in told["terms"] if "stars" in t for s in t["stars"]], sensors)
        with open(self.path("again.yaml"), "w", encoding="ascii") as f:
            f.write(run.parameters_text)
        self.moao("check", "again.yaml")

    def test_folder_of_any_bytes(self):
        """A folder whose name is no text: JSON has it as Python's names of files have it."""
        self.case("", ["a", "b"], ["s"])
        out = b"out\xff\xc3(\xe2\x82"
        self.moao("run", "case.yaml", "-o", out)
        self.assertEqual(os.fsencode(json.loads(self.moao("budget", out, "--json").stdout.decode("ascii"))["directory"]), out)

    def test_sweep(self):
        """Swept texts in runs.txt (for the shell and for xargs), sweep.csv and sweep.fits; the list is read back; names of columns too."""
        self.case("", ["a", "b"], ["é 星", "=s"])
        values = [v for v in [ASCII, *SCRIPTS, *ODD] if v != "\ufffd" and not v.startswith("\u0085")][:12] + ["=1+1", "@a", "-5", " a ", '\\", ']
        key = "sensors.é 星.magnitude"
        self.moao("sweep", "case.yaml", "title=[%s]" % ", ".join(map(doubled, values)), key + "=[10]", "--slurm", "-o", "out")
        with open(self.path("out", "runs.txt"), encoding="utf-8") as f:
            lines = [line for line in f.read().split("\n") if line]
        self.assertEqual(shlex.split(lines[0], comments=False)[4:], ["title", key])
        by_shell = [shlex.split(line) for line in lines if not line.startswith("#")]
        by_xargs = [subprocess.run(["xargs", "-n1", "printf", "%s\\n"], input=line, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]
                    for line in lines if not line.startswith("#")]
        self.assertEqual(by_shell, by_xargs)
        self.assertEqual([yaml.safe_load(words[2].split("=", 1)[1]) for words in by_shell], values)
        self.assertEqual(len({words[1] for words in by_shell}), len(values))
        self.moao("sweep", "--table", "-o", "out")
        with fits.open(self.path("out", "sweep.fits")) as f:
            table, header = f["SWEEP"].data, f["SWEEP"].header
            self.assertEqual([text_of(header["TTYPE%d" % i]) for i in (1, 2)], ["title", key])
            self.assertEqual([text_of(v) for v in table.field(0)], [words[2].split("=", 1)[1] for words in by_shell])
            self.assertEqual([text_of(v) for v in table["folder"]], [words[1] for words in by_shell])
        with open(self.path("out", "sweep.csv"), encoding="utf-8", newline="") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual([r["title"] for r in rows], [words[2].split("=", 1)[1] for words in by_shell])
        self.assertEqual([r[key] for r in rows], ["10"] * len(values))

    def test_too_long(self):
        """What no line of a table could hold is refused before anything is computed; what it can hold, in any number, is written."""
        self.case("x" * 2001, ["a"], ["s"])
        p = self.moao("run", "case.yaml", "-o", "out", code=2)
        self.assertRegex(p.stderr.decode(), r"\A[^\n]*title: 2001 bytes long, expected at most 2000\n\Z")
        self.assertFalse(os.path.exists(self.path("out")))
        title, names = "🔭" * 500, ["%d %s" % (i, "星" * 15) for i in range(60)]
        self.case(title, names, ["s"])
        times = "schedule.exposure_times=[%s]" % ", ".join("%.3f" % (0.001 * i) for i in range(900))
        self.moao("run", "case.yaml", times, "-o", "out", "psf.ee_boxes=75 mas", "output.budget=none")
        run = moao.open(self.path("out"))
        self.assertEqual((run.title, run.names, run.ne), (title, names, 900))
        told = yaml.safe_load(run.parameters_text)
        self.assertEqual((told["title"], told["targets"]["names"], len(told["schedule"]["exposure_times"])), (title, names, 900))


if __name__ == "__main__":
    unittest.main()
