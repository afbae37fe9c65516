"""What keys of parameter files and columns of a sweep's table are called in figures. A key that is not listed is called by itself."""
import re

# key of a parameter: words; those of a sensor and of a profile without what stands before
KEYS = {
    "telescope.diameter": "telescope diameter", "telescope.obscuration": "central obscuration (fraction of the diameter)",
    "telescope.zenith": "zenith angle", "sky.position_angle": "position angle of y", "sky.latitude": "latitude",
    "dm.nssp": "actuator pitches across the pupil", "dm.coupling": "coupling of neighbouring actuators",
    "dm.mu": "regularisation of the command matrix", "targets.grid.width": "width of the targets' grid",
    "targets.grid.height": "height of the targets' grid", "loop.delay": "loop delay", "loop.integration": "integration time of the loop",
    "psf.residual": "residual", "psf.oversampling": "oversampling of the phase structure function", "psf.span": "span of the PSF's grid (diameters)",
    "psf.weighting": "weighting", "errors.jitter": "jitter, rms (x, y)", "errors.windshake": "windshake, rms (x, y)",
    "errors.rejection": "rejection of the loop", "errors.sodium_altitude": "error of the sodium altitude, rms",
    "errors.sodium_drift": "drift of the sodium altitude", "errors.sodium_interval": "time between focus measurements", "errors.loop_gain": "gain of the loop", "errors.static_rms": "static error, rms", "errors.static_power": "spectral index of the static error", "compute.factor": "factor of Cmm", "compute.product": "products of exposures", "compute.format": "format of Cmm",
    "compute.precision": "precision", "compute.tlr_strehl": "allowed change by compression", "compute.tlr_tile": "tile size",
}
SENSOR = {
    "direction": "direction (x, y)", "ring.n": "number of stars in the ring", "ring.radius": "radius of the ring", "ring.angle": "angle of the ring",
    "altitude": "altitude", "nssp": "subapertures across the pupil", "slope": "kind of slopes", "magnification": "pupil magnification",
    "rotation": "pupil rotation", "shift": "pupil shift (x, y)", "magnitude": "magnitude", "lgs_return": "photon return",
    "frame_time": "frame time", "frame_rate": "frame rate", "ron": "read-out noise per pixel", "pixel": "pixel scale", "wavelength": "wavelength",
    "bandwidth": "bandwidth", "throughput": "throughput", "lgs_width": "spot width (FWHM)", "lgs_depth": "depth of the sodium layer",
    "tiptilt_factor": "tip-tilt factor", "excess_noise": "excess noise factor", "background": "background per pixel and frame",
    "sky": "sky brightness (mag/arcsec²)", "extinction": "extinction (mag/airmass)", "noise_variance": "noise variance of a slope",
    "noise_model": "noise model", "photons": "photo-electrons per subaperture and frame", "band": "band of the magnitude",
    "spectral_type": "spectral type", "photometry": "zero points", "spot": "width of spots", "field_stop": "field stop",
}
PROFILE = {
    "r0": "r₀ at 500 nm and zenith", "seeing": "seeing at 500 nm and zenith", "layers.altitude": "layer altitude", "layers.L0": "outer scale",
    "layers.wind_speed": "wind speed", "layers.wind_direction": "wind direction", "layers.fraction": "fraction of turbulence",
}
MERITS = {
    "strehl": "Strehl ratio", "sr": "Strehl ratio", "fwhm": "FWHM", "rms": "wavefront error", "variance": "residual variance", "var": "residual variance",
    "wfe_total": "total error", "wfe_tomo": "tomography", "wfe_noise": "noise", "wfe_alias": "aliasing", "wfe_fit": "fitting", "wfe_lag": "servo lag",
    "wfe_jitter": "jitter", "wfe_static": "static error", "wfe_sodium": "sodium focus",
}
OVER = {"mean": "mean over the targets", "min": "worst target", "max": "best target", "best": "best target", "worst": "worst target"}
UNITS = {"arcsec2": "arcsec²", "rad2": "rad²", "um": "µm", "ph/m2/s": "ph m⁻² s⁻¹", "m^-5/3": "m^(−5/3)"}


def key_words(key):
    """A swept key in words: "magnitude of all guide stars"."""
    if key in KEYS:
        return KEYS[key]
    m = re.fullmatch(r"(sensors)(?:\[([\w*]+)\]|\.([^.]+))\.(.+)|((?:ngs|lgs)_defaults)\.(.+)", key)
    if m and (m.group(4) or m.group(6)) in SENSOR:
        which = m.group(2) or m.group(3) or m.group(5)
        whose = {"*": "all guide stars", "all": "all guide stars", "ngs_defaults": "NGS", "lgs_defaults": "LGS"}.get(which)
        whose = whose or ("sensor %d" % (int(which) + 1) if which.isdigit() else which)
        return "%s of %s" % (SENSOR[m.group(4) or m.group(6)], whose)
    m = re.fullmatch(r"atmosphere\.profiles(?:\[([\d*]+)\]|\.([\w*]+))\.(.+)", key)
    if m and m.group(3) in PROFILE:
        which = m.group(1) or m.group(2)
        return PROFILE[m.group(3)] + (" of profile %d" % (int(which) + 1) if which.isdigit() else "")
    return key


def merit_words(name):
    """A column of figures of merit in words: "Strehl ratio, mean over the targets"."""
    low = name.lower()
    m = re.fullmatch(r"(?:(mean|min|max|best|worst)_)?(.+?)(?:_(mean|min|max|best|worst))?", low)
    over, what = m.group(1) or m.group(3), m.group(2)
    box = re.fullmatch(r"ee_(\d[\dp]*)mas", what)
    word = "EE in %s mas" % box.group(1).replace("p", ".") if box else MERITS.get(what, what.replace("_", " "))
    return word + (", " + OVER[over] if over else "")


def unit_text(unit):
    """A unit as it is written: [µm]."""
    return " [%s]" % UNITS.get(unit, unit) if unit else ""
