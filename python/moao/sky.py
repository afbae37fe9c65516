"""The field on the sky: catalogues of any kind as plain tables, and directions in the field.

Angles are degrees, directions (x, y) arcsec as everywhere in moao: y lies at the position angle (north through east),
and seen as on the sky x is a quarter turn clockwise from y; with position angle 0 y is north and x is west.
"""
import csv
import io
import os

import numpy as np

from .results import MoaoError, _reason

ARCSEC = 3600.0
# names of columns, as catalogues have them, in the order in which they are looked for; case does not count
NAMES = {
    "ra": ("ra", "ra_icrs", "raj2000", "_ra", "_raj2000", "ra_j2000", "radeg", "ra_deg", "alpha", "s_ra", "ramean"),
    "dec": ("dec", "de_icrs", "dej2000", "decj2000", "_de", "_dej2000", "dec_j2000", "de", "dedeg", "dec_deg", "delta", "s_dec",
            "decmean"),
    "magnitude": ("magnitude", "mag", "phot_rp_mean_mag", "rpmag", "phot_g_mean_mag", "gmag", "rmag", "r_mag", "vmag"),
    "name": ("name", "main_id", "designation", "source_id", "source", "id", "objid", "objname"),
    "pmra": ("pmra", "pm_ra", "pmra_cosdec"),
    "pmdec": ("pmdec", "pmde", "pm_dec"),
    "epoch": ("ref_epoch", "epoch"),
}


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


def find_column(table, what, asked=None):
    """Name of a column: the one that is asked for, else the first known name that is there, else None."""
    own = {str(n).lower(): n for n in table.colnames}
    if asked is not None:
        if asked.lower() not in own:
            raise MoaoError("no column %s: this catalogue has %s" % (asked, ", ".join(table.colnames)))
        return own[asked.lower()]
    return next((own[n] for n in NAMES[what] if n in own), None)


def read_table(path):
    """A catalogue in any format that astropy knows: FITS, VOTable, ECSV, CSV..."""
    from astropy.io import ascii as plain
    from astropy.table import Table
    root = path[:-3] if path.endswith(".gz") else path
    kind = {".fits": "fits", ".fit": "fits", ".vot": "votable", ".votable": "votable", ".xml": "votable",
            ".ecsv": "ascii.ecsv", ".csv": "ascii.csv"}.get(os.path.splitext(root)[1].lower())
    if not os.path.exists(path):
        raise MoaoError("%s: no such file" % path)
    try:
        if kind == "ascii.csv":
            return plain.read(path, format="csv", comment="#")
        return Table.read(path, format=kind) if kind else Table.read(path, format="ascii")
    except Exception as e:  # readers of tables raise anything
        raise MoaoError("%s: cannot be read as a table: %s" % (path, str(_reason(e)).splitlines()[0])) from None


def coordinates(table, ra, dec):
    """SkyCoord of two columns: degrees or their own unit; text is hours and degrees, as people write them."""
    from astropy import units as u
    from astropy.coordinates import SkyCoord
    a, d = table[ra], table[dec]
    try:
        if a.dtype.kind in "US":
            return SkyCoord([str(v) for v in a], [str(v) for v in d], unit=(u.hourangle, u.deg))
        return SkyCoord(np.ma.filled(np.ma.asarray(a.data, float), np.nan), np.ma.filled(np.ma.asarray(d.data, float), np.nan),
                        unit=(getattr(a, "unit", None) or u.deg, getattr(d, "unit", None) or u.deg))
    except Exception as e:
        raise MoaoError("columns %s and %s are no coordinates: %s" % (ra, dec, str(e).splitlines()[0])) from None


def move(coords, table, year):
    """Coordinates at an epoch [year], where the catalogue has proper motions [mas/yr] and their epoch."""
    from astropy import units as u
    pmra, pmdec, epoch = (find_column(table, n) for n in ("pmra", "pmdec", "epoch"))
    if pmra is None or pmdec is None or epoch is None:
        raise MoaoError("no proper motions: --epoch needs columns pmra, pmdec and ref_epoch")

    def values(name):
        v = np.ma.filled(np.ma.asarray(table[name].data, float), 0.0)
        return np.where(np.isfinite(v), v, 0.0)
    years = year - values(epoch)
    north = values(pmdec) / 1e3 * years
    east = values(pmra) / 1e3 * years  # cos(dec) is in it
    return coords.spherical_offsets_by(east * u.arcsec, north * u.arcsec)


class Stars:
    """A catalogue: ra, dec [deg], magnitude (NaN: none), name."""

    def __init__(self, ra, dec, magnitude, name):
        self.ra, self.dec = np.asarray(ra, float), np.asarray(dec, float)
        self.magnitude, self.name = np.asarray(magnitude, float), [str(n) for n in name]

    def __len__(self):
        return len(self.ra)

    def take(self, rows):
        rows = np.flatnonzero(rows)
        return Stars(self.ra[rows], self.dec[rows], self.magnitude[rows], [self.name[i] for i in rows])

    def within(self, ra, dec, radius):
        """Those within a radius [arcsec] of a point."""
        x, y = Pointing(ra, dec).to_field(self.ra, self.dec)
        return self.take(np.hypot(x, y) <= radius)

    def text(self):
        """The table that moao reads."""
        out = io.StringIO()
        w = csv.writer(out, lineterminator="\n")
        w.writerow(("name", "ra", "dec", "magnitude"))
        for n, a, d, m in zip(self.name, self.ra, self.dec, self.magnitude):
            w.writerow((n[:31], "%.8f" % a, "%.8f" % d, "" if np.isnan(m) else "%.4f" % m))
        return out.getvalue()


def read_stars(path, ra=None, dec=None, magnitude=None, name=None, epoch=None):
    """Stars of a catalogue; columns by their usual names unless they are given."""
    table = read_table(path)
    columns = {"ra": find_column(table, "ra", ra), "dec": find_column(table, "dec", dec)}
    for what, found in columns.items():
        if found is None:
            raise MoaoError("%s: no column for %s: say --%s COLUMN, one of %s" % (path, what, what, ", ".join(table.colnames)))
    coords = coordinates(table, columns["ra"], columns["dec"])
    if epoch is not None:
        coords = move(coords, table, epoch)
    coords = coords.icrs
    mag, label = find_column(table, "magnitude", magnitude), find_column(table, "name", name)
    mags = np.full(len(table), np.nan)
    if mag is not None:
        mags = np.ma.filled(np.ma.asarray(table[mag].data, float), np.nan)
    names = [str(v).strip() for v in table[label]] if label is not None else ["star %d" % (i + 1) for i in range(len(table))]
    stars = Stars(coords.ra.deg, coords.dec.deg, mags, names)
    return stars.take(np.isfinite(stars.ra) & np.isfinite(stars.dec)), mag
