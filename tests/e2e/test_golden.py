"""The worked case: every matrix and every scalar of an independent implementation that Monte Carlo confirmed."""
import json
import os
import unittest

import numpy as np

from moao_case import GOLDEN, Run, relative

MATRICES = "output.matrices=[Cmm, Ctm, Ctt, R, W, Cee, Cvv, D, Dplus]"


class Golden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.npz = np.load(os.path.join(GOLDEN, "b.npz"))
        with open(os.path.join(GOLDEN, "b.json")) as f:
            cls.json = json.load(f)
        cls.run_ = Run(os.path.join(GOLDEN, "b.yaml"), MATRICES, ranks=2)
        cls.uniform = Run(os.path.join(GOLDEN, "b.yaml"), "psf.weighting=uniform")

    def test_covariances_agree_to_1e_9(self):
        for name, golden in [("Cmm0_tor0", "Cmm0"), ("Cmm_exp0", "Cmm0"), ("Ctt_exp0", "Ctt"),
                             ("Ctm0_tor0_target0", "t0_Ctm0"), ("Ctm_exp0_target0", "t0_Ctm"),
                             ("Cee_exp0_target0", "t0_Cee"), ("Cvv_exp0_target0", "t0_Cvv"),
                             ("D", "D"), ("Dplus", "Dplus")]:
            with self.subTest(name):
                self.assertLess(relative(self.run_.matrix(name), self.npz[golden]), 1e-9)

    def test_reconstructors_agree_to_10_eps_cond(self):
        bound = 10 * np.finfo(float).eps * self.json["results"]["cond_Cmm0"]
        self.assertLess(relative(self.run_.matrix("R_tor0_target0"), self.npz["t0_R"]), bound)
        self.assertLess(relative(self.run_.matrix("W_tor0_target0"), self.npz["Dplus"] @ self.npz["t0_R"]), bound)

    def test_residual_equals_Ctt_minus_R_Ctm_under_the_conditions_of_R(self):
        m = self.run_.matrix
        expected = m("Ctt_exp0") - m("R_tor0_target0") @ m("Ctm_exp0_target0").T
        self.assertLess(np.max(np.abs(m("Cee_exp0_target0") - expected)) / np.max(np.abs(m("Ctt_exp0"))), 1e-11)

    def check_scalars(self, run, ilambda, want):
        self.assertAlmostEqual(run.quantity("STREHL")[0, ilambda, 0], want["strehl"], delta=1e-6)
        self.assertAlmostEqual(run.quantity("FWHM")[0, ilambda, 0], want["fwhm_mas"], delta=1e-6 * want["fwhm_mas"])
        for box, value in want["ee"].items():
            self.assertAlmostEqual(run.quantity(f"EE_{box}mas")[0, ilambda, 0], value, delta=1e-6)

    def test_image_quality_with_the_published_average(self):
        t = self.json["results"]["targets"][0]
        for i, want in enumerate([t["other"]["1.25e-06"], t, t["other"]["2.20e-06"]]):
            self.check_scalars(self.uniform, i, want)

    def test_image_quality_with_weights(self):
        self.check_scalars(self.run_, 1, self.json["results"]["targets"][0]["other"]["weighted_map"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
