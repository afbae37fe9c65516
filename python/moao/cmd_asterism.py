"""Draw what `moao asterism` found: the field with the chosen stars over the map of the best full run, and the first places.

Reads asterism.csv, field.csv and asterism.json of the folder. Needs astropy and matplotlib.
"""
import sys

from .asterism import Asterisms
from .command import draw_folder
from .reading import reading


def draw(folder):
    from . import plots_asterism
    with reading(folder, "what moao asterism wrote"):
        return plots_asterism.field(Asterisms(folder))


options, main = draw_folder("moao-plot-asterism", __doc__, "moao asterism", "asterism.png", draw)

if __name__ == "__main__":
    sys.exit(main())
