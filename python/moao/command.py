"""What the commands share: options, one line and exit code 2 for what cannot be done, files that appear whole."""
import argparse
import csv
import io
import os
import re
import sys
import textwrap
import warnings

from .reading import MoaoError, one_line

NUMBER = re.compile(r"[+-](\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def parser(doc, **kw):
    """A parser whose help is the module's text, on lines of a terminal; indented lines stay as they are."""
    text = "\n\n".join(p if p.startswith(" ") else textwrap.fill(p, 79) for p in doc.strip().split("\n\n"))
    return argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter, **kw)


def run_command(name, call):
    """Exit code of call(); errors that a user can mend become one line."""
    try:
        return call() or 0
    except MoaoError as e:
        print("%s: %s" % (name, e), file=sys.stderr)
    except MemoryError:
        print("%s: not enough memory for these results" % name, file=sys.stderr)
    except ImportError as e:
        print("%s: %s; on Debian and Ubuntu: apt install %s, elsewhere: pip install %s"
              % (name, e, package_of(e.name), e.name), file=sys.stderr)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as e:
        print("%s: %s" % (name, one_line("%s: %s" % (e.filename or "file", e.strerror or e))), file=sys.stderr)
    return 2


def package_of(module):
    """Debian's package of a Python module."""
    return "python3-" + (module or "numpy").split(".")[0]


def save(figure, path, dpi=None):
    """Write a figure; the kind of file follows from the name. A file that exists stays until the new one is whole. dpi: of pixels
    (None: the figures' own)."""
    if dpi is not None and not 10 <= dpi <= 2400:
        raise MoaoError("--dpi %g: must be from 10 to 2400" % dpi)
    from matplotlib import rc_context

    from .plots_maps import STYLE
    kind = os.path.splitext(path)[1][1:].lower()
    if kind not in figure.canvas.get_supported_filetypes():
        raise MoaoError("%s: cannot write a picture of that kind: name it .png, .pdf or .svg" % path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with rc_context(STYLE):
            figure.savefig(path + ".new", format=kind, dpi=dpi or STYLE["savefig.dpi"])
    os.replace(path + ".new", path)
    if any("Glyph" in str(w.message) for w in said):
        print("note: %s: the font has not all characters of the title or of names; boxes stand for them" % path, file=sys.stderr)


def draw_folder(name, doc, folder, picture, draw):
    """Parser and main function of a command that draws one picture of a folder of results: draw(folder) gives the figure,
    `folder` says in the help what wrote it, `picture` is the file in it that is written unless -o names another."""
    def options():
        p = parser(doc)
        p.add_argument("folder", metavar="DIR", help="folder of " + folder)
        p.add_argument("-o", "--output", metavar="FILE", help="picture to write (default: DIR/%s)" % picture)
        return p

    def work(a):
        figure = draw(a.folder)
        path = a.output or os.path.join(a.folder, picture)
        save(figure, path)
        print(path)
        return 0

    def main(arguments=None):
        a = options().parse_args(arguments)
        return run_command(name, lambda: work(a))
    return options, main


def write_whole(path, text):
    """The file appears whole or not at all."""
    with open(path + ".new", "w", encoding="utf-8", newline="") as f:
        f.write(text)
    os.replace(path + ".new", path)


def csv_cell(value):
    """A value for a cell of CSV: what a spreadsheet would take for a formula (=, +, -, @, a tab in front, and no number) gets
    an apostrophe in front, as src/base/text.c writes it; csv_value takes it off again."""
    text = str(value)
    formula = text.startswith(("=", "+", "-", "@", "\t", "\r")) and not NUMBER.fullmatch(text)
    return "'" + text if formula or csv_value(text) != text else text


def csv_value(cell):
    """The value of a cell that csv_cell or the program wrote."""
    return cell[1:] if re.match(r"'[=+\-@\t\r']", cell) else cell


def csv_text(rows):
    """Rows of values as CSV."""
    lines = []
    for row in rows:
        out = io.StringIO()
        csv.writer(out, lineterminator="\r\n").writerow([csv_cell(v) for v in row])  # so that it quotes both
        lines.append(out.getvalue()[:-2] + "\n")
    return "".join(lines)


def target_argument(text):
    """X,Y in arcsec, or a number from 1 (as TARGETS counts), or a name."""
    parts = text.split(",")
    try:
        if len(parts) == 2:
            return float(parts[0]), float(parts[1])
        return int(text) - 1 if int(text) > 0 else text
    except ValueError:
        return text


def numbers(text, n, what):
    """n numbers with commas or colons between them."""
    try:
        values = tuple(float(v) for v in text.replace(":", ",").split(","))
    except ValueError:
        values = ()
    if len(values) != n:
        raise MoaoError("%s: expected %s" % (text, what))
    return values
