"""Slopes over whole squares, as some published numbers have them, and over the lit parts, as moao has them: exact covariances.

    python3 tests/golden/whole_squares.py [NAME...]      wavefront errors in nm; minutes of processor time each

The pupil's edge cuts 20 of the 80 subapertures of a sensor of 10 across, and all four of one of 2 x 2. Over whole squares these also
see turbulence that is not in the pupil. docs/loop.md and docs/mirrors.md have the tables.
"""
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "e2e"), os.path.join(HERE, "..")]
import reference  # noqa: E402
from mirrors_reference import Corrected, LowOrders, Mirror  # noqa: E402
from test_loop import SCAO  # noqa: E402
from test_low_orders import TIPTILT  # noqa: E402
from test_mirrors import GLAO, LTAO, MCAO  # noqa: E402


def of(case, **lasers):
    return {**case, "sensors": [{**s, "slope": "gradient", **(lasers if s["type"] == "lgs" else {})} for s in case["sensors"]]}


def shared(case, directions, mirrors=None):
    truth = Corrected(of(case), "gradient", mirrors, [(d, 1.) for d in directions])
    return [1e9 * truth.rms(t) for t in range(len(truth.targets))]


def several(case):
    m = case["mirrors"]
    mirrors = [Mirror(math.ceil(d / p * (1 - 1e-9)), p, h) for h, p, d in zip(m["altitude"], m["pitch"], m["diameter"])]
    return shared(case, case["optimise"]["list"], mirrors)


def low(control):
    case = of(TIPTILT, tiptilt_variance=50)
    truth = Corrected(case, "gradient", directions=[((0, 0), 1.)]) if control == "joint" else \
        LowOrders(case, "gradient", [4], control, directions=[((0, 0), 1.)])
    return [1e9 * truth.rms(0)]


CASES = {"joint": (lambda: low("joint"), [216.51]), "split": (lambda: low("split"), [216.96]),
         "independent": (lambda: low("independent"), [352.96]),
         "loop": (lambda: shared(SCAO, [(0, 0)]), [196.00]),
         "ltao": (lambda: shared(LTAO, [(0, 0)]), [132.82, 155.41, 204.55, 306.95]),
         "mcao": (lambda: several(MCAO), [193.70, 195.69, 196.55, 194.66, 215.30]),
         "glao": (lambda: shared(GLAO, [s["direction"] for s in GLAO["sensors"]]), [385.00, 382.18, 419.61, 380.62])}
for name in sys.argv[1:] or CASES:
    for whole in (False, True):
        reference.Sensor.whole = whole
        compute, published = CASES[name]
        print("%-12s %-13s" % (name, "whole squares" if whole else "lit parts"), " ".join("%.2f" % v for v in compute()),
              "  published", published, flush=True)
