#!/usr/bin/env python3
"""Draw the results of a run: Strehl and ensquared-energy maps, point-spread functions, r0 in time.

Reads maps.fits and, when it is there, psf.fits of the run's folder. Needs astropy and matplotlib (on Debian and Ubuntu:
python3-astropy python3-matplotlib). The kind of file follows from its name: .png, .pdf, .svg.
"""
import argparse
import os
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from astropy.io import fits
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import MaxNLocator

MAX_PANELS = 6    # short exposures drawn in a row
MAX_NUMBERS = 12  # targets of a list whose values are written beside them
PANEL = 2.05      # inches
STYLE = {
    "font.size": 9, "axes.titlesize": 9, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8,
    "legend.fontsize": 9, "figure.titlesize": 11, "axes.linewidth": 0.8, "image.interpolation": "nearest",
    "xtick.direction": "in", "ytick.direction": "in", "figure.dpi": 110, "savefig.dpi": 110,
}
BLUE, BROWN = "#1f4e79", "#b8540f"
STARS = {
    "LGS": dict(marker="*", s=110, facecolor="#ff9d1e", edgecolor="black", linewidth=0.7, label="laser guide star"),
    "NGS": dict(marker="o", s=34, facecolor="white", edgecolor="#c4122f", linewidth=1.5, label="natural guide star"),
}


def fail(message):
    print("plot_maps: " + message, file=sys.stderr)
    sys.exit(2)


class Run:
    """What maps.fits holds, whatever the layout of the targets: arrays [wavelength, exposure, target]."""

    def __init__(self, folder):
        path = os.path.join(folder, "maps.fits")
        try:
            with fits.open(path, memmap=False) as f:
                self.header = f[0].header
                table, self.exposures = f["TARGETS"], f["EXPOSURES"].data
                self.stars, self.wavelengths = f["GUIDESTARS"].data, f["WAVELENGTHS"].data
                self.boxes = {h.name: h.header["EEBOX"] for h in f if "EEBOX" in h.header}
                self.nx, self.ny = table.header["GRIDNX"], table.header["GRIDNY"]
                self.table = table.data
        except (OSError, KeyError) as e:
            fail("%s: cannot read the maps: %s" % (path, getattr(e, "strerror", None) or e))
        self.x, self.y = self.table["X"], self.table["Y"]
        self.nl, self.ne = len(self.wavelengths), len(self.exposures)
        self.psf_path = os.path.join(folder, "psf.fits")

    def value(self, name):
        return np.asarray(self.table[name]).reshape(-1, self.nl, self.ne).transpose(1, 2, 0)

    def mean(self, name):
        return np.asarray(self.table[name + "_LONG"]).reshape(-1, self.nl).T

    def box_columns(self):
        return [c for c in self.table.names if c.startswith("EE_") and not c.endswith("_LONG")]

    def limits(self):
        """Field to draw: square, round the centre of the targets, with all guide stars and a margin."""
        cx, cy = (self.x.min() + self.x.max()) / 2, (self.y.min() + self.y.max()) / 2
        half = max(1, abs(np.concatenate([self.x, self.stars["X"]]) - cx).max(),
                   abs(np.concatenate([self.y, self.stars["Y"]]) - cy).max()) * 1.1
        if self.nx > 0:
            half = max(half, (np.ptp(self.x) + self.step(self.x, self.nx)) / 2 * 1.02,
                       (np.ptp(self.y) + self.step(self.y, self.ny)) / 2 * 1.02)
        return cx - half, cx + half, cy - half, cy + half

    @staticmethod
    def step(v, n):
        return np.ptp(v) / (n - 1) if n > 1 else 1.0


def time_unit(times):
    """Unit in which the times of a run read well: (seconds in one, name)."""
    span = max(np.ptp(times), abs(times).max()) if len(times) else 0
    return (3600.0, "h") if span > 6 * 3600 else (60.0, "min") if span >= 120 else (1.0, "s")


def choose_wavelength(run, wanted):
    lambdas = np.asarray(run.wavelengths["LAMBDA"])
    if wanted is None:
        wanted = 1.65
    return int(np.argmin(abs(lambdas - wanted)))


def choose_box(run, wanted):
    columns = run.box_columns()
    if not columns:
        return None, 0
    sizes = [float(c[3:-3].replace("p", ".")) for c in columns]
    i = 0 if wanted is None else int(np.argmin(abs(np.asarray(sizes) - wanted)))
    return columns[i], sizes[i]


def panels_of(run, name, il):
    """(title, values of the targets) of each panel of a row: exposures and the long one, or wavelengths when there
    is one exposure only."""
    value, mean = run.value(name), run.mean(name)
    if run.ne == 1:
        order = sorted(range(run.nl), key=lambda i: run.wavelengths["LAMBDA"][i])
        if len(order) > MAX_PANELS:
            order = [order[i] for i in np.unique(np.linspace(0, len(order) - 1, MAX_PANELS).astype(int))]
        return [("%.3g µm" % run.wavelengths["LAMBDA"][i], value[i, 0]) for i in order]
    unit, word = time_unit(run.exposures["TIME"])
    chosen = np.unique(np.linspace(0, run.ne - 1, min(run.ne, MAX_PANELS)).round().astype(int))
    panels = [("t = %.4g %s" % (run.exposures["TIME"][e] / unit, word), value[il, e]) for e in chosen]
    return panels + [("long exposure", mean[il])]


def draw_stars(ax, run):
    for kind, style in STARS.items():
        of_kind = np.char.strip(run.stars["TYPE"]) == kind
        if of_kind.any():
            ax.scatter(run.stars["X"][of_kind], run.stars["Y"][of_kind], zorder=3, clip_on=True, **style)


def draw_map(ax, run, values, norm, cmap):
    """One map: an image for a grid, dots for a list of targets."""
    if run.nx > 0:
        dx, dy = run.step(run.x, run.nx), run.step(run.y, run.ny)
        if run.nx == 1:
            dx = dy
        if run.ny == 1:
            dy = dx
        extent = (run.x.min() - dx / 2, run.x.max() + dx / 2, run.y.min() - dy / 2, run.y.max() + dy / 2)
        drawn = ax.imshow(values.reshape(run.ny, run.nx), origin="lower", extent=extent, norm=norm, cmap=cmap)
    else:
        drawn = ax.scatter(run.x, run.y, c=values, norm=norm, cmap=cmap, marker="s", edgecolor="black",
                           linewidth=0.4, s=70 if len(run.x) < 50 else 22, zorder=2)
        if len(run.x) <= MAX_NUMBERS:
            for x, y, v in zip(run.x, run.y, values):
                ax.annotate("%.2f" % v, (x, y), (0, -7), textcoords="offset points", ha="center", va="top",
                            fontsize=8)
    draw_stars(ax, run)
    x0, x1, y0, y1 = run.limits()
    ax.set(xlim=(x0, x1), ylim=(y0, y1), aspect="equal", facecolor="#e9e9ec")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(4, symmetric=True))
    return drawn


def draw_row(figure, run, name, label, il, cmap, titles, last):
    panels = panels_of(run, name, il)
    every = np.concatenate([v for _, v in panels])
    every = every[np.isfinite(every)]
    low, high = (every.min(), every.max()) if len(every) else (0.0, 1.0)
    if not high > low:
        low, high = low - 0.01, high + 0.01
    norm = Normalize(low, high)
    axes = np.atleast_1d(figure.subplots(1, len(panels), sharex=True, sharey=True))
    for ax, (title, values) in zip(axes, panels):
        drawn = draw_map(ax, run, values, norm, cmap)
        if titles:
            ax.set_title(title, fontweight="bold" if title == "long exposure" else "normal")
        ax.label_outer()
        if last:
            ax.set_xlabel("x [arcsec]")
    axes[0].set_ylabel("y [arcsec]")
    figure.colorbar(drawn, cax=axes[-1].inset_axes([1.05, 0, 0.06, 1]), label=label)


def choose_targets(run, most):
    """The target nearest the centre, then those farthest out in the diagonals."""
    cx, cy = (run.x.min() + run.x.max()) / 2, (run.y.min() + run.y.max()) / 2
    x, y = run.x - cx, run.y - cy
    picks = [int(np.argmin(np.hypot(x, y)))]
    picks += [int(np.argmax(sx * x + sy * y)) for sx, sy in ((-1, 1), (1, 1), (-1, -1), (1, -1))]
    return list(dict.fromkeys(picks))[:most]


def read_psfs(run, il, targets):
    """Long-exposure images of some targets and their pixel [arcsec]; None when they were not kept."""
    if not os.path.exists(run.psf_path):
        return None, 0
    try:
        with fits.open(run.psf_path) as f:
            hdu = f["PSF_LONG", il + 1]
            part = getattr(hdu, "section", None)
            cube = part if part is not None else hdu.data
            return [np.array(cube[t, :, :]) for t in targets], hdu.header["CDELT1"]
    except (OSError, KeyError) as e:
        fail("%s: cannot read the images: %s" % (run.psf_path, getattr(e, "strerror", None) or e))


def draw_psfs(figure, run, il, images, pixel, targets, ratio):
    width = [1] * len(images) + [0.3, ratio]
    axes = figure.subplots(1, len(width), gridspec_kw={"width_ratios": width})
    lambda_d = run.wavelengths["DIFFLIM"][il] / 1e3
    half = min(images[0].shape[0] // 2 * pixel, max(12 * lambda_d, 6 * run.mean("FWHM")[il].max() / 1e3
                                                      if np.isfinite(run.mean("FWHM")[il]).all() else 0))
    high = max(im.max() for im in images)
    norm = LogNorm(high * 10 ** -4.5, high)
    strehl = run.mean("STREHL")[il]
    n = images[0].shape[0]
    extent = ((-n / 2 - 0.5) * pixel, (n / 2 - 0.5) * pixel) * 2
    for ax, image, t in zip(axes, images, targets):
        drawn = ax.imshow(np.maximum(image, norm.vmin), origin="lower", extent=extent, norm=norm, cmap="inferno")
        ax.set(xlim=(-half, half), ylim=(-half, half), xlabel="x [arcsec]")
        ax.set_title(("(%.3g″, %.3g″)" % (run.x[t], run.y[t])).replace("-", "−"))
        ax.text(0.04, 0.96, "Strehl %.3f" % strehl[t], color="white", transform=ax.transAxes, va="top", fontsize=8)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(4, symmetric=True))
        if ax is not axes[0]:
            ax.tick_params(labelleft=False)
    axes[0].set_ylabel("PSF at %.3g µm\ny [arcsec]" % run.wavelengths["LAMBDA"][il])
    axes[-2].set_visible(False)
    last = axes[len(images) - 1]
    figure.colorbar(drawn, cax=last.inset_axes([1.05, 0, 0.06, 1]), label="of diffraction-limited peak")
    return axes[-1]


def draw_time(ax, run, il):
    """r0 of the profiles in time, the times of the reconstructors, and the Strehl's mean over the targets."""
    unit, word = time_unit(run.exposures["TIME"])
    times, strehl = run.exposures["TIME"] / unit, run.value("STREHL")[il].mean(axis=1)
    ax.plot(times, run.exposures["R0"] * 100, "o-", color=BLUE, ms=4, lw=1.2)
    for t in np.unique(run.exposures["TORTIME"]) / unit:
        ax.axvline(t, color="0.55", lw=1, ls="--", zorder=0)
    ax.set_xlabel("time [%s]   (dashed: reconstructor computed)" % word)
    ax.set_ylabel("$r_0$ at 500 nm [cm]", color=BLUE)
    ax.margins(y=0.2)
    right = ax.twinx()
    right.plot(times, strehl, "s-", color=BROWN, ms=3.5, lw=1.2)
    right.margins(y=0.35)
    right.set_ylabel("mean Strehl ratio at %.3g µm" % run.wavelengths["LAMBDA"][il], color=BROWN)


def draw_spectrum(ax, run, box, size):
    """Strehl and ensquared energy against wavelength, means over the targets with their extremes: for one exposure."""
    lam = run.wavelengths["LAMBDA"]
    order = np.argsort(lam)
    for name, label, colour in [("STREHL", "Strehl ratio", BLUE)] + (
            [(box, "EE in %.4g mas" % size, BROWN)] if box else []):
        v = run.value(name)[order, 0]
        bars = [v.mean(axis=1) - v.min(axis=1), v.max(axis=1) - v.mean(axis=1)]
        ax.errorbar(lam[order], v.mean(axis=1), yerr=bars if len(run.x) > 1 else None, fmt="o-", color=colour, ms=4,
                    lw=1.2, capsize=3, label=label)
    ax.set(xlabel="wavelength [µm]", ylabel="mean over targets" if len(run.x) > 1 else "on the target")
    ax.margins(x=0.1, y=0.15)
    ax.set_title("$r_0$ = %.3g cm at 500 nm" % (run.exposures["R0"][0] * 100))
    ax.legend(frameon=False)


def draw(run, il, box, size):
    lam = run.wavelengths["LAMBDA"][il]
    at = "" if run.ne == 1 else " at %.3g µm" % lam
    npanel = len(panels_of(run, "STREHL", il))
    targets = choose_targets(run, 5 if npanel >= 5 else 3)
    images, pixel = read_psfs(run, il, targets)
    width = max(7.6, (npanel + 0.6) * PANEL, (len(images) + 2.3) * PANEL if images else 0)
    panel = min((width - 1.2) / npanel, 3.6)
    rows = [panel + 0.4] + ([panel + 0.55] if box else []) + [PANEL + 0.62, 0.28]
    figure = plt.figure(figsize=(width, sum(rows) + 0.5), layout="constrained")
    parts = list(figure.subfigures(len(rows), 1, height_ratios=rows))
    draw_row(parts.pop(0), run, "STREHL", "Strehl ratio" + at, il, "viridis", True, not box)
    if box:
        draw_row(parts.pop(0), run, box, "EE in %.4g mas%s" % (size, at), il, "cividis", run.ne == 1, True)
    if images:
        ax = draw_psfs(parts[0], run, il, images, pixel, targets, 1.75)
    else:
        ax = parts[0].subplots()
    if run.ne > 1:
        draw_time(ax, run, il)
    else:
        draw_spectrum(ax, run, box, size)
    shown = [style for kind, style in STARS.items() if (np.char.strip(run.stars["TYPE"]) == kind).any()]
    handles = [plt.scatter([], [], **style) for style in shown]
    title = run.header.get("TITLE", "")
    text = "%s%g m telescope, %d sensors, %d measurements, %d target%s, %d exposure%s" % (
        title + "\n" if title else "", run.header["TELDIAM"], run.header["NSENSOR"], run.header["NMEAS"],
        len(run.x), "s" if len(run.x) > 1 else "", run.ne, "s" if run.ne > 1 else "")
    figure.suptitle(text)
    parts[1].legend(handles=handles, loc="center", ncol=2, frameon=False)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], epilog=__doc__.split("\n\n")[1])
    parser.add_argument("folder", metavar="DIR", help="folder of the results, with maps.fits")
    parser.add_argument("-o", "--output", metavar="FILE", help="picture to write (default: DIR/maps.png)")
    parser.add_argument("-w", "--wavelength", type=float, metavar="UM",
                        help="wavelength in um; the nearest one is drawn (default: 1.65)")
    parser.add_argument("-b", "--box", type=float, metavar="MAS",
                        help="side of the ensquared energy's box in mas; the nearest one is drawn (default: the first)")
    args = parser.parse_args()
    run = Run(args.folder)
    il = choose_wavelength(run, args.wavelength)
    box, size = choose_box(run, args.box)
    output = args.output or os.path.join(args.folder, "maps.png")
    with plt.rc_context(STYLE):
        figure = draw(run, il, box, size)
        try:
            figure.savefig(output)
        except (OSError, ValueError) as e:
            fail("%s: cannot write: %s" % (output, getattr(e, "strerror", None) or e))
    print(output)


if __name__ == "__main__":
    main()
