"""PSFs by one call, for programs that want images rather than runs: moao.psf(x, y, wavelength, case="mine.yaml").

What was computed once is kept, in this process and in a folder of the user ($XDG_CACHE_HOME/moao, ~/.cache/moao), under a name that
follows from every parameter and from the program; what follows from a changed file is computed anew.
"""
import collections
import contextlib
import fcntl
import hashlib
import os
import shutil
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import lab
from .case import Case, Source, _stamp, _text_of
from .case_values import value_at
from .process import find_program
from .psf import Psf
from .reading import MoaoError
from .results import Run, read_yaml

MOST = 512  # images kept in this process
ACROSS = 9  # targets across a field whose nodes are kept
REDUCED = (False, True, "exposures", "slopes")
ASIDE = {"output.budget": "none", "compute.verify": "off"}  # no image follows from them
RESULTS = ("maps.fits", "psf.fits", "run.json")  # the last one is written last


class Images(NamedTuple):
    """What one call gave, and the files that its parameters name, as they were then."""
    psfs: List[Psf]
    files: Dict[str, Any]


_kept: "collections.OrderedDict[Tuple[Any, ...], Images]" = collections.OrderedDict()


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
        cache: Optional[str] = None, field: Optional[float] = None, reduced: Union[bool, str] = False, profile: int = 0) -> Union[Psf, List[Psf]]:
    """The long-exposure PSF of a case in a direction (x, y) [arcsec] at a wavelength [um], or integrated over a band ("K"), as a Psf;
    of several directions a list.

    case: a Case, a file, the name of a shipped case, or nested parameters; its own targets and wavelengths do not count. settings: keys
    that are set on it. cache: folder of what is kept, instead of the user's. Directions of one call are computed together, which
    takes little more time than one. field: side of a square [arcsec] round the centre that is computed once, its nodes kept
    (output.field); images of any direction in it are interpolated then, within targets.tolerance, without another run.

    reduced: another, faster computation, which Psf.reduced states. "exposures": one exposure in one profile (number `profile` of
    atmosphere.profiles) with a reconstructor of that profile; "slopes": slopes as differences between points, with light and spots of
    mean gradients; True: both. Otherwise the image is that of Case.run. Error budget and checks of the machine (output.budget, compute.verify), from which no image follows, are left out
    unless the case sets them. MoaoError when the case cannot be run, or a direction lies outside the field."""
    one = np.ndim(x) == 0 and np.ndim(y) == 0
    xs, ys = np.broadcast_arrays(np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(y, float)))
    if not (np.isfinite(xs).all() and np.isfinite(ys).all()) or xs.ndim != 1 or not len(xs):
        raise MoaoError("expected directions x and y in arcsec, not %r and %r" % (x, y))
    if reduced not in REDUCED:
        raise MoaoError("reduced is False, True, 'exposures' or 'slopes', not %r" % (reduced,))
    made = (case if isinstance(case, Case) else Case(case)).copy()
    made.update(dict(settings or {}))
    if field is None:
        made["targets"] = {"list": np.column_stack([xs, ys]).tolist()}
    else:
        if (np.maximum(abs(xs), abs(ys)) > field / 2).any():
            raise MoaoError("a direction lies outside the field of %g arcsec round the centre" % field)
        made["targets"] = {"grid": {"nx": ACROSS, "ny": ACROSS, "width": float(field), "height": float(field)}}
        made["output.field"] = True
    wanted = wavelength if isinstance(wavelength, str) else float(wavelength)
    made.update({"output.psf": "long"})
    made.update({"psf.bands": [wanted]} if isinstance(wanted, str) else {"psf.wavelengths": [wanted]})
    made.update({k: v for k, v in ASIDE.items() if not _says(made, k)})
    key = _key(made, xs, ys, gpu) + (reduced, profile)
    if key not in _kept or _stamps(_kept[key].files) != _kept[key].files:
        said = ""
        if reduced:
            made, said = _reduced(made, reduced, profile)
        run = _run(made, ranks, gpu, cache or cache_folder())
        images = list(run.psfs(wavelength=wanted)) if field is None else run.psf_at(xs, ys, wavelength=wanted)
        for p in images:
            p.reduced = said
        _kept[key] = Images(images, _stamps(_files(made.parameters)))
        while sum(len(v.psfs) for v in _kept.values()) > MOST and len(_kept) > 1:
            _kept.popitem(last=False)
    _kept.move_to_end(key)
    return _kept[key].psfs[0] if one else list(_kept[key].psfs)


def _locked(folder: str) -> int:
    """A folder, open and locked, and made where it is not there, or was removed while this process waited for it."""
    while True:
        os.makedirs(folder, exist_ok=True)
        try:
            at = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        with contextlib.suppress(OSError):  # where folders have no locks the program refuses one that is in use
            fcntl.flock(at, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(at), os.stat(folder)):
                return at
        os.close(at)


@contextlib.contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Of all processes that want the run in a folder, one at a time is here: the others wait and find it finished."""
    at = _locked(folder)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # nothing came of it
        os.close(at)


def _run(case: Case, ranks: Optional[int], gpu: Union[str, bool], folder: str) -> Run:
    """The run of that case in its own folder below this one: the finished one that is there already, unless a file that its parameters
    name has changed since it began."""
    program = find_program()
    if ranks is None:
        ranks = case.check().ranks or 1  # brings case.text along
    name = hashlib.sha1("\n".join([case.text, str(gpu), program, str(_stamp(program))]).encode()).hexdigest()[:20]
    there = os.path.join(folder, name)
    if not _is_finished(there, case):
        with _alone(there):
            if not _is_finished(there, case):
                return case.run(ranks=ranks, gpu=gpu, folder=there, overwrite=_is_changed(there, case), progress=None)
    return Run(there)


def _is_changed(there: str, case: Case) -> bool:
    """Whether a file that the parameters name has changed since the run began."""
    begun = _stamp(os.path.join(there, "effective.yaml"))
    return begun is not None and any(v is None or v[0] >= begun[0] for v in _stamps(_files(case.parameters)).values())


def _is_finished(there: str, case: Case) -> bool:
    """Whether the run is there as a whole, of files as they are."""
    return all(os.path.exists(os.path.join(there, n)) for n in ("effective.yaml",) + RESULTS) and not _is_changed(there, case)


def _reduced(case: Case, what: Union[bool, str], profile: int) -> Tuple[Case, str]:
    """(the case of the image, what it is in words)."""
    tree = case.parameters
    said, profiles = [], len(tree["atmosphere"]["profiles"])
    if what in (True, "exposures"):
        tree = dict(lab.one_exposure(tree, profile), output=tree["output"])
        said.append("one exposure, in profile %d of %d (from 0)" % (profile, profiles))
    if what in (True, "slopes"):
        for s in tree["sensors"]:
            lab.points(s)
        said.append("slopes between points")
    return Case(tree), "; ".join(said)


_trees: Dict[Tuple[str, str], Any] = {}


def _says(case: Case, key: str) -> bool:
    """Whether a key is set by the case or one of its files."""
    for path in case.files:
        at = path, str(_stamp(path))
        if at not in _trees:
            try:
                _trees[at] = read_yaml(_text_of(path))
            except Exception:  # for the program to say
                _trees[at] = {}
        if isinstance(_trees[at], dict) and value_at(_trees[at], key)[0]:
            return True
    return key in case._set


def _files(tree: Any) -> Iterator[str]:
    """Values that are names of files."""
    for v in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else []:
        if isinstance(v, str) and os.path.isfile(v):
            yield v
        else:
            yield from _files(v)


def _stamps(files: Any) -> Dict[str, Any]:
    return {f: _stamp(f) for f in files}


def _key(case: Case, xs: np.ndarray, ys: np.ndarray, gpu: Any) -> Tuple[Any, ...]:
    """What the images follow from, without asking the program."""
    tables = tuple((what, tuple(map(str, t.colnames)), tuple(map(str, t.as_array().tolist()))) for what, t in sorted(case._tables().items()))
    program = find_program()
    return (program, str(_stamp(program)), tuple((f, str(_stamp(f))) for f in case.files), tuple(case._set.items()), tables, tuple(xs), tuple(ys), str(gpu))
