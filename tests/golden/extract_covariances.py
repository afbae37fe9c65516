#!/usr/bin/env python3
"""Write b_covariances.bin, which the tests in C read, from b.npz: arrays of covariances [arcsec^2] and the
interaction matrix [arcsec/m], each a line "name rows columns" followed by the rows as little-endian float64."""
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
b = np.load(os.path.join(HERE, "b.npz"))
arrays = {"D": b["D"], "Ctt": b["Ctt"], "Ctm0": b["t0_Ctm0"], "Ctm": b["t0_Ctm"],
          "Cmm0_every_7th_row": b["Cmm0"][::7]}
with open(os.path.join(HERE, "b_covariances.bin"), "wb") as f:
    for name, a in arrays.items():
        f.write(("%s %d %d\n" % (name, *a.shape)).encode())
        f.write(np.ascontiguousarray(a, "<f8").tobytes())
