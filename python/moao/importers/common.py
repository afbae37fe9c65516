"""What the dialects share."""
import json
import re

from ..reading import one_line

WORDS = re.compile(r"[A-Za-z_][\w.+-]*")


class Imported:
    """parameters: nested, in moao's words and units. notes: how things were understood. left_out: (name, reason)."""

    def __init__(self, source, dialect):
        self.source, self.dialect = source, dialect
        self.parameters, self.notes, self.left_out = {}, [], []

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def leave(self, name, reason):
        self.left_out.append((name, reason))

    def text(self):
        """A parameter file, with the notes and the list as comments in front."""
        lines = ["# made by moao import of %s (%s)" % (one_line(self.source), self.dialect)]
        lines += ["# " + one_line(n) for n in self.notes]
        if self.left_out:
            lines.append("# left out:")
            lines += ["#   %s: %s" % (one_line(n), one_line(r)) for n, r in self.left_out]
        return "\n".join(lines) + "\n" + to_yaml(self.parameters)


def number(v):
    """As short as the number is."""
    return "%.10g" % v if isinstance(v, float) else json.dumps(v, ensure_ascii=False)


def flow(v):
    """A value on one line."""
    if isinstance(v, dict):
        return "{%s}" % ", ".join("%s: %s" % (k, flow(x)) for k, x in v.items())
    if isinstance(v, (list, tuple)):
        return "[%s]" % ", ".join(flow(x) for x in v)
    if isinstance(v, str) and WORDS.fullmatch(v) and v not in ("true", "false", "null"):
        return v
    return number(v)


def to_yaml(tree, depth=0):
    """Nested parameters as YAML: lists of mappings with an item a line."""
    lines, pad = [], "  " * depth
    for key, v in tree.items():
        if isinstance(v, dict) and v and depth < 2:
            lines.append("%s%s:\n%s" % (pad, key, to_yaml(v, depth + 1).rstrip("\n")))
        elif isinstance(v, list) and v and isinstance(v[0], dict):
            lines.append("%s%s:" % (pad, key))
            lines += ["%s  - %s" % (pad, flow(item)) for item in v]
        else:
            lines.append("%s%s: %s" % (pad, key, flow(v)))
    return "\n".join(lines) + "\n"


def with_defaults(sensors):
    """(defaults by type, sensors without them): keys that all sensors of a type share go into ngs_defaults and lgs_defaults."""
    defaults = {}
    for kind in ("ngs", "lgs"):
        group = [s for s in sensors if s["type"] == kind]
        if len(group) < 2:
            continue
        shared = {k: v for k, v in group[0].items() if k not in ("name", "type", "direction") and all(s.get(k) == v for s in group)}
        if shared:
            defaults[kind + "_defaults"] = shared
            for s in group:
                for k in shared:
                    del s[k]
    return defaults, sensors
