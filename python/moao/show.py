"""A run as a table of numbers, as a figure, and as what a notebook shows of it."""
import base64
import html
import io

import numpy as np
from astropy.table import Table

from .reading import MoaoError

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


def case_page(case):
    """HTML of a few lines on a case: telescope, mirror, sensors, targets; of one that is not whole yet what it lacks."""
    try:
        p = case.parameters
    except MoaoError as e:
        return "<p>%s<br>%s</p>" % (html.escape(repr(case)), html.escape(str(e)))
    t, targets = p["telescope"], p.get("targets", {})
    grid = targets.get("grid")
    n = "%d x %d" % (grid["nx"], grid["ny"]) if grid else "%d" % len(targets["list"]) if "list" in targets else "file of"
    head = "%s m, zenith %s deg; mirror of %s subapertures across (mode %s); %s targets" % (t["diameter"], t["zenith"], p["dm"]["nssp"], p["mode"], n)
    rows = ["<tr><td>%s</td><td>%s</td><td>(%s)</td><td>%s</td></tr>" % tuple(html.escape(str(v)) for v in (
        s["name"], s["type"], ", ".join(str(x) for x in s["direction"]), s["nssp"])) for s in p["sensors"]]
    return "<p><b>%s</b><br>%s</p><table><tr><th>sensor</th><th>type</th><th>direction [arcsec]</th><th>subapertures</th></tr>%s</table>" % (
        html.escape(p.get("title") or repr(case)), html.escape(head), "".join(rows))


def psf_page(psf):
    """HTML of an image: its numbers, and the picture on a logarithmic scale where matplotlib is installed."""
    words = "<p>%s</p>" % html.escape(repr(psf))
    try:
        from matplotlib.colors import LogNorm
        from matplotlib.figure import Figure
    except ImportError:
        return words
    f = Figure(figsize=(3.4, 2.8), layout="constrained")
    n, m = psf.data.shape
    half = np.array([-(m // 2) - 0.5, m - m // 2 - 0.5, -(n // 2) - 0.5, n - n // 2 - 0.5]) * psf.pixel / 1e3
    top = psf.data.max()
    axes = f.add_subplot()
    axes.set(xlabel="x [arcsec]", ylabel="y [arcsec]")
    f.colorbar(axes.imshow(np.maximum(psf.data, 1e-5 * top), norm=LogNorm(1e-5 * top, top), origin="lower", extent=half), label="diffraction limit: 1")
    return words + '<img alt="PSF" src="data:image/png;base64,%s">' % base64.b64encode(_png(f)).decode()
