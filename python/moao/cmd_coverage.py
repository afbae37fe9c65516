"""Draw the sky coverage that `moao asterism --fields` found: how many of the fields reach a figure, and which.

Reads coverage.csv and asterism.json of the folder. Needs astropy and matplotlib.
"""
import os
import sys

from .asterism import Coverage
from .command import parser, run_command, save


def options():
    p = parser(__doc__)
    p.add_argument("folder", metavar="DIR", help="folder of moao asterism --fields")
    p.add_argument("-o", "--output", metavar="FILE", help="picture to write (default: DIR/coverage.png)")
    return p


def work(a):
    found = Coverage(a.folder)
    from . import plots_asterism
    path = a.output or os.path.join(a.folder, "coverage.png")
    save(plots_asterism.coverage(found), path)
    print(path)
    return 0


def main(arguments=None):
    a = options().parse_args(arguments)
    return run_command("moao-plot-coverage", lambda: work(a))


if __name__ == "__main__":
    sys.exit(main())
