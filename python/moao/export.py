"""Images for other programs: normalised to flux, with the share of the light that the image holds.

The field-varying PSF of ScopeSim (its class FieldVaryingPSF) is a FITS file of
  0  header: ECAT, the extension that says where each PSF holds (1), EDATA, the first extension of PSFs (2)
  1  image over the field (WCS in deg) whose values are layers, from 0, of the cubes
  2  and further: one cube [layer, y, x] for each wavelength, WAVE0 [um], with CDELT1, CDELT2 in deg.
Its kernels are centred on pixel (n - 1)//2 by the convolution, so that an odd side has the axis in the middle; and it
scales kernels whose pixels are not those of the detector, which `pixel` avoids: the flux in the detector's pixels is
written then.
"""
import numpy as np
from astropy.io import fits

from .reading import cell_of
from .results import MoaoError

FORMATS = ("scopesim", "cube")
ARCSEC = 1 / 3600  # deg


class Directions:
    """A run with output.field: true as if its targets were n x n directions over the same field."""

    def __init__(self, run, n):
        if not n >= 2:
            raise MoaoError("%s x %s directions: must be 2 or more" % (n, n))
        x, y = (np.linspace(v.min(), v.max(), n) for v in (run.x, run.y))
        self._run, self.grid, self.nt, self.names = run, (n, n), n * n, [""] * (n * n)
        self.x, self.y = np.tile(x, n), np.repeat(y, n)

    def __getattr__(self, name):
        return getattr(self._run, name)

    def psfs(self, _targets, wavelength, exposure):
        """The images of all."""
        return self._run.psf_at(self.x, self.y, wavelength, exposure)


def images(run, il, exposure, pixel, side):
    """(cube [target, y, x] of flux, fractions of all light, pixel [mas]) of one wavelength; odd side, axis in the
    middle."""
    cube, fractions, step = [], [], None
    for p in run.psfs(None, run.waves[il], exposure):
        step = p.pixel if pixel is None else pixel
        room = int(min(p.data.shape) * p.pixel / step * (1 + 1e-9))
        room -= 1 - room % 2
        n = min(side or room, room)
        n -= 1 - n % 2
        if n < 1:
            raise MoaoError("pixels of %g mas are larger than the images" % step)
        if pixel is None:
            c = p.data.shape[0] // 2
            flux = p.flux[c - n // 2:c + n // 2 + 1, c - n // 2:c + n // 2 + 1]
        else:
            flux = p.resampled(step, n)
        cube.append(flux.astype(np.float32))
        fractions.append(float(flux.sum()))
    return np.array(cube), np.array(fractions), step


def primary(run, exposure, kind):
    """Header of the file: whence it comes."""
    h = fits.PrimaryHDU()
    for key in ("CREATOR", "TITLE", "TELDIAM", "OBSCUR", "ZENITH", "DATE"):
        if key in run.header:
            h.header[key] = (run.header[key], run.header.comments[key])
    h.header["NORM"] = ("flux", "sum of an image without crop is 1")
    h.header["EXPOSURE"] = (exposure or 0, "number of the exposure, 0: the long one")
    h.header["CONTENT"] = (kind, "what the file is for")
    return h


def cube_hdu(run, il, cube, fractions, step, name):
    """The images of one wavelength with their keywords."""
    h = fits.ImageHDU(cube, name=name)
    n = cube.shape[-1]
    for axis in "12":
        h.header["CTYPE" + axis] = ("LINEAR", "axis")
        h.header["CRPIX" + axis] = (n // 2 + 1, "axis of the PSF")
        h.header["CRVAL" + axis] = (0.0, "value there")
        h.header["CDELT" + axis] = (step / 1e3 * ARCSEC, "step")
        h.header["CUNIT" + axis] = ("deg", "unit")
    h.header["WAVE0"] = (run.lambdas[il], "[um] wavelength")
    if run.bands[il]:
        h.header["BAND"] = (run.bands[il], "that the image is integrated over, round WAVE0")
    h.header["WAVEUNIT"] = ("um", "its unit")
    h.header["PIXEL"] = (step, "[mas] side of a pixel")
    h.header["FRACMIN"] = (fractions.min(), "smallest share of the light inside an image")
    h.header["FRACMAX"] = (fractions.max(), "largest")
    return h


def nearest_targets(run, x, y):
    """Index of the target nearest to each place of a raster, [y, x]."""
    if run.grid:
        i, j = (np.clip(np.rint((at - v.min()) / (np.ptp(v) / (n - 1) if n > 1 else 1)), 0, n - 1)
                for at, v, n in zip((x, y), (run.x, run.y), run.grid))
        return j[:, None] * run.grid[0] + i
    return np.array([((x[:, None] - run.x) ** 2 + (v - run.y) ** 2).argmin(axis=1) for v in y], float)


def layer_map(run):
    """Image over the field: index of the nearest target, half as wide again as the targets."""
    if run.grid:
        steps = [np.ptp(v) / (n - 1) for v, n in zip((run.x, run.y), run.grid) if n > 1] or [1.0]
        step, wide = min(steps) / 8, max(steps)
    else:
        wide = max(np.ptp(run.x), np.ptp(run.y), 2.0)
        step = wide / 256
    middle = [(v.min() + v.max()) / 2 for v in (run.x, run.y)]
    half = max(np.ptp(run.x), np.ptp(run.y)) / 2 * 1.5 + wide
    n = min(2 * int(np.ceil(half / step)), 4096)
    step = 2 * half / n
    at = (np.arange(n) + 0.5) * step - half
    layers = nearest_targets(run, middle[0] + at, middle[1] + at)
    h = fits.ImageHDU(layers, name="LAYERS")
    for axis, value, ctype in (("1", middle[0], "RA---TAN"), ("2", middle[1], "DEC--TAN")):
        h.header["CTYPE" + axis] = ctype
        h.header["CRPIX" + axis] = ((n + 1) / 2, "middle of the targets")
        h.header["CRVAL" + axis] = (value * ARCSEC, "value there")
        h.header["CDELT" + axis] = (step * ARCSEC, "step")
        h.header["CUNIT" + axis] = "deg"
    return h


def targets_hdu(run, waves, fractions):
    """Directions, and for each wavelength the share of the light inside the image."""
    names = [cell_of(n) for n in run.names]
    columns = [fits.Column("LAYER", "J", array=np.arange(run.nt)),
               fits.Column("NAME", "%dA" % max([32, *map(len, names)]), array=np.array(names)),
               fits.Column("X", "D", unit="arcsec", array=run.x), fits.Column("Y", "D", unit="arcsec", array=run.y),
               fits.Column("FRACTION", "%dD" % len(waves), array=np.array(fractions).T)]
    return fits.BinTableHDU.from_columns(columns, name="TARGETS")


def export(run, kind="scopesim", waves=None, exposure=None, pixel=None, side=None, directions=None):
    """The FITS file as an HDUList. directions: n, for n x n of them over the field in place of the targets (a run with output.field: true).
     kind: scopesim or cube; waves: rows of WAVELENGTHS (None: all); pixel [mas]: the
    flux in pixels of that side (None: the samples of psf.fits); side: pixels, an odd number (None: all there are)."""
    if kind not in FORMATS:
        raise MoaoError("no format %s: there are %s" % (kind, ", ".join(FORMATS)))
    run = run if directions is None else Directions(run, directions)
    waves = list(np.argsort(run.lambdas)) if waves is None else waves
    head = primary(run, exposure, "field-varying PSF" if kind == "scopesim" else "PSF cubes")
    made = [images(run, il, exposure, pixel, side) for il in waves]
    hdus = fits.HDUList([head])
    if kind == "scopesim":
        head.header["ETYPE"] = ("FVPSF", "field-varying PSF")
        head.header["ECAT"] = (1, "extension of the layers' places")
        head.header["EDATA"] = (2, "first extension of PSFs")
        hdus.append(layer_map(run))
    for k, (il, (cube, fractions, step)) in enumerate(zip(waves, made)):
        if kind == "scopesim":
            head.header["WAVEEXT%d" % (k + 2)] = (run.lambdas[il], "[um] wavelength of that extension")
        hdus.append(cube_hdu(run, il, cube, fractions, step, "PSF_%s" % (run.bands[il] or "%gum" % run.lambdas[il])))
    hdus.append(targets_hdu(run, waves, [m[1] for m in made]))
    return hdus
