"""Run Python with what reads the results of moao: numpy, astropy and the package moao.

  moao-python SCRIPT [ARGUMENTS]
  moao-python -c 'import moao; print(moao.open("night1").strehl(2.2))'
  moao-python                                                  an interactive Python

It is the python3 that is called so, or, where that has no astropy, the distribution's /usr/bin/python3. All arguments are Python's.
"""
import os
import sys

from .command import parser


def options():
    return parser(__doc__, usage="moao-python [ARGUMENTS OF PYTHON]")


def main(arguments=None):
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] in (["-h"], ["--help"]):
        options().parse_args(words[:1])
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.exists(os.path.join(folder, "moao_start.py")):  # else the package is installed in this Python
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, os.environ.get("PYTHONPATH"))))
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable] + words)


if __name__ == "__main__":
    main()
