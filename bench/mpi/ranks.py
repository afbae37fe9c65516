#!/usr/bin/env python3
"""Adds up what bench/mpi/ranks.c wrote of each rank: by phase, mean and largest seconds of the ranks outside MPI, seconds waited for
others in it, seconds of moving bytes, and the bytes that a rank received.

    bench/mpi/ranks.py DIR"""
import collections
import csv
import glob
import os
import sys


def main(folder):
    files = glob.glob(os.path.join(folder, "*.csv"))
    if not files:
        sys.exit(f"{folder}: no files of ranks")
    work, waited, moved, cpu = (collections.defaultdict(lambda: [0.0] * len(files)) for _ in range(4))
    calls = collections.defaultdict(lambda: [0.0, 0.0, 0.0, 0])  # waited, seconds, bytes, calls: of all ranks
    for i, name in enumerate(sorted(files)):
        with open(name, newline="") as f:
            for row in csv.reader(f):
                if row[0] == "phase":
                    work[row[1]][i] += float(row[2])
                    cpu[row[1]][i] += float(row[4])
                else:
                    waited[row[1]][i] += float(row[3])
                    moved[row[1]][i] += float(row[4])
                    s = calls[row[1], row[2]]
                    for k, x in enumerate((float(row[3]), float(row[4]), float(row[6]), int(row[5]))):
                        s[k] += x
    n = len(files)
    mean = lambda x: sum(x) / n
    print(f"{'phase, s of ' + str(n) + ' ranks':<40} {'mean':>8} {'most':>8} {'processor':>9} {'waited':>8} {'MPI':>8}")
    for p in sorted(work, key=lambda p: -mean(work[p]) - mean(waited[p]) - mean(moved[p])):
        total = mean(work[p]) + mean(waited[p]) + mean(moved[p])
        if total > 5e-3:
            print(f"{p:<40} {mean(work[p]):8.2f} {max(work[p]):8.2f} {mean(cpu[p]):9.2f} {mean(waited[p]):8.2f} {mean(moved[p]):8.2f}")
    whole = [mean([sum(d[p][i] for p in d) for i in range(n)]) for d in (work, cpu, waited, moved)]
    print(f"{'all':<40} {whole[0]:8.2f} {'':8} {whole[1]:9.2f} {whole[2]:8.2f} {whole[3]:8.2f}")
    print(f"{'phase: call, of a rank':<40} {'waited':>8} {'s':>8} {'calls':>8} {'MB a call':>10} {'GB/s':>8}")
    for (p, c), (w, s, b, k) in sorted(calls.items(), key=lambda x: -x[1][1] - x[1][0]):
        if (w + s) / n > 0.01:
            print(f"{p + ': ' + c:<40} {w / n:8.2f} {s / n:8.2f} {k / n:8.0f} {b / k / 1e6:10.3f} {b / s / 1e9 if s > 0 else 0:8.2f}")


if __name__ == "__main__":
    main(sys.argv[1]) if len(sys.argv) == 2 else sys.exit(__doc__)
