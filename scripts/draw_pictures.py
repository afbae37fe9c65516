#!/usr/bin/env python3
"""Draw the pictures of docs/ anew, each from a small run (some minutes for all):  make pictures [PICTURES="view demo"]

docs/pictures.json keeps for each picture what it was drawn from: checksums of the scripts and parameter files that draw it, of the
picture itself, and the program's version series. `draw_pictures.py --check`, which `make lint` runs, names those that are older than
what they show. Needs what `make demo` and `make check` install; of the page also chromium, chromedriver and python3-selenium.
"""
import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIST = os.path.join(ROOT, "docs", "pictures.json")
WORK = os.path.join(ROOT, "build", "pictures")  # runs stay here and are used again with --keep
PLOTS = ["python/moao/plots.py", "python/moao/plots_maps.py", "python/moao/plots_text.py"]
FEWER = ["targets.grid.nx=4", "targets.grid.ny=4"]
WANT = ["--choose", "3", "--limit", "15", "--radius", "75", "--want", "min ee 75mas over targets"]


FIELD = """
telescope: {diameter: 4 m, obscuration: 0.2}
dm: {nssp: 6}
ngs_defaults: {nssp: 6, magnitude: 9, slope: points, frame_time: 2 ms}
sensors:
  - {type: ngs, direction: [20, 10]}
  - {type: ngs, direction: [-25, 15]}
  - {type: ngs, direction: [5, -17]}
targets: {grid: {nx: 41, width: 40 arcsec}, tolerance: 1e-3}
atmosphere:
  profiles:
    - {r0: 15 cm, layers: {altitude: [0, 4 km, 10 km], fraction: [0.6, 0.25, 0.15], L0: 25 m}}
psf: {wavelengths: [1.65 um], ee_boxes: [100 mas, 200 mas]}
output: {psf: none}
"""


class Picture:
    """A picture: draw(path) writes it; files that it is drawn by and from; None: drawn from a measurement that is not repeated here,
    by the command in `note`."""

    def __init__(self, draw, files, note=""):
        self.draw, self.files, self.note = draw, files, note


def run(*words, **more):
    """A command in the root of the project; its output only when it fails."""
    env = dict(os.environ, **{k: v for k, v in more.items() if v is not None})
    p = subprocess.run(words, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       universal_newlines=True, check=False)
    if p.returncode != 0:
        sys.exit("draw_pictures.py: %s:\n%s" % (" ".join(words), p.stdout))
    return p.stdout


def result(name, *command):
    """The folder of what a command of moao wrote, made once in each call of this script."""
    folder = os.path.join(WORK, name)
    if not os.path.isdir(folder):
        new = folder + ".new"
        shutil.rmtree(new, ignore_errors=True)
        run(os.environ.get("MOAO", "build/moao"), *command, "-o", new)
        os.rename(new, folder)
    return folder


def demo_run():
    return result("demo", "run", "-n", "2", "params/demo.yaml")


def results(command, *words):
    run(sys.executable, "scripts/moao-results", command, *words)


def draw_demo(path):
    results("plot", demo_run(), "-w", "2.2", "-o", path)


def draw_map(path):
    case = os.path.join(WORK, "map.yaml")
    os.makedirs(WORK, exist_ok=True)
    with open(case, "w", encoding="utf-8") as f:
        f.write(FIELD)
    results("plot", result("map", "run", "-n", "2", case), "--panel", "strehl", "-w", "1.65", "--size", "110x88mm", "-o", path)


def draw_budget(path):
    results("plot", demo_run(), "--budget", "-o", path)


def screenshot(address, path, ready):
    """A page as a browser shows it, 1280 pixels wide, when the script `ready` is true."""
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.support.ui import WebDriverWait
    with tempfile.TemporaryDirectory() as profile:
        o = Options()
        o.binary_location = shutil.which("chromium") or shutil.which("chromium-browser")
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
                     "--window-size=1280,800", "--user-data-dir=" + profile):
            o.add_argument(word)
        driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=o)
        try:
            driver.get(address)
            WebDriverWait(driver, 300).until(lambda d: d.execute_script("return !!(%s)" % ready))
            height = driver.execute_script("return document.documentElement.scrollHeight")
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1280, "height": height, "deviceScaleFactor": 1, "mobile": False})
            driver.save_screenshot(path)
        finally:
            driver.quit()


def draw_view(path):
    """With the error budget."""
    page = os.path.join(WORK, "view.html")
    results("view", demo_run(), "-o", page)
    screenshot("file://" + page, path, "document.body.dataset.ready === 'yes'")


def draw_lab(path):
    """With the image and the error against the full order."""
    lab = subprocess.Popen([os.environ.get("MOAO", "build/moao"), "lab", "params/demo.yaml", "--no-browser"], cwd=ROOT, text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        screenshot(lab.stdout.readline().strip(), path, "state.map && state.image && state.compared")
    finally:
        lab.terminate()
        lab.wait()


def draw_asterism(path):
    folder = result("asterism", "asterism", "params/demo.yaml", *FEWER, "sky.ra=05:00:00", "sky.dec=-25:00:00", "sky.position_angle=20",
                    "--stars", "examples/stars.ecsv", *WANT)
    results("plot-asterism", folder, "-o", path)


def draw_coverage(path):
    folder = result("coverage", "asterism", "params/demo.yaml", *FEWER, "--stars", "examples/stars.ecsv", "--fields", "examples/fields.csv",
                    *WANT)
    results("plot-coverage", folder, "-o", path)


def example(name, *words):
    """Build an example on the installed library, as its first lines say, and run it."""
    local = os.path.join(WORK, "local")
    if not os.path.isdir(local):
        run("make", "install", "prefix=" + local)
    paths = {"PKG_CONFIG_PATH": os.path.join(local, "lib", "pkgconfig"), "LD_LIBRARY_PATH": os.path.join(local, "lib")}
    flags = run("pkg-config", "--cflags", "--libs", "moao-linalg", **paths).split()
    program = os.path.join(WORK, name)
    run("cc", "-O2", "examples/%s.c" % name, *flags, "-lm", "-o", program, **paths)
    run(program, *words, **paths)


def draw_tlr_ranks(path):
    ranks = os.path.join(WORK, "ranks.csv")
    example("matern", "--n", "4096", "--tile", "64", "--tau", "1e-6", "--ranks", ranks)
    run(sys.executable, "scripts/plot_ranks.py", ranks, path)


def draw_format_ranks(path):
    parts = os.path.join(WORK, "parts.csv")
    example("hierarchical", "--parts", parts)
    run(sys.executable, "scripts/plot_formats.py", parts, path)


def draw_field(path):
    """A 4 m telescope, on which all targets are computed too."""
    case = os.path.join(WORK, "field.yaml")
    with open(case, "w", encoding="ascii") as f:
        f.write(FIELD)
    exact = result("field-exact", "run", case, "targets.sampling=exact")
    run(sys.executable, "scripts/plot_nodes.py", exact, result("field-nodes", "run", case, "output.field=true"), path)


def draw_validation(path):
    run(sys.executable, "scripts/plot_validation.py", path)


PICTURES = {
    "demo": Picture(draw_demo, PLOTS + ["params/demo.yaml"]),
    "map": Picture(draw_map, ["python/moao/plots_panels.py", "python/moao/plots_maps.py"]),
    "budget": Picture(draw_budget, PLOTS[1:] + ["python/moao/plots_budget.py", "params/demo.yaml"]),
    "view": Picture(draw_view, ["python/moao/view.py", "python/moao/view.html", "python/moao/view.js", "params/demo.yaml"]),
    "lab": Picture(draw_lab, ["python/moao/lab.html", "python/moao/lab.js", "python/moao/lab.py", "params/demo.yaml"]),
    "asterism": Picture(draw_asterism, ["python/moao/plots_asterism.py", "python/moao/plots_maps.py", "params/demo.yaml", "examples/stars.ecsv"]),
    "sky-coverage": Picture(draw_coverage, ["python/moao/plots_asterism.py", "params/demo.yaml", "examples/stars.ecsv", "examples/fields.csv"]),
    "field-nodes": Picture(draw_field, ["scripts/plot_nodes.py"]),
    "tlr-ranks": Picture(draw_tlr_ranks, ["scripts/plot_ranks.py"]),
    "format-ranks": Picture(draw_format_ranks, ["scripts/plot_formats.py"]),
    "validation": Picture(draw_validation, ["scripts/plot_validation.py", "tests/e2e/truth_reference.py"]),
    "tlr-ranks-mosaic": Picture(None, ["scripts/plot_ranks.py"], "bench_tlr terms ranks=FILE on an H200, then scripts/plot_ranks.py FILE"),
}


def checksum(*names):
    total = hashlib.sha256()
    for name in names:
        with open(os.path.join(ROOT, name), "rb") as f:
            total.update(hashlib.sha256(f.read()).digest())
    return total.hexdigest()[:16]


def series():
    """The version without its last number: pictures of 0.3.1 are those of 0.3.0."""
    with open(os.path.join(ROOT, "VERSION"), encoding="ascii") as f:
        return ".".join(f.read().strip().split(".")[:2])


def facts(name):
    """What the list keeps of a picture as it is now."""
    p = PICTURES[name]
    found = {"drawn by": checksum(*p.files), "picture": checksum("docs/%s.png" % name), "files": p.files}
    return dict(found, note=p.note) if p.draw is None else dict(found, version=series())


def read_list():
    try:
        with open(LIST, encoding="ascii") as f:
            return json.load(f)
    except (OSError, ValueError):
        return {}


def stale():
    """[(picture, what is wrong)] of the pictures of docs/ that are older than what they show, or not in the list."""
    kept, found = read_list(), []
    there = {n[:-4] for n in os.listdir(os.path.join(ROOT, "docs")) if n.endswith(".png")}
    for name in sorted(there | set(PICTURES)):
        path = "docs/%s.png" % name
        if name not in PICTURES:
            found.append((path, "no picture of scripts/draw_pictures.py: add how it is drawn"))
        elif name not in there or name not in kept:
            found.append((path, "not drawn: make pictures PICTURES=" + name))
        else:
            now, was = facts(name), kept[name]
            changed = [word for key, word in (("drawn by", "of other scripts or parameters than those there are"), ("version", "of another version"),
                                              ("picture", "another file than the one that was drawn")) if now.get(key) != was.get(key)]
            if changed:
                how = PICTURES[name].note or "make pictures PICTURES=" + name
                found.append((path, "%s: %s" % (" and ".join(changed), how)))
    return found


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("pictures", nargs="*", metavar="PICTURE", help="names without .png (default: all): " + ", ".join(PICTURES))
    p.add_argument("--check", action="store_true", help="draw nothing; name what is out of date, exit code 1 when any")
    p.add_argument("--keep", action="store_true", help="use the runs of the last call again, in build/pictures")
    p.add_argument("--measured", metavar="NAME", action="append", default=[], help="put a picture that was drawn by hand from a measurement into the list")
    a = p.parse_args()
    if a.check:
        found = stale()
        print("\n".join("%s: %s" % f for f in found) or "pictures: up to date")
        return 1 if found else 0
    wrong = [n for n in a.pictures + a.measured if n not in PICTURES]
    if wrong:
        p.error("no picture %s: there are %s" % (", ".join(wrong), ", ".join(PICTURES)))
    if not a.keep:
        shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK, exist_ok=True)
    for name in a.measured or a.pictures or list(PICTURES):
        if PICTURES[name].draw is not None:
            new = os.path.join(WORK, name + ".png")
            PICTURES[name].draw(new)
            shutil.copyfile(new, os.path.join(ROOT, "docs", name + ".png"))
            print("docs/%s.png" % name, flush=True)
        elif not a.measured:
            print("docs/%s.png: as it is: %s" % (name, PICTURES[name].note))
            continue
        kept = dict(read_list(), **{name: facts(name)})
        with open(LIST, "w", encoding="ascii") as f:
            json.dump({n: kept[n] for n in PICTURES if n in kept}, f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
