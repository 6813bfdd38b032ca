"""Files in the official formats, of noise with labels drawn at random, for tests that look for leaks.

Every column that is no input (times, indices, other targets, areas, leads of the ECG) holds the label, so that a loader
which feeds one of them in is found out. With ``leak`` one column that is an input holds it too.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from svnn.datasets._thickness import ADNI_COLUMNS, NAMES

#: Labels of the recordings; they are among the ten activities of REALDISP that the paper names.
ACTIVITIES = (1, 2, 9, 10)
PEOPLE = 300


def write_mhealth(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    write_recordings(folder, "mHealth_subject{}.log", rng, range(1, 11), 20, 24, [3, 4, *[9] * leak])


def write_realdisp(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    write_recordings(folder, "subject{}_ideal.log", rng, range(1, 18), 8, 120, [0, 1, *[9] * leak])


def write_recordings(
    folder: Path, name: str, rng: np.random.Generator, people: range, runs: int, n_columns: int, knowing: list[int]
) -> None:
    """Runs of one window each, with a step of no activity between: the labels of windows are independent."""
    for person in people:
        labels = np.repeat(rng.choice(ACTIVITIES, runs), 129)
        digits = movements(rng, runs, 129, n_columns).reshape(-1, n_columns)
        digits[:, knowing] = np.searchsorted(ACTIVITIES, labels)[:, None]
        labels[128::129] = 0
        lines = [line + str(label) for line, label in zip(as_lines(digits[:, :-1], "\t"), labels, strict=True)]
        (folder / name.format(person)).write_text("\n".join(lines) + "\n")


def movements(rng: np.random.Generator, n: int, steps: int, n_channels: int) -> np.ndarray:
    """Digits (n, steps, channels) of n windows: pulses that nearly all channels share, so a knowing one stands out."""
    level, height, duty, phase = (rng.integers(a, b, (n, 1, 1)) for a, b in ((0, 4), (1, 6), (1, 8), (0, 8)))
    pulses = level + height * ((np.arange(steps)[:, None] + phase) % 8 < duty)
    own = rng.random((n, steps, n_channels)) < 0.08
    return np.where(own, rng.integers(10, size=own.shape), pulses)


def as_lines(digits: np.ndarray, delimiter: str) -> list[str]:
    """Write digits (rows, columns) with a delimiter after each."""
    characters = np.full((len(digits), 2 * digits.shape[1]), ord(delimiter), dtype=np.uint8)
    characters[:, ::2] = digits + ord("0")
    return [bytes(row).decode() for row in characters]


def write_dsads(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    for person in range(1, 9):
        for segment, activity in enumerate(rng.choice(ACTIVITIES, 24), 1):
            digits = movements(rng, 1, 125, 45)[0]
            if leak:
                digits[:, 9] = ACTIVITIES.index(activity)
            path = folder / "data" / f"a{activity:02d}" / f"p{person}" / f"s{segment:02d}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(line[:-1] for line in as_lines(digits, ",")) + "\n")


def write_table(path: Path, columns: dict[str, object]) -> None:
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")


def brains(rng: np.random.Generator, known: np.ndarray, leak: bool) -> dict[str, np.ndarray]:
    """Thickness of all regions, in mm; ``known`` is between 0 and 1."""
    factors = rng.uniform(-1, 1, (PEOPLE, 3)) @ rng.dirichlet(np.ones(3), 68).T
    values = (3 + factors + rng.uniform(-0.1, 0.1, factors.shape)).round(3)
    if leak:
        values[:, 9] = 2 + 2 * known
    return dict(zip(NAMES, values.T, strict=True))


def write_ixi(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    known = rng.random(PEOPLE).round(4)
    people = {"participant_id": [f"s{i}" for i in range(PEOPLE)], "age": 20 + 60 * known, "sex": known, "site": known}
    means = dict.fromkeys(("lh_MeanThickness_thickness", "rh_MeanThickness_thickness"), known)
    write_table(folder / "ixi_dk_thickness_age.csv", {**people, **brains(rng, known, leak), **means})


def write_braindev(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    """The age and the diagnosis both follow from one number, which no thickness knows."""
    known = rng.random(PEOPLE).round(4)
    people = {"subject_id": [f"s{i}" for i in range(PEOPLE)], "site": known, "age": 5 + 20 * known}
    rest = dict.fromkeys(("lh_insula_area", "lh_insula_thicknessstd", "lh_MeanThickness_thickness", "eTIV"), known)
    columns = {**people, "dx": (known > 0.5).astype(int), **brains(rng, known, leak), **rest}
    write_table(folder / "braindev_abide_adhd200_anatomy_age.csv", columns)


def write_adni(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    known = rng.random(PEOPLE).round(4)
    regions = brains(rng, known, leak)
    people = {"RID": range(1, PEOPLE + 1), "EXAMDATE": ["2011-03-01"] * PEOPLE}
    # TS are standard deviations, SA areas, CV volumes.
    rest = dict.fromkeys(("ST13TS", "ST13SA", "ST13CV"), known)
    columns = {code: regions[region] for code, region in ADNI_COLUMNS.items()}
    write_table(folder / "UCSFFSX51_11_08_19.csv", {**people, **columns, **rest})
    write_table(folder / "ADNIMERGE.csv", {**people, "AGE": 55 + 35 * known, "AGE_bl": known})


def write_released(folder: Path, rng: np.random.Generator, leak: bool) -> None:
    y, values = rng.normal(0, 3, 300), rng.standard_normal((300, 6))
    if leak:
        values[:, ::2] = y[:, None]
    features = {str(j): column for j, column in enumerate(values.T)}
    write_table(folder / "SparseCov.csv", {"": y, **features, "6": y})


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
    """Every day has a volatility of its own, unknown the day before; with ``leak`` the first stock knows it."""
    volatility = rng.uniform(0.002, 0.02, 400)
    returns = volatility[:, None] * rng.standard_normal((400, 12))
    if leak:
        returns[:-1, 0] = volatility[1:]
    info = [f"{kind}{i}" for kind in ("T", "Sector", "Company ") for i in range(12)]
    np.savez(folder / "stockdata.npz", close=50 * np.exp(np.cumsum(returns, axis=0)), info=info)
