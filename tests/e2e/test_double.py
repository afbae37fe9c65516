"""compute.double: the dense factor in double precision by products of integers, on the road of devices with the CPU as the device, against
the native one: results, what the header says, memory, refusals and resuming."""
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
        """Three of four block columns are updated by integers: the images are those of native double precision up to rounding, and not the
        same bits; precision auto does not choose what has no such factor. On two ranks, each by itself, the bits are those of one."""
        native = Run(CASE, "compute.precision=double", env=DEVICE)
        for options, ranks in (([], 1), (["compute.precision=double", "compute.factor=dense"], 2)):
            run = Run(CASE, "compute.double=integer", *options, env=DEVICE, ranks=ranks)
            gap = np.abs(run.quantity("STREHL") - native.quantity("STREHL")).max()
            self.assertTrue(0 < gap < 1e-11, gap)
            with fits.open(run.path("maps.fits")) as f, fits.open(native.path("maps.fits")) as g:
                self.assertEqual((f[0].header["CDOUBLE"], g[0].header["CDOUBLE"]), ("integer", "native"))
                self.assertEqual(f[0].header["CFACTOR"], "dense")
            first = run.quantity("STREHL") if ranks == 1 else first
        self.assertEqual(run.quantity("STREHL").tobytes(), first.tobytes())

    def test_memory(self):
        """Residues are in the plan: six bytes for each entry of a triangle beyond the array of the factor itself."""
        p = moao("check", os.path.join(ROOT, "params", "mosaic.yaml"), "--gpus", "1", "compute.double=integer", "compute.gpu_memory=148e9")
        line = next(x for x in p.stdout.splitlines() if "residues of the factor" in x)
        self.assertTrue(31 < float(line.split()[0]) < 36, line)

    def test_refused(self):
        """Where no dense factor on a device computes, in one line, before anything is written."""
        with tempfile.TemporaryDirectory() as folder:
            case, out = moao_test.write_case(os.path.join(folder, "case.yaml"), CASE), os.path.join(folder, "out")
            for options, env, where in ((["compute.backend=cpu"], {}, "the CPUs'"), (["compute.factor=tlr"], DEVICE, "tlr"),
                                        (["compute.factor=host"], DEVICE, "in the host's memory"),
                                        (["compute.product=fp16"], DEVICE, "in FP16")):
                p = moao("run", case, "compute.double=integer", *options, "-o", out, env=env, check=False)
                self.assertEqual(p.returncode, 2, p.stderr)
                self.assertIn("compute.double: integer computes a dense factor in the memory of a GPU, and here the factor is " + where,
                              p.stderr)
                self.assertFalse(os.path.exists(out), options)

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
