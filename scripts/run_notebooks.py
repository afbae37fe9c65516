#!/usr/bin/env python3
"""Run the notebooks of examples/ that have outputs, and keep their outputs in the files (`make notebooks`).

  scripts/run_notebooks.py [--check] [NAME...]

Each runs in a folder of its own, beside copies of the tables that it reads. --check keeps the files as they are and compares what is
printed: numbers may differ by 2 %, as those of another processor do. Needs nbclient and ipykernel (Debian: python3-nbclient
python3-ipykernel). MOAO names the program, else that of build/.
"""
import glob
import os
import re
import shutil
import sys
import tempfile
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NAMES = ("first-map", "my-instrument", "my-stars", "error-budget", "from-catalogue", "psfs-elsewhere", "a-night", "statistics")
NUMBER = re.compile(r"-?\d+\.\d+")


def run(book, folder):
    """The notebook with the outputs of its cells. Raises CellExecutionError where one fails."""
    from nbclient import NotebookClient
    from traitlets.config import Config
    env = os.environ
    env["PYTHONPATH"] = os.path.join(ROOT, "python") + os.pathsep + env.get("PYTHONPATH", "")
    env.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # sockets in the folder: a port that was free a moment ago can be another program's when the kernel binds it
        NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}},
                       config=Config({"KernelManager": {"transport": "ipc", "ip": os.path.join(folder, "kernel")}})).execute()
    for cell in book.cells:
        cell.metadata.pop("execution", None)  # when it ran
    return book


def printed(cell):
    """Numbers with a decimal point that a cell prints."""
    return [float(v) for o in cell.get("outputs", []) if o["output_type"] == "stream" for v in NUMBER.findall(o["text"])]


def differences(old, new):
    """Lines on the cells whose printed numbers differ."""
    found = []
    for i, (a, b) in enumerate(zip(old.cells, new.cells)):
        if a.cell_type == "code":
            x, y = printed(a), printed(b)
            if len(x) != len(y) or any(abs(u - v) > 0.02 * max(abs(u), abs(v)) for u, v in zip(x, y)):
                found.append("cell %d printed %s, now %s" % (i + 1, x, y))
    return found


def main():
    import nbformat
    check = "--check" in sys.argv[1:]
    names = [a for a in sys.argv[1:] if not a.startswith("-")] or NAMES
    os.environ.setdefault("MOAO", os.path.join(ROOT, "build", "moao"))
    bad = 0
    for name in names:
        path = os.path.join(ROOT, "examples", name + ".ipynb")
        with tempfile.TemporaryDirectory(prefix="moao-notebook-") as folder:
            for table in glob.glob(os.path.join(ROOT, "examples", "*.ecsv")):
                shutil.copy(table, folder)
            old = nbformat.read(path, as_version=4)
            new = run(nbformat.read(path, as_version=4), folder)
        if check:
            lines = differences(old, new)
            bad += bool(lines)
            print("\n".join("%s: %s" % (name, line) for line in lines) or name + ": as printed in the file")
        else:
            nbformat.write(new, path)
            print(path)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
