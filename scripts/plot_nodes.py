#!/usr/bin/env python3
"""Nodes of a map, the map, and the errors of its targets: plot_nodes.py EXACT NODES PNG

EXACT and NODES are folders of runs of one case, by targets.sampling exact and nodes, the latter with output.field: true."""
import sys

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
import numpy as np  # noqa: E402
from astropy.io import fits  # noqa: E402


def read(folder):
    with fits.open(folder + "/maps.fits") as f:
        return f["TARGETS"].data.copy(), f["GUIDESTARS"].data.copy(), f[0].header.copy(), f["TARGETS"].header["GRIDNX"]


def main():
    exact, nodes, out = sys.argv[1:]
    a, stars, _, nx = read(exact)
    b, _, head, _ = read(nodes)
    with fits.open(nodes + "/field.fits") as f:
        n = f["NODES"].data.copy()
    shape = (-1, nx)
    names = [c for c in a.names if c.startswith(("STREHL", "EE_")) and not c.endswith("_LONG")]
    error = np.max([np.abs(a[c] - b[c]).reshape(len(a), -1).max(axis=1) for c in names], axis=0)
    x, y = a["X"].reshape(shape), a["Y"].reshape(shape)
    fig, axes = plt.subplots(1, 3, figsize=(13, 4.3), constrained_layout=True, sharey=True)
    m = axes[0].pcolormesh(x, y, b["STREHL_LONG"].reshape(len(a), -1)[:, 0].reshape(shape), shading="nearest", cmap="viridis")
    fig.colorbar(m, ax=axes[0])
    axes[0].set_title("Strehl ratio, %d targets" % len(a))
    axes[1].scatter(a["X"], a["Y"], s=2, color="0.8", label="targets")
    source = n["SOURCE"] > 0
    axes[1].scatter(n["X"][source], n["Y"][source], s=14, color="C0", label="nodes")
    axes[1].scatter(n["X"][~source], n["Y"][~source], s=22, color="C3", marker="x", label="compared")
    axes[1].set_title("%d directions computed" % len(n))
    e = axes[2].pcolormesh(x, y, np.log10(np.maximum(error, 1e-6)).reshape(shape), shading="nearest", cmap="magma", vmin=-5,
                           vmax=np.log10(head["SAMPTOL"]))
    fig.colorbar(e, ax=axes[2])
    axes[2].set_title("log10 of the errors, tolerance %g" % head["SAMPTOL"])
    for ax in axes:
        ax.scatter(stars["X"], stars["Y"], marker="*", s=110, facecolor="none", edgecolor="k" if ax is axes[1] else "w", zorder=3)
        ax.set(xlabel="x [arcsec]", aspect="equal", xlim=(n["X"].min() - 1, n["X"].max() + 1), ylim=(n["Y"].min() - 1, n["Y"].max() + 1))
    axes[0].set_ylabel("y [arcsec]")
    axes[1].legend(loc="lower left", fontsize=8)
    fig.savefig(out, dpi=90)


if __name__ == "__main__":
    main()
