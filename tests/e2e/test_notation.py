"""Notations at work: a case written with seeing, a ring, bands, a rate and a file of named targets gives the results of its
effective parameters bit for bit, tables with the names, and a folder that the other form may resume."""
import os
import unittest

import numpy as np

import reference as ref
from moao_case import Run, moao

ARCSEC = 206264.80624709636

CASE = """
telescope: {diameter: 4.2 m, obscuration: 0.25, zenith: 30}
dm: {nssp: 7}
lgs_defaults: {nssp: 7, altitude: 90 km, frame_rate: 500 Hz}
sensors:
  - {name: L, type: LGS, ring: {n: 3, radius: 0.5 arcmin, angle: 90}}
  - {name: faint, type: NGS, nssp: 7, direction: [20, 10], magnitude: 11, wavelength: R}
  - {type: ngs, nssp: 7, direction: [-20, 5], noise_variance: 0.01}
targets: {file: TARGETS}
atmosphere: {profiles: [{seeing: 0.8, layers: {altitude: [0, 5 km], fraction: [0.7, 0.3]}}]}
psf: {wavelengths: [J, H]}
output: {psf: none}
"""
TARGETS = "name x y mag\nA 1 2 17\n\"B star\" -3 4 18.5\n"


class Notation(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.targets = os.path.join(os.environ.get("TMPDIR", "/tmp"), "moao-targets-%d.txt" % os.getpid())
        with open(cls.targets, "w", encoding="ascii") as f:
            f.write(TARGETS)
        cls.first = Run(CASE.replace("TARGETS", cls.targets), "sensors.L2.ron=2", ranks=2)
        os.unlink(cls.targets)
        cls.second = Run(cls.first.path("effective.yaml"), ranks=2)

    def test_effective_parameters_give_the_same(self):
        for table in ("TARGETS", "GUIDESTARS", "WAVELENGTHS"):
            a, b = self.first.table(table), self.second.table(table)
            self.assertEqual(a.names, b.names)
            for name in a.names:
                np.testing.assert_array_equal(a[name], b[name], "%s of %s" % (name, table))
        with open(self.first.path("effective.yaml"), encoding="utf-8") as f, \
                open(self.second.path("effective.yaml"), encoding="utf-8") as g:
            self.assertEqual(f.read(), g.read())

    def test_tables(self):
        targets, stars, waves = (self.first.table(t) for t in ("TARGETS", "GUIDESTARS", "WAVELENGTHS"))
        self.assertEqual(list(targets["NAME"]), ["A", "B star"])
        np.testing.assert_allclose(np.stack([targets["X"], targets["Y"]]), [[1, -3], [2, 4]], rtol=1e-13)
        self.assertEqual(list(stars["NAME"]), ["L 1", "L 2", "L 3", "faint", "NGS 2"])
        np.testing.assert_allclose(stars["X"][:3], [0, -30 * 0.75 ** 0.5, 30 * 0.75 ** 0.5], atol=1e-12)
        np.testing.assert_allclose(stars["Y"][:3], [30, -15, -15], rtol=1e-13)
        np.testing.assert_allclose(waves["LAMBDA"], [1.25, 1.65], rtol=1e-13)
        np.testing.assert_allclose(self.first.table("EXPOSURES")["SEEING"], 0.8 / np.cos(np.pi / 6) ** 0.6, rtol=1e-12)
        r0 = 0.976 * 500e-9 * ARCSEC / 0.8 * np.cos(np.pi / 6) ** 0.6
        seeing, diffraction = 0.976 * 500e-9 / r0 * ARCSEC * (500 / 640) ** 0.2, 0.64e-6 / 0.6 * ARCSEC
        np.testing.assert_allclose(stars["SPOT"][3] ** 2, seeing ** 2 + diffraction ** 2 + 8 * np.log(2) / 12 * 0.3 ** 2, rtol=1e-12)
        self.assertEqual([b.strip() for b in stars["BAND"]], ["", "", "", "R", ""])     # that of the sensor's wavelength, by default
        np.testing.assert_allclose(stars["ZEROPHOT"][3], ref.zero_photons(0.64, 0.33), rtol=1e-3)
        np.testing.assert_allclose(stars["PHOTONS"][3], ref.zero_photons(0.64, 0.33) * 10 ** -4.4 * 0.425 * 0.36 * 0.004, rtol=1e-3)
        self.assertEqual(stars["NOISEVAR"][4], 0.01)
        self.assertTrue(np.isnan(stars["PHOTONS"][4]) and (stars["PHOTONS"][:4] > 10).all())
        self.assertLess(stars["NOISEVAR"][1], stars["NOISEVAR"][0])  # less read-out noise

    def test_the_other_form_resumes(self):
        p = moao("run", self.first.path("effective.yaml"), "-o", self.first.dir, "--resume", ranks=2)
        self.assertIn("finished", p.stdout + p.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
