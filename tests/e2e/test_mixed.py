"""compute.precision: mixed with the CPU backend as the device, which rounds to halves as a GPU does: close to
double precision but not equal, checked on one target, and double precision where that target says so."""
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import unittest

import numpy as np
from astropy.io import fits

from moao_case import ROOT, Run, moao
from test_resident import CASE, RESIDENT

sys.path.insert(0, os.path.join(ROOT, "tests"))
import moao_test  # noqa: E402

EDGE = 4  # target of CASE farthest from the centre, counted from 0
MIXED = ("compute.precision=mixed", "compute.mixed_samples=1")
TWO = "targets={list: [[0, 0], [-9, -30]]}"  # of CASE, the sampled one among them
OF_TWO = [0, EDGE]
AHEAD = {**RESIDENT, "MOAO_TEST_AHEAD": "yes"}  # a thread prepares the next exposure, as on GPUs
ROUNDING = 1e-10  # of results in double precision, W of the sampled target being refined until it is exact

# one W for all targets; a loop leaves a tenth of a noise of 1e-9 to 1e-2 arcsec^2 in the commands
SHARED = """
telescope: {diameter: 4 m, obscuration: 0.2, zenith: 20 deg}
mode: mcao
mirrors: {altitude: [0, 8000], pitch: [0.5, 0.8]}
optimise: {list: [[0, 0], [12, 3], [-8, 10]]}
dm: {nssp: 8}
sensors:
  - {type: lgs, nssp: 8, altitude: 90 km, photons: 60, pixel: 1.2, ron: 3, noise_model: gaussian, ring: {n: 3, radius: 15}}
  - {type: ngs, nssp: 1, photons: 155400, wavelength: 1.65 um, pixel: 0.07, ron: 0.5, noise_model: gaussian, direction: [14, -9]}
  - {type: ngs, nssp: 1, photons: 900, wavelength: 1.65 um, pixel: 0.07, ron: 0.5, noise_model: gaussian, direction: [-5, 17]}
targets: {list: [[0, 0], [10, 5], [-15, 8]]}
loop: {type: integrator, gain: 0.2, frames: 2, rate: 500 Hz, lags: equivalent}
atmosphere:
  profiles:
    - {time: 0, r0: 14 cm, layers: {altitude: [0, 5000, 11000], fraction: [0.6, 0.25, 0.15]}}
    - {time: 10 min, r0: 12 cm, layers: {altitude: [0, 4000, 12000], fraction: [0.5, 0.3, 0.2]}}
schedule: {tor_times: [0], exposure_times: [0, 600]}
psf: {wavelengths: [1.65 um], ee_boxes: [100 mas]}
"""


def checked(name):
    return name == "STREHL" or name.startswith("EE_") and not name.endswith("_LONG")


class Mixed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.double = Run(CASE, env=RESIDENT)
        cls.mixed = Run(CASE, *MIXED, env=AHEAD)

    def assert_same(self, a, b):
        """Bit for bit."""
        for name, value in a.quantities().items():
            self.assertTrue(np.array_equal(value, b.quantity(name), equal_nan=True), name)
        with fits.open(a.path("psf.fits")) as x, fits.open(b.path("psf.fits")) as y:
            for one, other in zip(x, y):
                if one.is_image and one.data is not None:
                    self.assertTrue(np.array_equal(one.data, other.data))

    def test_close_to_double(self):
        """Strehl ratios and ensquared energies within 1e-4, but not equal; the sampled target is of double precision."""
        a, b = self.double.quantities(), self.mixed.quantities()
        names = [n for n in a if checked(n)]
        self.assertGreater(len(names), 2)
        for name in names:
            gap = np.abs(a[name] - b[name])
            self.assertLess(gap.max(), 1e-4, name)
            self.assertTrue(np.all(gap[:EDGE].max(axis=(1, 2)) > ROUNDING), name)
            self.assertLess(gap[EDGE].max(), ROUNDING, name)

    def test_what_is_told(self):
        """Tables, header and run.json say which precision, and how far they are apart on the sampled target."""
        table = self.mixed.table("EXPOSURES")
        self.assertEqual(list(table["PRECISN"]), ["mixed"] * 3)
        self.assertTrue(np.all(table["MIXDIFF"] > 1e-9) and np.all(table["MIXDIFF"] < 1e-4))
        with fits.open(self.mixed.path("maps.fits")) as f:
            header = f[0].header
        self.assertEqual((header["PRECISN"], header["NMIXED"]), ("mixed", 3))
        np.testing.assert_allclose(header["MIXDIFF"], table["MIXDIFF"].max(), rtol=1e-7)  # digits of a card
        with open(self.mixed.path("run.json")) as f:
            told = json.load(f)["precision"]
        self.assertEqual((told["precision"], told["exposures_mixed"], told["exposures_double"]), ("mixed", 3, 0))
        self.assertAlmostEqual(told["largest_difference"], table["MIXDIFF"].max(), delta=1e-12)
        self.assertIn("checked on target %d" % (EDGE + 1), self.mixed.process.stdout + self.mixed.process.stderr)
        plain = self.double.table("EXPOSURES")
        self.assertEqual(list(plain["PRECISN"]), ["double"] * 3)
        self.assertTrue(np.all(np.isnan(plain["MIXDIFF"])))

    def test_terms_of_the_budget(self):
        """As in double precision, the servo lag too, which is of what wind changes of W Cpm' alone."""
        a, b = self.double.table("TARGETS"), self.mixed.table("TARGETS")
        for name, most in [(n, 5e-4) for n in ("TOTAL", "TOMO", "NOISE", "ALIAS", "FIT", "STAR")] + [("LAG", 1e-4)]:
            np.testing.assert_allclose(b["WFE_" + name], a["WFE_" + name], rtol=most, atol=10 * most, err_msg=name)
        self.assertGreater(a["WFE_LAG"].min(), 50)  # nm
        self.assertGreater(np.abs(a["WFE_LAG"] - b["WFE_LAG"])[:EDGE].max(), 1e-6)

    def test_wrong_lag(self):
        """Of the sampled target it is found there, as a difference of images is: W becomes more exact."""
        wrong = Run(CASE, *MIXED, TWO, env={**RESIDENT, "MOAO_FAULT": "flip-lag:0:fail:2"})
        self.assertEqual((wrong.process.stdout + wrong.process.stderr).count("more exact"), 1)
        self.assertEqual(list(wrong.table("EXPOSURES")["PRECISN"]), ["mixed"] * 3)
        a, b = self.double.table("TARGETS")["WFE_LAG"][OF_TWO], wrong.table("TARGETS")["WFE_LAG"]
        np.testing.assert_allclose(b, a, rtol=1e-4)

    def test_falls_back(self):
        """Where the sampled target differs by more than the tolerance, W becomes more exact; where that does not help or
        results are kept already, all targets are of double precision; the other exposures stay mixed."""
        gap = self.mixed.table("EXPOSURES")["MIXDIFF"]
        none = Run(CASE, *MIXED, TWO, "compute.mixed_tolerance=0", env=RESIDENT)
        for name in filter(checked, self.double.quantities()):
            np.testing.assert_allclose(none.quantity(name), self.double.quantity(name)[OF_TWO], rtol=0, atol=ROUNDING)
        self.assertEqual(list(none.table("EXPOSURES")["PRECISN"]), ["double"] * 3)
        self.assertTrue(np.all(none.table("EXPOSURES")["MIXDIFF"] > 0))
        self.assertEqual((none.process.stdout + none.process.stderr).count("more exact"), 2)  # of each reconstructor
        with open(none.path("run.json")) as f:
            told = json.load(f)["precision"]
        self.assertEqual((told["accuracy_level"], told["samples_over_tolerance"]), (2, 3))
        between = (gap.max() + np.sort(gap)[1]) / 2
        some = Run(CASE, *MIXED, "compute.mixed_tolerance=%.9g" % between, "compute.targets_per_chunk=2", env=RESIDENT)
        text = some.process.stdout + some.process.stderr
        self.assertEqual(text.count("computed in double precision"), 1, text)
        for e in range(3):
            for name in filter(checked, self.double.quantities()):
                if gap[e] > between:
                    np.testing.assert_allclose(some.quantity(name)[:, :, e], self.double.quantity(name)[:, :, e],
                                               rtol=0, atol=ROUNDING)
                else:
                    np.testing.assert_array_equal(some.quantity(name)[:, :, e], self.mixed.quantity(name)[:, :, e])

    def test_one_reconstructor_for_all(self):
        """W Cmm W' is in double precision, and so is the factor: 1e-6, though loops filter noise of all sizes. Ranks and chunks
        change no bit; with W by a factor in split FP16 it is 1e-4."""
        double, mixed = (Run(SHARED, *more, env=RESIDENT) for more in ([], MIXED))
        for name in filter(checked, double.quantities()):
            gap = np.abs(double.quantity(name) - mixed.quantity(name))
            self.assertLess(gap.max(), 1e-6, name)
            self.assertGreater(gap[:2].max(), ROUNDING, name)
        with open(mixed.path("run.json")) as f:
            told = json.load(f)
        self.assertEqual((told["factor"], told["product"]), ("dense", "fp16"))
        self.assertLess(told["precision"]["largest_difference"], 1e-5)  # the lag, in units of what is allowed
        self.assert_same(mixed, Run(SHARED, *MIXED, "compute.targets_per_chunk=1", ranks=2, env=AHEAD))
        self.assert_same(mixed, Run(SHARED, *MIXED, ranks=4, env=RESIDENT))  # one has no target
        split = Run(SHARED, *MIXED, "compute.factor=fp16", env=RESIDENT)
        for name in filter(checked, double.quantities()):
            self.assertLess(np.abs(double.quantity(name) - split.quantity(name)).max(), 1e-4, name)

    def test_chosen_samples(self):
        """Of each reconstructor the exposure whose profile is least like its own is sampled; the others, of which none is
        drawn, have the same results but for the target that is not sampled there."""
        few = Run(CASE, MIXED[0], TWO, "compute.mixed_samples=1000000", env=RESIDENT)
        gap, all_of_them = (run.table("EXPOSURES")["MIXDIFF"] for run in (few, self.mixed))
        self.assertEqual(list(few.table("EXPOSURES")["PRECISN"]), ["mixed"] * 3)
        np.testing.assert_array_equal(np.isnan(gap), [True, False, False])  # that of 10 min has another profile
        np.testing.assert_array_equal(gap[1:], all_of_them[1:])
        for name in filter(checked, few.quantities()):
            a, b = few.quantity(name), self.mixed.quantity(name)[OF_TWO]
            np.testing.assert_array_equal(a[0], b[0])
            np.testing.assert_array_equal(a[:, :, 1:], b[:, :, 1:])
            self.assertTrue(np.any(a[1, :, 0] != b[1, :, 0]))
        with open(few.path("run.json")) as f:
            told = json.load(f)["precision"]
        self.assertEqual((told["exposures_sampled"], told["exposures_mixed"]), (2, 3))
        self.assertNotIn("others_over_tolerance_at_most", told)  # none was drawn at random

    def test_how_the_factor_is_computed(self):
        """In the host's memory, or by integers, as at full scale: the same but for rounding in FP16. The sampled target is of
        double precision whatever the factor; with a factor by integers its products are, too, within 1e-9."""
        for way, moduli in ({"MOAO_TEST_OPERATOR": "fp16_host"}, 0), ({"MOAO_TEST_SPLIT": "integer"}, 7):
            other = Run(CASE, *MIXED, TWO, env={**RESIDENT, **way})
            for name in filter(checked, self.mixed.quantities()):
                gap = np.abs(other.quantity(name) - self.mixed.quantity(name)[OF_TWO])
                self.assertLess(gap.max(), 2e-5, name)
                self.assertEqual(gap[0].max() > 1e-7, moduli > 0, name)  # in the host's memory: by OpenBLAS's kernels, 0 or rounding
                self.assertLess(np.abs(other.quantity(name)[1] - self.double.quantity(name)[EDGE]).max(), 1e-9 if moduli > 0 else ROUNDING, name)
            self.assertEqual(fits.getheader(other.path("maps.fits"))["NMODULI"], moduli)
            text = other.process.stdout + other.process.stderr
            self.assertEqual(text.count("the factor of Cmm is computed by integers: 7 moduli"), int(moduli > 0), text)
            self.assertEqual(text.count("the reference of the sampled target is computed by integers"), int(moduli > 0), text)

    def test_memory_of_the_reference(self):
        """Its residues are in the plan of one target, and where they would leave less room for many, the reference is native."""
        case = os.path.join(ROOT, "params", "mosaic.yaml")
        for more, there in (["targets={list: [[0, 0]]}"], True), ([], False):
            p = moao("check", case, "--gpus", "1", "--gpu", "H200", "compute.precision=mixed", *more)
            self.assertEqual("residues of the sampled target" in p.stdout, there, p.stdout)

    def test_results_do_not_depend_on_ranks_or_chunks(self):
        """Bit for bit, though the chunk with the sampled target, the last one, then comes first, and no thread prepares
        exposures."""
        self.assert_same(self.mixed, Run(CASE, *MIXED, "compute.targets_per_chunk=2", ranks=3, env=RESIDENT))

    def test_what_sensors_see(self):
        """The published model: as close to double precision, and the sampled target is of that."""
        a, b = (Run(CASE, *more, TWO, "psf.residual=sensor", env=RESIDENT) for more in ([], MIXED))
        for name in filter(checked, a.quantities()):
            gap = np.abs(a.quantity(name) - b.quantity(name))
            self.assertLess(gap.max(), 1e-4, name)
            self.assertGreater(gap[0].max(), ROUNDING, name)
            self.assertLess(gap[1].max(), ROUNDING, name)

    def test_panels(self):
        """Panels that leave a rest change no more than rounding does."""
        other = Run(CASE, *MIXED, TWO, "compute.panel=77", env=RESIDENT)
        for name in filter(checked, self.mixed.quantities()):
            self.assertLess(np.abs(other.quantity(name) - self.double.quantity(name)[OF_TWO]).max(), 1e-4)

    def test_stop_and_resume(self):
        """The maps of an interrupted run equal those of a whole one, and so does what is told. Its factor by integers stays
        such, where the run that goes on would choose another one."""
        begun = {**AHEAD, "MOAO_TEST_SPLIT": "integer"}
        folder = tempfile.mkdtemp(prefix="moao-mixed-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        case = moao_test.write_case(os.path.join(folder, "case.yaml"), moao_test.QUICK_CASE)
        out = {n: os.path.join(folder, n) for n in ("whole", "stopped")}
        options = [*MIXED, "compute.mixed_tolerance=1e-5", "targets={list: [[0, 0], [10, 5], [-30, -15]]}"]
        whole = moao_test.Run(case, "-o", out["whole"], *options, env={**begun, "MOAO_TEST_AHEAD": "no"}, cwd=folder)
        self.assertEqual(whole.wait(120), 0, whole.text)
        run = moao_test.Run(case, "-o", out["stopped"], *options, env=begun, cwd=folder)
        moao_test.wait_for_parts(run, out["stopped"], 8)
        run.process.send_signal(signal.SIGUSR1)
        self.assertEqual(run.wait(60), 3, run.text)
        again = moao_test.Run(case, "-o", out["stopped"], "--resume", *options, env=RESIDENT, cwd=folder)
        self.assertEqual(again.wait(120), 0, again.text)
        a, b = (moao_test.maps(out[n]) for n in ("whole", "stopped"))
        for key in a:
            self.assertEqual(a[key].tobytes(), b[key].tobytes(), key)
        tables = []
        for n in out:
            with fits.open(os.path.join(out[n], "maps.fits")) as f:
                tables.append((list(f["EXPOSURES"].data["PRECISN"]), f["EXPOSURES"].data["MIXDIFF"].tobytes()))
                self.assertGreater(f[0].header["NMODULI"], 0)
        self.assertEqual(*tables)
        self.assertEqual(set(tables[0][0]), {"mixed", "double"})

    def test_failure_of_a_prepared_exposure(self):
        """It is told once, at that exposure; what was finished before is kept, and the run that goes on has the same bits."""
        folder = tempfile.mkdtemp(prefix="moao-ahead-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        case, out = moao_test.write_case(os.path.join(folder, "case.yaml"), CASE), os.path.join(folder, "out")
        for number in (1, 2):  # the first one is prepared while Cmm is factored
            fault = {"MOAO_FAULT": "ahead:1:fail:%d" % number}
            failed = moao_test.Run(case, "-o", out, "--overwrite", *MIXED, env={**AHEAD, **fault}, cwd=folder)
            self.assertEqual(failed.wait(120), 1, failed.text)
            self.assertEqual(failed.text.count("rank 1: injected fault in ahead"), 1, failed.text)
            self.assertEqual(failed.text.count("--resume"), 1, failed.text)
            self.assertEqual(len(moao_test.parts(out)), number - 1)
        again = moao_test.Run(case, "-o", out, "--resume", *MIXED, env=AHEAD, cwd=folder)
        self.assertEqual(again.wait(120), 0, again.text)
        a, b = (moao_test.maps(d) for d in (os.path.dirname(self.mixed.path("maps.fits")), out))
        for key in (k for k in a if "WFE_" not in k):  # sums over ranks are in the budget
            self.assertEqual(a[key].tobytes(), b[key].tobytes(), key)

    def test_without_a_gpu(self):
        """The CPU computes in double precision, and says so."""
        run = Run(CASE, *MIXED, TWO, "compute.backend=cpu")
        self.assertEqual((run.process.stdout + run.process.stderr).count("computing in double precision"), 1)
        self.assertEqual(list(run.table("EXPOSURES")["PRECISN"]), ["double"] * 3)
        self.assert_same(Run(CASE, TWO, "compute.backend=cpu"), run)

    def test_check_plans_the_memory(self):
        """In FP16 W of more targets fits, and a GPU of 80 GB, which holds no factor in double precision, holds that."""
        case = os.path.join(ROOT, "params", "mosaic.yaml")
        small, double = "compute.gpu_memory=79e9", "compute.precision=double"
        texts = [moao("check", case, "compute.backend=gpu", *more, check=False).stdout
                 for more in ([double], [MIXED[0]], [small, double], [small, MIXED[0]])]
        fits_in = [int(re.search(r"(\d+) would fit", t).group(1)) for t in texts]
        self.assertGreaterEqual(fits_in[1], 30)
        self.assertGreaterEqual(fits_in[3], 10)
        self.assertEqual([t.count("in split FP16, and inverses") for t in texts], [0, 1, 0, 1])
        self.assertIn("factor of Cmm0, which is streamed", texts[3])


if __name__ == "__main__":
    unittest.main(verbosity=2)
