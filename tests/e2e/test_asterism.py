"""On the sky: celestial coordinates and the zenith against astropy, catalogues of every kind, moao asterism from a catalogue to
the winner, coverage of fields, pictures, what is refused."""
# timeout: 300
import csv
import json
import os
import sys
import tempfile
import unittest
import warnings

import numpy as np
from astropy import units as u
from astropy.coordinates import AltAz, EarthLocation, SkyCoord
from astropy.io import fits
from astropy.table import Table
from astropy.time import Time
from astropy.utils import iers
from astropy.wcs import WCS

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment, write_case  # noqa: E402
from test_commands import call  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
from moao import asterism  # noqa: E402

RESULTS = os.path.join(ROOT, "scripts", "moao-results")
iers.conf.auto_download = False
iers.conf.iers_degraded_accuracy = "ignore"

CASE = """
title: sky
telescope: {diameter: 4 m, obscuration: 0.2}
dm: {nssp: 6}
sky: {ra: "10:00:28.6", dec: "+02:12:21", position_angle: 35 deg}
ngs_defaults: {nssp: 6}
sensors:
  - {name: laser, type: lgs, nssp: 6, direction: [10, 20], altitude: 90 km}
  - {name: first, type: ngs, direction: [30, 5], magnitude: 11}
targets: {grid: {nx: 3, ny: 2, width: 20 arcsec, height: 12 arcsec, center: [2, -3]}}
loop: {delay: 2 ms}
atmosphere:
  profiles:
    - {r0: 15 cm, layers: {altitude: [0, 5000, 11000], fraction: [0.6, 0.25, 0.15], wind_speed: [7, 15, 25]}}
psf: {residual: sensor, wavelengths: [1.65 um, 2.2 um], ee_boxes: [75 mas]}
output: {psf: none}
"""
STARS = ((30, 5, 11), (-25, 22, 12), (-8, -33, 11.5), (12, 28, 14))


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        write_case(self.path("case.yaml"), CASE)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def moao(self, *args, code=0, program=(MOAO,), **env):
        p = call(*program, *args, cwd=self.dir, env=environment(**env), timeout=200)
        self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        return p

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return name

    def rows(self, *names):
        with open(self.path(*names), encoding="utf-8", newline="") as f:
            return list(csv.DictReader(f))


class Sky(Folder):
    def test_celestial_coordinates(self):
        """Maps have a celestial description beside the linear one; tables have RA and Dec: all as astropy computes them."""
        self.moao("run", "case.yaml", "-o", "out", "-q")
        center = SkyCoord("10h00m28.6s", "+2d12m21s")
        with fits.open(self.path("out", "maps.fits"), checksum=True) as f:
            header, targets, stars = f["STREHL"].header, f["TARGETS"].data, f["GUIDESTARS"].data
            self.assertAlmostEqual(f[0].header["RA"], center.ra.deg, delta=1e-9)
            self.assertEqual(f[0].header["POSANGLE"], 35)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            linear, sky = WCS(header), WCS(header, key="A").celestial
        j, i = np.divmod(np.arange(6), 3)
        x, y = linear.sub(2).wcs_pix2world(i, j, 0)
        np.testing.assert_allclose(np.ravel(x), targets["X"], atol=1e-9)
        np.testing.assert_allclose(np.ravel(y), targets["Y"], atol=1e-9)
        there = sky.pixel_to_world(i, j)
        own = SkyCoord(targets["RA"] * u.deg, targets["DEC"] * u.deg)
        self.assertLess(there.separation(own).arcsec.max(), 1e-6)
        # independent of any projection: distance and position angle from the centre, in a field this small
        distance, angle = np.hypot(targets["X"], targets["Y"]), np.degrees(np.arctan2(-targets["X"], targets["Y"])) + 35
        np.testing.assert_allclose(center.separation(own).arcsec, distance, rtol=1e-6)
        turn = (center.position_angle(own).deg - angle + 180) % 360 - 180
        self.assertLess(abs(turn).max(), 1e-4)
        laser = SkyCoord(stars["RA"][0] * u.deg, stars["DEC"][0] * u.deg)
        self.assertAlmostEqual(center.position_angle(laser).deg, np.degrees(np.arctan2(-10, 20)) + 35, delta=1e-4)

    def test_zenith(self):
        """Zenith and parallactic angle follow from time and site as in astropy, and from hour angle and latitude; laser stars
        fixed to the pupil turn with it."""
        place = ["sky.latitude=-24.6", "sky.longitude=-70.4", "schedule.exposure_times=[0]", "targets.grid.nx=1", "targets.grid.ny=1"]
        when = Time("2026-03-01T04:50:00")
        self.moao("run", "case.yaml", *place, "sky.time=2026-03-01T04:50:00", "-o", "time", "-q")
        h = fits.getheader(self.path("time", "maps.fits"))
        site = EarthLocation.from_geodetic(-70.4 * u.deg, -24.6 * u.deg)
        star = SkyCoord("10h00m28.6s", "+2d12m21s")
        seen = star.transform_to(AltAz(obstime=when, location=site))
        self.assertAlmostEqual(h["ZENITH"], 90 - seen.alt.deg, delta=0.02)
        up = SkyCoord(AltAz(alt=90 * u.deg, az=0 * u.deg, obstime=when, location=site)).icrs
        parallactic = star.position_angle(SkyCoord(up.ra, up.dec)).deg
        self.assertLess(abs((h["PARANGLE"] - parallactic + 180) % 360 - 180), 0.05)
        self.assertGreater(h["ZENITH"], 10)
        self.moao("run", "case.yaml", *place, "sky.hour_angle=%.8f deg" % h["HOURANGL"], "sky.lgs=pupil", "-o", "pupil", "-q")
        g = fits.getheader(self.path("pupil", "maps.fits"))
        self.assertAlmostEqual(g["ZENITH"], h["ZENITH"], delta=0.3)  # the equinox of the date
        laser = fits.getdata(self.path("pupil", "maps.fits"), "GUIDESTARS")[0]
        turn = np.radians(g["PARANGLE"] - 35)
        self.assertAlmostEqual(laser["X"], 10 * np.cos(turn) - 20 * np.sin(turn), delta=1e-6)
        self.assertAlmostEqual(laser["Y"], 10 * np.sin(turn) + 20 * np.cos(turn), delta=1e-6)

    def test_catalogues(self):
        """FITS, VOTable, ECSV and CSV, degrees and sexagesimal, become the same table; targets may be given by it."""
        coords = SkyCoord([150.1, 150.12, 150.125] * u.deg, [2.2, 2.21, -2.205] * u.deg)
        t = Table({"Source": ["a", "b", "c d"], "RA_ICRS": coords.ra, "DE_ICRS": coords.dec, "Gmag": [11.5, 15.25, np.nan]})
        t.write(self.path("t.fits"))
        t.write(self.path("t.vot"), format="votable")
        t.write(self.path("t.ecsv"))
        words = coords.to_string("hmsdms", sep=":", precision=7)
        self.write("t.csv", "# a comment\nname,ra,dec,mag\n" + "".join(
            "%s,%s,%s\n" % (n, w.replace(" ", ","), m) for n, w, m in zip(t["Source"], words, ("11.5", "15.25", ""))))
        for name in ("t.fits", "t.vot", "t.ecsv", "t.csv"):
            self.moao("stars", name, "-o", "out.csv", program=(RESULTS,))
            rows = self.rows("out.csv")
            self.assertEqual([r["name"] for r in rows], ["a", "b", "c d"], name)
            np.testing.assert_allclose([float(r["ra"]) for r in rows], coords.ra.deg, atol=1e-8)
            np.testing.assert_allclose([float(r["dec"]) for r in rows], coords.dec.deg, atol=1e-8)
            self.assertEqual([r["magnitude"] for r in rows], ["11.5000", "15.2500", ""])
        p = self.moao("stars", "t.fits", "--center", "150.11,2.2", "--radius", "100", "--limit", "12", program=(RESULTS,))
        self.assertEqual(p.stdout.count("\n"), 2)
        self.moao("stars", "t.fits", "--ra", "nothing", program=(RESULTS,), code=2)
        self.write("two.csv", "\ufeffdesignation,ra,dec,Vmag,ref_epoch\r\nGaia DR3 7,10:00:28.6,2:12:25,11.5,2016\r\n"
                   "=two,150.1205,2.2055,null,2016\r\n")
        self.moao("stars", "two.csv", "-o", "near.csv", program=(RESULTS,))
        self.moao("run", "case.yaml", "targets.file=near.csv", "sky.position_angle=0", "-o", "near", "-q")
        targets = fits.getdata(self.path("near", "maps.fits"), "TARGETS")
        center = SkyCoord("10h00m28.6s", "+2d12m21s")
        east, north = center.spherical_offsets_to(SkyCoord([center.ra, 150.1205 * u.deg], [center.dec + 4 * u.arcsec, 2.2055 * u.deg]))
        np.testing.assert_allclose(targets["X"], -east.arcsec, atol=1e-4)
        np.testing.assert_allclose(targets["Y"], north.arcsec, atol=1e-4)
        self.assertEqual([n.strip() for n in targets["NAME"]], ["Gaia DR3 7", "=two"])

    def test_mistakes(self):
        for override, words in (("sky.ra=25:61:00", "sky.ra: '25:61:00' is no such angle"), ("sky.dec=95", "sky.dec"),
                                ("sky.hour_angle=1:00:00", "sky.latitude: missing"), ("sky.lgs=pupil", "sky.hour_angle: missing"),
                                ("sky.time=yesterday", "sky.latitude: missing"),
                                ("sky={hour_angle: 0, latitude: -80}", "from the zenith")):
            p = self.moao("check", "case.yaml", override, code=2)
            self.assertIn(words, p.stderr, override)
            self.assertEqual(p.stderr.count("\n"), 1, p.stderr)
        write_case(self.path("half.yaml"), CASE.replace(', dec: "+02:12:21"', ""))
        self.assertIn("sky.dec: missing", self.moao("check", "half.yaml", code=2).stderr)


class Asterisms(Folder):
    def setUp(self):
        super().setUp()
        self.write("stars.csv", "name,x,y,magnitude\n" + "".join("S%d,%g,%g,%g\n" % (i + 1, *s) for i, s in enumerate(STARS)))

    def test_the_best_is_the_best_of_all(self):
        """At full order the figures are those of full runs, so that of all six asterisms the winner is the best run; two
        ranks make the same table; the winner's file makes the same run again."""
        words = ["case.yaml", "--stars", "stars.csv", "--choose", "2", "--radius", "60", "--want", "min ee 75mas over targets"]
        self.moao("asterism", *words, "--order", "6", "--full", "6", "-o", "out")
        rows = self.rows("out", "asterism.csv")
        self.assertEqual(len(rows), 6)
        full, figure = (np.array([float(r[n]) for r in rows]) for n in ("full", "figure"))
        np.testing.assert_allclose(figure, full, rtol=1e-5)
        self.assertTrue((np.diff(full) <= 0).all() and full[0] > 1.05 * full[-1])
        for k, row in enumerate(rows):
            with fits.open(self.path("out", "place-%d" % (k + 1), "maps.fits")) as f:
                names = [n.strip() for n in f["GUIDESTARS"].data["NAME"]]
                ee = np.asarray(f["TARGETS"].data["EE_75mas_LONG"], float).reshape(6, 2)[:, 0]
            self.assertEqual(names, ["laser", row["star_1"], row["star_2"]])
            self.assertAlmostEqual(full[k], ee.min(), delta=1e-6)
        with open(self.path("out", "winner.yaml"), encoding="utf-8") as f, open(self.path("out", "place-1.yaml"), encoding="utf-8") as g:
            self.assertEqual(f.read(), g.read())
        with open(self.path("out", "asterism.json"), encoding="utf-8") as f:
            facts = json.load(f)
        self.assertEqual((facts["combinations"], facts["images"], facts["order"]), (6, 6, 6))
        self.assertGreater(os.path.getsize(self.path("out", "asterism.png")), 20000)
        field = self.rows("out", "field.csv")
        self.assertEqual(sorted(r["name"] for r in field if r["kind"] == "candidate" and r["chosen"] == "1"),
                         sorted([rows[0]["star_1"], rows[0]["star_2"]]))
        self.moao("asterism", *words, "--order", "6", "--full", "1", "--greedy", "-n", "2", "-q", "-o", "two")
        for a, b in zip(rows, self.rows("two", "asterism.csv")):
            self.assertEqual((a["star_1"], a["star_2"]), (b["star_1"], b["star_2"]))
            self.assertAlmostEqual(float(a["figure"]), float(b["figure"]), delta=1e-5)

    def test_swept_laser_stars(self):
        """A swept key makes a variant for each value; the winner's file has the value of its row."""
        self.moao("asterism", "case.yaml", "sensors[0].direction=[[10, 20], [0, 5]]", "--stars", "stars.csv", "--choose", "1",
                  "--order", "4", "--full", "1", "--radius", "33.5", "-q", "-o", "out")
        rows = self.rows("out", "asterism.csv")
        self.assertEqual(len(rows), 6)  # three of the stars, as one is 34 arcsec away
        self.assertEqual({r["sensors[0].direction"] for r in rows}, {"[10, 20]", "[0, 5]"})
        with fits.open(self.path("out", "place-1", "maps.fits")) as f:
            x = f["GUIDESTARS"].data["X"][0]
        self.assertAlmostEqual(x, float(rows[0]["sensors[0].direction"].strip("[]").split(",")[0]), delta=1e-6)

    def test_a_full_run_that_fails(self):
        """What stands for no magnitude, and a star that is there twice, are no candidates; a full run that fails is told in its row
        and the others decide; the same without any that ends."""
        self.write("rough.csv", "name,x,y,magnitude\n" + "".join("=S%d,%g,%g,%g\n" % (i + 1, *s) for i, s in enumerate(STARS[:3]))
                   + "none,5,5,-999\nsky,6,6,99.99\nloud,7,7,-400\nagain,30.1,5,11\nlost,,--,9\n")
        words = ["case.yaml", "--stars", "rough.csv", "--choose", "2", "--radius", "60", "--order", "4", "--full", "2", "-o", "out"]
        os.mkdir(self.path("out"))
        self.write("out/asterism.json", "{}")
        self.write("out/place-1", "in the way")
        p = self.moao("asterism", *words, code=1)
        for line in ("3 stars without a magnitude are left out (the first in line 5: magnitude '-999')",
                     "1 row is a star of another row and counts once (line 8: name 'again')",
                     "1 row without a position is left out (line 9: x '')",
                     "the full run of place 1 failed (exit code 2), see out/place-1.log",
                     "1 of 2 full runs failed, as said above; the winner is the best of the others"):
            self.assertIn(line, p.stderr)
        self.assertIn("winner   out/winner.yaml: place 2", p.stdout)
        rows = self.rows("out", "asterism.csv")
        self.assertEqual(len(rows), 3)  # pairs of three stars
        self.assertEqual([(r["full"] != "", r["full_run"]) for r in rows], [(False, "failed (exit code 2)"), (True, "done"), (False, "")])
        with open(self.path("out", "winner.yaml"), encoding="utf-8") as f, open(self.path("out", "place-2.yaml"), encoding="utf-8") as g:
            self.assertEqual(f.read(), g.read())
        names = {n for r in rows for n in (r["star_1"], r["star_2"])}
        self.assertEqual(names, {"'=S1", "'=S2", "'=S3"})  # no formulas to a spreadsheet
        found = asterism.Asterisms(self.path("out"))
        self.assertEqual(found.stars(1), [rows[0][n][1:] for n in ("star_1", "star_2")])
        self.assertEqual(list(found.table["full_run"]), [r["full_run"] for r in rows])
        self.assertEqual(found.best_run(), self.path("out", "place-2"))
        p = self.moao("asterism", *words[:-3], "1", "-o", "out", code=1)
        self.assertIn("1 of 1 full runs failed, as said above; the ranking is in asterism.csv, there is no winner", p.stderr)
        self.assertFalse(os.path.exists(self.path("out", "winner.yaml")))
        self.assertEqual(len(self.rows("out", "asterism.csv")), 3)

    def test_foreign_catalogue(self):
        """A catalogue of an archive is taken as it is, whatever its name, and what was left out is said."""
        bulk = os.path.join(ROOT, "tests", "e2e", "foreign", "gaia-bulk.csv")
        p = self.moao("asterism", "case.yaml", "--stars", bulk, "--choose", "1", "--radius", "100", "--order", "4", "--full", "1",
                      "-o", "out")
        self.assertIn("line 54 (Gaia DR3 3836400000000000105): ra 'null'", p.stderr)
        self.assertIn("out/stars.csv: 4 of 5 rows, magnitudes of phot_rp_mean_mag", p.stdout)
        rows = self.rows("out", "asterism.csv")
        self.assertEqual([r["star_1"] for r in rows], ["Gaia DR3 3836400000000000101"])
        self.assertEqual(rows[0]["full_run"], "done")

    def test_late_mistakes_come_early(self):
        """What a run would refuse is refused before the search; a natural star that is kept is no candidate."""
        good = ["case.yaml", "--stars", "stars.csv", "--choose", "2", "--order", "4", "-o", "out"]
        for args, words in ((["--want", "min ee 1e308mas"], "the box is out of the range of psf.ee_boxes"),
                            (["--want", "mean strehl at 1e9um"], "the wavelength is out of the range of psf.wavelengths")):
            p = self.moao("asterism", *good, *args, code=2)
            self.assertIn(words, p.stderr)
            self.assertNotIn("covariances", p.stderr)
        p = self.moao("asterism", *good[:4], "4", *good[5:], "--keep", "first", "--radius", "60", code=2)
        self.assertIn("stars.csv: 3 stars within", p.stderr)

    def test_coverage(self):
        """The best of each field of a list, fewer stars where there are fewer, none where there are none; one line a field."""
        center = SkyCoord("10h00m28.6s", "+2d12m21s")
        stars = center.spherical_offsets_by([-30, 25, 8, 640] * u.arcsec, [5, 22, -33, 0] * u.arcsec)
        Table({"ra": stars.ra.deg, "dec": stars.dec.deg, "mag": [11, 12, 11.5, 12]}).write(self.path("s.fits"))
        fields = center.spherical_offsets_by([0, 620, 0] * u.arcsec, [0, 0, 900] * u.arcsec)
        self.write("fields.csv", "name,ra,dec\n" + "".join("F%d,%.7f,%.7f\n" % (i, c.ra.deg, c.dec.deg) for i, c in enumerate(fields)))
        words = ["--stars", "s.fits", "--choose", "2", "--fields", "fields.csv", "--radius", "60", "--order", "4", "--want", "mean rms"]
        p = self.moao("asterism", "case.yaml", *words, "-o", "out")
        self.assertNotIn("On entry", p.stdout + p.stderr)  # BLAS, of sizes of 0
        rows = self.rows("out", "coverage.csv")
        self.assertEqual([(r["field"], r["candidates"], r["chosen"]) for r in rows], [("F0", "3", "2"), ("F1", "1", "1"), ("F2", "0", "0")])
        figure = [float(r["figure"]) for r in rows]
        self.assertTrue(figure[0] < figure[1] < figure[2], figure)
        self.assertGreater(os.path.getsize(self.path("out", "coverage.png")), 15000)
        write_case(self.path("alone.yaml"), "".join(x for x in CASE.splitlines(True) if "laser" not in x))
        self.moao("asterism", "alone.yaml", *words, "-q", "-o", "alone")
        figure = [float(r["figure"]) for r in self.rows("alone", "coverage.csv")]
        self.assertTrue(0 < figure[0] < figure[1] and np.isnan(figure[2]), figure)  # without laser stars the last has none

    def test_mistakes(self):
        self.write("bad.csv", "name,ra\na,1\n")
        self.write("short.csv", "name,x,y,mag\na,1,2\n")
        self.write("sky.csv", "name,ra,dec,mag\na,150.1,2.2,11\n")
        write_case(self.path("blind.yaml"), "".join(x for x in CASE.splitlines(True) if not x.startswith("sky:")))
        good = ["case.yaml", "--stars", "stars.csv", "--choose", "2", "-o", "out"]
        for args, words in ((good[:-2], "no folder, expected -o DIR"), (good[:1] + good[3:], "no catalogue"),
                            (good + ["--want", "best strehl"], "first word is not known"),
                            (good + ["--want", "min ee 75mas at noon"], "wavelength"),
                            (good + ["--limit", "5"], "0 stars that bright"), (good + ["--keep", "nobody"], "--keep nobody"),
                            (good[:2] + ["bad.csv"] + good[3:], "bad.csv:1: no columns ra and dec"),
                            (good[:2] + ["short.csv"] + good[3:], "short.csv:2: not as many values"),
                            (["blind.yaml", "--stars", "sky.csv"] + good[3:], "expected sky.ra and sky.dec"),
                            (good[:2] + ["none.csv"] + good[3:], "none.csv"), (good + ["sensors[1].noise_variance=1e-4"], "noise_variance"),
                            (good + ["sensors[1].photons=300"], "photons is given")):
            p = self.moao("asterism", *args, code=2)
            self.assertIn(words, p.stderr, args)
            self.assertEqual(len([x for x in p.stderr.split("\n") if x.strip()]), 1, p.stderr)


if __name__ == "__main__":
    unittest.main()
