"""Parameters, matrices, labels, estimators, operators and units as JSON and tensors, and back.

A file can only bring back objects of the kinds that are listed here.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import sklearn.covariance
import torch
from torch import Tensor

from svnn._parameters import is_allowed
from svnn._types import HasCovariance, Matrix
from svnn.covariance import Spectral, WithinClass
from svnn.covariance._moments import Totals
from svnn.covariance._resolve import OURS
from svnn.estimators._model_file import Json
from svnn.estimators._noise import Noise
from svnn.estimators._units import LabelTargets, NumberTargets, Standardizer, Targets
from svnn.functional import LowRankPlusSparse
from svnn.functional._array import is_torch
from svnn.functional._matrix import numpy_matrix
from svnn.functional._sparse import check_sparse
from svnn.operators import CovarianceOperator, CSROperator, DenseOperator, LowRankOperator, SumOperator

if TYPE_CHECKING:
    from svnn.covariance.tiles import Observations

_THEIRS = (
    sklearn.covariance.EllipticEnvelope,
    sklearn.covariance.EmpiricalCovariance,
    sklearn.covariance.GraphicalLasso,
    sklearn.covariance.GraphicalLassoCV,
    sklearn.covariance.LedoitWolf,
    sklearn.covariance.MinCovDet,
    sklearn.covariance.OAS,
    sklearn.covariance.ShrunkCovariance,
)
#: The covariance estimators that a file may name. A name in a file is looked up here and nowhere else.
_COVARIANCES: dict[str, type] = {
    **{f"svnn.{each.__name__}": each for each in (*OURS.values(), WithinClass, Spectral)},
    **{f"sklearn.{each.__name__}": each for each in _THEIRS},
}
#: Bytes that all labels may take in memory: their type is a claim of the file.
_LARGEST_LABELS = 2**28
_NAMES = {each: name for name, each in _COVARIANCES.items()}
_OPERATORS = {each.backend: each for each in (DenseOperator, CSROperator, LowRankOperator)}


def encode(value: Any, key: str, tensors: dict[str, Tensor]) -> Any:
    """Return JSON for ``value``; arrays go to ``tensors`` under ``key``."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return encode(value.item(), key, tensors)
    if isinstance(value, (list, tuple)):
        kind = "tuple" if isinstance(value, tuple) else "list"
        return {kind: [encode(v, f"{key}.{i}", tensors) for i, v in enumerate(value)]}
    if isinstance(value, dict):
        pairs = enumerate(value.items())
        return {"dict": [[encode(k, key, tensors), encode(v, f"{key}.{i}", tensors)] for i, (k, v) in pairs]}
    if isinstance(value, CovarianceOperator) or (is_torch(value) and value.layout != torch.strided):
        return encode(numpy_matrix(value, key), key, tensors)
    if isinstance(value, LowRankPlusSparse):
        parts = {name: getattr(value, name) for name in ("loadings", "residual")}
        return {"factored": {name: encode(part, f"{key}.{name}", tensors) for name, part in parts.items()}}
    if sp.issparse(value):
        csr = sp.csr_array(value)
        for name in ("data", "indices", "indptr"):
            tensors[f"{key}.{name}"] = torch.as_tensor(getattr(csr, name))
        return {"csr": key, "shape": list(csr.shape)}
    if is_torch(value):
        tensors[key] = value
        return {"array": key}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        # torch knows neither other byte orders nor steps backwards.
        tensors[key] = torch.as_tensor(np.ascontiguousarray(value, value.dtype.newbyteorder("=")).reshape(value.shape))
        return {"array": key}
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, (np.random.Generator, np.random.RandomState, torch.Generator)):
        return None
    if hasattr(value, "columns"):
        return encode(np.asarray(value), key, tensors)
    if type(value) in _NAMES:
        params = value.get_params(deep=False)
        return {
            "estimator": _NAMES[type(value)],
            "params": {k: encode(v, f"{key}.{k}", tensors) for k, v in params.items()},
        }
    raise ValueError(
        f"{key.rpartition('params.')[2]}={value!r} cannot be stored without pickle. For a covariance estimator of your "
        "own, set_params(covariance=model.covariance_) before saving."
    )


def decode(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return what :func:`encode` was given; one of Python's plain errors where it cannot have written this."""
    if not isinstance(value, dict):
        return value
    if "list" in value:
        return [decode(v, tensors) for v in value["list"]]
    if "tuple" in value:
        return tuple(decode(v, tensors) for v in value["tuple"])
    if "dict" in value:
        return {decode(k, tensors): decode(v, tensors) for k, v in value["dict"]}
    if "csr" in value:
        parts = tuple(tensors[f"{value['csr']}.{name}"].numpy() for name in ("data", "indices", "indptr"))
        return check_sparse(sp.csr_array(parts, shape=tuple(value["shape"])), value["csr"])
    if "factored" in value:
        return LowRankPlusSparse(**{name: decode(part, tensors) for name, part in value["factored"].items()})
    if "array" in value:
        return tensors[value["array"]].numpy()
    return _COVARIANCES[value["estimator"]](**{k: decode(v, tensors) for k, v in value["params"].items()})


def encode_fitted(estimator: HasCovariance | None, key: str, tensors: dict[str, Tensor]) -> Json | None:
    """Return JSON for a fitted covariance estimator; None where there is none, or none that can be stored.

    Its public attributes are stored, as far as they are numbers, text and arrays, but for the covariance itself.
    """
    if type(estimator) not in _NAMES:
        return None
    attributes: Json = {}
    for name, value in vars(estimator).items():
        if _is_fitted_name(name) and name != "covariance_":
            with suppress(ValueError):
                plain = name != "classes_"
                attributes[name] = encode(value, f"{key}.{name}", tensors) if plain else encode_labels(value)
    with suppress(ValueError):
        found = {**encode(estimator, key, tensors), "attributes": attributes}
        totals: Totals | None = getattr(estimator, "_totals_", None)
        if totals is not None:  # what partial_fit updates
            found["running"] = {k: encode(v, f"{key}.running.{k}", tensors) for k, v in totals._asdict().items()}
        data: Observations | None = getattr(estimator, "_observations_", None)
        if data is not None and data.panels is None:  # what a random estimator draws from
            found["observations"] = _encode_observations(data, f"{key}.observations", tensors)
        return found
    return None


def decode_fitted(stored: Json | None, covariance: Matrix, tensors: dict[str, Tensor]) -> HasCovariance | None:
    """Return the estimator that :func:`encode_fitted` was given, with the covariance of the model."""
    if stored is None:
        return None
    estimator = decode({"estimator": stored["estimator"], "params": stored["params"]}, tensors)
    for name, value in stored["attributes"].items():
        if not _is_fitted_name(name) or hasattr(type(estimator), name):
            raise ValueError(f"a fitted estimator has no attribute {name}")
        setattr(estimator, name, decode(value, tensors) if name != "classes_" else decode_labels(value))
    estimator.covariance_ = covariance
    if "running" in stored:
        estimator._totals_ = _decode_totals(stored["running"], covariance.shape[0], tensors)
    if "observations" in stored:
        estimator._observations_ = _decode_observations(stored["observations"], covariance.shape[0], tensors)
    return estimator


def _encode_observations(data: Observations, key: str, tensors: dict[str, Tensor]) -> Json:
    """Return JSON for standardised data, without its padding."""
    values = {**data._asdict(), "Z": data.Z[: data.n_features, : len(data.weight) * data.n_values]}
    values["dtype"] = str(data.dtype).removeprefix("torch.")
    return {name: encode(value, f"{key}.{name}", tensors) for name, value in values.items()}


def _decode_observations(stored: Json, n: int, tensors: dict[str, Tensor]) -> Observations:
    """Return standardised data of n features; a ``ValueError`` where it cannot be that."""
    from svnn.covariance.tiles._observations import CHUNK, Observations

    values = {name: decode(value, tensors) for name, value in stored.items()}
    whole, numbers = ("n_features", "n_values"), ("scale", "n_samples")
    fine = (
        all(type(values[name]) is int and values[name] > 0 for name in whole)
        and values["n_features"] == n
        and all(type(values[name]) is float and 0 < values[name] < math.inf for name in numbers)
        and all(type(values[name]) is bool for name in ("correlations", "as_tensor"))
        and values["dtype"] in ("float32", "float64")
        and values["panels"] is None
    )
    arrays = {name: torch.as_tensor(values[name]) for name in ("Z", "location", "variance", "unit", "weight")}
    rows = len(arrays["weight"])
    shapes = {"Z": (n, rows * values["n_values"]), "location": (n,), "variance": (n,), "unit": (n,), "weight": (rows,)}
    for name, shape in shapes.items():
        single = torch.float32 if name in ("Z", "weight") else torch.float64
        fine = fine and arrays[name].shape == shape and arrays[name].dtype == single
        fine = fine and bool(arrays[name].isfinite().all())
    if not fine:
        raise ValueError("the standardised data of its covariance estimator is not what svnn writes")
    arrays["Z"] = torch.nn.functional.pad(arrays["Z"], (0, 0, 0, -n % CHUNK))
    return Observations(**{**values, **arrays, "dtype": getattr(torch, values["dtype"])})


def _decode_totals(stored: Json, n: int, tensors: dict[str, Tensor]) -> Totals:
    """Return running moments of n features; a ``ValueError`` where these cannot be such."""
    found = Totals(**{name: decode(value, tensors) for name, value in stored.items()})
    shapes = {"location": (n,), "covariance": (n, n), "low": (n,), "high": (n,)}
    for name, shape in shapes.items():
        values = getattr(found, name)
        if values.shape != shape or values.dtype.kind != "f" or not np.isfinite(values).all():
            raise ValueError(f"its running {name} is not what svnn writes")
    if not all(isinstance(v, float) and 0 <= v < math.inf for v in (found.weight, found.squares, found.largest)):
        raise ValueError("its running weights are not what svnn writes")
    return found


def _is_fitted_name(name: str) -> bool:
    return name.isidentifier() and name.endswith("_") and not name.startswith("_")


def encode_labels(labels: np.ndarray) -> Json:
    """Return JSON for the classes: their type and values. JSON has no dates; their integers are exact."""
    dates = labels.dtype.kind in "mM"
    return {"dtype": labels.dtype.str, "values": (labels.astype("i8") if dates else labels).tolist()}


def decode_labels(stored: Json) -> np.ndarray:
    """Return the classes; a ``ValueError`` where these cannot be classes."""
    values, dtype = stored["values"], np.dtype(str(stored["dtype"]))
    kinds: dict[str, type | tuple[type, ...]] = {"b": bool, "f": (int, float), "U": str, "O": (bool, int, float, str)}
    kind = kinds.get(dtype.kind, int)
    if dtype.kind not in "biufUOmM" or not isinstance(values, list) or len(values) < 2:
        raise ValueError(f"{len(values)} values of type {dtype} are not the labels of classes")
    if not all(isinstance(v, kind) and (not isinstance(v, float) or math.isfinite(v)) for v in values):
        raise ValueError("the labels of the classes are not of their type")
    # Before numpy 2 the size of a very large type is negative.
    if not 0 <= len(values) * dtype.itemsize <= _LARGEST_LABELS:
        raise ValueError(f"{len(values)} labels of {dtype.itemsize} bytes each are too large")
    if dtype.kind in "iu" and not all(np.iinfo(dtype).min <= v <= np.iinfo(dtype).max for v in values):
        raise ValueError(f"the labels of the classes are not numbers of type {dtype}")
    labels = np.array(values, "i8").astype(dtype) if dtype.kind in "mM" else np.array(values, dtype)
    if len(np.unique(labels)) != len(labels):
        raise ValueError("two classes have the same label")
    return labels


# -- operators ----------------------------------------------------------------------------------------------


def encode_operator(operator: CovarianceOperator, key: str, tensors: dict[str, Tensor]) -> Json:
    """Return JSON for an operator; its tensors go to ``tensors``, those of each part of a sum under a number."""
    stored = {k: getattr(operator, k) for k in ("backend", "scale", "adaptive")}
    if isinstance(operator, SumOperator):
        parts = enumerate(operator.parts)
        return {**stored, "parts": [encode_operator(part, f"{key}.{i}", tensors) for i, part in parts]}
    for i, values in enumerate(operator._tensors()):
        tensors[f"{key}.{i}"] = values
    return stored


def decode_operator(
    tensors: dict[str, Tensor], key: str, stored: Json, n: int, device: torch.device
) -> CovarianceOperator:
    """Return the operator that :func:`encode_operator` was given."""
    backend, scale, adaptive = stored["backend"], stored["scale"], stored["adaptive"]
    must(scale is None or (isinstance(scale, float) and 0 < scale < math.inf), "scale of the operator")
    must(isinstance(adaptive, bool), "operator")
    operator: CovarianceOperator
    if backend == SumOperator.backend:
        places = enumerate(stored["parts"])
        must(all(part["backend"] in _OPERATORS for part in stored["parts"]), "operator")  # no sums of sums
        operator = SumOperator([decode_operator(tensors, f"{key}.{i}", part, n, device) for i, part in places])
    else:
        operator = _decode_part(tensors, key, backend, n, device)
    operator.scale, operator.adaptive = scale, adaptive
    return operator


def _decode_part(
    tensors: dict[str, Tensor], key: str, backend: str, n: int, device: torch.device
) -> CovarianceOperator:
    parts = [tensors[name] for name in sorted(tensors) if name.startswith(f"{key}.")]
    must(all(part.is_floating_point() for part in (parts[:1] if backend == "csr" else parts)), "operator")
    must(backend != "csr" or not any(part.is_floating_point() for part in parts[1:]), "operator")
    shapes = {"dense": [(n, n)], "csr": [parts[0].shape, parts[0].shape, (n + 1,)]}
    shapes["lowrank"] = [(n, *parts[0].shape[1:]), parts[0].shape[1:]]
    must([tuple(part.shape) for part in parts] == shapes[backend], "shape of the operator")
    return _OPERATORS[backend](*(part.to(device) for part in parts))


# -- units, noise and predictions ---------------------------------------------------------------------------


def decode_noise(stored: Any, tensors: dict[str, Tensor], n_outputs: int) -> Noise | None:
    """Return the noise of a model of ``n_outputs`` targets."""
    if stored is None:
        return None
    found = Noise(*decode(stored, tensors))
    must([part.shape for part in found] == [(n_outputs, 4), (n_outputs, 2), (n_outputs, 2)], "noise")
    must(all(part.dtype == np.float64 and bool(np.isfinite(part).all()) for part in found), "noise")
    return found


def decode_out_of_fold(stored: Any, tensors: dict[str, Tensor], targets: Targets) -> np.ndarray | None:
    """Return stored predictions for held-out rows, of the shape that the targets have."""
    found: np.ndarray | None = decode(stored, tensors)
    shape = targets.shape if isinstance(targets, NumberTargets) else (targets.n_outputs,)
    must(found is None or (found.dtype == np.float64 and found.shape[1:] == shape and found.ndim > 0), "out_of_fold")
    return found


def encode_targets(targets: Targets, key: str, tensors: dict[str, Tensor]) -> Json:
    """Return JSON for the units of targets, or for labels."""
    if isinstance(targets, LabelTargets):
        return {"classes": encode_labels(targets.classes)}
    encode_standardizer(tensors, f"{key}target", targets.standardizer)
    return {"target_shape": list(targets.shape)}


def decode_targets(stored: Json, key: str, tensors: dict[str, Tensor], are_labels: bool) -> Any:
    """Return the targets that :func:`encode_targets` was given."""
    if are_labels:
        classes = decode_labels(stored["classes"])
        return LabelTargets(classes, len(classes))
    shape = tuple(whole(size, "target_shape") for size in stored["target_shape"])
    must(isinstance(stored["target_shape"], list) and len(shape) < 2, "target_shape")
    n_outputs = math.prod(shape)
    return NumberTargets(shape, n_outputs, decode_standardizer(tensors, f"{key}target", (n_outputs,)))


def encode_standardizer(tensors: dict[str, Tensor], key: str, standardizer: Standardizer) -> None:
    """Add means and scales to ``tensors``."""
    tensors[f"{key}.mean"] = torch.as_tensor(standardizer.mean)
    tensors[f"{key}.scale"] = torch.as_tensor(standardizer.scale)


def decode_standardizer(tensors: dict[str, Tensor], key: str, shape: tuple[int, ...]) -> Standardizer:
    """Return the units of signals of a shape."""
    mean, scale = tensors[f"{key}.mean"], tensors[f"{key}.scale"]
    for part in (mean, scale):
        must(part.shape in ((), shape) and part.is_floating_point() and bool(part.isfinite().all()), key)
    return Standardizer(mean.numpy(), scale.numpy())


def whole(value: int, name: str) -> int:
    """Return a positive integer, or raise a ``ValueError`` that names it."""
    must(is_allowed(value, (int,), low=1), name)
    return value


def must(fine: bool, name: str) -> None:
    """Raise a ``ValueError`` that names a value, unless it is fine."""
    if not fine:
        raise ValueError(f"its {name} is not what svnn writes")
