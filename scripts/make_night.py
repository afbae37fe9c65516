#!/usr/bin/env python3
"""Make the synthetic night of turbulence in params/nights/synthetic.yaml: scripts/make_night.py > params/nights/synthetic.yaml

No measurement stands behind it: it shows how profiles change during a night, with 45 layers and a profile every
10 minutes for 8 hours. How it is made:

- Layers at 0, 0.5, ... 22 km above the pupil. Each holds the C_n^2 of its slab (250 m below to 250 m above, the first
  0 to 250 m), from four components: the surface (scale height 60 m), the boundary layer (1 km), the
  free atmosphere (4 km), and a sheet at the tropopause (Gaussian at 11.5 km, 1.8 km wide).
- r0^(-5/3) = 0.423 (2 pi / 500 nm)^2 int C_n^2 dh. The components start with 50, 24, 14 and 12 % of a
  seeing of 0.62 arcsec.
- Each component's logarithm follows its own slow oscillation (periods of 2 to 6 h) plus an autoregressive process of
  coefficient 0.9 from one profile to the next, so that r0 wanders and the profile's shape changes.
- Wind speed: 6 m/s at the ground plus a jet at 11 km (Gaussian of 4.8 km, 26 m/s), both breathing by
  20 % with periods of 5 and 7 h; its direction turns from 30 degrees at the ground to 90 at 10 km.
- Outer scale: 20 m in the first kilometre, 25 m above.

The random numbers come from a small generator written out here, and results are rounded to five digits: the same
file on every machine.
"""
import math

LAYERS, STEP, PROFILES, INTERVAL = 45, 500.0, 48, 600
SEEING = 0.62  # arcsec at 500 nm
SHARE = (0.50, 0.24, 0.14, 0.12)
PERIOD = (2.3, 3.1, 5.7, 4.3)  # h
PHASE = (0.3, 2.1, 4.0, 5.2)
SWING = (0.55, 0.40, 0.45, 0.80)  # of the logarithm
NOISE = (0.16, 0.12, 0.10, 0.20)


class Random:
    """Numbers of unit variance: the sum of 12 uniform ones of a linear congruential generator, less 6."""

    def __init__(self, seed):
        self.state = seed

    def uniform(self):
        self.state = (6364136223846793005 * self.state + 1442695040888963407) % 2 ** 64
        return (self.state >> 11) / 2 ** 53

    def normal(self):
        return sum(self.uniform() for _ in range(12)) - 6


def edges(i):
    return max(0.0, (i - 0.5) * STEP), (i + 0.5) * STEP


def exponential(scale):
    parts = [math.exp(-edges(i)[0] / scale) - math.exp(-edges(i)[1] / scale) for i in range(LAYERS)]
    return [p / sum(parts) for p in parts]


def sheet(centre, width):
    def upto(h):
        return 0.5 * math.erf((h - centre) / (width * math.sqrt(2)))
    parts = [upto(edges(i)[1]) - upto(edges(i)[0]) for i in range(LAYERS)]
    return [p / sum(parts) for p in parts]


def rounded(values):
    return "[" + ", ".join("%.5g" % v for v in values) + "]"


def wind(hour):
    ground = 6 * (1 + 0.2 * math.sin(2 * math.pi * hour / 5 + 1))
    jet = 26 * (1 + 0.2 * math.sin(2 * math.pi * hour / 7))
    return [ground + jet * math.exp(-((i * STEP - 11000) / 4800) ** 2) for i in range(LAYERS)]


def strengths():
    """Profiles of r0_l^(-5/3), one after the other."""
    shapes = (exponential(60.0), exponential(1000.0), exponential(4000.0), sheet(11500.0, 1800.0))
    r0 = 0.976 * 500e-9 / (SEEING / 206264.80624709636)
    random, walk = Random(20180521), [0.0] * 4
    for k in range(PROFILES):
        hour = k * INTERVAL / 3600
        level = []
        for c in range(4):
            walk[c] = 0.9 * walk[c] + NOISE[c] * random.normal()
            swing = SWING[c] * (math.sin(2 * math.pi * hour / PERIOD[c] + PHASE[c]) - math.sin(PHASE[c]))
            level.append(SHARE[c] * r0 ** (-5 / 3) * math.exp(swing + walk[c]))
        yield [sum(level[c] * shapes[c][i] for c in range(4)) for i in range(LAYERS)]


def main():
    print("# A synthetic night of turbulence: %d layers, a profile every %d minutes for %d hours. Made by" % (
        LAYERS, INTERVAL // 60, PROFILES * INTERVAL // 3600))
    print("# scripts/make_night.py, which says how; no measurement stands behind it. For atmosphere.file.")
    print("profiles:")
    heights = [i * STEP for i in range(LAYERS)]
    for k, strength in enumerate(strengths()):
        first = k == 0
        print("  - time: %d s # r0 %.4f m" % (k * INTERVAL, sum(strength) ** -0.6))
        print("    layers:")
        print("      altitude: " + ("&altitude " + rounded(heights) if first else "*altitude"))
        print("      strength: " + rounded(strength))
        print("      L0: " + ("&outer_scale " + rounded([20 if h < 1000 else 25 for h in heights])
                              if first else "*outer_scale"))
        print("      wind_speed: " + rounded(wind(k * INTERVAL / 3600)))
        print("      wind_direction: " + ("&direction " + rounded([30 + 60 * min(h / 10000, 1) for h in heights])
                                          if first else "*direction"))


if __name__ == "__main__":
    main()
