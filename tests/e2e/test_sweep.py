"""moao sweep: the runs, their table, interrupting and going on, what is refused; campaign.sbatch by hand."""
# timeout: 600
import csv
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np
from astropy.io import fits

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, SHORT_CASE, ROOT, maps, parts, patience, write_case  # noqa: E402
from test_commands import call, plain_environment  # noqa: E402

# two targets, one or two exposures: a second each
SMALL = SHORT_CASE.replace("grid: {nx: 4, ny: 2, width: 60 arcsec, height: 30 arcsec}", "list: [[0, 0], [10, 5]]").replace(
    "exposure_interval: 3 min", "exposure_interval: 15 min").replace("psf: none", "psf: long")


class Sweep(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        write_case(self.path("case.yaml"), SMALL)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def sweep(self, *args, code=0):
        p = call(MOAO, "sweep", "case.yaml", *args, cwd=self.dir, timeout=300)
        self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        return p

    def rows(self, folder):
        with open(self.path(folder, "sweep.csv"), encoding="utf-8", newline="") as f:
            return list(csv.DictReader(f))

    def test_table(self):
        """A grid of two keys: every figure of the table is that of the runs' own maps; units in FITS; more values join."""
        p = self.sweep("telescope.zenith = 0..40:40", "sensors[0].magnitude=[10, 14]", "psf.ee_boxes=75 mas", "-o", "out")
        self.assertIn("table    out/sweep.fits, out/sweep.csv: 4 of 4 runs", p.stdout)
        rows = self.rows("out")
        self.assertEqual([(r["telescope.zenith"], r["sensors[0].magnitude"]) for r in rows],
                         [("0", "10"), ("0", "14"), ("40", "10"), ("40", "14")])
        with fits.open(self.path("out", "sweep.fits"), checksum=True) as f:
            table, header = f["SWEEP"].data.copy(), f["SWEEP"].header.copy()
        self.assertEqual(header["NKEYS"], 2)
        units = {header["TTYPE%d" % i]: header.get("TUNIT%d" % i, "") for i in range(1, header["TFIELDS"] + 1)}
        self.assertEqual((units["telescope.zenith"], units["fwhm_2.2um"], units["rms_2.2um"], units["strehl_mean_2.2um"]),
                         ("deg", "mas", "nm", ""))
        for i, row in enumerate(rows):
            with fits.open(self.path("out", row["folder"], "maps.fits")) as f:
                targets, waves = f["TARGETS"].data, list(f["WAVELENGTHS"].data["LAMBDA"])
                for k, wave in enumerate(waves):
                    own = {n: np.asarray(targets[n], float).reshape(len(targets), -1)[:, k] for n in (
                        "STREHL_LONG", "EE_75mas_LONG", "FWHM_LONG", "VARIANCE_LONG")}
                    expected = {"strehl_mean": own["STREHL_LONG"].mean(), "strehl_min": own["STREHL_LONG"].min(),
                                "strehl_max": own["STREHL_LONG"].max(), "ee_75mas": own["EE_75mas_LONG"].mean(),
                                "fwhm": own["FWHM_LONG"].mean(),
                                "rms": np.sqrt(own["VARIANCE_LONG"].mean()) * wave * 1e3 / (2 * np.pi)}
                    for name, value in expected.items():
                        column = "%s_%gum" % (name, wave)
                        self.assertAlmostEqual(float(row[column]) / value, 1, delta=1e-9)
                        self.assertAlmostEqual(table[column][i] / value, 1, delta=1e-9)
        self.assertLess(float(rows[3]["strehl_mean_2.2um"]), float(rows[0]["strehl_mean_2.2um"]))
        before = os.stat(self.path("out", rows[0]["folder"], "maps.fits")).st_mtime_ns
        p = self.sweep("telescope.zenith=[0, 20]", "sensors[0].magnitude=[10, 14]", "psf.ee_boxes=75 mas", "-o", "out")
        self.assertEqual(p.stdout.count("finished before"), 2)
        self.assertEqual(len(self.rows("out")), 6)
        self.assertEqual(os.stat(self.path("out", rows[0]["folder"], "maps.fits")).st_mtime_ns, before)
        os.unlink(self.path("out", "sweep.csv"))
        self.assertEqual(call(MOAO, "sweep", "--table", "-o", "out", cwd=self.dir).returncode, 0)
        self.assertEqual(len(self.rows("out")), 6)

    def test_linked(self):
        """A * sets all stars together: the same run as that with each of them set, and laser stars, which have no magnitude, are left alone."""
        self.sweep("sensors.*.magnitude=10..14:4", "-o", "out", "-q")
        one = ["sensors[%d].magnitude=14" % i for i in (0, 1, 2)]
        p = call(MOAO, "run", "case.yaml", *one, "-o", "one", "-q", cwd=self.dir)
        self.assertEqual(p.returncode, 0, p.stderr)
        rows = self.rows("out")
        self.assertEqual([r["sensors.*.magnitude"] for r in rows], ["10", "14"])
        self.assertEqual(rows[1]["folder"], "sensors.all.magnitude=14")
        both = [maps(self.path(*name)) for name in (("out", rows[1]["folder"]), ("one",))]
        self.assertEqual(*[next(v for k, v in m.items() if k.endswith("TARGETS.STREHL_LONG")).tobytes() for m in both])
        self.assertLess(float(rows[1]["strehl_mean_2.2um"]), float(rows[0]["strehl_mean_2.2um"]))

    def test_interrupt_and_go_on(self):
        """Ctrl-C: exit code 3, one line how to go on; the same line finishes, without computing anything twice."""
        line = ["case.yaml", "telescope.zenith=[0, 30]", "schedule.exposure_interval=20 s", "-o", "out", "-q"]
        run = subprocess.Popen([MOAO, "sweep"] + line, cwd=self.dir, env=plain_environment(), stderr=subprocess.PIPE,
                               universal_newlines=True)
        end = time.monotonic() + patience(90)
        while len(parts(self.path("out", "telescope.zenith=0"))) < 2 and time.monotonic() < end and run.poll() is None:
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)
        text = run.communicate(timeout=patience(90))[1]
        self.assertEqual(run.returncode, 3, text)
        self.assertIn("stopped with 0 of 2 runs finished; the same line again goes on", text)
        self.assertEqual([r["status"] for r in self.rows("out")], ["stopped", "missing"])
        p = call(MOAO, "sweep", *line, cwd=self.dir, timeout=300)
        self.assertEqual((p.returncode, p.stdout, p.stderr), (0, "", ""))
        self.assertEqual([r["status"] for r in self.rows("out")], ["finished", "finished"])

    def test_mistakes_are_told_before_anything_is_computed(self):
        for args, words in (
                (["telescope.zenith=0..90:30", "-o", "out"], "out of range"),
                (["telescope.zenit=[1, 2]", "-o", "out"], "did you mean zenith?"),
                (["stars.*.magnitude=[1, 2]", "-o", "out"], "stars.*.magnitude: a * below what is no list"),
                (["sensors.LGS*.magnitude=[1, 2]", "-o", "out"], "sensors.LGS*.magnitude: none of these sensors takes magnitude"),
                (["telescope.zenith=30", "-o", "out"], "no key takes several values"),
                (["telescope.zenith=[0, 30]"], "no folder, expected -o DIR"),
                (["telescope.zenith=[0, 30]", "-o", ""], "empty name"),
                (["telescope.zenith=[0, 30]", "-o", "full"], "holds files of something else"),
                (["telescope.zenith=[0, 30]", "-n", "0", "-o", "out"], "whole number from 1")):
            os.makedirs(self.path("full"), exist_ok=True)
            open(self.path("full", "mine"), "w", encoding="ascii").close()
            p = self.sweep(*args, code=2)
            self.assertIn(words, p.stderr)
            self.assertEqual(p.stderr.count("\n"), 1, p.stderr)
            self.assertEqual(sorted(os.listdir(self.dir)), ["case.yaml", "full"])

    def test_changed_parameters_and_failed_runs(self):
        self.sweep("telescope.zenith=[0]", "-o", "out", "-q")
        p = self.sweep("telescope.zenith=[0, 10]", "dm.coupling=0.3", "-o", "out", code=2)
        self.assertRegex(p.stderr, r"out/telescope.zenith=0: computed with other parameters: .*dm.coupling")
        p = self.sweep("telescope.zenith=[0, 10]", "loop.delay=[1]", "-o", "out", code=2)
        self.assertIn("sweep of other keys", p.stderr)
        p = self.sweep("dm.nssp=[8, 400]", "-o", "bad", code=1)
        self.assertIn("dm.nssp=400 failed (exit code 2)", p.stderr)
        self.assertIn("compute.memory", p.stderr)
        self.assertEqual([r["status"] for r in self.rows("bad")], ["finished", "missing"])

    def test_campaign_by_hand(self):
        """campaign.sbatch without SLURM: every line in turn, the table of the sweep; an unmatched quote is an error of
        its line, and no run is made under it."""
        campaign = os.path.join(ROOT, "scripts", "campaign.sbatch")
        env = plain_environment(MOAO=MOAO)
        env = {k: v for k, v in env.items() if not k.startswith("SLURM")}
        p = self.sweep("telescope.zenith=[0, 30]", "-o", "out", "--slurm")
        self.assertRegex(p.stdout, r"sbatch --array=1-2 --ntasks=1 \S*scripts/campaign.sbatch \\\n    case.yaml out/runs.txt out")
        p = call("bash", campaign, "case.yaml", "out/runs.txt", "out", cwd=self.dir, env=env, timeout=300)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        self.assertEqual([(r["telescope.zenith"], r["status"]) for r in self.rows("out")], [("0", "finished"), ("30", "finished")])
        with open(self.path("lines.txt"), "w", encoding="ascii") as f:
            f.write("# two\n-\n\ntitle=it's telescope.zenith=45\n")
        p = call("bash", campaign, "case.yaml", "lines.txt", "lines", cwd=self.dir, env=env, timeout=300)
        self.assertEqual(p.returncode, 1)
        self.assertIn("campaign.sbatch: lines.txt:4: a quote is not closed: title=it's telescope.zenith=45", p.stderr)
        self.assertTrue(os.path.exists(self.path("lines", "0001", "maps.fits")), p.stdout + p.stderr)
        self.assertFalse(os.path.exists(self.path("lines", "0002")))
        p = call("bash", campaign, "case.yaml", "lines.txt", "lines", cwd=self.dir, timeout=60,
                 env=dict(env, SLURM_JOB_ID="1", SLURM_ARRAY_TASK_ID="2", SLURM_ARRAY_JOB_ID="1"))
        self.assertEqual(p.returncode, 2, p.stderr)


    def test_campaign_from_an_installation(self):
        """The scripts of an installed prefix find their program and each other, whatever the PATH and the folder."""
        os.makedirs(self.path("p", "bin"))
        scripts = self.path("p", "share", "moao", "scripts")
        shutil.copytree(os.path.join(ROOT, "scripts"), scripts)
        shutil.copy(MOAO, self.path("p", "bin", "moao"))
        env = {k: v for k, v in plain_environment().items() if not k.startswith(("SLURM", "MOAO"))}
        line = self.path("lines.txt")
        with open(line, "w", encoding="ascii") as f:
            f.write("telescope.zenith=10 title=\"two words\"\n")
        p = call("bash", os.path.join(scripts, "campaign.sbatch"), "case.yaml", line, "there", cwd=self.dir, env=env)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        with fits.open(self.path("there", "0001", "maps.fits")) as f:
            self.assertEqual((f[0].header["ZENITH"], f[0].header["TITLE"]), (10, "two words"))
        p = call(self.path("p", "bin", "moao"), "check", "case.yaml", cwd=self.dir, env=env)
        self.assertIn("p/share/moao/scripts/moao.sbatch", p.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
