"""What the shell offers beside the program: manual pages of every command and parameter that groff finds nothing wrong
with, and completion of commands, options, keys and words in bash and zsh. All is made from the program's own words."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
from moao_start import COMMANDS  # noqa: E402


def call(*command, stdin=""):
    p = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                       env=environment(), check=True)
    return p.stdout, p.stderr


def commands():
    return re.findall(r"^  ([a-z][a-z-]*)  ", call(MOAO, "--help")[0], re.M)


class Shell(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        for script in ("make-man.sh", "make-completion.sh"):
            call("sh", os.path.join(ROOT, "scripts", script), MOAO, cls.folder.name)
        cls.keys = [line.split() for line in call(MOAO, "params", "--keys")[0].splitlines()]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def show(self, name):
        """Lines of a page as a terminal shows them, without the overstrikes that make letters bold."""
        text, complaints = call("groff", "-man", "-Tascii", "-ww", "-P-c", self.path(name))
        self.assertEqual(complaints, "")
        return re.sub(".\x08", "", text).split("\n")

    def test_pages(self):
        self.assertGreaterEqual(len(commands()), 4)
        pages = ["moao.1", "moao-parameters.5"] + ["moao-%s.1" % c for c in commands()] + [c + ".1" for c in COMMANDS]
        for name in pages:
            with self.subTest(name):
                lines = self.show(name)
                for section in ("NAME", "DESCRIPTION", "SEE ALSO"):
                    self.assertTrue(section in lines, section)
        lines = self.show("moao-run.1")
        at = lines.index("       --resume")
        self.assertIn("go on", lines[at + 1])
        with open(self.path("moao-parameters.5"), encoding="utf-8") as f:
            page = f.read()
        for line in self.keys:
            self.assertTrue("\n.B %s\n" % line[1] in page, line)

    # what is typed, the last word being completed; what must be offered; what must not
    CASES = [
        (["moao", "ru"], ["run"], ["check"]),
        (["moao", "run", "--res"], ["--resume"], ["--overwrite", "--ranks"]),
        (["moao", "run", "telescope.z"], ["telescope.zenith="], ["telescope.diameter="]),
        (["moao", "check", "lgs_defaults.al"], ["lgs_defaults.altitude="], []),
        (["moao", "check", "ngs_defaults.al"], [], ["ngs_defaults.altitude="]),
        (["moao", "run", "sensors[3].mag"], ["sensors[3].magnitude=", "sensors[3].magnification="], []),
        (["moao", "run", "sensors.LGS1.rin"], ["sensors.LGS1.ring.n="], []),
        (["moao", "run", "atmosphere.profiles[0].see"], ["atmosphere.profiles[0].seeing="], []),
        (["moao", "run", "psf.weighting", "=", "e"], ["energy"], ["uniform"]),
        (["moao", "run", "output.psf", "="], ["short", "long", "none"], []),
        (["moao", "run", "sensors[0].type", "=", ""], ["ngs", "lgs"], []),
        (["moao", "params", "tel"], ["telescope"], ["targets"]),
        (["moao", "run", "mine"], ["mine.yaml"], []),
        (["moao-plot", "--wa"], ["--wavelength"], ["--output"]),
        (["moao-stars", "-"], ["-o", "--magnitude"], ["--wavelength"]),
        (["moao-view", "mine"], ["mine.yaml"], []),
    ]

    def check(self, words, offered, wanted, unwanted):
        for w in wanted:
            self.assertIn(w, offered, words)
        for w in unwanted:
            self.assertNotIn(w, offered, words)

    def test_bash(self):
        with open(self.path("mine.yaml"), "w", encoding="ascii"):
            pass
        for words, wanted, unwanted in self.CASES:
            with self.subTest(words):
                script = "cd %s; . ./moao.bash; complete -p moao %s >/dev/null || exit 9\n" % (self.folder.name, words[0])
                script += "COMP_WORDS=(%s) COMP_CWORD=%d; _moao%s; printf '%%s\\n' \"${COMPREPLY[@]}\"\n" % (
                    " ".join("'%s'" % w for w in words), len(words) - 1, "" if words[0] == "moao" else "_results")
                self.check(words, call("bash", stdin=script)[0].split("\n"), wanted, unwanted)

    def test_zsh(self):
        """With stand-ins for zsh's own commands: what is given to compadd and begins as what is typed is offered."""
        stand_ins = """
compadd() { local s=''; while [[ $1 == -* ]]; do case $1 in -S) s=$2; shift 2 ;; --) shift; break ;; esac; done
  local w; for w in "$@"; do [[ $w == ${PREFIX}* ]] && print -r -- "$w$s"; done; return 0; }
compset() { PREFIX=${PREFIX#*=}; }
_files() { print -rl -- ${PREFIX}*(N); }
"""
        with open(self.path("mine.yaml"), "w", encoding="ascii"):
            pass
        for words, wanted, unwanted in self.CASES:
            if "=" in words:  # one word in zsh
                at = words.index("=")
                words = words[:at - 1] + ["".join(words[at - 1:])]
            with self.subTest(words):
                script = "cd %s\n%swords=(%s) CURRENT=%d PREFIX='%s' service=%s\n. ./_moao\n" % (
                    self.folder.name, stand_ins, " ".join("'%s'" % w for w in words), len(words), words[-1], words[0])
                self.check(words, call("zsh", "-f", stdin=script)[0].split("\n"), wanted, unwanted)


if __name__ == "__main__":
    unittest.main()
