"""Fitted estimators on disk: one safetensors file with a JSON header; never pickle.

The tensors hold the network's weights, the operator, the covariance and the standardisation; the header holds the
parameters, the architecture, the labels, the covariance estimator and a checksum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from svnn._parameters import is_allowed
from svnn.estimators._classifier import SVNNClassifier
from svnn.estimators._covariance_network import CovarianceNetwork, networks_of
from svnn.estimators._history import History
from svnn.estimators._model_file import Json, ModelFileError, PathLike, given_path, read_model, write_model
from svnn.estimators._noise import Noise
from svnn.estimators._regressor import SVNNRegressor
from svnn.estimators._stored_values import (
    decode,
    decode_fitted,
    decode_labels,
    encode,
    encode_fitted,
    encode_labels,
)
from svnn.estimators._training_data import LabelTargets, NumberTargets, Standardizer, Targets
from svnn.estimators.training import pick_device, plain_torch
from svnn.nn import SVNN, Members
from svnn.nn._layers import ACTIVATIONS
from svnn.operators import CovarianceOperator, CSROperator, DenseOperator, LowRankOperator, SumOperator

#: The classes that a file may name; ``load`` adds to them those that its caller gives, and no others.
_CLASSES: dict[str, type[CovarianceNetwork]] = {each.__name__: each for each in (SVNNRegressor, SVNNClassifier)}
_USER = "subclass:"
_OPERATORS = {each.backend: each for each in (DenseOperator, CSROperator, LowRankOperator)}
_NOT_STORED = ("callbacks", "checkpoint")
#: The errors that a header can lead to when svnn did not write its values; a RecursionError is a RuntimeError.
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError, RuntimeError)
_MOST_LAYERS = 1000
#: What ``fit`` sets, and this file stores in its own way.
_FITTED = {
    *("module_", "operator_", "covariance_", "covariance_estimator_", "history_", "n_iter_", "n_features_in_"),
    *("feature_names_in_", "classes_", "_standardizer", "_targets", "_n_values", "_trained_with", "_noise", "blend_"),
    "_own_covariance",
}


@plain_torch()
def save(estimator: CovarianceNetwork, path: PathLike) -> None:
    """Write a fitted estimator to ``path``; see :meth:`SVNNRegressor.save`."""
    check_is_fitted(estimator)
    _check_parameters(estimator)
    tensors: dict[str, Tensor] = {f"module.{k}": v for k, v in estimator.module_.state_dict().items()}
    _put_standardizer(tensors, "standardizer", estimator._standardizer)
    params = {k: v for k, v in estimator.get_params(deep=False).items() if k not in _NOT_STORED}
    if estimator._per in ("sample", "group"):  # prediction needs the covariance estimator of the fit
        params["covariance"] = getattr(estimator, "_own_covariance", estimator.covariance)
    header: Json = {
        "class": _class_name(type(estimator)),
        "params": {k: encode(v, f"params.{k}", tensors) for k, v in params.items()},
        "covariance": encode(estimator.covariance_, "covariance", tensors),
        "covariance_estimator": encode_fitted(estimator.covariance_estimator_, "covariance_estimator", tensors),
        "operator": _put_operator(estimator.operator_, "operator", tensors),
        "module": _architecture(networks_of(estimator.module_)[0], estimator.n_features_in_),
        "members": len(networks_of(estimator.module_)),
        "blend": estimator.blend_,
        "trained_with": estimator._trained_with,
        "n_features_in": estimator.n_features_in_,
        "feature_names_in": getattr(estimator, "feature_names_in_", np.array([])).tolist(),
        "history": estimator.history_,
    }
    if isinstance(estimator._targets, LabelTargets):
        header["classes"] = encode_labels(estimator._targets.classes)
    else:
        header["target_shape"] = list(estimator._targets.shape)
        _put_standardizer(tensors, "target", estimator._targets.standardizer)
        noise = cast(SVNNRegressor, estimator)._noise
        header["noise"] = (
            None if noise is None else [encode(part, f"noise.{i}", tensors) for i, part in enumerate(noise)]
        )
    if type(estimator) not in _CLASSES.values():
        own = {k: v for k, v in vars(estimator).items() if k not in _FITTED and k not in estimator.get_params()}
        header["attributes"] = {k: encode(v, f"attributes.{k}", tensors) for k, v in own.items()}
    write_model(path, tensors, header)


@plain_torch()
def load(path: PathLike, device: str = "auto", *, classes: Iterable[type] = ()) -> SVNNRegressor | SVNNClassifier:
    """Read an estimator written by ``save``.

    Parameters
    ----------
    path : str or Path
    device : str, default="auto"
        Where to put the network.
    classes : sequence of classes, optional
        Your own subclasses of `SVNNRegressor` or `SVNNClassifier` that the file may hold. A file names its class, but
        never brings its code: one that is neither svnn's nor in this list is not loaded.

    Returns
    -------
    SVNNRegressor or SVNNClassifier, fitted
        Its ``covariance_estimator_`` has the public attributes that it had; it is None for estimators that are neither
        svnn's nor scikit-learn's.

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
    known: dict[str, type] = dict(_CLASSES)
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, tuple(_CLASSES.values()))):
            raise ValueError(f"classes must be subclasses of SVNNRegressor or SVNNClassifier, got {each!r}.")
        known[_class_name(each)] = each
    target, place = pick_device(device), given_path(path)
    with torch.no_grad():
        tensors, header = read_model(place)
        name = str(header.get("class"))
        if name not in known:
            raise ModelFileError(
                f"{place} holds a model of the class {name.removeprefix(_USER)}, which is not svnn's; to load a "
                "subclass of your own, give it in classes=."
            )
        try:
            return cast("SVNNRegressor | SVNNClassifier", _restore(known[name], tensors, header, target))
        except _NONSENSE as error:
            why = str(error).partition("\n")[0]
            raise ModelFileError(f"{place} is damaged: {type(error).__name__}: {why}") from error


def _restore(kind: type, tensors: dict[str, Tensor], header: Json, device: torch.device) -> CovarianceNetwork:
    estimator: CovarianceNetwork = kind(**{k: decode(v, tensors) for k, v in header["params"].items()})
    # A subclass with an ``__init__`` of its own may set parameters of ours that are not parameters of its own.
    parameters = {field.name for field in dataclasses.fields(estimator) if field.init}
    for name, value in header.get("attributes", {}).items():
        free = name in parameters or not hasattr(kind, name)
        _must(free and name not in _FITTED, f"attribute {name}")
        setattr(estimator, name, decode(value, tensors))
    n = estimator.n_features_in_ = _whole(header["n_features_in"], "n_features_in")
    _check_parameters(estimator)
    n_values = estimator._n_values = _whole(header["module"]["in_features"], "in_features")
    trained_with = estimator._trained_with = header.get("trained_with", {})  # older files have none
    _must(trained_with.keys() <= {"use", "standardize", "scale", "rows", "unseen", "per", "seed"}, "trained_with")
    per = trained_with.get("per", "table")
    _must(per in ("table", "sample", "group", "given"), "per")
    _must(per in ("table", "given") or is_allowed(trained_with.get("seed"), (int,), low=0), "seed")
    unseen = trained_with.get("unseen", [])
    _must(isinstance(unseen, list) and all(is_allowed(each, (int,), low=0) for each in unseen), "unseen")
    rows = trained_with.get("rows", 1.0)
    _must(isinstance(rows, float) and 0 < rows < math.inf, "rows")
    scale = trained_with.get("scale", 1.0)
    _must(isinstance(scale, float) and 0 < scale < math.inf, "scale")
    _must(trained_with.get("use", "log") in ("covariance", "precision", "log"), "use")
    names = header["feature_names_in"]
    _must(isinstance(names, list) and all(isinstance(name, str) for name in names), "feature_names_in")
    if names:
        _must(len(names) == n, "feature_names_in")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    estimator._standardizer = _get_standardizer(tensors, "standardizer", (n, n_values))
    estimator._targets = _get_targets(kind, tensors, header)
    if isinstance(estimator._targets, LabelTargets):
        estimator.classes_ = estimator._targets.classes
    estimator.covariance_ = decode(header["covariance"], tensors)
    _must(estimator.covariance_.shape == (n, n) and estimator.covariance_.dtype.kind in "biuf", "covariance")
    # Older files have none.
    estimator.covariance_estimator_ = decode_fitted(header.get("covariance_estimator"), estimator.covariance_, tensors)
    estimator.operator_ = _get_operator(tensors, "operator", header["operator"], n, device)
    n_members = _whole(header.get("members", 1), "members")  # older files have one
    _must(n_members <= len(tensors), "members")
    prefixes = ["module."] if n_members == 1 else [f"module.members.{i}." for i in range(n_members)]
    networks = [_get_module(estimator, tensors, header["module"], prefix) for prefix in prefixes]
    blend = estimator.blend_ = header.get("blend", {"with edges": 1.0})  # older files have none
    _must(set(blend) <= {"with edges", "without edges", "linear"} and set(blend) != {"linear"}, "blend")
    _must(all(isinstance(weight, float) for weight in blend.values()) and _is_shared(blend.values()), "blend")
    _must(n_members > 1 or len(blend) == 1, "blend")
    module: SVNN | Members = networks[0]
    if n_members > 1:
        module = _get_members(estimator, networks, tensors, "blend" in header)
    stored = {name for name in tensors if name.startswith("module.")}
    _must(stored == {f"module.{name}" for name in module.state_dict()}, "members")
    estimator.module_ = module.to(device).eval()
    if isinstance(estimator, SVNNRegressor) and header.get("noise") is not None:
        estimator._noise = _get_noise(header["noise"], tensors, estimator._targets.n_outputs)
    history = estimator.history_ = History(header["history"])
    numbers = [value for values in history.values() for value in values]
    _must(all(isinstance(value, (int, float)) for value in numbers), "history")
    estimator.n_iter_ = len(history["train_loss"])
    return estimator


def _class_name(kind: type) -> str:
    """Return the name of a class in a file: those of users cannot be taken for svnn's, whatever they are called."""
    return kind.__name__ if kind in _CLASSES.values() else _USER + kind.__name__


def _check_parameters(estimator: CovarianceNetwork) -> None:
    """Raise what ``fit`` would raise for these parameters, before they are written, and when they were read."""
    estimator._check_parameters()
    if len(estimator.hidden) + len(estimator.mlp) > _MOST_LAYERS:
        raise ValueError(f"hidden and mlp name more than {_MOST_LAYERS} layers, which no model file may.")
    with torch.device("meta"):  # takes no memory, whatever the sizes
        estimator._build(1, 1)


# -- the network --------------------------------------------------------------------------------------------


def _architecture(module: nn.Module, n_nodes: int) -> Json:
    """Return the arguments of `SVNN` that build this network; the estimator's parameters may have changed since."""
    if type(module) is not SVNN:
        raise ValueError(f"module_ is a {type(module).__name__}, not the network that fit made; it cannot be stored.")
    layers = [int(layer.out_features) for layer in module.head if isinstance(layer, nn.Linear)]
    filters: Any = module.filters
    readout = module.readout
    return {
        "in_features": int(filters[0].in_features),
        "out_features": layers[-1],
        "hidden": [int(layer.out_features) for layer in filters],
        "order": int(module.order),
        "activation": next(name for name, kind in ACTIVATIONS.items() if type(module.activation) is kind),
        "dropout": float(module.dropout.p),
        "batch_norm": not isinstance(module.norms[0], nn.Identity),
        "readout": readout.kind,
        "heads": len(readout.weight) if readout.kind == "weighted" else 1,
        "n_nodes": n_nodes,
        "mlp": layers[:-1],
        "node_dropout": float(readout.node_dropout.p),
    }


def _get_module(estimator: CovarianceNetwork, tensors: dict[str, Tensor], stored: Json, prefix: str) -> SVNN:
    """Build the network without memory, compare it with the tensors of the file, and then give them to it."""
    n_outputs = estimator._targets.n_outputs
    weights = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
    with torch.device("meta"):
        if "hidden" in stored:
            _must(len(stored["hidden"]) + len(stored["mlp"]) <= len(weights), "number of layers")
            _must(stored["out_features"] == n_outputs and stored["n_nodes"] == estimator.n_features_in_, "module")
            module = SVNN(**stored)
        else:  # files written before the architecture was
            module = estimator._build(stored["in_features"], n_outputs)
    expected = module.state_dict()
    for key, value in expected.items():
        same = value.shape == weights[key].shape and value.is_floating_point() == weights[key].is_floating_point()
        _must(same, f"module.{key}")
    module.load_state_dict(weights, assign=True)
    return module.eval()


def _get_members(
    estimator: CovarianceNetwork, networks: list[SVNN], tensors: dict[str, Tensor], weighed: bool
) -> Members:
    """Return the members with their weights, and with the linear model where there is one."""
    linear = None
    if "module.linear_weight" in tensors:
        linear = tensors["module.linear_weight"], tensors["module.linear_bias"]
        n_inputs, n_outputs = estimator.n_features_in_ * estimator._n_values, estimator._targets.n_outputs
        _must(linear[0].shape == (n_outputs, n_inputs) and linear[1].shape == (n_outputs,), "linear")
        _must(all(part.dtype == torch.float64 and bool(part.isfinite().all()) for part in linear), "linear")
    _must((linear is not None) == ("linear" in estimator.blend_), "blend")
    if not weighed:  # by an older version
        tensors["module.weights"] = Members(networks).weights
    weights = tensors["module.weights"]
    _must(weights.dtype == torch.float64 and weights.ndim == 1 and _is_shared(weights.tolist()), "weights")
    return Members(networks, weights.tolist(), linear)


def _put_operator(operator: CovarianceOperator, key: str, tensors: dict[str, Tensor]) -> Json:
    """Return JSON for an operator; its tensors go to ``tensors``, those of each part of a sum under a number."""
    stored = {k: getattr(operator, k) for k in ("backend", "scale", "adaptive")}
    if isinstance(operator, SumOperator):
        parts = enumerate(operator.parts)
        return {**stored, "parts": [_put_operator(part, f"{key}.{i}", tensors) for i, part in parts]}
    for i, values in enumerate(operator._tensors()):
        tensors[f"{key}.{i}"] = values
    return stored


def _get_operator(
    tensors: dict[str, Tensor], key: str, stored: Json, n: int, device: torch.device
) -> CovarianceOperator:
    backend, scale, adaptive = stored["backend"], stored["scale"], stored.get("adaptive", False)
    _must(scale is None or (isinstance(scale, float) and 0 < scale < math.inf), "scale of the operator")
    _must(isinstance(adaptive, bool), "operator")
    operator: CovarianceOperator
    if backend == SumOperator.backend:
        places = enumerate(stored["parts"])
        _must(all(part["backend"] in _OPERATORS for part in stored["parts"]), "operator")  # no sums of sums
        operator = SumOperator([_get_operator(tensors, f"{key}.{i}", part, n, device) for i, part in places])
    else:
        operator = _get_single(tensors, key, backend, n, device)
    operator.scale, operator.adaptive = scale, adaptive
    return operator


def _get_single(tensors: dict[str, Tensor], key: str, backend: str, n: int, device: torch.device) -> CovarianceOperator:
    parts = [tensors[name] for name in sorted(tensors) if name.startswith(f"{key}.")]
    _must(all(part.is_floating_point() for part in (parts[:1] if backend == "csr" else parts)), "operator")
    _must(backend != "csr" or not any(part.is_floating_point() for part in parts[1:]), "operator")
    shapes = {"dense": [(n, n)], "csr": [parts[0].shape, parts[0].shape, (n + 1,)]}
    shapes["lowrank"] = [(n, *parts[0].shape[1:]), parts[0].shape[1:]]
    _must([tuple(part.shape) for part in parts] == shapes[backend], "shape of the operator")
    return _OPERATORS[backend](*(part.to(device) for part in parts))


# -- smaller parts ------------------------------------------------------------------------------------------


def _get_noise(stored: Any, tensors: dict[str, Tensor], n_outputs: int) -> Noise:
    if not isinstance(stored, list):  # in older files a standard deviation for each output
        noise: np.ndarray = decode(stored, tensors)
        _must(noise.shape == (n_outputs,) and noise.dtype == np.float64, "noise")
        _must(bool(np.isfinite(noise).all() and (noise >= 0).all()), "noise")
        return Noise.constant(noise)
    found = Noise(*(decode(part, tensors) for part in stored))
    _must([part.shape for part in found] == [(n_outputs, 4), (n_outputs, 2), (n_outputs, 2)], "noise")
    _must(all(part.dtype == np.float64 and bool(np.isfinite(part).all()) for part in found), "noise")
    return found


def _is_shared(weights: Iterable[float]) -> bool:
    """Say whether weights are what parts may count: none negative, 1 in all."""
    found = list(weights)
    return all(weight >= 0 for weight in found) and math.isclose(sum(found), 1, rel_tol=1e-9)


def _get_targets(kind: type, tensors: dict[str, Tensor], header: Json) -> Targets:
    if issubclass(kind, SVNNClassifier):
        classes = decode_labels(header["classes"])
        return LabelTargets(classes, len(classes))
    shape = tuple(_whole(size, "target_shape") for size in header["target_shape"])
    _must(len(shape) < 2, "target_shape")
    n_outputs = math.prod(shape)
    return NumberTargets(shape, n_outputs, _get_standardizer(tensors, "target", (n_outputs,)))


def _put_standardizer(tensors: dict[str, Tensor], key: str, standardizer: Standardizer) -> None:
    tensors[f"{key}.mean"] = torch.as_tensor(standardizer.mean)
    tensors[f"{key}.scale"] = torch.as_tensor(standardizer.scale)


def _get_standardizer(tensors: dict[str, Tensor], key: str, shape: tuple[int, ...]) -> Standardizer:
    mean, scale = tensors[f"{key}.mean"], tensors[f"{key}.scale"]
    for part in (mean, scale):
        _must(part.shape in ((), shape) and part.is_floating_point() and bool(part.isfinite().all()), key)
    return Standardizer(mean.numpy(), scale.numpy())


def _whole(value: int, name: str) -> int:
    _must(is_allowed(value, (int,), low=1), name)
    return value


def _must(fine: bool, name: str) -> None:
    if not fine:
        raise ValueError(f"its {name} is not what svnn writes")
