"""Maps over the field, and the curves that take their place where the targets lie on a line: what the figures of a run and of
single panels are made of. Wavelengths are rows of WAVELENGTHS here, targets indices from 0.
"""
import functools

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import Normalize, TwoSlopeNorm
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from .plots_text import POINTS, Places, plain, shortened, text_width

MAX_PANELS = 6    # short exposures drawn in a row
MAX_NUMBERS = 12  # targets of a list whose values are written beside them
MAX_WAVES = 2     # wavelengths drawn when none is chosen
PANEL = 2.05      # inches
STYLE = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 9, "figure.titlesize": 11, "axes.linewidth": 0.8, "image.interpolation": "nearest",
    "xtick.direction": "in", "ytick.direction": "in", "figure.dpi": 110, "savefig.dpi": 110,
    "pdf.fonttype": 42,  # letters that can be edited and searched, as journals want them
}
COLOURS = ("#1f4e79", "#b8540f", "#2e7d32", "#6a3d9a", "#8a6d00", "#00838f")
STARS = {
    "LGS": dict(marker="*", s=110, facecolor="#ff9d1e", edgecolor="black", linewidth=0.7, label="laser guide star"),
    "NGS": dict(marker="o", s=34, facecolor="white", edgecolor="#c4122f", linewidth=1.5, label="natural guide star"),
}
MAPS = {"STREHL": "viridis", "FWHM": "magma_r", "VARIANCE": "inferno_r"}  # others: cividis
SIGNED = "RdBu_r"
NAME = 16         # characters of a name beside its target
ON_A_LINE = 1e-3  # of the line's length: targets that near to it are on it


def styled(f, more=None):
    """A function that draws, with the fonts and lines of all these figures, and `more` of matplotlib's settings."""
    @functools.wraps(f)
    def call(*args, **kw):
        with rc_context({**STYLE, **(more or {})}):
            return f(*args, **kw)
    return call


def label_of(run, name):
    """What to write beside a quantity."""
    if name.startswith("EE_"):
        return "EE in %.4g mas" % run.box_of(name)
    unit = {"rad2": "rad²"}.get(run.unit(name), run.unit(name))
    word = {"STREHL": "Strehl ratio", "FWHM": "FWHM", "VARIANCE": "residual variance"}.get(name) or run.term_words(name)
    return word + (" [%s]" % unit if unit else "")


def wave_label(run, il):
    return run.bands[il] or "%.4g µm" % run.lambdas[il]


def time_unit(times):
    """Unit in which the times of a run read well: (seconds in one, name)."""
    span = max(np.ptp(times), abs(times).max()) if len(times) else 0
    return (3600.0, "h") if span > 6 * 3600 else (60.0, "min") if span >= 120 else (1.0, "s")


def step(v, n):
    return np.ptp(v) / (n - 1) if n > 1 else 1.0


def limits(run):
    """Field to draw: square, round the centre of the targets, with all guide stars and a margin."""
    cx, cy = (run.x.min() + run.x.max()) / 2, (run.y.min() + run.y.max()) / 2
    half = max(1, abs(np.concatenate([run.x, run.guide_stars["X"]]) - cx).max(),
               abs(np.concatenate([run.y, run.guide_stars["Y"]]) - cy).max()) * 1.1
    if run.grid:
        half = max(half, (np.ptp(run.x) + step(run.x, run.grid[0])) / 2 * 1.02,
                   (np.ptp(run.y) + step(run.y, run.grid[1])) / 2 * 1.02)
    return cx - half, cx + half, cy - half, cy + half


def default_waves(run):
    """Rows of the wavelengths drawn when none is chosen: all, or of many the shortest and the longest."""
    order = [int(i) for i in np.argsort(run.lambdas)]
    return order if len(order) <= MAX_WAVES else [order[0], order[-1]]


def default_targets(run, most, il=0, exposure=None):
    """Whose images are drawn when none is chosen: the target with the largest Strehl ratio, the one nearest the centre, the one
    with the smallest, then those farthest out in the diagonals."""
    cx, cy = (run.x.min() + run.x.max()) / 2, (run.y.min() + run.y.max()) / 2
    x, y = run.x - cx, run.y - cy
    best, worst = best_and_worst(run, il, exposure)
    picks = [best, int(np.argmin(np.hypot(x, y))), worst] if most > 2 else [best, worst]
    picks += [int(np.argmax(sx * x + sy * y)) for sx, sy in ((-1, 1), (1, 1), (-1, -1), (1, -1))]
    return list(dict.fromkeys(p for p in picks if p is not None))[:most]


def best_and_worst(run, il, exposure=None):
    """Targets with the largest and the smallest Strehl ratio; (None, None) where all have the same."""
    v = run.column_long("STREHL")[il] if exposure is None else run.column("STREHL")[il, exposure - 1]
    if not np.isfinite(v).any() or np.nanmax(v) == np.nanmin(v):
        return None, None
    return int(np.nanargmax(v)), int(np.nanargmin(v))


def default_quantities(run):
    """Strehl ratio, and the energy in the first box."""
    return ["STREHL"] + [n for n in run.quantities if n.startswith("EE_")][:1]


def panels_of(run, name, il, waves=None):
    """(title, values of the targets) of each panel of a row: exposures and the long one at a wavelength, or, when there is one
    exposure only, wavelengths: those of `waves`, or all."""
    value, mean = run.column(name), run.column_long(name)
    if run.ne == 1:
        order = np.array(sorted(range(run.nl) if waves is None else waves, key=lambda i: run.lambdas[i]))
        if len(order) > MAX_PANELS:
            order = order[np.unique(np.linspace(0, len(order) - 1, MAX_PANELS).astype(int))]
        if run.achromatic(name):
            return [("all wavelengths", value[0, 0])]
        return [(wave_label(run, i), value[i, 0]) for i in order]
    unit, word = time_unit(run.times)
    chosen = np.unique(np.linspace(0, run.ne - 1, min(run.ne, MAX_PANELS)).round().astype(int))
    panels = [("t = %.4g %s" % (run.times[e] / unit, word), value[il, e]) for e in chosen]
    return panels + [("long exposure", mean[il])]


def statistics(values):
    """min, mean and max of the values that there are, as one line."""
    v = values[np.isfinite(values)]
    if not len(v):
        return "no value"
    span = np.ptp(v) if len(v) > 1 and np.ptp(v) > 0 else abs(v).max() / 10 or 1
    digits = int(np.clip(2 - np.floor(np.log10(span)), 0, 3 if abs(v).max() < 10 else 2))
    if len(v) == 1:
        return "%.*f" % (digits, v[0])
    return "min %.*f  mean %.*f  max %.*f" % (digits, v.min(), digits, v.mean(), digits, v.max())


def is_signed(run, name, values):
    """Whether a quantity is a term of the error budget with a negative variance somewhere."""
    return run.achromatic(name) and bool((np.asarray(values)[np.isfinite(values)] < 0).any())


def scale_of(run, name, values, fixed=None):
    """(norm, colours) from the values, or fixed as (low, high); a term with both signs has a diverging scale, white at zero."""
    v = np.asarray(values)[np.isfinite(values)]
    if is_signed(run, name, values):
        high = abs(v).max()
        if fixed is not None and fixed[0] < 0 < fixed[1]:
            return TwoSlopeNorm(0, *fixed), SIGNED
        return Normalize(*(fixed or (-high, high))), SIGNED
    cmap = MAPS.get(name, "cividis")
    if fixed is not None:
        return Normalize(*fixed), cmap
    low, high = (v.min(), v.max()) if len(v) else (0.0, 1.0)
    return (Normalize(low, high) if high > low else Normalize(low - 0.01, high + 0.01)), cmap


def draw_stars(ax, run):
    kinds = np.array([str(t).strip() for t in run.guide_stars["TYPE"]])
    for kind, style in STARS.items():
        of_kind = kinds == kind
        if of_kind.any():
            ax.scatter(run.guide_stars["X"][of_kind], run.guide_stars["Y"][of_kind], zorder=3, **style)


def compass_place(run):
    """Middle of the compass in shares of the axes: the corner that stars and targets are farthest from."""
    x0, x1, y0, y1 = limits(run)
    x = (np.concatenate([run.x, run.guide_stars["X"]]) - x0) / (x1 - x0)
    y = (np.concatenate([run.y, run.guide_stars["Y"]]) - y0) / (y1 - y0)
    corners = [(0.13, 0.13), (0.87, 0.13), (0.13, 0.87), (0.87, 0.87)]
    return max(corners, key=lambda c: np.hypot(x - c[0], y - c[1]).min())


def draw_compass(ax, run, angle):
    """Arrows to north and east in a free corner; angle: position angle of the y axis [deg east of north].

    On the sky east lies to the left of north: north is `angle` clockwise from y, east a quarter turn
    counterclockwise from north.
    """
    draw_compass_at(ax, compass_place(run), angle)


def draw_compass_at(ax, place, angle):
    """The same with its middle at a place in shares of the axes."""
    a, length = np.radians(angle), 0.1
    arrows = (("N", np.sin(a), np.cos(a)), ("E", -np.cos(a), np.sin(a)))
    x, y = place
    x, y = x - length / 2 * sum(v[1] for v in arrows), y - length / 2 * sum(v[2] for v in arrows)
    for word, dx, dy in arrows:
        ax.annotate("", (x + length * dx, y + length * dy), (x, y), xycoords="axes fraction",
                    arrowprops=dict(arrowstyle="-|>", color="black", lw=1, shrinkA=0, shrinkB=0, mutation_scale=8),
                    zorder=4)
        ax.text(x + 1.5 * length * dx, y + 1.5 * length * dy, word, transform=ax.transAxes, ha="center",
                va="center", fontsize=7, zorder=4)


def draw_map(ax, run, values, norm, cmap, numbers="%.2f", inches=PANEL):
    """One map: an image for a grid, squares for a list of targets or a single one. inches: about the side of the axes."""
    x0, x1, y0, y1 = limits(run)
    if run.grid and len(run.x) > 1:
        nx, ny = run.grid
        dx, dy = step(run.x, nx), step(run.y, ny)
        dx, dy = dy if nx == 1 else dx, dx if ny == 1 else dy
        extent = (run.x.min() - dx / 2, run.x.max() + dx / 2, run.y.min() - dy / 2, run.y.max() + dy / 2)
        drawn = ax.imshow(values.reshape(ny, nx), origin="lower", extent=extent, norm=norm, cmap=cmap)
    else:
        drawn = ax.scatter(run.x, run.y, c=values, norm=norm, cmap=cmap, marker="s", edgecolor="black",
                           linewidth=0.4, s=70 if len(run.x) < 50 else 22, zorder=2, plotnonfinite=True)
        if len(run.x) <= MAX_NUMBERS:
            label_targets(ax, run, values, numbers, inches)
    draw_stars(ax, run)
    ax.set(xlim=(x0, x1), ylim=(y0, y1), aspect="equal", facecolor="#e9e9ec")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(4, symmetric=True))
    return drawn


def label_targets(ax, run, values, numbers, inches, size=7):
    """Name and value beside each target of a list, where they cover neither each other nor targets and stars."""
    x0, x1, y0, y1 = limits(run)
    side = inches * POINTS
    at = [((x - x0) / (x1 - x0) * side, (y - y0) / (y1 - y0) * side) for x, y in zip(run.x, run.y)]
    places = Places(side, side)
    for x, y in at:
        places.block(x, y, 5)
    for x, y in zip(run.guide_stars["X"], run.guide_stars["Y"]):
        places.block((x - x0) / (x1 - x0) * side, (y - y0) / (y1 - y0) * side, 5)
    for (x, y), v, name in zip(at, values, run.names):
        name = plain(name if len(name) <= NAME else name[:NAME - 1] + "…") if run.named else ""
        text = (shortened(name, inches / 2, size) + " " + (numbers % v if np.isfinite(v) else "–")).strip()
        dx, dy = places.put(x, y, text_width(text, size), size)
        far = abs(dy) > 2 * size
        ax.annotate(text, (float(x / side), float(y / side)), (dx, dy), xycoords="axes fraction", textcoords="offset points", ha="center",
                    va="center", fontsize=size, zorder=4, arrowprops=dict(arrowstyle="-", lw=0.4, color="0.4", shrinkA=0, shrinkB=4) if far else None)


def number_format(values):
    """How the values are written beside the targets."""
    high = np.nanmax(abs(values), initial=0)
    return "%.2f" if high < 10 else "%.1f" if high < 1000 else "%.0f"


def bar_label(run, name, values, il=None):
    """What a bar of colours, or an axis, says: quantity, unit, wavelength, and what a sign means."""
    at = "" if il is None or run.achromatic(name) else " at " + wave_label(run, il)
    return label_of(run, name) + at + ("\n(below 0: negative variance)" if is_signed(run, name, values) else "")


def title_of(ax, title, values, **kw):
    """A panel's title, and in small letters under it least, mean and largest value."""
    ax.set_title(title + "\n", **kw)
    ax.text(0.5, 1.02, statistics(values), transform=ax.transAxes, ha="center", va="bottom", fontsize=6.8)


def draw_row(figure, run, name, il, scale="common", fixed=None, angle=None, waves=None):
    """A quantity in all its panels: exposures at one wavelength, or wavelengths of the only exposure (`waves`). scale: common
    (one for the row) or separate (one a panel)."""
    panels = panels_of(run, name, il, waves)
    every = np.concatenate([v for _, v in panels])
    label = bar_label(run, name, every, None if run.ne == 1 else il)
    numbers = number_format(every)
    inches = min(3.0, figure.get_figwidth() / (len(panels) + 0.6) if hasattr(figure, "get_figwidth") else PANEL)
    axes = np.atleast_1d(figure.subplots(1, len(panels), sharex=True, sharey=True))
    for ax, (title, values) in zip(axes, panels):
        norm, cmap = scale_of(run, name, values if scale == "separate" else every, fixed)
        drawn = draw_map(ax, run, values, norm, cmap, numbers, inches)
        title_of(ax, title, values, fontweight="bold" if title == "long exposure" else "normal")
        ax.label_outer()
        ax.set_xlabel("x [arcsec]")
        if scale == "separate" and fixed is None:
            figure.colorbar(drawn, cax=ax.inset_axes([1.03, 0, 0.05, 1])).ax.tick_params(labelsize=7)
    axes[0].set_ylabel("y [arcsec]")
    if angle is not None:
        draw_compass(axes[0], run, angle)
    if scale == "separate" and fixed is None:
        axes[0].set_ylabel(label + "\ny [arcsec]")
    else:
        figure.colorbar(drawn, cax=axes[-1].inset_axes([1.05, 0, 0.06, 1]), label=label)
    return axes


def draw_quantities(figure, run, names, il, fixed=None, angle=None):
    """Several quantities of the only exposure at one wavelength beside each other, each with its own scale."""
    axes = np.atleast_1d(figure.subplots(1, len(names), sharex=True, sharey=True))
    for ax, name in zip(axes, names):
        values = run.column(name)[il, 0]
        norm, cmap = scale_of(run, name, values, (fixed or {}).get(name))
        drawn = draw_map(ax, run, values, norm, cmap, number_format(values), 2.4)
        title_of(ax, wave_label(run, il) if not run.achromatic(name) else "all wavelengths", values)
        figure.colorbar(drawn, cax=ax.inset_axes([1.04, 0, 0.06, 1]), label=bar_label(run, name, values))
        ax.label_outer()
        ax.set_xlabel("x [arcsec]")
    axes[0].set_ylabel("y [arcsec]")
    if angle is not None:
        draw_compass(axes[0], run, angle)
    return axes


def line_of(run):
    """(places [arcsec] along it, what the axis says) when three and more targets lie on a straight line, else None. Places count
    from the point of the line that is nearest to x = y = 0."""
    if run.nt < 3:
        return None
    x, y = run.x - run.x.mean(), run.y - run.y.mean()
    across, (ux, uy) = (lambda u, s, v: (s[1], v[0]))(*np.linalg.svd(np.stack([x, y], axis=1), full_matrices=False))
    if across > ON_A_LINE * max(np.ptp(x), np.ptp(y)) or max(np.ptp(x), np.ptp(y)) == 0:
        return None
    if (ux if abs(ux) > abs(uy) else uy) < 0:
        ux, uy = -ux, -uy
    place, off = run.x * ux + run.y * uy, float(np.mean(run.y * ux - run.x * uy))
    if abs(uy) < ON_A_LINE:
        return place, "x [arcsec] at y = %.4g arcsec" % (off + 0.0)
    if abs(ux) < ON_A_LINE:
        return place, "y [arcsec] at x = %.4g arcsec" % (0.0 - off)
    word = "distance from the axis [arcsec]" if abs(off) < ON_A_LINE * np.ptp(place) else "distance along the line of targets [arcsec]"
    return place, word + ", %.3g° from x" % (np.degrees(np.arctan2(uy, ux)) % 360)


def draw_curves(ax, run, name, waves, exposure=None, size=7, columns=2):
    """A quantity of targets on a line against the place on it: the long exposure (or one) of each wavelength as a line, and with the
    long one the single exposures thin."""
    place, word = line_of(run)
    order, handles = np.argsort(place), []
    waves = waves[:1] if run.achromatic(name) else waves
    for il, colour in zip(waves, COLOURS):
        value = run.column_long(name)[il] if exposure is None else run.column(name)[il, exposure - 1]
        if exposure is None and run.ne > 1:
            for e in np.unique(np.linspace(0, run.ne - 1, min(run.ne, MAX_PANELS)).round().astype(int)):
                ax.plot(place[order], run.column(name)[il, e][order], "-", color=colour, lw=0.6, alpha=0.55)
        words = "" if run.achromatic(name) else wave_label(run, il) + ": "
        handles += ax.plot(place[order], value[order], "o-", color=colour, ms=3, lw=1.4, label=words + statistics(value))
    if exposure is None and run.ne > 1:
        handles.append(Line2D([], [], color="0.5", lw=0.6, label="single exposures"))
    if ax.get_ylim()[0] < 0 < ax.get_ylim()[1]:
        ax.axhline(0, color="0.5", lw=0.8, zorder=0)
    ax.set(xlabel=word, ylabel=bar_label(run, name, np.concatenate([run.column_long(name)[il] for il in waves])))
    ax.margins(x=0.03, y=0.1)
    ax.legend(handles=handles, frameon=False, fontsize=size, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=columns)


def draw_line_row(figure, run, name, waves, angle=None):
    """Targets on a line: where they are in the field, and the quantity as curves."""
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1, 2.6]})
    values = run.column_long(name)[waves[0]]
    norm, cmap = scale_of(run, name, values)
    drawn = draw_map(left, run, values, norm, cmap, number_format(values), 2.0)
    left.set(xlabel="x [arcsec]", ylabel="y [arcsec]")
    left.set_title(("long exposure" if run.ne > 1 else "") + ("" if run.achromatic(name) else ", "[:2 * (run.ne > 1)] + wave_label(run, waves[0])))
    figure.colorbar(drawn, cax=left.inset_axes([1.05, 0, 0.06, 1]))
    draw_curves(right, run, name, waves)
    if angle is not None:
        draw_compass(left, run, angle)
    return [left, right]
