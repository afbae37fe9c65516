"""moao import: files of TIPTOP and pyTomoAO and profiles of turbulence, typed by hand in those dialects; what they say arrives in moao's
words and units, what is left out is listed, what does not fit is named with its place, and the program takes the result."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from astropy.io import fits

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ.update(environment(), MOAO=MOAO)
import moao  # noqa: E402
from moao import importers  # noqa: E402

TIPTOP = """; a demonstrator, in the keys of TIPTOP
[telescope]
TelescopeDiameter = 6.4
ZenithAngle = 25.0
ObscurationRatio = 0.2
Resolution = 128
PathPupil = 'pupil.fits'
jitter_FWHM = 23.548200450309494   # 10 mas rms
extraErrorNm = 60
extraErrorExp = -1.5

[atmosphere]
Wavelength = 1000e-9
Seeing = 0.8
L0 = 30.
Cn2Heights = [0, 4000.0, 11000]
Cn2Weights = [0.6, 0.3, 0.1]
WindSpeed = [5., 12, 25]
WindDirection = [0., 90., -45.]

[sources_science]
Wavelength = [1.65e-06, 2200e-9]
Zenith = [0.0, 10.0]
Azimuth = [0.0, 90.0]

[sources_HO]
Wavelength = 589e-9
Zenith = [30, 30]
Azimuth = [0, 180]
Height = 90e3

[sensor_HO]
WfsType = 'Shack-Hartmann'
NumberLenslets = [16, 16]
PixelScale = 800
FieldOfView = 8
NumberPhotons = [150]
SpotFWHM = [[1200.0, 1500.0, 0.0]]
SigmaRON = 0.5
ExcessNoiseFactor = 2.0
NoiseVariance = [None]
Algorithm = 'wcog'

[sources_LO]
Wavelength = [1650e-9]
Zenith = [40.0]
Azimuth = [270]

[sensor_LO]
PixelScale = 60.0
FieldOfView = 20
NumberPhotons = [900]
NumberLenslets = [2]
SigmaRON = 1.0
Dark = 30.0
SkyBackground = 20.0

[DM]
NumberActuators = [17, 20]
DmPitchs = [0.4, 0.5]
DmHeights = [0, 8000]
InfCoupling = [0.25, 0.2]
OptimizationZenith = [0, 20, 20]
OptimizationAzimuth = [0, 90, 180]
OptimizationWeight = [2, 1, 1]

[RTC]
SensorFrameRate_HO = 500.0
LoopDelaySteps_HO = 2
LoopGain_HO = 0.4
SensorFrameRate_LO = 250.0
LoopDelaySteps_LO = 3
"""
PYTOMOAO = """lgs_wfs_parameters: {D: 10, nLenslet: 20, nPx: 8, fieldStopSize: 4, wfsLensletsRotation: [0, 0.1, 0, 0]}
dm_parameters: {dmHeights: [0.0], dmPitch: [0.5], dmCrossCoupling: 0.15, nActuators: [21]}
atmosphere_parameters:
  nLayer: 2
  zenithAngleInDeg: 30.0
  altitude: [0, 8]
  L0: 30
  r0: 0.186
  fractionnalR0: [0.75, 0.25]
  wavelength: 5.0e-7
  windDirection: [190, 29]
  windSpeed: [5.6, 19.06]
lgs_asterism: {radiusAst: 7.6, LGSwavelength: 5.89e-7, baseLGSHeight: 90000.0, nLGS: 4}
noise_parameters:
  iNoiseVar: 1e14
tomography_parameters: {fovOptimization: 20, nFitSrc: 3}
"""
NIGHT = "time [s],height [km],Cn2dh [m^(1/3)],wind_speed,wind_direction,comment\n" \
        "0,0.0,4e-13,5,0,x\n0,10.0,1e-13,20,90,\n600,0.0,2e-13,6,10,\n600,10.0,1e-13,22,80,y\n"


class Import(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="moao-import-")
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def moao(self, *words):
        p = subprocess.run([MOAO] + list(words), cwd=self.dir, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        return p.returncode, p.stdout

    def refused(self, text, words, name="bad.ini", **options):
        with self.assertRaisesRegex(moao.MoaoError, words) as caught:
            importers.read(self.write(name, text), **options)
        return caught.exception

    def test_tiptop(self):
        """Every key with a counterpart, in the program's own words; the others are listed."""
        path = self.write("system.ini", TIPTOP)
        code, text = self.moao("import", "system.ini", "-o", "system.yaml")
        self.assertEqual(code, 0, text)
        for word in ("telescope.PathPupil = 'pupil.fits': the file is not there", "DM.NumberActuators = [17, 20]",
                     "sensor_HO.Algorithm = 'wcog'"):
            self.assertIn("left out: " + word, text)
        self.assertNotIn("NoiseVariance", text)
        with open(os.path.join(self.dir, "system.yaml"), encoding="utf-8") as f:
            self.assertIn("#   telescope.PathPupil", f.read())
        p = moao.Case(os.path.join(self.dir, "system.yaml")).parameters
        self.assertEqual([p["telescope"][k] for k in ("diameter", "obscuration", "zenith")] + [p["dm"]["nssp"], p["dm"]["coupling"]], [6.4, 0.2, 25, 16, 0.25])
        self.assertEqual((p["mode"], p["output"]["budget"]), ("mcao", "none"))
        self.assertEqual((p["mirrors"]["altitude"], p["mirrors"]["pitch"], p["mirrors"]["coupling"]), ([0, 8000], [0.4, 0.5], [0.25, 0.2]))
        np.testing.assert_allclose(p["optimise"]["list"], [[0, 0], [0, 20], [-20, 0]], atol=1e-5)
        np.testing.assert_allclose(np.array(p["optimise"]["weights"]) / sum(p["optimise"]["weights"]), [0.5, 0.25, 0.25])
        ho, lo = p["sensors"][1], p["sensors"][2]
        self.assertEqual([s["type"] for s in p["sensors"]], ["lgs", "lgs", "ngs"])
        np.testing.assert_allclose([s["direction"] for s in p["sensors"]], [[30, 0], [-30, 0], [0, -40]], atol=1e-5)
        for key, value in {"altitude": 90000, "nssp": 16, "photons": 150, "ron": 0.5, "excess_noise": 2, "pixel": 0.8, "field_stop": 6.4,
                           "lgs_width": 1.5, "lgs_depth": 0, "frame_time": 0.002, "wavelength": 0.589}.items():
            self.assertAlmostEqual(ho[key], value, msg=key)
        for key, value in {"nssp": 2, "photons": 900, "background": 0.2, "pixel": 0.06, "wavelength": 1.65, "frame_time": 0.004,
                           "field_stop": 1.2}.items():
            self.assertAlmostEqual(lo[key], value, msg=key)
        self.assertEqual((lo["spot"], ho["spot"]), ("corrected", "auto"))  # a mirror corrects the light of the natural star
        np.testing.assert_allclose(p["targets"]["list"], [[0, 0], [0, 10]], atol=1e-5)
        self.assertEqual(p["psf"]["wavelengths"], [1.65, 2.2])
        np.testing.assert_allclose(p["errors"]["jitter"], [10, 10], atol=1e-5)
        self.assertEqual((p["errors"]["static_rms"], p["errors"]["static_power"]), (60, 1.5))
        self.assertEqual([p["loop"][k] for k in ("type", "frames", "rate")] + [float(p["loop"]["gain"])], ["integrator", 2, 500, 0.4])
        self.assertEqual([p["loop"]["low"][k] for k in ("control", "modes", "type", "gain", "frames", "rate")],
                         ["split", "tiptilt", "integrator", "optimal", 3, 250])
        self.assertEqual([s["low_order"] for s in p["sensors"]], [False, False, True])
        layers = p["atmosphere"]["profiles"][0]["layers"]
        self.assertEqual((layers["wind_direction"], layers["L0"]), ([0, 90, -45], [30, 30, 30]))
        r0 = 0.976 * 500e-9 / (0.8 * 2 ** 0.2 / 206264.8)  # the seeing is that at 1 um: at 500 nm it is 2^(1/5) larger
        np.testing.assert_allclose(layers["strength"], np.array([0.6, 0.3, 0.1]) * r0 ** (-5 / 3), rtol=1e-4)
        fits.PrimaryHDU(np.ones((16, 16), np.float32)).writeto(os.path.join(self.dir, "pupil.fits"))
        self.assertEqual(importers.read(path).parameters["telescope"]["pupil"], os.path.join(self.dir, "pupil.fits"))
        os.remove(os.path.join(self.dir, "pupil.fits"))

    def test_tiptop_loops(self):
        """Gains of both loops, three stars for plate scale, a rate that is no whole fraction; without the gain of high orders an open loop."""
        def made(text):
            return importers.read(self.write("loops.ini", text))

        many = TIPTOP.replace("Zenith = [40.0]\nAzimuth = [270]", "Zenith = [40, 40, 40]\nAzimuth = [30, 150, 270]")
        both = made(many + "LoopGain_LO = 0.2\n").parameters["loop"]
        self.assertEqual((both["gain"], both["low"]["gain"], both["low"]["modes"]), (0.4, 0.2, "plate_scale"))
        odd = made(TIPTOP.replace("SensorFrameRate_LO = 250.0", "SensorFrameRate_LO = 190"))
        self.assertAlmostEqual(odd.parameters["loop"]["low"]["rate"], 500 / 3)
        self.assertTrue(any("190 Hz are taken as 166.667 Hz" in n for n in odd.notes))
        open_ = made(TIPTOP.replace("LoopGain_HO = 0.4", "LoopGain_LO = 0.3"))
        self.assertAlmostEqual(open_.parameters["loop"]["delay"] + open_.parameters["loop"]["integration"] / 2, 2 / 500)  # 2 frames
        lo = open_.parameters["sensors"][2]
        self.assertAlmostEqual(lo["delay"], 0.01)
        self.assertNotIn("low_order", lo)
        self.assertIn(("RTC.LoopGain_LO = 0.3", "open loop, as LoopGain_HO is not given"), open_.left_out)
        code, text = self.moao("import", "loops.ini", "-o", "loops.yaml")
        self.assertEqual(code, 0, text)
        with open(os.path.join(self.dir, "loops.ini"), "w", encoding="utf-8") as f:
            f.write(many)
        self.assertEqual(self.moao("import", "loops.ini", "-o", "many.yaml")[0], 0)
        code, text = self.moao("check", "many.yaml")
        self.assertEqual(code, 0, text)
        self.assertIn("5 modes by 3 stars, split", " ".join(text.split()))

    def test_tiptop_variants(self):
        """A natural star alone, a noise variance, a turned jitter; keys in another case; values that do not fit have their line."""
        text = TIPTOP.split("[sources_LO]")[0].replace("Height = 90e3", "Height = 0") + "[DM]\nDmPitchs = [0.4]\n"
        made = importers.read(self.write("ngs.ini", text.replace("[None]", "[4.0]").replace("jitter_FWHM = 23.548200450309494", "jitter_FWHM = [20, 10, 0.7853981633974483]")))
        sensor = dict(made.parameters["ngs_defaults"], **made.parameters["sensors"][0])
        self.assertEqual((sensor["type"], "photons" in sensor), ("ngs", False))
        self.assertEqual((made.parameters["mode"], made.parameters["dm"]["nssp"], "mirrors" in made.parameters), ("ltao", 16, False))
        alone = TIPTOP.split("[sources_LO]")[0].replace("Zenith = [30, 30]\nAzimuth = [0, 180]", "Zenith = [12]\nAzimuth = [90]").replace("[16, 16]", "[16]")
        one = importers.read(self.write("one.ini", alone + "[DM]\nDmPitchs = [0.4]\nDmHeights = [600]\nOptimizationZenith = [7]\n"))
        self.assertEqual((one.parameters["mode"], one.parameters["optimise"], one.parameters["mirrors"]["altitude"]), ("ltao", {"list": [[0, 12]]}, [600]))
        self.assertIn(("DM.OptimizationZenith = [7]", "one star: commands are fitted to its direction"), one.left_out)
        slope = 2.0 / (2 * np.pi) * 589e-9 / (6.4 / 16) * 206264.806  # 2 rad between the edges of a subaperture
        self.assertAlmostEqual(sensor["noise_variance"], slope ** 2, places=9)
        np.testing.assert_allclose(made.parameters["errors"]["jitter"], [np.sqrt(250) / 2.354820045] * 2, rtol=1e-6)
        self.assertTrue(any("turned" in n for n in made.notes))
        e = self.refused(TIPTOP.replace("'Shack-Hartmann'", "'Pyramid'"), "sensor_HO.WfsType: Pyramid: moao has Shack-Hartmann")
        self.assertEqual(e.line, 1 + TIPTOP[:TIPTOP.index("WfsType")].count("\n"))
        self.refused(TIPTOP.replace("PixelScale = 800", ""), "sensor_HO.PixelScale: missing")
        self.refused(TIPTOP.replace("Cn2Weights = [0.6, 0.3, 0.1]", "Cn2Weights = [0.6, 0.4]"), r"Cn2Weights: \[0.6, 0.4\], expected 3 numbers")
        self.refused(TIPTOP.replace("Azimuth = [0.0, 90.0]", "Azimuth = [0.0]"), "sources_science.Azimuth: 1 values, Zenith has 2")
        self.refused(TIPTOP.replace("TelescopeDiameter = 6.4", "TelescopeDiameter = 'big'"), "TelescopeDiameter: 'big', expected a number")
        self.refused(TIPTOP.replace("DmHeights = [0, 8000]", "DmHeights = [0, 8000, 1]"), r"DmHeights: \[0, 8000, 1\], expected 2 numbers")
        self.refused(TIPTOP.replace("OptimizationAzimuth = [0, 90, 180]", ""), "OptimizationAzimuth: 1 values, OptimizationZenith has 3")
        self.refused("[telescope]\nTelescopeDiameter = 8\n", r"\[atmosphere\]: missing")
        self.refused("no ini", "no file of TIPTOP")
        code, text = self.moao("import", "ngs.ini", "-o", "ngs.ini")
        self.assertEqual(code, 2)
        self.assertIn("is there already", text)

    def test_pytomoao(self):
        """The circle of laser stars, the box of targets, the profile in km, the noise."""
        code, text = self.moao("import", self.write("keck.yaml", PYTOMOAO), "-o", "keck-moao.yaml")
        self.assertEqual(code, 0, text)
        self.assertIn("left out: lgs_wfs_parameters.wfsLensletsRotation", text)
        p = moao.Case(os.path.join(self.dir, "keck-moao.yaml")).parameters
        self.assertEqual((p["telescope"]["diameter"], p["telescope"]["zenith"], p["dm"]["nssp"], p["dm"]["coupling"]), (10, 30, 20, 0.15))
        np.testing.assert_allclose([s["direction"] for s in p["sensors"]], [[7.6, 0], [0, 7.6], [-7.6, 0], [0, -7.6]], atol=1e-5)
        self.assertAlmostEqual(p["sensors"][0]["noise_variance"], (206264.806 * 1e-7) ** 2, places=9)
        self.assertEqual(p["targets"]["grid"], {"nx": 3, "ny": 3, "width": 20, "height": 20, "center": [0, 0]})
        layers = p["atmosphere"]["profiles"][0]["layers"]
        self.assertEqual((layers["altitude"], layers["wind_direction"]), ([0, 8000], [190, 29]))
        np.testing.assert_allclose(layers["strength"], np.array([0.75, 0.25]) * 0.186 ** (-5 / 3), rtol=1e-6)
        self.refused(PYTOMOAO.replace("r0: 0.186", "r0: thin"), "atmosphere_parameters.r0: 'thin', expected a number", "bad.yaml")
        self.refused(PYTOMOAO.replace("altitude: [0, 8]", "altitude: [0]"), "altitude: expected a list of 2 numbers", "bad.yaml")
        self.refused("telescope: {diameter: 8}\n", "no file of pyTomoAO", "bad.yaml")

    def test_profiles(self):
        """CSV of a night, FITS in m^(-2/3), plain text of fractions: the strengths are those of Cn2; runs behind a case."""
        self.write("night.csv", NIGHT)
        code, text = self.moao("import", "night.csv", "-o", "night.yaml")
        self.assertEqual(code, 0, text)
        self.assertIn("left out: column comment", text)
        case = moao.Case("demo", os.path.join(self.dir, "night.yaml"))
        case["schedule.exposure_interval"], case["schedule.end"], case["schedule.tor_interval"] = 600, 1200, 600
        profiles = case.parameters["atmosphere"]["profiles"]
        self.assertEqual([p["time"] for p in profiles], [0, 600])
        k = 0.423 * (2 * np.pi / 500e-9) ** 2
        np.testing.assert_allclose(profiles[1]["layers"]["strength"], k * np.array([2e-13, 1e-13]), rtol=1e-6)
        self.assertEqual((profiles[0]["layers"]["altitude"], profiles[0]["layers"]["wind_speed"]), ([0, 10000], [5, 20]))
        columns = [fits.Column("HEIGHT", "D", "m", array=[0.0, 1000, 3000]), fits.Column("CN2", "D", "m^(-2/3)", array=[1e-16, 2e-16, 1e-17])]
        fits.BinTableHDU.from_columns(columns).writeto(os.path.join(self.dir, "scidar.fits"))
        layers = importers.read(os.path.join(self.dir, "scidar.fits")).parameters["atmosphere"]["profiles"][0]["layers"]
        np.testing.assert_allclose(layers["strength"], k * np.array([1e-16 * 500, 2e-16 * 1500, 1e-17 * 1000]), rtol=1e-6)
        plain = "# height fraction\n0 0.7\n5000 0.3\n"
        made = importers.read(self.write("plain.txt", plain), seeing=0.8)
        self.assertEqual(made.parameters["atmosphere"]["profiles"], [{"seeing": 0.8, "layers": {"altitude": [0, 5000], "fraction": [0.7, 0.3]}}])
        self.refused(plain, "fractions alone: say --seeing", "plain2.txt")
        self.refused("h,cn2\n0,1e-13\n", r"--unit 'cn2=m\^\(1/3\)'", "cn2.csv")
        self.assertTrue(importers.read(os.path.join(self.dir, "cn2.csv"), units={"cn2": "m^(1/3)"}))
        self.refused("h,cn2dh\n0,1e-13\n5,none\n", "cn2dh", "gap.csv")
        self.refused("h,cn2dh\n0,5\n", "no turbulence", "large.csv")
        self.refused("name,ra\na,1\n", "expected columns of height", "other.csv")

    def test_words(self):
        """moao import says what it needs; several files are those of the published framework."""
        self.assertIn("moao import FILE -o OUT", self.moao("import", "--help")[1])
        self.assertEqual(self.moao("import", "nothing.ini", "-o", "x.yaml")[0], 2)
        code, text = self.moao("import", "sys", "prof", "-o", "new.yaml")
        self.assertEqual(code, 2)
        self.assertIn("sys:1:1: file: ", text)


if __name__ == "__main__":
    unittest.main()
