"""Figures of a sweep: figures of merit against each key, and maps when two keys are swept."""
import numpy as np
from matplotlib.figure import Figure

from .plots_maps import COLOURS, SIGNED, styled
from .plots_text import plain, set_title, shortened, wrapped
from .sweep import positions
from .sweep_words import key_words, merit_words, unit_text

PANEL_W, PANEL_H = 3.9, 2.7  # inches
FAMILIES = (("strehl", "Strehl ratio"), ("ee_", "ensquared energy"), ("wfe_", "error terms [nm rms]"))
DASHES = ("-", "--", ":", "-.")


def wave_text(wave):
    return "" if wave is None else "%.4g µm" % wave


def all_waves(sweep):
    """Wavelengths of all figures of merit; each has its colour."""
    return sorted({w for _, w in sweep.merits}, key=lambda w: w or 0)


def label(sweep, name):
    """What to write beside a figure of merit or a key: words and unit."""
    return plain(key_words(name) if name in sweep.keys else merit_words(name)) + unit_text(sweep.units.get(name))


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


def line_label(name, wave, names):
    """What the legend says of a line: the wavelength, and of several figures of merit what this one has and others have not."""
    alone = len(names) == 1
    word = "" if alone else merit_words(name)
    first = word.split(", ", 1)
    if len(first) == 2 and all(merit_words(n).startswith(first[0] + ", ") for n in names):
        word = first[1]
    return ", ".join(filter(None, (word, wave_text(wave)))) or None


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
                    color=colour, ms=4, lw=1.3, label=line_label(name, wave, names))
    if words is not None:
        ax.set_xticks(range(len(words)), [shortened(plain(w), PANEL_W / max(len(words), 1), 8) for w in words])
    elif len(places) <= 8:
        ax.set_xticks(places, ["%.4g" % p for p in places])
    ax.set_xlabel(wrapped(label(sweep, key), PANEL_W - 0.6, 9, 2))
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
            ax.set_ylabel(wrapped(word, PANEL_H - 0.6, 9, 2))
        if line[-1].get_legend_handles_labels()[0]:
            line[-1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=8)
    set_title(figure, plain(sweep.folder) + (": lines are means over the other key%s, bands %s extremes" % (
        ("s", "their") if len(keys) > 2 else ("", "its")) if len(keys) > 1 else ""), 9)
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
            low = np.nanmin(plane) if np.isfinite(plane).any() else 0
            high = np.nanmax(abs(plane)) if low < 0 else None  # a term with both signs: white at zero
            drawn = ax.imshow(plane, origin="lower", aspect="auto", cmap="viridis" if high is None else SIGNED,
                              vmin=None if high is None else -high, vmax=high)
            label_cells(ax, plane)
            ax.set_xticks(range(len(px)), xw or ["%.4g" % v for v in px])
            ax.set_yticks(range(len(py)), yw or ["%.4g" % v for v in py])
            ax.set(xlabel=wrapped(label(sweep, kx), PANEL_W, 9, 2), ylabel=wrapped(label(sweep, ky), PANEL_H, 9, 2))
            ax.set_title(wrapped((label(sweep, name) + "  " + wave_text(waves[j])).strip(), PANEL_W, 9, 2))
            figure.colorbar(drawn, ax=ax)
    set_title(figure, plain(sweep.folder), 9)
    return figure


def label_cells(ax, plane):
    """The values in the cells, when they are few."""
    if plane.size > 60 or not np.isfinite(plane).any():
        return
    middle = (np.nanmin(plane) + np.nanmax(plane)) / 2
    for (j, i), v in np.ndenumerate(plane):
        if np.isfinite(v):
            ax.text(i, j, "%.3g" % v, ha="center", va="center", fontsize=7, color="black" if v > middle else "white")
