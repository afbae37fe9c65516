"""The operator whose factor is compressed by tiles (src/operator/tlr.c), in the executor of devices with the CPU backend:
the same maps as the dense one, because W is refined until its residual is small."""
import os
import re
import sys
import unittest

from moao_case import GOLDEN, ROOT, Run
from test_resident import CASE, RESIDENT
import test_resident

sys.path.insert(0, os.path.join(ROOT, "tests"))

TLR = dict(RESIDENT, MOAO_OPERATOR="tlr")
SAID = re.compile(r"factor compressed to (\S+) arcsec\^2 a tile: mean rank (\S+) of (\d+), (\S+) GB of the (\S+) of the triangle")


class Compressed(unittest.TestCase):
    assert_equal_runs = test_resident.Resident.assert_equal_runs

    def test_golden_case(self):
        """Every map to 1e-8, and tiles were compressed."""
        case = os.path.join(GOLDEN, "b.yaml")
        here = Run(case, env=TLR)
        self.assert_equal_runs(Run(case), here, 1e-8)
        said = SAID.search(here.process.stdout + here.process.stderr)
        self.assertIsNotNone(said)
        self.assertGreater(float(said.group(1)), 0)
        self.assertLess(float(said.group(2)), 0.8 * int(said.group(3)))

    def test_asymmetric_case(self):
        """Nothing alike: panels that leave a rest and several chunks on 2 ranks."""
        here = Run(CASE, "compute.panel=77", "compute.targets_per_chunk=3", ranks=2, env=TLR)
        self.assert_equal_runs(Run(CASE, ranks=2), here, 1e-8)


if __name__ == "__main__":
    unittest.main()
