#!/usr/bin/env python3
"""Print the notes of the version in VERSION: its part of CHANGELOG.md (`make release-notes`). Refused, with one line: a version whose
heading has no date, whose date is not that of CITATION.cff, or that has a tag on another commit."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        return f.read()


def notes(folder):
    """The text. ValueError: why there is none."""
    version = read(folder, "VERSION").strip()
    parts = re.split(r"^## ", read(folder, "CHANGELOG.md"), flags=re.M)[1:]
    found = [p for p in parts if re.match(re.escape(version) + r"\b(?!\.)", p)]
    if len(found) != 1:
        raise ValueError("CHANGELOG.md: %d headings of %s: give the changes theirs, ## %s (DATE)" % (len(found), version, version))
    heading, _, text = found[0].partition("\n")
    date = re.search(r"\d{4}-\d\d-\d\d", heading)
    if date is None:
        raise ValueError("CHANGELOG.md: ## %s: no date: write ## %s (YYYY-MM-DD)" % (heading, version))
    cited = re.search(r'^date-released: "?([\d-]+)', read(folder, "CITATION.cff"), re.M).group(1)
    if cited != date.group(0):
        raise ValueError("CITATION.cff: date-released %s, and CHANGELOG.md has %s for %s" % (cited, date.group(0), version))
    if text.strip() == "":
        raise ValueError("CHANGELOG.md: ## %s: nothing below it" % heading)
    return "moao %s (%s)\n\n%s\n" % (version, date.group(0), text.strip())


def tagged_elsewhere(folder, version):
    """Whether the version's tag is on a commit that is not checked out."""
    def commit(name):
        return subprocess.run(["git", "-C", folder, "rev-parse", "-q", "--verify", name + "^{commit}"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, universal_newlines=True, check=False).stdout
    tag = commit("v" + version)
    return tag != "" and tag != commit("HEAD")


def main(folder=ROOT):
    try:
        text = notes(folder)
        version = read(folder, "VERSION").strip()
        if tagged_elsewhere(folder, version):
            raise ValueError("VERSION: %s has the tag v%s on another commit: set the next number" % (version, version))
    except ValueError as e:
        print("release-notes: %s" % e, file=sys.stderr)
        return 2
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
