"""moao-tester: every routine of the library passes at small sizes in both precisions, a wrong result of each is noticed, sizes and
options are read as its help says, and what is refused is named."""
import csv
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment  # noqa: E402

TESTER = next((p for p in (os.path.join(os.path.dirname(MOAO), "moao-tester"),) if os.path.exists(p)), ROOT + "/build/moao-tester")
SMALL = ("--n", "20", "--batch", "2", "--tile", "8", "--rank", "4", "--nrhs", "2", "--repeat", "1", "--device", "cpu")


def tester(*words):
    """Exit code, output, and what goes to stderr."""
    p = subprocess.run([TESTER, *words], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                       check=False)
    return p.returncode, p.stdout, p.stderr


def table(*words):
    """Exit code, and the lines of the table by their columns."""
    code, out, _ = tester(*words, "--csv")
    return code, list(csv.DictReader(out.splitlines()))


def listed():
    """Routines by family, as the help has them."""
    families, name = {}, None
    for line in tester("--help")[1].splitlines():
        if line.startswith("Family "):
            name = line.split()[1]
            families[name] = []
        elif name and line:
            families[name].append(line.split()[0])
    return families


class Tester(unittest.TestCase):
    def test_all(self):
        """Every routine of the help passes: in both precisions, all letters of triangles and transpositions, by batches."""
        names = [n for some in listed().values() for n in some]
        self.assertGreater(len(names), 40)
        code, lines = table("all", *SMALL, "--type", "d,s", "--uplo", "L,U", "--transa", "N,T", "--lapack", "no")
        self.assertEqual(code, 0, lines)
        self.assertEqual({line["routine"] for line in lines}, set(names))
        self.assertEqual({line["result"] for line in lines}, {"ok"})
        for name in listed()["dense"] + listed()["lowrank"] + listed()["products"]:
            self.assertEqual({line["type"] for line in lines if line["routine"] == name}, {"d", "s"}, name)
        for line in lines:
            self.assertGreater(float(line["time [ms]"]), 0)
            self.assertGreater(float(line["rate [GFLOP/s]"]), 0)

    def test_large(self):
        """Without a batch the operations on large matrices run, from both sides, with LAPACK's time."""
        code, lines = table("dense", "--m", "30", "--n", "21", "--k", "11", "--side", "L,R", "--transb", "T", "--diag", "N,U", "--repeat", "1",
                            "--device", "cpu")
        self.assertEqual((code, {line["result"] for line in lines}), (0, {"ok"}))
        self.assertEqual({line["batch"] for line in lines}, {"0"})
        for line in lines:
            self.assertAlmostEqual(float(line["LAPACK [ms]"]) / float(line["time [ms]"]), float(line["times"]), delta=0.02 * float(line["times"]) + 0.01)

    def test_wrong(self):
        """A result of which one entry is off by a twentieth of its largest is wrong in every routine, and the exit code is 1."""
        code, lines = table("all", *SMALL, "--perturb", "0.05", "--lapack", "no")
        self.assertEqual(code, 1)
        self.assertEqual([line["routine"] for line in lines if line["result"] != "WRONG"], [])
        code, lines = table("potrf,gesvj", *SMALL, "--perturb", "1e-12", "--lapack", "no")
        self.assertEqual((code, [line["result"] for line in lines]), (1, ["WRONG", "WRONG"]))

    def test_sizes(self):
        """Lists, steps and factors; all combinations."""
        _, lines = table("potrf", "--n", "4:32:2x,5,10:20:5", "--uplo", "u", "--repeat", "1", "--device", "cpu", "--lapack", "no")
        self.assertEqual([int(line["n"]) for line in lines], [4, 8, 16, 32, 5, 10, 15, 20])
        self.assertEqual({line["uplo"] for line in lines}, {"U"})
        _, lines = table("gemm", "--m", "3,4", "--n", "5,6", "--k", "7", "--repeat", "1", "--device", "cpu", "--lapack", "no", "--check", "0")
        self.assertEqual({(line["m"], line["n"], line["k"]) for line in lines}, {(m, n, "7") for m in "34" for n in "56"})
        self.assertEqual({line["result"] for line in lines}, {"not checked"})

    def test_text(self):
        """The table for readers has the device, a head, and a line for each result."""
        code, out, err = tester("qr", "--n", "8", "--batch", "3", "--device", "cpu", "--repeat", "1")
        lines = out.splitlines()
        self.assertEqual((code, err, len(lines)), (0, "", 3))
        self.assertTrue(lines[0].startswith("cpu: "))
        self.assertRegex(lines[2], r"^qr +d +8 +8 +8 +3 .* ok$")

    def test_refused(self):
        """One line that names the option or the routine; exit code 2."""
        for words, text in ((("potrf", "--n", "16:512:1x"), "--n 16:512:1x: a list"), (("potrf", "--n", "3,,4"), "--n 3,,4: a list"),
                            (("potrf", "--n", "3,"), "--n 3,: a list"), (("potrf", "--uplo", "q"), "--uplo q: a list of its letters"),
                            (("potrf", "--batch", "0"), "--batch 0: a number, at least 1,"), (("potrf", "--tol", "x"), "--tol x: a number"),
                            (("nothing",), "there is no routine nothing"), (("potrf", "qr"), "one list of routines"),
                            (("potrf", "--device", "abacus"), "unknown backend 'abacus'"), (("potrf", "--lapack", "maybe"), "yes or no")):
            code, _, err = tester(*words)
            self.assertEqual(code, 2, words)
            self.assertRegex(err, r"^moao-tester: .*%s.*\n$" % re.escape(text))
        code, lines, err = tester("orgqr", "--m", "3", "--n", "5", "--device", "cpu", "--batch", "1")
        self.assertEqual(code, 1)
        self.assertIn("orgqr needs n at most m", lines)

    def test_help(self):
        """The help has every option that is read, and every family."""
        text = tester("--help")[1]
        for name in ("m n k nrhs rank tile side uplo transa transb diag type batch device tol repeat check lapack seed csv perturb help").split():
            self.assertIn("  --%s " % name, text)
        self.assertEqual(list(listed()), ["dense", "lowrank", "products", "formats"])


if __name__ == "__main__":
    unittest.main()
