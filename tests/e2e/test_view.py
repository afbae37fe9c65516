"""The page of moao-view in a browser without a screen: it opens from disk, loads nothing, and a click on a target shows
that target's image and numbers."""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np
from astropy.io import fits

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import SHORT_CASE, ROOT, Run, write_case  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
import moao  # noqa: E402
from moao.command import csv_value  # noqa: E402

try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None
BROWSER = next((p for p in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if os.access(p, os.X_OK)), None)
DRIVER = shutil.which("chromedriver")
# all of ASCII, some of Unicode, and what ends or begins something in the page
ASCII = "".join(map(chr, range(32, 127))).strip()
TITLE = "<!--<script> @SCRIPT@ @DATA@ @PLOTLY@ @TITLE@ </script> --> " + ASCII + " Größe α 日本 \U0001f52d \u2028&amp;"
WORDS = ["<!--<script>", "=1+1,\"x\"", "α <b>Cen</b> @DATA@", ASCII[:60], ASCII[60:] + "\\", "-5", "'=x"]
LIST = "{list: [[12, 5], [-20, 14], [3, -18]], names: [GN-z11, A 2744, HUDF]}"
# where a direction of the sky is on the page
PLACE = """const g = document.getElementById("map"), r = g.getBoundingClientRect(), l = g._fullLayout;
return [r.left + l.xaxis._offset + l.xaxis.d2p(arguments[0]), r.top + l.yaxis._offset + l.yaxis.d2p(arguments[1])];"""
# what the panels of the image and of the energies are drawn from
DRAWN = """const p = document.getElementById("psf"), e = document.getElementById("energy"), n = p.data[0].z.length;
return {peak: p.data[0].z[Math.floor(n / 2)][Math.floor(n / 2)], side: n, x: p.data[0].x[0],
    energy: e.data.filter(t => t.mode === "lines").map(t => [t.x, t.y]),
    series: document.getElementById("series").data.map(t => t.y),
    terms: document.getElementById("terms").data[0].x};"""


def browser(profile):
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    o = Options()
    o.binary_location = BROWSER
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--window-size=1400,1100", "--user-data-dir=" + profile):
        o.add_argument(word)
    o.add_experimental_option("prefs", {"download.default_directory": os.path.join(profile, "saved")})
    o.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=o)


def yaml_text(value):
    """JSON is YAML but for escaped surrogates and for what else ends a line there."""
    return json.dumps(value, ensure_ascii=False).replace("\u2028", "\\u2028")


@unittest.skipUnless(webdriver and BROWSER and DRIVER, "no chromium, chromedriver or selenium")
class View(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="moao-view-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        case = write_case(os.path.join(cls.folder, "case.yaml"), SHORT_CASE)
        cls.make(case, "grid")
        cls.make(write_case(case, re.sub(r"targets:.*", "targets: " + LIST, SHORT_CASE)), "list")
        words = "{list: %s, names: %s}" % ([[5 * i, -3 * i * i] for i in range(len(WORDS))], yaml_text(WORDS))
        cls.make(write_case(case, re.sub(r"targets:.*", lambda m: "targets: " + words, SHORT_CASE).replace(
            "title: small case of the tests", "title: " + yaml_text(TITLE))), "text", "output.psf=long")
        cls.driver = browser(os.path.join(cls.folder, "profile"))
        cls.addClassCleanup(cls.driver.quit)

    @classmethod
    def make(cls, case, name, *more):
        out = os.path.join(cls.folder, name)
        r = Run(case, "schedule.end=20 min", "schedule.exposure_interval=10 min", "output.psf=short", *more, "-o", out, ranks=1,
                cwd=cls.folder)
        if r.wait(120) != 0:
            raise AssertionError(r.text)
        with fits.open(os.path.join(out, "maps.fits"), mode="update") as f:  # a term of both signs
            t = f["TARGETS"].data
            t["WFE_LAG_LONG"] = np.linspace(-60, 40, len(t))
        p = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "moao-results"), "view", out],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        if p.returncode != 0:
            raise AssertionError(p.stdout)

    def open(self, name):
        self.driver.get("file://%s/%s/view.html" % (self.folder, name))
        self.assertEqual(self.script("return document.body.dataset.ready"), "yes")
        return moao.open(os.path.join(self.folder, name))

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def text(self, name):
        return self.script("return document.getElementById(arguments[0]).textContent", name)

    def choose(self, name, value):
        self.script("const s = document.getElementById(arguments[0]); s.value = arguments[1];"
                    "s.dispatchEvent(new Event('change'));", name, value)

    def click(self, run, target):
        """Press the mouse where a target is on the map."""
        self.script("document.getElementById('map').scrollIntoView()")
        x, y = self.script(PLACE, float(run.x[target]), float(run.y[target]))
        actions = ActionChains(self.driver)
        actions.w3c_actions.pointer_action.move_to_location(int(x), int(y))
        actions.pause(0.2).click().perform()

    def check(self, run, target):
        """Every panel is about this target: title, numbers, image, energies, history, error terms."""
        name = run.names[target] if run.named else "target %d" % (target + 1)
        self.assertIn("PSF of %s (%.4g″, %.4g″)" % (name, run.x[target], run.y[target]), self.text("psf-title"))
        self.assertIn(name, self.text("numbers-title"))
        drawn = self.script(DRAWN)
        for il, wave in enumerate(run.lambdas):
            for name in run.quantities:
                delta = 0.06 if name.startswith("WFE") else 0.006 if name == "FWHM" else 6e-5
                self.assertAlmostEqual(float(self.text("value-%s-%d" % (name, il)).replace("−", "-")), run.column_long(name)[il, target],
                                       delta=delta)
            boxes, energy = drawn["energy"][il]
            np.testing.assert_allclose(energy, run.psf(target, wavelength=wave).ee(boxes), atol=1e-4)
            np.testing.assert_allclose(drawn["series"][il], run.column("STREHL")[il, :, target], atol=1e-5)
        psf = run.psf(target, wavelength=run.lambdas[0])
        self.assertAlmostEqual(10 ** drawn["peak"], psf.strehl, delta=1e-3)
        self.assertAlmostEqual(drawn["x"], -(drawn["side"] // 2) * psf.pixel, delta=1e-3)
        path = run.lambdas[0] * 1e3 / (2 * np.pi) * np.sqrt(run.column_long("VARIANCE")[0, target])
        self.assertAlmostEqual(drawn["terms"][0], path, delta=1e-2)

    def no_trouble(self):
        """The page asked for nothing and no script failed."""
        self.assertEqual(self.script("return performance.getEntriesByType('resource').map(e => e.name)"), [])
        self.assertEqual(self.driver.get_log("browser"), [])

    def test_click_in_a_grid(self):
        """The target that was clicked is shown, one after another."""
        run = self.open("grid")
        for target in (0, 7, 2):
            self.click(run, target)
            self.check(run, target)
        self.no_trouble()

    def test_click_in_a_list(self):
        """The same for targets that are no grid and have names; the stars' noise is told where it is known."""
        run = self.open("list")
        self.assertEqual((run.grid, run.names[1]), (None, "A 2744"))
        stars = self.text("stars")
        for i, noise in enumerate(np.asarray(run.guide_stars["NOISEVAR"])):
            self.assertTrue(np.isnan(noise) or "%.3g" % (noise ** 0.5 * 1e3) in stars, (i, noise, stars))
        for target in (2, 1):
            self.click(run, target)
            self.check(run, target)
        self.no_trouble()

    def test_chosen(self):
        """Quantity, wavelength, exposure and target can be chosen: the map and the image are those."""
        run = self.open("grid")
        self.choose("quantity", str(run.quantities.index("FWHM")))
        self.choose("wave", "1")
        self.choose("exposure", "2")
        self.choose("target", "5")
        z = self.script("return document.getElementById('map').data[0].z")
        np.testing.assert_allclose(z, run.fwhm(2.2, 2), rtol=1e-5)
        self.assertIn("FWHM [mas] at 2.2 µm, t = 10 min", self.text("map-title"))
        psf = run.psf(5, wavelength=2.2, exposure=2)
        self.assertAlmostEqual(10 ** self.script(DRAWN)["peak"], psf.strehl, delta=1e-3)
        self.assertIn("target 6 (", self.text("psf-title"))
        self.no_trouble()

    def test_texts(self):
        """Titles and names with all of ASCII and some of Unicode, also with what ends a script, arrive as they are; in the drawings
        no name is taken for a tag."""
        run = self.open("text")
        self.assertEqual((run.title, run.names), (TITLE, WORDS))
        self.assertEqual(self.text("title"), TITLE)
        self.assertEqual(self.script("return document.title").split(), TITLE.split())
        self.assertEqual(self.script("return run.names"), WORDS)
        labels = self.script("return [...document.getElementById('target').options].map(o => o.text)")
        for i, name in enumerate(run.names):
            self.assertEqual(labels[i].split(" (")[0].split(), name.split(" (")[0].split())
            self.choose("target", str(i))
            self.assertIn(name, self.text("psf-title"))
        self.assertIn("α &lt;b&gt;Cen&lt;/b&gt; @DATA@", self.script("return document.getElementById('map').data[0].text[2]"))
        self.no_trouble()

    def key(self, name, shift=False):
        actions = ActionChains(self.driver)
        if shift:
            actions.key_down(Keys.SHIFT)
        actions.send_keys(name)
        if shift:
            actions.key_up(Keys.SHIFT)
        actions.perform()

    def test_arrow_keys(self):
        """Arrows go to the next target in that direction and stay at the edge; with Shift to the next exposure."""
        run = self.open("grid")
        self.choose("target", "1")
        self.script("document.activeElement.blur()")
        for name, target in ((Keys.ARROW_RIGHT, 2), (Keys.ARROW_UP, 6), (Keys.ARROW_UP, 6), (Keys.ARROW_LEFT, 5), (Keys.ARROW_DOWN, 1)):
            self.key(name)
            self.assertIn("target %d (" % (target + 1), self.text("psf-title"))
        self.check(run, 1)
        for name, word in ((Keys.ARROW_RIGHT, "t = 0"), (Keys.ARROW_RIGHT, "t = 10 min"), (Keys.ARROW_RIGHT, "t = 10 min"), (Keys.ARROW_LEFT, "t = 0")):
            self.key(name, True)
            self.assertIn(word, self.text("map-title"))
        run = self.open("list")
        self.script("document.activeElement.blur()")
        seen = set()
        for name in (Keys.ARROW_LEFT, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_UP, Keys.ARROW_RIGHT):
            self.key(name)
            seen |= {n for n in run.names if n in self.text("psf-title")}
        self.assertEqual(seen, set(run.names))

    def test_missing_image(self):
        """A single exposure whose image is not stored says so in the panel, and why; where it is stored nothing is said."""
        self.open("text")
        self.choose("exposure", "2")
        self.assertIn("No image of t = 10 min is in this page: the run did not store it", self.text("psf-missing"))
        self.assertTrue(self.script("return document.getElementById('psf-missing').offsetHeight") > 10)
        self.assertIn("long exposure", self.text("psf-title"))
        self.choose("exposure", "0")
        self.assertFalse(self.script("return document.getElementById('psf-missing').offsetHeight"))
        self.open("grid")
        self.choose("exposure", "2")
        self.assertFalse(self.script("return document.getElementById('psf-missing').offsetHeight"))
        self.assertIn("t = 10 min", self.text("psf-title"))

    def test_signs(self):
        """A negative term hangs below zero with its number beside it; its map is white at zero."""
        run = self.open("grid")
        self.choose("quantity", str(run.quantities.index("WFE_LAG")))
        self.choose("target", "0")
        scale = self.script("const d = document.getElementById('map').data[0]; return [d.zmin, d.zmax, d.colorscale[1]]")
        self.assertEqual(scale, [-60, 60, [0.5, "#f7f7f7"]])
        self.assertEqual(self.text("value-WFE_LAG-0"), "−60.00")
        words = self.script("""const p = document.getElementById("terms"), b = p.getBoundingClientRect();
            return [...p.querySelectorAll(".bartext, .ytick text")].map(t => [t.textContent, t.getBoundingClientRect()]).map(
                ([t, r]) => [t, r.left - b.left, r.right - b.left, r.top, r.bottom, b.width]);""")
        self.assertIn("−60.0 nm", [w[0] for w in words])
        for i, (text, left, right, top, bottom, width) in enumerate(words):
            self.assertTrue(left >= 0 and right <= width, text)
            for other in words[:i]:
                over = min(right, other[2]) - max(left, other[1]), min(bottom, other[4]) - max(top, other[3])
                self.assertFalse(min(over) > 1, "%s covers %s" % (text, other[0]))

    def test_narrow(self):
        """On a telephone of 390 pixels, and on one of 320, nothing scrolls sideways; every drawing is inside."""
        for name, width in (("text", 390), ("grid", 390), ("grid", 320)):
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": width, "height": 844, "deviceScaleFactor": 1,
                                                                               "mobile": True})
            self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})
            self.open(name)
            self.assertEqual(self.script("return document.documentElement.scrollWidth"), width)
            right = self.script("return [...document.querySelectorAll('section, select, .plot svg')].map(e => e.getBoundingClientRect().right)")
            self.assertLessEqual(max(right), width)

    def saved(self, button, name):
        """A file that a button of the page saves."""
        path = os.path.join(self.folder, "profile", "saved", name)
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": os.path.dirname(path)})
        self.script("document.getElementById(arguments[0]).click()", button)
        end = time.monotonic() + 60
        # a browser may make an empty file first, and fills another one that it renames
        while (not (os.path.exists(path) and os.path.getsize(path)) or os.path.exists(path + ".crdownload")) and time.monotonic() < end:
            time.sleep(0.05)
        return path

    def test_save_numbers(self):
        """The table has a line for each target, exposure and wavelength, with the run's numbers; no name is a formula."""
        run = self.open("text")
        with open(self.saved("table", "text.csv"), encoding="utf-8", newline="") as f:
            rows = list(csv.DictReader(f))
        self.assertEqual(len(rows), run.nt * 2 * 3)
        for row in rows:
            t, e, il = int(row["target"]) - 1, int(row["exposure"]), list(run.lambdas).index(float(row["wavelength_um"]))
            self.assertEqual(csv_value(row["name"]), run.names[t])
            if row["name"] != "-5":  # a number
                self.assertNotRegex(row["name"], "^[=+@-]")
            for column, name in (("strehl", "STREHL"), ("fwhm_mas", "FWHM"), ("ee_80mas", "EE_80mas"), ("wfe_lag_nm", "WFE_LAG")):
                v = run.column_long(name)[il, t] if e == 0 else run.column(name)[il, e - 1, t]
                self.assertAlmostEqual(float(row[column]), v, delta=1e-5 * abs(v) + 1e-12)

    def test_save_image(self):
        """The image as FITS: readable, with its keywords, equal to that of psf.fits but for the rounding that the header states."""
        run = self.open("grid")
        self.choose("target", "5")
        self.choose("wave", "1")
        self.choose("exposure", "2")
        with fits.open(self.saved("psf-fits", "grid-target6-2.2um-2.fits")) as f:
            f.verify("exception")
            head, image = f[0].header, f[0].data
        psf = run.psf(5, wavelength=2.2, exposure=2)
        self.assertEqual((head["TARGET"], head["LAMBDA"], head["EXPOSURE"], head["X"]), (6, 2.2, 2, run.x[5]))
        self.assertAlmostEqual(head["PIXEL"], psf.pixel, delta=1e-9)
        n = image.shape[0]
        c = psf.data.shape[0] // 2
        expected = np.maximum(psf.data[c - n // 2:c - n // 2 + n, c - n // 2:c - n // 2 + n], head["FLOOR"])
        self.assertEqual(np.unravel_index(image.argmax(), image.shape), (head["CRPIX2"] - 1, head["CRPIX1"] - 1))
        np.testing.assert_allclose(image, expected, rtol=1.1 * head["ROUNDED"])
        self.assertLess(head["ROUNDED"], 2e-4)


if __name__ == "__main__":
    unittest.main()
