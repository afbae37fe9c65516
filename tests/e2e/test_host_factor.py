"""The executor of devices that do not hold the factor (docs/gpu.md), which then stays in the host's memory:
the CPU backend with little of compute.gpu_memory, against the CPU's panels. What a run does when its device fails."""
# timeout: 900
# seconds: 40
import json
import os
import re
import shutil
import sys
import tempfile
import unittest

from moao_case import GOLDEN, ROOT, Run, moao
from test_resident import CASE, RESIDENT
import test_resident

sys.path.insert(0, os.path.join(ROOT, "tests"))
import moao_test  # noqa: E402

SAID = "kept in the host's memory and streamed to the device"


def short_memory(case, *overrides):
    """Bytes of a device that is almost large enough for the factor and one target."""
    text = moao("check", case, "compute.backend=gpu", "compute.gpu_memory=20 GB", "targets={list: [[0, 0]]}", "--json",
                *overrides).stdout
    return json.loads(text)["here"]["gpu_memory_bytes"] - 1e5


class Streamed(unittest.TestCase):
    assert_equal_runs = test_resident.Resident.assert_equal_runs

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="moao-streamed-")
        cls.case = moao_test.write_case(os.path.join(cls.dir, "asymmetric.yaml"), CASE)
        cls.small = moao_test.write_case(os.path.join(cls.dir, "small.yaml"))
        cls.panels = Run(CASE, ranks=2)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir, ignore_errors=True)

    def run_streamed(self, panel, *overrides, ranks=1):
        """On the CPU backend ranks of a node share one device."""
        panel = "compute.panel=%d" % panel
        memory = ranks * short_memory(self.case, panel)
        run = Run(CASE, panel, "compute.gpu_memory=%.0f" % memory, *overrides, ranks=ranks, env=RESIDENT)
        self.assertIn(SAID, run.process.stdout + run.process.stderr)
        return run

    def test_asymmetric_case(self):
        """Every map to 1e-10 of the panels': as many targets as fit, chunks of 1 and 2, pieces that leave a rest and
        pieces wider than W is high, 2 ranks."""
        for panel, chunk, ranks in ((19, 0, 1), (7, 1, 1), (95, 2, 2)):
            with self.subTest(panel=panel, chunk=chunk, ranks=ranks):
                here = self.run_streamed(panel, "compute.targets_per_chunk=%d" % chunk, ranks=ranks)
                self.assert_equal_runs(self.panels, here, 1e-10)

    def test_mixed_precision_needs_the_factor_on_the_device(self):
        """A device that does not hold it in FP16 is refused, in one line; nothing else takes its place, nor the CPU."""
        p = moao("run", self.case, "compute.panel=19", "compute.precision=mixed", "compute.gpu_memory=%.0f" % short_memory(
            self.case, "compute.panel=19"), "-o", os.path.join(self.dir, "fp16"), "-q", env=RESIDENT, check=False)
        self.assertEqual(p.returncode, 2, p.stderr)
        self.assertEqual(p.stderr.count("of a GPU in format half"), 1, p.stderr)

    def test_golden_case(self):
        case = os.path.join(GOLDEN, "b.yaml")
        memory = short_memory(case, "compute.panel=32")
        run = Run(case, "compute.panel=32", "compute.gpu_memory=%.0f" % memory, env=RESIDENT)
        self.assertIn(SAID, run.process.stdout + run.process.stderr)
        self.assert_equal_runs(Run(case), run, 1e-10)

    def start(self, name, *overrides, ranks=2, fault="", env=RESIDENT):
        return moao_test.Run(self.small, "compute.panel=50", "compute.gpu_memory=%.0f" % (ranks * self.small_memory()),
                             "-o", os.path.join(self.dir, name), *overrides, ranks=ranks, cwd=self.dir,
                             env=dict(env, MOAO_FAULT=fault))

    def small_memory(self):
        if not hasattr(type(self), "memory_of_small"):
            type(self).memory_of_small = short_memory(self.small, "compute.panel=50")
        return self.memory_of_small

    def whole(self):
        """Maps of the uninterrupted run."""
        if not hasattr(type(self), "whole_maps"):
            run = self.start("whole")
            self.assertEqual(run.wait(120), 0, run.text)
            self.assertIn(SAID, run.text)
            type(self).whole_maps = moao_test.maps(os.path.join(self.dir, "whole"))
        return self.whole_maps

    def assert_resumes(self, name):
        again = self.start(name, "--resume")
        self.assertEqual(again.wait(120), 0, again.text)
        found = moao_test.maps(os.path.join(self.dir, name))
        for key, value in self.whole().items():
            self.assertEqual(value.tobytes(), found[key].tobytes(), key)

    def test_a_lost_device_ends_the_run(self):
        """A device that fails between two exposures: all ranks end soon, code 1, one line that says how to go on; the
        resumed maps equal the uninterrupted run's bit for bit."""
        run = self.start("lost", fault="device:1:fail:200")
        self.assertEqual(run.wait(60), 1, run.text)
        lines = [s for s in run.text.splitlines() if "injected fault in device" in s]
        self.assertEqual(len(lines), 1, run.text)
        for word in ("rank 1: ", "--resume", "compute.backend=cpu"):
            self.assertIn(word, lines[0])
        self.assertGreater(len(moao_test.parts(os.path.join(self.dir, "lost"))), 0)
        self.assert_resumes("lost")

    def test_a_killed_rank(self):
        """kill -9 of a rank in an exposure: the others end soon; the run resumes."""
        run = self.start("killed", fault="exposure:1:kill:4")
        self.assertNotIn(run.wait(60), (0, 3), run.text)
        self.assert_resumes("killed")

    def test_a_factor_that_fails_while_a_thread_reads(self):
        """While a thread of the host computes what the mirror leaves: one line, code 1. The thread reads D+ to its end."""
        run = moao_test.Run(self.small, "-o", os.path.join(self.dir, "thread"), "dm.nssp=40", "output.psf=none", ranks=1, cwd=self.dir,
                            env={**RESIDENT, "MOAO_TEST_APART": "yes", "MOAO_FAULT": "factor:0:fail", "MALLOC_MMAP_THRESHOLD_": "65536"})
        self.assertEqual(run.wait(120), 1, run.text)
        self.assertEqual(run.text.count("injected fault in factor"), 1, run.text)

    def test_a_device_that_fails_at_the_start(self):
        """auto: the CPU, with a line; gpu: an error."""
        run = self.start("start-auto", fault="device:0:fail:1")
        self.assertEqual(run.wait(120), 0, run.text)
        self.assertEqual(run.text.count("computing on the CPU: rank 0: injected fault in device"), 1, run.text)
        with open(os.path.join(self.dir, "start-auto", "run.json"), encoding="utf-8") as f:
            self.assertNotIn("device", json.load(f)["machine"])
        run = self.start("start-gpu", "compute.backend=gpu", fault="device:0:fail:1")
        self.assertEqual(run.wait(60), 1, run.text)
        self.assertEqual(run.text.count("injected fault in device"), 1, run.text)

    def test_too_little_memory(self):
        """Of the device, of the host: said before anything is computed; auto takes the CPU, and says so."""
        little = "compute.gpu_memory=1.5e9"
        run = self.start("little-auto", little)
        self.assertEqual(run.wait(120), 0, run.text)
        self.assertRegex(run.text, "computing on the CPU: compute.gpu_memory: one target at a time needs")
        run = self.start("little-gpu", little, "compute.backend=gpu")
        self.assertEqual(run.wait(60), 2, run.text)
        self.assertEqual(run.text.count("compute.gpu_memory: one target"), 1, run.text)
        run = self.start("little-host", "compute.memory=1e7", "compute.backend=gpu")
        self.assertEqual(run.wait(60), 2, run.text)
        self.assertRegex(run.text, "compute.memory: one target at a time needs .* of the host's memory.*, 0.01 GB")

    def test_not_positive_definite(self):
        """The message of the panels, wherever the factor stops."""
        twins = ["sensors[0].noise_variance=1e-30", "sensors[1].noise_variance=1e-30", "sensors[1].direction=[40, 10]"]
        run = self.start("twins", *twins, ranks=1)
        self.assertEqual(run.wait(60), 1, run.text)
        self.assertIn("Cmm is not positive definite", run.text)
        self.assertIn("sensor 1", run.text)

    def test_check_plans_the_memory(self):
        """Full scale on 40 GB: several targets, and what the host must offer, whatever this machine has."""
        case = os.path.join(ROOT, "params", "mosaic.yaml")
        text = moao("check", case, "compute.backend=gpu", "compute.precision=double", "compute.gpu_memory=40 GB",
                    "--memory", "10").stdout
        m = re.search(r"GPU +([\d.]+) GB of 40.000 GB, with W of (\d+) targets", text)
        self.assertLess(float(m.group(1)), 40)
        self.assertGreater(int(m.group(2)), 3)
        m = re.search(r"GPU's host +([\d.]+) GB for each rank", text)
        self.assertIn(round(float(m.group(1))), range(43, 53))
        self.assertIn("not here: 10.000 GB", text)
        p = moao("check", case, "compute.backend=gpu", "compute.gpu_memory=5 GB")
        self.assertRegex(" ".join(p.stdout.split()), r"does not fit this machine: .* of a GPU \(compute.gpu_memory\)")


if __name__ == "__main__":
    unittest.main(verbosity=2)
