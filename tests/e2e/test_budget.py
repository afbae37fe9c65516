"""The error budget against every term written down directly (truth_reference.py), and each term switched off.

timeout: 300
"""
import json
import math
import unittest

import numpy as np

import reference as ref

from astropy.io import fits

from moao_case import Run
from test_truth import case, layers
from truth_reference import Truth, cov_phase, cov_slopes, half_structure

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
        self.x = self.points(6)
        self.IF = self.mirror.influence(self.x)
        self.C = sum(half_structure(self.x, self.x, l) for l in self.layers)

    @staticmethod
    def variance(B):
        return 1e18 * (np.trace(B) / len(B) - B.mean())

    def cross(self, K, C):
        """Of K s with the phase."""
        return 1e18 * ((K * C).sum() / len(K) - K.mean(axis=0) @ C.mean(axis=0))

    def budget(self, t):
        Dplus, W, n = self.mirror.Dplus, self.reconstructor(t), len(self.x)
        A = self.IF - self.IF.mean(axis=0)
        A = A - A.mean(axis=1)[:, None]                      # commands without piston
        u, s, _ = np.linalg.svd(A, full_matrices=False)
        u = u[:, s > 1e-9 * s[0]]
        out = {"FIT": self.variance(self.C) - 1e18 * np.einsum("ik,ij,jk", u, self.C, u, optimize=True) / n}
        Ks, ts = self.IF @ Dplus, self.truths[t]
        out["ALIAS"] = self.variance(self.C + Ks @ cov_slopes(ts, ts, self.layers, self.slope) @ Ks.T) - out["FIT"] \
            - 2 * self.cross(Ks, cov_phase(self.x, self.targets[t], ts, self.layers, self.slope))
        K = self.IF @ W
        at = np.cumsum([0] + [2 * s.nsub for s in self.sensors])
        noise = [ref.noise(s, self.layers) for s in self.sensors]
        for s, n in zip(self.sensors, noise):                # the constant of a laser star is no noise
            if s.key["type"] == "lgs":
                n -= np.kron(np.eye(2), np.full((s.nsub, s.nsub), ref.tiptilt(s, self.layers)))
        out["STAR"] = np.array([self.variance(K[:, a:b] @ n @ K[:, a:b].T) for a, b, n in zip(at, at[1:], noise)])
        out["NOISE"] = out["STAR"].sum()
        delay, late = self.delay, self.cross(K, self.phase(self.x, t))
        self.delay = 0.
        out["LAG"] = 2 * (self.cross(K, self.phase(self.x, t)) - late)
        self.delay = delay
        out["RESIDUAL"] = self.variance(self.C + K @ self.Cmm @ K.T) - 2 * late
        out["TOMO"] = out["RESIDUAL"] - out["FIT"] - out["ALIAS"] - out["NOISE"] - out["LAG"]
        return out


class Terms(unittest.TestCase):
    def test_every_term(self):
        for slope in ("points", "gradient"):
            truth, r = Direct(of(slope), slope), run(of(slope))
            got = table(r)
            for t in range(2):
                want = truth.budget(t)
                for name in ("FIT", "ALIAS", "NOISE", "LAG", "TOMO"):
                    a, b = got[name][t].item(), want[name].item()
                    print("%-8s %d %-8s %9.2f nm, direct %9.2f  %+.2f %%" % (slope, t, name, math.copysign(math.sqrt(abs(a)), a), math.copysign(math.sqrt(abs(b)), b), 50 * (a / b - 1)))
                print(np.sqrt(got["STAR"][t].ravel()), np.sqrt(want["STAR"]))
                print(got["JITTER"][t], got["STATIC"][t], got["TOTAL"][t], want["RESIDUAL"] + got["JITTER"][t] + got["STATIC"][t])


if __name__ == "__main__":
    unittest.main(verbosity=2)
