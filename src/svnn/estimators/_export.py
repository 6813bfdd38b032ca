"""Fitted models as plain torch modules, and as files that need no svnn: ONNX for other runtimes, ``.pt2`` for torch.

All members of an S-VNN run as one network (:class:`svnn.nn._stacked.StackedNetworks`), with shifts that keep their
digits in single precision (:func:`svnn.nn._powers.plain_powers`). Parts of a blend without weight are left out.
"""

from __future__ import annotations

import copy
import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from svnn import __version__
from svnn.estimators._evaluate import networks_of
from svnn.estimators._model_file import PathLike, given_path, replacing
from svnn.nn._powers import Powers, plain_powers
from svnn.nn._stacked import StackedNetworks

SUFFIXES = (".onnx", ".pt2")
#: Bytes beyond which an ONNX file cannot hold its own weights.
_MOST_BYTES = 2**31 - 2**20


class PlainModel(nn.Module):
    """From X in its own units to predictions, or to probabilities of the classes.

    Subclasses give the outputs (members, t, n_outputs) for standardised signals (t, N, F). ``shift`` (t, N, N) are the
    matrices of rows that have their own; other models leave it alone, and their traced modules have no such input.
    """

    shape: tuple[int, int]
    mean: Tensor
    scale: Tensor
    target_mean: Tensor
    target_scale: Tensor

    def __init__(self, model: Any) -> None:
        super().__init__()
        fitted = model.fitted_
        self.shape = (int(model.n_features_in_), int(fitted.n_values))
        self.register_buffer("mean", _filled(fitted.standardizer.mean, self.shape))
        self.register_buffer("scale", _filled(fitted.standardizer.scale, self.shape))
        self.targets = fitted.targets
        if not self.targets.are_labels:
            units, outputs = self.targets.standardizer, (self.targets.n_outputs,)
            self.register_buffer("target_mean", _filled(units.mean, outputs))
            self.register_buffer("target_scale", _filled(units.scale, outputs))

    def outputs(self, z: Tensor, shift: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, X: Tensor, shift: Tensor) -> Tensor:
        n, n_values = self.shape
        wanted = f"(t, {n})" if n_values == 1 else f"(t, {n}, {n_values})"
        torch._assert(X.shape[1] == n, f"X must have shape {wanted}.")
        z = (X.to(self.mean).reshape(X.shape[0], n, n_values) - self.mean) / self.scale
        outputs = self.outputs(z, shift)
        if self.targets.are_labels:
            return outputs.softmax(-1).mean(0)
        found = outputs.mean(0) * self.target_scale + self.target_mean
        return found if self.targets.shape else found.flatten()


class PlainNetwork(PlainModel):
    """An S-VNN."""

    scale_of_shift: Tensor

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        shift, networks = model.shift_, networks_of(copy.deepcopy(model.fitted_.module).cpu())
        self.of_rows, order = shift.per_sample is not None, networks[0].order
        if self.of_rows:
            self.register_buffer("scale_of_shift", torch.tensor(shift.scale, dtype=torch.float64))
        powers = Powers(None, order) if self.of_rows else plain_powers(shift.operator, order, shift.covariance)
        self.network = StackedNetworks(networks, powers)

    def outputs(self, z: Tensor, shift: Tensor) -> Tensor:
        found: Tensor = self.network(z, shift.to(z) / self.scale_of_shift if self.of_rows else None)
        return found


class PlainLinear(PlainModel):
    """A linear model."""

    weight: Tensor
    bias: Tensor

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.register_buffer("weight", torch.tensor(model.fitted_.weight.T))
        self.register_buffer("bias", torch.tensor(model.fitted_.bias))

    def outputs(self, z: Tensor, shift: Tensor) -> Tensor:
        return (torch.matmul(z.flatten(1), self.weight) + self.bias)[None]


class PlainBlend(nn.Module):
    """The parts of a blend that count, averaged by their weights."""

    shape: tuple[int, int]
    weights: Tensor

    def __init__(self, model: Any) -> None:
        super().__init__()
        used = {name: weight for name, weight in model.blend_.items() if weight > 0}
        parts = []
        for name in used:
            part = model.parts_[name]
            if len(getattr(part, "classes_", ())) != len(getattr(model, "classes_", ())):
                raise ValueError(f"the part {name!r} does not know all classes; such a blend cannot be exported.")
            parts.append(plain_model(part, f"the part {name!r}"))
        self.parts, self.shape = nn.ModuleList(parts), parts[0].shape
        self.register_buffer("weights", torch.tensor(list(used.values()), dtype=torch.float64))

    def forward(self, X: Tensor, shift: Tensor) -> Tensor:
        return torch.tensordot(self.weights, torch.stack([part(X, shift) for part in self.parts]), 1)


def plain_model(model: Any, name: str = "the model") -> PlainModel | PlainBlend:
    """Return a fitted model as a module of plain operations in double precision; errors call it ``name``."""
    if hasattr(model, "parts_") and hasattr(model, "blend_"):
        return PlainBlend(model)
    if hasattr(model, "shift_"):
        return PlainNetwork(model)
    if hasattr(getattr(model, "fitted_", None), "weight"):
        return PlainLinear(model)
    raise ValueError(f"{name} is a {type(model).__name__}, which cannot be exported; leave it out of the blend.")


def plain_module(model: Any, dtype: torch.dtype = torch.float32) -> torch.fx.GraphModule:
    """Return a fitted estimator as a traced module of plain operations, in evaluation mode and in main memory."""
    return _traced(plain_model(model), dtype)


def _traced(plain: nn.Module, dtype: torch.dtype) -> torch.fx.GraphModule:
    if dtype not in (torch.float32, torch.float64):
        raise ValueError(f"dtype must be torch.float32 or torch.float64, got {dtype!r}.")
    with torch.no_grad():
        module = torch.fx.symbolic_trace(plain.double())
    for node in module.graph.nodes:
        node.type = None  # annotations, which are text here, cannot be pickled
        if node.op == "placeholder" and not node.users:
            module.graph.erase_node(node)
    module.recompile()
    return module.requires_grad_(False).to(dtype).eval()


def export(model: Any, path: PathLike, dtype: torch.dtype = torch.float32) -> None:
    """Write a fitted estimator to a file of one of ``SUFFIXES``; see :meth:`SVNNRegressor.export`."""
    target = given_path(path)
    if target.suffix not in SUFFIXES:
        raise ValueError(
            f"path must end in .onnx (ONNX) or .pt2 (torch.export), got {target.name!r}; "
            "model.save writes what svnn.load reads."
        )
    if target.suffix == ".onnx":
        _check_packages()
    plain = plain_model(model)
    module, (n, n_values) = _traced(plain, dtype), plain.shape
    shapes = {"X": (3, n) if n_values == 1 else (3, n, n_values), "shift": (3, n, n)}
    inputs = [node.target for node in module.graph.nodes if node.op == "placeholder"]
    examples = {name: torch.zeros(shapes[name], dtype=dtype) for name in inputs}
    with _quiet():
        content = (_onnx if target.suffix == ".onnx" else _pt2)(module, examples, model)
    with replacing(target) as file:
        file.write(content)


def described(model: Any) -> dict[str, str]:
    """Return what a file says about its model, all as text: lists are JSON."""
    found = {"svnn": __version__, "estimator": type(model).__name__}
    if hasattr(model, "feature_names_in_"):
        found["feature_names"] = json.dumps([str(name) for name in model.feature_names_in_])
    if hasattr(model, "classes_"):
        found["classes"] = json.dumps(_labels(model.classes_).tolist())
    return found


def _pt2(module: torch.fx.GraphModule, examples: dict[str, Tensor], model: Any) -> bytes:
    program = torch.export.export(module, tuple(examples.values()), dynamic_shapes=_any_rows(examples))
    file = io.BytesIO()
    torch.export.save(program, file, extra_files=described(model))
    return file.getvalue()


def _any_rows(examples: dict[str, Tensor]) -> tuple[dict[int, Any], ...]:
    """Return the shapes of inputs that share any number of rows."""
    batch = torch.export.Dim("batch")
    return tuple({0: batch} for _ in examples)


def _onnx(module: torch.fx.GraphModule, examples: dict[str, Tensor], model: Any) -> bytes:
    if sum(each.numel() * each.element_size() for each in module.buffers()) > _MOST_BYTES:
        raise ValueError("the model is larger than the 2 GB that an ONNX file can hold; export it to a .pt2 file.")
    classes = getattr(model, "classes_", None)
    if classes is not None:
        _add_place(module)
    program: Any = torch.onnx.export(
        module,
        tuple(examples.values()),
        dynamo=True,
        verbose=False,
        input_names=list(examples),
        output_names=["prediction"] if classes is None else ["probabilities", "place"],
        dynamic_shapes=_any_rows(examples),
    )
    proto = program.model_proto
    if classes is not None:
        _name_labels(proto.graph, _labels(classes))
    for name, text in described(model).items():
        proto.metadata_props.add(key=name, value=text)
    content: bytes = proto.SerializeToString()
    return content


def _add_place(module: torch.fx.GraphModule) -> None:
    """Let a module of probabilities also return the place of the largest of them."""
    output: Any = next(iter(reversed(module.graph.nodes)))
    with module.graph.inserting_before(output):
        place = module.graph.call_method("argmax", (output.args[0], 1))
    output.args = ((output.args[0], place),)
    module.recompile()


def _name_labels(graph: Any, classes: np.ndarray) -> None:
    """Let a graph return the label itself in place of its place among the classes."""
    from onnx import helper, numpy_helper

    values = classes.astype(object) if classes.dtype.kind == "U" else classes
    graph.initializer.append(numpy_helper.from_array(values, "classes"))
    graph.node.append(helper.make_node("Gather", ["classes", "place"], ["label"]))
    batch = graph.output[1].type.tensor_type.shape.dim[0].dim_param
    kind = graph.initializer[-1].data_type
    graph.output[1].CopyFrom(helper.make_tensor_value_info("label", kind, [batch]))


def _labels(classes: np.ndarray) -> np.ndarray:
    """Return labels of a type that ONNX knows: numbers and truth values as they are, others as their text."""
    if classes.dtype.kind in "iu":
        return classes.astype(np.int64)
    return classes if classes.dtype.kind in "bf" else classes.astype(str)


def _check_packages() -> None:
    try:
        import onnx as onnx
        import onnxscript as onnxscript
    except ImportError as error:
        raise ImportError('export to ONNX needs onnx and onnxscript: pip install "svnn[export]".') from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what torch's exporters say about packages that are not needed here."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _filled(values: np.ndarray, shape: tuple[int, ...]) -> Tensor:
    """Return a copy of an array, or of a single number, in a shape."""
    return torch.tensor(np.broadcast_to(np.asarray(values, dtype=np.float64), shape).copy())
