"""errors.static_map: images against the transform of exp(i phase) itself, and files that cannot serve.

timeout: 120
"""
import json
import math
import os
import shutil
import tempfile
import unittest

import numpy as np

from astropy.io import fits

from moao_case import Run, moao
from test_truth import case, layers

D, OBSCURATION, N = 4., 0.2, 120
STILL = case([{"type": "ngs", "nssp": 8, "direction": [0, 0], "noise_variance": 1e-12, "slope": "points"}], 8, diameter=D,
             obscuration=OBSCURATION, profile=layers([0], [1.], 90.), psf={"wavelengths": [1.0, 2.2], "ee_boxes": [60]},
             output={"psf": "long", "crop": 64}, compute={"verify": "off"})


def aberration(x, y):
    """Coma, trefoil and astigmatism [nm], unlike on all sides."""
    r2 = (x ** 2 + y ** 2) / (D / 2) ** 2
    a, b = 2 * x / D, 2 * y / D
    return 450 * (3 * r2 - 2) * (a + 0.4 * b) + 150 * (a ** 3 - 3 * a * b ** 2) + 225 * a * b + 30


def grid(n, extent=D):
    c = (np.arange(n) + 0.5 - n / 2) * extent / n
    return np.meshgrid(c, c)


def inside(x, y):
    r = np.hypot(x, y)
    return (r < D / 2) & (r >= OBSCURATION * D / 2)


class Map(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="moao-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        x, y = grid(N)
        cls.map = np.where(np.hypot(x, y) < D / 2 * 1.05, aberration(x, y), np.nan)
        cls.run_ = Run(json.dumps({**STILL, "errors": {"static_map": cls.write("map.fits", cls.map)}}) + "\n")

    @classmethod
    def write(cls, name, values, **keys):
        path = os.path.join(cls.folder, name)
        hdu = fits.PrimaryHDU(values)
        hdu.header.update(keys)
        hdu.writeto(path, overwrite=True)
        return path

    def direct(self, wavelength, pixel, n=64):
        """|sum of exp(i phase) exp(-i k x.theta)|^2 over the pupil, 1 without a phase: [y, x], axis on [n/2, n/2]."""
        x, y = grid(1024)
        u = np.where(inside(x, y), np.exp(2j * math.pi * aberration(x, y) * 1e-9 / wavelength), 0) / inside(x, y).sum()
        theta = (np.arange(n) - n // 2) * pixel
        wave = np.exp(-2j * math.pi / wavelength * np.outer(theta, x[0]))
        return abs(wave @ u @ wave.T) ** 2

    def test_images(self):
        """Both wavelengths, pixel by pixel, which also tells the orientation; Strehl ratios and energies."""
        with fits.open(self.run_.path("psf.fits")) as f:
            pixel = f["WAVELENGTHS"].data["PIXEL"] / 1e3 / 206264.80625
            images = [np.asarray(f["PSF_LONG", i + 1].data[0], float) for i in range(2)]
        for i, wavelength in enumerate((1.0e-6, 2.2e-6)):
            want = self.direct(wavelength, pixel[i])
            gap = abs(images[i] - want).max() / want.max()
            turned = [abs(np.flip(images[i][1:, 1:], a) - want[1:, 1:]).max() / want.max() for a in (0, 1, (0, 1))]
            print("%.1f um: largest difference %.1e of the peak, mirrored %s" % (wavelength * 1e6, gap, np.round(turned, 2)))
            self.assertLess(gap, 2e-3)
            self.assertLess(gap, 0.05 * min(turned))
            strehl = self.run_.quantity("STREHL")[0, i, 0]
            self.assertAlmostEqual(strehl, want[32, 32], delta=2e-3)
            self.assertAlmostEqual(strehl, images[i][32, 32], delta=1e-6)

    def test_budget_and_energy(self):
        """The rms of the map is the budget's static error; the energy in a box is that of the image."""
        x, y = grid(600)
        v = aberration(x, y)[inside(x, y)]
        t = self.run_.table("TARGETS")
        self.assertAlmostEqual(t["WFE_STATIC"][0].item() / v.std(), 1, delta=2e-3)
        still = Run(json.dumps(STILL) + "\n")
        self.assertEqual(still.table("TARGETS")["WFE_STATIC"][0].item(), 0)
        a, b = (r.table("TARGETS")["WFE_TOTAL"][0].item() ** 2 for r in (self.run_, still))
        self.assertAlmostEqual((a - b) / v.var(), 1, delta=4e-3)

    def test_nothing_and_units(self):
        """A flat map changes nothing; units, pixels of the file and of the parameter mean the same; resuming knows the map."""
        plain = Run(json.dumps(STILL) + "\n")
        flat = Run(json.dumps({**STILL, "errors": {"static_map": self.write("flat.fits", np.full((N, N), 25.))}}) + "\n")
        for name in ("STREHL", "FWHM", "EE_60mas", "VARIANCE"):
            np.testing.assert_allclose(flat.quantity(name), plain.quantity(name), rtol=1e-9)
        wide = np.full((2 * N, 2 * N), np.nan)
        wide[N // 2:-(N // 2), N // 2:-(N // 2)] = self.map
        for path, more in ((self.write("um.fits", self.map * 1e-3, BUNIT="um"), {}),
                           (self.write("m.fits", wide * 1e-9, BUNIT="m", CUNIT1="m", CDELT1=D / N), {}),
                           (self.write("wide.fits", wide), {"static_pixel": D / N})):
            r = Run(json.dumps({**STILL, "errors": {"static_map": path, **more}, "output": {"psf": "none"}}) + "\n")
            np.testing.assert_allclose(r.quantity("STREHL"), self.run_.quantity("STREHL"), rtol=1e-6)

    def test_what_cannot_serve(self):
        hole = self.map.copy()
        hole[60, 90] = hole[60, 91] = hole[61, 90] = hole[61, 91] = np.nan
        cases = (("none.fits", "no such file"), (self.write("unit.fits", self.map, BUNIT="rad"), "expected nm, um or m"),
                 (self.write("hole.fits", hole), "no value at"), (self.write("cube.fits", np.zeros((2, 9, 9))), "two axes"),
                 (self.write("huge.fits", self.map, BUNIT="m"), "is BUNIT right"),
                 (self.write("empty.fits", None), "no image"))
        path = os.path.join(self.folder, "case.yaml")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(STILL, f)
        with open(os.path.join(self.folder, "text.fits"), "w", encoding="utf-8") as f:
            f.write("nothing of that kind\n")
        for name, words in cases + (("text.fits", "cannot be read as FITS"),):
            p = moao("check", path, "errors.static_map=" + os.path.join(self.folder, name), check=False)
            self.assertEqual(p.returncode, 2, name)
            line = [s for s in p.stderr.splitlines() if "static_map" in s]
            self.assertEqual(len(line), 1, p.stderr)
            self.assertIn(words, line[0])
        small = moao("check", path, "errors.static_map=" + os.path.join(self.folder, "map.fits"), "errors.static_pixel=2 cm", check=False)
        self.assertIn("reach over 2.4 x 2.4 m", small.stderr)
        tilted = moao("check", path, "errors.static_map=" + self.write("tilt.fits", 100 * grid(N)[0]))
        self.assertIn("moves the images by (20.6, ", tilted.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
