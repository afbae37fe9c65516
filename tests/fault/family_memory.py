"""(c) The n-th allocation of the program's own code fails on one rank: once for each place, which is a chain of callers, and a sample."""
import os
import re
import subprocess

from changed import changed
from harness import FORMS, MODES, RESIDENT, ROOT, Fail, check_ended, check_finished, check_message, check_no_process, on_device, resume, spec_of

NAME = "memory"
SAMPLE = 100  # allocations of any place, of each case
CHECKED = ("check", "check-tlr", "check-layers")  # of `moao check`
DEEP = 6  # callers that make a place
# places where a rank once left the others waiting, or closed what another had not opened: tried always
ONCE = {("least", 1, "0"): ["make_plan"], ("least-grid", 1, "0"): ["grid_open"], ("least-mixed", 1, "1"): ["factor_open", "product_open", "help_sample"],
        ("least-fp16", 1, "1"): ["factor_open"],
        ("least-nodes", 1, "0"): ["find_suspect", "weights_without"],
        ("check", 0, "0"): ["matcov_count", "gradients_count", "add_lattice_table"],
        ("check-layers", 0, "0"): ["open_tables", "choose_places"]}  # by case, rank, whether on a device


def is_check(keys):
    """Whether a case is for `moao check`."""
    return keys.get("case", "least").startswith("check")


def start(lab, keys, out):
    log = out + ".faults"
    env = {"FAULT_LOG": log, "FAULT_ALLOC": "%(rank)s:%(n)s" % keys}
    if keys["resident"] == "1":
        env.update(RESIDENT)
    if is_check(keys):
        r = lab.check(keys["case"], preload=True, env=env)
    else:
        r = lab.moao_run(keys.get("case", "least"), out, ranks=int(keys["ranks"]), preload=True, env=env)
    lines = []
    if os.path.exists(log):
        with open(log, encoding="utf-8") as f:
            lines = f.read().splitlines()
        os.remove(log)
    return r, lines


def places(lab, ranks, rank, resident, case="least"):
    """The first allocation of each place of a run without faults, and their number."""
    out = lab.folder()
    r, lines = start(lab, {"rank": rank, "n": "places", "ranks": ranks, "resident": resident, "case": case}, out)
    if r.code != 0:
        raise RuntimeError("a run without faults failed:\n" + r.text)
    first = {}
    for n, chain in ((int(w[2]), tuple(w[3:3 + DEEP])) for w in map(str.split, lines) if w[:2] == ["place", "alloc"]):
        first[chain] = min(n, first.get(chain, n))
    if not first:
        raise RuntimeError("no allocation was seen")
    return first, max(int(s.split()[-1]) for s in lines if s.startswith("count %d alloc" % rank))


def functions(lab, first):
    """{address: (file, function)} of the callers."""
    at = sorted({a for chain in first for a in chain})
    p = subprocess.run(["addr2line", "-fse", lab.moao] + [hex(int(a, 16) - 1) for a in at], stdout=subprocess.PIPE, universal_newlines=True, check=True)
    words = p.stdout.split("\n")
    return {a: (place.split(":")[0], name.split(".")[0]) for a, name, place in zip(at, words[::2], words[1::2])}


def near(first, of, what):
    """Of the places those where a function of `what` asks for the allocation, and one for each call through which a function of `what`
    meets the failure of another."""
    found, met = {}, set()
    for chain, n in sorted(first.items(), key=lambda item: item[1]):
        calls = {a for a in chain if of[a] in what}
        if any(of[a] in what for a in chain[:2]) or calls - met:  # mem_alloc, and who calls it
            found[chain] = n
        met |= calls
    return found


def asked_by(lab, first, names):
    """The first allocations of these functions, or of what they call where they have none: three of each."""
    name = {a: f for a, (_, f) in functions(lab, first).items()}
    found = set()
    for f in names:
        callers = ([n for chain, n in first.items() if len(chain) > k and name[chain[k]] == f] for k in range(1, DEEP))
        places_of = next(filter(None, callers), None)
        if places_of is None:
            raise RuntimeError("%s allocates nothing (ONCE)" % f)
        found |= set(sorted(places_of)[:3])
    return sorted(found)


def trials(lab, rng, full):
    """Each place once on the first rank and on another; where devices or a form differ, those that they add. Then, in the long form, a sample."""
    listed, sampled, known = [], [], {}
    runs = [("least", 2, 0, "0"), ("least", 2, 1, "0"), ("least", 2, 1, "1"), ("least", 2, 0, "1")]
    for form in FORMS:  # each on the rank that its trials name
        ranks = 1 if form == "auto" else 2
        runs.append(("least-" + form, ranks, ranks - 1, on_device(form)))
    runs += [("least-" + mode, 2, 1, "0") for mode in (MODES if full else ["nodes"])]
    runs += [(case, 1, 0, "0") for case in CHECKED]
    for case, ranks, rank, resident in runs:
        first, total = places(lab, ranks, rank, resident, case)
        new = {chain: n for chain, n in first.items() if chain not in known.setdefault(rank, set())}
        known[rank].update(first)
        new = list((near(new, functions(lab, new), changed(ROOT, lab.since)) if lab.since else new).values())
        if not full:
            once = ONCE.get((case, rank, resident))
            new = rng.sample(new, min(len(new), 3 if case == "least" else 1)) + (asked_by(lab, first, once) if once else [])
        some = rng.sample(range(1, total + 1), min(SAMPLE, total)) if full and not lab.since else []
        for to, those in (listed, new), (sampled, some):
            to += [spec_of(NAME, case=case, ranks=ranks, rank=rank, resident=resident, n=n, resume=int(rng.random() < 0.1)) for n in those]
    rng.shuffle(listed)
    rng.shuffle(sampled)
    return listed + sampled  # a campaign that ends before all are tried has tried the places first


def place(lab, lines):
    """The functions that asked for the allocation that failed, innermost first."""
    hit = [s.split()[3:] for s in lines if s.startswith("hit alloc")]
    if not hit:
        return ""
    p = subprocess.run(["addr2line", "-fse", lab.moao] + [hex(int(a, 16) - 1) for a in hit[0]], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, universal_newlines=True, check=False)
    words = p.stdout.split("\n")
    return ", ".join("%s (%s)" % w for w in zip(words[::2], words[1::2]) if w[0] != "mem_alloc") or "an unknown place"


def planned(text):
    """What `moao check` counts, and its line for a batch system: without warnings, and without the size of the program and sums with it, which is measured."""
    lines = [s for s in text.splitlines() if not s.startswith("moao: ")]
    counted = [s for s in lines if " GB " in s and not re.search("program and libraries|on the fullest rank|^verdict", s)]
    return counted + [re.sub(r"--mem-per-cpu=\d+M", "", s) for s in lines[lines.index("SLURM"):]]


def check_same(lab, keys, out, r):
    """The results are those of a run without faults: nothing takes the place of what was asked for."""
    if is_check(keys):
        with lab.guard:
            if keys["case"] not in lab.references:
                whole = lab.check(keys["case"])
                if whole.code != 0:
                    raise RuntimeError("failed without a fault, exit code %s:\n%s" % (whole.code, whole.text))
                lab.references[keys["case"]] = whole.text
            expected = lab.references[keys["case"]]
        if planned(r.text) != planned(expected):
            raise Fail("wrong", "other words than without the fault:\n%s\nand without:\n%s" % (r.text, expected))
        return
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
            check_same(lab, keys, out, r)
            return {"note": "tolerated at " + where.split(",")[0]}
        if r.code != 1:
            raise Fail("wrong", "exit code %d, expected 1:\n%s" % (r.code, r.text))
        if is_check(keys):  # what is a message there begins with the program's name
            r.text = "".join(s for s in r.text.splitlines(True) if s.startswith("moao: "))
        check_message(r, "[Mm]emory|allocate")
        if keys["resume"] == "1" and not is_check(keys):
            resume(lab, keys.get("case", "least"), out, int(keys["ranks"]), keys["resident"] == "1")
    except Fail as e:
        raise Fail(e.verdict, "allocation at %s: %s" % (where, e)) from None
    return None
