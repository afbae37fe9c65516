"""What a run leaves: maps.fits, psf.fits, run.json, effective.yaml, the log and the picture, checked with astropy, by
independent formulas, and by running the program again with what the files say."""
# seconds: 35
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np
from astropy.io import fits
from astropy.wcs import WCS

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import CASE, ROOT, Run, write_case  # noqa: E402

ARCSEC = 206264.80624709636  # in a radian
DIAMETER, OBSCURATION, NE, NL, NX, NY = 8.0, 0.14, 3, 2, 4, 2
OPTIONS = ["schedule.exposure_interval=10 min", "compute.targets_per_chunk=8", "psf.ee_boxes=[80, 37.5]"]


def strictly(path):
    """Open and verify a FITS file; every warning (of the standard, of checksums) is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with fits.open(path, checksum=True, memmap=False) as f:
            f.verify("exception")
            for hdu in f:
                hdu.data  # pylint: disable=pointless-statement
                if "CTYPE1" in hdu.header:
                    WCS(hdu.header)
                if "CHECKSUM" not in hdu.header or "DATASUM" not in hdu.header:
                    raise AssertionError("%s: %s has no checksum" % (path, hdu.name))
            return f


class Outputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="moao-outputs-")
        cls.case = write_case(os.path.join(cls.folder, "case.yaml"), CASE)
        cls.out = os.path.join(cls.folder, "grid")
        cls.run_it(cls.case, cls.out, "output.psf=short")
        cls.first_text = cls.last.text
        cls.maps, cls.psf = (strictly(os.path.join(cls.out, n)) for n in ("maps.fits", "psf.fits"))
        cls.targets = cls.maps["TARGETS"].data
        with open(os.path.join(cls.out, "run.json"), encoding="utf-8") as f:
            cls.report = json.load(f)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def run_it(cls, case, out, *more, expect=0, ranks=2, options=None):
        args = [case] + (OPTIONS if options is None else options) + list(more) + ["-o", out]
        cls.last = Run(*args, ranks=ranks, cwd=cls.folder)
        code = cls.last.wait(120)
        if code != expect:
            raise AssertionError("exit code %s, expected %s:\n%s" % (code, expect, cls.last.text))
        return cls.last.text

    def draw(self, folder, *more):
        picture = os.path.join(self.folder, "maps.png")
        p = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "plot_maps.py"), folder, "-o", picture]
                           + list(more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                           check=False)
        self.assertEqual(p.returncode, 0, p.stdout)
        with open(picture, "rb") as f:
            head = f.read(24)
        self.assertEqual(head[:8], b"\x89PNG\r\n\x1a\n")
        self.assertGreater(int.from_bytes(head[16:20], "big"), 600)
        os.remove(picture)

    def test_maps_and_axes(self):
        """Every map has its axes and units, and the values that the table has for the target at the place that the
        axes give."""
        names = ["STREHL", "EE_80mas", "EE_37p5mas", "FWHM", "VARIANCE"]
        for name, unit in zip(names, ["", "", "", "mas", "rad2"]):
            short, whole = self.maps[name], self.maps[name + "_LONG"]
            self.assertEqual((short.header["BUNIT"], whole.header["BUNIT"]), (unit, unit))
            self.assertEqual((short.data.shape, whole.data.shape), ((NL, NE, NY, NX), (NL, NY, NX)))
            for h in (short, whole):
                self.assertEqual([h.header[k] for k in ("CTYPE1", "CUNIT1", "CUNIT2")], ["X", "arcsec", "arcsec"])
            for row in self.targets:
                x, y = (int(round((row[c] - short.header["CRVAL" + n]) / short.header["CDELT" + n]))
                        for c, n in (("X", "1"), ("Y", "2")))
                np.testing.assert_array_equal(short.data[:, :, y, x], row[name])
                np.testing.assert_array_equal(whole.data[:, y, x], row[name + "_LONG"])
        self.assertEqual((self.targets["X"].min(), self.targets["X"].max()), (-30, 30))
        for name in ("STREHL", "EE_80mas"):
            v = self.targets[name]
            self.assertTrue((v > 0.001).all() and (v < 1).all())
            np.testing.assert_allclose(self.targets[name + "_LONG"], v.mean(axis=2), rtol=1e-13)

    def test_comments_are_whole(self):
        """No comment of a keyword is cut at the end of its card."""
        for f in (self.maps, self.psf):
            for card in (c for hdu in f for c in hdu.header.cards if c.comment):
                self.assertLess(len(str(card).rstrip()), 80, str(card))

    def test_tables(self):
        """Guide stars, exposures and wavelengths are those of the parameters."""
        stars, exposures = self.maps["GUIDESTARS"].data, self.maps["EXPOSURES"].data
        self.assertEqual(list(stars["TYPE"]), ["NGS", "NGS", "NGS", "LGS"])
        np.testing.assert_allclose(stars["X"], [40, -30, 5, 30], rtol=1e-12)
        np.testing.assert_array_equal(stars["NSSP"], [10, 10, 8, 12])
        self.assertEqual(self.maps[0].header["NMEAS"], 2 * stars["NSUB"].sum())
        np.testing.assert_array_equal(exposures["TIME"], [0, 600, 1200])
        np.testing.assert_array_equal(exposures["TORTIME"], [0, 0, 900])
        np.testing.assert_allclose(exposures["R0"], [0.15, 0.12, 0.18], rtol=1e-12)
        np.testing.assert_allclose(self.maps["WAVELENGTHS"].data["LAMBDA"], [1.65, 2.2], rtol=1e-12)
        self.assertEqual(self.maps[0].header["NRANKS"], 2)

    def test_psf(self):
        """The images have the Strehl ratio on their axis, the energy in a box (summed over pixels with the flux of the
        pupil) within 8 %, what pixels of a third of the box allow, and the long exposure is their mean."""
        area = np.pi / 4 * DIAMETER ** 2 * (1 - OBSCURATION ** 2)
        for il in range(NL):
            cubes = [self.psf["PSF_SHORT", il * NE + e + 1] for e in range(NE)]
            for e, h in enumerate(cubes):
                self.assertEqual((h.header["EXPOSURE"], h.header["ILAMBDA"]), (e + 1, il + 1))
                x, y = int(h.header["CRPIX1"]) - 1, int(h.header["CRPIX2"]) - 1
                np.testing.assert_allclose(h.data[:, y, x], self.targets["STREHL"][:, il, e], rtol=1e-6)
                n, pixel = h.data.shape[-1], h.header["CDELT1"]
                half = 0.040 / pixel
                share = np.clip(half + 0.5 - abs(np.arange(n) - x), 0, 1)  # of each pixel inside the box
                flux = (pixel / ARCSEC) ** 2 * area / (h.header["LAMBDA"] * 1e-6) ** 2
                energy = (h.data * share * share[:, None]).sum(axis=(1, 2)) * flux
                np.testing.assert_allclose(energy, self.targets["EE_80mas"][:, il, e], rtol=0.08)
                total = h.data.sum(axis=(1, 2)) * flux
                self.assertTrue((total < 1.001).all() and (total > 0.85).all())
            mean = np.mean([h.data.astype(float) for h in cubes], axis=0)
            np.testing.assert_allclose(self.psf["PSF_LONG", il + 1].data, mean, rtol=2e-7, atol=1e-12)
            width, widths = self.targets["FWHM_LONG"][:, il], self.targets["FWHM"][:, il]
            self.assertTrue((width >= widths.min(axis=1) * 0.9999).all())
            self.assertTrue((width <= widths.max(axis=1) * 1.0001).all())

    def test_recreate(self):
        """The parameters in the header, and effective.yaml, run again to the same maps bit for bit."""
        again = os.path.join(self.folder, "again.yaml")
        with open(again, "w", encoding="utf-8") as f:
            f.write("\n".join(self.maps["PARAMETERS"].data["LINE"]) + "\n")
        for n, case in enumerate((again, os.path.join(self.out, "effective.yaml"))):
            out = os.path.join(self.folder, "again%d" % n)
            self.run_it(case, out, options=[])
            other = strictly(os.path.join(out, "maps.fits"))
            for hdu in self.maps:
                if hdu.is_image and hdu.data is not None:
                    np.testing.assert_array_equal(other[hdu.name].data, hdu.data)
            np.testing.assert_array_equal(strictly(os.path.join(out, "psf.fits"))["PSF_LONG", 2].data,
                                          self.psf["PSF_LONG", 2].data)

    def test_run_json(self):
        """run.json has the stages with times and shares in range, the machine and the versions."""
        r = self.report
        stages = {s["stage"]: s for s in r["stages"]}
        self.assertEqual(list(stages), ["setup", "matcov", "factor", "solve", "exposure", "psf", "output", "total"])
        for s in stages.values():
            self.assertTrue(0 <= s["idle_share"] < 1 and s["time_s"] >= 0)
        for name in ("solve", "exposure"):
            s = stages[name]
            self.assertGreater(s["gflops"], 0)
            self.assertAlmostEqual(s["gflops"] * s["time_s"], s["flop"] / 1e9, delta=1e-9 * s["flop"] / 1e9)
            self.assertAlmostEqual(s["dgemm_share"] * r["machine"]["dgemm_gflops"], s["gflops"],
                                   delta=1e-9 * s["gflops"])
        self.assertLessEqual(stages["total"]["time_s"], r["elapsed_s"] * 1.001)
        self.assertEqual((r["machine"]["ranks"], r["machine"]["nodes"], len(r["machine"]["hosts"])), (2, 1, 1))
        self.assertTrue(1e7 < r["memory"]["peak_rank_bytes"] < r["memory"]["peak_sum_bytes"])
        self.assertIn("Open MPI", r["versions"]["mpi"])

    def test_log(self):
        """Without a terminal every step is one dated line, no line holds control characters, and what was found ends the
        text (test_summary.py)."""
        text = self.first_text
        self.assertIsNone(re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text))
        steps = [line for line in text.splitlines() if re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d ", line)]
        self.assertGreaterEqual(len(steps), 2 * NE)
        self.assertRegex(text, r"\n1.65 um +Strehl ratio +0\.\d{3} ")
        self.assertNotIn("dgemm", text)

    def test_not_overwritten(self):
        """A second run into the folder is refused in one line; --resume leaves a finished run as it is."""
        path = os.path.join(self.out, "maps.fits")
        with open(path, "rb") as f:
            before = f.read()
        text = self.run_it(self.case, self.out, "output.psf=short", expect=2)
        lines = [line for line in text.splitlines() if self.out in line and "--overwrite" in line]
        self.assertEqual(len(lines), 1, text)
        text = self.run_it(self.case, self.out, "output.psf=short", "psf.wavelengths=[1.6, 2.2]", "--resume", expect=2)
        self.assertIn("psf.wavelengths", text)
        self.run_it(self.case, self.out, "output.psf=short", "--resume")
        with open(path, "rb") as f:
            self.assertEqual(f.read(), before)

    def test_nowhere_to_write(self):
        """A folder that cannot be made, or that has no name, is one line and exit code 2."""
        for out, more, phrase in ((os.path.join(self.case, "out"), (), "not a directory"),
                                  ("/proc/none", (), "No such file or directory"),
                                  ("", (), "empty name"), (None, ("output.directory=''",), "output.directory")):
            args = [self.case] + OPTIONS + list(more) + (["-o", out] if out is not None else [])
            run = Run(*args, ranks=2, cwd=self.folder)
            self.assertEqual(run.wait(60), 2, run.text)
            self.assertEqual(len([line for line in run.text.splitlines() if phrase in line]), 1, run.text)
            self.assertNotIn("src/", run.text)

    def test_foreign_folder(self):
        """A folder with files of somebody else is left alone, unless --force."""
        out = os.path.join(self.folder, "sources")
        os.mkdir(out)
        write_case(os.path.join(out, "main.c"), "int main;")
        text = self.run_it(self.case, out, expect=2)
        self.assertEqual(len([line for line in text.splitlines() if "--force" in line and "main.c" in line]), 1, text)
        self.assertEqual(os.listdir(out), ["main.c"])
        self.run_it(self.case, out, "--force")
        self.assertTrue(os.path.exists(os.path.join(out, "maps.fits")))

    def test_damaged_results(self):
        """A finished folder counts as finished only while its files are as they were written."""
        out = os.path.join(self.folder, "damaged")
        shutil.copytree(self.out, out)
        self.run_it(self.case, out, "output.psf=short", "--resume")
        with open(os.path.join(out, "psf.fits"), "r+b") as f:
            f.seek(30000)
            f.write(b"x")
        text = self.run_it(self.case, out, "output.psf=short", "--resume", expect=2)
        self.assertIn("psf.fits has changed", text)
        os.remove(os.path.join(out, "psf.fits"))
        self.assertIn("psf.fits is missing", self.run_it(self.case, out, "output.psf=short", "--resume", expect=2))

    def test_title_of_a_resumed_run(self):
        """A run that goes on with another title has it in every file."""
        out = os.path.join(self.folder, "title")
        first = Run(self.case, *OPTIONS, "-o", out, ranks=2, cwd=self.folder, env={"MOAO_FAULT": "matcov:0:fail:4"})
        self.assertEqual(first.wait(60), 1, first.text)
        self.run_it(self.case, out, "title=another one", "--resume")
        with open(os.path.join(out, "effective.yaml"), encoding="utf-8") as f:
            effective = f.read()
        self.assertIn("another one", effective)
        with fits.open(os.path.join(out, "maps.fits")) as f:
            self.assertEqual("\n".join(f["PARAMETERS"].data["LINE"]) + "\n", effective)

    def test_compressed_list(self):
        """Targets of a list: no maps that need a grid; compressed images within their step of the plain ones, on the
        same targets of the grid."""
        out = os.path.join(self.folder, "list")
        places = [[float(x), float(y)] for x, y in zip(self.targets["X"], self.targets["Y"])][2:5]
        text = re.sub(r"targets: \{grid.*", "targets: {list: %s}" % places, CASE)
        case = write_case(os.path.join(self.folder, "list.yaml"), text)
        self.run_it(case, out, "output.psf=long", "output.compress=true")
        maps, psf = (strictly(os.path.join(out, n)) for n in ("maps.fits", "psf.fits"))
        self.assertEqual([h.name for h in maps if h.is_image], ["PRIMARY"])
        np.testing.assert_allclose(maps["TARGETS"].data["STREHL"], self.targets["STREHL"][2:5], rtol=1e-9)
        for il in range(NL):
            np.testing.assert_allclose(psf["PSF_LONG", il + 1].data, self.psf["PSF_LONG", il + 1].data[2:5], rtol=0,
                                       atol=1.5e-7)
        self.draw(out)

    def test_single(self):
        """One target and one exposure, no images kept: maps and picture all the same; the long exposure is the short
        one."""
        out = os.path.join(self.folder, "single")
        self.run_it(self.case, out, "targets.grid.nx=1", "targets.grid.ny=1", "schedule.end=5 min", ranks=1)
        maps = strictly(os.path.join(out, "maps.fits"))
        self.assertFalse(os.path.exists(os.path.join(out, "psf.fits")))
        for name in ("STREHL", "FWHM", "VARIANCE"):
            np.testing.assert_array_equal(maps[name].data[:, 0], maps[name + "_LONG"].data)
        self.draw(out)

    def test_picture(self):
        """The picture of the grid is drawn, at any wavelength and box; without maps it is one line, exit code 2."""
        self.draw(self.out)
        self.draw(self.out, "-w", "2.2", "-b", "37.5")
        p = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "plot_maps.py"), self.folder],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        self.assertEqual((p.returncode, len(p.stdout.splitlines())), (2, 1), p.stdout)


if __name__ == "__main__":
    unittest.main()
