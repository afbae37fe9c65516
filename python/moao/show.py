"""A run as a table of numbers, as a figure, and as what a notebook shows of it."""
import base64
import html
import io

import numpy as np
from astropy.table import Table

OWN = ("TARGET", "X", "Y", "NAME", "RA", "DEC")


def flat_table(run, exposure=None):
    """A row for each target and wavelength. exposure: None, the long one, or a number from 1."""
    t, nl = Table(), run.nl
    t["target"] = np.repeat(np.arange(run.nt), nl)
    t["name"] = np.repeat(run.names, nl)
    for key, values, unit in [("x", run.x, "arcsec"), ("y", run.y, "arcsec")] + [
            (k.lower(), run.targets[k], "deg") for k in ("RA", "DEC") if k in run.targets.colnames]:
        t[key] = np.repeat(np.asarray(values, float), nl)
        t[key].unit = unit
    t["wavelength"] = np.tile(run.lambdas, run.nt)
    t["wavelength"].unit = "um"
    if any(run.bands):
        t["band"] = np.tile(run.bands, run.nt)
    for name in run.quantities:
        values = np.asarray(run.value(name, None, exposure), float).reshape(nl, run.nt)
        t[name.lower()] = values.T.ravel()
        if run.unit(name):
            t[name.lower()].unit = run.unit(name)
    known = set(OWN) | {n for n in run.targets.colnames if (n[:-5] if n.endswith("_LONG") else n) in run.quantities} | {"WFE_STAR", "WFE_STAR_LONG"}
    for name in run.targets.colnames:
        if name not in known and run.targets[name].ndim == 1 and name not in t.colnames:
            t[name] = np.repeat(np.ma.asarray(run.targets[name]), nl)
    t.meta["folder"] = run.folder
    return t


def figure(run, what=None, **more):
    """A figure of matplotlib: the overview, "budget", or a panel of that name."""
    from . import plots, plots_budget, plots_panels
    if what is None:
        f = plots.overview(run, **more)
    elif what == "budget" and not more:
        f = plots_budget.budget(run)
    else:
        f = plots_panels.panel(run, what, **more)
    f._repr_png_ = lambda: _png(f)  # a notebook shows it, whether or not pyplot was imported
    return f


def _png(f, dpi=110):
    out = io.BytesIO()
    f.savefig(out, format="png", dpi=dpi)
    return out.getvalue()


def _picture(run):
    """The map of the Strehl ratio as an <img>, "" where matplotlib is not installed."""
    try:
        from . import plots_panels
        f = plots_panels.panel(run, "strehl", wavelength=run.waves[-1])
    except ImportError:
        return ""
    return '<img alt="Strehl ratio over the field" src="data:image/png;base64,%s">' % base64.b64encode(_png(f)).decode()


def page(run):
    """HTML of a few lines: what was computed, the figures of merit, the map."""
    names = [n for n in run.quantities if n in ("STREHL", "FWHM") or n.startswith("EE_")]
    rows = []
    for il in range(run.nl):
        for name in names:
            v = run.column_long(name)[il]
            v = v[np.isfinite(v)]
            cells = [run.wave_words(il), name + (" [%s]" % run.unit(name) if run.unit(name) else "")]
            cells += ["%.4g" % x for x in (v.mean(), v.min(), v.max())] if len(v) else ["-"] * 3
            rows.append("<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape(c) for c in cells))
    head = "%d targets, %d exposures, r0 %.3g m, zenith %.3g deg; %d sensors; %s" % (
        run.nt, run.ne, float(np.mean(run.r0)), run.zenith, len(run.guide_stars), run.folder)
    return "<p><b>%s</b><br>%s</p><table><tr>%s</tr>%s</table>%s" % (
        html.escape(run.title), html.escape(head), "".join("<th>%s</th>" % c for c in ("wavelength", "long exposure", "mean", "min", "max")),
        "".join(rows), _picture(run))
