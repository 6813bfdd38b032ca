"""Where numba is not installed, the same numbers come from torch and numpy alone."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from svnn import HardThreshold, SVNNRegressor, as_operator

HIDE_NUMBA = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def compute(file: str | Path) -> None:
    """Write to ``file`` what every room with kernels computes: covariance, operators, nn and estimators."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 300)) + rng.standard_normal((60, 1))
    C = HardThreshold(tau=0.5, dense_limit=0).fit(X).covariance_
    filters = as_operator(C / 300, backend="csr", dtype=torch.float64)
    x, weight = (torch.tensor(rng.standard_normal(s), requires_grad=True) for s in [(4, 300, 8), (4, 8, 8)])
    y = filters.filter(x, weight)
    gradients = torch.autograd.grad(y.square().sum(), [x, weight])
    model = SVNNRegressor(covariance=HardThreshold(tau=0.5, dense_limit=0), max_epochs=2, random_state=0)
    predictions = model.fit(X, X[:, 0]).predict(X)
    filtered = [tensor.detach().numpy() for tensor in (y, *gradients)]
    np.savez(file, C.toarray(), *filtered, predictions)


def test_numba_may_be_missing(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where the kernels are switched off it is said here too
        compute(tmp_path / "here.npz")
    code = f"{HIDE_NUMBA}\nimport test_without_numba\ntest_without_numba.compute({str(tmp_path / 'without.npz')!r})"
    code += "\nassert not any(name.split('.')[0] in ('numba', 'llvmlite') for name in sys.modules)"
    options = {"cwd": Path(__file__).parent, "env": {k: v for k, v in os.environ.items() if k != "SVNN_NUMBA"}}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    assert "numba" in done.stderr and "slower" in done.stderr  # the user learns why it takes so long
    here, without = np.load(tmp_path / "here.npz"), np.load(tmp_path / "without.npz")
    assert sorted(here) == sorted(without) and len(here) == 5
    for name in here:
        np.testing.assert_allclose(without[name], here[name], rtol=0, atol=1e-5 * abs(here[name]).max())
