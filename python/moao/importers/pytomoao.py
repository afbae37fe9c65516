"""pyTomoAO's YAML: lgs_wfs_parameters, dm_parameters, atmosphere_parameters, lgs_asterism, noise_parameters, tomography_parameters.

Units there: m, km (altitudes of layers), arcsec, degrees; laser stars on a circle of radius radiusAst from x on.
"""
import math

from ..reading import MoaoError, reading
from ..results import read_yaml
from .common import Imported, with_defaults

ARCSEC = 180 * 3600 / math.pi


class Section:
    """A group of keys with messages that name them."""

    def __init__(self, path, tree, name):
        self.path, self.name = path, name
        self.keys = tree.get(name)
        if not isinstance(self.keys, dict):
            raise MoaoError("%s: %s: missing, expected a file of pyTomoAO" % (path, name), path, key=name)

    def fail(self, key, what):
        raise MoaoError("%s: %s.%s: %s" % (self.path, self.name, key, what), self.path, key="%s.%s" % (self.name, key))

    def number(self, key, default=None):
        v = self.keys.get(key, default)
        if isinstance(v, list) and v:
            v = v[0]
        if isinstance(v, str):  # YAML 1.1 takes 1e14 for text
            try:
                v = float(v)
            except ValueError:
                pass
        if isinstance(v, bool) or not isinstance(v, (int, float)) or not math.isfinite(v):
            self.fail(key, "missing, expected a number" if v is None else "%r, expected a number" % (v,))
        return float(v)

    def numbers(self, key, n):
        v = self.keys.get(key)
        if not isinstance(v, list) or len(v) != n or not all(isinstance(x, (int, float)) for x in v):
            self.fail(key, "expected a list of %d numbers" % n)
        return [float(x) for x in v]


def read_pytomoao(path, text):
    """An Imported of pyTomoAO's file. MoaoError with the key for what is missing or does not fit."""
    out = Imported(path, "pyTomoAO")
    with reading(path, "the parameters"):
        tree = read_yaml(text)
    if not isinstance(tree, dict):
        raise MoaoError("%s: no mapping, expected a file of pyTomoAO" % path)
    wfs, air, stars = (Section(path, tree, n) for n in ("lgs_wfs_parameters", "atmosphere_parameters", "lgs_asterism"))
    dm = Section(path, tree, "dm_parameters")
    n = int(air.number("nLayer"))
    wavelength = air.number("wavelength", 500e-9)
    count = int(stars.number("nLGS", wfs.keys.get("nLGS", 4)))
    radius = stars.number("radiusAst")
    sensor = {"nssp": int(wfs.number("nLenslet")), "altitude": stars.number("baseLGSHeight", 90e3), "wavelength": stars.number("LGSwavelength") * 1e6,
              "lgs_width": 0.0, "lgs_depth": 0.0}
    stop = wfs.number("fieldStopSize", 0.0)
    if stop > 0:
        sensor.update(field_stop=stop, pixel=stop / wfs.number("nPx", 8))
    _noise(path, tree, out, sensor)
    sensors = []
    for i in range(count):
        a = 2 * math.pi * i / count
        where = [round(radius * math.cos(a), 6) + 0.0, round(radius * math.sin(a), 6) + 0.0]
        sensors.append(dict({"name": "LGS %d" % (i + 1), "type": "lgs", "direction": where}, **sensor))
    defaults, sensors = with_defaults(sensors)
    p = out.parameters
    p.update(title="pyTomoAO's " + path.rsplit("/", 1)[-1],
             telescope={"diameter": wfs.number("D"), "zenith": air.number("zenithAngleInDeg", 0.0)},
             dm={"nssp": int(dm.number("nActuators")) - 1, "coupling": dm.number("dmCrossCoupling", 0.2)}, **defaults)
    p["sensors"] = sensors
    p["targets"] = _targets(tree)
    p["atmosphere"] = {"profiles": [{"r0": air.number("r0") * (500e-9 / wavelength) ** 1.2, "layers": {
        "altitude": [1e3 * h for h in air.numbers("altitude", n)], "fraction": air.numbers("fractionnalR0", n), "L0": air.number("L0"),
        "wind_speed": air.numbers("windSpeed", n), "wind_direction": [(d + 360) % 360 if abs(d) > 360 else d for d in air.numbers("windDirection", n)]}}]}
    p["psf"] = {"wavelengths": [1.65]}
    out.note("images at 1.65 um, as the file has no wavelength of images; telescope.obscuration is 0: the maps of valid subapertures were not taken for one")
    out.note("no natural star: tip and tilt are not measured; pyTomoAO leaves them out of the phase")
    for section, key, reason in (("lgs_wfs_parameters", "validLLMap", "subapertures follow from the pupil"),
                                 ("lgs_wfs_parameters", "validActuatorMap", "actuators follow from the pupil"),
                                 ("dm_parameters", "validActuators", "actuators follow from the pupil"),
                                 ("lgs_wfs_parameters", "wfsLensletsRotation", "sensors[i].rotation takes it"),
                                 ("lgs_wfs_parameters", "wfsLensletsOffset", "sensors[i].shift takes it, in m")):
        if any(v != 0 for v in _leaves(tree.get(section, {}).get(key, 0))):
            out.leave("%s.%s" % (section, key), reason)
    if any(_leaves(tree["dm_parameters"].get("dmHeights", 0))):
        out.leave("dm_parameters.dmHeights", "the mirror is in the pupil")
    return out


def _noise(path, tree, out, sensor):
    """1/iNoiseVar, the variance of a slope as an angle."""
    if "noise_parameters" not in tree:
        sensor["noise_variance"] = 0.0
        return
    inverse = Section(path, tree, "noise_parameters").number("iNoiseVar")
    if not inverse > 0:
        raise MoaoError("%s: noise_parameters.iNoiseVar: %r, expected a number above 0" % (path, inverse), path, key="noise_parameters.iNoiseVar")
    sensor["noise_variance"] = ARCSEC ** 2 / inverse
    out.note("1/iNoiseVar was taken for the variance of a slope as an angle, in rad2")


def _targets(tree):
    tomography = tree.get("tomography_parameters") or {}
    side, across = float(tomography.get("fovOptimization", 0)), int(tomography.get("nFitSrc", 1))
    if side > 0 and across > 1:
        return {"grid": {"nx": across, "ny": across, "width": side, "height": side}}
    return {"list": [[0.0, 0.0]]}


def _leaves(v):
    return [x for item in v for x in _leaves(item)] if isinstance(v, list) else [v]
