"""moao.gp: Gaussian processes from Python, against numpy, and against scikit-learn where it is installed; what is refused."""
import copy
import os
import pickle
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import ROOT  # noqa: E402
from test_linalg_python import Refusing, setUpModule  # noqa: E402, F401

sys.path.insert(0, os.path.join(ROOT, "python"))
from moao import gp  # noqa: E402

N, M = 150, 12


def matern15(a, b, length, variance):
    t = np.sqrt(3 * (((a[:, None] - b) / length) ** 2).sum(2))
    return variance * (1 + t) * np.exp(-t)


class Processes(Refusing):
    @classmethod
    def setUpClass(cls):
        rng = np.random.default_rng(2)
        cls.at, cls.to = rng.uniform(0, 10, (N, 2)), rng.uniform(0, 10, (M, 2))
        field = np.linalg.cholesky(matern15(cls.at, cls.at, 2.5, 4.0) + 0.04 * np.eye(N)) @ rng.standard_normal(N)
        cls.y = field
        cls.kernel = gp.Kernel("matern", length=(2.0, 3.0), variance=3.0, nugget=0.05, nu=1.5)

    def reference(self, mean):
        """Likelihood, mean's estimate, predictions and their covariance for self.kernel."""
        k = self.kernel
        c = matern15(self.at, self.at, k.length, k.variance) + k.nugget * np.eye(N)
        inverse, across, one = np.linalg.inv(c), matern15(self.to, self.at, k.length, k.variance), np.ones(N)
        best = (one @ inverse @ self.y) / (one @ inverse @ one) if mean else 0.0
        r = self.y - best
        value = -0.5 * (N * np.log(2 * np.pi) + np.linalg.slogdet(c)[1] + r @ inverse @ r)
        trend = 1 - across @ inverse @ one
        covariance = matern15(self.to, self.to, k.length, k.variance) - across @ inverse @ across.T
        covariance += mean * np.outer(trend, trend) / (one @ inverse @ one)
        return value, best, best + across @ inverse @ r, covariance

    def test_reference(self):
        for mean in (True, False):
            value, best, prediction, covariance = self.reference(mean)
            for method, off in (("dense", 1e-9), ("tlr", 1e-4)):
                p = gp.GaussianProcess(self.kernel, mean=mean, free=(), method=method).fit(self.at, self.y)
                self.assertAlmostEqual(p.log_marginal_likelihood_value_, value, delta=off * abs(value))
                self.assertAlmostEqual(p.mean_, best, delta=off)
                self.assertLess(abs(p.logdet_error_), off * N)
                self.assertEqual(p.tau_ == 0, method == "dense")
                np.testing.assert_allclose(p.predict(self.to), prediction, atol=off)
                found, deviation = p.predict(self.to, return_std=True)
                np.testing.assert_allclose(found, prediction, atol=off)
                np.testing.assert_allclose(deviation, np.sqrt(np.diag(covariance)), atol=off)
                np.testing.assert_allclose(p.predict(self.to, return_std=True, noise=True)[1] ** 2, np.diag(covariance) + 0.05, atol=off)
                np.testing.assert_allclose(p.predict(self.to, return_cov=True)[1], covariance, atol=off)

    def test_gradient(self):
        """Derivatives by the logarithms are those of the reference, by differences."""
        given, h, by = self.kernel, 1e-5, []
        for name, d in (("variance", 0), ("length", 0), ("length", 1), ("nugget", 0)):
            side = []
            for step in (-h, h):
                value = list(np.atleast_1d(getattr(given, name)))
                value[d] *= np.exp(step)
                self.kernel = given._replaced(**{name: tuple(value) if name == "length" else value[0]})
                side.append(self.reference(False)[0])
            by.append((side[1] - side[0]) / (2 * h))
        self.kernel = given
        found = gp.GaussianProcess(given, mean=False, free=()).fit(self.at, self.y).log_marginal_likelihood(given, eval_gradient=True)[1]
        np.testing.assert_allclose([found["variance"], *found["length"], found["nugget"]], by, rtol=1e-5, atol=1e-5)

    def test_sklearn(self):
        """Likelihood, its gradient and predictions are scikit-learn's, and so is what the fit finds."""
        try:
            from sklearn.gaussian_process import GaussianProcessRegressor
            from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
        except ImportError:
            return  # test_reference and test_gradient have numpy's
        theirs = GaussianProcessRegressor(ConstantKernel(3.0) * Matern((2.0, 3.0), nu=1.5) + WhiteKernel(0.05), alpha=0).fit(self.at, self.y)
        ours = gp.GaussianProcess(self.kernel, mean=False).fit(self.at, self.y)
        self.assertAlmostEqual(ours.log_marginal_likelihood_value_, theirs.log_marginal_likelihood_value_, delta=1e-4)
        for a, b in zip(ours.predict(self.to, return_std=True, noise=True), theirs.predict(self.to, return_std=True)):
            np.testing.assert_allclose(a, b, atol=1e-3)
        value, gradient = theirs.log_marginal_likelihood(np.log([3.0, 2.0, 3.0, 0.05]), eval_gradient=True)
        mine, by = ours.log_marginal_likelihood(self.kernel, eval_gradient=True)
        self.assertAlmostEqual(mine, value, delta=1e-8 * abs(value))
        np.testing.assert_allclose([by["variance"], *by["length"], by["nugget"]], gradient, rtol=1e-7)

    def test_fit(self):
        """From nothing given, the parameters that the data were drawn with, to their standard errors; 0 gradient there."""
        p = gp.GaussianProcess(random_state=3, restarts=1).fit(self.at, self.y)
        self.assertTrue(p.converged_)
        for name, true in (("variance", 4), ("length", 2.5), ("nugget", 0.04)):
            self.assertLess(abs(np.log(getattr(p.kernel_, name) / true)), 4 * p.errors_[name], name)
        value, by = p.log_marginal_likelihood(eval_gradient=True)
        self.assertAlmostEqual(value, p.log_marginal_likelihood_value_, places=6)
        self.assertLess(max(abs(by[n]) for n in ("variance", "length", "nugget")), 0.1)
        self.assertGreater(value, p.log_marginal_likelihood(gp.Kernel("matern", 2.5, 4.0, 0.04, 1.5)) - 1e-3)
        self.assertGreater(p.score(self.at, self.y), 0.98)
        again = pickle.loads(pickle.dumps(p))
        np.testing.assert_allclose(again.predict(self.to), p.predict(self.to), atol=1e-9)
        self.assertEqual(copy.deepcopy(p).get_params().keys(), p.get_params().keys())
        self.assertEqual(p.set_params(method="tlr").method, "tlr")
        self.assertRegex(repr(p.kernel_), r"^Kernel\('matern', length=[\d.]+, variance=")
        line = gp.GaussianProcess(gp.Kernel("squared-exponential", nugget=0.1)).fit(np.arange(5), [0, 1, 0, 1, 0])
        self.assertEqual(line.predict([0.5]).shape, (1,))

    def test_sample(self):
        """Means and covariances of many samples are those predicted; before a fit, the kernel's."""
        p = gp.GaussianProcess(self.kernel, free=()).fit(self.at, self.y)
        mean, covariance = p.predict(self.to, return_cov=True)
        drawn = p.sample(self.to, 4000, random_state=1)
        self.assertEqual(drawn.shape, (M, 4000))
        np.testing.assert_allclose(drawn.mean(1), mean, atol=5 * np.sqrt(covariance.max() / 4000))
        np.testing.assert_allclose(np.cov(drawn), covariance, atol=0.15 * covariance.max())
        before = gp.GaussianProcess(self.kernel).sample(self.to, 4000)
        np.testing.assert_allclose(np.cov(before), self.kernel(self.to), atol=0.5)

    def test_kernels(self):
        np.testing.assert_allclose(self.kernel(self.at, self.to), matern15(self.at, self.to, (2.0, 3.0), 3.0), rtol=1e-12)
        x = np.array([0.0, 1.0, 3.0])
        np.testing.assert_allclose(gp.Kernel("powered-exponential", 2.0, 1.0, power=1.3)(x, x[:1])[:, 0], np.exp(-(x / 2) ** 1.3))
        np.testing.assert_allclose(gp.Kernel("squared-exponential", 2.0, 1.0)(x, x[:1])[:, 0], np.exp(-x * x / 8))
        try:
            from scipy.special import gamma, kv
        except ImportError:
            return
        for nu in (0.2, 0.9, 2.0, 7.3, 30.0):
            t = np.sqrt(2 * nu) * x[1:]
            np.testing.assert_allclose(gp.Kernel("matern", 1.0, 1.0, nu=nu)(x, x[:1])[1:, 0], 2 ** (1 - nu) / gamma(nu) * t ** nu * kv(nu, t),
                                       atol=1e-12)

    def test_refused(self):
        self.refused('family=\'cubic\'', gp.Kernel, "cubic")
        self.refused("length is -1", gp.Kernel, "matern", -1)
        self.refused(r"length\[1\] is 0", gp.Kernel, "matern", (1, 0))
        self.refused("nu of Matern", gp.Kernel("matern", 1, 1, nu=99), self.at)
        self.refused("length is None", gp.Kernel(), self.at)
        p = gp.GaussianProcess(self.kernel)
        self.refused("not fitted", p.predict, self.to)
        self.refused("1 to 3 coordinates", p.fit, np.ones((4, 4)), self.y[:4])
        self.refused("2 lengths", p.fit, self.at[:, :1], self.y)
        self.refused(r"y has the shape \(3,\)", p.fit, self.at, self.y[:3])
        self.refused(r"y\[2\] is nan", p.fit, self.at[:4], [0, 1, np.nan, 2])
        self.refused(r"X\[1, 0\] is inf", p.fit, [[0.0, 1], [np.inf, 1]], [0, 1])
        self.refused("method='hss'", gp.GaussianProcess(method="hss").fit, self.at, self.y)
        self.refused("free has 'size'", gp.GaussianProcess(free="size").fit, self.at, self.y)
        self.refused("no parameter alpha", p.set_params, alpha=1)
        twice = np.r_[self.at[:5], self.at[:1]]
        self.refused("points 0 and 5 are in the same place", gp.GaussianProcess(gp.Kernel(length=1.0, nugget=0), free=()).fit, twice,
                     self.y[:6], status="INPUT")
        p = gp.GaussianProcess(self.kernel, free=()).fit(self.at, self.y)
        self.refused("points with 2 coordinates", p.predict, self.to[:, :1])
        self.refused("one of them", p.predict, self.to, True, True)
        self.refused("constant", p.score, self.to, np.ones(M))


if __name__ == "__main__":
    unittest.main()
