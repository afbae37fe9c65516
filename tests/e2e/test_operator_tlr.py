"""compute.factor: tlr on the CPU (src/factor/tlr.c, src/job/accuracy.c): a factor compressed by tiles changes results by
no more than compute.tlr_strehl, in the way the tolerance says; what is told; smaller tolerances, fall back, resumption."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy as np
from astropy.io import fits

from moao_case import ROOT, Run, moao
from test_resident import CASE

sys.path.insert(0, os.path.join(ROOT, "tests"))
import moao_test  # noqa: E402

TLR = ["compute.factor=tlr", "compute.backend=cpu", "compute.tlr_tile=24", "compute.tlr_tolerance=0.5"]
SMALL = ["targets={list: [[0, 0], [-9, -30]]}", "schedule={tor_times: [0], exposure_times: [0, 10 min]}", "output={psf: none}",
         "sensors[3].nssp=14", "sensors[4].nssp=14"]
EDGE = 1  # target farthest from the centre, counted from 0


def told(run):
    with open(run.path("run.json")) as f:
        return json.load(f)["compression"]


def log(run):
    return run.process.stdout + run.process.stderr


def gap(a, b):
    """Largest difference of a Strehl ratio or ensquared energy of the exposures."""
    names = [n for n in a.quantities() if n == "STREHL" or n.startswith("EE_") and not n.endswith("_LONG")]
    return max(np.abs(a.quantity(n) - b.quantity(n)).max() for n in names)


class Compressed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dense = Run(CASE, *SMALL, "compute.backend=cpu")
        cls.tlr = Run(CASE, *SMALL, *TLR, "output.ranks=true")

    def test_close_to_dense(self):
        """Within the limit but not equal; some tiles are compressed (of so few measurements, few)."""
        self.assertLess(gap(self.dense, self.tlr), 1e-4)
        self.assertGreater(gap(self.dense, self.tlr), 1e-10)
        c, = told(self.tlr)
        self.assertLess(c["dense_tiles"] + c["empty_tiles"], 0.95 * c["tiles"])

    def test_what_is_told(self):
        """run.json, header and log agree; the measured change is that of the first exposure's sampled target."""
        c, = told(self.tlr)
        with fits.open(self.tlr.path("maps.fits")) as f:
            header = f[0].header
        self.assertEqual((c["reconstructor"], c["form"], header["FACTOR"]), (1, "tiles", "tiles"))
        self.assertAlmostEqual(header["TLRDIFF"], c["largest_difference"], delta=1e-12)
        self.assertAlmostEqual(header["TLRTOL"] / c["tolerance_arcsec2"], 1, delta=1e-6)
        self.assertEqual(header["TLRBYTES"], c["bytes"])
        self.assertEqual(sum(c["ranks"]) + c["dense_tiles"] + c["empty_tiles"], c["tiles"])
        self.assertLessEqual(c["tolerance_arcsec2"], c["noise_arcsec2"] / 2 * 1.0001)
        self.assertEqual((c["restarts"], c["precision"]), (0, "single"))
        names = [n for n in self.dense.quantities() if n == "STREHL" or n.startswith("EE_") and not n.endswith("_LONG")]
        seen = max(np.abs(self.dense.quantity(n) - self.tlr.quantity(n))[EDGE, :, 0].max() for n in names)
        self.assertLess(abs(seen - c["largest_difference"]), 0.3 * seen)
        self.assertIn("of target %d by" % (EDGE + 1), log(self.tlr))
        with fits.open(self.dense.path("maps.fits")) as f:
            self.assertNotIn("FACTOR", f[0].header)

    def test_columns_as_halves(self):
        """compute.precision: mixed keeps columns of the factor as halves: less memory, results as close; on two ranks the same."""
        options = SMALL + TLR + ["compute.threads=1", "compute.precision=mixed"]
        one = Run(CASE, *options)
        c, = told(one)
        single, = told(self.tlr)
        self.assertEqual((c["precision"], single["share_of_fp16"], single["precision"]), ("single and half", 0, "single"))
        self.assertGreater(c["share_of_fp16"], 0.2)
        self.assertLess(c["bytes"], 0.95 * single["bytes"])
        self.assertLess(gap(self.dense, one), 1e-4)
        self.assertGreater(gap(self.tlr, one), 0)
        self.assertNotIn("computing in double precision", log(one))
        self.assert_same_maps(one, Run(CASE, *options, ranks=2))

    def ranks(self, run):
        """Image, header and table of a run's ranks, which agree with run.json; sensors of its tiles from 1, 0: several."""
        c, = told(run)
        with fits.open(run.path("matrices/Ranks_tor0.fits"), checksum=True) as f:
            image, header, tiles = np.array(f["RANKS"].data), f["RANKS"].header, np.array(f["TILES"].data)
        rows, columns = np.nonzero(~np.isnan(image))
        of = image[rows, columns]
        dense = of == tiles["ORDER"][columns]
        self.assertTrue((rows > columns).all())
        self.assertEqual((len(of), dense.sum(), (of == 0).sum()), (c["tiles"], c["dense_tiles"], c["empty_tiles"]))
        self.assertAlmostEqual(of.mean(), c["mean_rank"], delta=1e-6)
        self.assertEqual(of[~dense].max(), c["largest_rank"])
        said = re.search(r"ranks ([0-9.]+) mean, 90 % up to (\d+), (\d+) at most of", log(run))  # of low-rank tiles, all three
        lowrank = of[~dense & (of > 0)]
        self.assertAlmostEqual(float(said.group(1)), lowrank.mean(), delta=0.051)
        self.assertEqual((int(said.group(2)), int(said.group(3))), (c["rank_90"], lowrank.max()))
        self.assertEqual((header["BUNIT"], header["TLRTILE"]), ("column", tiles["ORDER"].max()))
        self.assertAlmostEqual(header["TLRTOL"] / c["tolerance_arcsec2"], 1, delta=1e-9)
        with fits.open(run.path("maps.fits")) as f:
            self.assertEqual(tiles["ORDER"].sum(), f[0].header["NMEAS"])
        return tiles["SENSOR"]

    def test_ranks(self):
        """output.ranks: ranks of all tiles, and their picture."""
        sensor = self.ranks(self.tlr)
        self.assertEqual(sorted(set(sensor)), [1, 2, 3, 4, 5])
        self.assertTrue((np.diff(sensor) >= 0).all())
        picture = self.tlr.path("ranks.png")
        p = subprocess.run([sys.executable, os.path.join(ROOT, "scripts/plot_ranks.py"),
                            self.tlr.path("matrices/Ranks_tor0.fits"), picture], capture_output=True, text=True, check=False)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertGreater(os.path.getsize(picture), 5000)
        self.assertFalse(os.path.exists(self.dense.path("matrices")))

    def test_quadratic_law(self):
        """The change of results goes as the square of the tolerance."""
        run = Run(CASE, *SMALL, *TLR, "compute.tlr_tolerance=2", "compute.tlr_strehl=1")
        ratio = told(run)[0]["largest_difference"] / told(self.tlr)[0]["largest_difference"]
        self.assertGreater(ratio, 16 / 3)
        self.assertLess(ratio, 16 * 3)

    def test_refined(self):
        """Where no tolerance is small enough, W of all targets is refined; on two ranks."""
        run = Run(CASE, *SMALL, *TLR, "compute.tlr_tolerance=2", "compute.tlr_strehl=1e-16", ranks=2)
        self.assertEqual(told(run)[0]["form"], "refined")
        self.assertLess(gap(self.dense, run), 1e-9)

    def test_results_do_not_depend_on_ranks(self):
        """Ranks make the factor together: maps and what is told of the factor are one rank's, bit for bit; with a pivot that
        is not positive on one rank, too."""
        options = SMALL + TLR + ["compute.threads=1"]
        two = Run(CASE, *options, ranks=2)
        self.assertIn("the 2 ranks make each factor together", log(two))
        self.assertNotIn("together", log(self.tlr))
        self.assert_same_maps(Run(CASE, *options), two)
        fault = {"MOAO_FAULT": "tlr-pivot:0:first:1"}
        one = Run(CASE, *options, env=fault)
        self.assert_same_maps(one, Run(CASE, *options, ranks=2, env={"MOAO_FAULT": "tlr-pivot:1:first:1"}))

    def test_distributed(self):
        """compute.tlr_distributed: each rank keeps its tile rows. One to three ranks (one of them without a target) give the
        same bits, also where a pivot is not positive on one of them, and where W is refined; less memory for each."""
        options = SMALL + TLR + ["compute.threads=1", "compute.tlr_distributed=true"]
        one = Run(CASE, *options)
        self.assertLess(gap(self.tlr, one), 1e-6)
        self.assertNotIn("distributed", log(one))
        for n in 2, 3:
            run = Run(CASE, *options, ranks=n)
            self.assertIn("each of %d ranks keeps its tile rows alone" % n, log(run))
            self.assert_same_maps(one, run)
        self.assert_same_maps(Run(CASE, *options, env={"MOAO_FAULT": "tlr-pivot:0:first:1"}),
                              Run(CASE, *options, ranks=2, env={"MOAO_FAULT": "tlr-pivot:1:first:1"}))
        hard = ["compute.tlr_tolerance=2", "compute.tlr_strehl=1e-16"]
        refined = Run(CASE, *options, *hard, ranks=3)
        self.assertEqual(told(refined)[0]["form"], "refined")
        self.assertLess(gap(self.dense, refined), 1e-9)
        self.assert_same_maps(Run(CASE, *options, *hard), refined)

    def test_distributed_memory(self):
        """moao check: of a larger case a rank takes less memory where the factor is distributed: most of three quarters of it."""
        told_of = {}
        for flag in "false", "true":
            p = moao("check", os.path.join(ROOT, "params/elt-small.yaml"), "compute.factor=tlr", "compute.backend=cpu",
                     "compute.tlr_distributed=" + flag, "--ranks", "4", "--json")
            told_of[flag] = json.loads(p.stdout)
        less = told_of["false"]["here"]["rank_memory_bytes"] - told_of["true"]["here"]["rank_memory_bytes"]
        self.assertGreater(less, 0.5 * told_of["false"]["compression"]["bytes"])

    def assert_same_maps(self, a, b):
        mine, other = a.quantities(), b.quantities()
        for name, value in mine.items():
            self.assertEqual(value.tobytes(), other[name].tobytes(), name)
        self.assertEqual(told(a), told(b))

    def test_member_fails(self):
        """A rank that fails while several make a factor, before they meet or with a message in hand: one line, and none waits
        for it."""
        folder = tempfile.mkdtemp(prefix="moao-tlr-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        case = moao_test.write_case(os.path.join(folder, "case.yaml"), CASE)
        faults = ["tlr-member:1:fail:1", "tlr-member:0:fail:9", "tlr-message:1:fail:3", "tlr-member:1:kill:7"]
        spread = ["tlr-member:0:fail:60", "tlr-member:1:fail:100", "tlr-message:1:fail:90", "solve:1", "flip-w:0"]
        for k, fault in enumerate(faults + spread):
            p = moao("run", case, "-o", os.path.join(folder, str(k)), *SMALL, *TLR, "compute.tlr_distributed=" + ("true" if k > 3 else "false"), ranks=2,
                     env={"MOAO_FAULT": fault}, check=False, timeout=60)
            self.assertNotEqual(p.returncode, 0, fault)
            if "fail" in fault:
                self.assertIn("rank %s: injected fault" % fault.split(":")[1], p.stderr, fault)

    def test_no_memory(self):
        """Memory that runs out while a factor is made, on either of two ranks: one line says how far it came, its ranks, what
        to do."""
        for rank in 0, 1:
            folder = tempfile.mkdtemp(prefix="moao-tlr-")
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            case = moao_test.write_case(os.path.join(folder, "case.yaml"), CASE)
            p = moao("run", case, "-o", os.path.join(folder, "out"), *SMALL, *TLR, ranks=2, check=False, timeout=60,
                     env={"MOAO_FAULT": "tlr-memory:%d:fail:9" % rank})
            self.assertEqual(p.returncode, 1, p.stderr)
            line, = [x for x in p.stderr.splitlines() if "memory" in x]
            found = re.search(r"no memory for the compressed factor of Cmm after (\d+) % of its columns \(a test takes the memory "
                              r"away\): at \S+ arcsec\^2 a tile ranks are (\S+) on average there, of 24, (\d+) of (\d+) tiles "
                              r"dense, \S+ GB in all; use a larger compute.tlr_tolerance, or compute.factor=dense, ", line)
            percent, mean, dense, tiles = (float(x) for x in found.groups())
            self.assertTrue(0 < percent < 100 and 0 < mean <= 24 and dense < tiles, line)

    def test_falls_back(self):
        """A tolerance with which it cannot be positive definite, nor with a sixteenth: nothing is dropped."""
        run = Run(CASE, *SMALL, *TLR, "compute.tlr_tolerance=1e5")
        c, = told(run)
        self.assertEqual((c["form"], c["precision"], c["dense_tiles"]), ("dense", "double", c["tiles"]))
        self.assertGreater(c["restarts"], 1)
        self.assertIn("nothing is dropped", log(run))
        self.assertLess(gap(self.dense, run), 1e-11)

    def faulty(self, fault):
        return Run(CASE, *SMALL, *TLR, env={"MOAO_FAULT": fault})

    def rejected(self, run):
        return log(run).count("again with a smaller tolerance")

    def test_rejected_rungs(self):
        """A wrong W of the sampled target (1/16 too large; it is solved for twice, as it is and refined) rejects 1, 2, 3 factors:
        each time the next one has a smaller tolerance, and the one that passes is told and used."""
        tolerance = [told(self.tlr)[0]["tolerance_arcsec2"]]
        for n in 1, 2, 3:
            run = self.faulty("tlr-w:0:first:%d" % (2 * n))
            c, = told(run)
            self.assertEqual(self.rejected(run), n, log(run))
            self.assertEqual((c["form"], c["restarts"]), ("tiles", n))
            self.assertLess(c["tolerance_arcsec2"], tolerance[-1] / 2)
            self.assertLessEqual(c["largest_difference"], 5e-5)
            self.assertLess(gap(self.dense, run), gap(self.dense, self.tlr))
            tolerance.append(c["tolerance_arcsec2"])

    def test_all_rungs_rejected(self):
        """Four factors rejected: W of all targets is refined, which mends the error also where it goes on. A factor with which
        the refinement does not converge: nothing is dropped at last; after one of those, a smaller tolerance."""
        for fault in "tlr-w:0:first:8", "tlr-w:0":
            run = self.faulty(fault)
            self.assertEqual(self.rejected(run), 3, log(run))
            self.assertIn("more than compute.tlr_strehl allows: W of all targets is refined", log(run))
            self.assertEqual(told(run)[0]["form"], "refined")
            self.assertLess(gap(self.dense, run), 1e-7)
        run = self.faulty("tlr-factor:0")
        self.assertEqual(self.rejected(run), 3, log(run))
        self.assertIn("W not exact enough: nothing is dropped", log(run))
        self.assertEqual(told(run)[0]["form"], "dense")
        self.assertLess(gap(self.dense, run), 1e-11)
        run = self.faulty("tlr-factor:0:first:3")
        self.assertEqual(self.rejected(run), 1, log(run))
        self.assertEqual(told(run)[0]["form"], "tiles")
        self.assertLess(gap(self.dense, run), gap(self.dense, self.tlr))

    def test_pivots(self):
        """A pivot that is not positive with products in single precision: the factor is made in double. One that is not with
        either: one line says so."""
        run = self.faulty("tlr-pivot:0:first:1")
        self.assertEqual((told(run)[0]["form"], self.rejected(run)), ("tiles", 0))
        self.assertLess(gap(self.dense, run), 1e-4)
        folder = tempfile.mkdtemp(prefix="moao-tlr-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        case = moao_test.write_case(os.path.join(folder, "case.yaml"), CASE)
        p = moao("run", case, "-o", os.path.join(folder, "out"), *SMALL, *TLR, env={"MOAO_FAULT": "tlr-pivot:0"}, check=False)
        self.assertNotEqual(p.returncode, 0)
        lines = [x for x in (p.stdout + p.stderr).splitlines() if "positive definite" in x]
        self.assertEqual(len(lines), 1, p.stderr)
        self.assertRegex(lines[0], "measurement|sensor")

    def test_stop_and_resume(self):
        """From a tolerance 32 times as large as usual, factors are made until the limit holds; a resumed run keeps what was
        found, and whether it was distributed: the same bits."""
        folder = tempfile.mkdtemp(prefix="moao-tlr-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        case = moao_test.write_case(os.path.join(folder, "case.yaml"), CASE)
        out = {n: os.path.join(folder, n) for n in ("whole", "stopped")}
        options = SMALL + TLR + ["compute.tlr_tolerance=4", "compute.tlr_strehl=4e-6", "compute.targets_per_chunk=1",
                                "compute.tlr_distributed=true"]
        whole = moao_test.Run(case, "-o", out["whole"], *options, ranks=1, cwd=folder)
        self.assertEqual(whole.wait(120), 0, whole.text)
        self.assertIn("again with a smaller tolerance", whole.text)
        with open(os.path.join(out["whole"], "run.json")) as f:
            for c in json.load(f)["compression"]:
                self.assertEqual(c["form"], "tiles")
                self.assertLessEqual(c["largest_difference"], 2e-6)
                self.assertLess(c["tolerance_arcsec2"], 2 * c["noise_arcsec2"])
        run = moao_test.Run(case, "-o", out["stopped"], *options, ranks=1, cwd=folder)
        moao_test.wait_for_parts(run, out["stopped"], 1)
        run.process.send_signal(signal.SIGUSR1)
        self.assertEqual(run.wait(60), 3, run.text)
        self.refuse_other_order(case, out["stopped"], options, folder)
        again = moao_test.Run(case, "-o", out["stopped"], "--resume", *options, "compute.tlr_distributed=false", ranks=1, cwd=folder)
        self.assertEqual(again.wait(120), 0, again.text)
        self.assertNotIn("again with a smaller tolerance", again.text)
        self.assertNotIn("computed again", again.text)  # what was finished is kept
        a, b = (moao_test.maps(out[n]) for n in ("whole", "stopped"))
        for key in a:
            self.assertEqual(a[key].tobytes(), b[key].tobytes(), key)

    def refuse_other_order(self, case, out, options, folder):
        """A run of an earlier version whose measurements were in an order that is no more is not continued."""
        path = os.path.join(out, "checkpoint", "facts")
        with open(path, "rb") as f:
            kept = f.read()
        text = kept[:kept.rindex(b"crc ")] + b"tlr_order 1\n"
        with open(path, "wb") as f:
            f.write(text + b"crc %08x\n" % zlib.crc32(text))
        p = moao_test.Run(case, "-o", out, "--resume", *options, ranks=1, cwd=folder)
        self.assertEqual(p.wait(60), 2, p.text)
        self.assertIn("--resume of a run with compute.tlr_order joint or morton", p.text)
        with open(path, "wb") as f:
            f.write(kept)

    def test_check(self):
        """`moao check` predicts ranks and memory of the factor."""
        folder = tempfile.mkdtemp(prefix="moao-tlr-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        case = os.path.join(folder, "case.yaml")
        with open(case, "w") as f:
            f.write(CASE)
        p = moao("check", case, *SMALL, *TLR)
        self.assertRegex(p.stdout, r"compressed +\d+ tiles of \d+, rank \d+ on average, \d+ % dense")
        c, = told(self.tlr)
        j = json.loads(moao("check", case, *SMALL, *TLR, "--json").stdout)["compression"]
        self.assertLess(abs(j["mean_rank"] / c["mean_rank"] - 1), 0.4)
        self.assertLess(abs(j["bytes"] / c["bytes"] - 1), 0.4)


if __name__ == "__main__":
    unittest.main()
