"""docs/first-hour.md as it stands there, block by block, by an ordinary user in a root of its own (where that is possible), with the
installed program. The case is made small; everything else is typed as on the page."""
# timeout: 600
# seconds: 50
import csv
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import chroot  # noqa: E402
from moao_test import ROOT, as_built, environment, maps  # noqa: E402

SMALL = {"nssp: 20": "nssp: 6", "frame_rate: 500 Hz}": "frame_rate: 500 Hz, slope: points}",  # which takes a sixth of the time
         # what is done for each target is the same: enough of them for a map, in two chunks, of which the first can be interrupted
         "nx: 33, ny: 33": "nx: 4, ny: 3", "crop: 64": "crop: 32",
         "psf: {": "compute: {targets_per_chunk: 6}\npsf: {span: 2.1, "}
# starts a command, sends it what Ctrl-C sends once a first part is kept, and ends with its exit code
INTERRUPT = """
import glob, os, signal, subprocess, sys, time
p = subprocess.Popen(sys.argv[2:], start_new_session=True)
while p.poll() is None and not glob.glob(sys.argv[1] + "/checkpoint/part-*"):
    time.sleep(0.01)
os.killpg(p.pid, signal.SIGINT)
sys.exit(p.wait())
"""


def page():
    """(heading, block) of the page, in order."""
    with open(os.path.join(ROOT, "docs", "first-hour.md"), encoding="utf-8") as f:
        text = f.read()
    found, heading = [], ""
    for m in re.finditer(r"^## ([^\n]*)$|^```sh\n(.*?)^```", text, re.S | re.M):
        heading = re.sub(r"^\d+\. ", "", m.group(1) or heading)
        if m.group(2):
            found.append((heading, m.group(2)))
    return found


class FirstHour(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        d = tempfile.TemporaryDirectory()
        cls.addClassCleanup(d.cleanup)
        cls.user = chroot.User(d.name)
        prefix = cls.user.home + "/.local"
        subprocess.run(["make", "-C", ROOT, "--no-print-directory", "install", "prefix=" + prefix,
                        "DESTDIR=" + cls.user.root] + as_built(), env=environment(), stdout=subprocess.DEVNULL, check=True)
        with open(cls.user.path("interrupt.py"), "w", encoding="ascii") as f:
            f.write(INTERRUPT)
        cls.user.give(cls.user.home)
        cls.blocks = page()
        for old in SMALL:
            assert old in cls.blocks[0][1], old

    def call(self, command, code=0):
        """Type a block in the folder that the page makes."""
        start = time.monotonic()
        found, text = self.user.call("export PATH=$HOME/.local/bin:$PATH\ncd ./hour 2>/dev/null\n" + command,
                                     OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        print("%5.1f s  %s" % (time.monotonic() - start, command.split("\n")[0]), flush=True)
        self.assertEqual(found, code, "%s\n%s" % (command, text[-3000:]))
        self.assertNotIn("Traceback", text)
        return text

    def exists(self, *names):
        for name in names:
            self.assertGreater(os.path.getsize(self.user.path("hour", name)), 2000, name)

    def test_page(self):
        """Every block does what the page says of it."""
        steps = {"Describe the case": self.describe, "Ask what it means, and compute it": self.compute, "Look at it": self.look,
                 "How faint may the stars be?": self.sweep, "Your own targets": self.targets, "A PSF in your own hands": self.psf,
                 "Interrupted?": self.interrupt, "Does it matter?": self.compare}
        self.assertEqual([h for h, _ in self.blocks], list(steps))
        for heading, block in self.blocks:
            with self.subTest(heading):
                steps[heading](block)

    def describe(self, block):
        for old, new in SMALL.items():
            block = block.replace(old, new)
        self.call("set -e\n" + block)

    def compute(self, block):
        text = self.call("set -e\n" + block)
        self.assertIn("4 x 3", text)
        self.assertIn("2 ranks", text)
        self.assertNotIn("warning", text)
        self.exists("proposal/maps.fits")

    def look(self, block):
        self.call("set -e\n" + block)
        self.exists("proposal/maps.png", "proposal/view.html")

    def sweep(self, block):
        self.call("set -e\n" + block)
        with open(self.user.path("hour", "magnitudes", "sweep.csv"), encoding="utf-8", newline="") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual([r["sensors.*.magnitude"] for r in rows], ["12", "14", "16"])
        strehl = [float(r["strehl_mean_2.2um"]) for r in rows]
        self.assertEqual(strehl, sorted(strehl, reverse=True))
        for row in rows:  # all three stars
            with open(self.user.path("hour", "magnitudes", row["folder"], "effective.yaml"), encoding="utf-8") as f:
                found = re.findall(r"^ +magnitude: (\S+)", f.read(), re.M)
            self.assertEqual([float(m) for m in found if m != "null"], 3 * [float(row["sensors.*.magnitude"])])
        self.exists("magnitudes/sweep.fits", "magnitudes/sweep.png")

    def targets(self, block):
        self.call("set -e\n" + block)
        self.exists("galaxies/maps.fits", "galaxies/psf.fits")

    def psf(self, block):
        text = self.call("set -e\n" + block)
        found = re.findall(r"^(\w+) +\( *[-\d.]+, +[-\d.]+\): Strehl ([\d.]+), peak of the image ([\d.]+)", text, re.M)
        self.assertEqual([f[0] for f in found], ["A1", "A2", "B1"])
        for _, strehl, peak in found:
            self.assertEqual(strehl, peak)
            self.assertGreater(float(strehl), 0.01)

    def interrupt(self, block):
        first, resumed = block.strip().split("\n")
        self.assertIn("# press Ctrl-C", first)
        text = self.call("python3 ../interrupt.py fine " + first, code=3)
        self.assertIn("--resume", text)
        self.call(resumed)
        self.call(first.replace("-o fine", "-o whole"))
        whole, fine = (maps(self.user.path("hour", name)) for name in ("whole", "fine"))
        self.assertEqual(sorted(whole), sorted(fine))
        for name, a in whole.items():
            self.assertEqual(a.tobytes(), fine[name].tobytes(), name)

    def compare(self, block):
        text = self.call(block)
        self.assertIn("STREHL", text)


if __name__ == "__main__":
    unittest.main()
