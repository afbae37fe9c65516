#!/usr/bin/env python3
"""The fault campaign: kills, failing calls and allocations, damaged files, fuzzing, limits, load.

  campaign.py [--hours H | --small] [--only FAMILY] [--seed N]     a campaign, with a table at its end
              [--since REVISION]                                   of memory, only what has changed since
  campaign.py --case 'FAMILY key=value ...'                        one trial again, as the campaign printed it

Exit code 0 when every trial ended as promised in docs/reliability.md."""
import argparse
import concurrent.futures
import importlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from harness import ROOT, VERDICTS, Lab, as_built, attempt  # noqa: E402

WORKERS = min(2 * (os.cpu_count() or 1), 16)  # trials at a time: they wait for files and for each other
# share of a campaign's time; the smaller ones end by themselves
FAMILIES = {"calls": 0.15, "memory": 0.2, "damage": 0.1, "limits": 0.1, "kills": 0.15, "starts": 0.1, "fuzz": 0.1,
            "load": 0.1}


def family(name):
    return importlib.import_module("family_" + name)


class Tally:
    """What came out of one family's trials."""

    def __init__(self, name):
        self.name, self.tried, self.seconds, self.listed = name, 0, 0.0, 0
        self.bad, self.notes = [], []
        self.count = dict.fromkeys(VERDICTS, 0)
        self.guard = threading.Lock()

    def add(self, spec, verdict, note):
        tried = 1
        if isinstance(note, dict):
            tried, note = note.get("tried", 1), note.get("note", "")
        with self.guard:
            self.tried += tried
            if verdict != "ok":
                self.count[verdict] = self.count.get(verdict, 0) + 1
                self.bad.append((spec, verdict, note))
            elif note and note not in self.notes:
                self.notes.append(note)

    def row(self):
        return [self.name, self.tried] + [self.count[v] for v in VERDICTS] + ["%.0f" % self.seconds]


def table(tallies):
    head = ["family", "tried"] + list(VERDICTS) + ["s"]
    rows = [head, ["---"] * len(head)] + [t.row() for t in tallies]
    return "\n".join("| " + " | ".join("%8s" % c for c in row) + " |" for row in rows)


def reproduce(spec):
    return "/usr/bin/python3 tests/fault/campaign.py --case '%s'" % spec


def one(lab, spec):
    module = family(spec.split()[0])
    try:
        return attempt(lab, module.run, spec)
    except Exception as e:  # the harness itself: no verdict on the program
        return "broken", "the trial could not be made: %s: %s" % (type(e).__name__, e)


def campaign(lab, name, seed, full, seconds, workers, say=print):
    """Trials of one family until its list or its time ends."""
    tally, start = Tally(name), time.monotonic()
    rng = random.Random("%s %d" % (name, seed))
    trials = iter(family(name).trials(lab, rng, full))
    guard = threading.Lock()

    def work():
        while time.monotonic() - start < seconds:
            with guard:
                spec = next(trials, None)
            if spec is None:
                return
            verdict, note = one(lab, spec)
            tally.add(spec, verdict, note)
            if verdict != "ok":
                say("%s: %s\n    %s" % (verdict, reproduce(spec), str(note).strip().replace("\n", "\n    ")[:3000]))

    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        for f in [pool.submit(work) for _ in range(getattr(family(name), "WORKERS", workers))]:
            f.result()
    with guard:  # what was listed and not tried: the time was short
        left = 0
        for _ in trials:
            left += 1
            if left >= 100000:
                break
    tally.listed, tally.seconds = left, time.monotonic() - start
    return tally


def build_tools(build):
    """What the campaign preloads and fuzzes with, by the compiler that the folder is built with; (exit code, text)."""
    command = ["make", "--no-print-directory", "-C", ROOT, "-j%d" % (os.cpu_count() or 1)] + as_built(build) + ["fault-tools"]
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    return p.returncode, p.stdout


class Workplace:
    """A Lab in a folder of its own, in memory where there is some, removed at the end."""

    def __init__(self, build):
        self.build = build

    def __enter__(self):
        roomy = os.access("/dev/shm", os.W_OK) and shutil.disk_usage("/dev/shm").free > 2e9
        base = "/dev/shm" if roomy else None
        self.folder = tempfile.mkdtemp(prefix="moao-fault-", dir=base)
        os.environ["OMPI_MCA_btl_vader_backing_directory"] = self.folder  # a killed run leaves its segments there
        os.environ["OMPI_MCA_orte_tmpdir_base"] = self.folder
        return Lab(self.folder, self.build)

    def __exit__(self, *_):
        harness.kill_all(self.folder + "/")
        shutil.rmtree(self.folder, ignore_errors=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", default=os.path.join(ROOT, "build"))
    ap.add_argument("--hours", type=float, default=1)
    ap.add_argument("--small", action="store_true", help="the form of make check")
    ap.add_argument("--only", action="append", choices=sorted(FAMILIES))
    ap.add_argument("--seed", type=int, default=int(time.time()))
    ap.add_argument("--since", metavar="REVISION", help="of memory: only places in functions that have changed since")
    ap.add_argument("--workers", type=int, default=WORKERS)
    ap.add_argument("--case")
    a = ap.parse_args()
    build = os.path.realpath(a.build)
    code, text = build_tools(build)
    if code != 0:
        sys.exit(text)
    with Workplace(build) as lab:
        lab.since = a.since
        if a.case:
            verdict, note = one(lab, a.case)
            print("%s %s" % (verdict, note))
            return verdict != "ok"
        names = a.only or list(FAMILIES)
        whole = sum(FAMILIES[n] for n in names)
        print("seed %d" % a.seed, flush=True)
        tallies = []
        for name in names:
            # time that one family does not need is left to the later ones
            left = 3600 * a.hours - sum(t.seconds for t in tallies)
            share = left * FAMILIES[name] / whole
            whole -= FAMILIES[name]
            tallies.append(campaign(lab, name, a.seed, not a.small, share, a.workers,
                                    lambda s: print(s, flush=True)))
            print(table(tallies[-1:]).splitlines()[-1] + "  %d listed and not tried; %s" % (
                tallies[-1].listed, "; ".join(map(str, tallies[-1].notes))), flush=True)
        if lab.coverage:
            print("edges reached by the inputs: %s" % ", ".join("%s %d" % c for c in sorted(lab.coverage.items())))
        print(table(tallies))
        return any(t.bad for t in tallies)


if __name__ == "__main__":
    sys.exit(main())
