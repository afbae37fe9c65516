"""Signals to a run: any of those that ask for an end stop it at the next checkpoint, with one line and exit code 3, from
its first moments on, with and without mpirun."""
# timeout: 300
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import MOAO, QUICK_CASE, Run, environment, maps, parts, patience, write_case  # noqa: E402

STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


class Signals(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="moao-signals-")
        self.case = write_case(os.path.join(self.folder, "case.yaml"), QUICK_CASE)
        self.out = os.path.join(self.folder, "out")

    def tearDown(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def alone(self, *before, options=("--overwrite",)):
        """One process without mpirun, in a group of its own."""
        return subprocess.Popen(list(before) + [MOAO, "run", self.case, "-o", self.out] + list(options),
                                env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, universal_newlines=True, start_new_session=True)

    def when_at_work(self, process):
        end = time.monotonic() + patience(120)
        while len(parts(self.out)) < 3 and time.monotonic() < end and process.poll() is None:
            time.sleep(0.005)
        self.assertIsNone(process.poll())

    def expect_stop(self, process, code, text):
        """At once a line that says when, unless the checkpoint comes first; at the end one that says how to go on."""
        lines = [line for line in text.splitlines() if line.startswith("moao: ") and "warning" not in line]
        self.assertEqual(code, 3, text)
        self.assertRegex(lines[-1], r"^moao: stopped by a signal with \d+ of 80 PSFs finished; go on with --resume$")
        self.assertLessEqual(len(lines), 2, text)
        for line in lines[:-1]:
            self.assertRegex(line, r"^moao: asked to stop: at the next checkpoint")

    def test_one_process(self):
        """The signal goes to the process, or as a terminal's to its whole group."""
        for sig in STOP:
            for send in (os.kill, os.killpg):
                with self.subTest(signal=sig.name, send=send.__name__):
                    shutil.rmtree(self.out, ignore_errors=True)
                    p = self.alone()
                    self.when_at_work(p)
                    send(p.pid, sig)
                    text = p.communicate(timeout=patience(60))[0]
                    self.expect_stop(p, p.returncode, text)

    def test_a_rank(self):
        """One rank of two gets it, or several at once."""
        for sigs in ((signal.SIGINT,), (signal.SIGHUP,), (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)):
            with self.subTest(signals=sigs):
                shutil.rmtree(self.out, ignore_errors=True)
                run = Run(self.case, "-o", self.out, cwd=self.folder)
                self.when_at_work(run.process)
                for sig in sigs:
                    os.kill(run.ranks()[1], sig)
                self.expect_stop(run, run.wait(60), run.text)

    def test_started_by_the_program(self):
        """`moao run -n 2` in the foreground of a terminal: Ctrl-C, once the ranks are at work and before."""
        for early in (False, True):
            with self.subTest(early=early):
                shutil.rmtree(self.out, ignore_errors=True)
                p = self.alone(options=("-n", "2"))
                if early:
                    self.at_main(p)
                else:
                    self.when_at_work(p)
                os.killpg(p.pid, signal.SIGINT)
                text = p.communicate(timeout=patience(60))[0]
                self.assertEqual(p.returncode, 3, text)
                self.assertIn("--resume", text)

    def test_early(self):
        """Before MPI is there, and while the first matrix is made; and a run that was stopped then goes on."""
        for wait in (0.15, 0.4, 0.7):
            with self.subTest(wait=wait):
                shutil.rmtree(self.out, ignore_errors=True)
                p = self.alone()
                self.at_main(p)
                time.sleep(wait - 0.15)
                os.kill(p.pid, signal.SIGTERM)
                text = p.communicate(timeout=patience(60))[0]
                self.expect_stop(p, p.returncode, text)
        p = self.alone(options=("--resume",))
        text = p.communicate(timeout=patience(120))[0]
        self.assertEqual(p.returncode, 0, text)
        self.assertTrue(maps(self.out))

    def at_main(self, process):
        """Wait until the process catches SIGTERM."""
        end = time.monotonic() + patience(60)
        while time.monotonic() < end:
            with open("/proc/%d/status" % process.pid, encoding="utf-8") as f:
                caught = next(int(line.split()[1], 16) for line in f if line.startswith("SigCgt"))
            if caught >> (signal.SIGTERM - 1) & 1:
                return
            time.sleep(0.001)
        self.fail("SIGTERM is not caught")

    def held(self, launch=(), **env):
        """A run of two ranks of which the second one does not go on: no checkpoint will come."""
        shutil.rmtree(self.out, ignore_errors=True)
        if launch:
            p = subprocess.Popen([MOAO, "run", "-n", "2", self.case, "-o", self.out], env=environment(**env),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 universal_newlines=True, start_new_session=True)
            self.when_at_work(p)
            mpirun = children(p.pid)
            ranks = children(mpirun[0])
        else:
            p = Run(self.case, "-o", self.out, cwd=self.folder, env=env)
            self.when_at_work(p.process)
            ranks = p.ranks()
        os.kill(ranks[1], signal.SIGSTOP)
        return p, ranks

    def test_no_checkpoint_in_time(self):
        """Where the end of the job comes before the next checkpoint, the step in progress is dropped; the run can be
        resumed."""
        for seconds in (30, 60, 120):  # the run must be at work well before: a busy machine needs more
            end = int(time.time()) + seconds
            run, ranks = self.held(SLURM_JOB_END_TIME=str(end))
            if time.time() < end - 15:
                break
            run.kill()
        os.kill(ranks[0], signal.SIGUSR1)
        self.assertEqual(run.wait(seconds + 60), 3, run.text)
        self.assertRegex(run.text, r"(?m)^moao: asked to stop: at the next checkpoint")
        self.assertRegex(run.text, r"(?m)^moao: stopped by a signal with \d+ of 80 PSFs finished; the step in progress"
                         r".* is dropped; go on with --resume$")
        p = self.alone(options=("--resume",))
        text = p.communicate(timeout=patience(120))[0]
        self.assertEqual(p.returncode, 0, text)
        self.assertTrue(maps(self.out))

    def test_asked_again(self):
        """A second signal does not wait for a checkpoint: to a rank, and to the program that started the ranks."""
        run, ranks = self.held()
        os.kill(ranks[0], signal.SIGTERM)
        end = time.monotonic() + patience(60)
        while "asked to stop" not in run.read() and time.monotonic() < end:
            time.sleep(0.02)
        time.sleep(1.2)  # what comes within a second of the first is the first, repeated
        os.kill(ranks[0], signal.SIGTERM)
        self.assertEqual(run.wait(60), 3, run.text)
        self.assertIn("is dropped; go on with --resume", run.text)
        p, ranks = self.held(launch=True)
        os.kill(p.pid, signal.SIGINT)
        text = ""
        while not text.endswith("asked to stop\n"):
            line = p.stdout.readline()
            self.assertTrue(line, text)
            text += line
        time.sleep(1.2)
        os.kill(p.pid, signal.SIGINT)
        text += p.communicate(timeout=patience(60))[0]
        self.assertEqual(p.returncode, 3, text)
        self.assertIn("--resume", text)

    def test_ignored(self):
        """nohup stays in force; a reader that goes away does not end a run."""
        p = self.alone("nohup")
        self.when_at_work(p)
        os.kill(p.pid, signal.SIGHUP)
        os.kill(p.pid, signal.SIGPIPE)
        text = p.communicate(timeout=patience(120))[0]
        self.assertEqual(p.returncode, 0, text)


if __name__ == "__main__":
    unittest.main()
