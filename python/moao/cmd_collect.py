"""Collect the runs of a campaign in one table: DIR/summary.csv (everything) and DIR/summary.txt (to read).

OVERRIDES and DIR are those given to campaign.sbatch. One row for each line of OVERRIDES: the task, its overrides, the
status, and of the long exposure, for each wavelength, mean and maximum over the targets of the Strehl ratio and the
mean ensquared energies; elapsed time from run.json.
"""
import json
import os
import sys

from .command import csv_text, parser, run_command, write_whole
from .reading import MoaoError, number, reading
from .results import Run


def read_overrides(path):
    """Lines that count, as campaign.sbatch numbers them."""
    with reading(path, "the overrides"), open(path, encoding="utf-8") as f:
        lines = [line.strip() for line in f]
    return [line for line in lines if line and not line.startswith("#")]


def status_of(folder):
    """What became of a task."""
    code = None
    try:
        with open(folder + ".exit", encoding="ascii") as f:
            code = int(f.read())
    except (OSError, ValueError):
        pass
    if os.path.exists(os.path.join(folder, "maps.fits")) and code in (0, None):
        return "done"
    if code == 2:
        return "bad input"
    if code == 3:
        return "stopped, resumable"
    if code is not None:
        return "failed (exit %d)" % code
    return "unfinished" if os.path.isdir(folder) else "not started"


def results_of(folder):
    """Figures of a finished run: {column: value}, in the order of the table."""
    row, run = {}, Run(folder)
    for i, wave in enumerate(run.lambdas):
        band = run.bands[i] + "_" if run.bands[i] else ""
        for name in run.quantities:
            if name == "STREHL" or name.startswith("EE_"):
                values = run.column_long(name)[i]
                row["%s_mean_%s%gum" % (name.lower(), band, wave)] = values.mean()
                if name == "STREHL":
                    row["%s_max_%s%gum" % (name.lower(), band, wave)] = values.max()
    path = os.path.join(folder, "run.json")
    try:
        with reading(path, "the time"), open(path, encoding="utf-8") as f:
            row["elapsed_s"] = number(json.load(f)["elapsed_s"], "elapsed_s")
    except MoaoError as e:
        print("moao-collect: note: %s" % e, file=sys.stderr)
    return row


def collect(overrides, folder):
    """Rows and the names of their columns."""
    rows, columns = [], ["task", "overrides", "status"]
    for i, line in enumerate(read_overrides(overrides), 1):
        run = os.path.join(folder, "%04d" % i)
        row = {"task": i, "overrides": line, "status": status_of(run)}
        if row["status"] == "done":
            try:
                row.update(results_of(run))
            except MoaoError as e:
                row["status"] = "unreadable maps.fits: %s" % e
        columns += [c for c in row if c not in columns]
        rows.append(row)
    return rows, columns


def as_text(rows, columns):
    cells = [columns] + [["%.4g" % row[c] if isinstance(row.get(c), float) else str(row.get(c, "")) for c in columns]
                         for row in rows]
    widths = [max(len(line[k]) for line in cells) for k in range(len(columns))]
    return "".join("  ".join(v.ljust(w) for v, w in zip(line, widths)).rstrip() + "\n" for line in cells)


def write_tables(a):
    rows, columns = collect(a.overrides, a.dir)
    cells = [[row.get(c, "") for c in columns] for row in rows]
    write_whole(os.path.join(a.dir, "summary.csv"), csv_text([columns] + cells))
    write_whole(os.path.join(a.dir, "summary.txt"), as_text(rows, columns))
    print("%s: %d of %d tasks done" % (os.path.join(a.dir, "summary.txt"),
                                       sum(r["status"] == "done" for r in rows), len(rows)))
    return 0


def options():
    p = parser(__doc__)
    p.add_argument("overrides", metavar="OVERRIDES", help="file with a line of key=value for each run")
    p.add_argument("dir", metavar="DIR", help="folder of the runs: 0001, 0002...")
    return p


def main(arguments=None):
    a = options().parse_args(arguments)
    return run_command("moao-collect", lambda: write_tables(a))


if __name__ == "__main__":
    sys.exit(main())
