#!/usr/bin/env python3
"""Run every test of moao and count the cases one by one.

Programs of tests/unit and tests/physics (cmocka) run alone, those of tests/mpi under mpirun on 1, 2 and 3 ranks
(or those a comment `/* ranks: 1 2 4 */` names), scripts of tests/e2e and tests/fault (unittest) by themselves;
then there are the checks of the sources: warnings, format, cppcheck, lint, sanitizers, valgrind.
A comment `timeout: 120` (seconds) in a test's source gives it more or less time than the default, all of them more on a busy machine; `cores: 2` says how
many it keeps busy (0: it mostly waits), `seconds: 60` how long it takes, where that is long. What takes many cores or
long begins first. Programs of tests/unit and tests/physics and the checks of the sources only compute: they run aside,
with less priority, in the time that the others leave while they wait for files, signals and each other.
The last line is `N passed, N failed`, with `, N skipped` when any; when CI=true a skip counts as failed.
"""
import argparse
import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from crowd import crowd

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KINDS = ("unit", "physics", "mpi", "e2e", "fault", "check")
TIMEOUT = {"unit": 120, "physics": 300, "mpi": 180, "e2e": 600, "fault": 600, "check": 600}
CASE = re.compile(r"^\[\s+(OK|FAILED|SKIPPED|ERROR)\s+\] (\S+)$")
RUNNING = re.compile(r"^\[=+\] .*Running (\d+) test\(s\)")
RANK = re.compile(r"^\[\d+,(\d+)\]<std(?:out|err)>: ?")


class Outcome:
    """Cases of one program: names of those that passed, failed and were skipped."""

    def __init__(self):
        self.passed, self.failed, self.skipped = [], [], []
        self.text, self.note = "", ""


class Job:
    """One program to run: `weight` cores, a function that returns its Outcome. It begins when the job `after` has passed;
    where that has failed it is left out."""

    def __init__(self, name, kind, weight, call, after=None, seconds=0):
        self.name, self.kind, self.weight, self.call, self.after = name, kind, weight, call, after
        self.seconds = seconds  # about, where it takes long
        self.aside = kind in ("unit", "physics", "check")
        self.state = None  # then whether it has passed


def environment(**more):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_plm_rsh_agent="/bin/false", MOAO_CHECK_MEMORY="yes",
               OMPI_MCA_hwloc_base_binding_policy="none", OMPI_MCA_btl_vader_single_copy_mechanism="none",
               OMPI_MCA_btl_base_warn_component_unused="0", LC_ALL="C.UTF-8",
               OMPI_MCA_mpi_yield_when_idle="1")  # programs run side by side: a rank that waits leaves its core to others
    env.update(more)
    return env


def choose_blas_kernel(moao):
    """Let the test programs use the kernel of OpenBLAS that the program chooses for itself: the one that OpenBLAS falls
    back to on processors it does not know is slow, and its strsm crashes (seen with 0.3.21)."""
    if "OPENBLAS_CORETYPE" in os.environ or not os.path.exists(moao):
        return
    kernel = re.search(r"kernel (\w+)", run([moao, "--version"], 60)[1])
    if kernel:
        os.environ["OPENBLAS_CORETYPE"] = kernel.group(1)


# .seconds: processor time of the commands that this thread has run; .aside: whether they run aside
JOB = threading.local()
PATIENCE = 1200  # seconds more for what runs aside: it may have to wait until all the others have ended


def put_aside(pid):
    """Give a process that leads a session, and what it will start, a tenth of the others' weight: its own, and its
    session's where the kernel shares the processor among sessions (autogroup)."""
    try:
        os.setpriority(os.PRIO_PGRP, pid, 10)
        with open("/proc/%d/autogroup" % pid, "w", encoding="ascii") as f:
            f.write("10")
    except OSError:
        pass  # it has ended already, or the kernel has no such file: all run alike


def wait(p, timeout):
    """Exit code of a process; subprocess.TimeoutExpired as p.wait. Its processor time, and that of all that it waited
    for, is added to JOB.seconds."""
    begin = time.monotonic()
    while True:
        pid, how, used = os.wait4(p.pid, os.WNOHANG)
        if pid:
            p.returncode = -os.WTERMSIG(how) if os.WIFSIGNALED(how) else os.WEXITSTATUS(how)
            JOB.seconds = getattr(JOB, "seconds", 0) + used.ru_utime + used.ru_stime
            return p.returncode
        if time.monotonic() > begin + timeout * crowd():
            raise subprocess.TimeoutExpired(p.args, timeout)
        time.sleep(0.02)


def run(command, timeout, env=None, cwd=ROOT):
    """Run a command with its output in one text; (exit code or None after the timeout, text)."""
    with tempfile.TemporaryFile() as out:
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                             env=env or environment(), cwd=cwd, start_new_session=True)
        if getattr(JOB, "aside", False):
            put_aside(p.pid)
            timeout += PATIENCE
        try:
            code = wait(p, timeout)
        except subprocess.TimeoutExpired:
            code = None
            for sig in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(p.pid, sig)
                    wait(p, 3)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    pass
        except BaseException:
            os.killpg(p.pid, signal.SIGKILL)
            raise
        out.seek(0)
        return code, out.read().decode("utf-8", "replace")


def comment(source, word, default):
    """What a source says after `word:` in a comment, as a list of integers."""
    with open(source, encoding="utf-8") as f:
        m = re.search(r"(?:/\*|//|#|\*)\s*%s:\s*([\d ,]+)" % word, f.read())
    return [int(x) for x in m.group(1).replace(",", " ").split()] if m else default


def finish(o, code, timeout):
    """A program that ends badly without a failed case of its own has failed as a whole."""
    if code is None:
        o.failed.append("did not end within %d s" % timeout)
    elif code != 0 and not o.failed:
        o.failed.append("exit code %d" % code)
    elif code == 0 and not (o.passed or o.failed or o.skipped):
        o.failed.append("ran no case")
    return o


def read_cmocka(text, o):
    """Count cmocka's cases; under mpirun a case must pass on every rank. A program may run several groups."""
    state, group, announced, ended = {}, {}, {}, {}
    for line in text.splitlines():
        m = RANK.match(line)
        rank, line = (int(m.group(1)), line[m.end():]) if m else (0, line)
        m = RUNNING.match(line)
        if m:
            group[rank] = group.get(rank, 0) + 1
            announced[rank] = announced.get(rank, 0) + int(m.group(1))
        m = CASE.match(line)
        if m:
            word, name = m.groups()
            if group.get(rank, 1) > 1:
                name += " of group %d" % group[rank]
            ended.setdefault(rank, set()).add(name)
            bad = {"OK": 0, "SKIPPED": 1, "FAILED": 2, "ERROR": 2}[word]
            state[name] = max(bad, state.get(name, 0))
    for name, bad in state.items():
        (o.passed, o.skipped, o.failed)[bad].append(name)
    for rank, n in announced.items():
        if n > len(ended.get(rank, ())) and not o.failed:
            o.failed.append("rank %d ended %d of %d cases" % (rank, len(ended.get(rank, ())), n))


def cmocka(program, source, kind, ranks=0, **env):
    def call():
        o = Outcome()
        timeout = comment(source, "timeout", [TIMEOUT[kind]])[0]
        command = [program]
        if ranks:
            command = ["mpirun", "--tag-output", "-n", str(ranks), program]
        threads = os.environ.get("OMP_NUM_THREADS", "1")
        code, o.text = run(command, timeout, environment(
            CMOCKA_MESSAGE_OUTPUT="stdout", OMP_NUM_THREADS=threads, OPENBLAS_NUM_THREADS=threads, **env))
        read_cmocka(o.text, o)
        return finish(o, code, timeout)
    return call


def script(path, kind, moao, python):
    def call():
        o = Outcome()
        if not os.path.exists(moao):
            return skipped(os.path.basename(path), "the program is not built")
        timeout = comment(path, "timeout", [TIMEOUT[kind]])[0]
        code, o.text = run([python, os.path.abspath(__file__), "--script", path], timeout,
                           environment(MOAO=moao, MOAO_ROOT=ROOT, PYTHONDONTWRITEBYTECODE="1"))
        for line in o.text.splitlines():
            m = re.match(r"^@case (passed|failed|skipped) (.*)$", line)
            if m:
                getattr(o, m.group(1)).append(m.group(2))
        return finish(o, code, timeout)
    return call


def run_script(path):
    """Run the unittest cases of a script, one line for each (the other side of `script`)."""
    import importlib.util
    import unittest

    class Result(unittest.TextTestResult):
        def __init__(self, *args):
            super().__init__(*args)
            self.state, self.why = {}, {}

        def mark(self, test, bad, why=""):
            test = getattr(test, "test_case", test)  # a subtest belongs to its case
            name = re.sub(r"^(\w+ \()?\w+\.", r"\1", test.id())  # without the script's name
            if bad >= self.state.get(name, 0):
                self.state[name], self.why[name] = bad, why

        def addSuccess(self, test):
            super().addSuccess(test)
            self.mark(test, 0)

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            self.mark(test, 1, ": " + reason)

        def addFailure(self, test, err):
            super().addFailure(test, err)
            self.mark(test, 2)

        def addError(self, test, err):
            super().addError(test, err)
            self.mark(test, 2)

        def addSubTest(self, test, subtest, err):
            super().addSubTest(test, subtest, err)
            if err is not None:
                self.mark(test, 2)

        def addExpectedFailure(self, test, err):
            super().addExpectedFailure(test, err)
            self.mark(test, 2)

        def addUnexpectedSuccess(self, test):
            super().addUnexpectedSuccess(test)
            self.mark(test, 2)

    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(resultclass=Result, verbosity=2, stream=sys.stdout).run(suite)
    for name, bad in result.state.items():
        print("@case %s %s%s" % (("passed", "skipped", "failed")[bad], name, result.why[name]), flush=True)
    return 0 if result.wasSuccessful() else 1


def tests_of(kind, build, cores):
    """Jobs for the programs or scripts of one folder of tests."""
    jobs = []
    if kind in ("e2e", "fault"):
        python = next((p for p in ("/usr/bin/python3", sys.executable) if os.access(p, os.X_OK)))
        for path in sorted(glob.glob(os.path.join(ROOT, "tests", kind, "test_*.py"))):
            jobs.append(Job(os.path.relpath(path, ROOT), kind, min(comment(path, "cores", [1])[0], cores),
                            script(path, kind, os.path.join(build, "moao"), python), None, *comment(path, "seconds", [20])))
        return jobs
    for path in sorted(glob.glob(os.path.join(ROOT, "tests", kind, "test_*.c"))):
        program = os.path.join(build, os.path.relpath(path, ROOT)[:-2])
        name = os.path.relpath(path, ROOT)[:-2]
        if kind == "mpi":
            for n in comment(path, "ranks", [1, 2, 3]):
                jobs.append(Job("%s -n %d" % (name, n), kind, min(n, cores), cmocka(program, path, kind, n)))
        else:
            jobs.append(Job(name, kind, 1, cmocka(program, path, kind), None, *comment(path, "seconds", [0])))
    return jobs


# --- checks of the sources: each returns an Outcome with one case

def one(name, good, text="", note=""):
    o = Outcome()
    (o.passed if good else o.failed).append(name)
    o.text, o.note = text, note
    return o


def skipped(name, why):
    o = Outcome()
    o.skipped.append("%s: %s" % (name, why))
    return o


def c_files(*patterns):
    return sorted(p for q in patterns for p in glob.glob(os.path.join(ROOT, q)))


def check_warnings(build):
    """The compiler's messages, kept beside each object, are all empty."""
    logs = glob.glob(os.path.join(build, "src/**/*.warn"), recursive=True)
    logs += glob.glob(os.path.join(build, "tests/**/*.warn"), recursive=True)
    text = "".join(open(p, encoding="utf-8", errors="replace").read() for p in sorted(logs)
                   if os.path.exists(os.path.join(ROOT, os.path.relpath(p, build)[:-5] + ".c")))
    return one("no compiler warnings", bool(logs) and not text.strip(), text or "no objects in %s" % build)


def check_format():
    """Sources are as clang-format 14 writes them (other versions differ, so they are no test)."""
    files = c_files("src/*.[ch]", "src/*/*.[ch]", "src/linalg/*/*.[ch]", "src/linalg/include/moao/*.h", "src/gpu/*/*.cu", "src/gpu/*/*.cuh", "tests/*/*.[ch]", "bench/*.[ch]",
                    "bench/gpu/*.c")
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    version = run([tool, "--version"], 20)[1] if tool else ""
    if "version 14." not in version:
        return skipped("clang-format", "needs version 14, found %s" % (version.strip() or "none"))
    code, text = run([tool, "--dry-run", "-Werror"] + files, 120)
    return one("clang-format", code == 0, text)


def check_cppcheck():
    if not shutil.which("cppcheck"):
        return skipped("cppcheck", "not installed")
    code, text = run(["cppcheck", "-q", "--std=c11", "--enable=warning,portability,performance",
                      "--inline-suppr", "--error-exitcode=1", "-j", str(os.cpu_count() or 1),
                      "--suppress=missingIncludeSystem", "-D__GNUC__", "-Isrc", "-Isrc/linalg/include", "--include=src/linalg/core/short.h", "src"], TIMEOUT["check"])
    return one("cppcheck", code == 0, text)


def check_lint(python):
    code, text = run([python, os.path.join(ROOT, "scripts/lint.py")], 60)
    return one("lint", code == 0, text)


def check_gpu():
    """The CUDA plugin and the recorder of what a GPU does compile, where there is a compiler for them; the plugin
    shows its two entries and nothing else. Unless the plugin is up to date, one is made with as little optimisation as
    its compiler knows, which takes a third of the time, in a folder of its own, where no program looks for it: for the oldest
    GPU that is served, which lacks instructions of later ones (all of them: make check-architectures)."""
    make = ["make", "--no-print-directory", "-j%d" % (os.cpu_count() or 1)]
    apart = [] if run(make + ["-q", "gpu"], 60)[0] == 0 else ["B=build/check-gpu"]
    nvcc = re.search(r"^NVCC +(/.*)$", run(make + ["info"], 60)[1], re.M)
    quick = "--Ofast-compile=max" if nvcc and "Ofast-compile" in run([nvcc.group(1), "--help"], 60)[1] else "-G"
    code, text = run(make + apart + ["gpu", "gpu-busy"], TIMEOUT["check"] * 2, environment(NVCCFLAGS=quick, GPU_ARCH="80"))
    if code == 0 and "nvcc not found" in text or "no CUDA sources" in text:
        return one("CUDA plugin", True, note=text.strip().splitlines()[-1])
    if code != 0:
        return one("CUDA plugin builds", False, text)
    plugin = os.path.join(ROOT, "build", "check-gpu" if apart else "", "libmoao_gpu.so")
    code, text = run(["nm", "-D", "--defined-only", plugin], 60)
    shown = sorted(line.split()[2].split("@")[0] for line in text.splitlines() if len(line.split()) == 3)
    return one("CUDA plugin builds", shown == ["moao_gpu_backend_2"], "symbols: %s" % shown)


def valgrind(program):
    """A unit test of the parser makes no memory error and leaves no memory behind."""
    def call():
        if not shutil.which("valgrind"):
            return skipped("valgrind", "not installed")
        code, text = run(["valgrind", "-q", "--error-exitcode=99", "--leak-check=full",
                          "--errors-for-leak-kinds=definite",
                          "--suppressions=" + os.path.join(ROOT, "tests/valgrind.supp"), program], TIMEOUT["check"],
                         environment(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"))
        return one("valgrind " + os.path.basename(program), code == 0, text)
    return call


SAN = "address,undefined"


def sanitizer_finds(text):
    """What the sanitizers report: errors, and leaks that our sources allocated. (MPI's components are unloaded when
    the process ends, so their own leaks have no name that could be suppressed.)"""
    found = re.findall(r".*(?:ERROR: AddressSanitizer|runtime error:).*", text)
    for stanza in re.split(r"\n(?:\[\d+,\d+\]<\w+>: ?)?\n", text):
        if re.search(r"(?:Direct|Indirect) leak of", stanza) and re.search(r" in \w+ (?:src|tests)/[\w/]+\.c:", stanza):
            found.append(stanza)
    return found


def sanitizers(cores):
    """The unit tests, the MPI tests and a small run on 2 ranks are clean under AddressSanitizer and UBSan: a job that
    builds them, and one for each."""
    build = os.path.join(ROOT, "build", "san-" + SAN.replace(",", "-"))
    env = {"ASAN_OPTIONS": "exitcode=0",  # what they find is read from the text
           "UBSAN_OPTIONS": "print_stacktrace=1",
           "MOAO_TEST_SMALL": "1"}  # cases whose size alone is the point are left out

    def make():
        code, text = run(["make", "--no-print-directory", "-j%d" % cores, "SAN=" + SAN, "all", "tests"], TIMEOUT["check"] * 2)
        return one("build with sanitizers", code == 0, text)

    def case(path, ranks):
        def call():
            program = os.path.join(build, os.path.relpath(path, ROOT)[:-2])
            r = cmocka(program, path, "physics", ranks, **env)()
            return one("sanitized", not (r.failed or sanitizer_finds(r.text)), r.text)
        return call

    def whole():
        code, text = small_run(os.path.join(build, "moao"), env)
        return one("sanitized", code == 0 and not sanitizer_finds(text), text)

    built = Job("check sanitizers, build", "check", cores, make, None, 60)  # first: others wait for it
    jobs = [built, Job("check sanitizers, moao run -n 2", "check", cores, whole, built)]
    for path in c_files("tests/mpi/test_*.c"):
        ranks = 2 if 2 in comment(path, "ranks", [1, 2, 3]) else comment(path, "ranks", [1])[0]
        jobs.append(Job("check sanitizers, %s -n %d" % (os.path.basename(path)[:-2], ranks), "check", min(ranks, cores),
                        case(path, ranks), built))
    return jobs + [Job("check sanitizers, " + os.path.basename(path)[:-2], "check", 1, case(path, 0), built,
                       *comment(path, "seconds", [0])) for path in c_files("tests/unit/test_*.c")]


def small_run(moao, env):
    """The tests' small case on 2 ranks, shortened; (exit code, output)."""
    from moao_test import write_case
    with tempfile.TemporaryDirectory() as folder:
        case = write_case(os.path.join(folder, "case.yaml"))
        return run(["mpirun", "-n", "2", moao, "run", case, "schedule.exposure_interval=10 min", "output.psf=short",
                    "output.matrices=[Cmm,Cvv]", "-o", os.path.join(folder, "out")], TIMEOUT["check"],
                   environment(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", **env))


def checks(build, python, cores):
    jobs = [("warnings", 1, lambda: check_warnings(build)), ("format", 1, check_format),
            ("lint", 1, lambda: check_lint(python)), ("cppcheck", cores, check_cppcheck)]
    for path in c_files("tests/unit/test_params*.c"):
        program = os.path.join(build, os.path.relpath(path, ROOT)[:-2])
        jobs.append(("valgrind " + os.path.basename(program), 1, valgrind(program), *comment(path, "seconds", [0])))
    jobs.append(("gpu", cores, check_gpu))
    return [Job("check " + name, "check", weight, call, None, *seconds) for name, weight, call, *seconds in jobs] + \
        sanitizers(cores)


# --- running

class Runner:
    """Runs jobs, as many at a time as the cores allow, and reports each when it ends. Of those that may begin, and for
    which there are cores, the first one is next. What runs aside takes no cores from the others, as long as there are
    any: it is counted apart."""

    def __init__(self, cores, ci):
        self.ci, self.free = ci, {False: cores, True: cores}  # cores, by Job.aside
        self.others = 0  # jobs to which what runs aside gives way
        self.change = threading.Condition()
        self.total = {"passed": 0, "failed": 0, "skipped": 0}

    def work(self, job):
        start, JOB.seconds, JOB.aside = time.monotonic(), 0, job.aside and self.others > 0
        try:
            o = job.call()
        except Exception as e:  # a test that cannot be run has failed
            o = one("could not run: %s" % e, False)
        with self.change:
            self.report(job, o, time.monotonic() - start, JOB.seconds)
            self.free[job.aside] += job.weight
            self.others -= not job.aside
            job.state = not o.failed
            self.change.notify_all()

    def report(self, job, o, seconds, spent):
        if self.ci and o.skipped:
            o.failed += ["skipped " + s for s in o.skipped]
            o.skipped = []
        bad = bool(o.failed)
        counts = [str(len(o.passed)) + " passed"]
        counts += [str(len(o.failed)) + " failed"] if bad else []
        counts += [str(len(o.skipped)) + " skipped"] if o.skipped else []
        print("%-4s %-44s %s (%.1f s, processor %.1f s)%s" % (
            "FAIL" if bad else "ok", job.name, ", ".join(counts), seconds, spent, "  " + o.note if o.note else ""))
        if bad:
            print("".join("     | " + line + "\n" for line in o.text.splitlines()[-200:]), end="")
            print("".join("     failed: %s\n" % name for name in o.failed), end="")
        print("".join("     skipped: %s\n" % name for name in o.skipped), end="", flush=True)
        for word in self.total:
            self.total[word] += len(getattr(o, word))

    def next(self, jobs):
        """A job that can begin now, or None."""
        return next((j for j in jobs if j.weight <= self.free[j.aside] and (j.after is None or j.after.state)), None)

    def run(self, jobs):
        jobs, threads = list(jobs), []
        self.others = sum(not j.aside for j in jobs)
        with self.change:
            while jobs:
                jobs = [j for j in jobs if j.after is None or j.after.state is not False]
                job = self.next(jobs)
                if job is None:
                    self.change.wait()
                    continue
                jobs.remove(job)
                self.free[job.aside] -= job.weight
                threads.append(threading.Thread(target=self.work, args=(job,), daemon=True))
                threads[-1].start()
        for t in threads:
            t.join()


@contextlib.contextmanager
def session_directory():
    """Open MPI makes one directory for all programs of a user and removes it when it is empty; a program that begins at that moment
    fails ("mkdir ... File exists"). A directory inside keeps it there while tests run side by side."""
    top = os.path.join(tempfile.gettempdir(), "ompi.%s.%d" % (os.uname().nodename.split(".")[0], os.getuid()))
    keep = os.path.join(top, "moao-tests.%d" % os.getpid())
    os.makedirs(top, mode=0o700, exist_ok=True)
    os.mkdir(keep)
    try:
        yield
    finally:
        os.rmdir(keep)
        with contextlib.suppress(OSError):  # others are in it
            os.rmdir(top)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--build", default="build", help="folder of the built programs (build)")
    ap.add_argument("--only", action="append", choices=KINDS, help="only these kinds of tests")
    ap.add_argument("--script", help=argparse.SUPPRESS)
    ap.add_argument("names", nargs="*", help="only programs whose name contains one of these words")
    a = ap.parse_args()
    if a.script:
        return run_script(a.script)
    build, cores = os.path.join(ROOT, a.build), os.cpu_count() or 1
    choose_blas_kernel(os.path.join(build, "moao"))
    jobs = []
    for kind in a.only or KINDS:
        jobs += checks(build, sys.executable, cores) if kind == "check" else tests_of(kind, build, cores)
    if a.names:
        jobs = [j for j in jobs if any(n in j.name for n in a.names)]
        jobs = list({j.after for j in jobs if j.after} - set(jobs)) + jobs
    jobs.sort(key=lambda j: (-j.weight, -j.seconds))
    runner = Runner(cores, os.environ.get("CI") == "true")
    start = time.monotonic()
    with session_directory():
        runner.run(jobs)
    print("%.0f s" % (time.monotonic() - start))
    t = runner.total
    print("%d passed, %d failed%s" % (t["passed"], t["failed"], ", %d skipped" % t["skipped"] if t["skipped"] else ""))
    return 0 if jobs and not t["failed"] else 1


if __name__ == "__main__":
    sys.exit(main())
