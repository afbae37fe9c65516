"""Figures of `moao asterism`: the field with the chosen stars, and the coverage of a list of fields."""
import numpy as np
from matplotlib.figure import Figure

from .asterism import is_larger
from .plots_maps import COLOURS, STARS, draw_compass_at, styled
from .plots_text import plain, shortened
from .results import Run
from .sky import Pointing

CANDIDATE = "#8a8f98"
NAME_ROOM, STARS_ROOM = 1.4, 2.2  # inches for the name of a star in the field, for those of one place


def want_text(want):
    """The figure as one writes it."""
    words = want.replace("ee ", "EE in ").replace("strehl", "Strehl").replace("mas", " mas").replace("um", " µm")
    return words.replace("rms", "rms [nm]")


def sizes(magnitude, low, high):
    """Areas of dots: bright stars are large."""
    span = max(high - low, 0.5)
    return 14 + 90 * np.clip((high - np.asarray(magnitude, float)) / span, 0, 1) ** 1.5


def map_of(a):
    """(run, name, values) of the wanted quantity from the best full run, None without one or without a grid."""
    folder = a.best_run()
    if folder is None:
        return None
    run = Run(folder)
    words = a.want.split()
    wave = next((float(w[:-2]) for w in words if w.endswith("um")), words[words.index("in") + 1] if "in" in words else None)
    name = {"strehl": "STREHL", "rms": "VARIANCE"}.get(words[1])
    name = run.ee_name(float(words[2][:-3])) if name is None else name
    values = np.asarray(run.column_long(name)[run.wavelength_index(wave)])
    if words[1] == "rms":
        values = np.sqrt(values) * run.lambdas[run.wavelength_index(wave)] * 1e3 / (2 * np.pi)
    return run, values


def draw_values(ax, a):
    """The map behind the stars; the label of its colours."""
    found = map_of(a)
    targets = a.of_kind("target")
    if found is None:
        ax.scatter(targets["x"], targets["y"], marker="+", color="#1f4e79", s=30, linewidth=0.8, label="target")
        return None
    run, values = found
    cmap = "viridis" if a.larger else "magma_r"
    if run.grid and len(run.x) > 1:
        nx, ny = run.grid
        dx = np.ptp(run.x) / max(nx - 1, 1) or np.ptp(run.y) / max(ny - 1, 1)
        dy = np.ptp(run.y) / max(ny - 1, 1) or dx
        extent = (run.x.min() - dx / 2, run.x.max() + dx / 2, run.y.min() - dy / 2, run.y.max() + dy / 2)
        return ax.imshow(values.reshape(ny, nx), origin="lower", extent=extent, cmap=cmap, alpha=0.85)
    return ax.scatter(run.x, run.y, c=values, cmap=cmap, marker="s", s=60, edgecolor="black", linewidth=0.4, label="target")


def draw_candidates(ax, a):
    stars = a.of_kind("candidate")
    magnitude = np.asarray(stars["magnitude"], float)
    chosen = np.asarray(stars["chosen"]) == 1
    area = sizes(magnitude, np.nanmin(magnitude), np.nanmax(magnitude)) if len(stars) else []
    ax.scatter(stars["x"][~chosen], stars["y"][~chosen], s=area[~chosen], facecolor=CANDIDATE, edgecolor="white",
               linewidth=0.5, zorder=3, label="candidate (bright: large)")
    ax.scatter(stars["x"][chosen], stars["y"][chosen], s=area[chosen] + 10, zorder=5, label="chosen star",
               **{k: v for k, v in STARS["NGS"].items() if k not in ("s", "label")})
    for row in stars[chosen]:
        right = float(row["x"]) < 0
        name = shortened(plain(str(row["name"])), NAME_ROOM, 8)
        ax.annotate("%s  %.1f" % (name, row["magnitude"]) if np.isfinite(row["magnitude"]) else name, (row["x"], row["y"]), (9 if right else -9, 7),
                    textcoords="offset points", fontsize=8, zorder=6, ha="left" if right else "right",
                    bbox=dict(boxstyle="round,pad=0.15", facecolor="white", edgecolor="none", alpha=0.75))
    for kind in ("lgs", "ngs"):
        fixed = a.of_kind(kind)
        if len(fixed):
            ax.scatter(fixed["x"], fixed["y"], zorder=4, **dict(STARS[kind.upper()], label={
                "lgs": "laser guide star", "ngs": "natural guide star that stays"}[kind]))


def draw_best(ax, a, most=10):
    """The first places as dots, with their stars."""
    n = min(most, len(a.table))
    rows = a.table[:n]
    value, full = np.asarray(rows["figure"], float), np.asarray(rows["full"], float)
    y = np.arange(n)
    ax.scatter(value, y, s=26, color=COLOURS[0], zorder=3, label="order %d" % a.facts["order"])
    ax.grid(axis="y", alpha=0.3)
    ax.scatter(full, y, marker="D", s=26, color=COLOURS[1], zorder=3, label="full run")
    every = np.concatenate([value, full])
    low, high = np.nanmin(every), np.nanmax(every)
    ax.margins(x=0.1)
    if high - low < 1e-3 * abs(high):
        ax.set_xlim(low - 0.01 * abs(high), high + 0.01 * abs(high))
    ax.set_yticks(y, [", ".join(shortened(plain(s), STARS_ROOM / max(1, len(a.stars(i + 1))), 8) for s in a.stars(i + 1)) for i in range(n)])
    ax.invert_yaxis()
    ax.set_xlabel(want_text(a.want) + " over targets")
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=2, frameon=False)


@styled
def field(a):
    """The field: targets with the figure of the best, laser stars, candidates, the chosen ones; N and E; the best places."""
    figure = Figure(figsize=(9.2, 5.0), layout="constrained")
    ax, places = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.35, 1]})
    drawn = draw_values(ax, a)
    draw_candidates(ax, a)
    half = 1.12 * max(1.0, np.abs(a.field["x"]).max(), np.abs(a.field["y"]).max())
    ax.set(xlim=(-half, half), ylim=(-half, half), aspect="equal", xlabel="x [arcsec]", ylabel="y [arcsec]")
    if drawn is not None:
        figure.colorbar(drawn, ax=ax, shrink=0.8, pad=0.02, label=want_text(" ".join(a.want.split()[1:])))
    if a.position_angle is not None:
        draw_compass_at(ax, free_corner(a, half), a.position_angle)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncol=2, frameon=False)
    draw_best(places, a)
    figure.suptitle("%d of %d candidate stars with %d fixed ones: %.6g asterisms" % (
        a.facts["choose"], a.facts["candidates"], a.facts["fixed"], a.facts["combinations"]))
    return figure


def free_corner(a, half):
    """Place for the compass in shares of the axes: the corner farthest from everything."""
    x, y = (np.asarray(a.field[n], float) / (2 * half) + 0.5 for n in "xy")
    corners = [(0.11, 0.11), (0.89, 0.11), (0.11, 0.89), (0.89, 0.89)]
    return max(corners, key=lambda c: np.hypot(x - c[0], y - c[1]).min())


@styled
def coverage(c):
    """The share of the fields that reach a figure, and where on the sky they are."""
    figure = Figure(figsize=(9.2, 3.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    value, share = c.distribution()
    larger = is_larger(c.facts["want"])
    if len(value):
        edge = [value[0], *value]  # steps from none on
        left.step(edge, [0, *(100 * share)], where="post", color=COLOURS[0], linewidth=1.6)
        half = int(np.searchsorted(share, 0.5))
        if half < len(value):
            left.axvline(value[half], color=CANDIDATE, linewidth=0.8, linestyle=":")
            late = value[half] > (value[0] + value[-1]) / 2
            left.annotate("half of the fields: %.3g" % value[half], (value[half], 4), (-5 if late else 5, 0), fontsize=8,
                          textcoords="offset points", ha="right" if late else "left")
    left.set(xlabel=want_text(c.facts["want"]) + " over targets", ylim=(0, 101),
             ylabel="fields with this or %s [%%]" % ("more" if larger else "less"))
    left.grid(alpha=0.25)
    draw_sky(figure, right, c, larger)
    figure.suptitle("sky coverage: %d fields, %d stars chosen where there are as many" % (len(c.table), c.facts["choose"]))
    return figure


def draw_sky(figure, ax, c, larger):
    """The fields in the tangent plane of their middle, north up and east left, coloured by their figure."""
    ra, dec = np.asarray(c.table["ra"], float), np.asarray(c.table["dec"], float)
    angle = np.radians(ra)
    middle = np.degrees(np.arctan2(np.sin(angle).mean(), np.cos(angle).mean())) % 360
    pointing = Pointing(middle, dec.mean())
    x, y = pointing.to_field(ra, dec)
    scale, unit = (3600, "deg") if np.nanmax(np.hypot(x, y)) > 3600 else (60, "arcmin")
    drawn = ax.scatter(-x / scale, y / scale, c=np.asarray(c.table["figure"], float),
                       cmap="viridis" if larger else "magma_r", s=18 + 12 * np.asarray(c.table["chosen"], float),
                       edgecolor="black", linewidth=0.4)
    ax.invert_xaxis()
    ax.set(xlabel="east [%s] of %.4f deg" % (unit, middle), ylabel="north [%s] of %+.4f deg" % (unit, dec.mean()),
           aspect="equal", title="size: number of stars")
    figure.colorbar(drawn, ax=ax, label=want_text(c.facts["want"]))
