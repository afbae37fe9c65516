"""Make a plain table of a catalogue of stars, or of targets or fields, for moao: FITS, VOTable, ECSV, CSV and what else
astropy reads become columns name, ra, dec (degrees, ICRS) and magnitude.

The columns are found by the names that catalogues commonly give them; options name others. Magnitudes go as they are: take
the band nearest to the sensors'.
"""
import sys

import numpy as np

from .command import numbers, parser, run_command, write_whole
from .results import MoaoError
from .sky import read_stars


def options():
    p = parser(__doc__)
    p.add_argument("catalogue", metavar="CATALOGUE", help="table of any format that astropy reads")
    p.add_argument("-o", "--output", metavar="FILE", help="table to write (default: to the screen)")
    p.add_argument("--ra", metavar="COLUMN", help="right ascension: degrees, or its own unit, or hh:mm:ss")
    p.add_argument("--dec", metavar="COLUMN", help="declination: degrees, or its own unit, or dd:mm:ss")
    p.add_argument("--magnitude", metavar="COLUMN", help="magnitude")
    p.add_argument("--name", metavar="COLUMN", help="name")
    p.add_argument("--epoch", type=float, metavar="YEAR",
                   help="apply proper motions (columns pmra, pmdec in mas/yr, ref_epoch) up to this year")
    p.add_argument("--center", metavar="RA,DEC", help="only stars round this point [deg]; with --radius")
    p.add_argument("--radius", type=float, metavar="ARCSEC", help="only stars within this radius of --center")
    p.add_argument("--limit", type=float, metavar="MAG", help="only stars that bright")
    return p


def work(a):
    stars, column = read_stars(a.catalogue, a.ra, a.dec, a.magnitude, a.name, a.epoch)
    every = len(stars)
    if (a.center is None) != (a.radius is None):
        raise MoaoError("--center and --radius belong together")
    if a.center is not None:
        stars = stars.within(*numbers(a.center, 2, "RA,DEC in degrees"), a.radius)
    if a.limit is not None:
        stars = stars.take(np.nan_to_num(stars.magnitude, nan=np.inf) <= a.limit)
    if a.output is None:
        sys.stdout.write(stars.text())
    else:
        write_whole(a.output, stars.text())
        print("%s: %d of %d rows%s" % (a.output, len(stars), every,
                                       ", magnitudes of %s" % column if column else ", no magnitudes"))
    return 0


def main(arguments=None):
    words = list(sys.argv[1:] if arguments is None else arguments)
    for i, w in enumerate(words[:-1]):  # a negative declination is no option
        if w == "--center":
            words[i:i + 2] = ["--center=" + words[i + 1]]
            break
    a = options().parse_args(words)
    return run_command("moao-stars", lambda: work(a))


if __name__ == "__main__":
    sys.exit(main())
