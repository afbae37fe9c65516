"""Commands fitted to the phase (reconstructor.fit) against all pairs of points with exact covariances (mirrors_reference.py)."""
# seconds: 30
import json
import math
import unittest

import numpy as np
from astropy.io import fits

from mirrors_reference import Corrected
from moao_case import Run, moao
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
        phase, device = "reconstructor.fit=phase", {"MOAO_RESIDENT_BACKEND": "cpu"}
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
        for word, told in (("psf.residual=sensor", "sensor beside reconstructor.fit: phase"),
                           ("output.matrices=[W, Dplus]", "Dplus belongs to a truth sensor")):
            p = moao("check", "params/canary.yaml", "reconstructor.fit=phase", word, check=False)
            self.assertEqual(p.returncode, 2, p.stdout)
            self.assertIn(told, p.stderr)


def run_text(text, *words, **kw):
    return Run(text, *words, **kw)


if __name__ == "__main__":
    unittest.main()
