"""What `make install` leaves works from its own place; install-deps.sh says and does the right thing on other machines;
lint.py finds what it is for."""
import glob
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import MOAO, ROOT, as_built, environment  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
from moao_start import COMMANDS  # noqa: E402


def call(*command, env=None, cwd=None):
    """Exit code and output of a command."""
    p = subprocess.run(command, env=env or environment(), cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    return p.returncode, p.stdout


class Install(unittest.TestCase):
    def test_install(self):
        """Program, parameter files and scripts are installed below DESTDIR/prefix, and work from there."""
        with tempfile.TemporaryDirectory() as d:
            code, text = call("make", "-C", ROOT, "--no-print-directory", "install", "DESTDIR=" + d, "prefix=/opt/m", *as_built())
            self.assertEqual(code, 0, text)
            top = d + "/opt/m"
            code, text = call(top + "/bin/moao", "--version", cwd=d)
            self.assertEqual(code, 0, text)
            self.assertIn(call(MOAO, "--version")[1].split("\n")[0], text)
            shared = sorted(os.listdir(top + "/share/moao/params"))
            self.assertEqual(shared, sorted(os.listdir(ROOT + "/params")))
            code, text = call(top + "/bin/moao", "check", top + "/share/moao/params/demo.yaml", cwd=d)
            self.assertEqual(code, 0, text)
            for name in ("moao.sbatch", "campaign.sbatch", "collect_campaign.py", "plot_maps.py", "mpi-env.sh"):
                self.assertTrue(os.access("%s/share/moao/scripts/%s" % (top, name), os.X_OK), name)
            for name in ("LICENSE", "CITATION.cff", "README.md", "docs/user-guide.md", "examples/stars.ecsv"):
                self.assertTrue(os.path.exists("%s/share/doc/moao/%s" % (top, name)), name)
            for name in ("man/man1/moao.1", "man/man1/moao-run.1", "man/man5/moao-parameters.5",
                         "bash-completion/completions/moao", "zsh/site-functions/_moao"):
                self.assertGreater(os.path.getsize("%s/share/%s" % (top, name)), 500, name)
            self.assertIn("eso35-median.yaml", os.listdir(top + "/share/moao/params/profiles"))
            # nothing is written elsewhere
            self.assertEqual(os.listdir(d), ["opt"])
            # the commands on results find the installed package, not this one, from any Python
            for command in COMMANDS:
                code, text = call(sys.executable, "-S", top + "/bin/" + command, "--help", cwd=d)
                self.assertEqual(code, 0, text)
                self.assertIn("usage: " + command, text)
                self.assertGreater(os.path.getsize("%s/share/man/man1/%s.1" % (top, command)), 500)
                with open("%s/share/bash-completion/completions/%s" % (top, command), encoding="utf-8") as f:
                    self.assertIn(command + ")", f.read())
            code, text = call(sys.executable, "-B", "-c", "import moao; print(moao.__file__, moao.__version__)", cwd=d,
                              env=environment(PYTHONPATH=top + "/share/moao/python"))
            with open(ROOT + "/VERSION", encoding="ascii") as f:
                self.assertEqual(text.split(), [top + "/share/moao/python/moao/__init__.py", f.read().strip()])
            with open(d + "/mine.py", "w", encoding="ascii") as f:
                f.write("import astropy, sys, moao\nprint(moao.__file__, sys.argv[1])\n")
            code, text = call(sys.executable, "-S", top + "/bin/moao-python", "mine.py", "-o", cwd=d)
            self.assertEqual((code, text), (0, top + "/share/moao/python/moao/__init__.py -o\n"))
            self.check_links(top + "/share/doc/moao")
            code, text = call(top + "/share/moao/scripts/plot_maps.py", d, cwd=d)
            self.assertEqual((code, len(text.splitlines())), (2, 1), text)


    def check_links(self, folder):
        """Every relative link of the installed pages leads to a file that is installed."""
        n = 0
        for page in glob.glob(folder + "/**/*.md", recursive=True):
            with open(page, encoding="utf-8") as f:
                text = re.sub(r"^```.*?^```", "", f.read(), flags=re.S | re.M)
            for target in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", text):
                if not re.match(r"[a-z]+:", target):
                    self.assertTrue(os.path.exists(os.path.join(os.path.dirname(page), target)), "%s: %s" % (page, target))
                    n += 1
        self.assertGreater(n, 100)


class Dependencies(unittest.TestCase):
    """install-deps.sh with a PATH of its own, where apt and its helpers are what a test makes them."""

    def setUp(self):
        self.bin = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.bin)
        for tool in ("sh", "cut", "tr", "sed", "sort", "mktemp", "rm", "tail", "env", "echo"):
            os.symlink(shutil.which(tool), os.path.join(self.bin, tool))

    def tool(self, name, body):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="ascii") as f:
            f.write("#!/bin/sh\n%s\n" % body)
        os.chmod(path, 0o755)

    def call(self, *args):
        return call(os.path.join(self.bin, "sh"), ROOT + "/scripts/install-deps.sh", *args, env={"PATH": self.bin})

    def test_no_apt(self):
        """Without apt it names the packages and does not stop the build."""
        code, text = self.call("--build")
        self.assertEqual(code, 0, text)
        self.assertIn("no apt", text)
        self.assertIn("libscalapack-openmpi-dev", text)

    def test_nothing_missing(self):
        """It says nothing when everything is there, and asks for no rights."""
        self.tool("apt-get", "exit 9")
        self.tool("dpkg-query", "echo 'ii '")
        self.assertEqual(self.call("--build", "--test", "--demo"), (0, ""))

    def test_no_rights(self):
        """Neither root nor sudo: exit code 1, naming exactly what is missing."""
        self.tool("apt-get", "exit 9")
        self.tool("id", "echo 1000")
        self.tool("dpkg-query", 'case $4 in libfftw3-dev|libyaml-dev) echo "un ";; *) echo "ii ";; esac')
        code, text = self.call()
        self.assertEqual(code, 1)
        self.assertIn("missing: libfftw3-dev libyaml-dev \n", text)
        self.assertIn("no sudo", text)

    def test_sudo(self):
        """Not root but sudo: apt-get runs under it, for the missing packages only."""
        self.tool("id", "echo 1000")
        self.tool("sudo", 'echo "sudo $*" >>%s/log; exec "$@"' % self.bin)
        self.tool("apt-get", 'echo "apt-get $*" >>%s/log' % self.bin)
        self.tool("apt-cache", "exit 0")
        self.tool("dpkg-query", 'case $4 in libfftw3-dev|clang-format*) echo "un ";; *) echo "ii ";; esac')
        code, text = self.call("--test")
        self.assertEqual(code, 0, text)
        with open(self.bin + "/log", encoding="ascii") as f:
            log = f.read()
        self.assertRegex(log, r"sudo env .* install -y --no-install-recommends clang-format-14 libfftw3-dev\n")

    def test_install_fails(self):
        """A failing apt-get gives exit code 1, its last words and the names."""
        self.tool("id", "echo 0")
        self.tool("apt-get", 'echo "E: no network"; exit 100')
        self.tool("apt-cache", "exit 0")
        self.tool("dpkg-query", 'case $4 in libfftw3-dev) echo "un ";; *) echo "ii ";; esac')
        code, text = self.call()
        self.assertEqual(code, 1, text)
        self.assertIn("E: no network", text)
        self.assertIn("could not install: libfftw3-dev", text)


class Lint(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        spec = importlib.util.spec_from_file_location("lint", ROOT + "/scripts/lint.py")
        cls.lint = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(cls.lint)

    def test_include_direction(self):
        """Wrong directions are refused, right ones allowed."""
        for source, header, good in (
                ("src/tor/tor.c", "src/matcov/matcov.h", True), ("src/matcov/fill.c", "src/tor/tor.h", False),
                ("src/store/store.c", "src/psf/psf.h", False), ("src/main.c", "src/psf/psf.h", True),
                ("src/linalg/tlr/mat.c", "src/base/comm.h", False), ("src/matcov/mat.c", "src/linalg/include/moao/tlr.h", True),
                ("src/gpu/dense/trsm.cu", "src/linalg/include/moao/backend.h", True), ("src/gpu/dense/trsm.cu", "src/base/comm.h", False),
                ("src/linalg/core/backend.c", "src/gpu/gpu.h", False), ("src/main.c", "src/gpu/gpu.h", False)):
            self.assertEqual(self.lint.allowed(source, header), good, (source, header))

    def test_words_and_sizes(self):
        """Unfinished marks, switched-off code and long functions are found; plain code is not."""
        found = []
        lines = ["int f(void) {", "    /* TO" + "DO: more */", "#if 0", "// x = 1;", "}", "int g(void) {"]
        lines += ["    work();"] * 80 + ["}"]
        self.lint.check_words("src/a.c", lines, lambda *a: found.append(a))
        self.assertEqual([a[1] for a in found], [2, 3, 4])
        found.clear()
        self.lint.check_size("src/a.c", lines, lambda *a: found.append(a))
        self.assertEqual([a[1] for a in found], [6])
        found.clear()
        self.lint.check_words("src/a.c", ["/* Model section 4 */", "    return a / b;"], lambda *a: found.append(a))
        self.assertEqual(found, [])
        self.lint.check_words("a.md", ["<" * 7 + " HEAD", "=" * 7, ">" * 7 + " main"], lambda *a: found.append(a))
        self.assertEqual([a[1] for a in found], [1, 3])

    def test_scripts_parse(self):
        """Each script of the project is one that lint parses."""
        for path in glob.glob(ROOT + "/scripts/*"):
            with open(path, encoding="utf-8") as f:
                self.lint.check_script(os.path.relpath(path, ROOT), f.read(), lambda *a: self.fail(a))


if __name__ == "__main__":
    unittest.main()
