"""needs(modules) of python/moao_start.py, for the scripts of this folder."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
from moao_start import needs  # noqa: E402, F401
