"""Correctors written down directly: mirrors at altitudes, commands fitted to the phase in some directions, exact covariances.

`Corrected(case, slope, mirrors, directions)` is truth_reference.Truth with other commands: W = M^-1 B0 Cmm^-1 (docs/model.md,
section 6) instead of D+ R. Without mirrors and directions it is reconstructor.fit: phase. Optical path in m, slopes in arcsec.
"""
import copy
import math

import numpy as np

from reference import ARCSEC
from truth_reference import Truth, cov_phase, half_structure, struct

MU, EPS = 1e-3, 1e-5


class Mirror:
    """Actuators of n pitches across at an altitude, Gaussian influence functions."""

    def __init__(self, n, pitch, altitude=0., coupling=0.2, obscuration=0.):
        c = np.arange(n + 1)
        j, i = (k.ravel() for k in np.meshgrid(c, c, indexing="ij"))
        r = np.hypot(2 * i - n, 2 * j - n)
        valid = (r < n + 1.4) & (obscuration * n - 1 + 1e-9 * n < r if altitude == 0 else True)
        self.i, self.j, self.n, self.pitch, self.altitude = i[valid], j[valid], n, pitch, altitude
        self.at = (np.stack([self.i, self.j], axis=1) - n / 2) * pitch
        self.x0 = pitch / math.sqrt(-2 * math.log(coupling))

    def shapes(self, x, direction):
        """Influence functions at pupil points x seen in a direction [arcsec]: points x actuators."""
        d = (x + np.array(direction) / ARCSEC * self.altitude)[:, None, :] - self.at[None]
        return np.exp(-(d ** 2).sum(axis=2) / (2 * self.x0 ** 2))

    def curvature(self):
        number = {(a, b): k for k, (a, b) in enumerate(zip(self.i, self.j))}
        rows = []
        for (a, b), k in number.items():
            for p, q in (((a + 1, b), (a + 2, b)), ((a, b + 1), (a, b + 2))):
                if p in number and q in number:
                    row = np.zeros(len(number))
                    row[k], row[number[p]], row[number[q]] = 1, -2, 1
                    rows.append(row)
        return np.array(rows).reshape(-1, len(number))

    def held(self, area):
        v = len(self.i)
        L = self.curvature()
        return self.pitch ** 2 / area * (MU * L.T @ L + np.ones((v, v)) / v + EPS * np.eye(v))


class Corrected(Truth):
    def __init__(self, case, slope, mirrors=None, directions=None, per_pitch=4, **more):
        super().__init__(case, slope, **more)
        n = case["dm"]["nssp"]
        self.mirrors = mirrors or [Mirror(n, self.diameter / n, 0., case["dm"].get("coupling", 0.2), self.obscuration)]
        self.directions, self.x, self.W = directions, self.points(per_pitch), {}

    def shapes(self, x, direction):
        return np.concatenate([m.shapes(x, direction) for m in self.mirrors], axis=1)

    def draw(self, t, count, seed):
        """Truth's, with the mirrors as target t sees them."""
        own, self.mirror = self.mirror, copy.copy(self.mirror)
        self.mirror.influence = lambda x: self.shapes(x, self.targets[t])
        try:
            return super().draw(t, count, seed)
        finally:
            self.mirror = own

    def phase_at(self, x, direction, layers, delay=0.):
        return np.concatenate([cov_phase(x, direction, v, layers, delay) for v in self.sensors], axis=1)

    def reconstructor(self, t):
        if (key := t if self.directions is None else None) in self.W:
            return self.W[key]
        directions = [(self.targets[t], 1.)] if self.directions is None else self.directions
        total, p = sum(w for _, w in directions), len(self.x)
        area = math.pi / 4 * self.diameter ** 2 * (1 - self.obscuration ** 2)
        held = [m.held(area) for m in self.mirrors]
        at = np.cumsum([0] + [len(h) for h in held])
        M, B0 = np.zeros((at[-1], at[-1])), 0.
        for k, h in enumerate(held):
            M[at[k]:at[k + 1], at[k]:at[k + 1]] = h
        for d, w in directions:
            A = self.shapes(self.x, d)
            A = A - A.mean(axis=0)
            M += w / total * A.T @ A / p
            B0 = B0 + w / total * A.T @ self.phase_at(self.x, d, self.layers0) / p
        self.W[key] = np.linalg.solve(self.Cmm0, np.linalg.solve(M, B0).T).T
        return self.W[key]

    def residual(self, x, t, cross=1., noise=True):
        K = self.shapes(x, self.targets[t]) @ self.reconstructor(t)
        C = cross * self.phase_at(x, self.targets[t], self.layers, self.delay) @ K.T
        turbulence = -2 * sum(half_structure(x, x, l) for l in self.layers if l.strength > 0)
        return turbulence + struct(K @ (self.Cmm if noise else self.Cmm - self.noise) @ K.T - C - C.T)

    def rms(self, t=0):
        return math.sqrt(0.5 * self.residual(self.x, t).mean())
