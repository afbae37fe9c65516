"""Operators are pairs of a factor of Cmm and a product of an exposure (src/operator/operator.h): all pairs of a factor that is compressed,
in the host's memory, in FP16 or distributed with products in double precision, in FP16 and by pairs of sensors, on the road of devices with
the CPU as the device, against the dense factor with products in double precision."""
import json
import os
import re
import sys
import tempfile
import unittest

import numpy as np
from astropy.io import fits

from moao_case import ROOT, Run, moao

sys.path.insert(0, os.path.join(ROOT, "tests"))
import moao_test  # noqa: E402

# three sensors on a common lattice, two stars of them laser stars; one turned
CASE = """
telescope: {diameter: 6.3 m, obscuration: 0.2, zenith: 20 deg}
dm: {nssp: 6}
ngs_defaults: {slope: points}
lgs_defaults: {slope: points}
sensors:
  - {type: ngs, nssp: 6, direction: [41, 12], magnitude: 10}
  - {type: ngs, nssp: 5, direction: [-33, 35], magnitude: 11, rotation: 7}
  - {type: lgs, nssp: 6, direction: [28, -31], altitude: 88 km}
  - {type: lgs, nssp: 6, direction: [-25, -20], altitude: 90 km}
targets: {list: [[0, 0], [11, -7], [-9, -30]]}
atmosphere:
  profiles:
    - {time: 0, r0: 15 cm, layers: {altitude: [0, 4100, 10300], fraction: [0.6, 0.3, 0.1], wind_speed: [7, 12, 25]}}
    - {time: 10 min, r0: 12 cm, layers: {altitude: [0, 900, 5200], fraction: [0.5, 0.2, 0.3], L0: 30 m, wind_speed: [5, 9, 14]}}
schedule: {tor_times: [0], exposure_times: [0, 10 min]}
psf: {wavelengths: [1.65 um], oversampling: 4}
output: {psf: none, budget: none}
compute: {mixed_samples: 1, threads: 1, tlr_tile: 24, tlr_tolerance: 0.5}
"""
EDGE = 2  # target farthest from the centre, counted from 0, which the reference computes, too


def words(pair):
    """Parameters that ask for a pair."""
    factor, product = pair.split("+")
    mixed = {"fp16_lattice": ["compute.precision=mixed"]}.get(product, ["compute.precision=double"] if pair == "dense+fp16" else [])
    return ["compute.factor=" + factor, "compute.product=" + product.replace("fp16_lattice", "toeplitz")] + mixed


def of(pair, *options, **kw):
    return Run(CASE, *words(pair), *options, env={"MOAO_TEST_DEVICE": "cpu"}, **kw)


class Pairs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dense = {residual: of("dense+exact", "psf.residual=" + residual) for residual in ("phase", "sensor")}

    def gaps(self, run, residual="phase"):
        """Largest difference of a Strehl ratio from the dense run's, by target."""
        return np.abs(run.quantity("STREHL") - self.dense[residual].quantity("STREHL"))[:, :, :-1].max(axis=(1, 2))

    def check(self, pair, residual="phase", *options, edge=1e-12, least=1e-8, **kw):
        """Every exposure is by that product: results differ from the dense ones, by less than 1e-4, as the run measured; the sampled
        target is of the reference."""
        run = of(pair, "psf.residual=" + residual, *options, **kw)
        self.assertEqual(set(run.table("EXPOSURES")["PRECISN"]), {"mixed"})
        with fits.open(run.path("maps.fits")) as f:
            told = f[0].header["CFACTOR"], f[0].header["CPRODUCT"]
        self.assertEqual(told, tuple(w.split("=")[1] for w in words(pair)[:2]))
        gap = self.gaps(run, residual)
        self.assertTrue(np.all((gap[:EDGE] > least) & (gap[:EDGE] < 1e-4)), gap)
        self.assertLessEqual(gap[EDGE], edge)
        with open(run.path("run.json")) as f:
            told = json.load(f)
        self.assertTrue(least / 10 < told["precision"]["largest_difference"] < 1e-4)
        self.assertEqual(len(told.get("compression", [])), pair.startswith("tlr"))
        return told

    def test_tlr_fp16(self):
        """A compressed factor with FP16 differences: W is refined until its residual is small, whatever the tolerance of the factor, and
        what both change is measured on the first exposure."""
        for residual, options in (("phase", ["compute.tlr_tolerance=4"]), ("sensor", [])):
            told = self.check("tlr+fp16", residual, *options, edge=5e-7, least=1e-10)["compression"][0]
            self.assertEqual((told["form"], told["restarts"]), ("refined", 0))
            self.assertTrue(1e-9 < told["largest_difference"] < 1e-5)

    def test_tlr_fp16_distributed(self):
        """The same with a factor of which each rank has a part: all take part in the steps of the reference's W, too."""
        told = self.check("tlr+fp16", "phase", "compute.tlr_distributed=true", edge=5e-7, least=1e-10, ranks=2)["compression"][0]
        self.assertEqual(told["form"], "refined")

    def test_tlr_fp16_coarse(self):
        """A factor by which W cannot be refined is made again with a smaller tolerance."""
        told = self.check("tlr+fp16", "phase", "compute.tlr_tolerance=16", edge=5e-7, least=1e-10)["compression"][0]
        self.assertEqual(told["restarts"], 1)

    def test_tlr_transforms(self):
        """The same with sensors on a common lattice by Fourier transforms, in FP16 and in FP32, where W is not refined."""
        self.check("tlr+fp16_lattice", edge=5e-7, least=1e-10)
        told = self.check("tlr+toeplitz", edge=1e-5)
        self.assertEqual(told["compression"][0]["form"], "tiles")

    def test_tlr_host(self):
        """A compressed factor out of core: named, it computes, and each rank makes its own, of the same bits."""
        run = of("tlr_host+exact")
        self.assertTrue(1e-10 < self.gaps(run).max() < 5e-5)
        self.check("tlr_host+fp16", edge=5e-7, least=1e-10, ranks=2)
        self.assertEqual(run.quantity("STREHL").tobytes(), of("tlr_host+exact", ranks=2).quantity("STREHL").tobytes())

    def test_tlr_placement(self):
        """At the full scale of an ELT a GPU of 30 GB keeps the factor in its host's memory, one of 79 GB on the device."""
        for memory, where in (("30e9", "diagonal blocks of the compressed factor"), ("79e9", "compressed factor of Cmm0")):
            p = moao("check", os.path.join(ROOT, "params", "mosaic.yaml"), "--gpus", "1", "compute.factor=tlr", "compute.product=exact",
                     "compute.gpu_memory=" + memory)
            self.assertIn(where, p.stdout)

    def test_host(self):
        """A factor in the host's memory: targets that are solved for together, on two ranks, and W cast in its place."""
        self.check("host+fp16", ranks=2)
        self.check("host+fp16", "sensor")
        self.check("host+fp16_lattice")
        self.check("host+toeplitz", least=1e-9)

    def exact(self, pair, *options, residual="phase", most=1e-10, **kw):
        """Exposures in double precision, with W that differs from the dense one by rounding alone."""
        run = of(pair, "psf.residual=" + residual, *options, **kw)
        self.assertEqual(set(run.table("EXPOSURES")["PRECISN"]), {"double"})
        with fits.open(run.path("maps.fits")) as f:
            self.assertEqual((f[0].header["CFACTOR"], f[0].header["CPRODUCT"]), tuple(pair.split("+")))
        gap = self.gaps(run, residual).max()
        self.assertTrue(0 < gap < most, gap)
        told = re.findall(r"\|W Cmm - D\+ Ctm\| / \|D\+ Ctm\| = (\S+)", run.process.stdout + run.process.stderr)
        self.assertTrue(told and max(map(float, told)) < 1e-10, told)

    def test_fp16_exact(self):
        """A factor in split FP16 whose W is refined: of commands, and of V, whose right-hand side is of another size."""
        self.exact("fp16+exact")
        self.exact("fp16_host+exact", ranks=2)
        self.exact("fp16+exact", residual="sensor")

    def test_fp16_transforms(self):
        """The same with sensors on a common lattice by transforms; in FP16 with the factor that is computed in the host's memory."""
        self.check("fp16+toeplitz", edge=1e-10, least=1e-9)
        self.check("fp16_host+toeplitz", "sensor", edge=1e-10, least=1e-9)
        self.check("fp16_host+fp16_lattice")

    def test_distributed(self):
        """A factor of which each rank has a part, and targets of its own; of ranks that have none, all take part in solves."""
        self.exact("distributed+exact", ranks=2, most=1e-12)
        self.exact("distributed+exact", "compute.targets_per_chunk=1", ranks=3, most=1e-12)
        self.check("distributed+fp16", ranks=2)
        self.check("distributed+fp16_lattice", "sensor")
        self.check("distributed+toeplitz", ranks=3, least=1e-9)

    def test_dense_fp16(self):
        """In double precision products in FP16 that are asked for by name have a factor in double precision."""
        self.check("dense+fp16")

    def test_reference(self):
        """Where no difference is allowed, all targets are computed in double precision."""
        for pair, most, ranks in (("tlr+fp16", 2e-6, 1), ("host+fp16", 1e-12, 1), ("host+toeplitz", 1e-12, 1), ("fp16+toeplitz", 1e-10, 1),
                                  ("distributed+fp16", 1e-12, 2)):
            run = of(pair, "psf.residual=phase", "compute.mixed_tolerance=0", ranks=ranks)
            self.assertEqual(set(run.table("EXPOSURES")["PRECISN"]), {"double"})
            self.assertLess(self.gaps(run).max(), most)

    def test_refused(self):
        """What cannot compute as it is named, in one line each, before anything is written."""
        with tempfile.TemporaryDirectory() as folder:
            case, out = (os.path.join(folder, name) for name in ("case.yaml", "out"))
            with open(case, "w", encoding="utf-8") as f:
                f.write(CASE)
            for options, line in (
                    (["compute.factor=host"], "compute.factor: host is a factor that is streamed to a GPU"),
                    (["compute.product=fp16"], "compute.product: fp16 needs a GPU"),
                    (["compute.product=exact", "compute.precision=mixed"], "compute.product: exact with compute.precision: mixed"),
                    (["compute.factor=tlr_host", "compute.tlr_distributed=true"], "compute.tlr_distributed: true with compute.factor: tlr_host"),
                    (["compute={format: tlr, factor: tlr}"], "compute.format: given with compute.factor")):
                p = moao("run", case, *options, "compute.backend=cpu", "-o", out, check=False)
                self.assertEqual(p.returncode, 2, options)
                self.assertIn(line, p.stderr)
                self.assertFalse(os.path.exists(out), options)
            p = moao("check", case, "compute.product=fp16", "compute.backend=cpu", check=False)
            self.assertEqual(p.returncode, 2)
            self.assertIn("compute.product: fp16 needs a GPU", p.stderr)

    def test_resumed(self):
        """A run that goes on keeps its pair, bit for bit, and is refused by the name of another one."""
        env, options = {"MOAO_TEST_DEVICE": "cpu"}, words("tlr+fp16") + ["compute.targets_per_chunk=1"]
        with tempfile.TemporaryDirectory() as folder:
            case, out = moao_test.write_case(os.path.join(folder, "case.yaml"), CASE), os.path.join(folder, "out")
            refused = moao_test.stopped_and_resumed(case, out, options, ["compute.factor=tlr"], env, 2)
            self.assertIn("(factor tlr, product fp16), where factor tlr and product exact would compute now", refused)
            a, b = moao_test.maps(out), moao_test.maps(of("tlr+fp16", options[-1]).dir)
            for key in a:
                if "PARAMETERS" not in key:
                    self.assertEqual(a[key].tobytes(), b[key].tobytes(), key)

    def test_resumed_distributed(self):
        """A distributed factor, without a GPU: the same, and a dense factor of that name is another one."""
        options = words("distributed+toeplitz") + ["compute.targets_per_chunk=1"]
        with tempfile.TemporaryDirectory() as folder:
            case, out = moao_test.write_case(os.path.join(folder, "case.yaml"), CASE), os.path.join(folder, "out")
            refused = moao_test.stopped_and_resumed(case, out, options, ["compute.factor=dense", options[1]], None, 2)
            self.assertIn("(factor distributed, product toeplitz), where factor dense and product toeplitz would compute now", refused)
            np.testing.assert_array_equal(moao_test.maps(out)["1 TARGETS.STREHL"],
                                          moao_test.maps(Run(CASE, *options).dir)["1 TARGETS.STREHL"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
