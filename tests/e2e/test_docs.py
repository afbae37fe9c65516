"""The documents are true: links lead somewhere, named files exist, commands and options are those of the program, and the README's
table leads to every page."""
import glob
import os
import re
import shlex
import subprocess
import sys
import unittest
import unittest.mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import MOAO, ROOT, environment  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "scripts"))
import draw_pictures  # noqa: E402

PAGES = sorted(os.path.relpath(p, ROOT) for q in ("*.md", "docs/*.md", "bench/results/*.md", "python/*.md")
               for p in glob.glob(os.path.join(ROOT, q)))
# folders of the project: what is named `src/...` in a text is one of its files
FOLDERS = "src|docs|scripts|tests|bench|params|python|containers|packaging|examples"


def read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        return f.read()


def prose(page):
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", read(page), flags=re.S | re.M)


def commands(page):
    """Commands of a page's sh blocks as words, continued lines joined, comments and here-documents left out."""
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```", read(page), re.S | re.M):
        block = re.sub(r"<<'?(\w+)'?\n.*?^\1$", "", re.sub(r"\\\n\s*", "", block), flags=re.S | re.M)
        for line in block.split("\n"):
            line = re.sub(r"\(cd [^)]*\)", "", line)  # another project's folder
            words = [w.rstrip(";") for w in shlex.split(line, comments=True)]
            while words:
                end = next((i for i, w in enumerate(words) if w in ("&&", "||", "|", ";")), len(words))
                found.append(words[:end])
                words = words[end + 1:]
    return found


def sentences(text):
    """Sentences of a page: of its paragraphs, entries of lists and cells of tables; a formula or word of code is one word."""
    text = re.sub(r"^```.*?^```|^ {4}\S.*?$|^#+ .*?$|^\|[ :|-]+\|$|^!\[.*?$", "", text, flags=re.S | re.M)
    blocks = []
    for block in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|\n(?=\|)", text):
        blocks += block.replace("\n", "|").split("|") if block.lstrip().startswith("|") else [block]
    found = []
    for block in blocks:
        block = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`|\$[^$]*\$", "Code", block))
        found += re.split(r"(?<=[.?!])[)*\"]* (?=[A-Z\"*(\[]|\w+: )", re.sub(r"\s+", " ", block).strip())
    return [s for s in found if s]


def anchor(title):
    """The anchor that a renderer makes of a heading."""
    title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title.replace("`", ""))
    return re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")


def output(*command):
    p = subprocess.run(command, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       universal_newlines=True, check=False)
    return p.stdout


class Links(unittest.TestCase):
    def test_links(self):
        """Every relative link names a file of the project, and its heading."""
        n = 0
        for page in PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
                if re.match(r"[a-z]+:", target):
                    continue
                name, _, heading = target.partition("#")
                path = os.path.normpath(os.path.join(os.path.dirname(page), name)) if name else page
                self.assertTrue(os.path.exists(os.path.join(ROOT, path)), "%s: %s" % (page, target))
                if heading:
                    titles = re.findall(r"^#+ (.*)$", prose(path), re.M)
                    self.assertIn(heading, [anchor(t) for t in titles], "%s: %s" % (page, target))
                n += 1
        self.assertGreater(n, 40)

    def test_named_files(self):
        """A file of the project that a page names in passing exists (CHANGELOG.md names what there was)."""
        n = 0
        for page in [p for p in PAGES if p != "CHANGELOG.md"]:
            for name in re.findall(r"(?<![\w/.-])(?:%s)/[\w./*{},-]*[\w*}/]" % FOLDERS, read(page)):
                for each in expand(name.rstrip("/")):
                    self.assertTrue(glob.glob(os.path.join(ROOT, each)), "%s: %s" % (page, name))
                n += 1
        self.assertGreater(n, 80)

    def test_pages_that_sources_name(self):
        """A page that a source names exists."""
        n = 0
        for pattern in ("src/**/*.[ch]", "src/**/*.cu*", "src/*.def", "scripts/*", "bench/**/*", "tests/**/*.py", "Makefile"):
            for path in glob.glob(os.path.join(ROOT, pattern), recursive=True):
                if os.path.isfile(path):
                    with open(path, encoding="utf-8", errors="replace") as f:
                        for name in re.findall(r"(?<![\w/])docs/[\w-]+\.\w+", f.read()):
                            self.assertTrue(os.path.exists(os.path.join(ROOT, name)), "%s: %s" % (path, name))
                            n += 1
        self.assertGreater(n, 5)

    def test_reading_order(self):
        """Links lead from the README to every page; its table names those for users before those on GPUs."""
        reached, new = set(), {"README.md"}
        while new:
            reached |= new
            links = {os.path.normpath(os.path.join(os.path.dirname(p), t.partition("#")[0]))
                     for p in new for t in re.findall(r"\]\(([^):\s]+)\)", prose(p))}
            new = {p for p in links if p.endswith(".md")} - reached
        self.assertEqual([p for p in PAGES if p.startswith("docs/") and p not in reached], [])
        pages = re.findall(r"^\| \[(docs/[\w-]+\.md)\]", read("README.md"), re.M)
        self.assertLess(pages.index("docs/user-guide.md"), pages.index("docs/performance.md"))
        self.assertLess(pages.index("docs/outputs.md"), pages.index("docs/developing.md"))

    def test_length(self):
        """What is told of the GPU's performance is no more than a quarter of the documents."""
        words = {p: len(read(p).split()) for p in PAGES if p.startswith("docs/")}
        gpu = sum(n for p, n in words.items() if "performance" in p or "gpu" in p)
        self.assertLess(gpu, 0.25 * sum(words.values()), words)


class Sentences(unittest.TestCase):
    # sentences over 40 words that pages still have: the list only shrinks
    LONG = {"CHANGELOG.md": 3}

    def test_length(self):
        """No sentence has more than 40 words."""
        for page in PAGES:
            if page.startswith("bench/"):
                continue
            long = [s for s in sentences(read(page)) if len(s.split()) > 40]
            allowed = self.LONG.get(page, 0)
            self.assertLessEqual(len(long), allowed, "%s: over 40 words (write two sentences):\n%s" % (page, "\n".join(long)))

    def test_sentences(self):
        """Sentences are found in paragraphs, lists and cells, without code and headings."""
        text = ("# A title. With two.\n\nOne is\nhere (`a. B`). Two\n\n- three. Four\n- five\n\n| six. Seven | eight |\n| --- | --- |\n\n"
                "```\nNot this.\n```\n")
        self.assertEqual(sentences(text), ["One is here (Code).", "Two", "- three.", "Four", "- five", "six.", "Seven", "eight"])


def expand(name):
    """Names that the shell makes of {a,b}."""
    m = re.match(r"(.*?)\{([^}]*)\}(.*)$", name)
    return [e for w in m.group(2).split(",") for e in expand(m.group(1) + w + m.group(3))] if m else [name]


class Pictures(unittest.TestCase):
    def test_stale(self):
        """Pictures are those that the scripts, the parameter files and this version draw; what is older is named with what to do."""
        self.assertEqual(draw_pictures.stale(), [])
        self.assertGreater(len(draw_pictures.PICTURES), 7)
        kept = draw_pictures.read_list()
        for name, key, word in (("view", "drawn by", "scripts"), ("demo", "version", "version"), ("budget", "picture", "another file")):
            with unittest.mock.patch("draw_pictures.read_list", lambda n=name, k=key: dict(kept, **{n: dict(kept[n], **{k: "0.0"})})):
                (path, what), = draw_pictures.stale()
            self.assertEqual(path, "docs/%s.png" % name)
            self.assertIn(word, what)
            self.assertIn("make pictures PICTURES=" + name, what)
        with unittest.mock.patch("draw_pictures.read_list", lambda: {n: k for n, k in kept.items() if n != "view"}):
            self.assertIn("not drawn", draw_pictures.stale()[0][1])
        with unittest.mock.patch.dict(draw_pictures.PICTURES):
            del draw_pictures.PICTURES["view"]
            self.assertEqual([p for p, _ in draw_pictures.stale()], ["docs/view.png"])
        with unittest.mock.patch("draw_pictures.series", lambda: "99.0"):
            self.assertEqual(len(draw_pictures.stale()), sum(p.draw is not None for p in draw_pictures.PICTURES.values()))


class Commands(unittest.TestCase):
    def test_make(self):
        """Every `make TARGET` of a page is a target."""
        found = set()
        for page in PAGES:
            for m in re.findall(r"`make ([a-z-]+)", prose(page)):
                found.add((page, m))
            for words in commands(page):
                if words[0] == "make":
                    found |= {(page, w) for w in words[1:] if re.match(r"[a-z][a-z-]*$", w)}
        self.assertGreater(len(found), 8)
        for page, target in found:
            p = subprocess.run(["make", "-n", "--no-print-directory", target], cwd=ROOT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, universal_newlines=True, check=False)
            self.assertNotIn("No rule to make target", p.stderr, "%s: make %s" % (page, target))

    def test_moao(self):
        """Every command of moao, its options and keys in a page's blocks are the program's."""
        usage = output(MOAO, "--help")
        helps = {c: output(MOAO, c, "--help") for c in re.findall(r"^  ([a-z][a-z-]+)  ", usage, re.M)}
        self.assertGreaterEqual(set(helps), {"run", "check", "params"})
        keys = re.findall(r"^([a-z_][\w.]*): ", output(MOAO, "params"), re.M)
        self.assertIn("telescope.zenith", keys)
        tops = {k.split(".")[0] for k in keys}
        n = 0
        for page in PAGES:
            for words in commands(page):
                at = [i for i, w in enumerate(words) if os.path.basename(w) == "moao" and i + 1 < len(words)]
                if not at or words[0] in ("apptainer", "docker", "spack", "cd"):
                    continue
                sub, rest = words[at[0] + 1], words[at[0] + 2:]
                if sub.startswith("-"):
                    self.assertIn(sub, usage, "%s: %s" % (page, " ".join(words)))
                    continue
                self.assertIn(sub, helps, "%s: %s" % (page, " ".join(words)))
                for w in rest:
                    m = re.match(r"([a-z_]\w*)([.\[][\w.\[\]]*)? *=", w)
                    if m:
                        self.assertIn(m.group(1), tops, "%s: %s" % (page, " ".join(words)))
                    elif re.match(r"--?[a-z]", w):
                        self.assertRegex(helps[sub], r"(?<![\w-])%s(?![\w-])" % re.escape(w), "%s: %s" % (page, " ".join(words)))
                n += 1
        self.assertGreater(n, 8)


if __name__ == "__main__":
    unittest.main()
