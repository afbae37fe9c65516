"""Commands fitted to the phase (reconstructor.fit), and mirrors that all targets share (mode), against all pairs of points with exact
covariances (mirrors_reference.py), phase screens that are drawn, and published numbers of an independent computation."""
# seconds: 60
import json
import math
import os
import tempfile
import unittest

import numpy as np
from astropy.io import fits

from mirrors_reference import Corrected, Mirror
from moao_case import Run, moao, relative
from reference import ARCSEC
from test_pairs import CASE as PAIRS

H = 1.65e-6
LAYERS = {"r0": 0.15, "layers": {"altitude": [0, 5000, 10000], "fraction": [0.6, 0.25, 0.15], "L0": 25}}


def ring(n, radius, angle, nssp, noise=1e-3, **keys):
    """n natural stars on a circle, arcsec and degrees."""
    turns = [math.radians(angle + 360 * k / n) for k in range(n)]
    return [{"type": "ngs", "nssp": nssp, "slope": "points", "noise_variance": noise,
             "direction": [radius * math.cos(t), radius * math.sin(t)], **keys} for t in turns]


def case(diameter, nssp, sensors, targets=((0, 0),), obscuration=0., profile=None, **more):
    return {"telescope": {"diameter": diameter, "obscuration": obscuration}, "dm": {"nssp": nssp}, "sensors": sensors,
            "targets": {"list": [list(t) for t in targets]}, "atmosphere": {"profiles": [profile or LAYERS]},
            "psf": {"wavelengths": [1.65]}, "output": {"psf": "none"}, **more}


def run(c, *overrides, **kw):
    return Run(json.dumps(c, indent=1) + "\n", *overrides, **kw)


def rms(r):
    """Wavefront error of the targets [nm]."""
    return 1e9 * np.sqrt(r.quantity("VARIANCE_LONG")[:, 0, 0]) * H / (2 * math.pi)


def header(r, key):
    with fits.open(r.path("maps.fits")) as f:
        return f[0].header[key]


class Fit(unittest.TestCase):
    def test_against_all_pairs(self):
        """Four laser stars and a natural one, wind with a delay, a reconstructor of another profile: 0.3 % of the wavefront error."""
        stars = ring(4, 20, 45, 6, type="lgs", altitude=90000, lgs_depth=0) + ring(1, 0, 0, 6)
        profile = {**LAYERS, "layers": {**LAYERS["layers"], "wind_speed": [8, 12, 20], "wind_direction": [10, 70, 120]}}
        c = case(4, 6, stars, [(0, 0), (12, 5)], 0.2, profile, loop={"delay": 0.004}, reconstructor={"fit": "phase"},
                 schedule={"tor_times": [0], "exposure_times": [700]})
        c["atmosphere"]["profiles"].append({**profile, "time": 600, "r0": 0.12})
        truth, r = Corrected(c, "points", tor=0, exposure=1), run(c)
        self.assertEqual((header(r, "FIT"), r.process.stdout.count("F Cpm")), ("phase", r.process.stdout.count("|W Cmm")))
        for t, got in enumerate(rms(r)):
            true = 1e9 * truth.rms(t)
            print("fit: phase, target %d: %.2f nm, true %.2f" % (t, got, true))
            self.assertLess(abs(got / true - 1), 0.003)

    def test_what_it_gains(self):
        """4 natural stars at 20 arcsec, 8 m: 192.5 nm with commands fitted to slopes, 179.8 to the phase. In the budget the fitting
        error stays, and aliasing is told to be in the tomography."""
        c = case(8, 10, ring(4, 20, 45, 10, 1e-5), output={"psf": "none", "budget": "terms"})
        of = {fit: run(c, "reconstructor.fit=" + fit) for fit in ("slopes", "phase")}
        print("slopes %.2f nm, phase %.2f nm" % tuple(rms(of[k])[0] for k in of))
        for fit, true in (("slopes", 192.5), ("phase", 179.8)):
            self.assertLess(abs(rms(of[fit])[0] / true - 1), 0.005)
        a, b = (of[k].table("TARGETS") for k in ("slopes", "phase"))
        self.assertAlmostEqual(a["WFE_FIT_LONG"][0], b["WFE_FIT_LONG"][0], delta=1e-6)
        self.assertEqual(b["WFE_ALIAS_LONG"][0], 0)
        self.assertAlmostEqual(sum(b[k + "_LONG"][0] * abs(b[k + "_LONG"][0]) for k in ("WFE_TOMO", "WFE_NOISE", "WFE_FIT")),
                               b["WFE_TOTAL_LONG"][0] ** 2, delta=1e-3)
        with fits.open(of["phase"].path("maps.fits")) as f:
            self.assertIn("aliasing", f["TARGETS"].header["WFE_NONE"])

    def test_by_every_pair(self):
        """Every factor and product computes it, checked by the run: within 1e-4 of dense matrices, on ranks to rounding."""
        phase, device = "reconstructor.fit=phase", {"MOAO_TEST_DEVICE": "cpu"}
        dense = run_text(PAIRS, phase, "compute.verify=full")
        for words, ranks, env, most in ((["compute.factor=tlr"], 1, device, 1e-4), (["compute.product=toeplitz"], 1, device, 1e-4),
                                        (["compute.precision=mixed"], 1, device, 1e-4), ([], 3, {}, 1e-9), ([], 2, device, 1e-9),
                                        (["compute.factor=host", "compute.product=fp16"], 1, device, 1e-4)):
            other = run_text(PAIRS, phase, "compute.verify=full", *words, ranks=ranks, env=env)
            gap = np.abs(other.quantity("STREHL") - dense.quantity("STREHL")).max()
            print("%-45s %d ranks: %.1e" % (" ".join(words), ranks, gap))
            self.assertLess(gap, most, words)
        self.assertGreater(np.abs(dense.quantity("STREHL") - run_text(PAIRS).quantity("STREHL")).min(), 1e-4)

    def test_refusals(self):
        """What belongs to a truth sensor is refused beside it."""
        for word, told in (("psf.residual=sensor", "sensor with reconstructor.fit: phase"),
                           ("output.matrices=[W, Dplus]", "Dplus belongs to a truth sensor")):
            p = moao("check", "params/canary.yaml", "reconstructor.fit=phase", word, check=False)
            self.assertEqual(p.returncode, 2, p.stdout)
            self.assertIn(told, p.stderr)


SIX = [[0, 0]] + [[30 * math.cos(math.radians(60 * k)), 30 * math.sin(math.radians(60 * k))] for k in range(6)] \
    + [[15 * math.cos(math.radians(30 + 60 * k)), 15 * math.sin(math.radians(30 + 60 * k))] for k in range(6)]
BEAM = 80 / ARCSEC                                          # of the field, per metre of altitude
MCAO = case(8, 10, ring(6, 40, 0, 10), [(0, 0), (15, 0), (20, 20), (30, 0), (45, 0)], mode="mcao", optimise={"list": SIX},
            mirrors={"altitude": [0, 6000, 12000], "pitch": [0.8, 0.8, 1.2], "diameter": [8, 8 + 6000 * BEAM, 8 + 12000 * BEAM]},
            profile={"r0": 0.15, "layers": {"altitude": [0, 2000, 6000, 12000], "fraction": [0.5, 0.2, 0.15, 0.15], "L0": 25}})
GLAO = case(4, 8, ring(4, 60, 0, 8), [(0, 0), (30, 0), (42.4, 42.4), (60, 0)], mode="glao")
LTAO = case(4, 8, ring(4, 20, 45, 8), [(0, 0), (5, 0), (10, 0), (20, 0)], mode="ltao")
# small: two mirrors, neither like the sensors; weights; a laser star; wind; a mirror below the pupil
SMALL = case(3, 5, ring(2, 25, 20, 5) + ring(1, 18, 250, 4, 1e-4, type="lgs", altitude=90000, lgs_depth=0), [(0, 0), (13, -6)], 0.2,
             {**LAYERS, "layers": {**LAYERS["layers"], "wind_speed": [8, 12, 20], "wind_direction": [10, 70, 120]}}, mode="mcao",
             loop={"delay": 0.004}, optimise={"list": [[0, 0], [12, 4], [-7, 10]], "weights": [1, 2, 0.5]},
             mirrors={"altitude": [-300, 8000], "pitch": [0.6, 0.9], "diameter": [3, 3.9], "coupling": [0.3, 0.2]})


SMALL_MIRRORS = [Mirror(5, 0.6, -300., 0.3), Mirror(5, 0.9, 8000., 0.2)]


class Shared(unittest.TestCase):
    def test_true_values(self):
        """GLAO, LTAO, MCAO of an independent computation: wavefront errors [nm] to 0.5 %, Strehl ratios to 1.5 %."""
        for name, c, error, strehl in (("glao", GLAO, [386.34, 383.44, 420.74, 382.26], [0.1589, 0.1654, 0.1360, 0.1875]),
                                       ("ltao", LTAO, [138.72, 160.01, 207.33, 308.55], [0.7569, 0.6907, 0.5401, 0.2723]),
                                       ("mcao", MCAO, [201.85, 202.80, 203.21, 201.43, 221.87], None)):
            r = run(c)
            got, s = rms(r), r.quantity("STREHL_LONG")[:, 0, 0]
            print(name, "wavefront error [nm]", got.round(2), "true", error, "Strehl", s.round(4), "true", strehl)
            self.assertLess(np.abs(got / error - 1).max(), 0.005, name)
            if strehl:
                self.assertLess(np.abs(s / strehl - 1).max(), 0.015, name)
            self.assertEqual((header(r, "MODE"), header(r, "FIT")), (name, "phase"))

    def test_mean_gradients(self):
        """Mean gradients: wavefront errors [nm] to 0.5 %, of GLAO as published for whole squares, of LTAO over the lit parts with exact
        covariances (tests/golden/whole_squares.py); over whole squares that case has 0.9 % more on the axis."""
        for name, c, true in (("glao", GLAO, [385.00, 382.18, 419.61, 380.62]), ("ltao", LTAO, [131.68, 154.40, 203.74, 306.44])):
            got = rms(run(c, "sensors.*.slope=gradient", "output.budget=none"))
            print(name, "wavefront error, mean gradients [nm]", got.round(2), "true", true)
            self.assertLess(np.abs(got / true - 1).max(), 0.005, name)

    def test_mean_gradients_of_three_mirrors(self):
        """MCAO by mean gradients: wavefront errors [nm] of the lit parts with exact covariances (tests/golden/whole_squares.py) to 0.5 %,
        published Strehl ratios, of whole squares, to 1.5 %."""
        r = run(MCAO, "sensors.*.slope=gradient", "output.budget=none")
        got, s = rms(r), r.quantity("STREHL_LONG")[:, 0, 0]
        error, strehl = [192.60, 194.46, 195.28, 193.20, 213.56], [0.5813, 0.5749, 0.5721, 0.5782, 0.5141]
        print("mcao, mean gradients [nm]", got.round(2), "true", error, "Strehl", s.round(4), "published", strehl)
        self.assertLess(np.abs(got / error - 1).max(), 0.005)
        self.assertLess(np.abs(s / strehl - 1).max(), 0.015)

    def test_against_all_pairs(self):
        """Mirrors above and below the pupil, weights, cone effect and wind: 0.3 % of the wavefront error."""
        m = SMALL["mirrors"]
        mirrors = [Mirror(math.ceil(d / p * (1 - 1e-9)), p, h, c) for h, p, d, c in zip(*(m[k] for k in ("altitude", "pitch", "diameter",
                                                                                                      "coupling")))]
        truth = Corrected(SMALL, "points", mirrors, list(zip(*(SMALL["optimise"][k] for k in ("list", "weights")))), per_pitch=6)
        for t, got in enumerate(rms(run(SMALL))):
            true = 1e9 * truth.rms(t)
            print("two mirrors, target %d: %.2f nm, true %.2f" % (t, got, true))
            self.assertLess(abs(got / true - 1), 0.003)

    def test_budget(self):
        """Fitting error of both mirrors as each target sees them to 1.5 %, generalised fitting to 2 %, noise to 0.5 % of the definitions; the
        terms are all there is. A mirror on the pupil with the target's own direction has no generalised fitting."""
        c = {**SMALL, "output": {"psf": "none", "budget": "terms"}}
        truth = Corrected(SMALL, "points", SMALL_MIRRORS, list(zip(*(SMALL["optimise"][k] for k in ("list", "weights")))), per_pitch=7)
        r, several = run(c), run(c, ranks=2)
        a, b = r.table("TARGETS"), several.table("TARGETS")
        for t in range(2):
            fitting, noise = truth.budget(t)
            got = {k: a["WFE_" + k + "_LONG"][t] for k in ("TOTAL", "FIT", "GENFIT", "NOISE", "LAG", "TOMO", "ALIAS")}
            print("target %d: fitting %.2f nm, true %.2f; noise %.2f nm, true %.2f" % (t, got["FIT"], fitting, got["NOISE"], noise))
            self.assertLess(abs(got["FIT"] / fitting - 1), 0.015)
            self.assertLess(abs(got["NOISE"] / noise - 1), 0.005)
            more = truth.generalised(t)
            print("target %d: generalised fitting %.2f nm, true %.2f" % (t, got["GENFIT"], more))
            self.assertLess(abs(got["GENFIT"] / more - 1), 0.02)
            self.assertAlmostEqual(sum(v * abs(v) for k, v in got.items() if k != "TOTAL"), got["TOTAL"] ** 2, delta=1e-3)
            self.assertAlmostEqual(got["TOTAL"], rms(r)[t], delta=1e-6)
            self.assertGreater(got["LAG"], 0)
            for k in got:
                self.assertAlmostEqual(b["WFE_" + k + "_LONG"][t], a["WFE_" + k + "_LONG"][t], delta=1e-4)

    def test_generalised_fitting(self):
        """By profiles and, where these are more, by layers: 5 profiles of 3 layers and different seeing; little in the one direction that the
        mirror is fitted to."""
        c = {**SMALL, "mode": "glao", "output": {"psf": "none", "budget": "terms"}, "targets": {"list": [[12, 4], [30, 0]]}}
        del c["mirrors"]
        r0 = [0.15, 0.1, 0.2, 0.15, 0.3]
        night = {**c, "atmosphere": {"profiles": [{**SMALL["atmosphere"]["profiles"][0], "time": 100 * k, "r0": v} for k, v in enumerate(r0)]},
                 "schedule": {"tor_times": [0], "exposure_times": [0, 100, 200, 300, 400]}}
        one, all_ = run(c).table("TARGETS")["WFE_GENFIT"], run(night, ranks=2).table("TARGETS")["WFE_GENFIT"]
        np.testing.assert_allclose(all_, np.reshape(one, (2, 1)) * (0.15 / np.array(r0)) ** (5 / 6), rtol=1e-7)
        alone = run({**c, "mode": "ltao", "optimise": {"list": [[12, 4]]}}).table("TARGETS")
        self.assertLess(alone["WFE_GENFIT_LONG"][0], 0.2 * alone["WFE_FIT_LONG"][0])
        self.assertGreater(alone["WFE_GENFIT_LONG"][1], alone["WFE_FIT_LONG"][1])
        self.assertNotIn("WFE_GENFIT", run({**{k: v for k, v in c.items() if k not in ("mode", "optimise")}}).table("TARGETS").columns.names)

    def test_layers(self):
        """Phases of all targets by tables of each layer: Strehl ratios to 1e-4, terms of the budget to 1e-3 of the wavefront
        error; ranks, chunks, a loop; beyond the tolerance all is computed directly; what is asked for by name computes."""
        c = {**SMALL, "output": {"psf": "none"}, "targets": {"list": [[0, 0], [13, -6], [-21, 9], [4, 17]]}}
        closed = ["loop.delay=0", "loop.type=integrator", "loop.gain=0.4", "loop.rate=300"]
        # compared: of the targets of a rank in a chunk that nearest to the axis
        for more, ranks, compared in (([], 1, [0]), (["sensors.*.slope=gradient", "compute.targets_per_chunk=2"], 2, [0, 1, 2, 3]),
                                      (closed + ["sensors.*.slope=gradient"], 1, [0])):
            direct, tables = (run(c, "compute.phase=" + word, "compute.verify=full", *more, ranks=1 if word == "direct" else ranks)
                              for word in ("direct", "layers"))
            self.assertEqual((header(direct, "CPHASE"), header(tables, "CPHASE")), ("direct", "layers"))
            gap = np.abs(tables.quantity("STREHL") - direct.quantity("STREHL")).max()
            with open(tables.path("run.json"), encoding="utf-8") as f:
                told = json.load(f)["layers"]
            print("by layers: Strehl ratios differ by %.1e, told %.1e" % (gap, told["largest_difference"]))
            self.assertLess(gap, 1e-4)
            of = np.abs(tables.quantity("STREHL") - direct.quantity("STREHL"))[compared]
            if more[:1] == closed[:1]:      # that of the exposure without wind, of which the lag is told, as well
                self.assertTrue(of.max() - 1e-6 < told["largest_difference"] < 1e-4)
            else:
                self.assertLess(abs(told["largest_difference"] - of.max()), 1e-6)
            self.assertEqual(told["exposures_over_tolerance"], 0)
            a, b = direct.table("TARGETS"), tables.table("TARGETS")
            for k in ("TOTAL", "FIT", "GENFIT", "NOISE", "LAG", "TOMO"):
                np.testing.assert_allclose(b["WFE_" + k + "_LONG"], a["WFE_" + k + "_LONG"], atol=1e-3 * a["WFE_TOTAL_LONG"].max())
        over = run(c, "compute.phase=layers", "compute.mixed_tolerance=1e-12")
        self.assertEqual(relative(over.quantity("STREHL"), run(c, "compute.phase=direct").quantity("STREHL")), 0)
        self.assertIn("computed directly", over.process.stdout + over.process.stderr)
        # most of the turbulence at 40 m: by displacements of each point
        low = {**c, "output": {"psf": "none", "budget": "none"}, "psf": {"wavelengths": [0.8]},
               "atmosphere": {"profiles": [{"r0": 0.15, "layers": {"altitude": [0, 40, 5000], "fraction": [0.1, 0.85, 0.05], "L0": 25}}]}}
        direct, tables = (run(low, "compute.phase=" + word, "sensors.*.slope=gradient", "compute.mixed_tolerance=0.01") for word in ("direct", "layers"))
        self.assertLess(np.abs(tables.quantity("STREHL") - direct.quantity("STREHL")).max(), 3e-5)
        own = {k: v for k, v in c.items() if k not in ("mode", "mirrors", "optimise")}
        with tempfile.TemporaryDirectory() as tmp:
            path, out = os.path.join(tmp, "case.yaml"), os.path.join(tmp, "out")
            for of, words, told in ((own, [], "layers with mode: moao"), (c, ["compute.product=toeplitz"], "layers with a compute.product"),
                                    (c, ["psf.residual=sensor"], "psf.residual")):
                with open(path, "w", encoding="utf-8") as f:
                    json.dump(of, f)
                p = moao("run", path, "-o", out, "compute.phase=layers", *words, check=False)
                self.assertEqual(p.returncode, 2, words)
                self.assertIn(told, p.stderr)

    def test_screens(self):
        """The mean square of residual phases of drawn screens, noise included: within 4 standard errors, which are below 2 %."""
        for name, c, mirrors, directions in (
                ("glao", {**SMALL, "mode": "glao", "mirrors": {"altitude": 0, "pitch": 0.75, "diameter": 3}},
                 [Mirror(4, 0.75, 0., 0.2, 0.2)], SMALL["optimise"]),
                ("mcao", SMALL, SMALL_MIRRORS, SMALL["optimise"])):
            truth = Corrected(c, "points", mirrors, list(zip(directions["list"], directions["weights"])), per_pitch=3)
            got = rms(run(c))
            phase = truth.draw(1, 3000, 20261126)
            square = ((phase - phase.mean(axis=0)) ** 2).mean(axis=0)
            mean, error = square.mean(), square.std() / math.sqrt(len(square))
            print("%s: %.2f nm, drawn %.2f +- %.2f" % (name, got[1], 1e9 * math.sqrt(mean), 1e9 * error / 2 / math.sqrt(mean)))
            self.assertLess(error / mean, 0.02)
            self.assertLess(abs((got[1] * 1e-9) ** 2 - mean), 4 * error)

    def test_identities(self):
        """One mirror at 0 and one direction, by the road of several mirrors: ltao; that with the direction of the target: moao with commands
        fitted to the phase. The order of mirrors, and a direction that is split, change nothing."""
        base = {k: v for k, v in SMALL.items() if k not in ("mode", "mirrors", "optimise")}
        one, own = {"altitude": 0, "pitch": 0.6, "diameter": 3}, {"list": [[13, -6]]}
        ltao = run({**base, "mode": "ltao", "optimise": own}, "output.budget=none")
        mcao = run({**base, "mode": "mcao", "optimise": own, "mirrors": one})
        moao_ = run({**base, "reconstructor": {"fit": "phase"}})
        self.assertLess(relative(mcao.quantity("STREHL"), ltao.quantity("STREHL")), 1e-9)
        self.assertLess(relative(mcao.quantity("VARIANCE"), ltao.quantity("VARIANCE")), 1e-9)
        self.assertLess(relative(ltao.quantity("VARIANCE")[1], moao_.quantity("VARIANCE")[1]), 1e-9)
        self.assertGreater(ltao.quantity("VARIANCE")[0] / moao_.quantity("VARIANCE")[0], 1.05)
        some = run(SMALL)
        turned = run({**SMALL, "mirrors": {k: v[::-1] for k, v in SMALL["mirrors"].items()}})
        split = run({**SMALL, "optimise": {"list": [[0, 0], [12, 4], [12, 4], [-7, 10]], "weights": [1, 1.5, 0.5, 0.5]}})
        for other in (turned, split):
            self.assertLess(relative(other.quantity("VARIANCE"), some.quantity("VARIANCE")), 1e-9)

    def test_by_every_pair(self):
        """Every factor and product, ranks, chunks and a run that goes on: checked by the run, as with a mirror for each target."""
        device = {"MOAO_RESIDENT_BACKEND": "cpu"}
        shared = PAIRS + "mode: mcao\noptimise: {list: [[0, 0], [20, 10], [-15, 12]]}\n"
        glao = shared.replace("mode: mcao", "mode: glao")
        mcao = shared + "mirrors: {altitude: [0, 8 km], pitch: [1.05, 1.3]}\n"
        compressed = (["compute.factor=tlr"], 1, device, 1e-4), (["compute.product=toeplitz"], 1, device, 1e-4)
        others = ((["compute.precision=mixed"], 1, device, 1e-4), (["compute.targets_per_chunk=1"], 3, {}, 1e-9))
        for text, ways in ((glao, others), (mcao, compressed + others)):
            one = run_text(text, "compute.verify=full")
            for words, ranks, env, most in ways:
                other = run_text(text, "compute.verify=full", *words, ranks=ranks, env=env)
                gap = np.abs(other.quantity("STREHL") - one.quantity("STREHL")).max()
                self.assertLess(gap, most, words)

    def test_refusals(self):
        """What does not go together, with the key."""
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, "case.yaml")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(SMALL, f)
            for word, told in (("mode=moao", "mirrors: of correctors"), ("mode=glao", "mirrors.altitude: more than one mirror"),
                               ("reconstructor.fit=slopes", "slopes with mode: mcao"), ("dm.nssp=4", "expected at least 5"),
                               ("mirrors.pitch=[1, 1, 1]", "3 numbers for 2 mirrors"), ("optimise.weights=[1, 2]", "2 weights for 3")):
                p = moao("check", path, word, check=False)
                self.assertEqual(p.returncode, 2, word)
                self.assertIn(told, p.stderr)


def run_text(text, *words, **kw):
    return Run(text, *words, **kw)


if __name__ == "__main__":
    unittest.main()
