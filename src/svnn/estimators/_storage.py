"""Fitted estimators on disk: one safetensors file with a JSON header; never pickle.

The tensors hold the network's weights, the operator, the covariance and the standardisation; the
header holds the parameters, the labels and a checksum of the tensors.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import sklearn.covariance
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

import svnn.covariance
from svnn.estimators._base import BaseSVNN
from svnn.estimators._classifier import SVNNClassifier
from svnn.estimators._parameters import pick_device
from svnn.estimators._regressor import SVNNRegressor
from svnn.estimators._standardize import Standardizer
from svnn.estimators._torch import plain_torch, without_weights
from svnn.functional._array import is_torch
from svnn.nn import SVNN
from svnn.nn._norm import NodeNorm
from svnn.nn._svnn import ACTIVATIONS
from svnn.operators import CovarianceOperator, CSROperator, DenseOperator, LowRankOperator, plain_matrix

FORMAT_VERSION = 1
_CLASSES: dict[str, type[BaseSVNN]] = {c.__name__: c for c in (SVNNRegressor, SVNNClassifier)}
_OPERATORS: dict[str, Any] = {c.backend: c for c in (DenseOperator, CSROperator, LowRankOperator)}
_NOT_STORED = ("callbacks",)


class ModelFileError(ValueError):
    """The file is not a model, is damaged, or was written by a newer version."""


@plain_torch()
def save(estimator: BaseSVNN, path: Any) -> None:
    """Write a fitted estimator to ``path``; see :meth:`SVNNRegressor.save`."""
    check_is_fitted(estimator)
    tensors: dict[str, Tensor] = {f"module.{k}": v for k, v in estimator.module_.state_dict().items()}
    for i, values in enumerate(estimator.operator_._tensors()):
        tensors[f"operator.{i}"] = values
    _put_standardizer(tensors, "standardizer", estimator._standardizer)
    if isinstance(estimator, SVNNRegressor):
        _put_standardizer(tensors, "target", estimator._target_standardizer)
    params = {k: v for k, v in estimator.get_params(deep=False).items() if k not in _NOT_STORED}
    header = {
        "format": FORMAT_VERSION,
        "class": type(estimator).__name__,
        "params": {k: _encode(v, f"params.{k}", tensors) for k, v in params.items()},
        "covariance": _encode(estimator.covariance_, "covariance", tensors),
        "operator": {k: getattr(estimator.operator_, k) for k in ("backend", "scale", "adaptive")},
        "module": _architecture(estimator.module_),
        "trained_with": estimator._trained_with,
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": getattr(estimator, "feature_names_in_", np.array([])).tolist(),
        "history": estimator.history_,
    }
    if isinstance(estimator, SVNNClassifier):
        labels = estimator.classes_
        dates = labels.dtype.kind in "mM"  # JSON has no dates; their integers are exact
        header["classes"] = {"dtype": labels.dtype.str, "values": (labels.astype("i8") if dates else labels).tolist()}
    elif isinstance(estimator, SVNNRegressor):
        header["target_shape"] = list(estimator._target_shape)
    tensors = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}  # none may share memory
    header["checksum"] = _checksum(tensors, header)
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to.")
    # Written beside and renamed: a crash leaves the old file or the new one, never half of one.
    part = path.with_name(path.name + ".part")
    save_file(tensors, part, metadata={"svnn": json.dumps(header)})
    os.replace(part, path)


@plain_torch()
def load(path: Any, device: str = "auto") -> Any:
    """Read an estimator written by ``save``.

    Parameters
    ----------
    path : str or Path
    device : str, default="auto"
        Where to put the network.

    Returns
    -------
    SVNNRegressor or SVNNClassifier, fitted

    Raises
    ------
    FileNotFoundError
    ModelFileError
        For a file that is damaged, foreign, or written by a newer version.

    Examples
    --------
    >>> import numpy as np, svnn, tempfile, pathlib
    >>> X = np.random.default_rng(0).standard_normal((40, 3))
    >>> model = svnn.SVNNRegressor(max_epochs=5, random_state=0).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.safetensors")
    ...     model.save(path)
    ...     again = svnn.load(path)
    >>> bool((again.predict(X) == model.predict(X)).all())
    True
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no model file {path}.")
    tensors, header = _read(path)
    try:
        return _restore(tensors, header, pick_device(device))
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise ModelFileError(f"{path} is damaged: {type(error).__name__}: {error}") from error


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"{path} is not a safetensors file or is damaged: {error}") from error
    if "svnn" not in metadata:
        raise ModelFileError(f"{path} is a safetensors file, but not one that svnn wrote.")
    try:
        header = json.loads(metadata["svnn"])
        version, checksum = header["format"], header["checksum"]
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged: its header cannot be read ({error}).") from error
    if not isinstance(version, int):
        raise ModelFileError(f"{path} is damaged: its header cannot be read (format {version!r}).")
    if version > FORMAT_VERSION:
        raise ModelFileError(f"{path} has format {version}; this svnn reads up to {FORMAT_VERSION}. Upgrade svnn.")
    if checksum != _checksum(tensors, header):
        raise ModelFileError(f"{path} is damaged: its contents do not match their checksum.")
    return tensors, header


def _restore(tensors: dict[str, Tensor], header: dict[str, Any], device: torch.device) -> BaseSVNN:
    params = {k: _decode(v, tensors) for k, v in header["params"].items()}
    estimator = _CLASSES[header["class"]](**params)
    estimator._device = device
    estimator._n_values = header["module"]["in_features"]
    estimator.n_features_in_ = header["n_features_in"]
    if header["feature_names_in"]:
        estimator.feature_names_in_ = np.array(header["feature_names_in"], dtype=object)
    estimator._standardizer = _get_standardizer(tensors, "standardizer")
    if isinstance(estimator, SVNNClassifier):
        values, dtype = header["classes"]["values"], np.dtype(header["classes"]["dtype"])
        estimator.classes_ = np.array(values, "i8").astype(dtype) if dtype.kind in "mM" else np.array(values, dtype)
        n_outputs = len(estimator.classes_)
    else:
        assert isinstance(estimator, SVNNRegressor)
        estimator._target_shape = tuple(header["target_shape"])
        estimator._target_standardizer = _get_standardizer(tensors, "target")
        n_outputs = int(np.prod(estimator._target_shape))
    estimator.covariance_ = _decode(header["covariance"], tensors)
    parts = [tensors[k].to(device) for k in sorted(tensors) if k.startswith("operator.")]
    estimator.operator_ = _OPERATORS[header["operator"]["backend"]](*parts)
    estimator.operator_.scale = header["operator"]["scale"]
    estimator.operator_.adaptive = header["operator"].get("adaptive", False)
    estimator._trained_with = header.get("trained_with", {})
    stored = header["module"]
    # Files written before the architecture was hold in_features alone.
    estimator.module_ = without_weights(
        lambda: SVNN(**stored) if "hidden" in stored else estimator._build(estimator._n_values, n_outputs)
    )
    weights = {k.removeprefix("module."): v for k, v in tensors.items() if k.startswith("module.")}
    estimator.module_.load_state_dict(weights)
    estimator.module_.to(device).eval()
    estimator.history_ = header["history"]
    estimator.n_iter_ = len(estimator.history_["train_loss"])
    return estimator


def _architecture(module: Any) -> dict[str, Any]:
    """Return what ``SVNN`` takes to build this network: parameters of an estimator may change after its fit."""
    sizes = [layer.out_features for layer in module.head if hasattr(layer, "out_features")]
    readout = module.readout
    return {
        "in_features": module.filters[0].in_features,
        "out_features": sizes[-1],
        "hidden": [layer.out_features for layer in module.filters],
        "order": module.order,
        "activation": next(name for name, kind in ACTIVATIONS.items() if type(module.activation) is kind),
        "dropout": module.dropout.p,
        "batch_norm": isinstance(module.norms[0], NodeNorm),
        "readout": readout.kind,
        "heads": len(readout.weight) if readout.kind == "weighted" else 1,
        "n_nodes": readout.n_nodes,
        "mlp": sizes[:-1],
        "node_dropout": readout.node_dropout.p,
    }


def _put_standardizer(tensors: dict[str, Tensor], key: str, standardizer: Standardizer) -> None:
    tensors[f"{key}.mean"] = torch.as_tensor(standardizer.mean)
    tensors[f"{key}.scale"] = torch.as_tensor(standardizer.scale)


def _get_standardizer(tensors: dict[str, Tensor], key: str) -> Standardizer:
    return Standardizer(tensors[f"{key}.mean"].numpy(), tensors[f"{key}.scale"].numpy())


def _encode(value: Any, key: str, tensors: dict[str, Tensor]) -> Any:
    """Return JSON for ``value``; arrays go to ``tensors`` under ``key``."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_encode(v, f"{key}.{i}", tensors) for i, v in enumerate(value)]}
    if isinstance(value, dict):
        return {"dict": [[_encode(k, key, tensors), _encode(v, f"{key}.{k}", tensors)] for k, v in value.items()]}
    if sp.issparse(value) or (is_torch(value) and value.layout != torch.strided):
        csr = plain_matrix(value)
        for name in ("data", "indices", "indptr"):
            tensors[f"{key}.{name}"] = torch.as_tensor(getattr(csr, name))
        return {"csr": key, "shape": list(csr.shape)}
    if isinstance(value, np.ndarray) or is_torch(value):
        tensors[key] = torch.as_tensor(value).clone(memory_format=torch.contiguous_format)
        return {"array": key}
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, (np.random.Generator, np.random.RandomState, torch.Generator)):
        return None
    if isinstance(value, CovarianceOperator) or hasattr(value, "columns"):
        return _encode(plain_matrix(value), key, tensors)
    known = _estimator_name(value)
    if known is not None:
        params = value.get_params(deep=False)
        return {"estimator": known, "params": {k: _encode(v, f"{key}.{k}", tensors) for k, v in params.items()}}
    raise ValueError(
        f"{key.removeprefix('params.')}={value!r} cannot be stored without pickle. For a covariance estimator of your "
        'own, set_params(covariance="precomputed", shift=model.covariance_) before saving.'
    )


def _decode(value: Any, tensors: dict[str, Tensor]) -> Any:
    if not isinstance(value, dict):
        return value
    if "list" in value:
        return [_decode(v, tensors) for v in value["list"]]
    if "tuple" in value:
        return tuple(_decode(v, tensors) for v in value["tuple"])
    if "dict" in value:
        return {_decode(k, tensors): _decode(v, tensors) for k, v in value["dict"]}
    if "csr" in value:
        parts = tuple(tensors[f"{value['csr']}.{name}"].numpy() for name in ("data", "indices", "indptr"))
        return sp.csr_array(parts, shape=tuple(value["shape"]))
    if "array" in value:
        return tensors[value["array"]].numpy()
    library, _, name = value["estimator"].partition(".")
    module = {"svnn": svnn.covariance, "sklearn": sklearn.covariance}[library]
    if name not in module.__all__:
        raise KeyError(f"covariance estimator {value['estimator']}")
    return getattr(module, name)(**{k: _decode(v, tensors) for k, v in value["params"].items()})


def _estimator_name(value: Any) -> str | None:
    """Name a covariance estimator of svnn or scikit-learn; no other class is ever loaded."""
    name = type(value).__name__
    for library, module in (("svnn", svnn.covariance), ("sklearn", sklearn.covariance)):
        if name in module.__all__ and getattr(module, name) is type(value):
            return f"{library}.{name}"
    return None


def _checksum(tensors: dict[str, Tensor], header: dict[str, Any]) -> str:
    """Return a digest of the tensors and of the header without its checksum."""
    rest = {k: v for k, v in header.items() if k != "checksum"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for key in sorted(tensors):
        digest.update(key.encode())
        digest.update(tensors[key].detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
