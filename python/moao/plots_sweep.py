"""Figures of a sweep: every figure of merit against each key, and maps when two keys are swept."""
import re

import numpy as np
from matplotlib.figure import Figure

from .plots import COLOURS, styled
from .sweep import positions

PANEL_W, PANEL_H = 3.9, 2.7  # inches


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


def draw_key(ax, sweep, name, key):
    """A figure of merit against one key: the mean over the other keys, their extremes as bars, each run a dot."""
    x, words = positions(sweep.keys[key])
    places = np.unique(x)
    for wave in sweep.waves(name):
        colour = COLOURS[all_waves(sweep).index(wave) % len(COLOURS)]
        y = sweep.merits[name, wave]
        each = [y[(x == p) & np.isfinite(y)] for p in places]
        there = [i for i, v in enumerate(each) if len(v)]
        mean = np.array([each[i].mean() for i in there])
        if len(sweep.keys) > 1:
            ax.fill_between(places[there], [each[i].min() for i in there], [each[i].max() for i in there], color=colour,
                            alpha=0.15, lw=0)
            ax.plot(x, y, ".", color=colour, ms=4, alpha=0.6)
        ax.plot(places[there], mean, "o-" if len(sweep.keys) == 1 else "-", color=colour, ms=4, lw=1.3,
                label=wave_text(wave) or None)
    if words is not None:
        ax.set_xticks(range(len(words)), words)
    ax.set(xlabel=label(sweep, key), ylabel=label(sweep, name))
    ax.margins(x=0.05, y=0.1)


@styled
def curves(sweep):
    """One row for each figure of merit, one column for each key."""
    names, keys = sweep.names, list(sweep.keys)
    height = PANEL_H * len(names)
    figure = Figure(figsize=(max(PANEL_W * len(keys), 5) + 0.3, height + 0.7), layout="constrained")
    top, main = figure.subfigures(2, 1, height_ratios=[0.7, height])
    axes = main.subplots(len(names), len(keys), squeeze=False)
    for i, name in enumerate(names):
        for j, key in enumerate(keys):
            draw_key(axes[i, j], sweep, name, key)
    lines = {}
    for ax in axes.flat:
        for line, word in zip(*ax.get_legend_handles_labels()):
            lines.setdefault(word, line)
    top.suptitle(sweep.folder + (": lines are means over the other keys, bands their extremes" if len(keys) > 1
                                 else ""), fontsize=9)
    if lines:
        top.legend(lines.values(), list(lines), loc="lower center", ncol=6, frameon=False, fontsize=8)
    return figure


@styled
def maps(sweep):
    """For two keys: every figure of merit over their plane, one column for each wavelength."""
    kx, ky = list(sweep.keys)[:2]
    (x, xw), (y, yw) = positions(sweep.keys[kx]), positions(sweep.keys[ky])
    px, py = np.unique(x), np.unique(y)
    columns = max(len(sweep.waves(n)) for n in sweep.names)
    figure = Figure(figsize=((PANEL_W + 0.6) * columns, (PANEL_H + 0.5) * len(sweep.names) + 0.3),
                    layout="constrained")
    axes = figure.subplots(len(sweep.names), columns, squeeze=False)
    for i, name in enumerate(sweep.names):
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
