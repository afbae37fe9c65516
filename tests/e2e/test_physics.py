"""Limits that the model must have, whatever the numbers of a case."""
# seconds: 35
import os
import tempfile
import unittest

import numpy as np

from moao_case import Run, moao, relative

BASE = """
telescope: {diameter: 8 m, obscuration: 0.14}
dm: {nssp: 10}
ngs_defaults: {nssp: 10, slope: points}
lgs_defaults: {slope: points}
sensors: [{type: ngs, direction: [0, 0], magnitude: 8}]
targets: {list: [[0, 0], [10, 0], [20, 0], [40, 0], [80, 0]]}
atmosphere:
  profiles:
    - {r0: 0.15 m, layers: {altitude: [0, 5 km, 10 km], fraction: [0.5, 0.3, 0.2], L0: 25 m}}
schedule: {tor_times: [0], exposure_times: [0]}
psf: {wavelengths: [2.2 um], residual: sensor}
"""


def strehl(run):
    """Of the targets in their order, one wavelength, one exposure."""
    return run.quantity("STREHL")[:, 0, 0]


class Physics(unittest.TestCase):
    def test_strehl_falls_off_axis(self):
        s = strehl(Run(BASE))
        self.assertEqual(len(s), 5)
        self.assertTrue(np.all(np.diff(s) < -1e-3), s)
        self.assertGreater(s[0], 0.3)

    def test_no_turbulence_gives_the_diffraction_limit(self):
        """Reconstructor of a turbulent profile, exposure without turbulence, natural stars: no noise, no error."""
        run = Run(BASE, "atmosphere.profiles=[{time: 0, r0: 0.15 m, layers: {altitude: [0, 10 km], fraction: [0.6, 0.4]}},"
                        "{time: 10 min, layers: {altitude: [0, 10 km], strength: [0, 0]}}]",
                  "schedule.exposure_times=[600]")
        self.assertTrue(np.all(np.abs(strehl(run) - 1) < 1e-9))

    def test_bright_star_in_the_targets_direction_leaves_the_fitting_error(self):
        """Kolmogorov turbulence: 0.231263 (d/r0)^(5/3) at the wavelength is all the variance that remains."""
        run = Run(BASE, "sensors[0].noise_variance=1e-9", "targets.list=[[0, 0]]",
                  "atmosphere.profiles[0].layers.L0=inf")
        variance = run.quantity("VARIANCE")[0, 0, 0]
        fitting = 0.231263 * (0.8 / (0.15 * (2.2e-6 / 500e-9) ** 1.2)) ** (5 / 3)
        self.assertLess(abs(variance / fitting - 1), 0.02)
        faint = Run(BASE, "sensors[0].noise_variance=1e-3", "targets.list=[[0, 0]]",
                    "atmosphere.profiles[0].layers.L0=inf")
        self.assertGreater(faint.quantity("VARIANCE")[0, 0, 0], 1.05 * variance)

    def test_the_zenith_angle_costs_image_quality(self):
        near, far = (strehl(Run(BASE, f"telescope.zenith={z} deg"))[0] for z in (0, 50))
        self.assertLess(far, near - 0.01)

    def test_wind_and_delay_cost_image_quality(self):
        wind = "atmosphere.profiles[0].layers.wind_speed=[10, 15, 25]"
        still, moving = (strehl(Run(BASE, wind, f"loop.delay={tau} ms"))[0] for tau in (0, 5))
        self.assertLess(moving, still - 0.01)


class Doubtful(unittest.TestCase):
    """Input that cannot or hardly can be computed, and what the user is told."""

    def test_two_sensors_that_see_the_same_without_noise(self):
        twins = "sensors=[{type: ngs, name: first, direction: [3, 4], noise_variance: 0}," \
                "{type: ngs, name: second, direction: [3, 4], noise_variance: 0}]"
        for ranks in (1, 2):
            with tempfile.TemporaryDirectory() as tmp:
                case = os.path.join(tmp, "case.yaml")
                with open(case, "w") as f:
                    f.write(BASE)
                p = moao("run", case, twins, "-o", os.path.join(tmp, "out"), ranks=ranks, check=False)
            self.assertEqual(p.returncode, 1)
            said = [x for x in p.stderr.split("\n") if "not positive definite" in x]
            self.assertEqual(len(said), 1, p.stderr)
            self.assertRegex(said[0], r"leading minor of order \d+.*sensor 1 \(second\).*more noise")

    def test_a_strehl_ratio_that_the_actuators_limit_is_warned_of(self):
        with tempfile.TemporaryDirectory() as tmp:
            case = os.path.join(tmp, "case.yaml")
            with open(case, "w") as f:
                f.write(BASE)
            self.assertIn("the fitting error alone limits the Strehl", moao("check", case, "psf.wavelengths=0.5").stderr)
            self.assertNotIn("the fitting error", moao("check", case).stderr)


class Sequence(unittest.TestCase):
    """Numbers of ranks and sizes of chunks are no part of the physics."""
    CASE = ["targets={grid: {nx: 3, ny: 2, width: 60, height: 30}}",
            "sensors=[{type: lgs, direction: [40, 0], altitude: 90 km, nssp: 10},"
            "{type: lgs, direction: [-20, 35], altitude: 90 km, nssp: 8, rotation: 3 deg, shift: [0.05, -0.02]},"
            "{type: ngs, direction: [10, 20], magnitude: 10}]",
            "schedule={tor_times: [0], exposure_times: [0, 600]}",
            "atmosphere.profiles=[{time: 0, r0: 0.15 m, layers: {altitude: [0, 10 km], fraction: [0.6, 0.4]}},"
            "{time: 10 min, r0: 0.12 m, layers: {altitude: [0, 7 km], fraction: [0.4, 0.6]}}]",
            "output.matrices=[Cvv]"]

    def assertSame(self, a, b, tolerance):
        x, y = a.quantities(), b.quantities()
        self.assertEqual(set(x), set(y))
        for name in x:
            self.assertLess(relative(x[name], y[name]), tolerance, name)

    def test_any_number_of_ranks_gives_the_same_maps_and_covariances(self):
        one = Run(BASE, *self.CASE)
        for n in (2, 3, 4, 6):
            with self.subTest(ranks=n):
                other = Run(BASE, *self.CASE, ranks=n)
                self.assertSame(other, one, 1e-10)
                for e in (0, 1):
                    name = f"Cvv_exp{e}_target5"
                    self.assertLess(relative(other.matrix(name), one.matrix(name)), 1e-10)

    def test_a_target_shared_by_ranks_and_other_grids_give_the_same_maps(self):
        one = Run(BASE, *self.CASE, "targets={list: [[3, 4]]}")
        for n, grid in ((2, "[2, 1]"), (4, "[2, 2]"), (6, "[3, 2]")):
            other = Run(BASE, *self.CASE, "targets={list: [[3, 4]]}", f"compute.grid={grid}", "compute.block=32", ranks=n)
            self.assertSame(other, one, 1e-10)

    def test_the_size_of_a_chunk_does_not_matter(self):
        whole = Run(BASE, *self.CASE)
        for k in (1, 2, 5):
            part = Run(BASE, *self.CASE, f"compute.targets_per_chunk={k}", "compute.panel=64", "compute.block=64")
            self.assertSame(part, whole, 1e-12)


if __name__ == "__main__":
    unittest.main(verbosity=2)
