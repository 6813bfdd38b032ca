"""Two small fitted models, and files of them with other contents than svnn would write."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
from safetensors.torch import load_file, save_file

from svnn import SVNNClassifier, SVNNRegressor
from svnn.estimators import _model_file

QUICK = {"max_epochs": 2, "hidden": (4,), "mlp": (3,), "random_state": 0}
X = np.random.default_rng(0).standard_normal((30, 5))


@cache
def regressor():
    return SVNNRegressor(**QUICK).fit(X, X[:, 0])


@cache
def classifier():
    return SVNNClassifier(**QUICK).fit(X, np.array(["a", "b", "c"])[np.arange(30) % 3])


def contents(folder):
    return sorted(p.name for p in folder.iterdir())


def read(path):
    """Return the tensors of a model file, and svnn's header."""
    data = path.read_bytes()
    outer = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    # Copies: the tensors may lie in the file itself, which is about to be overwritten.
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    return tensors, json.loads(outer["__metadata__"]["svnn"])


def forge(path, tensors, header):
    """Write a file whose checksum is right, as one who wants to do harm would."""
    if "tensors" in header:
        names = _model_file._DTYPES
        header["tensors"] = {k: [names[v.dtype], list(v.shape)] for k, v in tensors.items()}
    header["checksum"] = _model_file.checksum(tensors, header)
    save_file(tensors, path, metadata={"svnn": json.dumps(header)})
