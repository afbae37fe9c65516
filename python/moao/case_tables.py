"""Guide stars and targets of a case as astropy tables, out of the parameters and into them.

A table of stars has a row for each sensor and a column for each of its keys; `direction` is x and y [arcsec]. A table of
targets has x, y [arcsec] and perhaps name. Columns of other names are the user's own: a run carries them through.
"""
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from astropy.table import Column, MaskedColumn, Table

from .case_values import arcsec_of, unit_of_word
from .reading import MoaoError

PLACES = ("x", "y", "ra", "dec", "name")
# of these a sensor has one: what the table gives takes the others' place
ONE_OF = (("magnitude", "photons", "noise_variance", "lgs_return"), ("frame_time", "frame_rate"), ("tiptilt_variance", "tiptilt_factor"))
OF_THE_STAR = ("name", "direction", "ring", "magnitude", "photons", "noise_variance", "spectral_type")  # not of its sensor
PAIRS = ("shift", "launch")


def _column(name: str, cells: Sequence[Any], unit: Optional[str]):
    missing = [c is None for c in cells]
    pair = name in PAIRS
    fill: Any = [np.nan, np.nan] if pair else next((type(c)() for c in cells if c is not None), 0.0)
    if not pair and any(isinstance(c, (int, float)) and not isinstance(c, bool) for c in cells if c is not None):
        fill = np.nan if any(missing) or any(isinstance(c, float) for c in cells) else 0
    data = [fill if gone else c for c, gone in zip(cells, missing)]
    kind = MaskedColumn if any(missing) else Column
    more = {"mask": [[m, m] for m in missing] if pair else missing} if any(missing) else {}
    return kind(data, name=name, unit=None if unit is None else unit_of_word(unit), **more)


def stars_table(sensors: List[Dict[str, Any]], units: Dict[str, str]) -> Table:
    """The sensors of effective parameters as a table."""
    t = Table()
    t["name"] = [str(s.get("name", "")) for s in sensors]
    t["type"] = [str(s["type"]) for s in sensors]
    for i, axis in enumerate("xy"):
        t[axis] = _column(axis, [arcsec_of(s["direction"][i]) for s in sensors], "arcsec")
    keys: List[str] = []
    for s in sensors:
        keys += [k for k in s if k not in keys and k not in ("name", "type", "direction")]
    for key in keys:
        t[key] = _column(key, [s.get(key) for s in sensors], units.get(key))
    return t


def grid_points(grid: Dict[str, Any]) -> List[Tuple[float, float]]:
    """Directions [arcsec] of a grid of targets; x runs fast."""
    nx, ny = int(grid["nx"]), int(grid.get("ny", grid["nx"]))
    width = float(grid.get("width", 0))
    cx, cy = grid.get("center", (0, 0))
    xs = np.linspace(-width / 2, width / 2, nx) if nx > 1 else np.zeros(1)
    height = float(grid.get("height", width))
    ys = np.linspace(-height / 2, height / 2, ny) if ny > 1 else np.zeros(1)
    return [(float(cx + x), float(cy + y)) for y in ys for x in xs]


def targets_table(targets: Dict[str, Any]) -> Table:
    """The targets of effective parameters as a table."""
    points = grid_points(targets["grid"]) if "grid" in targets else [(arcsec_of(x), arcsec_of(y)) for x, y in targets["list"]]
    t = Table()
    if targets.get("names"):
        t["name"] = [str(n) for n in targets["names"]]
    for i, axis in enumerate("xy"):
        t[axis] = Column([p[i] for p in points], unit="arcsec", dtype=float)
    return t


def as_table(rows: Any, what: str) -> Table:
    """A table of a table, a pandas frame, a list of dicts, or a list of (x, y)."""
    if isinstance(rows, Table):
        return Table(rows, copy=True)
    if hasattr(rows, "to_records"):
        return Table.from_pandas(rows)
    if isinstance(rows, dict):
        return Table(rows)
    rows = list(rows)
    if rows and all(isinstance(r, dict) for r in rows):
        return Table(rows=rows)
    try:
        points = np.asarray(rows, float).reshape(len(rows), 2)
    except (TypeError, ValueError):
        raise MoaoError("%s: expected a table, rows as dicts, or pairs (x, y) in arcsec" % what) from None
    return Table({"x": points[:, 0], "y": points[:, 1]})


def _numbers(t: Table, name: str, unit: str, what: str) -> np.ndarray:
    """A column as numbers in a unit; NaN where nothing is."""
    from astropy import units as u
    column = t[name]
    try:
        values = np.ma.filled(np.ma.asarray(getattr(column, "value", column)).astype(float), np.nan)
        if getattr(column, "unit", None) is not None:
            values = u.Quantity(values, column.unit).to(unit_of_word(unit) if unit != "deg" else u.deg).value
    except (TypeError, ValueError, u.UnitsError) as e:
        raise MoaoError("%s: column %s: %s" % (what, name, e)) from None
    return values


def _degrees(t: Table, name: str, hours: bool, what: str) -> np.ndarray:
    """RA or Dec of a column of numbers [deg, or its unit], or of texts, of which hh:mm:ss are hours."""
    from astropy.coordinates import Angle
    column = t[name]
    if getattr(column, "dtype", None) is not None and column.dtype.kind in "fiu":
        return _numbers(t, name, "deg", what)
    try:
        return np.array([Angle(str(c), "hourangle" if hours and ":" in str(c) else "deg").deg for c in column])
    except ValueError as e:
        raise MoaoError("%s: column %s: %s" % (what, name, e)) from None


def directions(t: Table, sky: Dict[str, Any], what: str) -> np.ndarray:
    """[row, 2] in arcsec, of x and y, or of ra and dec and the place of the field."""
    names = t.colnames
    if "x" in names and "y" in names:
        xy = np.column_stack([_numbers(t, axis, "arcsec", what) for axis in "xy"])
    elif "ra" in names and "dec" in names:
        if "ra" not in sky or "dec" not in sky:
            raise MoaoError("%s: ra and dec need the field's centre: case['sky.ra'] and case['sky.dec']" % what)
        from .sky import Pointing
        centre = Table({"ra": [str(sky["ra"])], "dec": [str(sky["dec"])]})
        field = Pointing(_degrees(centre, "ra", True, "sky")[0], _degrees(centre, "dec", False, "sky")[0],
                         float(sky.get("position_angle", 0)))
        xy = np.column_stack(field.to_field(_degrees(t, "ra", True, what), _degrees(t, "dec", False, what)))
    else:
        raise MoaoError("%s: expected columns x and y in arcsec, or ra and dec; this table has %s" % (what, ", ".join(names) or "none"))
    bad = np.flatnonzero(~np.isfinite(xy).all(axis=1))
    if len(bad):
        raise MoaoError("%s: row %d has no direction" % (what, bad[0] + 1))
    return xy


def _cell(column, i: int, unit: Optional[str], what: str) -> Any:
    """Cell i in the program's unit, None where nothing is."""
    from astropy import units as u
    value = column[i]
    if value is None or value is np.ma.masked or np.all(np.ma.getmaskarray(np.ma.asarray(value))):
        return None
    if isinstance(value, u.Quantity):
        value = value.value
    if getattr(column, "unit", None) is not None and unit:
        wanted = unit_of_word(unit)
        if wanted is not None and column.unit != wanted:
            try:
                value = u.Quantity(value, column.unit).to(wanted).value
            except u.UnitsError as e:
                raise MoaoError("%s: column %s: %s" % (what, column.name, e)) from None
    value = value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
    return None if isinstance(value, float) and np.isnan(value) else value


def _sensor(t: Table, i: int, xy: np.ndarray, known: Dict[str, Tuple[str, ...]], units: Dict[str, str], like: List[Dict[str, Any]],
            kind: str) -> Dict[str, Any]:
    what = "stars, row %d" % (i + 1)
    given = {}
    for name in t.colnames:
        if name in known.get(kind, ()) and name not in ("direction", "name", "type"):
            cell = _cell(t[name], i, units.get(name), what)
            if cell is not None:
                given[name] = cell
    first = next((s for s in like if s["type"] == kind), {})
    sensor = {k: v for k, v in first.items() if k not in OF_THE_STAR}
    for group in ONE_OF:
        if any(k in given for k in group):
            sensor = {k: v for k, v in sensor.items() if k not in group}
    name = str(t["name"][i]) if "name" in t.colnames and t["name"][i] is not np.ma.masked else ""
    sensor.update(given, type=kind, direction=[float(v) for v in xy])
    if name:
        sensor["name"] = name
    return sensor


def sensors_of(t: Table, now: List[Dict[str, Any]], known: Dict[str, Tuple[str, ...]], units: Dict[str, str],
               sky: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The sensors that a table of stars stands for. Without a column type its rows are natural stars, and the laser stars of
    `now` stay. What the table does not say of a sensor is as in the first one of its type in `now`."""
    if len(t) == 0:
        raise MoaoError("stars: the table has no row")
    xy = directions(t, sky, "stars")
    kept = [] if "type" in t.colnames else [s for s in now if s["type"] == "lgs"]
    made = []
    for i in range(len(t)):
        kind = str(t["type"][i]).strip() if "type" in t.colnames else "ngs"
        if kind not in ("ngs", "lgs"):
            raise MoaoError("stars, row %d: type %r, expected ngs or lgs" % (i + 1, kind))
        made.append(_sensor(t, i, xy[i], known, units, now, kind))
    return kept + made


def changed_cells(now: Table, before: Table, known: Dict[str, Tuple[str, ...]], units: Dict[str, str]) -> Optional[Dict[str, Any]]:
    """{"sensors[i].key": value} of the cells of a table of stars that were changed since it was handed out; None where rows,
    names of columns or missing cells have changed, which keys alone cannot say."""
    keys = [n for n in before.colnames if n not in own_columns(before, known["ngs"] + known["lgs"]).colnames]
    if len(now) != len(before) or any(n not in now.colnames for n in keys):
        return None
    new = [n for n in now.colnames if n not in before.colnames and n in known["ngs"] + known["lgs"]]
    if new:
        return None
    found: Dict[str, Any] = {}
    for i in range(len(now)):
        for name in keys:
            a, b = (_cell(t[name], i, units.get(name, "arcsec" if name in "xy" else None), "stars, row %d" % (i + 1)) for t in (now, before))
            if a == b:
                continue
            if a is None or name == "type":
                return None
            if name in "xy":
                found["sensors[%d].direction" % i] = [float(now[axis][i]) for axis in "xy"]
            else:
                found["sensors[%d].%s" % (i, name)] = a
    return found


def targets_of(t: Table, sky: Dict[str, Any]) -> Dict[str, Any]:
    """The parameters `targets` that a table stands for."""
    if len(t) == 0:
        raise MoaoError("targets: the table has no row")
    found: Dict[str, Any] = {"list": [[float(v) for v in row] for row in directions(t, sky, "targets")]}
    if "name" in t.colnames:
        found["names"] = ["" if n is np.ma.masked else str(n) for n in t["name"]]
    return found


def own_columns(t: Table, known: Sequence[str]) -> Table:
    """The columns that are the user's own; without any an empty table."""
    own = [n for n in t.colnames if n not in known and n not in PLACES and n != "type"]
    return t[own] if own else Table()  # an empty list would choose no row


def same(a: Table, b: Table) -> bool:
    """Whether two tables have the same cells."""
    if a.colnames != b.colnames or len(a) != len(b):
        return False
    for name in a.colnames:
        x, y = np.ma.asarray(getattr(a[name], "value", a[name])), np.ma.asarray(getattr(b[name], "value", b[name]))
        if (np.ma.getmaskarray(x) != np.ma.getmaskarray(y)).any():
            return False
        if x.dtype.kind == "f":
            x, y = (np.nan_to_num(np.ma.filled(v, 0).astype(float), nan=1e300) for v in (x, y))
        if not np.all(np.ma.filled(x == y, True)) or str(getattr(a[name], "unit", "")) != str(getattr(b[name], "unit", "")):
            return False
    return True
