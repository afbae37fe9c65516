"""SLURM scripts on a real one-node cluster of our own: submit, signal, requeue, resume, cancel, array."""
# timeout: 600
# cores: 0
# seconds: 90
import csv
import os
import shlex
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import slurm_cluster  # noqa: E402
from moao_test import QUICK_CASE, MOAO, ROOT, Run, environment, maps, parts, write_case  # noqa: E402

SCRIPTS = os.path.join(ROOT, "scripts")


@unittest.skipIf(slurm_cluster.missing(), "not installed: " + " ".join(slurm_cluster.missing()))
class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = slurm_cluster.Cluster()
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        cls.dir = os.path.join(cls.cluster.dir, "work")
        os.mkdir(cls.dir)
        write_case(cls.path("case.yaml"), QUICK_CASE.replace("exposure_interval: 3 min", "exposure_interval: 36 s"))
        cls.env = {k: v for k, v in environment(MOAO=MOAO, MOAO_SCRIPTS=SCRIPTS).items()
                   if k.startswith(("OMPI_", "MOAO"))}
        run = Run("case.yaml", "-o", "reference", cwd=cls.dir)
        if run.wait(300) != 0:
            raise AssertionError(run.text)
        cls.expected = maps(cls.path("reference"))

    @classmethod
    def path(cls, *names):
        return os.path.join(cls.dir, *names)

    def submit(self, script, *args, options=()):
        return self.cluster.submit(*options, os.path.join(SCRIPTS, script), *args, cwd=self.dir, env=self.env)

    def log(self, name):
        with open(self.path(name), encoding="utf-8", errors="replace") as f:
            return f.read()

    def wait_for_parts(self, folder, n):
        self.cluster.until(lambda: len(parts(self.path(folder))) >= n, 60, "no %d parts in %s" % (n, folder))

    def assert_same(self, folder):
        found = maps(self.path(folder))
        self.assertEqual(sorted(found), sorted(self.expected))
        for name, a in self.expected.items():
            self.assertEqual(a.tobytes(), found[name].tobytes(), name)

    def test_signal_requeue_resume(self):
        """USR1 to the batch script (as before the time limit): the run stops, requeues itself, resumes, and gives
        the maps of the uninterrupted run."""
        job = self.submit("moao.sbatch", "case.yaml", "-o", "signalled")
        self.wait_for_parts("signalled", 3)
        self.cluster.call("scancel", "--signal=USR1", "--batch", job)
        states = self.cluster.wait(job, 120)
        log = self.log("moao-%s.log" % job)
        self.assertEqual(states, ["COMPLETED"], log)
        self.assertEqual(log.count("requeueing"), 1, log)
        self.assertIn("start 2: ", log)
        self.assertRegex(log, r"start 2: .* --resume")
        self.assertIn("done with exit code 0", log)
        self.assert_same("signalled")

    def test_requeue_by_others(self):
        """A job that an administrator requeues (or whose node fails) resumes as well."""
        job = self.submit("moao.sbatch", "case.yaml", "-o", "requeued")
        self.wait_for_parts("requeued", 3)
        self.cluster.call("scontrol", "requeue", job)
        states = self.cluster.wait(job, 120)
        log = self.log("moao-%s.log" % job)
        self.assertEqual(states, ["COMPLETED"], log)
        self.assertRegex(log, r"start 2: .* --resume")
        self.assert_same("requeued")

    def test_cancelled_stays_cancelled(self):
        """A cancelled job does not requeue itself; its run can be resumed by hand."""
        job = self.submit("moao.sbatch", "case.yaml", "-o", "cancelled")
        self.wait_for_parts("cancelled", 3)
        self.cluster.call("scancel", job)
        self.assertEqual(self.cluster.wait(job, 60), ["CANCELLED"])
        self.assertNotIn("requeueing", self.log("moao-%s.log" % job))
        job = self.submit("moao.sbatch", "case.yaml", "-o", "cancelled", "--resume")
        self.assertEqual(self.cluster.wait(job, 120), ["COMPLETED"])
        self.assert_same("cancelled")

    def test_bad_input_fails(self):
        """A mistake in the parameters ends the job with the program's exit code, without requeueing."""
        job = self.submit("moao.sbatch", "case.yaml", "dm.nssp=many", "-o", "bad")
        self.assertEqual(self.cluster.wait(job, 60), ["FAILED"])
        log = self.log("moao-%s.log" % job)
        self.assertIn("done with exit code 2", log)
        self.assertIn("dm.nssp", log)

    def test_srun(self):
        """The ranks can be launched by srun instead of mpirun; USR1 reaches them there too."""
        self.env = dict(self.env, MOAO_LAUNCH="srun --mpi=pmix")
        job = self.submit("moao.sbatch", "case.yaml", "-o", "srun")
        self.wait_for_parts("srun", 3)
        self.cluster.call("scancel", "--signal=USR1", "--batch", job)
        states = self.cluster.wait(job, 120)
        log = self.log("moao-%s.log" % job)
        self.assertEqual(states, ["COMPLETED"], log)
        self.assertRegex(log, r"start 2: .* --resume")
        self.assert_same("srun")

    def test_srun_without_pmix(self):
        """Processes that srun starts without PMIx do not know of each other: none computes, one tells."""
        text = self.cluster.call("srun", "--mpi=none", "-n", "2", MOAO, "run", self.path("case.yaml"), "-o",
                                 self.path("none"), cwd=self.dir, env=self.env)
        lines = [line for line in text.splitlines() if not line.startswith("srun: ")]
        self.assertEqual(len(lines), 1, text)
        self.assertRegex(lines[0], r"srun started 2 processes.*srun --mpi=pmix.*mpirun -n 2")
        self.assertFalse(os.path.exists(self.path("none")))

    def test_gpu_script(self):
        """A task for each GPU. No GPU stands behind the cluster's: the job fails at once; on the CPU (auto) it stops,
        requeues and resumes like any other."""
        self.env = dict(self.env, MOAO_GPU_PLUGIN="/nowhere/libmoao_gpu.so")
        two = ["--ntasks-per-node=2", "--gpus-per-node=2", "--cpus-per-task=1"]
        mpirun, self.env = self.env, dict(self.env, MOAO_LAUNCH="srun --mpi=pmix --gpus-per-task=1")
        job = self.submit("moao-gpu.sbatch", "case.yaml", "-o", "no-gpu", options=two)
        self.env = mpirun
        self.assertEqual(self.cluster.wait(job, 60), ["FAILED"])
        log = self.log("moao-gpu-%s.log" % job)
        self.assertIn("no GPU can be used: /nowhere/libmoao_gpu.so", log)
        self.assertNotIn("is best", log)
        job = self.submit("moao-gpu.sbatch", "case.yaml", "compute.backend=auto", "-o", "gpu", options=two[:1] + two[2:])
        self.wait_for_parts("gpu", 3)
        self.cluster.call("scancel", "--signal=USR1", "--batch", job)
        states = self.cluster.wait(job, 120)
        log = self.log("moao-gpu-%s.log" % job)
        self.assertEqual(states, ["COMPLETED"], log)
        self.assertIn("2 tasks and 1 GPUs a node", log)
        self.assertIn("computing on the CPU", log)
        self.assertRegex(log, r"start 2: .* --resume")
        self.assert_same("gpu")

    def test_campaign(self):
        """An array over overrides: each task computes its own, one is interrupted and resumes, one has a mistake;
        the summary tells Strehl ratios and states."""
        with open(self.path("overrides.txt"), "w", encoding="utf-8") as f:
            f.write("# magnitudes\n-\nsensors[0].magnitude=14 \"psf.wavelengths=[1.65 um, 2.2 um]\"\n\n"
                    "dm.nssp=many\n")
        job = self.submit("campaign.sbatch", "case.yaml", "overrides.txt", "campaign", options=["--array=1-3"])
        self.wait_for_parts("campaign/0001", 3)
        self.cluster.signal_script(signal.SIGUSR1, "SLURM_ARRAY_TASK_ID", 1)
        states = self.cluster.wait(job, 240)
        logs = "".join(self.log("moao-campaign-%s_%d.log" % (job, i)) for i in (1, 2, 3))
        self.assertEqual(sorted(states), ["COMPLETED", "COMPLETED", "FAILED"], logs)
        self.assertEqual(logs.count("requeueing"), 1, logs)
        self.assertRegex(self.log("moao-campaign-%s_1.log" % job), r"start 2: .* --resume")
        self.assert_same("campaign/0001")
        with open(self.path("campaign", "summary.csv"), encoding="utf-8", newline="") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual([r["status"] for r in rows], ["done", "done", "bad input"], logs)
        self.assertEqual(rows[1]["overrides"], 'sensors[0].magnitude=14 "psf.wavelengths=[1.65 um, 2.2 um]"')
        strehl = [float(r["strehl_mean_1.65um"]) for r in rows[:2]]
        long_ones = [v for k, v in self.expected.items() if k.endswith(" STREHL_LONG")]
        self.assertAlmostEqual(strehl[0], long_ones[0][0].mean(), delta=1e-12)
        self.assertAlmostEqual(float(rows[0]["strehl_max_1.65um"]), long_ones[0][0].max(), delta=1e-12)
        self.assertLess(strehl[1], strehl[0])
        self.assertTrue(all(0 < float(r["ee_80mas_mean_2.2um"]) < 1 for r in rows[:2]))
        self.assertIn("bad input", self.log("campaign/summary.txt"))

    def test_sweep_as_an_array(self):
        """The line that moao sweep --slurm prints submits its runs; each task brings the table of the sweep up to date."""
        call = subprocess.run([MOAO, "sweep", "case.yaml", "telescope.zenith=[0, 30]", "schedule.exposure_interval=15 min",
                               "-o", "swept", "--slurm"], cwd=self.dir, env=dict(os.environ, **self.env), check=True,
                              stdout=subprocess.PIPE, universal_newlines=True)
        words = shlex.split(call.stdout.replace("\\\n", " "))
        self.assertEqual(words[0], "sbatch")
        job = self.cluster.submit(*words[1:], cwd=self.dir, env=self.env)
        states = self.cluster.wait(job, 240)
        logs = "".join(self.log("moao-campaign-%s_%d.log" % (job, i)) for i in (1, 2))
        self.assertEqual(states, ["COMPLETED"] * 2, logs)
        with open(self.path("swept", "sweep.csv"), encoding="utf-8", newline="") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual([(r["telescope.zenith"], r["status"]) for r in rows], [("0", "finished"), ("30", "finished")], logs)
        self.assertLess(float(rows[1]["strehl_mean_1.65um"]), float(rows[0]["strehl_mean_1.65um"]))


if __name__ == "__main__":
    unittest.main()
