"""Legacy input end to end: import, run, and the direct use of legacy profiles. Needs MOAO_DATA (default: the shared
data beside the project); skipped with a message where there is none."""
import glob
import os
import tempfile
import unittest

import numpy as np

from moao_case import ROOT, Run, moao

DATA = os.environ.get("MOAO_DATA", os.path.join(ROOT, "..", "shared", "data"))
CHECK = os.path.join(DATA, "legacy", "check", "nx456_nLayers2_wfs6_Nssp10")


@unittest.skipUnless(os.path.isdir(CHECK), f"no legacy data in {DATA}: set MOAO_DATA")
class Legacy(unittest.TestCase):
    def test_import_and_run(self):
        with tempfile.TemporaryDirectory() as tmp:
            case = os.path.join(tmp, "case.yaml")
            p = moao("import-legacy", os.path.join(CHECK, "sys-params.txt"),
                     os.path.join(CHECK, "prof0-atmos-night0.txt"), "-o", case)
            self.assertTrue(os.path.exists(case), p.stderr)
            run = Run(case, "telescope.zenith=0")
            self.assertEqual(len(run.table("GUIDESTARS")), 6)
            s = run.quantity("STREHL")
            self.assertTrue(np.all((s >= 0) & (s <= 1)))

    def test_every_system_file_imports(self):
        profile = sorted(glob.glob(os.path.join(DATA, "legacy", "benchmark", "profiles", "nLayers60", "prof1-*")))[0]
        files = sorted(glob.glob(os.path.join(DATA, "legacy", "benchmark", "*", "sys-params.txt")))
        self.assertGreaterEqual(len(files), 3)
        for path in files:
            with self.subTest(path), tempfile.TemporaryDirectory() as tmp:
                case = os.path.join(tmp, "case.yaml")
                moao("import-legacy", path, profile, "-o", case)
                p = moao("check", case, "--ranks", "1000", "--memory", "1000")
                self.assertIn("measurements", p.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
