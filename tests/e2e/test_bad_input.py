"""Bad input to the program: one line `file:line:column: key: what is wrong` on stderr, exit code 2, nothing else
written, on any number of ranks."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import CASE, MOAO, ROOT, environment, patience, write_case  # noqa: E402

LINE = re.compile(r"^\S.*?:\d+:\d+: [^:]+: \S.*, (expected|did you mean) .*$")

# what to replace in the case, by what, and how the line must start (@ is the file's name) and what it must hold
MISTAKES = [
    ("unknown key", "obscuration:", "obscuraton:", "@:3:28: telescope.obscuraton: ", "did you mean obscuration?"),
    ("wrong type", "diameter: 8 m", "diameter: [8]", "@:3:23: telescope.diameter: ", "a list"),
    ("wrong dimension", "diameter: 8 m", "diameter: 8 s", "@:3:23: telescope.diameter: ", "is a time, not a length"),
    ("out of range", "diameter: 8 m", "diameter: 0", "@:3:23: telescope.diameter: ", "out of range"),
    ("not a number", "diameter: 8 m", "diameter: nan", "@:3:23: telescope.diameter: ", "'nan' is not a number"),
    ("infinite", "diameter: 8 m", "diameter: inf", "@:3:23: telescope.diameter: ", "not finite"),
    ("too large", "diameter: 8 m", "diameter: 1e400", "@:3:23: telescope.diameter: ", "beyond"),
    ("decimal comma", "diameter: 8 m", "diameter: \"38,5\"", "@:3:23: telescope.diameter: ", "'38,5'"),
    ("no whole number", "nssp: 16}", "nssp: 2.5}", "@:4:12: dm.nssp: ", "whole number"),
    ("trailing junk", "nssp: 16}", "nssp: 16 x}", "@:4:12: dm.nssp: ", "whole number"),
    ("no value", "nssp: 16}", "nssp: }", "@:4:12: dm.nssp: ", "no value"),
    ("duplicate key", "dm: {", "telescope: {}\ndm: {", "@:4:1: telescope: ", "duplicate"),
    ("missing key", "dm: {nssp: 16}\n", "", "@:2:1: dm.nssp: ", "missing"),
    ("missing file", "{grid: {nx: 4, ny: 2, width: 60 arcsec, height: 30 arcsec}}", "{file: none}",
     "@:10:17: targets.file: ", "cannot be read"),
    ("lengths", "fraction: [0.6, 0.3, 0.1]", "fraction: [0.6, 0.4]", "@:13:75: atmosphere.profiles[0].layers.fraction: ",
     "2 values, expected 3"),
    ("negative strength", "fraction: [0.6, 0.3, 0.1]", "strength: [9, -3, 1]",
     "@:13:79: atmosphere.profiles[0].layers.strength[1]: ", "out of range"),
    ("no turbulence", "fraction: [0.6, 0.3, 0.1]", "fraction: [0, 0, 0]",
     "@:13:75: atmosphere.profiles[0].layers.fraction: ", "all zero"),
    ("star below layers", "altitude: 90 km", "altitude: 9 km", "@:9:59: sensors[3].altitude: ", "below layers with"),
    ("star without altitude", ", altitude: 90 km", "", "@:9:5: sensors[3].altitude: ", "missing"),
    ("star with altitude", "magnitude: 11", "magnitude: 11, altitude: 9 km", "@:7:64: sensors[1].altitude: ", "natural"),
    ("empty list", "[1.65 um, 2.2 um]", "[]", "@:17:20: psf.wavelengths: ", "empty list"),
    ("times", "time: 20 min", "time: 5 min", "@:15:14: atmosphere.profiles[2].time: ", "increasing"),
    ("exposure first", "schedule: {tor_interval: 15 min, exposure_interval: 3 min, end: 30 min}",
     "schedule: {tor_times: [5], exposure_times: [1]}", "@:16:44: schedule.exposure_times: ", "before the first"),
    ("box twice", "psf: {wavelengths", "psf: {ee_boxes: [40, 80, 0.04 arcsec], wavelengths", "@:17:26: psf.ee_boxes[2]: ",
     "a box of 40 mas for the second time"),
    ("no day", "telescope: {", "sky: {time: 2026-02-31, ra: 10, dec: 0, latitude: 0, longitude: 0}\ntelescope: {", "@:3:13: sky.time: ",
     "'2026-02-31' is no date"),
    ("hexadecimal", "telescope: {", "sky: {ra: 0x10, dec: 0}\ntelescope: {", "@:3:11: sky.ra: ", "'0x10' is no such angle"),
    ("hexadecimal length", "diameter: 8 m", "diameter: 0x8", "@:3:23: telescope.diameter: ", "'0x8' is not a number"),
    ("yaml", "dm: {nssp: 16}", "dm: {nssp: 16", "@:5:", "expected YAML"),
]


class BadInput(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.file = os.path.join(self.folder.name, "bad.yaml")

    def tearDown(self):
        self.folder.cleanup()

    def check(self, arguments, place, phrase, ranks=0, command="check"):
        program = (["mpirun", "-n", str(ranks)] if ranks else []) + [MOAO, command] + arguments
        p = subprocess.run(program, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           cwd=self.folder.name, env=environment(), timeout=patience(120), check=False)
        lines = p.stderr.decode().splitlines()
        if ranks:  # mpirun adds a notice of its own about the exit code
            lines = [x for x in lines if x.startswith((place[:8], "moao"))]
        self.assertEqual(len(lines), 1, p.stderr)
        self.assertTrue(lines[0].startswith(place), "%s does not start with %s" % (lines[0], place))
        self.assertIn(phrase, lines[0])
        self.assertRegex(lines[0], LINE)
        self.assertEqual(p.returncode, 2)
        self.assertEqual(p.stdout, b"")

    def write(self, old, new):
        self.assertIn(old, CASE)
        write_case(self.file, CASE.replace(old, new, 1))

    def test_every_kind_of_mistake_is_one_line(self):
        for name, old, new, place, phrase in MISTAKES:
            with self.subTest(name):
                self.write(old, new)
                self.check(["bad.yaml"], place.replace("@", "bad.yaml"), phrase)

    def lines(self, text, *more):
        write_case(self.file, text)
        p = subprocess.run([MOAO, "check", "bad.yaml", *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           cwd=self.folder.name, env=environment(), universal_newlines=True, check=False)
        self.assertEqual((p.returncode, p.stdout), (2, ""))
        return p.stderr.splitlines()

    def test_all_mistakes_of_a_file_at_once(self):
        """A line each, with its place, those of lists, defaults, profiles and the command line too; nothing that only follows from another."""
        text = CASE
        for old, new in (("diameter: 8 m", "diametr: 8 m"), ("obscuration: 0.14", "obscuration: 1.14"), ("magnitude: 11", "magnitude: x"),
                         ("altitude: 90 km", "altitude: 90 kn"), ("width: 60 arcsec", "width: -1"), ("r0: 12 cm", "r0: 12 s"),
                         ("L0: 30 m", "L0: no"), ("ngs_defaults: {slope: points", "ngs_defaults: {slope: pints, ron: -1")):
            self.assertIn(old, text)
            text = text.replace(old, new, 1)
        lines = self.lines(text, "dm.nssp=q")
        for line in lines:
            self.assertRegex(line, LINE)
        self.assertEqual(len(lines), len(set(lines)))
        self.assertEqual(sorted(re.search(r":\d+: ([^:]+): ", x).group(1) for x in lines),
                         ["atmosphere.profiles[1].r0", "atmosphere.profiles[2].layers.L0", "dm.nssp", "ngs_defaults.ron", "ngs_defaults.slope",
                          "sensors[1].magnitude", "sensors[3].altitude", "targets.grid.width", "telescope.diametr", "telescope.obscuration"])
        many = self.lines(CASE + "".join("wrong%d: 1\n" % i for i in range(33)))
        self.assertEqual((len(many), many[20]), (21, "and 13 more mistakes"))
        self.assertRegex(many[0], r"^bad\.yaml:\d+:1: wrong0: unknown key")

    def test_words_of_other_programs(self):
        """A key that people of the field expect is answered by what it is called here, and not as missing too."""
        for old, new, hint in (("dm: {nssp: 16}", "dm: {actuators: 17}", "dm.actuators: unknown key, did you mean dm.nssp? (it counts"),
                               ("magnitude: 11,", "mag: 11,", "sensors[1].mag: unknown key, did you mean magnitude?"),
                               ("altitude: 90 km", "altitude: 90 km, pixel_scale: 1", "sensors[3].pixel_scale: unknown key, did you mean pixel?"),
                               ("obscuration: 0.14", "ObscurationRatio: 0.14", "did you mean telescope.obscuration? (a fraction"),
                               ("obscuration: 0.14", "spiders: 6", "telescope.spiders: not a mapping, expected key: value lines")):
            lines = self.lines(CASE.replace(old, new, 1))
            self.assertEqual(len(lines), 1, lines)
            self.assertIn(hint, lines[0])
            self.assertRegex(lines[0], LINE)

    def test_pipes_and_folders_are_no_input(self):
        """Every reader of a file refuses them at once, in one line that names the file; a pipe without a writer was waited for."""
        write_case(self.file)
        os.mkdir(os.path.join(self.folder.name, "run"))
        os.mkfifo(os.path.join(self.folder.name, "run", "maps.fits"))
        os.mkfifo(os.path.join(self.folder.name, "pipe"))
        results = [sys.executable, os.path.join(ROOT, "scripts", "moao-results")]
        for command, name in (
                ([MOAO, "check", "pipe"], "pipe"), ([MOAO, "check", "bad.yaml", "targets={file: pipe}"], "pipe"),
                ([MOAO, "check", "bad.yaml", "targets={file: run}"], "run"), ([MOAO, "check", "bad.yaml", "atmosphere={file: pipe}"], "pipe"),
                ([MOAO, "check", "bad.yaml", "atmosphere={profiles: [{file: pipe}]}"], "pipe"),
                ([MOAO, "check", "bad.yaml", "errors={static_map: pipe}"], "pipe"), ([MOAO, "check", "bad.yaml", "errors={jitter_psd: pipe}"], "pipe"), ([MOAO, "import-legacy", "pipe", "pipe", "-o", "x"], "pipe"),
                ([MOAO, "budget", "run"], "run/maps.fits"), ([MOAO, "asterism", "bad.yaml", "--stars", "pipe", "--choose", "1", "--want", "mean strehl", "-o", "x"], "pipe"),
                (results + ["stars", "pipe", "-o", "x"], "pipe"), (results + ["plot", "run", "-o", "x"], "run/maps.fits")):
            p = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder.name,
                               env=environment(), universal_newlines=True, timeout=patience(60), check=False)
            self.assertEqual(p.returncode, 2, (command, p.stderr))
            lines = [x for x in p.stderr.splitlines() if name in x and ("pipe or device" in x or "irectory" in x or "no regular file" in x)]
            self.assertEqual(len(lines), 1, (command, p.stderr))

    def test_the_same_on_three_ranks(self):
        for name, old, new, place, phrase in MISTAKES[:1] + MISTAKES[13:14]:
            with self.subTest(name):
                self.write(old, new)
                self.check(["bad.yaml"], place.replace("@", "bad.yaml"), phrase, ranks=3)

    def test_a_run_stops_before_it_makes_anything(self):
        self.write("nssp: 16}", "nssp: x}")
        self.check(["bad.yaml", "-o", "out"], "bad.yaml:4:12: dm.nssp: ", "whole number", command="run")
        self.assertEqual(sorted(os.listdir(self.folder.name)), ["bad.yaml"])

    def test_command_line(self):
        write_case(self.file)
        for override, place, phrase in [
                ("telescope.diametr=3", "command line:1:11: telescope.diametr: ", "did you mean diameter?"),
                ("sensors[9].nssp=3", "command line:1:8: sensors[9].nssp: ", "out of range"),
                ("sensors[0].nssp=3 m", "command line:1:17: sensors[0].nssp: ", "whole number"),
                ("dm.nssp=", "command line:1:8: dm.nssp: ", "no value")]:
            with self.subTest(override):
                self.check(["bad.yaml", override], place, phrase)

    def test_files_that_are_no_parameter_files(self):
        for content, place, phrase in [(b"", "bad.yaml:1:1: ", "empty"), (b"- a\n", "bad.yaml:1:1: ", "not a mapping"),
                                       (b"title: \xff\n", "bad.yaml:1:8: ", "UTF-8"),
                                       (b"[" * 20000, "bad.yaml:1:", "expected"),
                                       (b"a: 1\n---\nb: 1\n", "bad.yaml:2:1: ", "second document"),
                                       (b"\x7fELF\x02\x01\x01\x00\x00", "bad.yaml:1:1: ", "expected")]:
            with self.subTest(content[:10]):
                with open(self.file, "wb") as f:
                    f.write(content)
                self.check(["bad.yaml"], place, phrase)
        os.unlink(self.file)
        self.check(["bad.yaml"], "bad.yaml:1:1: file: ", "cannot be read")
        self.check(["."], ".:1:1: file: ", "directory")

    def test_doubtful_images_are_told(self):
        """Boxes and crops beyond the image are legal and useless: a line each, and none for a case without."""
        write_case(self.file)
        told = []
        for more in ([], ["psf.ee_boxes=[40, 9000]", "output.crop=4096"]):
            p = subprocess.run([MOAO, "check", "bad.yaml"] + more, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               cwd=self.folder.name, env=environment(), universal_newlines=True, check=True)
            told.append([x for x in p.stderr.splitlines() if "psf.ee_boxes" in x or "output.crop" in x])
        self.assertEqual(told[0], [])
        self.assertEqual(len(told[1]), 2, told)
        self.assertRegex(told[1][0], r"9000 mas is more than the image at 1\.65 um has, \d+ mas; raise")
        self.assertRegex(told[1][1], r"4096 pixels are more than the grid's \d+, which are kept")

    def test_noise_is_visible(self):
        """Each star's photons, spot and noise, in the table and as JSON."""
        write_case(self.file)
        call = [MOAO, "check", "bad.yaml"]
        how = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder.name, env=environment(), check=True)
        text = subprocess.run(call, universal_newlines=True, **how).stdout
        stars = json.loads(subprocess.run(call + ["--json"], **how).stdout)["stars"]
        self.assertEqual(len(stars), 4)
        for star in stars:
            line = [x for x in text.splitlines() if star["name"] in x and "%.2f" % star["spot_arcsec"] in x]
            self.assertEqual(len(line), 1, star)
            self.assertIn("%.4g" % star["photons"], line[0])
            self.assertTrue(line[0].endswith(" %.1f" % star["noise_mas"]), line[0])

    def test_import_names_the_line_of_a_broken_file(self):
        for name, text in (("sys", "diam\n8\nobs\nmany\n"), ("prof", "layers\n1\n")):
            with open(os.path.join(self.folder.name, name), "w", encoding="utf-8") as f:
                f.write(text)
        self.check(["sys", "prof", "-o", "new.yaml"], "sys:4:1: obs: ", "0 numbers", command="import-legacy")
        self.check(["none", "prof", "-o", "new.yaml"], "none:1:1: file: ", "cannot be read", command="import-legacy")
        with open(os.path.join(self.folder.name, "sys"), "wb") as f:
            f.write(b"diam\n8\nobs\n0.1\0\n")
        self.check(["sys", "prof", "-o", "new.yaml"], "sys:4:4: file: ", "a NUL character", command="import-legacy")
        self.assertNotIn("new.yaml", os.listdir(self.folder.name))


if __name__ == "__main__":
    unittest.main()
