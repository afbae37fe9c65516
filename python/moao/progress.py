"""Progress of a run for people: a bar of tqdm where that is installed, else a line that is written again and again."""
import sys
import time
from typing import Callable, Optional, Union

from .process import Event

Shown = Union[bool, Callable[[Event], None], None]
SHORTEST = 0.5  # between two drawings of the line [s]


def duration(seconds: float) -> str:
    """1:02:03 or 02:03."""
    s = int(seconds + 0.5)
    return "%d:%02d:%02d" % (s // 3600, s // 60 % 60, s % 60) if s >= 3600 else "%02d:%02d" % (s // 60, s % 60)


class Line:
    """One line on the standard error: per cent, step, time left."""

    def __init__(self, stream=None):
        self.stream, self.last, self.width = stream or sys.stderr, 0.0, 0

    def show(self, done: Optional[float], left: Optional[float], step: str):
        now = time.monotonic()
        if now - self.last < SHORTEST:
            return
        self.last = now
        text = "%s %s%s" % ("" if done is None else "%3d %%" % (100 * done), step, "" if left is None else ", %s left" % duration(left))
        self.stream.write("\r" + text.ljust(self.width))
        self.stream.flush()
        self.width = len(text)

    def close(self):
        if self.width:
            self.stream.write("\r" + " " * self.width + "\r")
            self.stream.flush()


class Bar:
    """A bar of tqdm, in a notebook or a terminal."""
    FORM = "{desc} {percentage:3.0f}%%|{bar}| %s"  # its postfix would begin with a comma

    def __init__(self):
        from tqdm.auto import tqdm
        self.bar = tqdm(total=100, bar_format=self.FORM % "", leave=False)

    def show(self, done: Optional[float], left: Optional[float], step: str):
        if step:
            self.bar.set_description_str(step[:60], refresh=False)
        if left is not None:
            self.bar.bar_format = self.FORM % (duration(left) + " left")
        if done is not None:
            self.bar.n = round(100 * done, 1)
        self.bar.refresh()

    def close(self):
        self.bar.close()


def _drawing():
    try:
        return Bar()
    except Exception:  # without tqdm, or without the widgets that it wants in a notebook
        return Line()


class Display:
    """As a context: a function of events. shown: True a bar, False or None nothing, else a function that gets the events."""

    def __init__(self, shown: Shown = True):
        self.call = shown if callable(shown) else None
        self.drawing = _drawing() if shown is True else None

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.drawing is not None:
            self.drawing.close()

    def __call__(self, event: Event):
        if self.call is not None:
            self.call(event)
        if self.drawing is None:
            return
        kind = event["event"]
        if kind == "progress":
            self.drawing.show(event.get("done"), event.get("left_s"), str(event.get("step", "")))
        elif kind == "run":
            self.drawing.show(event["number"] / max(event["of"], 1), None, "%s %s" % (event["folder"], event["state"]))
        elif kind == "stopping":
            self.drawing.show(None, None, str(event.get("text", "")))
