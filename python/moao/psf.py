"""A point-spread function: normalised to flux, its ensquared energy and profile, on any pixels.

The images of psf.fits are samples of a band-limited function (they are the Fourier transform of a transfer function of
bounded support), so that integrals over boxes and pixels need no interpolation by hand: they are sums over the samples
with the integrals of the interpolating kernel, of x and y apart.
"""
import numpy as np

from .reading import MoaoError, number, whole

MAS = np.pi / 180 / 3600e3  # rad


def total_flux(wavelength, pixel, diameter, obscuration):
    """Sum over all pixels, without crop, of an image whose diffraction limit peaks at 1.

    wavelength [um], pixel [mas], diameter [m], obscuration (share of the diameter). The image's peak is
    (pupil area)^2/lambda^2 for a flux of (pupil area): sum x (pixel/lambda)^2 x area = 1.
    """
    area = np.pi / 4 * diameter ** 2 * (1 - obscuration ** 2)
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

    pixel [mas], wavelength [um], x and y [arcsec] of the target, its index from 0, exposure (from 1, None: long).
    """

    def __init__(self, data, pixel, wavelength, flux, target=0, x=0.0, y=0.0, exposure=None, name=""):
        self.data, self.pixel, self.wavelength, self.total = np.asarray(data, float), pixel, wavelength, flux
        self.target, self.x, self.y, self.exposure, self.name = target, x, y, exposure, name

    def __repr__(self):
        return "<PSF %d x %d pixels of %.4g mas at %.4g um, target %d at (%g, %g) arcsec, Strehl %.4f>" % (
            self.data.shape[1], self.data.shape[0], self.pixel, self.wavelength, self.target, self.x, self.y,
            self.strehl)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.data, dtype=dtype)

    @property
    def strehl(self):
        """The pixel on the axis."""
        return float(self.data[self.data.shape[0] // 2, self.data.shape[1] // 2])

    @property
    def flux(self):
        """The image normalised to flux: the sum over an image without crop would be 1; here it is `fraction`."""
        return self.data / self.total

    @property
    def fraction(self):
        """Share of all the light that lies inside the image."""
        return float(self.data.sum() / self.total)

    def ee(self, boxes):
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

    def profile(self):
        """(radius [mas], mean over the ring of one pixel's width): the radial profile."""
        n, m = self.data.shape
        r = np.hypot(*np.ogrid[-(n // 2):n - n // 2, -(m // 2):m - m // 2])
        ring = r.round().astype(int)
        number = np.bincount(ring.ravel())
        mean = np.bincount(ring.ravel(), self.data.ravel()) / np.maximum(number, 1)
        radius = np.bincount(ring.ravel(), r.ravel()) / np.maximum(number, 1)
        keep = min(n, m) // 2
        return radius[:keep] * self.pixel, mean[:keep]

    def resampled(self, pixel, side):
        """Flux in each of side x side pixels of that side [mas], the axis in the middle of pixel side//2."""
        if not number(pixel, "a pixel in mas") > 0 or whole(side, "a number of pixels") < 1:
            raise MoaoError("%s pixels of %s mas: both must be above 0" % (side, pixel))
        if side * pixel > min(self.data.shape) * self.pixel * (1 + 1e-9):
            raise MoaoError("%d pixels of %g mas are wider than the image of %.4g mas"
                             % (side, pixel, min(self.data.shape) * self.pixel))
        edge = (np.arange(side + 1) - side // 2 - 0.5) * pixel / self.pixel
        wy, wx = (box_weights(n, edge[:-1], edge[1:]) for n in self.data.shape)
        return wy @ self.data @ wx.T / self.total
