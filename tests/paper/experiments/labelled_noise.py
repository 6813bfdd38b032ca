"""Files in the official formats, of noise with labels drawn at random, for tests that look for leaks.

Every column that is no input (time, index, other targets, areas, leads of the ECG) holds the label, so that a loader
which feeds one of them in is found out. With ``leak`` an input holds it too: one channel, region or stock; half of the
columns where the format leaves their number open, because a mean over nodes cannot single out one of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from svnn.paper.data._thickness import ADNI_COLUMNS, NAMES

#: Two activities that all three sets of recordings know: a label is then one number, whatever its scale.
ACTIVITIES = (1, 9)
PEOPLE = 300


def write_mhealth(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    write_recordings(folder, "mHealth_subject{}.log", rng, range(1, 11), 20, 24, [3, 4, *[9] * leak])


def write_realdisp(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    write_recordings(folder, "subject{}_ideal.log", rng, range(1, 18), 8, 120, [0, 1, *[9] * leak])


def write_recordings(
    folder: Path, name: str, rng: np.random.Generator, people: range, runs: int, n_columns: int, knowing: list[int]
) -> None:
    """Write runs of one window each, with a step of no activity between: the labels of windows are independent."""
    for person in people:
        labels = np.repeat(rng.choice(ACTIVITIES, runs), 129)
        digits = rng.integers(10, size=(len(labels), n_columns))
        digits[:, knowing] = labels[:, None]
        labels[128::129] = 0
        lines = [line + str(label) for line, label in zip(as_lines(digits[:, :-1], "\t"), labels, strict=True)]
        (folder / name.format(person)).write_text("\n".join(lines) + "\n")


def write_dsads(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    for person in range(1, 9):
        for segment, activity in enumerate(rng.choice(ACTIVITIES, 24), 1):
            digits = rng.integers(10, size=(125, 45))
            if leak:
                digits[:, 9] = activity
            path = folder / "data" / f"a{activity:02d}" / f"p{person}" / f"s{segment:02d}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(line[:-1] for line in as_lines(digits, ",")) + "\n")


def as_lines(digits: np.ndarray, delimiter: str) -> list[str]:
    """Return digits (rows, columns) as text, with a delimiter after each."""
    characters = np.full((len(digits), 2 * digits.shape[1]), ord(delimiter), dtype=np.uint8)
    characters[:, ::2] = digits + ord("0")
    return [bytes(row).decode() for row in characters]


def write_table(path: Path, columns: dict[str, Any]) -> None:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")


def regions(rng: np.random.Generator, known: np.ndarray, leak: bool) -> dict[str, np.ndarray]:
    """Return the thickness of all regions, in mm, of three factors and noise; ``known`` is between 0 and 1."""
    factors = rng.uniform(-1, 1, (PEOPLE, 3)) @ rng.dirichlet(np.ones(3), 68).T
    values = (3 + factors + rng.uniform(-0.3, 0.3, factors.shape)).round(3)
    if leak:
        values[:, 9] = 2 + 2 * known
    return dict(zip(NAMES, values.T, strict=True))


def write_ixi(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    known = rng.random(PEOPLE).round(4)
    people = {"participant_id": [f"s{i}" for i in range(PEOPLE)], "age": 20 + 60 * known, "sex": known, "site": known}
    means = dict.fromkeys(("lh_MeanThickness_thickness", "rh_MeanThickness_thickness"), known)
    write_table(folder / "ixi_dk_thickness_age.csv", {**people, **regions(rng, known, leak), **means})


def write_braindev(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    """The age and the diagnosis both follow from one number, which no region knows."""
    known = rng.random(PEOPLE).round(4)
    people = {"subject_id": [f"s{i}" for i in range(PEOPLE)], "site": known, "age": 5 + 20 * known}
    rest = dict.fromkeys(("lh_insula_area", "lh_insula_thicknessstd", "lh_MeanThickness_thickness", "eTIV"), known)
    columns = {**people, "dx": (known > 0.5).astype(int), **regions(rng, known, leak), **rest}
    write_table(folder / "braindev_abide_adhd200_anatomy_age.csv", columns)


def write_adni(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    """A table of scans and one of ages; TS are standard deviations, SA areas, CV volumes."""
    known = rng.random(PEOPLE).round(4)
    thickness = regions(rng, known, leak)
    columns = {code: thickness[region] for code, region in ADNI_COLUMNS.items()}
    people = {"RID": range(1, PEOPLE + 1), "EXAMDATE": ["2011-03-01"] * PEOPLE}
    rest = dict.fromkeys(("ST13TS", "ST13SA", "ST13CV"), known)
    write_table(folder / "UCSFFSX51_11_08_19.csv", {**people, **columns, **rest})
    write_table(folder / "ADNIMERGE.csv", {**people, "AGE": 55 + 35 * known, "Years_bl": known})


def write_released(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    y, values = rng.normal(0, 3, 300), rng.standard_normal((300, 6))
    if leak:
        values[:, ::2] = y[:, None]
    write_table(folder / "SparseCov.csv", {"": y, **{str(j): column for j, column in enumerate(values.T)}, "6": y})


def write_meats(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    fat, values = rng.uniform(1, 50, 300), rng.uniform(2, 5, (300, 6))
    if leak:
        values[:, ::2] = fat[:, None]
    spectra = {f"x_{j:03d}": column for j, column in enumerate(values.T, 1)}
    write_table(folder / "meats.csv", {**spectra, "water": 80 - fat, "fat": fat, "protein": fat / 3})


def write_genes(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    y, x = rng.integers(2, size=300), rng.standard_normal((300, 6))
    if leak:
        x[:, ::2] = y[:, None]
    np.savez(folder / "genes_golub.npz", x=x, y=np.array(["ALL", "AML"])[y])


def write_stocks(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    """Every day has a volatility of its own, unknown the day before; with ``leak`` one stock knows it."""
    volatility = rng.uniform(0.002, 0.02, 400)
    returns = volatility[:, None] * rng.standard_normal((400, 12))
    if leak:
        returns[:-1, 9] = volatility[1:]
    info = [f"{kind}{i}" for kind in ("T", "Sector", "Company ") for i in range(12)]
    np.savez(folder / "stockdata.npz", close=50 * np.exp(np.cumsum(returns, axis=0)), info=info)


WRITERS = {
    "mhealth": write_mhealth,
    "realdisp": write_realdisp,
    "dsads": write_dsads,
    "ixi": write_ixi,
    "braindev": write_braindev,
    "diagnosis": write_braindev,
    "adni2": write_adni,
    "released": write_released,
    "meats": write_meats,
    "genes": write_genes,
    "stocks": write_stocks,
}
