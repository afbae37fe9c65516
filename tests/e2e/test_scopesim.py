"""The effect MoaoPSF: stars anywhere in the field have the PSF of their direction. With ScopeSim itself where it is installed; its own part, the
weights and the convolution, with a stand-in for ScopeSim's base classes."""
# seconds: 4
import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
import types
import unittest
from unittest import mock

import numpy as np
from astropy.io import fits

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ.update(environment(), MOAO=MOAO)
import moao  # noqa: E402

HAVE = importlib.util.find_spec("scopesim") is not None
CASE = {"telescope": {"diameter": 3, "obscuration": 0.2}, "dm": {"nssp": 6}, "sensors": [{"type": "ngs", "nssp": 6, "direction": [0, 0], "magnitude": 9}],
        "atmosphere": {"profiles": [{"r0": 0.15, "layers": {"altitude": [0, 8000], "fraction": [0.5, 0.5]}}]}}


class Fov:
    """As much of a field of view as the effect touches."""

    def __init__(self, data):
        self.fields, self.meta = [1], {"wave_min": 1.6, "wave_max": 1.7}
        self.hdu = fits.ImageHDU(data)
        n = data.shape[-1]
        self.header = fits.Header({"NAXIS1": n, "NAXIS2": n, "CRPIX1": n // 2 + 1.0, "CRPIX2": n // 2 + 1.0, "CRVAL1": 360.0, "CRVAL2": 0.0,
                                   "CDELT1": 0.05 / 3600, "CDELT2": 0.05 / 3600, "CUNIT1": "deg", "CUNIT2": "deg"})
        if data.ndim == 3:
            self.hdu.header.update({"CRVAL3": 1.6, "CRPIX3": 1.0, "CDELT3": 0.6, "CUNIT3": "um"})


class Base:
    def __init__(self, **kwargs):
        self.meta, self._waveset = dict(kwargs, bkg_width=0), []


def stand_in():
    """Modules with the names that the effect imports."""
    made = {name: types.ModuleType(name) for name in ("scopesim", "scopesim.effects", "scopesim.effects.psfs", "scopesim.effects.psfs.psf_base", "scopesim.optics",
                                                      "scopesim.optics.fov")}
    made["scopesim"].effects, made["scopesim.effects"].PSF, made["scopesim.optics.fov"].FieldOfView = made["scopesim.effects"], Base, Fov
    made["scopesim.effects.psfs.psf_base"].get_bkg_level = lambda image, width: 0.0
    return made


class Effect(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="moao-scopesim-")
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)
        cls.enterClassContext(mock.patch.dict(os.environ, {"XDG_CACHE_HOME": cls.dir}))

    def fresh(self):
        sys.modules.pop("moao.scopesim", None)
        self.addCleanup(sys.modules.pop, "moao.scopesim", None)
        return importlib.import_module("moao.scopesim")

    def test_without(self):
        with mock.patch.dict(sys.modules, {"scopesim": None, "scopesim.effects": None}), self.assertRaisesRegex(moao.MoaoError, "pip install scopesim"):
            self.fresh()

    def test_field(self):
        """A star on a node has that node's kernel, one between nodes the mean, with the flux inside; mirrored on the other side; a cube its planes' own."""
        with mock.patch.dict(sys.modules, stand_in()):
            module = self.fresh()
            np.testing.assert_allclose(module.node_weights(np.array([-30, -10, -5, 0, 2.5, 99]), np.array([-10.0, 0, 10])),
                                       [[1, 1, 0.5, 0, 0, 0], [0, 0, 0.5, 1, 0.75, 0], [0, 0, 0, 0, 0.25, 1]])
            effect = module.MoaoPSF(case=CASE, field=8, nodes=2, side=21)
            self.assertIs(sys.modules["scopesim"].effects.MoaoPSF, module.MoaoPSF)
            psfs = moao.psf([-4, 4, -4, 4], [-4, -4, 4, 4], 1.65, case=CASE)
            kernels = [p.resampled(50, 21) for p in psfs]
            for place, wanted in (((-80, -80), kernels[0]), ((80, 80), kernels[3]), ((0, 80), (kernels[2] + kernels[3]) / 2), ((0, 0), sum(kernels) / 4)):
                image = np.zeros((201, 201))
                x, y = 100 + place[0], 100 + place[1]
                image[y, x] = 7
                out = effect.apply_to(Fov(image)).hdu.data
                np.testing.assert_allclose(out[y - 10:y + 11, x - 10:x + 11], 7 * wanted, atol=7e-6)
                self.assertAlmostEqual(out.sum(), 7 * wanted.sum(), places=5)
            self.assertLess(kernels[3].sum(), 1)
            cube = np.zeros((2, 201, 201))
            cube[:, 100, 100] = 1
            axis = module.MoaoPSF(case=CASE, waves=[1.65, 2.2], side=21, normalise=True)
            out = axis.apply_to(Fov(cube)).hdu.data
            for plane, wave in zip(out, (1.65, 2.2)):
                k = moao.psf(0, 0, wave, case=CASE).resampled(50, 21)
                np.testing.assert_allclose(plane[90:111, 90:111], k / k.sum(), atol=1e-6)
            fast = module.MoaoPSF(case=CASE, side=21, reduced=True).kernels(1.65, 50)[0, 0]
            np.testing.assert_array_equal(fast, moao.psf(0, 0, 1.65, case=CASE, reduced=True).resampled(50, 21))
            with self.assertRaisesRegex(moao.MoaoError, "nodes across"):
                module.MoaoPSF(field=10, nodes=0)

    def test_scopesim(self):
        """An instrument of ScopeSim that names the class in its list of effects observes two stars: each has the peak of its direction's PSF."""
        if not HAVE:
            return  # the other tests are those of this module's own part
        import scopesim
        from astropy import units as u
        from scopesim.effects.effects_utils import make_effect
        from scopesim.source.source_templates import star
        self.fresh()
        train = scopesim.load_example_optical_train(set_modes=["imaging"], properties={"!INST.pixel_scale": 0.05, "!INST.plate_scale": 5.0,
                                                                                       "!DET.width": 240, "!DET.height": 240})
        train["psf"].include = False
        effect = make_effect({"class": "MoaoPSF", "name": "moao", "kwargs": {"case": CASE, "field": 8, "nodes": 2, "waves": [1.65], "side": 41}}, cmds=train.cmds)
        train.optics_manager.add_effect(effect)
        train.observe(star(x=-4, y=0, flux=10 * u.ABmag) + star(x=4, y=4, flux=10 * u.ABmag), update=True)
        image = train.image_planes[0].hdu.data
        image = image - np.median(image)
        k = [p.resampled(50, 41) for p in moao.psf([-4, 4, -4, 4], [-4, -4, 4, 4], 1.65, case=CASE)]
        for x, y, wanted in ((-4, 0, (k[0] + k[2]) / 2), (4, 4, k[3])):
            i, j = int(round(120 + x / 0.05)), int(round(120 + y / 0.05))
            box = image[j - 12:j + 13, i - 12:i + 13]
            j, i = np.unravel_index(box.argmax(), box.shape)
            near, peak = box[j - 5:j + 6, i - 5:i + 6], wanted[15:26, 15:26]
            self.assertAlmostEqual(near.max() / near.sum(), peak.max() / peak.sum(), delta=0.02 * peak.max() / peak.sum())


if __name__ == "__main__":
    unittest.main()
