"""Two runs compared: which targets, wavelengths and quantities they share, and by how much they differ."""
import numpy as np

from .results import MoaoError

SAME_PLACE = 1e-6  # arcsec, and um for wavelengths


def shared_targets(a, b):
    """Indices (of a, of b) of the targets that both have, in the order of a."""
    where = {(round(x / SAME_PLACE), round(y / SAME_PLACE)): i for i, (x, y) in enumerate(zip(b.x, b.y))}
    pairs = [(i, where[k]) for i, k in enumerate((round(x / SAME_PLACE), round(y / SAME_PLACE))
                                                 for x, y in zip(a.x, a.y)) if k in where]
    if not pairs:
        raise MoaoError("%s and %s have no target in common" % (a.folder, b.folder))
    return tuple(np.array(v) for v in zip(*pairs))


def same_wave(a, i, b, j):
    """Whether two images are of one wavelength, or of bands of one name and centre."""
    return abs(a.lambdas[i] - b.lambdas[j]) < SAME_PLACE and a.bands[i] == b.bands[j]


def shared_waves(a, b):
    """Pairs of rows (of a, of b) of the wavelengths and bands that both have."""
    pairs = [(i, j) for i in range(a.nl) for j in range(b.nl) if same_wave(a, i, b, j)]
    if not pairs:
        raise MoaoError("%s and %s have no wavelength in common: %s and %s" % (
            a.folder, b.folder, *(", ".join(map(r.wave_words, range(r.nl))) for r in (a, b))))
    return pairs


def compare(a, b, exposures=False):
    """Differences b - a of what both runs have: a list of dictionaries, one for each quantity, wavelength and, with
    `exposures`, exposure (0: the long one), with the values of both (a, b) target by target and the largest
    difference (`worst`; NaN in both is the same, NaN in one is infinitely different)."""
    ta, tb = shared_targets(a, b)
    found = []
    for name in [n for n in a.quantities if n in b.quantities]:
        for i, j in shared_waves(a, b)[:1 if a.achromatic(name) else None]:
            both = [(0, a.column_long(name)[i, ta], b.column_long(name)[j, tb])]
            if exposures:
                both += [(e + 1, a.column(name)[i, e, ta], b.column(name)[j, e, tb]) for e in range(min(a.ne, b.ne))]
            for e, va, vb in both:
                found.append({"name": name, "wavelength": a.lambdas[i], "band": a.bands[i], "exposure": e, "a": va, "b": vb,
                              "worst": worst(va, vb)})
    if not found:
        raise MoaoError("%s and %s have no quantity in common" % (a.folder, b.folder))
    return found, ta


def worst(a, b):
    """Largest difference; 0 where both are NaN, infinite where one is."""
    with np.errstate(invalid="ignore"):
        differ = np.abs(b - a)
    differ[(np.isnan(a) & np.isnan(b)) | (a == b)] = 0
    return float(np.where(np.isnan(differ), np.inf, differ).max())


def only_in_one(a, b):
    """Lines about what the two runs do not share."""
    lines, (ta, _) = [], shared_targets(a, b)
    if len(ta) < max(a.nt, b.nt):
        lines.append("%d targets are in both (%d in A, %d in B)" % (len(ta), a.nt, b.nt))
    if a.ne != b.ne:
        lines.append("A has %d exposures, B %d" % (a.ne, b.ne))
    for one, other, word in ((a, b, "A"), (b, a, "B")):
        names = [n for n in one.quantities if n not in other.quantities]
        waves = [one.wave_words(i) for i in range(one.nl) if not any(same_wave(one, i, other, j) for j in range(other.nl))]
        if names + waves:
            lines.append("only in %s: %s" % (word, ", ".join(names + waves)))
    return lines
