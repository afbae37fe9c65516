"""Cases in Python (moao.Case): parameters and tables in and out, checks, runs with their progress, sweeps, asterisms, jobs,
Ctrl-C, errors with their places; and what a run shows of itself."""
# seconds: 20
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
import unittest.mock

import numpy as np
from astropy import units as u
from astropy.io import fits
from astropy.table import Table

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import slurm_cluster  # noqa: E402
from moao_test import MOAO, QUICK_CASE, ROOT, environment, patience, write_case  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ.update(environment(), MOAO=MOAO)
import moao  # noqa: E402
from moao import process, source  # noqa: E402

# 2 exposures of one reconstructor, 4 targets: a second
SMALL = {"dm.nssp": 6, "sensors.*.nssp": 6, "telescope.diameter": 4, "targets.grid": {"nx": 2, "ny": 2, "width": 40},
         "schedule.exposure_interval": "10 min", "schedule.end": "20 min", "psf.residual": "sensor", "psf.oversampling": 4,
         "psf.span": 2.1, "output.psf": "long"}


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="moao-case-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.file = write_case(os.path.join(cls.folder, "small.yaml"), QUICK_CASE)

    def case(self, **more):
        return moao.Case(self.file).update(SMALL).update(more)

    def path(self, name):
        return os.path.join(self.folder, name)

    # --- parameters

    def test_parameters(self):
        """Values are those of a run, in its units; quantities, lists, words; what is taken back is the file's again."""
        case = self.case()
        self.assertEqual((case["telescope.diameter"], case.unit("telescope.diameter")), (4, "m"))
        case["telescope.diameter"] = 420 * u.cm
        case["telescope.zenith"] = np.float64(30)
        case["psf.wavelengths"] = [1.65 * u.um, "K"]
        self.assertEqual((case["telescope.diameter"], case["telescope.zenith"], case["psf.wavelengths"]), (4.2, 30, [1.65, 2.2]))
        self.assertEqual((case["errors.rejection"], case["output.compress"]), ("off", False))  # a word, a truth
        del case["telescope.diameter"]
        self.assertEqual(case["telescope.diameter"], 8)
        self.assertEqual(case["sensors.*.magnitude"], [10, 11, 10])
        self.assertIn("sensors[3].altitude", list(case))
        case.write(self.path("whole.yaml"))
        self.assertEqual(moao.Case(self.path("whole.yaml"))["telescope.zenith"], 30)
        other = case.copy()
        other["telescope.zenith"] = 10
        self.assertEqual(case["telescope.zenith"], 30)
        nested = moao.Case(self.file, {"telescope": {"zenith": 11}, "title": "\u00fc: 'a'"})
        self.assertEqual((nested["telescope.zenith"], nested["title"]), (11, "\u00fc: 'a'"))
        self.assertIn("Zenith angle", moao.parameters("telescope.zenith"))
        with self.assertRaisesRegex(moao.MoaoError, "no such value"):
            case["telescope.colour"]
        with self.assertRaisesRegex(moao.MoaoError, "unit"):
            case["telescope.diameter"] = 3 * u.kg

    def test_copy(self):
        """A copy says the same, with tables that were set or changed, and is a case of its own."""
        case = self.case()
        case.targets = Table({"x": [1, 2], "y": [3, 4], "label": ["a", "b"]})
        case.stars["magnitude"][0] = 9.5
        made = case.copy()
        self.assertEqual(made.text, case.text)
        self.assertEqual(list(made.targets["label"]), ["a", "b"])
        made.targets["x"][0] = 7
        made["telescope.zenith"] = 20
        self.assertEqual((case.targets["x"][0], case["telescope.zenith"]), (1, 0))
        self.assertEqual(made["targets.list"], [[7, 3], [2, 4]])

    def test_errors(self):
        """A mistake has file, line and column where the user has a file, and the key in any case; several come together."""
        with open(self.path("bad.yaml"), "w", encoding="utf-8") as f:
            f.write(QUICK_CASE.replace("dm: {nssp: 10}", "dm: {nssp: 10, colour: 3}").replace("obscuration: 0.14", "obscuration: 7"))
        with self.assertRaises(moao.MoaoError) as caught:
            moao.Case(self.path("bad.yaml")).check()
        e = caught.exception
        self.assertEqual((e.file, e.line), (self.path("bad.yaml"), 3))
        self.assertEqual([m.key for m in e.mistakes], ["telescope.obscuration", "dm.colour"])
        self.assertGreater(e.mistakes[1].column, 10)
        with self.assertRaisesRegex(moao.MoaoError, "^telescope.zenith: '100' is out of range") as caught:
            self.case(**{"telescope.zenith": 100}).check()
        self.assertEqual((caught.exception.file, caught.exception.key), (None, "telescope.zenith"))
        case = self.case()
        case.stars = Table({"x": [1.0], "y": [2.0], "magnitude": [99.0]})
        with self.assertRaisesRegex(moao.MoaoError, r"^sensors\[1\].magnitude: '99.0' is out of range"):  # behind the laser star
            case.check()
        with self.assertRaisesRegex(moao.MoaoError, "cannot be read"):
            moao.Case("nowhere.yaml").check()
        process_error = process.error_of(["case.yaml:3:7: a.b: no: c"])
        self.assertEqual((process_error.line, process_error.column, process_error.key), (3, 7, "a.b"))

    # --- tables

    def test_stars(self):
        """The table of stars: cells that are changed, rows that are set, other columns, ra and dec."""
        case = self.case()
        stars = case.stars
        self.assertEqual(list(stars["type"]), ["ngs"] * 3 + ["lgs"])
        self.assertEqual((str(stars["x"].unit), list(stars["x"])), ("arcsec", [40, -30, 5, 30]))
        stars["magnitude"][1], stars["x"][0] = 12.5, 41
        self.assertEqual((case["sensors.*.magnitude"], case["sensors[0].direction"]), ([10, 12.5, 10], [41, 10]))
        case["ngs_defaults.ron"] = 1.5  # what was not changed in the table still follows the file
        self.assertEqual(case["sensors[0].ron"], 1.5)
        case.stars = Table({"name": ["a", "b"], "x": [0.01, 0.0] * u.deg, "y": [0, 5.0], "photons": [500.0, 200], "gaia": [7, 8]})
        sensors = case.parameters["sensors"]
        self.assertEqual([s["type"] for s in sensors], ["lgs", "ngs", "ngs"])
        self.assertAlmostEqual(sensors[1]["direction"][0], 36)
        self.assertEqual((sensors[1]["photons"], sensors[1]["nssp"], sensors[1].get("magnitude")), (500, 8, None))
        case.stars = Table({"type": ["ngs"], "x": [3.0], "y": [4.0], "magnitude": [9.5]})
        self.assertEqual(len(case.parameters["sensors"]), 1)
        case.update({"sky.ra": "10:00:00", "sky.dec": -20})
        case.stars = Table({"ra": [150.01], "dec": [-20.0], "magnitude": [9.0]})
        self.assertAlmostEqual(case["sensors[1].direction"][0], -36 * np.cos(np.radians(20)), places=2)  # east is -x
        with self.assertRaisesRegex(moao.MoaoError, "expected columns x and y"):
            case.stars = Table({"a": [1]})
            case.check()

    def test_targets(self):
        """A grid is shown as its points; tables, pairs and other columns; columns of targets.file."""
        case = self.case()
        self.assertEqual([tuple(r) for r in case.targets["x", "y"]], [(-20, -15), (20, -15), (-20, 15), (20, 15)])
        case.targets = [(0, 1), (2, 3)]
        self.assertEqual(case["targets.list"], [[0, 1], [2, 3]])
        case["targets.grid.nx"] = 3  # drops the table
        self.assertEqual(len(case.targets), 6)
        with open(self.path("list.txt"), "w", encoding="utf-8") as f:
            f.write("name x y z\na 1 2 0.5\nb 3 4 0.7\n")
        with open(self.path("listed.yaml"), "w", encoding="utf-8") as f:
            f.write("targets: {file: list.txt}\n")
        case = moao.Case(self.file, self.path("listed.yaml"))
        self.assertEqual((list(case.targets["name"]), list(case.targets["z"])), (["a", "b"], [0.5, 0.7]))

    # --- computing

    def test_run(self):
        """A run with its progress, once; own columns come back, also when the folder is opened; numbers agree with the images."""
        case = self.case()
        case.targets = Table({"name": ["a", "b"], "x": [1.0, -20], "y": [0.0, 10], "redshift": [2.0, 2.5]})
        case.stars["gaia"] = [11, 12, 13, 14]
        check = case.check()
        self.assertEqual((check.sizes["targets"], check.fits, len(check.stars)), (2, True, 4))
        self.assertGreater(check.seconds, 0)
        self.assertIn("photons", check._repr_html_())
        events = []
        run = case.run(ranks=2, folder=self.path("run"), progress=events.append)
        kinds = [e["event"] for e in events]
        self.assertEqual((kinds[0], kinds.count("begin")), ("begin", 1))
        done = [e["done"] for e in events if e["event"] == "progress"]
        self.assertEqual(done, sorted(done))
        self.assertGreater(len(set(done)), 3)
        self.assertLess(done[-1], 1)
        self.assertEqual(list(run.targets["redshift"]), [2.0, 2.5])
        self.assertEqual(list(moao.open(run.folder).guide_stars["gaia"]), [11, 12, 13, 14])
        before = os.stat(run.path).st_mtime_ns
        self.assertEqual(os.stat(case.run(ranks=2, folder=run.folder, progress=None).path).st_mtime_ns, before)  # not anew
        with self.assertRaisesRegex(moao.MoaoError, "changed parameters"):
            self.case().run(ranks=1, folder=run.folder, progress=None)
        table = run.to_table()
        self.assertEqual((len(table), list(table["redshift"])), (4, [2, 2, 2.5, 2.5]))
        self.assertEqual(table["strehl"][1], run.strehl(2.2)[0])
        psf = run.psf("b", wavelength=1.65)
        self.assertAlmostEqual(psf.fwhm, run.fwhm(1.65)[1], delta=1e-3 * psf.fwhm)
        self.assertAlmostEqual(float(psf.at(0, 0)), psf.strehl, places=12)
        self.assertAlmostEqual(psf.radial_profile([0, 30])[1][0], psf.strehl, places=12)
        psf.writeto(self.path("psf.fits"))
        with fits.open(self.path("psf.fits"), checksum=True) as f:
            self.assertAlmostEqual(float(f[0].data.sum()), psf.fraction, places=5)
            self.assertEqual(f[0].header["OBJECT"], "b")
        self.assertIn("NGS 1", case._repr_html_())
        self.assertIn("missing", moao.Case({"telescope": {"diameter": 4}})._repr_html_())  # not whole yet: what it lacks
        self.assertIn("Strehl", run.psf(0)._repr_html_())
        page = run._repr_html_()
        self.assertIn("STREHL", page)
        self.assertIn("data:image/png", page)
        self.assertGreater(len(run.plot("strehl", wavelength=2.2).axes), 0)

    def test_encircled(self):
        """Of a Gaussian the share in a circle is 1 - exp(-r^2/2s^2), between the pixels as well."""
        pixel, s, n = 4.0, 20.0, 96
        r = np.hypot(*np.mgrid[-n // 2:n // 2, -n // 2:n // 2]) * pixel
        psf = moao.Psf(np.exp(-r ** 2 / 2 / s ** 2), pixel, 1.0, 2 * np.pi * (s / pixel) ** 2)
        radii = np.array([1.3, 17.0, 40, 100])
        np.testing.assert_allclose(psf.encircled(radii), 1 - np.exp(-radii ** 2 / 2 / s ** 2), atol=1e-9)
        self.assertAlmostEqual(psf.fwhm, s * np.sqrt(8 * np.log(2)), places=6)
        np.testing.assert_allclose(psf.radial_profile([0, 11, 33])[1], np.exp(-np.array([0, 11, 33]) ** 2 / 2 / s ** 2), atol=1e-9)
        with self.assertRaises(moao.MoaoError):
            psf.encircled(n * pixel)

    def test_psf(self):
        """moao.psf: the image of a run of that direction, once computed, then from the process or the folder; a changed file counts."""
        settings = dict(SMALL, **{"schedule.exposure_interval": "30 min"})
        del settings["targets.grid"]
        file, cache = write_case(self.path("source.yaml"), QUICK_CASE), self.path("cache")
        with unittest.mock.patch("moao.case.run_program", side_effect=process.run_program) as started:
            one = moao.psf(3, -4, 2.2, case=file, settings=settings, cache=cache)
        # the program starts twice, and a single direction needs no mpirun
        self.assertEqual([c.args[0][1:3] for c in started.call_args_list], [["check", "--json"], ["run", file]])
        self.assertEqual((one.x, one.y, one.wavelength), (3, -4, 2.2))
        run = moao.Case(file).update(settings).update({"targets.list": [[3, -4]], "psf.wavelengths": [2.2]}).run(folder=self.path("direct"), progress=None)
        self.assertEqual(one.strehl, run.psf(0).strehl)
        self.assertIs(moao.psf(3, -4, 2.2, case=file, settings=settings, cache=cache), one)
        runs = sorted(os.listdir(cache))
        from moao import source
        source._kept.clear()  # as another process
        when = os.stat(os.path.join(cache, runs[0], "maps.fits")).st_mtime_ns
        self.assertEqual(moao.psf(3, -4, 2.2, case=file, settings=settings, cache=cache).strehl, one.strehl)
        self.assertEqual((os.stat(os.path.join(cache, runs[0], "maps.fits")).st_mtime_ns, os.listdir(cache)), (when, runs))
        write_case(file, QUICK_CASE.replace("r0: 15 cm", "r0: 10 cm"))
        self.assertLess(moao.psf(3, -4, 2.2, case=file, settings=settings, cache=cache).strehl, one.strehl)
        near = moao.psf(3, -4, 2.2, case=file, settings=settings, cache=cache, field=40)
        runs = sorted(os.listdir(cache))
        self.assertAlmostEqual(near.strehl, moao.psf(3, -4, 2.2, case=file, settings=settings, cache=cache).strehl, delta=5e-3)
        moao.psf([15, -3], [0, 18], 2.2, case=file, settings=settings, cache=cache, field=40)
        self.assertEqual(sorted(os.listdir(cache)), runs)  # no run more
        with self.assertRaisesRegex(moao.MoaoError, "outside the field"):
            moao.psf(21, 0, 2.2, case=file, settings=settings, cache=cache, field=40)
        self.assertEqual((one.reduced, near.reduced), ("", ""))
        band = moao.psf([3], [-4], "K", case=file, settings=settings, cache=cache)[0]
        self.assertEqual(band.band, "K")
        with self.assertRaisesRegex(moao.MoaoError, "expected directions"):
            moao.psf(float("nan"), 0, 2.2, case=file)

    def test_psf_reduced(self):
        """moao.psf(reduced=): the image of the case with one exposure, with slopes between points, or with both, which it says; not of anything
        else. What no image follows from is left out, unless the case sets it; a file that the parameters name counts when it changes."""
        settings = {k: v for k, v in SMALL.items() if not k.startswith("targets")}
        settings["sensors.*.noise_variance"] = "1e-4 arcsec2"
        file, cache = write_case(self.path("reduced.yaml"), QUICK_CASE.replace("slope: points", "slope: gradient").replace("{psf: none}", "{psf: none, budget: terms}")), self.path("reduced")
        direct = moao.Case(file).update(settings).update({"targets.list": [[3, -4]], "psf.wavelengths": [2.2]})
        one = {"schedule": {"tor_times": [0], "exposure_times": [0]}}
        points = {"sensors.*.slope": "points", "sensors.*.spot": "full", "sensors.*.photometry": "bands"}
        found = {}
        for what, changes, said in (("exposures", one, "one exposure, in profile 0 of 3 (from 0)"), ("slopes", points, "slopes between points"),
                                    (True, dict(one, **points), "one exposure, in profile 0 of 3 (from 0); slopes between points")):
            psf = found[what] = moao.psf(3, -4, 2.2, case=file, settings=settings, cache=cache, reduced=what)
            wanted = direct.copy().update(changes).run(folder=self.path("wanted-%s" % what), progress=None).psf(0)
            np.testing.assert_allclose(psf.data, wanted.data, rtol=0, atol=1e-9)
            self.assertEqual(psf.reduced, said)
            self.assertIn("reduced: " + said, repr(psf))
        self.assertNotEqual(found["slopes"].strehl, found[True].strehl)
        self.assertNotEqual(found["exposures"].strehl, found[True].strehl)
        psf.writeto(self.path("reduced.fits"))
        self.assertEqual(fits.getval(self.path("reduced.fits"), "REDUCED"), said)
        runs = [moao.open(os.path.join(cache, n)) for n in os.listdir(cache)]
        self.assertEqual({(r.parameters["output"]["budget"], r.parameters["compute"]["verify"]) for r in runs}, {("terms", "off")})
        with self.assertRaisesRegex(moao.MoaoError, "reduced is False, True, 'exposures' or 'slopes', not 'all'"):
            moao.psf(3, -4, 2.2, case=file, reduced="all")

    def test_psf_of_changed_files(self):
        """A file that the parameters name and that has changed is computed anew, in this process and with what the folder has."""
        from moao import source
        path, (x, y) = self.path("pupil.fits"), np.meshgrid(*2 * [np.arange(64) - 31.5])
        settings = dict({k: v for k, v in SMALL.items() if not k.startswith("targets")}, **{"telescope.pupil": path, "schedule.exposure_interval": "30 min"})
        found = []
        for wide in (40, 24, 24):
            if len(found) < 2:
                fits.PrimaryHDU((np.hypot(x, y) < 32) * (abs(y) < wide).astype(float)).writeto(path, overwrite=True)
            found.append(moao.psf(0, 0, 2.2, case=self.file, settings=settings, cache=self.path("changed")))
        self.assertIs(found[1], found[2])
        self.assertNotEqual(found[0].fwhm, found[1].fwhm)
        source._kept.clear()
        self.assertEqual(moao.psf(0, 0, 2.2, case=self.file, settings=settings, cache=self.path("changed")).fwhm, found[1].fwhm)

    def test_psf_at_once(self):
        """Processes that want the same image at once have it from one run."""
        settings = dict({k: v for k, v in SMALL.items() if not k.startswith("targets")}, **{"schedule.exposure_interval": "30 min"})
        script = "import sys, moao; print(moao.psf(2, 1, 2.2, case=sys.argv[1], settings=%r, cache=sys.argv[2]).strehl)" % settings
        started = [subprocess.Popen([sys.executable, "-c", script, self.file, self.path("at-once")], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python")))
                   for _ in range(4)]
        ends = [p.communicate() + (p.returncode,) for p in started]
        self.assertEqual([(e[1], e[2]) for e in ends], [("", 0)] * 4)
        self.assertEqual(len({e[0] for e in ends}), 1)
        self.assertEqual(len(os.listdir(self.path("at-once"))), 1)

    def test_psf_waits_for_a_folder_that_goes(self):
        """Who waits for a run that comes to nothing, and whose folder is removed, has a folder of that name that nobody else has."""
        folder = self.path("goes")
        os.mkdir(folder)
        first, found = os.open(folder, os.O_RDONLY), []
        fcntl.flock(first, fcntl.LOCK_EX)

        def wait():
            with source._alone(folder):
                at = os.open(folder, os.O_RDONLY)
                try:
                    fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    found.append("locked")
                finally:
                    os.close(at)

        waiting = threading.Thread(target=wait)
        waiting.start()
        with open("/proc/locks", encoding="ascii") as f:
            while not re.search(r"-> FLOCK .* %d " % os.getpid(), f.read()) and waiting.is_alive():
                time.sleep(0.01)
                f.seek(0)
        os.rmdir(folder)
        os.close(first)
        waiting.join(patience(60))
        self.assertEqual(found, ["locked"])
        self.assertFalse(os.path.exists(folder))

    def test_sweep(self):
        """A table with a row for each value; once more it is not computed anew; one that fails is named."""
        events = []
        case = self.case()
        table = case.sweep({"telescope.zenith": [0, 40]}, folder=self.path("sweep"), progress=events.append)
        self.assertEqual(list(table["telescope.zenith"]), [0, 40])
        self.assertEqual((table.meta["folder"], table.meta["keys"]), (self.path("sweep"), ["telescope.zenith"]))
        states = [(e["number"], e["of"], e["state"]) for e in events if e["event"] == "run"]
        self.assertEqual(states, [(1, 2, "done"), (2, 2, "done")])
        events.clear()
        case.sweep({"telescope.zenith": [0, 40]}, folder=self.path("sweep"), progress=events.append)
        self.assertEqual([e["state"] for e in events if e["event"] == "run"], ["before"] * 2)
        with self.assertRaisesRegex(moao.MoaoError, "telescope.zenith.*out of range"):
            case.sweep({"telescope.zenith": [0, 100]}, folder=self.path("sweep2"), progress=None)

    def test_interrupt(self):
        """Ctrl-C stops the run at a checkpoint, Python says how to go on, and the same call does."""
        script = textwrap.dedent("""
            import moao, sys
            case = moao.Case(%r).update({"output.psf": "none", "psf.residual": "sensor"})
            try:
                case.run(ranks=1, folder=%r, progress=lambda e: print(e["event"], flush=True))
            except KeyboardInterrupt as e:
                print("interrupted:", e)
        """ % (self.file, self.path("stopped")))
        p = subprocess.Popen([sys.executable, "-c", script], env=environment(PYTHONPATH=os.path.join(ROOT, "python"), MOAO=MOAO),
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        parts = os.path.join(self.path("stopped"), "checkpoint")
        end = time.monotonic() + 120
        while time.monotonic() < end and not (os.path.isdir(parts) and any(n.startswith("part") for n in os.listdir(parts))):
            time.sleep(0.02)
        p.send_signal(signal.SIGINT)
        text = p.communicate(timeout=patience(60))[0]
        self.assertEqual(p.returncode, 0, text)
        self.assertRegex(text, r"interrupted: .*stopped.*the same call goes on")
        self.assertNotIn("--resume", text)
        self.assertFalse(os.path.exists(os.path.join(self.path("stopped"), "maps.fits")))
        notes = []
        run = moao.Case(self.file).update({"output.psf": "none", "psf.residual": "sensor"}).run(ranks=1, folder=self.path("stopped"), progress=notes.append)
        self.assertEqual(run.ne, 10)
        steps = {e["step"] for e in notes if str(e.get("step")).startswith("exposure")}
        self.assertTrue(20 < len(steps) < 40, len(steps))  # of 40

    @unittest.skipIf(slurm_cluster.missing(), "no SLURM here: " + " ".join(slurm_cluster.missing()))
    def test_submit(self):
        """A job of SLURM, its state and its results; one that fails says the last line of its log."""
        cluster = slurm_cluster.Cluster()
        self.addCleanup(cluster.stop)
        cluster.start()
        os.environ["SLURM_CONF"] = cluster.env["SLURM_CONF"]
        self.addCleanup(os.environ.pop, "SLURM_CONF")
        case = self.case()
        case.targets = Table({"x": [0, 10, -5, 3], "y": [0, 5, 5, -8], "label": list("abcd")})
        job = case.submit(self.path("job"), tasks=1, hours=1, options=["--mem-per-cpu=1"])
        self.assertIn("--time=1:00:00", job.line)
        bad = case.submit(self.path("file"), tasks=1, hours=1, options=["--mem-per-cpu=1"])
        with open(self.path("file"), "w", encoding="ascii") as f:
            f.write("in the way\n")
        run = job.wait(seconds=90, every=0.3)
        self.assertEqual((run.nt, job.state), (4, "COMPLETED"))
        self.assertEqual(list(run.targets["label"]), list("abcd"))  # columns of the user's own
        with self.assertRaisesRegex(moao.MoaoError, "ended as .* without results: .*file"):
            bad.wait(seconds=60, every=0.3)

    # --- without Python's help

    def test_module(self):
        """python -m moao is the program, and the commands on results."""
        def call(*words):
            p = subprocess.run([sys.executable, "-m", "moao"] + list(words), cwd=os.path.join(ROOT, "python"),
                               env=environment(MOAO=MOAO), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
            return p.returncode, p.stdout
        self.assertEqual(call("check", self.file)[0], 0)
        self.assertIn("usage: moao-plot", call("plot", "--help")[1])
        self.assertEqual(call("check", self.path("nowhere.yaml"))[0], 2)


if __name__ == "__main__":
    unittest.main()
