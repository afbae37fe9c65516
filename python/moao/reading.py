"""Files that may be cut, damaged or of another program: sizes are checked before anything is read, and whatever is wrong
with a file becomes one MoaoError of one line.
"""
import contextlib
import math
import numbers
import os
import re
import stat
import warnings

BLOCK, CARD = 2880, 80   # bytes of a FITS file
MOST_BLOCKS = 4000       # of one header: 144,000 cards, five times what 999 columns take
MOST_AXIS = 999          # NAXIS and TFIELDS, by the standard
WIDTHS = {"L": 1, "B": 1, "I": 2, "J": 4, "K": 8, "A": 1, "E": 4, "D": 8, "C": 8, "M": 16, "P": 8, "Q": 16}
MOST_REASON = 300        # characters of another library's message that are repeated


class MoaoError(ValueError):
    """Something that was asked for is not there or not readable; the message is one line that says what there is.

    file, line, column (from 1) and key say where in a parameter file, None where that is not known; mistakes are all that a
    file has, as such errors."""

    def __init__(self, message, file=None, line=None, column=None, key=None):
        super().__init__(one_line(message))
        self.file, self.line, self.column, self.key = file, line, column, key
        self.mistakes = [self]


def one_line(text):
    """Text without what moves the cursor of a terminal."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", str(text))


ESCAPE = re.compile(r"\\u([0-9A-Fa-f]{4})|\\U([0-9A-Fa-f]{8})")


def text_of(cell):
    """A text of a FITS file: \\uXXXX and \\UXXXXXXXX stand for characters that FITS has not."""
    def char(m):
        code = int(m.group(1) or m.group(2), 16)
        return m.group(0) if code > 0x10FFFF or code == 0 else "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)
    return ESCAPE.sub(char, str(cell).strip(" "))


def cell_of(text):
    """The same text in the ASCII of a FITS file."""
    def code(m):
        c = ord(m.group(0)[0])
        return ("\\u%04X" if c <= 0xFFFF else "\\U%08X") % c + m.group(0)[1:]
    return re.sub(r"^ | $|(?<=')'|\\(?=[uU])|[^ -~]", code, text)


def reason(e):
    """What an exception says, in one line."""
    text = getattr(e, "strerror", None) or (repr(e.args[0]) + " is missing" if isinstance(e, KeyError) and e.args else str(e))
    text = " ".join(one_line(text).split()) or type(e).__name__
    return text if len(text) <= MOST_REASON else text[:MOST_REASON] + "..."


def number(value, what):
    """A finite number, or MoaoError: what = "a wavelength in um"."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise MoaoError("expected %s, a number, not %r" % (what, value))
    return float(value)


def whole(value, what):
    """An integer, or MoaoError."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise MoaoError("expected %s, an integer, not %r" % (what, value))
    return int(value)


@contextlib.contextmanager
def reading(path, what):
    """Around the reading of a file: any exception becomes a MoaoError that names the file. what: "the maps"."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of astropy about what is checked here
            yield
    except Exception as e:  # what another library raises of a foreign file is not known beforehand
        if isinstance(e, MoaoError) and str(e).startswith(one_line(path)):
            raise
        raise MoaoError("%s: cannot read %s: %s" % (path, what, reason(e))) from None


def size_of(path):
    """Bytes of a regular file; of anything else (a pipe would be waited for) OSError."""
    facts = os.stat(path)
    if not stat.S_ISREG(facts.st_mode):
        raise OSError("no regular file")
    return facts.st_size


def check_fits(path):
    """[(EXTNAME, EXTVER)] of the HDUs of a FITS file. Raises ValueError where a header has no END, counts that no file
    has, or data that the file does not hold: nothing is allocated by what a header says before that is known."""
    end, found, at = size_of(path), [], 0
    with open(path, "rb") as f:
        while at < end:
            f.seek(at)
            if not found and f.read(len("SIMPLE  =")) != b"SIMPLE  =":
                raise ValueError("no FITS file")
            f.seek(at)
            which = "HDU %d" % len(found)
            try:
                keys, at = _header(f, at)
                size = _data_size(keys, not found)
            except ValueError as e:
                raise ValueError("%s: %s" % (which, e)) from None
            name = str(keys.get("EXTNAME", "PRIMARY" if not found else "")).upper()
            if at + size > end:
                raise ValueError("cut: %s %s ends at byte %d, the file at %d" % (which, name, at + size, end))
            found.append((name, _count(keys, "EXTVER", 1)))
            at += -(-size // BLOCK) * BLOCK
    if not found:
        raise ValueError("the file is empty")
    return found


def _header(f, at):
    """({key: value} of the cards that tell sizes and names, place of the data)."""
    keys = {}
    for n in range(MOST_BLOCKS):
        block = f.read(BLOCK)
        if len(block) < BLOCK:
            raise ValueError("the header is cut")
        if n == 0 and not block.startswith((b"SIMPLE  =", b"XTENSION=")):
            raise ValueError("no header at byte %d" % at)
        for i in range(0, BLOCK, CARD):
            card = block[i:i + CARD]
            if card.startswith(b"END") and not card[3:].strip():
                return keys, at + (n + 1) * BLOCK
            if card[8:10] == b"= ":
                key = card[:8].decode("ascii", "replace").strip()
                keys.setdefault(key, _value(card[10:].decode("ascii", "replace")))
    raise ValueError("the header has no END")


def _value(text):
    """Of a card: text, or a number as it stands."""
    m = re.match(r"\s*'((?:[^']|'')*)'", text)
    return m.group(1).replace("''", "'").rstrip() if m else text.split("/")[0].strip()


def _count(keys, key, default=None):
    text = keys.get(key, default)
    if text is None:
        raise ValueError("%s is missing" % key)
    if not re.fullmatch(r"[-+]?\d{1,18}", str(text)):
        raise ValueError("%s = %s is no integer" % (key, text))
    return int(text)


def _axes(keys, prefix=""):
    n = _count(keys, prefix + "NAXIS")
    if not 0 <= n <= MOST_AXIS:
        raise ValueError("%sNAXIS = %d" % (prefix, n))
    axes = [_count(keys, "%sNAXIS%d" % (prefix, i + 1)) for i in range(n)]
    if any(a < 0 for a in axes):
        raise ValueError("an axis of %d" % min(axes))
    return axes


def _data_size(keys, primary):
    """Bytes of the data of an HDU, without the filling."""
    axes, bits = _axes(keys), _count(keys, "BITPIX")
    if bits not in (8, 16, 32, 64, -32, -64):
        raise ValueError("BITPIX = %d" % bits)
    parameters, groups = (0, 1) if primary else (_count(keys, "PCOUNT", 0), _count(keys, "GCOUNT", 1))
    if parameters < 0 or groups != 1:
        raise ValueError("PCOUNT = %d, GCOUNT = %d" % (parameters, groups))
    if keys.get("XTENSION") == "BINTABLE":
        _check_columns(keys, axes)
    return (math.prod(axes) if axes else 0) * (abs(bits) // 8) + parameters


def _check_columns(keys, axes):
    fields = _count(keys, "TFIELDS")
    if not 0 <= fields <= MOST_AXIS or len(axes) != 2:
        raise ValueError("TFIELDS = %d, NAXIS = %d" % (fields, len(axes)))
    width = 0
    for i in range(fields):
        form = str(keys.get("TFORM%d" % (i + 1), ""))
        m = re.match(r"(\d{0,18})([LXBIJKAEDCMPQ])", form)
        if not m:
            raise ValueError("TFORM%d = %r" % (i + 1, form))
        repeat = int(m.group(1) or 1)
        width += -(-repeat // 8) if m.group(2) == "X" else repeat * WIDTHS[m.group(2)]
    if width != axes[0]:
        raise ValueError("columns of %d bytes in rows of %d" % (width, axes[0]))
    if keys.get("ZIMAGE") == "T":
        _check_tiles(keys, axes[1])


def _check_tiles(keys, rows):
    """A compressed image: as many tiles as the image has."""
    axes = _axes(keys, "Z")
    tiles = [_count(keys, "ZTILE%d" % (i + 1), a if i == 0 else 1) for i, a in enumerate(axes)]
    if any(t < 1 for t in tiles) or math.prod(-(-a // t) for a, t in zip(axes, tiles)) != rows:
        raise ValueError("an image of %s in %d tiles of %s" % (" x ".join(map(str, axes)), rows, " x ".join(map(str, tiles))))
