"""The example programs do on the CPU what they say, built as their first lines say but from the build folder."""
import glob
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

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
                             "-I" + os.path.join(ROOT, "src/linalg/include"), path, os.path.join(BUILD, "libmoao.a"), "-o", program, "-fopenmp", "-lopenblas", "-ldl",
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

    def test_batched(self):
        """Singular values and solutions are right up to rounding; a wrong argument is named."""
        code, text = run(os.path.join(self.folder, "batched"), "cpu")
        self.assertEqual(code, 0, text)
        off, residual = (float(w) for w in re.search(r"off by (\S+), residual (\S+)\n", text).groups())
        self.assertLess(off, 1e-14)
        self.assertLess(residual, 1e-11)
        self.assertTrue(text.endswith("\nmoao_dpotrf_strided_batched: argument 5 (lda) is 3, at least 5 is expected\n"), text)

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
        """The likelihood of a random field converges to the exact one as the tolerance shrinks, in less memory and within the
        bound that is printed; kriging predicts what was held out."""
        ranks, picture = os.path.join(self.folder, "ranks.csv"), os.path.join(self.folder, "ranks.png")
        code, text = run(os.path.join(self.folder, "matern"), "--backend", "cpu", "--n", "1600", "--tile", "64",
                         "--tau", "1e-7", "--ranks", ranks)
        self.assertEqual(code, 0, text)
        rows = [[float(x) for x in row] for row in re.findall(
            r"tau (\S+), log-likelihood (\S+), \S+ s, (\S+) MB of (\S+), mean rank (\S+),.*log-determinant within (\S+)", text)]
        exact = rows[-1][1]
        self.assertEqual(rows[-1][0], 0)
        errors = {tau: abs(value - exact) for tau, value, *_ in rows}
        self.assertLess(errors[1e-7], 1e-6 * abs(exact))
        self.assertGreater(errors[1e-3], 10 * errors[1e-5])
        for tau, _, _, _, _, bound in rows[:-1]:
            self.assertLess(errors[tau], bound)
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

    def matern(self, *options):
        code, text = run(os.path.join(self.folder, "matern"), "--backend", "cpu", "--tile", "64", *options)
        return text if code == 0 else self.fail(text)

    def fitted(self, *options):
        """Estimates of variance, range and smoothness, and their standard errors."""
        found = re.search(r"fit: variance (\S+) \+- (\S+), beta (\S+) \+- (\S+), nu (\S+) \+- (\S+), log-likelihood (\S+),",
                          self.matern("--n", "500", "--nu", "1.5", "--beta", "0.06", "--tau", "1e-4", "--fit", *options))
        numbers = [float(x) for x in found.groups()]
        return numbers[0:6:2], numbers[1:6:2], numbers[6]

    def test_matern_fit(self):
        """The fit finds the parameters that the data were drawn with, to some of its standard errors, and what the exact fit
        finds, to a small part of them. Where the smoothness is known, range and variance are better known."""
        found, error, value = self.fitted()
        for x, e, true in zip(found, error, (1, 0.06, 1.5)):
            self.assertLess(abs(x - true), 3 * e)
            self.assertLess(e, 0.6 * true)
        exact, _, best = self.fitted("--exact")
        for x, e, other in zip(found, error, exact):
            self.assertLess(abs(x - other), 0.3 * e)
        self.assertLess(abs(value - best), 0.02)
        found, known, _ = self.fitted("--known-nu")
        self.assertEqual((found[2], known[2]), (1.5, 0))
        self.assertLess(known[1], 0.7 * error[1])
        for x, e, true in zip(found, known, (1, 0.06)):
            self.assertLess(abs(x - true), 3 * e)

    @staticmethod
    def correlation(x, nu):
        """2^(1-nu)/Gamma(nu) x^nu K_nu(x), by Gauss and Legendre's rule on K_nu(x) = int_0^inf exp(-x cosh t) cosh(nu t) dt."""
        node, weight = np.polynomial.legendre.leggauss(400)
        t, w = 6 * (node + 1), 6 * weight  # 0 .. 12; cosh 12 is 8e4
        out, near = np.ones_like(x), x > 1e-3
        v = x[near]
        k = sum(wi * np.exp(-v * math.cosh(ti)) * math.cosh(nu * ti) for ti, wi in zip(t, w))
        out[near] = 2 * (v / 2) ** nu / math.gamma(nu) * k
        return out

    def test_matern_predictions(self):
        """Kriging after a fit predicts what an exact Gaussian process with the fitted parameters does, computed with other
        means; so are the rms error that is printed and the deviations."""
        data, file = os.path.join(self.folder, "field.txt"), os.path.join(self.folder, "predictions.txt")
        text = self.matern("--n", "300", "--nu", "1.2", "--beta", "0.08", "--tau", "1e-9", "--fit", "--write", data,
                           "--predictions", file)
        field, found = np.loadtxt(data), np.loadtxt(file)
        with open(file, encoding="ascii") as f:
            variance, beta, nu, nugget = (float(x) for x in re.match(
                r"# variance (\S+), beta (\S+), nu (\S+), nugget (\S+)\n", f.readline()).groups())
        self.assertAlmostEqual(nu, float(re.search(r"nu (\S+) \+-", text).group(1)), places=4)
        known, held = field[:-100], field[-100:]
        self.assertTrue(np.array_equal(found[:, :3], held))

        def covariance(a, b):
            return variance * self.correlation(np.hypot(*(a[:, None, i] - b[None, :, i] for i in range(2))) / beta, nu)

        c = covariance(known, known) + nugget * np.eye(len(known))
        across = covariance(held, known)
        mean = across @ np.linalg.solve(c, known[:, 2])
        deviation = np.sqrt(variance + nugget - np.sum(across * np.linalg.solve(c, across.T).T, axis=1))
        self.assertLess(np.max(np.abs(found[:, 3] - mean)), 1e-5)
        self.assertLess(np.max(np.abs(found[:, 4] - deviation)), 1e-5)
        rms = math.sqrt(np.mean((mean - held[:, 2]) ** 2))
        self.assertAlmostEqual(float(re.search(r"rms error (\S+) of", text).group(1)), rms, places=4)

    def test_matern_data(self):
        """Data that were written and read again give the same lines; a wrong line is named. Correlations by a table are those
        in closed form."""
        data = os.path.join(self.folder, "data.txt")
        quick = ["--n", "300", "--tau", "1e-3"]
        drawn, read = (re.sub(r"\S+ s,", "", self.matern(*quick, *more)) for more in (["--write", data], ["--data", data]))
        self.assertEqual(drawn, read)
        tabulated = self.matern(*quick, "--data", data, "--nu", "0.50001")
        for a, b in zip(*(re.findall(r"log-likelihood (\S+),", t) for t in (drawn, tabulated))):
            self.assertLess(abs(float(a) - float(b)), 1e-2)
            self.assertNotEqual(a, b)
        with open(data, "a", encoding="ascii") as f:
            f.write("# a remark\n\n0.5 0.5\n")
        code, text = run(os.path.join(self.folder, "matern"), "--backend", "cpu", "--data", data)
        self.assertEqual((code, "data.txt:403: not three numbers" in text), (2, True), text)

    def test_hierarchical(self):
        """HSS and H2 matrices of a covariance are smaller than it, as accurate as asked, and the HSS matrix solves."""
        parts, picture = os.path.join(self.folder, "parts.csv"), os.path.join(self.folder, "parts.png")
        code, text = run(os.path.join(self.folder, "hierarchical"), "--backend", "cpu", "--n", "1500", "--length", "1",
                         "--tol", "1e-5", "--parts", parts, "--save", os.path.join(self.folder, "h.hss"))
        self.assertEqual(code, 0, text)
        share = [float(x) for x in re.findall(r"dense \((\S+) %\)", text)]
        rms = [float(x) for x in re.findall(r"rms (\S+),", text)]
        self.assertEqual(len(share), 2)
        for size, error in zip(share, rms):
            self.assertLess(size, 60)
            self.assertLess(error, 1e-5)
            self.assertGreater(error, 0)
        self.assertLess(float(re.search(r"what was multiplied (\S+)", text).group(1)), 1e-9)
        self.assertIn("the same solutions", text)
        with open(parts, encoding="ascii") as f:
            area = [[int(x) for x in line.split(",")] for line in f if not line.startswith("#")]
        self.assertEqual(sum(p[1] * p[3] for p in area), 2 * 1500 ** 2)  # the blocks of each tile the matrix
        code, said = run(sys.executable, os.path.join(ROOT, "scripts/plot_formats.py"), parts, picture)
        self.assertEqual(code, 0, said)
        self.assertGreater(os.path.getsize(picture), 5000)


if __name__ == "__main__":
    unittest.main()
