"""bench/night_time.py: a night's time from the rates of a short run, added up by hand."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from moao_case import ROOT
from moao_test import MOAO

# 2 reconstructors of 10 s; a target's W 3 s; a PSF (5.5 + 0.25 + 0.25) / (3 targets x 4 exposures) = 0.5 s
STAGES = {"setup": 100, "matcov": 4, "factor": 16, "solve": 18, "exposure": 5.5, "psf": 0.25, "output": 0.25}


def night(*words):
    """What night_time.py prints of a short run with these stages: 3 targets, 4 exposures, 2 reconstructors."""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "run.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"stages": [{"stage": k, "time_s": v} for k, v in STAGES.items()]}, f)
        return subprocess.run([sys.executable, os.path.join(ROOT, "bench", "night_time.py"), os.path.join(ROOT, "params", "mosaic.yaml"), path,
                               "--targets", "3", "--exposures", "4", "--tors", "2", "--moao", MOAO, *words],
                              stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout


class Night(unittest.TestCase):
    def test_full_scale(self):
        text = night("--gpus", "1", "64")
        self.assertIn("8 reconstructors, 48 exposures, 4096 targets: 196608 PSFs", text)
        self.assertIn("reconstructor 10.00 s, W of a target 3.00 s, PSF 0.500 s", text)
        # 100 + 80 + 4096 (24 + 24) = 196788 s; 100 + 80 + 64 x 48 = 3252 s
        self.assertIn("| 1 | 4096 | 2.3 days | 1 s |", text)
        self.assertIn("| 64 | 64 | 54 min | 0.0165 s |", text)

    def test_nodes(self):
        """Of 2 nodes on 2 GPUs: W 18 x 2/(2 x 2) = 9 s, a residual 5.5 x 2/(2 x 4) = 1.375 s, images 0.5 x 2/(3 x 4) s."""
        text = night("--nodes", "2", "--run-gpus", "2", "--tolerance", "3e-3", "--gpus", "4")
        nodes, residuals = map(int, re.findall(r"^(\d+) nodes, (\d+) residuals; reconstructor 10.00 s, W of a node 9.00 s, its residual 1.375 s, "
                                               r"images of a target 0.0833 s", text, re.M)[0])
        self.assertTrue(50 < nodes < 1000 and 16 * nodes < residuals < 48 * nodes)
        seconds = 100 + 80 + -(-nodes // 4) * 8 * 9 + -(-residuals // 4) * 1.375 + 1024 * 48 / 12
        shown, = map(float, re.findall(r"^\| 4 \| 1024 \| [^|]* \| ([0-9.]+) s \|", text, re.M))
        self.assertAlmostEqual(shown, seconds / 196608, delta=0.01 * shown)


if __name__ == "__main__":
    unittest.main()
