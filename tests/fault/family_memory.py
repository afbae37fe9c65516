"""(c) The n-th allocation of the program's own code fails on one rank."""
import os
import subprocess

from harness import FORMS, RESIDENT, Fail, check_ended, check_finished, check_message, check_no_process, on_device, resume, spec_of

NAME = "memory"
FIRST = 1000  # of these every one is tried, of the later ones a sample


def start(lab, keys, out):
    log = out + ".faults"
    env = {"FAULT_LOG": log, "FAULT_ALLOC": "%(rank)s:%(n)s" % keys}
    if keys["resident"] == "1":
        env.update(RESIDENT)
    r = lab.moao_run(keys.get("case", "least"), out, ranks=int(keys["ranks"]), preload=True, env=env)
    lines = []
    if os.path.exists(log):
        with open(log, encoding="utf-8") as f:
            lines = f.read().splitlines()
        os.remove(log)
    return r, lines


def count(lab, ranks, rank, resident, case="least"):
    out = lab.folder()
    r, lines = start(lab, {"rank": 0, "n": 0, "ranks": ranks, "resident": resident, "case": case}, out)
    if r.code != 0:
        raise RuntimeError("a run without faults failed:\n" + r.text)
    return max(int(s.split()[-1]) for s in lines if s.startswith("count %d alloc" % rank))


def trials(lab, rng, full):
    listed = []
    for ranks, rank, resident in ((2, 0, "0"), (2, 1, "0"), (2, 1, "1"), (2, 0, "1")):
        total = count(lab, ranks, rank, resident)
        those = list(range(1, min(total, FIRST) + 1)) if full else rng.sample(range(1, total + 1), 6)
        if full and total > FIRST:
            those += rng.sample(range(FIRST + 1, total + 1), min(FIRST // 4, total - FIRST))
        if full and resident == "1":  # the start is the same: what differs comes late
            those = rng.sample(range(1, total + 1), min(FIRST // 4, total))
        listed += [spec_of(NAME, ranks=ranks, rank=rank, resident=resident, n=n, resume=int(rng.random() < 0.1))
                   for n in those]
    for form in FORMS:  # each on the rank that its trials name
        ranks, resident, case = 1 if form == "auto" else 2, on_device(form), "least-" + form
        rank = ranks - 1
        total = count(lab, ranks, rank, resident, case)
        listed += [spec_of(NAME, case=case, ranks=ranks, rank=rank, resident=resident, n=n, resume=int(rng.random() < 0.5))
                   for n in rng.sample(range(1, total + 1), min(FIRST // 4 if full else 2, total))]
    rng.shuffle(listed)
    return listed


def place(lab, lines):
    """The functions that asked for the allocation that failed, innermost first."""
    hit = [s.split()[3:] for s in lines if s.startswith("hit alloc")]
    if not hit:
        return ""
    p = subprocess.run(["addr2line", "-fse", lab.moao] + [hex(int(a, 16) - 1) for a in hit[0]], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, universal_newlines=True, check=False)
    words = p.stdout.split("\n")
    return ", ".join("%s (%s)" % w for w in zip(words[::2], words[1::2]) if w[0] != "mem_alloc") or "an unknown place"


def check_same(lab, keys, out):
    """The results are those of a run without faults: nothing takes the place of what was asked for."""
    check_finished(out, lab.reference(keys.get("case", "least"), int(keys["ranks"]), keys["resident"] == "1"))


def run(lab, keys, out):
    r, lines = start(lab, keys, out)
    where = place(lab, lines)
    if not where:
        if r.code != 0:
            raise Fail("wrong", "failed without a fault:\n" + r.text)
        return {"note": "not reached"}
    try:
        check_no_process(out)
        check_ended(r)
        if r.code == 0:
            check_same(lab, keys, out)
            return {"note": "tolerated at " + where.split(",")[0]}
        if r.code != 1:
            raise Fail("wrong", "exit code %d, expected 1:\n%s" % (r.code, r.text))
        check_message(r, "[Mm]emory|allocate")
        if keys["resume"] == "1":
            resume(lab, keys.get("case", "least"), out, int(keys["ranks"]), keys["resident"] == "1")
    except Fail as e:
        raise Fail(e.verdict, "allocation at %s: %s" % (where, e)) from None
    return None
