"""psf.lattice: square: mirrored and turned systems have the same results, which are those of the shifted lattice."""
# timeout: 120
import json
import unittest

import numpy as np

from moao_case import Run
from test_truth import case, layers

IMAGES = {"as it is": lambda x, y: [x, y], "mirrored": lambda x, y: [-x, y], "turned": lambda x, y: [-y, x], "across": lambda x, y: [y, x]}


def results(image, lattice):
    """Strehl ratios, energies and WFE of an asterism without symmetry, of its mirror images and turned."""
    stars = [{"type": "ngs", "nssp": 6, "direction": image(*d), "noise_variance": 1e-3, "slope": "points"} for d in ((20, 5), (-12, 18), (3, -25))]
    c = case(stars, 6, diameter=3, profile=layers([0, 5000, 10000], [0.5, 0.3, 0.2], 0.14), targets=[image(6, 2)], output={"psf": "none"})
    c["psf"] = {"wavelengths": [0.8, 1.25], "ee_boxes": [80], "lattice": lattice}
    r = Run(json.dumps(c) + "\n")
    t = r.table("TARGETS")
    return np.concatenate([np.ravel(np.asarray(t[k], float)) for k in ("STREHL", "EE_80mas", "WFE_TOTAL", "WFE_FIT", "WFE_ALIAS")])


class Lattice(unittest.TestCase):
    def test_symmetry(self):
        first = {k: results(IMAGES["as it is"], k) for k in ("square", "shifted")}
        for name in ("mirrored", "turned", "across"):
            gap = abs(results(IMAGES[name], "square") / first["square"] - 1)
            print("square, %s: %.1e" % (name, gap.max()))
            self.assertLess(gap.max(), 1e-6)
        gap = abs(results(IMAGES["mirrored"], "shifted") / first["shifted"] - 1)
        print("shifted, mirrored: %.1e" % gap.max())
        self.assertGreater(gap[:4].max(), 1e-5)  # what the square lattice is for
        apart = first["square"] / first["shifted"] - 1
        print("square less shifted", np.round(apart, 5))
        self.assertLess(abs(apart[:4]).max(), 4e-3)
        self.assertLess(abs(apart[4:]).max(), 0.02)


if __name__ == "__main__":
    unittest.main(verbosity=2)
