#!/usr/bin/python3
"""Extract what the tests of the PSF stage need from the worked case.

    extract_psf.py FOLDER     FOLDER holds b.json and b.npz; writes psf_* beside this script

The worked case: a 4.2 m telescope, 4 laser and 3 natural stars, a mirror of 7 x 7 subapertures, one target
on the axis; computed in double precision by an independent implementation. Files written:

    psf_cvv.f64    Cvv, 52 x 52 doubles (little-endian) [m^2]
    psf_image.f64  PSF at 1.65 um, unweighted average, 84 x 84 doubles, axis at pixel (42, 42)
    psf_rows.f64   rows y = 0 of the OTF (1 at the origin), D_tomo and D_fit [rad^2] at 1.65 um, 3 x 84 doubles
    psf_case.txt   one line per wavelength and average: wavelength [m], weighted (0 or 1), Strehl, ensquared energy
                   in 40, 80 and 150 mas, FWHM [mas]; nan where the worked case gives none
"""
import json
import pathlib
import sys

import numpy as np


def main(folder):
    out = pathlib.Path(__file__).resolve().parent
    case = np.load(folder / "b.npz")
    target = json.loads((folder / "b.json").read_text())["results"]["targets"][0]
    case["t0_Cvv"].astype("<f8").tofile(out / "psf_cvv.f64")
    case["t0_psf"].astype("<f8").tofile(out / "psf_image.f64")
    rows = np.stack([case["t0_otf_row"], case["t0_D_tomo_row"], case["t0_D_fit_row"]])
    rows.astype("<f8").tofile(out / "psf_rows.f64")
    other = target["other"]
    entries = [(1.65e-6, 0, target), (1.65e-6, 1, other["weighted_map"])]
    entries += [(float(key), 0, other[key]) for key in ("1.25e-06", "2.20e-06")]
    with open(out / "psf_case.txt", "w") as f:
        for lam, weighted, e in entries:
            ee = [e["ee"][b] for b in ("40", "80", "150")]
            print(repr(lam), weighted, repr(e["strehl"]), *map(repr, ee),
                  repr(e.get("fwhm_mas", float("nan"))), file=f)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
