#!/usr/bin/env python3
"""Rules of the sources that no compiler checks; prints file:line: what is wrong, exit code 1 when any.

Include direction: ALLOWED says for each folder of src/ which others its files may include; gpu only the library's
and the backends' headers, and *formula.h; the commands, main and job/ everything but gpu.
Size: functions up to 70 lines, files up to 1000. Words: no unfinished marks, no switched-off code, no paths of one
machine, no numbers of tickets. Scripts: they parse. Pictures: none is older than what it shows. Changes of tests/mutants: each
has its place.
"""
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "scripts"))  # tests load this file from elsewhere
from draw_pictures import stale  # noqa: E402

BELOW = ["base", "system", "backend", "linalg"]
STAGES = ["matcov", "engine", "factor", "residual", "operator", "tor", "psf", "budget", "obsseq", "field", "asterism"]  # each may include those before it
# the library needs nothing of the simulator, which has its public headers (moao/) alone; base its status
ALLOWED = {"linalg": [], "base": ["linalg"], "system": ["base", "linalg"], "backend": ["base", "linalg"],
           "params": ["base", "system", "linalg"], "store": ["base", "params", "linalg"], "maps": BELOW + ["params", "store"] + STAGES[:-1]}
ALLOWED.update({stage: BELOW + ["store"] + STAGES[:i] for i, stage in enumerate(STAGES)})
ALLOWED["asterism"].append("params")
TOP = re.compile(r"^src/(main|commands|cmd_\w+)\.[ch]$|^src/job/")
PUBLIC = "src/linalg/include/"
MAX_FILE, MAX_FUNCTION = 1000, 70
WORDS = [
    (re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b"), "unfinished mark"),
    (re.compile(r"(?<![\w.])/(?:home|root|work|Users)/\w"), "path of one machine"),
    (re.compile(r"\b(?:issue|ticket) #?\d+\b|(?<![\w&])\(#\d+\)", re.I), "number of a ticket"),
    (re.compile(r"^(?:<{7}|>{7})(?: |$)"), "mark of a merge"),
    (re.compile(r"^\s*#\s*if\s+0\b"), "switched-off code"),
    (re.compile(r"^\s*//.*[;{}]\s*$"), "commented-out code"),
]
PROSE = (".md", ".txt")


def files():
    """Files of the project, as git lists them (tracked, or new and not ignored); all but build/ without git."""
    p = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, universal_newlines=True, check=False)
    names = p.stdout.split("\n") if p.returncode == 0 else [
        os.path.relpath(f, ROOT) for f in glob.glob(os.path.join(ROOT, "**/*"), recursive=True)]
    return sorted(n for n in names if os.path.isfile(os.path.join(ROOT, n)) and not n.startswith("build/"))


def part(path):
    """The part of the program that a source belongs to: top, or the name of its folder in src/."""
    return "top" if TOP.match(path) else path.split("/")[1]


def allowed(source, header):
    """Whether one source of src/ may include a header of src/."""
    a, b = part(source), part(header)
    if b == "gpu":
        return a == "gpu"
    if a == "gpu":
        return b in ("backend", "linalg") or header.endswith("formula.h")
    if b == "linalg" and a not in (b, "backend") and not header.startswith(PUBLIC):
        return False
    return a in (b, "top") or b in ALLOWED.get(a, [])


def check_includes(path, lines, say):
    for i, line in enumerate(lines, 1):
        m = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not m:
            continue
        beside = os.path.normpath(os.path.join(os.path.dirname(path), m.group(1)))
        header = beside if os.path.exists(os.path.join(ROOT, beside)) else \
            PUBLIC + m.group(1) if m.group(1).startswith("moao/") else "src/" + m.group(1)
        if os.path.exists(os.path.join(ROOT, header)) and header.startswith("src/") and not allowed(path, header):
            say(path, i, "%s must not include %s" % (part(path), header))


def check_size(path, lines, say):
    if len(lines) > MAX_FILE:
        say(path, len(lines), "file of %d lines (limit %d)" % (len(lines), MAX_FILE))
    start = 0
    for i, line in enumerate(lines, 1):
        if line.startswith("}"):
            if start and i - start + 1 > MAX_FUNCTION:
                say(path, start, "function of %d lines (limit %d)" % (i - start + 1, MAX_FUNCTION))
            start = 0
        elif line.rstrip().endswith("{") and re.match(r"[A-Za-z_{]", line) and not re.match(
                r"((typedef|struct|enum|union)\b|extern \"C\")[^()]*\{|.*=\s*\{", line):
            start = start or i


def check_words(path, lines, say):
    for i, line in enumerate(lines, 1):
        for rule, what in WORDS:
            if rule.search(line) and not (path.endswith(PROSE) and what.endswith("code")):
                say(path, i, what + ": " + line.strip()[:60])


def check_script(path, text, say):
    if path.endswith(".py"):
        try:
            compile(text, path, "exec")
        except SyntaxError as e:
            say(path, e.lineno or 1, "does not parse: %s" % e.msg)
    elif re.match(r"#!.*\b(?:ba)?sh\b", text):
        shell = "bash" if "bash" in text.split("\n", 1)[0] else "sh"
        p = subprocess.run([shell, "-n", os.path.join(ROOT, path)], stderr=subprocess.PIPE,
                           universal_newlines=True, check=False)
        if p.returncode:
            say(path, 1, "does not parse: " + p.stderr.strip())


def main():
    found = []

    def say(path, line, what):
        found.append("%s:%d: %s" % (path, line, what))

    for path, what in stale():
        say(path, 0, what)
    for path in files():
        try:
            with open(os.path.join(ROOT, path), encoding="utf-8") as f:
                text = f.read()
        except UnicodeDecodeError:
            continue  # data
        if len(text) > 400000 or path.endswith((".json", ".csv", ".dat")):
            continue
        lines = text.splitlines()
        check_words(path, lines, say)
        check_script(path, text, say)
        if path.endswith((".c", ".h", ".cu", ".cuh")):
            check_size(path, lines, say)
            if path.startswith("src/"):
                check_includes(path, lines, say)
    sys.path.insert(0, os.path.join(ROOT, "tests", "mutants"))
    import mutants
    mutants.load_runner(ROOT)  # what tries the entries starts
    found += ["%s; mend the entry, or take it out" % fault for fault in mutants.check()]
    print("\n".join(found) if found else "lint: clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
