"""A run as a job of SLURM, from Python."""
import os
import re
import shlex
import shutil
import subprocess
import time
from typing import Any, List, Optional, Sequence

from .process import find_program, folder_of
from .reading import MoaoError, one_line
from .results import Run

WAITING = ("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "SUSPENDED", "RESIZING")
RUNNING = ("RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED")


def _slurm(*words: str) -> str:
    if shutil.which(words[0]) is None:
        raise MoaoError("%s is not on the PATH: SLURM is not installed here, or its module is not loaded" % words[0])
    p = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if p.returncode != 0:
        raise MoaoError("%s: %s" % (words[0], one_line(p.stderr.strip() or "exit code %d" % p.returncode)))
    return p.stdout


class Job:
    """A submitted run. line: what was typed; id: its number; folder: of the results; log: what the job prints; case: as it was submitted."""

    def __init__(self, line: Sequence[str], folder: str, number: Optional[str], case: Any = None):
        self.words, self.folder, self.id, self.case = list(line), folder, number, case
        self.log = folder + ".log"

    def __repr__(self):
        return "<moao job %s: %s>" % (self.id or "not submitted", self.line)

    @property
    def line(self) -> str:
        """The line as one would type it."""
        return " ".join(shlex.quote(w) for w in self.words)

    @property
    def state(self) -> str:
        """Of the job, as SLURM has it (PENDING, RUNNING, COMPLETED, FAILED...); UNKNOWN when SLURM has forgotten it."""
        if self.id is None:
            return "NOT SUBMITTED"
        try:
            words = _slurm("squeue", "-h", "-j", self.id, "-o", "%T").split()
        except MoaoError as e:
            if "Invalid job id" not in str(e):
                raise
            words = []
        if words:
            return words[0]
        try:
            words = _slurm("sacct", "-n", "-X", "-j", self.id, "-o", "State").split()
        except MoaoError:
            words = []  # no accounting
        if words:
            return words[0]
        return "COMPLETED" if self.finished else "UNKNOWN"

    @property
    def finished(self) -> bool:
        """Whether the results are there."""
        return all(os.path.exists(os.path.join(self.folder, n)) for n in ("maps.fits", "run.json"))

    def wait(self, seconds: Optional[float] = None, every: float = 10.0) -> Run:
        """The results, once they are there. seconds: at most; every: time between two questions to SLURM. MoaoError when the job
        has ended without results (with the last line of its log), or is not finished in that time."""
        end = None if seconds is None else time.monotonic() + seconds
        while True:
            state = self.state
            if state not in WAITING + RUNNING:
                if self.finished:
                    if self.case is not None:
                        self.case._carry(self.folder)
                    return Run(self.folder)
                raise MoaoError("job %s ended as %s without results: %s" % (self.id, state, self._last_line()))
            if end is not None and time.monotonic() > end:
                raise MoaoError("job %s is %s after %g s" % (self.id, state, seconds))
            time.sleep(every if end is None else max(0.1, min(every, end - time.monotonic())))

    def cancel(self) -> None:
        """Take it out of the queue, or stop it: what is finished is kept."""
        if self.id is not None:
            _slurm("scancel", self.id)

    def _last_line(self) -> str:
        try:
            with open(self.log, encoding="utf-8", errors="replace") as f:
                lines = [line.strip() for line in f if line.strip()]
        except OSError:
            lines = []
        rule = next((i for i, line in enumerate(lines) if re.fullmatch("-{20,}", line)), len(lines))  # what mpirun adds follows
        lines = [line for line in lines[:rule] if " moao.sbatch: " not in line] or lines
        return one_line(lines[-1]) if lines else "its log %s is empty" % self.log


def submit(case, folder: str, tasks: Optional[int], nodes: Optional[int], gpus: int, hours: Optional[float], options: Sequence[str],
           dry: bool) -> Job:
    """As Case.submit says."""
    folder = os.path.abspath(os.fspath(folder))
    scripts = folder_of("scripts")
    script = os.path.join(scripts or "", "moao-gpu.sbatch" if gpus else "moao.sbatch")
    if not os.path.isfile(script):
        raise MoaoError("the batch script %s was not found in share/moao/scripts of the program" % os.path.basename(script))
    plan = case.check(ranks=tasks, nodes=nodes, gpus=gpus or None, hours=hours)
    words: List[str] = ["sbatch", "--parsable", "--output=" + folder + ".log"] + _advised(plan.slurm)
    if gpus:
        words = _set(_set(words, "--ntasks-per-node", gpus), "--gpus-per-node", gpus)
    elif tasks is not None:
        words = _set(words, "--ntasks", tasks)
    if nodes is not None:
        words = _set(words, "--nodes", nodes)
    if hours is not None:
        words = _set(words, "--time", "%d:%02d:00" % (int(hours), round(hours * 60) % 60))
    words += list(options) + [script, folder + ".yaml", "-o", folder]
    if dry:
        return Job(words, folder, None)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    case.write(folder + ".yaml")
    old = os.environ.get("MOAO")
    os.environ["MOAO"] = find_program()  # which the script then calls
    try:
        number = _slurm(*words).strip().split(";")[0]
    finally:
        os.environ.pop("MOAO") if old is None else os.environ.update(MOAO=old)
    return Job(words, folder, number, case.copy())


def _advised(line: str) -> List[str]:
    """The options of the line that `moao check` prints."""
    found: List[str] = []
    for word in shlex.split(line)[1:]:
        if not word.startswith("--"):
            break
        found.append(word)
    return found


def _set(words: List[str], option: str, value: Any) -> List[str]:
    return [w for w in words if not re.match(re.escape(option) + "=", w)] + ["%s=%s" % (option, value)]
