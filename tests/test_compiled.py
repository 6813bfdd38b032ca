"""The kernels are loaded or said to be missing; a broken one is an error."""

from __future__ import annotations

import io
import sys
import warnings

import numpy as np
import pytest
import torch

import svnn
from kernel_spy import BANKS, TILES
from svnn import _compiled
from svnn._compiled import load
from svnn.covariance import tiles
from svnn.operators import _cpu_passes


def kernels_of_tiles():
    data = tiles.read(np.array([[0.0, 1.0], [1.0, 0.0]]), None, correlations=False, limit=10**6, kind="pearson")
    return tiles.Tiles(data, limit=10**6).kernels


LOADERS = {BANKS: _cpu_passes.kernels, TILES: kernels_of_tiles}


@pytest.fixture
def no_numba(monkeypatch):
    """A process in which numba is not installed and nothing was loaded so far."""
    monkeypatch.delenv("SVNN_NUMBA", raising=False)
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in LOADERS:
        monkeypatch.delitem(sys.modules, name, raising=False)
    _compiled._has_numba.cache_clear()
    _compiled._module.cache_clear()
    yield
    _compiled._has_numba.cache_clear()
    _compiled._module.cache_clear()


def work():
    """Use the kernels of both rooms."""
    C = np.array([[1.0, 0.5], [0.5, 2.0]])
    filtered = svnn.as_operator(C, backend="csr").filter(torch.ones(3, 2, 4).double(), torch.ones(2, 4, 4).double())
    X = np.random.default_rng(0).standard_normal((20, 30))
    return filtered, svnn.HardThreshold(density=0.2, dense_limit=0).fit(X).covariance_


def test_without_numba_torch_does_the_work_and_says_so_once(no_numba):
    with pytest.warns(UserWarning, match="numba cannot be imported") as caught:
        filtered, covariance = work()
    (message,) = (str(warning.message) for warning in caught if "numba" in str(warning.message))
    assert "several times slower" in message and "pip install numba" in message and "SVNN_NUMBA=0" in message
    torch.testing.assert_close(filtered[0, :, 0], torch.tensor([4 + 4 * 1.5, 4 + 4 * 2.5], dtype=torch.float64))
    assert covariance.nnz == 30 + 2 * 87


@pytest.mark.parametrize("name", LOADERS)
def test_the_switch_turns_the_kernels_off_in_silence(monkeypatch, name):
    monkeypatch.setenv("SVNN_NUMBA", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LOADERS[name]() is None
        work()


class Terminal(io.StringIO):
    """Standard error that a person looks at."""

    def isatty(self):
        return True


@pytest.mark.parametrize("stderr", [io.StringIO(), None, Terminal()], ids=["captured", "closed", "terminal"])
def test_only_a_person_at_a_terminal_is_told_of_compiling_and_once(monkeypatch, tmp_path, stderr):
    if load(BANKS) is None:
        pytest.skip("numba is switched off or not installed")
    monkeypatch.setattr("svnn._jit.cache_folder", lambda: tmp_path)  # a new machine
    monkeypatch.setattr(_compiled, "import_module", lambda name: name)
    monkeypatch.setattr(sys, "stderr", stderr)
    for name in ("a", "a", "b"):
        assert _compiled._module.__wrapped__(name) == name
    said = "" if stderr is None else stderr.getvalue()
    lines = said.splitlines()
    assert len(lines) == (2 if isinstance(stderr, Terminal) else 0)  # a line for each module, not for each process
    assert all("compiling" in line and "once" in line for line in lines)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.compiled", "b.compiled"]


def test_every_room_asks_for_its_own_kernels(kernels):
    for name, loader in LOADERS.items():
        assert loader() is (sys.modules[name] if kernels.kind == "numba" else None)
    work()
    kernels.must_have_run("bank64", "compress", "symmetric")


@pytest.mark.parametrize(
    "error", [ImportError("cannot import name 'shift'"), TypeError("no such type"), OSError("disk")]
)
def test_kernels_that_do_not_load_are_an_error(monkeypatch, error):
    """Whatever is wrong with them: only numba itself may be missing."""
    if load(BANKS) is None:
        pytest.skip("numba is switched off or not installed")

    def broken(name):
        raise error

    monkeypatch.setattr(_compiled, "_module", broken)
    for loader in LOADERS.values():
        with pytest.raises(type(error), match=str(error)):
            loader()
    with pytest.raises(type(error)):
        work()


def test_a_kernel_that_raises_is_not_replaced(monkeypatch, kernels):
    """Nobody falls back to torch because a kernel failed."""
    if kernels.kind == "plain":
        pytest.skip("about the kernels")

    class Broken:
        @property
        def address(self):
            raise ArithmeticError

    C = svnn.as_operator(np.eye(3), backend="csr")
    monkeypatch.setattr(load(BANKS), "work64", Broken())
    with pytest.raises(ArithmeticError):
        C.filter(torch.ones(3, 2).double(), torch.ones(2, 2, 2).double())
