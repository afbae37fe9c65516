"""Make a plain table of a catalogue of stars, or of targets or fields, for moao: FITS, VOTable, ECSV, IPAC tables, TSV of
VizieR, lists of SIMBAD, CSV and other text become columns name, ra, dec (degrees, ICRS) and magnitude.

The columns are found by the names that catalogues commonly give them; options name others. Units are those that the table
states. Magnitudes go as they are: take the band nearest to the sensors'. What is left out is counted and named, with its line.
"""
import sys

import numpy as np

from .command import numbers, parser, run_command, write_whole
from .results import MoaoError
from .sky import read_stars


def options():
    p = parser(__doc__)
    p.add_argument("catalogue", metavar="CATALOGUE", help="table: FITS, VOTable, ECSV, IPAC, TSV, CSV, other text; perhaps .gz")
    p.add_argument("-o", "--output", metavar="FILE", help="table to write (default: to the screen)")
    p.add_argument("--ra", metavar="COLUMN", help="right ascension: in its unit or degrees, or hh:mm:ss")
    p.add_argument("--dec", metavar="COLUMN", help="declination: in its unit or degrees, or dd:mm:ss")
    p.add_argument("--magnitude", metavar="COLUMN", help="magnitude")
    p.add_argument("--name", metavar="COLUMN", help="name")
    p.add_argument("--epoch", type=float, metavar="YEAR",
                   help="apply proper motions (columns pmra, pmdec in their unit or mas/yr) from ref_epoch to this year")
    p.add_argument("--catalogue-epoch", type=float, metavar="YEAR",
                   help="with --epoch: year of the positions where there is no ref_epoch, such as 2016.0")
    p.add_argument("--unit", action="append", default=[], metavar="COLUMN=UNIT",
                   help="unit of a column that states none or a wrong one: pmra=arcsec/yr, ra=h (may be repeated)")
    p.add_argument("--missing", action="append", default=[], metavar="WORD",
                   help="word or number that stands for nothing in this catalogue, in addition to the usual ones (may be repeated)")
    p.add_argument("--center", metavar="RA,DEC", help="only stars round this point [deg]; with --radius")
    p.add_argument("--radius", type=float, metavar="ARCSEC", help="only stars within this radius of --center")
    p.add_argument("--limit", type=float, metavar="MAG", help="only stars that bright")
    return p


def work(a):
    if (a.center is None) != (a.radius is None):
        raise MoaoError("--center and --radius belong together")
    stars = read_stars(a.catalogue, a.ra, a.dec, a.magnitude, a.name, a.epoch, a.catalogue_epoch, a.unit, a.missing)
    for line in stars.dropped:
        print("moao-stars: %s" % line, file=sys.stderr)
    if len(stars) == 0:
        raise MoaoError("%s: none of its %d rows has a position" % (a.catalogue, stars.rows))
    if a.center is not None:
        stars = stars.within(*numbers(a.center, 2, "RA,DEC in degrees"), a.radius)
    if a.limit is not None:
        stars = stars.take(np.nan_to_num(stars.magnitude, nan=np.inf) <= a.limit)
    if a.output is None:
        sys.stdout.write(stars.text())
    else:
        write_whole(a.output, stars.text())
        print("%s: %d of %d rows%s" % (a.output, len(stars), stars.rows,
                                       ", magnitudes of %s" % stars.column if stars.column else ", no magnitudes"))
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
