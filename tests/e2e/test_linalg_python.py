"""moao.linalg: the library of linear algebra from Python, against numpy to the tolerance asked; what is refused; the page's example."""
import contextlib
import ctypes
import glob
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
from moao import MoaoError, gp, library, linalg  # noqa: E402

N, NUGGET, TAU = 1000, 0.01, 1e-5
BUILD = os.path.dirname(MOAO)


def setUpModule():
    flags = os.path.join(BUILD, "flags")
    if os.path.exists(flags):
        with open(flags, encoding="utf-8") as f:
            if "-fsanitize" in f.read():
                raise unittest.SkipTest("a library with sanitizers is not for this Python")


class Refusing(unittest.TestCase):
    def refused(self, pattern, call, *arguments, status=None, **named):
        """A MoaoError of one line that says this."""
        with self.assertRaisesRegex(MoaoError, pattern) as caught:
            call(*arguments, **named)
        self.assertNotIn("\n", str(caught.exception))
        if status:
            self.assertEqual(caught.exception.status, status)


class Matrices(Refusing):
    @classmethod
    def setUpClass(cls):
        rng = np.random.default_rng(3)
        cls.points = rng.uniform(0, 50, (N, 2))
        t = np.sqrt(3) / 8 * np.sqrt(((cls.points[:, None] - cls.points) ** 2).sum(2))
        cls.exact = 2 * (1 + t) * np.exp(-t) + NUGGET * np.eye(N)
        cls.x = rng.standard_normal((N, 3))
        cls.a = linalg.TileLowRank.from_points(cls.points, linalg.matern(8, 1.5, 2), TAU, NUGGET)

    def test_products(self):
        """What is dropped of all tiles is at most tau times the root of their number; fewer bytes; scipy takes the matrix."""
        tiles = 2 * self.a.statistics()["tiles"]
        bound = TAU * np.sqrt(tiles)
        dense = linalg.TileLowRank.from_dense(self.exact, TAU, points=self.points)
        for a in (self.a, dense):
            error = a @ np.eye(N) - self.exact
            self.assertLess(np.linalg.norm(error), bound)
            self.assertGreater(np.linalg.norm(error), 1e-3 * TAU)  # it is compressed
            self.assertLess(a.bytes, 0.95 * a.bytes_dense)
        v = self.x[:, 0]
        self.assertEqual((self.a @ v).shape, (N,))
        self.assertEqual(self.a.matvec(v[:, None]).shape, (N, 1))
        self.assertEqual((self.a @ self.x[:, :0]).shape, (N, 0))
        np.testing.assert_allclose(self.a @ v, self.exact @ v, atol=bound * np.linalg.norm(v))
        coarse = linalg.TileLowRank.from_dense(self.exact, 1e-2, points=self.points)
        self.assertLess(coarse.bytes, self.a.bytes)
        ranks = self.a.ranks()
        self.assertEqual(ranks.max(), self.a.statistics()["rank_max"])
        self.assertEqual(np.count_nonzero(ranks > 0), self.a.statistics()["lowrank"])

    def test_factor(self):
        f = self.a.cholesky()
        least = np.linalg.eigvalsh(self.exact)[0]
        b = self.exact @ self.x
        self.assertLess(np.abs(f.solve(b) - self.x).max(), 100 * TAU / least * np.abs(self.x).max())
        self.assertEqual(f.solve(b[:, 0]).shape, (N,))
        self.assertEqual(f.solve(b[:, :0]).shape, (N, 0))
        self.assertAlmostEqual(f.logdet(), np.linalg.slogdet(self.exact)[1], delta=N * TAU / least)
        true = 1 / np.linalg.cond(self.exact, 1)
        self.assertTrue(true / 9 < f.rcond() < true * 9, (true, f.rcond()))

    def test_scipy(self):
        try:
            from scipy.sparse.linalg import cg
            from scipy.special import gamma, kv
        except ImportError:
            self.skipTest("no scipy")
        b = self.exact @ self.x[:, 0]
        steps = []
        found, code = cg(self.a, b, M=self.a.cholesky().inverse(), callback=steps.append, atol=0)
        self.assertEqual(code, 0)
        self.assertLess(len(steps), 5)
        self.assertLess(np.linalg.norm(self.exact @ found - b), 1e-4 * np.linalg.norm(b))
        np.testing.assert_array_equal((self.a.operator() * 2).matvec(self.x[:, 0]), 2 * (self.a @ self.x[:, 0]))
        t = np.array([0.0, 0.5, 3.0]) * np.sqrt(2 * 0.8) / 2
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(linalg.matern(2, 0.8)(np.array([0.0, 0.5, 3.0]))[1:],
                                       (2 ** 0.2 / gamma(0.8) * t ** 0.8 * kv(0.8, t))[1:], rtol=1e-12)
        self.assertEqual(linalg.matern(2, 0.8, 3)(np.zeros(1))[0], 3)
        np.testing.assert_allclose(linalg.matern(2, 2.5)(t), linalg.matern(2, 2.5 + 1e-9)(t), rtol=1e-6)

    def test_hss(self):
        at = np.sort(np.random.default_rng(5).uniform(0, 1, N))[::-1].copy()
        exact = np.exp(-np.abs(at[:, None] - at))
        h = linalg.Hss(at, "exponential", 1.0, 1e-9)
        self.refused("call factor", h.solve, at)
        np.testing.assert_allclose(h @ self.x, exact @ self.x, atol=1e-9 * N)
        h.factor(0.1)
        np.testing.assert_allclose(h.solve(exact @ self.x + 0.1 * self.x), self.x, atol=1e-7 * N)
        self.assertEqual(h.solve(at).shape, (N,))
        self.assertGreater(h.bytes, 0)
        self.assertTrue(0 < h.rcond < 1)
        g = linalg.Hss(self.points[:300], "gaussian", 20.0, 1e-8)
        square = ((self.points[:300, None] - self.points[:300]) ** 2).sum(2)
        np.testing.assert_allclose(g @ self.x[:300], np.exp(-square / 800) @ self.x[:300], atol=1e-8 * 300)

    def test_h2(self):
        """Products of a field's covariance in a plane, in fewer bytes than the matrix has."""
        at = np.random.default_rng(9).uniform(0, 10, (3000, 2))
        h, x = linalg.H2(at, "exponential", 30.0, 1e-5), np.random.default_rng(1).standard_normal((3000, 2))
        exact = np.exp(-np.sqrt(((at[:, None] - at) ** 2).sum(2)) / 30)
        np.testing.assert_allclose(h @ x, exact @ x, atol=1e-5 * 3000)
        self.assertLess(h.bytes, 0.5 * exact.nbytes)
        self.assertFalse(hasattr(h, "solve"))

    def test_hss_from_dense(self):
        at = np.random.default_rng(5).uniform(0, 1, N)
        exact = np.exp(-np.abs(at[:, None] - at))
        h = linalg.Hss.from_dense(exact, 1e-9, at).factor(0.1)
        np.testing.assert_allclose(h @ self.x, exact @ self.x, atol=1e-9 * N)
        np.testing.assert_allclose(h.solve(exact @ self.x + 0.1 * self.x), self.x, atol=1e-7 * N)
        self.assertLess(h.rank_max, 50)
        self.refused("not symmetric", linalg.Hss.from_dense, np.triu(exact))
        self.refused("points has 3 rows", linalg.Hss.from_dense, exact, points=at[:3])

    def test_files(self):
        """A matrix and its factor come back bit for bit, and go on from there; what is damaged is refused."""
        f = self.a.cholesky()
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "a.tlr")
            self.a.save(path)
            again = linalg.load(path)
            self.assertIsInstance(again, linalg.TileLowRank)
            np.testing.assert_array_equal(again @ self.x, self.a @ self.x)
            np.testing.assert_array_equal(again.cholesky().solve(self.x), f.solve(self.x))
            f.save(path)
            again = linalg.load(path)
            self.assertIsInstance(again, linalg.TileLowRankFactor)
            np.testing.assert_array_equal(again.solve(self.x), f.solve(self.x))
            self.assertEqual((again.n, again.bytes, again.logdet()), (N, f.bytes, f.logdet()))
            with open(path, "r+b") as file:
                file.seek(3000)
                file.write(b"?")
            self.refused(re.escape(path), linalg.load, path, status="INPUT")
            self.refused("No such file", linalg.load, os.path.join(d, "none"), status="IO")
            self.refused("cannot be written", f.save, os.path.join(d, "none", "a"), status="IO")
        self.assertEqual(os.path.exists(path), False)

    def test_hierarchical_files(self):
        """HSS and H2 matrices come back bit for bit: as the class they were, with the factor or without one."""
        at = np.random.default_rng(5).uniform(0, 1, (300, 2))
        x = self.x[:300]
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, "h")
            for h in (linalg.Hss(at[:, 0], length=0.3), linalg.H2(at, "gaussian", 0.5, 1e-6)):
                h.save(path)
                again = linalg.load(path)
                self.assertIs(type(again), type(h))
                np.testing.assert_array_equal(again @ x, h @ x)
                self.assertEqual((again.n, again.bytes, again.rank_max), (300, h.bytes, h.rank_max))
            h = linalg.Hss(at[:, 0], length=0.3)
            h.save(path)
            self.refused("needs a factor", linalg.load(path).solve, x)
            h.factor(0.1).save(path)
            again = linalg.load(path)
            np.testing.assert_array_equal(again.solve(x), h.solve(x))
            self.assertEqual(again.rcond, h.rcond)
            with open(path, "r+b") as file:
                file.truncate(5000)
            self.refused(re.escape(path), linalg.load, path, status="INPUT")

    def test_operators(self):
        """Products and solves as scipy's operators, of points in space as well."""
        at = np.random.default_rng(1).uniform(0, 5, (400, 3))
        a = linalg.TileLowRank.from_points(at, linalg.matern(1.0), 1e-7, 0.1)
        t = np.sqrt(3) * np.sqrt(((at[:, None] - at) ** 2).sum(2))
        exact = (1 + t) * np.exp(-t) + 0.1 * np.eye(400)
        np.testing.assert_allclose(a @ self.x[:400], exact @ self.x[:400], atol=1e-4)
        h = linalg.Hss(at[:, 0], "exponential", 1.0, 1e-9).factor(0.1)
        try:
            import scipy.sparse.linalg  # noqa: F401
        except ImportError:
            return
        for operator, inverse, true in ((a.operator(), a.cholesky().inverse(), exact),
                                        (h.operator() + 0.1 * linalg._linear_operator(400, lambda x: x, lambda x: x), h.inverse(),
                                         np.exp(-np.abs(at[:, :1] - at[:, 0])) + 0.1 * np.eye(400))):
            for y in (operator @ self.x[:400], operator.T @ self.x[:400]):
                np.testing.assert_allclose(y, true @ self.x[:400], atol=1e-4)
            np.testing.assert_allclose(inverse.matvec(true @ self.x[:400, 0]), self.x[:400, 0], atol=1e-3)

    def test_dlpack(self):
        """Arrays of other libraries in the host's memory go in, results go out to them; those of a device are refused."""
        class Foreign:
            def __init__(self, array, device=(1, 0)):
                self.array, self.device = array, device

            def __dlpack_device__(self):
                return self.device

            def __dlpack__(self, **named):
                return self.array.__dlpack__(**named)
        np.testing.assert_array_equal(self.a.matmat(Foreign(self.x)), self.a.matmat(self.x))
        np.testing.assert_array_equal(linalg.svd(Foreign(np.ones((2, 3, 4))))[1], linalg.svd(np.ones((2, 3, 4)))[1])
        np.testing.assert_array_equal(np.from_dlpack(self.a.matmat(self.x)), self.a.matmat(self.x))
        self.refused(r"x is in the memory of a device \(DLPack's type 2\)", self.a.matmat, Foreign(self.x, (2, 0)))
        self.refused("in the memory of a device", linalg.svd, Foreign(self.x, (10, 0)))
        try:
            import torch
        except ImportError:
            return
        np.testing.assert_array_equal(self.a.matmat(torch.from_numpy(self.x)), self.a.matmat(self.x))
        self.assertEqual(torch.from_dlpack(self.a.matmat(self.x)).shape, (N, 3))

    def test_refused(self):
        dense, points = linalg.TileLowRank.from_dense, linalg.TileLowRank.from_points
        bad = self.exact.copy()
        bad[5, 7] += 1
        self.refused(r"not symmetric: a\[5, 7\]", dense, bad, TAU)
        bad[5, 7] = np.nan
        self.refused(r"a\[5, 7\] is nan", dense, bad, TAU)
        self.refused(r"shape \(1000, 3\)", dense, self.x, TAU)
        self.refused("complex", dense, self.exact.astype(complex), TAU)
        self.refused("tau is 0", dense, self.exact, 0)
        self.refused("tile is -4", dense, self.exact, TAU, tile=-4)
        self.refused("points has 3 rows", dense, self.exact, TAU, points=self.points[:3])
        self.refused(r"shape \(1000, 4\)", points, np.ones((N, 4)), linalg.matern(1), TAU)
        self.refused("not finite", points, self.points, lambda d: d * np.nan, TAU, status="NUMERIC")
        self.refused(r"returned the shape", points, self.points, lambda d: d[:1], TAU)
        with self.assertRaises(ZeroDivisionError):  # of the user's function
            points(self.points, lambda d: 1 // 0, TAU)
        self.refused("not positive definite", dense(self.exact - 2 * np.eye(N), TAU).cholesky, status="NUMERIC")
        self.refused("x has 3 rows", self.a.matvec, np.ones(3))
        self.refused(r"x\[1\] is inf", self.a.matvec, np.r_[0, np.inf, np.zeros(N - 2)])
        self.refused("b has 3 rows", self.a.cholesky().solve, np.ones(3))
        self.refused("length is -1", linalg.Hss, self.points, length=-1)
        self.refused("kernel='cubic'", linalg.Hss, self.points, "cubic")
        self.refused("nu is nan", linalg.matern, 1, np.nan)


class Batches(Refusing):
    def test_factors(self):
        rng = np.random.default_rng(4)
        for shape in ((5, 40, 20), (4, 20, 33), (3, 8, 8), (2, 3, 0), (0, 4, 4)):
            for dtype, eps in ((np.float64, 1e-14), (np.float32, 5e-6)):
                a = rng.standard_normal(shape).astype(dtype)
                k = min(shape[1:])
                u, s, vt = linalg.svd(a)
                self.assertEqual((u.shape, s.shape, vt.shape, u.dtype),
                                 ((shape[0], shape[1], k), (shape[0], k), (shape[0], k, shape[2]), dtype))
                np.testing.assert_allclose((u * s[:, None]) @ vt, a, atol=20 * eps)
                np.testing.assert_allclose(s, np.linalg.svd(a.astype(float), compute_uv=False), atol=20 * eps)
                q, r = linalg.qr(a)
                np.testing.assert_allclose(q @ r, a, atol=20 * eps)
                np.testing.assert_allclose(q.transpose(0, 2, 1) @ q, np.broadcast_to(np.eye(k), (shape[0], k, k)), atol=20 * eps)
                self.assertEqual(np.abs(np.tril(r, -1)).max(initial=0), 0)

    def test_graded(self):
        """Small singular values of columns scaled over 60 decades are accurate relative to themselves."""
        q = np.linalg.qr(np.random.default_rng(6).standard_normal((4, 12, 6)))[0]
        scale = 10.0 ** -np.arange(0, 60, 10)
        np.testing.assert_allclose(linalg.svd(q * scale)[1], np.broadcast_to(scale, (4, 6)), rtol=1e-13)

    def test_ara(self):
        rng = np.random.default_rng(8)
        a = rng.standard_normal((3, 64, 5)) @ rng.standard_normal((3, 5, 50))
        a[2] = 0
        u, v, rank = linalg.ara(a, 1e-6, most=9)
        self.assertEqual((u.shape, v.shape, list(rank)), ((3, 64, 9), (3, 50, 9), [5, 5, 0]))
        self.assertEqual(list(linalg.ara(a, 1e-10)[2]), [5, 5, 0])
        error = np.linalg.norm(a - u @ v.transpose(0, 2, 1), axis=(1, 2))
        self.assertTrue((error <= 1e-6 * np.linalg.norm(a, axis=(1, 2))).all(), error)
        self.assertEqual(np.abs(u[:, :, 5:]).max(), 0)
        self.assertLess(linalg.ara(a, 0.7 * np.linalg.norm(a[0]), relative=False)[2][0], 5)
        full = np.stack([a[0], rng.standard_normal((64, 50))])
        self.refused("ara: matrix 1 .*most", linalg.ara, full, 1e-6, most=9, status="NUMERIC")

    def test_refused(self):
        a = np.zeros((3, 4, 4))
        a[1, 2, 3] = np.nan
        for f in (linalg.svd, linalg.qr, lambda x: linalg.ara(x, 1e-3)):
            self.refused("matrix 1 of the batch: column 3 holds a NaN", f, a, status="NUMERIC")
            self.refused(r"shape \(4, 4\)", f, a[0])
            self.refused("at most 512", f, np.zeros((1, 513, 600)))
            self.refused("complex", f, a * 1j)
        self.refused("most is 0", linalg.ara, np.ones((1, 4, 4)), 0.1, most=0)
        self.refused('"cpu", "gpu" or "auto"', linalg.svd, np.ones((1, 4, 4)), device="tpu")


class Kernels(Refusing):
    """Matrices from kernels that are data, against their entries."""

    def test_kernels(self):
        """A Matern kernel of any nu with a length for each coordinate and a nugget: tile low-rank, HSS and H2; solves."""
        rng = np.random.default_rng(8)
        at, line, x = rng.uniform(0, 3, (400, 2)), np.sort(rng.uniform(0, 9, 400)), rng.standard_normal((400, 2))
        for kernel in (gp.Kernel("matern", (1.0, 2.0), 1.5, 0.25, nu=0.8), gp.Kernel("powered-exponential", 0.8, 1.0, 0.5, power=1.4)):
            exact = kernel(at) + kernel.nugget * np.eye(400)
            a = linalg.TileLowRank.from_points(at, kernel, 1e-6, tile=32)
            self.assertLess(abs(a @ x - exact @ x).max(), 1e-4)
            self.assertLess(abs(a.cholesky().solve(exact @ x) - x).max(), 1e-3)
            self.assertLess(abs(linalg.H2(at, kernel, tol=1e-7) @ x - exact @ x).max(), 1e-4)
        kernel = gp.Kernel("matern", 2.0, 1.0, 0.1, nu=3.2)
        exact = kernel(line) + 0.1 * np.eye(400)
        h = linalg.Hss(line, kernel, tol=1e-9).factor()
        self.assertLess(abs(h @ x - exact @ x).max(), 1e-5)
        self.assertLess(abs(h.solve(exact @ x) - x).max(), 1e-5)

    def test_refused(self):
        """What a kernel lacks, or has too many of."""
        at = np.zeros((3, 2))
        self.refused("the kernel's length is None", linalg.Hss, at, gp.Kernel())
        self.refused("the kernel has 3 lengths", linalg.TileLowRank.from_points, at, gp.Kernel(length=(1, 2, 3), variance=1), 1e-3)
        self.refused("kernel='bessel': expected", linalg.H2, at, "bessel")
        self.refused("shape \\(nu of Matern\\) is 70", linalg.H2, at, gp.Kernel(length=1, variance=1, nu=70), status="INPUT")


class Finding(Refusing):
    def python(self, text, folder, **more):
        """Exit code and output of a Python with a copy of the package in FOLDER/python."""
        p = subprocess.run([sys.executable, "-B", "-c", text], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True,
                           check=False, env=environment(PYTHONPATH=folder + "/python", MOAO="", LD_LIBRARY_PATH="", **more))
        return p.returncode, p.stdout

    def test_places(self):
        """Absent, damaged, of another version: one line. Found in PREFIX/lib and in build/."""
        text = "import moao\ntry:\n    print(moao.linalg.version())\nexcept moao.MoaoError as e:\n    print('refused:', e)"
        with open(os.path.join(ROOT, "VERSION"), encoding="ascii") as f:
            version = f.read().strip()
        real = library.library().path
        with tempfile.TemporaryDirectory() as d:
            top = d + "/p/share/moao"
            shutil.copytree(os.path.join(ROOT, "python"), top + "/python", ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copy(os.path.join(ROOT, "VERSION"), top)
            for place in (d + "/p/lib", top + "/build"):
                os.makedirs(place)
                self.assertRegex(self.python(text, top)[1], r"^refused: libmoao_linalg.so was not found: make install.*\n$")
                os.symlink(real, place + "/libmoao_linalg.so")
                self.assertEqual(self.python(text, top), (0, version + "\n"))
                os.remove(place + "/libmoao_linalg.so")
            with open(d + "/p/lib/libmoao_linalg.so", "w", encoding="ascii") as f:
                f.write("no library")
            self.assertRegex(self.python(text, top)[1], r"^refused: .*libmoao_linalg.so cannot be loaded: .*\n$")
            os.remove(d + "/p/lib/libmoao_linalg.so")
            os.symlink(real, d + "/p/lib/libmoao_linalg.so")
            with open(top + "/VERSION", "w", encoding="ascii") as f:
                f.write("7.1.2\n")
            self.assertRegex(self.python(text, top)[1],
                             r"^refused: .*is of version %s, the package of version 7.1.2: .*\n$" % re.escape(version))

    def test_numpy_alone(self):
        """moao.linalg and moao.gp need numpy alone; what needs astropy says so when it is first named."""
        text = ("import sys\nsys.modules['astropy'] = None\nimport moao\nfrom moao import gp, linalg\nprint(linalg.svd([[[3.0]]])[1][0, 0])\n"
                "try:\n    moao.Run\nexcept ImportError as e:\n    print('astropy' in str(e))")
        self.assertEqual(self.python(text, ROOT, MOAO_GPU_PLUGIN=""), (0, "3.0\nTrue\n"))

    def test_structures(self):
        """Fields of the structures in the order of the headers, the constants as there."""
        text = ""
        for path in glob.glob(os.path.join(ROOT, "src/linalg/include/moao/*.h")):
            with open(path, encoding="utf-8") as f:
                text += re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
        checked = 0
        for cls in vars(library).values():
            if not isinstance(cls, type) or not issubclass(cls, ctypes.Structure) or cls is ctypes.Structure:
                continue
            name = cls.__doc__.strip(".")
            body = re.search(r"typedef struct(?: \w+)? \{([^}]*)\} %s;" % name, text).group(1)
            body = re.sub(r"\(\*(\w+)\)\s*\([^;]*\)", r"\1", body)  # pointers to functions
            names = [re.sub(r"\[.*", "", w.split()[-1].lstrip("*")) for line in body.split(";") if line.strip() for w in line.split(",")]
            self.assertEqual([f[0] for f in cls._fields_], names, name)
            checked += 1
        self.assertGreater(checked, 12)
        self.assertRegex(text, r"MOAO_BATCH_ORTH_MAX %d\b(?s:.*)MOAO_BATCH_SVD_MAX %d\b" % (linalg.MOST, linalg.MOST))

    def test_page(self):
        """The examples of docs/library.md: at most ten lines; they print what they say."""
        with open(os.path.join(ROOT, "docs/library.md"), encoding="utf-8") as f:
            examples = re.findall(r"^```python\n(.*?)^```", f.read(), re.S | re.M)
        self.assertGreaterEqual(len(examples), 2)
        for example in examples:
            lines = [line for line in example.splitlines() if line.strip() and not line.startswith("#")]
            self.assertLessEqual(len(lines), 10)
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                exec(compile(example, "docs/library.md", "exec"), {})  # noqa: S102
            self.assertEqual(out.getvalue(), re.search(r"# Prints: (.*)", example).group(1) + "\n")


if __name__ == "__main__":
    unittest.main()
