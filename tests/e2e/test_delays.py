"""Rates and delays of single sensors (sensors[].delay, frame_rate): identities with the loop's, and what they cost.

timeout: 120
"""
import os
import sys
import tempfile
import unittest

import numpy as np
from astropy.io import fits

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, environment, write_case  # noqa: E402
from test_commands import call  # noqa: E402

CASE = """
telescope: {diameter: 4 m, obscuration: 0.2}
dm: {nssp: 6}
ngs_defaults: {nssp: 6, photons: 300}
sensors:
  - {name: high, type: ngs, direction: [0, 0]}
  - {name: low, type: ngs, direction: [12, 5], nssp: 2}
targets: {list: [[0, 0], [6, 0]]}
loop: {delay: 3 ms, integration: 2 ms}
atmosphere:
  profiles:
    - {r0: 14 cm, layers: {altitude: [0, 5000, 11000], fraction: [0.6, 0.25, 0.15], wind_speed: [8, 20, 12], wind_direction: [10, 70, 130]}}
psf: {wavelengths: [1.65 um]}
output: {psf: none}
compute: {verify: full}
"""
OWN = ["sensors.*.delay=3 ms", "sensors.*.frame_time=2 ms"]


class Delays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.dir = folder.name
        write_case(os.path.join(cls.dir, "case.yaml"), CASE)
        cls.known = {}

    def moao(self, *args, code=0):
        p = call(MOAO, *args, cwd=self.dir, env=environment(), timeout=200)
        self.assertEqual(p.returncode, code, p.stdout + p.stderr)
        return p

    def run_it(self, *words):
        """{column: values} of a run; W and its residual are checked against covariances computed again in each."""
        if words not in self.known:
            name = "run%d" % len(self.known)
            self.moao("run", "case.yaml", *words, "-o", name, "-q")
            with fits.open(os.path.join(self.dir, name, "maps.fits")) as f:
                found = {n: np.array(f["TARGETS"].data[n + "_LONG"]).ravel() for n in ("STREHL", "WFE_TOTAL", "WFE_LAG", "WFE_TOMO", "WFE_NOISE")}
                found["delay"], found["frame"] = (np.array(f["GUIDESTARS"].data[n]) for n in ("DELAY", "FRAMETIM"))
            self.known[words] = found
        return self.known[words]

    def test_identities(self):
        """The loop's values given to each sensor are the loop's: to the bit beside them, to rounding in their place."""
        loop = self.run_it("sensors.*.frame_time=2 ms")
        same = self.run_it(*OWN)
        for name in loop:
            np.testing.assert_array_equal(same[name], loop[name])
        alone = self.run_it(*OWN, "loop.delay=0", "loop.integration=0")
        np.testing.assert_allclose(alone["delay"], [0.004, 0.004])
        for name in ("STREHL", "WFE_TOTAL", "WFE_NOISE"):
            np.testing.assert_allclose(alone[name], loop[name], rtol=1e-11)
        np.testing.assert_allclose(alone["WFE_LAG"], loop["WFE_LAG"], rtol=0.01)  # which the loop's run takes at some points

    def test_slow_star(self):
        """A slow sensor collects more light and lags; the more it weighs, the more the images lose. Without wind its delay is nothing."""
        loop = self.run_it("sensors.*.frame_time=2 ms")
        low = self.run_it("sensors.*.frame_time=2 ms", "sensors.low.delay=3 ms", "sensors.low.frame_time=none", "sensors.low.frame_rate=20 Hz")
        np.testing.assert_allclose(low["delay"], [0.004, 0.028])
        np.testing.assert_allclose(low["frame"], [0.002, 0.05])
        both = self.run_it("sensors.*.frame_rate=20 Hz", "sensors.*.delay=3 ms")
        self.assertTrue((low["WFE_LAG"] > loop["WFE_LAG"]).all())
        self.assertTrue((both["WFE_LAG"] > low["WFE_LAG"]).all())
        self.assertTrue((loop["STREHL"] > low["STREHL"]).all() and (low["STREHL"] > both["STREHL"]).all())
        still = ["atmosphere.profiles[0].layers.wind_speed=0"]
        np.testing.assert_allclose(self.run_it(*still, "sensors.low.delay=9 ms")["STREHL"], self.run_it(*still)["STREHL"], rtol=1e-11)

    def test_tomography_is_the_rest(self):
        """The budget's lag is what wind adds to the total, so tomography is that of the same case without wind."""
        words = ("sensors.low.delay=20 ms",)
        moving, still = self.run_it(*words), self.run_it(*words, "atmosphere.profiles[0].layers.wind_speed=0")
        np.testing.assert_allclose(moving["WFE_TOMO"], still["WFE_TOMO"], rtol=1e-9)
        np.testing.assert_allclose(moving["WFE_TOTAL"] ** 2 - moving["WFE_LAG"] ** 2, still["WFE_TOTAL"] ** 2, rtol=1e-9)

    def test_ways(self):
        """Every factor and product of CPUs knows of the delays; what does not refuses."""
        words = ("sensors.low.delay=20 ms", "loop.delay=1 ms")
        want = self.run_it(*words)
        for more in ("compute.product=toeplitz", "compute.factor=tlr"):
            np.testing.assert_allclose(self.run_it(*words, more)["STREHL"], want["STREHL"], rtol=2e-4)
        p = self.moao("run", "case.yaml", *words, "compute.backend=gpu", "-o", "gpu", code=2)
        self.assertIn("sensors with delays of their own are computed on CPUs", p.stderr)
        with open(os.path.join(self.dir, "stars.csv"), "w", encoding="utf-8") as f:
            f.write("name,x,y,magnitude\na,0,0,9\nb,20,5,9\n")
        p = self.moao("asterism", "case.yaml", *words, "--stars", "stars.csv", "--choose", "1", "-o", "best", code=2)
        self.assertIn("the search knows one delay for all stars", p.stderr)
        self.assertIn("1 22 ms from the middle of a frame of 4 ms", self.moao("check", "case.yaml", *words).stdout)


if __name__ == "__main__":
    unittest.main()
