"""Small, deliberately asymmetric cases against the model written down directly (reference.py).

timeout: 300
"""
# seconds: 35
import json
import os
import unittest

import numpy as np
from astropy.io import fits

from moao_case import GOLDEN, Run, relative
from reference import ARCSEC, Mirror, Reference, Sensor, bracket, in_force, structure, targets, total_r0

MATRICES = ["Cmm", "Ctm", "Ctt", "R", "W", "Cee", "Cvv", "D", "Dplus"]
INF = float("inf")


def sensor(kind, nssp, direction, **keys):
    return {"type": kind, "nssp": nssp, "direction": direction, **keys}


def profile(time, altitude, r0=None, **layers):
    return {"time": time, **({"r0": r0} if r0 else {}), "layers": {"altitude": altitude, **layers}}


def write(case):
    """A parameter file: JSON is YAML, infinity apart."""
    psf = {"residual": "sensor", **case["psf"]}
    text = json.dumps({**case, "psf": psf, "output": {"psf": "short", "matrices": MATRICES}}, indent=1)
    return text.replace("Infinity", ".inf")


CASES = {
    # Airmass on altitudes, r0, stars and depth; cone effect at 90 km; every nssp another; wind and delay.
    "laser stars at a zenith angle": {
        "telescope": {"diameter": 3.9, "obscuration": 0.31, "zenith": 37},
        "dm": {"nssp": 7},
        "loop": {"delay": 0.006},
        "lgs_defaults": {"altitude": 90000, "lgs_return": 9e6, "frame_time": 0.003},
        "ngs_defaults": {"bandwidth": 250, "throughput": 0.35},
        "sensors": [
            sensor("lgs", 8, [12, 21], rotation=7.3, shift=[0.07, -0.11], lgs_width=1.2, lgs_depth=9000),
            sensor("ngs", 9, [31, -8], rotation=-11, magnification=1.03, shift=[-0.05, 0.02], magnitude=10.5, ron=2),
            sensor("lgs", 7, [0, 0], shift=[0.3, 0.1], ron=4, wavelength=0.6, throughput=0.3),
            sensor("lgs", 6, [-25, 4], launch=[0.4, -2.9], magnification=0.96, atm_transmission=0.7, tiptilt_factor=25),
            sensor("ngs", 5, [-14, -27], magnitude=9.2, frame_time=0.011, pixel=0.42, wavelength=0.7)],
        "targets": {"grid": {"nx": 3, "ny": 2, "width": 24, "height": 10, "center": [5, -3]}},
        "atmosphere": {"profiles": [
            profile(0, [0, 3000, 5000, 11000], 0.13, fraction=[1.1, 0.5, 0, 0.4], L0=[22, INF, 9, 60],
                    wind_speed=[7, 13, 20, 31], wind_direction=[20, 135, 60, -80]),
            profile(700, [40, 8700], strength=[21., 9.], L0=17, wind_speed=[4, 25], wind_direction=[200, 301])]},
        "schedule": {"tor_times": [0, 1000], "exposure_times": [500, 800, 1600]},
        "psf": {"wavelengths": [1.65, 1.25]}},
    # Layers at and above a low star, full aperture, constants given instead of models, the published average.
    "Rayleigh stars under a layer": {
        "telescope": {"diameter": 4.4},
        "dm": {"nssp": 9, "coupling": 0.3, "mu": 0.01},
        "sensors": [
            sensor("lgs", 9, [9, -15], altitude=12000, tiptilt_variance=3.5, rotation=90, frame_time=0.02),
            sensor("lgs", 9, [-17, 2], altitude=14000, noise_variance=0.004, shift=[-0.2, 0.05]),
            sensor("lgs", 5, [1, 20], altitude=12000, launch=[0, 0], lgs_return=3e7),
            sensor("ngs", 10, [22, 13], noise_variance=0.0025, magnification=0.98),
            sensor("ngs", 9, [-11, -19], magnitude=10, rotation=180)],
        "targets": {"list": [[7, -4], [-2.5, 9], [0, 0]]},
        "atmosphere": {"profiles": [profile(0, [0, 2500, 12000, 16000], 0.16, fraction=[0.7, 0.26, 0.02, 0.02],
                                            L0=[INF, 30, 14, 45])]},
        "schedule": {"tor_times": [0], "exposure_times": [0]},
        "psf": {"wavelengths": [2.2, 1.65], "oversampling": 2, "span": 2.5, "weighting": "uniform",
                "ee_boxes": [37.5, 120]}},
    # Like sensors, whose covariances depend on differences of indices; a reconstructor for another profile.
    "like sensors and an annular pupil": {
        "telescope": {"diameter": 5.1, "obscuration": 0.52},
        "dm": {"nssp": 10},
        "loop": {"delay": 0.012},
        "sensors": [
            sensor("ngs", 10, [35, 6], magnitude=11, shift=[0.13, 0.04]),
            sensor("ngs", 10, [-12, 28], magnitude=9.5),
            sensor("lgs", 8, [19, 0], altitude=80000, rotation=4, magnification=1.01, shift=[0.02, -0.03]),
            sensor("lgs", 8, [-8, -18], altitude=80000, rotation=4, magnification=1.01)],
        "targets": {"grid": {"nx": 1, "ny": 2, "width": 0, "height": 13, "center": [-4, 2]}},
        "atmosphere": {"profiles": [
            profile(-60, [0, 4500, 9000], 0.11, fraction=[0.5, 0.3, 0.2]),
            profile(300, [0, 6500], 0.17, strength=[3, 2], L0=[11, 80], wind_speed=18, wind_direction=[75, -160])]},
        "schedule": {"tor_times": [-60], "exposure_times": [299, 300]},
        "psf": {"wavelengths": [1.65]}},
    # Registration common to all stars, far from the zenith, without outer scale.
    "rotated stars far from the zenith": {
        "telescope": {"diameter": 3.3, "obscuration": 0.2, "zenith": 58},
        "dm": {"nssp": 8, "coupling": 0.15},
        "loop": {"delay": 0.004},
        "ngs_defaults": {"nssp": 7, "rotation": -33, "magnification": 1.07, "magnitude": 8.5, "throughput": 0.5},
        "sensors": [{"type": "ngs", "direction": [6, 2]}, {"type": "ngs", "direction": [-3, 7.5], "shift": [0, 0.21]},
                    {"type": "ngs", "direction": [-4, -9], "nssp": 12, "frame_time": 0.008}],
        "targets": {"list": [[1.5, -2]]},
        "atmosphere": {"profiles": [profile(0, [100, 5000], 0.19, fraction=[0.6, 0.4], L0=INF,
                                            wind_speed=[9, 14], wind_direction=[-45, 10])]},
        "schedule": {"tor_times": [0, 60], "exposure_times": [59, 60]},
        "psf": {"wavelengths": [2.2, 1.65, 3.5], "oversampling": 3, "span": 4.1, "ee_boxes": [90]}},
    # The coarsest sensors there are, beside a fine one.
    "one and two subapertures across": {
        "telescope": {"diameter": 2.2, "zenith": 10},
        "dm": {"nssp": 7, "mu": 0.001},
        "sensors": [sensor("ngs", 1, [3, 18], magnitude=12), sensor("ngs", 2, [-15, -6], magnitude=11, rotation=20),
                    sensor("lgs", 13, [8, -5], altitude=25000, lgs_return=4e7, shift=[0.01, 0.06])],
        "targets": {"list": [[2, 3]]},
        "atmosphere": {"profiles": [profile(0, [0, 7000], 0.12, fraction=[0.8, 0.2], L0=[3, 500])]},
        "schedule": {"tor_times": [0], "exposure_times": [0]},
        "psf": {"wavelengths": [1.25], "oversampling": 2, "weighting": "energy"}},
}

# Tables of mean gradients: equal and unequal sizes, a cone, a turned sensor, whole-pupil stars under an obscuration.
GRADIENTS = {
    "mean gradients": {
        "telescope": {"diameter": 2.4, "zenith": 20},
        "dm": {"nssp": 5},
        "loop": {"delay": 0.004},
        "sensors": [sensor("lgs", 5, [12, 21], altitude=20000, shift=[0.07, -0.11]),
                    sensor("ngs", 4, [21, -8], magnitude=10.5), sensor("ngs", 5, [-5, -9], magnitude=9)],
        "targets": {"list": [[2, 3], [0, 0]]},
        "atmosphere": {"profiles": [profile(0, [0, 6000], 0.13, fraction=[0.7, 0.3], L0=[22, INF], wind_speed=9,
                                            wind_direction=[20, 75])]},
        "schedule": {"tor_times": [0], "exposure_times": [0]},
        "psf": {"wavelengths": [1.65]}},
    "mean gradients turned and over the pupil": {
        "telescope": {"diameter": 2.2, "obscuration": 0.2},
        "dm": {"nssp": 4},
        "sensors": [sensor("ngs", 4, [3, 18], magnitude=9, rotation=17), sensor("ngs", 1, [-15, -6], magnitude=11),
                    sensor("ngs", 2, [8, -5], magnitude=11)],
        "targets": {"list": [[2, 3]]},
        "atmosphere": {"profiles": [profile(0, [0, 7000], 0.12, fraction=[0.8, 0.2], L0=25)]},
        "schedule": {"tor_times": [0], "exposure_times": [0]},
        "psf": {"wavelengths": [2.2], "oversampling": 2}},
}


def with_slope(case, slope):
    return {**case, **{k: {**case.get(k, {}), "slope": slope} for k in ("ngs_defaults", "lgs_defaults")}}


class Comparison:
    """Program and reference on one case; a class of tests for each case is made below."""
    case, ranks = None, 1
    # of the covariances and the rest: tables of mean gradients are within 5e-5 of the slope variance
    near, amplified, quality = 1e-9, 1, 1e-6

    @classmethod
    def setUpClass(cls):
        cls.run_ = Run(write(cls.case), ranks=cls.ranks)
        dm, tel, psf = cls.case["dm"], cls.case["telescope"], cls.case["psf"]
        cls.pixel = tel["diameter"] / dm["nssp"] / psf.get("oversampling", 4)
        waves = cls.run_.table("WAVELENGTHS")
        grid = waves["LAMBDA"] * 1e-6 / cls.pixel / (waves["PIXEL"] / (1e3 * ARCSEC))
        cls.N = int(round(grid[0]))
        assert np.all(np.abs(grid - cls.N) < 1e-6), grid
        cls.model = Reference(cls.case, cls.N)

    def assertNear(self, a, b, tolerance, what):
        self.assertEqual(a.shape, b.shape, what)
        self.assertLess(relative(a, b), tolerance, what)

    def test_grid_spans_what_it_must(self):
        """Even, small prime factors, the span asked for and no needless size."""
        rest = self.N
        for p in (2, 3, 5, 7):
            while rest % p == 0:
                rest //= p
        self.assertEqual((rest, self.N % 2), (1, 0))
        extent = self.case["psf"].get("span", 3) * self.case["telescope"]["diameter"]
        self.assertGreaterEqual(self.N * self.pixel, extent * (1 - 1e-12))
        self.assertLess(self.N * self.pixel, 1.6 * extent)

    def test_covariances_block_by_block(self):
        n = np.cumsum([0] + [2 * s.nsub for s in self.model.sensors])
        for name, want in self.model.matrices.items():
            if name[:3] not in ("Cmm", "Ctm", "Ctt"):
                continue
            got = self.run_.matrix(name)
            self.assertEqual(got.shape, want.shape, name)
            rows = n if name.startswith("Cmm") else [0, len(want)]
            columns = [0, len(want)] if name.startswith("Ctt") else n
            for r0, r1 in zip(rows, rows[1:]):
                for c0, c1 in zip(columns, columns[1:]):
                    block = np.s_[r0:r1, c0:c1]
                    if np.any(want[block]):
                        self.assertNear(got[block], want[block], self.near, (name, block))
                    else:
                        self.assertFalse(np.any(got[block]), (name, block))

    def test_interaction_and_command_matrix(self):
        for name in ("D", "Dplus"):
            self.assertNear(self.run_.matrix(name), self.model.matrices[name], 1e-9, name)

    def test_reconstructors_to_10_eps_cond(self):
        for r, condition in self.model.condition.items():
            for name, want in self.model.matrices.items():
                if name.startswith((f"R_tor{r}", f"W_tor{r}")):
                    limit = 10 * np.finfo(float).eps * condition if self.amplified == 1 else 100 * self.near
                    self.assertNear(self.run_.matrix(name), want, limit, name)

    def test_residual_covariances(self):
        for name, want in self.model.matrices.items():
            if name.startswith(("Cee", "Cvv")):
                self.assertNear(self.run_.matrix(name), want, self.amplified * self.near, name)

    def test_image_quality(self):
        for name, want in self.model.quantities.items():
            got = self.run_.quantity(name)
            self.assertEqual(got.shape, want.shape, name)
            worst = np.max(np.abs(got / want - 1) if name in ("FWHM", "VARIANCE") else np.abs(got - want))
            self.assertLess(worst, self.quality, name)

    def test_long_exposure_is_the_mean(self):
        for name, want in self.model.quantities.items():
            got = self.run_.quantity(name + "_LONG")[:, :, 0]
            if name == "FWHM":
                self.assertLess(np.max(np.abs(got / self.model.long_fwhm - 1)), 10 * self.quality)
            else:
                self.assertNear(got, want.mean(axis=2), self.quality, name)

    def test_images(self):
        """All pixels that are kept: a cube [target, y, x] of each wavelength, and of each wavelength and exposure."""
        N, want, checked = self.N, self.model.images, 0
        with fits.open(self.run_.path("psf.fits")) as f:
            for hdu in f:
                if hdu.name not in ("PSF_SHORT", "PSF_LONG"):
                    continue
                side = hdu.data.shape[-1]
                kept = np.s_[N // 2 - side // 2:N // 2 - side // 2 + side]
                cubes = want[:, hdu.header["ILAMBDA"] - 1, :, kept, kept]
                cube = cubes.mean(axis=1) if hdu.name == "PSF_LONG" else cubes[:, hdu.header["EXPOSURE"] - 1]
                self.assertNear(np.array(hdu.data, dtype=float), cube, self.quality, (hdu.name, hdu.ver))
                checked += 1
        self.assertEqual(checked, want.shape[1] * (want.shape[2] + 1))

    def test_tables(self):
        """Order of targets, the reconstructor in force, r0 along the line of sight."""
        t, e, g = (self.run_.table(n) for n in ("TARGETS", "EXPOSURES", "GUIDESTARS"))
        self.assertTrue(np.allclose(np.stack([t["X"], t["Y"]], axis=1), targets(self.case["targets"]), atol=1e-12))
        times = self.case["schedule"]["exposure_times"]
        self.assertEqual(list(e["TIME"]), times)
        self.assertEqual(list(e["TOR"]), [1 + in_force(self.model.tors, x) for x in times])
        self.assertTrue(np.allclose(e["R0"], [total_r0(self.model.at(x)) for x in times], rtol=1e-9))
        self.assertEqual(list(g["NSUB"]), [s.nsub for s in self.model.sensors])


class CheckValues(unittest.TestCase):
    """Numbers of the model's text that the cases do not contain."""

    def test_structure_function(self):
        table = {1e-4: (1.435636999010533e-6, 1.448125376811532e-6, 1.455337813383564e-6),
                 0.01: (0.002720734119171468, 0.00284560522512045, 0.002917727717296237),
                 0.1: (0.1009190372740496, 0.1133580431324219, 0.1205627952049128),
                 1: (2.312263050417929, 3.423518155989565, 4.119156614468651),
                 10: (7.977150010493464, 31.43884817766592, 65.91098507261998),
                 100: (8.012712597990815, 36.89885699903604, 117.1453647961032)}
        for rho, row in table.items():
            for L0, want in zip((10, 25, 50), row):
                self.assertLess(abs(structure(np.array([float(rho)]), L0)[0] / want - 1), 1e-12, (rho, L0))
        seam = bracket(np.array([2., np.nextafter(2., 3.)]))
        self.assertLess(abs(seam[1] / seam[0] - 1), 1e-14)

    def test_gain_of_tip_tilt_falls_with_size(self):
        """Of D, relative to its largest singular value: 0.28 at 10 subapertures across, 0.17 at 20."""
        for nssp, want in ((10, 0.28), (20, 0.17)):
            m = Mirror(Sensor(8., 0.285, 1., nssp, [0, 0]), 0.285, 0.2, 3e-3)
            tilt = m.position[:, 0]
            gain = np.linalg.norm(m.D @ tilt) / np.linalg.norm(tilt) / np.linalg.norm(m.D, 2)
            self.assertLess(abs(gain - want), 0.005)

    def test_size_of_the_tip_tilt_constant_hardly_matters(self):
        """100 instead of 10 times the slope variance: the Strehl ratio moves by at most 2e-5, and does move."""
        path = os.path.join(GOLDEN, "b.yaml")
        ten, hundred = (Run(path, f"lgs_defaults.tiptilt_factor={f}").quantity("STREHL") for f in (10, 100))
        self.assertLess(np.max(np.abs(hundred - ten)), 2e-5)
        self.assertGreater(np.min(np.abs(hundred - ten)), 1e-7)


for number, (title, contents) in enumerate(CASES.items()):
    name = "".join(w.capitalize() for w in title.split())
    globals()[name] = type(name, (Comparison, unittest.TestCase), {"case": with_slope(contents, "points"),
                                                                   "ranks": 1 + number % 2})

for number, (title, contents) in enumerate(GRADIENTS.items()):
    name = "".join(w.capitalize() for w in title.split())
    globals()[name] = type(name, (Comparison, unittest.TestCase), {"case": contents, "ranks": 2 - number, "near": 1e-4,
                                                                   "amplified": 10, "quality": 2e-4})

if __name__ == "__main__":
    unittest.main(verbosity=2)
