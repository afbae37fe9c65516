"""What is typed: moao help, moao run -n, limits of the process, where the plugin is looked for, what is never overwritten,
scripts under another python3."""
# seconds: 40
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, SHORT_CASE, maps, parts, patience, write_case  # noqa: E402

COMMANDS = ("run", "check", "sweep", "asterism", "psf", "budget", "lab", "params", "import", "import-legacy")


def plain_environment(**more):
    """As a new user has it: nothing set for Open MPI."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX", "OMP_", "OPENBLAS_NUM"))}
    env.update(more)
    return env


def call(*args, timeout=120, **kw):
    kw.setdefault("env", plain_environment())
    return subprocess.run(list(args), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, timeout=patience(timeout), check=False, **kw)


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        self.case = write_case(os.path.join(self.dir, "case.yaml"), SHORT_CASE)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def test_help(self):
        """moao help COMMAND and moao COMMAND --help say the same, within 80 columns."""
        self.assertIn("sweep", call(MOAO, "help").stdout)
        for command in COMMANDS:
            p = call(MOAO, "help", command)
            self.assertEqual(p.returncode, 0)
            self.assertIn("usage: moao " + command, p.stdout)
            self.assertEqual(p.stdout, call(MOAO, command, "--help").stdout)
            self.assertEqual([x for x in p.stdout.split("\n") if len(x) > 80], [], command)
        p = call(MOAO, "help", "\x9brun")
        self.assertEqual((p.returncode, p.stderr), (2, "moao: unknown command ??run; see moao help\n"))

    def test_run_starts_its_own_ranks(self):
        """moao run -n 2 needs no mpirun in front and no settings, as root neither; its maps are those of mpirun."""
        p = call(MOAO, "run", "-n", "2", self.case, "-o", "own", "-q", cwd=self.dir)
        self.assertEqual((p.returncode, p.stdout), (0, ""), p.stderr)
        from moao_case import moao
        moao("run", self.case, "-o", self.path("theirs"), "-q", ranks=2)
        own, theirs = maps(self.path("own")), maps(self.path("theirs"))
        self.assertEqual(sorted(own), sorted(theirs))
        for name, a in own.items():
            self.assertEqual(a.tobytes(), theirs[name].tobytes(), name)

    def test_bad_input_on_own_ranks_is_one_line(self):
        p = call(MOAO, "run", "-n", "2", self.case, "dm.nssp=many", "-o", "out", cwd=self.dir)
        self.assertEqual(p.returncode, 2)
        self.assertEqual(len(p.stderr.splitlines()), 1, p.stderr)
        self.assertIn("dm.nssp", p.stderr)
        p = call(MOAO, "run", "-n", "2", self.case, "-ranks", "4", cwd=self.dir)
        self.assertEqual((p.returncode, p.stderr.count("\n")), (2, 1))
        self.assertIn("unknown option -ranks; see moao help run", p.stderr)

    def test_resume_of_nothing_is_told(self):
        p = call(MOAO, "run", self.case, "targets={list: [[0, 0]]}", "schedule.exposure_interval=15 min", "-o", "typo", "-q",
                 "--resume", cwd=self.dir)
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertIn("--resume: typo holds no run yet", p.stderr)

    def test_demo_leaves_other_folders_alone(self):
        """scripts/demo.sh into a folder that holds something else is refused."""
        os.mkdir(self.path("mine"))
        with open(self.path("mine", "notes.txt"), "w", encoding="ascii") as f:
            f.write("keep me")
        p = call("sh", os.path.join(ROOT, "scripts", "demo.sh"), self.path("mine"), env=plain_environment(MOAO=MOAO))
        self.assertEqual(p.returncode, 2, p.stdout + p.stderr)
        self.assertEqual(os.listdir(self.path("mine")), ["notes.txt"])

    def test_nothing_reaches_the_terminal_that_it_obeys(self):
        """Control characters of the command line and of files, C1 too, are not printed."""
        hostile = "\x1b[2J\x9b31m"
        bad = self.path("b%s.yaml" % hostile)
        with open(bad, "w", encoding="utf-8") as f:
            f.write("title: x\ntelescop\u009be: {}\n")
        for args in (["check", hostile], ["check", bad], ["check", self.case, "dm.%s=3" % hostile],
                     ["check", self.case, "title=a", "-%s" % hostile], ["check", self.case, "--ranks", hostile],
                     ["run", self.case, "-o", hostile + "/x/", "dm.nssp=x"], ["sweep", self.case, "a%s=[1,2]" % hostile, "-o", "o"],
                     ["params", hostile], ["params", "--" + hostile], ["help", hostile], [hostile],
                     ["import-legacy", hostile, "b", "-o", "c"], ["import-legacy", "-" + hostile]):
            p = call(MOAO, *args, cwd=self.dir)
            self.assertEqual(p.returncode, 2, args)
            found = [c for c in p.stderr if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160]
            self.assertEqual(found, [], (args, p.stderr))

    def test_no_mpirun(self):
        p = call(MOAO, "run", "-n", "2", self.case, env=plain_environment(PATH=self.dir), cwd=self.dir)
        self.assertEqual((p.returncode, p.stderr.count("\n")), (2, 1), p.stderr)
        self.assertIn("mpirun cannot be started", p.stderr)

    def test_interrupt_and_resume(self):
        """Ctrl-C to moao run -n 2: a message, exit code 3, and the same maps after --resume. Of 64 parts two are waited for, so that
        most of the run is left when the signal comes."""
        for sig in (signal.SIGINT, signal.SIGTERM):
            out = "out%d" % sig
            run = subprocess.Popen([MOAO, "run", "-n", "2", self.case, "schedule.exposure_interval=2 min", "-o", out, "-q"],
                                   cwd=self.dir, env=plain_environment(), stderr=subprocess.PIPE, universal_newlines=True)
            end = time.monotonic() + patience(90)
            while len(parts(self.path(out))) < 2 and time.monotonic() < end and run.poll() is None:
                time.sleep(0.01)
            run.send_signal(sig)
            text = run.communicate(timeout=patience(90))[1]
            self.assertEqual(run.returncode, 3, text)
            self.assertIn("--resume", text)
            p = call(MOAO, "run", "-n", "2", self.case, "schedule.exposure_interval=2 min", "-o", out, "-q", "--resume",
                     cwd=self.dir, timeout=200)
            self.assertEqual(p.returncode, 0, p.stderr)

    def test_address_space_too_small(self):
        """Under ulimit -v the program says so at once, and ends; OpenBLAS would ask for memory for ever."""
        for megabytes in (150, 200, 300):
            def limit(n=megabytes << 20):
                resource.setrlimit(resource.RLIMIT_AS, (n, n))
            p = call(MOAO, "check", self.case, preexec_fn=limit, timeout=60)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertRegex(p.stderr, r"\Amoao: the limit of .*\(ulimit -v.*\n\Z")

    def test_stack_too_small(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_STACK, (65536, 65536))
        p = call(MOAO, "check", self.case, preexec_fn=limit, timeout=60)
        self.assertEqual(p.returncode, 2, p.stderr)
        self.assertRegex(p.stderr, r"\Amoao: the limit of 64 KiB .*\(ulimit -s\).*\n\Z")

    def test_plan_counts_the_limit_of_the_process(self):
        """The memory that a plan may use is below the limit on the address space."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        p = call(MOAO, "check", self.case, "--json", preexec_fn=limit)
        self.assertEqual(p.returncode, 0, p.stderr)
        here = json.loads(p.stdout)["here"]
        self.assertLess(here["rank_available_bytes"] * here["ranks"], 2 << 30)

    def test_plugin_is_taken_from_beside_the_program_only(self):
        """A library of that name in a folder above is not loaded; beside the program and in lib/moao it is found."""
        os.makedirs(self.path("a/b/bin"))
        os.makedirs(self.path("a/b/lib/moao"))
        program = shutil.copy(MOAO, self.path("a/b/bin/moao"))
        for place, found in (("a/b", False), ("a", False), ("a/b/bin/moao.d", False), ("a/b/bin", True),
                             ("a/b/lib/moao", True)):
            os.makedirs(self.path(place), exist_ok=True)
            fake = self.path(place, "libmoao_gpu.so")
            open(fake, "wb").close()
            text = call(program, "--version", env=plain_environment(LD_LIBRARY_PATH=self.path("a"))).stdout
            os.unlink(fake)
            self.assertIs("no libmoao_gpu.so" not in text, found, (place, text))

    def test_progress_counts_what_is_done(self):
        """Matrices and a single target: the log begins near 0 %, never goes back, and says 100 % nowhere."""
        p = call(MOAO, "run", self.case, "output.matrices=[Cmm, W]", "targets={list: [[0, 0]]}", "-o", "out", cwd=self.dir,
                 timeout=200)
        self.assertEqual(p.returncode, 0, p.stderr)
        done = [int(x) for x in re.findall(r"\((\d+)% done, ", p.stderr)]
        self.assertGreater(len(done), 10, p.stderr)
        self.assertLess(done[0], 5, p.stderr)
        self.assertEqual(done, sorted(done))
        self.assertGreater(len(set(done)), 5)
        self.assertLess(done[-1], 100)
        left = [60 * int(a) + int(b) for a, b in re.findall(r"done, (\d+):(\d+) left", p.stderr)]
        self.assertGreater(max(left[:len(left) // 2]), 0, p.stderr)

    def test_threads_follow_the_size_of_the_case(self):
        """A small case takes one thread unless the user says otherwise; on another number a resumed run keeps the first."""
        def threads(folder):
            with open(self.path(folder, "run.json"), encoding="utf-8") as f:
                return json.load(f)["machine"]["threads_per_rank"]
        one = ["targets={list: [[0, 0]]}", "compute.threads=0", "-q", "-o"]
        for folder, more, expected in (("default", {}, 1), ("asked", {"OMP_NUM_THREADS": "2"}, 2)):
            p = call(MOAO, "run", self.case, *one, folder, cwd=self.dir, env=plain_environment(**more), timeout=200)
            self.assertEqual(p.returncode, 0, p.stderr)
            self.assertEqual(threads(folder), expected)

    def test_threads_that_wait_take_no_cores(self):
        """Two threads use hardly more time of the processor than one, and give the same bits as threads that spin."""
        def spent(folder, **env):
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            p = call(MOAO, "run", self.case, "compute.threads=0", "-q", "-o", folder, cwd=self.dir, env=plain_environment(**env),
                     timeout=300)
            self.assertEqual(p.returncode, 0, p.stderr)
            return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        one = spent("one", OMP_NUM_THREADS="1")
        self.assertLess(spent("two", OMP_NUM_THREADS="2"), 2 * one + 0.3)
        spent("spin", OMP_NUM_THREADS="2", OMP_WAIT_POLICY="active", OPENBLAS_THREAD_TIMEOUT="26")
        two, spin = maps(self.path("two")), maps(self.path("spin"))
        for name, a in two.items():
            self.assertEqual(a.tobytes(), spin[name].tobytes(), name)

    def test_no_alarm_about_a_kernel_on_busy_cores(self):
        """A kernel for this processor's generation is no reason for a warning, however slow the cores are; an old one is."""
        cores = sorted(os.sched_getaffinity(0))[:1]
        busy = [subprocess.Popen([sys.executable, "-c", "import os\nos.sched_setaffinity(0, %r)\nwhile True: pass" % cores])
                for _ in range(6)]
        try:
            p = call(MOAO, "check", self.case, env=plain_environment(OPENBLAS_CORETYPE="HASWELL"),
                     preexec_fn=lambda: os.sched_setaffinity(0, cores))
        finally:
            for b in busy:
                b.kill()
                b.wait()
        self.assertEqual(p.returncode, 0, p.stderr)
        self.assertNotIn("OpenBLAS", p.stderr)
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
            modern = re.search(r"\bavx2\b.*\n", f.read()) is not None
        if modern:
            p = call(MOAO, "check", self.case, env=plain_environment(OPENBLAS_CORETYPE="NEHALEM"))
            self.assertIn("kernel Nehalem, which is for older processors", p.stderr)

    def test_import_does_not_overwrite(self):
        target = self.path("kept.yaml")
        with open(target, "w", encoding="utf-8") as f:
            f.write("mine\n")
        p = call(MOAO, "import-legacy", "sys", "prof", "-o", target, cwd=self.dir)
        self.assertEqual(p.returncode, 2)
        self.assertIn("kept.yaml is there already", p.stderr)
        self.assertIn("--force", p.stderr)
        p = call(MOAO, "import-legacy", "sys", "prof", "-o", target, "--force", cwd=self.dir)
        self.assertIn("sys:1:1: file: cannot be read", p.stderr)  # on to the next check
        with open(target, encoding="utf-8") as f:
            self.assertEqual(f.read(), "mine\n")

    def test_scripts_find_the_distributions_python(self):
        """Under a python3 without numpy a script starts anew with the distribution's."""
        made = subprocess.run([sys.executable, "-m", "venv", "--without-pip", self.path("venv")], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if made.returncode != 0:  # no venv here: isolate the same python instead
            self.skipTest("python3 -m venv does not work: %s" % made.stdout[-200:])
        for script in ("compare_backends.py", "gpu-busy.py"):
            p = call(self.path("venv/bin/python3"), os.path.join(ROOT, "scripts", script), "--help")
            self.assertEqual((p.returncode, p.stderr), (0, ""), script)
            self.assertIn("usage:", p.stdout)
            p = call(self.path("venv/bin/python3"), os.path.join(ROOT, "scripts", script), "--help",
                     env=plain_environment(MOAO_PYTHON_STARTED_ANEW=script))
            self.assertEqual((p.returncode, p.stderr.count("\n")), (2, 1), p.stderr)
            self.assertIn("apt install python3-", p.stderr)
        results = os.path.join(ROOT, "scripts", "moao-results")
        p = call(self.path("venv/bin/python3"), results, "python", "-c", "import astropy, moao, sys; print(sys.argv, moao.__file__)", "x")
        self.assertEqual((p.returncode, p.stderr, p.stdout.split("] ")[0]), (0, "", "['-c', 'x'"))
        self.assertTrue(p.stdout.endswith("python/moao/__init__.py\n"), p.stdout)
        p = call(self.path("venv/bin/python3"), results, "python", "-c", "1", env=plain_environment(MOAO_PYTHON_STARTED_ANEW="moao-python"))
        self.assertEqual((p.returncode, p.stderr.count("\n")), (2, 1), p.stderr)
        self.assertIn("moao-python: %s has no numpy and no astropy: apt install" % self.path("venv/bin/python3"), p.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
