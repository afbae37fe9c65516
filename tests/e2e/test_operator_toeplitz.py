"""compute.product: toeplitz on the CPU (src/residual/toeplitz.c): exposures by pairs of sensors in single precision, like ones by Fourier
transforms, change results by rounding only, with the residual phase and with what sensors see; the sampled target decides."""
import json
import os
import unittest

import numpy as np

from moao_case import ROOT, Run, moao
from test_resident import CASE, RESIDENT

GRID = ["compute.product=toeplitz", "compute.backend=cpu"]
# two pairs of like sensors, others on their own
SMALL = ["targets={list: [[0, 0], [-9, -30]]}", "schedule={tor_times: [0], exposure_times: [0, 10 min]}", "output={psf: none}",
         "sensors[0].rotation=0 deg", "sensors[4].rotation=-11 deg", "sensors[4].altitude=88 km"]


def told(run):
    with open(run.path("run.json")) as f:
        return json.load(f)["precision"]


def gap(a, b):
    """Largest difference of a Strehl ratio or ensquared energy of the exposures."""
    names = [n for n in a.table("TARGETS").names if n == "STREHL" or n.startswith("EE_") and not n.endswith("_LONG")]
    return max(np.abs(a.quantity(n) - b.quantity(n)).max() for n in names)


class Grid(unittest.TestCase):
    def test_close_to_dense(self):
        """With each residual; two ranks give the bits of one."""
        for residual in ("phase", "sensor"):
            case = SMALL + ["psf.residual=" + residual]
            dense, grid = Run(CASE, *case, "compute.backend=cpu"), Run(CASE, *case, *GRID)
            self.assertLess(gap(dense, grid), 1e-5, residual)
            self.assertGreater(gap(dense, grid), 1e-12, residual)
            self.assertEqual((told(grid)["exposures_mixed"], told(grid)["exposures_double"]), (2, 0))
            self.assertLess(told(grid)["largest_difference"], 1e-5)
            # of dense blocks in single precision
            self.assertTrue(1e-10 < told(grid)["entry_error_rms"] < told(grid)["entry_error_largest"] < 1e-5, told(grid))
        two = Run(CASE, *case, *GRID, ranks=2)
        self.assertEqual(two.quantity("STREHL").tobytes(), grid.quantity("STREHL").tobytes())

    def test_mixed(self):
        """With compute.precision: mixed, on a device: transforms of halves on the CPU are exact but for rounding, so results
        are about those of dense differences."""
        case = SMALL + ["compute.precision=mixed"]
        half, grid = (Run(CASE, *case, *more, env=RESIDENT) for more in ([], ["compute.product=toeplitz"]))
        dense = Run(CASE, *SMALL, "compute.backend=cpu")
        self.assertLess(gap(dense, grid), 1e-4)
        self.assertLess(gap(dense, grid), 2 * gap(dense, half) + 2e-6)
        self.assertGreater(gap(half, grid), 1e-10)
        self.assertEqual(told(grid)["exposures_mixed"], 2)
        self.assertNotIn("entry_error_rms", told(grid))

    def test_sampled_target_decides(self):
        """Nothing is as near to double precision as that."""
        grid = Run(CASE, *SMALL, *GRID, "compute.mixed_tolerance=1e-13")
        self.assertEqual((told(grid)["exposures_mixed"], told(grid)["exposures_double"]), (0, 2))

    def test_auto(self):
        """Where many targets share an exposure's covariances and a sample costs little; not for one target, whose sample is all
        of it, nor on several ranks, which share a dense factor."""
        case = [os.path.join(ROOT, "params", "elt-small.yaml"), "compute.factor=auto", "compute.backend=cpu"]
        many, one = "targets={grid: {nx: 6, ny: 6, width: 60}}", "targets={list: [[0, 0]]}"
        short = "schedule={tor_times: [0], exposure_times: [0]}"
        for words, ranks, chosen in (([many], "1", True), ([one, short], "1", False), ([many], "2", False)):
            text = moao("check", *case, *words, "--ranks", ranks).stdout
            self.assertEqual("toeplitz: covariances of other pairs of sensors" in text, chosen, (words, ranks))

    def test_nothing_said(self):
        """By default the faster method that is checked, told in one line each of what and how far, where that saves a minute;
        double precision where it does not or is asked for."""
        case = [os.path.join(ROOT, "params", "demo.yaml"), "compute.backend=cpu"]
        small = ["targets={grid: {nx: 8, ny: 4, width: 60, height: 30}}", "output={psf: none, budget: none}",
                 "schedule={tor_times: [0], exposure_times: [0, 10 min, 20 min]}", "psf.residual=sensor", "compute.threads=1",
                 "lgs_defaults.slope=points", "ngs_defaults.slope=points"]
        for more, chosen in (([], False), (["compute.auto_saves=0"], True), (["compute.auto_saves=0", "compute.precision=double"], False)):
            text = moao("check", *case, *small, *more, "--ranks", "1").stdout
            self.assertEqual("toeplitz: covariances of other pairs of sensors" in text, chosen, more)
        run = Run(*case[:1], *case[1:], *small, "compute.auto_saves=0")
        text = run.process.stdout + run.process.stderr
        self.assertEqual(text.count("toeplitz, checked on target 1 of sampled exposures; compute.precision=double takes longer"), 1)
        self.assertEqual(text.count("largest difference of a Strehl ratio or ensquared energy from double precision"), 1)
        self.assertEqual(told(run)["exposures_mixed"], 3)
        self.assertLess(told(run)["largest_difference"], 1e-4)


if __name__ == "__main__":
    unittest.main()
