"""The field on the sky: catalogues of any kind as plain tables, and directions in the field.

Angles are degrees, directions (x, y) arcsec as everywhere in moao: y lies at the position angle (north through east),
and seen as on the sky x is a quarter turn clockwise from y; with position angle 0 y is north and x is west.
"""
import re

import numpy as np

from .catalogue import parse_unit, read_catalogue
from .command import csv_text
from .results import MoaoError

ARCSEC = 3600.0
TWICE = 0.2  # arcsec: rows that are nearer than that may be one star
FAINTEST, BRIGHTEST = 30.0, -5.0  # magnitudes that the program takes; what is beyond stands for "none"
FASTEST = 20.0  # arcsec/yr: twice what any star moves
LONGEST = 63  # bytes of a name
# names of columns, as catalogues have them, in the order in which they are looked for; case does not count
NAMES = {
    "ra": ("ra", "ra_icrs", "raj2000", "_ra", "_raj2000", "_ra_icrs", "ra_j2000", "ra2000", "radeg", "ra_deg", "ra_d", "alpha",
           "alpha_j2000", "s_ra", "ramean", "rastack", "raj2", "right_ascension", "right ascension", "ra_hours", "rah"),
    "dec": ("dec", "de_icrs", "dej2000", "decj2000", "_de", "_dej2000", "_de_icrs", "dec_j2000", "dec2000", "de", "dedeg",
            "dec_deg", "dec_d", "delta", "delta_j2000", "s_dec", "decmean", "decstack", "dej2", "declination"),
    "both": ("coord1 (icrs,j2000/2000)", "coord1", "coordinates", "coord", "coords", "radec"),
    "magnitude": ("magnitude", "mag", "phot_rp_mean_mag", "rpmag", "rmag", "r_mag", "r", "mag r", "mag_r", "flux_r", "rmeanpsfmag",
                  "r_psf", "psfmag_r", "r1mag", "phot_g_mean_mag", "gmag", "g", "gmeanpsfmag", "imag", "i_mag", "i", "mag i",
                  "flux_i", "imeanpsfmag", "i_psf", "psfmag_i", "vmag", "v_mag", "v", "mag v", "mag_v", "flux_v", "jmag", "j_m",
                  "j", "hmag", "h_m", "h", "kmag", "ksmag", "k_m", "k"),
    "name": ("name", "main_id", "designation", "source_id", "source", "identifier", "typed ident", "objname", "id", "objid",
             "2mass", "_2mass"),
    "pmra": ("pmra", "pm_ra", "pmra_cosdec", "pmracosdec", "pmra_cosd"),
    "pmdec": ("pmdec", "pmde", "pm_dec"),
    "epoch": ("ref_epoch", "epoch", "epochmean", "mean_epoch", "epoch_mean"),
}
PARTS = {"ra": ("rah", "ram", "ras"), "dec": ("de-", "ded", "dem", "des")}
MISSING = ("", "null", "none", "nan", "n/a", "na", "-", "--", "---", "~", "...", "\\n", "masked", "nil", "undefined")
NO_MOTION = re.compile(r"-?9{3,}(\.[09]*)?|-9{2}(\.[09]+)?")
SEXAGESIMAL = re.compile(r"([+-]?)\s*(\d{1,3})\s*[:hd\u00b0\s]\s*(\d{1,2}(?:\.\d*)?)(?:\s*[:m'\u2032\s]\s*"
                         r"(\d{1,2}(?:\.\d*)?)?\s*[s\"\u2033]?)?")


class Pointing:
    """Where x = y = 0 is on the sky, and how y lies there: the same projection as the program's."""

    def __init__(self, ra, dec, position_angle=0.0):
        self.ra, self.dec, self.position_angle = float(ra), float(dec), float(position_angle)

    def to_field(self, ra, dec):
        """Directions (x, y) [arcsec] of points of the sky [deg]; NaN where they are 90 degrees away or more."""
        da, dec, d0 = np.radians(np.asarray(ra, float) - self.ra), np.radians(np.asarray(dec, float)), np.radians(self.dec)
        depth = np.sin(dec) * np.sin(d0) + np.cos(dec) * np.cos(d0) * np.cos(da)
        depth = np.where(depth > 1e-9, depth, np.nan)
        xi = np.cos(dec) * np.sin(da) / depth
        eta = (np.sin(dec) * np.cos(d0) - np.cos(dec) * np.sin(d0) * np.cos(da)) / depth
        c, s = np.cos(np.radians(self.position_angle)), np.sin(np.radians(self.position_angle))
        return np.degrees(-c * xi + s * eta) * ARCSEC, np.degrees(s * xi + c * eta) * ARCSEC

    def to_sky(self, x, y):
        """RA and Dec [deg] of directions [arcsec]."""
        x, y, d0 = np.radians(np.asarray(x, float) / ARCSEC), np.radians(np.asarray(y, float) / ARCSEC), np.radians(self.dec)
        c, s = np.cos(np.radians(self.position_angle)), np.sin(np.radians(self.position_angle))
        xi, eta = -c * x + s * y, s * x + c * y
        along = np.cos(d0) - eta * np.sin(d0)
        return ((self.ra + np.degrees(np.arctan2(xi, along))) % 360,
                np.degrees(np.arctan2(np.sin(d0) + eta * np.cos(d0), np.hypot(xi, along))))


# --- cells

class Cells:
    """What stands for nothing in a catalogue, and numbers of its cells."""

    def __init__(self, missing=()):
        self.words = set(MISSING) | {str(w).strip().lower() for w in missing}
        self.values = [float(w) for w in missing if re.fullmatch(r"[+-]?\d*\.?\d*([eE][+-]?\d+)?", w) and re.search(r"\d", w)]

    def number(self, word):
        """Value of a text, NaN where it is none."""
        text = word.strip().replace("\u2212", "-").replace("\u2013", "-")
        if text.lower() in self.words:
            return np.nan
        if "," in text and "." not in text:  # a decimal comma
            text = text.replace(",", ".")
        try:
            value = float(re.sub(r"(?<=\d)[dD](?=[+-]?\d)", "E", text)) if "_" not in text else np.nan
        except ValueError:
            return np.nan
        return np.nan if np.isinf(value) or value in self.values else value

    def numbers(self, cells):
        """Values of a column, NaN where there are none."""
        if cells.dtype.kind != "f":
            return np.array([self.number(w) for w in cells], float)
        return np.where(np.isfinite(cells) & ~np.isin(cells, self.values), cells, np.nan)

    def angle(self, word, unit, hours):
        """Degrees of a text: sexagesimal, or a number in that unit (None: degrees); hours: right ascensions."""
        from astropy import units as u
        text = word.strip().replace("\u2212", "-").replace("\u2013", "-")
        m = SEXAGESIMAL.fullmatch(text)
        if m is None:
            return self.number(text) * (1.0 if unit is None else unit.to(u.deg))
        parts = [float(p or 0) for p in m.groups()[1:]]
        if parts[1] >= 60 or parts[2] > 60:
            return np.nan
        value = (parts[0] + parts[1] / 60 + parts[2] / 3600) * (-1 if m.group(1) == "-" else 1)
        if not hours or re.search("[d\u00b0]", text):
            return value
        if unit is not None and unit != u.hourangle and "h" not in text:
            raise MoaoError("is '%s' of hours, or of degrees as the unit %s says? --unit COLUMN=h or =deg decides" % (text, unit))
        return value * 15

    def angles(self, cells, unit, hours):
        """Degrees of a column, NaN where there are none."""
        from astropy import units as u
        if cells.dtype.kind == "f":
            return self.numbers(cells) * (1.0 if unit is None else unit.to(u.deg))
        return np.array([self.angle(w, unit, hours) for w in cells], float)


def join_parts(cells):
    """Sexagesimal text of the cells of three columns, or of four of which the first has the sign."""
    words = [c.strip() if isinstance(c, str) else "" if np.isnan(c) else "%.10g" % c for c in cells]
    if len(words) == 4:
        words[:2] = [(words[0] if words[0] in "+-" else "") + words[1]]
    return ":".join(words) if all(words) else ""


def shown(cell):
    """A cell for a message."""
    if isinstance(cell, str):
        return "'%s'" % cell[:40]
    return "nothing" if np.isnan(cell) else "%.10g" % cell


def year_of(value):
    """Year of an epoch that is a year, a Julian date or a modified one; NaN for anything else."""
    if 1800 < value < 2200:
        return value
    day = value - 2400000.5 if value > 2.37e6 else value
    return 2000 + (day - 51544.5) / 365.25 if 15000 < day < 90000 else np.nan


# --- columns of a catalogue

def find_column(names, what, asked=None):
    """Name of a column: the one that is asked for, else the first known name that is there, else None."""
    own = {str(n).lower(): n for n in reversed(names)}
    if asked is not None:
        found = next((n for n in names if n == asked), own.get(asked.lower()))
        if found is None:
            raise MoaoError("no column %s: this catalogue has %s" % (asked, ", ".join(names)))
        return found
    return next((own[n] for n in NAMES[what] if n in own), None)


def unit_of(table, name, default, what):
    """Unit of a column as it is stated, the default where none is. MoaoError where it is no unit of `what`."""
    from astropy import units as u
    text = table.units.get(name, "").strip()
    if re.fullmatch(r"[-\s]*|unitless|none|null", text, re.I):
        return default
    unit = parse_unit(text)
    like = {"an angle": u.deg, "a proper motion": u.mas / u.yr, "a time": u.yr, "a magnitude": u.mag}[what]
    if unit is not None and unit.is_equivalent(like):
        return unit
    if unit is not None and what == "a proper motion" and unit.is_equivalent(u.one) and unit != u.one:
        return unit  # seconds of right ascension a year
    raise MoaoError("column %s: its unit, %s, is not that of %s; --unit '%s=UNIT' states another one"
                    % (name, text, what, name))


def find_magnitude(table):
    """The first column with a known name whose unit, where it is stated, is that of a magnitude ("r" may be a radius); else the
    first with such a name; else None."""
    from astropy import units as u
    own = {n.lower(): n for n in reversed(table.names) if n not in ("h", "i", "j", "k")}  # bands, not counters
    found = [own[n] for n in NAMES["magnitude"] if n in own]
    for name in found:
        try:
            unit_of(table, name, u.mag, "a magnitude")
            return name
        except MoaoError:
            pass
    return found[0] if found else None


class Reader:
    """One catalogue while it is read: its columns, its cells, and what was dropped."""

    def __init__(self, path, asked, units, missing):
        self.path, self.table, self.cells = path, read_catalogue(path), Cells(missing)
        for text in units:
            name, _, unit = text.partition("=")
            if not unit or parse_unit(unit) is None:
                raise MoaoError("--unit %s: expected COLUMN=UNIT with a unit such as mas/yr, deg or h" % text)
            self.table.units[find_column(self.table.names, None, name.strip())] = unit
        names = self.table.names
        self.at = {what: find_column(names, what, asked.get(what)) for what in NAMES}
        if asked.get("magnitude") is None:
            self.at["magnitude"] = find_magnitude(self.table)
        joined = {}
        for what, parts in PARTS.items():  # each of hours, minutes and seconds in a column of its own
            own = {n.lower(): n for n in names}
            if asked.get(what) is None and all(p in own for p in parts):
                joined[what] = [own[p] for p in parts]
                self.at[what] = " ".join(joined[what])
        if self.at["ra"] is not None and self.at["dec"] is not None:
            self.at["both"] = None
        elif self.at["both"] is None:
            what = "ra" if self.at["ra"] is None else "dec"
            raise MoaoError("no column for %s: say --%s COLUMN, one of %s" % (what, what, ", ".join(names)))
        else:
            self.at["ra"] = self.at["dec"] = None
        wanted = list(dict.fromkeys(n for w, n in self.at.items() if n is not None and w not in joined))
        self.columns = self.table.columns(wanted + sum(joined.values(), []))
        self.n = len(next(iter(self.columns.values())))
        for what, parts in joined.items():
            self.columns[self.at[what]] = np.array(
                [join_parts(cells) for cells in zip(*(self.columns[p] for p in parts))], object)
        self.dropped = []

    def get(self, what):
        return self.columns.get(self.at[what])

    def say(self, many, rows, why):
        """Keep what was dropped: `many` with %d, why(row) of each."""
        rows = list(rows)
        if rows:
            listed = "; ".join("%s (%s): %s" % (self.table.place(i), self.names[i], why(i)) for i in rows[:5])
            one = re.sub(r"\{(.*?)/(.*?)\}", lambda m: m.group(1 if len(rows) == 1 else 2), many)
            more = "" if len(rows) <= 5 else "; and %d more" % (len(rows) - 5)
            self.dropped.append("%d %s: %s%s" % (len(rows), one, listed, more))

    def positions(self):
        """(ra, dec) [deg], NaN where there are none."""
        if self.at["both"] is not None:
            halves = [re.match(r"(.*?)\s*([+-].*)", str(c)) for c in self.get("both")]
            ra, dec = (np.array([m.group(k) if m else "" for m in halves], object) for k in (1, 2))
        else:
            ra, dec = self.get("ra"), self.get("dec")
        units = [unit_of(self.table, self.at[w], None, "an angle") if self.at[w] else None for w in ("ra", "dec")]
        if units[0] is None and self.at["ra"] and self.at["ra"].lower() in ("ra_hours", "rah"):
            units[0] = parse_unit("h")
        try:
            a = self.cells.angles(ra, units[0], True)
        except MoaoError as e:
            raise MoaoError("column %s: %s" % (self.at["ra"], e)) from None
        d = self.cells.angles(dec, units[1], False)
        a[~((a >= -180) & (a <= 360))] = np.nan
        d[~(np.abs(d) <= 90)] = np.nan

        def why(i):
            if self.at["both"]:
                return "%s %s" % (self.at["both"], shown(self.get("both")[i]))
            bad = "ra" if np.isnan(a[i]) else "dec"
            return "%s %s" % (self.at[bad], shown(self.get(bad)[i]))
        self.say("row{/s} left out, without a position", np.flatnonzero(np.isnan(a) | np.isnan(d)), why)
        return a % 360, d

    def magnitudes(self):
        """Magnitudes, NaN where there are none."""
        from astropy import units as u
        name = self.at["magnitude"]
        if name is None:
            return np.full(self.n, np.nan)
        unit = unit_of(self.table, name, u.mag, "a magnitude")
        if "flux" in name.lower() and not re.fullmatch(r"flux_[a-z]", name, re.I) and name not in self.table.units:
            raise MoaoError("column %s: a flux by its name, expected magnitudes; --unit '%s=mag' says that it has them" % (name, name))
        v = self.cells.numbers(self.get("magnitude")) * unit.to(u.mag)
        v[~((v >= BRIGHTEST) & (v <= FAINTEST))] = np.nan
        return v

    def epochs(self, given):
        """Epoch of each row [year]: its own, else that of its coordinates' system, else the given one; else NaN."""
        ra = self.at["ra"]
        year = str(self.table.epochs.get(ra, ""))
        year = year_of(self.cells.number(year.lstrip("JjBb"))) if year else np.nan
        rest = given if given is not None else year
        if self.at["epoch"] is None:
            return np.full(self.n, rest)
        unit_of(self.table, self.at["epoch"], None, "a time")
        cells = self.get("epoch")
        if cells.dtype.kind != "f":
            cells = np.array([w.strip().lstrip("JjBb") for w in cells], object)
        v = np.array([year_of(x) for x in self.cells.numbers(cells)], float)
        return np.where(np.isnan(v), rest, v)

    def motion(self, what, dec):
        """Proper motions [arcsec/yr], of right ascension with cos(dec); NaN where there are none."""
        from astropy import units as u
        unit = unit_of(self.table, self.at[what], u.mas / u.yr, "a proper motion")
        v = self.cells.numbers(self.get(what))
        v[[bool(NO_MOTION.fullmatch("%.6g" % x)) for x in v]] = np.nan
        if unit.is_equivalent(u.one):  # seconds of right ascension
            v = v * (unit / u.s).to(1 / u.yr) * 15 * np.cos(np.radians(dec))
        else:
            v = v * unit.to(u.arcsec / u.yr)
        v[np.abs(v) > FASTEST] = np.nan
        return v

    def moved(self, ra, dec, year, given):
        """(ra, dec) [deg] at a year, by the rows' proper motions. A row without motion or epoch stays, and is named."""
        from astropy import units as u
        from astropy.coordinates import SkyCoord
        if self.at["pmra"] is None or self.at["pmdec"] is None:
            raise MoaoError("no proper motions: --epoch needs columns pmra and pmdec, and ref_epoch or --catalogue-epoch YEAR")
        epoch = self.epochs(given)
        if self.n and np.isnan(epoch).all():
            raise MoaoError("no epoch of the catalogue: --epoch needs a column ref_epoch, or --catalogue-epoch YEAR")
        motion = [self.motion(what, dec) for what in ("pmra", "pmdec")]
        rows = np.isfinite(ra) & np.isfinite(dec)
        known = rows & np.isfinite(motion[0]) & np.isfinite(motion[1]) & np.isfinite(epoch)

        def why(i):
            bad = "pmra" if np.isnan(motion[0][i]) else "pmdec" if np.isnan(motion[1][i]) else "epoch"
            return "%s %s" % (self.at[bad] or bad, shown(self.get(bad)[i]) if self.at[bad] else "nothing")
        self.say("star{ stays/s stay} at the catalogue's position, motion or epoch missing", np.flatnonzero(rows & ~known), why)
        years = year - epoch[known]
        coords = SkyCoord(ra[known] * u.deg, dec[known] * u.deg)
        there = coords.spherical_offsets_by(motion[0][known] * years * u.arcsec, motion[1][known] * years * u.arcsec)
        ra, dec = ra.copy(), dec.copy()
        ra[known], dec[known] = there.ra.deg, there.dec.deg
        return ra, dec

    def read_names(self):
        """Name of each row; "star N" where there is none."""
        given = self.get("name")
        words = ["" if given is None else " ".join((c if isinstance(c, str) else "%.17g" % c).split()) for c in
                 (given if given is not None else range(self.n))]
        self.unnamed = np.array([w.lower() in MISSING for w in words], bool)
        self.names = ["star %d" % (i + 1) if u else w for i, (w, u) in enumerate(zip(words, self.unnamed))]

    def twice(self, ra, dec, magnitude):
        """Whether a row is a star that another row is: the same place, and the same magnitude or name."""
        again = np.full(self.n, -1)
        order = np.argsort(np.where(np.isnan(dec), 1e9, dec), kind="stable")
        order = order[:np.isfinite(dec).sum()]
        for shift in range(1, len(order)):
            i, j = order[:-shift], order[shift:]
            if not (dec[j] - dec[i] <= TWICE / ARCSEC).any():
                break
            east = ((ra[i] - ra[j] + 180) % 360 - 180) * np.cos(np.radians(dec[i]))
            near = np.hypot(east, dec[i] - dec[j]) <= TWICE / ARCSEC
            for a, b in zip(i[near], j[near]):
                nameless = self.unnamed[a] and self.unnamed[b]
                same = self.names[a] == self.names[b] or abs(magnitude[a] - magnitude[b]) < 0.005 or (
                    nameless and np.isnan(magnitude[a]) and np.isnan(magnitude[b]))
                if same and again[a] < 0 and again[b] < 0:
                    first, second = sorted((a, b), key=lambda k: (np.isnan(magnitude[k]), k))
                    again[second] = first
        self.say("row{ is a star/s are stars} of another row, counted once", np.flatnonzero(again >= 0),
                 lambda i: "as %s (%s)" % (self.table.place(again[i]), self.names[again[i]]))
        return again >= 0


class Stars:
    """A catalogue: ra, dec [deg], magnitude (NaN: none), name. Of one that was read: rows (that the file has), column (of the
    magnitudes, or None), dropped (lines that say what was left out and why)."""

    def __init__(self, ra, dec, magnitude, name):
        self.ra, self.dec = np.asarray(ra, float), np.asarray(dec, float)
        self.magnitude, self.name = np.asarray(magnitude, float), [str(n) for n in name]
        self.rows, self.column, self.dropped = len(self.ra), None, []

    def __len__(self):
        return len(self.ra)

    def take(self, rows):
        rows = np.flatnonzero(rows)
        some = Stars(self.ra[rows], self.dec[rows], self.magnitude[rows], [self.name[i] for i in rows])
        some.rows, some.column, some.dropped = self.rows, self.column, self.dropped
        return some

    def within(self, ra, dec, radius):
        """Those within a radius [arcsec] of a point."""
        x, y = Pointing(ra, dec).to_field(self.ra, self.dec)
        return self.take(np.hypot(x, y) <= radius)

    def text(self):
        """The table that moao reads."""
        rows = [("name", "ra", "dec", "magnitude")]
        rows += [(n.encode()[:LONGEST].decode("utf-8", "ignore"), "%.8f" % a, "%.8f" % d, "" if np.isnan(m) else "%.4f" % m)
                 for n, a, d, m in zip(self.name, self.ra, self.dec, self.magnitude)]
        return csv_text(rows)


def read_stars(path, ra=None, dec=None, magnitude=None, name=None, epoch=None, catalogue_epoch=None, units=(), missing=()):
    """Stars of a catalogue, as Stars. Columns by their usual names unless they are given; epoch: year to which proper motions
    are applied; catalogue_epoch: year of the positions where the file does not state it; units: "COLUMN=UNIT" for columns that
    state none; missing: further words or values that stand for nothing. MoaoError with file and reason."""
    if catalogue_epoch is not None and epoch is None:
        raise MoaoError("--catalogue-epoch without --epoch: nothing is moved")
    for what, year in (("--epoch", epoch), ("--catalogue-epoch", catalogue_epoch)):
        if year is not None and not 1800 < year < 2200:
            raise MoaoError("%s %g: expected a year, such as 2016.0" % (what, year))
    try:
        r = Reader(path, {"ra": ra, "dec": dec, "magnitude": magnitude, "name": name}, units, missing)
        r.read_names()
        a, d = r.positions()
        m = r.magnitudes()
        if epoch is not None:
            a, d = r.moved(a, d, epoch, catalogue_epoch)
        again = r.twice(a, d, m)
        good = np.isfinite(a) & np.isfinite(d) & ~again
        if r.at["magnitude"] is not None:
            cells = r.get("magnitude")
            r.say("star{ has/s have} no magnitude", np.flatnonzero(good & np.isnan(m)),
                  lambda i: "%s %s" % (r.at["magnitude"], shown(cells[i])))
    except MoaoError as e:
        raise MoaoError(str(e) if str(e).startswith((str(path) + ":", "--")) else "%s: %s" % (path, e)) from None
    if r.table.skipped:
        more = "" if len(r.table.skipped) <= 5 else "; and %d more" % (len(r.table.skipped) - 5)
        r.dropped.insert(0, "%d row%s left out, not like the header: %s%s" % (
            len(r.table.skipped), "" if len(r.table.skipped) == 1 else "s",
            "; ".join("%s: %s" % s for s in r.table.skipped[:5]), more))
    stars = Stars(a, d, m, r.names)
    stars.rows = r.n + len(r.table.skipped)
    stars.column, stars.dropped = r.at["magnitude"], ["%s: %s" % (path, w) for w in r.table.notes + r.dropped]
    return stars.take(good)
