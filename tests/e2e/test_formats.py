# seconds: 20
"""The form of Cmm that is asked for is the one that computes, whatever memory is free at the moment; a run that goes on keeps
it; the header names it; and plans are true for small cases, too."""
import json
import os
import shutil
import signal
import tempfile
import unittest

from astropy.io import fits

from moao_case import Run, moao
import moao_test

RESIDENT = {"MOAO_TEST_DEVICE": "cpu"}
SMALL = """
telescope: {diameter: 4 m}
dm: {nssp: 4}
sensors:
  - {type: ngs, nssp: 4, direction: [20, 10], magnitude: 10}
  - {type: ngs, nssp: 4, direction: [-20, 10], magnitude: 10}
targets: {list: [[0, 0], [10, 5]]}
atmosphere: {profiles: [{time: 0, r0: 12 cm, layers: {altitude: [0, 5 km], fraction: [0.6, 0.4]}}]}
schedule: {tor_times: [0], exposure_times: [0]}
psf: {wavelengths: [2.2 um], oversampling: 2}
output: {psf: none}
compute: {threads: 1}
"""
LARGER = ["sensors=[{type: ngs, nssp: 14, direction: [20, 10], magnitude: 8}]", "dm.nssp=10"]
FORMS = (("dense", {}), ("tlr", {}), ("grid", {}), ("auto", {}), ("half", RESIDENT), ("grid", RESIDENT))
# what these words of earlier versions are now
WORDS = {"dense": ("dense", "exact"), "tlr": ("tlr", "exact"), "grid": ("dense", "toeplitz"), "half": ("fp16", "fp16")}


def header(folder, key="FORMAT"):
    with fits.open(os.path.join(folder, "maps.fits")) as f:
        return f[0].header[key]


class Formats(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="moao-formats-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def test_header_and_plan(self):
        """maps.fits and run.json name what computed; the memory of a rank of a CPU is planned within 20 % of its peak."""
        for more in ([], LARGER):
            for form, env in FORMS:
                with self.subTest(form=form, more=more):
                    run = Run(SMALL, *more, "compute.format=" + form, env=env)
                    with open(run.path("run.json"), encoding="utf-8") as f:
                        told = json.load(f)
                    want = {"auto": "dense"}.get(form, form)
                    self.assertEqual((header(run.dir), told["format"]), (want, want))
                    words = WORDS[want]
                    self.assertEqual((told["factor"], told["product"]), words)
                    self.assertEqual(tuple(header(run.dir, k) for k in ("CFACTOR", "CPRODUCT")), words)
                    now = "compute.product: " + words[1] if form in ("half", "grid") else "compute.factor: " + form
                    self.assertIn("compute.format: write %s;" % now, run.process.stderr)
                    if not env:
                        memory = told["memory"]
                        self.assertLess(abs(memory["planned_rank_bytes"] / memory["peak_rank_bytes"] - 1), 0.2, memory)

    def test_never_replaced(self):
        """With too little memory each form refuses, in one line; nothing else takes its place."""
        case = moao_test.write_case(os.path.join(self.dir, "case.yaml"), SMALL)
        for form in "tlr", "grid":
            p = moao("run", case, "compute.format=" + form, "compute.memory=10e6", "-o", os.path.join(self.dir, form), "-q",
                     check=False)
            self.assertEqual(p.returncode, 2, p.stderr)
            line, = [x for x in p.stderr.splitlines() if "compute.memory" in x]
            self.assertRegex(line, "compute.memory: one target at a time needs .* in format %s, .*available; use " % form)
        # on a device that holds no factor in FP16: not in double precision instead, nor on the CPU
        p = moao("run", case, "compute.precision=mixed", "compute.gpu_memory=1.6e9", "-o", os.path.join(self.dir, "half"), "-q",
                 check=False, env=RESIDENT)
        self.assertEqual(p.returncode, 2, p.stderr)
        self.assertRegex(p.stderr, "in format half")

    def start(self, name, *options, env=None):
        return moao_test.Run(self.case, "-o", os.path.join(self.dir, name), *options, ranks=1, cwd=self.dir, env=env)

    def test_resumed(self):
        """auto that chose grid goes on as grid where auto would choose another form now, and is refused where another one is
        asked for by name; then the results of the run are still there, and it ends as if nothing had been."""
        self.case = moao_test.write_case(os.path.join(self.dir, "case.yaml"),
                                         moao_test.QUICK_CASE.replace("slope: points", "slope: gradient"))
        options = ["compute.format=grid"]
        run = self.start("out", *options)
        moao_test.wait_for_parts(run, os.path.join(self.dir, "out"), 2)
        run.process.send_signal(signal.SIGUSR1)
        self.assertEqual(run.wait(60), 3, run.text)
        kept = len(moao_test.parts(os.path.join(self.dir, "out")))
        for other in (["compute.format=dense"], ["compute.format=tlr"], ["compute.precision=mixed", "compute.format=half"]):
            again = self.start("out", "--resume", *other)
            self.assertEqual(again.wait(60), 2, again.text)
            self.assertIn("--resume of a run in format grid", again.text)
            self.assertEqual(len(moao_test.parts(os.path.join(self.dir, "out"))), kept)
        again = self.start("out", "--resume", "compute.format=auto", "targets={grid: {nx: 4, ny: 2, width: 60, height: 30}}")
        self.assertEqual(again.wait(120), 0, again.text)
        self.assertEqual(header(os.path.join(self.dir, "out")), "grid")
        whole = self.start("whole", *options)
        self.assertEqual(whole.wait(120), 0, whole.text)
        a, b = (moao_test.maps(os.path.join(self.dir, n)) for n in ("whole", "out"))
        for key in a:
            if "PARAMETERS" not in key:
                self.assertEqual(a[key].tobytes(), b[key].tobytes(), key)


if __name__ == "__main__":
    unittest.main()
