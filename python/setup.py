"""The version is the program's: the file VERSION one folder up; everything else is in pyproject.toml."""
import os

from setuptools import setup

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "VERSION"), encoding="ascii") as f:
    setup(version=f.read().strip())
