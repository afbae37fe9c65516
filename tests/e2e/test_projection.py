"""D+ applied to covariances as a filter and H (src/tor/command.h) against the matrix D+ itself: in collective ranks and on
devices, with rows of a target on several ranks, with each residual; what a run keeps of it for those that resume it."""
import json
import os
import shutil
import signal
import sys
import tempfile
import unittest

import numpy as np

from moao_case import GOLDEN, ROOT, Run, relative
from test_resident import CASE, RESIDENT

sys.path.insert(0, os.path.join(ROOT, "tests"))
import moao_test  # noqa: E402

WAYS = ("filter", "raw")
SMALL = ["targets={list: [[0, 0], [11, -7]]}", "schedule={tor_times: [0], exposure_times: [0, 10 min]}", "compute.verify=full",
         "compute.threads=1"]
SENSOR = ["psf.residual=sensor"]


def run(way, *overrides, case=CASE, env=None, **kw):
    return Run(case, *overrides, env=dict(env or {}, MOAO_TEST_PROJECTION=way), **kw)


def told(r):
    with open(r.path("run.json")) as f:
        return json.load(f)


class Projection(unittest.TestCase):
    def assert_close(self, a, b, tolerance):
        """All that is told of targets: results and error budgets."""
        x, y = a.table("TARGETS"), b.table("TARGETS")
        self.assertEqual(x.names, y.names)
        for name in x.names:
            if x[name].dtype.kind == "f" and np.isfinite(x[name]).all():
                self.assertLessEqual(np.abs(x[name] - y[name]).max(), tolerance * max(np.abs(x[name]).max(), 1e-30), name)

    def test_golden_case(self):
        case = os.path.join(GOLDEN, "b.yaml")
        matrix = run("matrix", case=case)
        for way in WAYS:
            other = run(way, case=case)
            self.assert_close(matrix, other, 1e-12)
            self.assertNotEqual(matrix.quantity("STREHL").tobytes(), other.quantity("STREHL").tobytes())  # it was the other one

    def test_ranks_in_step(self):
        """Two targets on 1, 2 and 3 ranks: the last of them share the rows of each. (Aliasing is summed by ranks: 1e-11.)"""
        for residual in ([], SENSOR):
            matrix = run("matrix", *SMALL, *residual)
            for way in WAYS:
                for ranks in (1, 2, 3):
                    here = run(way, *SMALL, *residual, ranks=ranks)
                    self.assert_close(matrix, here, 1e-10)
                    check = told(here)["verify"]["largest_differences"]
                    self.assertTrue(all(x < 1e-12 for x in check.values()), check)

    def test_devices(self):
        """As exact, and bit for bit the same on 1 and 3 ranks."""
        matrix = run("matrix", *SMALL, *SENSOR, env=RESIDENT)
        for way in WAYS:
            one, three = (run(way, *SMALL, *SENSOR, "compute.panel=60", env=RESIDENT, ranks=n) for n in (1, 3))
            self.assert_close(matrix, one, 1e-11)
            self.assertEqual(one.quantity("STREHL").tobytes(), three.quantity("STREHL").tobytes())

    def test_formats(self):
        """Operators that have a projection of their own, or keep W in another way; a compressed factor."""
        for more in (["compute.precision=mixed"], ["compute.product=toeplitz"], ["compute.factor=tlr"]):
            matrix, raw = (run(way, *SMALL, *SENSOR, *more, env=RESIDENT) for way in ("matrix", "raw"))
            self.assert_close(matrix, raw, 1e-6)

    def test_matrices(self):
        """Those of output.matrices are of commands, whatever is kept."""
        options = ["targets={list: [[11, -7]]}", "schedule={tor_times: [0], exposure_times: [10 min]}",
                   "output.matrices=[Dplus,R,W,Cee,Cvv]"] + SENSOR
        matrix, raw = (run(way, *options) for way in ("matrix", "raw"))
        for file in os.listdir(matrix.path("matrices")):
            name = file[:-5]
            self.assertLessEqual(relative(raw.matrix(name), matrix.matrix(name)), 1e-12, name)

    def test_resume(self):
        """A run goes on as it began, one from before there were two ways with the matrix: bit for bit."""
        folder = tempfile.mkdtemp(prefix="moao-projection-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        case = moao_test.write_case(os.path.join(folder, "case.yaml"))
        for first, then in (("raw", "matrix"), ("matrix", "raw")):
            out = {n: os.path.join(folder, first + n) for n in ("whole", "stopped")}
            whole = moao_test.Run(case, "-o", out["whole"], env={"MOAO_TEST_PROJECTION": first}, cwd=folder)
            self.assertEqual(whole.wait(120), 0, whole.text)
            part = moao_test.Run(case, "-o", out["stopped"], env={"MOAO_TEST_PROJECTION": first}, cwd=folder)
            moao_test.wait_for_parts(part, out["stopped"], 3)
            part.process.send_signal(signal.SIGUSR1)
            self.assertEqual(part.wait(60), 3, part.text)
            again = moao_test.Run(case, "-o", out["stopped"], "--resume", env={"MOAO_TEST_PROJECTION": then}, cwd=folder)
            self.assertEqual(again.wait(120), 0, again.text)
            a, b = (moao_test.maps(out[n]) for n in ("whole", "stopped"))
            for key in a:
                self.assertEqual(a[key].tobytes(), b[key].tobytes(), key)

    def test_wide_influence_functions(self):
        """Those that reach too far, and a mirror that is hardly regularised, get the matrix whatever is asked for."""
        for more in (["dm.nssp=24", "dm.coupling=0.9"], ["dm.mu=1e-12"]):
            matrix, raw = (run(way, *SMALL, *SENSOR, *more) for way in ("matrix", "raw"))
            self.assertEqual(matrix.quantity("STREHL").tobytes(), raw.quantity("STREHL").tobytes(), more)


if __name__ == "__main__":
    unittest.main()
