"""Draw the sky coverage that `moao asterism --fields` found: how many of the fields reach a figure, and which.

Reads coverage.csv and asterism.json of the folder. Needs astropy and matplotlib.
"""
import sys

from .asterism import Coverage
from .command import draw_folder
from .reading import reading


def draw(folder):
    from . import plots_asterism
    with reading(folder, "what moao asterism wrote"):
        return plots_asterism.coverage(Coverage(folder))


options, main = draw_folder("moao-plot-coverage", __doc__, "moao asterism --fields", "coverage.png", draw)

if __name__ == "__main__":
    sys.exit(main())
