"""The folder of a sweep: what is in it may be cut, taken or planted; what it cannot hold is refused before anything is made."""
# timeout: 200
import fcntl
import os
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, environment, patience, write_case  # noqa: E402

CASE = """
telescope: {diameter: 4, obscuration: 0.2}
dm: {nssp: 4}
sensors: [{type: ngs, nssp: 4, direction: [20, 10], magnitude: 10, slope: points}]
targets: {list: [[0, 0], [10, 5]]}
psf: {wavelengths: [1.65], residual: sensor}
atmosphere: {profiles: [{time: 0, r0: 0.15, layers: {altitude: [0, 4000], fraction: [0.6, 0.4]}}]}
"""
AGAIN = "to compute it again, remove that folder and repeat the line: rm -r "


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        write_case(self.path("case.yaml"), CASE)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def start(self, *args):
        return subprocess.Popen([MOAO, "sweep", "case.yaml", *args], cwd=self.dir, env=environment(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def sweep(self, *args, code=0):
        p = self.start(*args)
        out, err = p.communicate(timeout=patience(120))
        self.assertEqual(p.returncode, code, out + err)
        return out, err

    def test_damaged_results(self):
        """A run whose results are cut, or gone in part, is told with what to do, and that does it; the others stay."""
        words = ["telescope.zenith=[0, 30]", "-o", "out"]
        self.sweep(*words)
        whole = os.path.getsize(self.path("out", "telescope.zenith=0", "maps.fits"))
        for size in (whole // 2, 0, None):  # None: no maps.fits, though there is a psf.fits
            with self.subTest(size=size):
                maps = self.path("out", "telescope.zenith=0", "maps.fits")
                if size is None:
                    os.unlink(maps)
                else:
                    os.truncate(maps, size)
                _, err = self.sweep(*words, code=1)
                told = [line for line in err.splitlines() if AGAIN in line]
                self.assertEqual(len(told), 1, err)
                with open(self.path("out", "sweep.csv"), encoding="utf-8") as f:
                    states = [line.rsplit(",", 1)[1].strip() for line in f][1:]
                self.assertEqual(states, ["stopped" if size is None else "damaged", "finished"])
                subprocess.run(told[0].split(": ", 1)[1], shell=True, cwd=self.dir, check=True)
                out, _ = self.sweep(*words)
                self.assertIn("2 of 2 runs", out)
                self.assertEqual(os.path.getsize(maps), whole)

    def test_one_sweep_at_a_time(self):
        """While a sweep writes in a folder, another one is refused; when it was killed, nothing is left that refuses."""
        words = ["telescope.zenith=0..40:1", "-o", "out"]
        first = self.start(*words)
        try:
            until = time.time() + 60
            while not os.path.exists(self.path("out", "telescope.zenith=0.log")) and time.time() < until:
                time.sleep(0.01)
            with open(self.path("out", "runs.txt"), "rb") as f:
                before = f.read()
            _, err = self.sweep("telescope.zenith=50", "dm.nssp=[4]", "-o", "out", code=2)
            self.assertRegex(err, "another keys|other keys")
            _, err = self.sweep("telescope.zenith=[50]", "-o", "out", code=2)
            self.assertEqual(err.count("\n"), 1)
            self.assertIn("out: another sweep is writing there", err)
            with open(self.path("out", "runs.txt"), "rb") as f:
                self.assertEqual(f.read(), before)
        finally:
            first.kill()
            first.communicate()
        out, _ = self.sweep("telescope.zenith=[50]", "-o", "out")
        self.assertIn("[1/1] telescope.zenith=50: done", out)

    def test_one_search_at_a_time(self):
        """So it is with the search for asterisms, whatever sort of writer has the folder."""
        os.makedirs(self.path("out"))
        with open(self.path("stars.csv"), "w", encoding="utf-8") as f:
            f.write("name,x,y,magnitude\na,20,10,12\n")
        with open(self.path("out", ".moao.lock"), "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            p = subprocess.run([MOAO, "asterism", "case.yaml", "--stars", "stars.csv", "--choose", "1", "-o", "out"], cwd=self.dir,
                               env=environment(), text=True, capture_output=True, timeout=patience(60))
        self.assertEqual((p.returncode, p.stderr.count("\n")), (2, 1), p.stderr)
        self.assertIn("out: another search is writing there", p.stderr)
        self.assertEqual(os.listdir(self.path("out")), [".moao.lock"])

    def test_planted_names(self):
        """A link or a pipe where a log, the lock or a table will be: nothing is written through it, nothing waits."""
        os.makedirs(self.path("out"))
        victim = self.path("victim")
        for name in ("telescope.zenith=0.log", ".moao.lock"):
            for kind in ("link", "pipe"):
                with self.subTest(name=name, kind=kind):
                    with open(victim, "w", encoding="utf-8") as f:
                        f.write("mine\n")
                    planted = self.path("out", name)
                    if os.path.lexists(planted):
                        os.unlink(planted)
                    if kind == "link":
                        os.symlink(victim, planted)
                    else:
                        os.mkfifo(planted)
                    _, err = self.sweep("telescope.zenith=[0]", "-o", "out", "--force", code=2)
                    self.assertIn(name, err)
                    self.assertEqual(err.count("\n"), 1, err)
                    with open(victim, encoding="utf-8") as f:
                        self.assertEqual(f.read(), "mine\n")
                    os.unlink(planted)
        for name in ("runs.txt", "sweep.csv", "sweep.fits"):  # written under another name, then renamed
            if os.path.lexists(self.path("out", name)):
                os.unlink(self.path("out", name))
            os.symlink(victim if name != "runs.txt" else self.path("nowhere"), self.path("out", name))
        self.sweep("telescope.zenith=[0]", "-o", "out", "--force")
        with open(victim, encoding="utf-8") as f:
            self.assertEqual(f.read(), "mine\n")
        self.assertFalse(os.path.exists(self.path("nowhere")))
        self.assertFalse(any(os.path.islink(self.path("out", n)) for n in ("runs.txt", "sweep.csv", "sweep.fits")))

    def test_refused_at_once(self):
        """What the list or the table could not give back is refused before there is a folder."""
        many = "psf.wavelengths=[%s]" % ", ".join("%.3f" % (1 + 0.005 * i) for i in range(200))
        for words, message in [(['title=[a, "b\nc"]'], "control character"), (["title=a\tb", "telescope.zenith=[0, 1]"], "control character"),
                               (["title=[a, %s]" % ("x" * 30000)], "title: .*30000 characters"),
                               (["sensors.%s.magnitude=[10, 11]" % ("x" * 60)], "number|no sensor"),
                               ([many, "telescope.zenith=[0, 1]"], "1..[0-9] columns.*999")]:
            with self.subTest(words=words[0][:40]):
                _, err = self.sweep(*words, "-o", "out", code=2)
                self.assertRegex(err, message)
                self.assertEqual(err.count("\n"), 1, err)
                self.assertLess(len(err), 900)
                self.assertFalse(os.path.exists(self.path("out")))


if __name__ == "__main__":
    unittest.main()
