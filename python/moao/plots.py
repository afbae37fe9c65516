"""Figures of a run (matplotlib): maps with the guide stars, images, histories. Each function returns a Figure.

Nothing here touches pyplot or its backend: in a notebook the figure that a cell ends with is shown, elsewhere it is
saved with figure.savefig. Single panels for a paper: moao.plots_panels.
"""
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from .plots_maps import (COLOURS, MAX_PANELS, PANEL, best_and_worst, default_quantities, default_targets, default_waves,
                         draw_line_row, draw_quantities, draw_row, label_of, line_of, panels_of, styled, time_unit, wave_label)
from .plots_text import plain, set_title, shortened

LINE_HEIGHT = 0.19  # inches of a line of a title
MOST_ABREAST = 3    # quantities of a single exposure in a row


def role_of(run, t, il, exposure=None):
    """What a target is among the others: "best: ", "worst: " (Strehl ratio), or nothing."""
    best, worst = best_and_worst(run, il, exposure)
    return "best: " if t == best else "worst: " if t == worst else ""


def place_of(run, t):
    return ("(%.3g″, %.3g″)" % (run.x[t] + 0.0, run.y[t] + 0.0)).replace("-", "−")


def target_label(run, t, il=None, exposure=None):
    """Role, name and direction of a target in a line."""
    role = "" if il is None else role_of(run, t, il, exposure)
    return role + (plain(run.names[t])[:24] + "  " if run.named else "") + place_of(run, t)


def half_width(run, il, psf):
    """Half side [arcsec] of the part of an image that is drawn: 12 lambda/D or 6 FWHM."""
    fwhm = run.column_long("FWHM")[il]
    wide = 6 * np.nanmax(fwhm) / 1e3 if np.isfinite(fwhm).any() else 0
    return min(psf.data.shape[0] // 2 * psf.pixel / 1e3, max(12 * run.wavelengths["DIFFLIM"][il] / 1e3, wide))


def draw_psfs(axes, run, il, psfs, inches=PANEL):
    """Images beside each other on one logarithmic scale; over each its target, and whether it is the best or the worst."""
    half = half_width(run, il, psfs[0])
    high = max(p.data.max() for p in psfs)
    norm = LogNorm(high * 10 ** -4.5, high)
    for ax, p in zip(axes, psfs):
        n, pixel = p.data.shape[0], p.pixel / 1e3
        extent = ((-n // 2 - 0.5) * pixel, (n - n // 2 - 0.5) * pixel) * 2
        drawn = ax.imshow(np.maximum(p.data, norm.vmin), origin="lower", extent=extent, norm=norm, cmap="inferno")
        ax.set(xlim=(-half, half), ylim=(-half, half), xlabel="x [arcsec]")
        role, where = role_of(run, p.target, il, p.exposure), place_of(run, p.target)
        lines = [role + plain(run.names[p.target]), where] if run.named else [role + where]
        ax.set_title("\n".join(shortened(w, inches * 0.95, 8) for w in lines), fontsize=8)
        ax.text(0.04, 0.96, "Strehl %.3f" % p.strehl, color="white", transform=ax.transAxes, va="top", fontsize=8)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(4, symmetric=True))
        if ax is not axes[0]:
            ax.tick_params(labelleft=False)
    when = "" if psfs[0].exposure is None or run.ne == 1 else ", exposure %d" % psfs[0].exposure
    axes[0].set_ylabel("PSF at %s%s\ny [arcsec]" % (wave_label(run, il), when))
    axes[0].figure.colorbar(drawn, cax=axes[len(psfs) - 1].inset_axes([1.05, 0, 0.06, 1]),
                            label="of diffraction-limited peak")


def draw_history(ax, run, waves):
    """r0 of the profiles in time, the times of the reconstructors, and the Strehl ratio's mean over the targets."""
    unit, word = time_unit(run.times)
    times = run.times / unit
    lines = ax.plot(times, run.r0 * 100, "o-", color="black", ms=4, lw=1.2, label="r₀")
    for t in np.unique(np.asarray(run.exposures["TORTIME"])) / unit:
        ax.axvline(t, color="0.55", lw=1, ls="--", zorder=0)
    ax.set_xlabel("time [%s]   (dashed: reconstructor computed)" % word)
    ax.set_ylabel("r₀ at 500 nm [cm]\nalong the line of sight" + (", z = %.3g°" % run.zenith if run.zenith else ""))
    ax.margins(y=0.25)
    right = ax.twinx()
    for il, colour, mark in zip(waves, COLOURS, "s^Dv*P"):
        lines += right.plot(times, run.column("STREHL")[il].mean(axis=1), mark + "-", color=colour, ms=4, lw=1.2,
                            label=wave_label(run, il))
    right.margins(y=0.35)
    right.set_ylabel("mean Strehl ratio")
    right.legend(handles=lines, frameon=False, ncol=3, loc="upper center", fontsize=7.5, columnspacing=1,
                 handlelength=1.5)


def draw_spectrum(ax, run, names, waves=None):
    """Pure numbers against wavelength, means over the targets with their extremes: for one exposure."""
    order = sorted(range(run.nl) if waves is None else waves, key=lambda i: run.lambdas[i])
    names = list(dict.fromkeys(n for n in names if not run.unit(n))) or ["STREHL"]
    for name, colour in zip(names, COLOURS):
        v = run.column(name)[order, 0]
        bars = [v.mean(axis=1) - v.min(axis=1), v.max(axis=1) - v.mean(axis=1)]
        ax.errorbar(run.lambdas[order], v.mean(axis=1), yerr=bars if run.nt > 1 else None, fmt="o-", color=colour,
                    ms=4, lw=1.2, capsize=3, label=label_of(run, name))
    ax.set(xlabel="wavelength [µm]", ylabel="mean over targets, min to max" if run.nt > 1 else "on the target")
    ax.margins(x=0.1, y=0.15)
    at_zenith = " (%.3g cm at zenith)" % (run.r0_zenith[0] * 100) if run.zenith else ""
    ax.set_title("r₀ at 500 nm along the line of sight %.3g cm%s" % (run.r0[0] * 100, at_zenith), fontsize=8)
    ax.legend(frameon=False)


def draw_energies(ax, run, psfs):
    """Ensquared energy of images against the box, with the values of maps.fits where it has them."""
    for p, colour in zip(psfs, COLOURS):
        il = run.wavelength_index(p.band or p.wavelength)
        wide = max(2.5 * max(run.boxes, default=0), 12 * run.wavelengths["DIFFLIM"][il])
        side = np.linspace(0, min(wide, p.pixel * (p.data.shape[0] - 1)), 60)[1:]
        ax.plot(side, p.ee(side), color=colour, lw=1.2, label=target_label(run, p.target, il, p.exposure))
        name = [n for n in run.quantities if n.startswith("EE_")]
        inside = [(run.box_of(n), run.column_long(n)[il, p.target]) for n in name if run.box_of(n) <= side[-1]]
        if inside and p.exposure is None:
            ax.plot(*zip(*inside), "o", color=colour, ms=4)
    ax.set(xlabel="side of the box [mas]", ylabel="ensquared energy %s" % (
        "in %s" % psfs[0].band if psfs[0].band else "at %.4g µm" % psfs[0].wavelength), ylim=(0, 1),
           xlim=(0, None))
    ax.legend(frameon=False, fontsize=7.5, loc="lower right")


def summary(run):
    """Lines that say what was computed."""
    h = run.header
    r0 = "" if run.ne == 1 else "\nr₀ at 500 nm along the line of sight %.3g to %.3g cm" % (run.r0.min() * 100, run.r0.max() * 100)
    if r0 and run.zenith:
        r0 += " (at zenith %.3g to %.3g cm)" % (run.r0_zenith.min() * 100, run.r0_zenith.max() * 100)
    return "%s%g m telescope, %d sensors, %d measurements, %d target%s, %d exposure%s%s" % (
        plain(run.title) + "\n" if run.title else "", h["TELDIAM"], h["NSENSOR"], h["NMEAS"], run.nt,
        "s" if run.nt > 1 else "", run.ne, "s" if run.ne > 1 else "", r0)


@styled
def maps(run, name="STREHL", wavelength=None, scale="common", fixed=None, angle=None):
    """One quantity over the field: its exposures, or with one exposure its wavelengths: the one that is asked for, or all."""
    waves = None if wavelength is None else [run.wavelength_index(wavelength)]
    il = run.wavelength_index(wavelength)
    n = len(panels_of(run, name, il, waves))
    panel = PANEL if n > 3 else 3.2
    figure = Figure(figsize=(n * panel + 1.2, panel + 1.0), layout="constrained")
    draw_row(figure, run, name, il, scale, fixed, run.position_angle if angle is None else angle, waves)
    return figure


@styled
def psfs(run, targets=None, wavelength=None, exposure=None):
    """Images of some targets: indices, names or (x, y); None: the best, the central, the worst and two of the corners."""
    il = run.wavelength_index(wavelength)
    chosen = default_targets(run, 5, il, exposure) if targets is None else pick(run, targets)
    images = list(run.psfs(chosen, run.waves[il], exposure))
    figure = Figure(figsize=(max(4, (len(images) + 0.6) * 2.4), 3.1), layout="constrained")
    draw_psfs(np.atleast_1d(figure.subplots(1, len(images))), run, il, images)
    return figure


@styled
def energies(run, targets=None, wavelength=None, exposure=None):
    """Ensquared energy of some targets against the side of the box."""
    il = run.wavelength_index(wavelength)
    chosen = default_targets(run, 3, il, exposure) if targets is None else pick(run, targets)
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    draw_energies(figure.subplots(), run, list(run.psfs(chosen, run.waves[il], exposure)))
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


def left_out(run, waves):
    """A line that says of how many exposures and wavelengths the maps are, where they are not of all; else nothing."""
    said = ["%d of %d exposures" % (MAX_PANELS, run.ne)] if run.ne > MAX_PANELS else []
    shown = len(waves) if run.ne > 1 else min(len(waves), MAX_PANELS)
    said += ["%d of %d wavelengths" % (shown, run.nl)] if shown < run.nl else []
    return "\nmaps of " + " and ".join(said) if said else ""


def rows_of(run, names, waves, width, scale, fixed, angle):
    """[(height in inches, function that draws in a part of the figure and returns its axes)] of the maps or curves."""
    fixed = fixed or {}
    if line_of(run):
        return [(2.9, lambda part, n=n: draw_line_row(part, run, n, waves, angle)) for n in names]
    if run.ne == 1 and len(waves) == 1:
        groups = [names[i:i + MOST_ABREAST] for i in range(0, len(names), MOST_ABREAST)]
        panel = min((width - 0.9 * len(groups[0])) / max(len(groups[0]), 2), 3.4)
        return [(panel + 0.9, lambda part, g=g: draw_quantities(part, run, g, waves[0], fixed, angle)) for g in groups]
    n = max(len(panels_of(run, name, 0, waves)) for name in names)
    panel = min((width - 1.2) / n, 3.6)
    pairs = [(name, il) for name in names for il in (waves[:1] if run.ne == 1 or run.achromatic(name) else waves)]
    return [(panel + 0.74, lambda part, name=name, il=il: draw_row(part, run, name, il, scale, fixed.get(name), angle, waves))
            for name, il in pairs]


@styled
def overview(run, names=None, waves=None, targets=None, scale="common", fixed=None, angle=None):
    """Everything at a glance. names: quantities; waves: rows of WAVELENGTHS; targets: whose images are drawn;
    fixed: {quantity: (low, high)}; angle: position angle of y [deg], if the run does not say. Of targets on a line the quantities
    are drawn as curves."""
    names = default_quantities(run) if names is None else names
    waves = (default_waves(run) if run.ne > 1 else [int(i) for i in np.argsort(run.lambdas)]) if waves is None else waves
    angle = run.position_angle if angle is None else angle
    imaged = waves if len(waves) <= 2 else [waves[0], waves[-1]]
    npanel = 3 if line_of(run) else max(len(panels_of(run, n, 0, waves)) for n in names)
    chosen = [default_targets(run, 5 if npanel >= 5 else 3, il) if targets is None else pick(run, targets) for il in imaged]
    images = [list(run.psfs(c, run.waves[il])) for c, il in zip(chosen, imaged)] if "long" in run.images else []
    width = max(8.4, (npanel + 0.6) * PANEL, (max(map(len, chosen)) + 2.5) * PANEL if images else 0)
    rows = rows_of(run, names, waves, width, scale, fixed, angle)
    curves = len(images) or (1 if run.ne > 1 or len(waves) > 1 else 0)
    heights = [h for h, _ in rows] + [PANEL + 0.85] * curves + [0.3]
    figure = Figure(figsize=(width, sum(heights)), layout="constrained")
    figure.set_figheight(sum(heights) + 0.2 + LINE_HEIGHT * set_title(figure, summary(run) + left_out(run, waves)))
    parts = list(figure.subfigures(len(heights), 1, height_ratios=heights))
    for part, (_, draw) in zip(parts, rows):
        axes = draw(part)
    handles = axes[0].get_legend_handles_labels()
    for i, part in enumerate(parts[len(rows):-1]):
        draw_images_and_curve(part, run, imaged, images[i] if images else [], i, names, width, waves)
    parts[-1].legend(*handles, loc="center", ncol=len(handles[0]) or 1, frameon=False)
    return figure


def draw_images_and_curve(part, run, imaged, images, i, names, width, waves):
    """A row with images at one wavelength and, to the right of them, a curve: the history first, then energies."""
    if images:
        ratios = [1] * len(images) + [0.34, max(1.75, width / PANEL - len(images) - 1)]
        axes = part.subplots(1, len(ratios), gridspec_kw={"width_ratios": ratios})
        draw_psfs(axes[:len(images)], run, imaged[i], images)
        axes[-2].set_visible(False)
        curve = axes[-1]
    else:
        curve = part.subplots()
    if i > 0 or (images and run.ne == 1 and len(waves) == 1):
        draw_energies(curve, run, images[:3])
    elif run.ne > 1:
        draw_history(curve, run, waves)
    else:
        draw_spectrum(curve, run, names + [n for n in default_quantities(run) if n not in names], waves)
