"""Profiles of turbulence as tables: CSV, FITS, ECSV, VOTable and plain text, as moao-stars reads them.

Columns are found by the names that they commonly have: height, Cn2 dh or fractions, wind, outer scale, time. Their units are those that
the file states, or that `units` does. Rows of one time are a profile. The result is a parameter file with `atmosphere` alone, for use
behind any case.
"""
import math
import re

import numpy as np

from ..catalogue import Catalogue, parse_unit, read_catalogue
from ..reading import MoaoError, reading
from .common import Imported

NAMES = {
    "height": ("height", "altitude", "alt", "h", "z", "heights", "altitudes", "layer_height", "layer_altitude", "cn2heights"),
    "cn2": ("cn2dh", "cn2_dh", "cn2*dh", "cn2.dh", "cn2 dh", "jn", "cn2", "cn2_profile"),
    "fraction": ("fraction", "weight", "fractional_r0", "fractionalr0", "fractionnalr0", "frac", "fractions", "weights", "cn2weights", "percent"),
    "wind_speed": ("wind_speed", "windspeed", "wind speed", "speed", "v", "wind", "ws"),
    "wind_direction": ("wind_direction", "winddirection", "wind direction", "direction", "winddir", "wind_dir", "dir", "wd"),
    "l0": ("l0", "outer_scale", "outerscale", "outer scale"),
    "time": ("time", "t", "seconds", "time_s"),
}
UNITS = {"height": "m", "wind_speed": "m/s", "wind_direction": "deg", "l0": "m", "time": "s"}
K500 = 0.423 * (2 * math.pi / 500e-9) ** 2  # r0^(-5/3) of Cn2 dh at 500 nm
ANCIENT = 1e-2  # a Cn2 dh above that is none [m^(1/3)]


def _parted(name):
    """(name, unit or None) of a column's name such as Cn2dh [m^(1/3)]."""
    m = re.fullmatch(r"(.*?\S)\s*[\[(](.*)[\])]\s*", name)
    return (m.group(1), m.group(2)) if m else (name.strip(), None)


def _find(names, what):
    low = {_parted(n)[0].lower(): n for n in names}
    return next((low[n] for n in NAMES[what] if n in low), None)


def _unit(table, column, units):
    text = units.get(column, table.units.get(column) or _parted(column)[1])
    if text is None:
        return None
    unit = parse_unit(text.replace("^(", "**(").replace("^", "**"))
    if unit is None:
        raise MoaoError("%s: column %s: %s is no unit" % (table.path, column, text))
    return unit


def _numbers(table, cells, column):
    try:
        v = np.array([float(str(c).strip()) if str(c).strip() else np.nan for c in cells], float)
    except ValueError as e:
        raise MoaoError("%s: column %s: %s" % (table.path, column, e)) from None
    bad = np.flatnonzero(~np.isfinite(v))
    if len(bad):
        raise MoaoError("%s: %s: column %s has no number" % (table.path, table.place(int(bad[0])), column))
    return v


def _strengths(out, table, column, values, heights, unit):
    """r0^(-5/3) [m^(-5/3)] at 500 nm of Cn2 dh [m^(1/3)], or of Cn2 [m^(-2/3)] over the layers between the middles of the heights."""
    from astropy import units as u
    if unit is None and "dh" not in column.lower():
        raise MoaoError("%s: column %s: Cn2 dh or Cn2? Say its unit: --unit '%s=m^(1/3)' or '%s=m^(-2/3)'" % (table.path, column, column, column))
    if unit is None or unit.is_equivalent(u.m ** (1 / 3)):
        dh = values if unit is None else values * unit.to(u.m ** (1 / 3))
    elif unit.is_equivalent(u.m ** (-2 / 3)):
        if len(heights) < 2 or (np.diff(heights) <= 0).any():
            raise MoaoError("%s: column %s: Cn2 in m^(-2/3) needs two heights or more that rise" % (table.path, column))
        edges = np.concatenate(([heights[0]], (heights[1:] + heights[:-1]) / 2, [heights[-1]]))
        dh = values * unit.to(u.m ** (-2 / 3)) * np.diff(edges)
        out.note("Cn2 was integrated between the middles of the heights")
    else:
        raise MoaoError("%s: column %s: the unit %s is neither m^(1/3), of Cn2 dh, nor m^(-2/3), of Cn2" % (table.path, column, unit))
    if (dh < 0).any() or dh.max() > ANCIENT or not dh.sum() > 0:
        raise MoaoError("%s: column %s: Cn2 dh from %g to %g m^(1/3) is no turbulence" % (table.path, column, dh.min(), dh.max()))
    return K500 * dh


class _Commented(Catalogue):
    """Text whose names of columns stand in the last comment above the numbers."""

    def __init__(self, path):
        super().__init__(path)
        from astropy.table import Table
        with reading(path, "the table"):
            self.table = Table.read(path, format="ascii.commented_header", header_start=-1)
        self.names = list(self.table.colnames)

    def columns(self, names):
        return {n: np.asarray(self.table[n]) for n in names}


def _table(path):
    try:
        return read_catalogue(path)
    except MoaoError as e:
        if "names of columns" not in str(e):
            raise
    return _Commented(path)


class _Columns:
    """The columns of a table by what they are, in moao's units."""

    def __init__(self, path, units):
        from astropy import units as u
        self.table = table = _table(path)
        for column in units:
            if column not in table.names:
                raise MoaoError("%s: --unit %s: no such column; it has %s" % (path, column, ", ".join(table.names)))
        self.names = {what: _find(table.names, what) for what in NAMES}
        if self.names["height"] is None or (self.names["cn2"] is None and self.names["fraction"] is None):
            raise MoaoError("%s: expected columns of height, and of Cn2 dh or fraction, by name; it has %s" % (path, ", ".join(table.names) or "none"))
        used = [n for n in self.names.values() if n is not None]
        cells = table.columns(used)
        self.v = {what: _numbers(table, cells[n], n) for what, n in self.names.items() if n is not None}
        self.units = {what: _unit(table, n, units) for what, n in self.names.items() if n is not None}
        for what, word in UNITS.items():
            if self.units.get(what) is not None:
                try:
                    self.v[what] = self.v[what] * self.units[what].to(u.Unit(word))
                except u.UnitsError as e:
                    raise MoaoError("%s: column %s: %s" % (path, self.names[what], e)) from None


def _layers(out, c, rows):
    """(layers, whether they have strengths) of the rows of one time."""
    heights = c.v["height"][rows]
    layers = {"altitude": [float(h) for h in heights]}
    strong = "cn2" in c.v
    if strong:
        s = _strengths(out, c.table, c.names["cn2"], c.v["cn2"][rows], heights, c.units["cn2"])
        layers["strength"] = [float("%.7g" % x) for x in s]
    else:
        layers["fraction"] = [float(x) for x in c.v["fraction"][rows]]
    for what, key in (("l0", "L0"), ("wind_speed", "wind_speed"), ("wind_direction", "wind_direction")):
        if what in c.v:
            layers[key] = [float(x) for x in c.v[what][rows]]
    return layers, strong


def read_profile(path, seeing=None, r0=None, units=None):
    """An Imported with atmosphere.profiles. seeing [arcsec] or r0 [m] at 500 nm and zenith: of tables with fractions required, else they
    scale the strengths. units: {column: unit} where the file states none."""
    out = Imported(path, "profile")
    c = _Columns(path, units or {})
    times = c.v.get("time", np.zeros(len(c.v["height"])))
    profiles = []
    for t in np.unique(times):
        layers, strong = _layers(out, c, np.flatnonzero(times == t))
        if not strong and seeing is None and r0 is None:
            raise MoaoError("%s: fractions alone: say --seeing ARCSEC or --r0 METRES, at 500 nm and zenith" % path)
        p = {"time": float(t)} if "time" in c.v else {}
        p.update({"seeing": seeing} if seeing is not None else {"r0": r0} if r0 is not None else {})
        profiles.append(dict(p, layers=layers))
    if c.units.get("height") is None:
        out.note("heights were taken for m above the pupil at zenith, as the file states no unit")
    if "wind_direction" in c.v:
        out.note("wind directions were taken for those to which the layers move, counterclockwise from x")
    elif "wind_speed" in c.v:
        out.note("no wind directions: all layers move along x")
    used = set(c.names.values())
    for name in c.table.names:
        if name not in used:
            out.leave("column " + name, "not known as one of a profile")
    out.parameters["atmosphere"] = {"profiles": profiles}
    return out
