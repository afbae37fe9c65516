#!/usr/bin/env python3
"""Times of moao asterism on the two cases of docs/sky.md: 3 of 60 stars beside 4 laser stars on 8 m, all 34,220 combinations, and
8 of 40 beside 6 on the ELT (params/elt-small.yaml), by exchange. Candidates are drawn at random, always the same.

    bench/bench_asterism.py [--moao build/moao] [--backend cpu|gpu] [--case demo|elt] [-o FOLDER] [key=value or --option ...]
"""
import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASES = {
    "demo": ("params/demo.yaml", 60, 60, 9, ["targets.grid.nx=4", "targets.grid.ny=4", "--choose", "3", "--want",
                                            "min ee 75mas over targets"]),
    "elt": ("params/elt-small.yaml", 40, 230, 10, ["--choose", "8", "--want", "mean ee 150mas over targets"]),
}


def write_stars(path, n, radius, bright, seed):
    """n stars at random within a radius [arcsec], between a magnitude and 16, more faint ones than bright ones."""
    r = random.Random(seed)
    with open(path, "w", encoding="ascii") as f:
        f.write("name,x,y,magnitude\n")
        for i in range(n):
            d, a = radius * math.sqrt(r.random()), 2 * math.pi * r.random()
            f.write("S%02d,%.3f,%.3f,%.2f\n" % (i + 1, d * math.cos(a), d * math.sin(a),
                                                max(bright, 16 - 1.5 * r.expovariate(1))))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--moao", default=os.path.join(ROOT, "build", "moao"))
    p.add_argument("--backend", default="cpu", choices=("cpu", "gpu"))
    p.add_argument("--case", action="append", choices=sorted(CASES))
    p.add_argument("-o", "--output", help="folder to keep (default: none is kept)")
    a, more = p.parse_known_args()
    keep = a.output or tempfile.mkdtemp()
    os.makedirs(keep, exist_ok=True)
    for name in a.case or sorted(CASES):
        file, n, radius, bright, words = CASES[name]
        stars = os.path.join(keep, name + "-stars.csv")
        write_stars(stars, n, radius, bright, 7)
        out = os.path.join(keep, name)
        line = [a.moao, "asterism", os.path.join(ROOT, file), *words, "--stars", stars, "--radius", str(radius * 1.1), "--full", "1",
                "compute.backend=" + a.backend, "-o", out, *more]
        start = time.monotonic()
        code = subprocess.run(line, check=False).returncode
        if code != 0:
            return code
        with open(os.path.join(out, "asterism.json"), encoding="utf-8") as f:
            r = json.load(f)
        print("%s, %s: order %d of %d, %.0f of %.0f asterisms (%s); covariances %.1f s, search %.1f s, %d images %.1f s; in all, with a "
              "full run, %.1f s" % (name, a.backend, r["order"], r["full_order"], r["looked_at"], r["combinations"], r["search"],
                                    r["covariances_s"], r["search_s"], r["images"], r["images_s"], time.monotonic() - start), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
