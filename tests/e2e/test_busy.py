"""scripts/gpu-busy.py: shares, time lines and gaps of a record whose answers are known."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

from moao_case import ROOT

MS = 1000000


def record(path):
    """A factor of 10 ms, then two targets of one exposure: kernels of 4 and 5 ms that overlap by 2 (7 ms), a pause of 1 ms,
    a copy of 2 ms; 20 ms of wall time in all, results kept on disk included. Times in ms from the first mark."""
    rows = [("phase", 0, 10, 0, 0, "reconstructor: Cholesky"), ("kernel", 0, 10, 0, 7, "potrf_tiles_kernel")]
    for begin in (10, 20):
        rows += [("phase", begin, begin + 7, begin, 0, "exposure: next target"),
                 ("phase", begin + 7, begin + 9, begin + 7, 0, "exposure: Y"),
                 ("phase", begin + 9, begin + 10, begin + 9, 0, "output: results of an exposure"),
                 ("kernel", begin, begin + 4, begin, 7, "_ZN3one9sum_edgesIdEEvPT_"),
                 ("kernel", begin + 2, begin + 7, begin + 1, 8, "sm90_xmma_gemm_f64"),
                 ("memcpy", begin + 8, begin + 10, begin + 7, 7, "to host"),
                 ("host", begin + 6, begin + 9, begin + 6, 0, "cudaStreamSynchronize")]
    rows.append(("phase", 30, 31, 30, 0, "maps"))
    with open(path, "w", encoding="utf-8") as f:
        f.write("kind,start,end,asked,stream,name\n")
        for kind, start, end, asked, stream, name in reversed(rows):
            f.write('%s,%d,%d,%d,%d,"%s"\n' % (kind, 10**15 + start * MS, 10**15 + end * MS, 10**15 + asked * MS, stream, name))


class Busy(unittest.TestCase):
    def show(self, *more):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "busy.csv")
            record(path)
            return subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "gpu-busy.py"), path, *more],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)

    def test_share_is_the_union_of_kernels_over_the_wall_time(self):
        text = self.show().stdout
        row = re.search(r"^exposure +1 +([\d.]+) +([\d.]+) +([\d.]+) % +([\d.]+) %$", text, re.M)
        self.assertEqual(row.groups(), ("0.020", "0.014", "70.00", "90.00"))
        self.assertRegex(text, r"(?m)^reconstructor +1 +0\.010 +0\.010 +100\.00 %")

    def test_phases_and_gaps(self):
        text = self.show("--target", "1").stdout
        self.assertRegex(text, r"(?m)^exposure: next target +covariances +2 +8\.00 ")
        self.assertRegex(text, r"(?m)^exposure: Y +copies +2 +4\.00 ")
        self.assertRegex(text, r"2 gaps, 2\.00 ms in all")
        self.assertRegex(text, r"(?m)^ +1\.000 +0\.0[12]70 +exposure: Y; cudaStreamSynchronize \(1\.000 ms\)")
        self.assertRegex(text, r"target 1 of 2: 10\.0 ms")

    def test_a_share_that_is_not_reached_fails(self):
        self.assertEqual(self.show("--least", "0.69").returncode, 0)
        low = self.show("--least", "0.71")
        self.assertEqual(low.returncode, 1)
        self.assertIn("less than 71.0 %", low.stderr)


if __name__ == "__main__":
    unittest.main()
