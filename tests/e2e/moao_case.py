"""What the end-to-end tests share: run the program on a parameter file, read what it wrote."""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from astropy.io import fits

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment, patience  # noqa: E402

GOLDEN = os.path.join(ROOT, "tests", "golden")


def moao(*args, ranks=1, check=True, env=None, timeout=300):
    """Run `moao ARGS` on a number of ranks; the finished process, with text output. `moao check` on one is called as it is."""
    start = [] if args[0] == "check" and ranks == 1 else ["mpirun", "-n", str(ranks)]
    p = subprocess.run(start + [MOAO, *map(str, args)], env=environment(**(env or {})), capture_output=True, text=True,
                       timeout=patience(timeout))
    if check and p.returncode != 0:
        raise AssertionError(f"moao {' '.join(map(str, args))}: exit code {p.returncode}\n{p.stdout}{p.stderr}")
    return p


class Run:
    """A finished run in a temporary directory."""

    def __init__(self, parameters, *overrides, ranks=1, **kw):
        tmp = tempfile.mkdtemp(prefix="moao-")
        atexit.register(shutil.rmtree, tmp, ignore_errors=True)
        self.dir = os.path.join(tmp, "out")
        if "\n" in parameters:
            path = os.path.join(tmp, "case.yaml")
            with open(path, "w") as f:
                f.write(parameters)
            parameters = path
        self.process = moao("run", parameters, *overrides, "-o", self.dir, ranks=ranks, **kw)

    def table(self, name):
        """A table of maps.fits, its checksums verified."""
        with fits.open(os.path.join(self.dir, "maps.fits"), checksum=True) as f:
            return f[name].data.copy()

    def quantity(self, name):
        """STREHL, FWHM, VARIANCE, EE_40mas... as an array (target, wavelength, exposure)."""
        data = np.asarray(self.table("TARGETS")[name], dtype=float)
        return data.reshape(data.shape[0], len(self.table("WAVELENGTHS")), -1)

    def quantities(self):
        names = [n for n in self.table("TARGETS").names if n not in ("TARGET", "X", "Y") and not n.startswith("WFE_")]
        return {n: self.quantity(n) for n in names}

    def matrix(self, name):
        """rows x columns."""
        with fits.open(os.path.join(self.dir, "matrices", name + ".fits")) as f:
            data = next(h.data for h in f if h.is_image and h.data is not None)
            return np.array(data, dtype=float)

    def path(self, name):
        return os.path.join(self.dir, name)


def relative(a, b):
    """Largest difference over largest reference; inf when anything is not a number."""
    worst = np.max(np.abs(a - b)) / np.max(np.abs(b))
    return worst if np.isfinite(worst) else np.inf
