"""psf.bands: images that are integrated over a band, in every program that reads results.

timeout: 120
"""
import csv
import os
import sys
import tempfile
import unittest

import numpy as np
from astropy.io import fits

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment, write_case  # noqa: E402
from test_commands import call  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
from moao import Run  # noqa: E402
from moao.compare import compare  # noqa: E402
from moao.export import export  # noqa: E402

CASE = """
telescope: {diameter: 4 m, obscuration: 0.2}
dm: {nssp: 6}
ngs_defaults: {nssp: 6, slope: points, noise_variance: 1e-3}
sensors:
  - {name: first, type: ngs, direction: [0, 0]}
targets: {list: [[0, 0], [8, 0]]}
atmosphere:
  profiles:
    - {r0: 15 cm, layers: {altitude: [0, 5000, 11000], fraction: [0.6, 0.25, 0.15]}}
psf: {wavelengths: [1.63 um], bands: [H, wide=1.5um/0.6um], ee_boxes: [75 mas, 200 mas]}
output: {crop: 64}
compute: {verify: "off"}
"""
MANY = 41
SHAPES = {"H": (1.63, 0.307), "wide": (1.5, 0.6)}  # Bessell 2005; as given


class Bands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = folder.name
        write_case(os.path.join(cls.dir, "case.yaml"), CASE)
        cls.moao("run", "case.yaml", "-o", "out", "-q")
        cls.run_ = Run(os.path.join(cls.dir, "out"))

    @classmethod
    def moao(cls, *args, code=0, program=(MOAO,)):
        p = call(*program, *args, cwd=cls.dir, env=environment(), timeout=200)
        if p.returncode != code:
            raise AssertionError("%s: %d\n%s%s" % (args, p.returncode, p.stdout, p.stderr))
        return p

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def test_many_wavelengths(self):
        """Strehl ratios, energies and widths are those of many wavelengths: peaks add as weight / lambda^2, energies by weight."""
        waves = [c + w * ((i + 0.5) / MANY - 0.5) for c, w in SHAPES.values() for i in range(MANY)]
        self.moao("run", "case.yaml", "psf.bands=[K]", "psf.wavelengths=[%s]" % ", ".join("%.12g" % w for w in waves), "output.psf=none",
                  "-o", "many", "-q")
        with fits.open(self.path("many", "maps.fits")) as f:
            many = {n: f["TARGETS"].data[n + "_LONG"] for n in ("STREHL", "EE_75mas", "EE_200mas", "FWHM")}
        for k, band in enumerate(SHAPES):
            part = slice(k * MANY, (k + 1) * MANY)
            peak = 1 / np.array(waves[part]) ** 2
            np.testing.assert_allclose(self.run_.strehl(band), many["STREHL"][:, part] @ (peak / peak.sum()), rtol=2e-4)
            for box in (75, 200):
                np.testing.assert_allclose(self.run_.ee(box, band), many["EE_%dmas" % box][:, part].mean(axis=1), rtol=2e-4)
            widths = many["FWHM"][:, part]
            self.assertTrue(((widths.min(axis=1) < self.run_.fwhm(band)) & (self.run_.fwhm(band) < widths.max(axis=1))).all())
        loss = 1 - self.run_.strehl("H") / self.run_.strehl(1.63)
        self.assertTrue(((loss > 0.005) & (loss < 0.03)).all(), loss)

    def test_header(self):
        """Names, widths, wavelengths and weights are in the files; the variance is that of the centre."""
        with fits.open(self.path("out", "maps.fits")) as f, fits.open(self.path("out", "psf.fits")) as p:
            h, rows, parts = f[0].header, f["WAVELENGTHS"].data, f["BANDS"].data
            self.assertEqual((h["NLAMBDA"], h["LAMBDA2"], h["BAND2"], h["BAND3"], "BAND1" in h), (3, 1.63, "H", "wide", False))
            self.assertEqual(list(rows["BAND"]), ["", "H", "wide"])
            np.testing.assert_allclose(rows["WIDTH"], [0, 0.307, 0.6])
            x, w = np.polynomial.legendre.leggauss(5)
            for i, (centre, width) in enumerate(SHAPES.values(), 2):
                own = parts[parts["ILAMBDA"] == i]
                np.testing.assert_allclose(own["LAMBDA"], centre + width / 2 * x)
                np.testing.assert_allclose(own["WEIGHT"], w / 2)
            image = p["PSF_LONG", 2].header
            self.assertEqual((image["BAND"], image["BANDN"]), ("H", 5))
            self.assertNotIn("BAND", p["PSF_LONG", 1].header)
        np.testing.assert_allclose(self.run_.variance("H"), self.run_.variance(1.63), rtol=1e-9)

    def test_images(self):
        """The axis has the Strehl ratio, boxes have the energies of the maps: so the flux of the image is the band's."""
        for band in SHAPES:
            for t, p in enumerate(self.run_.psfs(None, band)):
                self.assertAlmostEqual(p.strehl, self.run_.strehl(band)[t], 6)
                self.assertAlmostEqual(p.ee(200), self.run_.ee(200, band)[t], 3)
                self.assertEqual(p.band, band)

    def test_python(self):
        """A number means a single wavelength where one is near, else the band round it; mistakes name what there is."""
        run = self.run_
        self.assertEqual(run.waves, [1.63, "H", "wide"])
        self.assertEqual([run.wavelength_index(w) for w in (1.63, "H", "wide", 1.4)], [0, 1, 2, 2])
        with self.assertRaisesRegex(Exception, "bands H, wide"):
            run.wavelength_index("J")
        hdus = export(run)
        self.assertEqual([h.name for h in hdus[2:5]], ["PSF_WIDE", "PSF_1.63UM", "PSF_H"])
        self.assertEqual(hdus[4].header["WAVE0"], 1.63)
        rows, _ = compare(run, run)
        self.assertEqual({r["band"] for r in rows if r["name"] == "STREHL"}, {"", "H", "wide"})
        self.assertEqual(len(run.budget(wavelength="H")), len(run.budget_terms()))

    def test_alone(self):
        """Bands without wavelengths are all that is made; a run goes on with them, and the budget and the table of a sweep name them."""
        text = CASE.replace("wavelengths: [1.63 um], ", "").replace("wide=1.5um/0.6um", "1.5 um / 600 nm")
        write_case(self.path("alone.yaml"), text)
        said = self.moao("run", "alone.yaml", "-o", "alone").stdout
        self.assertRegex(said, r"\nH +Strehl ratio")
        self.assertEqual(Run(self.path("alone")).waves, ["H", "1.5-0.6"])
        np.testing.assert_array_equal(Run(self.path("alone")).strehl("1.5-0.6"), self.run_.strehl("wide"))
        self.moao("run", "alone.yaml", "-o", "alone", "--resume")
        self.assertIn("Strehl ratio of the images in H:", self.moao("budget", "alone").stdout)
        self.moao("sweep", "alone.yaml", "psf.band_wavelengths=[1, 5]", "psf.bands=[H]", "-o", "sweep", "-q")
        with open(self.path("sweep", "sweep.csv"), encoding="utf-8", newline="") as f:
            rows = list(csv.DictReader(f))
        strehl = [float(r["strehl_mean_H_1.63um"]) for r in rows]
        self.assertAlmostEqual(strehl[0], self.run_.strehl(1.63).mean(), 9)  # one wavelength is the centre
        self.assertAlmostEqual(strehl[1], self.run_.strehl("H").mean(), 9)

    def test_asterism(self):
        """Stars are chosen by the images of a band, and the full run is read at the same images."""
        with open(self.path("stars.csv"), "w", encoding="utf-8") as f:
            f.write("name,x,y,magnitude\na,0,0,9\nb,20,5,9\n")
        write_case(self.path("stars.yaml"), CASE.replace("noise_variance: 1e-3", "magnitude: 9, band: R"))
        want = ["asterism", "stars.yaml", "--stars", "stars.csv", "--choose", "1", "--order", "6", "--want"]
        self.moao(*want, "mean strehl in H", "-o", "best", "-q")
        with open(self.path("best", "asterism.csv"), encoding="utf-8", newline="") as f:
            rows = list(csv.DictReader(line for line in f if not line.startswith("#")))
        self.assertEqual(rows[0]["star_1"], "a")
        self.moao(*want, "mean strehl at 1.63um", "-o", "single", "-q")
        with open(self.path("single", "asterism.csv"), encoding="utf-8", newline="") as f:
            single = list(csv.DictReader(line for line in f if not line.startswith("#")))
        gap = 1 - float(rows[0]["figure"]) / float(single[0]["figure"])
        self.assertTrue(0.005 < gap < 0.03, gap)
        self.assertIn("psf.bands has no J", self.moao(*want, "mean strehl in J", "-o", "none", code=2).stderr)

    def test_mistakes(self):
        for bands, words in (("[Q]", "psf.bands[0]: 'Q' is not known"), ("[H, H]", "psf.bands[1]: 'H' is there for the second time"),
                             ("[1.6um/4um]", "reaches beyond"), ("[1.6um/0.2s]", "psf.bands[0]: '1.6um/0.2s' "),
                             ("['a b=1.6um/0.2um']", "has a name of other characters"), ("[G]", "is not known")):
            self.assertIn(words, self.moao("check", "case.yaml", "psf.bands=" + bands, code=2).stderr)
        self.assertIn("band H (0.307 um wide around 1.63 um, 5 wavelengths)", self.moao("check", "case.yaml").stdout)


if __name__ == "__main__":
    unittest.main()
