"""The example programs do on the CPU what they say, built as their first lines say but from the build folder."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import MOAO, ROOT, environment  # noqa: E402

BUILD = os.path.dirname(MOAO)


def run(*command):
    """Exit code and output of a command."""
    p = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       universal_newlines=True, check=False)
    return p.returncode, p.stdout


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        for path in glob.glob(os.path.join(ROOT, "examples", "*.c")):
            program = os.path.join(cls.folder, os.path.basename(path)[:-2])
            code, text = run(os.environ.get("CC", "cc").split()[-1], "-O2", "-D_GNU_SOURCE",
                             "-I" + os.path.join(ROOT, "src"), "-I" + os.path.join(ROOT, "src/backend"),
                             "-I" + os.path.join(ROOT, "src/tlr"), "-I" + os.path.join(ROOT, "src/formats"), path, os.path.join(BUILD, "libmoao.a"), "-o", program, "-fopenmp", "-lopenblas", "-ldl",
                             "-lpthread", "-lm")
            if code != 0:
                raise RuntimeError(text)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_solve(self):
        """The linear system is solved."""
        code, text = run(os.path.join(self.folder, "solve"), "cpu")
        self.assertEqual(code, 0, text)

    def ranks(self, tolerance):
        """Ranks that compress prints, the share that is kept, the error."""
        code, text = run(os.path.join(self.folder, "compress"), "cpu", tolerance)
        self.assertEqual(code, 0, text)
        rows = [line.split() for line in text.splitlines()[:-1]]
        kept = float(re.search(r"(\d+) % of the matrix", text).group(1))
        error = float(re.search(r"error of the others (\S+)", text).group(1))
        return rows, kept, error

    def test_compress(self):
        """Every tile off the diagonal is within the tolerance; distant tiles and loose tolerances need fewer columns;
        the matrix is symmetric, and so are the ranks to one."""
        loose, kept, error = self.ranks("1e-3")
        tight, kept_tight, error_tight = self.ranks("1e-6")
        self.assertLess(error, 1.01e-3)
        self.assertLess(error_tight, 1.01e-6)
        self.assertLess(kept, kept_tight)
        self.assertLess(kept_tight, 60)
        size = len(loose)
        self.assertEqual(size, 8)
        for i in range(size):
            self.assertEqual(loose[i][i], "*")
            for j in range(size):
                if i != j:
                    self.assertLess(int(loose[i][j]), int(tight[i][j]))
                    self.assertLessEqual(abs(int(loose[i][j]) - int(loose[j][i])), 1)
        self.assertLess(int(loose[0][7]), int(loose[0][1]))

    def test_matern(self):
        """The likelihood of a random field converges to the exact one as the tolerance shrinks, in less memory; the
        fit finds the parameters that the data were drawn with, and kriging predicts what was held out."""
        ranks, picture = os.path.join(self.folder, "ranks.csv"), os.path.join(self.folder, "ranks.png")
        code, text = run(os.path.join(self.folder, "matern"), "--backend", "cpu", "--n", "1600", "--tile", "64",
                         "--tau", "1e-7", "--ranks", ranks)
        self.assertEqual(code, 0, text)
        rows = [[float(x) for x in row] for row in re.findall(
            r"tau (\S+), log-likelihood (\S+), \S+ s, (\S+) MB of (\S+), mean rank (\S+),", text)]
        exact = rows[-1][1]
        self.assertEqual(rows[-1][0], 0)
        errors = {tau: abs(value - exact) for tau, value, *_ in rows}
        self.assertLess(errors[1e-7], 1e-6 * abs(exact))
        self.assertGreater(errors[1e-3], 10 * errors[1e-5])
        for looser, tighter in zip(rows, rows[1:]):
            self.assertLess(looser[4], tighter[4])
        self.assertLess(rows[0][2], 0.8 * rows[0][3])
        rms, plain, inside = (float(x) for x in re.search(
            r"rms error (\S+) of a field of rms (\S+), (\d+) %", text).groups())
        self.assertLess(rms, 0.6 * plain)
        self.assertGreater(inside, 88)
        with open(ranks, encoding="ascii") as f:
            tiles = [[int(x) for x in line.split(",")] for line in f.readlines()[1:]]
        self.assertEqual(len(tiles), int(re.search(r"dense tiles \d+ of (\d+)", text).group(1)))
        self.assertAlmostEqual(sum(t[2] for t in tiles) / len(tiles), rows[-2][4], delta=0.06)
        code, said = run(sys.executable, os.path.join(ROOT, "scripts/plot_ranks.py"), ranks, picture)
        self.assertEqual(code, 0, said)
        self.assertGreater(os.path.getsize(picture), 5000)
        code, text = run(os.path.join(self.folder, "matern"), "--backend", "cpu", "--n", "900", "--tile", "64", "--nu",
                         "1.5", "--beta", "0.04", "--tau", "1e-5", "--fit")
        self.assertEqual(code, 0, text)
        variance, beta = (float(x) for x in re.search(r"fit: variance (\S+), beta (\S+),", text).groups())
        self.assertLess(abs(variance - 1), 0.3)
        self.assertLess(abs(beta - 0.04), 0.008)

    def test_hierarchical(self):
        """HSS and H2 matrices of a covariance are smaller than it, as accurate as asked, and the HSS matrix solves."""
        parts, picture = os.path.join(self.folder, "parts.csv"), os.path.join(self.folder, "parts.png")
        code, text = run(os.path.join(self.folder, "hierarchical"), "--backend", "cpu", "--n", "1500", "--length", "1",
                         "--tol", "1e-5", "--parts", parts)
        self.assertEqual(code, 0, text)
        share = [float(x) for x in re.findall(r"dense \((\S+) %\)", text)]
        rms = [float(x) for x in re.findall(r"rms (\S+),", text)]
        self.assertEqual(len(share), 2)
        for size, error in zip(share, rms):
            self.assertLess(size, 60)
            self.assertLess(error, 1e-5)
            self.assertGreater(error, 0)
        self.assertLess(float(re.search(r"what was multiplied (\S+)", text).group(1)), 1e-9)
        with open(parts, encoding="ascii") as f:
            area = [[int(x) for x in line.split(",")] for line in f if not line.startswith("#")]
        self.assertEqual(sum(p[1] * p[3] for p in area), 2 * 1500 ** 2)  # the blocks of each tile the matrix
        code, said = run(sys.executable, os.path.join(ROOT, "scripts/plot_formats.py"), parts, picture)
        self.assertEqual(code, 0, said)
        self.assertGreater(os.path.getsize(picture), 5000)


if __name__ == "__main__":
    unittest.main()
