#!/usr/bin/env python3
"""Draw the ranks of the tiles of a compressed factor: plot_ranks.py RANKS.fits|RANKS.csv PICTURE.png

RANKS.fits: matrices/Ranks_tor0.fits of a run (output.ranks: true). RANKS.csv, of a bench or an example, has the columns
row, column, rank, order (of the tiles), a line for each tile; a rank equal to the order is a dense tile, 0 an empty one.
Tiles that are not listed (blocks on the diagonal, which are dense) are grey. Lines, of a run, part the sensors."""
import csv
import sys

from needs import needs

needs("matplotlib", "numpy")
import matplotlib  # noqa: E402
import numpy as np  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def read_csv(path):
    """Ranks as a matrix (NaN where there is no tile), the order of the tiles, and where a sensor's begin: not known."""
    with open(path, newline="") as f:
        rows = [{k: int(v) for k, v in row.items()} for row in csv.DictReader(f)]
    if not rows:
        sys.exit("plot_ranks.py: %s lists no tiles" % path)
    n = max(max(r["row"], r["column"]) for r in rows) + 1
    ranks = np.full((n, n), np.nan)
    for r in rows:
        ranks[r["row"], r["column"]] = r["rank"]
    return ranks, ranks >= rows[0]["order"], rows[0]["order"], []


def read_fits(path):
    """The same of a run's file."""
    needs("astropy")
    from astropy.io import fits  # pylint: disable=import-outside-toplevel
    with fits.open(path) as f:
        ranks, tiles = np.array(f["RANKS"].data, dtype=float), f["TILES"].data
        sensor = np.array(tiles["SENSOR"])
        return (ranks, ranks >= np.array(tiles["ORDER"])[None, :], f["RANKS"].header["TLRTILE"],
                np.flatnonzero(np.diff(sensor)) + 1)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n", maxsplit=1)[0])
    ranks, dense, order, borders = (read_fits if sys.argv[1].endswith((".fits", ".fits.gz")) else read_csv)(sys.argv[1])
    low = np.ma.masked_where(dense, np.ma.masked_invalid(ranks))
    fig, axes = plt.subplots(figsize=(6, 5))
    axes.set_facecolor("0.92")
    axes.imshow(np.where(np.tri(len(ranks)) > 0, np.where(np.isnan(ranks) | dense, 0.55, np.nan), np.nan),
                cmap="gray", vmin=0, vmax=1)
    picture = axes.imshow(low, cmap="viridis")
    for at in borders:
        axes.plot([-0.5, at - 0.5, at - 0.5], [at - 0.5, at - 0.5, len(ranks) - 0.5], color="1", linewidth=0.4)
    fig.colorbar(picture, label="rank (tiles of %d; dense: grey)" % order)
    axes.set_xlabel("tile column")
    axes.set_ylabel("tile row")
    axes.set_title("%d tiles dense%s" % (np.sum(dense), "" if low.mask.all() else ", of the others mean rank %.1f" % low.mean()))
    fig.tight_layout()
    fig.savefig(sys.argv[2], dpi=100)


if __name__ == "__main__":
    main()
