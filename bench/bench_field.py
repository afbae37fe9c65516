#!/usr/bin/env python3
"""How exactly maps follow from nodes, and what they take.

  bench_field.py --targets FILE          directions of a run: lattices with a ring outside, then directions drawn at random, at the edge, near stars
  bench_field.py --errors DIR            errors of each method, from the results of that run: cubic and quintic splines, local kriging
  bench_field.py --square NODES EXACT    two files of directions about a star of params/mosaic.yaml: 16 x 16 over 26 arcsec, and every second of them
  bench_field.py --compare EXACT NODES   differences of two runs in the directions of the first, by place
  bench_field.py --times                 params/demo.yaml with 8 x 8 exact targets, as it is, and with 64 x 64 targets at 1e-3: times on two ranks

The case of --targets is params/demo.yaml, published slopes: moao run params/demo.yaml lgs_defaults.slope=points ngs_defaults.slope=points
psf.residual=sensor targets.grid=null targets.file=FILE schedule.end=1min output.psf=none -o DIR
"""
import argparse
import json
import os
import resource
import subprocess
import tempfile

import numpy as np

HALF, CELLS = 35.0, (12, 10, 8, 6, 4)  # half side of the map [arcsec]; its cells across
STARS = np.array([(28, 28), (-28, 28), (28, -28), (-28, -28), (48, 15), (-30, 42), (-12, -50)], float)
NEAR, NODES, POWER, DEGREE = 10, 36, 5, 3  # arcsec; nodes of a target, r^5, cubic polynomials


def directions():
    """(directions, cells of the lattice that each belongs to, 0: none)."""
    at, cells = [], []
    for n in CELLS:
        rows = np.linspace(-HALF - 2 * HALF / n, HALF + 2 * HALF / n, n + 3)
        at += [(x, y) for y in rows for x in rows]
        cells += [n] * len(rows) ** 2
    rng = np.random.default_rng(5)
    free = [tuple(p) for p in rng.uniform(-HALF, HALF, (200, 2))]
    for s in STARS[np.all(abs(STARS) <= HALF + 1, axis=1)]:
        for _ in range(12):
            r, a = rng.uniform(0.5, NEAR), rng.uniform(0, 2 * np.pi)
            p = (s[0] + r * np.cos(a), s[1] + r * np.sin(a))
            free += [p] if max(map(abs, p)) <= HALF else []
    for k in range(40):
        a, b = rng.uniform(-HALF, HALF), HALF - rng.uniform(0, 0.3) * 2 * HALF / max(CELLS)
        free.append(((a, b), (a, -b), (b, a), (-b, a))[k % 4])
    return np.round(np.array(at + free), 6), np.array(cells + [0] * len(free))


def kriging(nodes, values, at, step):
    out = np.zeros((len(at), values.shape[1]))
    powers = [(a, b) for a in range(DEGREE + 1) for b in range(DEGREE + 1 - a)]
    for i, q in enumerate(at):
        near = np.argsort(np.linalg.norm(nodes - q, axis=1), kind="stable")[:NODES]
        x = (nodes[near] - q) / step
        m = np.stack([x[:, 0] ** a * x[:, 1] ** b for a, b in powers], axis=1)
        n, k = m.shape
        a = np.zeros((n + k, n + k))
        a[:n, :n], a[:n, n:], a[n:, :n] = np.linalg.norm(x[:, None] - x, axis=2) ** POWER, m, m.T
        b = np.zeros(n + k)
        b[:n], b[n] = np.linalg.norm(x, axis=1) ** POWER, 1
        out[i] = np.linalg.solve(a, b)[:n] @ values[near]
    return out


def spline(rows, values, at, degree):
    from scipy.interpolate import RectBivariateSpline
    planes = values.reshape(len(rows), len(rows), -1)
    return np.stack([RectBivariateSpline(rows, rows, planes[:, :, k], kx=degree, ky=degree)(at[:, 1], at[:, 0], grid=False)
                     for k in range(planes.shape[2])], axis=1)


def errors(folder):
    from astropy.io import fits
    at, cells = directions()
    with fits.open(folder + "/maps.fits") as f:
        t = f["TARGETS"].data
        if len(t) != len(at) or np.abs(t["X"] - at[:, 0]).max() > 1e-5:
            raise SystemExit("%s has other targets" % folder)
        values = np.stack([t["STREHL_LONG"][:, 0], t["STREHL_LONG"][:, 1], t["EE_75mas_LONG"][:, 0], t["EE_150mas_LONG"][:, 0]], axis=1).astype(float)
    free, known = at[cells == 0], values[cells == 0]
    star = np.min(np.linalg.norm(free[:, None] - STARS, axis=2), axis=1) < NEAR
    edge = HALF - np.max(abs(free), axis=1) < 3
    print("%d directions, Strehl ratio %.3f to %.3f; largest error of Strehl ratios and ensquared energies" % (len(free), known[:, 0].min(), known[:, 0].max()))
    for n in CELLS:
        step = 2 * HALF / n
        nodes, of = at[cells == n], values[cells == n]
        rows, inner = np.unique(nodes[:, 0]), np.all(abs(nodes) <= HALF + 1e-6, axis=1)
        found = {"cubic": spline(rows, of, free, 3), "quintic": spline(rows, of, free, 5), "kriging": kriging(nodes, of, free, step),
                 "cubic, no ring": spline(rows[1:-1], of[inner], free, 3)}
        for name, got in found.items():
            e = abs(got - known).max(axis=1)
            print("step %5.2f %-15s middle %.1e edge %.1e near stars %.1e all %.1e" % (
                step, name, e[~star & ~edge].max(), e[edge].max(), e[star].max(), e.max()))


def square(nodes, exact):
    at = np.array([(20 + 26 * i / 15, 50 + 26 * j / 15) for j in range(16) for i in range(16)])
    np.savetxt(nodes, at, fmt="%.6f")
    np.savetxt(exact, at[[k for k in range(256) if (k // 16 + k % 16) % 2 == 0]], fmt="%.6f")


def compare(exact, nodes):
    """Strehl ratios and ensquared energies of single exposures, all wavelengths."""
    from astropy.io import fits
    with fits.open(exact + "/maps.fits") as f, fits.open(nodes + "/maps.fits") as g:
        a, b, head, stars = f["TARGETS"].data, g["TARGETS"].data, g[0].header, g["GUIDESTARS"].data
        names = [n for n in a.names if n.startswith(("STREHL", "EE_")) and not n.endswith("_LONG")]
        row = [int(np.argmin(np.hypot(b["X"] - x, b["Y"] - y))) for x, y in zip(a["X"], a["Y"])]
        if np.hypot(b["X"][row] - a["X"], b["Y"][row] - a["Y"]).max() > 1e-4:
            raise SystemExit("%s lacks directions of %s" % (nodes, exact))
        e = np.max([np.abs(a[n] - b[n][row]).reshape(len(a), -1).max(axis=1) for n in names], axis=0)
        free = b["SAMPLED"][row] != "node"
        star = np.min([np.hypot(a["X"] - s["X"], a["Y"] - s["Y"]) for s in stars if s["TYPE"].strip().upper() == "NGS"], axis=0) < NEAR
        edge = np.min([a["X"] - b["X"].min(), b["X"].max() - a["X"], a["Y"] - b["Y"].min(), b["Y"].max() - a["Y"]], axis=0) < head["NODESTEP"] / 2
    print("%d nodes, targets.tolerance %.1e, %d targets compared by the run, largest difference %.1e" % (
        head["NNODE"], head["SAMPTOL"], head["NCHECK"], head["SAMPDIFF"]))
    for name, of in (("interpolated", free), ("near stars", free & star), ("at the edge", free & edge), ("elsewhere", free & ~star & ~edge), ("nodes", ~free)):
        if of.any():
            print("%-12s %4d directions, largest %.1e, median %.1e, over the tolerance %d" % (name, of.sum(), e[of].max(), np.median(e[of]), (e[of] > head["SAMPTOL"]).sum()))


def times():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name, words in (("8 x 8, exact", ["targets.grid.nx=8", "targets.grid.ny=8", "targets.sampling=exact"]), ("the demo", []),
                        ("64 x 64, 1e-3", ["targets.grid.nx=64", "targets.grid.ny=64", "targets.tolerance=1e-3"])):
        with tempfile.TemporaryDirectory() as d:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([os.environ.get("MOAO", os.path.join(root, "build/moao")), "run", "-n", "2", os.path.join(root, "params/demo.yaml"), *words,
                            "compute.backend=cpu", "compute.threads=1", "-q", "-o", d + "/out"], check=True, stderr=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            with open(d + "/out/run.json", encoding="utf-8") as f:
                run = json.load(f)
        found = run.get("sampling", {})
        print("%-14s %6.1f s, %6.1f s of processors%s" % (name, run["elapsed_s"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
              ", %d nodes, %d targets compared, within %.1e" % (found["nodes"], found["targets_compared"], found["largest_difference"]) if found.get("nodes") else ""), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--targets")
    p.add_argument("--errors")
    p.add_argument("--square", nargs=2, metavar=("NODES", "EXACT"))
    p.add_argument("--compare", nargs=2, metavar=("EXACT", "NODES"))
    p.add_argument("--times", action="store_true")
    a = p.parse_args()
    if a.targets:
        np.savetxt(a.targets, directions()[0], fmt="%.6f")
    if a.errors:
        errors(a.errors)
    if a.square:
        square(*a.square)
    if a.compare:
        compare(*a.compare)
    if a.times:
        times()


if __name__ == "__main__":
    main()
