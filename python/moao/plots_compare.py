"""Figure of the differences of two runs."""
import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from .plots_maps import draw_compass, draw_map, label_of, statistics, styled
from .plots_text import plain, set_title

PANEL = 3.0  # inches


class _Part:
    """The targets that two runs share, for drawing: a grid only when it is the whole grid."""

    def __init__(self, run, targets):
        self.x, self.y = run.x[targets], run.y[targets]
        self.grid = run.grid if len(targets) == run.nt else None
        self.guide_stars, self.named = run.guide_stars, run.named
        self.names = [run.names[t] for t in targets]


@styled
def differences(a, b, rows, targets):
    """Maps of B - A, one row for each quantity, one column for each wavelength; rows as of compare.compare."""
    names, waves = (list(dict.fromkeys(r[k] for r in rows)) for k in ("name", "wavelength"))
    part = _Part(a, targets)
    height = len(names) * (PANEL + 0.25) + 0.6
    figure = Figure(figsize=(max(len(waves) * (PANEL + 0.9) + 0.6, 5), height + 0.35), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[height, 0.35])
    axes = top.subplots(len(names), len(waves), squeeze=False, sharex=True, sharey=True)
    for r in rows:
        i, j = names.index(r["name"]), waves.index(r["wavelength"])
        ax, d = axes[i, j], r["b"] - r["a"]
        high = np.nanmax(np.abs(d), initial=0) or 1e-12
        drawn = draw_map(ax, part, d, Normalize(-high, high), "RdBu_r", "%+.2g")
        ax.set_title("%s at %.4g µm\n" % (label_of(a, r["name"]), r["wavelength"]))
        ax.text(0.5, 1.02, statistics(d), transform=ax.transAxes, ha="center", va="bottom", fontsize=6.8)
        top.colorbar(drawn, cax=ax.inset_axes([1.04, 0, 0.05, 1])).set_label("B − A", labelpad=1)
        ax.label_outer()
        ax.set_xlabel("x [arcsec]" if i == len(names) - 1 else "")
        ax.set_ylabel("y [arcsec]" if j == 0 else "")
    if a.position_angle is not None:
        draw_compass(axes[0, 0], part, a.position_angle)
    set_title(top, "A  %s  %s\nB  %s  %s" % tuple(map(plain, (a.folder, a.title, b.folder, b.title))), 9, figure.get_figwidth())
    handles = axes[0, 0].get_legend_handles_labels()
    bottom.legend(*handles, loc="center", ncol=len(handles[0]) or 1, frameon=False)
    return figure
