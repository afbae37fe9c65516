"""(d) What a disk, an administrator or another run does to a folder between the interruption and the resumption."""
import os
import shutil
import signal
import subprocess
import time

from harness import (Fail, Result, check_ended, check_finished, check_message, check_no_process, parts, same,
                     spec_of, tree)

NAME = "damage"
SORTS = ("bit", "truncate", "append", "zero", "delete", "directory", "unreadable", "exchange", "foreign", "shape", "facts")
OF_PARTS = ("exchange", "foreign", "shape")  # these are done to parts, which a finished run has none of


def snapshot(lab, name, make):
    """A folder that many trials copy, made once."""
    path = os.path.join(lab.dir, "snapshot-" + name)
    with lab.guard:
        if not os.path.exists(path):
            make(path)
    return path


def half(lab, case="tiny", wanted=12):
    """An interrupted run with about `wanted` parts."""
    def make(path):
        command, env = lab.command(case, path, preload=True, env={
            "FAULT_CALL": "0:rename:%d:KILL" % (wanted + 5), "FAULT_DIR": path})
        lab.run(command, env)
        if not parts(path):
            raise RuntimeError("no parts in " + path)
    return snapshot(lab, "half-" + case, make)


def drawn(full):
    """(sort, state, only to parts, live or None: drawn by the file). Endless: every sort in turn, of an interrupted run or, every
    fourth time, a finished one. The small form draws no pair twice: each sort in an interrupted run, each that is not for parts alone
    in a finished one, and three while the run is under way, among them what is noticed by checksum, by content and by absence."""
    if not full:
        for sort in SORTS:
            yield sort, "half", sort in OF_PARTS or sort in ("bit", "truncate"), 0
        for sort in SORTS:
            if sort not in OF_PARTS:
                yield sort, "done", False, 0
        for sort in ("bit", "zero", "delete"):
            yield sort, "half", True, 1
    i = 0
    while full:
        sort = SORTS[i % len(SORTS)]
        of_parts = sort in OF_PARTS or (sort in ("bit", "truncate") and i % 2 == 0)
        yield sort, "done" if i % 4 == 3 and not of_parts else "half", of_parts, None
        i += 1


def trials(lab, rng, full):
    """What is drawn, each to a file drawn at random."""
    states = {"half": half(lab), "done": lab.reference("tiny")}
    for sort, state, of_parts, live in drawn(full):
        names = [n for n in tree(states[state]) if ("part-" in n if of_parts else not n.endswith("lock"))]
        name = rng.choice(names)
        size = os.path.getsize(os.path.join(states[state], name))
        at, bit = rng.randrange(max(size, 1)), rng.randrange(8)
        if live is None:
            live = int(state == "half" and rng.random() < 0.2 and "part-" in name)
        yield spec_of(NAME, state=state, sort=sort, file=name, at=at, bit=bit, live=live)


def damage(lab, keys, out):
    """Do it; the text says what, for the report."""
    path, at, sort = os.path.join(out, keys["file"]), int(keys["at"]), keys["sort"]
    if sort == "bit":
        with open(path, "r+b") as f:
            f.seek(at)
            byte = f.read(1)
            f.seek(at)
            f.write(bytes([(byte or b"\0")[0] ^ 1 << int(keys["bit"])]))
    elif sort == "truncate":
        os.truncate(path, at)
    elif sort == "append":
        with open(path, "ab") as f:
            f.write(b"\0" * (1 + at % 100))
    elif sort == "zero":
        with open(path, "r+b") as f:
            f.seek(at)
            f.write(b"\0" * (os.path.getsize(path) - at))
    elif sort == "delete":
        os.remove(path)
    elif sort == "directory":
        os.remove(path)
        os.mkdir(path)
    elif sort == "unreadable":  # as root everything is readable: a link to nowhere
        os.remove(path)
        os.symlink("/nowhere/at/all", path)
    elif sort == "exchange":
        names = sorted(parts(out))
        other = names[(names.index(path) + 1 + at) % len(names)]
        with open(path, "rb") as f, open(other, "rb") as g:
            mine, its = f.read(), g.read()
        for name, content in ((path, its), (other, mine)):
            with open(name, "wb") as f:
                f.write(content)
    elif sort in ("foreign", "shape"):
        bring_foreign(lab, sort, out)
    elif sort == "facts":
        change_fact(out, at)


def bring_foreign(lab, sort, out):
    """Parts of a run of other parameters, or of another shape, under the names of ours."""
    text = open(lab.case("tiny"), encoding="utf-8").read()
    text = text.replace("diameter: 8 m", "zenith: 30 deg, diameter: 8 m") if sort == "foreign" else \
        text.replace("2.2 um]", "2.2 um, 1.2 um]")
    with lab.guard:
        if not os.path.exists(lab.case(sort)):
            with open(lab.case(sort), "w", encoding="utf-8") as f:
                f.write(text)
    other = half(lab, sort, 20)
    for p in parts(other):
        shutil.copy(p, os.path.join(out, "checkpoint", os.path.basename(p)))


def change_fact(out, at):
    """A number of the facts becomes absurd, in a file that is well-formed."""
    path = os.path.join(out, "checkpoint", "facts")
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as f:
        lines = f.read().splitlines()
    key = lines[at % len(lines)].split(" ")
    key[1] = ("100000", "-1", "0", "2147483648", "nan", "7")[at % 6]
    lines[at % len(lines)] = " ".join(key)
    with open(path, "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


def damage_live(lab, keys, out):
    """The same while the run is under way: it stands still, a part that it has verified or written is changed."""
    command, env = lab.command("tiny", out, "--resume")
    with open(out + ".log", "w+b") as log:
        p = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=env,
                             cwd=lab.dir, start_new_session=True)
        had, end = len(parts(out)), time.monotonic() + 30
        while len(parts(out)) <= had and p.poll() is None and time.monotonic() < end:
            time.sleep(0.001)
        p.send_signal(signal.SIGSTOP)  # nothing where it has ended
        try:
            if os.path.exists(os.path.join(out, keys["file"])):
                damage(lab, keys, out)  # else the run was at its end, which parts that come now would litter
        except OSError:
            pass
        p.send_signal(signal.SIGCONT)
        try:
            code = p.wait(60)
        except subprocess.TimeoutExpired:
            code = None
            p.kill()
            p.wait()
        log.seek(0)
        text = log.read().decode("utf-8", "replace")
    os.remove(out + ".log")
    return Result(code, text, 0)


def run(lab, keys, out):
    expected = lab.reference("tiny")
    shutil.copytree(half(lab) if keys["state"] == "half" else expected, out)
    if keys["live"] == "1":
        r = damage_live(lab, keys, out)
    else:
        damage(lab, keys, out)
        r = lab.moao_run("tiny", out, "--resume")
    check_no_process(out)
    check_ended(r)
    if r.code == 0 and same(out, expected):
        raise Fail("wrong", "exit code 0, but %s:\n%s" % (same(out, expected), r.text))
    if r.code == 0 and keys["state"] == "done" and keys["file"] == "run.json" and "run.json" in r.text:
        return None  # how long the run took cannot be found out again: a warning tells of it
    if r.code == 0:
        return check_finished(out, expected)
    # refused: a line that says why, and starting again serves
    check_message(r)
    if r.code not in (1, 2):
        raise Fail("wrong", "exit code %d:\n%s" % (r.code, r.text))
    again = lab.moao_run("tiny", out, "--resume" if keys["live"] == "1" else "--overwrite")
    check_ended(again)
    if again.code != 0:
        again = lab.moao_run("tiny", out, "--overwrite")
    if again.code != 0:
        if keys["sort"] == "directory" and os.path.basename(keys["file"]) in again.text:
            return {"note": "a folder in the place of a file is left to the user"}
        raise Fail("lost", "cannot even be started again:\n%s\n%s" % (r.text, again.text))
    return check_finished(out, expected)
