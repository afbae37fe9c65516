"""The README's commands as they stand there, by root and by an ordinary user in a root of its own (where that is possible), on a
smaller demo case; and every shipped parameter file is one that `moao check` takes."""
# timeout: 600
# seconds: 40
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import chroot  # noqa: E402
from moao_test import MOAO, ROOT, as_built, environment  # noqa: E402

SMALL = {"nx: 33, ny: 33": "nx: 2, ny: 2", "end: 1 h": "end: 20 min", "nssp: 16": "nssp: 6", "nssp: 14": "nssp: 6"}  # of the demo


def blocks(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        return re.findall(r"^```sh\n(.*?)^```", f.read(), re.S | re.M)


def block(word):
    """The README's block of commands that holds a word."""
    found = [b for b in blocks("README.md") if word in b]
    if len(found) != 1:
        raise AssertionError("%d blocks of README.md have %s" % (len(found), word))
    return found[0]


class AsWritten(unittest.TestCase):
    """A clone with what `make` built here, and the demo made small."""

    def clone(self, folder):
        chroot.copy_sources(folder)
        build = os.path.join(folder, "build")
        skip = shutil.ignore_patterns("san-*", "check-gpu", "package", "tests", "bench")
        shutil.copytree(os.path.dirname(os.path.abspath(MOAO)), build, ignore=skip)
        demo = os.path.join(folder, "params", "demo.yaml")
        with open(demo, encoding="utf-8") as f:
            text = f.read()
        for old, new in SMALL.items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        with open(demo, "w", encoding="utf-8") as f:
            f.write(text)
        return as_built()[1][len("CC="):]

    def commands(self, without="^$"):
        """`make demo`, then "Your case" but for lines that have a word, stopping at the first command that fails."""
        demo = re.search(r"^make demo", block("make demo"), re.M).group(0)
        return "\n".join(["set -e", demo] + [c for c in block("mine.yaml").split("\n") if not re.search(without, c)])

    def check(self, code, text, folder, without="^$"):
        self.assertEqual(code, 0, text[-4000:])
        made = ("demo-out/maps.fits", "demo-out/maps.png", "night1/maps.fits", "night1/maps.png", "night1/view.html",
                "night2/maps.fits", "zenith/sweep.csv")
        for name in [n for n in made if not re.search(without, n)]:
            self.assertGreater(os.path.getsize(os.path.join(folder, name)), 500, name)
        self.assertRegex(text, r"2 ranks")
        self.assertNotIn("Traceback", text)

    def test_user(self):
        """By an ordinary user."""
        with tempfile.TemporaryDirectory() as d:
            user = chroot.User(d)
            folder = user.path("moao")
            compiler = self.clone(folder)
            user.give(user.home)
            code, text = user.call("cd moao\n" + self.commands(), MAKEFLAGS="CC=" + compiler.replace(" ", "\\ "),
                                   OMPI_MCA_rmaps_base_oversubscribe="1")
            self.check(code, text, folder)

    def by_root(self):
        """By root, with nothing said to Open MPI but what the commands say (no sweep, no second picture)."""
        without = "sweep|moao-results|night1/.*(png|html)$"
        with tempfile.TemporaryDirectory() as d:
            folder = os.path.join(d, "moao")
            compiler = self.clone(folder)
            env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "MOAO"))}
            p = subprocess.run(["sh", "-c", self.commands(without)], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               universal_newlines=True, stdin=subprocess.DEVNULL, check=False,
                               env=dict(env, MAKEFLAGS="CC=" + compiler.replace(" ", "\\ ")))
            self.check(p.returncode, p.stdout, folder, without)


if os.geteuid() == 0:  # else there is no such case, rather than a skipped one
    AsWritten.test_root = AsWritten.by_root


class Shipped(unittest.TestCase):
    def check(self, *words):
        p = subprocess.run([MOAO, "check"] + list(words), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           universal_newlines=True, check=False)
        self.assertEqual(p.returncode, 0, "%s\n%s" % (" ".join(words), p.stdout))

    def test_each_file_is_checked(self):
        """`moao check` takes every file of params/, whatever machine this is: cases as they are, those that go behind another
        one with it, as their first line has it, profiles in the demo case."""
        demo, n = os.path.join(ROOT, "params", "demo.yaml"), {"case": 0, "part": 0, "night": 0, "profile": 0}
        for name in sorted(glob.glob(os.path.join(ROOT, "params", "**", "*.yaml"), recursive=True)):
            with open(name, encoding="utf-8") as f:
                text = f.read()
            keys = re.findall(r"^(\w+):", text, re.M)
            before = re.match(r"#.*: moao run (\S+) %s$" % re.escape(os.path.relpath(name, ROOT)), text, re.M)
            kind = "part" if before else "case" if "telescope" in keys else "night" if "profiles" in keys else "profile"
            n[kind] += 1
            self.check(*{"case": lambda: [name], "part": lambda: [os.path.join(ROOT, before.group(1)), name],
                         "night": lambda: [demo, "atmosphere={file: %s}" % name],
                         "profile": lambda: [demo, "atmosphere={profiles: [{file: %s}]}" % name]}[kind]())
        self.assertGreaterEqual(n["case"], 4)
        self.assertGreaterEqual(n["night"] + n["profile"], 5)


if __name__ == "__main__":
    unittest.main()
