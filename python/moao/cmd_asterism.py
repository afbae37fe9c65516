"""Draw what `moao asterism` found: the field with the chosen stars over the map of the best full run, and the first places.

Reads asterism.csv, field.csv and asterism.json of the folder. Needs astropy and matplotlib.
"""
import os
import sys

from .asterism import Asterisms
from .command import parser, run_command, save


def options():
    p = parser(__doc__)
    p.add_argument("folder", metavar="DIR", help="folder of moao asterism")
    p.add_argument("-o", "--output", metavar="FILE", help="picture to write (default: DIR/asterism.png)")
    return p


def work(a):
    found = Asterisms(a.folder)
    from . import plots_asterism
    path = a.output or os.path.join(a.folder, "asterism.png")
    save(plots_asterism.field(found), path)
    print(path)
    return 0


def main(arguments=None):
    a = options().parse_args(arguments)
    return run_command("moao-plot-asterism", lambda: work(a))


if __name__ == "__main__":
    sys.exit(main())
