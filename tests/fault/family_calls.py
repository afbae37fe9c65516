"""(b) The n-th call on a file of the run fails, is interrupted or writes a part only; a kill before the n-th."""
import os
import shutil

from harness import (FORMS, RESIDENT, Fail, check_ended, check_finished, check_message, check_no_process, check_no_temporary, on_device,
                     resume, spec_of)

NAME = "calls"
KINDS = ("open", "write", "fsync", "rename", "close", "ftruncate", "mmap", "unlink", "read")
ACTIONS = {"open": ("EIO", "EINTR", "ENOSPC", "EACCES", "EMFILE"), "write": ("EIO", "ENOSPC*", "EDQUOT", "EINTR", "SHORT",
                                                                        "KILL"),
           "fsync": ("EIO", "ENOSPC", "EDQUOT", "EINTR", "KILL"), "rename": ("EIO", "ENOSPC", "EDQUOT", "KILL"),
           "close": ("EIO", "ENOSPC", "EDQUOT", "EINTR"), "ftruncate": ("EIO", "ENOSPC"), "mmap": ("EIO",),
           "unlink": ("EIO", "EROFS", "KILL"), "read": ("EIO", "EINTR", "SHORT", "ESTALE")}
TEXT = {"EIO": "Input/output error", "ENOSPC": "No space left", "EDQUOT": "[Qq]uota exceeded", "EROFS": "Read-only",
        "EACCES": "Permission denied", "EMFILE": "Too many open files", "ESTALE": "Stale file handle"}


def prepare(lab, mode, out):
    """The folder before the run: none; a finished run of other parameters; an interrupted run."""
    if mode == "overwrite":
        shutil.copytree(lab.reference("other"), out)
    elif mode == "resume":
        with lab.guard:
            half = os.path.join(lab.dir, "half")
            if not os.path.exists(half):
                command, env = lab.command("least", half, preload=True, env={
                    "FAULT_CALL": "0:rename:7:KILL", "FAULT_DIR": half})
                lab.run(command, env)
        shutil.copytree(half, out)


def start(lab, keys, out, fault=None):
    """The run of a trial, and the lines of the library's log."""
    prepare(lab, keys["mode"], out)
    log = out + ".faults"
    env = {"FAULT_DIR": out, "FAULT_LOG": log, "FAULT_ALLOC": "0:0", **(RESIDENT if keys.get("resident") == "1" else {})}
    if fault:
        env["FAULT_CALL"] = fault
    option = {"new": [], "overwrite": ["--overwrite"], "resume": ["--resume"]}[keys["mode"]]
    r = lab.moao_run(keys.get("case", "least"), out, *option, ranks=int(keys["ranks"]), preload=True, env=env)
    lines = []
    if os.path.exists(log):
        with open(log, encoding="utf-8") as f:
            lines = f.read().splitlines()
        os.remove(log)
    return r, lines


def counts(lab, mode, ranks=1, case="least"):
    """How often a run makes each kind of call."""
    out = lab.folder()
    r, lines = start(lab, {"mode": mode, "ranks": str(ranks), "case": case}, out)
    shutil.rmtree(out, ignore_errors=True)
    if r.code != 0:
        raise RuntimeError("a run without faults failed:\n" + r.text)
    found = [s.split() for s in lines if s.startswith("count 0 ")]
    return {kind: int(n) for _, _, kind, n in found if kind in KINDS}


def trials(lab, rng, full):
    """Every n, kind and action, of a new run, one with --overwrite and a resumed one; in a random order, so that a
    campaign that ends early has tried some of each. The small form tries one n of each kind, action and mode."""
    listed = []
    for mode in ("new", "overwrite", "resume"):
        for kind, total in sorted(counts(lab, mode).items()):
            for action in ACTIONS[kind]:
                # one beyond the last: all were reached
                these = range(1, total + 2) if full else [rng.randrange(1, total + 1)]
                listed += [spec_of(NAME, mode=mode, ranks=1, rank=0, kind=kind, n=n, action=action) for n in these]
    for spec in rng.sample(listed, len(listed) // 20):
        listed.append(spec.replace("ranks=1", "ranks=2"))
    forms = [spec + " case=least-%s resident=%s" % (form, on_device(form)) for form in FORMS
             for spec in rng.sample([s for s in listed if "mode=new" in s and "ranks=1" in s], 80 if full else 1)]
    if full:  # a run at nodes has files of its own
        for kind, total in sorted(counts(lab, "new", case="least-nodes").items()):
            forms += [spec_of(NAME, mode="new", ranks=1, rank=0, kind=kind, n=n, action=action, case="least-nodes", resident=0)
                      for action in ACTIONS[kind] for n in rng.sample(range(1, total + 1), min(4, total))]
    rng.shuffle(listed)
    return listed + forms if full else listed[:22] + forms


def check_mixture(lab, out, ranks):
    """After a failed --overwrite: the old run is whole, or the new one can be gone on with; nothing between."""
    r = lab.moao_run("least", out, "--resume", ranks=ranks)
    check_ended(r)
    if r.code == 0:
        return check_finished(out, lab.reference("least", ranks))
    if r.code != 2:
        raise Fail("lost", "cannot be resumed, exit code %d:\n%s" % (r.code, r.text))
    resume(lab, "other", out)  # prepared on one rank
    r = lab.moao_run("least", out, "--overwrite", ranks=ranks)
    check_ended(r)
    return check_finished(out, lab.reference("least", ranks))


def run(lab, keys, out):
    action = keys["action"].rstrip("*")
    r, lines = start(lab, keys, out, "%(rank)s:%(kind)s:%(n)s:%(action)s" % keys)
    if not any(s.startswith("hit") for s in lines):
        if r.code != 0:
            raise Fail("wrong", "failed without a fault:\n" + r.text)
        return {"note": "not reached"}
    check_no_process(out)
    if action == "KILL":
        if r.code == 0:
            raise Fail("wrong", "exit code 0 after a kill")
    else:
        check_ended(r)
        if r.code == 0:
            ranks = int(keys["ranks"])
            check_finished(out, lab.reference(keys.get("case", "least"), ranks, keys.get("resident") == "1"), 1e-10 if ranks > 1 and keys["mode"] == "resume" else None)
            return None
        if action in ("EINTR", "SHORT"):
            raise Fail("wrong", "an interrupted or short call ended the run:\n" + r.text)
        if r.code != 1:
            raise Fail("wrong", "exit code %d, expected 1:\n%s" % (r.code, r.text))
        check_message(r, TEXT[action])
        untouched = keys["mode"] == "resume" and keys["kind"] == "open" and keys["n"] == "1"  # that of the lock: what a killed run left stays
        if keys["kind"] != "unlink" and not untouched:
            check_no_temporary(out)
    if keys["mode"] == "overwrite":
        return check_mixture(lab, out, int(keys["ranks"]))
    # an interrupted run that is gone on with on other ranks keeps the parts of the first
    tolerance = 1e-10 if keys["mode"] == "resume" and keys["ranks"] != "1" else None
    return resume(lab, keys.get("case", "least"), out, int(keys["ranks"]), keys.get("resident") == "1", tolerance=tolerance)
