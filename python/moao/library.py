"""The library of linear algebra, libmoao_linalg, by ctypes: where it is, its structures (src/linalg/include/moao), devices and
their memory. What users call is in moao.linalg.
"""
import ctypes
import os
import threading
from ctypes import (CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t,
                    c_uint, c_uint64, c_void_p)
from typing import List

import numpy as np

from .reading import MoaoError

NAME = "libmoao_linalg.so"
STATUS = ("OK", "STOPPED", "INPUT", "MEMORY", "NUMERIC", "IO", "INTERNAL")
OK, INPUT = 0, 2
DOUBLE, SINGLE = 0, 1                           # moao_backend_type
QR, GESVJ, ARA = 0, 1, 3                        # moao_batch_op
POINTER_SIZE = ctypes.sizeof(c_void_p)


class Table(Structure):
    """moao_backend."""
    _fields_ = [("name", c_char_p), ("size", c_size_t)] + [(n, c_void_p) for n in (
        "devices describe memory identify open close stream sync wait_for open_low_priority alloc release alloc_host release_host "
        "copy workspace mirror gather gemm trsm trmm symm syrk syr2k potrf potri poti trtri lauum potrs posv host_workspace "
        "trsm_host trmm_host multi_workspace trsm_multi trmm_multi batch batch_complex fp16 lowrank sparse toeplitz split integer hier matcov psf group mapped").split()]


class LowRankTable(Structure):
    """moao_backend_lowrank."""
    _fields_ = [("size", c_size_t)] + [(n, c_void_p) for n in "workspace geqrf orgqr ormqr qr gesvj rsvd ara recompress".split()]


class BatchMatrix(Structure):
    """moao_batch_mat."""
    _fields_ = [("base", c_void_p), ("stride", c_int64), ("ptrs", c_void_p), ("ld", c_int64), ("lds", c_void_p)]


class BatchSize(Structure):
    """moao_batch_dim."""
    _fields_ = [("n", c_int64), ("each", c_void_p)]


class Cut(Structure):
    """moao_batch_cut."""
    _fields_ = [("tol", c_double), ("tol_each", c_void_p), ("kind", c_char), ("norm", c_char), ("most", c_int64),
                ("most_each", c_void_p), ("or_nothing", c_bool), ("later", c_int64), ("sweeps_most", c_int), ("sweeps", c_void_p)]


class Layout(Structure):
    """moao_tlr_layout."""
    _fields_ = [("n", c_int64), ("nt", c_int64), ("first", POINTER(c_int64)), ("perm", POINTER(c_int64))]


class Points(Structure):
    """moao_tlr_points."""
    _fields_ = [("groups", c_int64), ("start", c_void_p), ("x", c_void_p), ("y", c_void_p), ("each", c_int64)]


class TlrOptions(Structure):
    """moao_tlr_options."""
    _fields_ = [("tau", c_double), ("rank", c_int64), ("cut", c_int64), ("width", c_int64), ("seed", c_uint64), ("memory", c_size_t),
                ("fp32", c_bool), ("fp16", c_bool), ("mixed", c_bool), ("terms", c_int), ("host", c_bool), ("room", c_size_t),
                ("workspace", c_void_p), ("timed", c_bool), ("parts", c_int), ("distributed", c_bool), ("norms", c_bool)]


class TlrTile(Structure):
    """moao_tlr_tile."""
    _fields_ = [("kind", c_int), ("rank", c_int32), ("fp16", c_int32), ("dropped", c_double), ("u", c_int64), ("v", c_int64),
                ("u_fp16", c_int64), ("v_fp16", c_int64)]


class TlrStatistics(Structure):
    """moao_tlr_stats."""
    _fields_ = [("order", c_int64), ("tiles", c_int64), ("empty", c_int64), ("lowrank", c_int64), ("dense", c_int64),
                ("histogram", c_int64 * 16), ("most", c_int64), ("p90", c_int64), ("mean", c_double), ("columns", c_int64),
                ("fp16", c_int64), ("dense_fp16", c_int64), ("bytes", c_double), ("bytes_dense", c_double), ("here", c_double),
                ("dropped", c_double)]


class TlrSource(Structure):
    """moao_tlr_source."""
    _fields_ = [("layout", c_void_p), ("fill", c_void_p), ("arg", c_void_p), ("a", c_void_p), ("members", c_void_p),
                ("own_rows", c_bool)]


class TlrRescue(Structure):
    """moao_tlr_rescue."""
    _fields_ = [("retries", c_int), ("shift", c_double), ("dense", c_bool)]


class HierSource(Structure):
    """moao_hier_source."""
    _fields_ = [("from", c_void_p), ("rows", c_int64), ("cols", c_int64), ("symmetric", c_bool), ("mirrored", c_bool),
                ("dim", c_int)] + [(n, c_void_p) for n in "at detail block gather values times apart".split()]


class HierOptions(Structure):
    """moao_hier_options."""
    _fields_ = [("kind", c_int), ("type", c_int), ("half", c_bool), ("tol", c_double), ("leaf", c_int), ("rank", c_int),
                ("samples", c_int), ("seed", c_uint64), ("eta", c_double), ("mean_split", c_bool), ("lean", c_bool),
                ("order", c_int), ("verify", c_int), ("together", c_int)]


class HierInfo(Structure):
    """moao_hier_info."""
    _fields_ = [("kind", c_int), ("rows", c_int64), ("cols", c_int64), ("bytes", c_size_t), ("bytes_dense_part", c_size_t),
                ("flops", c_double), ("rank_mean", c_int), ("rank_max", c_int), ("levels", c_int), ("error", c_double),
                ("worst", c_double), ("rcond", c_double), ("order", POINTER(c_int64))]


class GpKernel(Structure):
    """moao_gp_kernel."""
    _fields_ = [("family", c_int), ("variance", c_double), ("length", c_double * 3), ("shape", c_double), ("nugget", c_double)]


class GpOptions(Structure):
    """moao_gp_options."""
    _fields_ = [("method", c_int), ("mean", c_bool), ("tau", c_double), ("tile", c_int64), ("seed", c_uint64)]


class GpResult(Structure):
    """moao_gp_result."""
    _fields_ = [("kernel", GpKernel), ("likelihood", c_double), ("logdet", c_double), ("logdet_error", c_double),
                ("logdet_deviation", c_double), ("quadratic", c_double), ("mean", c_double), ("mean_deviation", c_double),
                ("gradient", c_double * 6), ("tau", c_double), ("bytes", c_double), ("bytes_dense", c_double)]


class GpFitOptions(Structure):
    """moao_gp_fit_options."""
    _fields_ = [("free", c_uint), ("low", POINTER(GpKernel)), ("high", POINTER(GpKernel)), ("most", c_int), ("tol", c_double),
                ("probes", c_int)]


class GpFitResult(Structure):
    """moao_gp_fit_result."""
    _fields_ = [("at", GpResult), ("covariance", c_double * 6 * 6), ("error", c_double * 6), ("evaluations", c_int), ("converged", c_bool)]


FILL = CFUNCTYPE(c_int, c_void_p, c_int64, c_int64, c_int64, c_int64, c_void_p, c_int64)
P, I, D, C, N = c_void_p, c_int64, c_double, c_char, c_size_t
FUNCTIONS = {  # name: (result, arguments); those that return a status are checked
    "moao_linalg_version": (c_int,),
    "moao_status_message": (c_char_p,),
    "moao_status_clear": (None,),
    "moao_backend_get": ("status", c_char_p, P),
    "moao_tlr_layout_points": ("status", P, I, c_int, P),
    "moao_tlr_layout_plain": ("status", I, I, P),
    "moao_tlr_layout_free": (None, P),
    "moao_tlr_build": ("status", P, P, P, P, FILL, P, P, P),
    "moao_tlr_close": (None, P),
    "moao_tlr_save": ("status", P, c_char_p),
    "moao_tlr_load": ("status", P, P, c_char_p, P, P, P, P),
    "moao_tlr_tile_at": (POINTER(TlrTile), P, I, I),
    "moao_tlr_statistics": (None, P, P),
    "moao_tlr_apply": ("status", P, C, C, I, D, P, I, D, P, I),
    "moao_tlr_factor": ("status", P, P, P, C, P, P, P, P),
    "moao_tlr_solve": ("status", P, C, C, I, P, I),
    "moao_tlr_logdet": ("status", P, P),
    "moao_tlr_condition": ("status", P, P),
    "moao_tlr_layout_cloud": ("status", c_int, I, P, I, P),
    "moao_gp_covariance": ("status", P, c_int, I, P, I, P, P, I),
    "moao_gp_open": ("status", P, P, c_int, I, P, P, P, P),
    "moao_gp_close": (None, P),
    "moao_gp_likelihood": ("status", P, P, c_bool, c_int, P),
    "moao_gp_fit": ("status", P, P, P, P),
    "moao_gp_predict": ("status", P, I, P, P, P, P),
    "moao_hier_kernel_open": ("status", P, P, P, c_int, I, P, P),
    "moao_tlr_from_points": ("status", P, P, P, P, c_int, P, P, P),
    "moao_hier_points_open": ("status", P, P, c_int, D, c_int, I, P, P),
    "moao_hier_points_close": (None, P),
    "moao_hier_open": ("status", P, P, P, P, P),
    "moao_hss_from_dense": ("status", P, P, I, P, I, c_int, P, P, P),
    "moao_hier_close": (None, P),
    "moao_hier_workspace": (N, P, C, I),
    "moao_hier_apply": ("status", P, C, C, C, I, D, P, I, D, P, I, P, N),
    "moao_hier_check": ("status", P, P, c_int, c_uint64, P, P),
    "moao_hier_factor": ("status", P, D),
    "moao_hier_solve_workspace": (N, P, I),
    "moao_hier_solve": ("status", P, C, I, P, I, P, N),
    "moao_hier_describe": (None, P, P),
    "moao_hier_save": ("status", P, c_char_p),
    "moao_hier_restore": ("status", P, P, c_char_p, P),
}


def places() -> List[str]:
    """Where the library is looked for, first to last; the last name is for the linker (LD_LIBRARY_PATH, ld.so.conf)."""
    up = os.path.dirname
    here = up(os.path.realpath(__file__))
    found = []
    if os.environ.get("MOAO"):  # the program that is asked for has its library in build/ or in PREFIX/lib
        beside = up(os.path.realpath(os.environ["MOAO"]))
        found += [os.path.join(beside, NAME), os.path.join(up(beside), "lib", NAME)]
    return found + [os.path.join(here, "program", "lib", NAME),               # a wheel
                    os.path.join(up(up(here)), "build", NAME),                # a clone
                    os.path.join(up(up(up(up(here)))), "lib", NAME),          # PREFIX/share/moao/python/moao
                    NAME]


def number_of(version: str) -> int:
    """MOAO_LINALG_VERSION of a version of the package: "0.3.0" is 300."""
    a, b, c = (int(w) for w in version.split("+")[0].split("."))
    return 10000 * a + 100 * b + c


class Library:
    """The functions of FUNCTIONS as methods without their prefix moao_; a status that is not OK raises MoaoError."""

    def __init__(self, path: str):
        from . import __version__
        try:
            self.dll = ctypes.CDLL(path)
            version = self.dll.moao_linalg_version()
        except (OSError, AttributeError) as e:
            raise MoaoError("%s cannot be loaded: %s" % (path, e)) from None
        if version != number_of(__version__):
            raise MoaoError("%s is of version %d.%d.%d, the package of version %s: install both from one build" % (
                path, version // 10000, version // 100 % 100, version % 100, __version__))
        self.path = path
        for name, (result, *arguments) in FUNCTIONS.items():
            f = getattr(self.dll, name)
            f.argtypes = arguments
            f.restype = c_int if result == "status" else result
            setattr(self, name[len("moao_"):], self.checked(f) if result == "status" else f)

    def checked(self, f):
        def call(*arguments):
            status = f(*arguments)
            if status != OK:
                self.fail(status)
        return call

    def fail(self, status: int):
        """Raise what a status and the library's message say."""
        text = (self.status_message() or b"").decode("utf-8", "replace")
        self.status_clear()
        name = STATUS[status] if 0 <= status < len(STATUS) else str(status)
        error = MoaoError(text or "the library returned status %s without a message" % name)
        error.status = name
        raise error


LOCK = threading.RLock()
LOADED = {}


def library() -> Library:
    """The library, loaded once. MoaoError where it is absent or of another version."""
    with LOCK:
        if "library" not in LOADED:
            looked = places()
            path = next((p for p in looked[:-1] if os.path.exists(p)), None)
            if path is None:
                try:
                    ctypes.CDLL(NAME)
                    path = NAME
                except OSError:
                    folders = ", ".join(os.path.dirname(p) for p in looked[:-1])
                    raise MoaoError("%s was not found: make install, or in a clone make to-install; looked in %s and where the "
                                    "linker does" % (NAME, folders)) from None
            LOADED["library"] = Library(path)
        return LOADED["library"]


class Device:
    """A backend and one context of it, used by one thread at a time."""

    def __init__(self, name: str):
        self.lib = library()
        table = POINTER(Table)()
        self.lib.backend_get(name.encode(), byref(table))
        self.be, self.table = ctypes.cast(table, c_void_p), table.contents
        if self.table.size != ctypes.sizeof(Table):
            raise MoaoError("%s belongs to another version: its table has %d bytes instead of %d" % (
                self.lib.path, self.table.size, ctypes.sizeof(Table)))
        self.name = self.table.name.decode()
        self.lock = threading.RLock()
        self.ctx = c_void_p()
        self.call("open", 0, None, byref(self.ctx), types=(c_int, P, P))

    def call(self, name, *arguments, types, table=None):
        """A function of the table that returns a status."""
        f = CFUNCTYPE(c_int, *types)(getattr(table or self.table, name))
        status = f(*arguments)
        if status != OK:
            self.lib.fail(status)

    def lowrank(self) -> LowRankTable:
        return ctypes.cast(self.table.lowrank, POINTER(LowRankTable)).contents

    def copy(self, to, ldd, source, lds, rows, cols):
        """Columns of so many bytes between host and device, done on return."""
        self.call("copy", self.ctx, to, ldd, source, lds, rows, cols, types=(P, P, I, P, I, I, I))
        self.call("sync", self.ctx, types=(P,))


DEVICES = {}


def device(name: str) -> Device:
    """The device of that name ("cpu", "gpu", "auto"), opened once in a process. MoaoError where there is none."""
    if name not in ("cpu", "gpu", "auto"):
        raise MoaoError("device=%r: expected \"cpu\", \"gpu\" or \"auto\"" % (name,))
    with LOCK:
        if name not in DEVICES:
            DEVICES[name] = Device(name)
        return DEVICES[name]


class Memory:
    """Memory of a device within a `with`; the device belongs to this thread until its end."""

    def __init__(self, where: Device):
        self.device, self.taken = where, []

    def __enter__(self):
        self.device.lock.acquire()
        return self

    def __exit__(self, *_):
        for p in self.taken:
            CFUNCTYPE(None, P, P)(self.device.table.release)(self.device.ctx, p)
        self.device.lock.release()

    def room(self, size: int) -> c_void_p:
        """So many bytes."""
        p = c_void_p()
        self.device.call("alloc", self.device.ctx, max(1, int(size)), byref(p), types=(P, N, P))
        self.taken.append(p)
        return p

    def put(self, array: np.ndarray) -> c_void_p:
        """The bytes of a contiguous array."""
        p = self.room(array.nbytes)
        if array.nbytes:
            self.device.copy(p, array.nbytes, array.ctypes.data, array.nbytes, array.nbytes, 1)
        return p

    def get(self, p: c_void_p, shape, dtype) -> np.ndarray:
        """A new array from memory of the device."""
        array = np.empty(shape, dtype)
        if array.nbytes:
            self.device.copy(array.ctypes.data, array.nbytes, p, array.nbytes, array.nbytes, 1)
        return array
