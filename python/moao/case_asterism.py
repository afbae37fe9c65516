"""The choice of guide stars by `moao asterism`, with tables in and out."""
import hashlib
import json
import os
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from astropy.table import Table

from . import case_tables
from .asterism import Asterisms
from .command import csv_text, write_whole
from .process import check_finished, find_program, run_program
from .progress import Shown
from .reading import MoaoError

OPTIONS = ("want", "limit", "radius", "apart", "most", "keep", "order", "refine", "full", "sample", "greedy")
MAGNITUDES = ("magnitude", "mag")


def _as_written(catalogue: Table) -> Tuple[List[Tuple[Any, ...]], Table]:
    """(rows for the program, the table itself): name, x and y or ra and dec, magnitude; empty where there is none."""
    t = catalogue
    names = {n.lower(): n for n in t.colnames}
    magnitude = next((names[n] for n in MAGNITUDES if n in names), None)
    if magnitude is None:
        raise MoaoError("asterism: the catalogue has no column magnitude: rename the one of the band to use")
    place = ("x", "y") if "x" in names and "y" in names else ("ra", "dec")
    if not all(p in names for p in place):
        raise MoaoError("asterism: the catalogue has no columns x and y, or ra and dec; it has %s" % ", ".join(t.colnames))
    lower = Table({p: t[names[p]] for p in place})
    if place[0] == "ra":
        where = [case_tables._degrees(lower, p, p == "ra", "asterism") for p in place]
    else:
        where = [case_tables._numbers(lower, p, "arcsec", "asterism") for p in place]
    mags = np.ma.filled(np.ma.asarray(getattr(t[magnitude], "value", t[magnitude])).astype(float), np.nan)
    label = [str(v) for v in t[names["name"]]] if "name" in names else ["star %d" % (i + 1) for i in range(len(t))]
    rows: List[Tuple[Any, ...]] = [("name",) + place + ("magnitude",)]
    for i in range(len(t)):
        if np.isfinite(where[0][i]) and np.isfinite(where[1][i]):
            rows.append((label[i], repr(float(where[0][i])), repr(float(where[1][i])), repr(float(mags[i])) if np.isfinite(mags[i]) else ""))
    t = Table(t, copy=True)
    if "name" not in names:
        t.add_column(label, index=0, name="name")
    return rows, t


def _words(options: Dict[str, Any]) -> List[str]:
    words: List[str] = []
    for name, value in options.items():
        if name not in OPTIONS:
            raise MoaoError("asterism: no option %s, expected one of %s" % (name, ", ".join(OPTIONS)))
        if value is None or value is False:
            continue
        words.append("--" + name)
        if value is not True:
            words.append(",".join(str(v) for v in value) if isinstance(value, (list, tuple)) else str(value))
    return words


def search(case, catalogue: Any, choose: int, options: Dict[str, Any], ranks: int, folder: Optional[str], progress: Shown) -> Table:
    """As Case.asterism says."""
    from .case import Case
    words, own = case._words()
    stars = None
    if isinstance(catalogue, (str, os.PathLike)):
        path = os.fspath(catalogue)
    else:
        rows, stars = _as_written(case_tables.as_table(catalogue, "asterism"))
        path = os.path.join(case._own_folder(), "catalogue.csv")
        write_whole(path, csv_text(rows))
        own = own + [path]
    more = ["--choose", str(choose)] + _words(options)
    if folder is None:
        with open(path, "rb") as f:
            folder = case._stamp_folder() + "-" + hashlib.sha1(json.dumps(more).encode() + f.read()).hexdigest()[:6]
    os.makedirs(os.path.dirname(os.path.abspath(folder)), exist_ok=True)
    case._started(["asterism"] + words + ["--stars", path] + more + ["-n", str(int(ranks)), "-o", os.fspath(folder), "-q"], own, progress, folder)
    found = Asterisms(folder)
    t = found.table
    t.meta.update(folder=folder, want=found.want, field=found.field, stars=stars if stars is not None else found.field)
    winner = os.path.join(folder, "winner.yaml")
    if os.path.exists(winner):
        t.meta["winner"] = Case(winner)
    return t
