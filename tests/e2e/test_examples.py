"""The example programs do on the CPU what they say, built as their first lines say but from the build folder."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from moao_test import MOAO, ROOT, environment  # noqa: E402

BUILD = os.path.dirname(MOAO)


def run(*command):
    """Exit code and output of a command."""
    p = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       universal_newlines=True, check=False)
    return p.returncode, p.stdout


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        for path in glob.glob(os.path.join(ROOT, "examples", "*.c")):
            program = os.path.join(cls.folder, os.path.basename(path)[:-2])
            code, text = run(os.environ.get("CC", "cc").split()[-1], "-O2", "-D_GNU_SOURCE",
                             "-I" + os.path.join(ROOT, "src"), "-I" + os.path.join(ROOT, "src/backend"),
                             path, os.path.join(BUILD, "libmoao.a"), "-o", program, "-fopenmp", "-lopenblas", "-ldl",
                             "-lpthread", "-lm")
            if code != 0:
                raise RuntimeError(text)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_solve(self):
        """The linear system is solved."""
        code, text = run(os.path.join(self.folder, "solve"), "cpu")
        self.assertEqual(code, 0, text)

    def ranks(self, tolerance):
        """Ranks that compress prints, the share that is kept, the error."""
        code, text = run(os.path.join(self.folder, "compress"), "cpu", tolerance)
        self.assertEqual(code, 0, text)
        rows = [line.split() for line in text.splitlines()[:-1]]
        kept = float(re.search(r"(\d+) % of the matrix", text).group(1))
        error = float(re.search(r"error of the others (\S+)", text).group(1))
        return rows, kept, error

    def test_compress(self):
        """Every tile off the diagonal is within the tolerance; distant tiles and loose tolerances need fewer columns;
        the matrix is symmetric, and so are the ranks to one."""
        loose, kept, error = self.ranks("1e-3")
        tight, kept_tight, error_tight = self.ranks("1e-6")
        self.assertLess(error, 1.01e-3)
        self.assertLess(error_tight, 1.01e-6)
        self.assertLess(kept, kept_tight)
        self.assertLess(kept_tight, 60)
        size = len(loose)
        self.assertEqual(size, 8)
        for i in range(size):
            self.assertEqual(loose[i][i], "*")
            for j in range(size):
                if i != j:
                    self.assertLess(int(loose[i][j]), int(tight[i][j]))
                    self.assertLessEqual(abs(int(loose[i][j]) - int(loose[j][i])), 1)
        self.assertLess(int(loose[0][7]), int(loose[0][1]))


if __name__ == "__main__":
    unittest.main()
