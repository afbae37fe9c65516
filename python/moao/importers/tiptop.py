"""TIPTOP's parameter files (.ini) with Shack-Hartmann sensors, by the keys that its documentation names.

Its loops are here those of loop and loop.low where the file gives the gain of high orders, else an open loop with the delay; its
mirrors are those that all targets share, of mode ltao or mcao. The file says so. Units there: m, m (wavelengths), arcsec and degrees (directions), mas (pixels, jitter), Hz, frames.
"""
import ast
import configparser
import math
import os
import re

from ..reading import MoaoError
from .common import Imported, with_defaults

ARCSEC = 180 * 3600 / math.pi  # of a radian
FWHM = math.sqrt(8 * math.log(2))  # of a Gaussian, in its rms
REASONS = {
    "telescope": {"Resolution": "pixels are chosen (psf.oversampling)", "TechnicalFoV": "the field follows from stars and targets",
                  "PathPupil": "the file is not there; telescope.pupil takes such an image", "PupilAngle": "no image of the pupil",
                  "PathStaticOn": "the file is not there; errors.static_map takes such a map in nm", "PathStaticOff": "static errors are the same in the whole field",
                  "PathStaticPos": "static errors are the same in the whole field", "PathStatModes": "no static modes", "PathApodizer": "no apodizers",
                  "zCoefStaticOn": "errors.static_rms or errors.static_map take static errors",
                  "windPsdFile": "errors.windshake_psd takes such a spectrum as text", "glFocusOnNGS": "the tomography uses all sensors for all modes",
                  "extraErrorMin": "the spectrum begins at 1/D", "extraErrorMax": "the spectrum has no end", "extraErrorLoNm": "one static error for all",
                  "extraErrorLoExp": "one static error for all", "extraErrorLoMin": "one static error for all",
                  "extraErrorLoMax": "one static error for all"},
    "sensor_science": {"PixelScale": "images have pixels of their own; run.psf(...).resampled gives any", "FieldOfView": "output.crop is the side of images"},
    "DM": {"NumberActuators": "follows from the pitch", "InfModel": "influence functions are Gaussian", "AoArea": "the pupil is what is corrected",
           "OptimizationZenith": "one star: commands are fitted to its direction", "OptimizationAzimuth": "as OptimizationZenith",
           "OptimizationWeight": "as OptimizationZenith", "DmHeights": "in the pupil", "OptimizationConditioning": "dm.mu regularises the command matrix",
           "NumberReconstructedLayers": "the tomography knows every layer of the profile"},
    "RTC": {"LoopGain_LO": "open loop, as LoopGain_HO is not given", "SensorFrameRate_Focus": "no focus sensors", "LoopDelaySteps_Focus": "no focus sensors",
            "LoopGain_Focus": "no focus sensors", "MMSE_Rec_LO": "one reconstructor for all"},
}
OF_A_SENSOR = {"Algorithm": "noise_model says what a centroid's noise is", "Modulation": "no pyramid", "Binning": "not used by Shack-Hartmann sensors",
               "Gain": "photons are photo-electrons", "addMcaoWFsensConeError": "the cone effect is always in", "WfsType": "Shack-Hartmann",
               "filtZernikeCov": "the tomography uses all sensors for all modes", "addAliasError": "aliasing is always in",
               "noNoise": "noise_variance: 0 has none"}
ZEROS = ("", "none", "[none]", "0", "0.0", "[0]", "[0.0]", "[[0.0,0.0,0.0]]", "[[0.0,0.0]]", "[[0.0],[0.0]]", "false", "[1.0]", "1.0", "1")


class Ini:
    """The file, which knows what of it was asked for."""

    def __init__(self, path, text):
        self.path, self.text, self.used = path, text, set()
        self.parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=("#", ";"), strict=False)
        self.parser.optionxform = str
        try:
            self.parser.read_string(text)
        except configparser.Error as e:
            raise MoaoError("%s: no file of TIPTOP: %s" % (path, str(e).split("\n")[0])) from None

    def place(self, section, key):
        """FILE:LINE:1 of a key."""
        within = None
        for i, line in enumerate(self.text.split("\n"), 1):
            m = re.match(r"\s*\[(\w+)\]", line)
            within = m.group(1) if m else within
            if within == section and re.match(r"\s*%s\s*[=:]" % re.escape(key), line):
                return i
        return 1

    def fail(self, section, key, what):
        line = self.place(section, key)
        raise MoaoError("%s:%d:1: %s.%s: %s" % (self.path, line, section, key, what), self.path, line, 1, "%s.%s" % (section, key))

    def has(self, section, key=None):
        return self.parser.has_section(section) if key is None else self.parser.has_option(section, key)

    def get(self, section, key, default=None):
        """A value: number, text or list; None where it is not given, or None."""
        names = [k for k in (self.parser.options(section) if self.has(section) else []) if k.lower() == key.lower()]
        if not names:
            return default
        self.used.add((section, names[0]))
        raw = self.parser.get(section, names[0]).strip()
        try:
            value = ast.literal_eval(re.sub(r"\b(?:np\.)?inf\b", "1e999", raw, flags=re.I))
        except (ValueError, SyntaxError):
            value = raw
        return default if value is None or value == [None] or value == "" else value

    def number(self, section, key, default=None, least=None):
        v = self.get(section, key, default)
        if isinstance(v, list) and len(v) == 1:
            v = v[0]
        if v is None:
            if default is None and least is not None:
                self.fail(section, key, "missing, expected a number")
            return v
        if isinstance(v, bool) or not isinstance(v, (int, float)) or not math.isfinite(v) or (least is not None and v < least):
            self.fail(section, key, "%r, expected a number%s" % (v, "" if least is None else " of at least %g" % least))
        return float(v)

    def numbers(self, section, key, n=None, default=None):
        """A list; of n where that is said, for which one value stands for all."""
        v = self.get(section, key, default)
        if v is None:
            return None
        v = list(v) if isinstance(v, (list, tuple)) else [v]
        if n is not None and len(v) == 1:
            v = v * n
        bad = [x for x in v if isinstance(x, bool) or not isinstance(x, (int, float))]
        if bad or (n is not None and len(v) != n):
            self.fail(section, key, "%r, expected %s" % (self.get(section, key), "numbers" if n is None else "%d numbers, or one" % n))
        return [float(x) for x in v]


def _polar(ini, section, zenith="Zenith", azimuth="Azimuth"):
    """Directions [arcsec] of Zenith [arcsec] and Azimuth [deg, from x counterclockwise]."""
    r = ini.numbers(section, zenith, default=[0.0])
    a = ini.numbers(section, azimuth, default=[0.0])
    if len(r) != len(a):
        ini.fail(section, azimuth, "%d values, %s has %d" % (len(a), zenith, len(r)))
    return [[round(z * math.cos(math.radians(t)), 6) + 0.0, round(z * math.sin(math.radians(t)), 6) + 0.0] for z, t in zip(r, a)]


def _sensors(ini, out, part, diameter, prefix):
    """Sensors of sources_HO and sensor_HO, or of LO."""
    sources, sensor = "sources_" + part, "sensor_" + part
    where = _polar(ini, sources)
    n = len(where)
    height = ini.number(sources, "Height", 0.0)
    laser = bool(height) and math.isfinite(height)
    rate = ini.number("RTC", "SensorFrameRate_" + part, 500.0, 1e-3)
    nssp = [int(v) for v in ini.numbers(sensor, "NumberLenslets", n, [20] if part == "HO" else [1])]
    photons = ini.numbers(sensor, "NumberPhotons", n, [math.inf])
    wavelength = ini.number(sources, "Wavelength", None, 1e-7)
    common = {"wavelength": wavelength * 1e6, "frame_time": 1 / rate, "ron": ini.number(sensor, "SigmaRON", 0.0, 0),
              "excess_noise": max(ini.number(sensor, "ExcessNoiseFactor", 1.0), 1.0), "noise_model": "gaussian"}
    if part == "LO":  # from the end of its own frame
        common["delay"] = max(ini.number("RTC", "LoopDelaySteps_LO", 2.0, 0) - 0.5, 0.0) / rate
        if not laser:
            common["spot"] = "corrected"
    pixel = ini.number(sensor, "PixelScale", None, 1e-6)
    common["pixel"] = pixel / 1e3
    field = ini.number(sensor, "FieldOfView")
    if field:
        common["field_stop"] = field * pixel / 1e3
    background = (ini.number(sensor, "Dark", 0.0) + ini.number(sensor, "SkyBackground", 0.0)) / rate
    if background and part == "HO":
        out.leave("%s.Dark, %s.SkyBackground" % (sensor, sensor), "TIPTOP does not use them for HO")
    elif background:
        common["background"] = background
    _laser(ini, out, sensor, height, laser, common)
    variance = ini.numbers(sensor, "NoiseVariance", n)
    made = []
    for i in range(n):
        s = dict({"name": "%s %d" % (prefix, i + 1), "type": "lgs" if laser else "ngs", "direction": where[i], "nssp": nssp[i]}, **common)
        if variance is not None:  # of the phase between the edges of a subaperture
            s["noise_variance"] = variance[i] * (wavelength / (2 * math.pi) * nssp[i] / diameter * ARCSEC) ** 2
        elif math.isfinite(photons[i]):
            s["photons"] = photons[i]
        else:
            s["noise_variance"] = 0.0
        made.append(s)
    return made


def _laser(ini, out, sensor, height, laser, common):
    spots = ini.get(sensor, "SpotFWHM")
    widths = [float(v) for v in spots[0][:2]] if isinstance(spots, list) and spots and isinstance(spots[0], list) else [0.0]
    if laser:
        common.update(altitude=height, lgs_width=max(widths) / 1e3, lgs_depth=0.0)
        out.note("laser spots are not elongated (lgs_depth: 0), as TIPTOP has them")
    elif max(widths) > 0:
        out.leave(sensor + ".SpotFWHM", "spots of natural stars have the width of seeing, diffraction and pixel")


def _telescope(ini, out):
    p = {"diameter": ini.number("telescope", "TelescopeDiameter", None, 0.1), "obscuration": ini.number("telescope", "ObscurationRatio", 0.0, 0),
         "zenith": ini.number("telescope", "ZenithAngle", 0.0, 0)}
    errors = {}
    pupil, static = (_file(ini, "telescope", key) for key in ("PathPupil", "PathStaticOn"))
    if pupil:
        p.update(pupil=pupil, pupil_angle=ini.number("telescope", "PupilAngle", 0.0))
    if static:
        errors["static_map"] = static
    rms = ini.number("telescope", "extraErrorNm", 0.0, 0)
    power = -ini.number("telescope", "extraErrorExp", -2.0)
    if rms:
        errors.update(static_rms=rms, static_power=power)
    jitter = ini.get("telescope", "jitter_FWHM")
    if isinstance(jitter, (int, float)):
        errors["jitter"] = [round(jitter / FWHM, 6)] * 2
    elif isinstance(jitter, list) and len(jitter) == 3:
        a, b, angle = jitter[0] / FWHM, jitter[1] / FWHM, jitter[2]
        errors["jitter"] = [round(math.hypot(a * math.cos(angle), b * math.sin(angle)), 6), round(math.hypot(a * math.sin(angle), b * math.cos(angle)), 6)]
        if abs(math.sin(2 * angle)) > 1e-6:
            out.note("jitter_FWHM: its axes are turned; the rms along x and along y is kept, their correlation is not")
    elif jitter is not None:
        ini.fail("telescope", "jitter_FWHM", "%r, expected a FWHM in mas, or two and an angle" % (jitter,))
    return p, errors


def _file(ini, section, key):
    """Path of a file that a key names, from the .ini's folder or from here; None where there is none."""
    if not ini.has(section, key):
        return None
    name = ini.parser.get(section, key).strip().strip("'\"")
    for path in (os.path.join(os.path.dirname(ini.path), name), name):
        if name and os.path.isfile(path):
            ini.used.add((section, key))
            return os.path.abspath(path)
    return None


def _profile(ini, out):
    wavelength = ini.number("atmosphere", "Wavelength", 500e-9, 1e-7)
    seeing = ini.number("atmosphere", "Seeing")
    r0 = ini.number("atmosphere", "r0_Value")
    if seeing:
        p = {"seeing": seeing * (wavelength / 500e-9) ** 0.2}
        if r0:
            out.leave("atmosphere.r0_Value", "Seeing is given")
    elif r0:
        p = {"r0": r0 * (500e-9 / wavelength) ** 1.2}
    else:
        ini.fail("atmosphere", "Seeing", "missing, expected Seeing or r0_Value")
    heights = ini.numbers("atmosphere", "Cn2Heights", default=[0.0])
    n = len(heights)
    p["layers"] = {"altitude": heights, "fraction": ini.numbers("atmosphere", "Cn2Weights", n, [1.0]),
                   "L0": ini.numbers("atmosphere", "L0", n, [25.0]), "wind_speed": ini.numbers("atmosphere", "WindSpeed", n, [10.0]),
                   "wind_direction": ini.numbers("atmosphere", "WindDirection", n, [0.0])}
    return p


def _mirror(ini, out, diameter, sensors):
    """{mode, optimise, dm, mirrors}: mirrors that all targets share, corrected for the directions of DM.Optimization*, or for the one star."""
    pitches = ini.numbers("DM", "DmPitchs")
    stars = [s["direction"] for s in sensors if s["name"].startswith("HO ")]
    if pitches is None:
        out.note("no DmPitchs: as many subapertures across the mirror as the sensors have")
        pitches = [diameter / sensors[0]["nssp"]]
    n = len(pitches)
    bad = [v for v in pitches if not v > 0]
    if bad:
        ini.fail("DM", "DmPitchs", "%r, expected pitches in m" % (bad[0],))
    heights = ini.numbers("DM", "DmHeights", n, [0.0] * n)
    coupling = ini.numbers("DM", "InfCoupling", n, [0.2])
    if len(stars) > 1:
        optimise = {"list": _polar(ini, "DM", "OptimizationZenith", "OptimizationAzimuth")}
        weights = ini.numbers("DM", "OptimizationWeight", len(optimise["list"]), [1.0])
        if len(weights) > 1:
            optimise["weights"] = weights
    else:
        optimise = {"list": stars}
    p = {"mode": "mcao" if n > 1 else "ltao", "optimise": optimise}
    if n > 1 or heights[0]:
        p["dm"] = {"nssp": max(int(math.ceil(diameter / min(pitches) - 1e-6)), *(s["nssp"] for s in sensors)), "coupling": coupling[0]}
        p["mirrors"] = {"altitude": heights, "pitch": pitches, "coupling": coupling}
        p["output"] = {"budget": "none"}
    else:
        p["dm"] = {"nssp": int(round(diameter / pitches[0])), "coupling": coupling[0]}
    return p


def _plate_scale(mode, optimise, stars):
    """Whether three stars or more for low orders see tilts that differ over the field, which several mirrors correct."""
    x, y = zip(*optimise["list"])
    spread = [sum(a * b for a, b in zip(p, q)) for p, q in ((x, x), (y, y), (x, y))]
    return mode == "mcao" and len(stars) > 2 and spread[0] * spread[1] - spread[2] ** 2 > 1e-6 * (spread[0] + spread[1]) ** 2


def _low_loop(ini, out, rate, mirror, stars):
    """loop.low, of the stars for low orders."""
    own = ini.number("RTC", "SensorFrameRate_LO", 500.0, 1e-3)
    ratio = max(rate / own, own / rate)
    if abs(ratio - round(ratio)) > 1e-6 * ratio:
        taken = rate / round(ratio) if own < rate else rate * round(ratio)
        out.note("low orders: frames at %g Hz are taken as %g Hz, %g Hz over a whole number or times one" % (own, taken, rate))
        own = taken
    gain = ini.get("RTC", "LoopGain_LO")
    if isinstance(gain, (int, float)) and not isinstance(gain, bool):
        gain = ini.number("RTC", "LoopGain_LO", None, 1e-6)
    else:
        gain = "optimal"
        out.note("low orders: the run finds their gain, as TIPTOP does; a number for loop.low.gain saves that")
    for s in stars:
        s.pop("delay", None)
        s["low_order"] = True
    modes = "plate_scale" if _plate_scale(mirror["mode"], mirror["optimise"], stars) else "tiptilt"
    return {"control": "split", "modes": modes, "type": "integrator", "gain": gain,
            "frames": max(ini.number("RTC", "LoopDelaySteps_LO", 2.0, 0), 1.0), "rate": own}


def _loop(ini, out, mirror, sensors):
    """{loop}: closed ones where the file has the gain of high orders, else an open one."""
    rate = ini.number("RTC", "SensorFrameRate_HO", 500.0, 1e-3)
    frames = ini.number("RTC", "LoopDelaySteps_HO", 2.0, 0)
    gain = ini.number("RTC", "LoopGain_HO")
    stars = [s for s in sensors if s["name"].startswith("LO ")]
    if gain is None or gain <= 0:
        if stars:
            out.note("low-order sensors have a delay of their own, which is computed on CPUs; without the key delay they have the loop's, on GPUs too")
            out.note("low-order sensors are sensors of the tomography")
        out.note("open loop; the delay of %g frames is that of the middle of a frame to the middle of the mirror's hold" % frames)
        return {"integration": 1 / rate, "delay": max(frames - 0.5, 0.0) / rate}
    out.note("closed loop; frames of delay count from the middle of a frame to the middle of the mirror's hold")
    loop = {"type": "integrator", "gain": gain, "frames": max(frames, 1.0), "rate": rate}
    if stars:
        loop["low"] = _low_loop(ini, out, rate, mirror, stars)
    return loop


def _rest(ini, out):
    """Whatever was not asked for, with its reason; what says nothing is not named."""
    for section in ini.parser.sections():
        if section.endswith("_Focus"):
            out.leave("[%s]" % section, "no focus sensors: the tomography uses all sensors for all modes")
            continue
        for key in ini.parser.options(section):
            if (section, key) in ini.used or re.sub(r"\s", "", ini.parser.get(section, key)).strip("'\"").lower() in ZEROS:
                continue
            reasons = OF_A_SENSOR if section in ("sensor_HO", "sensor_LO") else REASONS.get(section, {})
            value = " ".join(ini.parser.get(section, key).split())
            reason = reasons.get(key, "no counterpart")
            if reason != "Shack-Hartmann":
                out.leave("%s.%s = %s" % (section, key, value if len(value) < 60 else value[:57] + "..."), reason)


def read_tiptop(path, text):
    """An Imported of TIPTOP's .ini. MoaoError with the line for pyramids, missing keys and values that do not fit."""
    ini, out = Ini(path, text), Imported(path, "TIPTOP")
    for section in ("telescope", "atmosphere", "sources_science", "sources_HO", "sensor_HO", "DM"):
        if not ini.has(section):
            raise MoaoError("%s:1:1: [%s]: missing, expected a file of TIPTOP" % (path, section), path, 1, 1, section)
    kind = ini.get("sensor_HO", "WfsType", "Shack-Hartmann")
    if str(kind).lower() != "shack-hartmann":
        ini.fail("sensor_HO", "WfsType", "%s: moao has Shack-Hartmann sensors alone" % kind)
    telescope, errors = _telescope(ini, out)
    sensors = _sensors(ini, out, "HO", telescope["diameter"], "HO")
    if ini.has("sensor_LO") and ini.has("sources_LO"):
        sensors += _sensors(ini, out, "LO", telescope["diameter"], "LO")
        out.note("stars of low-order sensors are corrected (spot: corrected), for which a run is repeated until it knows their Strehl ratio")
    elif all(s["type"] == "lgs" for s in sensors):
        out.note("no natural star: tip and tilt are not measured; add one for real ones")
    mirror = _mirror(ini, out, telescope["diameter"], sensors)
    loop = _loop(ini, out, mirror, sensors)
    defaults, sensors = with_defaults(sensors)
    waves = ini.numbers("sources_science", "Wavelength")
    p = out.parameters
    p.update(title="TIPTOP's " + re.sub(r".*/", "", path), telescope=telescope, **mirror, **defaults)
    p["sensors"] = sensors
    p["targets"] = {"list": _polar(ini, "sources_science")}
    p["atmosphere"] = {"profiles": [_profile(ini, out)]}
    p["loop"] = loop
    p["psf"] = {"wavelengths": [round(w * 1e6, 9) for w in waves]}
    if errors:
        p["errors"] = errors
    out.note("mirrors that all targets share (mode: %s); without the lines mode, optimise, mirrors and output each target has a mirror of its own (MOAO)" % mirror["mode"])
    _rest(ini, out)
    return out
