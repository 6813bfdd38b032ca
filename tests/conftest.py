"""Shared fixtures. Tests run in several processes, so each keeps to one thread of torch and one of the BLAS."""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import os
import random
from collections.abc import Iterator
from multiprocessing.context import BaseContext
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - it has a BLAS of its own
import torch
from hypothesis import HealthCheck, settings
from sklearn.datasets import load_iris
from threadpoolctl import threadpool_limits

import blended
from kernel_spy import BANKS, Kernels
from svnn._compiled import load

torch.set_num_threads(1)
threadpool_limits(1, user_api="blas")  # two processes of two threads each wait for one another: half of all time
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # in the processes that tests start
settings.register_profile(
    "svnn", deadline=None, derandomize=True, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("svnn")


#: Tests of these files compare the kernels with a reference: here they run compiled, on one thread and on two, and not.
#: Elsewhere they run compiled on two threads, or not at all in `make test-plain`.
OF_KERNELS = ("test_banks.py", "test_large.py", "test_reference.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "run the files, and the tests of each file, in an order that is drawn with this seed"
    parser.addoption("--shuffle", type=int, metavar="SEED", help=help)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the tests where asked to; those of one file stay together, so that they can share what they build."""
    seed = config.getoption("--shuffle")
    if seed is None:
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    shuffle = random.Random(seed).shuffle
    groups = list(files.values())
    for group in (groups, *groups):
        shuffle(group)
    items[:] = [item for group in groups for item in group]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kernels" not in metafunc.fixturenames:
        return
    if os.environ.get("SVNN_NUMBA") == "0":
        kinds = ["plain-1"]
    elif metafunc.definition.path.name in OF_KERNELS:
        kinds = ["numba-1", "numba-2", "plain-1"]
    else:
        kinds = ["numba-2"]
    metafunc.parametrize("kernels", kinds, indirect=True)


def pytest_runtest_setup() -> None:
    """Start every test from the same global seeds, whatever ran before it in the same process."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - what scikit-learn draws from where no random_state is given
    torch.manual_seed(0)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
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


@pytest.fixture(scope="module")
def every_part_counts() -> Iterator[None]:
    """See :func:`blended.every_part_counts`."""
    with blended.every_part_counts():
        yield


@pytest.fixture(scope="session")
def forkserver() -> BaseContext:
    """A way to start processes as forks of one that has imported what they need: each is there in a moment."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "pandas", "distributed", "svnn.comparison._models", "svnn.estimators"])
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
            patch.setenv(name, "1")
        multiprocessing.forkserver.ensure_running()
    return context


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, where ``SVNN_DATA`` names one."""
    folder = Path(os.environ.get("SVNN_DATA", ""))
    if not os.environ.get("SVNN_DATA") or not folder.is_dir():
        pytest.skip("SVNN_DATA does not name a folder of data sets")
    return folder


@pytest.fixture
def load_real(data_folder):
    """Call a loader on the folder of real data; skip the test where the files of this data set are not there."""

    def load(loader, *arguments, **keywords):
        try:
            return loader(*arguments, root=data_folder, **keywords)
        except FileNotFoundError as error:
            pytest.skip(str(error))

    return load


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]
