"""The small form of the fault campaign (campaign.py): some trials of every family, the same ones each time unless
MOAO_FAULT_SEED names another seed. Each trial that fails is told with the command that repeats it."""
# timeout: 1500
# cores: 1
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from campaign import WORKERS, Workplace, build_tools, campaign, reproduce  # noqa: E402
from family_memory import near  # noqa: E402
from harness import MOAO, tool  # noqa: E402

SEED = int(os.environ.get("MOAO_FAULT_SEED", "20"))


class Campaign(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.build = os.path.dirname(os.path.realpath(MOAO))
        code, text = build_tools(cls.build)
        if code != 0:
            raise AssertionError(text)
        cls.place = Workplace(cls.build)
        cls.lab = cls.place.__enter__()
        print("seed %d" % SEED, flush=True)

    @classmethod
    def tearDownClass(cls):
        cls.place.__exit__()

    def assert_all_good(self, name):
        tally = campaign(self.lab, name, SEED, False, 300, WORKERS, lambda text: None)
        self.assertGreater(tally.tried, 0)
        print("%s: %d tried in %.0f s; %s" % (name, tally.tried, tally.seconds, "; ".join(map(str, tally.notes))),
              flush=True)
        if tally.bad:
            self.fail("\n".join("%s: %s\n%s" % (v, reproduce(spec), str(text)[:3000]) for spec, v, text in tally.bad))

    def test_kills(self):
        """Signals at any time: nothing is lost, nothing is wrong."""
        self.assert_all_good("kills")

    def test_calls(self):
        """Failing, interrupted and short system calls on the run's files."""
        self.assert_all_good("calls")

    def test_memory(self):
        """Failing allocations on either rank."""
        self.assert_all_good("memory")

    def test_since(self):
        """Of what has changed: where it allocates each place, and each of its calls through which a failure comes once."""
        names = {"a0": "mem_alloc", "b1": "leaf", "b2": "leaf", "c1": "caller", "c2": "caller", "d1": "main"}
        of = {a: ("x.c", name) for a, name in names.items()}
        first = {("a0", b, c, "d1"): n for n, (b, c) in enumerate((("b1", "c1"), ("b2", "c1"), ("b1", "c2"), ("b2", "c2")))}
        for what, expected in ((["leaf"], [0, 1, 2, 3]), (["caller"], [0, 2]), (["main"], [0]), (["other"], [])):
            self.assertEqual(sorted(near(first, of, {("x.c", name) for name in what}).values()), expected)

    def test_damage(self):
        """Damaged, exchanged, foreign files in the folder."""
        self.assert_all_good("damage")

    def test_fuzz(self):
        """The corpus, and some thousand inputs more."""
        if not os.path.exists(tool("fuzz", self.build)):
            self.skipTest("no clang with libFuzzer")
        self.assert_all_good("fuzz")

    def test_limits(self):
        """Full disks, file sizes, address spaces, descriptors."""
        self.assert_all_good("limits")

    def test_starts(self):
        """Many ranks, many processes at once, Open MPI 5."""
        self.assert_all_good("starts")

    def test_load(self):
        """Many parts and more ranks than cores."""
        self.assert_all_good("load")


if __name__ == "__main__":
    unittest.main()
