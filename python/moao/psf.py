"""A point-spread function: normalised to flux, its ensquared energy and profile, on any pixels.

The images of psf.fits are samples of a band-limited function (they are the Fourier transform of a transfer function of
bounded support), so that integrals over boxes and pixels need no interpolation by hand: they are sums over the samples
with the integrals of the interpolating kernel, of x and y apart.
"""
import os
from typing import Optional, Sequence, Tuple, Union

import numpy as np

from .reading import MoaoError, cell_of, number, whole

Numbers = Union[float, Sequence[float], np.ndarray]

MAS = np.pi / 180 / 3600e3  # rad
FWHM_DIRECTIONS = 36


def pupil_area(header):
    """Area [m2] of a pupil of uniform amplitude whose image has the peak of this one's for the same flux: the integral
    of the amplitude A squared over that of A^2. Of the header of maps.fits; without PUPAREA, PUPPEAK it is an annulus.
    """
    annulus = np.pi / 4 * number(header.get("TELDIAM"), "keyword TELDIAM") ** 2 * (1 - number(header.get("OBSCUR"), "keyword OBSCUR") ** 2)
    light, peak = (number(header.get(k, default), "keyword %s" % k) for k, default in (("PUPAREA", annulus), ("PUPPEAK", 1.)))
    return peak * annulus ** 2 / light


def total_flux(wavelength, pixel, area):
    """Sum over all pixels, without crop, of an image whose diffraction limit peaks at 1.

    wavelength [um], pixel [mas], area of the pupil [m2]. The image's peak is
    (pupil area)^2/lambda^2 for a flux of (pupil area): sum x (pixel/lambda)^2 x area = 1.
    """
    return (wavelength * 1e-6 / (pixel * MAS)) ** 2 / area


def box_weights(n, low, high):
    """Integral of each of the n samples' interpolating kernels from low to high, in pixels from sample n//2.

    low, high: arrays (m); the answer is m x n. For frequencies f = k/n the integral of exp(2 pi i f (x - x_j)).
    """
    low, high = np.atleast_1d(np.asarray(low, float)), np.atleast_1d(np.asarray(high, float))
    f = np.fft.fftfreq(n)
    middle, width = (low + high) / 2, high - low
    spectrum = width[:, None] * np.sinc(width[:, None] * f) * np.exp(2j * np.pi * f * middle[:, None])
    if n % 2 == 0:  # the highest frequency stands for both signs
        spectrum[:, n // 2] = spectrum[:, n // 2].real
    # sum over f of spectrum(f) exp(-2 pi i f j)/n, j counted from the axis
    return np.fft.fftshift(np.fft.fft(spectrum, axis=1).real / n, axes=1)


def ensquared(image, pixel, boxes):
    """Sum of an image [y, x] (axis on pixel n//2) in square boxes of those sides [mas] round the axis."""
    half = np.atleast_1d(np.asarray(boxes, float)) / pixel / 2
    wx, wy = (box_weights(n, -half, half) for n in (image.shape[1], image.shape[0]))
    return np.einsum("bj,bj->b", wy @ np.asarray(image, float), wx)


class Psf:
    """One image. `data` [y, x] as in psf.fits (the diffraction limit peaks at 1), axis on pixel [n//2, n//2].

    pixel [mas], wavelength [um] (of an image of a band its centre), band ("": none), x and y [arcsec] of the target, its index from 0, exposure (from 1, None: long).
    reduced: how the computation was less than that of the case ("": it was not; moao.psf).
    """

    def __init__(self, data, pixel, wavelength, flux, target=0, x=0.0, y=0.0, exposure=None, name="", band=""):
        self.data, self.pixel, self.wavelength, self.total = np.asarray(data, float), pixel, wavelength, flux
        self.target, self.x, self.y, self.exposure, self.name, self.band = target, x, y, exposure, name, band
        self.reduced = ""

    def __repr__(self):
        return "<PSF %d x %d pixels of %.4g mas at %.4g um, target %d at (%g, %g) arcsec, Strehl %.4f%s>" % (
            self.data.shape[1], self.data.shape[0], self.pixel, self.wavelength, self.target, self.x, self.y,
            self.strehl, self.reduced and ", reduced: " + self.reduced)

    def _repr_html_(self):
        from .show import psf_page
        return psf_page(self)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.data, dtype=dtype)

    @property
    def strehl(self) -> float:
        """The pixel on the axis."""
        return float(self.data[self.data.shape[0] // 2, self.data.shape[1] // 2])

    @property
    def flux(self) -> np.ndarray:
        """The image normalised to flux: the sum over an image without crop would be 1; here it is `fraction`."""
        return self.data / self.total

    @property
    def fraction(self) -> float:
        """Share of all the light that lies inside the image."""
        return float(self.data.sum() / self.total)

    def ee(self, boxes: Numbers) -> Numbers:
        """Share of all the light in square boxes of those sides [mas] on the axis; no larger than the image."""
        try:
            boxes = np.asarray(boxes, float)
        except (TypeError, ValueError):
            raise MoaoError("expected sides of boxes in mas, numbers, not %r" % (boxes,)) from None
        if not np.all((boxes > 0) & (boxes <= min(self.data.shape) * self.pixel)):
            raise MoaoError("boxes must have sides above 0 and up to the image's %.4g mas"
                             % (min(self.data.shape) * self.pixel))
        value = ensquared(self.data, self.pixel, boxes.ravel()) / self.total
        return float(value[0]) if boxes.ndim == 0 else value.reshape(boxes.shape)

    def profile(self) -> Tuple[np.ndarray, np.ndarray]:
        """(radius [mas], mean over the ring of one pixel's width): the radial profile."""
        n, m = self.data.shape
        r = np.hypot(*np.ogrid[-(n // 2):n - n // 2, -(m // 2):m - m // 2])
        ring = r.round().astype(int)
        number = np.bincount(ring.ravel())
        mean = np.bincount(ring.ravel(), self.data.ravel()) / np.maximum(number, 1)
        radius = np.bincount(ring.ravel(), r.ravel()) / np.maximum(number, 1)
        keep = min(n, m) // 2
        return radius[:keep] * self.pixel, mean[:keep]

    def _spectrum(self):
        """Fourier coefficients and frequencies along y and x, with which the image is known between its samples."""
        n, m = self.data.shape
        return np.fft.fft2(np.fft.ifftshift(self.data)) / (n * m), np.fft.fftfreq(n), np.fft.fftfreq(m)

    def at(self, x: Numbers, y: Numbers) -> np.ndarray:
        """Values at places x, y [mas] from the axis, in the units of data, by the image's own Fourier series."""
        x, y = np.broadcast_arrays(np.asarray(x, float), np.asarray(y, float))
        f, fy, fx = self._spectrum()
        ey = np.exp(2j * np.pi * np.outer(y.ravel() / self.pixel, fy))
        ex = np.exp(2j * np.pi * np.outer(x.ravel() / self.pixel, fx))
        return np.einsum("pj,pj->p", ey @ f, ex).real.reshape(x.shape)

    @property
    def fwhm(self) -> float:
        """Full width at half maximum [mas]: mean over 36 directions of the width of the contour at half the value on the axis, as
        the table of a run has it; NaN where the image does not fall that low."""
        angles = np.pi * np.arange(FWHM_DIRECTIONS) / FWHM_DIRECTIONS
        c, s = np.cos(angles), np.sin(angles)
        half, most = self.strehl / 2, (min(self.data.shape) // 2 - 1) * self.pixel
        steps = np.arange(1, int(most / self.pixel)) * self.pixel
        n, m = (k // 2 for k in self.data.shape)
        near = self.data[np.rint(n + np.outer(s, steps) / self.pixel).astype(int), np.rint(m + np.outer(c, steps) / self.pixel).astype(int)]
        if not (near < half).any(axis=1).all():
            return float("nan")
        high = steps[np.argmax(near < half, axis=1)] + self.pixel
        low = np.maximum(high - 3 * self.pixel, 0)
        for _ in range(30):
            middle = (low + high) / 2
            above = self.at(middle * c, middle * s) >= half
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return float(2 * np.mean((low + high) / 2))

    def encircled(self, r: Numbers) -> Numbers:
        """Share of all the light in circles of radius r [mas] round the axis; no larger than the image."""
        radii = np.asarray(r, float)
        if not np.all((radii > 0) & (2 * radii <= min(self.data.shape) * self.pixel)):
            raise MoaoError("radii must be above 0 and up to half the image's %.4g mas" % (min(self.data.shape) * self.pixel))
        shares = [self._disc(v / self.pixel) for v in radii.ravel()]
        return shares[0] if radii.ndim == 0 else np.reshape(shares, radii.shape)

    def _disc(self, r):
        """Share in a circle of r pixels: chords along x are integrated in closed form, and over y = r sin(t) by Gauss-Legendre,
        which is exact for a band-limited image up to rounding."""
        t, weight = np.polynomial.legendre.leggauss(int(4 * r) + 24)
        t, weight = np.pi / 2 * t, np.pi / 2 * weight
        y, w = r * np.sin(t), r * np.cos(t)
        f, fy, fx = self._spectrum()
        chord = 2 * w[:, None] * np.sinc(2 * w[:, None] * fx)
        lines = np.einsum("pj,pj->p", np.exp(2j * np.pi * np.outer(y, fy)) @ f, chord).real
        return float(np.sum(weight * w * lines) / self.total)

    def radial_profile(self, radii: Optional[Numbers] = None) -> Tuple[np.ndarray, np.ndarray]:
        """(radius [mas], mean over the circle of that radius), in the units of data: the diffraction limit peaks at 1. Without
        radii the rings of one pixel's width, as profile()."""
        if radii is None:
            return self.profile()
        radii = np.atleast_1d(np.asarray(radii, float))
        if not np.all((radii >= 0) & (2 * radii <= min(self.data.shape) * self.pixel)):
            raise MoaoError("radii must be from 0 to half the image's %.4g mas" % (min(self.data.shape) * self.pixel))
        mean = []
        for r in radii:
            n = int(8 * r / self.pixel) + 16
            a = 2 * np.pi * np.arange(n) / n
            mean.append(self.at(r * np.cos(a), r * np.sin(a)).mean())
        return radii, np.array(mean)

    def writeto(self, path: Union[str, os.PathLike], overwrite: bool = False, normalised: bool = True) -> None:
        """Write the image as FITS. normalised: to flux (the sum without crop would be 1); else the diffraction limit peaks at 1."""
        from astropy.io import fits
        h = fits.PrimaryHDU(np.asarray(self.flux if normalised else self.data, np.float32))
        n, m = self.data.shape
        for key, value, comment in (
                ("BUNIT", "", "share of the flux in a pixel" if normalised else "the diffraction limit peaks at 1"),
                ("PIXSCALE", self.pixel / 1e3, "[arcsec] side of a pixel"), ("PIXEL", self.pixel, "[mas] the same"),
                ("CRPIX1", m // 2 + 1.0, "the axis"), ("CRPIX2", n // 2 + 1.0, "the axis"),
                ("CDELT1", self.pixel / 1e3, "[arcsec]"), ("CDELT2", self.pixel / 1e3, "[arcsec]"),
                ("CUNIT1", "arcsec", ""), ("CUNIT2", "arcsec", ""),
                ("WAVELEN", self.wavelength, "[um] wavelength"), ("BAND", self.band, "photometric band, blank: one wavelength"), ("XTARGET", self.x, "[arcsec] direction of the target"),
                ("YTARGET", self.y, "[arcsec]"), ("STREHL", self.strehl, "Strehl ratio"),
                ("FRACTION", self.fraction, "share of all the light inside the image"),
                ("EXPOSURE", "long" if self.exposure is None else self.exposure, "from 1, or long"),
                ("OBJECT", cell_of(self.name), "name of the target")):
            h.header[key] = (value, comment)
        if self.reduced:
            h.header["REDUCED"] = self.reduced
        try:
            h.writeto(path, overwrite=overwrite, checksum=True)
        except OSError as e:
            raise MoaoError("%s: cannot be written: %s" % (path, e)) from None

    def resampled(self, pixel: float, side: int) -> np.ndarray:
        """Flux in each of side x side pixels of that side [mas], the axis in the middle of pixel side//2."""
        if not number(pixel, "a pixel in mas") > 0 or whole(side, "a number of pixels") < 1:
            raise MoaoError("%s pixels of %s mas: both must be above 0" % (side, pixel))
        if side * pixel > min(self.data.shape) * self.pixel * (1 + 1e-9):
            raise MoaoError("%d pixels of %g mas are wider than the image of %.4g mas"
                             % (side, pixel, min(self.data.shape) * self.pixel))
        edge = (np.arange(side + 1) - side // 2 - 0.5) * pixel / self.pixel
        wy, wx = (box_weights(n, edge[:-1], edge[1:]) for n in self.data.shape)
        return wy @ self.data @ wx.T / self.total
