"""The error budget as a picture: variances of the terms, one upon the other."""
import numpy as np
from matplotlib.figure import Figure

from .plots import styled, summary, time_unit
from .results import MoaoError

# from the mirror's and the atmosphere's to the instrument's; no two neighbours alike, also without colours
COLOURS = {"WFE_FIT": "#1f4e79", "WFE_ALIAS": "#6fa8dc", "WFE_TOMO": "#b8540f", "WFE_LAG": "#f0a04b", "WFE_NOISE": "#2e7d32",
           "WFE_JITTER": "#6a3d9a", "WFE_STATIC": "#9e9e9e"}
MOST_TARGETS = 16
MOST_EXPOSURES = 16


def draw_stacks(axes, run, variances, labels):
    """Bars of signed variances {term: [bar]} [nm2]: what is negative hangs below zero; the total's rms stands above."""
    n = len(labels)
    up, down, total = np.zeros(n), np.zeros(n), np.zeros(n)
    for name, colour in COLOURS.items():
        v = variances[name]
        bottom = np.where(v < 0, down, up)
        axes.bar(range(n), v, 0.72, bottom=bottom, color=colour, label=run.term_words(name), edgecolor="white", linewidth=0.5)
        up, down, total = up + np.maximum(v, 0), down + np.minimum(v, 0), total + v
    for i in range(n):
        axes.annotate("%.0f" % np.sqrt(max(total[i], 0)), (i, up[i]), (0, 2), textcoords="offset points", ha="center", va="bottom",
                      fontsize=8)
    if down.min() < 0:
        axes.plot(range(n), total, "_", color="black", markersize=14, label="total")
    axes.axhline(0, color="black", linewidth=0.8)
    axes.set_xticks(range(n), labels, rotation=0 if max(map(len, labels)) < 6 else 60, fontsize=8)
    axes.set_ylim(1.08 * down.min(), 1.12 * up.max())
    axes.margins(x=0.03)
    axes.spines[["top", "right"]].set_visible(False)


def chosen_targets(run, targets):
    """Those asked for; else all, or of many the best, every so many-th in the order of their totals, and the worst."""
    if targets is not None:
        return list(targets)
    if run.nt <= MOST_TARGETS:
        return list(range(run.nt))
    order = np.argsort(run.column_long("WFE_TOTAL")[0])
    return [int(order[i]) for i in np.unique(np.linspace(0, run.nt - 1, MOST_TARGETS).round().astype(int))]


@styled
def budget(run, targets=None):
    """Stacked bars of the long exposure for some targets (indices; None: all, or some of many), and of the exposures as
    means over all targets."""
    if "WFE_TOTAL" not in run.quantities:
        raise MoaoError("%s: this run has no error budget (output.budget: terms)" % run.path)
    signed = {n: (lambda v: v * abs(v)) for n in COLOURS}
    shown = chosen_targets(run, targets)
    times = np.unique(np.linspace(0, run.ne - 1, min(run.ne, MOST_EXPOSURES)).round().astype(int))
    width = [0.9 + 0.42 * len(shown)] + ([0.9 + 0.42 * len(times)] if run.ne > 1 else [])
    figure = Figure(figsize=(max(5.2, sum(width) + 1.9), 4.2), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(width), sharey=True, gridspec_kw={"width_ratios": width}))
    draw_stacks(axes[0], run, {n: signed[n](run.column_long(n)[0, shown]) for n in COLOURS}, [run.names[t] for t in shown])
    axes[0].set_xlabel("target" + ("" if len(shown) == run.nt or targets is not None else ", best to worst"))
    axes[0].set_title("long exposure")
    axes[0].set_ylabel("variance [nm²], total in nm rms above")
    if run.ne > 1:
        unit, word = time_unit(run.times)
        draw_stacks(axes[1], run, {n: signed[n](run.column(n)[0, times]).mean(axis=1) for n in COLOURS},
                    ["%.4g" % (run.times[e] / unit) for e in times])
        axes[1].set_xlabel("time of the exposure [%s]" % word)
        axes[1].set_title("mean of all targets")
        low, high = min(a.get_ylim()[0] for a in axes), max(a.get_ylim()[1] for a in axes)
        axes[0].set_ylim(low, high)
    handles, labels = axes[0].get_legend_handles_labels()
    axes[-1].legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    figure.suptitle(summary(run))
    return figure
