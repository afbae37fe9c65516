#!/usr/bin/env python3
"""The stages of runs that differ in one thing, run in turns on one machine: two builds, two forms of a factor, numbers of ranks.

    bench/bench_turns.py [--turns 2] [--limit SECONDS] [--out FILE] PARAMETERS [key=value ...] -- NAME[=PROGRAM] [ranks=N] [key=value ...] -- ...

The words before the first `--` are common to all runs; a word NAME=VALUE in capitals is a variable of the environment. Printed: each
run's stages [s] as it ends; then the median of each stage and its ratio to the first name's; `samples`: checks of residuals and targets
computed in both precisions; `psf`: (exposure - samples) / (targets x exposures); the largest difference of a Strehl ratio from the first name's, where numpy and astropy are installed. Example:

    bench/bench_turns.py params/mosaic.yaml compute.verify=off -- dense compute.factor=dense -- tlr compute.factor=tlr"""
import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STAGES = ("setup", "matcov", "factor", "solve", "exposure", "output", "samples", "psf", "wall")


def split(words):
    """[common words], [(name, program, ranks, words)]: the command line cut at each `--`."""
    parts = [[]]
    for w in words:
        if w == "--":
            parts.append([])
        else:
            parts[-1].append(w)
    sides = []
    for part in parts[1:]:
        name, _, program = part[0].partition("=")
        ranks = [w[6:] for w in part if w.startswith("ranks=")]
        sides.append((name, program, ranks[0] if ranks else None, [w for w in part[1:] if not w.startswith("ranks=")]))
    return parts[0], sides


def strehl(folder):
    """STREHL of every wavelength, exposure and target; None without astropy."""
    try:
        import numpy as np
        sys.path.insert(0, os.path.join(ROOT, "python"))
        import moao
    except ImportError:
        return None
    return np.asarray(moao.open(folder).column("STREHL"))


def run(program, ranks, words, limit):
    """(seconds of each stage, Strehl ratios) of one run."""
    env = dict(os.environ)
    named = [w for w in words if re.match(r"[A-Z][A-Z0-9_]*=", w)]
    env.update(w.split("=", 1) for w in named)
    with tempfile.TemporaryDirectory(prefix="moao-turns-") as tmp:
        out = os.path.join(tmp, "out")
        begin = time.monotonic()
        p = subprocess.run([program, "run", *(["-n", ranks] if ranks else []), *[w for w in words if w not in named], "-o", out, "-q"],
                           env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit, check=False)
        wall = time.monotonic() - begin
        if p.returncode != 0:
            raise RuntimeError("exit code %d: %s" % (p.returncode, p.stdout.strip()[-400:]))
        with open(os.path.join(out, "run.json"), encoding="utf-8") as f:
            told = json.load(f)
        times = {s["stage"]: s["time_s"] for s in told["stages"]}
        samples = told.get("verify", {}).get("time_s", 0.0) + told.get("precision", {}).get("samples_time_s", 0.0)
        times.update(samples=samples, wall=wall)
        values = strehl(out)
        times.pop("psf", None)  # images by themselves: a part of the exposure where a GPU makes them
        if values is not None:
            times["psf"] = (times["exposure"] - times["samples"]) / values[0].size
        return times, values


def line(name, times):
    return "%-16s" % name + "".join("%10.4f" % times[s] if s in times else "%10s" % "-" for s in STAGES)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--turns", type=int, default=2, help="runs of each (default 2)")
    ap.add_argument("--limit", type=float, default=600, help="seconds until a run has failed (default 600)")
    ap.add_argument("--out", help="append the table to this file")
    ap.add_argument("words", nargs=argparse.REMAINDER)
    a = ap.parse_args()
    common, sides = split(a.words)
    if not common or not sides:
        ap.error("parameters, then `--` and a name for each side")
    sink = open(a.out, "a", encoding="utf-8") if a.out else None

    def say(text):
        print(text, flush=True)
        if sink:
            print(text, file=sink, flush=True)

    say("# %s; bench/bench_turns.py %s" % (datetime.date.today().isoformat(), " ".join(sys.argv[1:])))
    say("%-16s" % "" + "".join("%10s" % s for s in STAGES))
    found, first, failed = {}, None, False
    for turn in range(a.turns):
        for name, program, ranks, words in sides:
            try:
                times, values = run(program or os.path.join(ROOT, "build", "moao"), ranks, common + words, a.limit)
            except (RuntimeError, subprocess.TimeoutExpired) as e:
                say("%-16s%s" % (name, e))
                failed = True
                continue
            found.setdefault(name, []).append(times)
            say(line(name, times))
            if turn == 0 and values is not None:
                first = values if first is None else first
                say("%-16slargest change of a Strehl ratio %.2e" % ("", abs(values - first).max()))
    say("medians")
    base = None
    for name, runs in found.items():
        middle = {s: statistics.median(r[s] for r in runs) for s in STAGES if s in runs[0]}
        base = base or middle
        say(line(name, middle))
        say("%-16s" % "" + "".join("%10.4f" % (middle[s] / base[s]) if base.get(s) and s in middle else "%10s" % "-" for s in STAGES))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
