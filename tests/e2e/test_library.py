"""What the program, the library of linear algebra and the plugin show of themselves, and which plugins are taken."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import MOAO, ROOT, as_built, environment  # noqa: E402

CC = os.environ.get("CC", "cc").split()[-1]


def run(*command, env=None):
    """Exit code and output of a command."""
    p = subprocess.run(command, env=env or environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       universal_newlines=True, check=False)
    return p.returncode, p.stdout


def symbols(path, *options):
    """Names and kinds of the symbols that a file defines for others."""
    code, text = run("nm", "--defined-only", *options, path)
    if code != 0:
        raise RuntimeError(text)
    lines = [line.split() for line in text.splitlines()]
    return {w[2].split("@")[0]: w[1] for w in lines if len(w) == 3 and w[1] != "A"}


class Symbols(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dest = tempfile.mkdtemp()
        code, text = run("make", "-C", ROOT, "--no-print-directory", "install-linalg", "DESTDIR=" + cls.dest,
                         "prefix=/opt/m", *as_built())
        if code != 0:
            raise RuntimeError(text)
        cls.top = cls.dest + "/opt/m"
        cls.declared, cls.names = set(), set()
        for path in glob.glob(cls.top + "/include/moao/*.h"):
            with open(path, encoding="utf-8") as f:
                text = re.sub(r"/\*.*?\*/|__attribute__\(\((?:[^()]|\([^()]*\))*\)\)", "", f.read(), flags=re.S)
            cls.declared |= set(re.findall(r"^MOAO_PUBLIC [^;(]*?\b(\w+)\s*[(;,]", text, re.M))
            cls.names |= set(re.findall(r"^#define (\w+)|^typedef [^;{]*?\(?\*?\b(\w+)\)?(?:\([^;]*\))?;|^\} (\w+);", text, re.M))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.dest)

    def test_libraries(self):
        """Both libraries define for others what their headers declare, and nothing else; the names begin with moao_."""
        self.assertIn("moao_backend_get", self.declared)
        self.assertEqual(set(symbols(self.top + "/lib/libmoao_linalg.so", "-D")), self.declared)
        self.assertEqual(set(symbols(self.top + "/lib/libmoao_linalg.a", "-g")), self.declared)

    def test_prefix(self):
        """What a program sees of the headers begins with moao_ or MOAO_."""
        names = {n for some in self.names for n in some if n}
        self.assertGreater(len(names), 100)
        self.assertEqual({n for n in names | self.declared if not re.match("moao_|MOAO_", n)}, set())

    def test_version(self):
        """moao/version.h is that of the project."""
        with open(os.path.join(self.top, "include/moao/version.h"), encoding="utf-8") as f:
            numbers = re.findall(r"^#define MOAO_LINALG_M?\w+ (\d+)$", f.read(), re.M)
        with open(os.path.join(ROOT, "VERSION"), encoding="utf-8") as f:
            self.assertEqual(".".join(numbers), f.read().strip())

    def test_manual(self):
        """Each public function and each header has a manual page with its declaration, which roff sets without a warning."""
        pages = self.top + "/share/man/man3/"
        for name in sorted(self.declared):
            self.assertTrue(os.path.exists(pages + name + ".3"), name)
            with open(pages + name + ".3", encoding="utf-8") as f:
                text = f.read()
            if text.startswith(".so man3/"):
                with open(pages + text.split("/")[1].strip(), encoding="utf-8") as f:
                    text = f.read()
            self.assertIn(name, text)
        if shutil.which("groff"):
            for path in glob.glob(pages + "moao_*.3"):
                with open(path, encoding="utf-8") as f:
                    if f.read(4) != ".so ":
                        self.assertEqual(run("groff", "-man", "-ww", "-z", "-b", "-K", "utf8", path), (0, ""))

    def test_edges(self):
        """Every function that the headers declare is called by the programs that call them at their edges, which the
        sanitizers see (status_set by its macro)."""
        text = ""
        for path in glob.glob(os.path.join(ROOT, "tests/unit/test_library_*.c")) + [ROOT + "/tests/support/" + h for h in ("edges.h", "batched_real.h")]:
            with open(path, encoding="utf-8") as f:
                text += f.read()
        names = {n[len("moao_"):] for n in self.declared} - {"status_set"} | {"status_fail"}
        # those of batched.h are called in both precisions by one text, CALL(potrf_batched)
        self.assertEqual([n for n in sorted(names) if not re.search(r"\b(?:moao_)?%s\b" % n, text)
                          and not (n.endswith("batched") and "CALL(%s)" % n[1:] in text)], [])

    def test_program(self):
        """The program shows no function to what it loads: a plugin gets the one it needs when it is asked for its
        table. The variable through which a recorder is told of phases (bench/gpu/busy.c) is there."""
        shown = symbols(MOAO, "-D")
        self.assertEqual([n for n, kind in shown.items() if kind in "TtWw"], [])
        self.assertEqual(shown.get("report_listener"), "B")

    def test_headers_alone(self):
        """Every installed header compiles by itself."""
        names = sorted(os.path.basename(h) for h in glob.glob(self.top + "/include/moao/*.h"))
        self.assertGreater(len(names), 12)
        for name in names:
            code, text = run(CC, "-std=c11", "-D_GNU_SOURCE", "-fsyntax-only", "-Werror", "-I" + self.top + "/include", "-include", "moao/" + name,
                             "-x", "c", os.devnull)
            self.assertEqual(code, 0, text)

    def test_installed_headers(self):
        """An example is built with the installed headers and library alone, statically and dynamically, and runs."""
        flags = run("pkg-config", "--cflags", "moao-linalg",
                    env=environment(PKG_CONFIG_PATH=self.top + "/lib/pkgconfig"))[1].split()
        flags = [f.replace("/opt/m", self.top) for f in flags]
        for name, libs in (("static", [self.top + "/lib/libmoao_linalg.a", "-fopenmp", "-lopenblas", "-ldl", "-lpthread"]),
                           ("shared", ["-L" + self.top + "/lib", "-Wl,-rpath," + self.top + "/lib", "-lmoao_linalg"])):
            for example in ("solve", "batched"):
                program = os.path.join(self.dest, example + "-" + name)
                code, text = run(CC, "-D_GNU_SOURCE", *flags, ROOT + "/examples/%s.c" % example, "-o", program, *libs, "-lm")
                self.assertEqual(code, 0, text)
                code, text = run(program, "cpu")
                self.assertEqual(code, 0, text)

    def test_tester(self):
        """The installed tester runs."""
        code, text = run(self.top + "/bin/moao-tester", "potrf", "--n", "8", "--device", "cpu", "--repeat", "1")
        self.assertEqual(code, 0, text)
        self.assertTrue(text.endswith(" ok\n"), text)


class Page(unittest.TestCase):
    def test_examples(self):
        """Every example of docs/library.md compiles behind the page's beginning, runs on the CPU and prints what its comment says."""
        with open(os.path.join(ROOT, "docs/library.md"), encoding="utf-8") as f:
            start, *examples = re.findall(r"^```c\n(.*?)^```", f.read(), re.S | re.M)
        self.assertGreaterEqual(len(examples), 6)
        start = start.replace('"auto"', '"cpu"')
        with tempfile.TemporaryDirectory() as d:
            for text in examples:
                with open(d + "/page.c", "w", encoding="utf-8") as f:
                    f.write(start + text)
                code, out = run(CC, "-D_GNU_SOURCE", "-Wall", "-Werror", "-Wno-unused-function", "-I" + ROOT + "/src/linalg/include", d + "/page.c",
                                os.path.dirname(MOAO) + "/libmoao.a", "-o", d + "/page", "-fopenmp", "-lopenblas", "-ldl", "-lpthread", "-lm")
                self.assertEqual(code, 0, out)
                self.assertEqual(run(d + "/page"), (0, re.search(r"Prints: (.*?) \*/", text).group(1) + "\n"))


class Plugins(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.plugin = cls.folder + "/libmoao_gpu.so"
        code, text = run(CC, "-shared", "-fPIC", "-D_GNU_SOURCE", "-include", ROOT + "/src/linalg/core/short.h", "-I" + ROOT + "/src", "-I" + ROOT + "/src/linalg/include", ROOT + "/tests/support/plugin.c",
                         "-o", cls.plugin)
        if code == 0:  # an empty library stands for a driver
            code, text = run(CC, "-shared", "-x", "c", "/dev/null", "-o", cls.folder + "/libcuda.so.1")
        if code != 0:
            raise RuntimeError(text)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def gpu(self, table, off):
        """The program's line about GPUs, with a plugin of which a table's size is off by so many bytes."""
        code, text = run(MOAO, "--version", env=environment(
            MOAO_GPU_PLUGIN=self.plugin, LD_LIBRARY_PATH=self.folder, MOAO_TEST_TABLE=table, MOAO_TEST_BYTES=str(off)))
        self.assertEqual(code, 0, text)
        return re.search("^GPU .*", text, re.M).group(0)

    def test_same_version(self):
        """A plugin with the tables of this version is taken, also without the families that it need not have."""
        self.assertIn("plugin of the tests", self.gpu("none", 0))
        for table in ("matcov", "psf", "group"):
            self.assertIn("plugin of the tests", self.gpu(table, "missing"))

    def test_another_version(self):
        """A plugin is refused when any of its tables is longer or shorter, or one that it must have is missing."""
        words = {"batch": "batched operations", "half": "operations on FP16 numbers", "lowrank": "low-rank operations",
                 "sparse": "products with sparse matrices", "matcov": "covariances", "psf": "PSFs", "group": "groups"}
        for off in (8, -8):
            self.assertRegex(self.gpu("backend", off),
                             r"belongs to another version: its table has \d+ bytes instead of \d+")
            for table, what in words.items():
                self.assertRegex(self.gpu(table, off),
                                 "belongs to another version: its table of %s has \\d+ bytes instead of \\d+" % what)
        for table in ("batch", "half", "lowrank", "sparse"):
            self.assertIn("belongs to another version", self.gpu(table, "missing"))


if __name__ == "__main__":
    unittest.main()
