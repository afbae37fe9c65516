"""The loop in time (loop.type: integrator, leaky): published numbers of an independent computation, a loop that runs frame by frame on
drawn phase screens, identities, what is refused."""
# seconds: 15
import json
import math
import os
import tempfile
import unittest

import numpy as np
from astropy.io import fits

import outlines
from mirrors_reference import Corrected
from moao_case import Run, moao, relative
from reference import ARCSEC
from truth_reference import half_structure

H = 1.65e-6
SCAO = {"telescope": {"diameter": 8, "obscuration": 0}, "dm": {"nssp": 10}, "mode": "ltao",
        "sensors": [{"type": "ngs", "nssp": 10, "noise_variance": 1e-3, "direction": [0, 0]}], "targets": {"list": [[0, 0]]},
        "atmosphere": {"profiles": [{"r0": 0.15, "layers": {"altitude": [0], "fraction": [1], "L0": 25, "wind_speed": [10],
                                                            "wind_direction": [math.degrees(0.5)]}}]},
        "psf": {"wavelengths": [1.65]}, "output": {"psf": "none"}}
# type, wind [m/s], rate [Hz], gain, frames: wavefront error [nm]
TRUE = [("integrator", 5, 1000, .5, 2, 186.62), ("integrator", 10, 1000, .3, 2, 179.04), ("integrator", 10, 500, .5, 2, 188.81),
        ("integrator", 20, 500, .3, 1, 198.16), ("integrator", 20, 500, .6, 2, 200.84), ("integrator", 10, 250, .5, 2, 195.66),
        ("leaky", 10, 500, .5, 2, 184.66), ("leaky", 20, 500, .3, 2, 212.76), ("leaky", 20, 250, .3, 2, 288.89)]
WHOLE, WHOLE_NOISE = 196.00, 95.50      # of that computation without a loop: slopes of whole squares, partly lit or not
SMALL = {"telescope": {"diameter": 3, "obscuration": 0.2}, "dm": {"nssp": 5}, "mode": "glao",
         "sensors": [{"type": "ngs", "nssp": 5, "noise_variance": 2e-3, "direction": [12, 3]},
                     {"type": "lgs", "nssp": 4, "noise_variance": 1e-3, "direction": [-10, 8], "altitude": 90000}],
         "targets": {"list": [[0, 0], [9, -4]]},
         "atmosphere": {"profiles": [{"r0": 0.15, "layers": {"altitude": [0, 6000, 9000], "fraction": [0.6, 0.25, 0.15], "L0": 25,
                                                             "wind_speed": [9, 22, 0], "wind_direction": [10, 70, 0]}}]},
         "psf": {"wavelengths": [1.65]}, "output": {"psf": "none"}}


def run(c, *overrides, **kw):
    return Run(json.dumps(c, indent=1) + "\n", *overrides, **kw)


def terms(r):
    t = r.table("TARGETS")
    return {k: np.array(t["WFE_%s_LONG" % k]).ravel() for k in ("TOTAL", "TOMO", "NOISE", "FIT", "GENFIT", "LAG") if "WFE_%s_LONG" % k in t.names}


def header(r):
    with fits.open(r.path("maps.fits")) as f:
        return dict(f[0].header)


def loop(kind, gain, frames, rate):
    return ["loop.type=%s" % kind, "loop.gain=%g" % gain, "loop.frames=%g" % frames, "loop.rate=%g" % rate]


class Loop(unittest.TestCase):
    def test_true_values(self):
        """Nine loops within 0.5 % of the wavefront error. Those are of whole squares on the edge of the pupil: what the loop adds to and
        takes from the static error is compared."""
        still = {k: v[0] for k, v in terms(run(SCAO)).items()}
        for kind, wind, rate, gain, frames, true in TRUE:
            r = run(SCAO, *loop(kind, gain, frames, rate), "atmosphere.profiles[0].layers.wind_speed=%g" % wind)
            got, noise = {k: v[0] for k, v in terms(r).items()}, header(r)["LOOPNOIS"]
            square = WHOLE ** 2 + got["TOTAL"] ** 2 - still["TOTAL"] ** 2 + (noise - 1) * (WHOLE_NOISE ** 2 - still["NOISE"] ** 2)
            print("%-10s %2d m/s %4d Hz gain %.1f frames %d: %.2f nm, true %.2f, lag %.2f" % (kind, wind, rate, gain, frames,
                                                                                           math.sqrt(square), true, got["LAG"]))
            self.assertLess(abs(math.sqrt(square) / true - 1), 0.005)
            self.assertAlmostEqual(got["NOISE"], math.sqrt(noise) * still["NOISE"], delta=1e-6 * got["NOISE"])
            self.assertAlmostEqual(sum(got[k] * abs(got[k]) for k in ("TOMO", "NOISE", "FIT", "GENFIT", "LAG")), got["TOTAL"] ** 2, delta=1e-3)
            self.assertAlmostEqual(got["TOMO"], still["TOMO"], delta=1e-6 * got["TOMO"])

    def test_frame_by_frame(self):
        """A loop that runs on drawn screens, 30 frames with residual slopes: within 4 standard errors, which are below 2 %."""
        c = {**SCAO, "telescope": {"diameter": 2, "obscuration": 0}, "dm": {"nssp": 4},
             "sensors": [{"type": "ngs", "nssp": 4, "noise_variance": 2e-3, "direction": [0, 0], "slope": "points"}]}
        count, frames, rate, gain, nframe = 3000, 2, 200, 0.4, 30
        truth, got = Corrected(c, "points", per_pitch=5), run(c, *loop("integrator", gain, frames, rate))
        layer, v, x = truth.layers[0], truth.sensors[0], truth.x
        place, weight, first = v.nodes(8)
        # slopes of frame k are of the layer nframe - 1 - k frames before the last one
        at = [x] + [v.on_layer(place, 0.) + layer.wind * (nframe - 1 - k) / rate for k in range(nframe)]
        p, rng = np.concatenate(at), np.random.default_rng(20261127)
        C = half_structure(p, p, layer)
        screen = np.linalg.cholesky(C - 1.01 * C.min() + 1e-12 * abs(C.min()) * np.eye(len(p))) @ rng.standard_normal((len(p), count))
        W, D = truth.reconstructor(0), truth.mirror.D
        shapes = [np.zeros((W.shape[0], count)) for _ in range(frames)]          # u of frames that are not applied yet
        for k in range(nframe):
            phases = ARCSEC * screen[len(x) + k * len(place):][:len(place)]
            slopes = np.concatenate([outlines.sums(phases * weight[:, a:a + 1], first, 0) for a in (0, 1)])
            slopes = slopes + np.sqrt(2e-3) * rng.standard_normal(slopes.shape)
            applied = shapes[-frames]
            residual = slopes - D @ applied
            shapes.append(shapes[-1] + gain * (W @ (residual + D @ applied) - applied))
        phase = screen[:len(x)] - truth.shapes(x, (0, 0)) @ shapes[-1 - frames]
        square = ((phase - phase.mean(axis=0)) ** 2).mean(axis=0)
        mean, error, moao_ = square.mean(), square.std() / math.sqrt(count), (1e-9 * terms(got)["TOTAL"][0]) ** 2
        print("%.2f nm, frame by frame %.2f +- %.2f" % (1e9 * math.sqrt(moao_), 1e9 * math.sqrt(mean), 1e9 * error / 2 / math.sqrt(mean)))
        self.assertLess(error / mean, 0.02)
        self.assertLess(abs(moao_ - mean), 4 * error)
        self.assertGreater(abs((1e-9 * terms(run(c))["TOTAL"][0]) ** 2 - mean), 8 * error)

    def test_identities(self):
        """Gain 1 of a leaky loop is the pure delay, of MOAO too; without wind a loop changes the noise alone."""
        delay = run(SMALL, "loop.delay=12 ms")
        for more in ([], ["loop.lags=equivalent"], ["compute.product=toeplitz"]):
            one = run(SMALL, *loop("leaky", 1, 3, 250), *more)
            gap = 1e-9 if more[:1] != ["compute.product=toeplitz"] else 1e-4
            self.assertLess(relative(one.quantity("VARIANCE"), delay.quantity("VARIANCE")), gap)
        self.assertEqual((header(one)["LOOP"], header(one)["LOOPNOIS"], header(delay)["LOOP"]), ("leaky", 1, "open"))
        moao_ = {k: v for k, v in SMALL.items() if k != "mode"}
        self.assertLess(relative(run(moao_, *loop("leaky", 1, 3, 250)).quantity("VARIANCE"),
                                 run(moao_, "loop.delay=12 ms").quantity("VARIANCE")), 1e-9)
        calm = "atmosphere.profiles[0].layers.wind_speed=0"
        a, b = run(SMALL, calm), run(SMALL, calm, *loop("integrator", 0.5, 2, 500))
        for k in ("TOMO", "FIT", "LAG"):
            np.testing.assert_allclose(terms(b)[k], terms(a)[k], atol=1e-6)
        np.testing.assert_allclose(terms(b)["NOISE"], math.sqrt(header(b)["LOOPNOIS"]) * terms(a)["NOISE"], rtol=1e-9)

    def test_ages(self):
        """Sums over ages by tables are those age by age, to less than lags are interpolated by: two kinds of sensors, one cut by the pupil
        in every subaperture, in one loop and in two; on ranks."""
        low = {"type": "ngs", "nssp": 1, "noise_variance": 1e-4, "direction": [6, -9], "low_order": True}
        two = {**SMALL, "sensors": SMALL["sensors"] + [low]}
        for c, more, ranks in ((SMALL, [], 1), (SMALL, [], 2), (two, ["loop.low.type=integrator", "loop.low.rate=150", "loop.low.gain=0.3"], 1)):
            words = loop("integrator", 0.4, 1.5, 300) + ["output.budget=none"] + more
            sums = run(c, *words, env={"MOAO_TEST_AGES": "sums"}).quantity("VARIANCE")
            gap = relative(run(c, *words, ranks=ranks, env={"MOAO_TEST_AGES": "tables"}).quantity("VARIANCE"), sums)
            print("ages by tables: %.1e of the variance" % gap)
            self.assertLess(gap, 2e-4)
            self.assertGreater(gap, 1e-9)

    def test_optimal(self):
        """The gain that is found has less variance than gains beside it, in another run too, and is told; ranks find the same."""
        words = loop("integrator", 0.5, 2, 300) + ["output.budget=none"]
        best = run(SCAO, *words, "loop.gain=optimal")
        gain, least = header(best)["LOOPGAIN"], best.quantity("VARIANCE")[0, 0, 0]
        self.assertIn("optimal: integrator, gain %.4g" % gain, best.process.stdout + best.process.stderr)
        same = run(SCAO, *words, "loop.gain=%.6f" % gain)
        self.assertLess(relative(same.quantity("STREHL"), best.quantity("STREHL")), 1e-9)
        for other in (0.9, 1.1):
            self.assertGreater(run(SCAO, *words, "loop.gain=%.6f" % (other * gain)).quantity("VARIANCE")[0, 0, 0], least * (1 + 1e-5))
        self.assertAlmostEqual(header(run(SCAO, *words, "loop.gain=optimal", ranks=2))["LOOPGAIN"], gain, delta=0.005)

    def test_ways(self):
        """Factors and products of CPUs, ranks; W and its residual are computed again in one. The equivalent delay."""
        words = loop("integrator", 0.4, 1.5, 300)
        want = run(SMALL, *words)
        words += ["output.budget=none"]
        for more, ranks, most in ((["compute.product=toeplitz", "compute.verify=full"], 1, 1e-4), (["compute.factor=tlr"], 1, 1e-4),
                                  (["compute.targets_per_chunk=1"], 2, 1e-9)):
            got = run(SMALL, *words, *more, ranks=ranks)
            self.assertLess(np.abs(got.quantity("STREHL") - want.quantity("STREHL")).max(), most, more)
        about = run(SMALL, *words[:-1], "loop.lags=equivalent")
        gap = terms(about)["TOTAL"] / terms(want)["TOTAL"] - 1
        print("equivalent delay of %.2f ms: %s %% of the wavefront error" % (1e3 * header(about)["LOOPDEL"], (100 * gap).round(3)))
        self.assertLess(np.abs(gap).max(), 0.02)
        self.assertGreater(np.abs(gap).max(), 1e-6)

    def test_refusals(self):
        """What no loop can be, with the key; what it comes to is told."""
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, "case.yaml")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(SMALL, f)
            closed = loop("integrator", 0.5, 2, 500)
            for words, told in ((["loop.gain=0.3"], "loop.gain: of a closed loop, with loop.type: open"),
                                (closed + ["loop.gain=1.2"], "loop.gain: a gain of 1.2 over 2 frames is not stable, expected less than 1"),
                                (closed + ["loop.gain=nan"], "loop.gain: nan is no gain"), (closed + ["loop.gain=3"], "loop.gain: 3 is no gain"),
                                (closed + ["loop.gain=best"], "or optimal"), (["loop.gain=optimal"], "with loop.type: open"),
                                (closed + ["loop.gain=1e-4"], "remembers more than"), (closed + ["loop.rate=0"], "loop.rate"),
                                (closed + ["loop.rate=nan"], "loop.rate"), (closed + ["loop.frames=0.5"], "loop.frames"),
                                (closed + ["loop.delay=2 ms"], "loop.delay: with loop.type: integrator"),
                                (closed + ["sensors.*.delay=2 ms"], "which has one delay for all sensors"),
                                (closed[:3] + ["sensors[0].frame_time=1 ms"], "loop.rate: missing, and the sensors have frames of 1 and 4 ms"),
                                (closed + ["mode=moao"], "integrator with mode: moao"),
                                (closed + ["compute.backend=gpu"], "computed on CPUs")):
                p = moao("check" if "gpu" not in words[-1] else "run", path, *words, check=False)
                self.assertEqual(p.returncode, 2, words)
                self.assertIn(told, p.stderr)
            told = " ".join(moao("check", path, *closed).stdout.split())
            self.assertIn("integrator, gain 0.5 (stable below 1), 2 frames at 500 Hz: commands have 0.6", told)


class Edges(unittest.TestCase):
    def test_smallest(self):
        """One subaperture, fewer measurements than commands, layers of every kind of wind: results are numbers."""
        c = {**SCAO, "telescope": {"diameter": 1, "obscuration": 0}, "dm": {"nssp": 2}}
        for nssp, slope in ((1, "gradient"), (1, "points"), (2, "points")):
            c["sensors"] = [{"type": "ngs", "nssp": nssp, "noise_variance": 1e-3, "direction": [0, 0], "slope": slope}]
            r = run(c, *loop("integrator", 0.3, 2, 1000))
            self.assertTrue(np.isfinite(terms(r)["TOTAL"]).all() and (r.quantity("STREHL") > 0).all())
            fast = run(c, *loop("leaky", 0.3, 20, 10), "atmosphere.profiles[0].layers.wind_speed=100")
            self.assertGreater(terms(fast)["TOTAL"][0], terms(r)["TOTAL"][0])


if __name__ == "__main__":
    unittest.main()
