"""Packages that a script needs, where `python3` may be another one than the distribution's, which has them."""
import importlib.util
import os
import sys

DISTRIBUTION = "/usr/bin/python3"


def needs(*modules):
    """Return when all are there; else start the script anew under the distribution's python3; else end it with one line."""
    lacking = [m for m in modules if importlib.util.find_spec(m) is None]
    if not lacking:
        return
    script = os.path.basename(sys.argv[0])
    if os.environ.get("MOAO_PYTHON_AGAIN") != script and os.access(DISTRIBUTION, os.X_OK) and os.path.isfile(sys.argv[0]):
        env = {k: v for k, v in os.environ.items() if k not in ("PYTHONHOME", "PYTHONPATH")}
        os.execve(DISTRIBUTION, [DISTRIBUTION] + sys.argv, dict(env, MOAO_PYTHON_AGAIN=script))
    sys.exit("%s: %s has no %s: apt-get install %s, or pip install %s" % (
        script, sys.executable, ", ".join(lacking), " ".join("python3-" + m for m in lacking), " ".join(lacking)))
