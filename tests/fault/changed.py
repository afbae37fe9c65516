"""Functions that differ between a revision and the sources as they are: a short campaign tries these alone."""
import os
import re
import subprocess

HEAD = re.compile(r"^(?:static |const |struct |_Noreturn )*[a-z_]\w*[ *]+(\w+)\(")
HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@", re.M)


def functions_of(lines):
    """The function that each line (from 0) is in, None between two; as clang-format lays them out."""
    found, name = [], None
    for line in lines:
        head = HEAD.match(line)
        if head and not line.rstrip().endswith(";"):
            name = head.group(1)
        found.append(name)
        if line.startswith("}"):
            name = None
    return found


def changed(root, revision):
    """{(file without its folder, function)} of C sources with a line that `git diff REVISION` shows."""
    def git(*words):
        return subprocess.run(["git", "-C", root, *words], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    found = set()
    for path in git("diff", "--name-only", "--diff-filter=d", revision, "--", "src").split():
        if not path.endswith(".c"):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as f:
            inside = functions_of(f.read().splitlines())
        for first, count in HUNK.findall(git("diff", "-U0", revision, "--", path)):
            lines = inside[int(first) - 1:int(first) - 1 + max(1, int(count or 1))]
            found |= {(os.path.basename(path), name) for name in lines if name}
    return found
