"""Pupils that are no annulus: spiders, segments and amplitude maps in a run, against transforms of the pupil itself, the exact
residual over its points, and the annulus that a map draws; and maps that cannot serve."""
# timeout: 200
import json
import math
import os
import shutil
import sys
import tempfile
import unittest

import numpy as np

from astropy.io import fits

from moao_case import ROOT, Run, moao
from test_static_map import STILL, D, OBSCURATION, grid, inside, plain_fits
from test_truth import case, layers, run, strehl
from truth_reference import Truth

sys.path.insert(0, os.path.join(ROOT, "python"))
import moao as results  # noqa: E402
from moao.psf import pupil_area  # noqa: E402

SPIDERS = {"number": 3, "width": 0.12, "angle": 20, "offset": [0.1, 0.1, -0.2]}


def lit(x, y, spiders, turned=0.):
    """The annulus of STILL less its spiders."""
    out = inside(x, y)
    for i, offset in enumerate(spiders["offset"]):
        t = math.radians(spiders["angle"] + turned + 360. / spiders["number"] * i)
        out &= ~((x * math.cos(t) + y * math.sin(t) > 0) & (abs(y * math.cos(t) - x * math.sin(t) - offset) < spiders["width"] / 2))
    return out


def still(**telescope):
    return {**STILL, "telescope": {**STILL["telescope"], **telescope}}


class Pupil(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="moao-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.path = os.path.join(cls.folder, "case.yaml")
        with open(cls.path, "w", encoding="utf-8") as f:
            json.dump(STILL, f)

    def write(self, name, values, **keys):
        path = os.path.join(self.folder, name)
        hdu = fits.PrimaryHDU(values)
        hdu.header.update(keys)
        hdu.writeto(path, overwrite=True)
        return path

    def test_images(self):
        """Images are |transform of the pupil|^2, pixel by pixel, which also tells the orientation; what the header says."""
        r = Run(json.dumps(still(spiders=SPIDERS)) + "\n")
        with fits.open(r.path("psf.fits")) as f:
            pixel = f["WAVELENGTHS"].data["PIXEL"] / 1e3 / 206264.80625
            images = [np.asarray(f["PSF_LONG", i + 1].data[0], float) for i in range(2)]
        with fits.open(r.path("maps.fits")) as f:
            head = f[0].header
        x, y = grid(1600)
        u = lit(x, y, SPIDERS)
        self.assertAlmostEqual(head["PUPAREA"], u.sum() * (D / 1600) ** 2, delta=5e-3)
        self.assertAlmostEqual(head["PUPPEAK"], (u.sum() / inside(x, y).sum()) ** 2, delta=1e-3)
        of_python = results.open(r.dir).pupil
        self.assertEqual((of_python["area"], of_python["peak"], of_python["angle"]), (head["PUPAREA"], head["PUPPEAK"], 0))
        self.assertAlmostEqual(pupil_area(head), head["PUPAREA"], delta=5e-3)
        for i, wavelength in enumerate((1.0e-6, 2.2e-6)):
            theta = (np.arange(64) - 32) * pixel[i]
            wave = np.exp(-2j * math.pi / wavelength * np.outer(theta, x[0]))
            want = abs(wave @ (u / u.sum()) @ wave.T) ** 2
            gap, mirrored = (abs(images[i] * s - w).max() for s, w in
                             ((1 / images[i].max(), want), (1 / images[i].max(), np.roll(want[::-1], 1, 0))))
            print("%.1f um: largest difference %.1e of the peak, mirrored %.1e" % (wavelength * 1e6, gap, mirrored))
            self.assertLess(gap, 2e-3)
            self.assertLess(gap, 0.2 * mirrored)

    def test_residual(self):
        """The Strehl ratio and the WFE are those of the residual at the pupil's points: exact, all pairs of lit points."""
        c = case([{"type": "ngs", "nssp": 6, "direction": [12, 5], "noise_variance": 1e-3}], 6, diameter=4,
                 profile=layers([0, 6000], [0.6, 0.4], 0.14), output={"psf": "none"})
        spiders = {"number": 4, "width": 0.25, "angle": 30}
        cut = {**c, "telescope": {**c["telescope"], "spiders": spiders, "min_light": 0.01}}
        truth = Truth(c, "points")
        points = truth.points(4)
        keep = np.ones(len(points), bool)
        for i in range(4):
            t = math.radians(30 + 90 * i)
            keep &= ~((points @ [math.cos(t), math.sin(t)] > 0) & (abs(points @ [-math.sin(t), math.cos(t)]) < 0.125))
        want = []
        for some in (points, points[keep]):
            d = truth.residual(some, 0)
            want.append((math.sqrt(d.mean() / 2), np.exp(-0.5 * (2 * math.pi / 1.65e-6) ** 2 * d).mean()))
        runs = [run(k, "points", "psf.average=exact") for k in (c, cut)]
        for r, (rms, s) in zip(runs, want):
            print("Strehl ratio %.4f, exact %.4f; WFE %.2f, exact %.2f nm" % (strehl(r).item(), s, r.table("TARGETS")["WFE_TOTAL"].item(), rms * 1e9))
            self.assertAlmostEqual(strehl(r).item() / s, 1, delta=0.003)
            self.assertAlmostEqual(r.table("TARGETS")["WFE_TOTAL"].item(), rms * 1e9, delta=0.2)
        self.assertGreater(want[1][0] - want[0][0], 0.3e-9)

    def test_map_of_the_annulus(self):
        """A map that draws the annulus: the same slopes, light and images to its resolution."""
        n, size = 600, 4
        x, y = grid(n)
        c = case([{"type": "ngs", "nssp": 6, "direction": [8, 0], "magnitude": 12}, {"type": "ngs", "nssp": 1, "direction": [0, 9], "magnitude": 12},
                  {"type": "ngs", "nssp": 2, "direction": [0, -9], "magnitude": 12}], 6, diameter=size,
                 obscuration=0.25, profile=layers([0, 6000], [0.6, 0.4], 0.14), output={"psf": "none"})
        r = np.hypot(x, y)
        path = self.write("annulus.fits", 255 * ((r < D / 2) & (r >= 0.25 * D / 2)).astype(np.uint8))
        clear = Run(json.dumps(c) + "\n")
        c["telescope"] = {"diameter": size, "pupil": path}
        drawn = Run(json.dumps(c) + "\n")
        self.assertIn("its largest value is 255", drawn.process.stderr)
        for name, within in (("STREHL", 2e-3), ("EE_80mas", 3e-3), ("FWHM", 2e-3)):
            ratio = drawn.quantity(name) / clear.quantity(name)
            print(name, ratio.ravel())
            np.testing.assert_allclose(ratio, 1, atol=within)

    def check(self, *more, code=0):
        p = moao("check", self.path, *more, check=False)
        self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        return p

    def test_losses(self):
        """Peaks below those of the annulus as published for an 8 m with 4 x 5 cm and the ELT with 6 x 50 cm."""
        for diameter, obscuration, number, width, loss in ((8, 0.14, 4, 0.05, 0.028), (38.5, 0.28, 6, 0.5, 0.076)):
            p = self.check("telescope.diameter=%g" % diameter, "telescope.obscuration=%g" % obscuration, "telescope.spiders.number=%d" % number,
                           "telescope.spiders.width=%g" % width, "--json")
            self.assertAlmostEqual(1 - json.loads(p.stdout)["pupil_peak"], loss, delta=6e-4)

    def test_turned_with_the_sky(self):
        """Spiders of a telescope whose y axis points to the zenith: turned by the parallactic angle, unless they are not to."""
        place = ("sky.ra=10:00:00", "sky.dec=10", "sky.hour_angle=02:00:00", "sky.latitude=-30", "sky.position_angle=25", "telescope.spiders.number=4",
                 "telescope.spiders.width=0.1", "telescope.pupil_angle=3")
        h, dec, lat = np.radians([30, 10, -30])
        q = math.degrees(math.atan2(math.sin(h), math.tan(lat) * math.cos(dec) - math.sin(dec) * math.cos(h)))
        for more, angle in (((), q - 25 + 3), (("sky.pupil=zenith",), q - 25 + 3), (("sky.pupil=field",), 3)):
            words = " ".join(self.check(*place, *more).stdout.split())
            turned = float(words.split("turned by ")[1].split(" deg")[0])
            self.assertAlmostEqual(math.remainder(turned - angle, 360), 0, delta=0.05)
        self.assertIn("sky.hour_angle: missing", self.check("sky.pupil=zenith", "sky.ra=10:00:00", "sky.dec=10", code=2).stderr)

    def test_what_cannot_serve(self):
        x, y = grid(64)
        good = inside(x, y).astype(float)
        bad = good.copy()
        bad[40, 50] = np.nan
        negative = good.copy()
        negative[3, 2] = -0.5
        with open(os.path.join(self.folder, "text.fits"), "w", encoding="utf-8") as f:
            f.write("nothing of that kind\n")
        table = os.path.join(self.folder, "table.fits")
        fits.BinTableHDU.from_columns([fits.Column("A", "D", array=[1.])]).writeto(table)
        maps = ((self.write("nan.fits", bad), "pixel (51, 41) has no finite value"), (self.write("negative.fits", negative), "pixel (3, 4) is -0.5"),
                (self.write("dark.fits", 0 * good), "all of its pixels are 0"), (self.write("cube.fits", np.ones((2, 9, 9))), "not two axes"),
                (self.write("line.fits", np.ones((1, 9))), "less than 2 or more than 4096"), (self.write("wide.fits", np.ones((2, 4097))), "more than 4096"),
                (self.write("empty.fits", None), "it has no image"), (table, "it has no image"), ("none.fits", "no such file"),
                (self.folder, "a directory"), ("/dev/zero", "a pipe or device"), ("text.fits", "cannot be read as FITS"),
                (self.write("scale.fits", good, CUNIT1="m", CDELT1=-9.), "give telescope.pupil_pixel"),
                (self.write("scale0.fits", good, CUNIT1="m", CDELT1=0.), "give telescope.pupil_pixel"),
                (self.write("noise.fits", (np.add.outer(np.arange(2048) // 2, np.arange(2048) // 2) % 2).astype(np.uint8)), "corners"),
                (plain_fits(self.folder, "blank.fits", 16, np.where(bad == bad, bad, -32768).astype(int), {"BLANK": -32768}), "no finite value"))
        for name, words in maps:
            p = self.check("telescope.pupil=" + os.path.join(self.folder, name), code=2)
            line = [s for s in p.stderr.splitlines() if "telescope" in s]
            self.assertEqual(len(line), 1, name + p.stderr)
            self.assertIn(words, line[0])
        for keys, words in ((("spiders.number=2",), "telescope.spiders.width: missing"), (("spiders.width=0.1",), "telescope.spiders.number: missing"),
                            (("spiders.number=3", "spiders.width=0.1", "spiders.offset=[0.1,0.2]"), "2 values of 3 spiders"),
                            (("segments.shape=hexagon",), "telescope.segments.size: missing"), (("segments.size=1",), "telescope.segments.shape: missing"),
                            (("segments.shape=square", "segments.size=1", "segments.within=[2,1]"), "expected the smaller distance first"),
                            (("segments.shape=square", "segments.size=1", "segments.missing=[[0.2,0.1],[0.1,0.1]]"), "missing already"),
                            (("spiders.number=2", "spiders.width=8"), "no light")):
            p = self.check(*["telescope." + k for k in keys], code=2)
            self.assertEqual(len([s for s in p.stderr.splitlines() if words in s]), 1, p.stderr)

    def test_another_image_is_no_finished_run(self):
        """--resume of a finished run whose pupil or static error is another image now ends with exit code 2; the same image again is fine."""
        x, y = grid(64)
        good = inside(x, y).astype(float)
        quick = {**STILL, "psf": {"wavelengths": [2.2], "residual": "sensor"}, "output": {"psf": "none"}}
        for key, name, group, was, now in (("telescope.pupil", "kept-pupil.fits", "telescope", good, good * (x > -1.5)),
                                           ("errors.static_map", "kept-map.fits", "errors", 100 * x, 100 * y)):
            path = self.write(name, was)
            r = Run(json.dumps({**quick, group: {**quick.get(group, {}), key.split(".")[1]: path}}) + "\n")
            again = ("run", os.path.join(os.path.dirname(r.dir), "case.yaml"), "-o", r.dir, "--resume")
            self.assertIn("finished already", moao(*again).stderr)
            self.write(name, now)
            p = moao(*again, check=False)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertIn("--resume with another %s than that of the run" % key, p.stderr)

    def test_scale_of_maps(self):
        """The size of a pixel by the parameter, CDELT1 or PUPLSCAL; light beyond the diameter, and a pupil that is too small, are told."""
        x, y = grid(64)
        good, area = inside(x, y).astype(float), math.pi / 4 * D ** 2 * (1 - OBSCURATION ** 2)
        for path, more in ((self.write("a.fits", good), ()), (self.write("b.fits", good, CUNIT1="m", CDELT1=D / 64), ()), (self.write("c.fits", good, PUPLSCAL=D / 64), ()),
                           (self.write("d.fits", np.pad(good, 32)), ("telescope.pupil_pixel=%g" % (D / 64),))):
            p = self.check("telescope.pupil=" + path, "--json", *more)
            self.assertAlmostEqual(json.loads(p.stdout)["pupil_area_m2"] / area, 1, delta=0.02)
            self.assertNotIn("telescope.pupil:", p.stderr)
        self.assertIn("of its light is outside telescope.diameter", self.check("telescope.pupil=" + self.write("e.fits", good, PUPLSCAL=0.1)).stderr)
        self.assertIn("its light ends at 0.9993 m", self.check("telescope.pupil=" + path).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
