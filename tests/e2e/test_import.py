"""moao import-legacy: what the files state arrives in the parameter file, what they lack is listed, and the file runs
without them. The files here are written by hand in the framework's format."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, environment  # noqa: E402

FULL = """diam
8
obs
0.2
Tframe s
0.002
N WFS
4
nlgs
1
nTarget
1
Nssp
10
GsAlt
1e-05 0 0 0
type
2 1 1 1
alphaX
23 -16 32 0
alphaY
1.5 -36 38 0
XPup
0 0.25 0 0
YPup
0 0 0 0
thetaML
0 2 0 0
thetaCam
0 0 1 0
sensibilite
1 1 1 1
tracking
0 0 0
pasDphi
0.0001
ncpu
12
mag
12.5 13 13
flux
6e7
pixel
0.3
pixel
1
wave
650e-9
wave
589e-9
bandwidth
3300e-10
T
0.425
T
0.382
T
0.84
RON
3
lgs_cst
1
spot_width
1
lgs_alt
100000
lgs_depth
5000
targetX
5
targetY
-7
"""
PROFILE = "Nlayer\n2\nr0\n0.13\ncn2\n%g 1.885\nh\n30 12500\nl0\n25 20\n"


def brief(text):
    """The shorter variant of a system file: without frame time, fluxes and targets, with one noise variance."""
    lines = text.splitlines()
    pairs = list(zip(lines[::2], lines[1::2]))
    kept = pairs[:2] + [pairs[3], pairs[6], pairs[7], pairs[8], pairs[4]] + pairs[9:19] + [pairs[30]] + \
        [("noise_var", "0.01")] + pairs[31:34]
    return "".join("%s\n%s\n" % p for p in kept)


class Import(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        for i, strength in ((2, 20), (10, 30)):
            self.write("prof%d.txt" % i, PROFILE % strength)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, name, text):
        with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as f:
            f.write(text)

    def moao(self, *arguments):
        p = subprocess.run([MOAO] + list(arguments), cwd=self.folder.name, env=environment(), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)
        self.assertEqual(p.returncode, 0, p.stderr)
        return p

    def convert(self, text):
        """Import with the profiles in the order of a shell, and remove what the parameter file was made from."""
        self.write("sys.txt", text)
        p = self.moao("import-legacy", "sys.txt", "prof10.txt", "prof2.txt", "-o", "new.yaml", "--interval", "5 min")
        for name in ("sys.txt", "prof2.txt", "prof10.txt"):
            os.unlink(os.path.join(self.folder.name, name))
        with open(os.path.join(self.folder.name, "new.yaml"), encoding="utf-8") as f:
            return f.read(), p.stderr

    def test_full_variant(self):
        new, warnings = self.convert(FULL)
        for line in ("diameter: 8 ", "obscuration: 0.2 ", "frame_time: 0.002 ", "bandwidth: 330 ", "tiptilt_variance: 1 ",
                     "{type: lgs, direction: [23, 1.5], altitude: 100000}", "- [5, -7]",
                     "{type: ngs, direction: [-16, -36], magnitude: 12.5, shift: [0.25, 0], rotation: 2}",
                     "{type: ngs, direction: [32, 38], magnitude: 13}", "exposure_interval: 300, end: 600"):
            self.assertIn(line, new)
        self.assertLess(new.index("strength: [20,"), new.index("strength: [30,"))  # prof2 before prof10
        self.assertIn("warning: thetaCam:", warnings)
        self.assertIn("measurements", self.moao("check", "new.yaml").stdout)

    def test_items_that_are_not_used_may_be_longer(self):
        """Files of the framework's own sources have four numbers of tracking: imported, and listed as they are."""
        new, warnings = self.convert(brief(FULL).replace("tracking\n0 0 0\n", "tracking\n0 0.5 0 0\n").replace("ncpu\n12", "ncpu\n12 24"))
        self.assertIn("warning: tracking: telescope tracking is not modelled and left out: 0 0.5 0 0\n", warnings)
        self.assertIn("#   tracking: telescope tracking is not modelled and left out: 0 0.5 0 0\n", new)
        self.assertIn("#   ncpu: its processors, not needed: 12 24\n", new)
        self.assertIn("measurements", self.moao("check", "new.yaml").stdout)

    def test_brief_variant_lists_its_defaults(self):
        new, warnings = self.convert(brief(FULL))
        self.assertIn("noise_variance: 0.01 ", new)
        self.assertNotIn("magnitude: 1", new)
        for key in ("frame_time", "ron", "pixel", "wavelength", "throughput", "bandwidth", "lgs_return", "targets",
                    "telescope.zenith"):
            self.assertIn("warning: %s: not in the file" % key, warnings)
            self.assertIn("#   %s: not in the file" % key, new)
        self.assertIn("measurements", self.moao("check", "new.yaml").stdout)


if __name__ == "__main__":
    unittest.main()
