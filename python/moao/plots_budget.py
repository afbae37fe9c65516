"""The error budget as a picture: variances of the terms, one upon the other."""
import numpy as np
from matplotlib.figure import Figure

from .plots import summary
from .plots_maps import styled, time_unit
from .plots_text import plain, set_title, shortened
from .results import MoaoError

# from the mirror's and the atmosphere's to the instrument's; neighbours differ, also without colours
COLOURS = {"WFE_FIT": "#1f4e79", "WFE_GENFIT": "#c45a9a", "WFE_ALIAS": "#6fa8dc", "WFE_TOMO": "#b8540f", "WFE_LAG": "#f0a04b", "WFE_NOISE": "#2e7d32",
           "WFE_JITTER": "#6a3d9a", "WFE_STATIC": "#9e9e9e", "WFE_SODIUM": "#c9a227"}
MOST_TARGETS = 16
MOST_EXPOSURES = 16
BAR = 0.42        # inches of a bar
NAME_ROOM = 1.0   # inches for a name under its bar


def signed_square(v):
    """Variance [nm2] of a term in nm whose sign is that of its variance."""
    return v * abs(v)


def terms_of(run):
    """Terms that this run has, in their order: sodium focus and generalised fitting are in some alone."""
    return [n for n in COLOURS if n not in ("WFE_SODIUM", "WFE_GENFIT") or n in run.quantities]


def draw_stacks(axes, run, variances, labels):
    """Bars of signed variances {term: [bar]} [nm2]: what is negative hangs below zero; the total's rms stands above. Terms that
    are zero in all bars are left out."""
    n = len(labels)
    up, down, total = np.zeros(n), np.zeros(n), np.zeros(n)
    for name, v in variances.items():
        if not np.any(v):
            continue
        bottom = np.where(v < 0, down, up)
        axes.bar(range(n), v, 0.72, bottom=bottom, color=COLOURS[name], label=run.term_words(name), edgecolor="white", linewidth=0.5)
        up, down, total = up + np.maximum(v, 0), down + np.minimum(v, 0), total + v
    for i in range(n):
        axes.annotate("%.0f" % np.sqrt(max(total[i], 0)), (i, up[i]), (0, 2), textcoords="offset points", ha="center", va="bottom",
                      fontsize=8 if n < 12 else 7)
    if down.min() < 0:
        axes.plot(range(n), total, "_", color="black", markersize=14, label="total")
    axes.axhline(0, color="black", linewidth=0.8)
    turned = max(map(len, labels)) >= 6
    axes.set_xticks(range(n), labels, fontsize=8, rotation=60 if turned else 0, ha="right" if turned else "center",
                    rotation_mode="anchor" if turned else "default")
    axes.set_xlim(-0.6, n - 0.4)
    axes.set_ylim(1.08 * down.min(), 1.12 * up.max() or 1)
    axes.spines[["top", "right"]].set_visible(False)


def chosen_targets(run, targets, most=MOST_TARGETS):
    """Those asked for; else all, or of many the best, every so many-th in the order of their totals, and the worst."""
    if targets is not None:
        return list(targets)
    if run.nt <= most:
        return list(range(run.nt))
    order = np.argsort(run.column_long("WFE_TOTAL")[0])
    return [int(order[i]) for i in np.unique(np.linspace(0, run.nt - 1, most).round().astype(int))]


def which_targets(run, shown, targets):
    """What the axis says of the bars."""
    if len(shown) == run.nt:
        return "target"
    return "target (%d of %d%s)" % (len(shown), run.nt, "" if targets is not None else ", best to worst")


def draw_targets(axes, run, targets=None, exposure=None, most=MOST_TARGETS):
    """The stacks of some targets (indices; None: all, or some of many) in the long exposure, or one from 1."""
    if "WFE_TOTAL" not in run.quantities:
        raise MoaoError("%s: this run has no error budget (output.budget: terms)" % run.path)
    shown = chosen_targets(run, targets, most)
    of = {n: (run.column_long(n)[0] if exposure is None else run.column(n)[0, exposure - 1])[shown] for n in terms_of(run)}
    draw_stacks(axes, run, {n: signed_square(v) for n, v in of.items()}, [shortened(plain(run.names[t]), NAME_ROOM, 8) for t in shown])
    axes.set_xlabel(which_targets(run, shown, targets))
    axes.set_ylabel("variance [nm²]\n(numbers: total, nm rms)")
    return shown


def times_shown(run):
    """Rows of the exposures of which there are bars."""
    return np.unique(np.linspace(0, run.ne - 1, min(run.ne, MOST_EXPOSURES)).round().astype(int))


def draw_times(axes, run):
    """The stacks of the exposures: means over all targets."""
    times, (unit, word) = times_shown(run), time_unit(run.times)
    draw_stacks(axes, run, {n: signed_square(run.column(n)[0, times]).mean(axis=1) for n in terms_of(run)},
                ["%.4g" % (run.times[e] / unit) for e in times])
    axes.set_xlabel("time of the exposure [%s]%s" % (word, "" if len(times) == run.ne else " (%d of %d)" % (len(times), run.ne)))
    axes.set_title("mean of all %d targets" % run.nt if run.nt > 1 else "single exposures")


@styled
def budget(run, targets=None):
    """Stacked bars of the long exposure for some targets (indices; None: all, or some of many), and of the exposures as
    means over all targets."""
    if "WFE_TOTAL" not in run.quantities:
        raise MoaoError("%s: this run has no error budget (output.budget: terms)" % run.path)
    bars = [len(chosen_targets(run, targets))] + ([len(times_shown(run))] if run.ne > 1 else [])
    width = [0.9 + BAR * max(n, 4) for n in bars]
    figure = Figure(figsize=(max(6.4, sum(width) + 2.3), 4.4), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(width), sharey=True, gridspec_kw={"width_ratios": width}))
    draw_targets(axes[0], run, targets)
    axes[0].set_title("long exposure" if run.ne > 1 else "the exposure")
    if run.ne > 1:
        draw_times(axes[1], run)
        low, high = min(a.get_ylim()[0] for a in axes), max(a.get_ylim()[1] for a in axes)
        axes[0].set_ylim(low, high)
    known = {}
    for a in axes:
        known.update(dict(zip(*a.get_legend_handles_labels()[::-1])))
    axes[-1].legend(list(known.values())[::-1], list(known)[::-1], loc="center left", bbox_to_anchor=(1.02, 0.5), frameon=False)
    figure.set_figheight(3.7 + 0.19 * set_title(figure, summary(run)))
    return figure
