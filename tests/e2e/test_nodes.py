"""Maps from nodes (targets.sampling: nodes) against maps whose targets were all computed: as exact as they say, the same bits when a run
goes on, roughness and errors that are planted are found."""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import numpy as np
from astropy.io import fits

from moao_case import MOAO, ROOT, Run, environment, moao

sys.path.insert(0, os.path.join(ROOT, "python"))
import moao as results  # noqa: E402

CASE = """
telescope: {diameter: 4 m, obscuration: 0.2}
dm: {nssp: 4}
ngs_defaults: {slope: points, nssp: 4, magnitude: 9, frame_time: 2 ms}
sensors:
  - {type: ngs, direction: [20, 10]}
  - {type: ngs, direction: [-25, 15]}
  - {type: ngs, direction: [5, -25]}
targets: {grid: {nx: 19, width: 30 arcsec}, tolerance: 1e-3}
atmosphere:
  profiles:
    - {time: 0, r0: 18 cm, layers: &layers {altitude: [0, 4 km, 10 km], fraction: [0.6, 0.25, 0.15], L0: 25 m}}
    - {time: 10 min, r0: 14 cm, layers: *layers}
schedule: {tor_times: [0], exposure_times: [0, 10 min]}
psf: {wavelengths: [1.65 um, 2.2 um], ee_boxes: [100 mas]}
output: {psf: long, crop: 16}
compute: {threads: 1, targets_per_chunk: 40}
"""
ROUGH = CASE.replace("altitude: [0, 4 km, 10 km], fraction: [0.6, 0.25, 0.15]", "altitude: [0, 20 km], fraction: [0.3, 0.7]")
TWO = CASE.replace("{time: 10 min, r0: 14 cm, layers: *layers}",
                   "{time: 10 min, r0: 14 cm, layers: {altitude: [0, 20 km], fraction: [0.6, 0.4], L0: 25 m}}") \
          .replace("tor_times: [0]", "tor_times: [0, 10 min]").replace("2.2 um], ee", "2.2 um], residual: sensor, ee").replace("psf: long", "psf: none")
ROUGH_FIRST = TWO.replace("{time: 0, r0: 18 cm, layers: &layers {altitude: [0, 4 km, 10 km], fraction: [0.6, 0.25, 0.15], L0: 25 m}}",
                          "{time: 0, r0: 14 cm, layers: {altitude: [0, 20 km], fraction: [0.6, 0.4], L0: 25 m}}") \
                 .replace("{time: 10 min, r0: 14 cm, layers: {altitude: [0, 20 km], fraction: [0.6, 0.4], L0: 25 m}}",
                          "{time: 10 min, r0: 18 cm, layers: {altitude: [0, 4 km, 10 km], fraction: [0.6, 0.25, 0.15], L0: 25 m}}")
LAYERS = "layers: {altitude: [0, 4 km, 10 km], fraction: [%s], L0: 25 m, wind_speed: %g, wind_direction: 30}"
FRACTIONS = ["0.70, 0.22, 0.08", "0.66, 0.22, 0.12", "0.62, 0.22, 0.16", "0.58, 0.22, 0.20"]
FOLLOW = """
telescope: {diameter: 4 m, obscuration: 0.2}
dm: {nssp: 4}
ngs_defaults: {slope: points, nssp: 4, magnitude: 9, frame_time: 2 ms}
sensors:
  - {type: ngs, direction: [20, 10]}
  - {type: ngs, direction: [-25, 15]}
  - {type: ngs, direction: [5, -25]}
targets: {grid: {nx: 25, width: 36 arcsec}, tolerance: 1e-3}
loop: {delay: 4 ms}
atmosphere:
  profiles:
%s
schedule: {tor_times: [0], exposure_times: [0, 10 min, 20 min, 30 min]}
psf: {wavelengths: [1.65 um, 2.2 um], ee_boxes: [100 mas]}
output: {psf: none}
compute: {threads: 1}
"""
GUST = FOLLOW.replace("delay: 4 ms", "delay: 12 ms") % "\n".join(
    "    - {time: %d min, r0: 16 cm, %s}" % (10 * e, LAYERS % (FRACTIONS[e], 60 if e == 1 else 5)) for e in range(4))
FOLLOW %= "\n".join("    - {time: %d min, r0: %d cm, %s}" % (10 * e, 17 - e, LAYERS % (FRACTIONS[e], 10 + e)) for e in range(4))
OBSCURED = """
telescope: {diameter: 4 m, obscuration: 0.2}
dm: {nssp: 8}
ngs_defaults: {slope: points, nssp: 8, magnitude: 9, frame_time: 2 ms}
sensors:
  - {type: ngs, direction: [20, 10]}
  - {type: ngs, direction: [-25, 15]}
  - {type: ngs, direction: [5, -25]}
  - {type: ngs, direction: [-3, 2], magnitude: 6, shift: [1 m, 1 m]}   # a quarter of the pupil is hidden from it
targets: {grid: {nx: 25, width: 30 arcsec}, tolerance: 3e-3}
atmosphere:
  profiles:
    - {r0: 18 cm, layers: {altitude: [0, 4 km, 10 km], fraction: [0.6, 0.25, 0.15], L0: 25 m}}
psf: {wavelengths: [1.65 um], residual: sensor, ee_boxes: [100 mas]}
output: {psf: none}
compute: {threads: 1}
"""


def errors(exact, nodes):
    """Largest difference of a Strehl ratio or ensquared energy, by target."""
    a, b = exact.quantities(), nodes.table("TARGETS")
    names = [n for n in a if n.startswith(("STREHL", "EE_"))]
    return np.max([np.abs(np.asarray(b[n], float).reshape(len(b), -1) - a[n].reshape(len(b), -1)).max(axis=1) for n in names], axis=0)


def psf(*words):
    """`moao psf WORDS`."""
    return subprocess.run([MOAO, "psf", *words], env=environment(), capture_output=True, text=True, timeout=100)


def same(a, b, names=("maps.fits", "psf.fits")):
    """Whether two runs have the same results, bit for bit."""
    for name in names:
        with fits.open(a.path(name)) as f, fits.open(b.path(name)) as g:
            for x, y in zip(f, g):
                if x.data is not None and x.name != "PARAMETERS" and x.data.tobytes() != y.data.tobytes():
                    return False
    return True


class Nodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.exact = Run(CASE, "targets.sampling=exact")
        cls.nodes = Run(CASE)

    def test_certified(self):
        """Every target is within the tolerance of the exact map, nodes to rounding; the header, run.json and the table say so."""
        e, t = errors(self.exact, self.nodes), self.nodes.table("TARGETS")
        node = t["SAMPLED"] == "node"
        with fits.open(self.nodes.path("maps.fits")) as f, open(self.nodes.path("run.json"), encoding="utf-8") as g:
            head, told = f[0].header, json.load(g)["sampling"]
        self.assertLess(head["NNODE"], 0.75 * len(t))
        self.assertLess(e.max(), 1e-3)
        self.assertGreater(e.max(), 1e-6)  # most of it was not computed
        self.assertLess(e[node].max(), 1e-6)
        self.assertTrue(node.sum() >= head["NCHECK"] >= 8)
        self.assertTrue(np.all((t["SAMPERR"] > 0) == ~node))
        self.assertGreater(np.mean(t["SAMPERR"][~node] > e[~node]), 0.6)
        self.assertEqual((head["SAMPLING"], head["SAMPTOL"], told["nodes"]), ("nodes", 1e-3, head["NNODE"]))
        self.assertEqual(told["targets_compared"], head["NCHECK"])
        self.assertLess(head["SAMPDIFF"], 1e-3)
        said = self.nodes.process.stderr + self.nodes.process.stdout
        self.assertIn(f"361 targets from {head['NNODE']} nodes", said)
        self.assertIn("at most %.2g %% of the others are over it, at 95 %% confidence" % (100 * head["SAMPREST"]), said)

    def test_all_results(self):
        """FWHM, variances, error budget and images follow, too."""
        a, b = self.exact.table("TARGETS"), self.nodes.table("TARGETS")
        for name, most in (("FWHM", 0.3), ("VARIANCE", 5e-3), ("WFE_TOTAL_LONG", 1), ("WFE_NOISE_LONG", 0.5)):
            self.assertLess(np.abs(a[name] - b[name]).max(), most, name)
        with fits.open(self.exact.path("psf.fits")) as f, fits.open(self.nodes.path("psf.fits")) as g:
            images = [h.name for h in f if h.is_image and h.data is not None]
            self.assertTrue(images)
            for name in images:
                self.assertLess(np.abs(f[name].data - g[name].data).max(), 1e-3)

    def test_resume(self):
        """A run that stopped among its nodes, or among its targets, goes on to the same bits."""
        for fault in ("psf:0:fail:90", "nodes:0:fail:5"):
            run = Run(CASE, check=False, env={"MOAO_FAULT": fault})
            self.assertNotEqual(run.process.returncode, 0)
            self.assertTrue([n for n in os.listdir(run.path("checkpoint")) if n.startswith("part-")])
            self.refuse_other_nodes(run)
            moao("run", self.case(), "-o", run.dir, "--resume")
            self.assertTrue(same(self.nodes, run), fault)

    def refuse_other_nodes(self, run):
        """A run whose nodes an earlier version has chosen is not continued."""
        path = os.path.join(run.path("checkpoint"), "facts")
        with open(path, "rb") as f:
            kept = f.read()
        text = re.sub(rb"node_rule \d+\n", b"", kept[:kept.rindex(b"crc ")])
        self.assertLess(len(text), kept.rindex(b"crc "))
        with open(path, "wb") as f:
            f.write(text + b"crc %08x\n" % zlib.crc32(text))
        p = moao("run", self.case(), "-o", run.dir, "--resume", check=False)
        self.assertEqual(p.returncode, 2, p.stderr)
        self.assertIn("nodes another version of the program has chosen", p.stderr)
        with open(path, "wb") as f:
            f.write(kept)

    def test_ranks(self):
        """Two ranks have the same nodes, and results that differ by rounding."""
        two = Run(CASE, "targets.tolerance=1e-3", ranks=2)
        a, b = self.nodes.table("TARGETS"), two.table("TARGETS")
        self.assertTrue(np.all(a["SAMPLED"] == b["SAMPLED"]))
        self.assertLess(np.abs(a["STREHL"] - b["STREHL"]).max(), 1e-6)

    def test_rough(self):
        """One strong layer at 20 km, and a tolerance that its nodes miss: nodes are added, until it holds."""
        options = ["psf.residual=sensor", "output.psf=none"]
        exact = Run(ROUGH, *options, "targets.sampling=exact")
        nodes = Run(ROUGH, *options, "targets.tolerance=3e-3", "targets.sampling=nodes")
        with open(nodes.path("run.json"), encoding="utf-8") as f:
            told = json.load(f)["sampling"]
        self.assertGreater(told["nodes_added"], 0)
        self.assertLess(np.quantile(errors(exact, nodes), 0.97), 3e-3)

    def test_obscured_star(self):
        """A bright star within the field to which a part of the pupil is hidden: the map has a peak and a cusp there, which the first nodes
        miss. Nodes are added about it, not everywhere, and every target is within the tolerance."""
        exact, nodes = Run(OBSCURED, "targets.sampling=exact"), Run(OBSCURED)
        e, t = errors(exact, nodes), nodes.table("TARGETS")
        r = np.hypot(t["X"] + 3, t["Y"] - 2)
        with open(nodes.path("run.json"), encoding="utf-8") as f:
            told = json.load(f)["sampling"]
        self.assertGreater(told["nodes_added"], 8)
        self.assertLess(told["nodes"], len(t))
        self.assertLess(e.max(), 3e-3)
        self.assertLess(told["largest_difference"], 3e-3)
        near = np.mean(t["SAMPLED"][r < 5] == "node"), np.mean(t["SAMPLED"][r > 12] == "node")
        self.assertGreater(near[0], 1.5 * near[1])
        strehl = exact.quantity("STREHL")[:, 0, 0]
        self.assertGreater(strehl[np.argmin(r)], np.quantile(strehl, 0.9))  # the star does count

    def test_reconstructors(self):
        """The second of two reconstructors has a rougher profile: it gets nodes of its own, which the first did without. A target that was a
        node under the second alone counts as interpolated; the run goes on to the same bits, and images of both exposures follow."""
        exact, nodes = Run(TWO, "targets.sampling=exact"), Run(TWO, "output.field=true", "targets.tolerance=5e-3")
        e, t = errors(exact, nodes), nodes.table("TARGETS")
        node = t["SAMPLED"] == "node"
        with fits.open(nodes.path("field.fits")) as f:
            places = f["NODES"].data
        later = places[places["TOR"] == 2]
        self.assertTrue(0 < len(later) < len(places))
        self.assertLess(e.max(), 5e-3)
        self.assertLess(e[node].max(), 1e-6)
        self.assertTrue(np.all((t["SAMPERR"] > 0) == ~node))
        mixed = [k for k in range(len(t)) if np.hypot(later["X"] - t["X"][k], later["Y"] - t["Y"][k]).min() < 1e-6]
        self.assertTrue(mixed and not node[mixed].any())
        off = np.abs(exact.quantity("STREHL")[mixed] - nodes.quantity("STREHL")[mixed])
        self.assertLess(off[:, :, 1].max(), 1e-6)
        self.assertGreater(off[:, :, 0].max(), 1e-5)
        for fault in ("psf:0:fail:110", "nodes:0:fail:14"):
            run = Run(TWO, "output.field=true", "targets.tolerance=5e-3", check=False, env={"MOAO_FAULT": fault})
            self.assertNotEqual(run.process.returncode, 0)
            moao("run", os.path.join(run.dir, "..", "case.yaml"), "output.field=true", "targets.tolerance=5e-3", "-o", run.dir, "--resume")
            self.assertTrue(same(nodes, run, ("maps.fits", "field.fits")), fault)
        middle = int(np.argmin(np.hypot(t["X"], t["Y"])))
        for exposure in (1, 2):
            p = results.Run(nodes.dir).psf_at(0, 0, exposure=exposure)
            self.assertLess(abs(p.strehl - exact.quantity("STREHL")[middle, 0, exposure - 1]), 5e-3)

    def test_exposures_follow(self):
        """Exposures with mixtures of the layers of two others compute a fraction of the nodes, and targets are as exact as without that. The
        run goes on to the same bits; two ranks have the same nodes."""
        options = ["targets.sampling=nodes", "targets.tolerance=5e-4"]
        exact, nodes = Run(FOLLOW, "targets.sampling=exact"), Run(FOLLOW, *options)
        e, t = errors(exact, nodes), nodes.table("TARGETS")
        with open(nodes.path("run.json"), encoding="utf-8") as f, fits.open(nodes.path("maps.fits")) as g:
            told, head = json.load(f)["sampling"], g[0].header
        said = nodes.process.stderr + nodes.process.stdout
        self.assertIn("all nodes in 2 of 4 exposures", said)
        self.assertLess(told["node_residuals"], 0.85 * 4 * told["nodes"])
        self.assertEqual(told["node_residuals"], head["NNODERES"])
        chunks = re.findall(r"exposure \d/4, targets (\d+)-(\d+) of", said)
        self.assertEqual(sum(int(b) - int(a) + 1 for a, b in chunks), told["node_residuals"])
        self.assertLess(np.quantile(e, 0.97), 5e-4)
        self.assertLess(e.max(), 1e-3)
        node = t["SAMPLED"] == "node"
        self.assertLess(e[node].max(), 1e-6)
        self.assertTrue(np.all((t["SAMPERR"] > 0) == ~node))
        for name in ("WFE_TOTAL_LONG", "WFE_NOISE_LONG"):
            self.assertLess(np.abs(exact.table("TARGETS")[name] - t[name]).max(), 1, name)
        for fault in ("psf:0:fail:150", "nodes:0:fail:9"):
            run = Run(FOLLOW, *options, check=False, env={"MOAO_FAULT": fault})
            self.assertNotEqual(run.process.returncode, 0)
            moao("run", os.path.join(run.dir, "..", "case.yaml"), *options, "-o", run.dir, "--resume")
            self.assertTrue(same(nodes, run, ("maps.fits",)), fault)
        two = Run(FOLLOW, *options, ranks=2).table("TARGETS")
        self.assertTrue(np.all(two["SAMPLED"] == t["SAMPLED"]))
        self.assertLess(np.abs(two["STREHL"] - t["STREHL"]).max(), 1e-6)

    def test_exposure_that_does_not_follow(self):
        """A gust in one exposure, which no mixture of the others has: comparisons show it, and more nodes are computed in every exposure. The
        run goes on to the same bits."""
        options = ["targets.sampling=nodes", "targets.tolerance=5e-4"]
        exact, nodes = Run(GUST, "targets.sampling=exact"), Run(GUST, *options)
        said = nodes.process.stderr + nodes.process.stdout
        self.assertIn("all nodes in 2 of 4 exposures", said)
        self.assertRegex(said, "in an exposure that follows from others: (more|all) nodes are computed in every exposure")
        with open(nodes.path("run.json"), encoding="utf-8") as f:
            told = json.load(f)["sampling"]
        self.assertGreater(told["node_residuals"], 3 * told["nodes"])
        self.assertLess(told["largest_difference"], 5e-4)
        self.assertLess(np.quantile(errors(exact, nodes), 0.97), 5e-4)
        run = Run(GUST, *options, check=False, env={"MOAO_FAULT": "nodes:0:fail:9"})
        self.assertNotEqual(run.process.returncode, 0)
        moao("run", os.path.join(run.dir, "..", "case.yaml"), *options, "-o", run.dir, "--resume")
        self.assertTrue(same(nodes, run, ("maps.fits",)))

    def test_every_target(self):
        """A tolerance that asks for more nodes than save anything: the run says so and computes all targets, and under the second
        reconstructor nothing but them. It goes on to the same bits."""
        options = ["targets.tolerance=1e-4", "targets.sampling=nodes"]
        exact, nodes = Run(ROUGH_FIRST, "targets.sampling=exact"), Run(ROUGH_FIRST, *options)
        t = nodes.table("TARGETS")
        self.assertTrue(np.all(t["SAMPLED"] == "node"))
        self.assertLess(errors(exact, nodes).max(), 1e-6)
        said = nodes.process.stderr + nodes.process.stdout
        self.assertIn("asks for more nodes than save anything: all 361 targets are computed", said)
        for exposure, most in ((1, None), (2, len(t) + 2)):  # the sample of mixed precision, and a node that is computed again
            chunks = re.findall(r"exposure %d/2, targets (\d+)-(\d+) of" % exposure, said)
            count = sum(int(b) - int(a) + 1 for a, b in chunks)
            self.assertGreaterEqual(count, len(t))
            self.assertLessEqual(count, most or 2 * len(t) + 200)
        run = Run(ROUGH_FIRST, *options, check=False, env={"MOAO_FAULT": "nodes:0:fail:14"})
        self.assertNotEqual(run.process.returncode, 0)
        moao("run", os.path.join(run.dir, "..", "case.yaml"), *options, "-o", run.dir, "--resume")
        self.assertTrue(same(nodes, run, ("maps.fits",)))

    def test_planted_error(self):
        """Numbers of one node that are wrong, with the right checksums: it is computed again, and the run says so."""
        options = ["psf.residual=sensor", "output.psf=none"]
        run = Run(CASE, *options, check=False, env={"MOAO_FAULT": "psf:0:fail:100"})
        folder = run.path("checkpoint")
        part = os.path.join(folder, sorted(n for n in os.listdir(folder) if n.startswith("part-"))[0])
        with open(part, "rb") as f:
            data = bytearray(f.read())
        nt, nl, nb = struct.unpack_from("<3i", data, 24)
        nbudget, nkept = struct.unpack_from("<i", data, 44)[0], struct.unpack_from("<i", data, 52)[0]
        self.assertEqual((nl, nb), (2, 1))
        ns, table, scalars = nl * (3 + nb) + nbudget, 80, 80 + 4 * nt
        node = 27  # in the fourth row of eight, inside the field
        kept = scalars + 8 * ns * nt + 4 * nkept * node
        numbers = np.frombuffer(bytes(data[kept:kept + 4 * nkept]), "<f4") * np.float32(1.05)
        data[kept:kept + 4 * nkept] = numbers.tobytes()
        strehl = scalars + 8 * ns * node
        struct.pack_into("<d", data, strehl, struct.unpack_from("<d", data, strehl)[0] * 0.97)
        struct.pack_into("<I", data, table + 4 * node, zlib.crc32(bytes(data[kept:kept + 4 * nkept])))
        struct.pack_into("<I", data, 48, zlib.crc32(bytes(data[scalars:scalars + 8 * ns * nt])))
        struct.pack_into("<I", data, 72, zlib.crc32(bytes(data[table:table + 4 * nt])))
        struct.pack_into("<I", data, 76, zlib.crc32(bytes(data[:76])))
        with open(part, "wb") as f:
            f.write(data)
        p = moao("run", self.case(), *options, "-o", run.dir, "--resume", check=False)
        self.assertEqual(p.returncode, 1, p.stdout + p.stderr)
        self.assertIn("was computed twice", p.stdout + p.stderr)

    def test_any_direction(self):
        """Images of a finished run where it has targets, and where it has none: those of a run that computed them; in Python, too. Its kept
        numbers are refused where they are damaged, of another case, or of a direction without nodes about it."""
        at = [[0, 0], [3.7, -8.1], [-11.3, 14.2]]
        run = Run(CASE, "output.field=true", "targets.grid.nx=9")
        exact = Run(CASE, "targets.grid=null", f"targets.list={at}", "targets.sampling=exact")
        out = os.path.join(run.dir, "..", "at.fits")
        said = psf(run.dir, "--at", ",".join("%g,%g" % tuple(p) for p in at), "-o", out).stdout
        self.assertEqual(len(said.splitlines()), 1 + 2 * len(at))
        with fits.open(out) as f, fits.open(exact.path("psf.fits")) as g:
            for wave in (1, 2):
                self.assertLess(np.abs(f["PSF", wave].data - g["PSF_LONG", wave].data).max(), 1e-3)
            strehl = exact.quantity("STREHL_LONG")[:, :, 0]
            self.assertLess(np.abs(f["DIRECTIONS"].data["STREHL"] - strehl).max(), 1e-3)
            self.assertLess(np.abs(f["DIRECTIONS"].data["FWHM"] - exact.quantity("FWHM_LONG")[:, :, 0]).max(), 0.3)
        r = results.Run(run.dir)
        self.assertLess(np.abs(r.psf_at(0, 0).data - r.psf(0, 0).data).max(), 1e-5)
        two = r.psf_at([0, 5], 1.0, wavelength=2.2, exposure=2)
        self.assertEqual((len(two), two[1].x, two[1].y, two[1].exposure), (2, 5, 1, 2))
        cubes = results.export.export(r, "scopesim", [0], pixel=20, side=9, directions=3)
        self.assertEqual(cubes[2].data.shape[0], 9)
        middle = r.psf_at(0, 0).resampled(20, 9)
        self.assertLess(np.abs(cubes[2].data[4] - middle).max(), 1e-6)
        with self.assertRaisesRegex(results.MoaoError, "not between the nodes"):
            r.psf_at(60, 0)
        self.refused(run, exact)

    def refused(self, run, other):
        """One line and exit code 2 for kept numbers that are not those of the run."""
        place = os.path.join(run.dir, "..", "bad")
        os.mkdir(place)
        shutil.copy(run.path("effective.yaml"), place)
        with open(run.path("field.fits"), "rb") as f:
            good = f.read()
        head = good.rindex(b"NODESTEP")  # that of the table
        for data, word in ((None, "output.field"), (b"not FITS", "field.fits"), (good[:len(good) // 2], "field.fits"),
                           (good[:head] + b"NODESTEP=                  -1." + good[head + 30:], "NODESTEP"),
                           (good.replace(b"NKEPT   =", b"NKEPX   =", 1), "NKEPT")):
            if data is not None:
                with open(os.path.join(place, "field.fits"), "wb") as f:
                    f.write(data)
            p = psf(place, "--at", "0,0")
            self.assertEqual((p.returncode, word in p.stderr), (2, True), (word, p.stdout + p.stderr))
        with open(os.path.join(place, "field.fits"), "wb") as f:
            f.write(good)
        shutil.copy(other.path("effective.yaml"), place)
        with open(os.path.join(place, "effective.yaml"), encoding="utf-8") as f:
            text = f.read().replace("nssp: 4", "nssp: 5")
        with open(os.path.join(place, "effective.yaml"), "w", encoding="utf-8") as f:
            f.write(text)
        p = psf(place, "--at", "0,0")
        self.assertEqual((p.returncode, "other numbers" in p.stderr), (2, True), p.stdout + p.stderr)
        for words, what in ((["--at", "1"], "pairs"), (["--at", "1,x"], "number 2"), ([], "--at"), (["--at", "0,0", "--exposure", "9"], "1 to 2")):
            p = psf(run.dir, *words)
            self.assertEqual((p.returncode, what in p.stderr), (2, True), p.stdout + p.stderr)

    def case(self):
        path = os.path.join(tempfile.mkdtemp(prefix="moao-"), "case.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(CASE)
        return path

    def test_choice(self):
        """auto computes all targets where nodes would not save a quarter; what contradicts itself is refused."""
        few = Run(CASE, "targets.grid.nx=7", "psf.residual=sensor", "output.psf=none")
        with fits.open(few.path("maps.fits")) as f:
            self.assertEqual(f[0].header["SAMPLING"], "exact")
            self.assertNotIn("SAMPLED", f["TARGETS"].columns.names)
        for options, word in ((["targets.sampling=nodes", "output.matrices=[W]"], "output.matrices"),
                              (["targets.exact=[400]"], "targets.exact"), (["targets.exact=[1.5]"], "targets.exact"),
                              (["targets.tolerance=0"], "targets.tolerance")):
            p = moao("check", self.case(), *options, check=False)
            self.assertEqual(p.returncode, 2, p.stdout + p.stderr)
            self.assertIn(word, p.stderr)


if __name__ == "__main__":
    unittest.main()
