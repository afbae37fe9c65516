#!/usr/bin/env python3
"""Draw the blocks of hierarchical matrices and their ranks: plot_formats.py PARTS.csv PICTURE.png

PARTS.csv is what `hierarchical --parts` writes (examples/hierarchical.c): for each format a line `# name`, then a line
for each block: row, rows, column, columns, rank, with rank -1 for a dense block. Beside each matrix: ranks of its blocks
by their size."""
import sys

from needs import needs

needs("matplotlib", "numpy")
import matplotlib  # noqa: E402
import numpy as np  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.collections import PatchCollection  # noqa: E402
from matplotlib.patches import Rectangle  # noqa: E402


def read(path):
    """Blocks of each format: [(name, array of row, rows, column, columns, rank)]."""
    found = []
    with open(path, encoding="ascii") as f:
        for line in f:
            if line.startswith("#"):
                found.append((line[1:].strip(), []))
            elif line.strip():
                found[-1][1].append([int(x) for x in line.strip().lstrip(",").split(",")])
    if not found or not all(blocks for _, blocks in found):
        sys.exit("plot_formats.py: %s lists no blocks" % path)
    return [(name, np.array(blocks)) for name, blocks in found]


def draw(axes, name, blocks, most):
    n = (blocks[:, 0] + blocks[:, 1]).max()
    low = blocks[blocks[:, 4] >= 0]
    dense = blocks[blocks[:, 4] < 0]
    boxes = PatchCollection([Rectangle((b[2], b[0]), b[3], b[1]) for b in low], cmap="viridis", linewidth=0.3, edgecolor="w")
    boxes.set_array(low[:, 4])
    boxes.set_clim(0, most)
    axes.add_collection(boxes)
    axes.add_collection(PatchCollection([Rectangle((b[2], b[0]), b[3], b[1]) for b in dense], facecolor="0.55", linewidth=0))
    axes.set_xlim(0, n)
    axes.set_ylim(n, 0)
    axes.set_aspect("equal")
    area = (low[:, 1] * low[:, 3]).sum() / float(n) ** 2
    axes.set_title("%s: %d low-rank blocks\n(%.0f %% of the area), %d dense" % (name, len(low), 100 * area, len(dense)), fontsize=9)
    return boxes


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n", maxsplit=1)[0])
    found = read(sys.argv[1])
    most = max(blocks[:, 4].max() for _, blocks in found)
    fig, axes = plt.subplots(1, len(found) + 1, figsize=(4.6 * len(found) + 3.6, 4.4), constrained_layout=True)
    for ax, (name, blocks) in zip(axes, found):
        picture = draw(ax, name, blocks, most)
    fig.colorbar(picture, ax=axes[:-1], label="rank (dense: grey)", fraction=0.03)
    for name, blocks in found:
        low = blocks[blocks[:, 4] >= 0]
        axes[-1].plot(low[:, 1], low[:, 4], ".", ms=4, label=name)
    axes[-1].set_xscale("log", base=2)
    axes[-1].set_xlabel("rows of a block")
    axes[-1].set_ylabel("rank")
    axes[-1].legend()
    fig.savefig(sys.argv[2], dpi=90)


if __name__ == "__main__":
    main()
