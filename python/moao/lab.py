"""A case seen live: what the page of moao lab changes, what is computed of it at a reduced order, and the processes that do it.

Nothing here knows of HTTP. Parameters are nested dicts in the units of effective.yaml; each computation is a process of the program
(docs/protocol.md). A preview is a run of a parameter file that `reduced` makes: sensors and mirrors with fewer subapertures, slopes at
points, one exposure, a map from nodes. Anyone can run that file and gets the numbers of the page.
"""
import asyncio
import contextlib
import copy
import json
import math
import os
import re
import shutil
import signal
import tempfile
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .case import Case
from .case_values import arcsec_of, plain, text
from .process import DONE, STOPPED, _event, environment, error_of, find_program
from .reading import MoaoError, one_line
from .results import Run, read_yaml

Tree = Dict[str, Any]
ACROSS = 13           # directions of the map, each way
TOLERANCE = 0.05      # of figures between nodes, which the run checks; docs/lab.md says what is reached
ORDER = 8             # subapertures across of a preview that is not asked for another
ORDERS = (6, 8, 10, 12, 16, 20, 24, 32, 40, 64, 80)
NARROW = 20.0         # [arcsec] least side of the map
PROBES = ((6, 6), (2, 2), (10, 2), (2, 10), (10, 10))  # [column, row] of the map where the full order is computed too
AUTOMATIC = 4000      # measurements up to which that is done without being asked for
GRACE = 5.0           # [s] after the second signal
IMAGE = 64            # pixels of an image on the page, each way
MANY = 64             # targets of a list that are drawn and dragged
NUMBER = r"(\d{1,6})"
ARCSEC = math.pi / 180 / 3600


class Settings(NamedTuple):
    """What the page asks for: keys and values over the file, subapertures across, and the profile (a row of atmosphere.profiles)."""
    values: Dict[str, Any]
    order: int
    profile: int


# --- parameters

def _number(value: Any, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise MoaoError("%s: expected a number" % key, key=key)
    return value


def _pair(value: Any, key: str) -> List[float]:
    if not isinstance(value, list) or len(value) != 2:
        raise MoaoError("%s: expected two numbers [arcsec]" % key, key=key)
    return [_number(v, key) for v in value]


def _item(items: Any, n: str, key: str) -> Any:
    if not isinstance(items, list) or int(n) >= len(items):
        raise MoaoError("%s: this case has no such item" % key, key=key)
    return items[int(n)]


def _scalar(tree: Tree, key: str, value: Any, group: str, name: str) -> None:
    tree[group][name] = _number(value, key)


def _of_sensor(tree: Tree, key: str, value: Any, n: str, name: str) -> None:
    sensor = _item(tree["sensors"], n, key)
    if name not in sensor:
        raise MoaoError("%s: this sensor has none" % key, key=key)
    sensor[name] = _pair(value, key) if name == "direction" else _number(value, key)


def _centre(tree: Tree, key: str, value: Any) -> None:
    if "grid" not in tree["targets"]:
        raise MoaoError("%s: the targets are no grid" % key, key=key)
    tree["targets"]["grid"]["center"] = _pair(value, key)


def _target(tree: Tree, key: str, value: Any, n: str) -> None:
    _item(tree["targets"].get("list"), n, key)
    tree["targets"]["list"][int(n)] = _pair(value, key)


def strengths(profile: Tree) -> List[float]:
    """Of the layers, or their fractions where the profile has those."""
    layers = profile["layers"]
    return [float(v) for v in layers.get("strength") or layers["fraction"]]


def seeing_of(profile: Tree) -> float:
    """Seeing at 500 nm and zenith [arcsec]: 0.976 lambda/r0, r0^(-5/3) the sum of the layers' strengths."""
    if "seeing" in profile:
        return profile["seeing"]
    r0 = profile.get("r0") or sum(strengths(profile)) ** -0.6
    return 0.976 * 500e-9 / r0 / ARCSEC


def _seeing(tree: Tree, key: str, value: Any, n: str) -> None:
    profile = _item(tree["atmosphere"]["profiles"], n, key)
    profile.pop("r0", None)
    profile["seeing"] = _number(value, key)


def _fractions(tree: Tree, key: str, value: Any, n: str) -> None:
    profile = _item(tree["atmosphere"]["profiles"], n, key)
    if not isinstance(value, list) or len(value) != len(strengths(profile)):
        raise MoaoError("%s: expected %d numbers, one for each layer" % (key, len(strengths(profile))), key=key)
    seeing = seeing_of(profile)
    profile["layers"].pop("strength", None)
    profile["layers"]["fraction"] = [_number(v, key) for v in value]
    if "r0" not in profile:
        profile["seeing"] = seeing


# what a page may set; everything else is refused
KEYS = ((re.compile(r"(telescope)\.(zenith)"), _scalar), (re.compile(r"(dm)\.(nssp)"), _scalar),
        (re.compile(r"sensors\[%s\]\.(direction|magnitude|lgs_return)" % NUMBER), _of_sensor),
        (re.compile(r"targets\.grid\.center"), _centre), (re.compile(r"targets\.list\[%s\]" % NUMBER), _target),
        (re.compile(r"atmosphere\.profiles\[%s\]\.layers\.fraction" % NUMBER), _fractions),
        (re.compile(r"atmosphere\.profiles\[%s\]\.seeing" % NUMBER), _seeing))


def applied(tree: Tree, values: Dict[str, Any]) -> Tree:
    """A copy of the parameters with those keys set. MoaoError, with its key, where one is not among KEYS or has no such value; what
    is out of range is for the program to say."""
    made = copy.deepcopy(tree)
    for key in sorted(values, key=lambda k: k.endswith(".seeing")):  # fractions keep the seeing that the profile has
        for form, call in KEYS:
            m = form.fullmatch(key)
            if m:
                call(made, key, values[key], *m.groups())
                break
        else:
            raise MoaoError("%s: not a key that this page sets" % one_line(key)[:80])
    return made


def _arcsec(pair: Sequence[Any]) -> List[float]:
    return [arcsec_of(v) for v in pair]


def order_of(tree: Tree) -> int:
    """Subapertures across of the finest sensor or of the mirror: the full order."""
    return int(max([tree["dm"]["nssp"]] + [s["nssp"] for s in tree["sensors"]]))


def field_of(tree: Tree) -> Tuple[List[float], List[float]]:
    """([x, y] of the centre, [width, height]) of the map [arcsec]: where the targets are, and NARROW at least."""
    t = tree["targets"]
    if "grid" in t:
        g = t["grid"]
        wide = float(g.get("width") or 0)
        return _arcsec(g.get("center", (0, 0))), [max(wide, NARROW), max(float(g.get("height", wide) or 0), NARROW)]
    xy = np.array([_arcsec(p) for p in t["list"]])
    low, high = xy.min(axis=0), xy.max(axis=0)
    return ((low + high) / 2).tolist(), np.maximum((high - low) * 1.1, NARROW).tolist()


def _coarser(tree: Tree, scale: float) -> None:
    """Sensors and mirrors with so much fewer subapertures across; a sensor's light stays what it is on the telescope."""
    def fewer(n):
        return max(min(n, 2), int(n * scale + 0.5))  # a sensor of tip and tilt stays one
    tree["dm"]["nssp"] = fewer(tree["dm"]["nssp"])
    for s in tree["sensors"]:
        n = fewer(s["nssp"])
        if "photons" in s:
            s["photons"] *= (s["nssp"] / n) ** 2
        s["nssp"] = n
    mirrors = tree.get("mirrors", {})
    if "pitch" in mirrors:
        mirrors["pitch"] = [v / scale for v in mirrors["pitch"]]
        finest = math.ceil(tree["telescope"]["diameter"] / min(mirrors["pitch"]) * (1 - 1e-9))
        tree["dm"]["nssp"] = max(tree["dm"]["nssp"], finest)  # of the lattice of points and images


def points(sensor: Tree) -> None:
    """Slopes as differences between points, whose covariances cost little; light and spots stay those of mean gradients."""
    if sensor.get("slope") == "gradient":
        sensor["slope"] = "points"
        if sensor.get("photometry") == "auto":
            sensor["photometry"] = "bands"
        if sensor.get("spot") == "auto":
            sensor["spot"] = "full"


def one_exposure(tree: Tree, profile: int) -> Tree:
    """The same with one exposure, in one profile, for which its reconstructor is computed."""
    made = copy.deepcopy(tree)
    chosen = _item(made["atmosphere"]["profiles"], str(profile), "atmosphere.profiles[%d]" % profile)
    made["atmosphere"]["profiles"] = [dict(chosen, time=0)]
    made["schedule"] = {"tor_times": [0], "exposure_times": [0]}
    made["output"] = dict(made["output"], psf="none", field=False, matrices=[], ranks=False)
    return made


def reduced(tree: Tree, order: int, profile: int) -> Tree:
    """Parameters of a preview: `order` subapertures across of the finest sensor, slopes at points, one exposure, a map from nodes, images
    of the mean structure function (which lowers small Strehl ratios by some thousandths)."""
    made = one_exposure(tree, profile)
    full = order_of(made)
    if order < full:
        _coarser(made, order / full)
    for s in made["sensors"]:
        points(s)
    (x, y), (width, height) = field_of(made)
    made["targets"] = {"grid": {"nx": ACROSS, "ny": ACROSS, "width": width, "height": height, "center": [x, y]}, "sampling": "nodes",
                       "tolerance": TOLERANCE}
    made["output"]["field"] = True
    made["psf"]["average"] = "mean"
    made["compute"] = {"backend": "cpu", "precision": "double", "verify": "off", "residual_columns": 0}
    made["title"] = "%s (reduced: %d of %d subapertures across)" % (made.get("title", ""), min(order, full), full)
    return made


def probes(tree: Tree) -> np.ndarray:
    """[probe, 2] directions [arcsec] of the map where reduced and full order are compared."""
    centre, side = field_of(tree)
    return np.asarray(centre) + (np.asarray(PROBES) / (ACROSS - 1) - 0.5) * np.asarray(side)


def compared(tree: Tree, profile: int) -> Tree:
    """Parameters of the run at full order in those directions."""
    made = one_exposure(tree, profile)
    made["targets"] = {"list": probes(tree).tolist(), "sampling": "exact"}
    made["compute"] = dict(made["compute"], verify="off")
    return made


def yaml_text(tree: Tree) -> str:
    """A parameter file."""
    return "".join("%s: %s\n" % (json.dumps(k, ensure_ascii=False), text(plain(v, k), k)) for k, v in tree.items())


# --- processes

class Child:
    """One process of the program; events go to `on_event` while they arrive."""

    def __init__(self, on_event=None):
        self.on_event = on_event
        self.process: Optional[asyncio.subprocess.Process] = None
        self.errors: List[str] = []
        self.warnings: List[str] = []
        self.ended = False

    async def run(self, words: Sequence[str], gently: bool = False) -> int:
        """Start it, wait for it; exit code. gently: behind everything else that the machine does."""
        words = (["nice", "-n", "15"] if gently and shutil.which("nice") else []) + [find_program()] + list(words)
        self.process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
            env=environment(MOAO_PROGRESS="json"), start_new_session=True, limit=1 << 20)
        if self.ended:  # while it was being started
            self.end()
        try:
            async for line in self.process.stderr:
                self._line(line.decode("utf-8", "replace").rstrip("\n"))
            return await self.process.wait()
        except asyncio.CancelledError:
            self.end()
            raise

    def _line(self, line: str) -> None:
        event = _event(line)
        if event is None:
            return
        if event["event"] in ("error", "warning"):
            (self.errors if event["event"] == "error" else self.warnings).append(str(event.get("text", "")))
        if self.on_event is not None:
            self.on_event(event)

    def send(self, number: int) -> None:
        """A signal to the process; it hands it on to its ranks."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    def end(self) -> None:
        """At once, with all that belongs to it."""
        self.ended = True
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def listed(values: Any) -> Any:
    """Numbers for JSON, None for what is not finite."""
    if np.ndim(values):
        return [listed(v) for v in values]
    return float(values) if np.isfinite(values) else None


def results_of(folder: str) -> Dict[str, Any]:
    """What the page draws of a preview; all numbers as in its maps.fits."""
    from .view import LABELS
    run = Run(folder)
    nx, ny = run.grid
    quantities = []
    for name in run.quantities:
        label = "EE in %.4g mas" % run.box_of(name) if name.startswith("EE_") else LABELS.get(name) or run.term_words(name)
        quantities.append({"name": name, "label": label, "unit": run.unit(name), "term": run.achromatic(name),
                           "values": listed(run.column_long(name))})
    return {"x": listed(run.x[:nx]), "y": listed(run.y[::nx]), "waves": [run.wave_words(il) for il in range(run.nl)],
            "quantities": quantities, "nodes": int(run.header["NNODE"]), "between": listed(run.header["SAMPDIFF"]),
            "compared": int(run.header["NCHECK"]), "r0": listed(run.r0[0]), "measurements": int(run.header["NMEAS"])}


class Lab:
    """A case, the changes of its page, and what computes. Coroutines run in one event loop; `close` ends all processes.

    output: folder of the run in full; None: moao-runs/NAME-HASH, of its parameters."""

    def __init__(self, case: Case, output: Optional[str] = None):
        self.output, self.name = output, case._stem
        self.whole = case.text
        self.tree = read_yaml(self.whole)
        self.folder = tempfile.mkdtemp(prefix="moao-lab-")
        self.serial, self.shown = 0, ""     # of the newest preview asked for; folder of the last that was finished
        self.settings = Settings({}, min(ORDER, order_of(self.tree)), 0)
        self.preview_child: Optional[Child] = None
        self.compare_child: Optional[Child] = None
        self.reading = asyncio.Lock()  # while a folder of a preview is read it stays
        self.real = Real(self)

    def _write(self, name: str, tree: Tree) -> str:
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(yaml_text(tree))
        return path

    async def _program(self, child: Child, path: str, out: str, gently: bool = False) -> bool:
        """Run a parameter file; whether it finished. MoaoError with what the program refuses."""
        code = await child.run(["run", path, "-q", "-o", out, "--overwrite"], gently)
        if child.ended:
            return False
        if code != DONE:
            raise error_of(child.errors, code, own=[path])
        return True

    # --- preview

    async def preview(self, asked: Settings) -> Optional[Dict[str, Any]]:
        """The map of these settings, None when newer ones came meanwhile: the newest change wins. MoaoError as the program says."""
        self.serial += 1
        serial = self.serial
        for child in (self.preview_child, self.compare_child):
            if child is not None:
                child.end()
        tree = applied(self.tree, asked.values)
        small = reduced(tree, asked.order, asked.profile)
        out = os.path.join(self.folder, "preview-%d" % serial)
        child = self.preview_child = Child()
        done = await self._program(child, self._write("preview-%d.yaml" % serial, small), out)
        if not done or serial != self.serial:
            shutil.rmtree(out, ignore_errors=True)
            return None
        async with self.reading:
            made = results_of(out)
            if self.shown:
                shutil.rmtree(self.shown, ignore_errors=True)
            self.shown, self.settings = out, asked
        made.update(serial=serial, warnings=child.warnings, order=min(asked.order, order_of(tree)), full=order_of(tree),
                    measurementsFull=sum(int(1.6 * s["nssp"] ** 2) for s in tree["sensors"]))
        return made

    async def image(self, x: float, y: float, wave: int) -> Dict[str, Any]:
        """The PSF in a direction [arcsec] of the map that is shown, between its nodes as `moao psf` interpolates."""
        async with self.reading:
            if not self.shown:
                raise MoaoError("no map has been computed yet")
            return await asyncio.get_running_loop().run_in_executor(None, _image, self.shown, x, y, wave)

    async def compare(self) -> Optional[Dict[str, Any]]:
        """Reduced minus full order of every figure at the probes, for the settings that are shown; None when a change came meanwhile."""
        serial, asked = self.serial, self.settings
        if not self.shown:
            raise MoaoError("no map has been computed yet")
        if self.compare_child is not None:
            self.compare_child.end()
        tree = applied(self.tree, asked.values)
        out = os.path.join(self.folder, "full-%d" % serial)
        child = self.compare_child = Child()
        done = await self._program(child, self._write("full-%d.yaml" % serial, compared(tree, asked.profile)), out, gently=True)
        if not done or serial != self.serial:
            shutil.rmtree(out, ignore_errors=True)
            return None
        async with self.reading:
            full, small = Run(out), Run(self.shown)
            at = [row * ACROSS + column for column, row in PROBES]
            rows = [{"name": n, "full": listed(full.column_long(n)), "reduced": listed(small.column_long(n)[:, at])}
                    for n in small.quantities if n in full.quantities]
            shutil.rmtree(out, ignore_errors=True)
        return {"serial": serial, "directions": probes(tree).tolist(), "rows": rows}

    # --- files

    async def export(self, asked: Settings, small: bool) -> str:
        """The parameter file of the page: of the run in full, or (small) of the map that is shown. Checked by the program."""
        tree = applied(self.tree, asked.values)
        path = self._write("export.yaml", reduced(tree, asked.order, asked.profile) if small else tree)
        return await asyncio.get_running_loop().run_in_executor(None, lambda: Case(path).text)

    def case(self) -> Case:
        """The case as it is on the page, with the file's schedule and targets and in full order."""
        made = Case(self._write("case-%d.yaml" % self.serial, applied(self.tree, self.settings.values)))
        made = Case(made.parameters)
        made._stem = self.name
        return made

    async def close(self) -> None:
        """End every process, and remove what the previews left."""
        self.serial += 1
        for child in (self.preview_child, self.compare_child):
            if child is not None:
                child.end()
        await self.real.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def describe(self) -> Dict[str, Any]:
        """What the page needs of the case before it asks for a map."""
        t, full = self.tree, order_of(self.tree)
        return {"title": one_line(t.get("title") or self.name), "diameter": t["telescope"]["diameter"], "zenith": t["telescope"]["zenith"],
                "mode": t.get("mode", "moao"), "nssp": t["dm"]["nssp"], "mirrors": "mirrors" in t,
                "sensors": [{"name": one_line(s.get("name") or "%s %d" % (s["type"].upper(), i + 1)), "type": s["type"],
                             "direction": _arcsec(s["direction"]), "magnitude": s.get("magnitude"), "lgs_return": s.get("lgs_return"),
                             "band": s.get("band")} for i, s in enumerate(t["sensors"])],
                "targets": _targets(t), "field": field_of(t), "full": full, "order": min(ORDER, full),
                "orders": sorted({o for o in ORDERS if o < full} | {full}), "exposures": _exposures(t),
                "profiles": [{"time": p.get("time", 0), "seeing": seeing_of(p), "altitude": p["layers"]["altitude"],
                              "fraction": (np.asarray(strengths(p)) / sum(strengths(p))).tolist()} for p in t["atmosphere"]["profiles"]],
                "automatic": AUTOMATIC, "probes": len(PROBES)}


def _targets(tree: Tree) -> Dict[str, Any]:
    t = tree["targets"]
    if "grid" in t:
        g = t["grid"]
        return {"grid": {"nx": g["nx"], "ny": g.get("ny", g["nx"])}}
    names = t.get("names") or [""] * len(t["list"])
    return {"list": [{"name": one_line(n), "direction": _arcsec(xy)} for n, xy in list(zip(names, t["list"]))[:MANY]], "number": len(t["list"])}


def _exposures(tree: Tree) -> Optional[int]:
    """Number of exposures of the run in full."""
    s = tree["schedule"]
    if "exposure_times" in s:
        return len(s["exposure_times"])
    if "exposure_interval" in s and "end" in s:
        return max(1, math.ceil((s["end"] - s.get("start", 0)) / s["exposure_interval"] - 1e-9))
    return 1


def _image(folder: str, x: float, y: float, wave: int) -> Dict[str, Any]:
    run = Run(folder)
    if not 0 <= wave < run.nl:
        raise MoaoError("no such wavelength")
    p = run.psf_at(x, y, run.waves[wave])
    side = min(IMAGE, *p.data.shape)
    c = p.data.shape[0] // 2 - side // 2
    cut = p.data[c:c + side, c:c + side]
    return {"x": x, "y": y, "side": side, "pixel": float(p.pixel), "strehl": p.strehl, "fwhm": listed(p.fwhm), "boxes": listed(run.boxes),
            "ee": listed(p.ee(run.boxes)), "image": [round(float(v), 3) for v in np.log10(np.maximum(cut, 1e-9)).ravel()]}


class Real:
    """The run in full: one at a time, with its progress."""

    def __init__(self, lab: Lab):
        self.lab, self.child, self.task = lab, None, None
        self.state: Dict[str, Any] = {"state": "none"}

    async def start(self, asked: Settings) -> Dict[str, Any]:
        """Begin the run of these settings; MoaoError when one is at work."""
        if self.task is not None and not self.task.done():
            raise MoaoError("a run is at work already: stop it first")
        whole = await self.lab.export(asked, False)
        path = os.path.join(self.lab.folder, "full.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(whole)
        case = Case(path)
        case._stem = self.lab.name
        ranks = await asyncio.get_running_loop().run_in_executor(None, lambda: case.check().ranks or 1)
        folder = self.lab.output or case._stamp_folder()
        there = os.path.isdir(os.path.join(folder, "checkpoint"))
        self.child = Child(self._event)
        self.state = {"state": "running", "done": 0, "left_s": None, "step": "starting", "folder": folder}
        words = ["run", "-n", str(ranks), path, "-o", folder] + (["--resume"] if there else [])
        self.task = asyncio.ensure_future(self._run(words, path))
        return self.state

    def _event(self, event: Dict[str, Any]) -> None:
        if event["event"] == "progress":
            self.state.update({k: event.get(k) for k in ("done", "left_s", "step")})

    async def _run(self, words: List[str], path: str) -> None:
        code = await self.child.run(words)
        if code == DONE:
            run = Run(self.state["folder"])
            s = [run.column_long("STREHL")[il] for il in range(run.nl)]
            self.state.update(state="done", done=1, left_s=0, results=[
                {"wave": run.wave_words(il), "mean": float(v.mean()), "min": float(v.min()), "max": float(v.max())} for il, v in enumerate(s)])
        elif code == STOPPED:
            self.state.update(state="stopped", text="Stopped; what is finished is kept. Run in full goes on from there.")
        else:
            self.state.update(state="failed", text=str(error_of(self.child.errors, code, own=[path])))

    def stop(self) -> Dict[str, Any]:
        """At the next checkpoint; called again, at once. What is finished is kept."""
        if self.state["state"] in ("running", "stopping"):
            self.child.send(signal.SIGINT)
            self.state["state"] = "stopping"
        return self.state

    async def close(self) -> None:
        """Stop it at once and wait for it."""
        if self.task is None or self.task.done():
            return
        for _ in range(2):  # the second one drops the step in progress
            self.child.send(signal.SIGTERM)
            with contextlib.suppress(asyncio.TimeoutError):
                return await asyncio.wait_for(asyncio.shield(self.task), GRACE)
        self.child.end()
        await asyncio.wait([self.task], timeout=GRACE)
