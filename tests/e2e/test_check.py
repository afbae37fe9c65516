"""`moao check`: what it promises is what a run does."""
import json
import os
import re
import unittest

from moao_case import GOLDEN, ROOT, Run, moao

CASES = [([os.path.join(GOLDEN, "b.yaml")], 1),
         ([os.path.join(ROOT, "params", "demo.yaml"), "schedule={tor_times: [0], exposure_times: [0]}"], 2),
         ([os.path.join(ROOT, "params", "elt-small.yaml"), "schedule={tor_times: [0], exposure_times: [0]}",
           "targets={list: [[0, 0], [30, 40]]}"], 2)]


class Check(unittest.TestCase):
    def test_memory_is_within_ten_percent_of_the_peak(self):
        for case, ranks in CASES:
            with self.subTest(case):
                text = moao("check", *case, ranks=ranks).stdout
                told = 1e9 * float(re.search(r"memory +([0-9.]+) GB", text).group(1))
                with open(Run(*case, ranks=ranks).path("run.json")) as f:
                    peak = json.load(f)["memory"]["peak_rank_bytes"]
                self.assertLess(abs(told / peak - 1), 0.1, f"{told:.4g} told, {peak:.4g} used")

    def test_it_tells_what_a_user_needs_before_submitting(self):
        text = moao("check", os.path.join(ROOT, "params", "demo.yaml"), "--ranks", "8").stdout
        for word in ("measurements", "actuators", "PSF", "memory", "output", "work", "expected time", "sbatch --ntasks=8"):
            self.assertIn(word, text)

    def test_every_shipped_file_is_valid(self):
        for name in sorted(os.listdir(os.path.join(ROOT, "params"))):
            if name.endswith(".yaml") and not name.startswith("night"):
                with self.subTest(name):
                    moao("check", os.path.join(ROOT, "params", name), "--ranks", "1000", "--memory", "64")

    def test_full_scale_is_the_published_one(self):
        text = moao("check", os.path.join(ROOT, "params", "mosaic.yaml"), "--ranks", "1024", "--memory", "64").stdout
        m = int(re.search(r"measurements +(\d+) in all", text).group(1))
        self.assertLess(abs(m / 102400 - 1), 0.01)
        self.assertRegex(text, r"5336 actuators")
        self.assertRegex(text, r"targets +64 x 64")

    def test_too_little_memory_is_said_before_the_run(self):
        p = moao("check", os.path.join(ROOT, "params", "mosaic.yaml"), "--memory", "1", check=False)
        self.assertEqual(p.returncode, 2)
        self.assertIn("use more ranks", p.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
