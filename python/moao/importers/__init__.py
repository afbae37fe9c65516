"""Files of other programs as parameters of moao: `moao import FILE -o mine.yaml`, or moao.importers.read(path).

Each dialect is a module with a function that gives an Imported: nested parameters in the words of moao, notes on how they were
understood, and what was left out with the reason. Nothing is guessed silently.
"""
import os
import re

from ..reading import MoaoError, reading, size_of
from .common import Imported, to_yaml  # noqa: F401

LARGEST = 64 << 20  # bytes of a file of parameters


def _text(path):
    with reading(path, "the file"):
        if size_of(path) > LARGEST:
            raise ValueError("larger than any file of parameters")
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()


def dialect(path):
    """"tiptop", "pytomoao", "aot" or "profile" by name and content."""
    low = path.lower()
    if low.endswith((".fits", ".fit", ".fits.gz", ".fit.gz")):
        from .aot import is_aot
        if is_aot(path):
            return "aot"
    if low.endswith(".ini"):
        return "tiptop"
    if low.endswith((".yaml", ".yml")):
        if re.search(r"^(lgs_wfs_parameters|atmosphere_parameters)\s*:", _text(path), re.M):
            return "pytomoao"
        raise MoaoError("%s: YAML without lgs_wfs_parameters and atmosphere_parameters: no file of pyTomoAO" % path)
    return "profile"


def read(path, **options):
    """An Imported of a file. options: of profiles (seeing, r0, units), see moao.importers.profile."""
    path = os.fspath(path)
    kind = dialect(path)
    if kind == "profile":
        from .profile import read_profile
        return read_profile(path, **options)
    if any(v for v in options.values()):
        raise MoaoError("%s: seeing, r0 and units are options of profiles" % path)
    if kind == "aot":
        from .aot import read_aot
        return read_aot(path)
    if kind == "tiptop":
        from .tiptop import read_tiptop
        return read_tiptop(path, _text(path))
    from .pytomoao import read_pytomoao
    return read_pytomoao(path, _text(path))
