#!/usr/bin/env python3
"""Idle share of the exposure loop at any number of ranks, from measured figures (docs/scaling.md explains the model).

    bench/scaling_model.py [--rate 78e9] [--cores 32] [--evaluation 1.1e-9] [--bandwidth 10e9] [--latency 5e-6]
                           [--noise 0.01] [--ranks 1 16 64 256 1024]

rate: flop/s of a core inside the loop; cores: of a rank; evaluation: seconds of a core for one value of the structure
function; bandwidth, latency: of the network into one rank; noise: measured idle share of two ranks with equal work."""
import argparse
import math

M, T, V, LAYERS, TARGETS = 102752, 10240, 5336, 60, 4096  # full scale, params/mosaic.yaml
WIDTH, ROWS = 512, 24576                                               # columns of a panel, rows of W on a rank
UNLIKE_CMM, UNLIKE_CTM = 0.55, 0.6                                     # share of entries that are no look-ups


def loop(ranks, a):
    """(seconds per exposure, idle share, its parts) of the whole field."""
    per_rank = math.ceil(TARGETS / ranks)
    chunk = min(per_rank, ROWS // V)
    rows = chunk * V
    flops = rows * M * M + chunk * (2 * V * T * M + 2 * V * V * M)
    compute = flops / (a.rate * a.cores)
    compute += chunk * T * M * LAYERS * UNLIKE_CTM * a.evaluation / a.cores
    panels = math.ceil(M / WIDTH)
    columns = max(1, math.ceil(WIDTH / ranks))
    alone = 1 + 1 / columns  # edge points per column: neighbours share them
    fill = panels * columns * M / 2 * LAYERS * UNLIKE_CMM * alone * a.evaluation / a.cores
    idle_fill = fill * (1 - WIDTH / (columns * ranks))  # ranks without a column wait
    gather = 0 if ranks == 1 else panels * (M / 2 * WIDTH * 8 / a.bandwidth + a.latency * math.log2(ranks))
    uneven = 1 - TARGETS / (ranks * per_rank)  # targets do not divide evenly
    total = compute + fill + gather
    idle = (idle_fill + gather + a.noise * compute) / total if ranks > 1 else 0
    chunks = math.ceil(per_rank / chunk)
    parts = (gather / total, idle_fill / total, a.noise * compute / total if ranks > 1 else 0, uneven)
    return chunks * total, 1 - (1 - idle) * (1 - uneven), parts


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rate", type=float, default=78e9)
    p.add_argument("--cores", type=int, default=32)
    p.add_argument("--evaluation", type=float, default=1.1e-9)
    p.add_argument("--bandwidth", type=float, default=10e9)
    p.add_argument("--latency", type=float, default=5e-6)
    p.add_argument("--noise", type=float, default=0.01)
    p.add_argument("--ranks", type=int, nargs="*", default=[1, 16, 64, 256, 1024])
    a = p.parse_args()
    print(f"{'ranks':>6} {'targets a rank':>15} {'s per exposure':>15} {'idle share':>11}   "
          f"{'gathering':>9} {'filling':>8} {'noise':>6} {'uneven':>7}")
    for n in a.ranks:
        seconds, idle, parts = loop(n, a)
        print(f"{n:6d} {TARGETS / n:15.1f} {seconds:15.1f} {100 * idle:9.2f} %   "
              + " ".join(f"{100 * x:{w}.2f}%" for x, w in zip(parts, (8, 7, 5, 6))))


if __name__ == "__main__":
    main()
