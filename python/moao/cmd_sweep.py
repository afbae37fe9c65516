"""Draw the table of a sweep: every figure of merit against each swept key, and maps when two keys are swept.

Reads DIR/sweep.fits, else DIR/sweep.csv. Needs astropy and matplotlib.
"""
import os
import sys

from .command import parser, run_command, save
from .sweep import Sweep


def options():
    p = parser(__doc__)
    p.add_argument("folder", metavar="DIR", help="folder of the sweep")
    p.add_argument("-o", "--output", metavar="FILE",
                   help="picture to write (default: DIR/sweep.png); the maps beside it, as sweep-maps.png")
    return p


def work(a):
    sweep = Sweep(a.folder)
    from . import plots_sweep
    path = a.output or os.path.join(a.folder, "sweep.png")
    save(plots_sweep.curves(sweep), path)
    print(path)
    if len(sweep.keys) == 2:
        root, ext = os.path.splitext(path)
        save(plots_sweep.maps(sweep), root + "-maps" + ext)
        print(root + "-maps" + ext)
    return 0


def main(arguments=None):
    a = options().parse_args(arguments)
    return run_command("moao-plot-sweep", lambda: work(a))


if __name__ == "__main__":
    sys.exit(main())
