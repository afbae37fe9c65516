"""One page for a browser with the results of a run: map, images, energies, error terms, time series.

The page holds its data and the plotting library (plotly.js, as plotly brings it) and loads nothing: it opens from disk.
"""
import base64
import html
import json
import os
import re

import numpy as np

from .reading import text_of

DECADES = 7       # of the images' logarithms that are kept
MAX_BYTES = 16e6  # of all images together, before base64
LABELS = {"STREHL": "Strehl ratio", "FWHM": "FWHM", "VARIANCE": "residual variance"}
STAR_COLUMNS = (("MAGNITUD", "mag"), ("RETURN", "return [ph m⁻² s⁻¹]"),
                ("PHOTONS", "e⁻/frame"), ("SPOT", "spot [″]"), ("NOISE", "noise [mas]"))


def listed(v, digits=6):
    """Numbers for JSON: rounded, None for those that are not finite."""
    if np.ndim(v) > 0:
        return [listed(x, digits) for x in v]
    return float("%.*g" % (digits, v)) if np.isfinite(v) else None


def clean(text):
    """Text without what no page can hold: a control character, half of a surrogate pair."""
    return re.sub("[\x00-\x1f\x7f\ud800-\udfff]", "\ufffd", text)


def label_of(run, name):
    if name.startswith("EE_"):
        return "EE in %.4g mas" % run.box_of(name)
    return LABELS.get(name) or run.term_words(name)


def quantities(run):
    terms = run.budget_terms()
    return [{"name": n, "label": label_of(run, n), "unit": run.unit(n), "error": n in terms,
             "box": run.box_of(n) if n.startswith("EE_") else None, "long": listed(run.column_long(n)),
             "short": listed(run.column(n))} for n in run.quantities]


def stars(run):
    table = run.guide_stars.copy()
    if "NOISEVAR" in table.colnames:
        table["NOISE"] = np.sqrt(np.asarray(table["NOISEVAR"], float)) * 1e3  # of a slope
    columns = [(c, label) for c, label in STAR_COLUMNS
               if c in table.colnames and np.isfinite(np.asarray(table[c], float)).any()]
    if "PHOTONS" in [c for c, _ in columns]:
        columns = [c for c in columns if c[0] != "RETURN"]  # that is what it comes to
    rows = [{"name": clean(text_of(s["NAME"])), "type": clean(str(s["TYPE"]).strip()), "x": listed(s["X"]), "y": listed(s["Y"]),
             "more": [listed(float(s[c])) for c, _ in columns]} for s in table]
    return rows, [{"label": label} for _, label in columns]


def which_images(run, most):
    """(wavelength row, exposure; 0: long) of the images that there are, and the side of one [pixels]."""
    if "long" not in run.images:
        return [], 0
    side = min(run.psf(0, wavelength=run.waves[0]).data.shape)
    found = [(il, 0) for il in range(run.nl)]
    short = [(il, e + 1) for il in range(run.nl) for e in range(run.ne)] if "short" in run.images else []
    if run.ne > 1 and (len(found) + len(short)) * run.nt * min(side, 64) ** 2 * 2 <= most:
        found += short
    return found, side


def packed(run, il, exposure, side):
    """Images of all targets as 16-bit logarithms, little-endian, in base64, with what it takes to read them."""
    cut, kept, top, pixel = [], 0, 0, 0
    for p in run.psfs(None, run.waves[il], exposure or None):
        c, kept, pixel = p.data.shape[0] // 2, p.data.shape[0], p.pixel
        cut.append(p.data[c - side // 2:c - side // 2 + side, c - side // 2:c - side // 2 + side])
    cut = np.array(cut)
    top = np.log10(cut.max())
    low, high = top - DECADES, top
    log = np.log10(np.maximum(cut, 10 ** low))
    level = np.round((log - low) / (high - low) * 65535).astype("<u2")
    return {"wave": il, "exposure": exposure, "side": side, "kept": kept, "pixel": pixel, "low": float(low),
            "high": float(high), "top": float(top), "data": base64.b64encode(level.tobytes()).decode("ascii")}


def energies(run):
    """Ensquared energy against the box, of the long exposures: for each wavelength the boxes and all targets."""
    boxes, values = [], []
    for il, wavelength in enumerate(run.waves):
        side, rows = None, []
        for p in run.psfs(None, wavelength):
            if side is None:
                wide = max(2.5 * max(run.boxes, default=0), 12 * run.wavelengths["DIFFLIM"][il])
                side = np.linspace(0, min(wide, p.pixel * (p.data.shape[0] - 1)), 41)[1:]
            rows.append(listed(p.ee(side), 5))
        boxes.append(listed(side, 5))
        values.append(rows)
    return {"boxes": boxes, "values": values}


def field(run):
    """Limits of the map [arcsec]: all targets and stars."""
    x, y = (np.concatenate([v, np.asarray(run.guide_stars[n], float)]) for v, n in ((run.x, "X"), (run.y, "Y")))
    cx, cy = (x.min() + x.max()) / 2, (y.min() + y.max()) / 2
    half = max(np.ptp(x), np.ptp(y), 2) / 2 * 1.12
    return [cx - half, cx + half, cy - half, cy + half]


def time_unit(times):
    span = max(np.ptp(times), abs(times).max())
    return (3600, "h") if span > 6 * 3600 else (60, "min") if span >= 120 else (1, "s")


def data(run, most=MAX_BYTES):
    """What the page is made from; most: bytes of all images."""
    which, side = which_images(run, most)
    if which:
        fits = int(np.sqrt(most / (2 * run.nt * len(which))))
        side = max(min(side, fits - fits % 2), 8)
    rows, columns = stars(run)
    h = run.header
    line = "%g m telescope, %d sensors, %d measurements, %d target%s, %d exposure%s; %s" % (
        h["TELDIAM"], h["NSENSOR"], h["NMEAS"], run.nt, "s" if run.nt > 1 else "", run.ne, "s" if run.ne > 1 else "",
        h.get("CREATOR", "moao"))
    folder = os.path.basename(os.path.abspath(run.folder))
    short = "short" in run.images
    return {"title": clean(run.title) or clean(folder), "summary": line,
            "file": re.sub(r"[^\w.+-]+", "-", folder) or "moao",
            "noShort": "of so many and large images those of single exposures are left out (moao-view --megabytes)" if short
                       else "the run did not store it (output.psf: short does)",
            "x": listed(run.x), "y": listed(run.y), "names": [clean(n) for n in run.names] if run.named else None,
            "grid": run.grid if run.nt > 1 else None,
            "field": field(run), "angle": run.position_angle, "stars": rows, "starColumns": columns,
            "waves": listed(run.lambdas), "bands": run.bands, "times": listed(run.times), "unit": time_unit(run.times),
            "r0": listed(run.r0), "quantities": quantities(run),
            "psf": [packed(run, il, e, side) for il, e in which], "energy": energies(run) if which else None,
            "start": int(np.argmin(np.hypot(run.x - run.x.mean(), run.y - run.y.mean())))}


def page(run, most=MAX_BYTES):
    """The page as text; most: bytes of all images. Needs plotly, of which only plotly.js is used."""
    from plotly.offline import get_plotlyjs
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "view.html"), encoding="utf-8") as f:
        text = f.read()
    with open(os.path.join(here, "view.js"), encoding="utf-8") as f:
        script = f.read()
    content = data(run, most)
    put = {"TITLE": html.escape(content["title"]), "SCRIPT": script, "DATA": for_script(content), "PLOTLY": get_plotlyjs()}
    return re.sub("@(%s)@" % "|".join(put), lambda m: put[m.group(1)], text)  # once: what is put in is not searched again


def for_script(content):
    """JSON for the inside of an element script: no character there begins or ends anything in HTML."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return re.sub("[<>&]", lambda m: "\\u%04x" % ord(m.group()), text)
