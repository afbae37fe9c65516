"""A case: parameters that can be changed, checked, run, swept and submitted from Python.

    case = moao.Case("demo.yaml")
    case["telescope.zenith"] = 30
    case.stars["magnitude"][-1] = 12.5
    print(case.check())
    run = case.run()

The program computes, as a process of its own; parameters, ranges and messages are its.
"""
import atexit
import hashlib
import json
import os
import re
import shutil
import tempfile
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
from astropy.table import Table

from . import carried, case_tables
from .case_values import arcsec_of, steps, text, units_of, value_at
from .check import Check
from .process import Finished, Stopped, check_finished, find_program, folder_of, run_program
from .progress import Display, Shown
from .reading import MoaoError
from .results import Run, read_yaml

Source = Union[str, "os.PathLike[str]", Dict[str, Any]]
GPU = {"auto": "auto", True: "gpu", False: "cpu"}
ROOTS = {"stars": "sensors", "targets": "targets"}
ASKED = 4  # answers of the program that a case keeps
RUNS = "moao-runs"  # where runs go that are given no folder


def _path_of(name: Union[str, "os.PathLike[str]"]) -> str:
    """A file, or a case that comes with the program: demo, demo.yaml."""
    path = os.path.expanduser(os.fspath(name))
    if os.path.exists(path) or os.path.dirname(path):
        return path
    shipped = folder_of("params")
    for ending in ("", ".yaml"):
        found = os.path.join(shipped or "", path + ending)
        if shipped and os.path.isfile(found):
            return found
    return path


class Case:
    """Parameters of a run: files, later ones over earlier ones, and what is set by keys and tables over all of them.

    files: paths of parameter files, names of shipped ones ("demo"), or dicts nested as such a file. Nothing is read before it
    is asked for; what the program refuses is a MoaoError with file, line, column and key (all of it in its `mistakes`).
    """

    def __init__(self, *files: Source):
        if not files:
            raise MoaoError("a case needs a parameter file, such as moao.Case('demo.yaml')")
        self._folder: Optional[str] = None
        self._dicts = 0
        self.files: List[str] = []
        self._set: Dict[str, Any] = {}
        self._given: Dict[str, Table] = {}        # tables that were set: "stars", "targets"
        # (table handed out, as it was then, settings that it had)
        self._shown: Dict[str, Tuple[Table, Table, Dict[str, Any]]] = {}
        self._cached: Dict[str, str] = {}  # effective parameters of what was asked last
        self._stem = "case"
        for f in files:
            self.files.append(self._add(f))

    def _add(self, f: Source) -> str:
        if isinstance(f, dict):
            self._dicts += 1
            return self._write("parameters-%d.yaml" % self._dicts, f)
        path = _path_of(f)
        self._stem = os.path.splitext(os.path.basename(path))[0]
        return path

    def copy(self) -> "Case":
        """A case of its own with the same parameters."""
        made = Case(*self.files)
        made._set = dict(self._set)
        made._given = {k: Table(t, copy=True) for k, t in self._tables().items()}
        made._shown = {k: (t, Table(t, copy=True), dict(self._shown[k][2])) for k, t in made._given.items()}
        made._stem = self._stem
        made._borrowed = self  # whose folder may hold one of the files
        return made

    def __repr__(self):
        more = ["%s=%s" % (k, v) for k, v in self._set.items()] + ["%s (table of %d)" % (k, len(t)) for k, t in self._tables().items()]
        return "<moao case %s%s>" % (" ".join(os.path.basename(f) for f in self.files), ": " + ", ".join(more) if more else "")

    def _repr_html_(self):
        from .show import case_page
        return case_page(self)

    # --- what the program is told

    def _own_folder(self) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="moao-case-")
            atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def _write(self, name: str, tree: Dict[str, Any]) -> str:
        path = os.path.join(self._own_folder(), name)
        words = ['%s: %s' % (json.dumps(k, ensure_ascii=False), text(v, k)) for k, v in tree.items()]
        with open(path, "w", encoding="utf-8") as f:
            f.write("\n".join(words) + "\n")
        return path

    def _tables(self) -> Dict[str, Table]:
        """Tables that differ from what the files say: set, or changed since they were handed out."""
        found = dict(self._given)
        for what, (now, before, _) in self._shown.items():
            if not case_tables.same(now, before):
                found[what] = now
        return found

    def _words(self) -> Tuple[List[str], List[str]]:
        """(files and key=value for the program, files among them that the user did not write)."""
        words, own = list(self.files), [f for f in self.files if self._folder and f.startswith(self._folder)]
        tables = self._tables()
        cells = self._changed_cells(tables)
        if cells is not None:
            tables = {k: t for k, t in tables.items() if k != "stars"}
        if tables:
            some = ['targets={"list": [[0, 0]]}'] if "targets" in tables else []  # the files need not have any
            base = self._effective(self.files + self._settings(("sky", "ngs_defaults", "lgs_defaults")) + some)
            tree: Dict[str, Any] = {}
            sky = base[0].get("sky", {})
            if "stars" in tables:
                tree["sensors"] = case_tables.sensors_of(tables["stars"], base[0]["sensors"], sensor_keys(), units_of(base[1]), sky)
            if "targets" in tables:
                tree["targets"] = case_tables.targets_of(tables["targets"], sky)
            words.append(self._write("tables.yaml", tree))
            own.append(words[-1])
        return words + self._settings(tables=tables) + ["%s=%s" % (k, text(v, k)) for k, v in (cells or {}).items()], own

    def _changed_cells(self, tables: Dict[str, Table]) -> Optional[Dict[str, Any]]:
        """Settings that say what was changed in the table of stars; None where there is no such table, or a whole one."""
        if "stars" not in tables or "stars" in self._given or self._has_rings():
            return None
        now, before, _ = self._shown["stars"]
        return case_tables.changed_cells(now, before, sensor_keys(), units_of(self._effective(self.files + self._settings())[1]))

    def _has_rings(self) -> bool:
        """Whether an item of the list of sensors may stand for several, so that rows and items differ."""
        return any("ring" in v for k, v in self._set.items() if steps(k)[0] == "sensors") or any(
            re.search(r"\bring\b", _text_of(f)) for f in self.files)

    def _settings(self, only: Sequence[str] = (), tables: Sequence[str] = ()) -> List[str]:
        """key=value, without those that a table has already."""
        old = {k: v for what in tables for k, v in self._shown[what][2].items() if steps(k)[0] == ROOTS[what]}
        return ["%s=%s" % (k, v) for k, v in self._set.items() if (not only or steps(k)[0] in only) and old.get(k) != v]

    def _call(self, words: Sequence[str], own: Sequence[str] = ()) -> Finished:
        return check_finished(run_program([find_program()] + list(words)), own)

    def _effective(self, words: List[str], own: Sequence[str] = ()) -> Tuple[Dict[str, Any], str]:
        """(every parameter, nested; the text) of those files and settings."""
        stamp = _stamps_of(words)
        if stamp not in self._cached:
            self._keep(stamp, self._call(["check", "--effective"] + words, own).output)
        return read_yaml(self._cached[stamp]), self._cached[stamp]

    def _keep(self, stamp: str, said: str) -> None:
        while len(self._cached) >= ASKED:
            del self._cached[next(iter(self._cached))]
        self._cached[stamp] = said

    # --- parameters

    @property
    def text(self) -> str:
        """Every parameter as a run will have it, defaults included: a parameter file."""
        return self._effective(*self._words())[1]

    @property
    def parameters(self) -> Dict[str, Any]:
        """The same nested, in the units that the text states."""
        return read_yaml(self.text)

    def write(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Write that parameter file; it needs no other file."""
        whole = self.text
        with open(os.fspath(path) + ".new", "w", encoding="utf-8") as f:
            f.write(whole)
        os.replace(os.fspath(path) + ".new", path)

    def __getitem__(self, key: str) -> Any:
        """Value of a key as a run will have it, in the unit that case.unit(key) states."""
        there, value = value_at(self.parameters, key)
        if not there and key in self._set:  # given in other words than a run has it, such as seeing
            return json.loads(self._set[key])
        if not there:
            raise MoaoError("%s: this case has no such value; moao.parameters() lists all keys" % key)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        """Set a key: a number in its unit, a text with a unit ("8 m", "30 deg"), a quantity of astropy, a list, a dict."""
        first = steps(key)[0]
        value = text(value, key)
        if key == "sensors":
            self._forget("stars")
        if first == "targets":
            self._forget("targets")
        self._set.pop(key, None)  # the last one set comes last
        self._set[key] = value

    def __delitem__(self, key: str) -> None:
        """Take a setting back: what the files say holds again."""
        if key not in self._set:
            raise MoaoError("%s was not set" % key)
        del self._set[key]

    def update(self, settings: Dict[str, Any]) -> "Case":
        """Set several keys; the case itself."""
        for key, value in settings.items():
            self[key] = value
        return self

    def unit(self, key: str) -> str:
        """Unit of a key's number, "" for pure numbers."""
        return units_of(self.text).get(str(steps(key)[-1]), "")

    def __iter__(self) -> Iterator[str]:
        return iter(_keys_of(self.parameters))

    # --- tables

    def _forget(self, what: str) -> None:
        self._given.pop(what, None)
        self._shown.pop(what, None)

    def _hand_out(self, what: str) -> Table:
        if what in self._shown:
            now, before, _ = self._shown[what]
            if what in self._given or not case_tables.same(now, before):
                return now
        tree, said = self._effective(*self._words())
        if what == "stars":
            t = case_tables.stars_table(tree["sensors"], units_of(said))
        else:
            t = self._with_columns_of_file(case_tables.targets_table(tree["targets"]))
        self._shown[what] = (t, Table(t, copy=True), dict(self._set))
        return t

    def _take(self, what: str, rows: Any) -> None:
        t = case_tables.as_table(rows, what)
        self._forget(what)
        drop = [k for k in self._set if steps(k)[0] == ROOTS[what]]
        for key in drop:
            del self._set[key]
        self._given[what] = t
        self._shown[what] = (t, Table(t, copy=True), dict(self._set))

    @property
    def stars(self) -> Table:
        """The sensors, a row each: name, type (ngs, lgs), x, y and every key of a sensor. Changes of the table's cells are
        changes of the case. A table that is set replaces all sensors, or, without a column type, the natural stars; ra and dec
        may stand for x and y. What it does not say is as in the first sensor of that type. Other columns come back with
        run.guide_stars."""
        return self._hand_out("stars")

    @stars.setter
    def stars(self, rows: Any) -> None:
        self._take("stars", rows)

    @property
    def targets(self) -> Table:
        """The targets: x, y [arcsec] and perhaps name; a grid is a row for each of its points. A table that is set, with x and y
        or ra and dec, or pairs (x, y), makes a list of targets. Other columns come back with run.targets."""
        return self._hand_out("targets")

    @targets.setter
    def targets(self, rows: Any) -> None:
        self._take("targets", rows)

    def _with_columns_of_file(self, t: Table) -> Table:
        """With further columns of targets.file, where that is a table with names of columns."""
        for path in reversed(self.files):
            try:
                with open(path, encoding="utf-8") as f:
                    there, name = value_at(read_yaml(f.read()), "targets.file")
                if not there or "targets.file" in self._set:
                    continue
                rows = Table.read(os.path.join(os.path.dirname(path), name), format="ascii")
            except Exception:  # no such table: the program has read it in its own way
                return t
            if len(rows) == len(t) and {"x", "y"} <= {n.lower() for n in rows.colnames}:
                for n in rows.colnames:
                    if n.lower() not in case_tables.PLACES and n not in t.colnames:
                        t[n] = rows[n]
            return t
        return t

    # --- what it takes

    def check(self, ranks: Optional[int] = None, gpus: Optional[int] = None, nodes: Optional[int] = None,
              cores: Optional[int] = None, memory: Optional[float] = None, hours: Optional[float] = None,
              card: Optional[str] = None) -> Check:
        """What a run takes: sizes, photons of the stars, memory, time, warnings. Nothing large is computed.

        ranks: plan for so many. nodes, cores, gpus (of a node), memory [GB]: another machine. hours: longest time of a job.
        card: the model of its GPUs, "RTX 4090"."""
        words, own = self._words()
        stamp = _stamps_of(words)
        for option, value in (("--ranks", ranks), ("--gpus", gpus), ("--nodes", nodes), ("--cores", cores), ("--memory", memory),
                              ("--time", hours)):
            words += [option, "%g" % value] if value is not None else []
        words += ["--gpu", card] if card is not None else []
        f = self._call(["check", "--json", "--effective"] + words, own)
        facts = json.loads(f.output)
        self._keep(stamp, facts.pop("effective"))  # which a run is going to ask for
        return Check(facts, f.warnings)

    # --- what computes

    def _stamp_folder(self) -> str:
        return os.path.join(RUNS, "%s-%s" % (re.sub(r"[^\w.+-]", "_", self._stem), hashlib.sha1(self.text.encode()).hexdigest()[:10]))

    def _backend(self, gpu: Union[str, bool]) -> List[str]:
        if gpu not in GPU:
            raise MoaoError("gpu is True, False or 'auto', not %r" % (gpu,))
        return [] if gpu == "auto" else ["compute.backend=" + GPU[gpu]]

    def run(self, ranks: Optional[int] = None, gpu: Union[str, bool] = "auto", folder: Optional[str] = None, overwrite: bool = False,
            progress: Shown = True) -> Run:
        """Compute, and give the results.

        ranks: processes of MPI; None: as many as suit this machine. gpu: True, False, or "auto" (a GPU where there is one, unless
        the case says otherwise). folder: of the results; None: moao-runs/NAME-HASH, of these parameters. A run that is finished
        there is not computed again, an interrupted one goes on; other parameters in a folder are refused unless overwrite is
        True. progress: True shows a bar, a function gets every event of docs/protocol.md, None shows nothing.

        Ctrl-C stops at the next checkpoint, a second one at once: what is finished is kept, and the same call goes on.
        MoaoError when the case cannot be run, Stopped when something else stopped it.
        """
        folder = os.fspath(folder) if folder is not None else self._stamp_folder()
        words, own = self._words()
        if ranks is None:
            ranks = self.check().ranks or 1
        there = os.path.isdir(os.path.join(folder, "checkpoint"))
        several = ["-n", str(int(ranks))] if int(ranks) != 1 else []  # one needs no launcher, which takes its time
        words = ["run"] + several + words + self._backend(gpu) + ["-o", folder]
        words += ["--overwrite"] if overwrite else ["--resume"] if there else []
        said = self._started(words, own, progress, folder)
        self._carry(folder)
        run = Run(folder)
        run.warnings = said.warnings
        return run

    def _started(self, words: List[str], own: Sequence[str], progress: Shown, folder: str) -> Finished:
        with Display(progress) as display:
            try:
                return check_finished(run_program([find_program()] + words, display), own)
            except (Stopped, KeyboardInterrupt) as e:
                said = re.sub("[:;] go on with --resume", "", str(e))  # for the command line
                raise type(e)("%s (results so far are in %s; the same call goes on)" % (said, folder)) from None

    def _carry(self, folder: str) -> None:
        """Columns of the user's own, for the tables of the results."""
        tree = self.parameters
        for what, name in (("stars", "guide_stars"), ("targets", "targets")):
            t = self._tables().get(what)
            if t is None and what == "targets":
                t = self._hand_out(what)
            if t is None:
                continue
            known = sum((list(v) for v in sensor_keys().values()), []) if what == "stars" else []
            own = case_tables.own_columns(t, known)
            if what == "stars":
                rows = [[arcsec_of(v) for v in s["direction"]] for s in tree["sensors"]]
                own = _behind(own, len(rows))
            else:
                rows = case_tables.targets_table(tree["targets"])
                rows = np.column_stack([rows["x"], rows["y"]])
            carried.write(folder, name, np.asarray(rows, float), own)

    def sweep(self, keys: Dict[str, Sequence[Any]], ranks: int = 1, folder: Optional[str] = None, gpu: Union[str, bool] = "auto",
              progress: Shown = True) -> Table:
        """A run for every combination of values: {"telescope.zenith": [0, 30, 60], "dm.nssp": [8, 16]}, as a table.

        The table is that of sweep.fits: the keys, then every figure of merit; meta["folder"] has the runs, one folder each. The
        same call goes on where it was stopped; finished runs are not computed again. MoaoError names a run that failed."""
        if not keys:
            raise MoaoError("a sweep needs keys with their values: {'telescope.zenith': [0, 30, 60]}")
        words, own = self._words()
        for key, values in keys.items():
            if isinstance(values, str) or not hasattr(values, "__iter__"):
                raise MoaoError("%s: expected a list of values, not %r" % (key, values))
            words = [w for w in words if not w.startswith(key + "=")] + ["%s=%s" % (key, text(list(values), key))]
        words += self._backend(gpu)
        folder = os.fspath(folder) if folder is not None else self._stamp_folder() + "-" + hashlib.sha1(
            json.dumps(words[len(self.files):]).encode()).hexdigest()[:6]
        self._started(["sweep"] + words + ["-n", str(int(ranks)), "-o", folder, "-q"], own, progress, folder)
        return sweep_table(folder)

    def asterism(self, catalogue: Any, choose: int, want: str = "mean strehl", limit: Optional[float] = None,
                 radius: Optional[float] = None, full: int = 3, ranks: int = 1, folder: Optional[str] = None, progress: Shown = True,
                 **options: Any) -> Table:
        """The best natural guide stars of a catalogue, as a table of asterisms from the best on.

        catalogue: a table with name, ra and dec (or x and y in arcsec) and magnitude, or a file of any kind that moao-stars reads.
        choose: stars of an asterism. want, limit (magnitude), radius [arcsec], full (runs of the best) and options (apart, most,
        keep, order, refine, greedy=True) are those of `moao asterism`. meta: "folder"; "winner", the case with the best stars;
        "stars", the catalogue's rows that were used, with all of their columns."""
        from .case_asterism import search
        return search(self, catalogue, int(choose), dict(options, want=want, limit=limit, radius=radius, full=full), ranks, folder, progress)

    def lab(self, port: Optional[int] = None, folder: Optional[str] = None, height: int = 900) -> "Any":
        """See the case live: a page where stars and targets are dragged, and the map of a reduced run follows (docs/lab.md).

        In a notebook the page is what a cell shows; elsewhere open `url` in a browser of this machine. `case()` of what is returned
        is the case as it is on the page, `close()` ends it. port: None takes a free one. folder: of the run in full. Needs tornado."""
        from .lab_server import Live
        return Live(self, port, folder, height)

    def submit(self, folder: str, tasks: Optional[int] = None, nodes: Optional[int] = None, gpus: int = 0, hours: Optional[float] = None,
               options: Sequence[str] = (), dry: bool = False) -> "Any":
        """Submit the run as a job to SLURM, and give the job: job.state, job.wait() for the results, job.cancel().

        tasks: ranks; gpus: of a node, one rank each; None: as `check` advises. hours: time limit; a job that reaches it is
        requeued and goes on. options: further ones of sbatch ("--partition=long"). The parameters are written to FOLDER.yaml.
        dry: only the line that would be typed is made (job.line)."""
        from .jobs import submit
        return submit(self, folder, tasks, nodes, gpus, hours, options, dry)


def _stamps_of(words: Sequence[str]) -> str:
    """What the program's answer to these words follows from."""
    return json.dumps([words, [_stamp(w) for w in words]])


def _stamp(word: str) -> Any:
    """What changes when a file does."""
    try:
        facts = os.stat(word)
        return [facts.st_mtime_ns, facts.st_size]
    except OSError:
        return None


def _text_of(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


def _behind(t: Table, n: int) -> Table:
    """Rows of natural stars come behind the laser stars that stay, which have nothing in those columns."""
    if not t.colnames or len(t) == n:
        return t
    from astropy.table import vstack
    return vstack([Table({"_": np.zeros(n - len(t))}), t])[t.colnames]


def _keys_of(tree: Any, before: str = "") -> List[str]:
    found: List[str] = []
    for k, v in tree.items():
        key = before + k
        if isinstance(v, dict):
            found += _keys_of(v, key + ".")
        elif isinstance(v, list) and v and all(isinstance(i, dict) for i in v):
            for n, item in enumerate(v):
                found += _keys_of(item, "%s[%d]." % (key, n))
        else:
            found.append(key)
    return found


_known: Dict[str, Dict[str, Tuple[str, ...]]] = {}


def sensor_keys() -> Dict[str, Tuple[str, ...]]:
    """{"ngs": keys, "lgs": keys} of a sensor, as the program has them."""
    program = find_program()
    if program not in _known:
        lines = check_finished(run_program([program, "params", "--keys"])).output.splitlines()
        words = [line.split()[:2] for line in lines if line.strip()]
        both = [w[1] for w in words if w[0] == "sensor"]
        _known[program] = {kind: tuple(dict.fromkeys(both + [w[1] for w in words if w[0] == kind])) for kind in ("ngs", "lgs")}
    return _known[program]


def parameters(word: str = "") -> str:
    """What `moao params WORD` says: every parameter, a section, a key, or those whose texts have a word."""
    return check_finished(run_program([find_program(), "params"] + ([word] if word else []))).output


def sweep_table(folder: str) -> Table:
    """The table of a sweep: keys first (meta["keys"]), then the figures of merit; meta["folder"]."""
    from .sweep import Sweep, read_cells
    s = Sweep(folder)
    table, _, nkeys = s._table() if s.path.endswith(".fits") else (read_cells(s.path), None, None)
    table.meta.clear()
    table.meta.update(folder=folder, keys=table.colnames[:nkeys] if nkeys is not None else list(s.keys))
    return table
