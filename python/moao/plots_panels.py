"""Single panels that go into a paper as they are: no title of the figure, letters of 8 points, the size that is asked for.

`panel(run, "strehl", 2.2)` gives a Figure; `moao-plot DIR --panel strehl -w 2.2 -o strehl.pdf` writes one.
"""
import functools

import numpy as np
from matplotlib.figure import Figure

from .plots import draw_energies, draw_history, draw_psfs, draw_spectrum, pick
from .plots_budget import draw_targets
from .plots_maps import (bar_label, default_quantities, default_targets, draw_compass, draw_curves, draw_map, line_of, number_format,
                         scale_of, styled)
from .reading import MoaoError, number

SIZE = (3.5, 3.0)       # inches: one column of most journals
SIZE_LEAST, SIZE_MOST = 1.0, 40.0
BELOW = 0.42            # inches from the axes to a legend under their label
SPECIAL = {"psf": "images of the best and the worst target, or of those asked for", "energy": "ensquared energy against the box",
           "budget": "error terms of the targets, stacked", "history": "r0 and mean Strehl ratio in time",
           "spectrum": "figures of merit against wavelength"}
SHORT = {"wfe": "WFE_TOTAL", "fitting": "WFE_FIT", "aliasing": "WFE_ALIAS", "tomography": "WFE_TOMO", "lag": "WFE_LAG", "noise": "WFE_NOISE",
         "jitter": "WFE_JITTER", "static": "WFE_STATIC", "sodium": "WFE_SODIUM"}


def words():
    """Names of all panels that are no column of TARGETS by themselves."""
    return ["strehl", "ee", "fwhm", "variance", *SHORT, *SPECIAL]


def column_of(run, what, box=None):
    """The column of TARGETS that a word means: strehl, ee (of the box nearest to `box` mas, else the first), fwhm, wfe..."""
    if what.lower() == "ee":
        found = [n for n in run.quantities if n.startswith("EE_")][:1] if box is None else [run.ee_name(box)]
    else:
        wanted = SHORT.get(what.lower(), what).lower()
        found = [n for n in run.quantities if n.lower() == wanted]
    if not found:
        raise MoaoError("no panel %s: there are %s, and every column of this run: %s" % (
            what, ", ".join(words()), ", ".join(n.lower() for n in run.quantities)))
    return found[0]


LETTERS = {"font.size": 8, "axes.titlesize": 8, "axes.labelsize": 8, "xtick.labelsize": 7, "ytick.labelsize": 7, "legend.fontsize": 7}


@functools.partial(styled, more=LETTERS)
def panel(run, what="strehl", wavelength=None, exposure=None, targets=None, size=SIZE, box=None, limits=None, angle=None):
    """One panel as a Figure. what: strehl, ee, fwhm, variance, wfe or any column (a map; a curve for targets on a line), or one of
    SPECIAL. wavelength [um] (None: the first; of curves and histories: all), exposure from 1 (None: the long one), targets: indices,
    names or (x, y), size [inches], box [mas], limits (low, high) of colours or of a curve's axis, angle: position angle of y [deg]."""
    width, height = (number(v, "the size of a panel in inches") for v in size)
    if not all(SIZE_LEAST <= v <= SIZE_MOST for v in (width, height)):
        raise MoaoError("a panel of %g x %g inches: both must be from %g to %g" % (width, height, SIZE_LEAST, SIZE_MOST))
    if exposure is not None:
        run.value("STREHL", None, exposure)  # there is such an exposure
    figure = Figure(figsize=(width, height), layout="constrained")
    chosen = None if targets is None else pick(run, targets)
    il = run.wavelength_index(wavelength)
    waves = [int(i) for i in np.argsort(run.lambdas)] if wavelength is None else [il]
    if what == "psf":
        which = default_targets(run, 2, il, exposure) if chosen is None else chosen
        draw_psfs(np.atleast_1d(figure.subplots(1, len(which))), run, il, list(run.psfs(which, run.waves[il], exposure)),
                  (width - 1.2) / len(which))
    elif what == "energy":
        which = default_targets(run, 3, il, exposure) if chosen is None else chosen
        draw_energies(figure.subplots(), run, list(run.psfs(which, run.waves[il], exposure)))
    elif what == "budget":
        ax = figure.subplots()
        draw_targets(ax, run, chosen, exposure, max(2, int((width - 0.9) / 0.26)))
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=max(1, int(width / 1.2)), frameon=False, fontsize=7)
    elif what == "history" and run.ne > 1:
        draw_history(figure.subplots(), run, waves[:6])
    elif what in ("history", "spectrum"):
        draw_spectrum(figure.subplots(), run, default_quantities(run), waves)
    else:
        draw_field(figure, run, column_of(run, what, box), il, waves, exposure, limits, angle)
    return figure


def draw_field(figure, run, name, il, waves, exposure, limits, angle):
    """A quantity over the field with its bar of colours, or as curves for targets on a line."""
    ax = figure.subplots()
    if line_of(run):
        draw_curves(ax, run, name, waves, exposure, 7, max(1, int(figure.get_figwidth() / 3)))
        if limits is not None:
            ax.set_ylim(*limits)
        return
    values = run.column_long(name)[il] if exposure is None else run.column(name)[il, exposure - 1]
    norm, cmap = scale_of(run, name, values, limits)
    drawn = draw_map(ax, run, values, norm, cmap, number_format(values), max(0.8, min(figure.get_size_inches()) - 1.0))
    ax.set(xlabel="x [arcsec]", ylabel="y [arcsec]")
    figure.colorbar(drawn, ax=ax, label=bar_label(run, name, values, il), pad=0.02)
    angle = run.position_angle if angle is None else angle
    if angle is not None:
        draw_compass(ax, run, angle)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -BELOW / max(0.8, figure.get_figheight() - 1)), ncol=2, frameon=False, fontsize=7)
