"""An effect for ScopeSim: the PSF of a case as a field-varying PSF that is computed when it is needed.

In Python:       optical_train.optics_manager.add_effect(moao.scopesim.MoaoPSF(case="mine.yaml", field=60))
In a package:    import moao.scopesim before the package is loaded, and an effect with `class: MoaoPSF` and `kwargs: {case: mine.yaml, field: 60}`.

ScopeSim's FieldVaryingPSF convolves the whole image with every PSF and cuts the results along borders. Here the image is multiplied before the
convolution with weights that are linear between the nodes of the field and have the sum 1 everywhere, so that the PSF varies without borders and no
star is cut. Kernels are the flux in the detector's pixels; light beyond them is lost, unless normalise is set.
"""
import numpy as np

from . import source
from .reading import MoaoError

try:
    import scopesim.effects
    from scopesim.optics.fov import FieldOfView
    PSF = scopesim.effects.PSF
except ImportError:
    raise MoaoError("scopesim is not installed: pip install scopesim") from None

MAS = 3.6e6  # in a degree


def node_weights(at, nodes):
    """[node, place]: linear between nodes that rise, constant beyond the outermost; their sum is 1."""
    if len(nodes) == 1:
        return np.ones((1, len(at)))
    return np.array([np.interp(at, nodes, row) for row in np.eye(len(nodes))])


def places(header, axis):
    """Coordinates [arcsec] of the pixels of a field of view along axis 1 or 2."""
    from astropy import units as u
    scale = u.Unit(str(header.get("CUNIT%d" % axis, "deg")).lower()).to(u.arcsec)
    value = (float(header["CRVAL%d" % axis]) * scale + 648000) % 1296000 - 648000  # 359.99 deg is left of 0
    return value + (np.arange(int(header["NAXIS%d" % axis])) + 1 - float(header["CRPIX%d" % axis])) * float(header["CDELT%d" % axis]) * scale


class MoaoPSF(PSF):
    """PSFs of a case of moao over the field.

    case, reduced, profile: as of moao.psf. settings: keys that are set on it. field: side [arcsec] of a square round the axis with nodes x nodes directions, which are
    computed together and then kept (moao.source); between them images are mixed linearly. field 0: the PSF on the axis everywhere. waves [um]: the
    wavelengths that are computed, of which each field of view takes the nearest; None: its own middle. side: pixels of the kernels, made odd; None:
    all there are. normalise: kernels with the sum 1. mirror: ScopeSim's x means right ascension, to the east, where moao's is to the west."""

    z_order = (261, 661)

    def __init__(self, **kwargs):
        meant = {"case": "demo", "settings": {}, "field": 0.0, "nodes": 3, "waves": None, "side": None, "normalise": False, "mirror": False,
                 "ranks": None, "gpu": "auto", "reduced": False, "profile": 0}
        meant.update({k: v for k, v in kwargs.items() if v is not None or k not in meant})
        if not (float(meant["field"]) >= 0 and int(meant["nodes"]) == meant["nodes"] and meant["nodes"] >= 1):
            raise MoaoError("MoaoPSF: field %r arcsec with %r nodes across: expected 0 or more, and 1 or more" % (meant["field"], meant["nodes"]))
        super().__init__(**meant)
        self.convolution_classes = FieldOfView
        waves = self.meta["waves"]
        if waves is not None:
            from astropy import units as u
            self._waveset = np.sort(np.atleast_1d(np.asarray(waves, float))) * u.um
        self._kernels = {}

    def nodes(self):
        """Coordinates [arcsec] of the nodes along either axis."""
        n, field = int(self.meta["nodes"]), float(self.meta["field"])
        return np.zeros(1) if field == 0 or n == 1 else np.linspace(-field / 2, field / 2, n)

    def kernels(self, wavelength, pixel):
        """[node y, node x, y, x]: flux in pixels of that side [mas] at a wavelength [um], the nearest of waves."""
        if self.meta["waves"] is not None:
            wavelength = min(np.atleast_1d(np.asarray(self.meta["waves"], float)), key=lambda w: abs(w - wavelength))
        key = (round(float(wavelength), 4), round(float(pixel), 6))
        if key not in self._kernels:
            at = self.nodes()
            x, y = np.tile(at, len(at)), np.repeat(at, len(at))
            made = source.psf(-x if self.meta["mirror"] else x, y, key[0], case=self.meta["case"], settings=self.meta["settings"], ranks=self.meta["ranks"],
                              gpu=self.meta["gpu"], reduced=self.meta["reduced"], profile=self.meta["profile"])
            room = min(int(min(p.data.shape) * p.pixel / key[1] * (1 + 1e-9)) for p in made)
            side = min(int(self.meta["side"] or room), room)
            side -= 1 - side % 2
            if side < 1:
                raise MoaoError("MoaoPSF: pixels of %g mas are larger than the images" % key[1])
            cube = np.array([p.resampled(key[1], side) for p in made])
            if self.meta["mirror"]:
                cube = cube[:, :, ::-1]
            if self.meta["normalise"]:
                cube /= cube.sum(axis=(1, 2), keepdims=True)
            self._kernels[key] = cube.reshape(len(at), len(at), side, side)
        return self._kernels[key]

    def get_kernel(self, obj):
        """The kernel in the middle of a field of view, for ScopeSim's plots."""
        cube = self.kernels(self._middle(obj), abs(float(obj.header["CDELT1"])) * MAS)
        return cube[cube.shape[0] // 2, cube.shape[1] // 2]

    @staticmethod
    def _middle(fov):
        """Middle of its wavelengths [um]."""
        from astropy import units as u
        low, high = (u.Quantity(fov.meta[k], u.um).value for k in ("wave_min", "wave_max"))
        return (low + high) / 2

    def _waves_of_planes(self, fov):
        """Wavelength [um] of each plane of a cube."""
        from astropy import units as u
        h = fov.hdu.header
        unit = u.Unit(str(h.get("CUNIT3", "um"))).to(u.um)
        return (float(h["CRVAL3"]) + (np.arange(fov.hdu.data.shape[0]) + 1 - float(h["CRPIX3"])) * float(h["CDELT3"])) * unit

    def apply_to(self, obj, **kwargs):
        """Convolve a field of view; other objects as ScopeSim's PSF does."""
        if not isinstance(obj, FieldOfView):
            return super().apply_to(obj, **kwargs)
        if not obj.fields:
            return obj
        if obj.hdu is None or obj.hdu.data is None:
            obj.hdu = obj.make_hdu()
        data = np.asarray(obj.hdu.data, float)
        weights = [node_weights(places(obj.header, axis), self.nodes()) for axis in (1, 2)]
        pixel = abs(float(obj.header["CDELT1"])) * MAS
        if data.ndim == 3:
            waves = self._waves_of_planes(obj)
            obj.hdu.data = np.array([self._convolved(plane, w, pixel, weights) for plane, w in zip(data, waves)])
        else:
            obj.hdu.data = self._convolved(data, self._middle(obj), pixel, weights)
        return obj

    def _convolved(self, image, wavelength, pixel, weights):
        """sum_k (w_k image) * K_k, the background apart: its light comes in as it goes out."""
        from scipy.signal import fftconvolve
        from scopesim.effects.psfs.psf_base import get_bkg_level
        cube, level = self.kernels(wavelength, pixel), get_bkg_level(image, self.meta["bkg_width"])
        out = np.zeros(image.shape)
        for j, wy in enumerate(weights[1]):
            for i, wx in enumerate(weights[0]):
                if (wx > 0).any() and (wy > 0).any():
                    out += fftconvolve((image - level) * wx * wy[:, None], cube[j, i], mode="same")
        return out + level


scopesim.effects.MoaoPSF = MoaoPSF  # where ScopeSim looks for the classes that its packages name
