"""(f) Disks that are full at any byte, files and address spaces that may not grow, too few descriptors."""
import os
import subprocess

from harness import Fail, check_ended, check_finished, check_message, check_no_process, check_no_temporary, resume, \
    spec_of, tree

NAME = "limits"


def trials(lab, rng, full):
    expected = lab.reference("least")
    sizes = [os.path.getsize(os.path.join(expected, n)) for n in tree(expected)]
    total = sum(sizes) + 60000  # with the parts
    listed = []
    # the sizes of the files themselves, a block less, a byte less: the last flush is the one that fails
    edges = sorted({max(s - d, 1) for s in sizes for d in (0, 1, 512, 2880, 4096)})
    listed += [spec_of(NAME, what="fsize", n=n) for n in (edges if full else rng.sample(edges, 4))]
    listed += [spec_of(NAME, what="fsize", n=rng.randrange(1, max(sizes))) for _ in range(150 if full else 3)]
    listed += [spec_of(NAME, what="disk", n=4096 * rng.randrange(1, total // 4096)) for _ in range(200 if full else 4)]
    listed += [spec_of(NAME, what="disk", n=n) for n in range(4096, total, 8192 if full else 1 << 30)]
    listed += [spec_of(NAME, what="as", n=m << 20) for m in
               (range(20, 1200, 20) if full else (300, 420, rng.randrange(200, 800)))]
    listed += [spec_of(NAME, what="nofile", n=n) for n in (range(3, 64, 2) if full else (8, 30))]
    listed += [spec_of(NAME, what="stack", n=n << 10) for n in ((64, 128, 256, 512, 1024) if full else (256,))]
    rng.shuffle(listed)
    return listed


def mount(size, out):
    """A disk of so many bytes; False where that is not allowed."""
    os.makedirs(out)
    return subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % size, "none", out], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def on_full_disk(lab, n, out):
    if not mount(n, out):
        return {"note": "no small disk can be mounted here", "tried": 0}
    try:
        folder = os.path.join(out, "results")
        r = lab.moao_run("least", folder)
        judge(lab, r, folder, "No space left")
        if r.code != 0:
            subprocess.run(["mount", "-o", "remount,size=100m", out], check=True)
            resume(lab, "least", folder)
    finally:
        subprocess.run(["umount", "-l", out], check=False)
    return None


def judge(lab, r, out, pattern, tolerance=None):
    check_no_process(out)
    check_ended(r)
    if r.code == 0:
        return check_finished(out, lab.reference("least"), tolerance)
    if r.code != 1:
        raise Fail("wrong", "exit code %d, expected 1:\n%s" % (r.code, r.text))
    check_message(r, pattern)
    return check_no_temporary(out)


def run(lab, keys, out):
    what, n = keys["what"], int(keys["n"])
    if what == "disk":
        return on_full_disk(lab, n, out)
    # the rank alone is limited, not what starts it
    command, env = lab.command("least", out)
    command = ["mpirun", "-n", "1", "prlimit", "--%s=%d:%d" % (what, n, n)] + command
    r = lab.run(command, env, mark=out)
    if what in ("as", "nofile", "stack") and r.code not in (0, None) and not os.path.exists(out):
        # loader, MPI or OpenBLAS end before the run begins: theirs to say why, ours not to hang
        check_no_process(out)
        return {"note": "%s: fails before the run begins" % what}
    # memory decides how many targets are computed at a time, which a resumed run keeps, and with it how BLAS rounds
    tolerance = 1e-10 if what == "as" else None
    judge(lab, r, out, {"fsize": "File too large", "as": "memory|allocate", "nofile": "Too many open"}.get(what), tolerance)
    if r.code != 0:
        resume(lab, "least", out, tolerance=tolerance)
    return None
