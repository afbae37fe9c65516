"""Values of parameters: Python's and astropy's as the program reads them, and nested ones by their keys."""
import json
import numbers
import re
from typing import Any, Dict, List, Tuple, Union

import numpy as np

from .reading import MoaoError

UNITS = {"m": "m", "deg": "deg", "arcsec": "arcsec", "mas": "mas", "s": "s", "ms": "ms", "um": "um", "nm": "nm", "m/s": "m / s",
         "Hz": "Hz", "arcsec2": "arcsec2", "e-": "electron", "ph/m2/s": "ph / (m2 s)", "B": "byte"}
STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")


def unit_of_word(word: str):
    """astropy's unit of a unit of the program, None where it has none."""
    from astropy import units as u
    return u.Unit(UNITS[word]) if word in UNITS else None


def arcsec_of(value: Any) -> float:
    """An angle of effective parameters [arcsec]: a number, or a text with a unit, as the program writes the star of a ring or a target
    by ra and dec when no number of arcsec is exactly that."""
    if isinstance(value, str):
        from astropy import units as u
        return float(u.Quantity(value).to_value("arcsec"))
    return float(value)


def plain(value: Any, key: str) -> Any:
    """A value in what JSON has: quantities become texts with a unit that the program knows, arrays lists."""
    if value is None:
        raise MoaoError("%s: None is no value; del case[%r] takes a setting back" % (key, key))
    if hasattr(value, "unit") and hasattr(value, "value") and value.unit is not None and not isinstance(value, str):
        return _quantity(value, key)
    if isinstance(value, np.ndarray):
        return [plain(v, key) for v in value.tolist()]
    if isinstance(value, np.generic):
        return plain(value.item(), key)
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        if not np.isfinite(value) and not value > 0:
            raise MoaoError("%s: %r is no value" % (key, value))
        return float(value) if np.isfinite(value) else "inf"
    if isinstance(value, dict):
        return {str(k): plain(v, "%s.%s" % (key, k)) for k, v in value.items()}
    if isinstance(value, (list, tuple, range, set)):
        return [plain(v, key) for v in value]
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    raise MoaoError("%s: %r of type %s is no value of a parameter" % (key, value, type(value).__name__))


def _quantity(value, key: str) -> Any:
    from astropy import units as u
    for word in ("m", "arcsec", "s", "m/s", "Hz", "arcsec2", "ph/m2/s", "e-", "B"):
        unit = unit_of_word(word)
        if value.unit == u.dimensionless_unscaled or value.unit == u.mag:
            return plain(value.value, key)
        if value.unit.is_equivalent(unit):
            numbers_ = value.to(unit).value
            return "%r %s" % (float(numbers_), word) if np.ndim(numbers_) == 0 else ["%r %s" % (v, word) for v in np.ravel(numbers_).tolist()]
    raise MoaoError("%s: the unit %s is none of a parameter" % (key, value.unit))


def text(value: Any, key: str) -> str:
    """The value behind key= on a command line: flow YAML, of which JSON is a part."""
    return json.dumps(plain(value, key), ensure_ascii=False)


def steps(key: str) -> List[Union[str, int]]:
    """sensors[2].magnitude as ["sensors", 2, "magnitude"]."""
    found, at = [], 0
    while at < len(key):
        m = STEP.match(key, at)
        if not m:
            raise MoaoError("%s: expected a key such as telescope.zenith or sensors[0].magnitude" % key)
        found.append(m.group(1) if m.group(1) is not None else int(m.group(2)))
        at = m.end()
    return found


def value_at(tree: Any, key: str) -> Tuple[bool, Any]:
    """(whether it is there, value) of a key in nested parameters; LIST.*.key gives a list of those that have it."""
    for n, step in enumerate(steps(key)):
        if step == "*" and isinstance(tree, list):
            rest = ".".join(str(s) for s in steps(key)[n + 1:])
            found = [value_at(item, rest) if rest else (True, item) for item in tree]
            return any(there for there, _ in found), [v for there, v in found if there]
        if isinstance(step, int) and isinstance(tree, list) and step < len(tree):
            tree = tree[step]
        elif isinstance(tree, dict) and step in tree:
            tree = tree[step]
        else:
            return False, None
    return True, tree


def units_of(text_: str) -> Dict[str, str]:
    """{last word of a key: unit} as the comments of effective.yaml state them."""
    found: Dict[str, str] = {}
    for line in text_.splitlines():
        m = re.match(r"\s*(?:- )?(\w+):.*# (\S+)$", line)
        if m:
            found.setdefault(m.group(1), m.group(2))
    return found
