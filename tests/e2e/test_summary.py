"""What `moao run` ends with: the figures of maps.fits, target by target the right ones, in 80 columns; machine figures with --verbose."""
import json
import os
import re
import sys
import tempfile
import unittest

import numpy as np
from astropy.io import fits

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, QUICK_CASE, write_case  # noqa: E402
from test_commands import call, plain_environment  # noqa: E402

# half a second each
SMALL = (QUICK_CASE.replace("psf: {", "psf: {residual: sensor, ee_boxes: [75, 12.5 mas], ").replace("end: 30 min", "end: 10 min")
         .replace("nssp: 10", "nssp: 6").replace("nssp: 9", "nssp: 6").replace("nssp: 8", "nssp: 6")
         .replace("targets_per_chunk: 2, ", "").replace("oversampling: 8", "oversampling: 4").replace("psf: none", "psf: long"))
ROW = re.compile(r"^(.{10})(Strehl ratio|EE [\d.]+ mas|FWHM \[mas\]|WFE \[nm rms\]) +([-\d.e]+)"
                 r"(?: +([-\d.e]+)  (.{13}) +([-\d.e]+)  (.*))?$", re.M)


class Summary(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        write_case(self.path("case.yaml"), SMALL)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def run_it(self, *words, program=(MOAO,)):
        p = call(*program, "run", "case.yaml", *words, cwd=self.dir, timeout=120)
        self.assertEqual(p.returncode, 0, p.stdout + p.stderr)
        self.assertEqual([line for line in p.stdout.split("\n") if len(line) > 80], [])
        return p.stdout

    def rows(self, text):
        """{(wavelength, quantity): (mean, min, where, max, where)}: each is there once."""
        found, wave = {}, ""
        for m in ROW.finditer(text):
            wave = m.group(1).strip() or wave
            key = (None if m.group(2).startswith("WFE") else wave, m.group(2))
            self.assertNotIn(key, found)
            found[key] = [v.strip() if v else v for v in m.groups()[2:]]
        return found

    def compare(self, text, folder, places=None):
        """Every row is that of maps.fits; the rows that are missing are none."""
        with fits.open(self.path(folder, "maps.fits")) as f:
            t, waves = f["TARGETS"].data, list(f["WAVELENGTHS"].data["LAMBDA"])
        n, rows = len(t), self.rows(text)
        places = places or ["%.4g,%.4g" % (x, y) for x, y in zip(t["X"], t["Y"])]
        columns = [(c, re.sub(r"^EE_(\d+)p?(\d*)mas_LONG$", r"EE \1.\2 mas", c).replace(". ", " ")) for c in t.names
                   if re.match("EE_.*LONG$", c)] + [("STREHL_LONG", "Strehl ratio"), ("FWHM_LONG", "FWHM [mas]")]
        expected = {("%.5g um" % w, label): np.asarray(t[c], float).reshape(n, -1)[:, k]
                    for c, label in columns for k, w in enumerate(waves)}
        wfe = np.sqrt(np.asarray(t["VARIANCE_LONG"], float).reshape(n, -1)[:, 0]) * waves[0] * 1e3 / (2 * np.pi)
        expected[None, "WFE [nm rms]"] = wfe
        self.assertEqual(sorted(map(str, rows)), sorted(map(str, expected)))
        for key, v in expected.items():
            mean, low, at_low, high, at_high = rows[key]
            unit = {"FWHM [mas]": 0.051, "WFE [nm rms]": 0.51}.get(key[1], 0.00051)
            self.assertAlmostEqual(float(mean), np.sqrt(np.mean(v**2)) if key[0] is None else v.mean(), delta=unit, msg=key)
            if n == 1:
                self.assertIsNone(low)
                continue
            self.assertAlmostEqual(float(low), v.min(), delta=unit)
            self.assertAlmostEqual(float(high), v.max(), delta=unit)
            self.assertEqual((at_low, at_high), (places[v.argmin()], places[v.argmax()]), key)
        return t

    def test_grid(self):
        """Two wavelengths, boxes, exposures and ranks: once, by one rank; again when nothing is left to do; no machine figures
        unless asked for, but in run.json; the largest terms are those of run.json, and the line that draws them does."""
        text = self.run_it("-n", "2", "-o", "out")
        self.compare(text, "out")
        self.assertEqual(text.count("8 targets, long exposure of 4 exposures"), 1)
        for word in ("dgemm", "GFLOP/s", "peak memory"):
            self.assertNotIn(word, text)
        with open(self.path("out", "run.json"), encoding="utf-8") as f:
            machine = json.load(f)
        self.assertGreater(machine["machine"]["dgemm_gflops"], 0)
        self.assertEqual(machine["stages"][-1]["stage"], "total")
        terms = sorted((abs(x["rms"]), x["term"]) for x in machine["error_budget_nm"] if x["term"] in (
            "tomography", "noise", "aliasing", "fitting", "servo lag", "jitter", "static") and x["rms"] != 0)[::-1][:4]
        found = re.search(r"^largest terms \[nm rms\]: (.*)$", text, re.M).group(1).split(", ")
        self.assertEqual([f.rsplit(" ", 1)[0] for f in found], [name for _, name in terms])
        for f, (rms, _) in zip(found, terms):
            self.assertAlmostEqual(abs(float(f.rsplit(" ", 1)[1])), rms, delta=0.51)
        again = self.run_it("-n", "2", "-o", "out", "--resume")
        self.assertEqual(self.rows(again), self.rows(text))
        self.assertNotIn("time  ", again)
        draw = re.search(r"^draw +(.*)$", text, re.M).group(1)
        p = call("sh", "-c", draw + " -o picture.png", cwd=self.dir, env=plain_environment())
        self.assertEqual(p.returncode, 0, draw + p.stderr)
        self.assertGreater(os.path.getsize(self.path("picture.png")), 2000)
        p = call("sh", "-c", re.search(r"^all terms +(.*)$", text, re.M).group(1), cwd=self.dir, env=plain_environment())
        self.assertIn("tomography", p.stdout)

    def test_names_many_and_one(self):
        """Names, also long ones of other scripts, stand where the directions would; many wavelengths and boxes, and what has no
        value; one target has no places; nothing with -q, machine figures with --verbose."""
        text = self.run_it("output.psf=none", "-o", "none")
        self.assertIn("FWHM not known: of a long exposure it needs output.psf", text)
        self.assertEqual(self.rows(text)["1.65 um", "FWHM [mas]"][:2], ["-", None])
        case = ["output.budget=none", "schedule={exposure_times: 0}"]
        names = ["A1", "Große Galaxie im Süden 17", "B", "C"]
        text = self.run_it(*case, "targets={list: [[0, 0], [-31.25, 2], [9, 1], [-1234.5678, -2000.25]], names: [%s]}"
                           % ", ".join(names), "-o", "named out")
        self.compare(text, "named out", ["A1", "Große Galax..", "B", "C"])
        self.assertIn("plot 'named out'", text)
        self.assertNotIn("terms", text)
        text = self.run_it(*case, "targets={list: [[-1234.5678, -2000.25], [0, 0]]}", "-o", "far", "--verbose")
        self.compare(text, "far", ["-1235,-2000", "0,0"])
        for word in ("stage", "GFLOP/s", "of dgemm", "idle", "peak memory"):
            self.assertIn(word, text)
        text = self.run_it(*case, "targets={list: [[12.5, -3]], names: [A1]}", "psf.wavelengths=[1.65]", "-o", "one")
        self.compare(text, "one")
        self.assertIn("target A1 at 12.5,-3 arcsec, one exposure", text)
        text = self.run_it(*case, "psf.wavelengths=[%s]" % ", ".join("%g" % (1 + i / 10) for i in range(12)),
                           "psf.ee_boxes=[10, 20, 30]", "-o", "many")
        self.assertEqual(len(re.findall(r"^\S+ um +Strehl ratio", text, re.M)), 12)
        self.assertIn("ensquared energies (3 boxes) and FWHM of 12 wavelengths: maps.fits", text)
        self.assertEqual(self.run_it(*case, "-o", "quiet", "-q"), "")


if __name__ == "__main__":
    unittest.main(verbosity=2)
