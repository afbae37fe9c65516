"""Adaptive Optics Telemetry (AOT) files: FITS tables AOT_TELESCOPES, AOT_SOURCES, AOT_WAVEFRONT_SENSORS, AOT_ATMOSPHERIC_PARAMETERS...

The standard is that of Gomes et al. 2024 (its reference implementation is aotpy); tables are read here by their columns, of which any may be
empty. Units there: m, s, rad (pixels, widths), deg (directions on the sky), Hz, frames. Recorded telemetry is not a parameter: it is left out.
"""
import math
import os
import re

import numpy as np

from ..reading import MoaoError, reading
from .common import Imported, with_defaults

ARCSEC = 180 * 3600 / math.pi  # of a radian
NO_NUMBER = -32768  # an integer that is not given
MODES = {"MOAO": "moao", "LTAO": "ltao", "SCAO": "ltao", "SLAO": "ltao", "GLAO": "glao", "MCAO": "moao"}
CLOSE = 36000.0  # farthest star from the field's middle [arcsec]
TELEMETRY = "telemetry: moao computes covariances, no time series"
# columns that are known, with the reason why they are left out; others are named as having no counterpart
REASONS = {"MEASUREMENTS": TELEMETRY, "REF_MEASUREMENTS": TELEMETRY, "PIXEL_INTENSITIES": "images as recorded; moao computes its own", "COMMANDS": TELEMETRY,
           "REF_COMMANDS": TELEMETRY, "RESIDUAL_COMMANDS": TELEMETRY, "MODAL_COEFFICIENTS": TELEMETRY, "CONTROL_MATRIX": "moao computes the reconstructor",
           "INTERACTION_MATRIX": "moao computes the interaction matrix", "INFLUENCE_FUNCTION": "influence functions are Gaussian (dm.coupling)",
           "PUPIL_MASK": "save the image to a file for telescope.pupil", "CENTROIDING_ALGORITHM": "noise_model says what a centroid's noise is",
           "TIME_FILTER_NUM": "open loop", "TIME_FILTER_DEN": "open loop", "STATUS": "open loop", "TAU0": "follows from profile and wind",
           "THETA0": "follows from the profile", "LLT_UID": "AOT has no launch point in the pupil: key launch of a sensor", "STROKE": "mirrors have no stroke",
           "LATITUDE": "not needed", "LONGITUDE": "not needed", "AZIMUTH": "the field's own axes", "PARALLACTIC": "the field's own axes",
           "N_VALID_SUBAPERTURES": "follows from nssp and pupil", "N_VALID_ACTUATORS": "follows from dm.nssp and pupil", "FIELD_CENTRE_X": "images are centred",
           "FIELD_CENTRE_Y": "images are centred", "SPOT_FWHM": "spots follow from seeing, star and pixel"}
SILENT = {"UID", "TYPE", "DIMENSIONS", "SEGMENT_TYPE", "TELESCOPE_UID", "COMMANDED_UID", "INPUT_SENSOR_UID", "DETECTOR_UID", "TIME_UID"}  # names, kinds and ties


class Table:
    """A table of the file, by columns; what of it was asked for is remembered."""

    def __init__(self, aot, name):
        self.aot, self.name, self.used = aot, name, set(SILENT)
        hdu = next((h for h in aot.hdus if h.name.upper() == name), None)
        self.rows = None if hdu is None else hdu.data
        self.names = [] if self.rows is None else [n.upper() for n in self.rows.names]
        self.n = 0 if self.rows is None else len(self.rows)
        self.uids = [str(v).strip() for v in self.rows["UID"]] if self.n and "UID" in self.names else []

    def fail(self, i, column, what):
        raise MoaoError("%s: %s, row %d, %s: %s" % (self.aot.path, self.name, i + 1, column, what), self.aot.path, key=column)

    def row(self, reference):
        """Index of a row by ROWREF<uid>; None where there is none."""
        m = re.fullmatch(r"ROWREF<(.+)>", reference or "")
        return self.uids.index(m.group(1)) if m and m.group(1) in self.uids else None

    def _cell(self, i, column):
        if column not in self.names:
            return None
        self.used.add(column)
        return self.rows[self.rows.names[self.names.index(column)]][i]

    def text(self, i, column):
        v = self._cell(i, column)
        return "" if v is None else str(v).strip()

    def number(self, i, column):
        """A number, or None where it is not given."""
        v = self._cell(i, column)
        if v is None or np.ndim(v) or (isinstance(v, str) and not v.strip()):
            return None
        try:
            v = float(v)
        except ValueError:
            self.fail(i, column, "%r, expected a number" % (v,))
        return v if math.isfinite(v) and v != NO_NUMBER else None

    def numbers(self, i, column):
        """A list of numbers, empty where it is not given."""
        v = self._cell(i, column)
        v = [] if v is None else np.atleast_1d(np.asarray(v, float)).ravel()
        return [float(x) for x in v if math.isfinite(x) and x != NO_NUMBER]

    def image(self, i, column):
        """The array that a cell refers to, or None."""
        reference = self.text(i, column)
        return None if not reference else self.aot.image(reference, "%s, row %d, %s" % (self.name, i + 1, column))

    def rest(self, out):
        """Columns with values that were not asked for."""
        for column in self.names:
            if column in self.used or column in REASONS and REASONS[column] == "not needed":
                continue
            given = any(self.text(i, column) if isinstance(self.rows[self.rows.names[self.names.index(column)]][i], str) else self.numbers(i, column)
                        for i in range(self.n))
            if given:
                out.leave("%s.%s" % (self.name, column), REASONS.get(column, "no counterpart"))


class Aot:
    """The file with its tables."""

    def __init__(self, path, hdus, out):
        self.path, self.hdus, self.out, self.tables = path, hdus, out, {}

    def __getitem__(self, name):
        name = "AOT_" + name
        if name not in self.tables:
            self.tables[name] = Table(self, name)
        return self.tables[name]

    def image(self, reference, where):
        from astropy.io import fits
        m = re.fullmatch(r"(INTREF|FILEREF|URLREF)<(.+)>(\d*)", reference)
        if m is None:
            raise MoaoError("%s: %s: %s is no reference to an image" % (self.path, where, reference), self.path)
        kind, name, index = m.groups()
        if kind == "URLREF":
            self.out.leave(where, "an image on the network: %s" % name)
            return None
        if kind == "INTREF":
            found = next((h for h in self.hdus if h.name.upper() == name.upper()), None)
            if found is None or found.data is None:
                raise MoaoError("%s: %s: the file has no image %s" % (self.path, where, name), self.path)
            return np.asarray(found.data, float)
        path = os.path.join(os.path.dirname(os.path.abspath(self.path)), name)
        if not os.path.isfile(path):
            self.out.leave(where, "the file %s is not there" % name)
            return None
        with reading(path, "the image"), fits.open(path) as f:
            return np.asarray(f[int(index or 0)].data, float)


def is_aot(path):
    """Whether a FITS file is one of AOT: its primary header names the mode."""
    from astropy.io import fits
    with reading(path, "the file"):
        return "AO-MODE" in fits.getheader(path, 0)


def offset(longitude, latitude, zero_longitude, zero_latitude):
    """Gnomonic projection: (towards longitude, towards latitude) [arcsec] of a place [deg] from another."""
    a, d, d0 = math.radians(longitude - zero_longitude), math.radians(latitude), math.radians(zero_latitude)
    c = math.sin(d0) * math.sin(d) + math.cos(d0) * math.cos(d) * math.cos(a)
    if c <= 0:
        return math.inf, math.inf
    return math.cos(d) * math.sin(a) / c * ARCSEC, (math.cos(d0) * math.sin(d) - math.sin(d0) * math.cos(d) * math.cos(a)) / c * ARCSEC


def _directions(aot, out, elevation):
    """Direction [arcsec] of every row of AOT_SOURCES, by offsets of elevation and azimuth, else by right ascension and declination."""
    t = aot["SOURCES"]
    sky = [(t.number(i, "RIGHT_ASCENSION"), t.number(i, "DECLINATION")) for i in range(t.n)]
    horizon = [(t.number(i, "AZIMUTH_OFFSET"), t.number(i, "ELEVATION_OFFSET")) for i in range(t.n)]
    science = [i for i in range(t.n) if t.text(i, "TYPE") == "Science Star"]
    known = [i for i in science + list(range(t.n)) if None not in sky[i]]
    centre = sky[known[0]] if known else None
    found, skyward, blind = [], False, []
    for i in range(t.n):
        if None not in horizon[i]:
            xy = offset(horizon[i][0], elevation + horizon[i][1], 0, elevation)
        elif None not in sky[i]:
            e, n = offset(*sky[i], *centre)
            xy, skyward = (-e, n), True  # x to the west
        else:
            blind.append(t.uids[i])
            xy = (0.0, 0.0)
        if not max(abs(xy[0]), abs(xy[1])) <= CLOSE:
            t.fail(i, "ELEVATION_OFFSET" if None not in horizon[i] else "RIGHT_ASCENSION", "%s lies over 10 deg from the field's middle" % t.uids[i])
        found.append([round(v, 6) + 0.0 for v in xy])
    if any(None not in h for h in horizon):
        out.note("directions are offsets from the telescope's pointing: x to larger azimuth, y to larger elevation")
    if skyward:
        out.note("directions by right ascension and declination, x to the west and y to the north of %s" % t.uids[known[0]])
        if any(None not in h for h in horizon):
            out.note("sources with both kinds of directions, or some of each: check that their axes agree")
    if blind:
        out.note("no direction in the file, taken for the axis: %s" % ", ".join(blind))
    return found


def _telescope(aot, out):
    """(parameters, elevation [deg], diameter [m])."""
    t = aot["TELESCOPES"]
    main = next((i for i in range(t.n) if t.text(i, "TYPE") == "Main Telescope"), None)
    if main is None:
        raise MoaoError("%s: AOT_TELESCOPES: no Main Telescope" % aot.path, aot.path)
    enclosing, inscribed = t.number(main, "ENCLOSING_D"), t.number(main, "INSCRIBED_D")
    diameter = enclosing or inscribed
    if not diameter:
        t.fail(main, "ENCLOSING_D", "missing, and no INSCRIBED_D: the telescope's diameter is required")
    elevation = t.number(main, "ELEVATION")
    if elevation is None:
        out.note("no elevation of the telescope: zenith 0")
        elevation = 90.0
    p = {"diameter": diameter, "zenith": round(90 - elevation, 9) + 0.0}
    hole = t.number(main, "OBSTRUCTION_D")
    if hole:
        p["obscuration"] = round(hole / diameter, 9)
    return p, elevation, diameter


def _laser(aot, out, name, kind, zenith):
    """Keys of a laser star: altitude at zenith, depth, by its own table."""
    t = aot["SOURCES_SODIUM_LGS" if kind.startswith("Sodium") else "SOURCES_RAYLEIGH_LGS"]
    i = t.uids.index(name) if name in t.uids else None
    if kind.startswith("Sodium"):
        height = t.number(i, "HEIGHT") if i is not None else None
        if height is None:
            out.note("%s: no height of the laser star: 90 km" % name)
            height = 90e3
        profile, at = (t.image(i, "PROFILE"), np.array(t.numbers(i, "ALTITUDES"))) if i is not None else (None, np.array([]))
        depth = None
        if profile is not None and len(at) == np.shape(np.atleast_2d(profile))[1]:
            w = np.atleast_2d(profile).mean(axis=0)
            mean = (w * at).sum() / w.sum()
            depth = math.sqrt(8 * math.log(2) * max(float((w * (at - mean) ** 2).sum() / w.sum()), 0))
            out.note("%s: depth of the laser star by the second moment of its profile" % name)
        return {"altitude": height, **({} if depth is None else {"lgs_depth": round(depth, 3)})}
    distance, depth = (t.number(i, "DISTANCE"), t.number(i, "DEPTH")) if i is not None else (None, None)
    if not distance:
        raise MoaoError("%s: AOT_SOURCES_RAYLEIGH_LGS, %s, DISTANCE: missing, required for a laser star" % (aot.path, name), aot.path)
    airmass = 1 / math.cos(math.radians(zenith))
    return {"altitude": round(distance / airmass, 6), **({} if depth is None else {"lgs_depth": round(depth / airmass, 6)})}


def _detector(aot, i, sensor):
    """Keys of a sensor by its detector."""
    t, s = aot["DETECTORS"], aot["WAVEFRONT_SENSORS"]
    d = t.row(s.text(i, "DETECTOR_UID"))
    if d is None:
        return
    pixel, size = t.number(d, "PIXEL_SCALE"), s.number(i, "SUBAPERTURE_SIZE")
    for key, value in (("pixel", pixel and pixel * ARCSEC), ("field_stop", pixel and size and pixel * ARCSEC * size), ("ron", t.number(d, "READOUT_NOISE")),
                       ("excess_noise", t.number(d, "EXCESS_NOISE")), ("frame_time", t.number(d, "INTEGRATION_TIME"))):
        if value is not None:
            sensor[key] = float("%.10g" % value)
    light, gain = s.image(i, "SUBAPERTURE_INTENSITIES"), t.number(d, "GAIN")
    if light is not None and gain:
        sensor["photons"] = float("%.10g" % (np.nanmean(light) * gain))


def _sensors(aot, out, directions, telescope, delay):
    zenith, obscuration = telescope["zenith"], telescope.get("obscuration", 0)
    t, sources = aot["WAVEFRONT_SENSORS"], aot["SOURCES"]
    if not t.n:
        raise MoaoError("%s: AOT_WAVEFRONT_SENSORS: no sensor" % aot.path, aot.path)
    made = []
    for i in range(t.n):
        if t.text(i, "TYPE") != "Shack-Hartmann":
            t.fail(i, "TYPE", "%s: moao has Shack-Hartmann sensors alone" % (t.text(i, "TYPE") or "missing"))
        k = sources.row(t.text(i, "SOURCE_UID"))
        if k is None:
            t.fail(i, "SOURCE_UID", "%s: no such row in AOT_SOURCES" % (t.text(i, "SOURCE_UID") or "missing"))
        kind = sources.text(k, "TYPE")
        laser = kind.endswith("Laser Guide Star")
        mask, valid = t.image(i, "SUBAPERTURE_MASK"), t.number(i, "N_VALID_SUBAPERTURES")
        if mask is None and not valid:
            t.fail(i, "SUBAPERTURE_MASK", "missing, and no N_VALID_SUBAPERTURES: the subapertures across the pupil are required")
        s = {"name": t.uids[i], "type": "lgs" if laser else "ngs", "direction": directions[k],
             "nssp": int(mask.shape[-1]) if mask is not None else int(round(math.sqrt(valid * 4 / math.pi / (1 - obscuration ** 2))))}
        if mask is None:
            out.note("%s: %d subapertures across, for %d of them" % (t.uids[i], s["nssp"], valid))
        wavelength, width = t.number(i, "WAVELENGTH"), sources.number(k, "FWHM")
        if wavelength:
            s["wavelength"] = float("%.10g" % (wavelength * 1e6))
        if laser:
            s.update(_laser(aot, out, sources.uids[k], kind, zenith))
            if width is not None:
                s["lgs_width"] = float("%.10g" % (width * ARCSEC))
        _detector(aot, i, s)
        if "photons" not in s:
            s["noise_variance"] = 0.0
            out.note("%s: the file gives no photo-electrons (SUBAPERTURE_INTENSITIES and the detector's GAIN): no noise; replace noise_variance by magnitude, photons or"
                     " lgs_return" % t.uids[i])
        elif "frame_time" not in s and delay.get("integration"):
            s["frame_time"] = delay["integration"]
        made.append(s)
    return made


def _loop(aot, out):
    """loop.integration and loop.delay of the first control loop; its delay is that of the middle of a frame to the middle of the mirror's hold."""
    t = aot["LOOPS"]
    for i in range(t.n):
        rate, frames = t.number(i, "FRAMERATE"), t.number(i, "DELAY")
        t.text(i, "STATUS")
        if rate and frames is not None:
            others = {(t.number(k, "FRAMERATE"), t.number(k, "DELAY")) for k in range(t.n)} - {(rate, frames)}
            if others:
                out.leave("AOT_LOOPS, other rates and delays", "one delay for all sensors unless they have the key delay")
            integration = min(1, 2 * frames) / rate  # half of it counts; less than half a frame in all: a shorter one
            return {"integration": float("%.10g" % integration), "delay": float("%.10g" % max(frames / rate - integration / 2, 0))}
    return {}


def _series(values, n, column, aot):
    """[time, layer] of n times from an image of one or n rows."""
    v = np.atleast_2d(values)
    if v.shape[0] == 1:
        v = np.repeat(v, n, axis=0)
    if v.shape[0] != n:
        raise MoaoError("%s: AOT_ATMOSPHERIC_PARAMETERS, %s: %d times, expected 1 or %d" % (aot.path, column, v.shape[0], n), aot.path, key=column)
    return v


def _atmosphere(aot, out):
    """Profiles of the first row with a strength, with layers of the first row that has them."""
    t = aot["ATMOSPHERIC_PARAMETERS"]
    strong = next((i for i in range(t.n) if t.numbers(i, "R0") or t.numbers(i, "SEEING")), None)
    if strong is None:
        raise MoaoError("%s: AOT_ATMOSPHERIC_PARAMETERS: no R0 and no SEEING" % aot.path, aot.path)
    wavelength = t.number(strong, "WAVELENGTH")
    if wavelength is None:
        out.note("no wavelength of r0 or seeing: 500 nm")
        wavelength = 500e-9
    key = "r0" if t.numbers(strong, "R0") else "seeing"
    values = np.array(t.numbers(strong, key.upper())) * ((500e-9 / wavelength) ** 1.2 if key == "r0" else (wavelength / 500e-9) ** 0.2)
    layered = next((i for i in [strong] + list(range(t.n)) if t.text(i, "LAYERS_HEIGHT") and t.text(i, "LAYERS_REL_WEIGHT")), None)
    n = len(values)
    when = aot["TIME"].row(t.text(strong, "TIME_UID"))
    times = np.array(aot["TIME"].numbers(when, "TIMESTAMPS")) if when is not None else np.arange(0)
    if n > 1 and len(times) != n:
        raise MoaoError("%s: AOT_ATMOSPHERIC_PARAMETERS: %d values of %s and %d times" % (aot.path, n, key, len(times)), aot.path, key=key.upper())
    layers = {"altitude": np.zeros((n, 1)), "fraction": np.ones((n, 1))}
    if layered is None:
        out.note("no layers with heights and weights: all turbulence is at the pupil")
    else:
        for word, column in (("altitude", "LAYERS_HEIGHT"), ("fraction", "LAYERS_REL_WEIGHT"), ("L0", "LAYERS_LO"), ("L0", "LAYERS_L0"),
                             ("wind_speed", "LAYERS_WIND_SPEED"), ("wind_direction", "LAYERS_WIND_DIRECTION")):
            image = t.image(layered, column)
            if image is not None:
                layers[word] = _series(image, n, column, aot)
    if "wind_direction" in layers:
        out.note("wind directions were taken for those whence the wind comes, north 0 and east 90 deg, with x to the west and y to the north")
        layers["wind_direction"] = (90 + layers["wind_direction"]) % 360 - 180  # to which the layers move, counterclockwise from x
    elif "wind_speed" in layers:
        out.note("no wind directions: all layers move along x")
    for i in range(t.n):
        if i not in (strong, layered):
            out.leave("AOT_ATMOSPHERIC_PARAMETERS, %s" % t.uids[i], "%s was taken" % t.uids[strong])
    profiles = []
    for k in range(n):
        p = {"time": float(times[k] - times[0])} if n > 1 else {}
        p[key] = float("%.10g" % values[k])
        p["layers"] = {w: [float("%.10g" % x) for x in v[k]] for w, v in layers.items()}
        profiles.append(p)
    return profiles


def _mirror(aot, out, diameter, sensors):
    """dm.nssp by the smallest distance of actuators, else by their number, else by the first sensor."""
    t, c = aot["WAVEFRONT_CORRECTORS_DM"], aot["WAVEFRONT_CORRECTORS"]
    for i in range(t.n):
        x, y = np.array(t.numbers(i, "ACTUATORS_X")), np.array(t.numbers(i, "ACTUATORS_Y"))
        if len(x) > 1 and len(x) == len(y):
            d = np.hypot(x[0] - x[1:], y[0] - y[1:])
            return {"nssp": int(round(diameter / d[d > 0].min()))}
        k = c.uids.index(t.uids[i]) if t.uids[i] in c.uids else None
        valid = c.number(k, "N_VALID_ACTUATORS") if k is not None else None
        if valid:
            out.note("%s: %d actuators, without coordinates: a lattice of that density" % (t.uids[i], valid))
            return {"nssp": max(int(round(math.sqrt(valid * 4 / math.pi))) - 1, 1)}
    out.note("no deformable mirror with actuators: as many subapertures across as the first sensor has")
    return {"nssp": sensors[0]["nssp"]}


def read_aot(path):
    """An Imported of an AOT file. MoaoError with table, row and column for pyramids, and for what is required and not given."""
    from astropy.io import fits
    out = Imported(path, "AOT")
    with reading(path, "the file"), fits.open(path, memmap=False) as hdus:
        aot = Aot(path, hdus, out)
        mode = str(hdus[0].header.get("AO-MODE", "")).strip().upper()
        if mode not in MODES:
            raise MoaoError("%s: AO-MODE: %s, expected one of %s" % (path, mode or "missing", ", ".join(MODES)), path, key="AO-MODE")
        telescope, elevation, diameter = _telescope(aot, out)
        loop = _loop(aot, out)
        directions = _directions(aot, out, elevation)
        sensors = _sensors(aot, out, directions, telescope, loop)
        sources, cameras = aot["SOURCES"], aot["SCORING_CAMERAS"]
        targets = [directions[i] for i in range(sources.n) if sources.text(i, "TYPE") == "Science Star"]
        if not targets:
            out.note("no Science Star: one target on the axis")
        waves = sorted({round(v * 1e6, 9) for v in (cameras.number(i, "WAVELENGTH") for i in range(cameras.n)) if v})
        mirror = _mirror(aot, out, diameter, sensors)
        profiles = _atmosphere(aot, out)
        defaults, sensors = with_defaults(sensors)
        p = out.parameters
        p.update(title=str(hdus[0].header.get("SYS-NAME") or os.path.basename(path)), telescope=telescope)
        if MODES[mode] != "moao":
            p["mode"] = MODES[mode]
        if mode in ("SCAO", "SLAO"):
            p["optimise"] = {"list": [sensors[0]["direction"]]}
        if mode == "MCAO":
            out.note("AOT has no altitudes of mirrors: a mirror for each target; write mode: mcao and mirrors for shared ones")
        p.update(dm=mirror, **defaults, sensors=sensors, targets={"list": targets or [[0.0, 0.0]]}, atmosphere={"profiles": profiles})
        if loop:
            p["loop"] = loop
        if waves:
            p["psf"] = {"wavelengths": waves}
        for name in ("TELESCOPES", "SOURCES", "SOURCES_SODIUM_LGS", "SOURCES_RAYLEIGH_LGS", "DETECTORS", "SCORING_CAMERAS", "WAVEFRONT_SENSORS",
                     "WAVEFRONT_SENSORS_SHACK_HARTMANN", "WAVEFRONT_CORRECTORS", "WAVEFRONT_CORRECTORS_DM", "ATMOSPHERIC_PARAMETERS", "LOOPS", "LOOPS_CONTROL",
                     "LOOPS_OFFLOAD", "ABERRATIONS"):
            aot[name].rest(out)
    return out
