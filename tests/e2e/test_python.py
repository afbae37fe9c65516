"""The Python package python/moao reads what a run wrote and says it right: numbers, images, comparison, export, pictures.

All with the distribution's Python and without installing the package.
"""
import csv
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
from astropy.io import fits
from astropy.table import Table

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, QUICK_CASE, ROOT, Run, environment, write_case  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
import moao  # noqa: E402
from moao import (cmd_asterism, cmd_collect, cmd_compare, cmd_coverage, cmd_export, cmd_plot, cmd_stars,  # noqa: E402
                  cmd_lab, cmd_sweep, cmd_view, plots)
from moao.command import target_argument  # noqa: E402

# 8 targets, 2 exposures, 2 wavelengths, every image without crop
OPTIONS = ["schedule.end=20 min", "schedule.exposure_interval=10 min", "output.psf=short", "output.crop=240", "psf.ee_boxes=[100, 300]"]


def call(command, *arguments):
    """(exit code, what it printed, its errors) of a command's main()."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = command.main([str(a) for a in arguments])
    return code, out.getvalue(), err.getvalue()


class Shared:
    """Folders of the runs that all cases read: out, and other, at another zenith angle and without images."""
    folder = out = other = ""


def setUpModule():
    Shared.folder = tempfile.mkdtemp(prefix="moao-python-")
    unittest.addModuleCleanup(shutil.rmtree, Shared.folder, ignore_errors=True)
    case = write_case(os.path.join(Shared.folder, "case.yaml"), QUICK_CASE)
    Shared.out, Shared.other = (os.path.join(Shared.folder, name) for name in ("out", "other"))
    for out, more in ((Shared.out, []), (Shared.other, ["telescope.zenith=40", "output.psf=long"])):
        r = Run(case, *OPTIONS, *more, "-o", out, ranks=1, cwd=Shared.folder)
        if r.wait(120) != 0:
            raise AssertionError(r.text)
    os.remove(os.path.join(Shared.other, "psf.fits"))


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder, cls.out, cls.other = Shared.folder, Shared.out, Shared.other
        cls.run_ = moao.open(cls.out)

    def changed(self, name, change):
        """A copy of the run with another maps.fits: change(its HDUList)."""
        out = os.path.join(self.folder, name)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(self.out, out, ignore=shutil.ignore_patterns("checkpoint"))
        path = os.path.join(out, "maps.fits")
        with fits.open(path, memmap=False) as f:
            hdus = fits.HDUList([h.copy() for h in f])
        change(hdus)
        hdus.writeto(path, overwrite=True)
        return out

    def named(self):
        """The run with names of targets, noise of the sensors and a position angle."""
        def change(f):
            old = f["TARGETS"]
            columns = [fits.Column("NAME", "16A", array=["star %s" % "abcdefgh"[i] for i in range(len(old.data))])]
            new = fits.BinTableHDU.from_columns(old.columns + fits.ColDefs(columns), header=old.header, name="TARGETS")
            f[f.index_of("TARGETS")] = new
            f["GUIDESTARS"].data["NOISEVAR"] = 1e-4
            f[0].header["POSANGLE"] = 90.0
        return self.changed("named", change)


class Reading(Case):
    def test_values(self):
        """Every figure of merit has the values, shape and place that maps.fits gives it."""
        r = self.run_
        with fits.open(os.path.join(self.out, "maps.fits")) as f:
            for il, wave in enumerate((1.65, 2.2)):
                for name, values in (("STREHL", r.strehl(wave)), ("EE_100mas", r.ee(100, wave)), ("FWHM", r.fwhm(wave)),
                                     ("VARIANCE", r.variance(wave))):
                    np.testing.assert_array_equal(values, f[name + "_LONG"].data[il])
                np.testing.assert_array_equal(r.strehl(wave, exposure=2), f["STREHL"].data[il, 1])
                np.testing.assert_array_equal(r.strehl(wave, exposure="all"), f["STREHL"].data[il])
            np.testing.assert_array_equal(r.ee(300), f["EE_300mas_LONG"].data)  # all wavelengths
            np.testing.assert_array_equal(r.strehl(exposure=1), f["STREHL"].data[:, 0])
            np.testing.assert_array_equal(r.strehl(exposure="all"), f["STREHL"].data)
        self.assertEqual(r.strehl(2.2).shape, (2, 4))
        self.assertEqual(r.psf(3).wavelength, 1.65)
        self.assertEqual(list(r.guide_stars["TYPE"]), ["NGS", "NGS", "NGS", "LGS"])
        self.assertEqual(str(r.guide_stars["X"].unit), "arcsec")
        self.assertEqual(list(r.times), [0, 600])
        self.assertEqual((len(r.targets), r.grid, r.boxes), (8, (4, 2), [100, 300]))
        self.assertEqual(r.parameters["telescope"]["diameter"], 8)
        self.assertIsInstance(r.parameters["compute"]["residual_tolerance"], float)
        np.testing.assert_allclose(moao.open(self.other).r0_zenith, r.r0, rtol=1e-6)  # zenith 40 deg there, 0 here

    def test_what_is_not_there(self):
        """What a run does not have is one sentence that says what it has."""
        r = self.run_
        for ask, words in ((lambda: r.strehl(1.0), "1.65, 2.2 um"), (lambda: r.ee(75, 2.2), "100, 300 mas"), (lambda: r.strehl(2.2, 3), "1 to 2"),
                           (lambda: r.psf(8, wavelength=2.2), "0 to 7"), (lambda: r.psf("x", wavelength=2.2), "1, 2"),
                           (lambda: r.value("NOTHING", 2.2), "STREHL"),
                           (lambda: moao.open(self.other).psf(0, wavelength=2.2), "output.psf"),
                           (lambda: moao.open(self.folder), "maps.fits")):
            with self.assertRaises(moao.MoaoError) as e:
                ask()
            self.assertIn(words, str(e.exception))
            self.assertEqual(len(str(e.exception).splitlines()), 1)

    def test_budget(self):
        """The budget holds every column that is an error, in rad2 and as path, also those of later programs."""
        t = self.run_.budget(2.2)
        terms = ["WFE_TOTAL", "WFE_TOMO", "WFE_NOISE", "WFE_ALIAS", "WFE_FIT", "WFE_LAG", "WFE_JITTER", "WFE_STATIC"]
        self.assertEqual((list(t["TERM"]), list(t["LAMBDA"])), (terms, [2.2] * 8))
        self.assertEqual(list(self.run_.budget()["LAMBDA"]), [1.65, 2.2] * 8)
        v = self.run_.variance(2.2)
        np.testing.assert_allclose(t["MEAN"][0], v.mean())
        np.testing.assert_allclose(t["RMS"][0], 2200 / (2 * np.pi) * np.sqrt(v.mean()))
        np.testing.assert_allclose(sum(t["RMS"][1:] * abs(t["RMS"][1:])), t["RMS"][0] ** 2)
        noise = self.run_.star_noise()
        self.assertEqual(noise.shape, (len(self.run_.guide_stars), 8))
        np.testing.assert_allclose(np.sqrt((noise ** 2).sum(axis=0)), self.run_.column_long("WFE_NOISE")[0])
        np.testing.assert_array_equal(self.run_.star_noise(1, 3), self.run_.star_noise(1)[:, 3])

        def without(f):                                       # what runs of earlier versions left
            old = f["TARGETS"]
            keep = [c for c in old.columns if not c.name.startswith("WFE_")]
            f[f.index_of("TARGETS")] = fits.BinTableHDU.from_columns(keep, name="TARGETS")
            f["TARGETS"].header["GRIDNX"], f["TARGETS"].header["GRIDNY"] = old.header["GRIDNX"], old.header["GRIDNY"]
        t = moao.open(self.changed("before", without)).budget(2.2)
        self.assertEqual(list(t["TERM"]), ["VARIANCE"])
        np.testing.assert_allclose(t["MEAN"][0], v.mean())

        def change(f):
            old, n = f["TARGETS"], len(f["TARGETS"].data)
            more = fits.ColDefs([fits.Column("NOISE", "4D", dim="(2,2)", unit="nm", array=np.full((n, 2, 2), 50.0)),
                                 fits.Column("NOISE_LONG", "2D", unit="nm", array=np.full((n, 2), 40.0))])
            f[f.index_of("TARGETS")] = fits.BinTableHDU.from_columns(old.columns + more, header=old.header,
                                                                     name="TARGETS")
        t = moao.open(self.changed("budget", change)).budget(1.65, target=3)
        self.assertEqual(list(t["TERM"]), terms + ["NOISE"])
        np.testing.assert_allclose(t["RMS"][-1], 40)
        np.testing.assert_allclose(t["MEAN"][-1], (40 / 1650 * 2 * np.pi) ** 2)

    def test_names(self):
        """Targets are found by name, index and direction, with and without the column NAME."""
        r = moao.open(self.named())
        self.assertEqual(r.psf("star c", wavelength=2.2).target, 2)
        self.assertTrue(r.named)
        self.assertFalse(self.run_.named)
        self.assertEqual(self.run_.names[2], "3")
        self.assertEqual(self.run_.psf(8, 13, wavelength=2.2).target, 6)  # grid of 20 by 30 arcsec
        self.assertEqual(target_argument("-8,13"), (-8, 13))
        self.assertEqual((target_argument("3"), target_argument("star c")), (2, "star c"))


class Images(Case):
    def test_flux(self):
        """An image without crop holds all the light, and its ensquared energies are those of maps.fits, which come
        from the transfer function."""
        r = self.run_
        for wave in (1.65, 2.2):
            for p in r.psfs(None, wave):
                self.assertAlmostEqual(p.fraction, 1, delta=2e-4)
                for box in r.boxes:
                    self.assertAlmostEqual(p.ee(box), r.ee(box, wave).ravel()[p.target], delta=1e-4)
                self.assertAlmostEqual(p.strehl, r.strehl(wave).ravel()[p.target], delta=1e-6)
        one = r.psf(3, wavelength=2.2, exposure=2)
        self.assertAlmostEqual(one.strehl, r.strehl(2.2, 2).ravel()[3], delta=1e-6)

    def test_other_pixels(self):
        """Flux in other pixels adds up to that in the box that they fill, the axis in the middle of the middle one."""
        p = self.run_.psf(1, wavelength=2.2)
        for pixel, side in ((11.0, 21), (30.0, 8)):
            q = p.resampled(pixel, side)
            shift = 0 if side % 2 else pixel  # an even side has one pixel more on the low side
            self.assertEqual(np.unravel_index(q.argmax(), q.shape), (side // 2, side // 2))
            if not shift:
                self.assertAlmostEqual(q.sum(), p.ee(pixel * side), delta=1e-9)
        radius, mean = p.profile()
        self.assertAlmostEqual(mean[0], p.strehl)
        self.assertGreater(mean[0], mean[5])
        np.testing.assert_allclose(radius[:3] / p.pixel, [0, (1 + 2 ** 0.5) / 2, (2 + 2 * 5 ** 0.5) / 3], rtol=1e-12)
        n, m = p.data.shape
        self.assertAlmostEqual(mean[1], np.delete(p.data[n // 2 - 1:n // 2 + 2, m // 2 - 1:m // 2 + 2].ravel(), 4).mean())
        with self.assertRaises(ValueError):
            p.ee(1e6)

    def test_export(self):
        """ScopeSim's file: each layer is the image of the target that the map of layers names at its direction; sums
        are the shares of the light; odd side with the peak in the middle."""
        path = os.path.join(self.folder, "fv.fits")
        code, text, err = call(cmd_export, self.out, "-o", path)
        self.assertEqual((code, err), (0, ""), text)
        with fits.open(path, checksum=True) as f:
            ecat, edata = f[0].header["ECAT"], f[0].header["EDATA"]
            self.assertEqual([h.header["WAVE0"] for h in f[edata:edata + 2]], [1.65, 2.2])
            layers, h = f[ecat].data, f[ecat].header
            cube, hc = f[edata + 1].data, f[edata + 1].header
            fraction = f["TARGETS"].data["FRACTION"]
        n = cube.shape[1]
        self.assertEqual((n % 2, hc["CRPIX1"], hc["CUNIT1"]), (1, n // 2 + 1, "deg"))
        for p in self.run_.psfs(None, 2.2):
            i, j = (int(round((v / 3600 - h["CRVAL" + a]) / h["CDELT" + a] + h["CRPIX" + a])) - 1
                    for v, a in ((p.x, "1"), (p.y, "2")))
            k = int(layers[j, i])
            self.assertEqual(k, p.target)
            self.assertEqual(np.unravel_index(cube[k].argmax(), (n, n)), (n // 2, n // 2))
            self.assertAlmostEqual(float(cube[k].sum(dtype=float)), fraction[k][1], delta=1e-6)
            self.assertAlmostEqual(cube[k].max() * p.total, p.strehl, delta=1e-6)
        self.assertAlmostEqual(hc["CDELT1"] * 3600e3, p.pixel)
        self.assertEqual(call(cmd_export, self.out, "-o", path)[0], 2)  # it exists

    def test_export_cube(self):
        """Plain cubes in the detector's pixels."""
        path = os.path.join(self.folder, "cube.fits")
        code, text, err = call(cmd_export, self.out, "-o", path, "-f", "cube", "-p", "20", "-s", "15", "-w", "2.2", "-e",
                               "1")
        self.assertEqual((code, err), (0, ""), text)
        with fits.open(path) as f:
            cube = f["PSF_2.2um"].data
            self.assertEqual((cube.shape, f[0].header["EXPOSURE"]), ((8, 15, 15), 1))
            np.testing.assert_allclose(cube.sum(axis=(1, 2), dtype=float), [p.ee(300) for p in self.run_.psfs(
                None, 2.2, 1)], rtol=1e-5)
        self.assertEqual(call(cmd_export, self.other, "-o", path + "x")[0], 2)


class Commands(Case):
    def test_compare(self):
        """Exit code 0 for the same, 1 for other results with the true differences, 2 for what cannot be compared."""
        code, text, _ = call(cmd_compare, self.out, self.out)
        self.assertEqual(code, 0, text)
        picture = os.path.join(self.folder, "differences.png")
        code, text, _ = call(cmd_compare, self.out, self.other, "-e", "-o", picture)
        self.assertEqual(code, 1, text)
        self.assertTrue(os.path.exists(picture))
        line = next(w for w in map(str.split, text.splitlines()) if w[:3] == ["STREHL", "2.2", "2"])
        d = moao.open(self.other).strehl(2.2, 2) - self.run_.strehl(2.2, 2)
        np.testing.assert_allclose([float(line[5]), float(line[6])], [d.mean(), abs(d).max()], rtol=1e-3)
        self.assertEqual(call(cmd_compare, self.out, self.other, "-t", "1")[0], 0)

        def move(f):
            f["TARGETS"].data["X"] += 1
        code, _, err = call(cmd_compare, self.out, self.changed("moved", move))
        self.assertEqual((code, len(err.splitlines())), (2, 1), err)

    def test_sweep(self):
        """The table of a sweep: which columns are keys, which figures of merit at which wavelength; pictures."""
        from moao.sweep import Sweep
        folder = os.path.join(self.folder, "sweep")
        os.makedirs(folder)
        zenith, magnitude = (v.ravel() for v in np.meshgrid([0.0, 30.0], [10.0, 12.0, 14.0]))
        t = Table({"task": np.arange(6), "telescope.zenith": zenith, "sensors.magnitude": magnitude,
                   "dm.nssp": np.full(6, 10), "STREHL_MEAN_1.65um": zenith / 100, "STREHL_MEAN_2.2um": zenith / 50,
                   "EE_75mas_MEAN_2.2um": magnitude / 20})
        t["STREHL_MEAN_1.65um"][2] = np.nan
        t.write(os.path.join(folder, "sweep.csv"))
        s = Sweep(folder)
        self.assertEqual(list(s.keys), ["telescope.zenith", "sensors.magnitude"])
        self.assertEqual(list(s.merits), [("STREHL_MEAN", 1.65), ("STREHL_MEAN", 2.2), ("EE_75mas_MEAN", 2.2)])
        names = ["strehl_mean_1.65um", "ee_75mas_1.65um", "rms_1.65um", "fwhm_2.2um"]  # as `moao sweep` calls them
        t = Table([zenith, magnitude] + [zenith / 100] * 4 + [zenith, ["finished"] * 6],
                  names=["telescope.zenith", "sensors.NGS1.magnitude"] + names + ["elapsed_s", "status"])
        t["rms_1.65um"].unit, t["telescope.zenith"].unit, t.meta["NKEYS"] = "nm", "deg", 2
        t.write(os.path.join(folder, "sweep.fits"))
        s = Sweep(folder)
        self.assertEqual(list(s.keys), ["telescope.zenith", "sensors.NGS1.magnitude"])
        self.assertEqual(list(s.merits), [("strehl_mean", 1.65), ("ee_75mas", 1.65), ("rms", 1.65), ("fwhm", 2.2)])
        self.assertEqual((s.units["rms"], s.units["telescope.zenith"]), ("nm", "deg"))
        code, text, err = call(cmd_sweep, folder)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(n for n in os.listdir(folder) if n.endswith("png")), ["sweep-maps.png", "sweep.png"])
        code, _, err = call(cmd_sweep, self.out)
        self.assertEqual((code, len(err.splitlines())), (2, 1), err)

    def test_sweep_of_the_program(self):
        """What `moao sweep` writes is read: its keys, and figures of merit that are those of its runs."""
        from moao.sweep import Sweep
        folder = os.path.join(self.folder, "study")
        p = subprocess.run([MOAO, "sweep", os.path.join(self.folder, "case.yaml"), "telescope.zenith=[0, 40]",
                            "schedule.end=10 min", "schedule.exposure_interval=10 min", "-o", folder],
                           env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           universal_newlines=True, check=False)
        self.assertEqual(p.returncode, 0, p.stdout)
        s = Sweep(folder)
        self.assertEqual((list(s.keys), list(s.keys["telescope.zenith"])), (["telescope.zenith"], [0, 40]))
        for zenith, mean, fwhm in zip((0, 40), s.merits["strehl_mean", 2.2], s.merits["fwhm", 1.65]):
            one = moao.open(os.path.join(folder, "telescope.zenith=%d" % zenith))
            self.assertAlmostEqual(mean, one.strehl(2.2).mean(), delta=1e-9)
            self.assertAlmostEqual(fwhm, one.fwhm(1.65).mean(), delta=1e-7)
        self.assertEqual(call(cmd_sweep, folder)[0], 0)
        self.assertTrue(os.path.exists(os.path.join(folder, "sweep.png")))

    def test_collect(self):
        """The summary of a campaign has the runs' figures."""
        folder = os.path.join(self.folder, "campaign")
        shutil.copytree(self.out, os.path.join(folder, "0001"))
        overrides = os.path.join(self.folder, "overrides.txt")
        with open(overrides, "w", encoding="ascii") as f:
            f.write("# nothing\n-\n=cmd|'/C calc'!A1\n")
        self.assertEqual(call(cmd_collect, overrides, folder)[0], 0)
        t = Table.read(os.path.join(folder, "summary.csv"), format="ascii.csv")
        self.assertEqual(list(t["overrides"]), ["'-", "'=cmd|'/C calc'!A1"])
        self.assertEqual(list(t["status"]), ["done", "not started"])
        self.assertAlmostEqual(t["strehl_mean_2.2um"][0], self.run_.strehl(2.2).mean())

    def test_cells(self):
        """No cell of CSV is a formula to a spreadsheet, and what is read is what was written."""
        from moao.command import csv_cell, csv_text, csv_value
        words = ["%s%s" % (a, b) for a in map(chr, range(9, 127)) for b in ("", "1", "x", "'", "=1+1", "12.5e3", ',"\n')]
        words += ["''=1", "-1e5", "-1e5x", "+.5", "\u2212 1"]
        rows = list(csv.reader(io.StringIO(csv_text([words]), newline="")))
        self.assertEqual([csv_value(c) for c in rows[0]], words)
        for word, cell in zip(words, rows[0]):
            number = re.fullmatch(r"[+-][0-9.]+(e[0-9]+)?", word)
            self.assertEqual(cell[:1] in tuple("=+-@\t\r"), bool(number), cell)
        self.assertEqual((csv_cell(-2.5), csv_cell("-2.5m")), ("-2.5", "'-2.5m"))

    def test_documents(self):
        """The commands of docs/python.md are commands, with options that they have; so are its lines of Python."""
        with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as f:
            text = f.read()
        parsers = {"moao-plot": cmd_plot, "moao-view": cmd_view, "moao-compare": cmd_compare, "moao-export": cmd_export,
                   "moao-plot-sweep": cmd_sweep, "moao-stars": cmd_stars, "moao-plot-asterism": cmd_asterism,
                   "moao-plot-coverage": cmd_coverage, "moao-collect": cmd_collect, "moao-lab": cmd_lab}
        found = [shlex.split(w, comments=True) for w in re.findall(r"^(moao-.*)$", text, re.M)]
        found += [shlex.split(w) for w in re.findall(r"`(moao-[a-z-]+ [^`]*)`", text)]
        found = [w for w in found if w[0] != "moao-python"]  # whose arguments are Python's
        self.assertGreater(len(found), 8)
        for words in found:
            with redirect_stderr(io.StringIO()) as err:
                try:
                    parsers[words[0]].options().parse_args(words[1:])
                except SystemExit:
                    self.fail("%s: %s" % (" ".join(words), err.getvalue()))
        lines, = [b for b in re.findall(r"^```python\n(.*?)^```", text, re.S | re.M) if "moao.open(" in b]
        lines = lines.replace('"demo-out"', repr(self.out)).replace("75", "100").replace("exposure=3", "exposure=2")
        lines, cut = re.subn(r"^run\.psf_at\(.*\n", "", lines, flags=re.M)  # of a run with output.field: test_nodes
        self.assertEqual(cut, 1)
        lines = lines.replace('"psf-at-target.fits"', repr(os.path.join(self.folder, "psf-at-target.fits")))
        space = {}
        exec(compile(lines.replace("201", "61"), "docs/python.md", "exec"), space)
        self.assertEqual(space["psf"].target, self.run_.target_index(10, -5))

    def test_other_python(self):
        """A python3 without astropy hands over to the distribution's; where that has none either it is one line."""
        command = [sys.executable, "-S", os.path.join(ROOT, "scripts", "plot_maps.py"), self.out, "-o",
                   os.path.join(self.folder, "other.png")]
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        self.assertTrue(os.path.exists(command[-1]))
        p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False,
                           env=dict(os.environ, MOAO_PYTHON_STARTED_ANEW="moao-plot"))
        self.assertEqual((p.returncode, len(p.stderr.splitlines())), (2, 1), p.stderr)
        self.assertIn("python3-astropy", p.stderr)
        for name in ("plot_maps.py", "collect_campaign.py", "moao-results"):  # a script alone, without the package
            alone = shutil.copy(os.path.join(ROOT, "scripts", name), self.folder)
            p = subprocess.run([sys.executable, alone, "plot", self.out], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               universal_newlines=True, check=False)
            self.assertEqual((p.returncode, len(p.stderr.splitlines())), (2, 1), p.stderr)


class Pictures(Case):
    def texts(self, figure):
        import matplotlib.text
        return [t.get_text() for t in figure.findobj(matplotlib.text.Text)]

    def test_everything_is_said(self):
        """Each map says its least, mean and largest value; r0 says along which line; both wavelengths are named; every
        axis has a label."""
        figure = plots.overview(self.run_, names=["STREHL", "FWHM", "VARIANCE"])
        figure.savefig(os.path.join(self.folder, "all.png"))
        text = "\n".join(self.texts(figure))
        s = self.run_.strehl(1.65)
        for words in ("min %.3f  mean %.3f  max %.3f" % (s.min(), s.mean(), s.max()), "Strehl ratio at 1.65 µm",
                      "Strehl ratio at 2.2 µm", "FWHM [mas] at 2.2 µm", "residual variance [rad²] at 1.65 µm",
                      "PSF at 1.65 µm", "PSF at 2.2 µm", "along the line of sight"):
            self.assertIn(words, text)
        self.assertNotIn("N", self.texts(figure))
        plain = [ax for ax in figure.findobj(lambda a: hasattr(a, "get_xlabel"))  # all but bars of colours
                 if ax.get_visible() and getattr(ax, "get_subplotspec", lambda: None)()]
        self.assertGreater(len(plain), 20)
        for ax in plain:
            self.assertTrue(ax.get_xlabel() or not ax.xaxis.get_visible(), ax.get_title())
            if ax.get_subplotspec().is_first_col():
                self.assertTrue(ax.get_ylabel(), ax.get_title())

    def test_north(self):
        """North and east are drawn when the position angle is known: at 90 deg y points east and x north."""
        figure = plots.maps(moao.open(self.named()), "STREHL", 2.2)
        where = {t.get_text(): np.array(t.get_position()) for t in figure.axes[0].texts if t.get_text() in "NE"
                 and t.get_text()}
        middle = np.array([where["E"][0], where["N"][1]])
        self.assertGreater(where["N"][0] - middle[0], 0.05)
        self.assertGreater(where["E"][1] - middle[1], 0.05)

    def test_chosen(self):
        """Targets, quantities, wavelengths and scales are those that were asked for."""
        path = os.path.join(self.folder, "chosen.png")
        code, text, err = call(cmd_plot, self.out, "-o", path, "-q", "fwhm,ee", "-b", "300", "-w", "2.2", "-t", "-30,-20",
                               "-t", "2", "--limits", "ee=0:1", "--scale", "separate", "--position-angle", "10")
        self.assertEqual((code, err), (0, ""))
        figure = plots.overview(self.run_, ["EE_300mas"], [1], [(-30, -20), 1], fixed={"EE_300mas": (0, 1)})
        text = "\n".join(self.texts(figure))
        self.assertIn("EE in 300 mas at 2.2 µm", text)
        self.assertIn("(−30″, −15″)", text)
        norms = [i.norm for ax in figure.findobj(lambda a: hasattr(a, "images")) for i in ax.images
                 if ax.get_xlabel() == "x [arcsec]" and "LogNorm" not in str(i.norm)]
        self.assertTrue(norms and all((n.vmin, n.vmax) == (0, 1) for n in norms))
        for wrong in (["-q", "nothing"], ["-t", "nobody"], ["--limits", "ee=1"], ["-b", "290"], ["--budget", "-q", "ee"], ["-w", "K"], ["-o", path + ".xyz"]):
            code, _, err = call(cmd_plot, self.out, *wrong)
            self.assertEqual((code, len(err.splitlines())), (2, 1), err)

    def test_notebook(self):
        """The cells of the notebook run, one after the other, on this run; no outputs are kept in the file."""
        with open(os.path.join(ROOT, "examples", "results.ipynb"), encoding="utf-8") as f:
            book = json.load(f)
        cells = [c for c in book["cells"] if c["cell_type"] == "code"]
        self.assertGreater(len(cells), 8)
        lines = []
        for c in cells:
            self.assertFalse(c["outputs"])
            lines += [line.rstrip("\n") for line in c["source"] if not line.startswith("%")]
        p = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=os.path.join(ROOT, "examples"),
                           env=dict(os.environ, MOAO_RUN=self.out), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           universal_newlines=True, check=False)
        self.assertEqual(p.returncode, 0, p.stdout)
        self.assertIn("Strehl ratio at 2.2 um: %.3f" % self.run_.strehl(2.2).min(), p.stdout)


if __name__ == "__main__":
    unittest.main()
