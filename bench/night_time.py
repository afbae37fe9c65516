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

From nodes (docs/field-maps.md), where RUN was from --nodes N: W and the residual are of a node, images of a target,

    residual       (exposure - samples) / residuals of nodes (run.json, sampling; else nodes x exposures)
    image          (psf + output) / (targets x exposures)

and the night has the nodes and residuals of `moao check FILE targets.tolerance=T --json` (--tolerance), which may grow by those that
comparisons add. The rates of a run on G GPUs (--run-gpus) are of G targets at a time.
"""
import argparse
import json
import math
import subprocess

PUBLISHED = 4.0  # seconds for a PSF at full scale, on up to 6,144 nodes with 196,608 cores (Ltaief et al. 2018)


def counts(moao, path, tolerance=None):
    """Reconstructors, exposures, targets, nodes and their residuals of a file (of all targets where no tolerance is given)."""
    words = ["targets.tolerance=%g" % tolerance, "targets.sampling=nodes"] if tolerance else []
    text = subprocess.run([moao, "check", path, "--json", "compute.backend=gpu"] + words, stdout=subprocess.PIPE, universal_newlines=True,
                          check=False).stdout
    found = json.loads(text)
    tors, exposures, targets = (found[key] for key in ("reconstructors", "exposures", "targets"))
    if tolerance:
        return tors, exposures, targets, found["nodes"], found["node_residuals"]
    return tors, exposures, targets, targets, exposures * targets


def rates(path, tors, targets, exposures, nodes, gpus=1):
    """Seconds of setup, a reconstructor with its samples, W of a node, its residual, and images of a target."""
    with open(path, encoding="utf-8") as f:
        run = json.load(f)
    stage = {s["stage"]: s["time_s"] for s in run["stages"]}
    samples = run.get("precision", {}).get("samples_time_s", 0)
    residuals = run.get("sampling", {}).get("node_residuals", nodes * exposures)
    return (stage["setup"], (stage["matcov"] + stage["factor"] + samples) / tors, stage["solve"] * gpus / (tors * nodes),
            (stage["exposure"] - samples) * gpus / residuals, (stage["psf"] + stage["output"]) * gpus / (targets * exposures))


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
    p.add_argument("--nodes", type=int, help="of the short run, where it was from nodes")
    p.add_argument("--tolerance", type=float, help="targets.tolerance of the night, with --nodes")
    p.add_argument("--run-gpus", type=int, default=1, help="GPUs of the short run")
    p.add_argument("--gpus", type=int, nargs="*", default=[1, 8, 64])
    p.add_argument("--moao", default="build/moao")
    a = p.parse_args()
    if (a.nodes is None) != (a.tolerance is None):
        p.error("--nodes and --tolerance go together")
    tors, exposures, targets, nodes, residuals = counts(a.moao, a.file, a.tolerance)
    setup, factor, solve, residual, image = rates(a.run, a.tors, a.targets, a.exposures, a.nodes or a.targets, a.run_gpus)
    print("%d reconstructors, %d exposures, %d targets: %d PSFs" % (tors, exposures, targets, targets * exposures))
    if a.nodes:
        print("%d nodes, %d residuals; reconstructor %.2f s, W of a node %.2f s, its residual %.3f s, images of a target %.4f s" % (
            nodes, residuals, factor, solve, residual, image))
    else:
        print("reconstructor %.2f s, W of a target %.2f s, PSF %.3f s" % (factor, solve, residual + image))
    print("| GPUs | targets of a GPU | night | per PSF, all included |")
    print("| --- | --- | --- | --- |")
    for n in a.gpus:
        mine, own = math.ceil(targets / n), math.ceil(nodes / n)
        left = math.ceil(residuals / n) if a.nodes else own * exposures
        time = setup + tors * factor + own * tors * solve + left * residual + mine * exposures * image
        print("| %d | %d | %s | %.3g s |" % (n, mine, duration(time), time / (targets * exposures)))
    print("| published, 196,608 cores | | %s | %.0f s |" % (duration(PUBLISHED * targets * exposures), PUBLISHED))


if __name__ == "__main__":
    main()
