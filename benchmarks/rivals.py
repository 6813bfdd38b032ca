"""The default estimators beside the models that users would try, on the same random splits of the same tables.

A quarter of the rows is for testing. Nothing of svnn is tuned to a table; "svnn without edges" is the same network with
``order=0``, which does not see the covariance. The rivals are in ``_rival_models.py``. Every fit has one thread, and
its seconds are those of the processor. The seeds of the splits are none of those by which svnn's defaults were chosen.

``SVNN_DATA`` names the folder of the real data; tables that are not there are left out. Every fit adds a row to
``docs/results/rivals.csv`` as soon as it is done, and what is in the file is not measured again, so a run can be
stopped and started as one likes. ``--table`` prints the README's part from the file, and ``--plot`` draws the mean
ranks; neither measures anything.
"""

from __future__ import annotations

import argparse
import csv
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from _rank_plot import draw
from _ranks import critical_difference
from _rival_fits import TABLES, loaded, measure
from _rival_models import MODELS
from _rival_report import Row, ranked, report, summarise
from joblib import Parallel, delayed

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "rivals.csv"
FIRST_SEED = 12000
SPLITS = 10
FIELDS = (
    *("data", "samples", "features", "kind", "model", "seed"),
    *("score", "rmse", "fit_seconds", "predict_seconds", "reason"),
)
SHOWN = ("data", "model", "seed", "score", "fit_seconds", "reason")


def read(path: Path) -> list[Row]:
    """Return the rows of the file, without the last one where a killed run left half of it."""
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    lines = text[: text.rfind("\n") + 1].splitlines()
    if lines and lines[0] != ",".join(FIELDS):
        raise ValueError(f"{path} has other columns than this command writes; move it away.")
    return list(csv.DictReader(lines))


def present(names: Iterable[str]) -> list[str]:
    """Return the tables that can be loaded, and say which cannot."""
    found = []
    for name in names:
        try:
            loaded(name)
        except FileNotFoundError as error:
            print(f"{name} is left out: {error}")
        else:
            found.append(name)
    return found


def run(
    path: Path, tables: Sequence[str], models: Sequence[str], seeds: range, jobs: int, again: Sequence[str]
) -> None:
    """Measure what is not in the file, and add each row as it comes."""
    wanted = [
        (table, model, seed)
        for table in present(tables)
        for seed in seeds
        for model in MODELS[TABLES[table][0]]
        if model in models
    ]
    stale = {key for key in wanted if key[1] in again}
    rows = [row for row in read(path) if _key(row) not in stale]
    known = {_key(row) for row in rows}
    missing = [key for key in wanted if key not in known]
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(path.name + ".part")
    with scratch.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    scratch.replace(path)
    print(f"{len(wanted) - len(missing)} of {len(wanted)} rows are in {path}; {jobs} at a time", flush=True)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        work = (delayed(measure)(*key) for key in missing)
        for row in Parallel(n_jobs=jobs, return_as="generator_unordered", pre_dispatch=2 * jobs)(work):
            writer.writerow(row)
            file.flush()
            print(*(row.get(name, "") for name in SHOWN), flush=True)


def _key(row: Row) -> tuple[str, str, int]:
    return row["data"], row["model"], int(row["seed"])


def plot(results: Path, picture: Path) -> Path:
    """Draw the mean ranks of the file into a PNG."""
    columns, found = ranked(summarise(read(results)))
    if len(found) < 2 or len(columns) < 2:
        raise SystemExit("A picture of ranks takes two models that ran on the same two tables.")
    places = dict(zip(columns, found.mean(0).tolist(), strict=True))
    return draw(places, critical_difference(len(columns), len(found)), len(found), picture)


def main(arguments: Sequence[str] | None = None) -> None:
    known = sorted({model for models in MODELS.values() for model in models})
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true", help="print the stored results, measure nothing")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw the mean ranks into a PNG, measure nothing")
    parser.add_argument("--only", default="", metavar="TABLE", help="part of the name of a table")
    parser.add_argument("--models", nargs="+", choices=known, default=known, metavar="MODEL", help=", ".join(known))
    parser.add_argument("--again", nargs="+", choices=known, default=[], metavar="MODEL", help="measure these anew")
    parser.add_argument("--splits", type=int, default=SPLITS, help="number of random splits")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="fits at a time; the default is all cores")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the CSV file")
    options = parser.parse_args(arguments)
    if options.plot:
        print("written:", plot(options.out, options.plot))
    elif not options.table:
        tables = [name for name in TABLES if options.only.lower() in name.lower()]
        if not tables:
            parser.error(f"no table has {options.only!r} in its name; there are {', '.join(TABLES)}")
        seeds = range(FIRST_SEED, FIRST_SEED + options.splits)
        run(options.out, tables, options.models, seeds, options.jobs, options.again)
    if options.table or not options.plot:
        print(report(read(options.out)))


if __name__ == "__main__":
    main()
