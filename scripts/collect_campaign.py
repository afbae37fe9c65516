#!/usr/bin/env python3
"""Collect the runs of a campaign in one table: the command moao-collect (python/moao/cmd_collect.py), without installing the package."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "python"))
try:
    from moao_start import start
except ImportError:
    print("%s: the folder python/ of moao is not next to that of this script; or: pip install ./python and use its commands"
          % sys.argv[0], file=sys.stderr)
    sys.exit(2)

if __name__ == "__main__":
    sys.exit(start("moao-collect"))
