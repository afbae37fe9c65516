"""(h) How runs start and end beside each other: many ranks, many processes at once, and Open MPI 5 as PyPI has it."""
import contextlib
import fcntl
import importlib.util
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import urllib.request

from family_kills import SIGNALS, SOFT, Target, judge
from harness import (LIMIT, ROOT, Fail, Result, check_ended, check_finished, check_message, check_no_process, check_no_temporary,
                     environment, kill_all, messages, parts, patience, resume, spec_of, stacks)

NAME = "starts"
WORKERS = max(1, (os.cpu_count() or 1) // 8)  # a trial starts up to twenty processes
RANKS = (11, 14, 20)  # a socket holds ten words that nobody has read, where Linux is as it comes
REASONS = {"key": "dm.nssp", "file": "nowhere.yaml", "finished": "--overwrite", "locked": "another", "gone": "current folder", "files": "ulimit -n",
           "session": "TMPDIR", "memory": "compute.memory", "allocation": "[Mm]emory|allocate"}  # and what the line is about
KINDS = ("ranks", "refused", "array", "folder", "psf", "sweep", "lab")
GROWN = "schedule.exposure_interval=3 min"  # of the least case: 24 parts
PSF = """import sys, moao
print(repr(moao.psf(2, 1, 2.2, case=sys.argv[1], cache=sys.argv[2], ranks=int(sys.argv[3])).strehl))"""


def trials(lab, rng, full):
    """Endless in the full form: every kind in turn, with the MPI that the program is built for and with Open MPI 5, in turn, too."""
    several, i = ["own"], 0
    if lab.open_mpi_5():
        several.append("5")
    else:
        yield spec_of(NAME, what="absent")
    while full or i < len(KINDS):
        what = KINDS[i % len(KINDS)]
        keys = {"what": what, "mpi": several[i % len(several)]}
        if what == "ranks":
            n = rng.choice(RANKS)
            targets = ["moao", "mpirun", "rank%d" % rng.randrange(n), "all"]
            send = "%s:%s" % (rng.choice(SIGNALS), rng.choice(targets))
            if rng.random() < 0.3:
                send += ",%s:%s" % (rng.choice(SIGNALS), rng.choice(targets[:3]))
            at = rng.choice(["%.3f" % (4 * rng.random()), "parts:%d" % rng.randrange(1, 24), "file:" + rng.choice(["maps.fits", "finished"])])
            keys.update(case="tiny", ranks=n, resident=0, start="moao", send="none" if rng.random() < 0.1 else send, at=at,
                        gap="%.3f" % rng.choice([0, 0.01, 0.3, 1.2]), again=rng.choice([1, 2, n, rng.choice(RANKS)]))
        elif what == "refused":
            keys.update(why=rng.choice(list(REASONS)), ranks=rng.choice((2, 5) + RANKS), n=rng.randrange(1, 400))
        else:
            hit = "none" if rng.random() < 0.4 else "%s:%d" % (rng.choice(["KILL", "TERM", "INT"]), rng.randrange(2))
            keys.update(n=rng.randrange(2, 7), send=hit, at="%.3f" % (2 * rng.random()), seed=rng.randrange(1000))
        yield spec_of(NAME, **keys)
        i += 1


def surroundings(lab, mpi, place):
    """The environment of a user who has set nothing for MPI, with a folder of sessions of its own; Open MPI 5 where that is asked for."""
    os.makedirs(place, exist_ok=True)
    env = {k: None for k in environment() if k.startswith(("OMPI_", "PMIX_", "PRTE_"))}
    env.update(TMPDIR=place, OMPI_MCA_btl_vader_backing_directory=place, OMPI_MCA_btl_sm_backing_directory=place,
               MOAO=lab.moao, PYTHONPATH=os.path.join(ROOT, "python"))
    if mpi == "5":
        found = lab.open_mpi_5()
        if not found:
            raise RuntimeError("Open MPI 5 cannot be had: PyPI was not reached")
        env.update(found)
    return env


class Started:
    """A command under way."""

    def __init__(self, command, env, folder):
        self.path = os.path.join(folder, "log-%d" % time.monotonic_ns())
        with open(self.path, "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env, cwd=folder,
                                            start_new_session=True)

    def send(self, name):
        if self.process.poll() is None:
            self.process.send_signal(getattr(signal, "SIG" + name))

    def end(self, mark):
        where = ""
        try:
            code = self.process.wait(patience(2 * LIMIT))
        except subprocess.TimeoutExpired:
            code, where = None, stacks(mark)
            kill_all(mark)
            self.process.kill()
            self.process.wait()
        with open(self.path, encoding="utf-8", errors="replace") as f:
            return Result(code, f.read() + where, 0)


def all_of(keys, commands, env, out):
    """[how it ended] of commands that start at once, and the number of the one that is hit on the way, -1: none."""
    started = [Started(c, env, out) for c in commands]
    hit = -1
    if keys["send"] != "none":
        name, hit = keys["send"].split(":")
        hit = int(hit) % len(started)
        time.sleep(float(keys["at"]))
        started[hit].send(name)
    return [s.end(out) for s in started], hit


def check_session(place):
    """Nothing stays in the folder of sessions of processes that have all ended by themselves."""
    left = os.listdir(place)
    if left:
        raise Fail("leftover", "in TMPDIR: %s" % sorted(left)[:10])


def check_one_line(r, codes, pattern=None):
    check_ended(r)
    if r.code not in codes:
        raise Fail("wrong", "exit code %s, expected %s:\n%s" % (r.code, " or ".join(map(str, codes)), r.text))
    if r.code != 0:
        check_message(r, pattern)


# --- many ranks

def run_ranks(lab, keys, out, env):
    """`moao run -n` of many ranks, hit at any time; then resumed on as many, or others, by the same launcher."""
    expected = lab.reference("tiny")
    target = Target(lab, keys, out, env)
    words = [] if keys["send"] == "none" else keys["send"].split(",")
    if words:
        target.wait_until(keys["at"])
    orderly = len(words) < 2  # a second one asks for the end at once
    for word in words:
        orderly = target.send(word) and orderly
        time.sleep(float(keys["gap"]))
    r = target.end()
    check_no_process(out)
    judge(r, orderly, words)
    met = [w for w in words if w.split(":")[1] in ("moao", "all")]
    if not any(w.startswith("KILL") for w in met) and r.code >= 0:  # the launcher lives to tell
        if r.code == 3 and any(w.endswith(":mpirun") for w in words):  # it does so, too, where mpirun may have lost the run's line
            r.text = r.text.replace(next((s for s in r.text.splitlines(True) if "stopped by a signal" in s), ""), "")
        check_one_line(r, (0, 1, 3))
    if not words:
        check_session(env["TMPDIR"])
    if r.code == 0:
        return check_finished(out, expected, 1e-10)
    if r.code == 3 and orderly:
        check_no_temporary(out)
    return resume(lab, "tiny", out, int(keys["again"]), expected=expected, tolerance=1e-10, env=env, start="moao")


@contextlib.contextmanager
def held(out):
    """The lock of a run in this folder."""
    os.makedirs(os.path.join(out, "checkpoint"))
    with open(os.path.join(out, "checkpoint", "lock"), "wb") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def run_refused(lab, keys, out, env):
    """What cannot run ends in one line, whatever the number of ranks and the version of MPI."""
    why, ranks, place = keys["why"], int(keys["ranks"]), os.path.join(lab.dir, "gone-" + os.path.basename(out))
    case, words, before, cwd, around = "least", [], None, None, contextlib.nullcontext()
    if why == "key":
        words = ["dm.nssp=-1"]
    elif why == "file":
        case = lab.dir + "/nowhere.yaml"
    elif why == "memory":
        words = ["compute.memory=1 MB"]
    elif why == "locked":
        around = held(out)
    elif why == "finished":
        r = lab.moao_run(case, out)
        check_one_line(r, (0,))
    elif why == "files":
        def before():
            resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
    elif why == "session":
        env = dict(env, TMPDIR="/nowhere")
    elif why == "allocation":
        env = dict(env, LD_PRELOAD=lab.preload, FAULT_ALLOC="1:" + keys["n"])
    elif why == "gone":
        cwd = place
        os.mkdir(place)

        def before():
            os.rmdir(place)
    command, full = lab.command(case, out, *words, ranks=ranks, env=env, start="moao")
    with around:
        r = lab.run(command, full, mark=out, cwd=cwd, before=before)
    check_no_process(out)
    check_one_line(r, (0, 1) if why == "allocation" else (2,), REASONS[why])
    if os.path.isdir(env["TMPDIR"]):
        check_session(env["TMPDIR"])
    if why == "allocation" and r.code == 0:
        check_finished(out, lab.reference("least"), 1e-10)
    elif why == "allocation":
        resume(lab, "least", out, ranks, expected=lab.reference("least"), tolerance=1e-10, env=dict(env, LD_PRELOAD=None, FAULT_ALLOC=None),
               start="moao")


# --- many processes

def run_array(lab, keys, out, env):
    """Runs on one rank and on two, and checks, at once in one folder of sessions, as job arrays have it: none disturbs another."""
    rng = random.Random(int(keys["seed"]))
    sorts = [rng.choice((1, 1, 2, 0)) for _ in range(int(keys["n"]) + 2)]
    folders = [os.path.join(out, "run-%d" % i) for i in range(len(sorts))]
    commands = [lab.command("least", f, ranks=n or 1, start="moao")[0] for f, n in zip(folders, sorts)]
    commands = [c if n else [c[0], "check", c[2]] for c, n in zip(commands, sorts)]
    ends, hit = all_of(keys, commands, environment(**env), out)
    check_no_process(out)
    for i, (r, f, n) in enumerate(zip(ends, folders, sorts)):
        tolerance = None if n == 1 else 1e-10
        if i != hit:
            check_one_line(r, (0,))
        elif r.code is None:
            raise Fail("hang", "did not end:\n" + r.text)
        if n and r.code == 0:
            check_finished(f, lab.reference("least"), tolerance)
        elif n:
            resume(lab, "least", f, n, expected=lab.reference("least"), tolerance=tolerance, env=env, start="moao")
    if hit < 0:
        check_session(env["TMPDIR"])


def run_folder(lab, keys, out, env):
    """Runs into one folder at once: one has it, others are refused or come later; it holds one whole run in the end."""
    rng = random.Random(int(keys["seed"]))
    folder = os.path.join(out, "run")
    words = [rng.choice(("--overwrite", "--resume", "--force", "")) for _ in range(int(keys["n"]))]
    commands = [lab.command("least", folder, *filter(None, [w]), ranks=rng.choice((1, 1, 2)), start="moao")[0] for w in words]
    ends, hit = all_of(keys, commands, environment(**env), out)
    check_no_process(out)
    for i, r in enumerate(ends):
        if i != hit:
            check_one_line(r, (0, 2), "another|holds|finished|--overwrite|--resume|nothing")
        elif r.code is None:
            raise Fail("hang", "did not end:\n" + r.text)
    done = any(r.code == 0 for r in ends)
    if not done and hit < 0 and set(words) != {"--resume"}:
        raise Fail("wrong", "none of the runs had the folder:\n" + "\n".join(r.text for r in ends))
    if hit >= 0 and (parts(folder) or not done):
        r = lab.moao_run("least", folder, "--resume" if os.path.isdir(folder + "/checkpoint") else "--force", env=env)
        check_one_line(r, (0,))
        done = True
    if done:
        check_finished(folder, lab.reference("least"), 1e-10)


def once(lab, name, function):
    """What a quiet computation gives, made once."""
    with lab.guard:
        if name not in lab.references:
            lab.references[name] = function()
        return lab.references[name]


def run_psf(lab, keys, out, env):
    """Processes that want one image at once, one of which may be killed: the others have it, from one run."""
    def command(cache, ranks):
        return [sys.executable, "-c", PSF, lab.case("least"), cache, str(ranks)]

    def quiet():
        r = lab.run(command(os.path.join(lab.dir, "quiet"), 1), environment(**surroundings(lab, "own", os.path.join(lab.dir, "quiet-tmp"))))
        check_one_line(r, (0,))
        return float(r.text.split()[-1])
    expected = once(lab, "psf", quiet)
    cache, ranks, full = os.path.join(out, "cache"), 1 + int(keys["seed"]) % 2, environment(**env)
    ends, hit = all_of(keys, [command(cache, ranks)] * int(keys["n"]), full, out)
    ends.append(lab.run(command(cache, ranks), full, mark=out))
    check_no_process(out)
    for i, r in enumerate(ends):
        if i == hit and r.code != 0:
            continue
        check_one_line(r, (0,))
        if abs(float(r.text.split()[-1]) / expected - 1) > 1e-10:
            raise Fail("wrong", "%s, expected %r" % (r.text, expected))
    if len(os.listdir(cache)) != 1:
        raise Fail("leftover", "folders of one image: %s" % os.listdir(cache))


def run_sweep(lab, keys, out, env):
    """Sweeps into one folder at once, and a run beside them: one has it; the same line again ends with all runs."""
    def command(folder, ranks):
        return [lab.moao, "sweep", lab.case("least"), "telescope.zenith=[0, 30]", "-n", str(ranks), "-q", "-o", folder]

    def quiet():
        folder = os.path.join(lab.dir, "quiet-sweep")
        check_one_line(lab.run(command(folder, 1), environment()), (0,))
        return folder
    expected, folder, ranks = once(lab, "sweep", quiet), os.path.join(out, "sweep"), 1 + int(keys["seed"]) % 2
    beside = os.path.join(out, "beside")
    commands = [command(folder, ranks)] * 2 + [lab.command("least", beside)[0]]
    ends, hit = all_of(keys, commands, environment(**env), out)
    check_no_process(out)
    for i, r in enumerate(ends):
        if i == hit and r.code is None:
            raise Fail("hang", "did not end:\n" + r.text)
        if i != hit:
            check_one_line(r, (0,) if i == 2 else (0, 2), "sweep")
    if hit < 0 and sum(r.code == 0 for r in ends[:2]) < 1:
        raise Fail("wrong", "neither sweep had the folder:\n%s" % ends[0].text)
    check_one_line(lab.run(command(folder, ranks), environment(**env), mark=out), (0,))
    check_finished(beside, lab.reference("least"))
    for name in sorted(n for n in os.listdir(expected) if os.path.isdir(os.path.join(expected, n))):
        check_finished(os.path.join(folder, name), os.path.join(expected, name), None if ranks == 1 else 1e-10)


# --- a lab beside

class Page:
    """A `moao lab` and its questions."""

    def __init__(self, lab, out, env):
        self.process = subprocess.Popen([lab.moao, "lab", lab.case("least"), "--no-browser", "-o", os.path.join(out, "of-lab")], cwd=out,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise Fail("wrong", "no page: " + self.process.communicate()[1])

    def change(self):
        """Strehl ratios of the map, in the order of the page."""
        base, token = self.url.split("?token=")
        body = json.dumps({"values": {"telescope.zenith": 20}, "order": 4, "profile": 0}).encode()
        request = urllib.request.Request(base + "api/change", body, {"Content-Type": "application/json", "X-Moao-Token": token})
        with urllib.request.urlopen(request, timeout=patience(LIMIT)) as f:
            answer = json.loads(f.read().decode())
        if "quantities" not in answer:
            raise Fail("wrong", "no map: %s" % answer)
        return next(q["values"] for q in answer["quantities"] if q["name"] == "STREHL")

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        said = self.process.communicate(timeout=patience(LIMIT))[1]
        return Result(self.process.returncode, said, 0)


def run_lab(lab, keys, out, env):
    """A lab whose map is asked for while runs start and end beside it, and another lab: the figures stay, and the end leaves nothing."""
    if importlib.util.find_spec("tornado") is None:
        return {"note": "no tornado: no lab beside runs", "tried": 0}

    def quiet():
        page = Page(lab, lab.dir, environment())
        found = page.change()
        page.end()
        return found
    expected, full = once(lab, "lab", quiet), environment(**env)
    runs = [os.path.join(out, "run-%d" % i) for i in range(int(keys["n"]))]
    started = [Started(lab.command("least", f, ranks=1 + i % 2, start="moao")[0], full, out) for i, f in enumerate(runs)]
    pages = [Page(lab, out, full) for _ in range(2)]
    for page in pages:
        if page.change() != expected:
            raise Fail("wrong", "another map than that of a quiet lab")
    number = getattr(signal, "SIG" + keys["send"].split(":")[0]) if keys["send"] != "none" else signal.SIGINT
    ends = [p.end(n) for p, n in zip(pages, (number, signal.SIGINT))]
    for r, n in zip(ends, (number, signal.SIGINT)):
        if n != signal.SIGKILL and (r.code != 0 or len(messages(r.text)) > 1):
            raise Fail("wrong", "the lab ended with %s:\n%s" % (r.code, r.text))
    for i, (s, f) in enumerate(zip(started, runs)):
        check_one_line(s.end(out), (0,))
        check_finished(f, lab.reference("least"), 1e-10 if i % 2 else None)
    check_no_process(out)
    if number != signal.SIGKILL:
        check_session(env["TMPDIR"])
    return None


def run(lab, keys, out):
    if keys["what"] == "absent":
        return {"note": "PyPI was not reached: without Open MPI 5", "tried": 0}
    env = surroundings(lab, keys["mpi"], out + "-sessions")
    try:
        if keys["what"] not in ("ranks", "refused"):
            os.makedirs(out)
        return globals()["run_" + keys["what"]](lab, keys, out, env)
    finally:
        subprocess.run(["rm", "-rf", out + "-sessions"], check=False)
