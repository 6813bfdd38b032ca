"""Shared fixtures. Tests run in several processes, so each keeps to one torch thread."""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from kernel_spy import BANKS, Kernels
from svnn._compiled import load

torch.set_num_threads(1)
settings.register_profile(
    "svnn", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("svnn")


def pytest_runtest_setup() -> None:
    """Start every test from the same global seeds, whatever ran before it in the same process."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what scikit-learn draws from where no random_state is given
    torch.manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(params=["numba-1", "numba-2", "plain-1"])
def kernels(request, monkeypatch) -> Kernels:
    """The compiled kernels or none of them, on one thread or two, and a record of those that ran."""
    kind, n_threads = request.param.split("-")
    if kind == "plain":
        monkeypatch.setenv("SVNN_NUMBA", "0")
    elif load(BANKS) is None:
        pytest.skip("numba is switched off or not installed")
    found = Kernels(kind, int(n_threads))
    found.watch(monkeypatch)
    before = torch.get_num_threads()
    torch.set_num_threads(found.n_threads)
    yield found
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, where ``SVNN_DATA`` names one."""
    folder = Path(os.environ.get("SVNN_DATA", ""))
    if not os.environ.get("SVNN_DATA") or not folder.is_dir():
        pytest.skip("SVNN_DATA does not name a folder of data sets")
    return folder
