"""(g) Many parts, many ranks: nothing grows with the number of exposures done, and a resumption stays quick."""
import os
import re
import signal
import subprocess
import time

from harness import (TINY_CASE, Fail, check_ended, check_finished, check_no_process, children_of, parts,
                     spec_of)

NAME = "load"
WORKERS = 1  # times are measured
GROWTH = 0.1  # of the memory in use, from a quarter of the run to its end
SLOWER = 3    # time of a checkpoint at the end, in units of that at the beginning: machines that test are busy


def trials(lab, rng, full):
    size = (1000, 5000) if full else (120, 200)
    yield spec_of(NAME, what="ranks", n=32 if full else 8, kill=rng.randrange(8))
    yield spec_of(NAME, what="long", exposures=size[0], targets=size[1])


def long_case(lab, exposures, targets):
    path = os.path.join(lab.dir, "long-%d-%d.yaml" % (exposures, targets))
    text = re.sub(r"nssp: [0-9]+", "nssp: 2", TINY_CASE)
    text = text.replace("grid: {nx: 4, ny: 2,", "grid: {nx: %d, ny: 10," % (targets // 10))
    text = text.replace("exposure_interval: 3 min, end: 15 min", "exposure_interval: 1 s, end: %d s" % (exposures - 1))
    text = text.replace("[1.65 um, 2.2 um]", "[1.65 um]").replace("psf: short", "psf: none")
    text = text.replace("targets_per_chunk: 2", "targets_per_chunk: 250")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def memory_of(pid):
    try:
        with open("/proc/%d/status" % pid, encoding="utf-8") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) / 1024
    except (OSError, AttributeError):
        return 0.0


class Watched:
    """A run whose memory [MiB] and number of parts are noted as it goes."""

    def __init__(self, lab, case, out, *args):
        command, env = lab.command(case, out, *args, ranks=2)
        self.out, self.start, self.notes = out, time.monotonic(), []
        with open(out + ".log", "wb") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            env=env, cwd=lab.dir, start_new_session=True)

    def follow(self, until, limit):
        """Until so many parts, or the end."""
        folder = os.path.join(self.out, "checkpoint")
        while self.process.poll() is None and time.monotonic() - self.start < limit:
            n = sum(s.startswith("part-") for s in os.listdir(folder)) if os.path.isdir(folder) else 0
            ranks = children_of(self.process.pid)
            if ranks:
                self.notes.append((time.monotonic() - self.start, n, max(map(memory_of, ranks))))
            if n >= until:
                return
            time.sleep(0.05)

    def text(self):
        with open(self.out + ".log", encoding="utf-8", errors="replace") as f:
            return f.read()


def rate(notes, first, last):
    """Seconds for a part, between two numbers of parts."""
    those = [(t, n) for t, n, _ in notes if first <= n <= last]
    if len(those) < 2 or those[-1][1] == those[0][1]:
        return None
    return (those[-1][0] - those[0][0]) / (those[-1][1] - those[0][1])


def run_long(lab, keys, out):
    exposures, targets = int(keys["exposures"]), int(keys["targets"])
    case = long_case(lab, exposures, targets)
    total = exposures * -(-targets // 250)
    w = Watched(lab, case, out)
    w.follow(int(0.9 * total), 3000)
    if w.process.poll() is not None:
        raise Fail("wrong", "ended before its time:\n" + w.text())
    w.process.send_signal(signal.SIGUSR1)
    try:
        code = w.process.wait(120)
    except subprocess.TimeoutExpired:
        w.process.kill()
        raise Fail("hang", "does not stop") from None
    check_no_process(out)
    if code != 3:
        raise Fail("wrong", "exit code %d, expected 3:\n%s" % (code, w.text()))
    early = [m for _, n, m in w.notes if 0.2 * total < n < 0.3 * total]
    late = [m for _, n, m in w.notes if n > 0.8 * total]
    had = len(parts(out))
    again = Watched(lab, case, out, "--resume")
    again.follow(had + 1, 300)
    ready = time.monotonic() - again.start
    again.follow(1 << 30, 3000)
    code = again.process.wait()
    if code != 0:
        raise Fail("lost", "cannot be resumed:\n" + again.text())
    check_no_process(out)
    a, b = rate(w.notes, 0, total // 4), rate(w.notes, total // 2, total)
    note = "%d exposures of %d targets: %.1f MiB at a quarter, %.1f MiB at nine tenths; %.1f ms a part at first, " \
        "%.1f ms at last; %d parts read in %.1f s on resuming" % (
            exposures, targets, early[0] if early else 0, late[-1] if late else 0, 1e3 * (a or 0), 1e3 * (b or 0), had,
            ready)
    if early and late and late[-1] > early[0] * (1 + GROWTH) + 4:
        raise Fail("wrong", "memory grows: " + note)
    if a and b and b > SLOWER * a + 0.005:
        raise Fail("wrong", "checkpoints become slower: " + note)
    if ready > 10 + had * 0.005:
        raise Fail("wrong", "slow to resume: " + note)
    return {"note": note}


def run_ranks(lab, keys, out):
    """More ranks than cores: one is killed, then all end; a run on as many, and its resumption."""
    n = int(keys["n"])
    command, env = lab.command("tiny", out, ranks=n)
    p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                         env=env, cwd=lab.dir, start_new_session=True)
    end = time.monotonic() + 300
    while len(parts(out)) < 3 and p.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    ranks = children_of(p.pid)
    if ranks:
        os.kill(ranks[int(keys["kill"]) % len(ranks)], signal.SIGKILL)
    try:
        code = p.wait(120)
    except subprocess.TimeoutExpired:
        p.kill()
        raise Fail("hang", "%d ranks do not end after one was killed" % n) from None
    check_no_process(out)
    if code == 0:
        raise Fail("wrong", "exit code 0 after a kill")
    start = time.monotonic()
    r = lab.moao_run("tiny", out, "--resume", ranks=n, limit=600)
    check_ended(r)
    if r.code != 0:
        raise Fail("lost", "cannot be resumed, exit code %d:\n%s" % (r.code, r.text))
    check_finished(out, lab.reference("tiny"), 1e-10)
    return {"note": "%d ranks on %d cores: resumed to its end in %.0f s" % (n, os.cpu_count(), time.monotonic() - start)}


def run(lab, keys, out):
    return run_long(lab, keys, out) if keys["what"] == "long" else run_ranks(lab, keys, out)
