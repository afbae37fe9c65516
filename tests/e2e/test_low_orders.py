"""Stars for low orders (low_order, loop.low): published numbers of an independent computation, control laws written down with numpy, two
loops of different rates frame by frame on drawn phase screens, identities, vibrations, what is refused."""
# seconds: 30
import json
import math
import os
import tempfile
import unittest

import numpy as np
from astropy.io import fits

import outlines
from mirrors_reference import LowOrders, Mirror
from moao_case import moao, relative
from reference import ARCSEC
from test_loop import loop, terms
from test_mirrors import LAYERS, case, ring, rms, run
from truth_reference import half_structure

FLOW = {**LAYERS, "layers": {**LAYERS["layers"], "wind_speed": [8, 12, 20], "wind_direction": [10, 70, 120]}}
STAR = {"low_order": True, "name": "TT"}


def low(kind, gain, frames, rate):
    return [w.replace("loop.", "loop.low.", 1) for w in loop(kind, gain, frames, rate)]


def cards(r):
    with fits.open(r.path("maps.fits")) as f:
        return dict(f[0].header)


# 4 laser stars, a tip-tilt star of 2 x 2
LASERS = ring(4, 20, 45, 10, type="lgs", altitude=90000, lgs_depth=0, tiptilt_variance=1000)
TIPTILT = case(8, 10, LASERS + ring(1, math.hypot(15, 5), math.degrees(math.atan2(5, 15)), 2, 1e-4, **STAR), mode="ltao")
SMALL = case(3, 5, ring(1, 0, 0, 5, 2e-3) + ring(1, 15, 130, 4, type="lgs", altitude=90000, lgs_depth=0, tiptilt_variance=50)
             + ring(1, 20, 30, 2, 1e-3, **STAR), [(0, 0), (9, -4)], 0.2, FLOW, mode="glao", optimise={"list": [[0, 0], [12, 5]]})
WIDE = case(4, 6, ring(3, 30, 0, 6, type="lgs", altitude=90000, lgs_depth=0, tiptilt_variance=50)
            + ring(3, 40, 60, 2, 1e-4, low_order=True), [(0, 0), (20, 8)], 0., FLOW, mode="mcao",
            optimise={"list": [[0, 0], [25, 0], [-12, 20], [-12, -20]]}, mirrors={"altitude": [0, 8000], "pitch": [0.7, 1.0],
                                                                                 "diameter": [4.2, 6]})


class Static(unittest.TestCase):
    def test_true_values(self):
        """8 m, 4 laser stars at 20 arcsec and a natural one of 2 x 2: wavefront error to 0.5 %, Strehl ratio at 1.65 um."""
        for control, true in (("joint", 244.64), ("split", 244.99), ("independent", 388.95)):
            r = run(TIPTILT, "loop.low.control=" + control)
            print("%-12s %.2f nm, true %.2f" % (control, rms(r)[0], true))
            self.assertLess(abs(rms(r)[0] / true - 1), 0.005)
        self.assertEqual([cards(r).get(k) for k in ("LONSTAR", "LOCTRL", "LOMODES", "LOLOOP", "LOGAIN")],
                         [1, "independent", "tiptilt", "loop", None])

    def test_control(self):
        """Split, cascade and independent against inverses of their own: 0.5 % of the wavefront error; several mirrors, ranks."""
        wide = [Mirror(6, 0.7), Mirror(6, 1., 8000.)]
        for c, stars, modes, mirrors in ((SMALL, [2], "focus", None), (WIDE, [3, 4, 5], "all", wide)):
            directions = [(d, 1.) for d in c["optimise"]["list"]]
            all_ = []
            for control in ("split", "cascade", "independent") if c is SMALL else ("split", "cascade"):
                truth = LowOrders(c, "points", stars, control, modes, mirrors=mirrors, directions=directions)
                r = run(c, "loop.low.control=" + control, "loop.low.modes=" + modes, ranks=2 if control == "cascade" else 1)
                for t, got in enumerate(rms(r)):
                    true = 1e9 * truth.rms(t)
                    print("%s, %s, target %d: %.2f nm, true %.2f" % (c["mode"], control, t, got, true))
                    self.assertLess(abs(got / true - 1), 0.005)
                all_.append(rms(r)[0])
            self.assertGreater(np.ptp(all_), 0.02 * all_[0])          # they differ


    def test_device(self):
        """With a device's memory and the host's, and checked by the run: the same to rounding."""
        for control in ("split", "cascade", "independent"):
            words = ["loop.low.control=" + control, "loop.low.modes=focus", "output.budget=none"]
            other = run(SMALL, *words, "compute.verify=full", env={"MOAO_RESIDENT_BACKEND": "cpu"})
            self.assertLess(relative(other.quantity("VARIANCE"), run(SMALL, *words).quantity("VARIANCE")), 1e-9)


class Loops(unittest.TestCase):
    def test_identities(self):
        """The same loop twice is one loop; gain 1 of leaky ones are the pure delays of sensors; without wind noise alone changes."""
        one = loop("integrator", 0.4, 1.5, 300)
        self.assertLess(relative(run(SMALL, *one, *low("integrator", 0.4, 1.5, 300)).quantity("VARIANCE"),
                                 run(SMALL, *one).quantity("VARIANCE")), 1e-9)
        for slope in ("points", "gradient"):
            c = {**SMALL, "sensors": [{**s, "slope": slope} for s in SMALL["sensors"]]}
            own = run(c, "loop.delay=4 ms", "sensors[2].delay=10 ms", "sensors[2].frame_time=4 ms")
            for more in ([], ["loop.lags=equivalent"]) if slope == "points" else ([],):
                two = run(c, *loop("leaky", 1, 2, 500), *low("leaky", 1, 6, 500), *more)
                self.assertLess(relative(two.quantity("VARIANCE"), own.quantity("VARIANCE")), 1e-9)
            self.assertGreater(relative(run(c, "loop.delay=4 ms").quantity("VARIANCE"), own.quantity("VARIANCE")), 1e-4)
        calm = "atmosphere.profiles[0].layers.wind_speed=0"
        a, b = run(SMALL, calm), run(SMALL, calm, *one, *low("integrator", 0.5, 2, 100))
        np.testing.assert_allclose(terms(b)["LAG"], terms(a)["LAG"], atol=1e-6)
        self.assertEqual([cards(b)[k] for k in ("LOLOOP", "LOGAIN", "LOFRMS", "LORATE")], ["integrator", 0.5, 2, 100])
        left = [cards(b)["LOOPNOIS"]] * 2 + [cards(b)["LONOIS"]]
        for k, share in enumerate(left):
            np.testing.assert_allclose(b.table("TARGETS")["WFE_STAR_LONG"][:, k], math.sqrt(share) * a.table("TARGETS")["WFE_STAR_LONG"][:, k], rtol=1e-9)

    def test_frame_by_frame(self):
        """A slow loop of the tip-tilt star, four fast frames averaged and held, behind a fast one: 48 frames on drawn screens, within 4
        standard errors, which are below 2 %; mean over the four frames of the slow one."""
        layer = {"r0": 0.15, "layers": {"altitude": [3000], "fraction": [1], "L0": 25, "wind_speed": [12], "wind_direction": [25]}}
        c = case(2, 4, ring(1, 0, 0, 4, 2e-3) + ring(1, 25, 60, 2, 2e-3, **STAR), [(0, 0)], 0., layer, mode="ltao")
        count, held, rate, nframe, gains, frames = 1000, 4, 200, 48, (0.4, 0.5), (2, 1)
        got = run(c, *loop("integrator", gains[0], frames[0], rate), *low("integrator", gains[1], frames[1], rate / held))
        truth = LowOrders(c, "points", [1], "split", directions=[((0, 0), 1.)], per_pitch=4)
        air, x, W = truth.layers[0], truth.x, truth.reconstructor(0)
        nodes = [v.nodes(8) for v in truth.sensors]
        parts = [x - air.wind * k / rate for k in range(held)]        # the last slow frame of commands
        for k in range(nframe):                                       # age of frame k at its first one
            parts += [v.on_layer(n[0], air.altitude) + air.wind * (nframe - held - k) / rate for v, n in zip(truth.sensors, nodes)]
        at, p = np.cumsum([0] + [len(q) for q in parts]), np.concatenate(parts)
        rng = np.random.default_rng(20261127)
        C = half_structure(p, p, air)
        screen = np.linalg.cholesky(C - 1.01 * C.min() + 1e-12 * abs(C.min()) * np.eye(len(p))) @ rng.standard_normal((len(p), count))

        def slopes(k, w):
            (_, weight, first), values = nodes[w], ARCSEC * screen[at[held + 2 * k + w]:][:len(nodes[w][0])]
            return np.concatenate([outlines.sums(values * weight[:, a:a + 1], first, 0) for a in (0, 1)])

        def noise(like, share=1):
            return math.sqrt(2e-3) * rng.standard_normal(like.shape) * share

        fast, slow, means, square = [np.zeros((len(W), count))] * 2, [np.zeros((len(W), count))], [], []
        for k in range(nframe):
            applied = fast[-frames[0]]                                # of this frame; the recursion adds to it
            s = slopes(k, 0)
            if k >= nframe - held:
                phase = screen[at[k - nframe + held]:][:len(x)] - truth.shapes(x, (0, 0)) @ (applied + slow[-1])
                square.append(((phase - phase.mean(axis=0)) ** 2).mean(axis=0))
            fast.append(fast[-1] + gains[0] * (W[:, ~truth.low] @ (s + noise(s)) - applied))
            means.append(slopes(k, 1))
            if k % held == held - 1:
                s = np.mean(means[-held:], axis=0)
                slow.append(slow[-1] + gains[1] * (W[:, truth.low] @ (s + noise(s)) - slow[-1]))
        square = np.mean(square, axis=0)
        mean, error, moao_ = square.mean(), square.std() / math.sqrt(count), (1e-9 * terms(got)["TOTAL"][0]) ** 2
        print("%.2f nm, frame by frame %.2f +- %.2f" % (1e9 * math.sqrt(moao_), 1e9 * math.sqrt(mean), 1e9 * error / 2 / math.sqrt(mean)))
        self.assertLess(error / mean, 0.02)
        self.assertLess(abs(moao_ - mean), 4 * error)
        for other in (loop("integrator", gains[0], frames[0], rate), [*loop("integrator", gains[0], frames[0], rate),
                                                                       *low("integrator", gains[1], frames[1], rate)]):
            self.assertGreater(abs((1e-9 * terms(run(c, *other))["TOTAL"][0]) ** 2 - mean), 6 * error)

    def test_optimal(self):
        """A gain for the stars of low orders and one for the rest: other gains have more variance; alone, either is found too."""
        c = {**SMALL, "targets": {"list": [[0, 0]]}}
        rates = ["loop.rate=400", "loop.low.rate=100", "output.budget=none"]
        words = loop("integrator", 0.5, 2, 400)[:1] + low("integrator", 0.5, 2, 100)[:1] + rates
        best = run(c, *words, "loop.gain=optimal", "loop.low.gain=optimal")
        gains, least = [cards(best)[k] for k in ("LOOPGAIN", "LOGAIN")], best.quantity("VARIANCE")[0, 0, 0]
        said = best.process.stdout + best.process.stderr
        self.assertIn("optimal: integrator, gain %.4g (stable below 1)" % gains[0], said)
        self.assertIn("optimal, low orders: integrator, gain %.4g (stable below 1)" % gains[1], said)
        for a, b in ((0.8, 1), (1.25, 1), (1, 0.8), (1, 1.25)):
            other = run(c, *words, "loop.gain=%.6f" % (a * gains[0]), "loop.low.gain=%.6f" % (b * gains[1]))
            self.assertGreater(other.quantity("VARIANCE")[0, 0, 0], least * (1 + 1e-6))
        one = run(c, *words, "loop.gain=%.6f" % gains[0], "loop.low.gain=optimal")
        self.assertEqual(cards(one)["LOOPGAIN"], round(gains[0], 6))
        self.assertAlmostEqual(cards(one)["LOGAIN"], gains[1], delta=0.01)

    def test_vibrations(self):
        """What a loop leaves of a line, against frames that average the motion and hold the command; of a spectrum, the sum of lines."""
        def left(kind, gain, frames, rate, frequency, fine=40, n=1500):
            at = (np.arange(n * fine) + 0.5) / fine / rate
            motion = np.exp(2j * math.pi * frequency * at).reshape(n, fine)
            u, mirror, power = np.zeros(n + frames, complex), 0., 0.
            for k in range(n):
                mirror = u[k - frames] if k >= frames else 0.
                seen = motion[k].mean()                               # pseudo-open-loop
                u[k] = (u[k - 1] + gain * (seen - mirror)) if kind == "integrator" else (1 - gain) * u[k - 1] + gain * seen
                power += (abs(motion[k] - mirror) ** 2).mean() * (k >= n // 2)
            return math.sqrt(power / (n - n // 2))

        c = {**SMALL, "errors": {"vibrations": {"frequency": [13], "x": [6], "y": [8]}}}
        slow, fast = ("integrator", 0.3, 2, 100), ("leaky", 0.6, 1, 500)
        for words, of in (([*loop(*slow)], slow), ([*loop(*fast)], fast), ([*loop(*fast), *low(*slow)], slow),
                          ([*loop(*slow), *low(*fast)], fast)):
            share = left(*of, 13)
            for how in ("auto", "loop") if of is fast else ("auto",):
                with tempfile.TemporaryDirectory() as tmp:
                    with open(os.path.join(tmp, "c.yaml"), "w", encoding="utf-8") as f:
                        json.dump(c, f)
                    told = " ".join(moao("check", f.name, *words, "errors.rejection=" + how).stdout.split())
                got = told.split("6 x 8 mas rms, of which the loop leaves ")[1].split()
                np.testing.assert_allclose([float(got[0]), float(got[2])], [6 * share, 8 * share], rtol=2e-3)
        with tempfile.TemporaryDirectory() as tmp:
            path, spectrum = os.path.join(tmp, "c.yaml"), os.path.join(tmp, "s.txt")
            with open(spectrum, "w", encoding="utf-8") as f:
                f.write("5 2\n40 2\n")                                # mas2/Hz
            with open(path, "w", encoding="utf-8") as f:
                json.dump({**SMALL, "errors": {"jitter_psd": "s.txt"}}, f)
            want = math.sqrt(np.mean([left(*slow, f) ** 2 for f in np.linspace(5, 40, 71)[::2]]) * 70)
            told = " ".join(moao("check", path, *loop(*slow)).stdout.split())
            got = float(told.split("of which the loop leaves ")[1].split()[0])
            self.assertLess(abs(got / want - 1), 0.01)
            told = moao("check", path, *loop(*slow), "loop.gain=optimal", check=False)
            self.assertEqual((told.returncode, "optimal with spectra of motion" in told.stderr), (2, True))
            for more, said in ((["errors.rejection=loop"], "errors.rejection: loop with loop.type: open"),):
                told = moao("check", path, *more, check=False)
                self.assertEqual((told.returncode, said in told.stderr), (2, True), told.stderr)

    def test_refusals(self):
        """What cannot be, with the key; what it comes to is told."""
        with tempfile.TemporaryDirectory() as tmp:
            path = os.path.join(tmp, "case.yaml")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(SMALL, f)
            closed, own = loop("integrator", 0.5, 2, 500), low("integrator", 0.5, 2, 100)
            for words, told in ((own, "loop.low.type: a closed loop with loop.type: open"),
                                (closed + own[:1] + ["loop.low.rate=150"], "loop.low.rate: 150 Hz with a loop.rate of 500 Hz"),
                                (closed + own + ["loop.low.gain=1.1"], "loop.low.gain: a gain of 1.1 over 2 frames is not stable"),
                                (closed + own + ["loop.low.gain=best"], "loop.low.gain: best is no gain"),
                                (closed + own + ["loop.low.gain=0.01", "loop.rate=5000"], "frames of the faster loop, more than"),
                                (closed + ["loop.low.rate=100"], "with loop.low.type: loop"),
                                (closed + ["loop.low.gain=0.3"], "with loop.low.type: loop"),
                                (["loop.low.modes=plate_scale"], "plate scale without several mirrors"),
                                (["sensors.*.low_order=true"], "all are for low orders"),
                                (["sensors.*.low_order=false", "loop.low.control=cascade"], "without a star for low orders"),
                                (["compute.factor=tlr"], "tlr with loop.low.control: split"),
                                (["compute.product=toeplitz"], "toeplitz with loop.low.control: split"),
                                (["compute.precision=mixed"], "mixed with loop.low.control: split"),
                                (closed + own + ["compute.backend=gpu", "loop.lags=equivalent"], "two loops are computed on CPUs")):
                p = moao("run" if "compute.backend=gpu" in words else "check", path, *words, check=False)
                self.assertEqual(p.returncode, 2, words)
                self.assertIn(told, " ".join(p.stderr.split()), words)
            told = " ".join(moao("check", path, *closed, *own).stdout.split())
            star = {k: v for k, v in TIPTILT["sensors"][4].items() if k != "noise_variance"}
            with open(path, "w", encoding="utf-8") as f:
                json.dump({**TIPTILT, "sensors": TIPTILT["sensors"][:4] + [{**star, "magnitude": 12, "frame_rate": 250}]}, f)
            light = moao("check", path, *closed, *own)
            self.assertIn("TT: frames of 4 ms in a loop of 100 Hz, whose noise has their light", " ".join((light.stdout + light.stderr).split()))
            self.assertIn("mode: stars for low orders", moao("check", path, "mode=moao", check=False).stderr)
            stars = os.path.join(tmp, "stars.csv")
            with open(stars, "w", encoding="utf-8") as f:
                f.write("name,x,y,magnitude\nA,5,3,12\nB,-9,2,13\n")
            p = moao("asterism", path, "--stars", stars, "--choose", "1", "-o", os.path.join(tmp, "best"), check=False)
            self.assertEqual((p.returncode, "TT: the search knows one reconstructor of all sensors" in p.stderr), (2, True), p.stderr)
            self.assertIn("low orders 2 modes by 1 star, split integrator, gain 0.5 (stable below 1), 2 frames at 100 Hz: commands", told)


if __name__ == "__main__":
    unittest.main()
