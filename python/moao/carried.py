"""Columns of a user's tables of stars and targets that the program does not know: they are kept with the results and come
back with the tables of the run."""
import os

import numpy as np
from astropy.table import Table

FILES = {"targets": "carried-targets.ecsv", "guide_stars": "carried-stars.ecsv"}
NEAR = 1e-3  # arcsec: a row belongs to a direction


def write(folder, what, directions, columns):
    """Columns (a table, perhaps without any) of the rows at directions [row, 2] [arcsec]; what: "targets" or "guide_stars"."""
    path = os.path.join(folder, FILES[what])
    if not columns.colnames:
        if os.path.exists(path):
            os.remove(path)
        return
    t = Table(np.asarray(directions, float), names=("x", "y"))
    for name in columns.colnames:
        t[name] = columns[name]
    t.write(path + ".new", format="ascii.ecsv", overwrite=True)
    os.replace(path + ".new", path)


def join(folder, what, table):
    """Add the columns kept in a folder to the run's table of the same rows; rows of other directions get nothing."""
    path = os.path.join(folder, FILES[what])
    if not os.path.exists(path):
        return
    t = Table.read(path, format="ascii.ecsv")
    if len(t) != len(table) or np.hypot(t["x"] - table["X"], t["y"] - table["Y"]).max() > NEAR:
        return  # of another run in this folder
    for name in t.colnames[2:]:
        if name not in table.colnames:
            table[name] = t[name]
