"""The page of moao lab: what it serves and to whom, that its numbers are those of `moao run`, and, in a browser without a screen, that
a star that is dragged changes the map to the values that a run gives."""
# seconds: 40
import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, ROOT, environment  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
import moao  # noqa: E402

try:
    import tornado
except ImportError:
    tornado = None
try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
except ImportError:
    webdriver = None
BROWSER = next((p for p in ("/usr/bin/chromium", "/usr/bin/chromium-browser") if os.access(p, os.X_OK)), None)
DRIVER = shutil.which("chromedriver")
CASE = """
title: "lab <script>alert(1)</script> & @DATA@"
telescope: {diameter: 8 m, obscuration: 0.14}
dm: {nssp: 8}
sensors:
  - {name: NGS 1, type: ngs, nssp: 8, direction: [30, 10], magnitude: 11, band: R}
  - {name: NGS 2, type: ngs, nssp: 7, direction: [-25, 25], magnitude: 11.5, band: R}
  - {name: LGS 1, type: lgs, nssp: 8, direction: [10, -30], altitude: 90 km}
targets: {list: [[0, 0], [8, -5]], names: [axis, GN-z11]}
atmosphere:
  profiles:
    - {time: 0, r0: 15 cm, layers: {altitude: [0, 5000, 12000], fraction: [0.6, 0.3, 0.1]}}
    - {time: 10 min, r0: 12 cm, layers: {altitude: [0, 4000], fraction: [0.5, 0.5]}}
schedule: {tor_interval: 20 min, exposure_interval: 10 min, end: 20 min}
psf: {wavelengths: [1.65 um], ee_boxes: [80 mas], residual: sensor}
compute: {threads: 1, verify: off, residual_columns: 0}
"""
ORDER = 4  # subapertures across of the previews here


def ranks_of(folder):
    """Processes with a file of the folder in their command lines."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as f:
                if os.fsencode(folder) in f.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return [p for p in found if p != os.getpid()]


class Page:
    """One `moao lab`, started as a user does."""

    def __init__(self, folder, *words, case="case.yaml"):
        self.folder = folder
        tmp = os.path.join(folder, "tmp")
        os.makedirs(tmp, exist_ok=True)
        self.process = subprocess.Popen([MOAO, "lab", os.path.join(folder, case), "--no-browser", *words], cwd=folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(TMPDIR=tmp))
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise AssertionError(self.process.communicate(timeout=60)[1])
        self.token, self.port = self.url.split("token=")[1], int(re.search(r":(\d+)/", self.url).group(1))

    def ask(self, what, tree=None, **headers):
        """(status, answer) of a question."""
        given = {"Content-Type": "application/json", "X-Moao-Token": self.token}
        given.update({k.replace("_", "-"): v for k, v in headers.items()})
        data = None if tree is None else tree if isinstance(tree, bytes) else json.dumps(tree).encode()
        request = urllib.request.Request("http://127.0.0.1:%d%s" % (self.port, what), data, {k: v for k, v in given.items() if v is not None})
        try:
            with urllib.request.urlopen(request, timeout=120) as f:
                return f.status, f.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def api(self, what, values=None, order=ORDER, **more):
        code, said = self.ask("/api/" + what, dict({"values": values or {}, "order": order, "profile": 0}, **more))
        if code != 200:
            raise AssertionError("%s: %d %s" % (what, code, said))
        return json.loads(said)

    def end(self, number=signal.SIGINT):
        """Exit code and what it said."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(120), self.process.stderr.read()
        finally:
            self.process.kill()
            self.process.stdout.close()
            self.process.stderr.close()


def run_of(folder, text, name, *words):
    """`moao run` of a parameter file, by hand."""
    path = os.path.join(folder, name + ".yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    out = os.path.join(folder, name)
    p = subprocess.run([MOAO, "run", path, "-q", "-o", out, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                       env=environment(), timeout=120)
    if p.returncode != 0:
        raise AssertionError(p.stdout)
    return moao.open(out)


def figure(answer, name):
    return np.array(next(q for q in answer["quantities"] if q["name"] == name)["values"])


def write_case(folder):
    with open(os.path.join(folder, "case.yaml"), "w", encoding="utf-8") as f:
        f.write(CASE)


class Lab(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if tornado is None:
            raise unittest.SkipTest("no tornado (python3-tornado)")
        cls.folder = tempfile.mkdtemp(prefix="moao-lab-test-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        write_case(cls.folder)
        cls.page = Page(cls.folder)
        cls.addClassCleanup(cls.page.end)


class Served(Lab):
    """The server without a browser."""

    def test_who_may_ask(self):
        """Another host, another page, no token, another token, other paths, other bodies: refused, in JSON; nothing is computed."""
        p = self.page
        self.assertEqual(p.ask("/?token=" + p.token, X_Moao_Token=None)[0], 200)
        for what, tree, headers, code in (
                ("/", None, {"X_Moao_Token": None}, 403), ("/?token=" + "A" * len(p.token), None, {"X_Moao_Token": None}, 403),
                ("/?token=%C3%A9", None, {"X_Moao_Token": None}, 403), ("/api/progress?token=" + p.token, {}, {"X_Moao_Token": None}, 403),
                ("/api/progress", {}, {"X_Moao_Token": p.token[:-1]}, 403), ("/api/progress", {}, {"Host": "evil.example:%d" % p.port}, 403),
                ("/api/progress", {}, {"Host": "127.0.0.1"}, 403), ("/api/progress", {}, {"Origin": "http://evil.example"}, 403),
                ("/api/progress", {}, {"Origin": "null"}, 403), ("/api/progress", {}, {"Content_Type": "text/plain"}, 415),
                ("/api/progress", None, {}, 405), ("/api/nothing", {}, {}, 404), ("/../../etc/passwd", None, {}, 404), ("/lab.js", None, {}, 404),
                ("/%2e%2e/case.yaml", None, {}, 404), ("/api/progress", b"[1]", {}, 400), ("/api/progress", b"[" * 100000, {}, 400),
                ("/api/change", {"values": [], "order": 4, "profile": 0}, {}, 400), ("/api/psf", {"x": "1", "y": 0, "wave": 0}, {}, 400)):
            got, said = p.ask(what, tree, **headers)
            self.assertEqual(got, code, (what, headers, said))
            self.assertIn("errors", json.loads(said))
        for origin in ("http://127.0.0.1:%d" % p.port, None):
            self.assertEqual(p.ask("/api/progress", {}, Origin=origin)[0], 200)

    def test_only_the_loopback(self):
        """No other address of the machine answers."""
        with open("/proc/net/tcp", encoding="ascii") as f:
            bound = [line.split()[1] for line in f if line.split()[3] == "0A" and line.split()[1].endswith(":%04X" % self.page.port)]
        self.assertEqual(bound, ["0100007F:%04X" % self.page.port])

    def test_page(self):
        """The page asks the network for nothing, and the title of the file is text in it, whatever it holds."""
        _, text = self.page.ask("/?token=" + self.page.token)
        self.assertEqual(re.findall(r"(?:src|href)=\"?(?:https?:)?//[^\"]*", text), [])
        self.assertNotIn("<script>alert", text)
        self.assertIn("lab &lt;script&gt;alert(1)&lt;/script&gt; &amp; @DATA@", text)

    def test_numbers_of_a_run(self):
        """The map after a star has moved is that of `moao run` of the saved file, number for number; the image is that of `moao psf`."""
        values = {"sensors[0].direction": [5.5, -12.0], "telescope.zenith": 25, "atmosphere.profiles[0].seeing": 0.7, "dm.nssp": 10,
                  "sensors[1].magnitude": 12.5, "atmosphere.profiles[0].layers.fraction": [0.5, 0.2, 0.3], "targets.list[1]": [9, -9]}
        before = self.page.api("change")
        after = self.page.api("change", values)
        self.assertGreater(abs(figure(after, "STREHL") - figure(before, "STREHL")).max(), 1e-2)
        run = run_of(self.folder, self.page.api("export", values, small=True)["text"], "small")
        for name in ("STREHL", "EE_80mas", "FWHM", "WFE_TOMO", "WFE_NOISE", "WFE_TOTAL"):
            np.testing.assert_array_equal(figure(after, name), run.column_long(name))
        np.testing.assert_array_equal(after["x"], run.x[:13])
        image = self.page.api("psf", x=1.5, y=-2.25, wave=0)
        self.assertAlmostEqual(image["strehl"], run.psf_at(1.5, -2.25).strehl, delta=1e-12)
        self.assertEqual((after["order"], after["full"]), (ORDER, 10))
        self.assertLessEqual(after["between"], 0.02)

    def test_errors(self):
        """What the program refuses comes with its key, in its words; what the page may not set is refused; the map stays."""
        self.assertNotIn("errors", self.page.api("change"))
        for values, key, words in (({"telescope.zenith": 85}, "telescope.zenith", "80"), ({"sensors[1].magnitude": 99}, "sensors[1].magnitude", "30"),
                                   ({"output.directory": 1}, None, "not a key"), ({"sensors[7].direction": [0, 0]}, "sensors[7].direction", "no such item"),
                                   ({"sensors[0].direction": [0, "x"]}, "sensors[0].direction", "number"), ({"sensors[2].magnitude": 3}, "sensors[2].magnitude", "none")):
            error, = self.page.api("change", values)["errors"]
            self.assertEqual(error["key"], key)
            self.assertIn(words, error["text"])
            self.assertNotIn("\n", error["text"])
        self.assertIn("strehl", self.page.api("psf", x=0, y=0, wave=0))

    def test_compared(self):
        """Reduced and full order in the same directions: the full one is what a run in full order gives there."""
        self.page.api("change")
        found = self.page.api("compare")
        rows = {r["name"]: r for r in found["rows"]}
        text = CASE.replace("[[0, 0], [8, -5]], names: [axis, GN-z11]", json.dumps(found["directions"])).replace(
            "tor_interval: 20 min, exposure_interval: 10 min, end: 20 min", "tor_times: [0], exposure_times: [0]")
        run = run_of(self.folder, text, "whole", "targets.sampling=exact")
        np.testing.assert_allclose(rows["STREHL"]["full"], run.column_long("STREHL"), rtol=1e-9)
        self.assertGreater(abs(np.array(rows["STREHL"]["full"]) - rows["STREHL"]["reduced"]).max(), 0.01)

    def test_ports_and_end(self):
        """A second instance takes another port; Ctrl-C in the midst of a map and of a run in full ends all and leaves no file."""
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", 0))
            s.listen()
            tmp = os.path.join(self.folder, "busy")
            os.makedirs(tmp)
            p = subprocess.run([MOAO, "lab", os.path.join(self.folder, "case.yaml"), "-p", str(s.getsockname()[1])], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment(TMPDIR=tmp), timeout=60, check=False)
        self.assertEqual((p.returncode, p.stdout, len(p.stderr.splitlines())), (2, "", 1), p.stderr)
        self.assertEqual(glob.glob(os.path.join(tmp, "moao-lab-*")), [])
        folder = os.path.join(self.folder, "second")
        os.makedirs(folder)
        write_case(folder)
        second = Page(folder, "-o", os.path.join(folder, "out"))
        self.assertNotEqual(second.port, self.page.port)
        self.assertEqual(second.api("run")["state"], "running")
        end = time.monotonic() + 60
        while not os.path.exists(os.path.join(folder, "out", "effective.yaml")) and time.monotonic() < end:
            time.sleep(0.02)
        self.assertTrue(ranks_of(folder))
        code, said = second.end()
        self.assertEqual((code, len(said.splitlines())), (0, 1), said)
        self.assertEqual(ranks_of(folder), [])
        self.assertEqual(glob.glob(os.path.join(folder, "tmp", "moao-lab-*")), [])

    def test_newest_wins(self):
        """Of two changes the older one is given up and says so. Which is the older one, and whether it was at work still, a busy machine
        decides: of some pairs one is as it should be."""
        import threading
        answers = {}
        for zenith in range(10, 20):
            old = threading.Thread(target=lambda z=zenith: answers.update(old=self.page.api("change", {"telescope.zenith": z}, order=10)))
            old.start()
            time.sleep(0.05)
            new = self.page.api("change", {"telescope.zenith": 30})
            old.join()
            if answers["old"] == {"superseded": True}:
                break
            self.assertIn("quantities", answers["old"])
        self.assertEqual(answers["old"], {"superseded": True})
        self.assertIn("quantities", new)


class FromPython(unittest.TestCase):
    """case.lab(): served by a thread of this process."""

    def test_reduced_cases(self):
        """Of shipped cases of several modes the reduced one and the one that it is compared with are accepted, and smaller."""
        from moao import lab
        for name in ("glao", "mcao", "split"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                tree = lab.read_yaml(moao.Case(name).text)
                small, whole = lab.reduced(tree, 6, 0), moao.Case(lab.compared(tree, 0))
                path = os.path.join(folder, "small.yaml")
                with open(path, "w", encoding="utf-8") as f:
                    f.write(lab.yaml_text(small))
                self.assertEqual((lab.order_of(small), lab.order_of(whole.parameters)), (6, lab.order_of(tree)))
                self.assertEqual(moao.Case(path)["targets.grid.nx"], 13)
                self.assertEqual([s["nssp"] for s in small["sensors"] if s["name"].startswith("TT")],  # of tip and tilt
                                 [s["nssp"] for s in tree["sensors"] if s["name"].startswith("TT")])

    def test_rings(self):
        """Stars of a ring, whose directions no number of arcsec gives exactly, are numbers in tables and on the page."""
        case = moao.Case("mcao")
        np.testing.assert_allclose(case.stars["x"][:3], [40, 20, -20], rtol=1e-12)
        lab = moao.lab.Lab(case)
        self.addCleanup(shutil.rmtree, lab.folder)
        np.testing.assert_allclose([s["direction"] for s in lab.describe()["sensors"]][1], [20, 40 * 0.75 ** 0.5], rtol=1e-12)

    @unittest.skipUnless(tornado, "no tornado (python3-tornado)")
    def test_case_lab(self):
        """The page of a notebook: a frame with the address, the case as the page shows it, and an end that leaves nothing."""
        with tempfile.TemporaryDirectory() as folder:
            write_case(folder)
            case = moao.Case(os.path.join(folder, "case.yaml"))
            case["telescope.zenith"] = 10
            live = case.lab()
            self.addCleanup(live.close)
            self.assertIn('<iframe src="%s"' % live.url, live._repr_html_())
            made = live._wait(live._lab.preview(moao.lab.Settings({"sensors[0].direction": [4, 5]}, ORDER, 0)), 60)
            self.assertIn("quantities", made)
            now = live.case()
            self.assertEqual((now["sensors[0].direction"], now["telescope.zenith"], now["dm.nssp"]), ([4, 5], 10, 8))
            self.assertEqual(case["sensors[0].direction"], [30, 10])
            own = live._lab.folder
            live.close()
            self.assertFalse(os.path.exists(own))
            with self.assertRaises(OSError):
                urllib.request.urlopen(live.url, timeout=5)


def browser(profile):
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    o = Options()
    o.binary_location = BROWSER
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--window-size=1280,800", "--user-data-dir=" + profile):
        o.add_argument(word)
    o.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(DRIVER), options=o)


@unittest.skipUnless(webdriver and BROWSER and DRIVER, "no chromium, chromedriver or selenium")
class Seen(Lab):
    """The page in a browser."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.driver = browser(os.path.join(cls.folder, "profile"))
        cls.addClassCleanup(cls.driver.quit)

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def until(self, text, seconds=60):
        end = time.monotonic() + seconds
        while not self.script("return !!(%s)" % text):
            self.assertLess(time.monotonic(), end, "%s; %s" % (text, self.script("return document.body.innerText")))
            time.sleep(0.03)

    def start(self):
        self.driver.get(self.page.url)
        self.script("facts.automatic = 0; state.order = %d; change(0);" % ORDER)
        self.until("state.map && state.map.order === %d" % ORDER)

    def test_drag_a_star(self):
        """A star is dragged and dropped: the map becomes that of a run with the star there; so does the keyboard's move of a target."""
        self.start()
        node = self.driver.find_element("css selector", "[data-key='sensors[0].direction'] .halo")
        first = self.script("return state.map.serial")
        ActionChains(self.driver).drag_and_drop_by_offset(node, -60, 40).perform()
        self.until("state.map.serial > %d" % first)
        x, y = self.script("return state.values['sensors[0].direction']")
        self.assertLess(x, 25)
        self.assertLess(y, 5)
        text = self.page.api("export", {"sensors[0].direction": [x, y]}, small=True)["text"]
        self.assertIn("direction: [%.9g, %.9g]" % (x, y), text)
        run = run_of(self.folder, text, "dragged")
        np.testing.assert_array_equal(self.script("return shown()"), run.column_long("STREHL")[0])
        self.until("document.getElementById('map-picture').firstChild.getAttribute('href').length > 500")
        self.assertIn("min %.3f, mean %.3f, max %.3f" % (run.strehl().min(), run.strehl().mean(), run.strehl().max()),
                      self.script("return document.getElementById('numbers').textContent"))
        self.assertIn("Reduced: %d of 8 subapertures across" % ORDER, self.script("return document.getElementById('reduction').textContent"))
        second = self.script("return state.map.serial")
        self.driver.find_element("css selector", "[data-key='targets.list[1]']").send_keys(Keys.SHIFT, Keys.ARROW_UP)
        self.until("state.map.serial > %d" % second)
        self.assertEqual(self.script("return state.values['targets.list[1]']"), [8, 0])
        self.assertIn("(8.0″, 0.0″)", self.script("return document.activeElement.getAttribute('aria-label')"))
        self.no_trouble()

    def test_controls(self):
        """A slider out of the program's range has its message at it, in one line; the map stays and comes back with a good value. The
        error against the full order is stated on request; a profile that is chosen has its seeing."""
        self.start()
        zenith = self.driver.find_element("css selector", "[data-control='telescope.zenith'] input")
        self.assertEqual(self.script("return arguments[0].labels[0].innerText.split('\\n')[0]", zenith), "Zenith angle")
        first = self.script("return state.map.serial")
        self.script("arguments[0].max = 85; arguments[0].value = 85; arguments[0].dispatchEvent(new Event('input'));", zenith)
        self.until("document.querySelector(\"[data-control='telescope.zenith'] .error\").textContent")
        said = self.script("return document.querySelector(\"[data-control='telescope.zenith'] .error\").textContent")
        self.assertIn("80", said)
        self.assertNotIn("\n", said)
        self.assertEqual(self.script("return [state.map.serial, document.getElementById('status').textContent]"), [first, "The map is that of the settings before."])
        zenith.send_keys(Keys.HOME)
        self.until("state.map.serial > %d" % first)
        self.assertEqual(self.script("return document.querySelector(\"[data-control='telescope.zenith'] .error\").textContent"), "")
        self.script("facts.automatic = 0; clearTimeout(quiet); document.getElementById('compare').click()")
        self.until("state.compared", 90)
        d, = self.script("return differences().find(r => r.name === 'STREHL').waves")
        self.assertLess(d["low"], d["high"])
        text = self.script("return document.getElementById('reduction').textContent")
        self.assertIn(("Strehl ratio at 1.65 µm −%.3f to −%.3f (reduced minus full, 5 directions)" % (-d["low"], -d["high"])), text)
        self.script("document.getElementById('scaled').click()")
        factor, left = self.script("const s = scaling(); return [s.factor, s.left]")
        self.assertLess(left, 0.2 * abs(d["low"]))
        np.testing.assert_allclose(self.script("return shown()"), factor * np.array(self.script("return reducedMap()")))
        self.assertIn("estimate of the full order (× %.3f" % factor, self.script("return document.getElementById('numbers').textContent"))
        second = self.script("return state.map.serial")
        self.script("const p = document.getElementById('profile'); p.value = 1; p.dispatchEvent(new Event('change'));")
        self.until("state.map.serial > %d" % second)
        self.assertAlmostEqual(self.script("return state.map.r0"), 0.12, delta=1e-9)  # at zenith
        self.no_trouble()

    def test_run_in_full(self):
        """Run in full shows its progress, Stop stops it and what is finished is kept; begun again it goes on to the end, and says what
        the results in its folder say. The file that is saved is that of the run."""
        self.start()
        self.script("document.getElementById('run').click()")
        # a fast machine may be done before anybody sees it run: then there is nothing to stop
        self.until("document.getElementById('run-text').dataset.state === 'done' || "
                   "document.getElementById('run-text').dataset.state === 'running' && document.getElementById('run-bar').value > 0")
        self.script("document.getElementById('stop').click()")
        self.until("['stopped', 'done'].includes(document.getElementById('run-text').dataset.state)")
        folder, = glob.glob(os.path.join(self.folder, "moao-runs", "case-*"))
        if self.script("return document.getElementById('run-text').dataset.state") == "stopped":
            self.assertFalse(os.path.exists(os.path.join(folder, "run.json")))
            self.script("document.getElementById('run').click()")
            self.until("document.getElementById('run-text').dataset.state === 'done'", 120)
        run = moao.open(folder)
        self.assertEqual(list(run.names), ["axis", "GN-z11"])
        self.assertIn("mean %.3f, %.3f to %.3f" % (run.strehl().mean(), run.strehl().min(), run.strehl().max()),
                      self.script("return document.getElementById('run-text').textContent"))
        self.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": self.folder})
        self.script("document.getElementById('export').click()")
        saved, end = os.path.join(self.folder, "moao-lab.yaml"), time.monotonic() + 60
        while not (os.path.exists(saved) and os.path.getsize(saved)) and time.monotonic() < end:  # first a place, then the file
            time.sleep(0.05)
        with open(saved, encoding="utf-8") as f, open(os.path.join(folder, "effective.yaml"), encoding="utf-8") as g:
            wanted = re.sub(r"(?m)^  directory: .*\n", "", g.read())
            self.assertEqual(re.sub(r"(?m)^  directory: .*\n", "", f.read()), wanted)
        self.no_trouble()

    def no_trouble(self):
        """Nothing was asked of another host, no script failed, nothing scrolls sideways."""
        asked = self.script("return performance.getEntriesByType('resource').map(e => e.name)")
        self.assertEqual([a for a in asked if not a.startswith("http://127.0.0.1:%d/api/" % self.page.port)], [])
        self.assertEqual([m for m in self.driver.get_log("browser") if "favicon" not in m["message"]], [])
        self.assertLessEqual(self.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth"), 0)


if __name__ == "__main__":
    unittest.main()
