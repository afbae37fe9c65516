"""Start a command of the package without installing it, with a Python that has what it needs.

Used by the scripts beside this folder (scripts/moao-results, scripts/plot_maps.py...), and the one place that finds the Python.
Where `python3` is not the distribution's, as with pyenv, conda or modules, astropy is often missing there while
/usr/bin/python3 has it: what is called is then started anew with that one. Understands every Python 3.
"""
import importlib
import importlib.util
import os
import sys

SYSTEM = "/usr/bin/python3"
AGAIN = "MOAO_PYTHON_STARTED_ANEW"
# command: (module, what it imports, what it does); the Makefile installs a link of each name
COMMANDS = {
    "moao-plot": ("moao.cmd_plot", ("numpy", "astropy", "matplotlib"), "draw the maps of a run"),
    "moao-compare": ("moao.cmd_compare", ("numpy", "astropy"), "differences between two runs"),
    "moao-plot-sweep": ("moao.cmd_sweep", ("numpy", "astropy", "matplotlib"), "draw the table of a sweep"),
    "moao-export": ("moao.cmd_export", ("numpy", "astropy"), "PSFs for other programs"),
    "moao-view": ("moao.cmd_view", ("numpy", "astropy", "plotly"), "a page for the browser from a run"),
    "moao-lab": ("moao.cmd_lab", ("numpy", "astropy", "tornado"), "a case live in a browser, as moao lab"),
    "moao-stars": ("moao.cmd_stars", ("numpy", "astropy"), "a table of stars from a catalogue"),
    "moao-plot-asterism": ("moao.cmd_asterism", ("numpy", "astropy", "matplotlib"), "draw a choice of guide stars"),
    "moao-plot-coverage": ("moao.cmd_coverage", ("numpy", "astropy", "matplotlib"), "draw the sky coverage of many fields"),
    "moao-collect": ("moao.cmd_collect", ("numpy", "astropy"), "one table from many runs"),
    "moao-import": ("moao.cmd_import", ("numpy", "astropy"), "a parameter file from another program's, as moao import"),
    "moao-python": ("moao.cmd_python", ("numpy", "astropy"), "run Python with what reads the results"),
}


def missing(modules):
    """Those of the modules that this Python does not find."""
    return [m for m in modules if importlib.util.find_spec(m) is None]


def needs(*modules, name=None):
    """Return when all are there; else start sys.argv anew under the distribution's python3; else end it with one line."""
    lacks = missing(modules)
    name = name or os.path.basename(sys.argv[0])
    again = os.environ.pop(AGAIN, None)
    if not lacks:
        return
    if again != name and os.access(SYSTEM, os.X_OK) and os.path.isfile(sys.argv[0]):
        sys.stdout.flush()
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "PYTHONPATH")}  # of the other one
        os.execve(SYSTEM, [SYSTEM] + sys.argv, dict(env, **{AGAIN: name}))
    print("%s: %s has no %s: apt install %s, or pip install %s" % (
        name, sys.executable or "python3", " and no ".join(lacks),
        " ".join("python3-" + m for m in lacks), " ".join(lacks)), file=sys.stderr)
    sys.exit(2)


def start(command, words=1):
    """Exit code of a command; does not return when another Python takes over. words: how many of sys.argv name it."""
    module, modules, _ = COMMANDS[command]
    needs(*modules, name=command)
    sys.argv[:words] = [command]
    return importlib.import_module(module).main()


def write_helps(folder):
    """FOLDER/NAME for every command: its --help in 80 columns, for manual pages and completion. Exit code."""
    needs(*sorted({m for _, modules, _ in COMMANDS.values() for m in modules}))
    os.environ["COLUMNS"] = "80"
    for name, (module, _, _) in COMMANDS.items():
        sys.argv[0] = name
        with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
            f.write(importlib.import_module(module).options().format_help())
    return 0
