"""What a run of a case takes, as the program forecasts it."""
import html
from typing import Any, Dict, List, Optional

import numpy as np
from astropy.table import Table

STAR_COLUMNS = (("photons", "electron"), ("spot_arcsec", "arcsec"), ("noise_mas", "mas"), ("magnitude", "mag"), ("band", None))


def megabytes(n: Optional[float]) -> str:
    return "-" if n is None else "%.0f MB" % (n / 1e6) if n < 9.5e8 else "%.3g GB" % (n / 1e9)


class Check:
    """facts: all of it, as `moao check --json` says it. warnings: lines on what is doubtful."""

    def __init__(self, facts: Dict[str, Any], warnings: List[str]):
        self.facts, self.warnings = facts, list(warnings)
        self.plan: Dict[str, Any] = facts.get("here") or facts.get("machine") or facts.get("elsewhere") or {}

    @property
    def sizes(self) -> Dict[str, int]:
        """Numbers of sensors, measurements, truth_measurements, actuators, targets, reconstructors, exposures; psf_grid, psf_crop."""
        return {k: v for k, v in self.facts.items() if isinstance(v, int) and not isinstance(v, bool)}

    @property
    def stars(self) -> Table:
        """For each sensor: photo-electrons of a subaperture and frame, width of the spot, noise of a slope."""
        stars = self.facts["stars"]
        t = Table({"name": [s["name"] for s in stars]})
        for key, unit in STAR_COLUMNS:
            cells = [s.get(key) for s in stars]
            if unit is None:
                t[key] = ["" if c is None else c for c in cells]
            else:
                t[key.replace("_arcsec", "").replace("_mas", "")] = np.array([np.nan if c is None else c for c in cells], float)
                t.columns[-1].unit = unit
        return t

    @property
    def fits(self) -> bool:
        """Whether the machine can compute it."""
        return bool(self.facts["fits"])

    @property
    def ranks(self) -> Optional[int]:
        """Ranks that suit it."""
        return self.plan.get("ranks")

    @property
    def seconds(self) -> Optional[float]:
        """Expected time [s], None where it does not fit."""
        return self.plan.get("seconds")

    @property
    def memory(self) -> Optional[float]:
        """Of a rank [bytes]."""
        return self.plan.get("rank_memory_bytes")

    @property
    def verdict(self) -> str:
        """In words."""
        return str(self.facts["verdict"])

    @property
    def slurm(self) -> str:
        """The line that submits it to SLURM."""
        return str(self.facts["slurm"])

    def _lines(self) -> List[str]:
        s = self.sizes
        return ["%d sensors, %d measurements, %d actuators" % (s["sensors"], s["measurements"], s["actuators"]),
                "%d targets, %d exposures of %d reconstructors" % (s["targets"], s["exposures"], s["reconstructors"]), self.verdict]

    def __str__(self):
        t = self.stars
        for name in ("photons", "spot", "noise"):
            t[name].info.format = ".4g"
        return "\n".join(self._lines() + ["warning: " + w for w in self.warnings] + t.pformat(max_lines=30))

    __repr__ = __str__

    def _repr_html_(self):
        t = self.stars
        for name in ("photons", "spot", "noise"):
            t[name].info.format = ".4g"
        lines = [html.escape(line) for line in self._lines()] + ["<b>warning:</b> " + html.escape(w) for w in self.warnings]
        return "<p>%s</p>%s" % ("<br>".join(lines), t._repr_html_())
