"""Writers of small files in the official formats."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

#: (label, time steps): two runs of walking with a pause between, a run too short for a window, and others.
RUNS = ((0, 30), (4, 300), (0, 5), (4, 200), (1, 100), (9, 256), (0, 40), (11, 128), (12, 129))


def recording(rng: np.random.Generator, n_columns: int, runs=RUNS, times: int = 0) -> np.ndarray:
    """Column c is noise around 1000 c, so that columns can be told apart; the last one is the label."""
    labels = np.repeat(*np.transpose(runs))
    values = rng.standard_normal((len(labels), n_columns)) + 1000 * np.arange(n_columns)
    values[:, -1] = labels
    values[:, :times] = np.arange(len(labels))[:, None]
    return values


def as_text(values: np.ndarray, delimiter: str = "\t") -> str:
    return "".join(delimiter.join(f"{value:.6g}" for value in row) + "\n" for row in values)


@pytest.fixture(scope="session")
def mhealth(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mhealth")
    rng = np.random.default_rng(0)
    for subject in range(1, 11):
        (folder / f"mHealth_subject{subject}.log").write_text(as_text(recording(rng, 24)))
    return folder


@pytest.fixture(scope="session")
def realdisp(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("realdisp")
    rng = np.random.default_rng(1)
    runs = ((0, 20), (1, 192), (5, 140), (33, 128), (0, 3), (33, 128), (29, 160))
    for subject in range(1, 18):
        (folder / f"subject{subject}_ideal.log").write_text(as_text(recording(rng, 120, runs, times=2)))
        (folder / f"subject{subject}_self.log").write_text("not to be read\n")
    return folder


@pytest.fixture(scope="session")
def dsads(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("dsads")
    rng = np.random.default_rng(2)
    for activity in (1, 7, 19):
        for subject in range(1, 9):
            folder = root / "data" / f"a{activity:02d}" / f"p{subject}"
            folder.mkdir(parents=True)
            for segment in (1, 2):
                values = rng.standard_normal((125, 45)) + 1000 * np.arange(45)
                (folder / f"s{segment:02d}.txt").write_text(as_text(values, ","))
    return root


@pytest.fixture
def zip_folder(tmp_path):
    """Pack a folder into ``tmp_path/name``, below ``inside``."""

    def pack(folder: Path, name: str, inside: str = "") -> Path:
        path = tmp_path / name
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(folder.rglob("*")):
                if file.is_file():
                    archive.write(file, inside + file.relative_to(folder).as_posix())
        return path

    return pack
