"""Draw the results of a run: maps over the field, point-spread functions, r0 and Strehl ratio in time.

Reads maps.fits and, when it is there, psf.fits of the run's folder. Needs astropy and matplotlib (on Debian and Ubuntu:
python3-astropy python3-matplotlib). The kind of file follows from its name: .png, .pdf, .svg.
"""
import os
import re
import sys

from .command import numbers, parser, run_command, save, target_argument
from .results import MoaoError, Run


def options():
    p = parser(__doc__)
    p.add_argument("folder", metavar="DIR", help="folder of the results, with maps.fits")
    p.add_argument("-o", "--output", metavar="FILE", help="picture to write (default: DIR/maps.png)")
    p.add_argument("-w", "--wavelength", metavar="UM[,UM...]",
                   help="wavelengths in um, found within 10 %%, or bands by name; others are refused (default: both, of many the shortest and longest)")
    p.add_argument("-b", "--box", type=float, metavar="MAS",
                   help="side of the ensquared energy's box in mas, found within 1 %%; others are refused (default: the first)")
    p.add_argument("-q", "--quantity", metavar="NAME[,NAME...]",
                   help="what to draw: strehl, ee, fwhm, variance, any column of TARGETS, or all (default: strehl,ee)")
    p.add_argument("-t", "--target", action="append", metavar="X,Y|NUMBER|NAME",
                   help="target whose PSF is drawn: the nearest one in arcsec, its number from 1, or its name; repeatable")
    p.add_argument("--scale", choices=("common", "separate"), default="common",
                   help="colours: one scale for a row of maps (default), or one for each map")
    p.add_argument("--limits", action="append", default=[], metavar="NAME=LOW:HIGH",
                   help="fixed colour scale of a quantity, e.g. strehl=0:1; repeatable")
    p.add_argument("--budget", action="store_true",
                   help="draw the error budget instead, as stacked bars of the targets and exposures (default: DIR/budget.png)")
    p.add_argument("--panel", metavar="NAME",
                   help="one panel for a paper, at one wavelength (-w) and size (--size): strehl, ee, fwhm, variance, wfe, tomography, noise, "
                   "lag..., any column of TARGETS (targets on a line: a curve), psf, energy, budget, history, spectrum (default: DIR/NAME.png)")
    p.add_argument("-e", "--exposure", type=int, metavar="N", help="exposure of a panel, from 1 (default: the long one)")
    p.add_argument("--size", metavar="WxH", help="size of a panel: 3.5x3 inches (default), or 88x70mm")
    p.add_argument("--dpi", type=float, metavar="N", help="pixels per inch of PNG (default: 110, of a panel 300)")
    p.add_argument("--position-angle", type=float, metavar="DEG",
                   help="position angle of the y axis, east of north: draws N and E (default: keyword POSANGLE, if any)")
    return p


def quantity(run, word, box):
    """Columns that a word of -q means."""
    word = word.strip()
    ee = [n for n in run.quantities if n.startswith("EE_")]
    if word == "all":
        return run.quantities
    if word.lower() == "ee":
        return ee[:1] if not ee or box is None else [run.ee_name(box)]
    found = [n for n in run.quantities if n.lower() == word.lower()]
    if not found:
        raise MoaoError("no quantity %s: this run has ee, %s" % (word, ", ".join(n.lower() for n in run.quantities)))
    return found


def waves_of(run, text):
    if text is None:
        return None
    found = []
    for word in text.split(","):
        found.append(run.wavelength_index(word if word in run.bands else numbers(word, 1, "a wavelength in um")[0]))
    return list(dict.fromkeys(found))


def limits_of(run, a):
    """{column: (low, high)} of --limits."""
    fixed = {}
    for text in a.limits:
        name, _, span = text.partition("=")
        low, high = numbers(span, 2, "NAME=LOW:HIGH")
        if not low < high:
            raise MoaoError("--limits %s: LOW has to be below HIGH" % text)
        for n in quantity(run, name, a.box):
            fixed[n] = low, high
    return fixed


def draw(a):
    only_with_panel(a)
    run = Run(a.folder)
    if a.panel is not None:
        return draw_panel(run, a)
    if a.budget:
        return draw_budget(run, a)
    from . import plots
    names = list(dict.fromkeys(n for w in (a.quantity or "strehl,ee").split(",") for n in quantity(run, w, a.box)))
    figure = plots.overview(run, names, waves_of(run, a.wavelength),
                            [target_argument(t) for t in a.target] if a.target else None, a.scale, limits_of(run, a),
                            a.position_angle)
    output = a.output or os.path.join(a.folder, "maps.png")
    save(figure, output, a.dpi)
    print(output)


def only_with_panel(a):
    """What is asked for and would not be obeyed is refused."""
    if a.budget and a.panel is None:
        for option, given in (("-q", a.quantity is not None), ("-b", a.box is not None), ("--limits", a.limits), ("--scale", a.scale != "common")):
            if given:
                raise MoaoError("--budget draws all terms on one scale: without %s" % option)
    if a.panel is None:
        for option, value in (("-e", a.exposure), ("--size", a.size)):
            if value is not None:
                raise MoaoError("%s belongs to --panel: for instance --panel strehl" % option)
    else:
        for option, given in (("-q", a.quantity is not None), ("--budget (that panel is --panel budget)", a.budget), ("--scale", a.scale != "common")):
            if given:
                raise MoaoError("--panel %s draws one thing: without %s" % (a.panel, option))


def size_of(text):
    """WxH in inches, or with mm, cm or in behind, as (width, height) in inches."""
    m = re.fullmatch(r"([\d.]+)\s*[x×,]\s*([\d.]+)\s*(mm|cm|in|)", text.strip())
    if not m:
        raise MoaoError("--size %s: expected WIDTHxHEIGHT in inches, or with mm or cm behind: 3.5x3, 88x70mm" % text)
    scale = {"mm": 1 / 25.4, "cm": 1 / 2.54}.get(m.group(3), 1.0)
    return tuple(numbers(m.group(i), 1, "--size WIDTHxHEIGHT")[0] * scale for i in (1, 2))


def draw_panel(run, a):
    from . import plots_panels
    waves = waves_of(run, a.wavelength)
    if waves is not None and len(waves) > 1:
        raise MoaoError("--panel %s draws one wavelength, not %s" % (a.panel, a.wavelength))
    special = a.panel in plots_panels.SPECIAL
    column = None if special else plots_panels.column_of(run, a.panel, a.box)
    figure = plots_panels.panel(run, a.panel, None if waves is None else run.waves[waves[0]], a.exposure,
                                [target_argument(t) for t in a.target] if a.target else None,
                                plots_panels.SIZE if a.size is None else size_of(a.size), a.box,
                                limits_of(run, a).get(column), a.position_angle)
    output = a.output or os.path.join(a.folder, a.panel.lower() + ".png")
    save(figure, output, a.dpi or 300)
    print(output)


def draw_budget(run, a):
    from . import plots_budget
    targets = None
    if a.target:
        targets = [run.target_index(*t) if isinstance(t, tuple) else run.target_index(t) for t in map(target_argument, a.target)]
    output = a.output or os.path.join(a.folder, "budget.png")
    save(plots_budget.budget(run, targets), output, a.dpi)
    print(output)


def joined(words):
    """-t -10,5 as -t=-10,5, which would else be taken for an option."""
    found = []
    for w in words:
        if found and found[-1] in ("-t", "--target"):
            found[-1] = "--target=" + w
        else:
            found.append(w)
    return found


def main(arguments=None):
    a = options().parse_args(joined(sys.argv[1:] if arguments is None else arguments))
    return run_command("moao-plot", lambda: draw(a))


if __name__ == "__main__":
    sys.exit(main())
