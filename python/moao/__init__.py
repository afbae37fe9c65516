"""Run moao and read its results: `run = moao.Case("demo.yaml").run()`, or `run = moao.open(folder)`; then run.strehl(2.2),
run.ee(75), run.psf(10, -5)...

Needs numpy and astropy (moao.linalg and moao.gp: numpy alone). Figures are in moao.plots (matplotlib), the page for a browser in moao.view (plotly); the modules
of the package are imported when they are first named.
"""
import importlib
import os

from .psf import Psf
from .reading import MoaoError

MODULES = ("aot", "asterism", "case", "compare", "export", "gp", "importers", "lab", "lab_server", "linalg", "plots", "plots_budget",
           "plots_compare", "plots_panels", "plots_sweep", "process", "scopesim",
           "sky", "source", "sweep", "view")
# the last one needs astropy, which moao.linalg and moao.gp do without
LATER = {"Case": "case", "parameters": "case", "sweep_table": "case", "Check": "check", "Stopped": "process", "Job": "jobs", "Run": "results"}
__all__ = ["Case", "Check", "Job", "MoaoError", "Psf", "Run", "Stopped", "open", "parameters", "psf", "__version__"]


def _version():
    """Of the file VERSION beside the folder python/, or of the installed package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "VERSION")
    if os.path.exists(path):
        with _open(path, encoding="ascii") as f:
            return f.read().strip()
    from importlib import metadata
    try:
        return metadata.version("moao")
    except metadata.PackageNotFoundError:
        return "unknown"


_open = open  # the builtin, before the name is given to the reader of results


def open(folder):  # noqa: A001  (the name that one types: moao.open)
    """Results of the run in a folder, as a Run. Raises MoaoError when maps.fits is not there or not readable."""
    from .results import Run
    return Run(folder)


def psf(x, y, wavelength, case="demo", **more):
    """The PSF of a case in a direction [arcsec] at a wavelength [um]; computed once, then kept: moao.source.psf says all of it."""
    from .source import psf as compute
    return compute(x, y, wavelength, case, **more)


def __getattr__(name):
    """moao.plots, moao.view... after `import moao` alone. ImportError when what a module needs is not installed."""
    if name in MODULES:
        return importlib.import_module("." + name, __name__)
    if name in LATER:
        return getattr(importlib.import_module("." + LATER[name], __name__), name)
    raise AttributeError("module 'moao' has no attribute %r" % name)


def __dir__():
    return sorted(set(globals()) | set(MODULES) | set(LATER))


__version__ = _version()
