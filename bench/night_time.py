#!/usr/bin/env python3
"""What a whole night takes on 1, 8 and 64 GPUs, from the rates of a short run, beside the published machine.

    bench/night_time.py params/mosaic.yaml RUN/run.json --targets 4 --exposures 2 [--tors 1] [--gpus 1 8 64]

The counts of the night are those of `moao check FILE`; RUN is a run of the same file with fewer targets and exposures
(their numbers per reconstructor are given), and its stages give the rates:

    reconstructor  (matcov + factor) / tors            each GPU makes it for itself
    W              solve / targets
    PSF            (exposure + psf + output - samples) / (targets x exposures)
    samples        in mixed precision (run.json, precision), / tors: those of a reconstructor, whatever the number of targets

A GPU has ceil(targets / GPUs) targets: time = setup + tors x (reconstructor + samples) + targets of a GPU x (tors x W + exposures x PSF).
"""
import argparse
import json
import math
import re
import subprocess

PUBLISHED = 4.0  # seconds for a PSF at full scale, on up to 6,144 nodes with 196,608 cores (Ltaief et al. 2018)


def counts(moao, path):
    """Reconstructors, exposures and targets of a file."""
    text = subprocess.run([moao, "check", path, "compute.backend=gpu"], stdout=subprocess.PIPE, universal_newlines=True,
                          check=False).stdout
    tors, exposures = map(int, re.search(r"schedule +(\d+) reconstructors?, (\d+) exposures?", text).groups())
    targets = re.search(r"^targets +(\d+)(?: x (\d+))?", text, re.M).groups()
    return tors, exposures, int(targets[0]) * int(targets[1] or 1)


def rates(path, tors, targets, exposures):
    """Seconds of setup, a reconstructor with its samples, W of a target, and a PSF."""
    with open(path, encoding="utf-8") as f:
        run = json.load(f)
    stage = {s["stage"]: s["time_s"] for s in run["stages"]}
    samples = run.get("precision", {}).get("samples_time_s", 0)
    return (stage["setup"], (stage["matcov"] + stage["factor"] + samples) / tors, stage["solve"] / (tors * targets),
            (stage["exposure"] + stage["psf"] + stage["output"] - samples) / (targets * exposures))


def duration(seconds):
    if seconds >= 2 * 86400:
        return "%.1f days" % (seconds / 86400)
    return "%.1f h" % (seconds / 3600) if seconds >= 7200 else "%.0f min" % (seconds / 60)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("run", help="run.json of the short run")
    p.add_argument("--targets", type=int, required=True, help="of the short run")
    p.add_argument("--exposures", type=int, required=True, help="of the short run, all together")
    p.add_argument("--tors", type=int, default=1, help="reconstructors of the short run")
    p.add_argument("--gpus", type=int, nargs="*", default=[1, 8, 64])
    p.add_argument("--moao", default="build/moao")
    a = p.parse_args()
    tors, exposures, targets = counts(a.moao, a.file)
    setup, factor, solve, psf = rates(a.run, a.tors, a.targets, a.exposures)
    print("%d reconstructors, %d exposures, %d targets: %d PSFs" % (tors, exposures, targets, targets * exposures))
    print("reconstructor %.2f s, W of a target %.2f s, PSF %.3f s" % (factor, solve, psf))
    print("| GPUs | targets of a GPU | night | per PSF, all included |")
    print("| --- | --- | --- | --- |")
    for n in a.gpus:
        mine = math.ceil(targets / n)
        time = setup + tors * factor + mine * (tors * solve + exposures * psf)
        print("| %d | %d | %s | %.3g s |" % (n, mine, duration(time), time / (targets * exposures)))
    print("| published, 196,608 cores | | %s | %.0f s |" % (duration(PUBLISHED * targets * exposures), PUBLISHED))


if __name__ == "__main__":
    main()
