"""The book of instruments (params/instruments, docs/instruments.md): each file tells its sources and what is assumed, runs in a
reduced form, and what is quick to run has the page's figure."""
# seconds: 20
import glob
import math
import os
import re
import shlex
import unittest

from astropy.io import fits

from moao_case import ROOT, Run

BOOK = os.path.join(ROOT, "params", "instruments")
QUICK = ["output.psf=none", "output.budget=none"]
# the reduced form of a file: a smaller telescope with subapertures of the same size and stars as much nearer, so that beams
# overlap as they do in the instrument
SMALL = {
    "girmos.yaml": ["telescope.diameter=2.5", "dm.nssp=5", "lgs_defaults.nssp=5", "sensors[0].ring.radius=13.26",
                    "sensors[2].ring.radius=14", "targets.list=[[0, 0]]", "targets.names=[centre]", "psf.wavelengths=[2.0]"],
    "raven.yaml": ["telescope.diameter=4.1", "dm.nssp=5", "ngs_defaults.nssp=5", "sensors[0].ring.radius=22.5",
                   "targets.list=[[0, 0]]", "targets.names=[centre]"],
    "canary.yaml": [],
    "kapa.yaml": ["telescope.diameter=2.5", "dm.nssp=5", "lgs_defaults.nssp=5", "sensors[0].ring.radius=1.9",
                  "sensors[1].direction=[4, 0]", "targets.list=[[0, 0]]"],
    "eris-lgs.yaml": ["telescope.diameter=2", "dm.nssp=10", "lgs_defaults.nssp=10", "psf.wavelengths=[2.2]"],
    "muse-nfm.yaml": ["telescope.diameter=2", "dm.nssp=9", "lgs_defaults.nssp=10", "sensors[0].ring.radius=1.9",
                      "psf.wavelengths=[0.85]"],
    "harmoni-ltao.yaml": ["telescope.diameter=3.9", "dm.nssp=8", "lgs_defaults.nssp=8", "targets.list=[[0, 0]]"],
    "mavis.yaml": ["telescope.diameter=1.6", "dm.nssp=8", "lgs_defaults.nssp=8", "sensors[0].ring.radius=3.5",
                   "sensors[1].ring.radius=4", "optimise.list=[[0, 0], [3, 0], [0, 3], [-3, 0], [0, -3]]", "targets.list=[[0, 0]]",
                   "targets.names=[centre]"],
    "morfeo.yaml": ["telescope.diameter=3.85", "dm.nssp=8", "lgs_defaults.nssp=7", "targets.list=[[0, 0]]"],
    "mosaic.yaml": ["telescope.diameter=3.9", "dm.nssp=8", "lgs_defaults.nssp=8", "targets.list=[[0, 0]]"]}
ELT = {"harmoni-ltao.yaml", "morfeo.yaml", "mosaic.yaml"}  # the page's reduced form, made smaller still
PARTS = {"raven-laser.yaml", "canary-scao.yaml"}  # files that go behind another one
# rows of the page that cost less than two seconds: first cell, quantity
ROWS = {"CANARY, SCAO": "STREHL_LONG", "RAVEN, R = 14.5": "EE_140MAS_LONG"}
# slopes between points and one mean in the reduced form: a tenth of the time
POINTS = ["lgs_defaults.slope=points", "ngs_defaults.slope=points", "psf.average=mean"]


def text(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


def rows():
    """{first cell: cells} of the page's table."""
    lines = [line.strip("|").split("|") for line in text("docs", "instruments.md").splitlines() if line.count("|") == 7]
    return {cells[0].strip(): [c.strip() for c in cells] for cells in lines if "moao run" in cells[5]}


class Book(unittest.TestCase):
    def test_files_tell_their_sources(self):
        """Sources with a year, what is assumed, and a row of the page that runs the file."""
        names = {os.path.basename(p) for p in glob.glob(os.path.join(BOOK, "*.yaml"))}
        self.assertEqual(names, set(SMALL) | PARTS)
        commands = " ".join(cells[5] for cells in rows().values())
        for name in glob.glob(os.path.join(BOOK, "small", "*.yaml")):
            self.assertIn("params/instruments/small/" + os.path.basename(name), commands)
        for name in sorted(names):
            with self.subTest(name):
                head = re.match(r"(?:#.*\n)+", text("params", "instruments", name)).group(0)
                self.assertIn("params/instruments/" + name, commands)
                if name in PARTS:
                    continue
                self.assertRegex(head, r"Sources?:")
                self.assertRegex(head, r"\b(?:19|20)\d\d\b")
                self.assertIn("Assumed", head)

    def test_each_runs_reduced(self):
        """All of its sensors and the mode it asks for; the mirror leaves less than half of the turbulence and more than nothing."""
        for name, overrides in SMALL.items():
            with self.subTest(name):
                parts = [os.path.join(BOOK, "small", name)] if name in ELT else []
                r = Run(os.path.join(BOOK, name), *parts, *QUICK, *POINTS, *overrides)
                with fits.open(os.path.join(r.dir, "maps.fits")) as f:
                    head, wave = f[0].header, float(r.table("WAVELENGTHS")["LAMBDA"][0])
                left = wave * 1e3 * math.sqrt(r.quantity("VARIANCE_LONG")[0, 0, 0]) / (2 * math.pi)
                log = r.process.stdout + r.process.stderr
                r0 = float(re.search(r", r0 ([0-9.]+) m", log).group(1))
                free = 500 * math.sqrt(1.03) * (head["TELDIAM"] / r0) ** (5 / 6) / (2 * math.pi)
                print("%s: %.1f nm of %.0f nm of turbulence without outer scale" % (name, left, free))
                self.assertTrue(20 < left < 0.5 * free, (left, free))
                mode = re.search(r"^mode: (\w+)", text("params", "instruments", name), re.M)
                self.assertEqual(head["MODE"], mode.group(1) if mode else "moao")

    def test_figures_of_the_page(self):
        """Commands of rows that cost little give the page's figure, as rounded there."""
        for row, quantity in ROWS.items():
            with self.subTest(row):
                cells = rows()[row]
                words = [os.path.join(ROOT, w) if w.startswith("params/") else w for w in shlex.split(cells[5].strip("`"))[2:]]
                got = Run(words[0], *words[1:], *QUICK).quantity(quantity)[:, 0, 0].mean()
                print("%s: %.4f, on the page %s" % (row, got, cells[4]))
                self.assertAlmostEqual(got, float(cells[4].split()[1]), delta=0.0011)


if __name__ == "__main__":
    unittest.main()
