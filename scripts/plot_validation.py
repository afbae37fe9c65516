#!/usr/bin/env python3
"""Strehl ratio against the order of the sensor: the residual phase itself, psf.residual: phase and sensor.

usage: scripts/plot_validation.py [FILE.png]     (docs/validation.png; some minutes; needs build/moao, numpy, matplotlib)
"""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "e2e")]

import matplotlib  # noqa: E402
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from test_truth import H, case, run, star, strehl  # noqa: E402
from truth_reference import Truth  # noqa: E402

ORDERS = (6, 8, 9, 10, 11, 12, 14)


def main():
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axis, slope in zip(axes, ("gradient", "points")):
        rows = []
        for n in ORDERS:
            c = case(star(n), 10)
            rows.append((Truth(c, slope).strehl(H), strehl(run(c, slope))[0],
                         strehl(run(c, slope, "psf.residual=sensor"))[0]))
            print("%-8s sensor %2d / mirror 10: true %.4f  phase %.4f  sensor %.4f" % ((slope, n) + rows[-1]), flush=True)
        true, phase, sensor = zip(*rows)
        axis.plot(ORDERS, true, "k-", label="residual phase, all pairs of points")
        axis.plot(ORDERS, phase, "o", color="tab:blue", label="psf.residual: phase")
        axis.plot(ORDERS, sensor, "s--", color="tab:red", label="psf.residual: sensor")
        axis.set_xlabel("subapertures of the sensor across 8 m (mirror: 10)")
        axis.set_title("slope: " + slope, fontsize=10)
    axes[0].set_ylabel("Strehl ratio at 1.65 um")
    axes[0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "docs", "validation.png"), dpi=90)


if __name__ == "__main__":
    main()
