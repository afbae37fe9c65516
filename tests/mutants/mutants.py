#!/usr/bin/env python3
"""Do the tests notice? A campaign of changes of one line each, made by hand, of code that computes or protects.

    make mutants [N=50] [ONLY=word] [SINCE=revision] [SEED=1] [LIMIT=seconds] [AGAIN=1] [WORKERS=cores/2]

Lists: tests/mutants/*.txt, an entry being

    [src/folder/file.c]
    - text that stands in the file once (blanks and line ends count as one blank; several such lines are one text)
    + what takes its place
    : what breaks
    @ tests/unit/test_x tests/e2e/test_y.py:Class.test     (optional: these tests first)
    = why no test can notice                               (optional: an equivalent change, which is left out)

A change is made in a copy of the tree in a temporary folder with a build folder of its own; what depends is built (a change that
does not build says nothing and is an error of the list). Then tests run until the first one fails: those of the entry, those that
FIRST and THEN (end to end) name for the folder, the quickest first, and the other unit and MPI tests in the same order, for LIMIT
seconds of the processor. Programs without code of the changed file are left out. A test that does not end in time has noticed.
Every test must pass without a change before it counts. Verdicts are kept in the copy's folder: a campaign that was interrupted
goes on, and one of a later revision runs the survivors again (AGAIN=1: all). Several workers have a copy each.
"""
import argparse
import datetime
import hashlib
import importlib.util
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FIELDS = {"-": "old", "+": "new", ":": "what", "@": "tests", "=": "equivalent"}
PATIENCE = 60  # seconds that a test may take in any case; else thirty times its processor time without a change

# Tests of a folder, quick ones first: names as tests/run.py has them, without tests/ (a word ending in * is a beginning).
OPERATORS = ["unit/test_operator*", "mpi/test_bcmat", "unit/test_pair_tiles", "unit/test_backend_lattice_pairs", "mpi/test_operator",
             "mpi/test_group"]
FIRST = {
    "src/base": ["unit/test_base", "unit/test_fits", "unit/test_progress", "unit/test_memory_limits", "unit/test_store",
                 "unit/test_cmdline", "mpi/test_report", "mpi/test_params", "mpi/test_agree"],
    "src/params": ["unit/test_units", "unit/test_params*", "unit/test_sky", "unit/test_system", "unit/test_atmos",
                   "unit/test_legacy", "mpi/test_params"],
    "src/system": ["unit/test_system", "unit/test_sky", "unit/test_atmos", "unit/test_noise"],
    "src/backend": ["unit/test_operator_check", "unit/test_linalg*"],
    "src/linalg/core": ["unit/test_operator_check", "unit/test_linalg*"],
    "src/linalg/cpu": ["unit/test_linalg*"],
    "src/linalg/fp16": ["unit/test_linalg*"],
    "src/matcov": ["unit/test_structure", "unit/test_noise", "unit/test_matcov", "unit/test_gradient", "unit/test_phase",
                   "unit/test_difference", "unit/test_backend_gradient", "unit/test_backend_phase", "mpi/test_matcov",
                   "mpi/test_command"],
    "src/engine": OPERATORS,
    "src/factor": OPERATORS,
    "src/residual": OPERATORS,
    "src/operator": OPERATORS,
    "src/tor": ["mpi/test_agree", "mpi/test_tor", "mpi/test_command", "mpi/test_operator", "unit/test_operator*", "unit/test_matcov"],
    "src/obsseq": ["mpi/test_agree", "mpi/test_operator", "mpi/test_truth", "unit/test_phase"],
    "src/psf": ["unit/test_psf*", "unit/test_backend_psf", "mpi/test_truth", "physics/test_fitting"],
    "src/budget": ["mpi/test_truth", "physics/test_fitting", "unit/test_phase"],
    "src/store": ["unit/test_store*"],
    "src/maps": ["unit/test_maps", "unit/test_fits"],
    "src/job": ["unit/test_cmdline", "unit/test_plan", "unit/test_sweep", "unit/test_memory_limits", "unit/test_operator_sizes"],
    "src/asterism": ["unit/test_sky", "mpi/test_asterism"],
    "src/linalg/tlr": ["unit/test_tlr*", "mpi/test_tlr_procs"],
    "src/linalg/hier": ["unit/test_hier*"],
    "python": [],
}
# End-to-end cases, file or file:Class.test, of a folder; at the end.
WHOLE = ["e2e/test_budget.py:Terms.test_every_reconstructor", "e2e/test_golden.py:Golden", "e2e/test_physics.py:Physics",
         "e2e/test_budget.py:Terms.test_points"]
THEN = {
    **{"src/" + f: WHOLE for f in ("params", "system", "matcov", "linalg/cpu", "linalg/fp16", "engine", "factor", "residual", "operator", "tor", "obsseq", "psf", "budget")},
    "src/base": ["e2e/test_outputs.py:Outputs.test_damaged_results"],
    "src/tor": WHOLE + ["e2e/test_projection.py:Projection.test_golden_case"],
    "src/store": ["e2e/test_outputs.py:Outputs.test_damaged_results"],
    "src/maps": ["e2e/test_outputs.py:Outputs"],
    "src/job": ["e2e/test_check.py:Check.test_it_tells_what_a_user_needs_before_submitting",
                "e2e/test_verify.py:Verify.test_flips_are_found", "e2e/test_verify.py:Verify.test_agrees"],
    "src/asterism": ["e2e/test_asterism.py:Asterisms.test_the_best_is_the_best_of_all",
                     "e2e/test_asterism.py:Sky.test_celestial_coordinates"],
    "python": ["e2e/test_python.py:Reading", "e2e/test_python.py:Images", "e2e/test_python.py:Commands",
               "e2e/test_asterism.py:Sky", "e2e/test_foreign.py", "e2e/test_python_files.py"],
}
TREE = ("src", "tests", "scripts", "python", "params", "examples", "docs", "bench", "Makefile", "VERSION", "README.md",
        "CITATION.cff", "CHANGELOG.md", "LICENSE", "CONTRIBUTING.md", "config.mk")


class Mistake(Exception):
    """Of the list or of the machine: one line."""


class Entry:
    """A change: file, old, new, what, tests, equivalent, and where it stands in the list."""

    def __init__(self, file, where):
        self.file, self.where = file, where
        self.old = self.new = self.what = self.tests = self.equivalent = None

    def pattern(self):
        return re.compile(r"\s+".join(re.escape(w) for w in self.old.split()))

    def apply(self, text):
        """The text with the change; Mistake unless it has exactly one place."""
        found = list(self.pattern().finditer(text))
        if len(found) != 1:
            raise Mistake("%s: %s in %s: %s" % (self.where, "stands %d times" % len(found) if found else "is not there",
                                                self.file, self.old))
        return text[:found[0].start()] + self.new + text[found[0].end():]

    def key(self):
        return hashlib.sha1("\0".join((self.file, self.old, self.new)).encode()).hexdigest()[:12]

    def line(self, root=ROOT):
        with open(os.path.join(root, self.file), encoding="utf-8") as f:
            text = f.read()
        found = self.pattern().search(text)
        return text.count("\n", 0, found.start()) + 1 if found else 0  # it may have changed while a campaign runs


def read_list(path, shown):
    entries, file, last = [], None, ""
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    for i, line in enumerate(lines, 1):
        where = "%s:%d" % (shown, i)
        if line.startswith("[") and line.endswith("]"):
            file, last = line[1:-1], ""
        elif not line.strip() or line.startswith("#"):
            last = ""
        elif line[0] in FIELDS and line[1:2] in ("", " ") and file:
            if line[0] == "-" and last != "-":
                entries.append(Entry(file, where))
            name, value = FIELDS[line[0]], line[2:].strip()
            if not entries or (last == "" and line[0] != "-"):
                raise Mistake("%s: an entry begins with '- text'" % where)
            before = getattr(entries[-1], name)
            setattr(entries[-1], name, value if before is None else before + " " + value)
            last = line[0]
        else:
            raise Mistake("%s: neither [file] nor one of '%s' and a blank" % (where, " ".join(FIELDS)))
    return entries


def read_lists(root=ROOT):
    folder = os.path.join(root, "tests", "mutants")
    return [e for name in sorted(os.listdir(folder)) if name.endswith(".txt")
            for e in read_list(os.path.join(folder, name), "tests/mutants/" + name)]


def check(root=ROOT):
    """What is wrong with the lists: every entry has its place, changes something, and says what breaks."""
    try:
        entries = read_lists(root)
    except Mistake as e:
        return [str(e)]
    wrong, known = [], {}
    for e in entries:
        try:
            if e.new is None or e.what is None:
                raise Mistake("%s: '+ text' or ': what breaks' is missing" % e.where)
            with open(os.path.join(root, e.file), encoding="utf-8") as f:
                text = f.read()
            if e.apply(text) == text:
                raise Mistake("%s: changes nothing" % e.where)
            if known.setdefault(e.key(), e) is not e:
                raise Mistake("%s: is in the list already, %s" % (e.where, known[e.key()].where))
        except (Mistake, OSError) as fault:
            wrong.append(str(fault))
    return wrong


# --- the copy

def listed(root):
    p = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE, text=True, check=True)
    names = p.stdout.splitlines() + (["config.mk"] if os.path.exists(os.path.join(root, "config.mk")) else [])
    return [n for n in names if os.path.isfile(os.path.join(root, n)) and n.split("/")[0] in TREE]


def copy_tree(root, copy):
    """Make the copy as the tree; what is as it was keeps its time, so that little is built anew."""
    names = set(listed(root))
    for folder, inner, found in os.walk(copy):
        if folder == copy and "build" in inner:
            inner.remove("build")
        for name in found:
            path = os.path.join(folder, name)
            if os.path.relpath(path, copy) not in names:
                os.remove(path)
    for name in names:
        a, b = os.path.join(root, name), os.path.join(copy, name)
        with open(a, "rb") as f:
            data = f.read()
        if os.path.exists(b):
            with open(b, "rb") as f:
                if f.read() == data:
                    continue
        os.makedirs(os.path.dirname(b), exist_ok=True)
        shutil.copyfile(a, b)
        shutil.copymode(a, b)


def load_runner(copy):
    """tests/run.py of the copy, as a module; it finds its neighbours."""
    sys.path.insert(0, os.path.join(copy, "tests"))
    spec = importlib.util.spec_from_file_location("moao_run", os.path.join(copy, "tests", "run.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Campaign:
    """The copy, its tests, and what is known of them and of the changes."""

    def __init__(self, work, limit, quick):
        self.work, self.limit, self.quick = work, limit, quick
        self.copy = os.path.join(work, "tree")
        self.build = os.path.join(self.copy, "build")
        os.makedirs(self.copy, exist_ok=True)
        copy_tree(ROOT, self.copy)
        self.revision = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], stdout=subprocess.PIPE, text=True,
                                       check=True).stdout.strip()
        self.tree = hashlib.sha1(b"".join(open(os.path.join(ROOT, n), "rb").read() for n in sorted(listed(ROOT))
                                          if n.startswith(("src/", "tests/", "python/")))).hexdigest()[:12]
        self.path = os.path.join(work, "state.json")
        self.state = {"tests": {}, "changes": {}}
        if os.path.exists(self.path):
            with open(self.path, encoding="utf-8") as f:
                self.state = json.load(f)
        self.runner = load_runner(self.copy)
        self.patience = 1e9
        run = self.runner.run
        self.runner.run = lambda command, timeout, *rest, **more: run(command, min(timeout, self.patience), *rest, **more)
        self.jobs, self.sources, self.links, self.stale = {}, {}, {}, None

    def save(self):
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            json.dump(self.state, f, indent=0)
        os.replace(self.path + ".new", self.path)

    def make(self, *targets):
        """(whether it could be built, the compiler's words)"""
        env = dict(os.environ)
        if shutil.which("ccache"):
            env.setdefault("OMPI_CC", "ccache gcc")
        p = subprocess.run(["make", "--no-print-directory", "-j2", "-C", self.copy, *targets], stdout=subprocess.PIPE, env=env,
                           stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
        return p.returncode == 0, p.stdout

    def open(self):
        good, text = self.make("all", "tests")
        if not good:
            raise Mistake("the tree does not build:\n" + text[-2000:])
        self.runner.choose_blas_kernel(os.path.join(self.build, "moao"))
        # how each test program is linked, as make does it; it takes longer to look for what has to be made than to link
        programs = sorted({os.path.relpath(p, self.copy)[:-2] for k in ("unit", "physics", "mpi")
                           for p in self.runner.c_files("tests/%s/test_*.c" % k)})
        _, text = self.make("-n", "V=1", "-W", "build/libmoao.a", *["build/" + p for p in programs])
        for line in text.splitlines():
            m = re.search(r" -o (build/tests/\S+) ", line)
            if m and " -c " not in line:
                self.links[m.group(1)[len("build/tests/"):]] = line
        for kind in ("unit", "physics", "mpi", "e2e"):
            for job in self.runner.tests_of(kind, self.build, os.cpu_count() or 1):
                self.jobs[job.name[len("tests/"):]] = job

    # --- tests

    def names(self, words):
        found = []
        for word in words:
            if word.startswith("tests/"):
                word = word[len("tests/"):]
            if ":" in word or word.endswith(".py"):
                some = [word]
            else:
                some = [n for n in self.jobs if n.split(" ")[0] == word or (word.endswith("*") and n.startswith(word[:-1]))]
            if not some:
                raise Mistake("no test is called %s" % word)
            found += [n for n in some if n not in found]
        return found

    def case(self, name):
        """One case of an end-to-end script: whether it passed, its output."""
        file, case = name.split(":")
        env = self.runner.environment(MOAO=os.path.join(self.build, "moao"), MOAO_ROOT=self.copy, PYTHONDONTWRITEBYTECODE="1")
        python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
        code, text = self.runner.run([python, os.path.join(self.copy, "tests", file), case], 600, env)
        return code == 0 and "skipped=" not in text, text

    def test(self, name):
        """(whether it passed, seconds of the processor); a test that is not built: None."""
        program = name.split(" ")[0]
        if ".py" not in name and self.stale is not None and program in self.links:
            if program not in self.stale:  # the library alone has changed
                if subprocess.run(self.links[program], shell=True, cwd=self.copy, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, check=False).returncode:
                    return None, 0
                self.stale.add(program)
        elif ".py" not in name and not self.make("build/tests/" + program)[0]:
            return None, 0
        elif ".py" in name and self.stale is not None and "moao" not in self.stale:
            if not self.make("all")[0]:
                return None, 0
            self.stale.add("moao")
        self.runner.JOB.seconds = 0
        if ":" in name:
            return self.case(name)[0], self.runner.JOB.seconds
        o = self.jobs[name].call()
        # a program that the system cannot load says nothing of the change
        return not o.failed or "error while loading shared libraries" in o.text, self.runner.JOB.seconds

    def known(self, name):
        """A test as it is without a change: run once, then remembered for this tree."""
        t = self.state["tests"].get(name)
        if t is None or (t["tree"] != self.tree and not t["good"]):
            self.patience = 1e9
            good, seconds = self.test(name)
            t = self.state["tests"][name] = {"good": bool(good), "seconds": round(seconds, 2), "tree": self.tree}
            if not good:
                print("    %s fails without a change: not used" % name, flush=True)
            self.save()
        return t

    def can_notice(self, name, file):
        """Whether a program has code of a source: its name is then in what debuggers read."""
        program = os.path.join(self.build, "tests", name.split(" ")[0])
        if not file.endswith(".c") or not os.path.exists(program):
            return True  # a header is everybody's
        if program not in self.sources:
            with open(program, "rb") as f:
                self.sources[program] = set(re.findall(rb"src/(?:\w+/)+\w+\.[ch]", f.read()))
        return file.encode() in self.sources[program]

    def plan(self, entry):
        """Names of the tests: those of the entry and its folder, and the others, the quickest first."""
        folder = next((f for f in FIRST if entry.file.startswith(f + "/")), None)
        own, related = self.names((entry.tests or "").split()), self.names(FIRST.get(folder, []) + THEN.get(folder, []))
        if self.quick:
            own, related = [[n for n in some if ".py" not in n] for some in (own, related)]
        first = list(dict.fromkeys(own + sorted(related, key=lambda n: self.known(n)["seconds"])))
        rest = [n for n in self.jobs if n.startswith(("unit/", "mpi/")) and n not in first]
        rest = [] if entry.file.startswith("python/") else sorted(rest, key=lambda n: self.known(n)["seconds"])
        return [[n for n in some if self.can_notice(n, entry.file)] for some in (first, rest)]

    def noticed_by(self, entry):
        """The first test that fails, None, or Mistake where the change does not build."""
        first, rest = self.plan(entry)
        if self.quick:
            first, rest = [n for n in first if self.known(n)["seconds"] <= self.quick], []
        plan = [(n, self.known(n)) for n in first + rest]
        path = os.path.join(self.copy, entry.file)
        with open(path, encoding="utf-8") as f:
            text = f.read()
        spent = 0.0
        try:
            with open(path, "w", encoding="utf-8") as f:
                f.write(entry.apply(text))
            good, said = self.make("build/libmoao.a" if entry.file.endswith(".c") else "all")
            self.stale = set() if entry.file.endswith(".c") else None  # programs that have been linked with it
            if not good:
                raise Mistake("%s: does not build: %s" % (entry.where, "".join(re.findall(r".*error:.*", said)[:1])))
            for name, t in plan:
                if not t["good"] or (name in rest and spent > self.limit):
                    continue
                self.patience = max(PATIENCE, 30 * t["seconds"])
                begin = time.monotonic()
                good, seconds = self.test(name)
                if good is None:
                    raise Mistake("%s: %s does not build" % (entry.where, name))
                spent += seconds
                if not good:
                    return name + (" (no end)" if time.monotonic() - begin >= self.patience else "")
            return None
        finally:
            self.stale = None
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)

    # --- the campaign

    def every_test(self, entries):
        """Names of all tests that plans may name; end-to-end ones, which take longest, at first."""
        words = [w for e in entries for w in (e.tests or "").split()] + [w for some in (FIRST, THEN) for l in some.values() for w in l]
        names = dict.fromkeys(self.names(words) + [n for n in self.jobs if n.startswith(("unit/", "mpi/"))])
        return sorted(names, key=lambda n: (":" in n, ".py" not in n))

    def is_known(self, entry, again):
        v = self.state["changes"].get(entry.key())
        return v is not None and not again and (v["by"] or (v["tree"] == self.tree and v.get("quick", 0) == self.quick))

    def verdict(self, entry):
        begin = time.monotonic()
        by = self.noticed_by(entry)
        return {"by": by, "tree": self.tree, "revision": self.revision, "quick": self.quick,
                "seconds": round(time.monotonic() - begin, 1), "date": datetime.date.today().isoformat()}

    def keep(self, entry, verdict, place):
        self.state["changes"][entry.key()] = verdict
        self.save()
        print("%s  %s:%d  %s (%.0f s)" % (place, entry.file, entry.line(), "noticed by " + verdict["by"] if verdict["by"] else
                                          "SURVIVED: " + entry.what, verdict["seconds"]), flush=True)

    def run(self, entries, again):
        for i, e in enumerate(entries, 1):
            if not self.is_known(e, again):
                self.keep(e, self.verdict(e), "%3d of %d" % (i, len(entries)))

    # --- several workers

    def worker(self, k, tasks, results):
        """One of several: a copy of the built tree of its own; takes names of tests, or changes, until there are none."""
        try:
            folder = os.path.join(self.work, "worker-%d" % k)
            os.makedirs(folder, exist_ok=True)
            if not os.path.isdir(os.path.join(folder, "tree")):
                subprocess.run(["cp", "-a", self.copy, os.path.join(folder, "tree")], check=True)
            c = Campaign(folder, self.limit, self.quick)
            c.state = {"tests": dict(self.state["tests"]), "changes": {}}
            c.open()
            for task in iter(tasks.get, None):
                try:
                    results.put((task, c.verdict(task) if isinstance(task, Entry) else c.known(task)))
                except Mistake as fault:
                    results.put((task, str(fault)))
        finally:
            results.put((None, None))

    def share(self, tasks, workers):
        """Pairs of a task and its outcome (a text: what is wrong with it), as they come in."""
        waiting, results = multiprocessing.Queue(), multiprocessing.Queue()
        for t in tasks + [None] * workers:
            waiting.put(t)
        team = [multiprocessing.Process(target=self.worker, args=(k, waiting, results), daemon=True) for k in range(workers)]
        for p in team:
            p.start()
        left = workers
        while left:
            task, outcome = results.get()
            if task is None:
                left -= 1
            else:
                yield task, outcome
        for p in team:
            p.join()

    def run_shared(self, entries, again, workers):
        todo = [e for e in entries if not self.is_known(e, again)]
        tests = [n for n in self.every_test(entries) if self.state["tests"].get(n, {}).get("tree") != self.tree]
        for name, t in self.share(tests, min(workers, max(1, len(tests)))):
            self.state["tests"][name] = t
        self.save()
        wrong, tried = [], 0
        for e, v in self.share(todo, min(workers, max(1, len(todo)))):
            tried += 1
            if isinstance(v, dict):
                self.keep(e, v, "%3d of %d" % (tried, len(todo)))
            else:
                wrong.append(v)
        if tried < len(todo):
            wrong.append("%d changes were not tried, a worker ended early: the same command goes on" % (len(todo) - tried))
        if wrong:
            raise Mistake("\n".join(wrong))

    def report(self, entries):
        verdicts = [(e, self.state["changes"].get(e.key())) for e in entries]
        done = [(e, v) for e, v in verdicts if v and (v["by"] or v.get("quick", 0) == self.quick)]
        alive = [(e, v) for e, v in done if not v["by"]]
        print("\n%s, %s: %d changes tried of %d, %d noticed: %.0f %%" % (
            self.revision, datetime.date.today(), len(done), len(entries), len(done) - len(alive),
            100 * (len(done) - len(alive)) / max(1, len(done))))
        folders = sorted({os.path.dirname(e.file) for e, _ in done})
        for f in folders:
            some = [v for e, v in done if os.path.dirname(e.file) == f]
            print("    %-14s %3d of %3d" % (f, sum(bool(v["by"]) for v in some), len(some)))
        for e, _ in sorted(alive, key=lambda x: (x[0].file, x[0].line())):
            print("survivor %s:%d: %s\n    - %s\n    + %s" % (e.file, e.line(), e.what, e.old, e.new))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--check", action="store_true", help="only whether every entry has its place")
    ap.add_argument("-n", type=int, default=0, help="a sample of so many (all)")
    ap.add_argument("--only", default="", help="only entries whose file or sentence contains this word")
    ap.add_argument("--since", metavar="REVISION", help="only entries of files that have changed since")
    ap.add_argument("--seed", type=int, default=1, help="of the sample (1)")
    ap.add_argument("--limit", type=float, default=60, help="seconds for the tests of other folders, of each change (60)")
    ap.add_argument("--quick", type=float, default=0, help="only the folder's unit and MPI tests of at most so many seconds: "
                    "what they let pass is tried again without this option")
    ap.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="changes that are tried at a time (cores / 2)")
    ap.add_argument("--again", action="store_true", help="also what is known already")
    ap.add_argument("--tried", action="store_true", help="only what was tried before (with --again: once more)")
    ap.add_argument("--untried", action="store_true", help="only what was not tried before")
    ap.add_argument("--survivors", action="store_true", help="only what no test has noticed so far")
    ap.add_argument("--report", action="store_true", help="only tell what is known")
    ap.add_argument("--work", default=os.path.join(tempfile.gettempdir(), "moao-mutants-%d" % os.getuid()), help="folder of the copy")
    a = ap.parse_args()
    wrong = check()
    if wrong or a.check:
        print("\n".join(wrong) if wrong else "mutants: %d entries have their place" % len(read_lists()))
        return 1 if wrong else 0
    entries = [e for e in read_lists() if not e.equivalent and (a.only in e.file or a.only in e.what)]
    if a.since:
        p = subprocess.run(["git", "-C", ROOT, "diff", "--name-only", a.since], stdout=subprocess.PIPE, text=True, check=True)
        changed = set(p.stdout.split())
        entries = [e for e in entries if e.file in changed]
    known, state = {}, os.path.join(a.work, "state.json")
    if os.path.exists(state):
        with open(state, encoding="utf-8") as f:
            known = json.load(f)["changes"]
    if a.survivors:
        entries = [e for e in entries if e.key() in known and not known[e.key()]["by"]]
    if a.tried:
        entries = [e for e in entries if e.key() in known]
    if a.untried:
        entries = [e for e in entries if e.key() not in known]
    # in an order by chance that stays when entries come and go: any number from the first one on is a sample
    entries.sort(key=lambda e: hashlib.sha1(("%d %s" % (a.seed, e.key())).encode()).digest())
    entries = entries[:a.n] if a.n else entries
    try:
        c = Campaign(a.work, a.limit, a.quick)
        if not a.report:
            os.nice(10)
            c.open()
            if a.workers > 1:
                c.run_shared(entries, a.again, a.workers)
            else:
                c.run(entries, a.again)
        c.report(entries)
    except Mistake as e:
        print(e, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: the same command goes on", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
