"""Exposures whose turbulence is a multiple of that of the exposure before: against the same computed by themselves, with less
work, on ranks, and when a run goes on."""
# seconds: 25
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import MOAO, QUICK_CASE, Run, environment, maps, parts, write_case  # noqa: E402

# Exposures 1 to 3 have the same layers and wind, 4 another wind, 5 that of 4. WIND is all of what makes them differ.
LAYERS = "layers: {altitude: [0, 4000, 10000], fraction: [0.6, 0.3, 0.1], wind_speed: [%s, 12, 25], wind_direction: [0, 30, 80]}"
CASE = (QUICK_CASE[:QUICK_CASE.index("atmosphere:")] + """
loop: {delay: 3 ms}
atmosphere:
  profiles:
    - {time: 0, r0: 15 cm, LAYERS1}
    - {time: 3 min, r0: 12 cm, LAYERS2}
    - {time: 6 min, r0: 17 cm, LAYERS3}
    - {time: 9 min, r0: 17 cm, LAYERS4}
    - {time: 12 min, r0: 14 cm, LAYERS5}
schedule: {tor_times: [0], exposure_times: [0, 3 min, 6 min, 9 min, 12 min]}
""" + QUICK_CASE[QUICK_CASE.index("psf:"):])
SAME = ["6", "6", "6", "7", "7"]
# the next number each, so that no exposure is a multiple: results differ by rounding alone
APART = ["6", "6.000000000000001", "6", "7", "7.000000000000001"]


def case_of(winds):
    text = CASE
    for i, wind in enumerate(winds):
        text = text.replace("LAYERS%d" % (i + 1), LAYERS % wind)
    return text


class Multiples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="moao-multiples-")
        cls.same, cls.apart = (write_case(os.path.join(cls.folder, name + ".yaml"), case_of(winds))
                               for name, winds in (("same", SAME), ("apart", APART)))
        cls.direct, cls.direct_work = cls.run_it(cls.apart, "direct")
        cls.whole, cls.work = cls.run_it(cls.same, "whole")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    @classmethod
    def run_it(cls, case, name, *words, ranks=1, env=None, expect=0):
        """Maps, and operations of exposures."""
        out = os.path.join(cls.folder, name)
        run = Run(case, "compute.backend=cpu", "compute.verify=full", *words, "-o", out, ranks=ranks, env=env, cwd=cls.folder)
        if run.wait(120) != expect:
            raise AssertionError(run.text)
        if expect != 0:
            return None
        with open(os.path.join(out, "run.json"), encoding="utf-8") as f:
            flops = {s["stage"]: s["flop"] for s in json.load(f)["stages"]}
        return maps(out), flops["exposure"]

    def close(self, found, expected, rtol):
        self.assertEqual(list(found), list(expected))
        compared = 0
        for name, v in expected.items():
            if v.dtype.kind == "f":
                np.testing.assert_allclose(found[name], v, rtol=rtol, atol=rtol * np.nanmax(np.abs(v), initial=0), err_msg=name)
                compared += 1
        self.assertGreater(compared, 10)

    def test_equal(self):
        """Strehl ratios, energies and all terms of the budget, with noise that does not follow r0."""
        self.close(self.whole, self.direct, 1e-11)
        strehl = next(v for n, v in self.whole.items() if n.endswith(" STREHL"))
        self.assertGreater(np.ptp(strehl[:3].mean(axis=tuple(range(1, strehl.ndim)))), 0.01)  # they are not the same

    def forecast(self, case):
        """Operations that `moao check` expects."""
        said = subprocess.run([MOAO, "check", case, "compute.backend=cpu", "--json"], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
        return json.loads(said.stdout)["here"]["flop"]

    def test_less_work(self):
        """Three of five residuals are not computed, and `moao check` knows."""
        self.assertLess(self.work, 0.5 * self.direct_work)
        spared = self.forecast(self.apart) - self.forecast(self.same)
        self.assertAlmostEqual(spared / (self.direct_work - self.work), 1, delta=0.1)

    def test_ranks(self):
        self.close(self.run_it(self.same, "ranks", ranks=3)[0], self.whole, 1e-10)
        one = ["targets={list: [[5, 8]]}"]  # the rows of one target on two ranks
        self.close(self.run_it(self.same, "rows", *one, ranks=2)[0], self.run_it(self.apart, "rows-apart", *one)[0], 1e-10)

    def test_ltao(self):
        """A mirror at the pupil that all targets share."""
        words = ["mode=ltao", "targets={list: [[0, 0], [8, 3]]}", "optimise.list=[[0, 0]]"]
        self.close(self.run_it(self.same, "shared", *words)[0], self.run_it(self.apart, "shared-apart", *words)[0], 1e-11)

    def test_resumed(self):
        """A run that went on has the same bits, whether the exposures before are there or not."""
        for fail in (1, 2, 3):
            name = "part-%d" % fail
            self.run_it(self.same, name, "compute.targets_per_chunk=8", env={"MOAO_FAULT": "psf:0:fail:%d" % (8 * fail + 3)},
                        expect=1)
            self.assertEqual(len(parts(os.path.join(self.folder, name))), fail)
            again, _ = self.run_it(self.same, name, "compute.targets_per_chunk=8", "--resume")
            for column, v in self.whole.items():
                if "PARAMETERS" not in column:  # the folder's name
                    np.testing.assert_array_equal(again[column], v, column)


if __name__ == "__main__":
    unittest.main()
