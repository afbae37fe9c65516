"""TIPTOP beside moao, for what both have: `make validation`.

TIPTOP's high orders are the Fourier model of the package astro-p3, which is installed from PyPI into an environment of its own
(build/validation), without the packages for machine learning that the rest of TIPTOP needs. That model has no edge of the pupil and
no finite number of actuators: frequencies inside the mirror's square are corrected as far as the sensors see them.

usage: compare_tiptop.py FOLDER      (of the environment; needs build/moao, python3-venv, and PyPI the first time)
"""
import math
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
from test_truth import case, layers, run  # noqa: E402

PACKAGES = ["astro-p3==1.6.4", "mastsel==1.5.4", "symao==1.0.2"]
WAVES = [0.8, 1.02, 1.25, 1.65, 2.2]
PROFILE = ([0, 5000, 10000], [0.5, 0.3, 0.2], 0.125)
MODEL = """
import re, sys
from p3.aoSystem.fourierModel import fourierModel
f = fourierModel(sys.argv[1], calcPSF=True, verbose=False, display=False, getErrorBreakDown=True, getFWHM=False,
                 getEnsquaredEnergy=False, getEncircledEnergy=False)
def first(v):
    return float(v) if not hasattr(v, "__len__") else first(v[0])
for name in ("SR", "wfeFit", "wfeAl", "wfeTot"):
    print("value", name, first(getattr(f, name)))
"""
INI = """
[telescope]
TelescopeDiameter = %(diameter)g
ZenithAngle = 0.0
ObscurationRatio = 0.14
Resolution = %(resolution)d
[atmosphere]
Wavelength = 500e-9
Seeing = %(seeing).6f
L0 = 25.0
Cn2Weights = %(weights)s
Cn2Heights = %(heights)s
WindSpeed = [0.001, 0.001, 0.001]
WindDirection = [0., 0., 0.]
[sources_science]
Wavelength = [%(wave)ge-6]
Zenith = [%(angle)g]
Azimuth = [0.0]
[sources_HO]
Wavelength = 650e-9
Zenith = %(zenith)s
Azimuth = %(azimuth)s
Height = %(height)g
[sensor_science]
PixelScale = %(pixel).4f
FieldOfView = 400
[sensor_HO]
WfsType = 'Shack-Hartmann'
Modulation = None
PixelScale = 500
FieldOfView = 8
NumberPhotons = %(photons)s
SigmaRON = 0.0
NoiseVariance = %(noise)s
NumberLenslets = %(lenslets)s
SizeLenslets = %(sizes)s
[DM]
NumberActuators = [%(actuators)d]
DmPitchs = [0.8]
InfModel = 'gaussian'
InfCoupling = [0.2]
DmHeights = [0.0]
OptimizationZenith = [%(angle)g]
OptimizationAzimuth = [0.0]
OptimizationWeight = [1.0]
NumberReconstructedLayers = 3
AoArea = 'square'
[RTC]
LoopGain_HO = 0.5
SensorFrameRate_HO = 1000.0
LoopDelaySteps_HO = 1
"""
STAR = {"type": "ngs", "noise_variance": 1e-6}
LASER = {"type": "lgs", "noise_variance": 1e-6, "altitude": 90000, "lgs_depth": 0, "tiptilt_variance": 0}  # its tilt is measured, as there


def environment(folder):
    """Its Python, with the model installed."""
    python = os.path.join(folder, "bin", "python3")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", folder], check=True)
    found = subprocess.run([python, "-c", "import p3.aoSystem.fourierModel"], capture_output=True).returncode == 0
    if not found and subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", *PACKAGES]).returncode != 0:
        sys.exit("validation: %s cannot be installed from PyPI: no comparison with TIPTOP" % " ".join(PACKAGES))
    return python


def tiptop(python, n, waves, angle, stars):
    """{wavelength [um]: (Strehl ratio, fitting, aliasing, total [nm])} of the Fourier model; stars: [(angle, azimuth)] in arcsec, deg."""
    found, k = {}, len(stars)
    for wave in waves:
        values = {"diameter": 0.8 * n, "resolution": 16 * n, "seeing": 0.976 * 500e-9 / PROFILE[2] * 206264.806, "weights": PROFILE[1],
                  "heights": [float(h) for h in PROFILE[0]], "wave": wave, "angle": angle, "zenith": [float(s[0]) for s in stars],
                  "azimuth": [float(s[1]) for s in stars], "pixel": wave / (0.8 * n) * 206.264806 / 3, "photons": [100000] * k,
                  "noise": [1e-6] * k, "lenslets": [n] * k, "sizes": [0.8] * k, "actuators": n + 1,
                  "height": 90000 if k > 1 else 0}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "case.ini")
            with open(path, "w", encoding="utf-8") as f:
                f.write(INI % values)
            p = subprocess.run([python, "-c", MODEL, path], capture_output=True, text=True, cwd=folder)
        got = {m[0]: float(m[1]) for m in re.findall(r"^value (\w+) (\S+)$", p.stdout, re.M)}
        if p.returncode != 0 or len(got) != 4:
            sys.exit("validation: the Fourier model failed:\n" + p.stdout[-500:] + p.stderr[-1500:])
        found[wave] = got["SR"] / 100, got["wfeFit"], got["wfeAl"], got["wfeTot"]
    return found


def moao(n, angle, stars):
    """The same of this program."""
    sensors = [{**(LASER if len(stars) > 1 else STAR), "nssp": n, "direction": [r * math.cos(math.radians(a)), r * math.sin(math.radians(a))]} for r, a in stars]
    c = case(sensors, n, diameter=0.8 * n, profile=layers(*PROFILE), targets=[(angle, 0)])
    r = run({**c, "psf": {"wavelengths": WAVES}, "output": {"psf": "none"}}, "gradient")
    t = r.table("TARGETS")
    terms = [float(t[k + "_LONG"].ravel()[0]) for k in ("WFE_FIT", "WFE_ALIAS", "WFE_TOTAL")]
    return {w: (s, *terms) for w, s in zip(WAVES, r.quantity("STREHL").ravel())}


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    python = environment(os.path.abspath(sys.argv[1]))
    ring = [(20, a) for a in (0, 90, 180, 270)]
    cases = (("8 m, star on the axis", 10, 0, [(0, 0)], WAVES), ("16 m, star on the axis", 20, 0, [(0, 0)], WAVES),
             ("8 m, 4 laser stars at 20 arcsec, on the axis", 10, 0, ring, WAVES),
             ("the same, 10 arcsec off", 10, 10, ring, WAVES))
    print("%-45s %-7s %s   fitting aliasing   total [nm]" % ("case", "", " ".join("%7g" % w for w in WAVES)))
    for name, n, angle, stars, waves in cases:
        for who, got in (("moao", moao(n, angle, stars)), ("TIPTOP", tiptop(python, n, waves, angle, stars))):
            shown = got[1.65]
            print("%-45s %-7s %s   %7.1f %8.1f %7.1f" % (name if who == "moao" else "", who, " ".join("%7.4f" % got[w][0] if w in got else 7 * " " for w in WAVES), *shown[1:]), flush=True)


if __name__ == "__main__":
    main()
