#!/usr/bin/env python3
"""Make the synthetic catalogue of docs/sky.md: examples/stars.ecsv and, for sky coverage, examples/fields.csv.

A square of 15 arcmin round RA 05:00:00, Dec -25:00:00. Stars lie at random; their counts rise by 10^(0.3 mag), as
they do at these magnitudes, to 12,000 a square degree brighter than R = 16, as at 10 degrees from the plane of the
Galaxy. The fields are 24 random pointings at least 2 arcmin from the edges. No star of it exists.

  moao-python examples/make_stars.py [DIR]      into DIR; without it beside this program
"""
import os
import sys

import numpy as np
from astropy import units as u
from astropy.coordinates import SkyCoord
from astropy.table import Table

DIR = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
CENTER = SkyCoord("05h00m00s", "-25d00m00s")
SIDE, DENSITY, SLOPE, BRIGHT, FAINT = 15.0, 12000.0, 0.3, 8.0, 16.0  # arcmin, a square degree, mag


def at_random(random, n, side):
    """n places in the square of that side [arcmin] round the centre."""
    east, north = random.uniform(-side / 2, side / 2, (2, n)) * u.arcmin
    return CENTER.spherical_offsets_by(east, north)


def main():
    random = np.random.default_rng(5)
    n = random.poisson(DENSITY * (SIDE / 60) ** 2)
    low, high = 10 ** (SLOPE * BRIGHT), 10 ** (SLOPE * FAINT)  # counts to the two limits
    magnitude = np.log10(random.uniform(low, high, n)) / SLOPE
    where = at_random(random, n, SIDE)
    stars = Table({"name": ["S%03d" % (i + 1) for i in range(n)], "ra": np.round(where.ra.deg, 6) * u.deg,
                   "dec": np.round(where.dec.deg, 6) * u.deg, "magnitude": np.round(magnitude, 2) * u.mag})
    stars.meta["comments"] = ["synthetic: made by examples/make_stars.py"]
    stars.write(os.path.join(DIR, "stars.ecsv"), overwrite=True)
    fields = at_random(random, 24, SIDE - 4)
    with open(os.path.join(DIR, "fields.csv"), "w", encoding="ascii") as f:
        f.write("name,ra,dec\n")
        for i, c in enumerate(fields):
            f.write("F%02d,%.5f,%.5f\n" % (i + 1, c.ra.deg, c.dec.deg))


if __name__ == "__main__":
    main()
