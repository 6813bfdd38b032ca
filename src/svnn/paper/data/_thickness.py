"""Cortical thickness as FreeSurfer measures it: IXI, braindev, ADNI, or any ``aparc`` table."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from svnn.datasets._files import MISSING, Table, find_file, number, read_table
from svnn.sources._frames import PathLike

#: The regions of the Desikan–Killiany atlas in FreeSurfer's order. The number is that of the left region in ADNI's
#: tables.
REGIONS = {
    "bankssts": 13, "caudalanteriorcingulate": 14, "caudalmiddlefrontal": 15, "cuneus": 23, "entorhinal": 24,
    "fusiform": 26, "inferiorparietal": 31, "inferiortemporal": 32, "isthmuscingulate": 34, "lateraloccipital": 35,
    "lateralorbitofrontal": 36, "lingual": 38, "medialorbitofrontal": 39, "middletemporal": 40, "parahippocampal": 44,
    "paracentral": 43, "parsopercularis": 45, "parsorbitalis": 46, "parstriangularis": 47, "pericalcarine": 48,
    "postcentral": 49, "posteriorcingulate": 50, "precentral": 51, "precuneus": 52, "rostralanteriorcingulate": 54,
    "rostralmiddlefrontal": 55, "superiorfrontal": 56, "superiorparietal": 57, "superiortemporal": 58,
    "supramarginal": 59, "frontalpole": 25, "temporalpole": 60, "transversetemporal": 62, "insula": 129,
}  # fmt: skip
NAMES = [f"{side}_{region}_thickness" for side in ("lh", "rh") for region in REGIONS]
#: ADNI's columns and the regions that they hold: the number of a right region is that of the left one plus 59, except
#: for the insula.
ADNI_COLUMNS = {
    f"ST{code + (0 if side == 'lh' else 1 if region == 'insula' else 59)}TA": f"{side}_{region}_thickness"
    for side in ("lh", "rh")
    for region, code in REGIONS.items()
}
_THICKNESS = re.compile(r"(?:lh|rh)_.+_thickness")
_SUBJECT = ("participant_id", "subject_id", "subject", "rid", "ptid", "lh.aparc.thickness", "rh.aparc.thickness")
_ADNI = "ADNI gives its tables to those who apply (https://adni.loni.usc.edu): UCSFFSX_*, UCSFFSX51_* and ADNIMERGE*."
_BRAINDEV = "It is the anatomy table of the braindev challenge (ABIDE and ADHD-200)."
#: For each known data set: its table, the table with the ages if they are elsewhere, and where to get both.
KNOWN: dict[str, tuple[str, str | None, str]] = {
    "ixi": ("ixi_dk_thickness_age.csv*", None, "The scans are at https://brain-development.org/ixi-dataset."),
    "braindev": ("braindev_abide_adhd200_anatomy_age.csv*", None, _BRAINDEV),
    "adni1": ("UCSFFSX_[0-9]*.csv*", "ADNIMERGE*.csv*", _ADNI),
    "adni2": ("UCSFFSX51_[0-9]*.csv*", "ADNIMERGE*.csv*", _ADNI),
}


def load_thickness(
    table: PathLike | Sequence[PathLike],
    root: PathLike | None = None,
    *,
    target: str = "age",
    ages: PathLike | None = None,
    groups: str = "subject",
    keep_invalid: bool = False,
) -> Bunch:
    r"""Load the thickness of the cerebral cortex; a row is a person, a column is a region of the brain.

    The target is the age of the person, or another column of the table.

    Parameters
    ----------
    table : {"ixi", "braindev", "adni1", "adni2"}, path, or sequence of paths
        A known set in the data folder, or tables with columns ``lh_<region>_thickness`` and
        ``rh_<region>_thickness`` (what FreeSurfer's ``aparcstats2table`` writes; give the files of both
        hemispheres) or ADNI's ``ST<number>TA``. Commas, tabs or semicolons, ``.gz`` or not.
    root : path, optional
        The data folder for a known set. By default the environment variable ``SVNN_DATA`` names it.
    target : str, default="age"
        The column to predict, in any of the tables. Whole numbers and words, other than the age, are taken for
        classes, and y then holds positions in ``target_names``.
    ages : path, optional
        Another table of the same people with the target, where the first ones lack it (ADNI's ``ADNIMERGE.csv``).
    groups : str, default="subject"
        The column to group rows by: "subject", or for instance "site".
    keep_invalid : bool, default=False
        Keep rows with a thickness that is missing or zero, which means that the segmentation failed.

    Returns
    -------
    Bunch with
        X : float64 array of shape (t, N), in mm; N = 68 regions, always in FreeSurfer's order, left then right
        y : array of shape (t,)
        groups : array of shape (t,), what ``groups`` asked for
        split : None, since there is no official split
        subjects : array of shape (t,), the people
        n_dropped : int, the number of rows that were left out as invalid or without a target
        feature_names, DESCR, and target_names for classes

    Notes
    -----
    The mean thickness of a hemisphere is not a region, and is left out. Where a person has several rows, only the first
    examination is used (by ``EXAMDATE`` where there is one), so that nobody is in both training and test data, however
    rows are split. An age from another table is the age at that table's first examination; where both tables have
    dates, the years from there to the scan are added.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> text = "subject_id,age,lh_insula_thickness,rh_insula_thickness,lh_MeanThickness_thickness\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "table.csv")
    ...     _ = path.write_text(text + "s1,30,2.9,3.0,2.5\ns2,60,2.7,2.8,2.4\n")
    ...     data = load_thickness(path)
    >>> data.X.tolist(), data.y.tolist(), data.feature_names
    ([[2.9, 3.0], [2.7, 2.8]], [30.0, 60.0], ['lh_insula_thickness', 'rh_insula_thickness'])
    """
    if isinstance(table, str) and table in KNOWN:
        paths, age_paths = find_tables(table, root, with_ages=ages is None)
    else:
        paths, age_paths = _given([table] if isinstance(table, str | os.PathLike) else table), []
    if ages is not None:
        age_paths = _given([ages])
    tables = [read_table(path) for path in paths]
    everything = tables + [read_table(path) for path in age_paths]
    rows, subjects = _people(everything)
    X, names = _regions(tables, rows)
    source, column = _find_column(everything, target)
    cells = np.array(everything[source].column(column), dtype=object)[rows[source]]
    kept = np.array([cell.lower() not in MISSING for cell in cells], dtype=bool)
    if not keep_invalid:
        kept &= (np.isfinite(X) & (X > 0)).all(1)
    if not kept.any():
        raise ValueError(
            f"No row of {tables[0].path} has both thickness and {target}; do the tables name subjects alike?"
        )
    classes = None
    if target.lower() == "age":
        y = np.array([number(cell, everything[source].path, column) for cell in cells[kept]])
        if source >= len(tables):
            y = y + _years(everything[0], everything[source], rows[0], rows[source])[kept]
    else:
        y, classes = _target(cells[kept].tolist())
    labels = subjects
    if groups != "subject":
        source, column = _find_column(everything, groups)
        labels = np.array(everything[source].column(column))[rows[source]]
    n_dropped = len(tables[0].rows) - len(y)
    return Bunch(
        X=X[kept],
        y=y,
        groups=labels[kept],
        split=None,
        subjects=subjects[kept],
        n_dropped=n_dropped,
        feature_names=names,
        DESCR=(
            f"Cortical thickness (mm) of {len(names)} regions and {target} of {len(y)} people, read from "
            f"{', '.join(str(t.path) for t in everything)}. {n_dropped} rows were left out."
        ),
        **({} if classes is None else {"target_names": classes}),
    )


def find_tables(name: str, root: PathLike | None, with_ages: bool = True) -> tuple[list[Path], list[Path]]:
    """Return the table of a known data set and, ``with_ages``, the one with the ages if they are elsewhere."""
    table, ages, where = KNOWN[name]
    path = find_file(root, (table,), name, where)
    return [path], [find_file(root, (ages,), f"{name}, ages", where)] if ages and with_ages else []


def _given(files: Sequence[PathLike]) -> list[Path]:
    """Return the paths of files that the user has named, all of which must be there."""
    paths = [Path(path).expanduser() for path in files]
    for path in paths:
        if path.is_dir():
            raise FileNotFoundError(f"{path} is a folder, not a table; name the file in it.")
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such table. Known names are {', '.join(KNOWN)}.")
    return paths


def _people(tables: list[Table]) -> tuple[list[list[int]], np.ndarray]:
    """Return the people that all tables have, in the order of the first table, after their rows in each table."""
    lower = [{name.lower(): name for name in reversed(table.names)} for table in tables]
    # Tables may name people in several ways (ADNI's RID and PTID); the first way that all tables share is used.
    shared = next((name for name in _SUBJECT if all(name in names for names in lower)), None)
    first = []
    for table, names in zip(tables, lower, strict=True):
        subject = next((names[name] for name in (shared, *_SUBJECT) if name in names), table.names[0])
        first.append(_first_rows(table, subject, names.get("examdate")))
    common = sorted(set(first[0]).intersection(*first[1:]), key=lambda person: first[0][person])
    return [[rows[person] for person in common] for rows in first], np.array(common, dtype=str)


def _first_rows(table: Table, subject: str, date: str | None) -> dict[str, int]:
    """Return the row of every person; of several rows, the one with the earliest date."""
    when = [_date(cell) for cell in table.column(date)] if date else [datetime.max] * len(table.rows)
    rows: dict[str, int] = {}
    for i, cell in enumerate(table.column(subject)):
        person = str(int(cell)) if cell.isdecimal() else cell  # ADNI writes the same number as 7 and as 0007
        if person not in rows or when[i] < when[rows[person]]:
            rows[person] = i
    return rows


def _date(cell: str) -> datetime:
    """Return the date in a cell; a missing one comes after all others."""
    for form in ("%Y-%m-%d", "%m/%d/%Y"):
        with suppress(ValueError):
            return datetime.strptime(cell, form)
    return datetime.max


def _years(scans: Table, ages: Table, scan_rows: list[int], age_rows: list[int]) -> np.ndarray:
    """Return the years from the examination at which the age was noted to the scan; 0 where a date is missing."""
    columns = [next((name for name in table.names if name.lower() == "examdate"), None) for table in (scans, ages)]
    if columns[0] is None or columns[1] is None:
        return np.zeros(len(scan_rows))
    scanned, aged = scans.column(columns[0]), ages.column(columns[1])
    pairs = [(_date(scanned[i]), _date(aged[j])) for i, j in zip(scan_rows, age_rows, strict=True)]
    return np.array([0.0 if datetime.max in pair else (pair[0] - pair[1]).days / 365.25 for pair in pairs])


def _regions(tables: list[Table], rows: list[list[int]]) -> tuple[np.ndarray, list[str]]:
    """Return the thickness of all regions and their names, in FreeSurfer's order whatever the order of the columns."""
    columns: dict[str, np.ndarray] = {}
    for table, chosen in zip(tables, rows, strict=False):
        for name in table.names:
            region = ADNI_COLUMNS.get(name, name)
            if _THICKNESS.fullmatch(region) and "meanthickness" not in region.lower():
                if region in columns:
                    raise ValueError(f"{table.path}: {name} and a column before it are of the same region.")
                columns[region] = table.numbers([name])[chosen, 0]
    if not columns:
        raise ValueError(
            f"{tables[0].path} has no columns lh_<region>_thickness, rh_<region>_thickness or ST<number>TA."
        )
    names = sorted(columns, key=lambda name: NAMES.index(name) if name in NAMES else len(NAMES))
    return np.column_stack([columns[name] for name in names]), names


def _find_column(tables: list[Table], wanted: str) -> tuple[int, str]:
    """Return the position of the first table with a column of this name, in upper or lower case, and its exact name."""
    for k, table in enumerate(tables):
        for name in table.names:
            if name.lower() == wanted.lower():
                return k, name
    raise ValueError(f"No column {wanted!r} in {', '.join(str(table.path) for table in tables)}.")


def _target(cells: list[str]) -> tuple[np.ndarray, list[str] | None]:
    """Return numbers and None where one of them is a fraction; otherwise codes of classes, and the classes."""
    with suppress(ValueError):
        values = np.array(cells, dtype=float)
        if (values != np.round(values)).any():
            return values, None
    classes, codes = np.unique(cells, return_inverse=True)
    return codes, [str(name) for name in classes]
