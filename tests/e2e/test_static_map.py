"""errors.static_map: images against the transform of exp(i phase) itself, and files that cannot serve.

timeout: 120
"""
import json
import math
import os
import re
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


def plain_fits(folder, name, bitpix, values, keys):
    """A FITS image of integers as other programs write it: cards and big-endian numbers by hand."""
    cards = [("SIMPLE", "T"), ("BITPIX", bitpix), ("NAXIS", 2), ("NAXIS1", values.shape[1]), ("NAXIS2", values.shape[0]), *keys.items()]
    head = "".join(("%-8s= %20s" % c).ljust(80) for c in cards) + "END".ljust(80)
    data = values.astype(">i%d" % (bitpix // 8)).tobytes()
    path = os.path.join(folder, name)
    with open(path, "wb") as f:
        f.write(head.ljust(-(-len(head) // 2880) * 2880).encode() + data.ljust(-(-len(data) // 2880) * 2880, b"\0"))
    return path


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

    @classmethod
    def fifo(cls, name):
        path = os.path.join(cls.folder, name)
        os.mkfifo(path)
        return path

    def checked(self, path, *more):
        """What check says of a map: nm rms, whether its pixels are blocks, and its warnings."""
        case = os.path.join(self.folder, "check.yaml")
        with open(case, "w", encoding="utf-8") as f:
            json.dump(STILL, f)
        p = moao("check", case, "errors.static_map=" + path, *more)
        words = " ".join(p.stdout.split())
        rms = re.search(r"static map .*? ([0-9.e+-]+) nm rms over the pupil", words)
        return float(rms.group(1)), "each a block" in words, [s for s in p.stderr.splitlines() if "static_map" in s]

    def test_rms_of_the_pixels_is_kept(self):
        """Steps (hexagons, each with a piston of its own), white pixels and Zernike polynomials, coarse and fine: the
        rms of the pixels in the pupil within 1 %. What is finer than the samples is told."""
        seed = np.random.default_rng(5)
        for n in (97, 480, 1500):
            x, y = grid(n)
            row = np.round(y / 0.3).astype(int)
            column = np.round(x / 0.35 - 0.5 * (row % 2)).astype(int)
            pistons = seed.normal(0, 43, (60, 60))
            maps = {"steps": pistons[row + 30, column + 30], "white": seed.normal(0, 43, (n, n)), "zernikes": aberration(x, y) / 9}
            for name, values in maps.items():
                rms, blocks, said = self.checked(self.write("%s-%d.fits" % (name, n), values.astype(np.float32)))
                want = values[inside(x, y)].std()
                print("%s, %d pixels: %.4f nm, %.4f of that of the pixels" % (name, n, rms, rms / want))
                self.assertAlmostEqual(rms / want, 1, delta=0.01, msg="%s %d" % (name, n))
                self.assertEqual([s for s in said if "rms" in s], [], name)
                if name != "steps":
                    self.assertEqual(blocks, name == "white")
        x, y = np.meshgrid(np.arange(2048), np.arange(2048))
        lines = np.where((x + y) % 8 == 0, 100, 0).astype(np.float32)  # finer than samples
        rms, _, said = self.checked(self.write("lines.fits", lines))
        self.assertRegex(said[0], r"its pixels have 33\.1 nm rms over the pupil, its 1024 samples across [0-9.]+ nm")

    def test_white_pixels_in_the_image(self):
        """The rms arrives in the budget, and the Strehl ratio falls by exp(-(2 pi rms/lambda)^2)."""
        values = np.random.default_rng(6).normal(0, 120, (N, N))
        x, y = grid(N)
        s = values[inside(x, y)].std()
        plain = Run(json.dumps(STILL) + "\n")
        run = Run(json.dumps({**STILL, "errors": {"static_map": self.write("white.fits", values)}}) + "\n")
        self.assertAlmostEqual(run.table("TARGETS")["WFE_STATIC"][0].item() / s, 1, delta=0.01)
        ratio = run.quantity("STREHL")[0, :, 0] / plain.quantity("STREHL")[0, :, 0]
        np.testing.assert_allclose(ratio, np.exp(-(2 * np.pi * s / np.array([1000, 2200])) ** 2), rtol=0.03)

    def test_images_without_a_core_are_told(self):
        """A Strehl ratio below 0.03 at a wanted wavelength: a warning, and a comment in the header."""
        run = Run(json.dumps({**STILL, "output": {"psf": "none"}, "errors": {"static_map": self.write("rough.fits", self.map * 3)}}) + "\n")
        low = run.quantity("STREHL")[0, :, 0] < 0.03
        self.assertEqual(low.tolist(), [True, False])
        said = [s for s in run.process.stderr.splitlines() if "the PSF model is doubtful" in s and "Strehl ratio is below 0.03 for 1 of 1 target (" in s]
        self.assertEqual(len(said), 1, run.process.stderr)
        self.assertIn("psf.wavelengths: at 1 um", said[0])
        with fits.open(run.path("maps.fits")) as f:
            self.assertIn("at 1 um the Strehl ratio is below 0.03", "".join(f[0].header["COMMENT"]))
        plain = Run(json.dumps({**STILL, "output": {"psf": "none"}}) + "\n")
        self.assertNotIn("below 0.03", plain.process.stderr)

    def test_outside_the_pupil_anything_may_stand(self):
        """NaN, Inf, huge numbers outside the pupil change nothing; metres and micrometres without BUNIT are doubted."""
        x, y = grid(N)
        r = np.hypot(x, y)
        apart = (r > D / 2 + 0.05) | (r < OBSCURATION * D / 2 - 0.05)
        other = np.where(apart, np.where(x > 0, np.inf, 1e30), aberration(x, y))
        self.assertEqual(self.checked(self.write("other.fits", other))[0], self.checked(self.write("same.fits", np.where(apart, np.nan, other)))[0])
        for scale, words in ((1e-9, "are they metres"), (1e-3 / 9, "are they micrometres")):
            said = self.checked(self.write("scaled.fits", self.map * scale))[2]
            self.assertEqual(len(said), 1, said)
            self.assertIn(words, said[0])
        self.assertEqual(self.checked(self.write("small.fits", self.map * 1e-9, BUNIT="nm"))[2], [])

    def test_what_cannot_serve(self):
        hole = self.map.copy()
        hole[60, 90] = hole[60, 91] = hole[61, 90] = hole[61, 91] = np.nan
        cases = (("none.fits", "no such file"), (self.write("unit.fits", self.map, BUNIT="rad"), "expected nm, um or m"),
                 (self.write("hole.fits", hole), "pixel (91, 61), at (1.017, 0.01667) m inside the pupil, has no finite value"),
                 (self.write("inf.fits", np.where(np.arange(N * N).reshape(N, N) == 40 * N + 30, np.inf, self.map)),
                  "pixel (31, 41), at (-0.9833, -0.65) m inside the pupil, has no finite value"),
                 (plain_fits(self.folder, "blank.fits", 16, np.where(np.isnan(hole), -32768, hole).astype(int), {"BLANK": -32768}),
                  "pixel (91, 61), at (1.017, 0.01667) m inside the pupil, has no finite value"), (self.folder, "a directory"),
                 (self.fifo("pipe.fits"), "a pipe or device, no regular file"), ("/dev/zero", "a pipe or device"), (self.write("cube.fits", np.zeros((2, 9, 9))), "two axes"),
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
