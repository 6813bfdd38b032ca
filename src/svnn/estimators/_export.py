"""Fitted models as files that need no svnn: ONNX for other runtimes, ``.pt2`` for torch."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from svnn import __version__
from svnn.estimators._model_file import PathLike, given_path, replacing
from svnn.estimators._plain_network import plain_network

if TYPE_CHECKING:
    from svnn.estimators._covariance_network import CovarianceNetwork

SUFFIXES = (".onnx", ".pt2")
#: Bytes beyond which an ONNX file cannot hold its own weights.
_MOST_BYTES = 2**31 - 2**20


def export(model: CovarianceNetwork, path: PathLike, dtype: torch.dtype = torch.float32) -> None:
    """Write a fitted estimator to a file of one of ``SUFFIXES``; see :meth:`SVNNRegressor.export`."""
    target = given_path(path)
    if target.suffix not in SUFFIXES:
        raise ValueError(
            f"path must end in .onnx (ONNX) or .pt2 (torch.export), got {target.name!r}; "
            "model.save writes what svnn.load reads."
        )
    if target.suffix == ".onnx":
        _needed_packages()
    module = plain_network(model, dtype)
    n_values = int(model._n_values)
    shape = (3, model.n_features_in_) if n_values == 1 else (3, model.n_features_in_, n_values)
    examples = {"X": torch.zeros(shape, dtype=dtype)}
    if model._per != "table":  # rows come with matrices of their own
        examples["shift"] = torch.zeros(3, model.n_features_in_, model.n_features_in_, dtype=dtype)
    with _quiet():
        content = (_onnx if target.suffix == ".onnx" else _pt2)(module, examples, model)
    with replacing(target) as file:
        file.write(content)


def described(model: CovarianceNetwork) -> dict[str, str]:
    """Return what a file says about its model, all as text: lists are JSON."""
    found = {"svnn": __version__, "estimator": type(model).__name__}
    if hasattr(model, "feature_names_in_"):
        found["feature_names"] = json.dumps([str(name) for name in model.feature_names_in_])
    if hasattr(model, "classes_"):
        found["classes"] = json.dumps(_labels(model.classes_).tolist())
    return found


def _pt2(module: nn.Module, examples: dict[str, Tensor], model: CovarianceNetwork) -> bytes:
    program = torch.export.export(module, tuple(examples.values()), dynamic_shapes=_any_rows(examples))
    file = io.BytesIO()
    torch.export.save(program, file, extra_files=described(model))
    return file.getvalue()


def _any_rows(examples: dict[str, Tensor]) -> tuple[dict[int, Any], ...]:
    """Say that all inputs have the same number of rows, whatever it is."""
    batch = torch.export.Dim("batch")
    return tuple({0: batch} for _ in examples)


def _onnx(module: nn.Module, examples: dict[str, Tensor], model: CovarianceNetwork) -> bytes:
    if sum(each.numel() * each.element_size() for each in module.buffers()) > _MOST_BYTES:
        raise ValueError("the model is larger than the 2 GB that an ONNX file can hold; export it to a .pt2 file.")
    classes = getattr(model, "classes_", None)
    program: Any = torch.onnx.export(
        module if classes is None else (_WithPlace if len(examples) == 1 else _WithPlaceOfRows)(module),
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


class _WithPlace(nn.Module):
    """Probabilities, and the place of the largest of them."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = self.module(X)
        return probabilities, probabilities.argmax(1)


class _WithPlaceOfRows(_WithPlace):
    def forward(self, X: Tensor, shift: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        probabilities = self.module(X, shift)
        return probabilities, probabilities.argmax(1)


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


def _needed_packages() -> None:
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
