#!/usr/bin/env python3
"""Draw the ranks of the tiles of a compressed factor: plot_ranks.py RANKS.csv PICTURE.png

RANKS.csv has the columns row, column, rank, order (of the tiles), a line for each tile; a rank equal to the order is a
dense tile, 0 an empty one. Tiles that are not listed (blocks on the diagonal, which are dense) are grey."""
import csv
import sys

from needs import needs

needs("matplotlib", "numpy")
import matplotlib  # noqa: E402
import numpy as np  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def read(path):
    """Ranks as a matrix (NaN where there is no tile), and the order of the tiles."""
    with open(path, newline="") as f:
        rows = [{k: int(v) for k, v in row.items()} for row in csv.DictReader(f)]
    if not rows:
        sys.exit("plot_ranks.py: %s lists no tiles" % path)
    n = max(max(r["row"], r["column"]) for r in rows) + 1
    ranks = np.full((n, n), np.nan)
    for r in rows:
        ranks[r["row"], r["column"]] = r["rank"]
    return ranks, rows[0]["order"]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n", maxsplit=1)[0])
    ranks, order = read(sys.argv[1])
    low = np.ma.masked_where(ranks >= order, np.ma.masked_invalid(ranks))
    fig, axes = plt.subplots(figsize=(6, 5))
    axes.set_facecolor("0.92")
    axes.imshow(np.where(np.tri(len(ranks)) > 0, np.where(np.isnan(ranks) | (ranks >= order), 0.55, np.nan), np.nan),
                cmap="gray", vmin=0, vmax=1)
    picture = axes.imshow(low, cmap="viridis")
    fig.colorbar(picture, label="rank (tiles of %d; dense: grey)" % order)
    axes.set_xlabel("tile column")
    axes.set_ylabel("tile row")
    axes.set_title("mean rank %.1f, %d tiles dense" % (low.mean(), np.sum(ranks >= order)))
    fig.tight_layout()
    fig.savefig(sys.argv[2], dpi=100)


if __name__ == "__main__":
    main()
