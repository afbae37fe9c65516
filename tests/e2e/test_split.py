"""A common mirror in closed loop and one for each target (mode: split): published numbers of an independent computation, drawn phase
screens in which the loop is iterated, identities."""
# seconds: 30
import json
import math
import os
import tempfile
import unittest

import numpy as np

from mirrors_reference import Mirror, Split
from moao_case import moao, relative
from test_loop import loop, terms
from test_mirrors import LAYERS, case, header, ring, rms, run, run_text

FLOW = [(10, 0), (5, 15), (20, 10)]                         # m/s
WIND = {"wind_speed": [math.hypot(*v) for v in FLOW], "wind_direction": [math.degrees(math.atan2(v[1], v[0])) for v in FLOW]}
PROFILE = {**LAYERS, "layers": {**LAYERS["layers"], **WIND}}
TARGETS = [(10, 5)]


def split(mirrors=(), diameter=4, nssp=8, sensors=None, targets=None, **more):
    return case(diameter, nssp, sensors or ring(4, 30, 45, 8), targets or TARGETS, mode="split", profile=PROFILE,
                mirrors={"for": ["common", "target"], "pitch": [0.8, 0.5], **dict(mirrors)}, **more)


# small: the common mirror is below the pupil and coarse; a laser star
LITTLE = {"diameter": 2, "nssp": 4, "sensors": ring(2, 25, 20, 4) + ring(1, 18, 250, 4, 1e-4, type="lgs", altitude=90000, lgs_depth=0),
          "targets": [(0, 0), (13, -6)], "optimise": {"list": [[0, 0], [20, 5]], "weights": [1, 2]}}
GROUND = {"pitch": [0.75, 0.5], "altitude": [-300, 0], "diameter": [2.25, 2], "coupling": [0.3, 0.2], "delay": [0.006, 0.003]}


class Values(unittest.TestCase):
    def test_true_values(self):
        """4 m, 4 NGS of 8 at 30 arcsec, common mirror of 0.8 m (GLAO), MOAO of 0.5 m: wavefront errors [nm] to 0.5 %."""
        both = [0.006, 0.003]
        cases = [("common alone", case(4, 8, ring(4, 30, 45, 8), TARGETS, mode="glao", mirrors={"altitude": 0, "pitch": 0.8}), 275.32),
                 ("MOAO alone", case(4, 8, ring(4, 30, 45, 8), TARGETS, reconstructor={"fit": "phase"}), 153.98),
                 ("split", split(), 154.04),
                 ("residual slopes", split(split={"slopes": "residual"}), 157.36),
                 ("6 and 3 ms, known", split({"delay": both}), 157.78),
                 ("6 and 3 ms, unknown", split({"delay": both}, split={"common": "unknown"}), 161.97),
                 ("6 and 6 ms", split({"delay": 0.006}), 167.08)]
        for name, c, true in cases:
            r = run(c)
            got = rms(r)[0]
            print("%-20s %.2f nm, true %.2f" % (name, got, true))
            self.assertLess(abs(got / true - 1), 0.005, name)
        self.assertEqual([header(r, k) for k in ("MODE", "FIT", "NMIRROR", "MIRPIT1", "MIRPIT2", "COMDEL", "LOOPDEL", "SPLSLOPE",
                                                 "SPLKNOWN", "NSENSOR")],
                         ["split", "phase", 2, 0.8, 0.5, 0.006, 0.006, "pseudo_open", "known", 4])

    def test_screens(self):
        """Slopes behind a common mirror that is not where its model has it, two delays, cone effect: the loop iterated on 1,200 drawn
        instants, within 4 standard errors, which are below 2 %."""
        away = {"shift": [0.1, -0.05], "rotation": 4, "scale": 1.03}
        truth = Split(split(**LITTLE), Mirror(3, 0.75, -300., 0.3), Mirror(4, 0.5, 0., 0.2), [((0, 0), 1.), ((20, 5), 2.)],
                      GROUND["delay"], (away["shift"], away["rotation"], away["scale"]))
        instants = truth.instants(1, 1200, 20261127)
        seen = []
        for keys in ({}, {"common": "unknown"}, {"slopes": "residual"}):
            got = rms(run(split(GROUND, **LITTLE, split={**away, **keys})))[1]
            phase = truth.draw(1, instants, "common" not in keys, "slopes" in keys)
            square = ((phase - phase.mean(axis=0)) ** 2).mean(axis=0)
            mean, error = square.mean(), square.std() / math.sqrt(len(square))
            print("%-24s %.2f nm, drawn %.2f +- %.2f" % (keys, got, 1e9 * math.sqrt(mean), 1e9 * error / 2 / math.sqrt(mean)))
            self.assertLess(error / mean, 0.02)
            self.assertLess(abs((got * 1e-9) ** 2 - mean), 4 * error)
            seen.append(got)
        placed = rms(run(split(GROUND, **LITTLE)))[1]
        self.assertGreater(seen[0] / placed, 1.02)
        self.assertGreater(min(abs(a / b - 1) for a, b in ((seen[0], seen[1]), (seen[0], seen[2]))), 0.01)


# two natural stars, layers at two altitudes
AIR = {"r0": 0.15, "layers": {"altitude": [0, 6000], "fraction": [0.6, 0.4], "L0": 25, "wind_speed": [14, 25], "wind_direction": [20, 110]}}
FEW = {**LITTLE, "sensors": ring(2, 25, 20, 4, 2e-3)}
SHAPES = {k: v for k, v in GROUND.items() if k != "delay"}


def closed(kind, gain, frames, rate, late=None, leak=1):
    return loop(kind, gain, frames, rate) + ([] if late is None else ["loop.target.frames=%g" % late]) + ["loop.target.gain=%g" % leak]


class Closed(unittest.TestCase):
    def test_by_frames(self):
        """The common loop runs frame by frame on residual slopes of drawn screens, a target's commands have earlier frames: within 4 standard
        errors, which are below 2 %; with a model error of the common mirror, within 2 % of the wavefront error more."""
        c = {**split(SHAPES, **FEW), "atmosphere": {"profiles": [AIR]}}
        wide = list(zip(FEW["optimise"]["list"], FEW["optimise"]["weights"]))
        variants = {(True, False): {}, (False, False): {"common": "unknown"}, (False, True): {"slopes": "residual"}}
        for away, placed, frames, late, leak in (({}, ((0., 0.), 0., 1.), 2, 3, 1), ({"shift": [0.1, 0], "rotation": 3}, ((0.1, 0.), 3., 1.), 1, 2, 0.6)):
            truth = Split(c, Mirror(3, 0.75, -300., 0.3), Mirror(4, 0.5), wide, [0, 0], placed, per_pitch=3)
            some = [v for v in variants if not (away and v[1])]
            for v, phase in zip(some, truth.by_frames(1, 1200, 20261127, 18, 200, (0.4, frames), (late, leak), some)):
                got = rms(run({**c, "split": {**away, **variants[v]}}, *closed("integrator", 0.4, frames, 200, late, leak)))[1]
                square = ((phase - phase.mean(axis=0)) ** 2).mean(axis=0)
                mean, error = square.mean(), square.std() / math.sqrt(len(square))
                print("%-50s %.2f nm, by frames %.2f +- %.2f" % ({**away, **variants[v]}, got, 1e9 * math.sqrt(mean),
                                                               1e9 * error / 2 / math.sqrt(mean)))
                self.assertLess(error / mean, 0.02)
                self.assertLess(abs((got * 1e-9) ** 2 - mean), 4 * error + (0.04 * mean if away else 0))
                still = rms(run({**c, "split": {**away, **variants[v]}}))[1]
                self.assertGreater(abs((still * 1e-9) ** 2 - mean), 20 * error)

    def test_identities(self):
        """Two mirrors of the same actuators: MOAO with the target's filter, its noise too, whose common frames cancel. Gain 1 of a leaky
        loop: the two delays of an open one. Without wind noise alone changes. Ranks, a run that is started from its effective.yaml."""
        c = {**LITTLE, "sensors": ring(2, 25, 20, 4) + [{k: v for k, v in s.items() if k not in ("noise_variance", "lgs_depth")} | {"lgs_return": 5e5}
                                                        for s in ring(1, 18, 250, 4, type="lgs", altitude=90000)]}
        terms_ = {"output": {"psf": "none", "budget": "terms"}}
        single = {k: c[k] for k in ("diameter", "nssp", "sensors", "targets")}
        alone = run({**case(**single, profile=PROFILE, reconstructor={"fit": "phase"}), **terms_}, *loop("leaky", 0.7, 3, 300))
        same = run({**split({"pitch": 0.5}, **c), **terms_}, *closed("integrator", 0.4, 2, 300, 3, 0.7))
        self.assertLess(relative(same.quantity("VARIANCE"), alone.quantity("VARIANCE")), 1e-9)
        for k in ("NOISE", "STAR"):
            np.testing.assert_allclose(same.table("TARGETS")["WFE_%s_LONG" % k], alone.table("TARGETS")["WFE_%s_LONG" % k], rtol=1e-6)
        for keys in ({}, {"common": "unknown"}, {"slopes": "residual"}):
            # residual slopes are not the same: in an open loop they have no delay of the common mirror
            for of, first, second in () if "slopes" in keys else ((LITTLE, 2, 1), (LITTLE, 1, 1)):
                two = run(split({**GROUND, "delay": [first / 250, second / 250]}, **of, split=keys))
                one = run(split(SHAPES, **of, split=keys), *closed("leaky", 1, first, 250, second))
                self.assertLess(relative(one.quantity("VARIANCE"), two.quantity("VARIANCE")), 1e-9)
            calm = {**split(SHAPES, **LITTLE, split=keys), "atmosphere": {"profiles": [LAYERS]}, **terms_}
            a, b = run(calm), run(calm, *closed("integrator", 0.5, 2, 500))
            for k in ("TOMO", "FIT", "LAG"):
                np.testing.assert_allclose(terms(b)[k], terms(a)[k], atol=1e-5)
            np.testing.assert_allclose((b.table("TARGETS")["WFE_STAR_LONG"] ** 2).sum(axis=-1), b.table("TARGETS")["WFE_NOISE_LONG"] ** 2, rtol=1e-6)
            self.assertGreater(relative(b.quantity("VARIANCE"), a.quantity("VARIANCE")), 1e-4)
        words = closed("integrator", 0.5, 2, 400, 3)
        wind = split(SHAPES, **LITTLE, split=keys)
        one, other = run(wind, *words), run(wind, *words, "compute.targets_per_chunk=1", ranks=2)
        self.assertLess(relative(other.quantity("VARIANCE"), one.quantity("VARIANCE")), 1e-9)
        with open(one.path("effective.yaml"), encoding="utf-8") as f:
            self.assertLess(relative(run_text(f.read()).quantity("VARIANCE"), one.quantity("VARIANCE")), 1e-12)
        self.assertEqual([header(one, k) for k in ("LOOP", "LOOPFRMS", "TARFRMS", "TARGAIN", "SPLSLOPE")], ["integrator", 2, 3, 1, "residual"])

    def test_optimal(self):
        """The gain of the common loop that is found, and vibrations by what is left of both mirrors."""
        c = {**split(SHAPES, **FEW, split={"slopes": "residual"}), "atmosphere": {"profiles": [AIR]}}
        words = closed("integrator", 0.5, 2, 200, 3) + ["output.budget=none"]
        best = run(c, *words, "loop.gain=optimal")
        gain, least = header(best, "LOOPGAIN"), best.quantity("VARIANCE")[:, 0, 0].mean()
        for other in (0.85, 1.15):
            self.assertGreater(run(c, *words, "loop.gain=%.6f" % (other * gain)).quantity("VARIANCE")[:, 0, 0].mean(), least * (1 + 1e-5))
        self.assertLess(relative(run(c, *words, "loop.gain=%.6f" % gain).quantity("VARIANCE"), best.quantity("VARIANCE")), 1e-9)
        z = np.exp(-2j * math.pi * 10 / 200)                    # of a line of 10 Hz
        first, late, box = 0.5 * z ** 2 / (1 - z + 0.5 * z ** 2), z ** 3, np.sinc(10 / 200)
        for keys, h in ((["split.slopes=residual"], 1 - (1 - first) * (1 - late)), ([], late), (["split.common=unknown"], first)):
            told = moao("check", self.file({**c, "errors": {"vibrations": {"frequency": [10], "x": [6], "y": [8]}}}), *words,
                        "split.slopes=pseudo_open", *keys).stdout
            got = " ".join(told.split()).split("6 x 8 mas rms, of which the loop leaves ")[1].split()
            share = math.sqrt(1 - box ** 2 * (2 * h.real - abs(h) ** 2))
            np.testing.assert_allclose([float(got[0]), float(got[2])], [6 * share, 8 * share], rtol=2e-3)

    def file(self, c):
        tmp = tempfile.TemporaryDirectory()
        self.addCleanup(tmp.cleanup)
        path = os.path.join(tmp.name, "case.yaml")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(c, f)
        return path

    def test_refusals(self):
        """What does not go together, with the key, in one line; what is told."""
        path, words = self.file(split(SHAPES, **LITTLE)), closed("integrator", 0.5, 2, 500, 3)
        for more, told in ((["mirrors.delay=3 ms"], "mirrors.delay: with loop.type: integrator"), (["loop.target.gain=0"], "loop.target.gain"),
                           (["loop.target.gain=1.5"], "loop.target.gain"), (["loop.target.frames=0.5"], "loop.target.frames"),
                           (["loop.type=open"], "loop.target.frames: of the mirrors of targets"),
                           (["loop.delay=1 ms"], "loop.delay: with loop.type: integrator"),
                           (["split.shift=[0.1, 0]", "split.slopes=residual"], "split.slopes: residual with loop.type: integrator"),
                           (["compute.backend=gpu"], "computed on CPUs")):
            p = moao("check", path, *words, *more, check=False)
            self.assertEqual((p.returncode, len(p.stderr.strip().splitlines())), (2, 1), p.stderr)
            self.assertIn(told, p.stderr)
        told = " ".join(moao("check", path, *words, "loop.target.gain=0.5").stdout.split())
        for some in ("2 directions, in closed loop", "3 frames old, leaky with gain 0.5", "integrator, gain 0.5 (stable below 1), 2 frames at 500 Hz"):
            self.assertIn(some, told)


class Identities(unittest.TestCase):
    def test_identities(self):
        """Two mirrors of the same actuators: MOAO, whatever the common one's delay where its commands are known. The order of mirrors and
        the mirror of dm in place of the second change nothing, ranks nothing but rounding."""
        both = {"delay": [0.006, 0.003]}
        single = {k: LITTLE[k] for k in ("diameter", "nssp", "sensors", "targets")}
        alone = run(case(**single, profile=PROFILE, reconstructor={"fit": "phase"}, loop={"delay": 0.003}))
        for keys, delay in (({}, [0.006, 0.003]), ({"common": "unknown"}, 0.003)):
            r = run(split({"pitch": 0.5, "delay": delay}, **LITTLE, split=keys))
            self.assertLess(relative(r.quantity("VARIANCE"), alone.quantity("VARIANCE")), 1e-9)
        one = run(split(both, **LITTLE))
        turned = run(split({"for": ["target", "common"], "pitch": [0.5, 0.8], "delay": [0.003, 0.006]}, **LITTLE))
        of_dm = run(split({"for": ["common"], "pitch": 0.8, "delay": 0.006}, **LITTLE, loop={"delay": 0.003}))
        for other in (turned, of_dm):
            self.assertLess(relative(other.quantity("VARIANCE"), one.quantity("VARIANCE")), 1e-9)
        self.assertGreater(relative(alone.quantity("VARIANCE"), one.quantity("VARIANCE")), 1e-3)
        away = {"shift": [0.1, 0], "rotation": 2}
        for keys in (away, {**away, "slopes": "residual"}):
            alone = run(split(GROUND, **LITTLE, split=keys), "compute.verify=full")
            for ranks, words in ((3, ["compute.targets_per_chunk=1"]),):
                other = run(split(GROUND, **LITTLE, split=keys), "compute.verify=full", *words, ranks=ranks)
                self.assertLess(relative(other.quantity("VARIANCE"), alone.quantity("VARIANCE")), 1e-9)

    def test_budget(self):
        """Two mirrors of the same actuators have the terms of MOAO. With two delays, what a star's noise does by both mirrors counts."""
        single = {k: LITTLE[k] for k in ("diameter", "nssp", "sensors", "targets")}
        terms = {"output": {"psf": "none", "budget": "terms"}}
        alone = run({**case(**single, profile=PROFILE, reconstructor={"fit": "phase"}, loop={"delay": 0.003}), **terms}).table("TARGETS")
        names = ["WFE_%s_LONG" % k for k in ("TOTAL", "NOISE", "FIT", "LAG", "TOMO", "STAR")]
        for delay in (0.003, [0.006, 0.003]):
            r = run({**split({"pitch": 0.5, "delay": delay}, **LITTLE), **terms}).table("TARGETS")
            for k in names:
                gap = np.abs(r[k] / alone[k] - 1).max() # with two delays the lag is not from some points alone
                self.assertLess(gap, 1e-2 if k in names[3:5] and delay != 0.003 else 1e-4, (k, delay, r[k], alone[k]))
        r = run({**split({"delay": [0.006, 0.003]}, **LITTLE, split={"common": "unknown"}), **terms}).table("TARGETS")
        self.assertLess(np.abs((r["WFE_STAR_LONG"] ** 2).sum(axis=-1) / r["WFE_NOISE_LONG"] ** 2 - 1).max(), 1e-5)
        squares = sum(r[k] * abs(r[k]) for k in names[1:5])
        self.assertLess(np.abs(squares / r["WFE_TOTAL_LONG"] ** 2 - 1).max(), 1e-5)
        self.assertGreater((r["WFE_NOISE_LONG"] / alone["WFE_NOISE_LONG"]).min(), 1.05)

    def test_small(self):
        """Fewer measurements than commands; mirrors of four actuators; one target and one star."""
        for nssp, pitch, stars in ((4, [1, 0.5], ring(1, 10, 0, 1)), (2, [1, 1], ring(1, 0, 0, 2)), (2, [2, 1], ring(3, 30, 0, 1))):
            for keys in ({}, {"slopes": "residual", "shift": [0.05, 0]}):
                r = run(split({"pitch": pitch, "delay": [0.004, 0.002]}, 2, nssp, stars, split=keys))
                still = run(case(2, nssp, stars, TARGETS, profile=PROFILE, reconstructor={"fit": "phase"}, loop={"delay": 0.004}))
                self.assertTrue(np.isfinite(r.quantity("STREHL")).all())
                self.assertLess(rms(r)[0] / rms(still)[0], 1.2)

    def test_refusals(self):
        """What does not go together, with the key, in one line."""
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, "case.yaml")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(split(GROUND, **LITTLE), f)
            for word, told in (("mode=moao", "mirrors.for: of mode: split"), ("mode=glao", "mirrors.for: of mode: split"),
                               ("mirrors.for=[target]", "expected [common, target]"), ("mirrors.for=[]", "expected [common, target]"),
                               ("mirrors.for=[common, common]", "expected [common, target]"),
                               ("mirrors.altitude=[0, 500]", "the mirror of a target is on the pupil"),
                               ("mirrors.delay=[1ms, 2ms, 3ms]", "3 numbers for 2 mirrors"), ("mirrors.delay=nan", "mirrors.delay"),
                               ("split.shift=[nan, 0]", "split.shift"), ("split.scale=0", "split.scale"),
                               ("compute.precision=mixed", "mixed with mode: split"), ("compute.product=fp16", "fp16 with mode: split"),
                               ("compute.product=toeplitz", "toeplitz with mode: split"),
                               ("compute.factor=tlr", "tlr with mode: split"), ("compute.backend=gpu", "computed on CPUs alone"),
                               ("reconstructor.fit=slopes", "slopes with mode: split")):
                p = moao("check", path, word, check=False)
                self.assertEqual(p.returncode, 2, word + p.stdout)
                self.assertIn(told, p.stderr)
                self.assertEqual(len(p.stderr.strip().splitlines()), 1, p.stderr)
            p = moao("check", path, "split.rotation=1", check=True)
            for told in ("6 ms old", "3 ms old", "sensors see the common mirror at (0, 0) m, 1 deg"):
                self.assertIn(told, " ".join(p.stdout.split()))


if __name__ == "__main__":
    unittest.main()
