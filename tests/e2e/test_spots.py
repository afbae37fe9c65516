"""spot: corrected, whose core follows from the run's own residual; psf.subaperture, the images of a subaperture.

timeout: 120
"""
import os
import re
import sys
import tempfile
import unittest

import numpy as np
from astropy.io import fits

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, environment, write_case  # noqa: E402
from test_commands import call  # noqa: E402

CASE = """
telescope: {diameter: 4 m, obscuration: 0.2}
dm: {nssp: 6}
sensors:
  - {name: high, type: ngs, direction: [0, 0], nssp: 6, noise_variance: 1e-3}
  - {name: low, type: ngs, direction: [5, 0], nssp: 2, magnitude: 14, band: H, wavelength: 1.65, bandwidth: 300, frame_time: 5 ms, spot: corrected}
targets: {list: [[0, 0]]}
atmosphere:
  profiles:
    - {r0: 15 cm, layers: {altitude: [0, 5000, 11000], fraction: [0.6, 0.25, 0.15]}}
psf: {wavelengths: [2.2]}
output: {psf: none}
compute: {verify: "off"}
"""
D, WAVE, STARS = 4.0, 1.65, "targets={list: [[5, 0]]}"


class Spots(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = folder.name
        write_case(os.path.join(cls.dir, "case.yaml"), CASE)
        cls.said = cls.moao("run", "case.yaml", "-o", "out").stdout
        cls.stars = cls.table("out", "GUIDESTARS")

    @classmethod
    def moao(cls, *args, code=0):
        p = call(MOAO, *args, cwd=cls.dir, env=environment(), timeout=200)
        if p.returncode != code:
            raise AssertionError("%s: %d\n%s%s" % (args, p.returncode, p.stdout, p.stderr))
        return p

    @classmethod
    def table(cls, run, name):
        with fits.open(os.path.join(cls.dir, run, "maps.fits")) as f:
            return f[name].data.copy()

    def strehl(self, name, *words):
        self.moao("run", "case.yaml", *words, "-o", name, "-q")
        return float(self.table(name, "TARGETS")["STREHL_LONG"].ravel()[0])

    def test_fixed_point(self):
        """The ratio that is used is that of the star's subaperture under the noise that it gives: once more changes it little."""
        s = self.stars["SPOTSR"][1]
        self.assertTrue(np.isnan(self.stars["SPOTSR"][0]) and 0.05 < s < 0.95, s)
        again = self.strehl("again", STARS, "psf.wavelengths=[1.65]", "psf.subaperture=%g" % (D / 2), "psf.oversampling=8", "sensors.low.spot_strehl=%.4f" % s)
        self.assertLess(abs(again / s - 1), 0.01)
        first = self.strehl("first", STARS, "psf.wavelengths=[1.65]", "psf.subaperture=%g" % (D / 2), "psf.oversampling=8", "sensors.low.spot_strehl=0")
        self.assertIn("pass 1: Strehl ratio %.4f of a subaperture at 1.65 um, of low" % first, self.said)
        last = re.findall(r"pass (\d): Strehl ratio ([\d.]+)", self.said)[-1]
        self.assertTrue(2 <= int(last[0]) <= 4 and abs(float(last[1]) - s) < 1e-9, last)

    def test_noise(self):
        """Variances of core and halo add as information: photons by share/e^2, read-out noise by its square."""
        seeing, limit = 0.976 * WAVE / (0.15 * (WAVE / 0.5) ** 1.2) * 0.206264806, WAVE / (D / 2) * 0.206264806
        core, halo = (x ** 2 + 0.3 ** 2 * 8 * np.log(2) / 12 for x in (limit, np.hypot(seeing, limit)))
        s = self.stars["SPOTSR"][1]
        self.assertAlmostEqual(self.stars["SPOT"][1], (s / core + (1 - s) / halo) ** -0.5, 6)
        found = {}
        for name, words in (("given", ["sensors.low.spot_strehl=0.3"]), ("full", ["sensors.low.spot=full"])):
            found[name] = []
            for ron in (0, 3):
                self.strehl("n%s%d" % (name, ron), "sensors.low.ron=%d" % ron, *words)
                found[name].append(self.table("n%s%d" % (name, ron), "GUIDESTARS")["NOISEVAR"][1])
        given, full = found["given"], found["full"]
        self.assertAlmostEqual(given[0] / full[0], 1 / (0.3 * halo / core + 0.7), 6)
        self.assertAlmostEqual((given[1] - given[0]) / (full[1] - full[0]), 1 / ((0.3 * halo / core) ** 2 + 0.7 ** 2), 6)

    def test_subaperture(self):
        """psf.subaperture: the Strehl ratio of a square is the mean of exp(-D/2) over it, which the telescope's images have too."""
        words = (STARS, "psf.wavelengths=[1.65]", "sensors.low.spot_strehl=0.3", "psf.oversampling=8", "psf.average=mean")
        perfect = ("atmosphere.profiles[0].r0=60 m", "sensors.high.noise_variance=0", "sensors.low.spot=full", "sensors.low.noise_variance=0")
        otf = []
        for name, more in (("image", ()), ("perfect", perfect)):
            self.moao("run", "case.yaml", *words, *more, "output.psf=long", "output.crop=4096", "-o", name, "-q")
            with fits.open(os.path.join(self.dir, name, "psf.fits")) as f:
                image, pixel = f["PSF_LONG"].data[0].astype(float), f["PSF_LONG"].header["PIXEL"]
            otf.append(np.fft.fft2(np.fft.ifftshift(image)).real)
        n = len(image)
        rho = np.fft.fftfreq(n) * n * WAVE * 1e-6 / (n * pixel * 1e-3 / 206264.806)
        weight = np.maximum(0, 1 - abs(rho) / (D / 3))
        weight = weight[:, None] * weight
        want = (weight * otf[0] / otf[1])[weight > 0].sum() / weight.sum()
        self.assertLess(abs(self.strehl("square", *words, "psf.subaperture=%.17g" % (D / 3)) / want - 1), 2e-3)
        self.assertIn("does not lie in the pupil", self.moao("check", "case.yaml", "psf.subaperture=3.9", code=2).stderr)

    def test_going_on(self):
        """A run that goes on has the ratios that it had; given ones are taken; check says that a run finds them."""
        p = self.moao("run", "case.yaml", "-o", "out", "--resume")
        self.assertNotIn("pass 1", p.stdout)
        p = self.moao("run", "case.yaml", "sensors.low.spot_strehl=0.25", "-o", "given")
        self.assertNotIn("pass 1", p.stdout)
        self.assertEqual(self.table("given", "GUIDESTARS")["SPOTSR"][1], 0.25)
        self.assertIn("a run finds the Strehl ratio of a subaperture", self.moao("check", "case.yaml").stdout)


if __name__ == "__main__":
    unittest.main()
