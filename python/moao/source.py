"""PSFs by one call, for programs that want images rather than runs: moao.psf(x, y, wavelength, case="mine.yaml").

What was computed once is kept, in this process and in a folder of the user ($XDG_CACHE_HOME/moao, ~/.cache/moao), under a name that
follows from every parameter; a changed parameter file is computed anew.
"""
import collections
import hashlib
import os
import shutil
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from .case import Case, Source, _stamp
from .process import find_program
from .psf import Psf
from .reading import MoaoError

MOST = 512  # images kept in this process
ACROSS = 9  # targets across a field whose nodes are kept
_kept: "collections.OrderedDict[Tuple[Any, ...], List[Psf]]" = collections.OrderedDict()


def cache_folder() -> str:
    """Where images are kept between processes."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "moao", "psf")


def clear_cache() -> None:
    """Forget all images, of this process and in the folder."""
    _kept.clear()
    shutil.rmtree(cache_folder(), ignore_errors=True)


def psf(x: Union[float, Sequence[float]], y: Union[float, Sequence[float]], wavelength: Union[float, str], case: Union[Case, Source] = "demo",
        ranks: Optional[int] = None, gpu: Union[str, bool] = "auto", settings: Optional[Dict[str, Any]] = None,
        cache: Optional[str] = None, field: Optional[float] = None) -> Union[Psf, List[Psf]]:
    """The long-exposure PSF of a case in a direction (x, y) [arcsec] at a wavelength [um], or integrated over a band ("K"), as a Psf;
    of several directions a list.

    case: a Case, a file, the name of a shipped case, or nested parameters; its own targets and wavelengths do not count. settings: keys
    that are set on it. cache: folder of what is kept, instead of the user's. Directions of one call are computed together, which
    takes little more time than one. field: side of a square [arcsec] round the centre that is computed once, its nodes kept
    (output.field); images of any direction in it are interpolated then, within targets.tolerance, without another run.
    MoaoError when the case cannot be run, or a direction lies outside the field."""
    one = np.ndim(x) == 0 and np.ndim(y) == 0
    xs, ys = np.broadcast_arrays(np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(y, float)))
    if not (np.isfinite(xs).all() and np.isfinite(ys).all()) or xs.ndim != 1 or not len(xs):
        raise MoaoError("expected directions x and y in arcsec, not %r and %r" % (x, y))
    made = (case if isinstance(case, Case) else Case(case)).copy()
    made.update(dict(settings or {}))
    if field is None:
        made.targets = list(zip(xs.tolist(), ys.tolist()))
    else:
        if (np.maximum(abs(xs), abs(ys)) > field / 2).any():
            raise MoaoError("a direction lies outside the field of %g arcsec round the centre" % field)
        made["targets"] = {"grid": {"nx": ACROSS, "ny": ACROSS, "width": float(field), "height": float(field)}}
        made["output.field"] = True
    wanted = wavelength if isinstance(wavelength, str) else float(wavelength)
    made.update({"output.psf": "long"})
    made.update({"psf.bands": [wanted]} if isinstance(wanted, str) else {"psf.wavelengths": [wanted]})
    key = _key(made, xs, ys, gpu)
    if key not in _kept:
        text = made.text
        name = hashlib.sha1((text + str(gpu)).encode()).hexdigest()[:20]
        run = made.run(ranks=ranks, gpu=gpu, folder=os.path.join(cache or cache_folder(), name), progress=None)
        _kept[key] = list(run.psfs(wavelength=wanted)) if field is None else run.psf_at(xs, ys, wavelength=wanted)
        while sum(len(v) for v in _kept.values()) > MOST and len(_kept) > 1:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key][0] if one else list(_kept[key])


def _key(case: Case, xs: np.ndarray, ys: np.ndarray, gpu: Any) -> Tuple[Any, ...]:
    """What the images follow from, without asking the program."""
    tables = tuple((what, tuple(map(str, t.colnames)), tuple(map(str, t.as_array().tolist()))) for what, t in sorted(case._tables().items()))
    return (find_program(), tuple((f, str(_stamp(f))) for f in case.files), tuple(case._set.items()), tables, tuple(xs), tuple(ys), str(gpu))
