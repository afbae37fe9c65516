"""The residual phase on the pupil written down directly: turbulence minus mirror, exact covariances, numpy alone.

`Truth(case)` takes a parameter file as reference.py does. Nothing is averaged over the pupil and no covariance comes
from a table: every slope is a weighted sum of phases at points (two for `points`, Gauss points on the outline of the lit
part for `gradient`), every phase that is compared is -D/2 of a separation. Optical path in m, slopes in arcsec.
"""
import math

import numpy as np

import outlines
import reference as ref
from reference import ARCSEC, structure

OPD = 500e-9 / (2 * math.pi)        # m of optical path per radian at 500 nm
ORDER = 4                           # Gauss points on a piece of an outline: 1e-4 of the slope variance (outlines.SAME)


def inside(points, diameter, obscuration):
    r = np.hypot(points[..., 0], points[..., 1])
    return (r >= obscuration * diameter / 2) & (r < diameter / 2)


def pupil_grid(diameter, obscuration, step):
    """Centres of squares of side `step` inside the annulus, (points, 2)."""
    n = int(round(diameter / step)) + 2
    c = (np.arange(n) + 0.5 - n / 2) * step
    y, x = np.meshgrid(c, c, indexing="ij")
    points = np.stack([x.ravel(), y.ravel()], axis=1)
    return points[inside(points, diameter, obscuration)]


def half_structure(p, q, layer):
    """-D/2 between two lists of points [m^2]."""
    x, y = (p[:, None, k] - q[None, :, k] for k in (0, 1))
    return -0.5 * OPD ** 2 * layer.strength * fast_structure(np.sqrt(x * x + y * y), layer.L0)


def sees(w, layer):
    return layer.strength > 0 and w.scale(layer.altitude) > 0


TABLES, STEPS, BLOCK = {}, 60000, 16384


def table(L0, top):
    """structure / rho^(5/3) at equal steps of the cube root of rho up to `top`, with the differences to the next; steps per unit."""
    u = np.linspace(0, top, STEPS + 1)[1:]
    value = structure(u ** 3, L0) / u ** 5
    value = np.concatenate([[2 * value[0] - value[1]], value, value[-1:]])
    return STEPS / top, value[:-1], np.diff(value)


def fast_structure(rho, L0):
    """structure() from a table of structure / rho^(5/3) in the cube root of rho, which is smooth: 2e-9."""
    if math.isinf(L0):
        return structure(rho, L0)
    top = np.cbrt(rho.max(initial=0))
    if L0 not in TABLES or TABLES[L0][0] * top > STEPS:
        TABLES[L0] = table(L0, max(4, 1.2 * top))
    scale, value, step = TABLES[L0]
    flat, out = rho.ravel(), np.empty(rho.size)
    for k in range(0, rho.size, BLOCK):     # which stay in the processor's cache
        root = np.cbrt(flat[k:k + BLOCK])
        at = scale * root
        i = at.astype(np.intp)
        out[k:k + BLOCK] = (value[i] + (at - i) * step[i]) * (root * root) * (root * root) * root
    return out.reshape(rho.shape)


def cov_slopes(w, v, layers, delay=0., order=ORDER):
    """Covariance of the slopes of two sensors [arcsec^2]; w sees the layers `delay` later than v."""
    return ref.covariance(w, v, layers, delay, order, fast_structure)


def cov_phase(x, direction, v, layers, delay=0.):
    """Covariance of the phase at pupil points x, seen in a direction [arcsec], with the slopes of v [m arcsec]."""
    out = np.zeros((len(x), 2 * v.nsub))
    place, weight, first = v.nodes(2 * ORDER * (2 if v.nssp <= 2 else 1))
    for l in layers:
        if not sees(v, l):
            continue
        p, q = x + np.array(direction) / ARCSEC * l.altitude - l.wind * delay, v.on_layer(place, l.altitude)
        for i in range(0, len(x), 64):
            c = half_structure(p[i:i + 64], q, l) * ARCSEC
            for t in (0, 1):
                out[i:i + 64, t * v.nsub:(t + 1) * v.nsub] += outlines.sums(c * weight[:, t], first, 1)
    return out


def struct(B):
    """B(x,x) + B(x',x') - B(x,x') - B(x',x)."""
    d = np.diag(B)
    return d[:, None] + d[None, :] - B - B.T


class Mirror(ref.Mirror):
    """A mirror whose interaction matrix is of the slopes that are meant."""

    def __init__(self, truth, obscuration, coupling, mu):
        super().__init__(truth, obscuration, coupling, mu)
        place, weight, first = truth.nodes(12)
        influence = ARCSEC * self.influence(place)
        self.D = np.concatenate([outlines.sums(influence * weight[:, axis:axis + 1], first, 0) for axis in (0, 1)])
        self.Dplus = self.command_matrix(mu)


class Truth:
    """A case under the profile `exposure`, its reconstructor made under the profile `tor`; slope: how sensors measure."""

    def __init__(self, case, slope, tor=0, exposure=0):
        tel, dm = case["telescope"], case["dm"]
        self.diameter, self.obscuration, self.slope = tel["diameter"], tel.get("obscuration", 0.), slope
        airmass = 1 / math.cos(math.radians(tel.get("zenith", 0.)))
        self.sensors = []
        for s in case["sensors"]:
            key = {**ref.COMMON, **ref.DEFAULTS[s["type"]], **case.get(s["type"] + "_defaults", {}), **s}
            self.sensors.append(ref.Sensor(self.diameter, self.obscuration, airmass, **{**key, "slope": slope}))
        self.targets = ref.targets(case["targets"])
        self.truths = [ref.Sensor(self.diameter, self.obscuration, airmass, dm["nssp"], t, slope=slope) for t in self.targets]
        self.mirror = Mirror(self.truths[0], self.obscuration, dm.get("coupling", 0.2), dm.get("mu", 3e-3))
        self.delay = case.get("loop", {}).get("delay", 0.)
        profiles = [ref.profile_layers(p, airmass) for p in case["atmosphere"]["profiles"]]
        self.layers0, self.layers = profiles[tor], profiles[exposure]
        self.Cmm, self.noise = self.measurements(self.layers)
        self.Cmm0 = self.Cmm if tor == exposure else self.measurements(self.layers0)[0]

    def measurements(self, layers):
        """Cmm with noise, and the noise alone."""
        n = np.cumsum([0] + [2 * s.nsub for s in self.sensors])
        out, noise = np.zeros((n[-1], n[-1])), np.zeros((n[-1], n[-1]))
        for i, w in enumerate(self.sensors):
            noise[n[i]:n[i + 1], n[i]:n[i + 1]] = ref.noise(w, layers)
            for j, v in enumerate(self.sensors[:i + 1]):
                c = cov_slopes(w, v, layers)
                out[n[i]:n[i + 1], n[j]:n[j + 1]] = c
                out[n[j]:n[j + 1], n[i]:n[i + 1]] = c.T
        return out + noise, noise

    def reconstructor(self, t):
        """W of a target, commands [m] from slopes [arcsec]."""
        ctm = np.concatenate([cov_slopes(self.truths[t], v, self.layers0) for v in self.sensors], axis=1)
        return self.mirror.Dplus @ np.linalg.solve(self.Cmm0, ctm.T).T

    def phase(self, x, t):
        """Covariance of the phase at points x with all slopes [m arcsec]."""
        return np.concatenate([cov_phase(x, self.targets[t], v, self.layers, self.delay)
                               for v in self.sensors], axis=1)

    def residual(self, x, t, cross=1., noise=True):
        """Structure function of the residual between all points x [m^2]; cross, noise: what a test leaves out."""
        K = self.mirror.influence(x) @ self.reconstructor(t)
        B = K @ (self.Cmm if noise else self.Cmm - self.noise) @ K.T
        C = cross * self.phase(x, t) @ K.T
        # on the pupil layers of one outer scale differ by their strength alone
        scales = {l.L0: ref.Layer(0., sum(k.strength for k in self.layers if k.L0 == l.L0), l.L0, (0, 0)) for l in self.layers}
        turbulence = -2 * sum(half_structure(x, x, l) for l in scales.values() if l.strength > 0)
        return turbulence + struct(B - C - C.T)

    def points(self, per_pitch=4):
        return pupil_grid(self.diameter, self.obscuration, self.mirror.pitch / per_pitch)

    def strehl(self, wavelength, t=0, **left_out):
        """The mean over all pairs of points, [m] for the wavelength."""
        D = self.residual(self.points(), t, **left_out)
        return float(np.exp(-0.5 * D * (2 * math.pi / wavelength) ** 2).mean())

    def rms(self, t=0):
        """Of the residual over the pupil without its piston [m]."""
        return math.sqrt(0.5 * self.residual(self.points(), t).mean())

    def draw(self, t, count, seed):
        """Residual phases [m] at points() of `count` instants: phase screens drawn for every layer from the covariances
        of the points that matter, slopes by averaging differences of phase, noise, commands. (points, count)"""
        rng, x = np.random.default_rng(seed), self.points()
        phase = np.zeros((len(x), count))
        slopes = np.linalg.cholesky(self.noise + 1e-30 * np.eye(len(self.noise))) @ rng.standard_normal((len(self.noise), count))
        n = np.cumsum([0] + [2 * s.nsub for s in self.sensors])
        for l in self.layers:
            if l.strength == 0:
                continue
            parts, weights = [x + np.array(self.targets[t]) / ARCSEC * l.altitude - l.wind * self.delay], []
            for v in self.sensors:
                if sees(v, l):
                    place, weight, first = v.nodes(2 * ORDER)
                    parts.append(v.on_layer(place, l.altitude))
                    weights.append((weight, first))
            at = np.cumsum([0] + [len(p) for p in parts])
            p = np.concatenate(parts)
            C = half_structure(p, p, l)                     # plus a common piston, which nothing sees
            screen = np.linalg.cholesky(C - 1.01 * C.min() + 1e-12 * abs(C.min()) * np.eye(len(p))) \
                @ rng.standard_normal((len(p), count))
            phase += screen[:at[1]]
            k = 0
            for i, v in enumerate(self.sensors):
                if sees(v, l):
                    (weight, first), phases = weights[k], ARCSEC * screen[at[k + 1]:at[k + 2]]
                    for axis in (0, 1):
                        slopes[n[i] + axis * v.nsub:n[i] + (axis + 1) * v.nsub] += outlines.sums(
                            phases * weight[:, axis:axis + 1], first, 0)
                    k += 1
        return phase - self.mirror.influence(x) @ (self.reconstructor(t) @ slopes)
