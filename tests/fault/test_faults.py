"""What a failing, killed or stopped rank leaves behind: all ranks end soon, one message says why, and a resumed run
gives the maps of the uninterrupted one."""
# timeout: 900
# seconds: 60
import glob
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import unittest

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import QUICK_CASE, ROOT, Run, maps, parts, wait_for_parts, write_case  # noqa: E402

LIMIT = 60  # seconds in which all ranks must end after a failure


def places():
    """Where a run by panels can be made to fail: the names in its calls of comm_fault."""
    found = set()
    for folder, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in names:
            if name.endswith(".c"):
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    found |= set(re.findall(r'comm_fault\([^",]*,\s*"(\w+)"\)', f.read()))
    return sorted(found)


def processes_with(word):
    """Numbers of the processes whose command line contains a word."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if word.encode() in f.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


class Faults(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="moao-fault-")
        cls.case = write_case(os.path.join(cls.dir, "case.yaml"), QUICK_CASE)
        cls.reference = cls.path("reference")
        run = cls.start("reference")
        if run.wait(300) != 0:
            raise AssertionError(run.text)
        cls.expected = maps(cls.reference)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dir, ignore_errors=True)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.dir, name)

    @classmethod
    def start(cls, name, *args, ranks=2, env=None, case=None):
        return Run(case or cls.case, *args, "-o", cls.path(name), ranks=ranks, env=env, cwd=cls.dir)

    def assert_same(self, name, tolerance=None):
        """Maps of a run against the uninterrupted one's: bit for bit, or the numbers to a share of the largest."""
        found = maps(self.path(name))
        self.assertEqual(sorted(found), sorted(self.expected))
        for key, a in self.expected.items():
            b = found[key]
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape), key)
            if tolerance is None:
                self.assertEqual(a.tobytes(), b.tobytes(), key)
            elif a.dtype.kind == "f":
                known = ~numpy.isnan(a)
                self.assertTrue((known == ~numpy.isnan(b)).all(), key)
                if known.any():
                    error = abs(a - b)[known].max() / abs(a[known]).max().clip(1e-300)
                    self.assertLessEqual(error, tolerance, key)

    def assert_resumes(self, name, **more):
        before = {p: os.stat(p).st_mtime_ns for p in parts(self.path(name))}
        run = self.start(name, "--resume", **more)
        self.assertEqual(run.wait(300), 0, run.text)
        return before, run

    def test_failure_ends_all_ranks(self):
        """A rank that fails in any stage ends all ranks soon, with exit code 1 and its message once."""
        self.assertTrue({"matcov", "factor", "solve", "exposure"} <= set(places()), places())
        options = {"nodes": ["targets.sampling=nodes", "targets.tolerance=0.05", "schedule.end=10 min"],
                   "round": ["compute.factor=distributed", "compute.product=toeplitz"]}
        device = {"ahead": {"MOAO_TEST_DEVICE": "cpu", "MOAO_TEST_AHEAD": "yes"}}  # the host prepares exposures while one computes
        for place in places():
            for rank in (0, 1):
                with self.subTest(place=place, rank=rank):
                    name = "fail-%s-%d" % (place, rank)
                    run = self.start(name, *options.get(place, []),
                                     env={**device.get(place, {}), "MOAO_FAULT": "%s:%d" % (place, rank)})
                    self.assertEqual(run.wait(LIMIT), 1, run.text)
                    lines = [s for s in run.text.splitlines() if "injected fault" in s]
                    self.assertEqual(len(lines), 1, run.text)
                    self.assertIn("rank %d: " % rank, lines[0])
                    self.assertIn(place, lines[0])
                    self.assertFalse(os.path.exists(os.path.join(self.path(name), "maps.fits")))

    def test_failure_on_one_rank(self):
        """The same on a single rank."""
        run = self.start("fail-alone", ranks=1, env={"MOAO_FAULT": "solve:0"})
        self.assertEqual(run.wait(LIMIT), 1, run.text)
        self.assertEqual(run.text.count("injected fault"), 1, run.text)

    def test_rank_dies_in_a_stage(self):
        """A rank that is killed inside a collective stage ends all ranks soon; the run resumes."""
        for place in ("factor", "exposure"):
            with self.subTest(place=place):
                run = self.start("die-" + place, env={"MOAO_FAULT": place + ":1:kill"})
                self.assertNotIn(run.wait(LIMIT), (0, 3), run.text)
                self.assert_resumes("die-" + place)
                self.assert_same("die-" + place)

    def test_kill_9_and_resume(self):
        """kill -9 of a rank in the middle: resumed maps equal bit for bit, finished parts are not written again."""
        run = self.start("killed")
        wait_for_parts(run, self.path("killed"), 5)
        os.kill(run.ranks()[-1], signal.SIGKILL)
        self.assertNotIn(run.wait(LIMIT), (0, 3), run.text)
        kept = len(parts(self.path("killed")))
        self.assertGreaterEqual(kept, 5)
        self.assertFalse(os.path.exists(os.path.join(self.path("killed"), "maps.fits")))
        again = self.start("killed", "--resume")
        again.wait(300)
        self.assertEqual(again.code, 0, again.text)
        self.assert_same("killed")

    def test_stop_and_resume(self):
        """USR1 to mpirun, and TERM to a rank: exit code 3 at the next checkpoint; resumed maps equal bit for bit."""
        for name, sig in (("usr1", signal.SIGUSR1), ("term", signal.SIGTERM)):
            with self.subTest(signal=name):
                run = self.start(name)
                wait_for_parts(run, self.path(name), 3)
                os.kill(run.process.pid if name == "usr1" else run.ranks()[0], sig)
                self.assertEqual(run.wait(LIMIT), 3, run.text)
                self.assertFalse(os.path.exists(os.path.join(self.path(name), "maps.fits")))
                self.assertIn("--resume", run.text)
                before = {p: os.stat(p).st_mtime_ns for p in parts(self.path(name))}
                # stop it once more, then let it end
                run = self.start(name, "--resume")
                wait_for_parts(run, self.path(name), len(before) + 2)
                os.kill(run.process.pid, signal.SIGUSR1)
                self.assertEqual(run.wait(LIMIT), 3, run.text)
                for p, t in before.items():
                    self.assertEqual(os.stat(p).st_mtime_ns, t, "computed again: " + p)
                self.assert_resumes(name)
                self.assert_same(name)

    def test_resume_on_other_ranks(self):
        """A run stopped on 2 ranks and resumed on 3, then 1, agrees to 1e-10."""
        run = self.start("ranks")
        wait_for_parts(run, self.path("ranks"), 3)
        os.kill(run.process.pid, signal.SIGUSR1)
        self.assertEqual(run.wait(LIMIT), 3, run.text)
        run = self.start("ranks", "--resume", ranks=3)
        wait_for_parts(run, self.path("ranks"), len(parts(self.path("ranks"))) + 2)
        os.kill(run.process.pid, signal.SIGUSR1)
        self.assertEqual(run.wait(LIMIT), 3, run.text)
        self.assert_resumes("ranks", ranks=1)
        self.assert_same("ranks", 1e-10)

    def test_damaged_part_is_computed_again(self):
        """A part with one changed byte does not count; the maps are those of the uninterrupted run."""
        run = self.start("damaged")
        wait_for_parts(run, self.path("damaged"), 3)
        os.kill(run.process.pid, signal.SIGUSR1)
        self.assertEqual(run.wait(LIMIT), 3, run.text)
        part = sorted(parts(self.path("damaged")))[0]
        with open(part, "r+b") as f:
            f.seek(-9, os.SEEK_END)
            byte = f.read(1)
            f.seek(-9, os.SEEK_END)
            f.write(bytes([byte[0] ^ 1]))
        _, run = self.assert_resumes("damaged")
        self.assertIn(os.path.basename(part), run.text)
        self.assert_same("damaged")

    def test_changed_parameters_are_refused(self):
        """Resuming with another value, or another profile in a file, ends with exit code 2 and names the difference."""
        layers = "{time: 0, r0: 15 cm, layers: {altitude: [0, 4000, 10000], fraction: [0.6, 0.3, 0.1]}}"
        self.assertIn(layers, QUICK_CASE)
        night = self.path("night.yaml")
        case = write_case(self.path("case-file.yaml"), QUICK_CASE.replace(layers, "{time: 0, file: night.yaml}"))

        def write_night(r0):
            write_case(night, "r0: %s\nlayers: {altitude: [0, 4000, 10000], fraction: [0.6, 0.3, 0.1]}\n" % r0)

        write_night("15 cm")
        run = self.start("changed", case=case)
        wait_for_parts(run, self.path("changed"), 2)
        os.kill(run.process.pid, signal.SIGUSR1)
        self.assertEqual(run.wait(LIMIT), 3, run.text)

        run = self.start("changed", "loop.delay=0.003", "--resume", case=case)
        self.assertEqual(run.wait(LIMIT), 2, run.text)
        self.assertIn("loop.delay", run.text)
        run = self.start("changed", "sensors[1].magnitude=12", "--resume", case=case)
        self.assertEqual(run.wait(LIMIT), 2, run.text)
        self.assertRegex(run.text, r"sensors\[1\]\.magnitude|sensors\.1\.magnitude")
        write_night("14 cm")
        run = self.start("changed", "--resume", case=case)
        self.assertEqual(run.wait(LIMIT), 2, run.text)
        self.assertRegex(run.text, r"profiles\[0\]")
        run = self.start("changed", case=case)  # neither resumed nor overwritten: refused too
        self.assertEqual(run.wait(LIMIT), 2, run.text)
        self.assertIn("--resume", run.text)

        write_night("15 cm")  # as it was: goes on, also with another chunk size
        run = self.start("changed", "compute.targets_per_chunk=3", "--resume", case=case)
        self.assertEqual(run.wait(300), 0, run.text)
        self.assert_same("changed", 1e-10)

    def test_no_process_stays(self):
        """After a failure no rank of the run is left."""
        run = self.start("left", env={"MOAO_FAULT": "exposure:1"})
        self.assertEqual(run.wait(LIMIT), 1, run.text)
        end = time.monotonic() + 30
        while processes_with(self.path("left")) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertEqual(processes_with(self.path("left")), [])


if __name__ == "__main__":
    unittest.main()
