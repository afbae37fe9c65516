"""(a) Signals at any time, to any process of a run; then it is resumed until it is done."""
import os
import signal
import subprocess
import time

from harness import (FORMS, LIMIT, RESIDENT, Fail, Result, check_ended, check_finished, check_message, check_no_process,
                     check_no_temporary, children_of, kill_all, on_device, parts, patience, resume, same, spec_of)

NAME = "kills"
SIGNALS = ("KILL", "TERM", "INT", "HUP", "USR1", "PIPE", "STOP")  # CONT follows STOP
SOFT = ("TERM", "USR1", "INT", "HUP")  # these stop a run in order: exit code 3


def trials(lab, rng, full):
    """Endless in the full form: signals and moments drawn at random, of all sorts in turn. The small form has every signal twice and
    every way to start a run three times; its run is the brief one, which has every part and file of the long one."""
    case, end = ("long", 3) if full else ("brief", 1.5)  # seconds in which most of it is done
    configurations = [("2", "0", "mpirun"), ("1", "0", "mpirun"), ("2", "1", "mpirun"), ("2", "0", "moao"),
                      ("3", "0", "mpirun")]
    moments = ["at", "parts", "file"]
    forms = ["", *FORMS] if full else ["", "", "tlr", "", "grid", "", "fp16", "spread", "", "auto", "blocks", "mixed"]
    i = 0
    while full or i < 15:
        sig = SIGNALS[i % len(SIGNALS)]
        ranks, resident, start = configurations[i // 3 % len(configurations)]
        form = forms[i % len(forms)]
        if on_device(form) == "1":
            resident = "1"
        if form == "auto":
            ranks, start = "1", "mpirun"
        targets = ["rank%d" % rng.randrange(int(ranks)), "all"] + ([start] if ranks != "1" else [])
        send = "%s:%s" % (sig, rng.choice(targets))
        if rng.random() < 0.3:
            send += ",%s:%s" % (rng.choice(SIGNALS), rng.choice(targets))
        moment = moments[i % 2 if rng.random() < 0.7 else 2]
        at = {"at": "%.3f" % (rng.random() * end), "parts": "parts:%d" % rng.randrange(1, 40),
              "file": "file:" + rng.choice(["maps.fits.tmp", "maps.fits", "psf.fits", "finished", "run.json"])}[moment]
        again = ranks if rng.random() < 0.6 else str(rng.randrange(1, 4))
        less = rng.choice((0, 45, 70, 100)) if form and i % 2 else 0
        yield spec_of(NAME, case=case + ("-" + form if form else ""), ranks=ranks, resident=resident, start=start, at=at, send=send,
                      gap="%.3f" % rng.choice([0, 0.01, 0.3]), again=again, less=less)
        i += 1


def catches(pid, sig):
    """Whether a process is past the start of its main: handles the signal, or has begun to load parts of MPI without."""
    try:
        with open("/proc/%d/maps" % pid, encoding="utf-8") as f:
            begun = "mca_" in f.read()
        with open("/proc/%d/status" % pid, encoding="utf-8") as f:
            masks = [int(s.split()[1], 16) for s in f if s.startswith(("SigCgt", "SigIgn"))]
    except OSError:
        return False
    return begun or any(m >> (sig - 1) & 1 for m in masks)


class Target:
    """A run whose processes can be hit."""

    def __init__(self, lab, keys, out, env=None):
        self.ranks, self.out, self.starter = int(keys["ranks"]), out, keys["start"]
        env = env or (RESIDENT if keys["resident"] == "1" else None)
        command, env = lab.command(keys.get("case", "long"), out, ranks=self.ranks, env=env, start=self.starter)
        self.log = open(out + ".log", "w+b")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT,
                                        env=env, cwd=lab.dir, start_new_session=True)
        self.start = time.monotonic()

    def pids(self):
        if self.ranks == 1:
            return [self.process.pid]
        found = children_of(self.process.pid)
        return sum(map(children_of, found), []) if self.starter == "moao" else found  # moao run -n starts mpirun

    def wait_until(self, at):
        """Until the moment of the trial, or the end of the run."""
        while self.process.poll() is None and time.monotonic() - self.start < LIMIT:
            if at.startswith("parts:"):
                reached = len(parts(self.out)) >= int(at[6:])
            elif at.startswith("file:"):
                reached = any(os.path.exists(os.path.join(self.out, d, at[5:])) for d in (".", "checkpoint"))
            else:
                reached = time.monotonic() - self.start >= float(at)
            if reached:
                return
            time.sleep(0.001)

    def send(self, word):
        """Send SIGNAL:TARGET; whether the run must now stop in order, or go on: mpirun passes USR1 on, other signals
        make it end the ranks by force, unless moao run -n stands between."""
        name, target = word.split(":")
        sig = getattr(signal, "SIG" + name)
        ranks, between = self.pids(), children_of(self.process.pid)
        whole = {"all": ranks + [self.process.pid], self.starter: [self.process.pid]}
        if target.startswith("rank"):
            pids = [ranks[min(int(target[4:]), len(ranks) - 1)]] if ranks else []
        else:
            pids = whole.get(target, between)
        orderly = name in SOFT + ("PIPE",) and len(ranks) == self.ranks and all(catches(p, sig) for p in ranks) and (
            self.ranks == 1 or target.startswith("rank") or name == "USR1" or (
                self.starter == "moao" and target == "moao" and name in SOFT))
        for pid in dict.fromkeys(pids):
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
        if name == "STOP":
            time.sleep(0.2)
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGCONT)
                except ProcessLookupError:
                    pass
        return orderly or name == "STOP"

    def end(self):
        try:
            code = self.process.wait(patience(LIMIT))
        except subprocess.TimeoutExpired:
            code = None
            kill_all(self.out)
            self.process.wait()
        self.log.seek(0)
        text = self.log.read().decode("utf-8", "replace")
        self.log.close()
        os.remove(self.out + ".log")
        return Result(code, text, time.monotonic() - self.start)


def judge(r, orderly, words):
    """The ending of a run that was hit."""
    if r.code is None:
        raise Fail("hang", "did not end:\n" + r.text)
    if not orderly:
        return
    check_ended(r)
    asked = any(w.split(":")[0] in SOFT for w in words)
    if r.code not in ((0, 3) if asked else (0,)):
        raise Fail("wrong", "exit code %d, expected %s:\n%s" % (r.code, "3" if asked else "0", r.text))
    if r.code == 3:
        check_message(r, "--resume")


def with_less(lab, case, out, keys):
    """Go on with so many MB a rank: it ends with the same results, or is refused in one line, and nothing is lost; whether it
    ended."""
    kept = len(parts(out))
    r = lab.moao_run(case, out, "--resume", "compute.memory=%s MB" % keys["less"], ranks=int(keys["again"]),
                     env=RESIDENT if keys["resident"] == "1" else None)
    check_ended(r)
    if r.code == 0:
        return True
    if r.code != 2 or len(parts(out)) != kept:
        raise Fail("lost", "with less memory: exit code %s, %d parts of %d:\n%s" % (r.code, len(parts(out)), kept, r.text))
    check_message(r, "compute.(memory|gpu_memory)")
    return False


def run(lab, keys, out):
    words = keys["send"].split(",")
    resident = keys["resident"] == "1"
    case = keys.get("case", "long")
    expected = lab.reference(case, int(keys["ranks"]), resident)
    target = Target(lab, keys, out)
    target.wait_until(keys["at"])
    orderly = keys["start"] != "moao" or len(words) == 1  # a second one asks for the end at once
    for word in words:
        orderly = target.send(word) and orderly
        time.sleep(float(keys["gap"]))
    r = target.end()
    check_no_process(out)
    judge(r, orderly, words)
    if r.code == 0:
        check_finished(out, expected)
        return
    if r.code == 3:  # else mpirun may have killed ranks
        check_no_temporary(out)
    again = int(keys["again"])
    less = int(keys.get("less", 0))
    if less > 0 and with_less(lab, case, out, keys):
        difference = same(out, expected, None if again == int(keys["ranks"]) else 1e-10, ["PARAMETERS"])
        if difference:
            raise Fail("wrong", "with less memory: " + difference)
        return
    resume(lab, case, out, again, resident, expected, None if again == int(keys["ranks"]) else 1e-10)
