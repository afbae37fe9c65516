#!/usr/bin/env python3
"""How busy a GPU was in each stage of a run, what it did for one target, and where it waited.

    make gpu-busy
    CUDA_INJECTION64_PATH=$PWD/build/bench/gpu/libmoao_busy.so MOAO_BUSY=busy.csv moao run FILE ...
    scripts/gpu-busy.py busy.csv [--target N] [--png FILE]

Busy share of a stage: union of the intervals of its kernels over its wall time on the host, which for the exposures runs
from the first one of a chunk of targets to the next reconstructor, results kept on disk included. Fails (exit code 1)
when --least is given and the exposures' share is below it.
"""
import argparse
import csv
import re
import shutil
import subprocess
import sys

from needs import needs

needs("numpy")
import numpy as np  # noqa: E402

COVARIANCES = re.compile(r"sum_edges|combine|look_up|tabulate|\bfit\b")
PRODUCT = re.compile(r"gemm|gemv|xmma|cutlass|nvjet|splitK|trmm|syrk|trsm", re.I)


class Record:
    """Events of the device (sorted by start) and phases of the program, in seconds from the first phase."""

    def __init__(self, path):
        device, phases, self.calls = [], [], []
        with open(path, newline="", encoding="utf-8") as f:
            for row in csv.DictReader(f):
                item = (int(row["start"]), int(row["end"]), int(row["asked"]), row["kind"], row["name"])
                {"phase": phases, "host": self.calls}.get(row["kind"], device).append(item)
        if not phases or not device:
            sys.exit("%s holds no marks of the program, or no work of the device" % path)
        device.sort()
        phases.sort()
        zero = phases[0][0]
        self.phase = [p[4] for p in phases]
        self.phase_start = 1e-9 * (np.array([p[0] for p in phases]) - zero)
        self.phase_end = 1e-9 * (np.array([p[1] for p in phases]) - zero)
        self.start, self.end, self.asked = (1e-9 * (np.array([d[i] for d in device]) - zero) for i in range(3))
        self.kernel = np.array([d[3] == "kernel" for d in device])
        self.name = [d[4] for d in device]
        self.calls = [(1e-9 * (c[0] - zero), 1e-9 * (c[1] - zero), c[4]) for c in self.calls]
        self.of = np.searchsorted(self.phase_start, self.asked, "right") - 1  # phase of each event

    def windows(self, stage, with_stages=()):
        """Wall time of a stage: (begin, end) of each run of its phases; stages of `with_stages` do not end one."""
        out, open_at = [], None
        for name, start in zip(self.phase, self.phase_start):
            mine = name.split(":")[0]
            if mine == stage and open_at is None:
                open_at = start
            elif mine != stage and mine not in with_stages and open_at is not None:
                out.append((open_at, start))
                open_at = None
        if open_at is not None:
            out.append((open_at, self.phase_end[-1]))
        return out


def union(start, end, window):
    """Intervals of the union of [start, end), which are sorted by start, inside a window."""
    out = []
    for a, b in zip(np.maximum(start, window[0]), np.minimum(end, window[1])):
        if b <= a:
            continue
        if out and a <= out[-1][1]:
            out[-1][1] = max(b, out[-1][1])
        else:
            out.append([a, b])
    return out


def length(intervals):
    return sum(b - a for a, b in intervals)


def readable(names):
    """Names of kernels without parameters; the compiler's names are translated where c++filt exists."""
    text = dict((n, n) for n in names)
    if shutil.which("c++filt"):
        p = subprocess.run(["c++filt"], input="\n".join(text), stdout=subprocess.PIPE, universal_newlines=True, check=False)
        text = dict(zip(text, p.stdout.split("\n")))
    for n, t in text.items():
        t = re.sub(r"\(anonymous namespace\)::", "", t)
        t = re.sub(r"<.*", "", re.sub(r"\(.*", "", t))
        text[n] = t.split(" ")[-1].split("::")[-1][:44] or n[:44]
    return text


def kind_of(record, i):
    if not record.kernel[i]:
        return "copies"
    if COVARIANCES.search(record.name[i]):
        return "covariances"
    return "products" if PRODUCT.search(record.name[i]) else "other kernels"


def share_table(r):
    """Busy share of every stage; returns that of the exposures."""
    print("%-14s %6s %10s %10s %8s %14s" % ("stage", "times", "wall [s]", "busy [s]", "share", "with copies"))
    share = None
    for stage in dict.fromkeys(p.split(":")[0] for p in r.phase):
        windows = r.windows(stage, ("output",) if stage == "exposure" else ())
        wall = length(windows)
        busy = sum(length(union(r.start[r.kernel], r.end[r.kernel], w)) for w in windows)
        every = sum(length(union(r.start, r.end, w)) for w in windows)
        if wall > 0:
            print("%-14s %6d %10.3f %10.3f %6.2f %% %12.2f %%" % (stage, len(windows), wall, busy, 100 * busy / wall,
                                                               100 * every / wall))
        if stage == "exposure":
            share = busy / wall
    return share


def rows_of(r, chosen, wall):
    """Table of the events chosen: phase and kind, number, busy time (union), share of a wall time."""
    groups = {}
    for i in chosen:
        groups.setdefault((r.phase[r.of[i]], kind_of(r, i)), []).append(i)
    print("%-28s %-14s %7s %10s %8s" % ("phase", "what", "number", "busy [ms]", "share"))
    for (phase, kind), k in groups.items():
        busy = length(union(r.start[k], r.end[k], (-np.inf, np.inf)))
        print("%-28s %-14s %7d %10.2f %6.2f %%" % (phase, kind, len(k), 1e3 * busy, 100 * busy / wall))


def targets(r):
    """Events of each target of the exposures, by the marks at which the host turned to it."""
    at = [i for i, p in enumerate(r.phase) if p == "exposure: next target"]
    out = []
    for k, i in enumerate(at):
        last = at[k + 1] if k + 1 < len(at) else len(r.phase)
        mine = [e for e in np.flatnonzero((r.of >= i) & (r.of < last)) if r.phase[r.of[e]].startswith("exposure")]
        if mine:
            out.append(mine)
    return out


def line_of(r, chosen, begin, end, columns=100):
    """A line of text: what the device did most in each of its columns."""
    letters, busy = {}, {}
    for i in chosen:
        key = (r.phase[r.of[i]], kind_of(r, i))
        letters.setdefault(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[len(letters) % 26])
        a, b = ((x - begin) / (end - begin) * columns for x in (r.start[i], r.end[i]))
        for c in range(max(int(a), 0), min(int(np.ceil(b)), columns)):
            busy.setdefault(c, {}).setdefault(letters[key], 0)
            busy[c][letters[key]] += min(b, c + 1) - max(a, c)
    print("".join(max(busy[c], key=busy[c].get) if sum(busy.get(c, {" ": 0}).values()) > 0.1 else "." for c in range(columns)))
    for (phase, kind), letter in letters.items():
        print("  %s %s, %s" % (letter, phase, kind))
    print("  . idle; %d columns of %.1f ms" % (columns, 1e3 * (end - begin) / columns))


def gaps(r, window, most=12):
    """The longest times in which the device did nothing, and what the host did meanwhile."""
    busy = union(r.start, r.end, window)
    edges = [window[0]] + [x for pair in busy for x in pair] + [window[1]]
    holes = sorted(((b - a, a, b) for a, b in zip(edges[0::2], edges[1::2]) if b > a), reverse=True)
    small = sum(h[0] for h in holes if h[0] < 20e-6)
    print("%d gaps, %.2f ms in all, %.2f ms of it in gaps under 20 us" % (len(holes), 1e3 * sum(h[0] for h in holes), 1e3 * small))
    print("%10s %12s  %s" % ("gap [ms]", "at [s]", "the host was in; its longest call meanwhile"))
    for hole, a, b in holes[:most]:
        k = max(int(np.searchsorted(r.phase_start, 0.5 * (a + b), "right")) - 1, 0)
        call = max(((min(c[1], b) - max(c[0], a), c[2]) for c in r.calls if c[0] < b and c[1] > a), default=(0, "-"))
        print("%10.3f %12.4f  %s; %s (%.3f ms)" % (1e3 * hole, a, r.phase[k], call[1], 1e3 * call[0]))


def kernel_table(r, windows, most=15):
    """Kernels by name: number and total time inside windows."""
    inside = [i for w in windows for i in np.flatnonzero((r.start >= w[0]) & (r.start < w[1]))]
    names, total = readable(set(r.name[i] for i in inside if r.kernel[i])), {}
    for i in inside:
        t = total.setdefault(names[r.name[i]] if r.kernel[i] else r.name[i], [0, 0.0])
        t[0] += 1
        t[1] += r.end[i] - r.start[i]
    print("%-46s %8s %12s" % ("kernel or copy", "number", "total [ms]"))
    for name, t in sorted(total.items(), key=lambda x: -x[1][1])[:most]:
        print("%-46s %8d %12.2f" % (name, t[0], 1e3 * t[1]))


def picture(r, chosen, begin, end, path):
    import matplotlib  # pylint: disable=import-outside-toplevel
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # pylint: disable=import-outside-toplevel
    keys = list(dict.fromkeys((r.phase[r.of[i]], kind_of(r, i)) for i in chosen))
    fig, ax = plt.subplots(figsize=(10, 0.6 + 0.35 * len(keys)))
    for y, key in enumerate(keys):
        bars = [(1e3 * (r.start[i] - begin), 1e3 * (r.end[i] - r.start[i])) for i in chosen
                if (r.phase[r.of[i]], kind_of(r, i)) == key]
        ax.broken_barh(bars, (y - 0.4, 0.8), color="C%d" % (y % 10))
    ax.set_yticks(range(len(keys)), ["%s, %s" % k for k in keys])
    ax.invert_yaxis()
    ax.set_xlim(0, 1e3 * (end - begin))
    ax.set_xlabel("time [ms]")
    fig.tight_layout()
    fig.savefig(path, dpi=110)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file", help="what libmoao_busy.so wrote")
    p.add_argument("--target", type=int, help="number of the target whose time line is shown, in the order of the run")
    p.add_argument("--png", help="the time line as a picture")
    p.add_argument("--least", type=float, help="busy share that the exposures must reach, for instance 0.95")
    a = p.parse_args()
    r = Record(a.file)
    share = share_table(r)
    windows = r.windows("exposure", ("output",))
    if windows:
        print("\nexposures")
        inside = [i for w in windows for i in np.flatnonzero((r.asked >= w[0]) & (r.asked < w[1]))]
        rows_of(r, inside, length(windows))
        print()
        kernel_table(r, windows)
        for w in windows:
            print()
            gaps(r, w)
    for w in r.windows("solve"):
        print("\nsolve")
        gaps(r, w, 5)
    each = targets(r)
    if each:
        k = a.target if a.target is not None else len(each) // 2
        mine = each[k]
        begin, end = r.start[mine].min(), r.end[mine].max()
        print("\ntarget %d of %d: %.1f ms" % (k, len(each), 1e3 * (end - begin)))
        rows_of(r, mine, end - begin)
        line_of(r, mine, begin, end)
        if a.png:
            picture(r, mine, begin, end, a.png)
    if a.least is not None and not (share is not None and share >= a.least):
        sys.exit("the GPU was busy less than %.1f %% of the exposures" % (100 * a.least))


if __name__ == "__main__":
    main()
