"""The error budget against every term written down directly (truth_reference.py), and each term switched off.

timeout: 300
"""
import csv
import json
import math
import os
import subprocess
import sys
import unittest

import numpy as np

import reference as ref

from astropy.io import fits

from moao_case import ROOT, Run, moao
from test_truth import FIELD, case, layers, star
from truth_reference import Truth, cov_phase, cov_slopes, half_structure, inside

TERMS = ("TOMO", "NOISE", "ALIAS", "FIT", "LAG", "JITTER", "STATIC")
STARS = [{"name": "faint", "type": "ngs", "nssp": 6, "direction": [12, 5], "noise_variance": 0.004},
         {"name": "bright", "type": "ngs", "nssp": 5, "direction": [-9, 9], "magnitude": 9},
         {"name": "laser", "type": "lgs", "nssp": 6, "direction": [-8, -3], "altitude": 20000, "lgs_depth": 4000,
          "tiptilt_variance": 0.05, "rotation": 20, "lgs_return": 3e5}]
WIND = {"wind_speed": [8, 20], "wind_direction": [30, 100]}
CASE = case(STARS, 6, diameter=3, obscuration=0.2, targets=[(3, -2), (-10, 6)], loop={"delay": 0.004},
            profile=layers([0, 6000], [0.6, 0.4], 0.14, **WIND), output={"psf": "none"},
            errors={"jitter": [6, 3], "windshake": [2, 5], "static_rms": 60}, psf={"wavelengths": [1.65, 2.2]})


def of(slope, c=CASE):
    return {**c, "sensors": [{**s, "slope": slope} for s in c["sensors"]]}


def run(c, *overrides, **kw):
    return Run(json.dumps(c, indent=1) + "\n", *overrides, **kw)


def table(r):
    """{column: [target, ...]} of the budget, squared with their signs [nm2]."""
    with fits.open(r.path("maps.fits")) as f:
        t = f["TARGETS"].data
        return {n[4:]: t[n] * abs(t[n]) for n in t.names if n.startswith("WFE_")}


class Direct(Truth):
    """Variances over the pupil without piston [nm2], of the points in x."""

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        n = round(self.diameter / self.mirror.pitch)         # the program's lattice: model.md, section 7
        n *= max(2, math.ceil(32 / n))
        j, i = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
        x = np.stack([(i + 0.25 + 0.5 * (j & 1)).ravel(), (j + 0.25).ravel()], axis=1) * self.diameter / n - self.diameter / 2
        self.h, self.x = self.diameter / n, x[inside(x, self.diameter, self.obscuration)]
        self.IF = self.mirror.influence(self.x)
        self.C = sum(half_structure(self.x, self.x, l) for l in self.layers)

    def resolved(self):
        """Covariance of the phase without what lies outside the first Brillouin zone of the lattice (rows shifted by half a step):
        folded from 13 x 13 cells of frequencies, each cell in 4 n x 4 n samples."""
        n = 4 * round(self.diameter / self.h)
        j1, j2 = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
        fx, fy = j1 / n / self.h, (j2 - j1 / 2) / n / self.h
        k1, k2 = np.meshgrid(np.arange(-6, 7), np.arange(-6, 7))
        k2 += np.round(k1 / 2).astype(int)
        high = 0
        for l in self.layers:
            W = np.array([(0.02289558710855518 * l.strength * ((fx + a / self.h) ** 2 + (fy + (b - a / 2) / self.h) ** 2 + l.L0 ** -2) ** (-11 / 6))
                          for a, b in zip(k1.ravel(), k2.ravel())])
            high += np.fft.fft2(W.sum(axis=0) - W.max(axis=0)).real / (n * self.h) ** 2
        dx, dy = ((self.x[:, None, i] - self.x[None, :, i]) / self.h for i in (0, 1))
        at = np.round(dx - dy / 2).astype(int) % n, np.round(dy).astype(int) % n
        return self.C - (500e-9 / 2 / math.pi) ** 2 * high[at]

    @staticmethod
    def variance(B):
        return 1e18 * (np.trace(B) / len(B) - B.mean())

    def cross(self, K, C):
        """Of K s with the phase."""
        return 1e18 * ((K * C).sum() / len(K) - K.mean(axis=0) @ C.mean(axis=0))

    def lag(self, K, t):
        """The term, at all points, and the covariance of K s with the phase."""
        delay, late = self.delay, self.cross(K, self.phase(self.x, t))
        self.delay = 0.
        lag = 2 * (self.cross(K, self.phase(self.x, t)) - late)
        self.delay = delay
        return lag, late

    def budget(self, t):
        Dplus, W, n = self.mirror.Dplus, self.reconstructor(t), len(self.x)
        A = self.IF - self.IF.mean(axis=0)
        A = A - A.mean(axis=1)[:, None]                      # commands without piston
        u, s, _ = np.linalg.svd(A, full_matrices=False)
        u = u[:, s > 1e-9 * s[0]]
        out = {"FIT": self.variance(self.C) - 1e18 * np.einsum("ik,ij,jk", u, self.resolved(), u, optimize=True) / n}
        Ks, ts = self.IF @ Dplus, self.truths[t]
        out["ALIAS"] = self.variance(self.C + Ks @ cov_slopes(ts, ts, self.layers) @ Ks.T) - out["FIT"] \
            - 2 * self.cross(Ks, cov_phase(self.x, self.targets[t], ts, self.layers))
        K = self.IF @ W
        at = np.cumsum([0] + [2 * s.nsub for s in self.sensors])
        noise = [ref.noise(s, self.layers) for s in self.sensors]
        for s, n in zip(self.sensors, noise):                # the constant of a laser star is no noise
            if s.key["type"] == "lgs":
                n -= np.kron(np.eye(2), np.full((s.nsub, s.nsub), ref.tiptilt(s, self.layers)))
        out["STAR"] = np.array([self.variance(K[:, a:b] @ n @ K[:, a:b].T) for a, b, n in zip(at, at[1:], noise)])
        out["NOISE"] = out["STAR"].sum()
        out["LAG"], late = self.lag(K, t)
        out["RESIDUAL"] = self.variance(self.C + K @ self.Cmm @ K.T) - 2 * late
        out["TOMO"] = out["RESIDUAL"] - out["FIT"] - out["ALIAS"] - out["NOISE"] - out["LAG"]
        return out


def rms(v):
    return math.copysign(math.sqrt(abs(v)), v)


class Terms(unittest.TestCase):
    def check(self, slope, tolerance, targets):
        truth, got = Direct(of(slope), slope), table(run(of(slope)))
        self.assertTrue({*TERMS, "STAR", "TOTAL"} <= set(got))
        for t in targets:
            want = truth.budget(t)
            want["TOTAL"] = want["RESIDUAL"] + got["JITTER"][t] + got["STATIC"][t]
            for name in ("FIT", "ALIAS", "NOISE", "LAG", "TOMO", "TOTAL"):
                a, b = rms(got[name][t].item()), rms(np.asarray(want[name]).item())
                print("%-8s target %d %-5s %8.2f nm, direct %8.2f  %+.2f %%" % (slope, t, name, a, b, 100 * (a / b - 1)))
                self.assertLess(abs(a / b - 1), tolerance, name)
            np.testing.assert_allclose(got["STAR"][t].ravel(), want["STAR"], rtol=2 * tolerance)
            self.assertAlmostEqual(got["STATIC"][t].item(), 3600, 6)
            tilt = 1e9 * (1 + 0.2 ** 2) / 16 * 9 * 1e9 * (6 ** 2 + 3 ** 2 + 2 ** 2 + 5 ** 2) * (1e-3 / 206264.80625) ** 2
            self.assertAlmostEqual(got["JITTER"][t].item(), tilt, 4)

    def test_points(self):
        """Every term of two targets: noise of stars of three kinds, cone effect, wind, a laser star's tip-tilt."""
        self.check("points", 0.01, (0, 1))

    def test_gradients(self):
        self.check("gradient", 0.02, (0,))

    def test_lag_of_some_points(self):
        """Taken at one point in three to seven its variance is that at all within 0.2 % of the total or 3 % of itself."""
        # 6 m: three points for an actuator, one in three is taken, and the wind blows along the rows: points in columns would
        # all have the same place in their cells, and half of the lag
        for diameter, nssp, stars, delay, blows in ((4.2, 7, FIELD[4:], 0.004, [20, 75, 130]), (8, 16, star(10), 0.001, [20, 75, 130]),
                                                    (8, 16, star(10), 0.02, [20, 75, 130]), (6, 12, star(10), 0.003, [0, 0, 0])):
            wind = {"wind_speed": [8, 15, 25], "wind_direction": blows}
            c = case([{**s, "nssp": min(nssp, 10)} for s in stars], nssp, diameter=diameter, loop={"delay": delay},
                     profile=layers([0, 5000, 10000], [0.5, 0.3, 0.2], 0.125, **wind), targets=[(0, 0), (14, -9)],
                     output={"psf": "none"})
            t, truth = table(run(of("points", c), "compute.verify=off")), Direct(of("points", c), "points")
            for k in (0, 1):
                want, _ = truth.lag(truth.IF @ truth.reconstructor(k), k)
                off, total = t["LAG"][k].item() - want, t["TOTAL"][k].item()
                print("%g m, %d, delay %g ms: lag %.2f nm, all points %.2f; of the total variance %.1e" %
                      (diameter, nssp, 1e3 * delay, rms(t["LAG"][k].item()), rms(want), off / total))
                self.assertLess(abs(off), max(0.002 * total, 0.03 * abs(want)))

    def test_they_add_up(self):
        """To the variance that the images are made of, in every exposure, and in the long one as means of variances."""
        c = of("points")
        c["atmosphere"] = {"profiles": [{"time": 0, **layers([0, 6000], [0.6, 0.4], 0.14, **WIND)},
                                        {"time": 600, **layers([0, 6000], [0.3, 0.7], 0.11, **WIND)}]}
        c["schedule"] = {"tor_times": [0], "exposure_times": [0, 700]}
        r = run(c)
        t, variance = table(r), r.quantity("VARIANCE")
        for end in ("", "_LONG"):
            np.testing.assert_allclose(sum(t[n + end] for n in TERMS), t["TOTAL" + end], rtol=1e-9)
            np.testing.assert_allclose(t["STAR" + end].reshape(2, 3, -1).sum(axis=1), t["NOISE" + end].reshape(2, -1), rtol=1e-9)
        for name in (*TERMS, "TOTAL", "STAR"):
            np.testing.assert_allclose(t[name].reshape(2, -1, 2).mean(axis=2), t[name + "_LONG"].reshape(2, -1), rtol=1e-9, atol=1e-9)
        for i, nm in enumerate((1650, 2200)):
            np.testing.assert_allclose(variance[:, i] * (nm / 2 / math.pi) ** 2, t["TOTAL"], rtol=1e-9)
        self.assertTrue((t["FIT"][:, 1] > t["FIT"][:, 0]).all())
        np.testing.assert_allclose(t["FIT"][:, 1] / t["FIT"][:, 0], (0.14 / 0.11) ** (5 / 3), rtol=1e-9)
        with open(r.path("run.json"), encoding="utf-8") as f:
            told = {x["term"]: x for x in json.load(f)["error_budget_nm"]}
        self.assertAlmostEqual(told["tomography"]["rms"], rms(t["TOMO_LONG"].mean()), 6)
        self.assertAlmostEqual(told["noise of laser"]["most"], math.sqrt(t["STAR_LONG"][:, 2].max()), 6)

    def test_every_reconstructor(self):
        """Noise is that of the reconstructor in use: of two of a night, the second one's exposure is that of a night with it alone,
        and not what the first one would make of it."""
        c = of("points")
        c["atmosphere"] = {"profiles": [{"time": 0, **layers([0, 6000], [0.9, 0.1], 0.2, **WIND)},
                                        {"time": 600, **layers([0, 9000], [0.3, 0.7], 0.09, **WIND)}]}
        both, second, first = [table(run({**c, "schedule": {"tor_times": t, "exposure_times": e}}, "psf.residual=sensor"))
                               for t, e in (([0, 600], [0, 700]), ([600], [700]), ([0], [0, 700]))]
        for name in ("NOISE", "TOMO", "TOTAL"):
            np.testing.assert_allclose(both[name][:, 1], second[name].ravel(), rtol=1e-9, err_msg=name)
        np.testing.assert_allclose(both["STAR"].reshape(2, 3, 2)[:, :, 1], second["STAR"].reshape(2, 3), rtol=1e-9)
        self.assertGreater(abs(first["NOISE"][:, 1] / both["NOISE"][:, 1] - 1).min(), 0.02)

    def test_sodium(self):
        """An error of the sodium layer's altitude is focus in every target, a term that a run without one has not."""
        c, plain = of("points"), table(run(of("points")))
        c["errors"] = {**c["errors"], "sodium_altitude": 100, "sodium_drift": 15, "sodium_interval": 20}
        r = run(c)
        t = table(r)
        error = math.hypot(100, 15 * 20 / math.sqrt(3))
        want = (error / (2 * 20000 ** 2) * 1.5 ** 2 * (1 - 0.2 ** 2) / math.sqrt(12) * 1e9) ** 2
        np.testing.assert_allclose(t["SODIUM"], want, rtol=1e-9)
        np.testing.assert_allclose(t["TOTAL"], plain["TOTAL"] + want, rtol=1e-9)
        np.testing.assert_allclose(t["TOMO"], plain["TOMO"], rtol=1e-6)
        self.assertNotIn("SODIUM", plain)
        out = moao("budget", r.dir).stdout
        self.assertIn("sodium focus", out)
        self.assertEqual(json.loads(moao("budget", r.dir, "--json").stdout)["terms"][-2]["term"], "sodium focus")
        self.assertIn("sodium_focus_nm", moao("budget", r.dir, "--csv").stdout.splitlines()[0])
        p = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "moao-results"), "plot", r.dir, "--budget", "-o", r.path("b.svg")],
                           capture_output=True, text=True, check=False)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        with open(r.path("b.svg"), encoding="utf-8") as f:
            self.assertIn("sodium focus", f.read())

    def test_command(self):
        """moao budget: the table, its JSON and CSV say what the columns hold; a picture; what cannot be shown is one line."""
        c = of("points")
        c["schedule"] = {"tor_times": [0], "exposure_times": [0, 700]}
        c["targets"] = {"list": [[3, -2], [-10, 6]], "names": ["left", "right, far"]}
        r = run(c)
        t = table(r)
        out = moao("budget", r.dir).stdout
        self.assertLessEqual(max(map(len, out.splitlines())), 80)
        self.assertIn("  faint ", out)
        rows = {line[:16].strip(): line[16:].split() for line in out.splitlines() if len(line) > 30}
        for words, name in (("fitting", "FIT"), ("tomography", "TOMO"), ("servo lag", "LAG"), ("total", "TOTAL")):
            v = t[name + "_LONG"].ravel()
            self.assertEqual(rows[words][:3], ["%.1f" % rms(x) for x in (v.mean(), v.min(), v.max())])
        said = json.loads(moao("budget", r.dir, "--json", "--target", "right, far", "--exposure", 2).stdout)
        self.assertEqual((said["target"], said["exposure"], said["targets"]), (2, 2, 2))
        terms = {x["term"]: x for x in said["terms"]}
        self.assertAlmostEqual(terms["noise"]["rms_nm"], rms(t["NOISE"][1, 1]), 6)
        self.assertAlmostEqual(terms["noise"]["stars"][2]["rms_nm"], math.sqrt(t["STAR"].reshape(2, 3, 2)[1, 2, 1]), 6)
        self.assertAlmostEqual(sum(x["share"] for x in said["terms"][:-1]), 1, 9)
        self.assertAlmostEqual(terms["total"]["strehl_factor"], math.exp(-t["TOTAL"][1, 1] * (2 * math.pi / 1650) ** 2), 9)
        self.assertAlmostEqual(said["strehl"], r.quantity("STREHL")[1, 0, 1], 9)
        lines = list(csv.DictReader(moao("budget", r.dir, "--csv").stdout.splitlines()))
        self.assertEqual([(x["name"], x["exposure"]) for x in lines], [(n, e) for n in ("left", "right, far") for e in ("long", "1", "2")])
        self.assertAlmostEqual(float(lines[5]["noise of laser_nm"]), math.sqrt(t["STAR"].reshape(2, 3, 2)[1, 2, 1]), 6)
        picture = r.path("bars.svg")
        p = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "moao-results"), "plot", r.dir, "--budget", "-o", picture],
                           capture_output=True, text=True, check=False)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.assertGreater(os.path.getsize(picture), 10000)
        for arguments, words in (([r.dir, "--target", "nobody"], "expected a name or 1 to 2"), ([r.dir, "--exposure", "3"], "expected 1 to 2"),
                                 ([r.path("none")], "no such file"), ([], "no folder"), ([r.dir, "--csv", "--json"], "exclude")):
            p = moao("budget", *arguments, check=False)
            self.assertEqual(p.returncode, 2, arguments)
            self.assertIn(words, p.stderr)
            self.assertEqual(len([s for s in p.stderr.splitlines() if words in s]), 1)

    def test_each_one_goes_away(self):
        """With what causes it; the other terms stay what they are."""
        c = case([{"type": "ngs", "nssp": 6, "direction": [0, 0], "noise_variance": 0.003, "slope": "points"}], 6, diameter=3,
                 obscuration=0.2, profile=layers([0, 6000], [0.6, 0.4], 0.14, **WIND), loop={"delay": 0.004},
                 output={"psf": "none"}, errors={"jitter": [6, 0], "static_rms": 60})
        all_ = table(run(c))
        for name in TERMS:
            self.assertGreater(abs(all_[name].item()), 50, name)
        for name, change in (("NOISE", "sensors[0].noise_variance=1e-9"), ("LAG", "loop.delay=0"),
                             ("LAG", "atmosphere.profiles[0].layers.wind_speed=0"), ("JITTER", "errors.jitter=[0, 0]"),
                             ("STATIC", "errors.static_rms=0")):
            t = table(run(c, change))
            self.assertLess(abs(t[name].item()), 0.05, change)
            for other in ("FIT", "ALIAS", "JITTER", "STATIC", "NOISE", "LAG")[:4 if name == "NOISE" else 6]:
                if other != name:
                    np.testing.assert_allclose(t[other], all_[other], rtol=1e-6, err_msg=change + " " + other)
        perfect = table(run(c, "sensors[0].noise_variance=1e-9", "loop.delay=0"))
        self.assertLess(abs(perfect["TOMO"].item()), 1)                 # the star is the target, its sensor the truth sensor
        self.assertGreater(table(run(c, "sensors[0].noise_variance=1e-9", "loop.delay=0", "sensors[0].direction=[15, 0]"))["TOMO"].item(), 500)
        self.assertGreater(table(run(c, "dm.mu=1"))["ALIAS"].item(), 1.5 * all_["ALIAS"].item())


class Runs(unittest.TestCase):
    """The same values however they are computed."""

    @classmethod
    def setUpClass(cls):
        cls.one = run(of("points"), "compute.verify=off")
        cls.table = table(cls.one)

    def same(self, r, tolerance):
        for name, v in table(r).items():
            self.assertLess(abs(v - self.table[name]).max(), tolerance * self.table["TOTAL"].max(), name)

    def test_floor(self):
        """Noise below that with which Cmm is positive definite is raised: the star's noise term has what was computed, and check says so."""
        c = case(star(12, noise_variance=0, slope="gradient"), 6, diameter=3, obscuration=0.2, output={"psf": "none"})
        raised = run(c)
        stars = raised.table("GUIDESTARS")
        self.assertGreater(stars["NOISEVAR"][0], 0)
        self.assertEqual(stars["RAISED"][0], 1)
        given = table(run(c, "sensors[0].noise_variance=%.17g" % (1.0000001 * stars["NOISEVAR"][0])))
        self.assertGreater(given["NOISE"][0], 0)
        np.testing.assert_allclose(table(raised)["NOISE"], given["NOISE"], rtol=1e-5)
        np.testing.assert_allclose(table(raised)["STAR"], given["STAR"], rtol=1e-5)
        self.assertIn("12 subapertures of mean gradients need as much for Cmm to be positive definite", raised.process.stderr)

    def test_ranks(self):
        self.same(run(of("points"), ranks=3), 1e-11)                    # the two targets' rows are shared out

    def test_device(self):
        self.same(run(of("points"), env={"MOAO_TEST_DEVICE": "cpu"}), 1e-11)

    def test_halves(self):
        r = run(of("points"), "compute.precision=mixed", env={"MOAO_TEST_DEVICE": "cpu", "MOAO_TEST_OPERATOR": "half"})
        self.same(r, 1e-4)

    def test_resumed(self):
        """What was kept before a failure is what a whole run has, bit for bit."""
        c = of("points")
        c["schedule"] = {"tor_times": [0], "exposure_times": [0, 700]}
        whole, part = run(c), run(c, env={"MOAO_FAULT": "psf:0:fail:3"}, check=False)
        self.assertNotEqual(part.process.returncode, 0)
        moao("run", os.path.join(os.path.dirname(part.dir), "case.yaml"), "-o", part.dir, "--resume")
        for name, v in table(part).items():
            np.testing.assert_array_equal(v, table(whole)[name], name)

    def test_without(self):
        """output.budget: none leaves the rest as it is."""
        r = run(of("points"), "output.budget=none", "compute.verify=off")
        self.assertEqual(table(r), {})
        for name in ("STREHL", "FWHM", "VARIANCE", "EE_40mas_LONG"):
            np.testing.assert_array_equal(r.quantity(name), self.one.quantity(name))
        self.assertIn("output.budget", moao("budget", r.dir, check=False).stderr)

    def test_of_the_sensor(self):
        """psf.residual: sensor: the ideal filter's fitting error, noise and the rest, which add up to the variance of its images; lag
        and aliasing are not told apart, which is said."""
        c = of("points")
        runs = [run(c, "psf.residual=sensor", **kw) for kw in ({}, {"ranks": 3}, {"env": {"MOAO_TEST_DEVICE": "cpu"}})]
        tables = [table(r) for r in runs]
        for r, t in zip(runs, tables):
            for end in ("", "_LONG"):
                np.testing.assert_allclose(sum(t[n + end] for n in TERMS), t["TOTAL" + end], rtol=1e-9)
            for i, nm in enumerate((1650, 2200)):
                np.testing.assert_allclose(r.quantity("VARIANCE")[:, i, 0] * (nm / 2 / math.pi) ** 2, t["TOTAL"].ravel(), rtol=1e-9)
            self.assertEqual((abs(t["LAG"]).max(), abs(t["ALIAS"]).max()), (0, 0))
            for name in ("NOISE", "TOMO", "FIT", "STAR"):
                np.testing.assert_allclose(t[name], tables[0][name], rtol=1e-9)
        kolmogorov = table(run(c, "psf.residual=sensor", "atmosphere.profiles[0].layers.L0=inf"))["FIT"].ravel()[0]
        self.assertAlmostEqual(kolmogorov / (0.231263 * (0.5 / 0.14) ** (5 / 3) * (500 / 2 / math.pi) ** 2), 1, 5)
        # of slopes of equal noise: that of the variance over the pupil, but for the average
        phase = table(run(c, "compute.verify=off"))
        np.testing.assert_allclose(tables[0]["NOISE"], phase["NOISE"], rtol=0.1)
        for out in (moao("budget", runs[0].dir).stdout, moao("check", os.path.join(os.path.dirname(runs[0].dir), "case.yaml"),
                                                             "psf.residual=sensor").stdout):
            self.assertIn("servo lag and aliasing are in the tomography", " ".join(out.split()))
        self.assertNotIn("in the tomography", moao("budget", self.one.dir).stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
