"""Results that other programs wrote, edited or cut: moao budget and moao sweep read what is as a run writes it, and refuse
the rest in one line. The files are written here by hand, byte for byte."""
import os
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from moao_test import MOAO, environment, patience  # noqa: E402

TERMS = ("TOTAL", "TOMO", "NOISE", "ALIAS", "FIT", "LAG", "JITTER", "STATIC")
BYTES = {"A": 1, "D": 8, "E": 4, "I": 2, "J": 4, "K": 8, "L": 1, "B": 1, "C": 8, "M": 16, "P": 8, "Q": 16}


def card(key, value):
    text = "'%s'" % value.replace("'", "''") if isinstance(value, str) else "T" if value is True else "%20s" % value
    return ("%-8s= %s" % (key, text)).ljust(80).encode("latin-1")


def block(data, pad):
    return data + pad * (-len(data) % 2880)


def header(cards):
    return block(b"".join(card(k, v) for k, v in cards) + b"END".ljust(80), b" ")


def cell(form, values):
    code = form.lstrip("0123456789")[0]
    if code == "A":
        n = int(form[:-1] or 1)
        return values.encode("latin-1").ljust(n)[:n]
    values = values if isinstance(values, (list, tuple)) else [values]
    return b"".join(struct.pack(">" + {"D": "d", "E": "f", "I": "h", "J": "i", "K": "q"}.get(code, "%dx" % BYTES[code]),
                                *([v] if code in "DEIJK" else [])) for v in values)


class Table:
    """columns: [name, form, [cell, ...]]; cards: {key: value} that replace or follow those there are."""

    def __init__(self, name, *columns, **cards):
        self.name, self.columns, self.cards = name, [list(c) for c in columns], dict(cards)

    def column(self, name):
        return next(c for c in self.columns if c[0] == name)

    def bytes(self):
        rows = [b"".join(cell(form, cells[i]) for _, form, cells in self.columns) for i in range(len(self.columns[0][2]))]
        width = len(rows[0]) if rows else sum(BYTES[f[-1]] * int(f[:-1] or 1) for _, f, _ in self.columns)
        cards = {"XTENSION": "BINTABLE", "BITPIX": 8, "NAXIS": 2, "NAXIS1": width, "NAXIS2": len(rows), "PCOUNT": 0,
                 "GCOUNT": 1, "TFIELDS": len(self.columns)}
        for i, (name, form, _) in enumerate(self.columns):
            cards["TTYPE%d" % (i + 1)], cards["TFORM%d" % (i + 1)] = name, form
        cards["EXTNAME"] = self.name
        cards.update(self.cards)
        return header(cards.items()) + block(b"".join(rows), b"\0")


def maps(ntarget=2, nexposure=2, nlambda=2, stars=("bright", "faint")):
    """The tables of a maps.fits that the readers need. Values: term k of target t is 100 (k + 1) + t."""
    values = [("WFE_" + t, "%dD" % nexposure, [[100 * (k + 1) + t + 0.25 * e for e in range(nexposure)] for t in range(ntarget)])
              for k, t in enumerate(TERMS)]
    long = [("WFE_%s_LONG" % t, "1D", [100 * (k + 1) + t for t in range(ntarget)]) for k, t in enumerate(TERMS)]
    n = len(stars)
    own = [("WFE_STAR", "%dD" % (n * nexposure), [[7.0] * (n * nexposure)] * ntarget), ("WFE_STAR_LONG", "%dD" % n, [[7.0] * n] * ntarget)]
    strehl = [("STREHL", "%dD" % (nlambda * nexposure), [[0.5] * (nlambda * nexposure)] * ntarget),
              ("STREHL_LONG", "%dD" % nlambda, [[0.25 + 0.25 * t + 0.125 * j for j in range(nlambda)] for t in range(ntarget)]),
              ("VARIANCE_LONG", "%dD" % nlambda, [[1.0] * nlambda] * ntarget),
              ("FWHM_LONG", "%dE" % nlambda, [[60.0 + 10 * j for j in range(nlambda)]] * ntarget)]
    return [Table("TARGETS", ("TARGET", "1J", list(range(1, ntarget + 1))), ("X", "1D", [0.0, 10.0][:ntarget]),
                  ("Y", "1D", [0.0, 5.0][:ntarget]), ("NAME", "8A", ["left", "right"][:ntarget]), *strehl, *values, *long, *own),
            Table("GUIDESTARS", ("NAME", "32A", list(stars)), ("X", "1D", [1.0] * n)),
            Table("EXPOSURES", ("TIME", "1D", [60.0 * e for e in range(nexposure)])),
            Table("WAVELENGTHS", ("LAMBDA", "1D", [1.25 + 0.5 * j for j in range(nlambda)]))]


def write(tables):
    return header([("SIMPLE", True), ("BITPIX", 8), ("NAXIS", 0), ("EXTEND", True)]) + b"".join(t.bytes() for t in tables)


def changed(table, name=None, form=None, cells=None, **cards):
    """What a good file becomes when one column, or some cards, of a table are others."""
    def make():
        tables = maps()
        t = next(t for t in tables if t.name == table)
        t.cards.update({k.replace("_n", str([c[0] for c in t.columns].index(name) + 1) if name else ""): v for k, v in cards.items()})
        if form is not None:
            t.column(name)[1:] = form, cells
        return write(tables)
    return make


def without(table, column=None):
    def make():
        tables = maps()
        for t in tables:
            if t.name == table and column:
                t.columns.remove(t.column(column))
        return write([t for t in tables if t.name != table or column])
    return make


def rows(table, n):
    def make():
        tables = maps()
        for c in next(t for t in tables if t.name == table).columns:
            c[2] = c[2][:1] * n
        return write(tables)
    return make


def cut(n):
    return lambda: write(maps())[:n]


# name, file, word of the message; for budget, for sweep (None: reads it)
BAD = [
    ("a numeric name that is shown with 391 characters", changed("GUIDESTARS", "NAME", "1D", [1e300, 2.0], TDISP_n="F390.2"), "NAME", None),
    ("names in parts", changed("GUIDESTARS", "NAME", "32A", ["a", "b"], TFORM_n="32A8"), "NAME", None),
    ("names by descriptor", changed("TARGETS", "NAME", "1P", [[0], [0]], TFORM_n="1PA(900)"), "NAME", None),
    ("no wavelengths", rows("WAVELENGTHS", 0), "WAVELENGTHS", "WAVELENGTHS"),
    ("no targets", rows("TARGETS", 0), "TARGETS", "TARGETS"),
    ("no stars", rows("GUIDESTARS", 0), "GUIDESTARS", None),
    ("no exposures", rows("EXPOSURES", 0), "EXPOSURES", "EXPOSURES"),
    ("more wavelengths than values", rows("WAVELENGTHS", 3), "STREHL", "STREHL"),
    ("more exposures than values", rows("EXPOSURES", 9), "WFE", None),
    ("more stars than values", rows("GUIDESTARS", 9), "WFE_STAR", None),
    ("rows that are not there", changed("TARGETS", NAXIS2=10 ** 9), "bytes", "bytes"),
    ("rows beyond all numbers", changed("TARGETS", NAXIS2=2 ** 62), "no table|FITS|bytes|rows", "no table|FITS|bytes|rows"),
    ("a negative number of rows", changed("WAVELENGTHS", NAXIS2=-1), "no table|FITS|rows", "no table|FITS|rows"),
    ("a heap that is not there", changed("EXPOSURES", PCOUNT=10 ** 9), "bytes", "bytes"),
    ("columns that do not fill a row", changed("TARGETS", "X", TFORM_n="900D"), "no table|FITS", "no table|FITS"),
    ("wavelengths in words", changed("WAVELENGTHS", "LAMBDA", "4A", ["1.65", "2.2 "]), "LAMBDA", "LAMBDA"),
    ("complex wavelengths", changed("WAVELENGTHS", "LAMBDA", "1C", [0, 0]), "LAMBDA", "LAMBDA"),
    ("wavelengths in pairs", changed("WAVELENGTHS", "LAMBDA", "2D", [[1.0, 2.0], [1.0, 2.0]]), "LAMBDA", "LAMBDA"),
    ("a wavelength that is none", changed("WAVELENGTHS", "LAMBDA", "1D", [1.25, float("nan")]), "row 2", "row 2"),
    ("a wavelength below zero", changed("WAVELENGTHS", "LAMBDA", "1D", [-1.25, 2.0]), "row 1", "row 1"),
    ("a term by descriptor", changed("TARGETS", "WFE_FIT_LONG", "1P", [[0], [0]], TFORM_n="1PD(900)"), "WFE_FIT_LONG", "WFE_FIT_LONG"),
    ("logical values", changed("TARGETS", "STREHL_LONG", "2L", [[0, 0], [0, 0]]), "STREHL_LONG", "STREHL_LONG"),
    ("a term less", without("TARGETS", "WFE_LAG"), "WFE_LAG", None),
    ("no table of targets", without("TARGETS"), "TARGETS", "TARGETS"),
    ("no table of stars", without("GUIDESTARS"), "GUIDESTARS", None),
    ("no budget", without("TARGETS", "WFE_TOTAL"), "no error budget", None),
    ("cut in the middle", cut(20000), "FITS|bytes|no table", "FITS|bytes|no table"),
    ("cut by one block", cut(-2880), "FITS|bytes|no table", "FITS|bytes|no table"),
    ("cut in the first header", cut(100), "FITS", "FITS"),
    ("empty", cut(0), "FITS", "FITS"),
    ("text", lambda: b"lambda,strehl\n1.65,0.5\n" * 200, "FITS", "FITS"),
]
LIST = "# moao sweep of telescope.zenith\n-o a telescope.zenith=10\n-o b telescope.zenith=20\n"


class Foreign(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = folder.name
        for name in "ab":
            os.makedirs(self.path("sweep", name, "checkpoint"))
            self.put(b"", "sweep", name, "checkpoint", "finished")
            self.put(write(maps()), "sweep", name, "maps.fits")
        self.put(LIST.encode(), "sweep", "runs.txt")

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def put(self, data, *names):
        with open(self.path(*names), "wb") as f:
            f.write(data)

    def moao(self, *args):
        return subprocess.run([MOAO, *args], cwd=self.dir, env=environment(), capture_output=True, text=True, timeout=patience(60))

    def table(self):
        with open(self.path("sweep", "sweep.csv"), encoding="utf-8") as f:
            names, *rows = [line.rstrip("\n").split(",") for line in f]
        return [dict(zip(names, r)) for r in rows]

    def test_good(self):
        """A file that another program wrote in the same form is read: real and whole numbers of any width."""
        p = self.moao("budget", "sweep/a", "--csv", "--exposure", "2")
        self.assertEqual((p.returncode, p.stderr), (0, ""))
        head, first, second = p.stdout.splitlines()
        self.assertIn("noise of bright_nm", head)
        values = dict(zip(head.split(","), second.split(",")))
        self.assertEqual((values["name"], values["x_arcsec"], values["exposure"]), ("right", "10", "2"))
        self.assertEqual([dict(zip(head.split(","), line.split(",")))["fitting_nm"] for line in (first, second)], ["500.25", "501.25"])
        self.assertEqual(self.moao("sweep", "--table", "-o", "sweep", "-q").returncode, 0)
        row = self.table()[1]
        self.assertEqual((row["telescope.zenith"], row["status"]), ("20", "finished"))
        self.assertEqual([float(row["strehl_%s_1.25um" % k]) for k in ("mean", "min", "max")], [0.375, 0.25, 0.5])
        self.assertEqual(float(row["fwhm_1.75um"]), 70)
        self.put(changed("WAVELENGTHS", "LAMBDA", "1J", [1, 2])(), "sweep", "a", "maps.fits")
        self.assertEqual(self.moao("sweep", "--table", "-o", "sweep", "-q").returncode, 0)
        self.assertIn("fwhm_2um", self.table()[0])

    def test_bad(self):
        """What is not as a run writes it: exit code 2 and a line with the file, the table and the column; a sweep keeps the other runs."""
        for what, make, of_budget, of_sweep in BAD:
            with self.subTest(what):
                self.put(make(), "sweep", "a", "maps.fits")
                p = self.moao("budget", "sweep/a")
                self.assertEqual((p.returncode, p.stdout), (2, ""), p.stderr)
                self.assertRegex(p.stderr, r"\Asweep/a/maps\.fits: .*(%s).*\n\Z" % of_budget)
                p = self.moao("sweep", "--table", "-o", "sweep")
                self.assertEqual(p.returncode, 0 if of_sweep is None else 2, p.stderr)
                if of_sweep is not None:
                    lines = p.stderr.splitlines()
                    self.assertRegex(lines[0], r"sweep/a/maps\.fits: .*(%s)" % of_sweep)
                    self.assertIn("rm -r sweep/a", lines[1])
                    self.assertEqual(len(lines), 3, p.stderr)
                self.assertEqual([r["status"] for r in self.table()], ["finished" if of_sweep is None else "damaged", "finished"])
                self.assertEqual(self.table()[1]["fwhm_1.75um"], "70")

    def test_lists(self):
        """runs.txt that is edited: what is not a run of this sweep is refused in one line."""
        good, run = LIST.splitlines(True)[0], LIST.splitlines(True)[1]
        for what, text, word in [("a run first", run + LIST, "before the line"), ("keys twice", LIST + good, "second line"),
                                 ("no keys", "# moao sweep of\n" + run, "before the line"), ("another key", good + "-o a dm.nssp=8\n", "not a run"),
                                 ("no key", good + "-o a\n", "not a run"), ("no folder", good + "-o\n", "not a run"),
                                 ("another folder", good + "-o ../a telescope.zenith=1\n", "not a run"),
                                 ("above", good + "-o .. telescope.zenith=1\n", "not a run"),
                                 ("an open quote", good + "-o a 'telescope.zenith=1\n-o b\n", "not a run"),
                                 ("a zero", good + "-o a telescope.zenith=1\0\n", "zero"), ("UTF-16", LIST.encode("utf-16"), "zero"),
                                 ("nothing", "", "not the list"), ("a line of 100 kB", good + "x" * 100000 + "\n", "not a run")]:
            with self.subTest(what):
                self.put(text if isinstance(text, bytes) else text.encode(), "sweep", "runs.txt")
                p = self.moao("sweep", "--table", "-o", "sweep")
                self.assertEqual((p.returncode, p.stdout), (2, ""), p.stderr)
                self.assertRegex(p.stderr, r"\A[^\n]*sweep/runs\.txt: [^\n]*%s[^\n]*\n\Z" % word)
                self.assertLess(len(p.stderr), 600)


if __name__ == "__main__":
    unittest.main()
