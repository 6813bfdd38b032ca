"""How long does one prediction take: ``model.predict`` of one row, and the same model exported.

Models of the size of brain measures (68 features), of a window of wearable sensors (23 channels of 128 values) and of
1000 features, on made-up data, on one thread. The exported ones compute in single precision: ``model.to_torch()`` run
by torch, the same compiled by ``torch.compile`` (``--compile``), and an ONNX file run by onnxruntime, where that is
installed. All parts of a model count here, whatever their weights.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _measure import markdown, number, round_robin, run_part

from svnn import BlendClassifier, BlendRegressor, SVNNClassifier, SVNNRegressor

#: Name, rows, nodes, values per node, and whether it predicts classes.
SHAPES = (
    ("68 features, regression", 500, 68, 1, False),
    ("23 channels of 128 values, 12 classes", 400, 23, 128, True),
    ("1000 features, regression", 300, 1000, 1, False),
)
QUICK = (("quick regression", 60, 8, 1, False), ("quick classes", 80, 4, 3, True))
#: The largest difference of an exported model from its own, relative to the spread of its outputs.
AGREEMENT = 1e-3


def fitted(n_rows: int, n_nodes: int, n_values: int, classes: bool, **changes: Any) -> tuple[Any, np.ndarray]:
    """Return a default model after two epochs, and the rows it was fitted to."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 1, n_values)) + rng.standard_normal((n_rows, n_nodes, n_values))
    X = X[..., 0] if n_values == 1 else X
    flat = X.reshape(n_rows, -1)
    options = {"max_epochs": 2, "random_state": 0, "device": "cpu"} | changes
    if classes:
        model: Any = BlendClassifier(SVNNClassifier(**options)).fit(X, np.arange(n_rows) % min(12, n_rows // 10))
    else:
        model = BlendRegressor(SVNNRegressor(**options)).fit(X, flat[:, :3].sum(1))
    model.fitted_.blend.update(dict.fromkeys(model.blend_, 1 / len(model.blend_)))  # all parts are used
    return model, X


def candidates(model: Any, X: np.ndarray, compiled: bool) -> dict[str, Callable[[], np.ndarray]]:
    """Return the ways to predict the first row."""
    row, classes = X[:1], hasattr(model, "classes_")
    single = row.astype(np.float32)
    ours = model.predict_proba if classes else model.predict
    module = model.to_torch()

    def by(network: Any) -> Callable[[], np.ndarray]:
        def run() -> np.ndarray:
            with torch.inference_mode():
                found: np.ndarray = network(torch.from_numpy(single)).numpy()
                return found

        return run

    found: dict[str, Callable[[], np.ndarray]] = {"predict": lambda: ours(row), "to_torch": by(module)}
    if compiled:
        found["torch.compile"] = by(torch.compile(copy.deepcopy(module)))
    if find_spec("onnxruntime") and find_spec("onnxscript"):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            model.export(path)
            session = onnxruntime.InferenceSession(path.read_bytes(), options, providers=["CPUExecutionProvider"])
        wanted = ["probabilities" if classes else "prediction"]
        found["onnxruntime"] = lambda: session.run(wanted, {"X": single})[0]
    return found


def measure(rates: dict[str, float], quick: bool = False, compile: bool = False) -> list[dict[str, Any]]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows = []
    try:
        for name, *shape in QUICK if quick else SHAPES:
            model, X = fitted(*shape, **({"members": 2} if quick else {}))
            calls = candidates(model, X, compile)
            expected = calls["predict"]()
            spread = float((model.predict_proba if hasattr(model, "classes_") else model.predict)(X).std())
            differences = {}
            for way, call in calls.items():
                differences[way] = float(np.abs(call() - expected).max() / spread)
                assert differences[way] < AGREEMENT, f"{way} differs by {differences[way]:.1e} for {name}"
            times = round_robin(calls, seconds=0.05 if quick else 1.0)
            rows.append({"model": name, "seconds": times, "differences": differences})
    finally:
        torch.set_num_threads(threads)
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    ways = list(rows[0]["seconds"])
    times = [[row["model"], *(number(1e6 * row["seconds"][way]) for way in ways)] for row in rows]
    errors = [[row["model"], *(f"{row['differences'][way]:.0e}" for way in ways[1:])] for row in rows]
    return (
        "Microseconds for one row, one thread:\n\n"
        + markdown(["model", *ways], times)
        + "\n\nLargest difference from `predict`, relative to the spread of the outputs:\n\n"
        + markdown(["model", *ways[1:]], errors)
    )


if __name__ == "__main__":
    run_part(__doc__, "latency", measure, report, compile="also time torch.compile, which takes a minute to compile")
