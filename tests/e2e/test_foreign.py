"""Tables as archives and other programs write them (tests/e2e/foreign, typed by hand): positions, magnitudes, names and proper
motions by value, what is left out by name, what is refused in one line; directions in the field against astropy."""
import io
import os
import sys
import tempfile
import unittest
import warnings
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
from astropy import units as u
from astropy.coordinates import Distance, SkyCoord
from astropy.time import Time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import ROOT  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
from moao import cmd_stars  # noqa: E402
from moao.catalogue import parse_unit  # noqa: E402
from moao.results import MoaoError  # noqa: E402
from moao.sky import Pointing, read_stars  # noqa: E402

FOREIGN = os.path.join(ROOT, "tests", "e2e", "foreign")
RA, DEC = np.array([150.1012345, 150.13, 150.119, 330.7895]), np.array([2.2013579, -0.20533, 2.206, -44.5051])
MAGNITUDE = np.array([12.345, 14.2, np.nan, 11.02])
MOTION = np.array([[15.25, -120.5], [np.nan, np.nan], [-8.5, 3.25], [1250.0, -600.0]])  # mas/yr
GAIA = ["Gaia DR3 383640000000000010%d" % i for i in (1, 2, 3, 4)]
# file: names, column of magnitudes, rows, what is said of those left out, place and cell of the star without magnitude
TABLES = {
    "gaia-bulk.csv": (GAIA, "phot_rp_mean_mag", 5,
                      ["1 row left out, without a position: line 54 (Gaia DR3 3836400000000000105): ra 'null'"], "line 52", "'null'"),
    "gaia-tap.vot": (GAIA, "phot_rp_mean_mag", 5, ["the service cut this table (QUERY_STATUS OVERFLOW): rows are missing",
                                                   "1 row left out, without a position: row 5 (star 5): ra nothing"], "row 3", "nothing"),
    "vizier.tsv": (["A-1", "B-2", "C-3", "D-4"], "RPmag", 5,
                   ["only the first of its tables is read, to line 26",
                    "1 row left out, without a position: line 26 (E-5): _DEJ2000 ''"], "line 24", "''"),
    "vizier-fixed.txt": (["A 1", "B 2", "C 3", "D 4"], "Vmag", 4, [], "line 10", "''"),
    "simbad.txt": (["V* A Inv", "BD-00 9999", "[INV2026] C", "* d Inv"], "Mag R", 5,
                   ["1 row left out, without a position: line 14 (INV lost): coord1 (ICRS,J2000/2000) '~'"], "line 12", "'~'"),
    "irsa.tbl": (["10002429+0212048", "10003120-0012191", "10002856+0212216", "22030948-4430183"], "j_m", 5,
                 ["1 row left out, without a position: row 5 (star 5): ra nothing"], "row 3", "nothing"),
    "panstarrs.csv": (["PSO J150.1012+02.2013", "PSO J150.1300-00.2053", "PSO J150.1190+02.2060", "PSO J330.7895-44.5051"],
                      "rMeanPSFMag", 6,
                      ["1 row left out, without a position: line 6 (PSO lost): raMean '-999.0'",
                       "1 row is a star of another row, counted once: line 7 (PSO J150.1012+02.2014): as line 2 "
                       "(PSO J150.1012+02.2013)"], "line 4", "'-999.0'"),
    "sdss.csv": (["123765000000000010%d" % i for i in (1, 2, 3, 4)], "psfMag_r", 5,
                 ["1 row left out, not like the header: line 7: 3 cells, expected 4"], "line 5", "'-9999'"),
    "excel.csv": (["Stern A", "B; zwei", "Stern C", "Stern D"], "R", 4, [], "line 4", "'n/a'"),
    "excel.txt": (["Stern \u00c4", "Stern B", "Stern C", "Stern D"], "V", 4, [], "line 4", "'99.99'"),
    "topcat.txt": (["A one", "B two", "C three", "D four"], "mag", 4, [], "line 4", "'NaN'"),
    "psql.txt": (["A one", "B two", "C three", "D four"], "v", 4, [], "line 5", "''"),
    "journal.txt": (["A-1", "B-2", "C-3", "D-4"], "Rmag", 4, [], "row 3", "nothing"),
    "hours.ecsv": (["A one", "B two", "C three", "D four"], "mag", 4, [], "line 15", "''"),
    "degrees.csv": (["A", "B", "C", "D"], "Rmag", 4, [], "line 4", "'N/A'"),
}
# of those with proper motions: the positions' epoch, and whether it has to be given
EPOCHS = {"gaia-bulk.csv": 2016.0, "gaia-tap.vot": 2016.0, "vizier.tsv": None, "vizier-fixed.txt": None, "irsa.tbl": None,
          "panstarrs.csv": 2016.0, "topcat.txt": 2016.0, "hours.ecsv": 2016.0, "degrees.csv": 2016.0}


def foreign(name):
    return os.path.join(FOREIGN, name)


def apart(stars, ra, dec):
    """Arcsec between stars and where they should be."""
    return SkyCoord(stars.ra * u.deg, stars.dec * u.deg).separation(SkyCoord(ra * u.deg, dec * u.deg)).arcsec


class Tables(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name

    def write(self, text, name="t.csv"):
        path = os.path.join(self.dir, name)
        with open(path, "wb") as f:
            f.write(text if isinstance(text, bytes) else text.encode())
        return path

    def refuse(self, words, *args, **kw):
        with self.assertRaises(MoaoError) as e:
            read_stars(*args, **kw)
        self.assertIn(words, str(e.exception))
        self.assertTrue(str(e.exception).startswith((str(args[0]), "--")), e.exception)
        self.assertNotIn("\n", str(e.exception))

    def test_every_dialect(self):
        """Each table of the folder has its stars, where they are, and says what it left out and where that stands."""
        self.assertEqual(sorted(set(os.listdir(FOREIGN)) - {"README.md", "tap-error.vot", "flux.ecsv"}), sorted(TABLES))
        for name, (names, column, rows, dropped, place, cell) in TABLES.items():
            with self.subTest(name):
                s = read_stars(foreign(name))
                self.assertEqual((s.name, s.column, s.rows), (names, column, rows))
                self.assertLess(apart(s, RA, DEC).max(), 2e-3)
                np.testing.assert_allclose(s.magnitude, MAGNITUDE, atol=1e-6)
                said = dropped + ["1 star has no magnitude: %s (%s): %s %s" % (place, names[2], column, cell)]
                self.assertEqual(s.dropped, ["%s: %s" % (foreign(name), w) for w in said])

    def test_epoch(self):
        """Proper motions of every unit move the stars forwards in time, as astropy moves them; one without motion stays, and is
        named."""
        for name, epoch in EPOCHS.items():
            with self.subTest(name):
                given = None if epoch else 2015.5
                if epoch is None:
                    self.refuse("--catalogue-epoch YEAR", foreign(name), epoch=2030)
                s = read_stars(foreign(name), epoch=2030.25, catalogue_epoch=given)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    there = SkyCoord(RA * u.deg, DEC * u.deg, distance=Distance(1, u.kpc), obstime=Time(epoch or given, format="jyear"),
                                     pm_ra_cosdec=np.nan_to_num(MOTION[:, 0]) * u.mas / u.yr,
                                     pm_dec=np.nan_to_num(MOTION[:, 1]) * u.mas / u.yr)
                    there = there.apply_space_motion(new_obstime=Time(2030.25, format="jyear"))
                self.assertLess(apart(s, there.ra.deg, there.dec.deg).max(), 5e-3)
                self.assertGreater(apart(s, RA, DEC)[3], 19)  # 1.386 arcsec/yr for 14 years
                self.assertEqual(apart(s, RA, DEC)[1] < 2e-3, True)
                stays = [w for w in s.dropped if "stays at the catalogue's position" in w]
                self.assertEqual(len(stays), 1)
                self.assertIn("(%s): pm" % TABLES[name][0][1], stays[0])

    def test_missing_is_missing(self):
        """An epoch, a motion or a magnitude that is not there is no zero, whatever word stands for it."""
        for word in ("", "null", "--", "N/A", "nan", "-999", "-9999.0", "999.99", "abc"):
            path = self.write("name,ra,dec,mag,pmra,pmdec,ref_epoch\nA,150,2,%s,100,100,2016\nB,151,2,12,%s,100,2016\n"
                              "C,152,2,13,100,100,%s\n" % (word, word, word))
            s = read_stars(path, epoch=2026)
            np.testing.assert_array_equal(np.isnan(s.magnitude), [True, False, False])
            moved = np.hypot((s.ra - [150, 151, 152]) * np.cos(np.radians(2)), s.dec - 2) * 3600
            np.testing.assert_allclose(moved, [np.sqrt(2), 0, 0], atol=1e-4, err_msg=word)
            self.assertIn("2 stars stay at the catalogue's position, motion or epoch missing: line 3 (B): pmra '%s'; "
                          "line 4 (C): ref_epoch '%s'" % (word, word), s.dropped[0])
        for motion, stays in (("10328.12", False), ("-5809.43", False), ("32767", True), ("-1e20", True)):  # Barnard's star; none
            path = self.write("name,ra,dec,pmra,pmdec,ref_epoch\nA,150,2,0,%s,2016\nB,150,2,%s,0,2016\n" % (motion, motion))
            s = read_stars(path, epoch=2017)
            np.testing.assert_allclose(np.hypot((s.ra - 150) * np.cos(np.radians(2)), s.dec - 2) * 3600,
                                       0 if stays else abs(float(motion)) / 1000, atol=2e-3, err_msg=motion)
            self.assertEqual(any("2 stars stay" in w for w in s.dropped), stays)
        path = self.write("name,ra,dec,Vmag\nA,150,2,20.000\nB,151,2,12\nC,0,0,13\n")
        s = read_stars(path, missing=["20"])
        self.assertEqual(list(np.isnan(s.magnitude)), [True, False, False])

    def test_units(self):
        """Units by the words of different tables; seconds of right ascension; --unit where none is stated; no unit is guessed."""
        for text, unit in (("mas.yr-1", u.mas / u.yr), ('"h:m:s"', u.hourangle), ("h", u.hourangle), ("asec", u.arcsec),
                           ("arcsec per year", u.arcsec / u.yr), ("mas/a", u.mas / u.yr), ("AB mag", u.mag), ("degrees", u.deg)):
            self.assertEqual(parse_unit(text), unit, text)
        path = self.write("name,ra,dec,pmra[s/yr],pmdec[arcsec/yr],epoch\nA,150,60,0.1,0,2000\n")
        self.assertAlmostEqual((read_stars(path, epoch=2010).ra[0] - 150) * 3600, 15, delta=1e-3)  # 1 s, with cos(dec) on the sky
        path = self.write("name,ra,dec,mag,pmra,pmdec\nA,22.052633333,-44.5051,11,1.25,-0.6\n")
        s = read_stars(path, epoch=2026, catalogue_epoch=2016, units=["ra=h", "pmra=arcsec/yr", "PMDEC=arcsec/yr"])
        self.assertLess(apart(s, RA[3:] + 12.5 / 3600 / np.cos(np.radians(DEC[3:])), DEC[3:] - 6 / 3600)[0], 2e-3)
        self.assertAlmostEqual(read_stars(self.write("name,ra,dec,mag [mmag]\nA,1,2,11500\n")).magnitude[0], 11.5)
        self.refuse("column ra: its unit, m, is not that of an angle", self.write("ra [m],dec\n1,2\n"))
        self.refuse("is not that of a proper motion", self.write("ra,dec,pmra [deg],pmdec,epoch\n1,2,3,4,2000\n"), epoch=2020)
        self.refuse("is not that of a magnitude", foreign("flux.ecsv"))
        self.refuse("a flux by its name", self.write("ra,dec,flux\n1,2,3\n"), magnitude="flux")
        self.refuse("of hours, or of degrees", self.write("ra [deg],dec\n10:00:00,2\n"))
        self.refuse("expected COLUMN=UNIT", self.write("ra,dec\n1,2\n"), units=["ra=elephant"])
        s = read_stars(self.write("i,ra,dec,r [arcmin],V [km/s],Gmag\n1,10,20,3,14,11\n"))  # a counter, a radius, a velocity
        self.assertEqual((s.column, s.magnitude[0]), ("Gmag", 11))
        s = read_stars(self.write("ra,dec,FLUX_V\n330.7895,-44.5,11\n"))  # text of a number is degrees; SIMBAD's FLUX_V a magnitude
        self.assertEqual((s.ra[0], s.magnitude[0]), (330.7895, 11))

    def test_once(self):
        """A star that is there twice counts once: at one place, with one magnitude or one name; a pair of stars is two."""
        rows = ["A,150,2,12", "B,150.00001,2,12.001", "C,150.00002,2,13", "C,150.00002,2.00001,", "D,150.001,2,12", "E,359.99999,1,9", "F,-0.00001,1,9"]
        s = read_stars(self.write("name,ra,dec,mag\n" + "\n".join(rows) + "\n"))
        self.assertEqual(s.name, ["A", "C", "D", "E"])
        self.assertIn("3 rows are stars of another row, counted once", s.dropped[0])

    def test_refused(self):
        """One line with the file, the place and what to do."""
        self.refuse("the service reports an error: Cannot parse query: unexpected token 'FORM' at line 2", foreign("tap-error.vot"))
        self.refuse("a page of HTML", self.write("<!DOCTYPE html>\n<html><body>404</body></html>\n", "t.vot"))
        self.refuse("line 1: numbers without names of columns above", self.write("150.1 2.2 12\n"))
        self.refuse("no column for dec: say --dec COLUMN, one of ra, delta_", self.write("ra,delta_\n1,2\n"))
        self.refuse("line 3: a double quote that is not closed", self.write('name,ra,dec\nA,1,2\n"B,1,2\nC,1,2\nD,1,2\nE,1,2\n'))
        self.refuse("no table in it", self.write("\n\n"))
        self.refuse("cannot be read as a table", self.write(b"SIMPLE  =                    T" + b" " * 3000, "t.fits"))
        self.refuse("no proper motions", self.write("ra,dec,epoch\n1,2,2000\n"), epoch=2026)
        self.refuse("--catalogue-epoch without --epoch", self.write("ra,dec\n1,2\n"), catalogue_epoch=2016)
        self.refuse("--epoch 26: expected a year", self.write("ra,dec\n1,2\n"), epoch=26)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            self.assertEqual(cmd_stars.main([self.write("ra,dec\n-999,-999\n"), "-o", os.path.join(self.dir, "o.csv")]), 2)
        self.assertEqual(len(err.getvalue().splitlines()), 2, err.getvalue())
        self.assertIn("line 2 (star 1): ra '-999'", err.getvalue())
        self.assertFalse(os.path.exists(os.path.join(self.dir, "o.csv")))

    def test_command(self):
        """The table for the program, and how many rows of how many."""
        path, out, err = os.path.join(self.dir, "o.csv"), io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            self.assertEqual(cmd_stars.main([foreign("panstarrs.csv"), "-o", path, "--epoch", "2026"]), 0)
        self.assertEqual(out.getvalue(), path + ": 4 of 6 rows, magnitudes of rMeanPSFMag\n")
        self.assertEqual(len(err.getvalue().splitlines()), 4)
        with open(path, encoding="utf-8") as f:
            self.assertEqual(f.readlines()[2], "PSO J150.1300-00.2053,150.13000000,-0.20533000,14.2000\n")


class Directions(unittest.TestCase):
    def test_field_and_sky(self):
        """to_sky and to_field against astropy's offsets by angle and distance, at every position angle, near a pole too."""
        for ra, dec, angle in ((150.119, 2.206, 0), (150.119, 2.206, 35), (0.001, -44.5, -120), (200, 89.99, 75)):
            p, center = Pointing(ra, dec, angle), SkyCoord(ra * u.deg, dec * u.deg)
            x, y = np.array([10.0, 0, -37.5, 60]), np.array([0.0, 25, 12.25, -60])
            a, d = p.to_sky(x, y)
            # y at the position angle, x a quarter turn clockwise from it as seen on the sky, where east is to the left
            turn = np.arctan2(-x, y) * u.rad + angle * u.deg
            there = center.directional_offset_by(turn, np.arctan(np.radians(np.hypot(x, y) / 3600)) * u.rad)
            self.assertLess(SkyCoord(a * u.deg, d * u.deg).separation(there).arcsec.max(), 1e-6)
            back = p.to_field(a, d)
            np.testing.assert_allclose(back, [x, y], atol=1e-6)
        a, d = Pointing(150.119, 2.206).to_sky(10, 0)  # x is west
        self.assertAlmostEqual((150.119 - a) * np.cos(np.radians(2.206)) * 3600, 10, delta=1e-5)


if __name__ == "__main__":
    unittest.main()
