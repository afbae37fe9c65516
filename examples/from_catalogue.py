"""From a star catalogue to a cube of PSFs in ten cells, without a shell: an 8 m telescope in a reduced order.

Run it as a program (moao-python examples/from_catalogue.py [FOLDER]), or cell by cell where the editor knows "# %%".
"""
# %% 1: where the results go
import os
import sys

import numpy as np
from astropy.io import fits
from astropy.table import Table

import moao

folder = sys.argv[1] if len(sys.argv) > 1 else "from-catalogue"
here = os.path.dirname(os.path.abspath(__file__))

# %% 2: the instrument: a case that comes with the program, reduced so that all of this takes seconds
case = moao.Case("demo")
case.update({"dm.nssp": 8, "psf.wavelengths": ["H"], "psf.residual": "sensor", "schedule.exposure_interval": "30 min",
             "targets.grid.nx": 2, "targets.grid.ny": 2, "sky.ra": 75.0, "sky.dec": -25.0})
for kind in ("ngs_defaults", "lgs_defaults"):
    case.update({kind + ".nssp": 8, kind + ".slope": "points"})

# %% 3: the stars of a catalogue round the field
stars = Table.read(os.path.join(here, "stars.ecsv"))
print(len(stars), "stars, of which", int(np.sum(stars["magnitude"] < 13)), "brighter than 13")

# %% 4: the three that guide best
best = case.asterism(stars, choose=3, limit=13, radius=90, most=10, full=1, folder=os.path.join(folder, "stars"))
print(best["place", "star_1", "star_2", "star_3", "figure", "full"][:3])
case = best.meta["winner"]

# %% 5: what to image, with a column of one's own
case.targets = Table({"name": ["G1", "G2", "G3"], "ra": [75.002, 74.995, 75.0], "dec": [-25.003, -25.001, -24.994],
                      "redshift": [2.1, 2.4, 3.0]})
print(case.targets)

# %% 6: what it takes
check = case.check()
print(check.verdict, "photons of the faintest star: %.0f" % np.min(check.stars["photons"]))

# %% 7: compute
run = case.run(folder=os.path.join(folder, "run"))

# %% 8: the numbers, with that column
table = run.to_table()
print(table["name", "redshift", "strehl", "fwhm"])

# %% 9: the error budget
print(run.budget(1.65)["TERM", "RMS"])

# %% 10: a cube of images, normalised to flux
images = list(run.psfs(wavelength=1.65))
cube = fits.PrimaryHDU(np.array([p.flux for p in images], np.float32))
cube.header["PIXSCALE"] = (images[0].pixel / 1e3, "[arcsec] side of a pixel")
cube.writeto(os.path.join(folder, "cube.fits"), overwrite=True)
print("cube of", cube.data.shape, "in", os.path.join(folder, "cube.fits"))
