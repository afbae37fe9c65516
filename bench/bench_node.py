#!/usr/bin/env python3
"""All GPUs of one host against one of them, at the full scale: exposures in mixed and double precision, factors dense and
compressed, triangular solves, and the bits of a run that is resumed on another number of GPUs.

    bench/bench_node.py [--gpus N] [--build build] [--out DIR] [--seconds S] [STEP...]

STEP: mixed, double, tlr, trsm, resume; all of them in this order by default. What they are compared with is computed first, on
one GPU each, side by side. Each GPU has as many targets as the single one, so that N GPUs do N times the work of `mixed` and
`double` in the time of one where they lose nothing; the factor is shared. A step that would begin after S seconds is left out
and named.
Needs `make gpu build/bench/bench_tlr_cmm build/bench/gpu/bench_multi`. All steps but `double` take 7 minutes on 2 H100.
Writes the logs, run.json of each run, and node.json with every figure of the table to DIR (bench/results/node).
"""
import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STEPS = ("mixed", "double", "tlr", "trsm", "resume")
SIX = "schedule={tor_times: [0], exposure_times: [0, 600, 1200, 1800, 2400, 3000]}"
THREE = "schedule={tor_times: [0], exposure_times: [0, 1800, 3000]}"
TWO = "schedule={tor_times: [0], exposure_times: [0, 3000]}"
PARTS = (8, 16)  # of a compressed factor


def grid(nx, ny):
    return "targets={grid: {nx: %d, ny: %d, width: 270 arcsec, height: %d arcsec}}" % (nx, ny, 270 * ny // max(nx, ny))


class Node:
    def __init__(self, a):
        self.gpus, self.build, self.out = a.gpus, os.path.abspath(a.build), os.path.abspath(a.out)
        self.work = tempfile.mkdtemp(prefix="moao-node-")
        self.start, self.seconds, self.figures = time.monotonic(), a.seconds, {}
        os.makedirs(self.out, exist_ok=True)

    def call(self, name, devices, ranks, command, seconds, **env):
        """Exit code of a command on some devices, its output in OUT/NAME.log; killed after `seconds`."""
        threads = str(max(1, (os.cpu_count() or 1) // max(self.gpus, 1)))
        env = dict(os.environ, CUDA_VISIBLE_DEVICES=",".join(map(str, devices)), OMP_NUM_THREADS=threads,
                   OPENBLAS_NUM_THREADS=threads, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **env)
        env.setdefault("MOAO_GPU_PLUGIN", os.path.join(self.build, "libmoao_gpu.so"))
        with open(os.path.join(self.out, name + ".log"), "wb") as log:
            p = subprocess.Popen((["mpirun", "-n", str(ranks), "--bind-to", "none"] if ranks else []) + command, env=env,
                                 cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                 start_new_session=True)
            try:
                code = p.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                code = p.wait()
        print("  %-12s exit code %d, %.0f s after the start" % (name, code, time.monotonic() - self.start), flush=True)
        return code

    def run(self, name, devices, seconds, *words, folder=None):
        """moao run, one rank a device; its run.json, None where it failed."""
        where = os.path.join(self.work, folder or name)
        code = self.call(name, devices, len(devices), [os.path.join(self.build, "moao"), "run", "params/mosaic.yaml",
                                                       "compute.backend=gpu", "-o", where, *words], seconds)
        if code != 0:
            return None
        shutil.copy(os.path.join(where, "run.json"), os.path.join(self.out, name + ".json"))
        with open(os.path.join(where, "run.json"), encoding="utf-8") as f:
            return json.load(f)

    def tlr(self, name, devices, parts):
        """Seconds and bits of a compressed factor by these devices together."""
        self.call(name, devices, len(devices),
                  [os.path.join(self.build, "bench/bench_tlr_cmm"), "backend=gpu", "parts=%d" % parts, "tolerance=0.5", "mixed=0",
                   "dense=0", "rows=64", "timed=0", "repeat=2"], 100)
        text = self.log(name)
        times = [float(x) for x in re.findall(r"tiles: factor, with entries +([\d.]+) s", text)]
        bits = re.findall(r"bits of X (\w+)", text)
        return {"seconds": min(times), "bits": bits[-1]} if times and bits else None

    def log(self, name):
        with open(os.path.join(self.out, name + ".log"), encoding="utf-8", errors="replace") as f:
            return f.read()

    # --- steps

    def single(self, steps):
        """What the steps are compared with: each takes a GPU as one is free."""
        work = {"double": lambda d: self.precision("double", [d], TWO, 2),
                "mixed": lambda d: self.precision("mixed", [d], SIX, 6),
                "tlr": lambda d: [self.keep("tlr-%d" % p, 1, self.tlr("tlr-%d-1" % p, [d], p)) for p in PARTS],
                "resume": lambda d: self.run("whole", [d], 260, "compute.precision=mixed", THREE, grid(8, 2), "output.psf=short")}
        free = queue.Queue()
        for d in range(self.gpus):
            free.put(d)

        def lane(call):
            device = free.get()
            call(device)
            free.put(device)

        threads = [threading.Thread(target=lane, args=(work[s],)) for s in work if s in steps]
        for t in threads:
            t.start()
        for t in threads:
            t.join()

    def precision(self, name, devices, schedule, exposures):
        """26 targets a device."""
        n = len(devices)
        run = self.run("%s-%d" % (name, n), devices, 300, "compute.precision=" + name, schedule, grid(13, 2 * n))
        self.keep(name, n, run and stages(run, 26 * n * exposures))

    def mixed(self):
        self.precision("mixed", range(self.gpus), SIX, 6)

    def double(self):
        self.precision("double", range(self.gpus), TWO, 2)

    def tlr_all(self):
        for p in PARTS:
            self.keep("tlr-%d" % p, self.gpus, self.tlr("tlr-%d-%d" % (p, self.gpus), range(self.gpus), p))

    def trsm(self):
        """bench_multi measures one GPU and all of them in one process."""
        for n in (16384, 32768):
            self.call("trsm-%d" % n, range(self.gpus), 0, [os.path.join(self.build, "bench/gpu/bench_multi"), str(n), "32768",
                                                           str(self.gpus)], 90)
            print("\n".join("    " + line for line in self.log("trsm-%d" % n).splitlines()[-4:]))

    def resume(self):
        """Begun on all GPUs, stopped, resumed on half of them, against the whole run on one: sums of the data of every unit."""
        half = range(max(1, self.gpus // 2))
        words = ("compute.precision=mixed", THREE, grid(8, 2), "output.psf=short")
        begun = os.path.join(self.work, "resumed")

        def stop():
            end = time.monotonic() + 150
            while not any(n.startswith("part-") for _, _, files in os.walk(begun) for n in files) and time.monotonic() < end:
                time.sleep(0.05)
            for pid in [p for p in os.listdir("/proc") if p.isdigit()]:
                try:
                    with open("/proc/%s/cmdline" % pid, "rb") as f:
                        line = f.read().split(b"\0")
                    if line[0] == b"mpirun" and begun.encode() in line:
                        os.kill(int(pid), signal.SIGUSR1)
                except OSError:
                    pass

        watch = threading.Thread(target=stop)
        watch.start()
        self.run("begun", range(self.gpus), 200, *words, folder="resumed")
        watch.join()
        if self.run("resumed", half, 200, *words, "--resume") is None:
            return
        for name in ("maps.fits", "psf.fits"):
            a, b = (sums(os.path.join(self.work, d, name)) for d in ("resumed", "whole"))
            self.figures["resume " + name] = a == b
            print("    %s: %d units, %s" % (name, len(a), "data equal bit for bit" if a == b else "data DIFFER"))

    # --- figures

    def keep(self, what, gpus, found):
        if found is not None:
            self.figures["%s on %d" % (what, gpus)] = found

    def table(self):
        n = self.gpus
        for what in ("mixed", "double"):
            one, all_ = (self.figures.get("%s on %d" % (what, g)) for g in (1, n))
            if one is None or all_ is None:
                continue
            print("%s, %d PSFs on 1 GPU, %d on %d:" % (what, one["psfs"], all_["psfs"], n))
            print("  %-26s %8.2f %8.2f s, %5.2f times" % ("factor", one["factor"], all_["factor"],
                                                          one["factor"] / all_["factor"]))
            for name in ("solve", "exposure", "all but setup"):
                print("  %-26s %8.2f %8.2f s, %5.2f times" % (name, one[name], all_[name], n * one[name] / all_[name]))
            print("  %-26s %8.2f %8.2f PSFs a second, %5.2f times; idle %.1f %%" % (
                "W and exposures", one["rate"], all_["rate"], all_["rate"] / one["rate"], 100 * all_["idle"]))
        for p in PARTS:
            one, all_ = (self.figures.get("tlr-%d on %d" % (p, g)) for g in (1, n))
            if one and all_:
                print("factor by tiles in %d parts    %8.2f %8.2f s, %5.2f times, bits %s" % (
                    p, one["seconds"], all_["seconds"], one["seconds"] / all_["seconds"],
                    "equal" if one["bits"] == all_["bits"] else "DIFFER"))

    def all(self, steps):
        print("on one GPU", flush=True)
        self.single(steps)
        for step in steps:
            if time.monotonic() - self.start > self.seconds:
                print("%s: left out, %d s are over" % (step, self.seconds))
                continue
            print(step, flush=True)
            getattr(self, {"tlr": "tlr_all"}.get(step, step))()
            with open(os.path.join(self.out, "node.json"), "w", encoding="utf-8") as f:
                json.dump(self.figures, f, indent=1)
        self.table()
        shutil.rmtree(self.work, ignore_errors=True)


def stages(run, count):
    """Seconds of the stages; rate of the PSFs, of which a target has one an exposure, once the factor exists."""
    s = {x["stage"]: x["time_s"] for x in run["stages"]}
    idle = {x["stage"]: x["idle_share"] for x in run["stages"]}
    work = s["solve"] + s["exposure"] + s["psf"]
    return {"factor": s["factor"], "solve": s["solve"], "exposure": s["exposure"], "all but setup": s["total"] - s["setup"],
            "elapsed": run["elapsed_s"], "psfs": count, "rate": count / work, "idle": idle["total"]}


def sums(path):
    """DATASUM of every unit of a FITS file."""
    found = []
    with open(path, "rb") as f:
        text = f.read()
    for card in re.findall(rb"DATASUM = '([0-9 ]+)'", text):
        found.append(card.strip())
    return found


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--gpus", type=int, help="how many (all that nvidia-smi lists)")
    ap.add_argument("--build", default=os.path.join(ROOT, "build"))
    ap.add_argument("--out", default=os.path.join(ROOT, "bench", "results", "node"))
    ap.add_argument("--seconds", type=float, default=3600)
    ap.add_argument("steps", nargs="*", metavar="STEP", help="of " + ", ".join(STEPS))
    a = ap.parse_args()
    if set(a.steps) - set(STEPS):
        ap.error("%s: no such step" % " ".join(sorted(set(a.steps) - set(STEPS))))
    listed = ""
    if shutil.which("nvidia-smi"):
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout
    print(listed.strip() or "no GPU")
    a.gpus = a.gpus or len(listed.splitlines())
    if a.gpus < 2:
        ap.error("two GPUs are needed at least")
    Node(a).all(a.steps or STEPS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
