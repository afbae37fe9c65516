"""Start a command of the package without installing it, with a Python that has what it needs.

Used by the scripts beside this folder (scripts/plot_maps.py...). Where `python3` is not the distribution's, as with
pyenv, conda or modules, astropy is often missing there while /usr/bin/python3 has it: the command is then started anew
with that one. Understands every Python 3.
"""
import importlib
import importlib.util
import os
import sys

SYSTEM = "/usr/bin/python3"
AGAIN = "MOAO_PYTHON_STARTED_ANEW"
# command: (module, what it imports)
COMMANDS = {
    "moao-plot": ("moao.cmd_plot", ("numpy", "astropy", "matplotlib")),
    "moao-compare": ("moao.cmd_compare", ("numpy", "astropy")),
    "moao-plot-sweep": ("moao.cmd_sweep", ("numpy", "astropy", "matplotlib")),
    "moao-export": ("moao.cmd_export", ("numpy", "astropy")),
    "moao-view": ("moao.cmd_view", ("numpy", "astropy", "plotly")),
    "moao-stars": ("moao.cmd_stars", ("numpy", "astropy")),
    "moao-plot-asterism": ("moao.cmd_asterism", ("numpy", "astropy", "matplotlib")),
    "moao-plot-coverage": ("moao.cmd_coverage", ("numpy", "astropy", "matplotlib")),
    "moao-collect": ("moao.cmd_collect", ("numpy", "astropy")),
}


def missing(modules):
    """Those of the modules that this Python does not find."""
    return [m for m in modules if importlib.util.find_spec(m) is None]


def start(command, words=1):
    """Exit code of a command; does not return when another Python takes over. words: how many of sys.argv name it."""
    module, needs = COMMANDS[command]
    lacks = missing(needs)
    if lacks and not os.environ.get(AGAIN) and os.access(SYSTEM, os.X_OK):
        os.environ[AGAIN] = "1"
        sys.stdout.flush()
        os.execv(SYSTEM, [SYSTEM] + sys.argv)
    if lacks:
        print("%s: %s has no %s: apt install %s, or pip install %s" % (
            command, sys.executable or "python3", " and no ".join(lacks),
            " ".join("python3-" + m for m in lacks), " ".join(lacks)), file=sys.stderr)
        return 2
    os.environ.pop(AGAIN, None)
    sys.argv[:words] = [command]
    return importlib.import_module(module).main()
