"""What tells a fit from others: digests of its parameters, its data, and the weights that it starts from.

They are the same in every process: a function counts by its name, its code and the values that it uses, not by where it
lies in memory.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from svnn.estimators._stored_values import encode
from svnn.estimators._training_data import Rows, TrainingData

#: Parameters that do not change what is learned.
_FREE = ("callbacks", "verbose", "checkpoint", "checkpoint_seconds", "cache_bytes")
_DATA, _WEIGHTS, _CLASS = "the data", "the first weights", "the class of the estimator"
#: Values of a module that a function may use and nobody changes meanwhile.
_CONSTANTS = (int, float, complex, str, tuple, np.ndarray)
_NOTHING = Rows(np.zeros(0), np.zeros(0), np.zeros(0))


def fingerprint(
    name: str, params: Mapping[str, object], data: TrainingData, networks: Sequence[nn.Module]
) -> dict[str, str]:
    """Return a digest of each parameter, of the data, and of the first weights."""
    found = {_CLASS: _digest(name, {})}
    for key, value in params.items():
        if key not in _FREE:
            tensors: dict[str, Tensor] = {}
            found[key] = _digest(_described(value, key, tensors, {}), tensors)
    arrays: dict[str, np.ndarray] = {f"fold.{i}": fold for i, fold in enumerate(data.folds or [])}
    for i, rows in enumerate((data.training, data.held_out or _NOTHING)):
        arrays |= {f"{i}.signals": rows.signals, f"{i}.targets": rows.targets, f"{i}.weight": rows.weight}
        if rows.matrices is not None:
            arrays |= {f"{i}.matrices": rows.matrices.matrices, f"{i}.index": rows.matrices.index}
    found[_DATA] = _digest(None, {key: torch.as_tensor(np.ascontiguousarray(each)) for key, each in arrays.items()})
    states = [(i, network.state_dict()) for i, network in enumerate(networks)]
    found[_WEIGHTS] = _digest(None, {f"{i}.{key}": value for i, state in states for key, value in state.items()})
    return found


def differences(there: object, here: Mapping[str, str]) -> str:
    """Say in what another fit differs from this one.

    Examples
    --------
    >>> differences({"lr": "1", "order": "2", "the data": "3"}, {"lr": "1", "order": "4", "the data": "5"})
    'what differs: order'
    """
    if not isinstance(there, dict) or there.keys() != here.keys():
        return "another version of svnn wrote it"
    other = [key for key, value in here.items() if there[key] != value]
    # Other parameters lead to other weights, and to rows that are scaled or split in another way.
    parameters = [key for key in other if key not in (_DATA, _WEIGHTS)]
    return f"what differs: {', '.join(parameters or other[:1])}"


def _digest(described: Any, tensors: Mapping[str, Tensor]) -> str:
    found = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for key in sorted(tensors):
        values = tensors[key].detach().cpu().numpy()
        found.update(f"{key} {values.dtype} {values.shape}".encode())
        found.update(np.ascontiguousarray(values).data)
    return found.hexdigest()


def _described(value: Any, key: str, tensors: dict[str, Tensor], seen: dict[int, Any]) -> Any:
    """Return JSON that is the same for equal values, also for such as no file of svnn can bring back.

    ``seen`` gets the objects that have been described, by identity, so that one that holds itself comes to an end.
    """
    with suppress(ValueError):
        return encode(value, key, tensors)
    if id(value) in seen:
        return f"object {list(seen).index(id(value))} again"
    seen[id(value)] = value

    def inside(parts: Any) -> Any:
        if isinstance(parts, Mapping):
            return {str(name): _described(part, f"{key}.{name}", tensors, seen) for name, part in parts.items()}
        return [_described(part, f"{key}.{i}", tensors, seen) for i, part in enumerate(parts)]

    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, (Mapping, list, tuple)):
        return [kind, inside(value)]
    if isinstance(value, (set, frozenset)):  # in an order that follows from what is in it
        return [kind, sorted(json.dumps(_described(part, key, {}, {})) for part in value)]
    if isinstance(value, np.ndarray):
        return [kind, str(value.dtype), inside(value.tolist())]
    if isinstance(value, FunctionType):
        names = value.__code__.co_freevars
        cells = {name: _held(cell) for name, cell in zip(names, value.__closure__ or (), strict=True)}
        used = [value.__defaults__, value.__kwdefaults__, cells, _constants(value.__code__, value.__globals__)]
        return [kind, value.__module__, value.__qualname__, _code(value.__code__), inside(used)]
    if isinstance(value, MethodType):
        return [kind, inside([value.__self__, value.__func__])]
    if isinstance(value, partial):
        return [kind, inside([value.func, value.args, value.keywords])]
    if hasattr(value, "__qualname__"):  # a class, or a function that is not Python's
        return [
            kind,
            getattr(value, "__module__", ""),
            value.__qualname__,
            inside([getattr(value, "__wrapped__", None)]),
        ]
    if hasattr(value, "get_params"):
        return [kind, inside(value.get_params(deep=False))]
    if state := value.__getstate__():  # its attributes, also those of slots
        return [kind, inside([state])]
    return [kind, re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))]


def _held(cell: CellType) -> Any:
    """Return what a variable of a function around holds, which may be nothing."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _constants(code: CodeType, module: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constants of its module that a piece of code uses."""
    found = {name: module[name] for name in code.co_names if isinstance(module.get(name), _CONSTANTS)}
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= _constants(inner, module)
    return found


def _code(code: CodeType) -> list[Any]:
    """Return what a piece of code does, without where it stands."""
    constants = [_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), constants]
