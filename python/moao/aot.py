"""A run as an Adaptive Optics Telemetry (AOT) file, which aotpy writes: what observed, through what, how well.

A simulation in covariances has no frames: the file holds telescope, stars, sensors, mirrors, loops, profiles in time and the images of the targets,
without time series of slopes or commands.
"""
import math
import os

import numpy as np

from .reading import MoaoError

ARCSEC = math.pi / 180 / 3600
LACKS = "aotpy is not installed, which writes AOT files: pip install aotpy"
ACROSS = {"ltao": "LTAO", "glao": "GLAO", "mcao": "MCAO", "moao": "MOAO"}


def library():
    """The module aotpy. MoaoError that says how to install it."""
    try:
        import aotpy
    except ImportError:
        raise MoaoError(LACKS) from None
    return aotpy


def value(v, unit):
    """A value of run.parameters in a unit; those that a decimal number does not hold exactly have a unit of their own."""
    from astropy import units as u
    if isinstance(v, (list, tuple)):
        return [value(x, unit) for x in v]
    if not isinstance(v, str) or v == "inf":
        return float(v)
    return float(u.Quantity(v).to(u.Unit(unit)).value)


def from_offset(x, y, latitude):
    """(longitude, latitude) offsets [deg] of a direction (x, y) [arcsec] from a point at that latitude [deg]: the inverse gnomonic projection."""
    x, y, d0 = x * ARCSEC, y * ARCSEC, math.radians(latitude)
    rho = math.hypot(x, y)
    c = math.atan(rho)
    if not rho:
        return 0.0, 0.0
    d = math.asin(max(-1, min(1, math.cos(c) * math.sin(d0) + y * math.sin(c) * math.cos(d0) / rho)))
    a = math.atan2(x * math.sin(c), rho * math.cos(d0) * math.cos(c) - y * math.sin(d0) * math.sin(c))
    return math.degrees(a), math.degrees(d) - latitude


def subapertures(n, obscuration, valid):
    """Mask [n, n] with the index of every valid subaperture, -1 elsewhere; None where the annulus has not as many as the run."""
    at = 2 * np.arange(n) + 1 - n
    r2 = at[:, None] ** 2 + at ** 2
    lit = np.ones((n, n), bool) if n <= 2 else ((obscuration * n) ** 2 * (1 - 1e-9) <= r2) & (r2 < n * n)
    if lit.sum() != valid:
        return None
    mask = np.full((n, n), -1, np.int32)
    mask[lit] = np.arange(valid)
    return mask


def actuators(n, obscuration, pitch, valid):
    """Coordinates (x, y) [m] of the valid actuators; empty where the annulus has not as many as the run."""
    at = 2 * np.arange(n + 1) - n
    r = np.hypot(at[:, None], at)
    y, x = np.nonzero((obscuration * n - 1 + 1e-9 * n < r) & (r < n + 1.4))
    return [(a * pitch / 2, b * pitch / 2) for a, b in zip(at[x], at[y])] if len(x) == valid else []


class Export:
    """The parts of the system, one after the other."""

    def __init__(self, run, waves, exposure):
        self.aotpy, self.run, self.exposure = library(), run, exposure
        self.waves = waves
        self.p = run.parameters
        self.elevation = 90 - float(run.header["ZENITH"])
        self.obscuration = float(run.header["OBSCUR"])

    def placed(self, source, x, y):
        source.azimuth_offset, source.elevation_offset = from_offset(float(x), float(y), self.elevation)
        return source

    def image(self, name, data):
        return self.aotpy.Image(name, np.asarray(data))

    def telescope(self):
        d = float(self.run.header["TELDIAM"])
        return self.aotpy.MainTelescope("telescope", elevation=self.elevation, enclosing_diameter=d, inscribed_diameter=d, obstruction_diameter=self.obscuration * d)

    def sensors(self):
        """(sources, sensors) of the guide stars."""
        a, sources, sensors = self.aotpy, [], []
        stars, frames = self.run.guide_stars, self.p["sensors"]
        for i, (row, keys) in enumerate(zip(stars, frames), 1):
            uid = "%d %s" % (i, str(row["NAME"]).strip())
            if str(row["TYPE"]).strip() == "LGS":
                depth, h = value(keys["lgs_depth"], "m"), value(keys["altitude"], "m")
                source = a.SodiumLaserGuideStar("star " + uid, height=h)
                source.fwhm = value(keys["lgs_width"], "arcsec") * ARCSEC
                if depth > 0:  # a Gaussian of that width, sampled
                    at = h + depth * np.linspace(-1.5, 1.5, 25)
                    w = np.exp(-4 * math.log(2) * ((at - h) / depth) ** 2)
                    source.profile, source.altitudes = self.image("LGS PROFILE %d" % i, w[None] / w.sum()), [float(v) for v in at]
            else:
                source = a.NaturalGuideStar("star " + uid)
            pixel = value(keys["pixel"], "arcsec")
            detector = a.Detector("detector " + uid, readout_noise=float(keys["ron"]), integration_time=float(row["FRAMETIM"]), pixel_scale=pixel * ARCSEC,
                                  excess_noise=float(keys["excess_noise"]), gain=1.0)
            nsub, n = int(row["NSUB"]), int(row["NSSP"])
            wfs = a.ShackHartmann("sensor " + uid, source=self.placed(source, row["X"], row["Y"]), n_valid_subapertures=nsub, detector=detector,
                                  wavelength=float(row["WAVELEN"]) * 1e-6, spot_fwhm=self.image("SPOT %d" % i, np.array([[row["SPOT"]] * nsub, [row["SPOTLONG"]] * nsub], float)))
            mask = subapertures(n, self.obscuration, nsub)
            if mask is not None:
                wfs.subaperture_mask = self.image("SUBAPERTURES %d" % i, mask)
            if "field_stop" in keys:
                wfs.subaperture_size = value(keys["field_stop"], "arcsec") / pixel
            if np.isfinite(row["PHOTONS"]):
                wfs.subaperture_intensities = self.image("PHOTONS %d" % i, np.full((1, nsub), float(row["PHOTONS"])))
            sources.append(source)
            sensors.append(wfs)
        return sources, sensors

    def atmosphere(self):
        """Profiles that were in force, one for each exposure; r0 at zenith and 500 nm."""
        profiles, times = self.p["atmosphere"]["profiles"], [float(t) for t in self.run.exposures["TIME"]]
        starts = [value(p.get("time", 0), "s") for p in profiles]
        inforce = [profiles[int(np.argmin(np.abs(np.array(starts) - at)))] for at in self.run.exposures["PROFTIME"]]
        n = max(len(p["layers"]["altitude"]) for p in inforce)

        def of(key, unit):
            rows = [(value(p["layers"][key], unit), n - len(p["layers"]["altitude"])) for p in inforce]
            return np.array([row + [row[-1]] * more for row, more in rows], float)  # layers without strength where a profile has fewer
        strength = np.array([list(p["layers"]["strength"]) + [0.0] * (n - len(p["layers"]["altitude"])) for p in inforce], float)
        total = strength.sum(axis=1)
        return self.aotpy.AtmosphericParameters(
            "profiles", wavelength=500e-9, r0=[float(v) for v in total ** -0.6], time=self.aotpy.Time("exposures", timestamps=times),
            layers_relative_weight=self.image("LAYER WEIGHTS", strength / total[:, None]), layers_height=self.image("LAYER HEIGHTS", of("altitude", "m")),
            layers_l0=self.image("LAYER OUTER SCALES", of("L0", "m")), layers_wind_speed=self.image("LAYER WIND SPEEDS", of("wind_speed", "m/s")),
            layers_wind_direction=self.image("LAYER WIND DIRECTIONS", (of("wind_direction", "deg") + 90) % 360))

    def mirrors(self, telescope):
        """Mirrors: one of each target, or those that all share."""
        a, run, mode = self.aotpy, self.run, str(self.run.header["MODE"]).strip()
        n, d = int(run.header["TSNSSP"]), float(run.header["TELDIAM"])
        if mode == "moao" or "NMIRROR" not in run.header:
            valid = int(run.header["NACT"])
            places = [a.Coordinates(x, y) for x, y in actuators(n, self.obscuration, d / n, valid)]
            names = ["mirror of target %d" % (k + 1) for k in range(run.nt)] if mode == "moao" else ["mirror"]
            return [a.DeformableMirror(name, telescope=telescope, n_valid_actuators=valid, actuator_coordinates=places) for name in names]
        raise MoaoError("%s: mirrors at altitudes: AOT has no place for their altitudes" % run.folder)

    def loops(self, sensors, mirrors):
        p = self.p["loop"]
        delay, integration = value(p["delay"], "s"), value(p["integration"], "s")
        frame = integration or float(self.run.guide_stars["FRAMETIM"][0])
        frames, closed = (delay + integration / 2) / frame, self.run.header.get("LOOP", "open") != "open"
        if closed:
            frame, frames = 1 / float(self.run.header["LOOPRATE"]), float(self.run.header["LOOPFRMS"])
        return [self.aotpy.ControlLoop("loop of %s, %s" % (m.uid, s.uid), commanded_corrector=m, input_sensor=s, closed=closed, framerate=1 / frame, delay=frames)
                for m in mirrors for s in sensors]

    def cameras(self):
        """(science stars, a camera of each target and wavelength with its image): flux, the sum without crop is 1."""
        a, run = self.aotpy, self.run
        stars = [self.placed(a.ScienceStar("target %d%s" % (k + 1, " " + run.names[k] if run.names[k] else "")), run.x[k], run.y[k]) for k in range(run.nt)]
        cameras = []
        for il in self.waves:
            for k, psf in enumerate(run.psfs(None, run.waves[il], self.exposure)):
                uid = "%s, %g um" % (stars[k].uid, run.lambdas[il])
                n, m = psf.data.shape
                detector = a.Detector("detector " + uid, pixel_intensities=self.image("PSF " + uid, psf.flux[None].astype(np.float32)),
                                      field_centre=a.Coordinates(m // 2, n // 2), pixel_scale=psf.pixel / 1e3 * ARCSEC)
                cameras.append(a.ScoringCamera("camera " + uid, wavelength=run.lambdas[il] * 1e-6, detector=detector))
        return stars, cameras

    def system(self):
        a, run = self.aotpy, self.run
        telescope = self.telescope()
        sources, sensors = self.sensors()
        mirrors = self.mirrors(telescope)
        stars, cameras = self.cameras()
        il = self.waves[-1]
        return a.AOSystem(ao_mode=ACROSS[str(run.header["MODE"]).strip()], name=run.header.get("TITLE", "") or "moao", config=str(run.header["CREATOR"]),
                          strehl_ratio=float(np.mean(run.strehl(run.waves[il], self.exposure))), strehl_wavelength=float(run.lambdas[il]) * 1e-6,
                          atmosphere_params=[self.atmosphere()], main_telescope=telescope, sources=sources + stars, scoring_cameras=cameras,
                          wavefront_sensors=sensors, wavefront_correctors=mirrors, loops=self.loops(sensors, mirrors))


def write_aot(run, path, waves=None, exposure=None):
    """Write the run as an AOT file. waves: rows of WAVELENGTHS (None: all). MoaoError without aotpy, or for what AOT cannot say."""
    library()
    system = Export(run, list(np.argsort(run.lambdas)) if waves is None else list(waves), exposure).system()
    new = "%s.new.fits" % path
    try:
        system.write_to_file(new, file_type="fits", overwrite=True)
        os.replace(new, path)
    finally:
        if os.path.exists(new):
            os.remove(new)
    return system
