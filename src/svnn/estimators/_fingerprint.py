"""The identity of a fit: digests of its parameters, its data, and its first weights.

They are the same in every process: a function is described by its name, its code and the values that it uses, not by
its address.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from numbers import Integral
from types import CellType, CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from svnn.estimators._stored_values import encode

if TYPE_CHECKING:
    from svnn.estimators._data import Data

#: Parameters that do not change what is learned.
_FREE = ("callbacks", "verbose")
_DATA, _WEIGHTS, _CLASS = "the data", "the first weights", "the class of the estimator"
#: Types of a module's values that count as constants of its functions.
_CONSTANTS = (int, float, complex, str, tuple, np.ndarray)


def fingerprint(model: Any, data: Data, networks: Sequence[nn.Module]) -> dict[str, str]:
    """Return digests of the class of a model, of each parameter, of the data, and of the networks' first weights.

    A ``ValueError`` where ``random_state`` is no integer.
    """
    if not isinstance(model.random_state, Integral):
        raise ValueError(
            f"callbacks=[Checkpoint(...)] needs an integer as random_state, got {model.random_state!r}: a fit that "
            "resumes has to split the rows and draw the weights as before."
        )
    found = {_CLASS: _digest(type(model).__name__, {})}
    for key, value in model.get_params(deep=False).items():
        if key not in _FREE:
            tensors: dict[str, Tensor] = {}
            found[key] = _digest(_described(value, key, tensors, {}), tensors)
    arrays: dict[str, np.ndarray] = {f"fold.{i}": fold for i, fold in enumerate(data.folds)}
    for name, rows in (("training", data.training), ("held out", data.held_out)):
        if rows is not None:
            arrays |= {f"{name}.{part}": getattr(rows, part) for part in ("signals", "targets", "weight")}
            if rows.matrices is not None:
                arrays |= {f"{name}.matrices": rows.matrices.matrices, f"{name}.index": rows.matrices.index}
    found[_DATA] = _digest(None, {key: torch.as_tensor(np.ascontiguousarray(each)) for key, each in arrays.items()})
    states = [(i, network.state_dict()) for i, network in enumerate(networks)]
    found[_WEIGHTS] = _digest(None, {f"{i}.{key}": value for i, state in states for key, value in state.items()})
    return found


def differences(there: object, here: Mapping[str, str]) -> str:
    """Return a text that names how another fit differs from this one.

    Examples
    --------
    >>> differences({"lr": "1", "order": "2", "the data": "3"}, {"lr": "1", "order": "4", "the data": "5"})
    'what differs: order'
    """
    if not isinstance(there, dict) or there.keys() != here.keys():
        return "another version of svnn wrote it"
    other = [key for key, value in here.items() if there[key] != value]
    # Parameters also change the weights, and how rows are scaled and split.
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
    """Return JSON that is the same for equal values, also for those that a model file cannot store.

    ``seen`` collects the objects described so far by identity: one that contains itself ends the recursion.
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
    if isinstance(value, (set, frozenset)):  # sorted by content
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
    """Return the content of a closure's cell, None where it is empty."""
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
    """Return the instructions, names and constants of code, without its place in a file."""
    constants = [_code(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return [code.co_code.hex(), list(code.co_names), constants]
