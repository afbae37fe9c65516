#!/usr/bin/env python3
"""Time of PSFs by one call, moao.psf and TIPTOP's Fourier model for the same system, on the same machine.

  bench_source.py FOLDER [--repeat N]     FOLDER: the environment with TIPTOP that `make validation` installs (build/validation-files)

The system: 8 m, 16 subapertures across, mirror on the pupil, slopes of little noise (1e-6 arcsec2), three layers, no delay. One natural star
on the axis, or four laser stars at 90 km on a ring of 20 arcsec whose tip and tilt are measured. TIPTOP's mirror is optimised for each
direction, as moao's is. Printed for each program: Strehl ratios at 1.65 um on the axis and 10 arcsec off; seconds on the wall and of
processors for the first PSF, for a PSF in another direction, for that PSF asked for again, and for 25 directions at once (TIPTOP's in one call
have one mirror, optimised for the axis). The start of Python and its imports is apart. Then moao.psf of params/demo.yaml, six exposures, in
full and reduced. The least of N repeats, each with a cache of its own.
"""
import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tests", "validation")]
os.environ.setdefault("MOAO", os.path.join(ROOT, "build", "moao"))
import moao  # noqa: E402
from compare_tiptop import INI, PROFILE  # noqa: E402

DIAMETER, NSSP, WAVE = 8.0, 16, 1.65
STARS = {"one natural star": [(0, 0)], "four laser stars": [(20, a) for a in (0, 90, 180, 270)]}
AXIS, OFF = (0.0, 0.0), (10.0, 0.0)
MANY = [(x, y) for y in (-10, -5, 0, 5, 10) for x in (-10, -5, 0, 5, 10)]
MODEL = """
import contextlib, io, os, sys, time
def clock():
    t = os.times()
    return time.monotonic(), t.user + t.system
begin = clock()
from p3.aoSystem.fourierModel import fourierModel
import numpy as np
def shown(what, since, f=None):
    now = clock()
    strehl = "" if f is None else " ".join("%.6f" % (v / 100) for v in np.ravel(f.SR))
    print("value", what, "%.3f %.3f" % (now[0] - since[0], now[1] - since[1]), strehl, flush=True)
shown("start", begin)
for what, path in (a.split("=") for a in sys.argv[1:]):
    since = clock()
    with contextlib.redirect_stdout(io.StringIO()):
        f = fourierModel(path, calcPSF=True, verbose=False, display=False, getErrorBreakDown=False, getFWHM=False,
                         getEnsquaredEnergy=False, getEncircledEnergy=False, computeFocalAnisoCov=False)
    shown(what, since, f)
"""


def ini(folder, name, stars, directions, aim):
    """A file of TIPTOP for these directions, its mirror optimised for the direction `aim`."""
    polar = [(math.hypot(*d), math.degrees(math.atan2(d[1], d[0]))) for d in directions]
    pitch, k = DIAMETER / NSSP, len(stars)
    text = INI % {"diameter": DIAMETER, "resolution": 16 * NSSP, "seeing": 0.976 * 500e-9 / PROFILE[2] * 206264.806, "weights": PROFILE[1],
                  "heights": [float(h) for h in PROFILE[0]], "wave": WAVE, "angle": math.hypot(*aim), "zenith": [float(s[0]) for s in stars],
                  "azimuth": [float(s[1]) for s in stars], "pixel": WAVE / DIAMETER * 206.264806 / 3, "photons": [100000] * k, "noise": [1e-6] * k,
                  "lenslets": [NSSP] * k, "sizes": [pitch] * k, "actuators": NSSP + 1, "height": 90000 if k > 1 else 0}
    text = text.replace("DmPitchs = [0.8]", "DmPitchs = [%g]" % pitch)
    for key, values in (("Zenith", [p[0] for p in polar]), ("Azimuth", [p[1] for p in polar])):  # of the science alone, which come first
        text = re.sub(r"(?m)^%s = .*$" % key, "%s = %s" % (key, values), text, count=1)
    path = os.path.join(folder, name + ".ini")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return "%s=%s" % (name, path)


def case(stars):
    """The same system as a case of this program."""
    own = {"type": "lgs", "altitude": 90000, "lgs_depth": 0, "tiptilt_variance": 0} if len(stars) > 1 else {"type": "ngs"}
    sensors = [dict(own, noise_variance=1e-6, nssp=NSSP, direction=[r * math.cos(math.radians(a)), r * math.sin(math.radians(a))]) for r, a in stars]
    return {"telescope": {"diameter": DIAMETER, "obscuration": 0.14}, "dm": {"nssp": NSSP}, "sensors": sensors,
            "atmosphere": {"profiles": [{"r0": PROFILE[2], "layers": {"altitude": PROFILE[0], "fraction": PROFILE[1], "L0": 25}}]},
            "schedule": {"tor_times": [0], "exposure_times": [0]}}


def clock():
    t = os.times()
    return time.monotonic(), sum(t[:4])


def theirs(python, stars):
    """{what: (seconds, of processors, Strehl ratios)} of TIPTOP."""
    with tempfile.TemporaryDirectory() as folder:
        words = [ini(folder, "first", stars, [AXIS], AXIS), ini(folder, "other", stars, [OFF], OFF), ini(folder, "again", stars, [OFF], OFF),
                 ini(folder, "many", stars, MANY, AXIS)]
        p = subprocess.run([python, "-c", MODEL, *words], capture_output=True, text=True, cwd=folder, env=dict(os.environ, MPLBACKEND="agg"))
    if p.returncode != 0:
        sys.exit("bench_source.py: TIPTOP failed:\n" + p.stderr[-1500:])
    return {m[0]: (float(m[1]), float(m[2]), [float(v) for v in m[3].split()]) for m in re.findall(r"^value (\w+) (\S+) (\S+)(.*)$", p.stdout, re.M)}


def ours(source, **how):
    """The same of moao.psf."""
    found, begin = {}, clock()
    subprocess.run([sys.executable, "-c", "import moao, moao.source"], check=True, env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python")))
    found["start"] = tuple(b - a for a, b in zip(begin, clock())) + ([],)
    with tempfile.TemporaryDirectory() as cache:
        for what, at in (("first", [AXIS]), ("other", [OFF]), ("again", [OFF]), ("many", MANY)):
            begin = clock()
            made = moao.psf([p[0] for p in at], [p[1] for p in at], WAVE, case=source, cache=cache, **how)
            found[what] = tuple(b - a for a, b in zip(begin, clock())) + ([p.strehl for p in made],)
    moao.source._kept.clear()
    return found


def least(call, n):
    """Of n repeats the least seconds of each step."""
    got = [call() for _ in range(n)]
    return {k: (min(g[k][0] for g in got), min(g[k][1] for g in got), got[0][k][2]) for k in got[0]}


def line(who, got):
    pair = "%7.4f %7.4f" % (got["first"][2][0], got["other"][2][0])
    print("%-28s %s  %s" % (who, pair, "  ".join("%6.2f %6.2f" % got[k][:2] for k in ("start", "first", "other", "again", "many"))), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", metavar="FOLDER")
    p.add_argument("--repeat", type=int, default=1, metavar="N")
    a = p.parse_args()
    python = os.path.join(os.path.abspath(a.folder), "bin", "python3")
    if not os.access(python, os.X_OK):
        sys.exit("bench_source.py: no environment with TIPTOP in %s: make validation" % a.folder)
    print("%-28s %15s  %s" % ("", "Strehl, 10 off", "  ".join("%13s" % w for w in ("start", "first PSF", "another", "again", "25 at once"))))
    print("%-28s %15s  %s" % ("", "", "  ".join("  wall   proc" for _ in range(5))))
    for name, stars in STARS.items():
        print(name)
        line("  TIPTOP", least(lambda: theirs(python, stars), a.repeat))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "case.yaml")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(case(stars), f, indent=1)  # which is YAML
            line("  moao", least(lambda: ours(path), a.repeat))
            line("  moao, reduced=\"slopes\"", least(lambda: ours(path, reduced="slopes"), a.repeat))
    print("params/demo.yaml")
    for what in (False, "exposures", "slopes", True):
        line("  moao, reduced=%r" % (what,), least(lambda: ours(os.path.join(ROOT, "params", "demo.yaml"), reduced=what), a.repeat))
    print("load %.1f on %d cores" % (os.getloadavg()[0], os.cpu_count()))


if __name__ == "__main__":
    main()
