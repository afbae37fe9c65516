"""Starting a run where something is short or misunderstood: room for mpirun's session, open files, ranks that do not come
up or are many, signals after their end, srun without PMIx, a quota of processor time, numbers of threads that are none."""
# timeout: 400
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import MOAO, QUICK_CASE, ROOT, environment, open_mpi_5, parts, patience, write_case  # noqa: E402

ELT = os.path.join(ROOT, "params", "elt-small.yaml")
SMALL = """
telescope: {diameter: 4 m}
dm: {nssp: 4}
sensors: [{type: ngs, nssp: 4, magnitude: 10, direction: [0, 0], slope: points}]
targets: {list: [[0, 0]]}
atmosphere: {profiles: [{time: 0, r0: 15 cm, layers: {altitude: [0], fraction: [1]}}]}
psf: {residual: sensor}
"""


class Launch(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="moao-launch-")
        self.case = write_case(os.path.join(self.folder, "case.yaml"), SMALL)
        self.out = os.path.join(self.folder, "out")

    def tearDown(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, *words, before=(), env=None, seconds=120):
        """(exit code, output, time) of a command, by default a run on two ranks; what it leaves running is ended."""
        words = words or ("run", "-n", "2", self.case, "-o", self.out, "--overwrite")
        begin = time.monotonic()
        p = subprocess.run(list(before) + [MOAO, *words], env=environment(**(env or {})), capture_output=True, text=True, timeout=patience(seconds),
                           check=False)
        return p.returncode, p.stdout + p.stderr, time.monotonic() - begin

    def refused(self, code, text, *parts):
        """One line, with these words in it."""
        self.assertEqual(code, 2, text)
        self.assertEqual(len(text.strip().splitlines()), 1, text)
        for part in parts:
            self.assertIn(part, text)

    def test_session_folder_is_full(self):
        """mpirun would wait for ever with 1 MB left for its session. One rank alone needs none."""
        place = os.path.join(self.folder, "session")
        os.mkdir(place)
        mount = "mount -t tmpfs -o size=1m tmpfs %s && TMPDIR=%s exec \"$@\"" % (place, place)
        before = ["unshare", "-m"] + ([] if os.geteuid() == 0 else ["-Ur"]) + ["sh", "-c", mount, "sh"]
        if subprocess.run(before + ["true"], capture_output=True, check=False).returncode == 0:
            code, text, _ = self.call("run", "-n", "2", self.case, "-o", self.out, before=before)
            self.refused(code, text, place, "1.0 MB left", "TMPDIR")
            code, text, _ = self.call("run", self.case, "-o", self.out, before=before)
            self.assertEqual(code, 0, text)
        code, text, _ = self.call(env={"TMPDIR": self.folder + "/nowhere"})
        self.refused(code, text, self.folder + "/nowhere", "TMPDIR")

    def test_many_at_once(self):
        """Processes that are alone start and end at once, without a folder that they share."""
        place = os.path.join(self.folder, "sessions")
        os.mkdir(place)
        loop = 'for i in 1 2 3 4 5; do "$@" || exit 1; ls -A %s; done' % place
        started = [subprocess.Popen(["sh", "-ec", loop, "sh", MOAO, "check", self.case], env=environment(TMPDIR=place),
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(4)]
        for p in started:
            text = p.communicate(timeout=patience(120))[0]
            self.assertEqual(p.returncode, 0, text)
            self.assertNotIn("ompi", text)

    def hit(self, number, of_mpirun=False, **env):
        """(exit code, lines) of a run on three ranks that gets a signal while it computes, or whose mpirun does."""
        write_case(self.case, QUICK_CASE)
        shutil.rmtree(self.out, ignore_errors=True)
        p = subprocess.Popen([MOAO, "run", "-n", "3", self.case, "-o", self.out, "-q"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             env=environment(**env))
        end = time.monotonic() + patience(120)
        while not parts(self.out) and time.monotonic() < end and p.poll() is None:
            time.sleep(0.02)
        with open("/proc/%d/task/%d/children" % (p.pid, p.pid), encoding="ascii") as f:
            os.kill(int(f.read().split()[0]) if of_mpirun else p.pid, number)
        text = p.communicate(timeout=patience(60))[0]
        return p.returncode, [s for s in text.splitlines() if "warning" not in s and "asked" not in s]

    def ended_early(self, numbers, **env):
        """A step that is given up at once, and an mpirun that is ended from elsewhere: told by the run, or by the launcher, alone."""
        code, lines = self.hit(signal.SIGTERM, SLURM_JOB_END_TIME="1", **env)
        self.assertEqual((code, len(lines)), (3, 1), lines)
        self.assertRegex(lines[0], "^moao: stopped by a signal with .* finished; the step in progress.* is dropped; go on with --resume$")
        for number in numbers:
            code, lines = self.hit(number, of_mpirun=True, **env)
            self.assertIn(code, (1, 3), lines)
            self.assertRegex(lines[-1], "^moao: .*go on with --resume$")
            self.assertLessEqual(len(lines), 2, lines)  # that of the run, where it came out

    def test_ended_early(self):
        self.ended_early((signal.SIGTERM, signal.SIGKILL))

    def test_open_mpi_5(self):
        """The same with PyPI's Open MPI 5: nothing is left, a TMPDIR that cannot be used is not needed, refusals are one line."""
        found = open_mpi_5(os.path.join(self.folder, "openmpi5"))
        if not found:
            self.skipTest("PyPI was not reached: no Open MPI 5")
        place = os.path.join(self.folder, "sessions")
        os.mkdir(place)
        for where in (place, self.folder + "/nowhere"):
            code, text, _ = self.call("run", self.case, "-o", self.out, "-q", "--overwrite", env=dict(found, TMPDIR=where))
            self.assertEqual((code, text), (0, ""))
        code, text, _ = self.call("run", "-n", "14", self.case, "-o", self.out, "-q", "--overwrite", env=dict(found, TMPDIR=place))
        self.assertEqual((code, text), (0, ""))
        code, text, _ = self.call("run", "-n", "5", self.case, "-o", self.out, "dm.nssp=-1", env=dict(found, TMPDIR=place))
        self.refused(code, text, "dm.nssp")
        self.assertEqual(os.listdir(place), [])
        self.assertFalse(os.path.exists(self.folder + "/nowhere"))
        self.ended_early((signal.SIGTERM,), **found)

    def test_no_folder_no_path(self):
        """A current folder that was removed; an environment without PATH."""
        gone = os.path.join(self.folder, "gone")
        code, text, _ = self.call(before=["sh", "-c", "mkdir %s; cd %s; rmdir %s; exec \"$@\"" % (gone, gone, gone), "sh"])
        self.refused(code, text, "current folder", "change to another")
        p = subprocess.run([MOAO, "run", "-n", "2", self.case, "-o", self.out, "--overwrite", "-q"], env={}, capture_output=True,
                           text=True, timeout=patience(120), check=False)
        self.assertEqual((p.returncode, p.stderr), (0, ""))

    def test_open_files(self):
        """The soft limit is raised; a hard one that is too low is told."""
        for ranks in ((), ("-n", "2")):
            code, text, _ = self.call("run", *ranks, self.case, "-o", self.out,
                                      before=["sh", "-c", "ulimit -n 24; exec \"$@\"", "sh"])
            self.refused(code, text, "24 open files", "ulimit -n")
        code, text, _ = self.call(before=["sh", "-c", "ulimit -S -n 24; exec \"$@\"", "sh"])
        self.assertEqual(code, 0, text)

    def test_ranks_that_do_not_come_up(self):
        """An mpirun that hangs, and whose child ignores TERM, is ended with what it started."""
        fake = os.path.join(self.folder, "bin")
        os.mkdir(fake)
        nap = "1000.%d" % os.getpid()
        write_case(fake + "/mpirun", "#!/bin/sh\ntrap '' TERM\nsleep %s &\nwait\nwait\n" % nap)
        os.chmod(fake + "/mpirun", 0o755)
        code, text, took = self.call(env={"PATH": fake + ":" + os.environ["PATH"], "MOAO_START_SECONDS": "2"})
        self.assertEqual(code, 1, text)
        self.assertRegex(text, r"^moao: mpirun did not start the ranks within 2 s and was ended: .*TMPDIR")
        self.assertLess(took, patience(20))
        end = time.monotonic() + 60
        while subprocess.run(["pgrep", "-f", "^sleep " + re.escape(nap)], stdout=subprocess.DEVNULL, check=False).returncode == 0:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def signalled(self, script):
        """(exit code, output) of a run that gets INT when mpirun, this script in its place, has made the file "ended"."""
        fake, mark = os.path.join(self.folder, "bin"), os.path.join(self.folder, "ended")
        os.makedirs(fake, exist_ok=True)
        write_case(fake + "/mpirun", "#!/bin/sh\nshift 2\n%s\ntouch %s\nexec sleep 1000\n" % (script, mark))
        os.chmod(fake + "/mpirun", 0o755)
        p = subprocess.Popen([MOAO, "run", "-n", "2", self.case, "-o", self.out, "--overwrite"], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, env=environment(PATH=fake + ":" + os.environ["PATH"]))
        end = time.monotonic() + patience(120)
        while not os.path.exists(mark) and time.monotonic() < end:
            time.sleep(0.02)
        p.send_signal(signal.SIGINT)
        text = p.communicate(timeout=patience(60))[0]
        os.unlink(mark)
        return p.returncode, text

    def test_signal_after_the_end(self):
        """A signal that meets mpirun alone, after the ranks have ended, does not make a run "stopped": its code is that of the
        ranks. Before that it does."""
        code, text = self.signalled('"$@"')
        self.assertEqual(code, 0, text)
        self.assertNotIn("--resume", text)
        self.assertTrue(os.path.exists(os.path.join(self.out, "run.json")))
        code, text = self.signalled('"$@" dm.nssp=-1')
        self.assertEqual(code, 2, text)
        code, text = self.signalled(":")
        self.assertEqual(code, 3, text)
        self.assertIn("go on with --resume", text)

    def test_mpirun_ends_before_its_ranks_begin(self):
        """As Open MPI's, ended by a signal, does without a word."""
        fake = os.path.join(self.folder, "bin")
        os.makedirs(fake)
        write_case(fake + "/mpirun", "#!/bin/sh\nexit 1\n")
        os.chmod(fake + "/mpirun", 0o755)
        code, text, _ = self.call(env={"PATH": fake + ":" + os.environ["PATH"]})
        self.assertEqual(code, 1)
        self.assertRegex(text, r"\Amoao: mpirun ended \(exit code 1\), .*: go on with --resume\n\Z")

    def test_many_ranks(self):
        """More ranks on a node than a socket holds words that nobody has read yet (10, where Linux is left as it is)."""
        code, text, _ = self.call("run", "-n", "14", self.case, "-o", self.out)
        self.assertEqual(code, 0, text)

    def test_a_start_in_time_is_left_alone(self):
        """Once the ranks are up they may take as long as they like."""
        code, text, _ = self.call("run", "-n", "2", self.case, "-o", self.out, "psf.oversampling=16",
                                  env={"MOAO_START_SECONDS": "120"})
        self.assertEqual(code, 0, text)

    def test_srun_without_pmix(self):
        """Processes of one step of SLURM that do not know of each other: the first one tells, all end."""
        step = {"SLURM_JOB_ID": "7", "SLURM_STEP_NUM_TASKS": "4", "SLURM_NTASKS": "4"}
        words = ("run", self.case, "-o", self.out)
        code, text, _ = self.call(*words, env=dict(step, SLURM_PROCID="0"))
        self.refused(code, text, "srun --mpi=pmix", "mpirun -n 4")
        code, text, _ = self.call(*words, env=dict(step, SLURM_PROCID="3"))
        self.assertEqual((code, text), (2, ""))
        self.assertFalse(os.path.exists(self.out))
        # the script of a job with several tasks, which is no step
        code, text, _ = self.call(*words, env={"SLURM_JOB_ID": "7", "SLURM_NTASKS": "4", "SLURM_PROCID": "0"})
        self.assertEqual(code, 0, text)

    def threads(self, before=(), **env):
        code, text, _ = self.call("check", ELT, before=before,
                                  env=dict({"OMP_NUM_THREADS": None, "OPENBLAS_NUM_THREADS": None}, **env))
        self.assertEqual(code, 0, text)
        return int(re.search(r"(\d+) threads?", text).group(1)), text

    def test_numbers_of_threads(self):
        """What is no number counts for nothing, and is told; an empty one is not there."""
        usual, text = self.threads()
        self.assertNotIn("THREADS", text)
        for value in ("", "nonsense", "0", "-3", "2x"):
            with self.subTest(value=value):
                found, text = self.threads(OMP_NUM_THREADS=value)
                self.assertEqual(found, usual)
                self.assertEqual("moao: warning: OMP_NUM_THREADS=" + value in text, value != "", text)
        self.assertEqual(self.threads(OMP_NUM_THREADS="3")[0], 3)
        self.assertEqual(self.threads(OMP_NUM_THREADS="nonsense", OPENBLAS_NUM_THREADS="3")[0], 3)

    def test_unbound(self):
        """Of two ranks Open MPI 5 binds each to one core, unasked: they use all that mpirun may use, but not where its options
        say where ranks go."""
        core = str(min(os.sched_getaffinity(0)))
        parent = ["sh", "-c", "taskset -c %s \"$@\"; exit $?" % core]
        usual = self.threads()[0]
        self.assertEqual(self.threads(before=parent + ["sh"], PRTE_LAUNCHED="1")[0], usual)
        self.assertEqual(self.threads(before=parent + ["sh"])[0], 1)
        asked = ["sh", "-c", "shift; taskset -c %s \"$@\"; exit $?" % core, "sh", "--bind-to"]
        self.assertEqual(self.threads(before=asked, PRTE_LAUNCHED="1")[0], 1)
        self.assertEqual(self.threads(before=parent + ["sh"], PRTE_LAUNCHED="1", PRTE_MCA_hwloc_default_binding_policy="core")[0], 1)

    def children(self, **env):
        """Names of the processes that `moao check` has started, by looking while it lives. A process that was forked a moment
        ago still has its parent's name: the last one seen counts."""
        p = subprocess.Popen([MOAO, "check", self.case], env=environment(**env), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found = {}
        while p.poll() is None:
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open("/proc/%s/stat" % pid, encoding="utf-8", errors="replace") as f:
                        name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
                except OSError:
                    continue
                if int(rest.split()[1]) == p.pid:
                    found[pid] = name
        self.assertEqual(p.returncode, 0)
        return set(found.values())

    def test_no_daemon(self):
        """A process that nothing has launched starts none of Open MPI's daemons, unless the user wants one."""
        self.assertEqual(self.children(), set())
        self.assertEqual(self.children(OMPI_MCA_ess_singleton_isolated="1"), set())
        self.assertEqual(self.children(PMIX_MCA_gds="hash"), set())
        if re.search(r"Open MPI v?4\.", self.call("--version")[1]):
            self.assertEqual(self.children(OMPI_MCA_ess_singleton_isolated="0"), {"orted"})

    def test_devices_are_not_asked(self):
        """Of a process that nothing has launched MPI asks no driver of a GPU what it has, unless the user or a launcher says otherwise."""

        def enabled(**env):
            words = self.call("check", self.case, env=dict(env, HWLOC_COMPONENTS_VERBOSE="1"))[1]
            self.assertIn("hwloc: Enabling discovery component `linux'", words)
            return set(re.findall("hwloc: Enabling discovery component `([^']*)'", words)) - {"linux", "x86", "no_os"}

        self.assertEqual(enabled(), set())
        self.assertEqual(enabled(PMIX_MCA_gds="hash"), set())
        usual = enabled(HWLOC_COMPONENTS="-levelzero")
        if usual:
            self.assertEqual(enabled(OMPI_MCA_pml="ob1"), usual)
        self.assertNotIn("pci", enabled(HWLOC_COMPONENTS="-pci"))

    def test_quota(self):
        """A control group with the time of one core: one thread, whatever the number of cores."""
        for top, limit in (("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"), ("/sys/fs/cgroup", "cpu.max")):
            group = "%s/moao-test-%d" % (top, os.getpid())
            try:
                os.mkdir(group)
            except OSError:
                continue
            try:
                with open(group + "/" + limit, "w", encoding="ascii") as f:
                    f.write("100000" if limit.endswith("us") else "100000 100000")
            except OSError:
                os.rmdir(group)
                continue
            enter = "echo $$ >%s/cgroup.procs && exec \"$@\"" % group
            try:
                self.assertEqual(self.threads(before=["sh", "-c", enter, "sh"])[0], 1)
            finally:
                self.leave(group)
            return

    def leave(self, group):
        """Remove a control group once the last process of it (MPI has a daemon) is gone."""
        end = time.monotonic() + 60
        while True:
            try:
                return os.rmdir(group)
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def test_device_starts_on_a_thread(self):
        """The plugin of a GPU is loaded by a thread of its own; never for a case on CPUs. A failure of the run is one line."""
        plugin = r"""
            #include <stdio.h>
            #include <string.h>
            #include <sys/syscall.h>
            #include <unistd.h>
            const void *moao_gpu_backend_2(void *set, char *why, size_t len);
            const void *moao_gpu_backend_2(void *set, char *why, size_t len) {
                FILE *f = fopen("loaded", "w");
                fprintf(f, "%d", syscall(SYS_gettid) != getpid());
                fclose(f);
                (void)set;
                strncpy(why, "no GPU but a test", len);
                return NULL;
            }"""
        library, loaded = self.folder + "/libmoao_gpu.so", self.folder + "/loaded"
        for text, name in ((plugin, library), ("", self.folder + "/libcuda.so.1")):
            subprocess.run(["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-x", "c", "-", "-o", name], input=text, text=True, check=True)
        env = {"MOAO_GPU_PLUGIN": library, "LD_LIBRARY_PATH": self.folder}
        run = ("run", self.case, "-o", self.out, "--overwrite")
        here = ["sh", "-c", "cd %s && exec \"$@\"" % self.folder, "sh"]
        write_case(self.case, SMALL + "compute: {backend: cpu}\n")
        self.assertEqual(self.call(*run, before=here, env=env)[0], 0)
        self.assertFalse(os.path.exists(loaded))
        write_case(self.case, SMALL)
        code, text, _ = self.call(*run, before=here, env=env)
        self.assertEqual((code, "no GPU but a test" in text), (0, True), text)
        with open(loaded, encoding="ascii") as f:
            self.assertEqual(f.read(), "1")
        code, text, _ = self.call(*run[:-1], before=here, env=env)
        self.refused(code, text, "--overwrite")


if __name__ == "__main__":
    unittest.main()
