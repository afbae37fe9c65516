"""docs/scope.md: its cases run as they stand there and give the figures of its tables; the field's terms are where one looks for them."""
# seconds: 10
import os
import re
import subprocess
import sys
import tempfile
import unittest

from astropy.io import fits

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import MOAO, ROOT, environment  # noqa: E402


def read(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as f:
        return f.read()


def section(title):
    return re.search(r"^## %s\n(.*?)(?=^## |\Z)" % title, read("docs/scope.md"), re.S | re.M).group(1)


class Scope(unittest.TestCase):
    def figures(self, title, *folders):
        """Rows (Strehl at 1.65 um, at 2.2 um, tomography, total) of the runs that a section's block makes."""
        block = re.search(r"^```sh\n(.*?)^```", section(title), re.S | re.M).group(1)
        rows = []
        with tempfile.TemporaryDirectory() as d:
            path = os.path.dirname(os.path.abspath(MOAO)) + os.pathsep + os.environ["PATH"]
            p = subprocess.run(["sh", "-ec", block], cwd=d, env=environment(PATH=path), stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, universal_newlines=True, check=False)
            self.assertEqual(p.returncode, 0, p.stdout)
            for folder in folders:
                with fits.open(os.path.join(d, folder, "maps.fits")) as f:
                    t, waves = f["TARGETS"].data, list(f["WAVELENGTHS"].data["LAMBDA"])
                    self.assertEqual(waves, [1.65, 2.2])
                    rows += [tuple(r["STREHL_LONG"]) + (r["WFE_TOMO_LONG"], r["WFE_TOTAL_LONG"]) for r in t]
        return rows

    def check(self, title, *folders):
        table = re.findall(r"^\| [^|]* \| (0\.\d+) \| (0\.\d+) \| (-?\d+) \| (\d+) \|$", section(title), re.M)
        found = self.figures(title, *folders)
        self.assertEqual(len(table), len(found))
        for told, row in zip(table, found):
            for value, is_now, unit in zip(told, row, (0.0006, 0.0006, 0.6, 0.6)):
                self.assertAlmostEqual(float(value), is_now, delta=unit, msg=(title, told, row))
        return found

    def test_scao(self):
        """The tomographic term, here anisoplanatism, grows with the distance from the star and is none on it."""
        rows = self.check("SCAO", "scao")
        tomography = [r[2] for r in rows]
        self.assertEqual(tomography, sorted(tomography))
        self.assertLess(abs(tomography[0]), 20)     # what a truth sensor of whole subapertures does not see of partly lit ones

    def test_ltao(self):
        """Four laser stars leave less than the one with its cone effect."""
        four, one = self.check("LTAO", "ltao", "one-laser")
        self.assertLess(four[3], one[3])

    def test_terms(self):
        """README names what kind of simulator it is; the page has the field's terms, and says what is not simulated."""
        for word in ("open or closed loop", "SCAO", "LTAO", "GLAO", "MCAO", "anisoplanatism", "servo lag"):
            self.assertIn(word, read("README.md"))
        page = read("docs/scope.md")
        for word in ("open-loop", "open loop", "closed loop", "SCAO", "LTAO", "GLAO", "MCAO", "anisoplanatism", "servo lag", "temporal error",
                     "fitting error", "aliasing", "Cn2", "actuators across", "spiders", "pyramid", "cone effect"):
            self.assertRegex(page, "(?i)" + word)


if __name__ == "__main__":
    unittest.main(verbosity=2)
