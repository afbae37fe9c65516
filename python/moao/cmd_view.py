"""Write one page for a browser with the results of a run: maps by exposure and wavelength; click a target and see its
PSF, its ensquared energy against the box, its error terms and its history. The page needs no server and no network.

Needs astropy and plotly (on Debian and Ubuntu: python3-astropy python3-plotly).
"""
import os
import sys
import webbrowser

from .command import parser, run_command, write_whole
from .results import MoaoError, Run


def options():
    p = parser(__doc__)
    p.add_argument("folder", metavar="DIR", help="folder of the results, with maps.fits")
    p.add_argument("-o", "--output", metavar="FILE", help="page to write (default: DIR/view.html)")
    p.add_argument("-m", "--megabytes", type=float, default=16, metavar="MB",
                   help="of all images together: of many targets only the middle of each is kept (default: 16)")
    p.add_argument("--open", action="store_true", help="show it in the browser")
    return p


def work(a):
    if not a.megabytes > 0:
        raise MoaoError("--megabytes %g: must be above 0" % a.megabytes)
    run = Run(a.folder)
    from .view import page
    path = a.output or os.path.join(a.folder, "view.html")
    write_whole(path, page(run, a.megabytes * 1e6))
    print("%s   (%.0f MB; open it in a browser)" % (path, os.path.getsize(path) / 1e6))
    if a.open:
        webbrowser.open("file://" + os.path.abspath(path))
    return 0


def main(arguments=None):
    a = options().parse_args(arguments)
    return run_command("moao-view", lambda: work(a))


if __name__ == "__main__":
    sys.exit(main())
