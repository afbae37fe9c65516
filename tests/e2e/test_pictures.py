"""Pictures say what they show and nothing is cut: one exposure, few and many targets, names of any length, targets on a line, terms
with both signs, single panels of a given size, sweeps in words."""
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import types
import unittest
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
from astropy.io import fits
from matplotlib.axis import Tick
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, SHORT_CASE, Run, write_case  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
import moao  # noqa: E402
from moao import cmd_plot, plots, plots_budget, plots_maps, plots_panels, plots_sweep, sweep_words  # noqa: E402
from moao.sweep import Sweep  # noqa: E402

ONE = ["schedule.end=10 min", "schedule.exposure_interval=10 min"]
NAMES = "[GN-z11 and a name that is much too long for a picture, $A_2744$ \\\\x, 'H\tUDF', near GN-z11]"
CASES = {"two": ["schedule.end=20 min", "schedule.exposure_interval=10 min"],
         "named": ONE + ["targets={list: [[12, 5], [-20, 14], [3, -18], [13, 7]], names: %s}" % NAMES,
                         "title=" + "a title of $many$ words that no line of a picture can hold " * 33],
         "line": ONE + ["targets={list: [[20, 20], [0, 0], [5, 5], [-10, -10]]}", "output.psf=none"]}


def call(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cmd_plot.main([str(a) for a in arguments])
    return code, out.getvalue(), err.getvalue()


def setUpModule():
    Shared.folder = tempfile.mkdtemp(prefix="moao-pictures-")
    unittest.addModuleCleanup(shutil.rmtree, Shared.folder, ignore_errors=True)
    case = write_case(os.path.join(Shared.folder, "case.yaml"), SHORT_CASE)
    for name, more in CASES.items():
        r = Run(case, "output.psf=long", "psf.oversampling=4", *more, "-o", os.path.join(Shared.folder, name), ranks=1, cwd=Shared.folder)
        if r.wait(120) != 0:
            raise AssertionError(r.text)


class Shared:
    """The runs that all tests read."""
    folder = ""


class Case(unittest.TestCase):
    def open(self, name):
        return moao.open(os.path.join(Shared.folder, name))

    def drawn(self, figure):
        """All words of a figure, each of which lies inside the figure; labels and titles of axes do not cover each other."""
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        width, height = canvas.get_width_height()
        found, heads = [], []
        ticks = {id(label) for tick in figure.findobj(Tick) for label in (tick.label1, tick.label2)}  # those beyond the limits are not drawn
        for t in figure.findobj(Text):
            axes = getattr(t, "axes", None)
            if id(t) in ticks or not t.get_text().strip() or not t.get_visible() or (axes is not None and not axes.get_visible()):
                continue
            box = t.get_window_extent(canvas.get_renderer())
            self.assertTrue(box.x0 > -1.5 and box.y0 > -1.5 and box.x1 < width + 1.5 and box.y1 < height + 1.5,
                            "%r is cut: %s of %d x %d" % (t.get_text(), box.extents, width, height))
            found.append(t.get_text())
            if axes is not None and (t is axes.title or t in axes.texts):
                low = (box.y0 + box.y1) / 2 if t.get_text().endswith("\n") else box.y0  # an empty line, in which the statistics stand
                heads.append((t.get_text(), (box.x0, low, box.x1, box.y1)))
        for i, (a, p) in enumerate(heads):
            for b, q in heads[:i]:
                over = min(p[2], q[2]) - max(p[0], q[0]), min(p[3], q[3]) - max(p[1], q[1])
                self.assertFalse(min(over) > 2, "%r covers %r" % (a, b))
        return "\n".join(found)

    def signed(self, name):
        """The run with a servo lag of both signs."""
        out = os.path.join(Shared.folder, name + "-signed")
        if not os.path.exists(out):
            shutil.copytree(os.path.join(Shared.folder, name), out)
            with fits.open(os.path.join(out, "maps.fits"), mode="update") as f:
                t = f["TARGETS"].data
                t["WFE_LAG"] = np.linspace(-60, 40, len(t)).reshape((-1,) + (1,) * (t["WFE_LAG"].ndim - 1))
                t["WFE_LAG_LONG"] = np.linspace(-60, 40, len(t))
        return moao.open(out)


class Pictures(Case):
    def test_one_exposure(self):
        """Of one exposure the wavelengths are drawn that -w names, no others; a wavelength that is not there is refused."""
        run = self.open("named")
        self.assertEqual([t for t, _ in plots_maps.panels_of(run, "STREHL", 0)], ["1.65 µm", "2.2 µm"])
        text = self.drawn(plots.overview(run, waves=[1]))
        self.assertIn("maps of 1 of 2 wavelengths", text)
        self.assertIn("worst: ", text)
        self.assertIn(r"\$A_2744\$ \\x", text)  # as text, no formula
        self.assertIn("…", text)
        self.assertNotIn("1.65", text)
        self.assertEqual([t for t, _ in plots_maps.panels_of(run, "STREHL", 0, [1])], ["2.2 µm"])
        for ne, nl, waves, words in ((20, 8, [0, 7], "\nmaps of 6 of 20 exposures and 2 of 8 wavelengths"), (1, 8, range(8), "\nmaps of 6 of 8 wavelengths"),
                                     (6, 2, [0, 1], ""), (1, 1, [0], "")):
            self.assertEqual(plots.left_out(types.SimpleNamespace(ne=ne, nl=nl), waves), words)
        code, _, err = call(os.path.join(Shared.folder, "named"), "-w", "0.5")
        self.assertEqual((code, len(err.splitlines())), (2, 1))
        self.assertIn("1.65, 2.2 um", err)

    def test_best_and_worst(self):
        """Images have the best and the worst target among them and say which those are."""
        run = self.open("two")
        text = self.drawn(plots.psfs(run, wavelength=2.2))
        v = run.column_long("STREHL")[1]
        for word, t in (("best", v.argmax()), ("worst", v.argmin())):
            self.assertIn("%s: %s" % (word, plots.place_of(run, t)), text)
            self.assertIn("Strehl %.3f" % v[t], text)

    def test_names(self):
        """Titles and names of any length and with any characters: nothing is cut and no name covers another."""
        run = self.open("named")
        self.assertGreater(len(run.title), 1900)
        self.drawn(plots_budget.budget(run))
        self.drawn(plots_panels.panel(run, "psf", 2.2))

    def test_line(self):
        """Targets on a line are curves against the distance from the axis, in order of it."""
        run = self.open("line")
        figure = plots.overview(run, ["STREHL"])
        self.assertIn("distance from the axis [arcsec], 45° from x", self.drawn(figure))
        lines = [line for ax in figure.findobj(lambda a: hasattr(a, "get_xlabel")) if "distance" in ax.get_xlabel() for line in ax.lines]
        place = np.array([-10, 0, 5, 20]) * np.sqrt(2)
        v = run.strehl(1.65)
        np.testing.assert_allclose(lines[0].get_xdata(), place, atol=1e-6)
        np.testing.assert_allclose(lines[0].get_ydata(), v[[3, 1, 2, 0]])
        self.assertIsNone(plots_maps.line_of(self.open("named")))
        self.drawn(plots_panels.panel(run, "tomography"))

    def test_signs(self):
        """A term of both signs has a diverging scale, white at zero; others have not; the label says what a sign means."""
        run = self.signed("two")
        for name, both in (("WFE_LAG", True), ("WFE_NOISE", False)):
            self.assertEqual("negative variance" in plots_maps.bar_label(run, name, run.column_long(name)[0]), both)
            norm, cmap = plots_maps.scale_of(run, name, run.column_long(name)[0])
            self.assertEqual(norm.vmin == -norm.vmax, both)
            self.assertEqual(cmap == plots_maps.SIGNED, both)
        self.assertIn("negative variance", self.drawn(plots_panels.panel(run, "lag")))
        self.assertEqual(tuple(norm(0) for norm in (plots_maps.scale_of(run, "WFE_LAG", np.array([-3., 50.]), (-10, 90))[0],)), (0.5,))

    def test_budget(self):
        """Few targets: the title is whole; many: how many of them are shown is said; a negative term hangs below zero."""
        run = self.signed("two")
        figure = plots_budget.budget(run, [2])
        self.assertIn("target (1 of 8)", self.drawn(figure))
        self.assertNotIn("jitter", self.drawn(figure))
        low = min(p.get_y() + min(p.get_height(), 0) for p in plots_budget.budget(run).axes[0].patches)
        self.assertAlmostEqual(low, -3600, delta=1)
        text = self.drawn(plots_panels.panel(run, "budget", size=(2.5, 2.5)))
        self.assertIn("target (6 of 8, best to worst)", text)

    def test_panels(self):
        """Every panel is drawn in the size that is asked for, as the kind of file that its name says."""
        folder = os.path.join(Shared.folder, "two")
        for what, name, head in (("ee", "a.png", b"\x89PNG"), ("fwhm", "a.pdf", b"%PDF"), ("history", "a.svg", b"<?xml")):
            path = os.path.join(Shared.folder, name)
            code, text, err = call(folder, "--panel", what, "-w", "2.2", "--size", "88x60mm", "--dpi", "254", "-o", path)
            self.assertEqual((code, err), (0, ""), text)
            with open(path, "rb") as f:
                content = f.read()
            self.assertTrue(content.startswith(head))
            if name == "a.png":
                self.assertEqual([int.from_bytes(content[i:i + 4], "big") for i in (16, 20)], [880, 600])
        run = self.open("two")
        self.drawn(plots_panels.panel(run, "energy", 2.2))
        for wrong, word in ((["--panel", "nothing"], "strehl, ee"), (["--size", "3x3"], "--panel"), (["-e", "1"], "--panel"),
                            (["--panel", "strehl", "-e", "3"], "1 to 2"), (["--panel", "strehl", "--size", "0x3"], "inches"),
                            (["--panel", "strehl", "--size", "3"], "WIDTHxHEIGHT"), (["--panel", "strehl", "-w", "1.65,2.2"], "one wavelength"),
                            (["--panel", "strehl", "-q", "ee"], "-q"), (["-o", "x.doc"], ".png"), (["--limits", "strehl=1:0"], "below")):
            code, _, err = call(folder, *wrong)
            self.assertEqual((code, len(err.splitlines())), (2, 1), (wrong, err))
            self.assertIn(word, err)


class Sweeps(Case):
    def test_words(self):
        """Axes of sweeps have words and units; the keys that have words are keys of the program."""
        folder = os.path.join(Shared.folder, "sweep")
        os.makedirs(folder)
        with open(os.path.join(folder, "sweep.csv"), "w", encoding="ascii") as f:
            f.write("telescope.zenith,sensors.*.magnitude,wfe_total,strehl_mean_1.65um,strehl_min_1.65um,ee_37p5mas_2.2um\n")
            f.write("".join("%g,%g,%g,0.3,0.2,0.1\n" % (z, m, 100 + z + m) for z in (0, 30) for m in (10, 12)))
        s = Sweep(folder)
        text = self.drawn(plots_sweep.curves(s))
        for word in ("zenith angle", "magnitude of all guide stars", "worst target, 1.65 µm", "EE in 37.5 mas", "total error"):
            self.assertIn(word, text)
        self.assertNotRegex(text.replace(folder, ""), r"\w_\w|telescope\.")  # the folder is called as it is
        self.drawn(plots_sweep.maps(s))
        self.assertEqual(sweep_words.key_words("sensors[2].nssp"), "subapertures across the pupil of sensor 3")
        self.assertEqual(sweep_words.key_words("atmosphere.profiles[0].r0"), "r₀ at 500 nm and zenith of profile 1")
        self.assertEqual(sweep_words.key_words("x.y"), "x.y")
        known = subprocess.run([MOAO, "params"], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
        keys = set(re.findall(r"^ *([a-z][\w.]*): ", known, re.M))
        for table in (sweep_words.KEYS, sweep_words.SENSOR, sweep_words.PROFILE):
            self.assertEqual([k for k in table if k not in keys], [])


if __name__ == "__main__":
    unittest.main()
