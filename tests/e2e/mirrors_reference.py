"""Correctors written down directly: mirrors at altitudes, commands fitted to the phase in some directions, exact covariances.

`Corrected(case, slope, mirrors, directions)` is truth_reference.Truth with other commands: W = M^-1 B0 Cmm^-1 (docs/model.md,
section 6) instead of D+ R. Without mirrors and directions it is reconstructor.fit: phase. Optical path in m, slopes in arcsec.
"""
import copy
import math

import numpy as np

import outlines
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
        self.directions, self.x, self.W, self.known = directions, self.points(per_pitch), {}, None

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

    def normal(self, t):
        """M, B0 of a target, and what a sum over the directions of A_d' times a list of phases gives."""
        if self.directions is not None and self.known is not None:
            return self.known
        directions = [(self.targets[t], 1.)] if self.directions is None else self.directions
        total, p = sum(w for _, w in directions), len(self.x)
        area = math.pi / 4 * self.diameter ** 2 * (1 - self.obscuration ** 2)
        held = [m.held(area) for m in self.mirrors]
        at = np.cumsum([0] + [len(h) for h in held])
        M, B0, A = np.zeros((at[-1], at[-1])), 0., []
        for k, h in enumerate(held):
            M[at[k]:at[k + 1], at[k]:at[k + 1]] = h
        for d, w in directions:
            A.append(self.shapes(self.x, d))
            A[-1] = A[-1] - A[-1].mean(axis=0)
            M += w / total * A[-1].T @ A[-1] / p
            B0 = B0 + w / total * A[-1].T @ self.phase_at(self.x, d, self.layers0) / p
        self.known = M, B0, lambda y: sum(w / total * a.T @ v / p for (_, w), a, v in zip(directions, A, y))
        return self.known

    def reconstructor(self, t):
        if (key := t if self.directions is None else None) in self.W:
            return self.W[key]
        M, B0, _ = self.normal(t)
        self.W[key] = np.linalg.solve(self.Cmm0, np.linalg.solve(M, B0).T).T
        return self.W[key]

    def residual(self, x, t, cross=1., noise=True):
        K = self.shapes(x, self.targets[t]) @ self.reconstructor(t)
        C = cross * self.phase_at(x, self.targets[t], self.layers, self.delay) @ K.T
        turbulence = -2 * sum(half_structure(x, x, l) for l in self.layers if l.strength > 0)
        return turbulence + struct(K @ (self.Cmm if noise else self.Cmm - self.noise) @ K.T - C - C.T)

    def rms(self, t=0):
        return math.sqrt(0.5 * self.residual(self.x, t).mean())

    def budget(self, t):
        """What all shapes of the mirrors leave of the phase, and noise: rms over the pupil [nm]."""
        n, A = len(self.x), self.shapes(self.x, self.targets[t])
        A = A - A.mean(axis=0)
        piston = np.eye(n) - 1 / n
        C = piston @ sum(half_structure(self.x, self.x, l) for l in self.layers if l.strength > 0) @ piston
        U, s, _ = np.linalg.svd(A, full_matrices=False)
        U, K = U[:, s > 1e-5 * s[0]], A @ self.reconstructor(t)
        return [1e9 * math.sqrt(v / n) for v in (np.trace(C) - np.trace(U.T @ C @ U), np.trace(K @ self.noise @ K.T))]


    def generalised(self, t):
        """What commands that are fitted to known phases in the directions leave more than the best shape of a target: rms [nm]."""
        n, seen, total = len(self.x), self.targets[t], sum(w for _, w in self.directions)
        piston, M = np.eye(n) - 1 / n, self.normal(t)[0]
        F = [w / total * np.linalg.solve(M, (piston @ self.shapes(self.x, d)).T) / n for d, w in self.directions]

        def C(a, b):
            return sum(half_structure(self.x + np.array(a) / ARCSEC * l.altitude, self.x + np.array(b) / ARCSEC * l.altitude, l)
                       for l in self.layers if l.strength > 0)

        A = piston @ self.shapes(self.x, seen)
        cross = sum(np.einsum("ia,aj,ij->", A, f, piston @ C(seen, d)) for f, (d, _) in zip(F, self.directions))
        Y = sum(f @ C(d, e) @ g.T for f, (d, _) in zip(F, self.directions) for g, (e, _) in zip(F, self.directions))
        left = np.trace(piston @ C(seen, seen) @ piston) - 2 * cross + np.trace(A @ Y @ A.T)
        return math.sqrt(1e18 * left / n - self.budget(t)[0] ** 2)


class LowOrders(Corrected):
    """Low orders by the stars whose numbers are in `low`: control is split, cascade or independent, modes as loop.low.modes. Every
    step as docs/model.md has it, with inverses of the covariances of either kind of star."""

    def __init__(self, case, slope, low, control, modes="tiptilt", **more):
        super().__init__(case, slope, **more)
        self.control, self.modes = control, modes
        self.low = np.concatenate([np.full(2 * s.nsub, w in low) for w, s in enumerate(self.sensors)])

    def orders(self):
        """The low orders in each direction: points x modes."""
        u, v = 2 * self.x.T / self.diameter
        far = max(math.hypot(*d) for d, _ in self.directions)
        out = []
        for d, _ in self.directions:
            y = [u, v] + ([u * u + v * v] if self.modes in ("focus", "all") else [])
            if self.modes in ("plate_scale", "all"):
                a, b = np.array(d) / far
                y += [a * u + b * v, a * u - b * v, b * u + a * v]
            out.append(np.array(y).T - np.mean(y, axis=1))
        return out

    def seen(self):
        """Slopes of the stars for low orders that a unit command of each actuator makes."""
        out = []
        for w, v in enumerate(self.sensors):
            if not self.low[sum(2 * s.nsub for s in self.sensors[:w])]:
                continue
            place, weight, first = v.nodes(12)
            D = [ARCSEC * m.shapes(v.on_layer(place, 0.) + v.on_layer(0 * place, m.altitude) - v.on_layer(0 * place, 0.), (0., 0.))
                 for m in self.mirrors]
            D = np.concatenate(D, axis=1)
            out += [outlines.sums(D * weight[:, axis:axis + 1], first, 0) for axis in (0, 1)]
        return np.concatenate(out)

    def reconstructor(self, t):
        if None in self.W:
            return self.W[None]
        N, L = self.low, ~self.low
        M, B0, fit = self.normal(t)
        C, CLL = self.Cmm0, self.Cmm0[np.ix_(L, L)]
        q = fit(self.orders())
        Z = np.linalg.solve(M, q)
        T = Z @ np.linalg.solve(q.T @ Z, q.T)
        of_L = np.linalg.solve(M, np.linalg.solve(CLL, B0[:, L].T).T)
        H = of_L - T @ of_L
        R, K = {"split": (of_L, np.linalg.solve(CLL, C[np.ix_(L, N)]).T),
                "cascade": (H, self.seen() @ H if self.control == "cascade" else 0),
                "independent": (H, np.zeros((N.sum(), L.sum())))}[self.control]
        J = np.zeros((N.sum(), len(C)))
        J[:, L], J[:, N] = -K, np.eye(N.sum())
        X = T @ np.linalg.solve(M, np.linalg.solve(J @ C @ J.T, J @ B0.T).T)
        W = np.zeros((len(M), len(C)))
        W[:, L], W[:, N] = R - X @ K, X
        self.W[None] = W
        return W


class Split:
    """A common mirror in closed loop in front of one for each target, by instants of drawn phase screens in which the loop is iterated.

    common, own: mirrors; directions: those of the common one; delays [s] of both; placement: (shift, rotation [deg], scale) by which
    sensors see the common mirror displaced."""

    def __init__(self, case, common, own, directions, delays, placement=((0., 0.), 0., 1.), per_pitch=4):
        self.target = Corrected(case, "points", [own], None, per_pitch)
        self.shared = Corrected(case, "points", [common], directions, per_pitch)
        self.common, self.own, self.delays = common, own, delays
        self.G, self.real = self.slopes_of((0., 0.), 0., 1.), self.slopes_of(*placement)

    def slopes_of(self, shift, rotation, scale):
        """Slopes of the common mirror's actuators as sensors see it moved [arcsec/m]."""
        turn, seen = math.radians(rotation), copy.copy(self.common)
        seen.at = self.common.at @ np.array([[math.cos(turn), math.sin(turn)], [-math.sin(turn), math.cos(turn)]]) * scale + shift
        seen.x0 = self.common.x0 * scale
        out = []
        for v in self.target.sensors:
            place, weight, first = v.nodes(8)
            shapes = ARCSEC * seen.shapes(v.on_layer(place, self.common.altitude), (0., 0.))
            out += [outlines.sums(shapes * weight[:, axis:axis + 1], first, 0) for axis in (0, 1)]
        return np.concatenate(out)

    def instants(self, t, count, seed):
        """Phases at the points, slopes of both ages: independent noise, one frozen flow."""
        rng, c = np.random.default_rng(seed), self.target
        root = np.linalg.cholesky(c.noise + 1e-30 * np.eye(len(c.noise)))
        slopes = [root @ rng.standard_normal((len(c.noise), count)) for _ in self.delays]
        phase, n = np.zeros((len(c.x), count)), np.cumsum([0] + [2 * s.nsub for s in c.sensors])
        for l in c.layers:
            parts, places = [c.x + np.array(c.targets[t]) / ARCSEC * l.altitude], [v.nodes(8) for v in c.sensors]
            for delay in self.delays:
                parts += [v.on_layer(p[0], l.altitude) + l.wind * delay for v, p in zip(c.sensors, places)]
            at, p = np.cumsum([0] + [len(k) for k in parts]), np.concatenate(parts)
            C = half_structure(p, p, l)
            screen = np.linalg.cholesky(C - 1.01 * C.min() + 1e-12 * abs(C.min()) * np.eye(len(p))) \
                @ rng.standard_normal((len(p), count))
            phase += screen[:at[1]]
            for k in range(2 * len(places)):
                i = k % len(places)
                _, weight, first = places[i]
                phases = ARCSEC * screen[at[k + 1]:at[k + 2]]
                for axis in (0, 1):
                    nsub = c.sensors[i].nsub
                    slopes[k // len(places)][n[i] + axis * nsub:n[i] + (axis + 1) * nsub] += outlines.sums(
                        phases * weight[:, axis:axis + 1], first, 0)
        return phase, slopes

    def settle(self, s, steps=200):
        """Commands of the common mirror by an integrator on pseudo-open-loop slopes, once it has settled."""
        W, c = self.shared.reconstructor(0), 0.
        c = np.zeros((len(W), s.shape[1]))
        for _ in range(steps):
            c += 0.5 * (W @ (s - self.real @ c + self.G @ c) - c)
        return c

    def fit(self):
        """F: commands of a target's mirror fitted to a phase at the points."""
        x = self.target.x
        A = self.own.shapes(x, (0., 0.))
        A = A - A.mean(axis=0)
        area = math.pi / 4 * self.target.diameter ** 2 * (1 - self.target.obscuration ** 2)
        return np.linalg.solve(A.T @ A / len(x) + self.own.held(area), A.T / len(x))

    def by_frames(self, t, count, seed, nframe, rate, loop, own, variants):
        """Residual phases of the last frame: the common loop runs on residual slopes, frame by frame, behind which a target's commands
        have slopes of frames before. loop: gain, frames (integrator, pseudo-open-loop slopes by its model); own: frames, gain of a leaky
        filter; variants: (known, residual) of each result."""
        c, x, rng = self.target, self.target.x, np.random.default_rng(seed)
        phase, slopes, (gain, frames), (late, leak) = np.zeros((len(x), count)), [0.] * nframe, loop, own
        places = [v.nodes(8) for v in c.sensors]
        for l in c.layers:                                  # frame k is nframe - 1 - k frames before the last one
            parts = [x + np.array(c.targets[t]) / ARCSEC * l.altitude]
            parts += [v.on_layer(p[0], l.altitude) + l.wind * (nframe - 1 - k) / rate for k in range(nframe) for v, p in zip(c.sensors, places)]
            at, p = np.cumsum([0] + [len(k) for k in parts]), np.concatenate(parts)
            C = half_structure(p, p, l)
            screen = np.linalg.cholesky(C - 1.01 * C.min() + 1e-12 * abs(C.min()) * np.eye(len(p))) @ rng.standard_normal((len(p), count))
            phase += screen[:at[1]]
            for k in range(nframe):
                seen = []
                for i, (_, weight, first) in enumerate(places):
                    values = ARCSEC * screen[at[1 + k * len(places) + i]:at[2 + k * len(places) + i]]
                    seen += [outlines.sums(values * weight[:, axis:axis + 1], first, 0) for axis in (0, 1)]
                slopes[k] = slopes[k] + np.concatenate(seen)
        root = np.linalg.cholesky(c.noise + 1e-30 * np.eye(len(c.noise)))
        W1, W, F, N = self.shared.reconstructor(0), c.reconstructor(t), self.fit(), self.common.shapes(x, c.targets[t])
        zero = np.zeros((len(W1), count))
        shapes, commands = [zero] * frames, {v: np.zeros((len(W), count)) for v in variants}
        kept = []                                           # slopes and the common mirror's shape of each frame
        for k in range(nframe):
            applied = shapes[-frames]
            s = slopes[k] + root @ rng.standard_normal(slopes[k].shape)
            left = s - self.real @ applied
            shapes.append(shapes[-1] + gain * (W1 @ (left + self.G @ applied) - applied))
            kept.append((left, applied))
            for known, residual in variants:
                if k < late:
                    continue
                left, then = kept[k - late]
                pseudo = left + self.G @ then
                c2 = W @ left if residual else W @ pseudo - (0 if known else F @ (N @ (W1 @ pseudo)))
                commands[known, residual] = (1 - leak) * commands[known, residual] + leak * c2
        own = self.own.shapes(x, (0., 0.))
        return [phase - N @ applied - own @ (commands[known, residual] - (F @ (N @ applied) if known and not residual else 0))
                for known, residual in variants]

    def draw(self, t, instants, known=True, residual=False):
        """Residual phases of the instants."""
        phase, (s1, s2) = instants
        x, W, F = self.target.x, self.target.reconstructor(t), self.fit()
        N = self.common.shapes(x, self.target.targets[t])
        c1, then = self.settle(s1), self.settle(s2)
        if residual:
            c2 = W @ (s2 - self.real @ then)
        else:
            c = c1 if known else then
            c2 = W @ (s2 - self.real @ c + self.G @ c) - F @ (N @ c)
        return phase - N @ c1 - self.own.shapes(x, (0., 0.)) @ c2
