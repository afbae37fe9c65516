"""pyTomoAO's reconstructor for Keck's KAPA beside that of moao, entry by entry: `make validation`.

pyTomoAO (W. M. Keck Observatory) is installed from PyPI into the environment of the comparisons. Its reconstructor gives the phase on
the axis; the gradients by which it makes slopes of phases make on-axis slopes of it, which are what R of moao gives: R = Ctm Cmm^-1.
Both have the subapertures, stars, layers and the noise of its file, and laser stars whose tip and tilt are measured.

usage: compare_pytomoao.py FOLDER      (of the environment; needs build/moao, python3-venv, and PyPI the first time)
"""
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from astropy.io import fits

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
from moao_case import Run  # noqa: E402

PACKAGE = "pyTomoAO==2.0.0"
RAD = 500e-9 / (2 * np.pi) / 0.5 * 206264.806  # arcsec of a subaperture of 0.5 m for a radian at 500 nm across it
THEIRS = """
import sys, time
import numpy as np
from pyTomoAO import example_config
from pyTomoAO.reconstructor import tomographicReconstructor
alpha, out = float(sys.argv[1]), sys.argv[2]
r = tomographicReconstructor(example_config("kapa"), force_cpu=True)
clock, processor = time.perf_counter(), time.process_time()
r.build_reconstructor(alpha=alpha)
clock, processor = time.perf_counter() - clock, time.process_time() - processor
G = r.Gamma.tocsr()
one = G[: G.shape[0] // 4, : G.shape[1] // 4]
np.savez(out, R=one @ r.RecStatSA, C=G @ (G @ r.Cxx).T + r.CnZ, noise=r.CnZ[0, 0], mask=r.lgsWfsParams.validLLMap, clock=clock,
         processor=processor)
"""
CASE = """
telescope: {diameter: 10, obscuration: 0.2, zenith: 30}
dm: {nssp: 20, coupling: 0.15}
sensors:
  - {name: LGS, type: lgs, ring: {n: 4, radius: 7.6}, nssp: 20, altitude: 90000, lgs_depth: 0, tiptilt_factor: 0, noise_variance: %.17g}
targets: {list: [[0, 0]]}
atmosphere:
  profiles:
    - r0: 0.186
      layers: {altitude: [0, 500, 1000, 2000, 4000, 8000, 16000], fraction: [0.4557, 0.1295, 0.0442, 0.0506, 0.1167, 0.0926, 0.1107],
               L0: 30}
psf: {wavelengths: [2.2], residual: sensor}
output: {psf: none, budget: none, matrices: [Cmm, R]}
"""


def environment(folder):
    """Its Python, with pyTomoAO installed."""
    python = os.path.join(folder, "bin", "python3")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    if subprocess.run([python, "-c", "import pyTomoAO"], capture_output=True).returncode != 0 and \
            subprocess.run([python, "-m", "pip", "install", "-q", PACKAGE]).returncode != 0:
        sys.exit("validation: %s cannot be installed from PyPI: no comparison with it" % PACKAGE)
    return python


def order(mask):
    """Places of pyTomoAO's slopes of a sensor (columns one after the other, x then y) in the order of moao (rows)."""
    rows, columns = np.nonzero(mask)
    theirs = {place: k for k, place in enumerate(sorted(zip(rows, columns), key=lambda p: (p[1], p[0])))}
    one = np.array([theirs[p] for p in zip(rows, columns)])
    return np.concatenate([one, one + len(one)])


def compare(name, got, theirs):
    """Differences in units of the largest entry and, rms, of the entries' rms; the largest one's relative difference."""
    d = got - theirs
    at = np.unravel_index(np.argmax(abs(d)), d.shape)
    print("%-6s largest entry %.6g; largest difference %.3e of it, at an entry of %.6g here, %.6g there; rms %.3e of the rms" % (
        name, abs(theirs).max(), abs(d).max() / abs(theirs).max(), got[at], theirs[at], np.sqrt((d ** 2).mean() / (theirs ** 2).mean())))
    return abs(d).max() / abs(theirs).max()


def theirs(python, alpha, folder):
    """Matrices of pyTomoAO for its weight alpha of the noise, and the times it took."""
    path = os.path.join(folder, "theirs.npz")
    p = subprocess.run([python, "-c", THEIRS, str(alpha), path], capture_output=True, text=True)
    if p.returncode != 0:
        sys.exit("validation: pyTomoAO failed:\n" + p.stderr[-1500:])
    return dict(np.load(path))


def whole(mask):
    """Which slopes of a sensor are those of subapertures that the round pupil does not cut, in the order of moao."""
    y, x = np.nonzero(mask)
    far = np.hypot(abs(x - 9.5) + 0.5, abs(y - 9.5) + 0.5)
    near = np.hypot(np.maximum(abs(x - 9.5) - 0.5, 0), np.maximum(abs(y - 9.5) - 0.5, 0))
    return np.tile((far <= 10) & (near >= 2), 2)


def main():
    python = environment(sys.argv[1])
    for alpha in (10, 0.01):
        with tempfile.TemporaryDirectory() as folder:
            t = theirs(python, alpha, folder)
            noise = float(t["noise"]) * RAD ** 2
            print("alpha %g (noise %.4g arcsec2): pyTomoAO %.1f s, %.1f s of processors" % (alpha, noise, t["clock"], t["processor"]))
            one = order(t["mask"])
            four = np.concatenate([one + k * len(one) for k in range(4)])
            clock, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            r = Run(CASE % noise)
            print("moao, the whole run with its files %.1f s, %.1f s of processors" % (
                time.perf_counter() - clock, resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used))
            got, other, lit = r.matrix("Cmm0_tor0"), t["C"][np.ix_(four, four)] * RAD ** 2, np.tile(whole(t["mask"]), 4)
            compare("Cmm", got, other)
            compare("whole", got[np.ix_(lit, lit)], other[np.ix_(lit, lit)])  # of subapertures that are not cut
            compare("R", r.matrix("R_tor0_target0"), t["R"][np.ix_(one, four)])


if __name__ == "__main__":
    main()
