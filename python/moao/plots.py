"""Figures of a run (matplotlib): maps with the guide stars, images, histories. Each function returns a Figure.

Nothing here touches pyplot or its backend: in a notebook the figure that a cell ends with is shown, elsewhere it is
saved with figure.savefig.
"""
import functools

import numpy as np
from matplotlib import rc_context
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

MAX_PANELS = 6    # short exposures drawn in a row
MAX_NUMBERS = 12  # targets of a list whose values are written beside them
MAX_WAVES = 2     # wavelengths drawn when none is chosen
PANEL = 2.05      # inches
STYLE = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 9, "figure.titlesize": 11, "axes.linewidth": 0.8, "image.interpolation": "nearest",
    "xtick.direction": "in", "ytick.direction": "in", "figure.dpi": 110, "savefig.dpi": 110,
}
COLOURS = ("#1f4e79", "#b8540f", "#2e7d32", "#6a3d9a", "#8a6d00", "#00838f")
STARS = {
    "LGS": dict(marker="*", s=110, facecolor="#ff9d1e", edgecolor="black", linewidth=0.7, label="laser guide star"),
    "NGS": dict(marker="o", s=34, facecolor="white", edgecolor="#c4122f", linewidth=1.5, label="natural guide star"),
}
MAPS = {"STREHL": "viridis", "FWHM": "magma_r", "VARIANCE": "inferno_r"}  # others: cividis


def styled(f):
    """A function that draws, with the fonts and lines of all these figures."""
    @functools.wraps(f)
    def call(*args, **kw):
        with rc_context(STYLE):
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
    return "%.4g µm" % run.lambdas[il]


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


def default_targets(run, most):
    """The target nearest the centre, then those farthest out in the diagonals."""
    cx, cy = (run.x.min() + run.x.max()) / 2, (run.y.min() + run.y.max()) / 2
    x, y = run.x - cx, run.y - cy
    picks = [int(np.argmin(np.hypot(x, y)))]
    picks += [int(np.argmax(sx * x + sy * y)) for sx, sy in ((-1, 1), (1, 1), (-1, -1), (1, -1))]
    return list(dict.fromkeys(picks))[:most]


def default_quantities(run):
    """Strehl ratio, and the energy in the first box."""
    return ["STREHL"] + [n for n in run.quantities if n.startswith("EE_")][:1]


def panels_of(run, name, il):
    """(title, values of the targets) of each panel of a row: exposures and the long one, or wavelengths when there
    is one exposure only."""
    value, mean = run.column(name), run.column_long(name)
    if run.ne == 1:
        order = np.argsort(run.lambdas)
        if len(order) > MAX_PANELS:
            order = order[np.unique(np.linspace(0, len(order) - 1, MAX_PANELS).astype(int))]
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


def norm_of(values, fixed=None):
    """Scale of colours from the values, or fixed as (low, high)."""
    if fixed is not None:
        return Normalize(*fixed)
    v = values[np.isfinite(values)]
    low, high = (v.min(), v.max()) if len(v) else (0.0, 1.0)
    return Normalize(low, high) if high > low else Normalize(low - 0.01, high + 0.01)


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


def draw_map(ax, run, values, norm, cmap, numbers="%.2f"):
    """One map: an image for a grid, squares for a list of targets or a single one."""
    if run.grid and len(run.x) > 1:
        nx, ny = run.grid
        dx, dy = step(run.x, nx), step(run.y, ny)
        dx, dy = dy if nx == 1 else dx, dx if ny == 1 else dy
        extent = (run.x.min() - dx / 2, run.x.max() + dx / 2, run.y.min() - dy / 2, run.y.max() + dy / 2)
        drawn = ax.imshow(values.reshape(ny, nx), origin="lower", extent=extent, norm=norm, cmap=cmap)
    else:
        drawn = ax.scatter(run.x, run.y, c=values, norm=norm, cmap=cmap, marker="s", edgecolor="black",
                           linewidth=0.4, s=70 if len(run.x) < 50 else 22, zorder=2)
        if len(run.x) <= MAX_NUMBERS:
            for x, y, v, name in zip(run.x, run.y, values, run.names):
                ax.annotate((name + " " if run.named else "") + numbers % v, (x, y), (0, -7),
                            textcoords="offset points", ha="center", va="top", fontsize=7)
    draw_stars(ax, run)
    x0, x1, y0, y1 = limits(run)
    ax.set(xlim=(x0, x1), ylim=(y0, y1), aspect="equal", facecolor="#e9e9ec")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(4, symmetric=True))
    return drawn


def draw_row(figure, run, name, il, scale="common", fixed=None, angle=None):
    """A quantity at one wavelength in all its panels. scale: common (one for the row) or separate (one a panel)."""
    panels = panels_of(run, name, il)
    every = np.concatenate([v for _, v in panels])
    label = label_of(run, name) + ("" if run.ne == 1 else " at " + wave_label(run, il))
    numbers = "%.2f" if np.nanmax(abs(every), initial=0) < 10 else "%.1f"
    axes = np.atleast_1d(figure.subplots(1, len(panels), sharex=True, sharey=True))
    for ax, (title, values) in zip(axes, panels):
        norm = norm_of(values if scale == "separate" else every, fixed)
        drawn = draw_map(ax, run, values, norm, MAPS.get(name, "cividis"), numbers)
        ax.set_title(title + "\n", fontweight="bold" if title == "long exposure" else "normal")
        ax.text(0.5, 1.02, statistics(values), transform=ax.transAxes, ha="center", va="bottom", fontsize=6.8)
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


def target_label(run, t):
    where = ("(%.3g″, %.3g″)" % (run.x[t], run.y[t])).replace("-", "−")
    return (run.names[t] + "  " if run.named else "") + where


def half_width(run, il, psf):
    """Half side [arcsec] of the part of an image that is drawn: 12 lambda/D or 6 FWHM."""
    fwhm = run.column_long("FWHM")[il]
    wide = 6 * np.nanmax(fwhm) / 1e3 if np.isfinite(fwhm).any() else 0
    return min(psf.data.shape[0] // 2 * psf.pixel / 1e3, max(12 * run.wavelengths["DIFFLIM"][il] / 1e3, wide))


def draw_psfs(axes, run, il, psfs):
    """Images beside each other on one logarithmic scale."""
    half = half_width(run, il, psfs[0])
    high = max(p.data.max() for p in psfs)
    norm = LogNorm(high * 10 ** -4.5, high)
    for ax, p in zip(axes, psfs):
        n, pixel = p.data.shape[0], p.pixel / 1e3
        extent = ((-n // 2 - 0.5) * pixel, (n - n // 2 - 0.5) * pixel) * 2
        drawn = ax.imshow(np.maximum(p.data, norm.vmin), origin="lower", extent=extent, norm=norm, cmap="inferno")
        ax.set(xlim=(-half, half), ylim=(-half, half), xlabel="x [arcsec]")
        ax.set_title(target_label(run, p.target))
        ax.text(0.04, 0.96, "Strehl %.3f" % p.strehl, color="white", transform=ax.transAxes, va="top", fontsize=8)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(4, symmetric=True))
        if ax is not axes[0]:
            ax.tick_params(labelleft=False)
    axes[0].set_ylabel("PSF at %s\ny [arcsec]" % wave_label(run, il))
    axes[0].figure.colorbar(drawn, cax=axes[len(psfs) - 1].inset_axes([1.05, 0, 0.06, 1]),
                            label="of diffraction-limited peak")


def draw_history(ax, run, waves):
    """r0 of the profiles in time, the times of the reconstructors, and the Strehl ratio's mean over the targets."""
    unit, word = time_unit(run.times)
    times = run.times / unit
    lines = ax.plot(times, run.r0 * 100, "o-", color="black", ms=4, lw=1.2, label="$r_0$")
    for t in np.unique(np.asarray(run.exposures["TORTIME"])) / unit:
        ax.axvline(t, color="0.55", lw=1, ls="--", zorder=0)
    ax.set_xlabel("time [%s]   (dashed: reconstructor computed)" % word)
    ax.set_ylabel("$r_0$ at 500 nm [cm]\nalong the line of sight" + (", z = %.3g°" % run.zenith if run.zenith else ""))
    ax.margins(y=0.25)
    right = ax.twinx()
    for il, colour, mark in zip(waves, COLOURS, "s^Dv*P"):
        lines += right.plot(times, run.column("STREHL")[il].mean(axis=1), mark + "-", color=colour, ms=4, lw=1.2,
                            label=wave_label(run, il))
    right.margins(y=0.35)
    right.set_ylabel("mean Strehl ratio")
    right.legend(handles=lines, frameon=False, ncol=3, loc="upper center", fontsize=7.5, columnspacing=1,
                 handlelength=1.5)


def draw_spectrum(ax, run, names):
    """Pure numbers against wavelength, means over the targets with their extremes: for one exposure."""
    order = np.argsort(run.lambdas)
    names = [n for n in names if not run.unit(n)] or ["STREHL"]
    for name, colour in zip(names, COLOURS):
        v = run.column(name)[order, 0]
        bars = [v.mean(axis=1) - v.min(axis=1), v.max(axis=1) - v.mean(axis=1)]
        ax.errorbar(run.lambdas[order], v.mean(axis=1), yerr=bars if run.nt > 1 else None, fmt="o-", color=colour,
                    ms=4, lw=1.2, capsize=3, label=label_of(run, name))
    ax.set(xlabel="wavelength [µm]", ylabel="mean over targets, min to max" if run.nt > 1 else "on the target")
    ax.margins(x=0.1, y=0.15)
    at_zenith = " (%.3g cm at zenith)" % (run.r0_zenith[0] * 100) if run.zenith else ""
    ax.set_title("$r_0$ at 500 nm along the line of sight %.3g cm%s" % (run.r0[0] * 100, at_zenith), fontsize=8)
    ax.legend(frameon=False)


def draw_energies(ax, run, psfs):
    """Ensquared energy of images against the box, with the values of maps.fits where it has them."""
    for p, colour in zip(psfs, COLOURS):
        il = int(np.argmin(abs(run.lambdas - p.wavelength)))
        wide = max(2.5 * max(run.boxes, default=0), 12 * run.wavelengths["DIFFLIM"][il])
        side = np.linspace(0, min(wide, p.pixel * (p.data.shape[0] - 1)), 60)[1:]
        ax.plot(side, p.ee(side), color=colour, lw=1.2, label=target_label(run, p.target))
        name = [n for n in run.quantities if n.startswith("EE_")]
        inside = [(run.box_of(n), run.column_long(n)[il, p.target]) for n in name if run.box_of(n) <= side[-1]]
        if inside and p.exposure is None:
            ax.plot(*zip(*inside), "o", color=colour, ms=4)
    ax.set(xlabel="side of the box [mas]", ylabel="ensquared energy at %.4g µm" % psfs[0].wavelength, ylim=(0, 1),
           xlim=(0, None))
    ax.legend(frameon=False, fontsize=7.5, loc="lower right")


def summary(run):
    """Lines that say what was computed."""
    h = run.header
    r0 = "" if run.ne == 1 else "\n$r_0$ at 500 nm along the line of sight %.3g to %.3g cm" % (
        run.r0.min() * 100, run.r0.max() * 100)
    if r0 and run.zenith:
        r0 += " (at zenith %.3g to %.3g cm)" % (run.r0_zenith.min() * 100, run.r0_zenith.max() * 100)
    return "%s%g m telescope, %d sensors, %d measurements, %d target%s, %d exposure%s%s" % (
        run.title + "\n" if run.title else "", h["TELDIAM"], h["NSENSOR"], h["NMEAS"], run.nt,
        "s" if run.nt > 1 else "", run.ne, "s" if run.ne > 1 else "", r0)


@styled
def maps(run, name="STREHL", wavelength=None, scale="common", fixed=None, angle=None):
    """One quantity over the field: its exposures, or its wavelengths when there is one exposure."""
    il = run.wavelength_index(wavelength) if run.ne > 1 else 0
    n = len(panels_of(run, name, il))
    panel = PANEL if n > 3 else 3.2
    figure = Figure(figsize=(n * panel + 1.2, panel + 1.0), layout="constrained")
    draw_row(figure, run, name, il, scale, fixed, run.position_angle if angle is None else angle)
    return figure


@styled
def psfs(run, targets=None, wavelength=None, exposure=None):
    """Images of some targets: indices, names or (x, y); None: five of them."""
    il = run.wavelength_index(wavelength)
    chosen = default_targets(run, 5) if targets is None else pick(run, targets)
    images = list(run.psfs(chosen, run.lambdas[il], exposure))
    figure = Figure(figsize=(max(4, (len(images) + 0.6) * 2.4), 2.9), layout="constrained")
    draw_psfs(np.atleast_1d(figure.subplots(1, len(images))), run, il, images)
    return figure


@styled
def energies(run, targets=None, wavelength=None, exposure=None):
    """Ensquared energy of some targets against the side of the box."""
    chosen = default_targets(run, 3) if targets is None else pick(run, targets)
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    draw_energies(figure.subplots(), run, list(run.psfs(chosen, wavelength, exposure)))
    return figure


@styled
def history(run, wavelengths=None):
    """r0 and the mean Strehl ratio in time; with one exposure the quantities against wavelength."""
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    if run.ne > 1:
        draw_history(figure.subplots(), run, default_waves(run) if wavelengths is None else
                     [run.wavelength_index(w) for w in wavelengths])
    else:
        draw_spectrum(figure.subplots(), run, default_quantities(run))
    return figure


def pick(run, targets):
    """Indices of targets given as indices, names or pairs (x, y), each once."""
    return list(dict.fromkeys(run.target_index(*t) if isinstance(t, (tuple, list)) else run.target_index(t)
                              for t in targets))


@styled
def overview(run, names=None, waves=None, targets=None, scale="common", fixed=None, angle=None):
    """Everything at a glance. names: quantities; waves: rows of WAVELENGTHS; targets: whose images are drawn;
    fixed: {quantity: (low, high)}; angle: position angle of y [deg], if the run does not say."""
    names = default_quantities(run) if names is None else names
    waves = default_waves(run) if waves is None else waves
    angle = run.position_angle if angle is None else angle
    npanel = len(panels_of(run, "STREHL", 0))
    chosen = default_targets(run, 5 if npanel >= 5 else 3) if targets is None else pick(run, targets)
    rows = [(n, il) for n in names for il in (waves if run.ne > 1 else waves[:1])]
    images = [list(run.psfs(chosen, run.lambdas[il])) for il in waves] if "long" in run.images else []
    width = max(8.4, (npanel + 0.6) * PANEL, (len(chosen) + 2.5) * PANEL if images else 0)
    panel = min((width - 1.2) / npanel, 3.6)
    heights = [panel + 0.74] * len(rows) + [PANEL + 0.7] * max(len(images), 1) + [0.3]
    figure = Figure(figsize=(width, sum(heights) + 0.75), layout="constrained")
    parts = list(figure.subfigures(len(heights), 1, height_ratios=heights))
    for part, (name, il) in zip(parts, rows):
        axes = draw_row(part, run, name, il, scale, (fixed or {}).get(name), angle)
    handles = axes[0].get_legend_handles_labels()
    for i, part in enumerate(parts[len(rows):-1]):
        draw_images_and_curve(part, run, waves, images[i] if images else [], i, names, width)
    figure.suptitle(summary(run))
    parts[-1].legend(*handles, loc="center", ncol=len(handles[0]) or 1, frameon=False)
    return figure


def draw_images_and_curve(part, run, waves, images, i, names, width):
    """A row with images at one wavelength and, to the right of them, a curve: the history first, then energies."""
    if images:
        ratios = [1] * len(images) + [0.34, max(1.75, width / PANEL - len(images) - 1)]
        axes = part.subplots(1, len(ratios), gridspec_kw={"width_ratios": ratios})
        draw_psfs(axes[:len(images)], run, waves[i], images)
        axes[-2].set_visible(False)
        curve = axes[-1]
    else:
        curve = part.subplots()
    if i > 0:
        draw_energies(curve, run, images[:3])
    elif run.ne > 1:
        draw_history(curve, run, waves)
    else:
        draw_spectrum(curve, run, names + [n for n in default_quantities(run) if n not in names])
