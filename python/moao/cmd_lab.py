"""See a case live: a page for the browser where stars and targets are dragged, seeing, zenith angle, magnitudes, mirror and profile have
sliders, and the map, the error budget and a PSF follow.

  moao lab FILE [key=value ...]

What follows is a run at a reduced order, which the page states with its error against the full order. "Run in full" starts the real run;
the parameter file of what is seen can be saved. The page is served to this machine alone (127.0.0.1), under an address with a token.
Ctrl-C ends it and what it started.

Needs numpy, astropy and tornado (on Debian and Ubuntu: python3-astropy python3-tornado).
"""
import os
import sys
import webbrowser

from .command import parser, run_command
from .reading import MoaoError


def options():
    p = parser(__doc__)
    p.add_argument("files", metavar="FILE", nargs="+", help="parameter files, later ones over earlier ones, and key=value; or the name of a shipped case")
    p.add_argument("-o", "--output", metavar="DIR", help="folder of the run in full (default: moao-runs/NAME-HASH, of its parameters)")
    p.add_argument("-p", "--port", type=int, metavar="N", help="port (default: the first free one from 8770 on)")
    p.add_argument("--no-browser", action="store_true", help="print the address, and open no browser")
    return p


def case_of(words):
    """The case of files and key=value."""
    from .case import Case
    files = [w for w in words if "=" not in w]
    if not files:
        raise MoaoError("no parameter file: moao lab FILE [key=value ...]")
    case = Case(*files)
    for w in words:
        if "=" in w:
            case._set[w.partition("=")[0]] = w.partition("=")[2]
    return case


def work(a):
    case = case_of(a.files)
    case.text  # mistakes of the file are told before anything is served
    from .lab_server import serve

    def ready(url):
        print(url, flush=True)
        print("open this address in a browser of this machine; Ctrl-C ends the page and its runs", file=sys.stderr, flush=True)
        if not a.no_browser and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            webbrowser.open(url)
    serve(case, a.port, a.output, ready)
    return 0


def main(arguments=None):
    a = options().parse_intermixed_args(arguments)
    return run_command("moao-lab", lambda: work(a))


if __name__ == "__main__":
    sys.exit(main())
