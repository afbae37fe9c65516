"""What the families of the fault campaign share: cases to run, running them under a limit, judging what they leave.

A trial is described by one line, `FAMILY key=value key=value ...`, from which it can be run again. It ends in a
verdict: ok, or one of VERDICTS with a text. Nothing here draws random numbers: that is done when trials are listed."""
import glob
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import CASE, MOAO, QUICK_CASE, ROOT, as_built, environment, maps, open_mpi_5, parts, patience, write_case  # noqa: E402

# hang: does not end in time; crash: ends by a signal that was not sent, or under a sanitizer's message; lost: work that
# was finished is computed again, or the run cannot be ended; wrong: results or exit code are not those expected;
# leftover: files or processes stay; unclear: a failure without one line that says why
VERDICTS = ("hang", "crash", "lost", "wrong", "leftover", "unclear")
LIMIT = int(os.environ.get("MOAO_FAULT_LIMIT", "60"))  # seconds for a run of a few: machines that test are busy
CRASH = re.compile(r"SIGSEGV|Segmentation fault|signal 11 |signal 6 |signal 8 |signal 7 |SIGFPE|SIGABRT|SIGBUS|"
                   r"Floating point exception|Bus error|Aborted|AddressSanitizer|runtime error:|stack smashing|"
                   r"double free|corrupted|malloc\(\)|munmap_chunk")
NOTICE = re.compile(r"^(moao: )?(warning|note)\b|^moao: .*: the run is asked to stop$|^moao: asked to stop: |^\[[\w.-]+:\d+\]|"
                    r"^MPI_ABORT|^with errorcode|^mpirun")

# 2 reconstructors, 6 exposures of 8 targets in chunks of 2: 24 parts; a tenth of a second of computing
TINY_CASE = re.sub(r"nssp: (16|10)", "nssp: 4", CASE).replace("nssp: 8", "nssp: 4").replace("nssp: 12", "nssp: 5") \
    .replace("end: 30 min", "end: 15 min").replace("oversampling: 8", "oversampling: 2").replace("none}", "short}") \
    .replace("psf: {", "psf: {residual: sensor, ")
# 6 parts: every call and allocation of it can be tried
LEAST_CASE = TINY_CASE.replace("residual: sensor, ", "").replace("exposure_interval: 3 min", "exposure_interval: 15 min") \
    .replace("targets_per_chunk: 2", "targets_per_chunk: 4").replace("psf: short}", "psf: short, matrices: [Cmm]}")
# some seconds, 40 parts: long enough to be hit by signals
LONG_CASE = QUICK_CASE.replace("psf: none", "psf: short")
# as many parts of the same kinds in less than half of the time, with sensors and a mirror still coarser: signals that come at a part or
# a file find the same places in it, and those that come at a time have less to choose from
BRIEF_CASE = LONG_CASE.replace("nssp: 10", "nssp: 6").replace("nssp: 8", "nssp: 5").replace("nssp: 9", "nssp: 6")
# another run, whose parts must never be taken for those of the first
OTHER_CASE = LEAST_CASE.replace("diameter: 8 m", "zenith: 30 deg, diameter: 8 m")
CASES = {"tiny": TINY_CASE, "least": LEAST_CASE, "long": LONG_CASE, "brief": BRIEF_CASE, "other": OTHER_CASE}
# forms of Cmm, with a name each: "least-tlr". FP16 is computed on devices, for which the CPU stands
FORMS = {"tlr": "factor: tlr", "spread": "factor: tlr, tlr_distributed: true", "grid": "product: toeplitz", "auto": "factor: auto",
         "mixed": "precision: mixed", "blocks": "factor: distributed", "fp16": "factor: fp16"}
CASES.update({"%s-%s" % (name, form): CASES[name].replace("compute: {", "compute: {%s, " % words)
              for name in ("least", "long", "brief") for form, words in FORMS.items()})
# what a run can do besides, coarse: the lines that the case gets, and what takes the place of its texts
STAR = "  - {type: ngs, nssp: 1, direction: [20, 20], magnitude: 11, band: R, slope: points, low_order: true}\n"
MODES = {
    "glao": ("mode: glao\nmirrors: {altitude: 100 m, pitch: 2 m}\nloop: {type: integrator, gain: 0.5, frames: 2, rate: 500 Hz}\n", {}),
    "mcao": ("mode: mcao\noptimise: {list: [[0, 0], [20, 0], [0, 20]]}\nmirrors: {altitude: [0, 8 km], pitch: [2 m, 4 m]}\n"
             "loop: {type: integrator, gain: optimal, frames: 1, rate: 200 Hz, low: {control: cascade}}\n", {"targets: {": STAR + "targets: {"}),
    "split": ("mode: split\nmirrors: {for: [common, target], altitude: [100 m, 0], pitch: [4 m, 2 m], delay: [4 ms, 2 ms]}\n"
              "split: {shift: [0.1, 0.0]}\n", {}),
    "nodes": ("errors: {jitter: [3, 4], static_rms: 20, vibrations: {frequency: [20], x: [3], y: [2]}}\n",
              {"{nx: 4, ny: 2, width: 60 arcsec, height: 30 arcsec}": "{nx: 12, ny: 6, width: 30 arcsec, height: 15 arcsec}, "
               "sampling: nodes, tolerance: 0.01", "matrices: [Cmm]": "field: true"}),
    "pupil": ("errors: {sodium_altitude: 5 m, sodium_drift: 1, sodium_interval: 2}\n",
              {"obscuration: 0.14": "obscuration: 0.14, spiders: {number: 3, width: 20 cm}, "
               "segments: {shape: hexagon, size: 2 m, piston: 20}", "slope: points": "slope: gradient",
               "wavelengths: [1.65 um, 2.2 um]": "wavelengths: [1.65 um], bands: [K]"}),
}


def in_mode(lines, texts):
    """The least case with these lines, and other texts in place of its own, which it must have."""
    case = LEAST_CASE
    for old, new in {"schedule:": lines + "schedule:", **texts}.items():
        if old not in case:
            raise ValueError("the least case has no " + old)
        case = case.replace(old, new)
    return case


CASES.update({"least-" + name: in_mode(*how) for name, how in MODES.items()})
# for `moao check`: tables of mean gradients, which it counts
CASES["check"] = LEAST_CASE.replace("slope: points", "slope: gradient")
CASES["check-tlr"] = CASES["check"].replace("compute: {", "compute: {factor: tlr, ")
CASES["check-layers"] = CASES["least-mcao"].replace("compute: {", "compute: {phase: layers, ")


def on_device(form):
    """Whether a form needs one, as the keys of trials say it."""
    return "1" if form in ("mixed", "fp16") else "0"


CHECK = ["--nodes", "1", "--cores", "2", "--gflops", "10", "--memory", "8"]


class Fail(Exception):
    """A trial's verdict other than ok."""

    def __init__(self, verdict, text):
        super().__init__(text)
        self.verdict = verdict


class Result:
    """How a command ended: exit code (None: it did not), its output, its time."""

    def __init__(self, code, text, seconds):
        self.code, self.text, self.seconds = code, text, seconds


def spec_of(family, **keys):
    return " ".join([family] + ["%s=%s" % (k, v) for k, v in keys.items()])


def keys_of(spec):
    return dict(word.split("=", 1) for word in shlex.split(spec)[1:])


def processes_with(word):
    """Numbers of the processes whose command line contains a word."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if word.encode() in f.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


def children_of(pid):
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                m = re.match(r"(\d+) \(.*\) \S (\d+)", f.read())
        except OSError:
            continue
        if m and int(m.group(2)) == pid:
            found.append(int(m.group(1)))
    return sorted(found)


def kill_all(word):
    for pid in processes_with(word):
        if pid != os.getpid():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def stacks(word):
    """Where processes stand that do not end, as far as a debugger is there to tell."""
    text = ""
    for pid in processes_with(word):
        if pid == os.getpid():
            continue
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                text += "%d %s\n" % (pid, f.read().replace(b"\0", b" ").decode("utf-8", "replace")[:100])
        except OSError:
            continue
        if shutil.which("gdb"):
            p = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "bt 14"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, universal_newlines=True, check=False)
            text += "".join("  " + s + "\n" for s in p.stdout.splitlines() if s.startswith("#"))
    return text


def tree(folder):
    """Names of all files below a folder."""
    return sorted(os.path.relpath(os.path.join(d, n), folder) for d, _, names in os.walk(folder) for n in names)


def tool(name, build):
    """A program or library that the campaign builds for itself (make fault-tools)."""
    return os.path.join(build, "tests", "fault", name)


class Lab:
    """A folder to work in, the program, and the results of uninterrupted runs to compare with."""

    def __init__(self, folder, build):
        self.dir, self.build = os.path.realpath(folder), build
        self.moao = os.environ.get("MOAO") or os.path.join(build, "moao")
        self.preload = tool("preload.so", build)
        self.guard = threading.Lock()
        self.references, self.serial = {}, 0
        self.coverage = {}  # of the fuzzed readers: edges reached
        self.mpi_5 = None  # as open_mpi_5 has it, {}: it cannot be had
        self.since = None  # a revision: only what has changed since is tried (campaign.py)
        for name, text in CASES.items():
            write_case(self.case(name), text)

    def open_mpi_5(self):
        """Variables by which the program finds Open MPI 5, installed once; None where that cannot be had."""
        with self.guard:
            if self.mpi_5 is None:
                self.mpi_5 = open_mpi_5(os.path.join(self.dir, "openmpi5")) or {}
        return self.mpi_5 or None

    def case(self, name):
        return os.path.join(self.dir, name + ".yaml")

    def folder(self):
        """A new name, which no other process's command line contains."""
        with self.guard:
            self.serial += 1
            return os.path.join(self.dir, "trial-%06d" % self.serial)

    def command(self, case, out, *args, ranks=1, preload=False, env=None, start="mpirun"):
        """Command line and environment of `moao run`; ranks 1 runs without mpirun, others by it or (start: moao) by `moao run -n`."""
        command = [self.moao, "run", self.case(case) if "/" not in case else case, "-o", out, "-q"] + list(args)
        env = dict({"OMPI_MCA_mpi_yield_when_idle": "1"}, **(env or {}))
        if ranks == 1 and preload:
            env["LD_PRELOAD"] = self.preload
        full = environment(**env)
        if ranks > 1:
            if start == "moao":
                return command[:2] + ["-n", str(ranks)] + command[2:], full
            libraries = [self.preload] + full.get("LD_PRELOAD", "").split()
            command = ["mpirun", "-n", str(ranks)] + (["-x", "LD_PRELOAD=" + " ".join(libraries)] if preload else []) + command
        return command, full

    def run(self, command, env, limit=LIMIT, mark=None, cwd=None, before=None):
        """Run a command to its end; processes whose command line has `mark` in it are killed after the limit."""
        start, where = time.monotonic(), ""
        log = os.path.join(self.dir, "log-%d-%d" % (threading.get_ident(), time.monotonic_ns()))
        with open(log, "w+b") as f:
            p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.STDOUT, env=env,
                                 cwd=cwd or self.dir, start_new_session=True, preexec_fn=before)
            try:
                code = p.wait(patience(limit))
            except subprocess.TimeoutExpired:
                code, where = None, stacks(mark or command[-1])
                kill_all(mark or command[-1])
                try:
                    os.killpg(p.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                p.wait()
            f.seek(0)
            text = f.read().decode("utf-8", "replace") + where
        os.remove(log)
        return Result(code, text, time.monotonic() - start)

    def moao_run(self, case, out, *args, ranks=1, preload=False, env=None, limit=LIMIT, start="mpirun"):
        command, full = self.command(case, out, *args, ranks=ranks, preload=preload, env=env, start=start)
        return self.run(command, full, limit, mark=out)

    def check(self, case, preload=False, env=None):
        """`moao check` for a machine that is described: what it says does not depend on this one."""
        env = dict({"LD_PRELOAD": self.preload} if preload else {}, **(env or {}))
        return self.run([self.moao, "check", self.case(case)] + CHECK, environment(**env), mark=self.case(case))

    def reference(self, case, ranks=1, resident=False):
        """Folder of the uninterrupted run of a case on so many ranks; made once."""
        key = (case, ranks, resident)
        with self.guard:
            lock = self.references.setdefault(key, [threading.Lock(), None])
        with lock[0]:
            if lock[1] is None:
                out = os.path.join(self.dir, "reference-%s-%d%s" % (case, ranks, "-resident" if resident else ""))
                r = self.moao_run(case, out, ranks=ranks, env=RESIDENT if resident else None)
                if r.code != 0:
                    raise RuntimeError("the uninterrupted run failed:\n" + r.text)
                lock[1] = out
        return lock[1]


RESIDENT = {"MOAO_TEST_DEVICE": "cpu"}


# --- judging

def check_ended(r, allow_killed=False):
    """A run ended in time, and by itself."""
    if r.code is None:
        raise Fail("hang", "did not end:\n" + r.text)
    killed = allow_killed and "signal 9" in r.text
    if (CRASH.search(r.text) and not killed) or r.code in (-11, -6, -8, -7, 139, 134, 136, 135):
        raise Fail("crash", "exit code %d:\n%s" % (r.code, r.text))


def messages(text):
    """The lines that a failed run prints about its failure: not warnings, nor mpirun's framed notices."""
    lines, framed = [], False
    for line in text.splitlines():
        if re.match(r"^-{40,}$", line):
            framed = not framed
        elif not framed and line.strip() and not NOTICE.match(line):
            lines.append(line)
    return lines


def check_message(r, pattern=None):
    """A failure is told in one line."""
    lines = messages(r.text)
    if len(lines) != 1:
        raise Fail("unclear", "%d lines, expected 1, exit code %s:\n%s" % (len(lines), r.code, r.text))
    if pattern and not re.search(pattern, lines[0]):
        raise Fail("unclear", "not about /%s/: %s" % (pattern, lines[0]))


def check_no_process(out):
    end = time.monotonic() + 30
    while processes_with(out):
        if time.monotonic() > end:
            left = processes_with(out)
            kill_all(out)
            raise Fail("leftover", "processes stay: %s" % left)
        time.sleep(0.02)


def check_no_temporary(out):
    left = [n for n in tree(out) if re.search(r"tmp|temp|~$|\.new|\.part$", os.path.basename(n))]
    if left:
        raise Fail("leftover", "temporary files stay: %s" % left)


def same(out, expected, tolerance=None, but=()):
    """None, or the first difference between two folders' maps, PSFs and matrices, but for extensions with these names."""
    import numpy
    for name in [n for n in tree(expected) if n.endswith(".fits")]:
        if not os.path.exists(os.path.join(out, name)):
            return name + " is not there"
        try:
            a, b = maps(expected, name), maps(out, name)
        except Exception as e:  # whatever astropy says of a damaged file
            return "%s cannot be read: %s" % (name, e)
        if sorted(a) != sorted(b):
            return name + ": other extensions"
        for key in a:
            if any(" %s" % word in key for word in but):
                continue
            if (a[key].dtype, a[key].shape) != (b[key].dtype, b[key].shape):
                return "%s: %s has another shape" % (name, key)
            if a[key].tobytes() == b[key].tobytes():
                continue
            if tolerance is None or a[key].dtype.kind != "f":
                return "%s: %s differs" % (name, key)
            # images are kept in single precision
            eps = max(tolerance, 1e-6 if a[key].dtype.itemsize == 4 else 0)
            scale = max(numpy.nanmax(abs(a[key])), 1e-300)
            if not numpy.allclose(a[key], b[key], rtol=0, atol=eps * scale, equal_nan=True):
                return "%s: %s differs by more than %g" % (name, key, eps)
    return None


def check_finished(out, expected, tolerance=None):
    """A finished folder holds what the uninterrupted run's does, and nothing else."""
    difference = same(out, expected, tolerance)
    if difference:
        raise Fail("wrong", difference)
    if tree(out) != tree(expected):
        more, less = set(tree(out)) - set(tree(expected)), set(tree(expected)) - set(tree(out))
        raise Fail("leftover" if more else "lost", "files: %s more, %s missing" % (sorted(more), sorted(less)))
    try:
        with open(os.path.join(out, "run.json"), encoding="utf-8") as f:
            json.load(f)
    except (OSError, ValueError) as e:
        raise Fail("wrong", "run.json: %s" % e) from None
    with open(os.path.join(expected, "effective.yaml"), "rb") as f:
        effective = f.read()
    try:
        with open(os.path.join(out, "effective.yaml"), "rb") as f:
            found = f.read()
    except OSError as e:
        raise Fail("lost", str(e)) from None
    if found != effective:
        raise Fail("wrong", "effective.yaml differs")


def resume(lab, case, out, ranks=1, resident=False, expected=None, tolerance=None, **how):
    """Go on with an interrupted run: it ends, with the results expected, and keeps every part that there was. how: of moao_run."""
    kept = {p: os.stat(p).st_mtime_ns for p in parts(out)}
    r = lab.moao_run(case, out, "--resume", ranks=ranks, **dict({"env": RESIDENT if resident else None}, **how))
    check_ended(r)
    if r.code != 0:
        raise Fail("lost", "cannot be resumed, exit code %d:\n%s" % (r.code, r.text))
    if kept and "computed again" in r.text:
        raise Fail("lost", r.text)
    check_finished(out, expected or lab.reference(case, ranks, resident), tolerance)


def attempt(lab, function, spec):
    """Run a trial; (verdict, text). Its folder is removed."""
    out = lab.folder()
    try:
        note = function(lab, keys_of(spec), out)
        return "ok", note or ""
    except Fail as e:
        return e.verdict, str(e)
    finally:
        shutil.rmtree(out, ignore_errors=True)
