"""Figure of the differences of two runs."""
import numpy as np
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from .plots_maps import SIGNED, draw_compass, draw_map, label_of, styled, title_of
from .plots_text import plain, set_title

PANEL = 3.0  # inches


class _Part:
    """The targets that two runs share, for drawing: a grid only when it is the whole grid."""

    def __init__(self, run, targets):
        self.x, self.y = run.x[targets], run.y[targets]
        self.grid = run.grid if len(targets) == run.nt else None
        self.guide_stars, self.named = run.guide_stars, run.named
        self.names = [run.names[t] for t in targets]


def places(a, rows):
    """({(row, column): difference}, rows, columns): a row of wavelengths for each quantity that has them; then the error terms, one
    after another, without those that are zero in both runs."""
    waves = list(dict.fromkeys((r["wavelength"], r["band"]) for r in rows))
    coloured = list(dict.fromkeys(r["name"] for r in rows if not a.achromatic(r["name"])))
    terms = [r for r in rows if a.achromatic(r["name"]) and (np.any(r["a"]) or np.any(r["b"]))]
    columns = max(len(waves) if coloured else 1, min(3, len(terms)))
    at = {(coloured.index(r["name"]), waves.index((r["wavelength"], r["band"]))): r for r in rows if r["name"] in coloured}
    at.update({(len(coloured) + k // columns, k % columns): r for k, r in enumerate(terms)})
    return at, len(coloured) + -(-len(terms) // columns), columns


@styled
def differences(a, b, rows, targets):
    """Maps of B - A, one row for each quantity, one column for each wavelength, and the error terms; rows as of compare.compare."""
    at, lines, columns = places(a, rows)
    part = _Part(a, targets)
    height = lines * (PANEL + 0.25) + 0.6
    figure = Figure(figsize=(max(columns * (PANEL + 0.9) + 0.6, 5), height + 0.35), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[height, 0.35])
    axes = top.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    for ax in axes.flat:
        ax.set_visible(False)
    for (i, j), r in at.items():
        ax, d = axes[i, j], r["b"] - r["a"]
        ax.set_visible(True)
        high = np.nanmax(np.abs(d), initial=0) or 1e-12
        drawn = draw_map(ax, part, d, Normalize(-high, high), SIGNED, "%+.2g", PANEL)
        title_of(ax, label_of(a, r["name"]) + ("" if a.achromatic(r["name"]) else " in %s" % r["band"] if r["band"] else " at %.4g µm" % r["wavelength"]), d)
        top.colorbar(drawn, cax=ax.inset_axes([1.04, 0, 0.05, 1])).set_label("B − A", labelpad=1)
        ax.set(xlabel="x [arcsec]" if (i + 1, j) not in at else "", ylabel="y [arcsec]" if j == 0 else "")
        ax.tick_params(labelbottom=(i + 1, j) not in at, labelleft=j == 0)
    if a.position_angle is not None:
        draw_compass(axes[0, 0], part, a.position_angle)
    set_title(top, "A  %s  %s\nB  %s  %s" % tuple(map(plain, (a.folder, a.title, b.folder, b.title))), 9, figure.get_figwidth())
    handles = axes[0, 0].get_legend_handles_labels()
    bottom.legend(*handles, loc="center", ncol=len(handles[0]) or 1, frameon=False)
    return figure
