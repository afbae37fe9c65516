"""Adaptive Optics Telemetry: a file that is typed by hand, table by table, becomes parameters; a run becomes such a file, which aotpy reads
where it is installed and which comes back as the parameters of the run."""
# seconds: 5
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
from astropy.io import fits

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
os.environ.update(environment(), MOAO=MOAO)
import moao  # noqa: E402
from moao import importers  # noqa: E402
from moao.aot import actuators, from_offset, subapertures, write_aot  # noqa: E402
from moao.importers.aot import offset  # noqa: E402

NAN, NONE, RAD = np.nan, -32768, np.pi / 180 / 3600
PITCH = [(x, y) for y in (-0.5, 0.5) for x in (-0.5, 0.5)]


def table(name, **columns):
    """A table as the standard has them: texts, doubles, 64-bit integers, lists of doubles of any length."""
    made = []
    for key, cells in columns.items():
        if isinstance(cells[0], str):
            made.append(fits.Column(key, "%dA" % max(len(c) + 1 for c in cells), array=np.array(cells)))
        elif isinstance(cells[0], list):
            made.append(fits.Column(key, "QD", array=np.array([np.array(c, float) for c in cells] + [None], dtype=object)[:-1]))
        else:
            made.append(fits.Column(key, "K" if isinstance(cells[0], int) else "D", array=np.array(cells)))
    return fits.BinTableHDU.from_columns(made, name="AOT_" + name)


def hand(**changes):
    """The tables of a demonstrator of MOAO by name; changes replace columns of a table."""
    t = {"TIME": {"UID": ["clock"], "TIMESTAMPS": [[1000.0, 1600.0]], "FRAME_NUMBERS": [[]]},
         "ATMOSPHERIC_PARAMETERS": {"UID": ["dimm", "profiler"], "WAVELENGTH": [1e-6, NAN], "TIME_UID": ["ROWREF<clock>", ""], "R0": [[0.3, 0.4], []],
                                    "SEEING": [[], []], "TAU0": [[0.003, 0.004], []], "LAYERS_REL_WEIGHT": ["", "INTREF<W>"],
                                    "LAYERS_HEIGHT": ["", "INTREF<H>"], "LAYERS_WIND_SPEED": ["", "INTREF<V>"], "LAYERS_WIND_DIRECTION": ["", "INTREF<D>"]},
         "TELESCOPES": {"UID": ["laser", "main"], "TYPE": ["Laser Launch Telescope", "Main Telescope"], "ELEVATION": [NAN, 60.0], "LATITUDE": [-24.6, -24.6],
                        "PUPIL_MASK": ["", "FILEREF<pupil.fits>0"], "ENCLOSING_D": [NAN, 4.0], "OBSTRUCTION_D": [NAN, 1.0]},
         "SOURCES": {"UID": ["object", "star", "beam"], "TYPE": ["Science Star", "Natural Guide Star", "Sodium Laser Guide Star"],
                     "ELEVATION_OFFSET": [0.0, 20 / 3600, 0.0], "AZIMUTH_OFFSET": [0.0, 0.0, 2 * 15 / 3600], "FWHM": [NAN, NAN, 1.5 * RAD]},
         "SOURCES_SODIUM_LGS": {"UID": ["beam"], "HEIGHT": [91e3], "PROFILE": ["INTREF<NA>"], "ALTITUDES": [[86e3, 91e3, 96e3]], "LLT_UID": ["ROWREF<laser>"]},
         "DETECTORS": {"UID": ["ccd", "emccd"], "READOUT_NOISE": [2.5, 0.2], "INTEGRATION_TIME": [0.004, 0.002], "PIXEL_SCALE": [0.4 * RAD, 0.8 * RAD],
                       "GAIN": [2.0, NAN], "EXCESS_NOISE": [NAN, 1.4]},
         "SCORING_CAMERAS": {"UID": ["cam"], "WAVELENGTH": [1.65e-6]},
         "WAVEFRONT_SENSORS": {"UID": ["ngs", "lgs"], "TYPE": ["Shack-Hartmann"] * 2, "SOURCE_UID": ["ROWREF<star>", "ROWREF<beam>"], "DIMENSIONS": [2, 2],
                               "N_VALID_SUBAPERTURES": [12, 12], "MEASUREMENTS": ["INTREF<SLOPES>", ""], "SUBAPERTURE_MASK": ["INTREF<MASK>", ""],
                               "SUBAPERTURE_SIZE": [8.0, NONE + 0.0], "SUBAPERTURE_INTENSITIES": ["INTREF<LIGHT>", ""], "WAVELENGTH": [0.7e-6, 0.589e-6],
                               "DETECTOR_UID": ["ROWREF<ccd>", "ROWREF<emccd>"]},
         "WAVEFRONT_CORRECTORS": {"UID": ["dm"], "TYPE": ["Deformable Mirror"], "TELESCOPE_UID": ["ROWREF<main>"], "N_VALID_ACTUATORS": [4]},
         "WAVEFRONT_CORRECTORS_DM": {"UID": ["dm"], "ACTUATORS_X": [[p[0] for p in PITCH]], "ACTUATORS_Y": [[p[1] for p in PITCH]], "STROKE": [5e-6]},
         "LOOPS": {"UID": ["a"], "TYPE": ["Control Loop"], "COMMANDED_UID": ["ROWREF<dm>"], "STATUS": ["Open"], "FRAMERATE": [250.0], "DELAY": [2.0]}}
    for name, columns in changes.items():
        t[name].update(columns)
    mask = np.full((4, 4), -1)
    mask[[0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3], [1, 2, 0, 1, 2, 3, 0, 1, 2, 3, 1, 2]] = np.arange(12)
    images = {"W": [[0.7, 0.3]], "H": [[0.0, 6000.0]], "V": [[8.0, 20.0], [9.0, 21.0]], "D": [[0.0, 90.0]], "NA": [[0.25, 0.5, 0.25]], "MASK": mask,
              "LIGHT": np.full((3, 12), 40.0), "SLOPES": np.zeros((3, 2, 12))}
    primary = fits.PrimaryHDU()
    primary.header["AO-MODE"], primary.header["SYS-NAME"] = "MOAO", "demonstrator"
    return fits.HDUList([primary] + [table(name, **c) for name, c in t.items()] + [fits.ImageHDU(np.asarray(v), name=k) for k, v in images.items()])


class Import(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.mkdtemp(prefix="moao-aot-")
        cls.addClassCleanup(shutil.rmtree, cls.dir, ignore_errors=True)

    def file(self, mode="MOAO", **changes):
        path = os.path.join(self.dir, "system.fits")
        hdus = hand(**changes)
        hdus[0].header["AO-MODE"] = mode
        hdus.writeto(path, overwrite=True)
        return path

    def test_all(self):
        """Every table arrives in moao's words and units; telemetry and what is not known is listed; the program takes the file."""
        self.file()
        p = subprocess.run([MOAO, "import", "system.fits", "-o", "system.yaml"], cwd=self.dir, env=environment(), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        self.assertEqual(p.returncode, 0, p.stdout)
        for line in ("AOT_WAVEFRONT_SENSORS.MEASUREMENTS: telemetry", "AOT_ATMOSPHERIC_PARAMETERS.TAU0: follows", "AOT_TELESCOPES.PUPIL_MASK: save the image",
                     "AOT_WAVEFRONT_CORRECTORS_DM.STROKE", "AOT_SOURCES_SODIUM_LGS.LLT_UID"):
            self.assertIn("left out: " + line, p.stdout)
        self.assertIn("note: lgs: the file gives no photo-electrons", p.stdout)
        self.assertNotIn("LATITUDE", p.stdout)
        case = moao.Case(os.path.join(self.dir, "system.yaml")).parameters
        t = case["telescope"]
        self.assertEqual((t["diameter"], t["obscuration"], t["zenith"], case["dm"]["nssp"], case["mode"]), (4, 0.25, 30, 4, "moao"))
        ngs, lgs = case["sensors"]
        self.assertEqual((ngs["type"], ngs["nssp"], lgs["type"], lgs["nssp"]), ("ngs", 4, "lgs", 4))
        for key, value in {"photons": 80, "ron": 2.5, "pixel": 0.4, "field_stop": 3.2, "frame_time": 0.004, "wavelength": 0.7, "excess_noise": 1}.items():
            self.assertAlmostEqual(ngs[key], value, places=8, msg=key)
        for key, value in {"altitude": 91000, "lgs_width": 1.5, "lgs_depth": 2.3548200450 * 5000 / np.sqrt(2), "noise_variance": 0}.items():
            self.assertAlmostEqual(lgs[key], value, places=2, msg=key)
        np.testing.assert_allclose([ngs["direction"], lgs["direction"]], [[0, 20], [15, 0]], atol=2e-3)  # azimuth times cos(60 deg)
        first, second = case["atmosphere"]["profiles"]
        self.assertEqual((first.get("time", 0), second["time"]), (0, 600))
        r0 = 0.3 * 0.5 ** 1.2  # from 1 um to 500 nm
        np.testing.assert_allclose(first["layers"]["strength"], np.array([0.7, 0.3]) * r0 ** (-5 / 3), rtol=1e-6)
        self.assertEqual((first["layers"]["wind_speed"], second["layers"]["wind_speed"], first["layers"]["altitude"]), ([8, 20], [9, 21], [0, 6000]))
        np.testing.assert_allclose(first["layers"]["wind_direction"], [-90, 0])  # from the north to the south; from the east to x, the west
        self.assertAlmostEqual(case["loop"]["delay"] + case["loop"]["integration"] / 2, 2 / 250)
        self.assertEqual((case["psf"]["wavelengths"], case["targets"]["list"]), ([1.65], [[0, 0]]))

    def test_sky(self):
        """Right ascension and declination, with x to the west of the science star."""
        sky = {"RIGHT_ASCENSION": [150.0, 150.0, 150 + 20 / 3600 / np.cos(np.radians(2))], "DECLINATION": [2.0, 2 + 30 / 3600, 2.0],
               "ELEVATION_OFFSET": [NAN] * 3, "AZIMUTH_OFFSET": [NAN] * 3}
        p = importers.read(self.file(SOURCES=sky)).parameters
        np.testing.assert_allclose([s["direction"] for s in p["sensors"]], [[0, 30], [-20, 0]], atol=2e-3)
        for x, y, latitude in ((30, -40, 60), (5, 7, 90), (100, 0, 0), (0, 0, 35)):
            a, d = from_offset(x, y, latitude)
            np.testing.assert_allclose(offset(a, latitude + d, 0, latitude), [x, y], atol=1e-6)

    def test_modes(self):
        self.assertEqual(importers.read(self.file("LTAO")).parameters["mode"], "ltao")
        scao = importers.read(self.file("SCAO")).parameters
        self.assertEqual((scao["mode"], scao["optimise"]["list"]), ("ltao", [scao["sensors"][0]["direction"]]))
        mcao = importers.read(self.file("MCAO"))
        self.assertTrue("mode" not in mcao.parameters and any("no altitudes of mirrors" in n for n in mcao.notes))

    def refused(self, words, mode="MOAO", **changes):
        with self.assertRaisesRegex(moao.MoaoError, words):
            importers.read(self.file(mode, **changes))

    def test_refused(self):
        """Pyramids and what is required name their table, row and column."""
        self.refused("AOT_WAVEFRONT_SENSORS, row 2, TYPE: Pyramid: moao has Shack-Hartmann", WAVEFRONT_SENSORS={"TYPE": ["Shack-Hartmann", "Pyramid"]})
        self.refused("row 1, SOURCE_UID: ROWREF<sun>: no such row", WAVEFRONT_SENSORS={"SOURCE_UID": ["ROWREF<sun>", "ROWREF<beam>"]})
        self.refused("no image GONE", WAVEFRONT_SENSORS={"SUBAPERTURE_MASK": ["INTREF<GONE>", ""]})
        self.refused("no R0 and no SEEING", ATMOSPHERIC_PARAMETERS={"R0": [[], []]})
        self.refused("3 values of r0 and 2 times", ATMOSPHERIC_PARAMETERS={"R0": [[0.1, 0.2, 0.3], []]})
        self.refused("ENCLOSING_D: missing", TELESCOPES={"ENCLOSING_D": [NAN, NAN]})
        self.refused("AO-MODE: XAO, expected one of", "XAO")
        self.refused("star lies over 10 deg", SOURCES={"ELEVATION_OFFSET": [0.0, 20.0, 0.0]})
        with open(os.path.join(self.dir, "cut.fits"), "wb") as f, open(self.file(), "rb") as whole:
            f.write(whole.read(9000))
        with self.assertRaisesRegex(moao.MoaoError, "cut.fits: "):
            importers.read(os.path.join(self.dir, "cut.fits"))


class Export(unittest.TestCase):
    def test_geometry(self):
        """Subapertures and actuators are those of the program: as many as it counts."""
        case = moao.Case("demo")
        n, hole, d = case["dm.nssp"], case["telescope.obscuration"], case["telescope.diameter"]
        sizes = case.check().sizes
        self.assertEqual(len(actuators(n, hole, d / n, sizes["actuators"])), sizes["actuators"])
        self.assertIsNone(subapertures(n, hole, 5))
        self.assertEqual((subapertures(2, 0.3, 4) >= 0).sum(), 4)

    def test_without(self):
        with mock.patch.dict(sys.modules, {"aotpy": None}), self.assertRaisesRegex(moao.MoaoError, "pip install aotpy"):
            write_aot(None, "x.fits")

    def test_round_trip(self):
        """What aotpy reads of a run is what the run is, and it comes back as its parameters."""
        if importlib.util.find_spec("aotpy") is None:
            return  # test_without says what a user sees then
        import aotpy
        folder = tempfile.mkdtemp(prefix="moao-aot-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        case = moao.Case({"telescope": {"diameter": 3, "obscuration": 0.2, "zenith": 20}, "dm": {"nssp": 6}, "loop": {"delay": 0.003, "integration": 0.002},
                          "sensors": [{"name": "L", "type": "lgs", "nssp": 6, "direction": [20, 0], "altitude": 9e4},
                                      {"name": "N", "type": "ngs", "nssp": 3, "direction": [-30, 10], "magnitude": 12}],
                          "targets": {"list": [[0, 0], [10, -5]]}, "psf": {"wavelengths": [1.65, 2.2]}, "schedule": {"tor_times": [0], "exposure_times": [0, 600]},
                          "atmosphere": {"profiles": [{"time": t, "r0": r, "layers": {"altitude": [0, 5000], "fraction": [0.7, 0.3], "wind_speed": [5, 15],
                                                                                      "wind_direction": [0, 90]}} for t, r in ((0, 0.15), (600, 0.12))]}})
        run = case.run(folder=os.path.join(folder, "run"), progress=None)
        path = os.path.join(folder, "run.aot.fits")
        write_aot(run, path)
        system = aotpy.AOSystem.read_from_file(path)
        self.assertEqual((system.ao_mode, len(system.sources), len(system.wavefront_sensors), len(system.wavefront_correctors), len(system.scoring_cameras)),
                         ("MOAO", 4, 2, 2, 4))
        image = system.scoring_cameras[1].detector.pixel_intensities.data[0]
        np.testing.assert_allclose(image, run.psf(1, wavelength=1.65).flux, rtol=1e-5, atol=1e-9)
        a, b = case.parameters, moao.Case(importers.read(path).parameters).parameters
        self.assertEqual([a[k] for k in ("loop", "dm", "targets")], [b[k] for k in ("loop", "dm", "targets")])
        for p, q in zip(a["atmosphere"]["profiles"], b["atmosphere"]["profiles"]):
            for key in p["layers"]:
                np.testing.assert_allclose(p["layers"][key], q["layers"][key], rtol=1e-6, atol=1e-6)
        for p, q in zip(a["sensors"], b["sensors"]):
            np.testing.assert_allclose(q["direction"], p["direction"], atol=1e-5)
            self.assertEqual([p[k] for k in ("nssp", "type", "ron", "pixel", "wavelength", "frame_time")], [q[k] for k in ("nssp", "type", "ron", "pixel", "wavelength", "frame_time")])


if __name__ == "__main__":
    unittest.main()
