"""TIPTOP's own Shack-Hartmann files imported and run, beside what TIPTOP makes of them: the second part of `make validation`.

The files are those of the folder perfTest in TIPTOP's package (astro-tiptop), which is installed from PyPI into an environment of its own; nothing
of them is kept. Both programs get the same reduced file: COARSER subapertures and actuators (their photons stay), the annular pupil, no map of static
errors, no spectrum of windshake, no focus sensors; two targets, on the axis and off. Strehl ratios at the first wavelength of the science; files for the visible are
computed at 1.65 um, since so coarse a mirror leaves nothing to compare there. Then the same with 100 times the photons and a read-out noise of 0.1 e-
(quiet). Below each row the error terms on the axis [nm] of either program, where it has them.

Loops are open in this program, with TIPTOP's delay, as in the table of docs/validation.md; --closed takes the file's gains.

usage: compare_tiptop_files.py FOLDER [--closed] [NAME...]      (of the environment; needs build/moao, python3-venv, and PyPI the first time)
"""
import os
import re
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
sys.path.insert(0, os.path.join(ROOT, "tests"))
from moao_test import MOAO, environment  # noqa: E402

os.environ.update(environment(), MOAO=MOAO)
import moao  # noqa: E402
from moao import importers  # noqa: E402

# the rest of TIPTOP's needs are for machine learning
PACKAGES = ["astro-tiptop==1.6.0", "astro-p3==1.6.4", "mastsel==1.5.4", "symao==1.0.2", "astro-seeing==1.2", "mpl_scatter_density", "fast-histogram"]
NEEDS = ["numpy", "scipy", "sympy", "astropy", "matplotlib", "pyyaml"]
# name: how many times coarser, angle of the target off the axis [arcsec]
FILES = {"ERIS": (2, 10), "ERIS_LGS": (2, 10), "SPHERE": (2, 5), "MUSE_LTAO": (4, 20), "dummy": (1, 10), "MAVIS": (4, 15), "MAVIStest": (4, 15),
         "HarmoniLTAO_1": (5, 10), "HarmoniLTAO_2": (5, 10), "HarmoniLTAO_3": (5, 10), "MORFEO": (5, 20)}
VISIBLE = 1e-6  # wavelengths below [m]
CLOSED = "--closed" in sys.argv[2:]
TERMS = ("WFE_FIT", "WFE_ALIAS", "WFE_NOISE", "WFE_LAG", "WFE_TOMO")
THEIRS = ("Fit", "Al", "N", "S", "Tomo", "ST", "McaoCone", "Extra", "Jitter", "Tot")
DROPPED = {"telescope": ("PathPupil", "PathStaticOn", "PathApodizer", "PathStatModes", "windPsdFile", "glFocusOnNGS", "zCoefStaticOn", "PupilAngle")}
# TIPTOP without the parts that need machine learning: its package is not executed, its module of simulations is
MODEL = """
import importlib.util, os, sys, types
spec = importlib.util.find_spec("tiptop")
package = types.ModuleType("tiptop")
package.__path__, package.__file__ = list(spec.submodule_search_locations), spec.origin
sys.modules["tiptop"] = package
if len(sys.argv) < 2:
    print("value", os.path.dirname(spec.origin))
    sys.exit()
from tiptop.baseSimulation import baseSimulation
folder, name = os.path.split(sys.argv[1])
s = baseSimulation(folder, name[:-4], folder, "out", getHoErrorBreakDown=True)
s.doOverallSimulation()
s.computeMetrics()
sr = s.sr[0] if s.nWvl > 1 else s.sr
print("value", *[float(v) for v in sr])
print("ho", *[float(v) for v in s.HO_res])
print("lo", *([float(v) for v in s.LO_res] if s.LOisOn else []))
def first(v):
    return float(v) if not hasattr(v, "__len__") else first(v[0])
print("terms", *["%s=%.1f" % (k[3:], first(v)) for k, v in sorted(vars(s.fao).items()) if k.startswith("wfe") and v is not None])
"""


def installed(folder):
    """Its Python, with TIPTOP."""
    python = os.path.join(folder, "bin", "python3")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    found = subprocess.run([python, "-c", MODEL], capture_output=True).returncode == 0
    if not found and any(subprocess.run([python, "-m", "pip", "install", "-q", *words]).returncode for words in (NEEDS, ["--no-deps", *PACKAGES])):
        sys.exit("validation: %s cannot be installed from PyPI: no comparison with TIPTOP's files" % " ".join(PACKAGES))
    return python


def model(python, *words):
    """Lines of the model, by their first word."""
    p = subprocess.run([python, "-c", MODEL, *words], capture_output=True, text=True, env=dict(os.environ, MPLBACKEND="agg"))
    got = {m[0]: m[1].split() for m in re.findall(r"^(value|ho|lo|terms) ?(.*)$", p.stdout, re.M)}
    if p.returncode != 0 or "value" not in got:
        sys.exit("validation: TIPTOP failed:\n" + p.stdout[-500:] + p.stderr[-1500:])
    return got


def scaled(text, factor, whole=False):
    """A list of numbers, each multiplied."""
    values = [float(v) * factor for v in re.findall(r"[-+.\deE]+", text)]
    return "[%s]" % ", ".join("%d" % round(v) if whole else "%.9g" % v for v in values)


def reduced(text, coarser, angle, quiet=False):
    """The file with fewer subapertures and actuators, two targets, and without what only one of the programs reads. quiet: with sensors without noise."""
    out, section, redder = [], None, 1  # sources_science comes before sensor_science
    for line in text.replace("\r", "").split("\n"):
        m = re.match(r"\s*\[(\w+)\]", line)
        section = m.group(1) if m else section
        key, _, value = (w.strip() for w in line.partition("="))
        value = re.split(r"[#;]", value)[0]
        if section.endswith("_Focus") if section else False:
            continue
        if key in DROPPED.get(section, ()) or line.lstrip()[:1] in "#;" or key.endswith("_Focus"):
            continue
        if (section, key) in (("sensor_HO", "NumberLenslets"), ("DM", "NumberActuators")):
            line = "%s = %s" % (key, scaled(value, 1 / coarser, True))
        elif (section, key) in (("sensor_HO", "SizeLenslets"), ("DM", "DmPitchs")):
            line = "%s = %s" % (key, scaled(value, coarser))
        elif section == "sources_science" and key in ("Zenith", "Azimuth"):
            line = "%s = [0.0, %g]" % (key, angle if key == "Zenith" else 0)
        elif section == "sources_science" and key == "Wavelength":
            wave = float(re.findall(r"[\d.eE+-]+", value)[0])
            redder = max(1.65e-6 / wave, 1) if wave < VISIBLE else 1
            line = "%s = [%.4g]" % (key, wave * redder)
        elif (section, key) == ("sensor_science", "PixelScale"):
            line = "%s = %.6g" % (key, float(value) * redder)
        elif quiet and key in ("SigmaRON", "Dark", "SkyBackground"):
            line = "%s = %s" % (key, 0.1 if key == "SigmaRON" else 0)
        elif quiet and key == "NumberPhotons" and section.startswith("sensor"):
            line = "%s = %s" % (key, scaled(value, 100))
        elif (section, key) == ("telescope", "Resolution"):
            line = "%s = %d" % (key, max(int(float(value)) // coarser // 2 * 2, 64))
        out.append(line)
    return "\n".join(out) + "\n"


def run(path, folder):
    """(Strehl ratios of the targets, wavefront error of the first [nm], seconds) of this program, from the imported file."""
    case = moao.Case(path)
    case["output.psf"] = "none"
    start = time.time()
    r = case.run(folder=folder, progress=None)
    seconds = time.time() - start
    terms = ["%s %.1f" % (k, float(r.value(k).ravel()[0])) for k in TERMS if k in r.quantities]
    return [float(v) for v in r.strehl().ravel()], seconds, terms


def both(python, text, quiet):
    """(wavelength [um], ours, theirs) of a file; each has Strehl ratios of the targets, a line of error terms [nm], seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "case.ini")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        loops = path[:-4] + "-loops.ini"
        with open(loops, "w", encoding="utf-8") as f:
            f.write(text if CLOSED else re.sub(r"(?m)^\s*LoopGain_HO\s*=.*$", "", text))
        made = importers.read(loops)
        with open(path[:-4] + ".yaml", "w", encoding="utf-8") as f:
            # the width of spots counts in the noise alone
            f.write(made.text().replace("spot: corrected", "spot: full") if quiet else made.text())
        strehl, seconds, terms = run(path[:-4] + ".yaml", os.path.join(folder, "run"))
        start = time.time()
        got = model(python, path)
    shown = dict(t.split("=") for t in got["terms"])
    line = ", ".join(["%s %s" % (k, shown[k]) for k in THEIRS if float(shown.get(k, 0))] + ["LO %.1f" % float(v) for v in got.get("lo", [])[:1]])
    return made.parameters["psf"]["wavelengths"][0], (strehl, ", ".join(terms) or "no error budget with mirrors at altitudes", seconds), (
        [float(v) for v in got["value"]], line, time.time() - start)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    python = installed(os.path.abspath(sys.argv[1]))
    source = os.path.join(model(python)["value"][0], "perfTest")
    print("%-13s %7s %5s %4s  %-15s %-15s  %-15s %-15s  %s" % ("file", "coarser", "um", "off", "axis, noise", "off", "axis, quiet", "off", "seconds"))
    for name in [w for w in sys.argv[2:] if w != "--closed"] or FILES:
        coarser, angle = FILES[name]
        with open(os.path.join(source, name + ".ini"), encoding="utf-8") as f:
            text = f.read()
        cells, lines, seconds = [], [], []
        for quiet in (False, True):
            wave, ours, theirs = both(python, reduced(text, coarser, angle, quiet), quiet)
            cells += ["%.4f / %.4f" % pair for pair in zip(ours[0], theirs[0])]
            lines += ["    %s moao:   %s" % ("quiet" if quiet else "noise", ours[1]), "          TIPTOP: %s" % theirs[1]]
            seconds += ["%.0f" % ours[2], "%.0f" % theirs[2]]
        print("%-13s %7d %5.2f %4g  %-15s %-15s  %-15s %-15s  %s" % (name, coarser, wave, angle, *cells, " ".join(seconds)))
        print("\n".join(lines), flush=True)


if __name__ == "__main__":
    main()
