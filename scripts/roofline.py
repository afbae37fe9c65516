#!/usr/bin/env python3
"""Roofline picture of a GPU bench: the arithmetic rate of each row against its arithmetic intensity, ours and the vendor's.

usage: roofline.py FILE.csv FILE.png [--bandwidth GB/S] [--peak TFLOP/S]
The intensity counts each input read once and each output written once, triangles as n (n + 1) / 2."""
import argparse
import csv
import re
import sys

from needs import needs


def bytes_moved(op, shape, size):
    """Least bytes of an operation of bench_dense, from its name and shape; None: not known."""
    numbers = [int(x) for x in re.findall(r"\d+", shape)]
    if op in ("trsm", "trmm", "trmm/out") and len(numbers) == 2:
        m, n = numbers
        order = m if shape[0] == "L" else n
        return size * (order * (order + 1) // 2 + 2 * m * n)
    if op == "symm" and len(numbers) == 2:
        m, n = numbers
        order = m if shape[0] == "L" else n
        return size * (order * (order + 1) // 2 + 2 * m * n)
    if op in ("syrk", "syr2k") and len(numbers) == 2:
        n, k = numbers
        return size * (n * (n + 1) // 2 + (1 if op == "syrk" else 2) * n * k)
    if op in ("potrf", "potri") and len(numbers) == 1:
        return size * numbers[0] * (numbers[0] + 1)
    return None


def points(path):
    for row in csv.DictReader(open(path)):
        moved = bytes_moved(row["operation"], row["shape"], 8 if row["type"] == "d" else 4)
        if moved:
            yield row["operation"], row["type"], float(row["flops"]) / moved, float(row["ours_tflops"]), float(row["vendor_tflops"])


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("csv")
    args.add_argument("png")
    args.add_argument("--bandwidth", type=float, default=4300, help="copy bandwidth, GB/s")
    args.add_argument("--peak", type=float, default=60, help="dgemm, TFLOP/s")
    a = args.parse_args()
    needs("matplotlib")
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(8, 5))
    rows = [p for p in points(a.csv) if p[1] == "d"]
    if not rows:
        sys.exit("no rows of double precision in " + a.csv)
    for k, op in enumerate(sorted({p[0] for p in rows})):
        mine = [p for p in rows if p[0] == op]
        axes.loglog([p[2] for p in mine], [p[3] for p in mine], "o", color="C%d" % (k % 10), label=op)
        axes.loglog([p[2] for p in mine if p[4] > 0], [p[4] for p in mine if p[4] > 0], "x", color="C%d" % (k % 10))
    low, high = min(p[2] for p in rows) / 2, max(p[2] for p in rows) * 2
    knee = a.peak * 1e3 / a.bandwidth
    axes.loglog([low, max(low, knee), high], [min(a.peak, low * a.bandwidth / 1e3), a.peak, a.peak], "k-", linewidth=1)
    axes.set_xlabel("arithmetic intensity (FLOP per byte)")
    axes.set_ylabel("TFLOP/s")
    axes.set_title("dots: this library; crosses: the vendor's; line: dgemm and copy bandwidth")
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(a.png, dpi=100)


if __name__ == "__main__":
    main()
