"""Outlines of the lit parts of subapertures, for the references of mean gradients: numpy alone.

The mean gradient over a region is the integral of the phase times the outward normal along its outline, over its area.
Lengths are in subapertures, the pupil's centre at (0, 0).
"""
import math

import numpy as np

# Of a covariance by nodes of one set on both sides and by one set with another of one more node on each piece the errors
# are opposite, in these shares: of the kink of the structure function where outlines coincide.
SAME, OTHER = 2 / 7, 5 / 7


def edges(corner, radius, hole):
    """What the annulus has of the four edges of the square from `corner` on: (start, end, normal)."""
    out = []
    for axis in (0, 1):
        for far in (0, 1):
            at, low = corner[axis] + far, corner[1 - axis]
            cuts = {low, low + 1}
            for r in (radius, hole):
                if abs(at) < r:
                    c = math.sqrt(r * r - at * at)
                    cuts |= {min(max(c, low), low + 1), min(max(-c, low), low + 1)}
            cuts = sorted(cuts)
            for a, b in zip(cuts, cuts[1:]):
                if b - a > 1e-9 and hole <= math.hypot(at, (a + b) / 2) < radius:
                    start, end, normal = np.zeros(2), np.zeros(2), np.zeros(2)
                    start[axis], end[axis], normal[axis] = at, at, 2 * far - 1
                    start[1 - axis], end[1 - axis] = a, b
                    out.append((start, end, normal))
    return out


def arcs(corner, radius):
    """Angles between which a circle runs inside the square; an eighth of the circle at most."""
    angles = {k * math.pi / 4 for k in range(9)}
    for far in (0, 1):
        for axis, inverse in ((0, math.acos), (1, math.asin)):
            c = (corner[axis] + far) / radius
            if abs(c) < 1:
                t = inverse(c)
                angles |= {t % (2 * math.pi), (-t if axis == 0 else math.pi - t) % (2 * math.pi)}
    angles = sorted(angles)
    middle = [(radius * math.cos((a + b) / 2) - corner[0], radius * math.sin((a + b) / 2) - corner[1])
              for a, b in zip(angles, angles[1:])]
    return [(a, b) for (a, b), (x, y) in zip(zip(angles, angles[1:]), middle)
            if b - a > 1e-9 and 0 < x < 1 and 0 < y < 1]


def outline(corner, radius, hole, q):
    """Nodes, q Gauss points on each edge and arc, (nodes, 2), and their weights for a gradient along either axis."""
    t, g = np.polynomial.legendre.leggauss(q)
    place, weight = [np.zeros((0, 2))], [np.zeros((0, 2))]
    for start, end, normal in edges(corner, radius, hole):
        place.append((start + end) / 2 + t[:, None] * (end - start) / 2)
        weight.append(g[:, None] * normal * np.abs(end - start).sum() / 2)
    for r, sign in ((radius, 1), (hole, -1)):
        for a, b in arcs(corner, r) if 0 < r < math.inf else ():
            angle = (a + b) / 2 + t * (b - a) / 2
            normal = np.stack([np.cos(angle), np.sin(angle)], axis=1)
            place.append(r * normal)
            weight.append(g[:, None] * normal * sign * r * (b - a) / 2)
    place, weight = np.concatenate(place), np.concatenate(weight)
    weight = weight - weight.mean(axis=0)
    return place, weight / (weight * place).sum(axis=0)


def sums(values, first, axis):
    """Of the nodes of each subaperture."""
    return np.add.reduceat(values, first[:-1], axis=axis)
