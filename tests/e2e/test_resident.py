"""Runs on devices (docs/gpu.md), with the CPU backend as the device, against runs of ranks in step on the
CPU: the same maps; what it does when memory, a device or a rank is missing."""
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import unittest

import numpy as np
from astropy.io import fits

from moao_case import GOLDEN, ROOT, Run, moao, relative

sys.path.insert(0, os.path.join(ROOT, "tests"))
import moao_test  # noqa: E402

RESIDENT = {"MOAO_TEST_DEVICE": "cpu"}

# nothing alike or symmetric: sensors of several sizes, turned, shifted and magnified; an odd number of targets
CASE = """
telescope: {diameter: 6.3 m, obscuration: 0.2, zenith: 20 deg}
dm: {nssp: 9}
ngs_defaults: {slope: points}
lgs_defaults: {slope: points}
sensors:
  - {type: ngs, nssp: 8, direction: [41, 12], magnitude: 10, rotation: 7, shift: [5 cm, -3 cm]}
  - {type: ngs, nssp: 7, direction: [-33, 35], magnitude: 11, magnification: 1.02}
  - {type: ngs, nssp: 8, direction: [6, -44], magnitude: 12}
  - {type: lgs, nssp: 9, direction: [28, -31], altitude: 88 km, rotation: -11}
  - {type: lgs, nssp: 9, direction: [-25, -20], altitude: 90 km}
targets: {list: [[0, 0], [11, -7], [-20, 4], [3, 25], [-9, -30]]}
loop: {delay: 12 ms}
atmosphere:
  profiles:
    - {time: 0, r0: 15 cm, layers: {altitude: [0, 4100, 10300], fraction: [0.6, 0.3, 0.1], wind_speed: [7, 12, 25],
       wind_direction: [10, 75, 130]}}
    - {time: 10 min, r0: 12 cm, layers: {altitude: [0, 900, 5200, 12000], fraction: [0.5, 0.1, 0.2, 0.2], L0: 30 m,
       wind_speed: [5, 9, 14, 30], wind_direction: [200, 20, 95, 160]}}
schedule: {tor_times: [0, 12 min], exposure_times: [0, 10 min, 14 min]}
psf: {wavelengths: [1.65 um, 2.2 um], oversampling: 8}
output: {psf: short, crop: 32}
"""


def images(run):
    with fits.open(run.path("psf.fits")) as f:
        return [np.array(h.data, dtype=float) for h in f if h.is_image and h.data is not None]


class Resident(unittest.TestCase):
    def assert_equal_runs(self, a, b, tolerance):
        """Every map of b against a, relative to the largest value; images are stored in single precision."""
        mine, other = a.quantities(), b.quantities()
        self.assertEqual(sorted(mine), sorted(other))
        for name, value in mine.items():
            self.assertLessEqual(relative(other[name], value), tolerance, name)
        for x, y in zip(images(a), images(b)):
            self.assertLessEqual(np.max(np.abs(x - y)), max(tolerance, 1e-7 if tolerance else 0) * np.max(x))

    def test_golden_case(self):
        """Every map equals the panels' to 1e-10."""
        case = os.path.join(GOLDEN, "b.yaml")
        self.assert_equal_runs(Run(case), Run(case, "compute.panel=100", env=RESIDENT), 1e-10)

    def test_asymmetric_case(self):
        """Nothing alike: to 1e-10, with panels that leave a rest and several chunks on 2 ranks."""
        panels = Run(CASE, ranks=2)
        here = Run(CASE, "compute.panel=77", "compute.targets_per_chunk=3", ranks=2, env=RESIDENT)
        self.assert_equal_runs(panels, here, 1e-10)
        with open(here.path("run.json")) as f:
            machine = json.load(f)["machine"]
        self.assertEqual(machine["backend"], "cpu")
        self.assertTrue(machine["device"], "a run names its device")

    def test_matrices(self):
        """output.matrices show what the executor of the run computes: those of devices equal the panels'."""
        options = ["targets={list: [[0, 0], [11, -7]]}", "schedule={tor_times: [0], exposure_times: [10 min]}",
                   "output.matrices=[D,Dplus,Cmm,Ctm,Ctt,R,W,Cee,Cvv]"]
        panels = Run(CASE, *options, ranks=2)
        names = sorted(n[:-5] for n in os.listdir(panels.path("matrices")))
        self.assertEqual(len(names), 17)
        for here in (Run(CASE, *options, "compute.panel=60", ranks=3, env=RESIDENT),
                     Run(CASE, *options, "compute.precision=mixed", env=RESIDENT)):
            self.assertEqual(sorted(n[:-5] for n in os.listdir(here.path("matrices"))), names)
            for name in names:
                self.assertLessEqual(relative(here.matrix(name), panels.matrix(name)), 1e-10, name)

    def test_results_do_not_depend_on_ranks_or_chunks(self):
        """Bit for bit: 1 rank and all targets at once, 3 ranks (a chunk of 2 leaves one without a target), which make
        the factor together."""
        options = ["compute.threads=1", "compute.panel=60"]
        one = Run(CASE, *options, env=RESIDENT)
        three = Run(CASE, *options, "compute.targets_per_chunk=2", ranks=3, env=RESIDENT)
        self.assert_equal_runs(one, three, 0)
        self.assertIn("the 3 devices of a node make each factor together", three.process.stderr)
        self.assertNotIn("together", one.process.stderr)

    def test_stop_and_resume(self):
        """USR1 ends the run at a checkpoint with code 3; resumed maps equal bit for bit."""
        folder = tempfile.mkdtemp(prefix="moao-resident-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        case = moao_test.write_case(os.path.join(folder, "case.yaml"))
        out = {n: os.path.join(folder, n) for n in ("whole", "stopped")}
        whole = moao_test.Run(case, "-o", out["whole"], env=RESIDENT, cwd=folder)
        self.assertEqual(whole.wait(120), 0, whole.text)
        run = moao_test.Run(case, "-o", out["stopped"], env=RESIDENT, cwd=folder)
        moao_test.wait_for_parts(run, out["stopped"], 3)
        run.process.send_signal(signal.SIGUSR1)
        self.assertEqual(run.wait(60), 3, run.text)
        again = moao_test.Run(case, "-o", out["stopped"], "--resume", env=RESIDENT, cwd=folder)
        self.assertEqual(again.wait(120), 0, again.text)
        a, b = (moao_test.maps(out[n]) for n in ("whole", "stopped"))
        for key in a:
            self.assertEqual(a[key].tobytes(), b[key].tobytes(), key)

    def test_a_failing_rank_ends_all(self):
        """With one message."""
        for place in ("factor", "solve", "exposure", "psf"):
            p = self.fail_run("compute.threads=1", ranks=2, env=dict(RESIDENT, MOAO_FAULT=place + ":1"))
            self.assertEqual(p.returncode, 1, p.stderr)
            self.assertEqual(p.stderr.count("injected fault"), 1, p.stderr)

    def fail_run(self, *overrides, **kw):
        folder = tempfile.mkdtemp(prefix="moao-resident-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        case = moao_test.write_case(os.path.join(folder, "case.yaml"))
        return moao("run", case, "-o", os.path.join(folder, "out"), *overrides, check=False, timeout=60, **kw)

    def test_not_positive_definite(self):
        """The message of the panels: two sensors on one star without noise."""
        twins = ["sensors[0].noise_variance=1e-30", "sensors[1].noise_variance=1e-30", "sensors[1].direction=[40, 10]"]
        panels = self.fail_run(*twins)
        several = [self.fail_run(*twins, "compute.panel=30", ranks=n, env=RESIDENT) for n in (1, 2, 3)]
        for p in [panels] + several:
            self.assertEqual(p.returncode, 1, p.stderr)
            self.assertIn("Cmm is not positive definite", p.stderr)
            self.assertIn("sensor 1", p.stderr)
        minors = {re.search(r"minor \D*(\d+)", p.stderr).group(1) for p in several}
        self.assertEqual(len(minors), 1, minors)

    def test_without_a_gpu(self):
        """gpu: an error that says what is missing; auto: the CPU, saying so; cpu: nothing to say."""
        none = {"MOAO_GPU_PLUGIN": "/nowhere/libmoao_gpu.so"}
        p = self.fail_run("compute.backend=gpu", env=none)
        self.assertEqual(p.returncode, 2, p.stderr)
        for word in ("compute.backend", "/nowhere/libmoao_gpu.so", "compute.backend=cpu"):
            self.assertIn(word, p.stderr)
        for backend, said in (("auto", 1), ("cpu", 0)):
            p = self.fail_run("compute.backend=" + backend, "targets={list: [[0, 0]]}", env=none)
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertEqual((p.stdout + p.stderr).count("computing on the CPU"), said)
        self.assertIn("GPU      none", moao("--version", env=none).stdout)
        # a file that is no plugin; where there is no driver it is not even opened
        p = self.fail_run("compute.backend=gpu", env={"MOAO_GPU_PLUGIN": os.path.abspath(__file__)})
        self.assertEqual(p.returncode, 2, p.stderr)
        self.assertRegex(p.stderr, r"no libcuda.so.1|invalid ELF header")

    def test_check_plans_the_memory_of_a_gpu(self):
        """Full scale on a GPU of 141 GB: W of a dozen targets."""
        case = os.path.join(ROOT, "params", "mosaic.yaml")
        text = moao("check", case, "compute.backend=gpu", "compute.precision=double").stdout
        m = re.search(r"GPU +([\d.]+) GB of ([\d.]+) GB, with W of (\d+) targets", text)
        self.assertLess(float(m.group(1)), float(m.group(2)))
        self.assertIn(int(m.group(3)), range(10, 15))


if __name__ == "__main__":
    unittest.main(verbosity=2)
