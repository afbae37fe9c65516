"""What `moao asterism` left in its folder: the table of asterisms, the field, the coverage of fields."""
import json
import os

import numpy as np
from astropy.io import ascii as plain

from .command import csv_value
from .results import MoaoError, _reason


def read_csv(path, text=()):
    """A table, with empty cells as NaN; columns named in `text` and all star_N stay words, empty ones ""."""
    try:
        with open(path, encoding="utf-8") as f:
            names = f.readline().strip().split(",")
        words = {n: [plain.convert_numpy(str)] for n in names if n in text or n.startswith("star_")}
        t = plain.read(path, format="csv", converters=words, fill_values=[("", "nan")])
    except (OSError, ValueError, IndexError) as e:
        raise MoaoError("%s: cannot be read: %s" % (path, _reason(e))) from None
    for n in words:
        t[n] = [csv_value(str(v)) for v in np.ma.filled(t[n], "")]
    return t.filled(np.nan) if t.has_masked_values else t


def read_facts(folder):
    path = os.path.join(folder, "asterism.json")
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError) as e:
        raise MoaoError("%s: cannot be read: %s" % (path, _reason(e))) from None


def is_larger(want):
    """Whether a larger value of a wanted figure is the better one."""
    return want.split()[1] != "rms"


class Asterisms:
    """One field: `table` (place, figure, full, full_run, guess, rms_nm, star_1...), `field` (kind, name, x, y, ra, dec, magnitude,
    chosen), `facts`."""

    def __init__(self, folder):
        self.folder = os.fspath(folder)
        self.facts = read_facts(self.folder)
        self.table = read_csv(os.path.join(self.folder, "asterism.csv"), ("full_run",))
        self.field = read_csv(os.path.join(self.folder, "field.csv"), ("kind", "name"))

    @property
    def want(self):
        """The figure in words."""
        return self.facts["want"]

    @property
    def position_angle(self):
        return self.facts.get("position_angle")

    def of_kind(self, *kinds):
        return self.field[np.isin(np.asarray(self.field["kind"], str), kinds)]

    def stars(self, place=1):
        """Names of the stars of one place."""
        row = self.table[place - 1]
        return [str(row[n]) for n in self.table.colnames if n.startswith("star_")]

    def best_run(self):
        """The folder of the full run with the best figure, None when there is none."""
        full = np.asarray(self.table["full"], float) * (1 if self.larger else -1)
        if not np.isfinite(full).any():
            return None
        path = os.path.join(self.folder, "place-%d" % (1 + int(np.nanargmax(full))))
        return path if os.path.exists(os.path.join(path, "maps.fits")) else None

    @property
    def larger(self):
        """Whether a larger figure is the better one."""
        return is_larger(self.want)


class Coverage:
    """A list of fields: `table` (field, ra, dec, candidates, chosen, figure, rms_nm, star_1...), `facts`."""

    def __init__(self, folder):
        self.folder = os.fspath(folder)
        self.facts = read_facts(self.folder)
        self.table = read_csv(os.path.join(self.folder, "coverage.csv"), ("field",))

    def distribution(self):
        """(figure, share of the fields that reach it): sorted from the best figure on."""
        v = np.asarray(self.table["figure"], float)
        v = v[np.isfinite(v)]
        v = np.sort(v)[::-1] if is_larger(self.facts["want"]) else np.sort(v)
        return v, np.arange(1, len(v) + 1) / max(len(self.table), 1)
