"""`moao check`: what it promises is what a run does."""
# seconds: 35
import json
import os
import re
import subprocess
import tempfile
import unittest

from moao_case import GOLDEN, MOAO, ROOT, Run, environment, moao

MOSAIC = os.path.join(ROOT, "params", "mosaic.yaml")

CASES = [([os.path.join(GOLDEN, "b.yaml")], 1),
         ([os.path.join(ROOT, "params", "demo.yaml"), "schedule={tor_times: [0], exposure_times: [0]}",
           "targets={grid: {nx: 3, ny: 8, width: 40}}"], 2),
         ([os.path.join(ROOT, "params", "elt-small.yaml"), "schedule={tor_times: [0], exposure_times: [0]}",
           "targets={list: [[0, 0], [30, 40]]}", "dm.nssp=26", "ngs_defaults.slope=points", "lgs_defaults.slope=points"], 2)]


class Check(unittest.TestCase):
    def test_memory_is_within_ten_percent_of_the_peak(self):
        for case, ranks in CASES:
            with self.subTest(case):
                text = moao("check", *case, ranks=ranks).stdout
                told = 1e9 * float(re.search(r"memory +([0-9.]+) GB", text).group(1))
                peak = 0  # what a run may reach: ranks do not always need most at the same moment
                for _ in range(2):
                    if peak == 0 or abs(told / peak - 1) >= 0.1:
                        run = Run(*case, ranks=ranks)
                        with open(run.path("run.json")) as f:
                            peak = max(peak, json.load(f)["memory"]["peak_rank_bytes"])
                self.assertLess(abs(told / peak - 1), 0.1, f"{told:.4g} told, {peak:.4g} used")
                begins = re.search(r"([0-9.]+) GB a rank", run.process.stdout + run.process.stderr)
                self.assertAlmostEqual(1e9 * float(begins.group(1)), told, delta=0.03 * told + 1e7)

    def test_it_tells_what_a_user_needs_before_submitting(self):
        text = moao("check", os.path.join(ROOT, "params", "demo.yaml"), "--ranks", "8").stdout
        for word in ("measurements", "actuators", "PSF", "memory", "output", "work", "expected time", "sbatch --ntasks=8"):
            self.assertIn(word, text)

    def test_every_shipped_file_is_valid(self):
        for name in sorted(os.listdir(os.path.join(ROOT, "params"))):
            if name.endswith(".yaml"):
                with self.subTest(name):
                    moao("check", os.path.join(ROOT, "params", name), "--ranks", "1000", "--memory", "64")

    def test_full_scale_is_the_published_one(self):
        text = moao("check", os.path.join(ROOT, "params", "mosaic.yaml"), "--ranks", "1024", "--memory", "64").stdout
        m = int(re.search(r"measurements +(\d+) in all", text).group(1))
        self.assertLess(abs(m / 102400 - 1), 0.01)
        self.assertRegex(text, r"5336 actuators")
        self.assertRegex(text, r"targets +64 x 64")

    def test_too_little_memory_is_said_with_what_would_do(self):
        """A case that does not fit is no mistake: exit code 0, a verdict, and a line for SLURM on nodes that hold it."""
        p = moao("check", MOSAIC, "--memory", "1")
        self.assertIn("does not fit this machine: a rank needs", " ".join(p.stdout.split()))
        self.assert_complete_line(p.stdout, "params/mosaic.yaml -o mosaic")

    def assert_complete_line(self, text, end):
        """The line for SLURM can be typed as it stands: number of tasks, memory, time, script, file, folder."""
        line = " ".join(text[text.index("sbatch --"):].replace("\\\n", " ").split())
        for word in (r"--ntasks(-per-node)?=\d+ ", r"--cpus-per-task=\d+ ", r"--mem-per-cpu=\d+M ", r"--time=\d+:\d\d:00 ",
                     r"--signal=B:USR1@\d+ ", r"[\w/.-]*scripts/moao(-gpu)?\.sbatch "):
            self.assertRegex(line, word)
        self.assertTrue(line.endswith(end), line)
        script = re.search(r"\S+\.sbatch", line).group(0)
        self.assertTrue(os.path.exists(os.path.join(os.getcwd(), script)), script)

    def test_every_shipped_case_gets_a_verdict_and_a_line(self):
        for name in ("demo", "canary", "elt-small", "mosaic"):
            p = moao("check", os.path.join(ROOT, "params", name + ".yaml"))
            self.assertIn("\nverdict ", p.stdout)
            self.assert_complete_line(p.stdout, "%s.yaml -o %s" % (name, name))
            self.assertEqual([x for x in p.stdout.split("\n") if len(x) > 80 and "/" not in x], [])
            self.assertNotIn("GPU", p.stdout.replace("--gpus", ""))

    def test_gpus_that_would_not_compute(self):
        """What is computed on CPUs alone has no forecast of GPUs."""
        for name, option, reason in (("instruments/mavis", "mode=mcao", "closed loop"), ("split", "mode=split", "mode: split"),
                                     ("demo", "compute.backend=cpu", "compute.backend is cpu")):
            p = moao("check", os.path.join(ROOT, "params", name + ".yaml"), "--gpus", "1", option, check=False)
            self.assertEqual(p.returncode, 2)
            self.assertRegex(p.stderr, "--gpus: .*%s" % reason)

    def test_ages(self):
        """Covariances of a closed loop are counted once for each age of slopes, of targets and of tables by layer."""
        case = [os.path.join(ROOT, "params", "instruments", *name) for name in (("mavis.yaml",), ("small", "mavis.yaml"))]

        def seconds(*options):
            return json.loads(moao("check", *case, "--json", "--nodes", "1", "--cores", "2", "--gflops", "20",
                                   "targets={grid: {nx: 20, ny: 20, width: 15}, sampling: exact}", *options).stdout)["machine"]["seconds"]
        direct, layers = seconds("compute.phase=direct"), seconds("compute.phase=layers")
        self.assertGreater(direct, 2 * seconds("compute.phase=direct", "loop.lags=equivalent"))
        self.assertGreater(direct, 5 * layers)
        self.assertGreater(layers, 1.05 * seconds("compute.phase=layers", "loop.lags=equivalent"))
        self.assertEqual(seconds(), layers)  # auto

    def test_another_machine(self):
        """Nodes, cores, memory and speed by options; dgemm is not measured then, and the number of nodes is found."""
        def plan(*options):
            return json.loads(moao("check", MOSAIC, "--json", "--cores", "64", "--memory", "256", "--gflops", "20",
                                   *options).stdout)
        one, four = (plan("--nodes", n)["machine"] for n in ("16", "64"))
        self.assertTrue(one["fits"] and four["fits"])
        self.assertEqual(four["rank_gflops"], 20 * four["threads"])
        self.assertEqual(four["ranks"] * four["threads"], 64 * 64)
        self.assertAlmostEqual(one["seconds"] / four["seconds"], 4, delta=0.4)
        self.assertLess(one["rank_memory_bytes"], 256e9 * 16 / one["ranks"])
        found = plan()["machine"]
        self.assertTrue(found["fits"] and found["seconds"] < 7 * 86400)
        small = json.loads(moao("check", MOSAIC, "--json", "--nodes", "1", "--cores", "64", "--memory", "64").stdout)
        self.assertFalse(small["fits"])
        self.assertIn("does not fit 1 node of 64 GB", small["verdict"])
        self.assertTrue(small["machine"]["fits"] and small["machine"]["nodes"] > 1)  # how many would do
        huge = json.loads(moao("check", MOSAIC, "--json", "--cores", "64", "--memory", "64", "dm.nssp=400").stdout)
        self.assertIn("does not fit any number of nodes of 64 GB", huge["verdict"])
        self.assertGreater(huge["machine"]["rank_available_bytes"], 64e9)

    def test_a_long_run_becomes_several_jobs(self):
        def plan(*options):
            out = json.loads(moao("check", MOSAIC, "--json", "--nodes", "64", "--cores", "64", "--memory", "256",
                                  "--gflops", "20", *options).stdout)
            return out["machine"], out
        day, text = plan()
        self.assertGreater(day["jobs"], 1)
        self.assertIn("%d jobs" % day["jobs"], text["verdict"])
        self.assertIn("--time=24:00:00", text["slurm"])
        self.assertGreaterEqual(day["jobs"] * day["job_limit_seconds"], day["seconds"])
        half, text = plan("--time", "12")
        self.assertGreater(half["jobs"], 1.8 * day["jobs"])
        self.assertEqual(plan("--time", "2000")[0]["jobs"], 1)
        none, text = plan("--time", "10 min")
        self.assertEqual(none["jobs"], 0)
        self.assertIn("ends before its first checkpoint", text["verdict"])

    def test_set_up_beside_gpus(self):
        """Commands of common mirrors are fitted by the host of GPUs: by as many cores as it has, at their rate."""
        case = ("check", os.path.join(ROOT, "bench", "morfeo-gpu.yaml"), "--nodes", "1", "--gpus", "1", "--memory", "100", "--json")
        few, many = (json.loads(moao(*case, "--cores", n).stdout)["machine"]["seconds"] for n in ("2", "16"))
        self.assertGreater(few, many + 5)

    def test_gpus_of_another_machine(self):
        """In double precision where that is asked for, else as fast as the checks allow."""
        gpus = ("check", MOSAIC, "--nodes", "4", "--gpus", "4", "--cores", "64", "--memory", "500")
        text, fast = moao(*gpus, "compute.precision=double").stdout, moao(*gpus).stdout
        self.assertRegex(text, r"GPU +14[34]\.\d+ GB of 148\.000 GB, with W of 12 targets")
        self.assertRegex(fast, r"factor of Cmm0 in split FP16")
        self.assertRegex(moao(*gpus, "targets={list: [[0, 0]]}", "schedule={tor_times: [0], exposure_times: [0]}").stdout,
                         r"factor of Cmm0, and Cmm of an exposure")  # a minute cannot be saved
        self.assertIn("moao-gpu.sbatch", text)
        self.assertIn("--gpus-per-node=4", text)

    def test_a_card_that_is_not_here(self):
        """Memory and rates of its model: 24 GB hold no mixed precision at the full scale, which is said; asked for by name
        it is not replaced."""
        card = ("check", MOSAIC, "--gpu", "NVIDIA GeForce RTX 4090", "--memory", "200")
        text = " ".join(moao(*card).stdout.split())
        self.assertRegex(text, r"RTX 4090, compute 8\.9: FP64 1\.29, FP32 82\.6, FP16 165 TFLOP/s")
        self.assertRegex(text, r"factor host, products exact in double precision: mixed needs 3\d\.\d+ GB for one target")
        self.assertRegex(text, r"GPU +2\d\.\d+ GB of 24\.720 GB")
        self.assertIn("dgemm of RTX 4090", text)
        plan = json.loads(moao(*card, "--json", "compute.precision=mixed", "compute.factor=dense").stdout)
        self.assertFalse(plan["machine"]["fits"])
        fast = json.loads(moao("check", MOSAIC, "--gpu", "H200", "--json", "compute.precision=double").stdout)["machine"]
        slow = json.loads(moao(*card, "--json", "compute.precision=double").stdout)["machine"]
        self.assertEqual((slow["gpu_model"], slow["product"]), ("RTX 4090", "exact"))
        self.assertGreater(slow["seconds"], 40 * fast["seconds"])  # 1.29 TFLOP/s instead of 67
        for name, why in (("T4", r"Tesla T4 \(compute 7\.5\): moao has code for 8\.0"), ("A100", "none, or several, of .*A100 80GB"),
                          ("abacus", "'abacus' is none, or several, of")):
            p = moao("check", MOSAIC, "--gpu", name, check=False)
            self.assertEqual(p.returncode, 2)
            self.assertRegex(p.stderr, why)

    def test_memory_of_a_tiny_case_is_enough_for_mpirun(self):
        line = moao("check", os.path.join(GOLDEN, "b.yaml")).stdout
        tasks, cores, each = (int(re.search(w, line).group(1)) for w in (
            r"--ntasks=(\d+)", r"--cpus-per-task=(\d+)", r"--mem-per-cpu=(\d+)M"))
        self.assertGreaterEqual(cores * each, 256)
        self.assertGreaterEqual(tasks, 1)

    def test_it_judges_from_counts(self):
        """Two seconds and 200 MB for any input: absurd sizes in one line, others with a verdict."""
        sensors = "[" + ",".join("{type: ngs, direction: [%.3f, %.3f], magnitude: 10, nssp: 20}" % (i * 1.1, i * i * 1e-3)
                                 for i in range(1000)) + "]"
        many = "schedule={tor_interval: 100 s, exposure_interval: 1 s, end: 60000 s}"
        for overrides, code in ((["dm.nssp=1000"], 2), (["dm.nssp=500"], 0),
                                (["dm.nssp=1000", "psf.oversampling=8"], 2), (["dm.nssp=300", "psf.oversampling=13"], 0),
                                (["sensors[0].nssp=1000"], 0), (["ngs_defaults.nssp=1000"], 2), ([many], 0),
                                (["sensors=" + sensors, many, "targets={grid: {nx: 8, ny: 8}}"], 0),
                                (["targets={grid: {nx: 1000, ny: 8, width: 60}}"], 0),
                                (["compute.grid=[65536,65536]"], 2), (["--ranks", "1000000"], 0)):
            with self.subTest(overrides[0][:40]):
                with tempfile.TemporaryFile("w+") as err:
                    p = subprocess.Popen([MOAO, "check", os.path.join(ROOT, "params", "demo.yaml")] + overrides,
                                         env=environment(), stdout=subprocess.DEVNULL, stderr=err)
                    _, how, used = os.wait4(p.pid, 0)
                    p.returncode = os.WEXITSTATUS(how)
                    err.seek(0)
                    text = err.read()
                self.assertEqual(p.returncode, code, text[:400])
                if code == 2:
                    self.assertEqual(text.count("\n"), 1, text)
                self.assertLess(used.ru_utime, 2.0)
                self.assertLess(used.ru_maxrss, 200 << 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
