#!/usr/bin/env python3
"""Gaussian processes of moao.gp and of scikit-learn in one run: likelihood, gradient, predictions, and the time of each.

    bench/bench_gp.py [n=5000] [to=1000] [repeat=1]

n points in a square, a field drawn from a Matern covariance of nu 1.5 with noise; parameters are given, not fitted. Each time is
the shortest of `repeat`. Needs scikit-learn (python3-sklearn, or PyPI).
"""
import os
import sys
import time

import numpy as np
from sklearn import __version__ as theirs_version
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from moao import gp, linalg  # noqa: E402

LENGTH, VARIANCE, NUGGET = 0.1, 1.5, 0.02


def timed(call, repeat):
    """The result, and the shortest time [s]."""
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        result = call()
        best = min(best, time.perf_counter() - start)
    return result, best


def main():
    given = dict(word.split("=") for word in sys.argv[1:])
    n, m, repeat = (int(given.get(name, other)) for name, other in (("n", 5000), ("to", 1000), ("repeat", 1)))
    random = np.random.default_rng(1)
    at, to = random.uniform(0, 1, (n, 2)), random.uniform(0, 1, (m, 2))
    y = np.sin(9 * at[:, 0]) * np.cos(7 * at[:, 1]) + np.sqrt(NUGGET) * random.standard_normal(n)
    print("n = %d, %d predictions, scikit-learn %s, moao %s, threads %s" % (
        n, m, theirs_version, linalg.version(), os.environ.get("OMP_NUM_THREADS", "all")))

    theirs = GaussianProcessRegressor(ConstantKernel(VARIANCE) * Matern(LENGTH, nu=1.5) + WhiteKernel(NUGGET), alpha=0, optimizer=None)
    theta = np.log([VARIANCE, LENGTH, NUGGET])
    theirs.fit(at, y)
    value, slow = timed(lambda: theirs.log_marginal_likelihood(theta), repeat)
    (_, gradient), slow_gradient = timed(lambda: theirs.log_marginal_likelihood(theta, eval_gradient=True, clone_kernel=False), repeat)
    mean, slow_mean = timed(lambda: theirs.predict(to), repeat)
    (_, std), slow_std = timed(lambda: theirs.predict(to, return_std=True), repeat)
    print("scikit-learn: likelihood %.9f, %.2f s; with gradient %.2f s; predictions %.2f s, with deviations %.2f s" % (
        value, slow, slow_gradient, slow_mean, slow_std))

    kernel = gp.Kernel("matern", LENGTH, VARIANCE, NUGGET, 1.5)
    for method, tau in (("dense", None), ("tlr", None)):
        ours = gp.GaussianProcess(kernel, mean=False, free=(), method=method, tau=tau).fit(at, y)
        other = gp.Kernel("matern", LENGTH, VARIANCE, NUGGET, 1.5)  # evaluated anew
        found, fast = timed(lambda: ours.log_marginal_likelihood(other), repeat)
        (_, by), fast_gradient = timed(lambda: ours.log_marginal_likelihood(other, eval_gradient=True), repeat)
        ours.predict(to[:1])
        my_mean, fast_mean = timed(lambda: ours.predict(to), repeat)
        (_, my_std), fast_std = timed(lambda: ours.predict(to, return_std=True, noise=True), repeat)
        mine = np.array([by["variance"], by["length"], by["nugget"]])
        print("moao %s, tau %.1e, %.0f of %.0f MB: likelihood %.9f, %.2f s; with gradient %.2f s; predictions %.2f s, with deviations "
              "%.2f s; estimated error of log det %.1e +- %.1e" % (method, ours.tau_, ours.bytes_ / 1e6, 4e-6 * n * (n + 1), found, fast,
                                                                fast_gradient, fast_mean, fast_std, ours.logdet_error_, ours.logdet_error_std_))
        print("  differences: likelihood %.1e of itself, gradient %.1e of the largest, predictions %.1e, deviations %.1e" % (
            abs(found / value - 1), abs(mine - gradient).max() / abs(gradient).max(), abs(my_mean - mean).max(), abs(my_std - std).max()))
        print("  times faster: likelihood %.1f, with gradient %.1f, predictions %.1f, with deviations %.1f" % (
            slow / fast, slow_gradient / fast_gradient, slow_mean / fast_mean, slow_std / fast_std))


if __name__ == "__main__":
    main()
