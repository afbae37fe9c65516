"""Container recipes, the Spack package and the citation say the same as the scripts and the Makefile, so that one place decides:
the packages are those of install-deps.sh, the steps those of containers/install.sh. (make check-install takes the steps.)"""
import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest
from unittest import mock

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import chroot  # noqa: E402
from moao_test import MOAO, ROOT, SHORT_CASE, environment, write_case  # noqa: E402


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as f:
        return f.read()


class Containers(unittest.TestCase):
    def test_both_take_the_same_steps(self):
        """Dockerfile and moao.def begin with the same system, copy the source to the same place and run the same script."""
        docker = chroot.docker_steps()
        header, sections = chroot.apptainer_parts()
        self.assertIn(("ARG", "BASE=" + header["From"]), docker)
        self.assertEqual([rest for word, rest in docker if word == "COPY"], sections["files"])
        self.assertEqual([rest for word, rest in docker if word == "RUN"][0], sections["post"][0])
        self.assertEqual(sections["post"], ["/opt/moao/containers/install.sh"])
        self.assertEqual(sections["files"], [". /opt/moao"])

    def test_packages_are_those_of_install_deps(self):
        """Neither recipe nor their script names a package of the system."""
        for name in ("Dockerfile", "moao.def", "install.sh"):
            self.assertNotRegex(read("containers", name), r"apt(-get)? .*install", name)
        self.assertIn('scripts/install-deps.sh" --build --demo', read("containers", "install.sh"))
        self.assertTrue(os.access(os.path.join(ROOT, "containers", "install.sh"), os.X_OK))

    def test_no_root_inside(self):
        """The image's program is run by an ordinary user."""
        words = [word for word, _ in chroot.docker_steps()]
        self.assertGreater(words.index("USER"), words.index("RUN"))


class Release(unittest.TestCase):
    """Release notes are the version's part of the changes."""

    def setUp(self):
        self.notes = runpy.run_path(ROOT + "/packaging/release_notes.py")["notes"]
        self.dir = tempfile.mkdtemp(prefix="moao-release-")
        self.addCleanup(shutil.rmtree, self.dir)

    def write(self, changes, version="0.4.0", date="2027-01-02"):
        for name, text in (("VERSION", version + "\n"), ("CHANGELOG.md", "# Changes\n\nOf all.\n\n" + changes), ("CITATION.cff", 'date-released: "%s"\n' % date)):
            with open(os.path.join(self.dir, name), "w", encoding="ascii") as f:
                f.write(text)
        return self.dir

    def test_notes(self):
        """What stands below the version's heading, and nothing of its neighbours."""
        old = "## 0.3.0 (2026-11-22)\n\n- Old.\n"
        text = self.notes(self.write("## Unreleased\n\n- Later.\n\n## 0.4.0 (2027-01-02)\n\n### Python\n- New.\n\n" + old))
        self.assertEqual(text, "moao 0.4.0 (2027-01-02)\n\n### Python\n- New.\n")
        for changes, date, why in (("## Unreleased\n\n- New.\n\n" + old, "2027-01-02", "0 headings of 0.4.0"),
                                   ("## 0.4.0\n\n- New.\n\n" + old, "2027-01-02", "no date"),
                                   ("## 0.4.0 (2027-01-02)\n\n" + old, "2027-01-02", "nothing below"),
                                   ("## 0.4.0 (2027-01-02)\n\n- New.\n", "2027-01-03", "CITATION.cff: date-released 2027-01-03")):
            with self.assertRaisesRegex(ValueError, why):
                self.notes(self.write(changes, date=date))

    def test_this_version(self):
        """The notes of the version in VERSION can be printed."""
        self.assertIn(read("VERSION").strip(), self.notes(ROOT))


class Time(unittest.TestCase):
    def test_all_is_ended(self):
        """A command in a root of its own that takes too long is ended with what it left in the background; what it printed is there."""
        with tempfile.TemporaryDirectory() as d:
            user = chroot.User(d)
            for seconds in (1, 4, 16):  # on a busy machine the shell needs some to begin
                with self.assertRaises(subprocess.TimeoutExpired) as caught:
                    user.call("echo begun; sleep 141 & sleep 141", timeout=seconds)
                ended = time.monotonic()
                if caught.exception.output:
                    break
            self.assertEqual(caught.exception.output, "begun\n")
            self.assertLess(time.monotonic() - ended, 60)


class Spack(unittest.TestCase):
    """The package is loaded with a stand-in for Spack that keeps what it declares."""

    def load(self, cuda):
        declared = []
        spack = types.ModuleType("spack")
        package = types.ModuleType("spack.package")
        for word in ("version", "variant", "depends_on", "license"):
            setattr(package, word, lambda *a, word=word, **k: declared.append((word, a[0], k)))
        package.MakefilePackage = object
        sys.modules.update({"spack": spack, "spack.package": package})
        self.addCleanup(lambda: [sys.modules.pop(n, None) for n in ("spack", "spack.package")])
        spec = importlib.util.spec_from_file_location("package", ROOT + "/packaging/spack/packages/moao/package.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        moao = module.Moao()
        part = types.SimpleNamespace(mpicc="mpicc", libs=types.SimpleNamespace(ld_flags="-lx"),
                                     prefix=types.SimpleNamespace(bin=types.SimpleNamespace(nvcc="/c/nvcc")))

        class Spec(dict):
            def satisfies(self, what):
                return cuda and what == "+cuda"
        moao.spec = Spec({name: part for name in ("mpi", "scalapack", "openblas", "cuda")})
        moao.prefix = "/spack/moao"
        return moao, declared

    def test_source(self):
        """Spack takes the archive that `make dist` makes, which has the project in a folder."""
        version = read("VERSION").strip()
        if not os.path.exists(ROOT + "/.git"):
            self.skipTest("no clone")
        with tempfile.TemporaryDirectory() as d:
            subprocess.run(["make", "-C", ROOT, "-s", "--no-print-directory", "dist", "DIST=" + d], check=True, stdout=subprocess.DEVNULL)
            with mock.patch.object(os, "getcwd", lambda: d):
                moao = self.load(False)[0]
                url = moao.url_for_version(version)
            self.assertEqual(moao.url, url)  # Spack refuses a package that has none
            self.assertTrue(url.startswith("file://"), url)
            with tarfile.open(url[len("file://"):]) as archive:
                self.assertIn("moao-%s/packaging/spack/packages/moao/package.py" % version, archive.getnames())

    def test_version_and_libraries(self):
        """The version is the project's; every library that the Makefile looks for is depended on."""
        _, declared = self.load(False)
        self.assertIn(read("VERSION").strip(), [name for word, name, _ in declared if word == "version"])
        names = " ".join(name for word, name, _ in declared if word == "depends_on")
        libs = re.search(r"^libs := (.*)$", read("Makefile"), re.M).group(1).lower().split()
        self.assertGreaterEqual(len(libs), 5)
        for lib in libs:
            self.assertIn(lib, names)

    def test_make_takes_its_words(self):
        """What the package gives to make has the effect that it is for."""
        for cuda in (False, True):
            moao, _ = self.load(cuda)
            self.assertEqual("gpu" in moao.build_targets, cuda)
            words = [w for w in moao.install_targets if "=" in w]
            text = subprocess.run(["make", "-C", ROOT, "--no-print-directory", "info"] + words, env=environment(),
                                  stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
            self.assertRegex(text, r"SCALAPACK .* -lx\n")
            self.assertRegex(text, r"OPENBLAS .* -lx\n")
            self.assertIn("prefix     /spack/moao\n", text)
            if cuda:
                self.assertIn("NVCC       /c/nvcc\n", text)


class Makefile(unittest.TestCase):
    def info(self, *words):
        return subprocess.run(["make", "-C", ROOT, "--no-print-directory", "info"] + list(words), env=environment(),
                              stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout

    def test_deps(self):
        """A prefix of DEPS comes before the system's folders."""
        text = self.info("DEPS=/opt/one /opt/two")
        self.assertRegex(text, r"flags .* -isystem/opt/one/include -isystem/opt/two/include")

    def test_version_of_program_and_results(self):
        """`moao --version`, the header of its results and the Python package have the number of VERSION."""
        number = read("VERSION").strip()
        said = subprocess.run([MOAO, "--version"], env=environment(), stdout=subprocess.PIPE, universal_newlines=True,
                              check=True).stdout.split("\n")[0].split()
        self.assertEqual(said[0], "moao")
        self.assertEqual(said[1].split("+")[0], number)  # behind + the commit
        with tempfile.TemporaryDirectory() as d:
            case = write_case(os.path.join(d, "case.yaml"), SHORT_CASE)
            subprocess.run([MOAO, "run", case, "schedule={exposure_times: 0}", "targets={list: [[0, 0]]}", "-o", d + "/out", "-q"],
                           env=environment(), stderr=subprocess.DEVNULL, check=True)
            with open(d + "/out/run.json", encoding="utf-8") as f:
                self.assertEqual(json.load(f)["versions"]["moao"], said[1])
            for name in ("maps.fits", "psf.fits"):
                if os.path.exists("%s/out/%s" % (d, name)):
                    with open("%s/out/%s" % (d, name), "rb") as f:
                        card = re.search(rb"CREATOR = '(.*?)'", f.read(2880 * 4)).group(1).decode()
                    self.assertEqual(card.split(), said)
        found = []
        fake = types.ModuleType("setuptools")
        fake.setup = lambda **how: found.append(how["version"])
        sys.modules["setuptools"], before = fake, sys.modules.get("setuptools")
        try:
            runpy.run_path(os.path.join(ROOT, "python", "setup.py"))
        finally:
            sys.modules.pop("setuptools")
            sys.modules.update({"setuptools": before} if before else {})
        self.assertEqual(found, [number])
        self.assertIn('dynamic = ["version"]', read("python/pyproject.toml"))

    def test_codemeta(self):
        """codemeta.json is what CodeMeta asks for, and says the same as CITATION.cff and VERSION."""
        import yaml
        meta, cff = json.loads(read("codemeta.json")), yaml.safe_load(read("CITATION.cff"))
        self.assertEqual((meta["@context"], meta["@type"]), ("https://w3id.org/codemeta/3.0", "SoftwareSourceCode"))
        terms = ("name", "description", "version", "dateModified", "license", "author", "applicationCategory", "keywords",
                 "programmingLanguage", "operatingSystem", "softwareRequirements", "softwareSuggestions", "developmentStatus",
                 "readme", "softwareHelp", "referencePublication")
        self.assertEqual(sorted(k for k in meta if k[0] != "@"), sorted(terms))
        self.assertEqual(meta["version"], read("VERSION").strip())
        self.assertEqual(meta["dateModified"], cff["date-released"])
        self.assertEqual(meta["license"], "https://spdx.org/licenses/" + cff["license"])
        self.assertEqual([a["name"] for a in meta["author"]], [a["name"] for a in cff["authors"]])
        self.assertEqual(meta["keywords"], cff["keywords"])
        self.assertEqual(meta["description"], cff["abstract"])
        self.assertEqual([p["name"] for p in meta["referencePublication"]], [r["title"] for r in cff["references"]])
        for page in (meta["readme"], meta["softwareHelp"]):
            self.assertTrue(os.path.exists(os.path.join(ROOT, page)), page)

    def test_version(self):
        """One number of the version: VERSION, CITATION.cff, the latest entry of CHANGELOG.md."""
        number = read("VERSION").strip()
        self.assertRegex(number, r"^\d+\.\d+\.\d+$")
        self.assertIn("\nversion: %s\n" % number, read("CITATION.cff"))
        self.assertEqual(re.search(r"^## (\S+) \((\d{4}-\d\d-\d\d)\)$", read("CHANGELOG.md"), re.M).group(1), number)
        self.assertIn("version    " + number, self.info())

    def test_citation(self):
        """CITATION.cff is YAML with what the format asks for; its date is that of the release."""
        try:
            import yaml
        except ImportError:
            self.fail("no yaml: python3-astropy of Debian brings it (scripts/install-deps.sh --test)")
        cff = yaml.safe_load(read("CITATION.cff"))
        for key in ("cff-version", "message", "title", "authors", "license", "date-released"):
            self.assertTrue(cff.get(key), key)
        self.assertEqual(cff["license"], "BSD-3-Clause")
        self.assertIn("(%s)" % cff["date-released"], read("CHANGELOG.md"))
        for author in cff["authors"] + [a for r in cff["references"] for a in r["authors"]]:
            self.assertTrue("name" in author or {"family-names", "given-names"} <= set(author), author)


if __name__ == "__main__":
    unittest.main()
