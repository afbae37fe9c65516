"""The notebooks of examples/ run from the first cell to the last, and print the numbers that they show."""
# seconds: 50
# timeout: 900
import importlib.util
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "scripts"))
import run_notebooks  # noqa: E402

LACKS = [m for m in ("nbclient", "ipykernel") if importlib.util.find_spec(m) is None]


class Notebooks(unittest.TestCase):
    def test_shown(self):
        """Each has its outputs, no output is an error, and no path of the machine that ran it is in it."""
        for name in run_notebooks.NAMES:
            with open(os.path.join(ROOT, "examples", name + ".ipynb"), encoding="utf-8") as f:
                text = f.read()
            cells = [c for c in json.loads(text)["cells"] if c["cell_type"] == "code"]
            self.assertGreater(len(cells), 4)
            self.assertGreaterEqual(sum(bool(c["outputs"]) for c in cells), len(cells) - 1, name)
            for c in cells:
                self.assertIsNotNone(c["execution_count"])
                self.assertFalse([o for o in c["outputs"] if o["output_type"] == "error" or o.get("name") == "stderr"], name)
            self.assertNotIn(ROOT, text)

    def test_ten(self):
        """From a catalogue to a cube of PSFs: ten cells without a shell, and the cube holds most of the light."""
        with open(os.path.join(ROOT, "examples", "from-catalogue.ipynb"), encoding="utf-8") as f:
            cells = [c for c in json.load(f)["cells"] if c["cell_type"] == "code"]
        self.assertEqual(len(cells), 10)
        self.assertFalse([line for c in cells for line in c["source"] if line.lstrip().startswith(("!", "%"))])
        self.assertRegex("".join(cells[-1]["outputs"][0]["text"]), r"cube of \(3, \d+, \d+\) with (0\.9|1\.0)")

    def check(self, name):
        if LACKS:
            self.skipTest("not installed: python3-nbclient, python3-ipykernel")
        p = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "run_notebooks.py"), "--check", name], env=environment(MOAO=MOAO),
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        self.assertEqual(p.returncode, 0, p.stdout[-3000:])

    def test_first_map(self):
        self.check("first-map")

    def test_my_instrument(self):
        self.check("my-instrument")

    def test_my_stars(self):
        self.check("my-stars")

    def test_error_budget(self):
        self.check("error-budget")

    def test_from_catalogue(self):
        self.check("from-catalogue")

    def test_psfs_elsewhere(self):
        self.check("psfs-elsewhere")

    def test_a_night(self):
        self.check("a-night")

    def test_statistics(self):
        self.check("statistics")


if __name__ == "__main__":
    unittest.main()
