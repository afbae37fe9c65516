"""compute.double: the dense factor and exposures in double precision by products of integers, on the road of devices with the CPU as the
device, against native ones: results, what the header says, memory, refusals and resuming."""
import os
import sys
import tempfile
import unittest

import numpy as np
from astropy.io import fits

from moao_case import ROOT, Run, moao

sys.path.insert(0, os.path.join(ROOT, "tests"))
import moao_test  # noqa: E402

CASE = """
telescope: {diameter: 6.3 m, obscuration: 0.2}
dm: {nssp: 6}
ngs_defaults: {slope: points}
sensors:
  - {type: ngs, nssp: 9, direction: [41, 12], magnitude: 10}
  - {type: ngs, nssp: 8, direction: [-33, 35], magnitude: 14, rotation: 7}
  - {type: ngs, nssp: 9, direction: [5, -45], magnitude: 7}
targets: {list: [[0, 0], [11, -7], [-9, -30]]}
atmosphere:
  profiles:
    - {time: 0, r0: 15 cm, layers: {altitude: [0, 4100, 10300], fraction: [0.6, 0.3, 0.1], wind_speed: [7, 12, 25]}}
schedule: {tor_times: [0], exposure_times: [0]}
psf: {wavelengths: [1.65 um], oversampling: 4, residual: sensor}
output: {psf: none, budget: none}
compute: {threads: 1}
"""
DEVICE = {"MOAO_TEST_DEVICE": "cpu"}


class Double(unittest.TestCase):
    def test_integer(self):
        """Three of four block columns are updated by integers, seven of eight panels of exposures too: the images are those of native double
        precision up to rounding, and not the same bits; precision auto does not choose what has no such factor. Chunks and ranks change
        no bit: on two ranks each computes by itself. Panels are of whole steps of residues, 48 columns for the 40 asked for."""
        native = Run(CASE, "compute.precision=double", env=DEVICE)
        first = None
        for options, ranks in ((["compute.panel=40"], 1),
                               (["compute.panel=48", "compute.targets_per_chunk=2", "compute.precision=double", "compute.factor=dense"], 2)):
            run = Run(CASE, "compute.double=integer", "compute.integer_tolerance=0", *options, env=DEVICE, ranks=ranks)
            gap = np.abs(run.quantity("STREHL") - native.quantity("STREHL")).max()
            self.assertTrue(0 < gap < 1e-11, gap)
            with fits.open(run.path("maps.fits")) as f, fits.open(native.path("maps.fits")) as g:
                self.assertEqual((f[0].header["CDOUBLE"], g[0].header["CDOUBLE"]), ("integer", "native"))
                self.assertEqual((f[0].header["CFACTOR"], f[0].header["CMODULI"]), ("dense", 14))
                self.assertNotIn("CMODULI", g[0].header)
            first = run.quantity("STREHL") if first is None else first
        self.assertEqual(run.quantity("STREHL").tobytes(), first.tobytes())

    def test_tolerance(self):
        """Of the residual phase: exposures by 14 moduli are native ones up to rounding; what is allowed to be wrong by 1e-9 is by 9 moduli,
        more wrong than 14, and far less than allowed."""
        phase = CASE.replace(", residual: sensor", "").replace("[11, -7], [-9, -30]", "[11, -7]")
        native = Run(phase, "compute.precision=double", env=DEVICE).quantity("STREHL")
        gaps = []
        for tolerance, moduli in (("0", 14), ("1e-9", 9)):
            run = Run(phase, "compute.double=integer", "compute.panel=48", "compute.integer_tolerance=" + tolerance, env=DEVICE)
            gaps.append(np.abs(run.quantity("STREHL") - native).max())
            with fits.open(run.path("maps.fits")) as f:
                self.assertEqual(f[0].header["CMODULI"], moduli)
        self.assertTrue(0 < gaps[0] < 1e-14 and 30 * gaps[0] < gaps[1] < 1e-10, gaps)

    def test_shared(self):
        """Targets that share W share its residues; each has a W Cpm' of its own."""
        shared = "mode: glao\n" + CASE.replace(", residual: sensor", "").replace("[11, -7], [-9, -30]", "[11, -7]")
        native, integer = (Run(shared, "compute.precision=double", "compute.panel=96", "compute.double=" + x, env=DEVICE).quantity("STREHL")
                           for x in ("native", "integer"))
        gap = np.abs(native - integer).max()
        self.assertTrue(0 < gap < 1e-11, gap)

    def test_memory(self):
        """Residues are in the plan: six bytes for each entry of a triangle beyond the array of the factor itself; 14 for each of a W where
        those of T leave no room."""
        p = moao("check", os.path.join(ROOT, "params", "mosaic.yaml"), "--gpus", "1", "compute.double=integer", "compute.gpu_memory=148e9")
        line = next(x for x in p.stdout.splitlines() if "residues of the factor" in x)
        self.assertTrue(31 < float(line.split()[0]) < 36, line)
        self.assertIn("double precision by integers: 14 moduli, in W and exposures 12", p.stdout)
        p = moao("check", os.path.join(ROOT, "params", "mosaic.yaml"), "--gpus", "1", "compute.double=integer", "compute.gpu_memory=160e9",
                 "compute.integer_tolerance=0")
        line = next(x for x in p.stdout.splitlines() if "residues of T and W" in x)
        self.assertTrue(7.7 < float(line.split()[0]) < 13, line)

    def test_refused(self):
        """Where no dense factor on a device computes, in one line, before anything is written."""
        with tempfile.TemporaryDirectory() as folder:
            case, out = moao_test.write_case(os.path.join(folder, "case.yaml"), CASE), os.path.join(folder, "out")
            for options, env, where in ((["compute.backend=cpu"], {}, "the CPUs'"), (["compute.factor=tlr"], DEVICE, "tlr"),
                                        (["compute.factor=host"], DEVICE, "in the host's memory")):
                p = moao("run", case, "compute.double=integer", *options, "-o", out, env=env, check=False)
                self.assertEqual(p.returncode, 2, p.stderr)
                self.assertIn("compute.double: integer computes a dense factor in the memory of a GPU, and here the factor is " + where,
                              p.stderr)
                self.assertFalse(os.path.exists(out), options)

    def test_chosen(self):
        """auto takes integers where a card's rates and the number of measurements make them faster and its memory holds them."""
        for card, case, options, integer in (("RTX 4090", "elt-small.yaml", ["compute.precision=double"], True), ("H200", "mosaic.yaml", ["compute.precision=double"], True),
                                             ("H200", "elt-small.yaml", ["compute.precision=double"], False),
                                             ("H200", "mosaic.yaml", ["compute.precision=double", "compute.gpu_memory=110e9"], False),
                                             ("H200", "mosaic.yaml", ["compute.precision=mixed"], False)):
            p = moao("check", os.path.join(ROOT, "params", case), "--gpus", "1", "--gpu", card, "compute.double=auto", *options)
            self.assertEqual("double precision by integers" in p.stdout, integer, (card, case, options, p.stdout))

    def test_mixed(self):
        """In mixed precision the reference of the sampled target is by integers: it differs from the native one by their rounding alone. Two
        devices that compute it together do so with the bits of one."""
        case, differences = CASE.replace(", residual: sensor", "").replace("exposure_times: [0]", "exposure_times: [600]"), []
        for double, ranks in (("native", 1), ("integer", 1), ("integer", 2)):
            run = Run(case, "compute.precision=mixed", "compute.double=" + double, "compute.panel=48",
                      env={**DEVICE, "MOAO_TEST_OPERATOR": "half"}, ranks=ranks)
            differences.append(run.table("EXPOSURES")["MIXDIFF"][0])
            with fits.open(run.path("maps.fits")) as f:
                self.assertEqual((f[0].header["CDOUBLE"], f[0].header["PRECISN"]), (double, "mixed"))
        self.assertTrue(1e-9 < differences[0] < 1e-4, differences)
        self.assertTrue(0 < abs(differences[1] - differences[0]) < 1e-10, differences)
        self.assertEqual(differences[1], differences[2])

    def test_resumed(self):
        """A run that goes on computes in double precision as it began, and is refused otherwise."""
        options = ["compute.double=integer", "compute.targets_per_chunk=1"]
        with tempfile.TemporaryDirectory() as folder:
            case, out = moao_test.write_case(os.path.join(folder, "case.yaml"), CASE), os.path.join(folder, "out")
            refused = moao_test.stopped_and_resumed(case, out, options, ["compute.precision=double"], DEVICE, 1)
            self.assertIn("--resume of a run with compute.double: integer, where native would compute now", refused)
            with fits.open(os.path.join(out, "maps.fits")) as f:
                self.assertEqual(f[0].header["CDOUBLE"], "integer")


if __name__ == "__main__":
    unittest.main(verbosity=2)
