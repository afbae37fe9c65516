"""Compare two runs: a table of the differences B - A of every quantity, and with -o maps of them.

Exit code 0: no difference above the tolerance, 1: a larger one, 2: they cannot be compared. Targets are matched by
their directions, wavelengths by their values; what only one run has is named.
"""
import sys

import numpy as np

from .command import parser, run_command, save
from .compare import compare, only_in_one
from .results import Run


def options():
    p = parser(__doc__)
    p.add_argument("a", metavar="A", help="folder of a run")
    p.add_argument("b", metavar="B", help="folder of the other")
    p.add_argument("-o", "--output", metavar="FILE", help="picture of the differences (.png, .pdf, .svg)")
    p.add_argument("-t", "--tolerance", type=float, default=1e-6, metavar="X",
                   help="differences up to X of the largest value of A count as none (default: 1e-6)")
    p.add_argument("-e", "--exposures", action="store_true", help="each exposure too, not only the long one")
    return p


def table(rows):
    """The differences as text."""
    lines = ["%-14s %8s %8s %11s %11s %11s %11s %9s" % ("quantity", "um", "exposure", "mean A", "mean B", "mean B-A",
                                                         "max |B-A|", "relative")]
    for r in rows:
        size = np.nanmax(np.abs(r["a"]), initial=0)
        means = [v[np.isfinite(v)].mean() if np.isfinite(v).any() else np.nan for v in (r["a"], r["b"], r["b"] - r["a"])]
        lines.append("%-14s %8s %8s %11.6g %11.6g %11.4g %11.4g %9.2g" % (
            r["name"], r["band"] or "%.4g" % r["wavelength"], r["exposure"] or "long", *means, r["worst"], r["worst"] / size if size else 0 if r["worst"] == 0 else np.inf))
    return "\n".join(lines)


def differs(row, tolerance):
    return row["worst"] > tolerance * np.nanmax(np.abs(row["a"]), initial=0)


def draw(a, b, rows, targets, path):
    from .plots_compare import differences
    save(differences(a, b, [r for r in rows if r["exposure"] == 0], targets), path)
    print(path)


def work(o):
    a, b = Run(o.a), Run(o.b)
    rows, targets = compare(a, b, o.exposures)
    print("A  %s  %s\nB  %s  %s" % (a.folder, a.title, b.folder, b.title))
    for line in only_in_one(a, b):
        print("note: " + line)
    print(table(rows))
    if o.output:
        draw(a, b, rows, targets, o.output)
    bad = [r for r in rows if differs(r, o.tolerance)]
    print("%d of %d differ by more than %g" % (len(bad), len(rows), o.tolerance) if bad else
          "no difference above %g" % o.tolerance)
    return 1 if bad else 0


def main(arguments=None):
    o = options().parse_args(arguments)
    return run_command("moao-compare", lambda: work(o))


if __name__ == "__main__":
    sys.exit(main())
