"""Blocks of pages that no other test runs do what they say: parameters, plans, commands on results, lines of Python."""
# seconds: 20
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import MOAO, ROOT, environment  # noqa: E402

TINY = ["telescope.diameter=4", "dm.nssp=4", "ngs_defaults.nssp=4", "lgs_defaults.nssp=4", "lgs_defaults.slope=points", "ngs_defaults.slope=points",
        "psf.residual=sensor", "psf.span=2.1", "targets.grid.nx=3", "targets.grid.ny=3", "output.crop=32", "output.psf=short"]


def blocks(page, language, word=""):
    """Blocks of a page in a language that have a word."""
    with open(os.path.join(ROOT, "docs", page), encoding="utf-8") as f:
        return [b for kind, b in re.findall(r"^```(\w*)\n(.*?)^```$", f.read(), re.S | re.M) if kind == language and word in b]


class Blocks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        d = tempfile.TemporaryDirectory()
        cls.addClassCleanup(d.cleanup)
        cls.folder = d.name
        os.mkdir(cls.folder + "/bin")
        os.symlink(MOAO, cls.folder + "/bin/moao")
        for name in ("plot", "python", "stars"):
            with open(cls.folder + "/bin/moao-" + name, "w", encoding="ascii") as f:
                f.write('#!/bin/sh\nexec %s/scripts/moao-results %s "$@"\n' % (ROOT, name))
            os.chmod(f.name, 0o755)
        for name in ("params", "scripts", "build", "examples"):
            os.symlink(os.path.join(ROOT, name), os.path.join(cls.folder, name))
        cls.type("moao run params/demo.yaml %s -o demo-out" % " ".join(TINY))

    @classmethod
    def type(cls, command, code=0):
        """Output of a block typed in the test's folder."""
        env = environment(OMP_NUM_THREADS="1")
        p = subprocess.run(["sh", "-e", "-c", command], cwd=cls.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                           universal_newlines=True, env=dict(env, PATH=cls.folder + "/bin:" + env.get("PATH", os.environ["PATH"])))
        if p.returncode != code:
            raise AssertionError("%s\n%s" % (command, p.stdout[-3000:]))
        return p.stdout

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as f:
            f.write(text)

    def test_parameters(self):
        """Blocks of parameters are accepted on top of the demo."""
        self.write("later.yaml", "r0: 20 cm\nlayers: {altitude: [0], fraction: [1], L0: 25}\n")
        self.write("wind.txt", "1 2 2\n10 1 1\n100 0 0\n")
        found = [b for p in ("user-guide.md", "sky.md") for b in blocks(p, "yaml")]
        self.assertGreaterEqual(len(found), 5)
        for text in found:
            self.write("block.yaml", text)
            self.type("moao check params/demo.yaml block.yaml")

    def test_plans(self):
        """Lines that plan, for this machine and others, with stars by name."""
        self.type("cp params/demo.yaml mine.yaml\n" + blocks("user-guide.md", "sh", "sensors.NGS2")[0])
        line, = re.findall(r"^moao check [^#\n]*", blocks("slurm.md", "sh", "moao check")[0], re.M)
        self.assertIn("sbatch", self.type(line))
        for line in re.findall(r"^moao check [^#\n]*", blocks("gpu.md", "sh", "moao check")[0], re.M):
            self.assertIn("GPU", self.type(line))
        self.assertIn("tlr", self.type(blocks("tlr.md", "sh", "moao check")[0].split("\n")[0]))

    def test_shown_plan(self):
        """The plan that gpu.md shows is the one that its command prints, but for what it leaves out."""
        shown, = blocks("gpu.md", "", "$ moao check")
        command, *lines = shown.strip().split("\n")
        text = self.type(command[2:])
        for line in lines:
            if line.strip() != "...":
                self.assertIn(line, text)

    def test_stars(self):
        """A line of sky.md on a table of one's own, typed here: units that it states, a word for nothing."""
        self.write("own.csv", "name,ra,dec,mag,pmra,pmdec\nA,10.0,2.0,12.5,0.1,-0.2\nB,10.001,2.01,20,0,0\n")
        line, = [x for x in blocks("sky.md", "sh", "moao-stars own.csv")[0].split("\n") if "own.csv" in x]
        self.type(line)
        with open(os.path.join(self.folder, "stars.csv"), encoding="utf-8") as f:
            rows = f.read().split("\n")
        self.assertRegex(rows[1], r"^A,150\.0*,")  # hours
        self.assertRegex(rows[2], r"^B,.*,$")

    def test_budget(self):
        """Lines on the error budget."""
        text = self.type(blocks("user-guide.md", "sh", "moao budget")[0])
        self.assertIn("servo lag", text)

    def test_python(self):
        """The lines of Python on the files, and their numbers."""
        self.write("page.py", blocks("outputs.md", "python")[0])
        text = self.type("moao-python page.py")
        peak, strehl = re.search(r"peak (\S+) = Strehl (\S+)", text).groups()
        self.assertAlmostEqual(float(peak), float(strehl), places=5)
        self.type("moao check again.yaml")


if __name__ == "__main__":
    unittest.main()
