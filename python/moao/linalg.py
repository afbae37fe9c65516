"""Tile low-rank and hierarchical matrices, batched QR, SVD and compression: moao's library of linear algebra, numpy in and out.

    from moao import linalg
    a = linalg.TileLowRank.from_points(points, linalg.matern(10.0, 1.5), tau=1e-6, nugget=0.01)
    y = a @ x;  f = a.cholesky();  x = f.solve(b);  f.logdet()

Everything computes in double precision (batches of float32 in single), on the CPU unless device="gpu" or "auto" says otherwise.
Values have the units of the input. What is refused, and what the library reports, is a MoaoError of one line; its `status` is
then the library's word: INPUT, MEMORY, NUMERIC, INTERNAL. docs/library.md describes the methods.
"""
import ctypes
import math
import os
import weakref
from ctypes import byref, c_double, c_void_p
from typing import Callable, Optional, Tuple

import numpy as np

from . import library as c
from .reading import MoaoError

__all__ = ["H2", "Hss", "TileLowRank", "TileLowRankFactor", "ara", "load", "matern", "qr", "svd", "version"]

HSS = 2                                               # moao_hier_kind
KERNELS = {"exponential": 1, "gaussian": 2}           # moao_hier_kernel
MOST = 512                                            # MOAO_BATCH_SVD_MAX, MOAO_BATCH_ORTH_MAX
ROUNDING = 64 * np.finfo(float).eps


def version() -> str:
    """Version of the library in use, as "0.3.0". MoaoError where it is absent or of another version than the package."""
    v = c.library().linalg_version()
    return "%d.%d.%d" % (v // 10000, v // 100 % 100, v % 100)


def _host(name, value) -> np.ndarray:
    """What numpy takes; arrays of other libraries through DLPack. MoaoError: they are in the memory of a device."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack_device__") or not hasattr(np, "from_dlpack"):
        return np.asarray(value)
    kind = int(value.__dlpack_device__()[0])
    if kind not in (1, 3):  # kDLCPU, kDLCUDAHost
        raise MoaoError("%s is in the memory of a device (DLPack's type %d): copy it to the host first, as by x.cpu() or x.get()" % (
            name, kind))
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise MoaoError("%s cannot be taken through DLPack: %s" % (name, str(e).split("\n")[0])) from None


def _real(name, value, ndim) -> np.ndarray:
    """An array of finite doubles with one of so many dimensions."""
    a = _host(name, value)
    if a.dtype.kind not in "fiub":
        raise MoaoError("%s has numbers of type %s: real numbers are expected" % (name, a.dtype))
    if a.ndim not in ndim:
        raise MoaoError("%s has the shape %s: %s dimensions are expected" % (name, a.shape, " or ".join(str(d) for d in ndim)))
    a = a.astype(np.float64)
    bad = np.argwhere(~np.isfinite(a))
    if len(bad):
        raise MoaoError("%s[%s] is %s: all entries must be finite" % (name, ", ".join(str(i) for i in bad[0]), a[tuple(bad[0])]))
    return a


def _positive(name, value, zero=False) -> float:
    if not np.isscalar(value) or not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise MoaoError("%s is %s: a %s is expected" % (name, value, "number of at least 0" if zero else "positive number"))
    return float(value)


def matern(length: float, nu: float = 1.5, variance: float = 1.0) -> Callable[[np.ndarray], np.ndarray]:
    """Matern covariance as a function of distances (any shape), in the units of `variance`.

    variance 2^(1 - nu) / Gamma(nu) t^nu K_nu(t), t = sqrt(2 nu) distance / length (Rasmussen and Williams, Gaussian Processes for
    Machine Learning, 2006, eq. 4.14). length: in the units of the points. nu: smoothness; other than 0.5, 1.5 and 2.5 needs scipy.
    MoaoError: a parameter is not positive.
    """
    length, nu, variance = _positive("length", length), _positive("nu", nu), _positive("variance", variance)
    sums = {0.5: lambda t: 1.0, 1.5: lambda t: 1 + t, 2.5: lambda t: 1 + t + t * t / 3}
    if nu in sums:
        return lambda d: variance * sums[nu](math.sqrt(2 * nu) / length * d) * np.exp(-math.sqrt(2 * nu) / length * d)
    try:
        from scipy.special import gammaln, kv
    except ImportError:
        raise MoaoError("nu = %g needs scipy: install it, or take 0.5, 1.5 or 2.5" % nu) from None

    def covariance(d):
        t = math.sqrt(2 * nu) / length * np.asarray(d, float)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = variance * np.exp((1 - nu) * math.log(2) - gammaln(nu) + nu * np.log(t)) * kv(nu, t)
        return np.where(t < 1e-10, variance, value)
    return covariance


def _is_kernel(kernel) -> bool:
    return hasattr(kernel, "_structure")  # moao.gp.Kernel, which imports this module


def _kernel(kernel, dim, nugget=0.0) -> c.GpKernel:
    k = kernel._structure(dim)
    k.nugget += nugget
    return k


def _tile(n, tile) -> int:
    """Rows of a tile; None: about 2 sqrt(n)."""
    if tile is None:
        return min(512, max(32, 32 * round(2 * math.sqrt(n) / 32)))
    if not isinstance(tile, (int, np.integer)) or not 1 <= tile:
        raise MoaoError("tile is %s: a number of rows, at least 1, is expected" % (tile,))
    return int(tile)


def _symmetric(a) -> np.ndarray:
    """A square matrix of finite doubles that is its own transpose up to rounding."""
    a = _real("a", a, (2,))
    if a.shape[0] != a.shape[1] or a.size == 0:
        raise MoaoError("a has the shape %s: a square matrix is expected" % (a.shape,))
    worst = np.unravel_index(np.argmax(np.abs(a - a.T)), a.shape)
    if abs(a[worst] - a.T[worst]) > ROUNDING * np.abs(a).max():
        i, j = worst
        raise MoaoError("a is not symmetric: a[%d, %d] is %.9g, a[%d, %d] is %.9g" % (i, j, a[i, j], j, i, a[j, i]))
    return a


class _Operator:
    """What all matrices share: shape, products with vectors and matrices, scipy's LinearOperator."""

    dtype = np.dtype(np.float64)
    symmetric = True

    @property
    def shape(self) -> Tuple[int, int]:
        """(rows, columns)."""
        return self.n, self.n

    def matmat(self, x) -> np.ndarray:
        """A x; x of shape (n, k), the result too. MoaoError: another shape, or an entry that is not finite."""
        return self._product(self._columns("x", x, (2,)))

    def matvec(self, x) -> np.ndarray:
        """A x; x of shape (n,) or (n, 1), the result too. MoaoError: another shape, or an entry that is not finite."""
        v = self._columns("x", x, (1, 2))
        if v.ndim == 2 and v.shape[1] != 1:
            raise MoaoError("x has the shape %s: one column is expected" % (v.shape,))
        return self._product(v.reshape(self.n, 1)).reshape(v.shape)

    rmatvec, rmatmat = matvec, matmat  # symmetric

    def __matmul__(self, x):
        return self.matvec(x) if np.ndim(x) == 1 else self.matmat(x)

    def _columns(self, name, x, ndim=(1, 2)):
        v = _real(name, x, ndim)
        if v.shape[0] != self.n:
            raise MoaoError("%s has %d rows: the matrix is of order %d" % (name, v.shape[0], self.n))
        return v

    def operator(self):
        """A as a scipy.sparse.linalg.LinearOperator, shape (n, n). MoaoError where scipy is not installed."""
        return _linear_operator(self.n, self.matvec, self.matmat)


def _linear_operator(n, matvec, matmat):
    try:
        from scipy.sparse.linalg import LinearOperator
    except ImportError:
        raise MoaoError("a LinearOperator needs scipy: install it") from None
    return LinearOperator((n, n), matvec=matvec, rmatvec=matvec, matmat=matmat, rmatmat=matmat, dtype=np.float64)


class _Layout:
    """Order of the rows and tile boundaries; freed with the last matrix that uses it."""

    def __init__(self, n, tile, points):
        self.c, lib = c.Layout(), c.library()
        if points is None:
            lib.tlr_layout_plain(n, tile, byref(self.c))
        else:
            lib.tlr_layout_cloud(points.shape[1], n, points.ctypes.data, tile, byref(self.c))
        self._own()

    def _own(self):
        self.order = np.ctypeslib.as_array(self.c.perm, (self.c.n,)).copy()
        weakref.finalize(self, c.library().tlr_layout_free, byref(self.c))


def _close(lib, device, close, pointer):
    with device.lock:
        close(pointer)


def _points(points, most) -> np.ndarray:
    at = _real("points", points, (1, 2))
    at = at.reshape(len(at), -1)
    if not 1 <= at.shape[1] <= most or len(at) == 0:
        raise MoaoError("points has the shape %s: n points with 1 to %d coordinates are expected" % (at.shape, most))
    return np.ascontiguousarray(at)


class TileLowRank(_Operator):
    """A symmetric matrix in tiles, those off the diagonal as products U V^T of few columns (docs/tlr.md).

    Made by from_dense, from_points or from_entries. Usable where scipy takes a matrix with matvec (scipy.sparse.linalg.cg).

    tau: the largest Frobenius norm of what is dropped of a tile, in the units of an entry. tile: rows of a tile; None: about
    2 sqrt(n), 32 to 512. Attributes: n, shape, bytes (stored), bytes_dense (of a triangle in double precision), statistics().
    """

    def __init__(self, device, layout, options, entries):
        """For from_dense, from_points and from_entries. entries(rows, columns): a block."""
        self._device, self._lib, self._layout, self._options = device, device.lib, layout, options
        self._pointer, failure = c_void_p(), []
        order = layout.order

        def fill(_, i0, ni, j0, nj, a, lda):
            try:
                block = np.asfortranarray(entries(order[i0:i0 + ni], order[j0:j0 + nj]), dtype=np.float64)
                if block.shape != (ni, nj):
                    raise MoaoError("entries() returned the shape %s: (%d, %d) is expected" % (block.shape, ni, nj))
                device.copy(a, 8 * lda, block.ctypes.data, 8 * ni, 8 * ni, nj)
                return c.OK
            except BaseException as e:  # nothing may pass through the library
                failure.append(e)
                return c.INPUT
        with device.lock:
            try:
                self._lib.tlr_build(device.be, device.ctx, byref(layout.c), None, c.FILL(fill), None, byref(options),
                                    byref(self._pointer))
            except MoaoError:
                if failure:
                    raise failure[0] from None
                raise
        self._own()

    def _own(self):
        weakref.finalize(self, _close, self._lib, self._device, self._lib.tlr_close, self._pointer)
        self.n, self.tau = int(self._layout.c.n), self._options.tau
        self.bytes, self.bytes_dense = (int(self.statistics()[k]) for k in ("bytes", "bytes_dense"))

    def save(self, path) -> None:
        """Write the matrix to a file for load(). MoaoError (IO): it cannot be written."""
        with self._device.lock:
            self._lib.tlr_save(self._pointer, os.fsencode(path))

    @classmethod
    def from_dense(cls, a, tau: float, tile: Optional[int] = None, points=None, device: str = "cpu") -> "TileLowRank":
        """Compress a dense symmetric matrix of shape (n, n).

        points: None (rows stay in their order), or the places of the rows, shape (n,) or (n, 1 to 3): rows near each other
        come into one tile, which compresses much better. MoaoError: not square, not symmetric, not finite.
        """
        a = _symmetric(a)
        return cls.from_entries(lambda i, j: a[np.ix_(i, j)], len(a), tau, tile, points, device)

    @classmethod
    def from_points(cls, points, kernel: Callable[[np.ndarray], np.ndarray], tau: float, nugget: float = 0.0,
                    tile: Optional[int] = None, device: str = "cpu") -> "TileLowRank":
        """Covariances of points, plus `nugget` on the diagonal; the whole matrix never exists.

        points: shape (n,) or (n, 1 to 3). kernel: a moao.gp.Kernel, whose entries the device computes (fastest; its own nugget is
        added), or a function of an array of distances, in the units of the points, that returns an array of its shape
        (matern(length, nu)). nugget: in the units of the kernel. MoaoError: bad shapes, a value that is not finite.
        """
        at, nugget = _points(points, 3), _positive("nugget", nugget, zero=True)
        if _is_kernel(kernel):
            return cls._from_kernel(at, _kernel(kernel, at.shape[1], nugget), _positive("tau", tau), _tile(len(at), tile), device)

        def entries(i, j):
            square = sum((at[i, d][:, None] - at[j, d]) ** 2 for d in range(at.shape[1]))
            value = np.asarray(kernel(np.sqrt(square)))
            if value.shape != square.shape:
                raise MoaoError("kernel() returned the shape %s: %s is expected" % (value.shape, square.shape))
            return value + nugget * (i[:, None] == j)
        return cls.from_entries(entries, len(at), tau, tile, at, device)

    @classmethod
    def _from_kernel(cls, at, kernel, tau, tile, device):
        a = object.__new__(cls)
        lengths = [kernel.length[0]] * 3 if kernel.length[1] == 0 else list(kernel.length)
        a._device, a._pointer, a._options = c.device(device), c_void_p(), c.TlrOptions(tau=tau, cut=-1)
        a._lib, dim = a._device.lib, at.shape[1]
        a._layout = _Layout(len(at), tile, np.ascontiguousarray(at / np.array(lengths[:dim])))
        with a._device.lock:
            a._lib.tlr_from_points(a._device.be, a._device.ctx, byref(a._layout.c), byref(kernel), dim, at.ctypes.data, byref(a._options),
                                   byref(a._pointer))
        a._own()
        return a

    @classmethod
    def from_entries(cls, entries: Callable[[np.ndarray, np.ndarray], np.ndarray], n: int, tau: float,
                     tile: Optional[int] = None, points=None, device: str = "cpu") -> "TileLowRank":
        """A symmetric matrix of order n from a function: entries(rows, columns) gets two arrays of indices and returns that block,
        shape (len(rows), len(columns)). points: as for from_dense. What the function raises, passes through."""
        tau = _positive("tau", tau)
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise MoaoError("n is %s: an order of at least 1 is expected" % (n,))
        tile = _tile(n, tile)
        at = None if points is None else _points(points, 3)
        if at is not None and len(at) != n:
            raise MoaoError("points has %d rows: the matrix is of order %d" % (len(at), n))
        return cls(c.device(device), _Layout(n, tile, at), c.TlrOptions(tau=tau, cut=-1), entries)

    def statistics(self) -> dict:
        """tiles (off the blocks on the diagonal), lowrank, dense and empty ones, mean rank (a dense tile counts as its order), p90 and
        largest rank of lowrank tiles, bytes, bytes_dense."""
        s = c.TlrStatistics()
        self._lib.tlr_statistics(self._pointer, byref(s))
        return {"tiles": s.tiles, "lowrank": s.lowrank, "dense": s.dense, "empty": s.empty, "rank_mean": s.mean, "rank_p90": s.p90,
                "rank_max": s.most, "bytes": s.bytes, "bytes_dense": s.bytes_dense}

    def ranks(self) -> np.ndarray:
        """Ranks of the tiles, shape (tile rows, tile columns), -1: dense. Zero above the diagonal, -1 in the blocks on it."""
        nt = self._layout.c.nt
        made = np.zeros((nt, nt), int)
        for i in range(nt):
            for k in range(i + 1):
                tile = self._lib.tlr_tile_at(self._pointer, i, k)
                made[i, k] = tile.contents.rank if tile and tile.contents.kind != 2 else -1
        return made

    def _product(self, x):
        y = np.empty_like(x)
        if x.shape[1]:
            turned = np.ascontiguousarray(x[self._layout.order].T)
            with c.Memory(self._device) as m:
                dx, dy = m.put(turned), m.room(turned.nbytes)
                self._lib.tlr_apply(self._pointer, b"L", b"N", x.shape[1], 1.0, dx, self.n, 0.0, dy, self.n)
                y[self._layout.order] = m.get(dy, turned.shape, np.float64).T
        return y

    def cholesky(self) -> "TileLowRankFactor":
        """The factor L of A = L L^T, compressed with the same tau. MoaoError (NUMERIC): the matrix, as compressed, is not positive
        definite; a smaller tau or a nugget helps where the exact one is."""
        return TileLowRankFactor(self)


class TileLowRankFactor:
    """The Cholesky factor of a TileLowRank matrix, by its cholesky(). Attributes: n, bytes."""

    def __init__(self, a: TileLowRank):
        self._device, self._lib, self._layout, self._pointer = a._device, a._lib, a._layout, c_void_p()
        source = c.TlrSource(layout=ctypes.addressof(a._layout.c), a=a._pointer)
        with self._device.lock:
            self._lib.tlr_factor(self._device.be, self._device.ctx, byref(source), b"L", byref(a._options), byref(c.TlrRescue()),
                                 byref(self._pointer), None)
        self._own()

    def _own(self):
        weakref.finalize(self, _close, self._lib, self._device, self._lib.tlr_close, self._pointer)
        s = c.TlrStatistics()
        self._lib.tlr_statistics(self._pointer, byref(s))
        self.n, self.bytes = int(self._layout.c.n), int(s.bytes)

    def save(self, path) -> None:
        """Write the factor to a file for load(). MoaoError (IO): it cannot be written."""
        with self._device.lock:
            self._lib.tlr_save(self._pointer, os.fsencode(path))

    _columns = _Operator._columns

    def solve(self, b) -> np.ndarray:
        """A^-1 b; b of shape (n,) or (n, k), the result too. MoaoError: another shape, or an entry that is not finite."""
        v = self._columns("b", b)
        two = v.reshape(self.n, -1) if v.size else v
        x = np.empty_like(two)
        if two.size:
            turned = np.ascontiguousarray(two[self._layout.order].T)
            with c.Memory(self._device) as m:
                d = m.put(turned)
                self._lib.tlr_solve(self._pointer, b"L", b"A", two.shape[1], d, self.n)
                x[self._layout.order] = m.get(d, turned.shape, np.float64).T
        return x.reshape(v.shape)

    def logdet(self) -> float:
        """Natural logarithm of the determinant of A as factored."""
        value = c_double()
        with self._device.lock:
            self._lib.tlr_logdet(self._pointer, byref(value))
        return value.value

    def rcond(self) -> float:
        """Estimate of the reciprocal condition of A in the 1-norm, nearly always within a factor of 9."""
        value = c_double()
        with self._device.lock:
            self._lib.tlr_condition(self._pointer, byref(value))
        return value.value

    def inverse(self):
        """A^-1 as a scipy.sparse.linalg.LinearOperator, for use as a preconditioner. MoaoError where scipy is not installed."""
        return _linear_operator(self.n, self.solve, self.solve)


def _is_hierarchical(path) -> bool:
    try:
        with open(path, "rb") as f:
            return f.read(8) == b"MOAOHIER"
    except OSError:  # the library says what is wrong
        return False


def _load_hierarchical(path, device):
    dev, pointer, info = c.device(device), c_void_p(), c.HierInfo()
    with dev.lock:
        dev.lib.hier_restore(dev.be, dev.ctx, os.fsencode(path), byref(pointer))
        dev.lib.hier_describe(pointer, byref(info))
    h = object.__new__(Hss if info.kind == HSS else H2)
    h._device, h._lib, h._pointer, h.n = dev, dev.lib, pointer, info.rows
    h._own()
    if isinstance(h, Hss):
        h._factored = not math.isnan(info.rcond)
    return h


def load(path, device: str = "cpu"):
    """The TileLowRank matrix, TileLowRankFactor, Hss (with its factor) or H2 matrix that save() wrote, bit for bit. MoaoError: IO, the
    file cannot be read; INPUT, it is damaged, cut short, of another version or no such file."""
    if _is_hierarchical(path):
        return _load_hierarchical(path, device)
    dev, layout = c.device(device), _Layout.__new__(_Layout)
    layout.c, pointer, factor, tau = c.Layout(), c_void_p(), ctypes.c_bool(), c_double()
    with dev.lock:
        dev.lib.tlr_load(dev.be, dev.ctx, os.fsencode(path), byref(layout.c), byref(pointer), byref(factor), byref(tau))
    layout._own()
    a = object.__new__(TileLowRankFactor if factor.value else TileLowRank)
    a._device, a._lib, a._layout, a._pointer, a._options = dev, dev.lib, layout, pointer, c.TlrOptions(tau=tau.value, cut=-1)
    a._own()
    return a


class _Hierarchical(_Operator):
    """What HSS and H2 matrices share: made of points and a kernel; products."""

    kind = HSS

    def __init__(self, points, kernel="exponential", length: float = 1.0, tol: float = 1e-8, device: str = "cpu"):
        self._at = _points(points, 3)
        if not _is_kernel(kernel) and kernel not in KERNELS:
            raise MoaoError("kernel=%r: expected \"exponential\", \"gaussian\" or a moao.gp.Kernel" % (kernel,))
        length, tol = _positive("length", length), _positive("tol", tol)
        self._device = c.device(device)
        self._lib, self.n, self._source, self._pointer = self._device.lib, len(self._at), c.HierSource(), c_void_p()
        with self._device.lock:
            if _is_kernel(kernel):
                self._lib.hier_kernel_open(self._device.be, self._device.ctx, byref(_kernel(kernel, self._at.shape[1])), self._at.shape[1],
                                           self.n, self._at.ctypes.data, byref(self._source))
            else:
                self._lib.hier_points_open(self._device.be, self._device.ctx, KERNELS[kernel], length, self._at.shape[1], self.n,
                                           self._at.ctypes.data, byref(self._source))
            weakref.finalize(self, _close, self._lib, self._device, self._lib.hier_points_close, byref(self._source))
            self._lib.hier_open(self._device.be, self._device.ctx, byref(self._source),
                                byref(c.HierOptions(kind=self.kind, type=c.DOUBLE, tol=tol)), byref(self._pointer))
        self._own()

    def _own(self):
        weakref.finalize(self, _close, self._lib, self._device, self._lib.hier_close, self._pointer)
        info = self._info()
        self._order = np.ctypeslib.as_array(info.order, (self.n,)).copy() if info.order else np.arange(self.n)

    def _info(self):
        info = c.HierInfo()
        self._lib.hier_describe(self._pointer, byref(info))
        return info

    bytes = property(lambda self: self._info().bytes, doc="Bytes of the format, its factor included.")
    rank_max = property(lambda self: self._info().rank_max, doc="Largest rank of a block.")
    levels = property(lambda self: self._info().levels, doc="Levels of the tree.")

    def save(self, path):
        """Into a file, for load(): the matrix, and the factor where there is one. MoaoError (IO): it cannot be written."""
        with self._device.lock:
            self._lib.hier_save(self._pointer, os.fsencode(path))

    def _product(self, x):
        return self._through(x, lambda m, d, k: self._apply(m, d, k))

    def _apply(self, m, d, k):
        size = self._lib.hier_workspace(self._pointer, b"L", k)
        to = m.room(8 * self.n * k)
        self._lib.hier_apply(self._pointer, b"L", b"N", b"A", k, 1.0, d, self.n, 0.0, to, self.n, m.room(size), size)
        return to

    def _through(self, x, work):
        """Columns in the tree's order on the device, what `work` makes of them, and back."""
        y = np.empty_like(x)
        if x.shape[1]:
            turned = np.ascontiguousarray(x[self._order].T)
            with c.Memory(self._device) as m:
                y[self._order] = m.get(work(m, m.put(turned), x.shape[1]), turned.shape, np.float64).T
        return y


class Hss(_Hierarchical):
    """Covariances of points as a hierarchically semiseparable matrix: products, factor and solves (docs/hierarchical.md).

    points: shape (n,) or (n, 1 to 3). kernel: a moao.gp.Kernel (Matern of any nu, squared or powered exponential, a length for each
    coordinate; its variance and nugget are in the matrix, and `length` is not used), or "exponential", exp(-distance / length), or
    "gaussian", exp(-distance^2 / (2 length^2)); length in the units of the points. tol: absolute error of an entry (rms) that is aimed at.
    Attributes: n, shape, bytes, rank_max, levels, rcond (NaN before factor()). MoaoError: bad shapes or values, or (MEMORY) a
    tolerance that needs ranks beyond the bound.
    """

    _factored = False

    @classmethod
    def from_dense(cls, a, tol: float = 1e-8, points=None, device: str = "cpu") -> "Hss":
        """Compress a dense symmetric matrix of shape (n, n). points: None (rows stay in their order), or the places of the rows,
        shape (n,) or (n, 1 to 3), by which they are ordered. MoaoError: not square, not symmetric, not finite, or (MEMORY) a
        tolerance that needs ranks beyond the bound."""
        a, tol = _symmetric(a), _positive("tol", tol)
        at = None if points is None else _points(points, 3)
        if at is not None and len(at) != len(a):
            raise MoaoError("points has %d rows: the matrix is of order %d" % (len(at), len(a)))
        h = cls.__new__(cls)
        h._device = c.device(device)
        h._lib, h.n, h._pointer = h._device.lib, len(a), c_void_p()
        with h._device.lock:  # of a symmetric matrix rows are columns
            a = np.ascontiguousarray(a)
            h._lib.hss_from_dense(h._device.be, h._device.ctx, h.n, a.ctypes.data, h.n, 0 if at is None else at.shape[1],
                                  None if at is None else at.ctypes.data, byref(c.HierOptions(type=c.DOUBLE, tol=tol)),
                                  byref(h._pointer))
        h._own()
        return h

    rcond = property(lambda self: self._info().rcond, doc="Estimated reciprocal condition of the factor in the 1-norm.")

    def factor(self, shift: float = 0.0) -> "Hss":
        """Factor A + shift I (shift: in the units of the kernel) for solve(). Returns self. MoaoError (NUMERIC): singular."""
        if not np.isscalar(shift) or not math.isfinite(shift):
            raise MoaoError("shift is %s: a finite number is expected" % (shift,))
        with self._device.lock:
            self._factored = False
            self._lib.hier_factor(self._pointer, float(shift))
            self._factored = True
        return self

    def solve(self, b) -> np.ndarray:
        """(A + shift I)^-1 b; b of shape (n,) or (n, k), the result too. MoaoError: no factor() before, another shape, an entry
        that is not finite."""
        if not self._factored:
            raise MoaoError("solve() needs a factor: call factor(shift) first")
        v = self._columns("b", b)
        return self._through(v.reshape(self.n, -1) if v.size else v.reshape(self.n, 0), self._solve).reshape(v.shape)

    def inverse(self):
        """(A + shift I)^-1 as a scipy.sparse.linalg.LinearOperator, after factor(shift). MoaoError where scipy is not installed."""
        return _linear_operator(self.n, self.solve, self.solve)

    def _solve(self, m, d, k):
        size = self._lib.hier_solve_workspace(self._pointer, k)
        self._lib.hier_solve(self._pointer, b"N", k, d, self.n, m.room(size), size)
        return d


class H2(_Hierarchical):
    """Covariances of points as an H2 matrix: products in a time that grows as n, in two and three dimensions as well
    (docs/hierarchical.md). Arguments, attributes and errors as for Hss; there is no factor."""

    kind = 3                                          # moao_hier_kind


# --- batches ---------------------------------------------------------------------------------------------------------------------

def _batch(what, a):
    """(count, m, n, type of the library, of numpy, the matrices column-major)."""
    a = _host("a", a)
    if a.ndim != 3:
        raise MoaoError("a has the shape %s: (batch, m, n) is expected" % (a.shape,))
    if a.dtype.kind not in "fiub":
        raise MoaoError("a has numbers of type %s: real numbers are expected" % a.dtype)
    if min(a.shape[1:]) > MOST:
        raise MoaoError("%s: min(m, n) is %d, at most %d" % (what, min(a.shape[1:]), MOST))
    dtype = np.dtype(np.float32 if a.dtype == np.float32 else np.float64)
    return a.shape + (c.SINGLE if dtype == np.float32 else c.DOUBLE, dtype, np.ascontiguousarray(a.transpose(0, 2, 1), dtype=dtype))


def _mat(base, ld, columns):
    return c.BatchMatrix(base, ld * columns, None, max(1, ld), None)


def _work(m, device, op, kind, count, rows, cols, k):
    table = device.lowrank()
    size = ctypes.CFUNCTYPE(c.N, ctypes.c_int, ctypes.c_int, c.I, c.I, c.I, c.I)(table.workspace)(op, kind, count, rows, cols, k)
    return table, m.room(size), size


def _check(what, m, info, count):
    """Raise what the first matrix that failed says."""
    values = m.get(info, (count,), np.int32)
    for b in np.flatnonzero(values)[:1]:
        v = int(values[b])
        text = {-2: "the rotations did not converge", -3: "the tolerance is not known to be met with `most` columns: give more"}.get(v)
        text = text or ("column %d holds a NaN or an infinity" % (v - 1) if v > 0 else "info %d" % v)
        error = MoaoError("%s: matrix %d of the batch: %s" % (what, b, text))
        error.status = "NUMERIC"
        raise error


def svd(a, device: str = "cpu") -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Singular value decomposition of a batch, a of shape (batch, m, n): u (batch, m, k), s (batch, k) descending,
    vt (batch, k, n), k = min(m, n), at most 512; a[b] = u[b] * s[b] @ vt[b]. One-sided Jacobi: small singular values are accurate
    relative to themselves. float32 stays float32, all else is float64. MoaoError: another shape, too large, a NaN or an infinity
    (which matrix).
    """
    count, m, n, kind, dtype, columns = _batch("svd", a)
    k, dev = min(m, n), c.device(device)
    if count * k == 0:
        return tuple(np.zeros((count,) + shape, dtype) for shape in ((m, k), (k,), (k, n)))
    with c.Memory(dev) as mem:
        da, size = mem.put(columns), dtype.itemsize * count
        s, u, v, info = mem.room(size * k), mem.room(size * m * k), mem.room(size * n * k), mem.room(4 * count)
        table, work, lwork = _work(mem, dev, c.GESVJ, kind, count, m, n, 0)
        dev.call("gesvj", dev.ctx, kind, b"U", b"U", None, count, c.BatchSize(m), c.BatchSize(n), _mat(da, m, n), _mat(s, k, 1),
                 _mat(u, m, k), _mat(v, n, k), None, info, work, lwork, table=table,
                 types=(c.P, ctypes.c_int, c.C, c.C, c.P, c.I) + (c.BatchSize,) * 2 + (c.BatchMatrix,) * 4 + (c.P,) * 3 + (c.N,))
        _check("svd", mem, info, count)
        left = mem.get(u, (count, k, m), dtype).transpose(0, 2, 1)
        return left, mem.get(s, (count, k), dtype), mem.get(v, (count, k, n), dtype)


def qr(a, device: str = "cpu") -> Tuple[np.ndarray, np.ndarray]:
    """QR factors of a batch, a of shape (batch, m, n): q (batch, m, k) with orthonormal columns, r (batch, k, n) upper triangular
    with a diagonal of at least 0, k = min(m, n), at most 512. Types and errors as for svd."""
    count, m, n, kind, dtype, columns = _batch("qr", a)
    k, dev = min(m, n), c.device(device)
    if count * k == 0:
        return np.zeros((count, m, k), dtype), np.zeros((count, k, n), dtype)
    with c.Memory(dev) as mem:
        da, r, info = mem.put(columns), mem.room(dtype.itemsize * count * k * n), mem.room(4 * count)
        table, work, lwork = _work(mem, dev, c.QR, kind, count, m, n, 0)
        dev.call("qr", dev.ctx, kind, b"Q", count, c.BatchSize(m), c.BatchSize(n), _mat(da, m, n), _mat(r, k, n), info, work,
                 lwork, table=table,
                 types=(c.P, ctypes.c_int, c.C, c.I) + (c.BatchSize,) * 2 + (c.BatchMatrix,) * 2 + (c.P, c.P, c.N))
        _check("qr", mem, info, count)
        q = mem.get(da, (count, n, m), dtype)[:, :k]
        return q.transpose(0, 2, 1), mem.get(r, (count, n, k), dtype).transpose(0, 2, 1)


def ara(a, tol: float, most: Optional[int] = None, relative: bool = True, seed: int = 0, device: str = "cpu"):
    """Adaptive randomized approximation of a batch, a of shape (batch, m, n): u (batch, m, most), v (batch, n, most), ranks (batch,)
    with norm(a[b] - u[b] @ v[b].T) <= tol norm(a[b]) in the Frobenius norm, or <= tol in the units of a where not relative. u has
    orthonormal columns; columns beyond a matrix's rank are zero. most: largest rank, None: min(m, n); at most 512. A relative
    tolerance below 3e-7 (float32: 1e-3) is verified by further samples: give `most` 16 more than the rank. Types as for svd.
    MoaoError: as for svd, or the tolerance needs more than `most` columns (which matrix).
    """
    count, m, n, kind, dtype, columns = _batch("ara", a)
    tol = _positive("tol", tol)
    most = min(m, n) if most is None else most
    if not isinstance(most, (int, np.integer)) or not min(1, m, n) <= most <= MOST:
        raise MoaoError("most is %s: a number of columns, 1 to %d, is expected" % (most, MOST))
    dev, most = c.device(device), int(most)
    if count * m * n == 0:
        return np.zeros((count, m, most), dtype), np.zeros((count, n, most), dtype), np.zeros(count, np.int64)
    cut = c.Cut(tol=tol, kind=b"R" if relative else b"A", norm=b"F", most=most)
    with c.Memory(dev) as mem:
        da, size = mem.put(columns), dtype.itemsize * count * most
        u, v, rank, info = mem.room(size * m), mem.room(size * n), mem.room(8 * count), mem.room(4 * count)
        table, work, lwork = _work(mem, dev, c.ARA, kind, count, m, n, most)
        dev.call("ara", dev.ctx, kind, b"L", byref(cut), seed, count, c.BatchSize(m), c.BatchSize(n), _mat(da, m, n),
                 _mat(u, m, most), _mat(v, n, most), rank, info, work, lwork, table=table,
                 types=(c.P, ctypes.c_int, c.C, c.P, ctypes.c_uint64, c.I) + (c.BatchSize,) * 2 + (c.BatchMatrix,) * 3
                 + (c.P,) * 3 + (c.N,))
        _check("ara", mem, info, count)
        ranks = mem.get(rank, (count,), np.int64)
        kept = np.arange(most)[None, :, None] < ranks[:, None, None]
        left, right = (np.where(kept, mem.get(p, (count, most, rows), dtype), dtype.type(0)).transpose(0, 2, 1)
                       for p, rows in ((u, m), (v, n)))
        return left, right, ranks
