"""Make a parameter file of moao from another program's file: TIPTOP's .ini with Shack-Hartmann sensors, pyTomoAO's YAML,
Adaptive Optics Telemetry (AOT, .fits), or a table of a turbulence profile (CSV, FITS, ECSV, VOTable, plain text).

The file begins with how things were understood and with what was left out, and why; both are printed too. A profile becomes a
file with the atmosphere alone, which is named behind a case: moao run mine.yaml night.yaml. System files of the MOAO framework
are read by moao import-legacy.
"""
import os
import sys

from .command import parser, run_command, write_whole
from .importers import read
from .process import check_finished, find_program, run_program
from .reading import MoaoError


def options():
    p = parser(__doc__)
    p.add_argument("file", metavar="FILE", help="file of another program")
    p.add_argument("-o", "--output", metavar="FILE", required=True, help="parameter file to write")
    p.add_argument("--force", action="store_true", help="replace that file when there is one")
    p.add_argument("--seeing", type=float, metavar="ARCSEC", help="of a profile: at 500 nm and zenith; with fractions this or --r0 is required")
    p.add_argument("--r0", type=float, metavar="M", help="of a profile: Fried parameter at 500 nm and zenith")
    p.add_argument("--unit", action="append", default=[], metavar="COLUMN=UNIT",
                   help="of a profile: unit of a column that states none, such as cn2=m^(1/3) or height=km (may be repeated)")
    return p


def units_of(words):
    found = {}
    for word in words:
        name, _, unit = word.partition("=")
        if not unit:
            raise MoaoError("--unit %s: expected COLUMN=UNIT" % word)
        found[name] = unit
    return found


def work(a):
    if a.seeing is not None and a.r0 is not None:
        raise MoaoError("--seeing and --r0 exclude each other")
    if os.path.exists(a.output) and not a.force:
        raise MoaoError("%s is there already: choose another name, or --force replaces it" % a.output)
    made = read(a.file, **({"seeing": a.seeing, "r0": a.r0, "units": units_of(a.unit)} if a.seeing or a.r0 or a.unit else {}))
    write_whole(a.output, made.text())
    for line in made.notes:
        print("note: " + line)
    for name, reason in made.left_out:
        print("left out: %s: %s" % (name, reason))
    if "sensors" in made.parameters:  # a whole case, which the program has to take
        try:
            check_finished(run_program([find_program(), "check", "--effective", a.output]))
        except MoaoError as e:
            raise MoaoError("%s was written, and has to be edited: %s" % (a.output, e)) from None
    print("%s: %s" % (a.output, "a case" if "sensors" in made.parameters else "profiles, to be named behind a case"))
    return 0


def main(arguments=None):
    a = options().parse_args(arguments)
    return run_command("moao import", lambda: work(a))


if __name__ == "__main__":
    sys.exit(main())
