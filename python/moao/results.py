"""What a run left in its folder, by the names that one uses: Strehl ratios, energies, images, stars, exposures.

Arrays of results have the shape of the targets: [y, x] for a grid, [target] for a list; with exposure="all" the
exposures come before them, and without a wavelength all wavelengths come first. Wavelengths are in um, or names of bands
(psf.bands), boxes and pixels in mas, directions in arcsec, exposures count from 1.
"""
import os
import re
import subprocess
import tempfile
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
from astropy.io import fits
from astropy.table import Table

from . import carried, show
from .psf import Psf, pupil_area, total_flux
from .reading import MoaoError, check_fits, number, one_line, reading, reason, text_of, whole

if TYPE_CHECKING:
    import matplotlib.figure
    import pandas

Wave = Union[None, float, str]  # um, the name of a band, or None
Exposure = Union[None, int, str]  # from 1, "all", or None: the long one
Target = Union[None, int, str]  # from 0, or a name

_reason = reason  # the name of before

NEAR_WAVELENGTH = 0.1  # a wavelength that is asked for is found within this share of itself
NEAR_BOX = 0.01        # and so is a box
AT_ONCE = 2000         # directions of one call of the program
MOST_SIDE = 16384      # pixels of an image
LONG = "_LONG"
STARS = "WFE_STAR"     # noise of each star, a part of WFE_NOISE
TERMS = {"WFE_TOTAL": "total error", "WFE_TOMO": "tomography", "WFE_NOISE": "noise", "WFE_ALIAS": "aliasing", "WFE_FIT": "fitting",
         "WFE_LAG": "servo lag", "WFE_JITTER": "jitter", "WFE_STATIC": "static error", "WFE_SODIUM": "sodium focus",
         "WFE_GENFIT": "generalised fitting"}


def nearest(values, wanted, share, what, unit, others=""):
    """Index of the value nearest to the wanted one; MoaoError when it is farther than that share of it."""
    values = np.asarray(values, float)
    there = ", ".join("%g" % v for v in values) or "none"
    try:
        wanted = number(wanted, "a %s in %s" % (what, unit))
    except MoaoError as e:
        raise MoaoError("%s: this run has %s %s%s" % (e, there, unit, others)) from None
    i = int(np.argmin(abs(values - wanted))) if len(values) else 0
    if not len(values) or not abs(values[i] - wanted) <= share * abs(wanted):
        raise MoaoError("no %s near %g %s: this run has %s %s%s" % (what, wanted, unit, there, unit, others))
    return i


def read_yaml(text):
    """A parameter file as it stands; YAML 1.1 takes 1e-06 for text, here it is the number that it is."""
    import yaml  # comes with astropy

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        """With a rule more for numbers."""
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"^[-+]?\d+(\.\d*)?[eE][-+]?\d+$"), list("-+0123456789"))
    Loader.yaml_implicit_resolvers = {c: [(tag, form) for tag, form in rules if tag != "tag:yaml.org,2002:bool"]
                                      for c, rules in Loader.yaml_implicit_resolvers.items()}
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(true|false)$"), list("tf"))  # on, off, yes are words
    return yaml.load(text, Loader)  # a SafeLoader


class Run:
    """The results of one run. Nothing is read from psf.fits before an image is asked for."""

    def __init__(self, folder):
        self.folder = os.fspath(folder)
        self.path = os.path.join(self.folder, "maps.fits")
        self.psf_path = os.path.join(self.folder, "psf.fits")
        with reading(self.path, "the maps"):
            check_fits(self.path)
            with fits.open(self.path, memmap=False) as f:
                self.header = f[0].header
                self._grid = tuple(int(f["TARGETS"].header[n]) for n in ("GRIDNX", "GRIDNY"))
                # NaN stays NaN: a value that is not known, not one to leave out
                tables = {n: Table.read(f[n], mask_invalid=False) for n in (
                    "TARGETS", "GUIDESTARS", "EXPOSURES", "WAVELENGTHS", "PARAMETERS")}
            self.targets, self.guide_stars = tables["TARGETS"], tables["GUIDESTARS"]
            self.exposures, self.wavelengths = tables["EXPOSURES"], tables["WAVELENGTHS"]
            self.parameters_text = "\n".join(str(s).rstrip() for s in tables["PARAMETERS"]["LINE"]) + "\n"
            self.nl, self.ne, self.nt = len(self.wavelengths), len(self.exposures), len(self.targets)
            self._check()
            self.x, self.y = (np.asarray(self.targets[n], float) for n in "XY")
        self._parameters = self._images = None
        self.warnings = []  # of the program, where this process has started it
        for what, table in (("targets", self.targets), ("guide_stars", self.guide_stars)):
            carried.join(self.folder, what, table)

    def _check(self):
        """Everything that is read later has the kind and the size that it must have: ValueError where not."""
        for name, rows, columns in (("TARGETS", self.targets, "X Y STREHL STREHL_LONG"), ("GUIDESTARS", self.guide_stars, "X Y"),
                                    ("EXPOSURES", self.exposures, "TIME R0 TORTIME"), ("WAVELENGTHS", self.wavelengths, "LAMBDA DIFFLIM")):
            for column in columns.split():
                if rows[column].dtype.kind not in "fiu":
                    raise ValueError("column %s of %s is no number" % (column, name))
            for column in ("X", "Y", "TIME", "LAMBDA", "DIFFLIM"):
                if column in columns.split() and not (rows[column].ndim == 1 and np.isfinite(rows[column]).all()):
                    raise ValueError("column %s of %s has to be one number a row" % (column, name))
            if len(rows) == 0 and name != "GUIDESTARS":
                raise ValueError("table %s has no row" % name)
        if (self.lambdas <= 0).any():
            raise ValueError("column LAMBDA of WAVELENGTHS has to be above 0")
        if self._grid[0] > 0 and self._grid[0] * self._grid[1] != self.nt:
            raise ValueError("%d targets are no grid of %d x %d" % (self.nt, *self._grid))
        for name in self.quantities:
            for column, n in ((name, self.ne), (name + LONG, 1)):
                cells = self.targets[column]
                if cells.dtype.kind not in "fiu" or cells.size not in (self.nt * n, self.nt * n * self.nl):
                    raise ValueError("column %s of TARGETS has to be %d numbers for each wavelength" % (column, n))
        for column, n in ((STARS, self.ne), (STARS + LONG, 1)):
            if column in self.targets.colnames:
                cells = self.targets[column]
                if cells.dtype.kind not in "fiu" or cells.size != self.nt * n * len(self.guide_stars):
                    raise ValueError("column %s of TARGETS has to be %d numbers for each star" % (column, n))
        for key in ("TELDIAM", "OBSCUR", "ZENITH", "NSENSOR", "NMEAS"):
            number(self.header.get(key, 0 if key == "ZENITH" else None), "keyword %s" % key)

    def __repr__(self):
        return "<moao run %r: %d targets, %d exposures, wavelengths %s um>" % (
            self.folder, self.nt, self.ne, ", ".join("%s" % v if isinstance(v, str) else "%g" % v for v in self.waves))

    # --- to show it

    def to_table(self, exposure: Optional[int] = None) -> Table:
        """A row for each target and wavelength: direction, name, every quantity of the long exposure or of one exposure (from 1),
        and the columns that the table of targets brought along."""
        return show.flat_table(self, exposure)

    def to_pandas(self, exposure: Optional[int] = None) -> "pandas.DataFrame":
        """The same as a DataFrame. Needs pandas."""
        return self.to_table(exposure).to_pandas()

    def plot(self, what: Optional[str] = None, **more: Any) -> "matplotlib.figure.Figure":
        """A figure of matplotlib: the overview, or a panel ("strehl", "ee", "psf", "budget"..., with the arguments of
        moao.plots_panels.panel: wavelength, targets, box)."""
        return show.figure(self, what, **more)

    def _repr_html_(self):
        return show.page(self)

    # --- what the run is about

    @property
    def lambdas(self) -> np.ndarray:
        """Wavelengths [um], or centres of bands, in the order of the file."""
        return np.asarray(self.wavelengths["LAMBDA"], float)

    @property
    def bands(self) -> List[str]:
        """Name of the band of each image, "" of a single wavelength, in the order of the file."""
        names = self.wavelengths["BAND"] if "BAND" in self.wavelengths.colnames else [""] * self.nl
        return [text_of(n) for n in names]

    @property
    def waves(self):
        """What each image is of, as `wavelength` takes it: the wavelength [um], or the name of a band."""
        return [band or float(v) for band, v in zip(self.bands, self.lambdas)]

    def wave_words(self, il):
        """"1.65 um", or "band H"."""
        return "band %s" % self.bands[il] if self.bands[il] else "%.4g um" % self.lambdas[il]

    def flux_wavelength(self, il):
        """Wavelength [um] whose peak has the share of the light that the image's peak has: of a band c -+ w/2 with equal
        photons at all wavelengths the root of (c - w/2) (c + w/2)."""
        wide = float(self.wavelengths["WIDTH"][il]) if "WIDTH" in self.wavelengths.colnames else 0.0
        return float(np.sqrt(self.lambdas[il] ** 2 - wide ** 2 / 4))

    @property
    def times(self) -> np.ndarray:
        """Times of the exposures [s]."""
        return np.asarray(self.exposures["TIME"], float)

    @property
    def grid(self) -> Optional[Tuple[int, int]]:
        """(nx, ny) of a grid of targets, None for a list."""
        return None if self._grid[0] <= 0 else tuple(int(n) for n in self._grid)

    @property
    def names(self) -> List[str]:
        """Names of the targets; those that have none are called by their number from 1."""
        given = [text_of(n) for n in self.targets["NAME"]] if "NAME" in self.targets.colnames else [""] * self.nt
        return [n or str(i + 1) for i, n in enumerate(given)]

    @property
    def named(self):
        """Whether any target has a name of its own."""
        return "NAME" in self.targets.colnames and any(str(n).strip() for n in self.targets["NAME"])

    @property
    def title(self) -> str:
        return text_of(self.header.get("TITLE", ""))

    @property
    def zenith(self) -> float:
        """Zenith angle [deg]."""
        return float(self.header.get("ZENITH", 0))

    @property
    def pupil(self) -> Dict[str, float]:
        """What of the telescope is lit, a dict: `area` [m2] collects the light; `peak`, what a Strehl ratio is to be multiplied by to
        be relative to the clear annulus of `diameter` [m] and `obscuration`. Files of earlier versions have the annulus."""
        h = self.header
        annulus = np.pi / 4 * h["TELDIAM"] ** 2 * (1 - h["OBSCUR"] ** 2)
        words = {"angle": "PUPANGLE", "segments": "NSEGMENT", "piston": "SEGPIST", "tiptilt": "SEGTILT"}
        return {"diameter": h["TELDIAM"], "obscuration": h["OBSCUR"], "area": h.get("PUPAREA", annulus), "peak": h.get("PUPPEAK", 1.),
                **{name: h[key] for name, key in words.items() if key in h}}

    @property
    def r0(self) -> np.ndarray:
        """r0 of each exposure [m] at 500 nm along the line of sight."""
        return np.asarray(self.exposures["R0"], float)

    @property
    def r0_zenith(self) -> np.ndarray:
        """r0 of each exposure [m] at 500 nm as it would be at zenith: that along the line of sight x airmass^(3/5)."""
        return self.r0 * np.cos(np.radians(self.zenith)) ** -0.6

    @property
    def position_angle(self):
        """Position angle of the y axis [deg east of north], None when the run does not say."""
        return float(self.header["POSANGLE"]) if "POSANGLE" in self.header else None

    @property
    def parameters(self) -> Dict[str, Any]:
        """Every parameter of the run, nested as in effective.yaml (parameters_text is that text)."""
        if self._parameters is None:
            try:
                with reading(self.path, "the parameters"):
                    self._parameters = read_yaml(self.parameters_text)
            except MoaoError as e:
                raise MoaoError("%s; parameters_text is the text" % e) from None
        return self._parameters

    # --- figures of merit

    @property
    def quantities(self) -> List[str]:
        """Names of what each target has: STREHL, EE_75mas..., FWHM, VARIANCE..."""
        names = self.targets.colnames
        return [n for n in names if n + LONG in names and n != STARS]

    def achromatic(self, name):
        """Whether a quantity is the same at all wavelengths: the terms of the error budget."""
        return name.startswith("WFE_")

    @staticmethod
    def term_words(name):
        """What a term of the error budget is called."""
        return TERMS.get(name, name.lower())

    @property
    def boxes(self) -> List[float]:
        """Sides of the boxes of ensquared energy [mas]."""
        return [self.box_of(n) for n in self.quantities if n.startswith("EE_")]

    @staticmethod
    def box_of(name):
        """Side [mas] of the box of a quantity EE_75mas, EE_37p5mas."""
        return float(name[len("EE_"):-len("mas")].replace("p", "."))

    def unit(self, name: str) -> str:
        """Unit of a quantity, "" for pure numbers."""
        return str(self.targets[name].unit or "")

    def column(self, name):
        """A quantity as [wavelength, exposure, target]."""
        cells = np.asarray(self._cells(name), float).reshape(self.nt, -1, self.ne)
        return np.broadcast_to(cells, (self.nt, self.nl, self.ne)).transpose(1, 2, 0)

    def column_long(self, name):
        """A quantity of the long exposure as [wavelength, target]."""
        cells = np.asarray(self._cells(name + LONG), float).reshape(self.nt, -1)
        return np.broadcast_to(cells, (self.nt, self.nl)).T

    def _cells(self, name):
        if name not in self.targets.colnames:
            raise MoaoError("no quantity %s: this run has %s" % (name, ", ".join(self.quantities)))
        return self.targets[name]

    def wavelength_index(self, wavelength: Wave = None) -> int:
        """Row of the wavelength nearest to one [um], of a band by its name; None: the first. A band is found by its
        centre too where no single wavelength is near."""
        if wavelength is None:
            return 0
        bands = self.bands
        if isinstance(wavelength, str) and wavelength in bands and wavelength:
            return bands.index(wavelength)
        named = [b for b in bands if b]
        others = ", and band%s %s" % ("s" if len(named) > 1 else "", ", ".join(named)) if named else ""
        single = [i for i, b in enumerate(bands) if not b]
        try:
            return single[nearest(self.lambdas[single], wavelength, NEAR_WAVELENGTH, "wavelength", "um", others)]
        except MoaoError:
            if not named or isinstance(wavelength, str):
                raise
        return nearest(self.lambdas, wavelength, NEAR_WAVELENGTH, "wavelength", "um", others)

    def value(self, name: str, wavelength: Wave = None, exposure: Exposure = None) -> np.ndarray:
        """A quantity: of the long exposure (exposure=None), of one exposure (from 1), or of "all" of them; at the
        wavelength nearest to one [um], or at all (None: they come first in the array)."""
        il = slice(None) if wavelength is None else self.wavelength_index(wavelength)
        if exposure is None:
            return self._shaped(self.column_long(name)[il])
        if isinstance(exposure, str):
            if exposure != "all":
                raise MoaoError('exposure is None (the long one), a number from 1, or "all", not %r' % exposure)
            return self._shaped(self.column(name)[il])
        return self._shaped(self.column(name)[il, self._exposure(exposure), :])

    def _exposure(self, exposure):
        if not 1 <= whole(exposure, "an exposure from 1") <= self.ne:
            raise MoaoError("no exposure %s: this run has 1 to %d" % (exposure, self.ne))
        return int(exposure) - 1

    def _shaped(self, v):
        return v if self.grid is None else v.reshape(v.shape[:-1] + (self.grid[1], self.grid[0]))

    def strehl(self, wavelength: Wave = None, exposure: Exposure = None) -> np.ndarray:
        """Strehl ratio of every target."""
        return self.value("STREHL", wavelength, exposure)

    def fwhm(self, wavelength: Wave = None, exposure: Exposure = None) -> np.ndarray:
        """Full width at half maximum [mas] of every target."""
        return self.value("FWHM", wavelength, exposure)

    def variance(self, wavelength: Wave = None, exposure: Exposure = None) -> np.ndarray:
        """Variance of the residual phase [rad2] of every target."""
        return self.value("VARIANCE", wavelength, exposure)

    def ee_name(self, box):
        """Name of the quantity for a box [mas]."""
        i = nearest(self.boxes, box, NEAR_BOX, "box", "mas", " (others: parameter psf.ee_boxes, or run.psf(...).ee(box) from the image)")
        return [n for n in self.quantities if n.startswith("EE_")][i]

    def ee(self, box: float, wavelength: Wave = None, exposure: Exposure = None) -> np.ndarray:
        """Share of the energy of every target in a square box of that side [mas]."""
        return self.value(self.ee_name(box), wavelength, exposure)

    def budget_terms(self) -> List[str]:
        """Names of the quantities that are errors of the phase: those in rad2, nm or nm2; VARIANCE only where the run
        has no error budget, whose total it is."""
        found = [n for n in self.quantities if self.unit(n).replace("^", "").replace("**", "") in ("rad2", "nm", "nm2")]
        return [n for n in found if n != "VARIANCE" or "WFE_TOTAL" not in found]

    def star_noise(self, exposure: Optional[int] = None, target: Target = None) -> np.ndarray:
        """Noise that each star brings [nm rms]: [star, target], or with `target` (as of target_index) [star]; of the
        long exposure or of one, from 1. The order is that of guide_stars."""
        name = STARS + (LONG if exposure is None else "")
        if name not in self.targets.colnames:
            raise MoaoError("no error budget: this run needs output.budget: terms")
        cells = np.asarray(self.targets[name], float).reshape(self.nt, len(self.guide_stars), -1)
        cells = cells[:, :, 0 if exposure is None else self._exposure(exposure)].T
        return cells if target is None else cells[:, self.target_index(target)]

    def budget(self, wavelength: Wave = None, exposure: Optional[int] = None, target: Target = None) -> Table:
        """The error terms that the run keeps, as a table: one row for each and each wavelength (None: all), mean,
        smallest and largest over the targets [rad2] and the root of the mean as optical path [nm]; with `target` (as of
        target_index) of that one. A term whose variance is negative has a root with that sign."""
        rows, only = [], slice(None) if target is None else [self.target_index(target)]
        for name in self.budget_terms():
            for il in range(self.nl) if wavelength is None else [self.wavelength_index(wavelength)]:
                nm = self.lambdas[il] * 1e3 / (2 * np.pi)  # of path for one radian
                v = np.ravel(self.value(name, self.waves[il], exposure))[only]
                unit = self.unit(name)
                v = v if unit.startswith("rad") else v / nm ** 2 if unit != "nm" else v * abs(v) / nm ** 2
                rows.append((name, self.lambdas[il], v.mean(), v.min(), v.max(),
                             nm * np.copysign(np.sqrt(abs(v.mean())), v.mean())))
        t = Table(rows=rows or None, names=("TERM", "LAMBDA", "MEAN", "MIN", "MAX", "RMS"),
                  dtype=("U32",) + (float,) * 5)
        for column, unit in zip(t.colnames[1:], ("um", "rad2", "rad2", "rad2", "nm")):
            t[column].unit = unit
        return t

    # --- images

    def target_index(self, x: Union[int, float, str], y: Optional[float] = None) -> int:
        """Index from 0 of a target: given itself, its name, or the direction (x, y) [arcsec] that it is nearest to."""
        if y is not None:
            x, y = number(x, "x in arcsec"), number(y, "y in arcsec")
            return int(np.argmin(np.hypot(self.x - x, self.y - y)))
        if isinstance(x, str):
            if x not in self.names:
                raise MoaoError("no target %r: this run has %s" % (x, ", ".join(self.names[:8])
                                                                  + (", ..." if self.nt > 8 else "")))
            return self.names.index(x)
        if not -self.nt <= whole(x, "a target's index, its name, or x and y") < self.nt:
            raise MoaoError("no target %s: this run has 0 to %d" % (x, self.nt - 1))
        return int(x) % self.nt

    @property
    def has_psf(self) -> bool:
        return os.path.exists(self.psf_path)

    @property
    def images(self):
        """The kinds of images that psf.fits has: "long", "short", both or none. MoaoError when it is there but damaged."""
        found = self._image_names() if self.has_psf else ()
        return [kind for kind in ("long", "short") if ("PSF_" + kind.upper(), 1) in found]

    def _image_names(self):
        """(EXTNAME, EXTVER) of what psf.fits has, read once."""
        if self._images is None:
            with reading(self.psf_path, "the images"):
                self._images = check_fits(self.psf_path)
        return self._images

    def psf(self, x: Union[int, float, str], y: Optional[float] = None, wavelength: Wave = None, exposure: Optional[int] = None) -> Psf:
        """The image of the target nearest to (x, y) [arcsec], or of that index (from 0) or name, at a wavelength (None:
        the first); the long exposure or, with output.psf: short, exposure 1, 2..."""
        return next(self.psfs([self.target_index(x, y)], wavelength, exposure))

    def psfs(self, targets: Optional[Sequence[Any]] = None, wavelength: Wave = None, exposure: Optional[int] = None) -> Iterator[Psf]:
        """The images of some targets (indices, None: all), one after another; only they are read."""
        il = self.wavelength_index(wavelength)
        name, version = "PSF_LONG", il + 1
        if exposure is not None:
            name, version = "PSF_SHORT", il * self.ne + self._exposure(exposure) + 1
        if not self.has_psf:
            raise MoaoError("%s: no images: run with output.psf: long or short" % self.psf_path)
        if (name, version) not in self._image_names():
            raise MoaoError("%s: no images of %s: run with output.psf: %s" % (
                self.psf_path, "the long exposure" if exposure is None else "single exposures", "long" if exposure is None else "short"))
        f = None
        try:
            with reading(self.psf_path, "the images"):
                f = fits.open(self.psf_path)
                cube, pixel = self._cube(f[name, version])
                total = total_flux(self.flux_wavelength(il), pixel, pupil_area(self.header))
            for t in range(self.nt) if targets is None else targets:
                with reading(self.psf_path, "the images"):
                    image = cube[t, :, :]
                yield Psf(image, pixel, self.lambdas[il], total, t, self.x[t], self.y[t], exposure, self.names[t], self.bands[il])
        finally:
            if f is not None:
                f.close()

    def psf_at(self, x: Any, y: Any, wavelength: Wave = None, exposure: Optional[int] = None) -> Union[Psf, List[Psf]]:
        """The image in any direction (x, y) [arcsec] of the field, also where there is no target: of a run with output.field: true,
        between whose nodes `moao psf` interpolates. x and y may be arrays: a list of images then. exposure: 1, 2... (None: the long
        one)."""
        il = self.wavelength_index(wavelength)
        xs, ys = np.broadcast_arrays(np.atleast_1d(np.asarray(x, float)), np.atleast_1d(np.asarray(y, float)))
        at = np.stack([xs.ravel(), ys.ravel()], axis=1)
        if not np.all(np.isfinite(at)):
            raise MoaoError("psf_at: a direction is not a number")
        more = [] if exposure is None else ["--exposure", str(self._exposure(exposure) + 1)]
        found = [p for i in range(0, len(at), AT_ONCE) for p in self._images_at(at[i:i + AT_ONCE], il, exposure, more)]
        return found if np.ndim(x) or np.ndim(y) else found[0]

    def _images_at(self, at, il, exposure, more):
        from .process import find_program
        with tempfile.TemporaryDirectory(prefix="moao-") as folder:
            path = os.path.join(folder, "psf.fits")
            words = ",".join("%.9g,%.9g" % tuple(p) for p in at)
            p = subprocess.run([find_program(), "psf", self.folder, "--at", words, "-o", path, *more], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, universal_newlines=True, check=False)
            if p.returncode != 0:
                raise MoaoError(one_line(p.stderr.strip()) or "moao psf: exit code %d" % p.returncode)
            with reading(path, "the images"), fits.open(path) as f:
                hdu = f["PSF", il + 1]
                pixel, cube = number(hdu.header["PIXEL"], "keyword PIXEL"), np.array(hdu.data)
        total = total_flux(self.flux_wavelength(il), pixel, pupil_area(self.header))
        return [Psf(image, pixel, self.lambdas[il], total, -1, x, y, exposure) for image, (x, y) in zip(cube, at)]

    def _cube(self, hdu):
        """(images [target, y, x], pixel [mas]) of an extension, of which only what is asked for is read."""
        pixel = number(hdu.header["PIXEL"], "keyword PIXEL")
        if len(hdu.shape) != 3 or hdu.shape[0] != self.nt or not 0 < max(hdu.shape[1:]) <= MOST_SIDE or pixel <= 0:
            raise ValueError("images of %s for %d targets" % (" x ".join(map(str, hdu.shape[::-1])), self.nt))
        return hdu.section if hasattr(hdu, "section") else hdu.data, pixel
