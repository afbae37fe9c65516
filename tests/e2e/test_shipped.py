"""The shipped parameter files: the synthetic night is what its script makes, and each file tells its source."""
import glob
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment  # noqa: E402


class Shipped(unittest.TestCase):
    def test_night_is_what_its_script_makes(self):
        made = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "make_night.py")], stdout=subprocess.PIPE,
                              check=True).stdout
        with open(os.path.join(ROOT, "params", "night.yaml"), "rb") as f:
            self.assertEqual(f.read(), made)

    def test_night_has_forty_layers_and_changes(self):
        with open(os.path.join(ROOT, "params", "night.yaml"), encoding="utf-8") as f:
            text = f.read()
        strengths = [[float(x) for x in line.split("[")[1].rstrip("]\n").split(",")]
                     for line in text.splitlines() if "strength:" in line]
        self.assertEqual(len(strengths), 48)
        self.assertGreaterEqual(min(sum(x > 0 for x in s) for s in strengths), 40)
        r0 = [sum(s) ** -0.6 for s in strengths]
        self.assertGreater(max(r0) / min(r0), 1.3)
        self.assertTrue(0.05 < min(r0) and max(r0) < 0.35, r0)

    def test_each_file_starts_with_its_source(self):
        files = sorted(glob.glob(os.path.join(ROOT, "params", "*.yaml")))
        self.assertGreaterEqual(len(files), 5)
        for name in files:
            with open(name, encoding="utf-8") as f:
                self.assertTrue(f.readline().startswith("# "), name)

    def test_reference_page_is_what_the_program_prints(self):
        made = subprocess.run([MOAO, "params", "--markdown"], stdout=subprocess.PIPE, env=environment(), check=True)
        with open(os.path.join(ROOT, "docs", "parameters.md"), "rb") as f:
            self.assertEqual(f.read(), made.stdout)


if __name__ == "__main__":
    unittest.main()
