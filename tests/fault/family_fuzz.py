"""(e) Inputs of libFuzzer into the readers, in one process each, under AddressSanitizer and UBSan.

tests/fault/corpus/TARGET/ holds seeds, and under found-* every input that broke a promise once: all are tried first.
What a campaign learns is kept in the build folder and is where the next one begins."""
import glob
import hashlib
import os
import re
import shutil

from harness import CASE, ROOT, Fail, environment, spec_of, tool

NAME = "fuzz"
WORKERS = min(max(os.cpu_count() or 1, 2), 16)
TARGETS = ("params", "profile", "legacy", "targets", "overrides", "checkpoint", "results", "lists", "matrices")
CORPUS = os.path.join(ROOT, "tests", "fault", "corpus")
# of a campaign's million, what each target gets
SHARE = {"params": 0.25, "profile": 0.1, "legacy": 0.1, "targets": 0.1, "overrides": 0.1, "checkpoint": 0.1, "results": 0.1, "lists": 0.05, "matrices": 0.1}
WORDS = {"results": ["NAXIS1  = ", "NAXIS2  = ", "PCOUNT  = ", "TFIELDS = ", "THEAP   = ", "TTYPE1  = 'NAME'", "TFORM1  = '4D'", "TFORM3  = '1PA(900)'",
                     "TDISP1  = 'F390.2'", "TDIM1   = '(8,4)'", "TNULL1  = 0", "TSCAL1  = 1E308", "TZERO1  = -128", "EXTNAME = 'TARGETS'", "'32A8'",
                     "'1C'", "'9999999999D'", "'0A'", "-1", "9223372036854775807", "4294967296", "'&'", "CONTINUE  '", "HIERARCH ", "END"],
         "lists": ["# moao sweep of ", "-o ", "telescope.zenith=", "ra,dec,magnitude,name", "x y mag id", "12:30:00", "-05:10:20.5", "nan", "--", "'", "\\", "1e308"]}
ROUND = 10000  # inputs of one process: a short one can be repeated


def trials(lab, rng, full):
    for target in TARGETS:
        yield spec_of(NAME, target=target, seed=0, runs=0)  # the corpus alone
    if not full:
        for target in TARGETS:
            yield spec_of(NAME, target=target, seed=rng.randrange(1, 1 << 31), runs=2000)
        return
    rounds = {t: int(1e6 * SHARE[t] / ROUND) for t in TARGETS}
    while True:  # the million, then as long as there is time
        for i in range(max(rounds.values())):
            for target in TARGETS:
                if i < rounds[target]:
                    yield spec_of(NAME, target=target, seed=rng.randrange(1, 1 << 31), runs=ROUND)


def quoted(word):
    return '"%s"\n' % word.replace("\\", "\\\\").replace('"', '\\"')


def dictionary(lab, target):
    """Words for libFuzzer to put together: those of the target, else the keys and words of the parameters."""
    path = os.path.join(lab.dir, "%s.dict" % (target if target in WORDS else "fuzz"))
    with lab.guard:
        if not os.path.exists(path):
            with open(os.path.join(ROOT, "src", "params", "params.def"), encoding="utf-8") as f:
                words = set(WORDS.get(target) or re.findall(r"\b[a-z][a-z_0-9]{2,20}\b", f.read()))
            words |= set() if target in WORDS else {"? ", ": ", "- ", "<<", "&a ", "*a", "!!", "{", "[", "|", ">", "0x1p-1074", "1e-320", "1e308",
                      "inf", "nan", "2147483648", "18446744073709551616", "%YAML 1.1", "---", "..."}
            with open(path, "w", encoding="utf-8") as f:
                f.write("".join(map(quoted, sorted(words))))
    return path


def seeds(lab, target):
    """Folders to begin with: the corpus, and for parameter files those that there are."""
    folders = [os.path.join(CORPUS, target)]
    if target == "params":
        more = os.path.join(lab.dir, "seeds-params")
        with lab.guard:
            if not os.path.exists(more):
                os.mkdir(more)
                for p in glob.glob(os.path.join(ROOT, "params", "*.yaml")):
                    if os.path.getsize(p) < 5000:
                        shutil.copy(p, more)
                with open(os.path.join(more, "case"), "w", encoding="utf-8") as f:
                    f.write(CASE)
        folders.append(more)
    return [f for f in folders if os.path.isdir(f)]


def keep(artifact, target):
    """A found input goes to the corpus, where it is tried ever after."""
    if os.path.getsize(artifact) > 20000 or not os.access(os.path.dirname(CORPUS), os.W_OK):
        return artifact
    with open(artifact, "rb") as f:
        data = f.read()
    folder = os.path.join(CORPUS, target)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "found-" + hashlib.sha1(data).hexdigest()[:12])
    with open(path, "wb") as f:
        f.write(data)
    return path


def reason(text):
    m = re.search(r"BROKEN: .*|ERROR: .*|.*runtime error: .*", text)
    where = re.search(r" in (\w+) \S*?(src/[\w/]+\.c:\d+)", text)
    return "%s%s" % (m.group(0)[:600] if m else text[-1500:], ", in %s (%s)" % where.groups() if where else "")


def run(lab, keys, out):
    fuzz = tool("fuzz", lab.build)
    if not os.path.exists(fuzz):
        return {"tried": 0, "note": "no clang: not fuzzed"}
    target, runs = keys["target"], int(keys["runs"])
    os.makedirs(os.path.join(out, "work"))
    grown = os.path.join(lab.build, "tests", "fault", "corpus-" + target)
    os.makedirs(grown, exist_ok=True)
    command = [fuzz, "-seed=%s" % keys["seed"], "-runs=%d" % runs, "-max_len=4096", "-timeout=20", "-rss_limit_mb=3000",
               "-malloc_limit_mb=2000", "-print_final_stats=1", "-reload=0", "-artifact_prefix=" + out + "/",
               "-dict=" + dictionary(lab, target)]
    if keys.get("file"):
        command = [fuzz, "-timeout=20", os.path.join(ROOT, keys["file"])]
    else:
        command += ([grown] if runs else []) + seeds(lab, target)
    env = environment(FAULT_FUZZ=target, FAULT_DIR=os.path.join(out, "work"), ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=1",
                      UBSAN_OPTIONS="print_stacktrace=1")
    r = lab.run(command, env, limit=3600, mark=out)
    found = [p for p in glob.glob(out + "/*") if re.match(r"(crash|timeout|oom|leak|slow)-", os.path.basename(p))]
    tried = re.search(r"stat::number_of_executed_units: +(\d+)", r.text)
    coverage = re.findall(r"cov: (\d+)", r.text)
    if r.code != 0:
        verdict = "hang" if "timeout" in r.text and "ERROR: libFuzzer: timeout" in r.text else \
            "wrong" if "BROKEN:" in r.text else "crash"
        names = [os.path.relpath(keep(p, target), ROOT) for p in found if "slow-" not in p]
        again = ["campaign.py --case '%s'" % spec_of(NAME, target=target, seed=0, runs=0, file=n) for n in names]
        raise Fail(verdict, "%s\n%s" % (reason(r.text), "\n".join(again) or r.text[-2000:]))
    with lab.guard:
        lab.coverage[target] = max(int(coverage[-1]) if coverage else 0, lab.coverage.get(target, 0))
    return {"tried": int(tried.group(1)) if tried else 1}
