"""The model written down directly: slow, dense, numpy alone, nothing shared with the program but its parameter names.

`Reference(case)` takes a parameter file as a dictionary of plain numbers in the units of the reference page (m,
arcsec, s, deg; wavelengths in um, bandwidth in nm). Section numbers are those of the model. Every key of a sensor that
a case leaves out takes the default of that page (DEFAULTS).
"""
import math

import numpy as np

import outlines

ARCSEC = 206264.80624709636
NU = 5 / 6
K1 = 2 * math.gamma(11 / 6) / (2 ** NU * math.pi ** (8 / 3)) * (24 / 5 * math.gamma(6 / 5)) ** NU
K2 = math.gamma(NU) / 2 ** (1 / 6)
KOLMOGOROV = 6.883877182293811
SPECTRUM = 0.02289558710855518
BEYOND = 0.231263

DEFAULTS = {"ngs": {"pixel": 0.3, "wavelength": 0.65, "bandwidth": 330, "throughput": 0.425},
            "lgs": {"pixel": 1, "wavelength": 0.589, "throughput": 0.382, "atm_transmission": 0.84, "lgs_return": 7e6,
                    "lgs_width": 1, "lgs_depth": 5000, "tiptilt_factor": 10}}
COMMON = {"slope": "gradient", "magnification": 1, "rotation": 0, "shift": [0, 0], "frame_time": 0.004, "ron": 3}


# ---- Section 3: turbulence

def bracket(u):
    """k2 - u^(5/6) K_{5/6}(u): power series up to 2, trapezoidal rule on int exp(-u cosh t) cosh(nu t) dt beyond."""
    u = np.asarray(u, dtype=float)
    out = np.empty(u.size)
    for i in range(0, u.size, BLOCK):
        out[i:i + BLOCK] = bracket_of_block(u.ravel()[i:i + BLOCK])
    return out.reshape(u.shape)


BLOCK = 8192  # arguments at a time: what is computed from them then stays in the processor's cache, which takes a third of the time


def bracket_of_block(u):
    out = np.empty_like(u)
    small = u <= 2
    s, x = u[small], u[small] ** 2 / 4
    with_power, without = np.zeros_like(s), np.zeros_like(s)
    for k in range(17, -1, -1) if len(s) else ():
        with_power *= x
        with_power += 1 / (math.factorial(k) * math.gamma(k + 1 + NU))
        without *= x
        without += 1 / (math.factorial(k) * math.gamma(k + 1 - NU)) if k else 0
    c = math.pi / (2 * math.sin(NU * math.pi))
    out[small] = c * (s ** (2 * NU) * 2 ** -NU * with_power - 2 ** NU * without)
    large = u[~small]
    h, k_nu = 0.2, 0.5 * np.exp(-large)
    for i in range(1, 20) if len(large) else ():
        k_nu += math.cosh(NU * i * h) * np.exp(-large * math.cosh(i * h))
    out[~small] = K2 - large ** NU * h * k_nu
    return out


def structure(rho, L0):
    """Structure function of the phase, r0 = 1 m, rad^2 at 500 nm."""
    if math.isinf(L0):
        return KOLMOGOROV * rho ** (5 / 3)
    return K1 * L0 ** (5 / 3) * bracket(2 * math.pi * rho / L0)


class Layer:
    def __init__(self, altitude, strength, L0, wind):
        self.altitude, self.strength, self.L0, self.wind = altitude, strength, L0, np.array(wind)


def per_layer(values, n, default):
    values = default if values is None else values
    return list(values) if isinstance(values, (list, tuple)) else [values] * n


def profile_layers(profile, airmass):
    """Layers along the line of sight: altitudes times the airmass, r0 times its power -3/5."""
    la = profile["layers"]
    n = len(la["altitude"])
    weight = np.array(la.get("strength", la.get("fraction")), dtype=float)
    if "r0" in profile:
        weight = weight / weight.sum() * profile["r0"] ** (-5 / 3)
    speed, angle = (per_layer(la.get(k), n, 0.) for k in ("wind_speed", "wind_direction"))
    L0 = per_layer(la.get("L0"), n, 25.)
    return [Layer(la["altitude"][l] * airmass, weight[l] * airmass, L0[l],
                  [speed[l] * math.cos(math.radians(angle[l])), speed[l] * math.sin(math.radians(angle[l]))])
            for l in range(n)]


def total_r0(layers, lam=500e-9):
    return sum(l.strength for l in layers) ** (-3 / 5) * (lam / 500e-9) ** (6 / 5)


# ---- Section 2: sensors

def lit_share(centre, pitch, radius, obscuration):
    """Share of a square inside the annulus: lengths of chords on 4000 lines across it."""
    x = centre[0] + pitch * ((np.arange(4000) + 0.5) / 4000 - 0.5)
    low, high = centre[1] - pitch / 2, centre[1] + pitch / 2

    def within(r):
        half = np.sqrt(np.maximum(r * r - x * x, 0))
        return np.maximum(np.minimum(high, half) - np.maximum(low, -half), 0).mean() / pitch

    return within(radius) - within(obscuration * radius)


class Sensor:
    """A wavefront sensor; the truth sensor is one with neither registration nor noise at an infinite star."""

    whole = False                       # mean gradients over whole squares, lit or not (tests/golden/whole_squares.py)

    def __init__(self, diameter, obscuration, airmass, nssp, direction, **key):
        self.key = key
        self.diameter, self.airmass, self.nssp = diameter, airmass, nssp
        self.direction = np.array(direction, dtype=float)
        self.inverse_altitude = 1 / (key["altitude"] * airmass) if key.get("type") == "lgs" else 0.
        self.pitch = diameter / nssp
        self.magnification = key.get("magnification", 1.)
        self.gradient = key.get("slope", "gradient") == "gradient"
        t = math.radians(key.get("rotation", 0.))
        self.rotation = np.array([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]])
        odd = 2 * np.arange(nssp) + 1 - nssp
        jj, ii = np.meshgrid(odd, odd, indexing="ij")       # rows of y, x fast
        r2 = ii ** 2 + jj ** 2
        valid = (r2 >= (obscuration * nssp) ** 2 * (1 - 1e-9)) & (r2 < nssp ** 2) | (nssp <= 2)
        centres = np.stack([ii[valid], jj[valid]], axis=1) * self.pitch / 2
        self.position = self.magnification * centres @ self.rotation.T + np.array(key.get("shift", [0, 0]), dtype=float)
        self.nsub = len(centres)
        self.light = [lit_share(c, self.pitch, diameter / 2, obscuration) for c in centres] if self.gradient \
            else np.ones(len(centres))
        self.axes = self.rotation.T                         # rows e_x, e_y
        self.corners, self.hole = np.stack([ii[valid], jj[valid]], axis=1) / 2 - 0.5, obscuration * nssp / 2
        self.outlines = {}

    def nodes(self, q):
        """Phases of which slopes are weighted sums: places in the pupil (nodes, 2), weights for either axis [1/m], the
        first of each subaperture. Mean gradients over the lit part; the truth sensor, which is none, sees whole squares."""
        if q not in self.outlines:
            size = self.magnification * self.pitch
            if self.gradient:
                lit = "type" in self.key and not self.whole
                radius, hole = (self.nssp / 2, self.hole) if lit else (math.inf, 0.)
                parts = [outlines.outline(c, radius, hole, q) for c in self.corners]
            else:
                edge = np.array([[0.5, 0], [-0.5, 0], [0, 0.5], [0, -0.5]])
                parts = [(c + 0.5 + edge, 2 * edge) for c in self.corners]
            place = np.concatenate([a for a, _ in parts]) * size @ self.rotation.T + np.array(self.key.get("shift", [0, 0]), float)
            self.outlines[q] = (place, np.concatenate([b for _, b in parts]) / size,
                                np.cumsum([0] + [len(a) for a, _ in parts]))
        return self.outlines[q]

    def on_layer(self, place, h):
        return place * self.scale(h) + self.direction / ARCSEC * h

    def scale(self, h):
        return 1 - h * self.inverse_altitude

    def footprint(self, h):
        return self.position * self.scale(h) + self.direction / ARCSEC * h

    def half(self, h, axis):
        """Half the subaperture's size on the layer along x (0) or y (1)."""
        return self.magnification * self.pitch * self.scale(h) / 2 * self.axes[axis]


# ---- Section 4: slope covariance

def summed(w, v, layers, delay, order, more, structure):
    """Covariance of the slopes of two sensors by their nodes [arcsec^2]."""
    out = np.zeros((2 * w.nsub, 2 * v.nsub))
    (p, a, first), (q, b, second) = w.nodes(order * (2 if w.nssp <= 2 else 1) + more[0]), \
        v.nodes(order * (2 if v.nssp <= 2 else 1) + more[1])
    for l in layers:
        if l.strength == 0 or w.scale(l.altitude) <= 0 or v.scale(l.altitude) <= 0:
            continue
        x, y = w.on_layer(p, l.altitude) - l.wind * delay, v.on_layer(q, l.altitude)
        for i in range(w.nsub):
            one = slice(first[i], first[i + 1])
            d = x[one, None] - y[None]
            d = structure(np.sqrt(d[..., 0] ** 2 + d[..., 1] ** 2), l.L0)
            for s in (0, 1):
                c = -0.5 * l.strength * (a[one, s] @ d)
                for t in (0, 1):
                    out[s * w.nsub + i, t * v.nsub:(t + 1) * v.nsub] += outlines.sums(c * b[:, t], second, 0)
    return out * (500e-9 / (2 * math.pi) * ARCSEC) ** 2


def covariance(w, v, layers, delay=0., order=8, structure=structure):
    """Slopes of sensor w against those of v [arcsec^2]; w sees the layers `delay` later than v. order: nodes on a piece."""
    if not (w.gradient or v.gradient):
        return summed(w, v, layers, delay, order, (0, 0), structure)
    return outlines.SAME * summed(w, v, layers, delay, order, (0, 0), structure) + outlines.OTHER / 2 * (
        summed(w, v, layers, delay, order, (0, 1), structure) + summed(w, v, layers, delay, order, (1, 0), structure))


# ---- Section 5: noise and the tip-tilt of laser guide stars

# Bessell, Castelli & Plez 1998, table A2: band, um, flux of magnitude 0 [1e-11 erg/s/cm2/angstrom]; Z and Y from Hewett et al. 2006 [Jy]
VEGA = [("U", 0.366, 417.5), ("B", 0.438, 632.0), ("V", 0.545, 363.1), ("R", 0.641, 217.7), ("I", 0.798, 112.6),
        ("Z", 0.8817, 2232 * 2997.92458 / 8817 ** 2 * 1e3), ("Y", 1.0305, 2026 * 2997.92458 / 10305 ** 2 * 1e3), ("J", 1.22, 31.47),
        ("H", 1.63, 11.38), ("K", 2.19, 3.961), ("L", 3.45, 0.708)]


def zero_photons(wavelength, bandwidth):
    """Photons/m2/s of Vega between wavelength -+ bandwidth/2 [um]: its spectrum is a power law between the bands."""
    um = np.array([b[1] for b in VEGA])
    rate = np.array([b[2] for b in VEGA]) * 1e-11 * 1e-7 * 1e4 * 1e4 * um * 1e-6 / (6.62607015e-34 * 299792458)  # /s/m2/um
    x, w = np.polynomial.legendre.leggauss(200)
    at = wavelength + 0.5 * bandwidth * x
    return 0.5 * bandwidth * w @ np.exp(np.interp(np.log(at), np.log(um), np.log(rate)))


def noise(w, layers):
    """Noise covariance of the slopes of one sensor, with the tip-tilt constant of a laser star [arcsec^2]."""
    key, n = w.key, w.nsub
    out = np.zeros((2 * n, 2 * n))
    if "noise_variance" in key:
        out[np.arange(2 * n), np.arange(2 * n)] = key["noise_variance"]
    else:
        lam = key["wavelength"] * 1e-6
        seeing = 500e-9 / total_r0(layers) * (500e-9 / lam) ** 0.2 * ARCSEC
        area = w.pitch ** 2
        if w.gradient:                                      # as in the published code: slope: points
            seeing = math.sqrt((0.976 * seeing) ** 2 + (lam / w.pitch * ARCSEC) ** 2 + 8 * math.log(2) / 12 * key["pixel"] ** 2)
        if key["type"] == "ngs" and w.gradient:
            flux = 10 ** (-0.4 * key["magnitude"]) * key["throughput"] * area * key["frame_time"] \
                * zero_photons(key["wavelength"], key["bandwidth"] * 1e-3)
        elif key["type"] == "ngs":
            flux = 10 ** (2.9 - 0.4 * key["magnitude"]) * key["throughput"] * area * key["frame_time"] \
                * key["bandwidth"] * 10 * 1e4
        else:
            flux = key["lgs_return"] * key["frame_time"] * area * key["throughput"] / key["atm_transmission"]

        def variance(e_along, e_across):
            light = flux * w.light[i]
            return 0.32 / light * e_along ** 2 \
                + 0.82 * (key["ron"] / (light * key["pixel"])) ** 2 * e_along ** 3 * e_across

        for i in range(n):
            if key["type"] == "ngs":
                c = variance(seeing, seeing) * np.eye(2)
            else:
                b = w.position[i] - launch(w)
                length = np.hypot(*b)
                elongation = ARCSEC * key["lgs_depth"] * w.airmass * length * w.inverse_altitude ** 2
                e_c = math.sqrt(seeing ** 2 + key["lgs_width"] ** 2)
                e_l = math.sqrt(e_c ** 2 + elongation ** 2)
                along = w.axes @ (b / length if length > 0 else np.array([1., 0]))
                across = np.array([-along[1], along[0]])
                c = variance(e_l, e_c) * np.outer(along, along) + variance(e_c, e_l) * np.outer(across, across)
            out[i, i], out[n + i, n + i], out[i, n + i], out[n + i, i] = c[0, 0], c[1, 1], c[0, 1], c[1, 0]
    if key["type"] == "lgs":
        out[:n, :n] += tiptilt(w, layers)
        out[n:, n:] += tiptilt(w, layers)
    return out


def launch(w):
    if "launch" in w.key:
        return np.array(w.key["launch"], dtype=float)
    length = np.hypot(*w.direction)
    return w.diameter / 2 * (w.direction / length if length > 0 else np.array([1., 0]))


def tiptilt(w, layers):
    if "tiptilt_variance" in w.key:
        return w.key["tiptilt_variance"]
    size = w.magnification * w.pitch
    k = (500e-9 / (2 * math.pi) * ARCSEC / size) ** 2
    return w.key["tiptilt_factor"] * k * sum(l.strength * float(structure(np.array(size * w.scale(l.altitude)), l.L0))
                                             for l in layers if w.scale(l.altitude) > 0)


# ---- Section 6: mirror, reconstructor, residual

class Mirror:
    def __init__(self, truth, obscuration, coupling, mu):
        n, self.pitch = truth.nssp, truth.pitch
        even = 2 * np.arange(n + 1) - n
        jj, ii = np.meshgrid(even, even, indexing="ij")
        r = np.sqrt(ii ** 2 + jj ** 2)
        self.valid = (r > obscuration * n - 1 + 1e-9 * n) & (r < n + 1.4)
        self.index = np.argwhere(self.valid)                # (row of y, column of x)
        self.position = (self.index[:, ::-1] - n / 2) * self.pitch
        self.x0 = self.pitch / math.sqrt(-2 * math.log(coupling))
        t, w = np.polynomial.legendre.leggauss(12) if truth.gradient else (np.zeros(1), np.full(1, 2.))
        self.D = np.concatenate([sum(
            u / 2 * ARCSEC / self.pitch * (self.influence(truth.position + truth.half(0, a) + s * truth.half(0, 1 - a))
                                           - self.influence(truth.position - truth.half(0, a) + s * truth.half(0, 1 - a)))
            for s, u in zip(t, w)) for a in (0, 1)])
        self.Dplus = self.command_matrix(mu)

    def influence(self, points):
        """points x actuators"""
        d = points[:, None, :] - self.position[None, :, :]
        return np.exp(-(d ** 2).sum(axis=2) / (2 * self.x0 ** 2))

    def command_matrix(self, mu):
        v = len(self.position)
        number = np.full(self.valid.shape, -1)
        number[self.valid] = np.arange(v)
        rows = []
        for lines in (number, number.T):
            for line in lines:
                for k in range(len(line) - 2):
                    if min(line[k:k + 3]) >= 0:
                        row = np.zeros(v)
                        row[line[k:k + 3]] = 1, -2, 1
                        rows.append(row)
        L = np.array(rows)
        piston = np.full((v, v), 1 / v)
        return (np.eye(v) - piston) @ np.linalg.solve(
            self.D.T @ self.D + (ARCSEC / self.pitch) ** 2 * (mu * L.T @ L + piston), self.D.T)

    def energies(self, diameter, obscuration):
        """Energy of each influence function inside the pupil, on pixels of a quarter of the pitch."""
        step = self.pitch / 4
        n = int(round(diameter / step))
        c = (np.arange(n) + 0.5 - n / 2) * step
        y, x = np.meshgrid(c, c, indexing="ij")
        r = np.hypot(x, y)
        inside = (r >= obscuration * diameter / 2) & (r < diameter / 2)
        return (self.influence(np.stack([x[inside], y[inside]], axis=1)) ** 2).sum(axis=0)


# ---- Section 7: PSF

def lens_area(r, a, b):
    """Area common to two discs of radii a and b whose centres are r apart."""
    a, b = max(a, b), min(a, b)
    out = np.zeros_like(r)
    out[r <= a - b] = math.pi * b * b
    part = (r > a - b) & (r < a + b)
    s = r[part]
    ca, cb = (s * s + a * a - b * b) / (2 * s * a), (s * s + b * b - a * a) / (2 * s * b)
    ca, cb = np.arccos(np.clip(ca, -1, 1)), np.arccos(np.clip(cb, -1, 1))
    out[part] = a * a * (ca - np.sin(ca) * np.cos(ca)) + b * b * (cb - np.sin(cb) * np.cos(cb))
    return out


class Optics:
    """Grid of separations rho = (index - N/2) pixel in y, x; wavelengths and boxes in rad."""

    def __init__(self, diameter, obscuration, mirror, oversampling, N, weights):
        self.mirror, self.weights, self.N = mirror, weights, N
        self.pixel = mirror.pitch / oversampling
        self.rho = (np.arange(N) - N // 2) * self.pixel
        y, x = np.meshgrid(self.rho, self.rho, indexing="ij")
        self.r = np.hypot(x, y)
        R, c = diameter / 2, obscuration * diameter / 2
        tel = lens_area(self.r, R, R)
        if c > 0:
            tel = tel - 2 * lens_area(self.r, R, c) + lens_area(self.r, c, c)
        tel[self.r >= diameter] = 0
        self.telescope = tel / tel.sum()

    def residual_covariance(self, Cvv):
        """C(rho) of the optical path [m^2] from the stationary average of the commands."""
        m = self.mirror
        n = m.valid.shape[0]
        full_c, full_w = np.zeros((2, 2 * n - 1, 2 * n - 1))
        dy, dx = (m.index[:, None, a] - m.index[None, :, a] + n - 1 for a in (0, 1))
        ww = np.outer(self.weights, self.weights)
        np.add.at(full_c, (dy, dx), ww * Cvv)
        np.add.at(full_w, (dy, dx), ww)
        M = np.divide(full_c, full_w, out=np.zeros_like(full_c), where=full_w > 0)
        delta = (np.arange(2 * n - 1) - (n - 1)) * m.pitch
        g = np.exp(-(self.rho[:, None] - delta[None, :]) ** 2 / (4 * m.x0 ** 2))
        return math.pi * m.x0 ** 2 / m.pitch ** 2 * g @ M @ g.T

    def fitting(self, layers):
        """D_fit(rho) at 500 nm [rad^2]."""
        df = 1 / (self.N * self.pixel)
        f = (np.arange(self.N) - self.N // 2) * df
        half = 1 / (2 * self.mirror.pitch)
        # share of an interval f +- df/2 within +- half; the cell's share outside the square follows
        inside = np.clip((np.minimum(f + df / 2, half) - np.maximum(f - df / 2, -half)) / df, 0, 1)
        share = 1 - np.outer(inside, inside)
        f2 = f[:, None] ** 2 + f[None, :] ** 2
        W = np.zeros_like(f2)
        used = share > 0
        for l in layers:
            W[used] += SPECTRUM * l.strength * (f2[used] + l.L0 ** -2.) ** (-11 / 6)
        wW = share * W * df ** 2
        c, s = np.cos(2 * np.pi * np.outer(self.rho, f)), np.sin(2 * np.pi * np.outer(self.rho, f))
        D = 2 * (wW.sum() - (c @ wW @ c.T - s @ wW @ s.T))
        r0 = total_r0(layers) if sum(l.strength for l in layers) > 0 else math.inf
        return D + np.where(self.r > 0, 2 * BEYOND * (self.pixel / r0) ** (5 / 3), 0)

    def fitting_variance(self, layers):
        """Integral of W outside the square at 500 nm [rad^2]: closed in radius, 400 Gauss points in an eighth of angle."""
        x, w = np.polynomial.legendre.leggauss(400)
        t, w = (x + 1) * math.pi / 8, w * math.pi / 8
        edge = 1 / (2 * self.mirror.pitch) / np.cos(t)      # int_e^inf (f^2+q)^(-11/6) f df = 3/5 (e^2+q)^(-5/6)
        return sum(8 * SPECTRUM * l.strength * float(w @ (0.6 * (edge ** 2 + l.L0 ** -2.) ** (-5 / 6))) for l in layers)

    def otf(self, C, fit, lam):
        c0 = C[self.N // 2, self.N // 2]
        return self.telescope * np.exp(-((c0 - C) * (2 * math.pi / lam) ** 2 + fit * (500e-9 / lam) ** 2 / 2))

    def image(self, otf):
        """PSF with its axis on pixel (N/2, N/2); the pixel is lambda/(N pixel) rad."""
        return np.real(np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(otf))))

    def ensquared(self, otf, lam, box):
        s = np.sinc(box * self.rho / lam)
        return box ** 2 * (self.pixel / lam) ** 2 * float(s @ otf @ s) / otf[self.N // 2, self.N // 2]

    def fwhm(self, otf, lam):
        """Mean over 36 directions of twice the radius of half the peak [rad]: the first crossing, then bisection."""
        def at(radius, angle):
            ex = np.exp(2j * np.pi * self.rho / lam * radius * math.cos(angle))
            ey = np.exp(2j * np.pi * self.rho / lam * radius * math.sin(angle))
            return float(np.real(ey @ otf @ ex))

        half, step, total = otf.sum() / 2, lam / (self.N * self.pixel) / 4, 0.
        for i in range(36):
            angle, high = math.radians(5 * i), step
            while at(high, angle) > half:
                high += step
            low = high - step
            for _ in range(40):
                mid = (low + high) / 2
                low, high = (mid, high) if at(mid, angle) > half else (low, mid)
            total += low + high
        return total / 36


# ---- Section 8 and all together

def in_force(times, t):
    """Index of the last time not after t."""
    return max(i for i, x in enumerate(times) if x <= t)


class Reference:
    """Matrices by the names of the program's files, scalars as arrays (target, wavelength, exposure)."""

    def __init__(self, case, N):
        tel, dm, psf = case["telescope"], case["dm"], case.get("psf", {})
        D, o = tel["diameter"], tel.get("obscuration", 0.)
        X = 1 / math.cos(math.radians(tel.get("zenith", 0.)))
        self.sensors = []
        for s in case["sensors"]:
            key = {**COMMON, **DEFAULTS[s["type"]], **case.get(s["type"] + "_defaults", {}), **s}
            self.sensors.append(Sensor(D, o, X, **key))
        self.targets = targets(case["targets"])
        self.truths = [Sensor(D, o, X, dm["nssp"], t, slope=self.sensors[0].key["slope"]) for t in self.targets]
        self.mirror = Mirror(self.truths[0], o, dm.get("coupling", 0.2), dm.get("mu", 3e-3))
        profiles = case["atmosphere"]["profiles"]
        self.profile_times = [p.get("time", 0.) for p in profiles]
        self.layers = [profile_layers(p, X) for p in profiles]
        self.delay = case.get("loop", {}).get("delay", 0.)
        self.tors, self.exposures = case["schedule"]["tor_times"], case["schedule"]["exposure_times"]
        self.weights = self.mirror.energies(D, o) if psf.get("weighting", "energy") == "energy" \
            else np.ones(len(self.mirror.position))
        self.optics = Optics(D, o, self.mirror, psf.get("oversampling", 4), N, self.weights)
        self.wavelengths = [1e-6 * w for w in psf.get("wavelengths", [1.65])]
        self.boxes = psf.get("ee_boxes", [40, 80, 150])
        self.matrices, self.condition = {"D": self.mirror.D, "Dplus": self.mirror.Dplus}, {}
        self.compute_matrices()
        self.compute_quality()

    def at(self, t):
        return self.layers[in_force(self.profile_times, t)]

    def measurements(self, layers):
        """Cmm with noise."""
        n = np.cumsum([0] + [2 * s.nsub for s in self.sensors])
        out = np.zeros((n[-1], n[-1]))
        for i, w in enumerate(self.sensors):
            for j, v in enumerate(self.sensors[:i + 1]):
                c = covariance(w, v, layers) + (noise(w, layers) if i == j else 0)
                out[n[i]:n[i + 1], n[j]:n[j + 1]] = c
                out[n[j]:n[j + 1], n[i]:n[i + 1]] = c.T
        return out

    def truth(self, t, layers, delay=0.):
        return np.concatenate([covariance(self.truths[t], v, layers, delay) for v in self.sensors], axis=1)

    def compute_matrices(self):
        m, Dp, cache = self.matrices, self.mirror.Dplus, {}

        def once(f, *args):                                 # profiles return in several reconstructors and exposures
            key = (f.__name__,) + tuple(id(a) if isinstance(a, list) else a for a in args)
            if key not in cache:
                cache[key] = f(*args)
            return cache[key]

        for r, time in enumerate(self.tors):
            layers = self.at(time)
            cmm = m[f"Cmm0_tor{r}"] = once(self.measurements, layers)
            self.condition[r] = np.linalg.cond(cmm)
            for t in range(len(self.targets)):
                ctm = m[f"Ctm0_tor{r}_target{t}"] = once(self.truth, t, layers)
                m[f"R_tor{r}_target{t}"] = np.linalg.solve(cmm, ctm.T).T
                m[f"W_tor{r}_target{t}"] = Dp @ m[f"R_tor{r}_target{t}"]
        for e, time in enumerate(self.exposures):
            layers, r = self.at(time), in_force(self.tors, time)
            cmm = m[f"Cmm_exp{e}"] = once(self.measurements, layers)
            ctt = m[f"Ctt_exp{e}"] = covariance(self.truths[0], self.truths[0], layers)
            for t in range(len(self.targets)):
                ctm = m[f"Ctm_exp{e}_target{t}"] = once(self.truth, t, layers, self.delay)
                R = m[f"R_tor{r}_target{t}"]
                cee = m[f"Cee_exp{e}_target{t}"] = ctt - ctm @ R.T - R @ ctm.T + R @ cmm @ R.T
                m[f"Cvv_exp{e}_target{t}"] = Dp @ cee @ Dp.T

    def compute_quality(self):
        shape = (len(self.targets), len(self.wavelengths), len(self.exposures))
        q = {name: np.zeros(shape) for name in ["STREHL", "FWHM", "VARIANCE"] + [ee_name(b) for b in self.boxes]}
        o, mid = self.optics, self.optics.N // 2
        long_otf = np.zeros(shape[:2] + (o.N, o.N))
        self.images = np.zeros(shape[:2] + shape[2:] + (o.N, o.N))
        for e, time in enumerate(self.exposures):
            layers = self.at(time)
            fit, variance = o.fitting(layers), o.fitting_variance(layers)
            for t in range(shape[0]):
                C = o.residual_covariance(self.matrices[f"Cvv_exp{e}_target{t}"])
                for i, lam in enumerate(self.wavelengths):
                    otf = o.otf(C, fit, lam)
                    long_otf[t, i] += otf / shape[2]
                    self.images[t, i, e] = o.image(otf)
                    q["STREHL"][t, i, e] = otf.sum()
                    q["FWHM"][t, i, e] = 1e3 * ARCSEC * o.fwhm(otf, lam)
                    q["VARIANCE"][t, i, e] = C[mid, mid] * (2 * math.pi / lam) ** 2 + variance * (500e-9 / lam) ** 2
                    for b in self.boxes:
                        q[ee_name(b)][t, i, e] = o.ensquared(otf, lam, b / (1e3 * ARCSEC))
        self.long_fwhm = np.array([[1e3 * ARCSEC * o.fwhm(long_otf[t, i], lam)
                                    for i, lam in enumerate(self.wavelengths)] for t in range(shape[0])])
        self.quantities = q


def targets(t):
    """Directions [arcsec] in their order: a list as it is, a grid with x running fast."""
    if "list" in t:
        return [tuple(p) for p in t["list"]]
    g = t["grid"]
    nx, ny = g["nx"], g.get("ny", g["nx"])
    width = g.get("width", 0.)
    height, (cx, cy) = g.get("height", width), g.get("center", [0., 0.])

    def line(n, extent, centre):
        return [centre + (extent * (k / (n - 1) - 0.5) if n > 1 else 0.) for k in range(n)]

    return [(x, y) for y in line(ny, height, cy) for x in line(nx, width, cx)]


def ee_name(box):
    return "EE_%smas" % ("%g" % box).replace(".", "p")
