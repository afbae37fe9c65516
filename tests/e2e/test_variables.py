"""The variables of the environment: one table in the program, what docs/variables.md says of them, what the sources read; words
that they may not have are refused, and faults are not to be had without the tests' own library."""
import glob
import os
import re
import tempfile
import unittest

from moao_case import MOAO, ROOT, moao
import moao_test

CASE = os.path.join(ROOT, "params", "canary.yaml")


def table():
    """{name: (words, sentence)} as `moao help variables` tells."""
    lines = moao("help", "variables", ranks=1).stdout.splitlines()
    return {a.split("=")[0]: (a.split("=", 1)[1], b.strip()) for a, b in zip(lines[::2], lines[1::2])}


def names_in(pattern, *paths):
    found = set()
    for path in sum((glob.glob(os.path.join(ROOT, p), recursive=True) for p in paths), []):
        with open(path, encoding="utf-8") as f:
            found |= set(re.findall(pattern, f.read()))
    return found


class Variables(unittest.TestCase):
    def test_table(self):
        """Every variable that the program reads is in it, once, and in the page, with the same words."""
        lines = moao("help", "variables", ranks=1).stdout.splitlines()[::2]
        self.assertEqual(len(lines), len(set(lines)))
        known = table()
        self.assertLessEqual(names_in(r'getenv\("(MOAO_\w+)"\)', "src/**/*.c", "src/**/*.cu"), set(known))
        read = names_in(r'(MOAO_[A-Z_]+)', "src/**/*.c", "src/**/*.cu", "scripts/*", "tests/support/fault_hook.c")
        self.assertLessEqual(set(known), read)
        with open(os.path.join(ROOT, "docs", "variables.md"), encoding="utf-8") as f:
            page = f.read()
        for name, (words, sentence) in known.items():
            self.assertIn("| `%s` | %s | %s |" % (name, words.replace("|", ", "), sentence), page)

    def test_words(self):
        """A word that is not one of them: one line, exit code 2; a name that is almost one: a warning."""
        for name, (words, _) in table().items():
            if "|" not in words or name == "MOAO_FAULT":
                continue
            p = moao("check", CASE, env={name: "garbage"}, check=False)
            self.assertEqual(p.returncode, 2, p.stderr)
            self.assertEqual(p.stderr, "moao: %s=garbage: expected one of %s, or nothing\n" % (name, words))
        p = moao("check", CASE, env={"MOAO_PROGRES": "log", "MOAO_PROGRESS": ""})
        self.assertIn("warning: MOAO_PROGRES is no variable of moao: MOAO_PROGRESS is one", p.stderr)

    def test_no_faults(self):
        """MOAO_FAULT without the library of the tests is refused."""
        env = moao_test.environment(MOAO_FAULT="flip-w:0")
        self.assertIn("faults.so", env.pop("LD_PRELOAD"))
        with tempfile.TemporaryDirectory() as folder:
            p = moao_test.subprocess.run([MOAO, "run", CASE, "-o", os.path.join(folder, "out")], env=env, capture_output=True,
                                         text=True)
            self.assertEqual((p.returncode, os.listdir(folder)), (2, []))
        self.assertRegex(p.stderr, r"^moao: MOAO_FAULT: faults are for the tests of this project alone[^\n]*\n$")


if __name__ == "__main__":
    unittest.main()
