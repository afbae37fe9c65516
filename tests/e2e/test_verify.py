"""compute.verify: residuals are checked against covariances made anew, on ranks in step and on devices; a bit
that flips in W, T or W Cpm' is found before results are kept."""
import glob
import json
import os
import re
import tempfile
import unittest

from moao_case import Run, moao
from test_resident import CASE, RESIDENT

ROADS = {"panels": {}, "resident": RESIDENT}
TARGETS = 5  # of CASE, in one chunk; exposures: 3


def verified(run):
    with open(run.path("run.json")) as f:
        told = json.load(f)["verify"]
    return dict(told, largest_difference=max(told["largest_differences"].values()))


class Verify(unittest.TestCase):
    def corrupt(self, fault, *options, env):
        """A run in which a bit flips: its exit code, its last line, the parts that it kept."""
        with tempfile.TemporaryDirectory(prefix="moao-verify-") as folder:
            case = os.path.join(folder, "case.yaml")
            with open(case, "w") as f:
                f.write(CASE)
            p = moao("run", case, "psf.residual=sensor", *options, "-q", "-o", os.path.join(folder, "out"), check=False,
                     env=dict(env, MOAO_FAULT=fault))
            parts = glob.glob(os.path.join(folder, "out", "checkpoint", "part-*"))
            done = os.path.exists(os.path.join(folder, "out", "maps.fits"))
        return p.returncode, p.stderr, parts, done

    def test_agrees(self):
        """To rounding, for every target and exposure, on 1 and 3 ranks; results are those without it."""
        for road, env in ROADS.items():
            plain = Run(CASE, "compute.verify=off", env=env)
            self.assertEqual(verified(plain)["residuals"], 0)
            for ranks in (1, 3):
                run = Run(CASE, "compute.verify=full", ranks=ranks, env=env)
                told = verified(run)
                self.assertEqual(told["residuals"], 3 * TARGETS, road)
                self.assertLess(told["largest_difference"], 1e-13, road)
                if ranks == 1:
                    for name, value in plain.quantities().items():
                        self.assertEqual(run.quantity(name).tobytes(), value.tobytes(), name)

    def test_few_actuators(self):
        """Of a mirror with a handful of actuators no draw is piston alone, which leaves nothing but rounding."""
        few = re.sub(r"nssp: \d+", "nssp: 2", CASE)
        told = verified(Run(few, "compute.verify=full", "targets={grid: {nx: 40, ny: 10, width: 60, height: 30}}"))
        self.assertGreaterEqual(told["residuals"], 400)
        self.assertLess(told["largest_difference"], 1e-9)

    def test_mixed_and_streamed(self):
        """Halves change the residuals by more than rounding does, and by less than what is taken for an error."""
        mixed = verified(Run(CASE, "compute.verify=full", "compute.precision=mixed", env=RESIDENT))
        self.assertEqual(mixed["residuals"], 3 * TARGETS)
        self.assertTrue(1e-9 < mixed["largest_difference"] < 1e-4, mixed)
        streamed = verified(Run(CASE, "compute.verify=full", "compute.gpu_memory=30 MB", env=RESIDENT))
        self.assertLess(streamed["largest_difference"], 1e-13)

    def test_flips_are_found(self):
        """In T, and in W of any target; nothing of that exposure is kept."""
        for road, env in ROADS.items():
            for fault, what in (("flip-t:0:fail:1", "residual"), ("flip-w:0:fail:4", "reconstructor W")):
                code, text, parts, done = self.corrupt(fault, "compute.verify=full", env=env)
                self.assertEqual((code, parts, done), (1, [], False), road + fault)
                self.assertIn("its %s is not what it should be" % what, text)
                self.assertIn("exposure 1, target %s" % ("4" if "flip-w" in fault else "1"), text)
                self.assertIn("--resume", text)

    def test_sampled_residual(self):
        """|W Cmm - D+ Ctm| / |D+ Ctm| of a wrong W is the same however its rows are dealt out to ranks."""
        with tempfile.TemporaryDirectory(prefix="moao-verify-") as folder:
            case = os.path.join(folder, "case.yaml")
            with open(case, "w") as f:
                f.write(CASE)
            found = []
            for ranks in (1, 3):
                p = moao("run", case, "targets={list: [[3, 4]]}", "psf.residual=sensor", "compute.verify=off", "--overwrite", "-o",
                         os.path.join(folder, "out"), ranks=ranks, env={"MOAO_FAULT": "flip-w:0"})
                found.append(re.findall(r"\|D\+ Ctm\| = (\S+)", p.stdout + p.stderr))
        self.assertEqual((len(found[0]), found[0]), (2, found[1]))
        self.assertGreater(float(found[0][0]), 1)

    def test_flips_under_the_residual_phase(self):
        """There a wrong W may be caught before that, by images that no turbulence makes; nothing is kept either."""
        for road, env in ROADS.items():
            for fault in ("flip-t:0:fail:1", "flip-w:0:fail:4"):
                code, text, parts, done = self.corrupt(fault, "psf.residual=phase", "compute.verify=full", env=env)
                self.assertEqual((code, parts, done), (1, [], False), road + fault)
                self.assertRegex(text, "is not what it should be|far from positive")

    def test_flips_in_the_phase(self):
        """In W Cpm' of any target: a number that is lost is found in double precision, and goes by unseen without the check."""
        for env in {}, RESIDENT:
            for k in 1, 4:
                fault = "flip-c:0:fail:%d" % k
                code, text, parts, done = self.corrupt(fault, "psf.residual=phase", "compute.verify=full", env=env)
                self.assertEqual((code, parts, done), (1, [], False), text)
                self.assertIn("exposure 1, target %d: the covariance of its phase with its commands is not" % k, text)
                code, text, _, done = self.corrupt(fault, "psf.residual=phase", "compute.verify=off", env=env)
                self.assertEqual((code, done), (0, True), text)

    def test_flips_in_the_phase_in_mixed_precision(self):
        """Where a share of it is the reconstructor's: found, or too small to change an image; that of the first target is not."""
        options, codes = ("psf.residual=phase", "compute.precision=mixed"), []
        plain = Run(CASE, *options, env=RESIDENT).quantity("STREHL")
        for k in 1, 2:
            env = dict(RESIDENT, MOAO_FAULT="flip-c:0:fail:%d" % k)
            unseen = Run(CASE, *options, "compute.verify=off", env=env).quantity("STREHL")
            code, text, _, _ = self.corrupt(env["MOAO_FAULT"], *options, "compute.verify=full", env=RESIDENT)
            if code == 0:
                self.assertLess(abs(unseen - plain).max(), 1e-4)
            else:
                self.assertIn("target %d: the covariance of its phase with its commands is not" % k, text)
            codes.append(code)
        self.assertEqual(codes[0], 1)

    def test_agrees_under_the_residual_phase(self):
        for slope in "points", "gradient":
            for ranks, env, *options in (3, {}), (1, RESIDENT), (1, RESIDENT, "compute.precision=mixed"):
                case = CASE.replace("slope: points", "slope: " + slope)
                told = verified(Run(case, "psf.residual=phase", "compute.verify=full", *options, ranks=ranks, env=env))
                self.assertEqual(told["residuals"], 3 * TARGETS)
                self.assertLess(told["largest_difference"], 1e-4 if options else 1e-13, (slope, env))

    def test_sample(self):
        """By default one target of an exposure is drawn: a flip in T is found, one in W of a target with the probability
        of one in all targets; without the check nothing is."""
        found = 0
        for k in range(1, TARGETS + 1):
            code, text, _, done = self.corrupt("flip-w:0:fail:%d" % k, env={})
            self.assertEqual((code, done), (1, False) if "what it should be" in text else (0, True), text)
            found += code
        self.assertEqual(found, 1)
        self.assertEqual(self.corrupt("flip-t:0:fail:1", env={})[0], 1)
        code, _, _, done = self.corrupt("flip-t:0:fail:1", "compute.verify=off", env={})
        self.assertEqual((code, done), (0, True))


if __name__ == "__main__":
    unittest.main(verbosity=2)
