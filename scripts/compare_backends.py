#!/usr/bin/env python3
"""The same parameters on the CPU and on a GPU: every value of maps.fits within a share of the largest of its kind.

    compare_backends.py FILE... [--moao PROGRAM] [--ranks N] [--tolerance 1e-6]
    compare_backends.py --folders CPU-RESULTS GPU-RESULTS

The first form runs `moao run FILE compute.backend=cpu` on one rank and `compute.backend=gpu` on N (of the shipped
files, say, demo.yaml, canary.yaml and elt-small.yaml); the second compares two folders of results. Needs astropy.
"""
import argparse
import os
import subprocess
import sys
import tempfile

from needs import needs

needs("numpy", "astropy")
import numpy as np  # noqa: E402
from astropy.io import fits  # noqa: E402


def values(folder):
    """Numbers of every image and column of maps.fits: {name: array}."""
    found = {}
    with fits.open(os.path.join(folder, "maps.fits")) as f:
        for hdu in f:
            if hdu.data is None:
                continue
            parts = {n: hdu.data[n] for n in hdu.data.dtype.names or ()} or {"": hdu.data}
            for name, data in parts.items():
                if np.asarray(data).dtype.kind == "f":
                    found[hdu.name + (name and "." + name)] = np.array(data, dtype=float)
    return found


def compare(cpu, gpu, label, tolerance):
    """Print the worst difference; whether it is within the tolerance and the same values are known."""
    a, b = values(cpu), values(gpu)
    if sorted(a) != sorted(b):
        print("%s: not the same maps: %s" % (label, sorted(set(a) ^ set(b))))
        return False
    worst, where = 0.0, "any"
    for name, x in a.items():
        known = ~np.isnan(x)
        if x.shape != b[name].shape or (known != ~np.isnan(b[name])).any():
            print("%s: %s: not the same values are known" % (label, name))
            return False
        if known.any():
            error = np.max(np.abs(x - b[name])[known]) / max(np.max(np.abs(x[known])), 1e-300)
            if not error <= worst:
                worst, where = error, name
    fine = worst <= tolerance
    print("%s: worst difference %.1e (%s)%s" % (label, worst, where, "" if fine else ", over %.1e" % tolerance))
    return fine


def run(moao, ranks, parameters, backend, folder):
    command = ["mpirun", "-n", str(ranks), moao, "run", parameters, "compute.backend=" + backend, "-o", folder, "-q"]
    p = subprocess.run(command, check=False)
    if p.returncode != 0:
        sys.exit("%s: exit code %d" % (" ".join(command), p.returncode))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("files", nargs="*", metavar="FILE")
    ap.add_argument("--folders", nargs=2, metavar="FOLDER")
    ap.add_argument("--moao", default="build/moao")
    ap.add_argument("--ranks", type=int, default=1)
    ap.add_argument("--tolerance", type=float, default=1e-6)
    a = ap.parse_args()
    if bool(a.files) == bool(a.folders):
        ap.error("parameter files, or two folders")
    fine = True
    if a.folders:
        fine = compare(a.folders[0], a.folders[1], a.folders[1], a.tolerance)
    for name in a.files:
        with tempfile.TemporaryDirectory() as tmp:
            cpu, gpu = os.path.join(tmp, "cpu"), os.path.join(tmp, "gpu")
            run(a.moao, 1, name, "cpu", cpu)
            run(a.moao, a.ranks, name, "gpu", gpu)
            fine = compare(cpu, gpu, name, a.tolerance) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
