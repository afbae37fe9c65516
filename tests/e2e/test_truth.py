"""psf.residual: phase against the residual phase itself, computed apart from the program (truth_reference.py): over all
pairs of points of the pupil with exact covariances, and from phase screens that are drawn."""
# timeout: 900
# seconds: 60
import json
import math
import unittest
from unittest import mock

import numpy as np

from astropy.io import fits

from moao_case import Run
from truth_reference import Truth

H = 1.65e-6
GOLDEN_STARS = [{"type": "lgs", "direction": [a * 16.617009, b * 16.617009], "altitude": 21000, "lgs_depth": 5000}
                for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))] + \
               [{"type": "ngs", "direction": d, "magnitude": m} for d, m in (([40, 10], 11), ([-25, 30], 10.5),
                                                                            ([-10, -45], 11.5))]
FIELD = [{"type": "lgs", "direction": [28 * a, 28 * b], "altitude": 90000, "lgs_depth": 10000}
         for a, b in ((1, 1), (-1, 1), (-1, -1), (1, -1))] + \
        [{"type": "ngs", "direction": d, "magnitude": m} for d, m in (([48, 15], 10.5), ([-30, 42], 11),
                                                                     ([-12, -50], 11.5))]


def layers(altitude, fraction, r0, **more):
    return {"r0": r0, "layers": {"altitude": altitude, "fraction": fraction, "L0": 25, **more}}


def case(sensors, nssp, dm=None, diameter=8, obscuration=0.14, profile=None, targets=((0, 0),), **more):
    return {"telescope": {"diameter": diameter, "obscuration": obscuration}, "dm": {"nssp": nssp, **(dm or {})},
            "sensors": sensors, "targets": {"list": [list(t) for t in targets]},
            "atmosphere": {"profiles": [profile or layers([0, 5000, 10000], [0.5, 0.3, 0.2], 0.125)]},
            "schedule": {"tor_times": [0], "exposure_times": [0]}, "psf": {"wavelengths": [1.65]}, **more}


def star(nssp, **keys):
    return [{"type": "ngs", "nssp": nssp, "direction": [0, 0], "magnitude": 8, **keys}]


def of(nssp, sensors):
    return [{**s, "nssp": nssp} for s in sensors]


def run(c, slope, *overrides, **kw):
    sensors = [{**s, "slope": slope} for s in c["sensors"]]
    return Run(json.dumps({**c, "sensors": sensors}, indent=1) + "\n", *overrides, **kw)


def strehl(r):
    return r.quantity("STREHL")[:, 0, 0]


ONE = {"10 / 10": case(star(10), 10), "8 / 10": case(star(8), 10), "12 / 10": case(star(12), 10),
       "10 / 10, mu 1": case(star(10), 10, {"mu": 1.}), "10 / 10, coupling 0.6": case(star(10), 10, {"coupling": 0.6}),
       "golden case b": case(of(7, GOLDEN_STARS), 7, diameter=4.2, obscuration=0.285,
                             profile=layers([0, 4000, 10000], [0.55, 0.25, 0.2], 0.12),
                             ngs_defaults={"frame_time": 0.004}, lgs_defaults={"frame_time": 0.004}),
       "high layer, next pitch": case(star(10), 10, profile=layers([8000], [1.], 0.25), targets=[(0.8 / 8000 * 206264.8, 0)]),
       "high layer, half a pitch": case(star(10), 10, profile=layers([8000], [1.], 0.25),
                                        targets=[(0.4 / 8000 * 206264.8, 0)])}
NIGHT = layers([0, 1000, 3500, 7000, 12000], [0.55, 0.18, 0.11, 0.09, 0.07], 0.125)   # the demo's
SEVEN = [{**s, "lgs_depth": 0} if s["type"] == "lgs" else s for s in FIELD]
SEVEN = {"7 stars, 8 / 10": case(of(8, SEVEN), 10, profile=NIGHT), "7 stars, 10 / 10": case(of(10, SEVEN), 10, profile=NIGHT),
         "7 stars, 12 / 10": case(of(12, SEVEN), 10, profile=NIGHT),
         "7 stars, 10 / 10, mu 1": case(of(10, SEVEN), 10, {"mu": 1.}, profile=NIGHT),
         "7 stars, 10 / 10, coupling 0.6": case(of(10, SEVEN), 10, {"coupling": 0.6}, profile=NIGHT)}
MISPLACED = {"shifted": case(star(10, shift=[0.4, 0]), 10), "shifted both ways": case(star(10, shift=[0.4, 0.4]), 10),
             "rotated": case(star(10, rotation=45), 10)}


class Cases(unittest.TestCase):
    def check(self, cases, slope, tolerance):
        for name, c in cases.items():
            with self.subTest(name, slope=slope):
                got, true = strehl(run(c, slope))[0], Truth(c, slope).strehl(H)
                print("%-26s %-8s phase %.4f  true %.4f  (%+.2f %%)" % (name, slope, got, true, 100 * (got / true - 1)))
                self.assertLess(abs(got / true - 1), tolerance)

    def test_points(self):
        self.check(ONE, "points", 0.01)
        self.check(MISPLACED, "points", 0.01)

    def test_seven_stars(self):
        """Finer sensors and a worse mirror, of a tomographic system: what `sensor` rewards and `phase` does not; two of five."""
        for name, old in zip(SEVEN, (0.375, 0.512, 0.458, 0.579, 0.570)):
            self.assertAlmostEqual(strehl(run(SEVEN[name], "points", "psf.residual=sensor"))[0], old, delta=0.001)
        self.check({k: SEVEN[k] for k in ("7 stars, 8 / 10", "7 stars, 10 / 10, mu 1")}, "points", 0.01)

    @mock.patch("truth_reference.ORDER", 8)     # 4 points on an edge leave 0.5 %
    def test_gradients(self):
        self.check({k: ONE[k] for k in ("10 / 10", "8 / 10")}, "gradient", 0.01)
        self.check({"shifted": MISPLACED["shifted"]}, "gradient", 0.01)

    def test_stars_for_tip_and_tilt(self):
        """Stars of 1 and 2 subapertures measure the lit pupil, not whole squares, which cost 8 to 18 % of the Strehl ratio."""
        laser = {"type": "lgs", "nssp": 8, "direction": [0, 0], "altitude": 90000, "lgs_depth": 0, "noise_variance": 1e-4}
        self.check({"LGS + star of %d" % n: case([laser, {"type": "ngs", "nssp": n, "direction": [6, 0], "noise_variance": 1e-5}], 8)
                    for n in (1, 2)}, "gradient", 0.01)

    def test_field_of_laser_and_natural_stars(self):
        """Cone effect, a zenith angle, wind with a delay, a reconstructor of another profile, off-axis targets."""
        c = case(of(8, FIELD), 10, targets=[(0, 0), (20, -10)], loop={"delay": 0.004},
                 schedule={"tor_times": [0], "exposure_times": [700]})
        c["telescope"]["zenith"] = 30
        c["atmosphere"]["profiles"] = [
            {"time": 0, **layers([0, 5000, 10000], [0.5, 0.3, 0.2], 0.16, wind_speed=[6, 14, 24], wind_direction=[20, 70, 85])},
            {"time": 600, **layers([0, 4000, 11000], [0.6, 0.3, 0.1], 0.14, wind_speed=[7, 12, 20], wind_direction=[10, 120, 60])}]
        truth, got = Truth(c, "points", tor=0, exposure=1), strehl(run(c, "points"))
        for t in range(2):
            true = truth.strehl(H, t)
            print("field, target %d: phase %.4f  true %.4f" % (t, got[t], true))
            self.assertLess(abs(got[t] / true - 1), 0.01)

    def test_no_resonance_of_a_shift(self):
        """Against a shift of the sensor the truth varies little; so does phase, while sensor falls steeply."""
        worst, sensor = 0, []
        for shift in (0, 0.15, 0.3, 0.4):
            c = case(star(10, shift=[shift, 0]), 10)
            got, true = strehl(run(c, "points"))[0], Truth(c, "points").strehl(H)
            sensor.append(strehl(run(c, "points", "psf.residual=sensor"))[0])
            print("shift %.1f m: phase %.4f  true %.4f  sensor %.4f" % (shift, got, true, sensor[-1]))
            worst = max(worst, abs(got / true - 1))
        self.assertLess(worst, 0.01)
        self.assertGreater(sensor[0] / sensor[-1], 1.3)

    def test_three_stars_and_a_mirror_of_sixteen(self):
        """Residual wavefront error of an 8 m; docs/validation.md has what others say of it."""
        stars = [{"type": "ngs", "nssp": 16, "noise_variance": 1.08e-5,
                  "direction": [40 * math.cos(a * 2 * math.pi / 3), 40 * math.sin(a * 2 * math.pi / 3)]} for a in range(3)]
        c = case(stars, 16, obscuration=0, profile=layers([0, 4000, 12000], [0.6, 0.3, 0.1], 0.15), targets=[(0, 0), (30, 0)])
        for slope in ("points", "gradient"):
            variance = run(c, slope).quantity("VARIANCE")[:, 0, 0]
            truth = Truth(c, slope) if slope == "points" else None
            for t in range(2):
                got = math.sqrt(variance[t]) * H / (2 * math.pi)
                line = "16 / 16, target %d, %s: phase %.1f nm" % (t, slope, 1e9 * got)
                if truth is not None:
                    true = truth.rms(t)
                    line += "  true %.1f nm" % (1e9 * true)
                    self.assertLess(abs(got / true - 1), 0.01)
                print(line)


class ShortWavelengths(unittest.TestCase):
    """The mean of exp(-D/2) where exp of the mean of -D/2 is far off; points and grid a sixth of the pitch apart, as Strehl
    ratios of a few per cent depend on that step."""
    WAVELENGTHS = [0.5, 0.64, 0.8, 1.02, 1.25]
    TILT = [{"type": "lgs", "nssp": 10, "direction": [0, 0], "altitude": 90000, "noise_variance": 1e-4},
            {"type": "ngs", "nssp": 1, "direction": [17, 0], "noise_variance": 1e-5}]
    CASES = {"10 / 10": (case(star(10), 10), 0.03), "6 / 10": (case(star(6), 10), 0.1),
             "coupling 0.05": (case(star(10), 10, {"coupling": 0.05}), 0.2), "laser star, tilt 17 arcsec off": (case(TILT, 10), 0.035)}

    def run_at(self, c, average, *more, **kw):
        return run({**c, "psf": {"wavelengths": self.WAVELENGTHS, "oversampling": 6}}, "points", "psf.average=" + average, *more, **kw)

    def test_against_all_pairs(self):
        for name, (c, least) in self.CASES.items():
            with self.subTest(name):
                truth = Truth(c, "points")
                D = truth.residual(truth.points(6), 0)
                true = np.array([np.exp(-0.5 * D * (2e6 * math.pi / w) ** 2).mean() for w in self.WAVELENGTHS])
                got, mean = (self.run_at(c, a).quantity("STREHL").ravel() for a in ("exact", "mean"))
                for w, s, x, m in zip(self.WAVELENGTHS, true, got, mean):
                    print("%-30s %.2f um: true %.5f  exact %.5f (%+.2f %%)  mean %.5f (%+.1f %%)"
                          % (name, w, s, x, 100 * (x / s - 1), m, 100 * (m / s - 1)))
                self.assertLess(max(abs(got / true - 1) / np.where(true < 0.05, 0.02, 0.01)), 1)
                self.assertLess(mean[3] / true[3] - 1, -least)

    def test_what_was_used(self):
        """auto is exact above 0.105 rad^2 and mean below, bit for bit; files tell."""
        c = case(star(10), 10)
        of = {a: run({**c, "psf": {"wavelengths": [1.65, 8]}}, "points", "psf.average=" + a) for a in ("auto", "exact", "mean")}
        strehl = {a: r.quantity("STREHL").ravel() for a, r in of.items()}
        self.assertEqual(strehl["auto"][0], strehl["exact"][0])
        self.assertEqual(strehl["auto"][1], strehl["mean"][1])
        self.assertGreater(strehl["exact"][0], strehl["mean"][0] * 1.004)
        self.assertGreater(strehl["exact"][1], strehl["mean"][1])
        for a, word, exact in (("auto", "auto", [1, 0]), ("exact", "exact", [1, 1]), ("mean", "mean", [0, 0])):
            with fits.open(of[a].path("maps.fits")) as f:
                self.assertEqual(f[0].header["AVERAGE"], word)
                self.assertEqual(list(f["WAVELENGTHS"].data["EXACT"]), exact)
                self.assertAlmostEqual(f["WAVELENGTHS"].data["SCINT"][0], math.exp(-1.3302 * (2 * math.pi / 1.65e-6) ** (-5 / 6)
                                       * (0.5 / 1.65) ** 2 * 0.125 ** (-5 / 3) * (0.3 * 5e3 ** (5 / 6) + 0.2 * 1e4 ** (5 / 6))), delta=1e-6)
            self.assertEqual(list(of[a].quantity("VARIANCE").ravel()), list(of["mean"].quantity("VARIANCE").ravel()))

    def test_halo_fits_into_the_image(self):
        """The grid is chosen by the shortest wavelength; a number that is given stays."""
        c = case(star(10), 10)
        waves = {"psf": {"wavelengths": [0.5, 0.64]}}
        of = {k: run({**c, **waves}, "points", *more) for k, more in
              (("chosen", ()), ("fine", ("psf.oversampling=14",)), ("coarse", ("psf.oversampling=4",)))}
        s = {k: r.quantity("STREHL").ravel() for k, r in of.items()}
        print("Strehl at 0.5, 0.64 um:", s)
        self.assertLess(max(abs(s["chosen"] / s["fine"] - 1)), 0.02)
        self.assertGreater(s["coarse"][0] / s["fine"][0], 1.2)
        for k, n in (("chosen", 9), ("fine", 14), ("coarse", 4)):
            with open(of[k].path("effective.yaml"), encoding="utf-8") as f:
                self.assertRegex(f.read(), r"(?m)^ *oversampling: %d$" % n)
        with open(run(c, "points").path("effective.yaml"), encoding="utf-8") as f:
            self.assertRegex(f.read(), r"(?m)^ *oversampling: 4$")

    def test_ranks(self):
        """Rows of a target on two ranks, and on one."""
        c = case(star(10), 10)
        one, two = (self.run_at(c, "exact", "compute.backend=cpu", ranks=n) for n in (1, 2))
        for quantity in ("STREHL", "EE_80mas", "FWHM", "VARIANCE"):
            np.testing.assert_allclose(two.quantity(quantity), one.quantity(quantity), rtol=1e-10)


class MonteCarlo(unittest.TestCase):
    """Phase screens drawn from the covariances, 2 m pupil: mean gradients, noise, cone effect, wind with a delay."""
    COUNT = 12000
    CASE = case([{"type": "ngs", "nssp": 5, "direction": [12, 5], "noise_variance": 0.004},
                 {"type": "lgs", "nssp": 4, "direction": [-8, -3], "altitude": 15000, "noise_variance": 0.002,
                  "tiptilt_variance": 0.05, "rotation": 20}], 5, diameter=2, obscuration=0.2,
                profile=layers([0, 6000], [0.6, 0.4], 0.14, wind_speed=[8, 20], wind_direction=[30, 100]),
                loop={"delay": 0.004}, targets=[(3, -2)], output={"psf": "short", "crop": 16})

    @classmethod
    def setUpClass(cls):
        cls.truth = Truth(cls.CASE, "gradient")
        cls.run_ = run(cls.CASE, "gradient")
        x = cls.truth.points()
        cls.phase = cls.truth.draw(0, cls.COUNT, 20261122)
        field = np.exp(2j * math.pi / H * cls.phase)
        cls.strehls = abs(field.mean(axis=0)) ** 2
        with fits.open(cls.run_.path("psf.fits")) as f:
            cls.image = next(np.asarray(h.data, dtype=float) for h in f if h.data is not None and h.is_image)
            cls.image = cls.image.reshape(-1, 16, 16)[0]
            pixel = f["WAVELENGTHS"].data["PIXEL"][0] / 1e3 / 206264.8
        a = (np.arange(16) - 8) * pixel * 2 * math.pi / H

        def waves(x):
            return (np.exp(-1j * np.outer(a, x[:, 1]))[:, None] * np.exp(-1j * np.outer(a, x[:, 0]))).reshape(256, -1)

        def airy(x):
            return abs(waves(x).mean(axis=1).reshape(16, 16)) ** 2

        # the pupil of the drawn screens is made of squares: its own diffraction pattern is left out of the comparison
        cls.squares = cls.strehls.mean() * (airy(cls.truth.points(32)) - airy(x))
        wave = waves(x)
        part = [abs(wave @ field[:, i:i + 2000]) ** 2 / len(x) ** 2 for i in range(0, cls.COUNT, 2000)]
        drawn = np.concatenate(part, axis=1)
        cls.drawn, cls.error = drawn.mean(axis=1).reshape(16, 16), drawn.std(axis=1).reshape(16, 16) / math.sqrt(cls.COUNT)

    def test_image(self):
        """Every pixel of the core and the halo: within the sampling error and a hundredth of the peak's share."""
        gap = self.image - self.squares - self.drawn
        worst = abs(gap) / (4 * self.error + 0.01 * self.drawn + 2e-4)
        print("image: largest difference %.2e of a peak of %.3f, %.2f of what is allowed; rms of difference / error %.2f"
              % (abs(gap).max(), self.drawn.max(), worst.max(), math.sqrt(((gap / self.error) ** 2).mean())))
        self.assertLess(worst.max(), 1)

    def test_strehl(self):
        got, mean = strehl(self.run_)[0], self.strehls.mean()
        error = self.strehls.std() / math.sqrt(self.COUNT)
        print("Strehl: phase %.4f  drawn %.4f +- %.4f  exact %.4f" % (got, mean, error, self.truth.strehl(H)))
        self.assertLess(error, 0.004 * mean)
        self.assertLess(abs(got / mean - 1), 0.01)
        self.assertLess(abs(self.truth.strehl(H) - mean), 4 * error)

    def test_strehl_of_short_wavelengths(self):
        wave = 0.6e-6
        drawn = abs(np.exp(2j * math.pi / wave * self.phase).mean(axis=0)) ** 2
        mean, error = drawn.mean(), drawn.std() / math.sqrt(self.COUNT)
        got = {a: strehl(run({**self.CASE, "psf": {"wavelengths": [0.6]}}, "gradient", "psf.average=" + a))[0] for a in ("exact", "mean")}
        print("Strehl at 0.6 um: exact %.4f, mean %.4f, drawn %.4f +- %.4f" % (got["exact"], got["mean"], mean, error))
        self.assertLess(abs(got["exact"] / mean - 1), 0.01 + 2 * error / mean)
        self.assertGreater(abs(got["mean"] / mean - 1), 0.01 + 2 * error / mean)

    def test_anything_left_out_shows(self):
        """Without the cross term, with its sign reversed, without noise, delay or wind the drawn value is missed."""
        mean, error = self.strehls.mean(), self.strehls.std() / math.sqrt(self.COUNT)
        for name, left_out in (("no cross term", {"cross": 0.}), ("half the cross term", {"cross": 0.5}),
                               ("cross term reversed", {"cross": -1.}), ("no noise", {"noise": False})):
            value = self.truth.strehl(H, **left_out)
            print("%s: %.4f" % (name, value))
            self.assertGreater(abs(value - mean), 5 * error, name)
        for name, change in (("no delay", "loop.delay=0"), ("sensor", "psf.residual=sensor")):
            value = strehl(run(self.CASE, "gradient", change))[0]
            print("%s: %.4f" % (name, value))
            self.assertGreater(abs(value - mean), 5 * error, name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
