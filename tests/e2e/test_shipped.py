"""The shipped parameter files: the synthetic night is what its script makes, and each file tells its source."""
import cmath
import glob
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment  # noqa: E402


def moment(weights, values):
    """Mean of values to the power 5/3, as a value."""
    return sum(w * v ** (5 / 3) for w, v in zip(weights, values)) ** 0.6


class Shipped(unittest.TestCase):
    def test_night_is_what_its_script_makes(self):
        made = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "make_night.py")], stdout=subprocess.PIPE,
                              check=True).stdout
        with open(os.path.join(ROOT, "params", "nights", "synthetic.yaml"), "rb") as f:
            self.assertEqual(f.read(), made)

    def test_night_has_forty_layers_and_changes(self):
        with open(os.path.join(ROOT, "params", "nights", "synthetic.yaml"), encoding="utf-8") as f:
            text = f.read()
        strengths = [[float(x) for x in line.split("[")[1].rstrip("]\n").split(",")]
                     for line in text.splitlines() if "strength:" in line]
        self.assertEqual(len(strengths), 48)
        self.assertGreaterEqual(min(sum(x > 0 for x in s) for s in strengths), 40)
        r0 = [sum(s) ** -0.6 for s in strengths]
        self.assertGreater(max(r0) / min(r0), 1.3)
        self.assertTrue(0.05 < min(r0) and max(r0) < 0.35, r0)

    def test_each_file_starts_with_its_source(self):
        files = sorted(name for pattern in ("*.yaml", "nights/*", "instruments/*.yaml")
                       for name in glob.glob(os.path.join(ROOT, "params", pattern)))
        self.assertGreaterEqual(len(files), 5)
        for name in files:
            with open(name, encoding="utf-8") as f:
                self.assertTrue(f.readline().startswith("# "), name)

    def test_effective_parameters_are_parameters(self):
        """What a run of each shipped case leaves as effective.yaml is a case again, with the same effective parameters."""
        for name in sorted(glob.glob(os.path.join(ROOT, "params", "*.yaml"))):
            with self.subTest(os.path.basename(name)), tempfile.TemporaryDirectory() as d:
                texts = []
                for path in (name, os.path.join(d, "effective.yaml")):
                    p = subprocess.run([MOAO, "check", path, "--effective"], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       universal_newlines=True, check=False)
                    self.assertEqual(p.returncode, 0, p.stderr)
                    texts.append(p.stdout)
                    with open(os.path.join(d, "effective.yaml"), "w", encoding="utf-8") as f:
                        f.write(p.stdout)
                self.assertEqual(texts[0], texts[1])

    # name: layers; ranges of seeing [arcsec], isoplanatic angle [arcsec] and coherence time [ms] at 500 nm and zenith
    PROFILES = {
        "eso35-median": (35, (0.63, 0.66), (2.2, 2.4), (5.3, 5.8)), "eso35-q1": (35, (0.42, 0.44), (2.7, 2.9), (7.2, 7.7)),
        "eso35-q2": (35, (0.55, 0.58), (2.3, 2.4), (5.8, 6.1)), "eso35-q3": (35, (0.71, 0.74), (2.1, 2.2), (5.0, 5.3)),
        "eso35-q4": (35, (1.02, 1.05), (2.1, 2.2), (4.1, 4.4)), "paranal10": (10, (0.79, 0.81), (2.0, 2.3), (3.1, 3.5)),
        "eso9": (9, (0.79, 0.81), (1.9, 2.2), None), "maunakea13n-median": (7, (0.53, 0.55), (2.2, 2.4), (6.1, 6.4))}

    def test_profiles_are_whole_and_plausible(self):
        """Shares that sum to 1, and the seeing, isoplanatic angle and coherence time that belong to the profile."""
        names = sorted(glob.glob(os.path.join(ROOT, "params", "profiles", "*.yaml")))
        self.assertEqual([os.path.basename(n)[:-5] for n in names], sorted(self.PROFILES))
        for name in names:
            with self.subTest(name), open(name, encoding="utf-8") as f:
                text = f.read()
                self.assertTrue(text.startswith("# "))
                value = {k: [float(x) for x in v.split(",")] for k, v in re.findall(r"(\w+): \[([^]]*)\]", text)}
                layers, seeing, theta, tau = self.PROFILES[os.path.basename(name)[:-5]]
                h, w = value["altitude"], value["fraction"]
                self.assertEqual((len(h), len(w)), (layers, layers))
                self.assertAlmostEqual(sum(w), 1, places=9)
                self.assertEqual(h, sorted(h))
                r0 = float(re.search(r"r0: ([0-9.]+) cm", text).group(1)) / 100
                figures = [(0.976 * 500e-9 / r0 * 206265, seeing)]
                figures.append((0.314 * r0 / moment(w, h) * 206265, theta))
                if tau:
                    self.assertLess(max(self.anisotropy(w, value)), 0.25 if layers == 10 else 0.16)
                    self.assertEqual(len(value["wind_speed"]), layers)
                    figures.append((0.314e3 * r0 / moment(w, value["wind_speed"]), tau))
                for got, (low, high) in figures:
                    self.assertTrue(low <= got <= high, "%g is not in %g to %g" % (got, low, high))

    @staticmethod
    def anisotropy(weights, value):
        """First and second harmonic of the directions, weighted by strength and speed^(5/3): 1 for layers along one axis."""
        terms = [(w * v ** (5 / 3), math.radians(a)) for w, v, a in zip(weights, value["wind_speed"], value["wind_direction"])]
        return [abs(sum(w * cmath.exp(1j * k * a) for w, a in terms)) / sum(w for w, _ in terms) for k in (1, 2)]

    def test_wind_without_directions_is_told(self):
        """Where a lag is asked for, and only there; a direction of 0 that is given is meant."""
        case = os.path.join(ROOT, "params", "canary.yaml")
        layers = "atmosphere={profiles: [{r0: 15 cm, layers: {altitude: [0, 9000], fraction: [0.6, 0.4], wind_speed: [8, 20]%s}}]}"
        for direction, delay, told in (("", "3 ms", 1), (", wind_direction: 0", "3 ms", 0), ("", "0", 0)):
            p = subprocess.run([MOAO, "check", case, layers % direction, "loop.delay=" + delay, "schedule.exposure_times=[0]"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, env=environment(), check=True)
            self.assertEqual(p.stderr.count("profile 1: wind_speed without wind_direction: all layers move along x"), told, p.stderr)

    def test_names_are_found_among_the_shipped_files(self):
        """Beside the parameter file first, then among the shipped ones; the message says where."""
        with tempfile.TemporaryDirectory() as tmp:
            def check(name):
                with open(os.path.join(tmp, "mine.yaml"), "w", encoding="utf-8") as f:
                    f.write("telescope: {diameter: 8}\ndm: {nssp: 8}\nsensors: [{type: ngs, nssp: 8, direction: [0, 0], magnitude: 8}]\n"
                            "targets: {list: [[0, 0]]}\natmosphere: {profiles: [{file: %s}]}\n" % name)
                return subprocess.run([MOAO, "check", "mine.yaml"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp,
                                      universal_newlines=True, env=environment(), check=False)
            self.assertIn("up to 35 layers", check("profiles/eso35-median.yaml").stdout)
            self.assertRegex(check("profiles/none.yaml").stderr, r"^mine\.yaml:5:\d+: atmosphere\.profiles\[0\]\.file: profiles/none\.yaml "
                             r"cannot be read \(No such file or directory, nor in /\S+/params\), expected a file\n$")
            os.mkdir(os.path.join(tmp, "profiles"))
            shutil.copy(os.path.join(ROOT, "params", "profiles", "eso9.yaml"), os.path.join(tmp, "profiles", "eso35-median.yaml"))
            self.assertIn("up to 9 layers", check("profiles/eso35-median.yaml").stdout)

    def test_profiles_are_read(self):
        """Each as it is for a case, and with another seeing."""
        case = os.path.join(ROOT, "params", "canary.yaml")
        for name in sorted(self.PROFILES):
            for key, seeing in (("", self.PROFILES[name][1]), (", seeing: 1.1", (1.095, 1.105))):
                item = "atmosphere={profiles: [{file: %s/params/profiles/%s.yaml%s}]}" % (ROOT, name, key)
                p = subprocess.run([MOAO, "check", case, item, "telescope.zenith=0", "schedule.exposure_times=[0]"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True,
                                   env=environment(), check=False)
                self.assertEqual(p.returncode, 0, p.stderr)
                got = float(re.search(r"seeing ([0-9.]+) to", p.stdout).group(1))
                self.assertTrue(seeing[0] - 0.005 <= got <= seeing[1] + 0.005, (name, got))

    def test_reference_page_is_what_the_program_prints(self):
        made = subprocess.run([MOAO, "params", "--markdown"], stdout=subprocess.PIPE, env=environment(), check=True)
        with open(os.path.join(ROOT, "docs", "parameters.md"), "rb") as f:
            self.assertEqual(f.read(), made.stdout)


if __name__ == "__main__":
    unittest.main()
