"""Fitted estimators on disk: one safetensors file with a JSON header; never pickle.

The tensors hold the networks' weights, the operator, the covariance and the units; the header holds the parameters, the
architecture, the labels, the covariance estimator and a checksum. A blend holds its parts in the same way.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from svnn._parameters import check_parameters, is_allowed
from svnn.estimators import _stored_values as codec
from svnn.estimators._base import BaseSVNN, Fitted
from svnn.estimators._blend import BlendClassifier, BlendRegressor
from svnn.estimators._blend_parts import BlendFitted
from svnn.estimators._classifier import SVNNClassifier
from svnn.estimators._history import History
from svnn.estimators._linear import LinearClassifier, LinearFitted, LinearRegressor
from svnn.estimators._members import build_svnn, filter_order
from svnn.estimators._model_file import Json, ModelFileError, PathLike, given_path, read_model, write_model
from svnn.estimators._per_sample import PerSample
from svnn.estimators._regressor import SVNNRegressor
from svnn.estimators._shift import Shift
from svnn.estimators.training import pick_device, plain_torch
from svnn.nn import SVNN, Members
from svnn.nn._layers import ACTIVATIONS

Model = SVNNRegressor | SVNNClassifier | BlendRegressor | BlendClassifier
#: The classes that a file may name; ``load`` adds to them those that its caller gives, and no others.
_OURS: tuple[type, ...] = (
    SVNNRegressor,
    SVNNClassifier,
    BlendRegressor,
    BlendClassifier,
    LinearRegressor,
    LinearClassifier,
)
_CLASSES = {each.__name__: each for each in _OURS}
_USER = "subclass:"
_NOT_STORED = ("callbacks", "parts")
#: The errors that a header can lead to when svnn did not write its values; a RecursionError is a RuntimeError.
_NONSENSE = (LookupError, TypeError, ValueError, AttributeError, AssertionError, ArithmeticError, RuntimeError)
_MOST_LAYERS, _MOST_PARTS = 1000, 1000
#: What ``fit`` sets, and this file stores in its own way.
_FITTED = {"fitted_", "shift_", "n_features_in_", "feature_names_in_"}


@plain_torch()
def save(model: Any, path: PathLike) -> None:
    """Write a fitted estimator to ``path``; see :meth:`SVNNRegressor.save`."""
    check_is_fitted(model)
    tensors: dict[str, Tensor] = {}
    write_model(path, tensors, _put(model, "", tensors))


@plain_torch()
def load(path: PathLike, device: str = "auto", *, classes: Iterable[type] = ()) -> Model:
    """Read an estimator written by ``save``.

    Parameters
    ----------
    path : str or Path
    device : str, default="auto"
        Where to put the network.
    classes : sequence of classes, optional
        Your own subclasses of svnn's estimators that the file may hold. A file names its class, but never brings its
        code: one that is neither svnn's nor in this list is not loaded.

    Returns
    -------
    SVNNRegressor, SVNNClassifier, BlendRegressor or BlendClassifier, fitted
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
        if not (isinstance(each, type) and issubclass(each, _OURS)):
            raise ValueError(f"classes must be subclasses of svnn's estimators, got {each!r}.")
        known[_class_name(each)] = each
    target, place = pick_device(device), given_path(path)
    with torch.no_grad():
        tensors, header = read_model(place)
        names = [header.get("class"), *(part.get("class") for part in _parts_of(header))]
        for name in map(str, names):
            if name not in known:
                raise ModelFileError(
                    f"{place} holds a model of the class {name.removeprefix(_USER)}, which is not svnn's; to load a "
                    "subclass of your own, give it in classes=."
                )
        try:
            found: Model = _get(header, "", tensors, known, target)
        except _NONSENSE as error:
            why = str(error).partition("\n")[0]
            raise ModelFileError(f"{place} is damaged: {type(error).__name__}: {why}") from error
    return found


# -- any estimator ------------------------------------------------------------------------------------------


def _put(model: Any, key: str, tensors: dict[str, Tensor]) -> Json:
    """Return JSON for a fitted estimator; names of its tensors begin with ``key``."""
    check_parameters(model)
    params = {k: v for k, v in model.get_params(deep=False).items() if k not in _NOT_STORED}
    header: Json = {
        "class": _class_name(type(model)),
        "params": {k: codec.encode(v, f"{key}params.{k}", tensors) for k, v in params.items()},
        "n_features_in": model.n_features_in_,
        "feature_names_in": getattr(model, "feature_names_in_", np.array([])).tolist(),
    }
    if type(model) not in _OURS:
        own = {k: v for k, v in vars(model).items() if k not in _FITTED and k not in model.get_params(deep=False)}
        header["attributes"] = {k: codec.encode(v, f"{key}attributes.{k}", tensors) for k, v in own.items()}
    if isinstance(model, BaseSVNN):
        return {**header, **_put_network(model, key, tensors)}
    if isinstance(model, (BlendRegressor, BlendClassifier)):
        return {**header, **_put_blend(model, key, tensors)}
    return {**header, **_put_linear(model, key, tensors)}


def _get(stored: Json, key: str, tensors: dict[str, Tensor], known: dict[str, type], device: torch.device) -> Any:
    """Return the estimator that :func:`_put` was given; one of Python's plain errors where it wrote something else."""
    kind = known[stored["class"]]
    params = {k: codec.decode(v, tensors) for k, v in stored["params"].items()}
    if issubclass(kind, (BlendRegressor, BlendClassifier)):
        params["parts"] = _get_unfitted(stored["unfitted"], tensors, known)
    model = kind(**params)
    names = set(inspect.signature(next(each for each in kind.__mro__ if each in _OURS)).parameters)
    for name, value in stored.get("attributes", {}).items():
        # A subclass with an ``__init__`` of its own may set parameters of ours that are not parameters of its own.
        free = name in names or not hasattr(kind, name)
        codec.must(free and name not in _FITTED, f"attribute {name}")
        setattr(model, name, codec.decode(value, tensors))
    check_parameters(model)
    n = model.n_features_in_ = codec.whole(stored["n_features_in"], "n_features_in")
    features = stored["feature_names_in"]
    codec.must(isinstance(features, list) and all(isinstance(name, str) for name in features), "feature_names_in")
    if features:
        codec.must(len(features) == n, "feature_names_in")
        model.feature_names_in_ = np.array(features, dtype=object)
    if isinstance(model, BaseSVNN):
        _get_network(model, stored, key, tensors, device)
    elif isinstance(model, (BlendRegressor, BlendClassifier)):
        _get_blend(model, stored, key, tensors, known, device)
    else:
        _get_linear(model, stored, key, tensors)
    return model


def _class_name(kind: type) -> str:
    """Return the name of a class in a file: those of users cannot be taken for svnn's, whatever they are called."""
    return kind.__name__ if kind in _OURS else _USER + kind.__name__


# -- S-VNNs -------------------------------------------------------------------------------------------------


def _put_network(model: BaseSVNN, key: str, tensors: dict[str, Tensor]) -> Json:
    fitted, shift = model.fitted_, model.shift_
    _check_layers(model)
    codec.encode_standardizer(tensors, f"{key}standardizer", fitted.standardizer)
    tensors |= {f"{key}module.{name}": value for name, value in fitted.module.state_dict().items()}
    per = shift.per_sample
    return {
        **codec.encode_targets(fitted.targets, key, tensors),
        "module": _architecture(fitted.networks[0], model.n_features_in_),
        "members": len(fitted.networks),
        "standardize": fitted.standardize,
        "history": fitted.history,
        "unseen": list(fitted.unseen),
        "out_of_fold": codec.encode(fitted.out_of_fold, f"{key}out_of_fold", tensors),
        "noise": codec.encode(fitted.noise, f"{key}noise", tensors),
        "shift": {
            "covariance": codec.encode(shift.covariance, f"{key}covariance", tensors),
            "estimator": codec.encode_fitted(shift.estimator, f"{key}covariance_estimator", tensors),
            "operator": codec.encode_operator(shift.operator, f"{key}operator", tensors),
            "scale": shift.scale,
            "use": shift.use,
            "is_given": shift.is_given,
            "per": None if per is None else per.per,
            "seed": None if per is None else per.seed,
            "of": None if per is None or per.per == "given" else codec.encode(per.covariance, f"{key}per", tensors),
        },
    }


def _get_network(model: BaseSVNN, stored: Json, key: str, tensors: dict[str, Tensor], device: torch.device) -> None:
    n, n_values = model.n_features_in_, codec.whole(stored["module"]["in_features"], "in_features")
    standardizer = codec.decode_standardizer(tensors, f"{key}standardizer", (n, n_values))
    targets = codec.decode_targets(stored, key, tensors, isinstance(model, SVNNClassifier))
    n_members = codec.whole(stored["members"], "members")
    codec.must(n_members <= len(tensors), "members")
    prefixes = [f"{key}module."] if n_members == 1 else [f"{key}module.members.{i}." for i in range(n_members)]
    networks = [_get_module(tensors, stored["module"], prefix, n, targets.n_outputs) for prefix in prefixes]
    module: SVNN | Members = networks[0] if n_members == 1 else Members(networks)
    written = {name for name in tensors if name.startswith(f"{key}module.")}
    codec.must(written == {f"{key}module.{name}" for name in module.state_dict()}, "members")
    history = History(stored["history"])
    codec.must(all(isinstance(value, (int, float)) for values in history.values() for value in values), "history")
    codec.must(isinstance(history["train_loss"], list), "history")
    unseen = stored["unseen"]
    codec.must(
        isinstance(unseen, list) and all(is_allowed(k, (int,), 0, targets.n_outputs - 1) for k in unseen), "unseen"
    )
    codec.must(isinstance(stored["standardize"], bool), "standardize")
    model.fitted_ = Fitted(
        module.to(device).eval(),
        standardizer,
        targets,
        n_values,
        stored["standardize"],
        history,
        codec.decode_out_of_fold(stored["out_of_fold"], tensors, targets),
        codec.decode_noise(stored["noise"], tensors, targets.n_outputs),
        tuple(unseen),
    )
    model.shift_ = _get_shift(stored["shift"], key, tensors, n, device)
    _check_layers(model)


def _check_layers(model: Any) -> None:
    """Raise what ``fit`` would raise for the layers of a network, before they are written, and when they were read."""
    if len(model.hidden) + len(model.mlp) > _MOST_LAYERS:
        raise ValueError(f"hidden and mlp name more than {_MOST_LAYERS} layers, which no model file may.")
    shape = SimpleNamespace(n_values=1, n_nodes=model.n_features_in_, targets=model.fitted_.targets)
    with torch.device("meta"):  # takes no memory, whatever the sizes
        build_svnn(model, shape, filter_order(model, model.shift_.use))


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


def _get_module(tensors: dict[str, Tensor], stored: Json, prefix: str, n_nodes: int, n_outputs: int) -> SVNN:
    """Build the network without memory, compare it with the tensors of the file, and then give them to it."""
    weights = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
    codec.must(len(stored["hidden"]) + len(stored["mlp"]) <= len(weights), "number of layers")
    codec.must(stored["out_features"] == n_outputs and stored["n_nodes"] == n_nodes, "module")
    with torch.device("meta"):
        module = SVNN(**stored)
    for name, value in module.state_dict().items():
        same = value.shape == weights[name].shape and value.is_floating_point() == weights[name].is_floating_point()
        codec.must(same, f"module.{name}")
    module.load_state_dict(weights, assign=True)
    return module.eval()


def _get_shift(stored: Json, key: str, tensors: dict[str, Tensor], n: int, device: torch.device) -> Shift:
    covariance, scale, per = codec.decode(stored["covariance"], tensors), stored["scale"], stored["per"]
    codec.must(covariance.shape == (n, n) and covariance.dtype.kind in "biuf", "covariance")
    codec.must(isinstance(scale, float) and 0 < scale < math.inf, "scale")
    codec.must(stored["use"] in ("covariance", "precision", "log") and isinstance(stored["is_given"], bool), "use")
    codec.must(per in (None, "sample", "group", "given"), "per")
    per_sample = None
    if per is not None:
        codec.must(is_allowed(stored["seed"], (int,), low=0), "seed")
        per_sample = PerSample(per, codec.decode(stored["of"], tensors), stored["seed"])
    return Shift(
        codec.decode_operator(tensors, f"{key}operator", stored["operator"], n, device),
        covariance,
        scale,
        stored["use"],
        codec.decode_fitted(stored["estimator"], covariance, tensors),
        per_sample,
        stored["is_given"],
    )


# -- linear models and blends -------------------------------------------------------------------------------


def _put_linear(model: Any, key: str, tensors: dict[str, Tensor]) -> Json:
    fitted: LinearFitted = model.fitted_
    values = {name: getattr(fitted, name) for name in ("weight", "bias", "gram")}
    codec.encode_standardizer(tensors, f"{key}standardizer", fitted.standardizer)
    return {
        **codec.encode_targets(fitted.targets, key, tensors),
        "n_values": fitted.n_values,
        "unseen": list(fitted.unseen),
        "out_of_fold": codec.encode(model.out_of_fold_, f"{key}out_of_fold", tensors),
        "linear": {name: codec.encode(value, f"{key}{name}", tensors) for name, value in values.items()},
    }


def _get_linear(model: Any, stored: Json, key: str, tensors: dict[str, Tensor]) -> None:
    n, n_values = model.n_features_in_, codec.whole(stored["n_values"], "n_values")
    standardizer = codec.decode_standardizer(tensors, f"{key}standardizer", (n, n_values))
    targets = codec.decode_targets(stored, key, tensors, isinstance(model, LinearClassifier))
    values = {name: codec.decode(stored["linear"][name], tensors) for name in ("weight", "bias", "gram")}
    size, n_outputs = n * n_values, targets.n_outputs
    shapes = {"weight": (n_outputs, size), "bias": (n_outputs,), "gram": (size + 1, size + 1)}
    for name, shape in shapes.items():
        found = values[name]
        fine = found is not None and found.shape == shape and found.dtype == np.float64 and np.isfinite(found).all()
        codec.must(bool(fine) or (name == "gram" and found is None), name)
    unseen = stored["unseen"]
    codec.must(all(is_allowed(k, (int,), 0, n_outputs - 1) for k in unseen), "unseen")
    model.fitted_ = LinearFitted(
        values["weight"], values["bias"], standardizer, targets, n_values, values["gram"], tuple(unseen)
    )
    model.out_of_fold_ = codec.decode_out_of_fold(stored["out_of_fold"], tensors, targets)


def _put_blend(model: Any, key: str, tensors: dict[str, Tensor]) -> Json:
    for name, part in model.parts_.items():
        if not isinstance(part, _OURS):
            raise ValueError(
                f"the part {name!r} is a {type(part).__name__}, which a model file cannot hold without pickle; leave "
                "it out of parts, or keep the model in memory."
            )
    return {
        "names": list(model.parts_),
        "parts": [_put(part, f"{key}part {i}.", tensors) for i, part in enumerate(model.parts_.values())],
        "blend": model.blend_,
        **codec.encode_targets(model.fitted_.targets, key, tensors),
        "noise": codec.encode(model.fitted_.noise, f"{key}noise", tensors),
        "out_of_fold": codec.encode(model.out_of_fold_, f"{key}out_of_fold", tensors),
        "unfitted": _put_unfitted(model.parts, f"{key}parts", tensors),
    }


def _get_blend(
    model: Any, stored: Json, key: str, tensors: dict[str, Tensor], known: dict[str, type], device: torch.device
) -> None:
    names, parts, blend = stored["names"], _parts_of(stored), stored["blend"]
    codec.must(isinstance(names, list) and all(isinstance(name, str) for name in names), "names of the parts")
    codec.must(0 < len(parts) == len(names) == len(set(names)) and list(blend) == names, "parts")
    codec.must(all(isinstance(w, float) and w >= 0 for w in blend.values()), "blend")
    codec.must(math.isclose(sum(blend.values()), 1, rel_tol=1e-9), "blend")
    found = [_get(part, f"{key}part {i}.", tensors, known, device) for i, part in enumerate(parts)]
    codec.must(all(each.n_features_in_ == model.n_features_in_ for each in found), "parts")
    are_labels = isinstance(model, BlendClassifier)
    targets = codec.decode_targets(stored, key, tensors, are_labels)
    if are_labels:
        codec.must(all(np.array_equal(each.classes_, targets.classes) for each in found), "classes of the parts")
    else:
        codec.must(all(each.fitted_.targets.shape == targets.shape for each in found), "parts")
    model.fitted_ = BlendFitted(
        dict(zip(names, found, strict=True)),
        blend,
        targets,
        codec.decode_out_of_fold(stored["out_of_fold"], tensors, targets),
        codec.decode_noise(stored["noise"], tensors, targets.n_outputs),
    )


def _parts_of(stored: Json) -> list[Json]:
    """Return the headers of the parts of a blend, none of them a blend and not too many; [] for others."""
    parts = stored.get("parts", [])
    plain = isinstance(parts, list) and len(parts) <= _MOST_PARTS
    return parts if plain and all(isinstance(part, dict) and "parts" not in part for part in parts) else []


def _put_unfitted(parts: Any, key: str, tensors: dict[str, Tensor]) -> Any:
    """Return JSON for the parameter ``parts``: "auto", an estimator, or a list of names and estimators."""
    if isinstance(parts, str):
        return parts
    if isinstance(parts, (list, tuple)):
        return [[name, _put_unfitted(part, f"{key}.{i}", tensors)] for i, (name, part) in enumerate(parts)]
    params = {k: v for k, v in parts.get_params(deep=False).items() if k not in _NOT_STORED}
    stored = {k: codec.encode(v, f"{key}.{k}", tensors) for k, v in params.items()}
    return {"class": _class_name(type(parts)), "params": stored}


def _get_unfitted(stored: Any, tensors: dict[str, Tensor], known: dict[str, type]) -> Any:
    if isinstance(stored, str):
        codec.must(stored == "auto", "parts")
        return stored
    if isinstance(stored, list):
        return [(str(name), _get_unfitted(part, tensors, known)) for name, part in stored]
    return known[stored["class"]](**{k: codec.decode(v, tensors) for k, v in stored["params"].items()})
