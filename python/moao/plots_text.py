"""Text in figures: titles and names of any length, with characters that mean something to matplotlib, fit where they stand."""
import functools
import warnings

from matplotlib.font_manager import FontProperties, findfont, get_font

from .reading import one_line

POINTS = 72     # in an inch
MOST_LINES = 3  # of a title that the user wrote


def plain(text):
    """Text of a user as it stands: no formulas between dollars, no line breaks."""
    return one_line(text).replace("$", r"\$")


@functools.lru_cache(maxsize=4096)
def text_width(text, size):
    """Width in points of a line in the figures' font."""
    font = get_font(findfont(FontProperties()))
    font.set_size(size, POINTS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # characters that the font has not got are boxes of some width
        font.set_text(text.replace(r"\$", "$"))
    return font.get_width_height()[0] / 64  # of the font's units


def shortened(text, inches, size):
    """A line cut behind so that it fits, with an ellipsis where something was."""
    room = inches * POINTS
    if text_width(text, size) <= room:
        return text
    low, high = 0, len(text)
    while low < high:  # the most characters that fit
        middle = (low + high + 1) // 2
        low, high = (middle, high) if text_width(_cut(text, middle), size) <= room else (low, middle - 1)
    return _cut(text, low)


def _cut(text, n):
    return text[:n].rstrip("\\ ") + "…"


def wrapped(text, inches, size, most=MOST_LINES):
    """Each line of a text broken between words so that it fits; what would be beyond `most` lines is left out, with an ellipsis."""
    found = []
    for line in text.split("\n"):
        rows = [""]
        for word in line.split():
            longer = (rows[-1] + " " + word).strip()
            if text_width(longer, size) <= inches * POINTS:
                rows[-1] = longer
            elif len(rows) == most:
                rows[-1] = shortened(longer + " …", inches, size)
                break
            else:
                if rows[-1]:
                    rows.append("")
                rows[-1] = shortened(word, inches, size)
        found += rows
    return "\n".join(found)


def set_title(figure, text, size=11, width=None):
    """The figure's title inside its edges; the number of its lines."""
    text = wrapped(text, (width or figure.get_figwidth()) - 0.3, size)
    figure.suptitle(text, fontsize=size)
    return text.count("\n") + 1


class Places:
    """Where labels go so that they do not cover each other: boxes in points from the lower left corner of the axes."""
    TRIES = ((0, -1, 0), (0, 1, 0), (1, 0, 0), (-1, 0, 0), (0, -1, 1), (0, 1, 1), (1, -1, 1), (-1, -1, 1), (1, 1, 1), (-1, 1, 1), (0, -1, 2),
             (0, 1, 2), (1, -1, 2), (-1, -1, 2), (1, 1, 2), (-1, 1, 2), (0, -1, 3), (0, 1, 3), (1, -1, 3), (-1, 1, 3))

    def __init__(self, width, height):
        self.width, self.height, self.taken = width, height, []

    def block(self, x, y, half):
        """A marker that no label should cover."""
        self.taken.append((x - half, y - half, x + half, y + half))

    def put(self, x, y, wide, high, gap=6.0):
        """(dx, dy) [points] of the middle of a label of that size near a marker; taken from then on."""
        def box(t):
            dx, dy = t[0] * (gap + wide / 2), t[1] * (gap + high / 2 + t[2] * (high + 1))
            return dx, dy, (x + dx - wide / 2, y + dy - high / 2, x + dx + wide / 2, y + dy + high / 2)

        def cost(t):
            a = box(t)[2]
            over = sum(max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1])) for b in self.taken)
            out = max(0, -a[0]) + max(0, a[2] - self.width) + max(0, -a[1]) + max(0, a[3] - self.height)
            return over + 20 * out

        best = min(self.TRIES, key=cost)  # the first of the cheapest
        dx, dy, taken = box(best)
        self.taken.append(taken)
        return dx, dy
