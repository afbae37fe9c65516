"""Figures of a sweep: figures of merit against each key, and maps when two keys are swept."""
import re

import numpy as np
from matplotlib.figure import Figure

from .plots import COLOURS, styled
from .sweep import positions

PANEL_W, PANEL_H = 3.9, 2.7  # inches
FAMILIES = (("strehl", "Strehl ratio"), ("ee_", "ensquared energy"), ("wfe_", "wavefront error [nm]"))
DASHES = ("-", "--", ":", "-.")


def wave_text(wave):
    return "" if wave is None else "%.4g µm" % wave


def all_waves(sweep):
    """Wavelengths of all figures of merit; each has its colour."""
    return sorted({w for _, w in sweep.merits}, key=lambda w: w or 0)


def label(sweep, name):
    """What to write beside a figure of merit or a key: keys as they are typed."""
    word = name if name in sweep.keys else name.replace("_", " ").lower().replace("strehl", "Strehl")
    word = re.sub(r"^ee (\d[\dp]*)mas$", r"EE in \1 mas", re.sub("^fwhm", "FWHM", word))
    return word + (" [%s]" % sweep.units[name] if sweep.units.get(name) else "")


def panels(sweep):
    """[(what the axis says, figures of merit)]: those of one family share a panel; what is 0 in all runs, and the rms
    beside the same number by terms, are left out."""
    left = [n for n in sweep.names if any(np.nanmax(np.abs(sweep.merits[n, w])) > 0 for w in sweep.waves(n))]
    left = [n for n in left if n != "rms" or "wfe_total" not in left]
    out = []
    for start, word in FAMILIES:
        family = [n for n in left if n.lower().startswith(start)]
        left = [n for n in left if n not in family]
        if family:
            out.append((word if len(family) > 1 else label(sweep, family[0]), family))
    return out + [(label(sweep, n), [n]) for n in left]


def line_label(name, wave, alone):
    """What the legend says of a line: the wavelength, and which of several figures of merit."""
    word = "" if alone else re.sub(r"(\d)mas$", r"\1 mas", re.sub("^(wfe|strehl|ee)_", "", name)).replace("_", " ")
    return " ".join(filter(None, (word, wave_text(wave)))) or None


def draw_key(ax, sweep, names, key):
    """Figures of merit against one key: the mean over the other keys, its extremes as a band, each run a dot."""
    x, words = positions(sweep.keys[key])
    places = np.unique(x)
    for k, name in enumerate(names):
        for wave in sweep.waves(name):
            colour = COLOURS[(k if wave is None else all_waves(sweep).index(wave)) % len(COLOURS)]
            dash = DASHES[(k // len(COLOURS) if wave is None else k) % len(DASHES)]
            y = sweep.merits[name, wave]
            each = [y[(x == p) & np.isfinite(y)] for p in places]
            there = [i for i, v in enumerate(each) if len(v)]
            if len(sweep.keys) > 1 and len(names) == 1:
                ax.fill_between(places[there], [each[i].min() for i in there], [each[i].max() for i in there],
                                color=colour, alpha=0.15, lw=0)
                ax.plot(x, y, ".", color=colour, ms=4, alpha=0.6)
            ax.plot(places[there], [each[i].mean() for i in there], dash, marker="o" if len(sweep.keys) == 1 else "",
                    color=colour, ms=4, lw=1.3, label=line_label(name, wave, len(names) == 1))
    if words is not None:
        ax.set_xticks(range(len(words)), words)
    ax.set_xlabel(label(sweep, key))
    ax.margins(x=0.05, y=0.1)


@styled
def curves(sweep):
    """One row for each family of figures of merit, one column for each key."""
    rows, keys = panels(sweep), list(sweep.keys)
    figure = Figure(figsize=(max(PANEL_W * len(keys), 5) + 1.5, PANEL_H * len(rows) + 0.3), layout="constrained")
    axes = figure.subplots(len(rows), len(keys), squeeze=False)
    for line, (word, names) in zip(axes, rows):
        for ax, key in zip(line, keys):
            draw_key(ax, sweep, names, key)
            ax.set_ylabel(word)
        if line[-1].get_legend_handles_labels()[0]:
            line[-1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
    figure.suptitle(sweep.folder + (": lines are means over the other keys, bands their extremes" if len(keys) > 1
                                    else ""), fontsize=9)
    return figure


@styled
def maps(sweep):
    """For two keys: every figure of merit over their plane, one column for each wavelength."""
    kx, ky = list(sweep.keys)[:2]
    (x, xw), (y, yw) = positions(sweep.keys[kx]), positions(sweep.keys[ky])
    px, py = np.unique(x), np.unique(y)
    names = [n for _, family in panels(sweep) for n in family]
    columns = max(len(sweep.waves(n)) for n in names)
    figure = Figure(figsize=((PANEL_W + 0.6) * columns, (PANEL_H + 0.5) * len(names) + 0.3), layout="constrained")
    axes = figure.subplots(len(names), columns, squeeze=False)
    for i, name in enumerate(names):
        for j in range(columns):
            ax, waves = axes[i, j], sweep.waves(name)
            if j >= len(waves):
                ax.set_visible(False)
                continue
            plane = np.full((len(py), len(px)), np.nan)
            plane[np.searchsorted(py, y), np.searchsorted(px, x)] = sweep.merits[name, waves[j]]
            drawn = ax.imshow(plane, origin="lower", aspect="auto", cmap="viridis")
            label_cells(ax, plane)
            ax.set_xticks(range(len(px)), xw or ["%.4g" % v for v in px])
            ax.set_yticks(range(len(py)), yw or ["%.4g" % v for v in py])
            ax.set(xlabel=label(sweep, kx), ylabel=label(sweep, ky),
                   title=(label(sweep, name) + "  " + wave_text(waves[j])).strip())
            figure.colorbar(drawn, ax=ax)
    figure.suptitle(sweep.folder, fontsize=9)
    return figure


def label_cells(ax, plane):
    """The values in the cells, when they are few."""
    if plane.size > 60 or not np.isfinite(plane).any():
        return
    middle = (np.nanmin(plane) + np.nanmax(plane)) / 2
    for (j, i), v in np.ndenumerate(plane):
        if np.isfinite(v):
            ax.text(i, j, "%.3g" % v, ha="center", va="center", fontsize=7, color="black" if v > middle else "white")
