"""The table of a sweep (sweep.fits or sweep.csv): the swept keys, then figures of merit for each wavelength."""
import os
import re

import numpy as np
from astropy.io import fits
from astropy.table import Table

from .command import csv_value
from .reading import MoaoError, check_fits, number, reading, size_of, text_of, whole

MERIT = re.compile(r"^(mean_|max_|min_|best_|worst_)?(strehl|sr|ee|fwhm|variance|var|rms|wfe)(_|\d|$)", re.I)
WAVE = re.compile(r"[_ @]*(?:at_)?(\d+(?:[.p]\d+)?)_?um", re.I)
OTHER = ("task", "run", "row", "index", "number", "status", "folder", "directory", "dir", "overrides", "elapsed",
         "elapsed_s", "exit", "seconds")


def read_cells(path):
    """sweep.csv as a table."""
    table = Table.read(path, format="ascii.csv")
    for name in table.colnames:
        if table[name].dtype.kind == "U":
            table[name] = [csv_value(str(v)) for v in np.ma.filled(table[name], "")]
    return table


def read_texts(table):
    """sweep.fits: names of columns and texts as they were typed."""
    for name in table.colnames:
        if table[name].dtype.kind in "SU":
            table[name] = [text_of(v) for v in table[name]]
        if text_of(name) != name:
            table.rename_column(name, text_of(name))
    return table


class Sweep:
    """keys: {name: values} of those that vary, numbers or text; merits: {(name, wavelength or None): values}."""

    def __init__(self, folder):
        self.folder = os.fspath(folder)
        self.keys, self.merits, self.units = {}, {}, {}
        table = self._table()
        with reading(self.path, "the table"):
            self._read(*table)
        if not self.merits or not self.keys:
            raise MoaoError("%s: %s" % (self.path, "no finished run has a figure of merit" if not self.merits
                                        else "no key has two values"))

    def _read(self, table, waves, nkeys):
        names = table.colnames
        first = next((i for i, n in enumerate(names) if MERIT.match(n)), len(names))
        first = nkeys if nkeys is not None else first
        done = np.zeros(len(table), bool)
        for name in names[first:]:
            column = table[name]
            if name.lower() in OTHER or column.dtype.kind not in "fiu":
                continue
            values = np.ma.filled(np.ma.asarray(column).astype(float), np.nan).reshape(len(table), -1)
            for i in range(values.shape[1]):
                self._add_merit(name, values[:, i], waves[i] if values.shape[1] == len(waves) and len(waves) > 0
                                and values.shape[1] > 1 else None, str(column.unit or ""))
                done |= np.isfinite(values[:, i])
        for name in names[:first]:
            values = np.asarray(table[name])
            if name.lower() not in OTHER and values.ndim == 1 and len(np.unique(values[done])) > 1:
                self.keys[name] = values[done]
                self.units[name] = str(table[name].unit or "")
        self.merits = {k: v[done] for k, v in self.merits.items() if np.isfinite(v).any()}

    def _add_merit(self, name, values, wave, unit):
        found = WAVE.search(name)
        if wave is None and found:
            wave = float(found.group(1).replace("p", "."))
            name = (name[:found.start()] + name[found.end():]).strip("_ ")
        self.merits[name, wave] = values
        self.units[name] = unit

    def _table(self):
        """(table, wavelengths, number of keys or None)."""
        for name in ("sweep.fits", "sweep.csv"):
            self.path = os.path.join(self.folder, name)
            if os.path.exists(self.path):
                break
        else:
            raise MoaoError("%s: no sweep.fits and no sweep.csv there" % self.folder)
        with reading(self.path, "the table"):
            if self.path.endswith(".csv"):
                size_of(self.path)
                return read_cells(self.path), [], None
            check_fits(self.path)
            with fits.open(self.path, memmap=False) as f:
                hdu = next(h for h in f if isinstance(h, fits.BinTableHDU))
                waves = [f[0].header[k] for k in ("LAMBDA%d" % (i + 1) for i in range(99)) if k in f[0].header]
                if "WAVELENGTHS" in f:
                    waves = list(f["WAVELENGTHS"].data["LAMBDA"])
                nkeys = hdu.header.get("NKEYS", f[0].header.get("NKEYS"))
                return read_texts(Table.read(hdu)), [number(w, "a wavelength in um") for w in waves], \
                    nkeys if nkeys is None else whole(nkeys, "keyword NKEYS")

    @property
    def names(self):
        """Figures of merit, whatever the wavelength."""
        return list(dict.fromkeys(n for n, _ in self.merits))

    def waves(self, name):
        return [w for n, w in self.merits if n == name]


def positions(values):
    """(positions on an axis, labels or None): numbers stand for themselves, text is counted."""
    if values.dtype.kind in "fiu":
        return values.astype(float), None
    labels = list(dict.fromkeys(str(v) for v in values))
    return np.array([labels.index(str(v)) for v in values], float), labels
