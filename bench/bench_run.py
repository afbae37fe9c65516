#!/usr/bin/env python3
"""Speed of whole runs, from run.json: the share of dgemm that reconstructors and exposures reach in the best layout,
two ranks against one (one BLAS thread each, alternating pairs), and the idle share of the exposure loop.

    bench/bench_run.py [--pairs 5] [--pairs-only] [--moao build/moao] [--out FILE] [PARAMETERS [key=value ...]]

Without PARAMETERS: params/elt-small.yaml with 6 targets, one reconstructor, one exposure (minutes)."""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEFAULT = [os.path.join(ROOT, "params", "elt-small.yaml"),
           "targets={grid: {nx: 3, ny: 2, width: 200}}", "schedule={tor_times: [0], exposure_times: [0]}",
           "output.psf=none"]


def run(moao, ranks, threads, case):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_plm_rsh_agent="/bin/false",
               OMP_NUM_THREADS=str(threads))
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run(["mpirun", "--bind-to", "none", "-n", str(ranks), moao, "run", *case, "-o", tmp + "/o", "-q"],
                       env=env, check=True)
        with open(tmp + "/o/run.json") as f:
            return json.load(f)


def processor():
    with open("/proc/cpuinfo") as f:
        names = [line.split(":")[1].strip() for line in f if line.startswith("model name")]
    return names[0] if names else platform.machine()


def stages(result, names=("matcov", "factor", "solve", "exposure")):
    """(time, flop, share of dgemm) of reconstructors and exposures together."""
    rows = [s for s in result["stages"] if s["stage"] in names]
    time, flop = sum(s["time_s"] for s in rows), sum(s["flop"] for s in rows)
    return time, flop, flop / time / (result["machine"]["dgemm_gflops"] * 1e9)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--pairs", type=int, default=5)
    p.add_argument("--pairs-only", action="store_true", help="not the layout of one rank with all threads")
    p.add_argument("--moao", default=os.path.join(ROOT, "build", "moao"))
    p.add_argument("--out")
    p.add_argument("case", nargs="*", default=DEFAULT)
    a = p.parse_args()
    cores = len(os.sched_getaffinity(0))
    options = [x for x in sys.argv[1:] if not x.startswith("/")]
    lines = [f"{datetime.date.today()}  {processor()}, {cores} cores; bench/bench_run.py {' '.join(options)}"]

    def say(text):
        print(text, flush=True)
        lines.append(text)

    say(f"{'layout':26} {'ToR+exposures':>14} {'GFLOP/s':>9} {'dgemm':>9} {'of dgemm':>9} {'idle, exposures':>16}")

    def show(name, result):
        time, flop, share = stages(result)
        idle = next(s["idle_share"] for s in result["stages"] if s["stage"] == "exposure")
        dgemm = result["machine"]["dgemm_gflops"]
        say(f"{name:26} {time:12.2f} s {flop / time / 1e9:9.1f} {dgemm:9.1f} {100 * share:7.1f} % {100 * idle:14.1f} %")
        return time, share, dgemm

    ratios, shares, cores_ratios = [], {}, []
    for i in range(a.pairs):
        one, _, d1 = show("1 rank of 1 thread", run(a.moao, 1, 1, a.case))
        two, s2, d2 = show("2 ranks of 1 thread", run(a.moao, 2, 1, a.case))
        if not a.pairs_only:
            _, s3, _ = show(f"1 rank of {cores} threads", run(a.moao, 1, cores, a.case))
            shares.setdefault(f"{cores} threads", []).append(s3)
        ratios.append(one / two)
        cores_ratios.append(d2 / d1)
        shares.setdefault("2 ranks", []).append(s2)
    say(f"2 ranks against 1: {statistics.median(ratios):.2f} times as fast (median of {a.pairs} pairs, "
        f"{min(ratios):.2f} to {max(ratios):.2f})")
    say(f"the machine's dgemm: two ranks at once {statistics.median(cores_ratios):.2f} times the rate of one alone")
    for name, s in shares.items():
        say(f"{name}: {100 * statistics.median(s):.1f} % of the multi-core dgemm (median)")
    if a.out:
        with open(a.out, "w") as f:
            f.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
