"""Tables of stars as archives and programs write them: names of columns, their units, and cells.

Text is read here, cell by cell, so that a bad cell costs only its row and is named by its line: CSV, TSV and tables with
semicolons, bars or blanks; ECSV with any word for what is missing; VizieR's TSV and fixed columns with lines of units and
dashes; SIMBAD's lists. FITS, VOTable, IPAC and machine-readable tables of journals are read by astropy.
"""
import csv
import gzip
import itertools
import re
import warnings

import numpy as np

from .reading import size_of
from .results import MoaoError, _reason

HEAD = 5000  # lines in which a header is looked for: those of archives have a few lines for each column
DASHES = re.compile(r"[-=+|;:\s]+")
FOOTER = re.compile(r"\(\d+ rows?( affected)?\)|=+|-+")
UNIT_IN_NAME = re.compile(r"(.*?)\s*[\[(]([^\[\]()]*)[\])]\s*")


def parse_unit(text):
    """astropy's unit of a text as tables have it, None where it is none. Hours are angles, as of right ascensions."""
    from astropy import units as u
    word = str(text).strip().strip("[]\"'").strip()
    low = word.lower()
    sexagesimal = re.sub(r"\W", "", low)
    if low in ("h", "hr", "hrs", "hour", "hours") or sexagesimal in ("hms", "hhmmss", "hhmmsss", "hhmmssss"):
        return u.hourangle
    if low in ("degree", "degrees", "degs", "\u00b0") or sexagesimal in ("dms", "ddmmss", "ddmmsss"):
        return u.deg
    if low in ("mags", "magnitude", "magnitudes") or re.fullmatch(r"mag ?\(?(ab|vega)\)?|(ab|vega) ?mag", low):
        return u.mag
    if re.fullmatch(r"(julian )?years?|jyear|jyr|j?year|yr|a", low):
        return u.yr
    word = re.sub(r"\b(as|asec|arcseconds?|arc second)\b", "arcsec", word)
    word = re.sub(r"\byears?\b|\ba\b", "yr", re.sub(r"\bdegrees?\b", "deg", re.sub(r"\bmilliarcsec\b", "mas", word)))
    word = re.sub(r"\b(yr|y)\^?-1\b", "yr**-1", re.sub(r"\s+per\s+", "/", word)).replace("'", "")
    word = re.sub(r"\by\b", "yr", re.sub(r"\bM?JD\b", "d", word))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for form in (None, "cds", "fits"):
            try:
                unit = u.Unit(word, format=form)
            except (ValueError, TypeError):
                continue
            return u.hourangle if unit == u.h else unit
    return None


def part_name(text):
    """(name, unit or None) of a column's name that may state a unit in brackets, as in pmra [mas/yr]."""
    m = UNIT_IN_NAME.fullmatch(text)
    if m and m.group(1) and m.group(2).strip() and parse_unit(m.group(2)) is not None:
        return m.group(1), m.group(2).strip()
    return text, None


class Catalogue:
    """names of the columns; units {name: text}, where they are stated; epochs {name: year} of coordinates, where they are;
    skipped [(place, why)]: rows that are none; notes: what a reader should know."""

    word = "row"

    def __init__(self, path):
        self.path, self.names, self.units, self.epochs, self.skipped, self.notes = path, [], {}, {}, [], []

    def columns(self, names):
        """{name: cells} of these columns: an array of floats, NaN where nothing is, or of text, "" where nothing is."""
        raise NotImplementedError

    def place(self, i):
        """Where row i, from 0, stands in the file."""
        return "row %d" % (i + 1)


# --- by astropy

def plain_array(column):
    """The cells of a column of astropy's: floats, or text (whole numbers too, which may be names)."""
    cells = np.ma.asarray(getattr(column, "data", column))
    data, mask = np.ma.getdata(cells), np.ma.getmaskarray(cells)
    if data.ndim != 1:
        raise MoaoError("column %s has several values in a row, expected one" % column.name)
    if data.dtype.kind == "f":
        return np.where(mask, np.nan, data.astype(float))
    words = [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in data]
    return np.array(["" if m else w.strip() for m, w in zip(mask, words)], object)


class Read(Catalogue):
    """A table that astropy has read."""

    def __init__(self, path, table):
        super().__init__(path)
        self.table = table
        for name in table.colnames:
            short, unit = part_name(name)
            while short in self.names:
                short += "_"
            self.names.append(short)
            unit = getattr(table[name], "unit", None) or unit
            if unit is not None and str(unit).strip():
                self.units[short] = str(unit)
        self.original = dict(zip(self.names, table.colnames))

    def columns(self, names):
        return {n: plain_array(self.table[self.original[n]]) for n in names}


def read_fits(path):
    from astropy.io import fits
    from astropy.table import Table
    with fits.open(path, memmap=False) as f:
        hdu = next((h for h in f if isinstance(h, (fits.BinTableHDU, fits.TableHDU))), None)
        if hdu is None:
            raise MoaoError("no table in it")
        return Read(path, Table.read(hdu))


def has_position(names):
    low = [str(n).lower() for n in names]
    return any(n.startswith(("ra", "_ra", "alpha", "s_ra", "right", "coord")) for n in low)


def read_votable(path):
    from astropy.io import votable
    tree = votable.parse(path)
    for resource in tree.resources:
        for info in resource.infos:
            if info.name == "QUERY_STATUS" and str(info.value).upper() == "ERROR":
                raise MoaoError("the service reports an error: %s" % " ".join(str(info.content or info.value).split())[:200])
    tables = [t for t in tree.iter_tables() if len(t.fields) > 0]
    if not tables:
        raise MoaoError("no table in it")
    table = next((t for t in tables if has_position(f.name for f in t.fields)), tables[0])
    found = Read(path, table.to_table(use_names_over_ids=True))
    systems = {s.ID: s.epoch for s in tree.iter_coosys() if getattr(s, "epoch", None)}
    for name, field in zip(found.names, table.fields):
        if field.ref in systems:
            found.epochs[name] = systems[field.ref]
    cut = any(i.name == "QUERY_STATUS" and str(i.value).upper() == "OVERFLOW" for r in tree.resources for i in r.infos)
    if cut:
        found.notes.append("the service cut this table (QUERY_STATUS OVERFLOW): rows are missing")
    return found


def read_ascii(path, form):
    from astropy.table import Table
    with open_text(path) as f:
        return Read(path, Table.read(f.read(), format=form))


# --- text

def open_text(path):
    """The file as text: UTF-8, with or without its mark, UTF-16 with its mark, or else Latin-1; perhaps compressed."""
    compressed = path.lower().endswith(".gz")
    opened = gzip.open if compressed else open
    with opened(path, "rb") as f:
        start = f.read(1 << 16)
    code = "utf-8-sig"
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        code = "utf-16"
    else:
        try:
            start.decode("utf-8-sig")
        except UnicodeDecodeError as e:
            code = "utf-8-sig" if e.start > len(start) - 4 else "latin-1"
    return opened(path, "rt", encoding=code, errors="replace", newline="")


def unquoted(cell):
    from .command import csv_value
    return csv_value(cell.strip())


class Lines:
    """Lines of a file from a number on, without those that are empty or comments; `number` is that of the last. They end
    where the comments begin another table (`more`)."""

    def __init__(self, f, first):
        self.file, self.first, self.number, self.more = f, first, 0, False

    def __iter__(self):
        for line in self.file:
            self.number += 1
            if self.number < self.first or not line.strip():
                continue
            self.more = re.match(r"#(Table|RESOURCE)\b", line) is not None
            if self.more:
                return
            if not line.lstrip().startswith("#"):
                yield line


class Text(Catalogue):
    """A table of text: header and rows with a separator, or with columns at the same places."""

    word = "line"

    def __init__(self, path):
        super().__init__(path)
        self.separator, self.spans, self.first, self.lines = None, None, 1, []
        with open_text(path) as f:
            head = [line.rstrip("\r\n") for line in itertools.islice(f, HEAD)]
        self._find_header(head)

    def place(self, i):
        return "line %d" % self.lines[i]

    def _split(self, line):
        if self.spans is not None:
            return [line[a:b].strip() for a, b in self.spans]
        return [unquoted(c) for c in self._inner(next(csv.reader(
            [line.strip() if self.separator == " " else line], delimiter=self.separator, skipinitialspace=True), []))]

    def _inner(self, row):
        """Cells without what lies outside a first and a last bar."""
        outer = self.separator == "|" and len(row) > 2 and row[0].strip() == "" and row[-1].strip() == ""
        return row[1:-1] if outer else row

    def _find_header(self, head):
        """Names, units, separator and the first line of rows."""
        ecsv = ecsv_header(head)
        real = [i for i, line in enumerate(head) if line.strip() and not line.lstrip().startswith("#")]
        dashes = None if ecsv else next((i for k, i in enumerate(real) if is_dashes(head[i]) and (k < 3 or "|" in head[i])), None)
        if dashes is not None:
            at = self._header_above(head, dashes)
        elif real:
            at, self.first = real[0], real[0] + 2
            self.separator = ecsv.get("delimiter", " ") if ecsv else separator_of(head[at])
        else:
            raise MoaoError("no table in it")
        names = self._split(head[at])
        if dashes is None and not has_position(names):
            names = self._commented_header(head, at, names)
        for text in names:
            short, unit = part_name(text.lstrip("#").strip() or "column")
            while short in self.names:
                short += "_"
            self.names.append(short)
            if unit is not None:
                self.units[short] = unit
        if ecsv:
            self.units.update({d["name"]: d["unit"] for d in ecsv["datatype"] if d.get("unit") and d["name"] in self.names})
        elif dashes is not None and dashes - at > 1:
            self._take_units(self._split(head[at + 1]))
        elif dashes is None and len(real) > 1 and self._is_units(self._split(head[real[1]])):
            self._take_units(self._split(head[real[1]]))
            self.first = real[1] + 2

    def _header_above(self, head, dashes):
        """The line of names above a line of dashes; another one between them has units."""
        line, self.first = head[dashes], dashes + 2
        above = [i for i in range(dashes) if head[i].strip() and (not head[i].startswith("#") or "|" in head[i])][-2:]
        if not above:
            raise MoaoError("line %d: dashes without names of columns above" % (dashes + 1))
        self.separator = next((s for s in "\t|;" if s in line or (s == "|" and "+" in line)), None)
        if self.separator is None:
            starts = [m.start() for m in re.finditer(r"\S+", line)]
            self.spans = list(zip(starts, starts[1:] + [None]))
        cells = [self._split(head[i]) for i in above]
        return above[0] if has_position(cells[0]) and len(cells[0]) == len(cells[-1]) else above[-1]

    def _commented_header(self, head, at, names):
        """The names of columns where a comment has them: the last one with as many words as the rows have cells."""
        for line in reversed(head[:at]):
            text = line.lstrip().lstrip("#").strip()
            for found in (self._split(text), text.replace(",", " ").split()):
                if len(found) == len(names) and has_position(found):
                    self.first = at + 1
                    return found
        if all(is_number(c) for c in names):
            raise MoaoError("line %d: numbers without names of columns above, expected a line of names" % (at + 1))
        return names

    def _is_units(self, cells):
        """Whether the cells of the first row are units: no number, and that of an angle among them."""
        from astropy import units as u
        found = [parse_unit(c) for c in cells if c]
        return (len(cells) == len(self.names) and not any(is_number(c) for c in cells)
                and any(f is not None and f.is_equivalent(u.deg) for f in found))

    def _take_units(self, cells):
        self.units.update({n: c for n, c in zip(self.names, cells) if c and n not in self.units})

    def _rows(self):
        """(line, cells) of every row."""
        with open_text(self.path) as f:
            lines = Lines(f, self.first)
            if self.spans is not None:
                yield from ((lines.number, self._split(line.rstrip("\r\n"))) for line in lines)
                return
            source = (line.strip() + "\n" for line in lines) if self.separator == " " else lines
            reader = csv.reader(iter(source), delimiter=self.separator, skipinitialspace=True)
            last = 0
            for row in reader:
                last, before = lines.number, last
                if any(c.count("\n") > 2 for c in row):
                    raise MoaoError("line %d: a double quote that is not closed" % (before + 1))
                yield last, self._inner(row)
            if lines.more:
                self.notes.append("only the first of its tables is read, to line %d" % last)

    def columns(self, names):
        index = [self.names.index(n) for n in names]
        kept, self.lines, self.skipped = [], [], []
        try:
            for line, cells in self._rows():
                while len(cells) > len(self.names) and cells[-1].strip() == "":
                    cells.pop()
                if not any(c.strip() for c in cells):
                    continue
                if self.separator == "\t":  # VizieR leaves empty cells at the end out
                    cells += [""] * (len(self.names) - len(cells))
                if len(cells) == len(self.names):
                    self.lines.append(line)
                    kept.append([unquoted(cells[i]) for i in index])
                elif not FOOTER.fullmatch(" ".join(cells).strip()):
                    self.skipped.append(("line %d" % line, "%d cells, expected %d" % (len(cells), len(self.names))))
        except csv.Error as e:
            raise MoaoError("line %d: %s" % (self.lines[-1] + 1 if self.lines else self.first, e)) from None
        return {n: np.array([row[k] for row in kept], object) for k, n in enumerate(names)}


def is_dashes(line):
    """Whether a line has dashes below each of several columns, and nothing else."""
    return DASHES.fullmatch(line) is not None and len(re.findall(r"[-=]+", line)) > 1


def is_number(text):
    try:
        float(text)
        return True
    except ValueError:
        return re.fullmatch(r"[+-]?\d+[: ]\d+[: ][\d.]+", text) is not None


def separator_of(line):
    """Of a line of names: a tab, a bar, a semicolon or a comma, whichever it has; else blanks."""
    return next((s for s in "\t|;," if s in line), " ")


def ecsv_header(head):
    """The description in the comments of an ECSV file, None where there is none."""
    if not head or not re.match(r"#\s*%ECSV", head[0]):
        return None
    from astropy.table import meta
    lines = [line.lstrip("#")[1:] if line.startswith("# ") else line.lstrip("#") for line in
             itertools.takewhile(lambda line: line.startswith("#"), head[1:])]
    try:
        found = meta.get_header_from_yaml(lines)
        return found if isinstance(found.get("datatype"), list) else None
    except Exception as e:  # readers of YAML raise anything
        raise MoaoError("its description, the comments of ECSV, cannot be read: %s" % str(_reason(e)).splitlines()[0]) from None


def kind_of(path):
    """fits, votable, ipac, mrt or text, by what is in the file."""
    with (gzip.open if path.lower().endswith(".gz") else open)(path, "rb") as f:
        start = f.read(1 << 16)
    if start.startswith(b"SIMPLE  ="):
        return "fits"
    text = start.decode("latin-1").lstrip("\xef\xbb\xbf \t\r\n")
    if re.match(r"<(\?xml|!doctype|(\w+:)?votable|html|!--)", text, re.I):
        return "html" if re.search(r"<html", text[:2000], re.I) else "votable"
    lines = text.splitlines()
    rows = [line for line in lines if not line.startswith("\\")]
    if rows and rows[0].startswith("|") and (len(rows) < len(lines) or (len(rows) > 1 and re.match(
            r"\|\s*(int|long|double|float|real|char|date|i|l|d|f|r|c)\s*\|", rows[1]))):
        return "ipac"
    return "mrt" if any(line.startswith("Byte-by-byte Description") for line in lines) else "text"


def read_catalogue(path):
    """A catalogue in any of these forms. MoaoError with file, line and reason."""
    path = str(path)
    try:
        size_of(path)  # a pipe would be waited for
        with open(path, "rb"):
            pass
    except FileNotFoundError:
        raise MoaoError("%s: no such file" % path) from None
    except OSError as e:
        raise MoaoError("%s: cannot be read as a table: %s" % (path, e.strerror or e)) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of units and of words that a standard does not have
        try:
            kind = kind_of(path)
            if kind == "html":
                raise MoaoError("a page of HTML, not a table; ask the service for CSV or VOTable")
            if kind == "text":
                return Text(path)
            return {"fits": read_fits, "votable": read_votable, "ipac": lambda p: read_ascii(p, "ascii.ipac"),
                    "mrt": lambda p: read_ascii(p, "ascii.mrt")}[kind](path)
        except MoaoError as e:
            raise MoaoError("%s: %s" % (path, e)) from None
        except Exception as e:  # readers of tables raise anything
            raise MoaoError("%s: cannot be read as a table: %s" % (path, (str(_reason(e)) or type(e).__name__).splitlines()[0])) \
                from None
