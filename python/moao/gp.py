"""Gaussian processes on moao's library of linear algebra, with the interface of scikit-learn's GaussianProcessRegressor.

    from moao import gp
    process = gp.GaussianProcess(gp.Kernel("matern", nu=1.5)).fit(points, values)
    mean, deviation = process.predict(others, return_std=True)

The factor of the covariance is dense, or tile low-rank for many points (moao/gp.h describes the model and its units). What is
refused is a MoaoError of one line.
"""
import ctypes
import inspect
import math
import weakref
from ctypes import byref, c_void_p
from typing import Optional, Sequence, Union

import numpy as np

from . import library as c
from .linalg import _close, _positive, _real
from .reading import MoaoError

__all__ = ["GaussianProcess", "Kernel"]

FAMILIES = {"matern": 0, "squared-exponential": 1, "powered-exponential": 2}  # moao_gp_family
METHODS = {"auto": 0, "dense": 1, "tlr": 2}                                   # moao_gp_method
PLACES = {"variance": 0, "length": 1, "shape": 4, "nugget": 5}                # in a gradient; three lengths
PROBES = 8


class Kernel:
    """A covariance with its parameters.

    family: "matern" (nu: smoothness, 0.1 to 50), "squared-exponential", exp(-d^2 / 2), or "powered-exponential", exp(-d^power),
    power 0.1 to 2. d: the distance in units of `length`, a number, or one for each coordinate (anisotropic), in the units of the
    points. variance and nugget (the variance of the noise): in the square of the data's units. None: fit() starts from what the
    data suggest. kernel(a, b) is the matrix of covariances of points, without the nugget.
    """

    def __init__(self, family: str = "matern", length: Union[None, float, Sequence[float]] = None, variance: Optional[float] = None,
                 nugget: Optional[float] = None, nu: float = 1.5, power: float = 1.0):
        if family not in FAMILIES:
            raise MoaoError("family=%r: expected %s" % (family, ", ".join('"%s"' % f for f in FAMILIES)))
        self.family, self.nu, self.power = family, _positive("nu", nu), _positive("power", power)
        self.length = None if length is None else _positive("length", length) if np.ndim(length) == 0 else tuple(
            _positive("length[%d]" % d, float(v)) for d, v in enumerate(length))
        self.variance = None if variance is None else _positive("variance", variance)
        self.nugget = None if nugget is None else _positive("nugget", nugget, zero=True)

    @property
    def shape(self) -> float:
        """nu or power, what the family has."""
        return {"matern": self.nu, "powered-exponential": self.power}.get(self.family, 0.0)

    def __repr__(self):
        own = {"matern": ", nu=%.6g" % self.nu, "powered-exponential": ", power=%.6g" % self.power}.get(self.family, "")
        return "Kernel(%r, length=%s, variance=%s, nugget=%s%s)" % (
            self.family,
            str(tuple(float("%.6g" % v) for v in self.length)) if isinstance(self.length, tuple) else _short(self.length), _short(self.variance), _short(self.nugget), own)

    def _replaced(self, **values):
        names = ("family", "length", "variance", "nugget", "nu", "power")
        return Kernel(**{**{n: getattr(self, n) for n in names}, **values})

    def _started(self, at, y):
        """With numbers in place of None: half of the data's variance, a fifth of the widest side, a tenth of the variance."""
        spread = float(np.var(y)) or float(np.mean(y * y)) or 1.0
        width = float(np.ptp(at, axis=0).max()) or 1.0
        return self._replaced(length=width / 5 if self.length is None else self.length,
                              variance=spread / 2 if self.variance is None else self.variance,
                              nugget=spread / 10 if self.nugget is None else self.nugget)

    def _structure(self, dim) -> c.GpKernel:
        missing = [n for n in ("length", "variance") if getattr(self, n) is None]
        if missing:
            raise MoaoError("the kernel's %s is None: give a number, or fit" % missing[0])
        if isinstance(self.length, tuple) and len(self.length) != dim:
            raise MoaoError("the kernel has %d lengths: points of %d coordinates need as many, or one" % (len(self.length), dim))
        length = (list(self.length) if isinstance(self.length, tuple) else [self.length]) + [0.0] * 3
        return c.GpKernel(FAMILIES[self.family], self.variance, (ctypes.c_double * 3)(*length[:3]), self.shape, self.nugget or 0.0)

    def _of(self, k: c.GpKernel):
        """This kernel with the parameters of a structure."""
        length = tuple(k.length)[:len(self.length)] if isinstance(self.length, tuple) else k.length[0]
        own = {"matern": {"nu": k.shape}, "powered-exponential": {"power": k.shape}}.get(self.family, {})
        return self._replaced(length=length, variance=k.variance, nugget=k.nugget, **own)

    def __call__(self, a, b=None) -> np.ndarray:
        """Covariances of points a, shape (n, d) or (n,), and b (None: a), without the nugget: shape (n, m)."""
        a = _places("a", a)
        b = a if b is None else _places("b", b, a.shape[1])
        out = np.empty((len(a), len(b)), order="F")
        c.library().gp_covariance(byref(self._structure(a.shape[1])), a.shape[1], len(a), a.ctypes.data, len(b), b.ctypes.data,
                                  out.ctypes.data, max(1, len(a)))
        return out


def _short(value):
    return "None" if value is None else "%.6g" % value


def _places(name, points, dim=None) -> np.ndarray:
    at = _real(name, points, (1, 2))
    at = np.ascontiguousarray(at.reshape(len(at), -1) if at.size else at.reshape(len(at), at.shape[1] if at.ndim == 2 else 1))
    if not 1 <= at.shape[1] <= 3 or (dim and at.shape[1] != dim):
        raise MoaoError("%s has the shape %s: points with %s are expected" % (
            name, np.shape(points), "%d coordinates" % dim if dim else "1 to 3 coordinates"))
    return at


class GaussianProcess:
    """Regression and kriging with a Gaussian process; parameters of the covariance by maximum likelihood.

    kernel: a Kernel, whose numbers are where the fit starts; None: Matern of nu 1.5. mean: True, a constant mean is estimated;
    False, it is zero. free: which parameters are fitted, of "variance", "length", "shape" (nu or power), "nugget"; () fits none.
    restarts: further starts, at random around the first one; the best result counts. method: "dense", "tlr" (tile low-rank), or
    "auto": dense up to 10,000 points. tau: of "tlr", largest Frobenius norm of what is dropped of a tile, in the units of the
    variance; None: a 10,000th of the nugget. random_state: seed of restarts and of random vectors. device: "cpu", "gpu", "auto".

    After fit(): kernel_, mean_ and mean_std_, log_marginal_likelihood_value_, logdet_, with logdet_error_ (estimate of its error)
    and logdet_error_std_, errors_ (standard errors of the logarithms of the parameters), converged_, evaluations_, bytes_ (of the
    factor), X_train_, y_train_. An object is used by one thread at a time. It can be pickled; the factor is then made anew.
    """

    def __init__(self, kernel: Optional[Kernel] = None, mean: bool = True, free=("variance", "length", "nugget"), restarts: int = 0,
                 method: str = "auto", tau: Optional[float] = None, random_state: int = 0, device: str = "cpu"):
        self.kernel, self.mean, self.free, self.restarts, self.method = kernel, mean, free, restarts, method
        self.tau, self.random_state, self.device = tau, random_state, device

    # --- as scikit-learn's estimators: parameters by name -------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict:
        """The arguments of the constructor."""
        return {name: getattr(self, name) for name in list(inspect.signature(type(self).__init__).parameters)[1:]}

    def set_params(self, **values) -> "GaussianProcess":
        """Other arguments of the constructor. MoaoError: an unknown name."""
        for name, value in values.items():
            if name not in self.get_params():
                raise MoaoError("GaussianProcess has no parameter %s: it has %s" % (name, ", ".join(self.get_params())))
            setattr(self, name, value)
        return self

    def __repr__(self):
        return "GaussianProcess(%s)" % ", ".join("%s=%r" % item for item in self.get_params().items())

    def __getstate__(self):
        return {k: v for k, v in self.__dict__.items() if k not in ("_process", "_held")}

    # --- the process --------------------------------------------------------------------------------------------------------------

    def _opened(self):
        """Device and pointer of the library's process, opened where there is none."""
        if getattr(self, "_process", None) is None:
            device, pointer = c.device(self.device), c_void_p()
            options = c.GpOptions(METHODS[self.method], bool(self.mean), 0.0 if self.tau is None else _positive("tau", self.tau), 0,
                                  int(self.random_state))
            at, y = self.X_train_, self.y_train_
            with device.lock:
                device.lib.gp_open(device.be, device.ctx, at.shape[1], len(at), at.ctypes.data, y.ctypes.data, byref(options),
                                   byref(pointer))
            weakref.finalize(self, _close, device.lib, device, device.lib.gp_close, pointer)
            self._process, self._held = (device, pointer), None
        return self._process

    def _likelihood(self, kernel, gradient=False, probes=0) -> c.GpResult:
        device, pointer = self._opened()
        result = c.GpResult()
        self._held = None
        with device.lock:
            device.lib.gp_likelihood(pointer, byref(kernel._structure(self.X_train_.shape[1])), gradient, probes, byref(result))
        self._held = kernel
        return result

    def _free(self) -> int:
        free = (self.free,) if isinstance(self.free, str) else tuple(self.free)
        unknown = [f for f in free if f not in PLACES]
        if unknown:
            raise MoaoError("free has %r: expected some of %s" % (unknown[0], ", ".join(PLACES)))
        return sum(1 << PLACES[f] for f in set(free))

    def fit(self, X, y) -> "GaussianProcess":
        """Fit to data y, shape (n,), at points X, shape (n,) or (n, 1 to 3). Returns self. MoaoError: bad shapes or values, or
        (NUMERIC) a covariance that is not positive definite where the fit starts."""
        if self.method not in METHODS:
            raise MoaoError("method=%r: expected %s" % (self.method, ", ".join('"%s"' % m for m in METHODS)))
        at, data = _places("X", X), _real("y", y, (1, 2))
        if data.shape not in ((len(at),), (len(at), 1)) or len(at) == 0:
            raise MoaoError("y has the shape %s: (%d,) is expected, at least one" % (data.shape, len(at)))
        free = self._free()
        self.X_train_, self.y_train_ = at, np.ascontiguousarray(data.reshape(-1))
        self._process = None
        start = (self.kernel or Kernel())._started(at, self.y_train_)
        if free:
            self._maximize(start, free)
        else:
            self.errors_, self.converged_, self.evaluations_ = {}, True, 1
            self._keep(start, self._likelihood(start, probes=PROBES))
        return self

    def _maximize(self, start, free):
        device, pointer = self._opened()
        random, best, evaluations = np.random.default_rng(self.random_state), None, 0
        for turn in range(1 + int(self.restarts)):
            first, found = start._structure(self.X_train_.shape[1]), c.GpFitResult()
            if turn > 0:
                self._move(first, free, random)
            try:
                with device.lock:
                    device.lib.gp_fit(pointer, byref(first), byref(c.GpFitOptions(free=free, probes=PROBES)), byref(found))
            except MoaoError:
                if turn == 0:
                    raise
                continue  # a random start without a factor
            evaluations += found.evaluations
            if best is None or found.at.likelihood > best.at.likelihood:
                best = found
        kernel = start._of(best.at.kernel)
        lengths = len(kernel.length) if isinstance(kernel.length, tuple) else 1
        self.errors_ = {}
        for name in ((self.free,) if isinstance(self.free, str) else self.free):
            values = [best.error[PLACES[name] + d] for d in range(lengths if name == "length" else 1)]
            self.errors_[name] = tuple(values) if isinstance(kernel.length, tuple) and name == "length" else values[0]
        self.converged_, self.evaluations_ = bool(best.converged), evaluations
        self._keep(kernel, best.at)
        self._held = kernel if best is found else None

    @staticmethod
    def _move(k, free, random):
        """Free parameters up to a factor of ten away; shapes within what is usual."""
        for name, place in PLACES.items():
            by = 10 ** random.uniform(-1, 1)
            if free >> place & 1 and name == "length":
                k.length = (ctypes.c_double * 3)(*(v * by for v in k.length))
            elif free >> place & 1 and name == "shape":
                k.shape = random.uniform(0.3, 3.5 if k.family == 0 else 2)
            elif free >> place & 1:
                setattr(k, name, getattr(k, name) * by)

    def _keep(self, kernel, result):
        self.kernel_ = kernel
        self.log_marginal_likelihood_value_ = result.likelihood
        self.mean_, self.mean_std_ = result.mean, result.mean_deviation
        self.logdet_, self.logdet_error_, self.logdet_error_std_ = result.logdet, result.logdet_error, result.logdet_deviation
        self.bytes_, self.tau_ = result.bytes, result.tau

    def _fitted(self):
        if not hasattr(self, "kernel_"):
            raise MoaoError("this GaussianProcess is not fitted: call fit(X, y) first")

    def log_marginal_likelihood(self, kernel: Optional[Kernel] = None, eval_gradient: bool = False):
        """Natural logarithm of the likelihood of the data of fit() with a kernel (None: kernel_). eval_gradient: with a dict of its
        derivatives by the logarithms of variance, length (a tuple where the kernel has several), shape and nugget."""
        self._fitted()
        kernel = kernel or self.kernel_
        if kernel is self.kernel_ and not eval_gradient:
            return self.log_marginal_likelihood_value_
        result = self._likelihood(kernel, eval_gradient)
        if not eval_gradient:
            return result.likelihood
        gradient = {name: result.gradient[place] for name, place in PLACES.items()}
        if isinstance(kernel.length, tuple):
            gradient["length"] = tuple(result.gradient[1:1 + len(kernel.length)])
        return result.likelihood, gradient

    def predict(self, X, return_std: bool = False, return_cov: bool = False, noise: bool = False):
        """Mean of the field at points X, shape (m,); with return_std its standard deviation, shape (m,), or with return_cov its
        covariance, shape (m, m). noise: of new data, which have the nugget, too."""
        self._fitted()
        if return_std and return_cov:
            raise MoaoError("return_std and return_cov: one of them can be asked for")
        at = _places("X", X, self.X_train_.shape[1])
        device, pointer = self._opened()
        if self._held is not self.kernel_:
            self._likelihood(self.kernel_)
        mean, more = np.empty(len(at)), np.empty((len(at),) * (2 if return_cov else 1))
        with device.lock:
            device.lib.gp_predict(pointer, len(at), at.ctypes.data, mean.ctypes.data, more.ctypes.data if return_std else None,
                                  more.ctypes.data if return_cov else None)
        nugget = self.kernel_.nugget if noise else 0.0
        if return_cov:
            more[np.diag_indices(len(at))] += nugget
            return mean, more
        return (mean, np.sqrt(more + nugget)) if return_std else mean

    def score(self, X, y) -> float:
        """Coefficient of determination of predictions of y at X: 1 - residual sum of squares / total sum of squares."""
        y = _real("y", y, (1, 2)).reshape(-1)
        mean = self.predict(X)
        if len(y) != len(mean) or len(y) < 2:
            raise MoaoError("y has %d values for %d points, at least two are expected" % (len(y), len(mean)))
        total = float(np.sum((y - y.mean()) ** 2))
        if total == 0:
            raise MoaoError("y is constant: its coefficient of determination does not exist")
        return 1 - float(np.sum((y - mean) ** 2)) / total

    def sample(self, X, n_samples: int = 1, random_state: int = 0) -> np.ndarray:
        """Fields drawn at points X, shape (m, n_samples): given the data after fit(), of mean zero from the kernel before."""
        if hasattr(self, "kernel_"):
            mean, covariance = self.predict(X, return_cov=True)
        else:
            at = _places("X", X)
            covariance = (self.kernel or Kernel())(at)
            mean = np.zeros(len(at))
        values, vectors = np.linalg.eigh(covariance)
        normal = np.random.default_rng(random_state).standard_normal((len(mean), int(n_samples)))
        return mean[:, None] + vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * normal)

    sample_y = sample
