"""python -m moao ...: the program and the commands on results by one word: python -m moao run mine.yaml, python -m moao plot DIR."""
import importlib
import os
import sys

from . import __version__
from .process import find_program, folder_of, inherited
from .reading import MoaoError

# the second word of moao-plot, moao-view...
COMMANDS = {"plot": "cmd_plot", "compare": "cmd_compare", "plot-sweep": "cmd_sweep", "export": "cmd_export", "view": "cmd_view",
            "stars": "cmd_stars", "plot-asterism": "cmd_asterism", "plot-coverage": "cmd_coverage", "collect": "cmd_collect",
            "python": "cmd_python", "import": "cmd_import", "lab": "cmd_lab"}


def shipped(word):
    """A case that comes with the program, where a word names one and no file."""
    found = os.path.join(folder_of("params") or "", word)
    return found if word.endswith(".yaml") and "=" not in word and not os.path.exists(word) and os.path.isfile(found) else word


def main(words=None):
    """Exit code; the program takes the place of this process."""
    words = list(sys.argv[1:] if words is None else words)
    called = words[:1] == ["results"]  # by the program, which has a command `import` of its own
    words = words[called:]
    if words and words[0] in COMMANDS and (called or words[0] != "import"):
        sys.argv[:] = ["moao-" + words[0]] + words[1:]
        return importlib.import_module("." + COMMANDS[words[0]], __package__).main()
    try:
        program = find_program()
    except MoaoError as e:
        print("moao: %s (Python package %s)" % (e, __version__), file=sys.stderr)
        return 2
    if words and words[0] in ("run", "check", "sweep", "asterism"):
        words = words[:1] + [shipped(w) for w in words[1:]]
    if not words:
        print("commands on results: %s\n" % ", ".join(COMMANDS), flush=True)
    os.execve(program, [program] + (words or ["help"]), inherited())
    return 1  # not reached


if __name__ == "__main__":
    sys.exit(main())
