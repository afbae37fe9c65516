"""The page of moao-view in a browser without a screen: it opens from disk, loads nothing, and a click on a target shows
that target's image and numbers."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import SHORT_CASE, ROOT, Run, write_case  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
import moao  # noqa: E402

try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
except ImportError:
    webdriver = None
BROWSER = next((p for p in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if os.access(p, os.X_OK)), None)
DRIVER = shutil.which("chromedriver")
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
    o.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=o)


@unittest.skipUnless(webdriver and BROWSER and DRIVER, "no chromium, chromedriver or selenium")
class View(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="moao-view-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        case = write_case(os.path.join(cls.folder, "case.yaml"), SHORT_CASE)
        cls.make(case, "grid")
        cls.make(write_case(case, re.sub(r"targets:.*", "targets: " + LIST, SHORT_CASE)), "list")
        cls.driver = browser(os.path.join(cls.folder, "profile"))
        cls.addClassCleanup(cls.driver.quit)

    @classmethod
    def make(cls, case, name):
        out = os.path.join(cls.folder, name)
        r = Run(case, "schedule.end=20 min", "schedule.exposure_interval=10 min", "output.psf=short", "-o", out, ranks=1,
                cwd=cls.folder)
        if r.wait(120) != 0:
            raise AssertionError(r.text)
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
                self.assertAlmostEqual(float(self.text("value-%s-%d" % (name, il))), run.column_long(name)[il, target],
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


if __name__ == "__main__":
    unittest.main()
