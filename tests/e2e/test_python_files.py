"""What the Python package says of files that are cut, damaged, hostile or of another program: one line with the file's name and
exit code 2, at once. All files are written here byte by byte, by the FITS standard."""
import io
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr, redirect_stdout

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import ROOT  # noqa: E402

sys.path.insert(0, os.path.join(ROOT, "python"))
import moao  # noqa: E402
from moao import cmd_collect, cmd_compare, cmd_coverage, cmd_export, cmd_plot, cmd_sweep, cmd_view  # noqa: E402

SIDE = 8


def card(key, value):
    text = "'%s'" % value.replace("'", "''") if isinstance(value, str) else value.decode() if isinstance(value, bytes) else \
        {True: "T", False: "F"}[value] if isinstance(value, bool) else repr(value)
    return ("%-8s= %20s" % (key, text)).ljust(80)[:80]


def hdu(cards, data=b""):
    head = ("".join(card(*c) for c in cards) + "END".ljust(80)).encode("ascii")
    return head + b" " * (-len(head) % 2880) + data + b"\0" * (-len(data) % 2880)


def primary(**more):
    words = dict(CREATOR="by hand", TITLE="two targets", TELDIAM=8.0, OBSCUR=0.0, ZENITH=0.0, NSENSOR=1, NMEAS=8)
    words.update(more)
    return hdu([("SIMPLE", True), ("BITPIX", 8), ("NAXIS", 0), ("EXTEND", True)] + [w for w in words.items() if w[1] is not None])


def table(name, columns, more=(), change=None):
    """columns: (name, TFORM, unit, packed rows)."""
    rows = [b"".join(parts) for parts in zip(*(c[3] for c in columns))]
    cards = [("XTENSION", "BINTABLE"), ("BITPIX", 8), ("NAXIS", 2), ("NAXIS1", len(rows[0])), ("NAXIS2", len(rows)), ("PCOUNT", 0),
             ("GCOUNT", 1), ("TFIELDS", len(columns)), ("EXTNAME", name)]
    for i, (title, form, unit, _) in enumerate(columns, 1):
        cards += [("TTYPE%d" % i, title), ("TFORM%d" % i, form)] + ([("TUNIT%d" % i, unit)] if unit else [])
    cards = [(k, (change or {}).get(k, v)) for k, v in cards + list(more)]
    return hdu(cards, b"".join(rows))


def reals(*rows):
    return [struct.pack(">%dd" % len(np.atleast_1d(r)), *np.atleast_1d(r)) for r in rows]


def targets(change=None, more=(), grid=(0, 0), without=()):
    columns = [("X", "1D", "arcsec", reals(0, 10)), ("Y", "1D", "arcsec", reals(0, 5)), ("STREHL", "1D", "", reals(0.5, 0.25)),
               ("STREHL_LONG", "1D", "", reals(0.5, 0.25)), ("EE_75mas", "1D", "", reals(0.4, 0.2)),
               ("EE_75mas_LONG", "1D", "", reals(0.4, 0.2)), ("FWHM", "1D", "mas", reals(60, np.nan)),
               ("FWHM_LONG", "1D", "mas", reals(60, np.nan))]
    columns = [c for c in columns if c[0] not in without]
    return table("TARGETS", columns + list(more), (("GRIDNX", grid[0]), ("GRIDNY", grid[1])), change)


def maps(head=None, rows=None, waves=None, times=None):
    """A whole maps.fits as bytes."""
    star = [("NAME", "4A", "", [b"star"]), ("TYPE", "3A", "", [b"NGS"]), ("X", "1D", "arcsec", reals(20)), ("Y", "1D", "arcsec", reals(0))]
    when = [("TIME", "1D", "s", reals(0)), ("R0", "1D", "m", reals(0.15)), ("TORTIME", "1D", "s", reals(0))]
    wave = [("LAMBDA", "1D", "um", reals(2.2)), ("PIXEL", "1D", "mas", reals(14)), ("DIFFLIM", "1D", "mas", reals(57))]
    return b"".join((head or primary(), rows or targets(), table("GUIDESTARS", star), times or table("EXPOSURES", when),
                     waves or table("WAVELENGTHS", wave), table("PARAMETERS", [("LINE", "9A", "", [b"title: by"])])))


def images(change=None, shape=(SIDE, SIDE, 2), name="PSF_LONG"):
    y, x = np.mgrid[:SIDE, :SIDE] - SIDE // 2
    cube = np.array([0.5, 0.25])[:, None, None] * np.exp(-(x ** 2 + y ** 2) / 8)
    cards = [("XTENSION", "IMAGE"), ("BITPIX", -32), ("NAXIS", 3)] + [("NAXIS%d" % (i + 1), n) for i, n in enumerate(shape)]
    cards += [("PCOUNT", 0), ("GCOUNT", 1), ("EXTNAME", name), ("EXTVER", 1), ("PIXEL", 14.0)]
    return primary() + hdu([(k, (change or {}).get(k, v)) for k, v in cards], cube.astype(">f4").tobytes())


def call(command, *arguments):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = command.main([str(a) for a in arguments])
    return code, out.getvalue(), err.getvalue()


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="moao-files-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.write("maps.fits", maps())

    def write(self, name, content):
        with open(os.path.join(self.folder, name), "wb") as f:
            f.write(content)

    def refused(self, command, name, word, *arguments, what=""):
        """One line that names the file and the fault, exit code 2, within a second."""
        start = time.process_time()
        code, _, err = call(command, *(arguments or (self.folder,)))
        used = time.process_time() - start
        self.assertEqual((code, len(err.splitlines())), (2, 1), (what, err))
        self.assertIn(name, err, what)
        self.assertIn(word, err, what)
        self.assertLess(used, 1, what)

    def test_good(self):
        """What is written here by hand is read: the other tests damage a file that is good."""
        r = moao.open(self.folder)
        self.assertEqual((r.strehl(2.2).tolist(), r.fwhm(2.2)[0], r.images), ([0.5, 0.25], 60, []))
        self.write("psf.fits", images())
        r = moao.open(self.folder)
        self.assertEqual(r.images, ["long"])
        self.assertAlmostEqual(r.psf(1).strehl, 0.25, delta=1e-7)
        self.assertEqual(call(cmd_plot, self.folder)[0], 0)

    def test_maps(self):
        """Everything that can be wrong with maps.fits."""
        good = maps()
        huge = 4000000000
        bad = reals(1, 2)
        cases = [
            ("empty", b"", "empty"), ("text", b"Strehl ratio\n" * 40, "no FITS"), ("zeros", bytes(5760), "no FITS"),
            ("cut in the data", good[:len(good) - 3000], "cut"), ("cut in a header", good[:2880 + 700], "cut"),
            ("no END", good[:2880].replace(b"END", b"EMD") + b" " * 28800, "header"), ("only the head", primary(), "TARGETS"),
            ("tail", good + b"x" * 2880, "no header"),
            ("TFIELDS", maps(rows=targets({"TFIELDS": huge})), "TFIELDS"), ("NAXIS", maps(rows=targets({"NAXIS": huge})), "NAXIS"),
            ("NAXIS of the head", good.replace(card("NAXIS", 0).encode(), card("NAXIS", huge).encode(), 1), "NAXIS"),
            ("NAXIS2", maps(rows=targets({"NAXIS2": huge})), "cut"), ("NAXIS2 < 0", maps(rows=targets({"NAXIS2": -1})), "axis"),
            ("PCOUNT", maps(rows=targets({"PCOUNT": 10 ** 15})), "cut"), ("BITPIX", maps(rows=targets({"BITPIX": 7})), "BITPIX"),
            ("repeat", maps(rows=targets({"TFORM3": "%dD" % huge})), "columns"), ("TFORM", maps(rows=targets({"TFORM3": "1Y"})), "TFORM3"),
            ("words for numbers", maps(rows=targets({"TFORM3": "8A"})), "STREHL"), ("no X", maps(rows=targets(without=("X",))), "X"),
            ("no STREHL", maps(rows=targets(without=("STREHL", "STREHL_LONG"))), "STREHL"),
            ("grid", maps(rows=targets(grid=(5, 7))), "5 x 7"), ("grid of words", maps(rows=targets(grid=("a", 1))), "invalid"),
            ("cells", maps(rows=targets(more=[("FOO", "2D", "", reals((1, 2), (3, 4))), ("FOO_LONG", "1D", "", bad)])), "FOO"),
            ("stars", maps(rows=targets(more=[("WFE_STAR_LONG", "2D", "nm", reals((1, 2), (3, 4)))])), "WFE_STAR_LONG"),
            ("no wavelength", maps(waves=table("WAVELENGTHS", [("LAMBDA", "1D", "", bad), ("DIFFLIM", "1D", "", bad)],
                                               change={"NAXIS2": 0})), ""),
            ("wavelength NaN", maps(waves=table("WAVELENGTHS", [("LAMBDA", "1D", "", reals(np.nan)), ("DIFFLIM", "1D", "", reals(1))])),
             "LAMBDA"),
            ("wavelength 0", maps(waves=table("WAVELENGTHS", [("LAMBDA", "1D", "", reals(0)), ("DIFFLIM", "1D", "", reals(1))])), "LAMBDA"),
            ("no time", maps(times=table("EXPOSURES", [("WHEN", "1D", "s", reals(0))])), "TIME"),
            ("no diameter", maps(head=primary(TELDIAM=None)), "TELDIAM"), ("diameter of words", maps(head=primary(TELDIAM="8")), "TELDIAM"),
            ("another table", primary() + table("CATALOGUE", [("RA", "1D", "deg", bad)]), "TARGETS"),
        ]
        for what, content, word in cases:
            self.write("maps.fits", content)
            self.refused(cmd_plot, "maps.fits", word, what=what)
        for command in (cmd_view, cmd_export):
            self.refused(command, "maps.fits", "TARGETS")
        self.refused(cmd_compare, "maps.fits", "TARGETS", self.folder, self.folder)
        os.remove(os.path.join(self.folder, "maps.fits"))
        os.mkfifo(os.path.join(self.folder, "maps.fits"))
        self.refused(cmd_plot, "maps.fits", "regular")

    def test_images(self):
        """A psf.fits that is cut or of other targets is no run without images: every command says so."""
        good = images()
        cases = [("cut", good[:-2880], "cut"), ("cut in the header", good[:4000], "cut"), ("empty", b"", "empty"),
                 ("NAXIS", images({"NAXIS": 4000000000}), "NAXIS"), ("huge", images({"NAXIS1": 2000000000}), "cut"),
                 ("other targets", images(shape=(SIDE, 2 * SIDE, 1)), "2 targets"), ("a plane", images({"NAXIS": 2}), "2 targets"),
                 ("PIXEL", images({"PIXEL": "wide"}), "PIXEL"), ("PIXEL of 0", images({"PIXEL": 0.0}), "2 targets"),
                 ("folder", None, "psf.fits")]
        for what, content, word in cases:
            if content is None:
                os.remove(os.path.join(self.folder, "psf.fits"))
                os.mkdir(os.path.join(self.folder, "psf.fits"))
            else:
                self.write("psf.fits", content)
            for command in (cmd_plot, cmd_view, cmd_export):
                self.refused(command, "psf.fits", word, what=what)

    def test_parameters_and_names(self):
        """Questions that are no numbers, or beyond what there is."""
        r = moao.open(self.folder)
        for ask, word in ((lambda: r.strehl("K"), "2.2 um"), (lambda: r.ee("75"), "75 mas"), (lambda: r.strehl(float("nan")), "nan"),
                          (lambda: r.strehl([2.2]), "number"), (lambda: r.strehl(2.2, 1.5), "integer"), (lambda: r.strehl(2.2, "x"), "all"),
                          (lambda: r.ee(True), "75 mas"), (lambda: r.target_index(0.5), "integer"), (lambda: r.target_index("a", 1), "arcsec"),
                          (lambda: r.strehl(0.5), "2.2 um")):
            with self.assertRaises(moao.MoaoError) as e:
                ask()
            self.assertEqual(len(str(e.exception).splitlines()), 1)
            self.assertIn(word, str(e.exception))

    def test_other_readers(self):
        """Tables of sweeps, of sky coverage and of campaigns that are of another kind."""
        for name, content, word in (("sweep.fits", b"", "empty"), ("sweep.fits", primary(), "cannot read"),
                                    ("sweep.fits", primary() + table("SWEEP", [("A", "1D", "", reals(1))],
                                                                     change={"TFIELDS": 4000000000}), "TFIELDS"),
                                    ("sweep.fits", primary() + table("SWEEP", [("A", "1D", "", reals(1))], [("NKEYS", "x")]), "NKEYS"),
                                    ("sweep.csv", b"\x89PNG\r\n\x1a\n\0\0", "cannot read"), ("sweep.csv", b"", "finished")):
            self.write(name, content)
            self.refused(cmd_sweep, name, word, what=content[:40])
            os.remove(os.path.join(self.folder, name))
        for content in (b"[]", b"{", b"[" * 100000, b'{"want": 3}'):
            self.write("asterism.json", content)
            self.write("coverage.csv", b"field,figure\n1,0.5\n")
            code, _, err = call(cmd_coverage, self.folder)
            self.assertEqual((code, len(err.splitlines())), (2, 1), (content[:10], err))
        self.write("overrides.txt", b"\xff\xfe\n")
        self.refused(cmd_collect, "overrides.txt", "cannot read", os.path.join(self.folder, "overrides.txt"), self.folder)

    def test_modules(self):
        """`import moao` alone gives the modules of the package when they are named; a name that there is not stays an error."""
        text = "import sys, moao; print('matplotlib' in sys.modules, moao.plots.overview.__name__, 'view' in dir(moao)); moao.nothing"
        p = subprocess.run([sys.executable, "-c", text], env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "python")),
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)
        self.assertEqual(p.stdout.split(), ["False", "overview", "True"])
        self.assertIn("AttributeError: module 'moao' has no attribute 'nothing'", p.stderr)

    def test_compare_nan(self):
        """NaN in both runs is no difference; in one of them it is one; the means are those of what there is."""
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        shutil.copy(os.path.join(self.folder, "maps.fits"), other)
        code, text, _ = call(cmd_compare, self.folder, other)
        self.assertEqual(code, 0, text)
        line = next(w for w in map(str.split, text.splitlines()) if w[:1] == ["FWHM"])
        self.assertEqual(line[3:6], ["60", "60", "0"])
        for content, expected in ((maps().replace(reals(60)[0], reals(np.nan)[0]), 1), (maps().replace(reals(60)[0], reals(61)[0]), 1)):
            with open(os.path.join(other, "maps.fits"), "wb") as f:
                f.write(content)
            self.assertEqual(call(cmd_compare, self.folder, other)[0], expected)
            self.assertEqual(call(cmd_compare, other, self.folder)[0], expected)


if __name__ == "__main__":
    unittest.main()
