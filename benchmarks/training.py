"""Epochs per second of ``SVNNClassifier.fit`` and ``SVNNRegressor.fit`` against a textbook torch loop.

The same network, initial weights, Adam and full batches, with a validation set evaluated in every epoch.
The textbook loop computes the dense powers anew in every epoch, as public code does. The losses of the
first epochs have to agree to four digits. Times are medians over epochs, the two loops taking turns.
"""

from __future__ import annotations

import copy
import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from _measure import markdown, number, run_part
from _peers import TextbookSVNN, dense_shift
from torch import nn

from svnn import SVNNClassifier, SVNNRegressor

HIDDEN, COMPARED = 32, 5


@dataclass(frozen=True)
class Task:
    """A data shape, a network, and the multiple of the textbook's epochs per second asked for."""

    name: str
    rows: int
    nodes: int
    features: int
    order: int
    layers: int
    asked: float
    classes: int = 0  # none: regression
    epochs: int = 16

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return correlated random X and y for training, and a fifth as much for validation."""
        rng = np.random.default_rng(0)
        t = self.rows + self.rows // 5
        mixing = np.eye(self.nodes) + rng.standard_normal((self.nodes, self.nodes)) / self.nodes**0.5
        X = np.einsum("ij,tjf->tif", mixing, rng.standard_normal((t, self.nodes, self.features)))
        X = ((X - X.mean()) / X.std()).astype(np.float32)
        y = rng.integers(self.classes, size=t) if self.classes else X.mean((1, 2)) + rng.standard_normal(t)
        return X[: self.rows], y[: self.rows], X[self.rows :], y[self.rows :]


TASKS = (
    Task("MHEALTH shape", 3239, 23, 128, 3, 1, 7, classes=12),
    Task("MHEALTH shape", 3239, 23, 128, 3, 2, 4, classes=12),
    Task("ADNI shape", 481, 68, 1, 2, 1, 2, epochs=150),
    Task("ADNI shape", 481, 68, 1, 2, 2, 3, epochs=60),
)
QUICK = (
    Task("quick classifier", 60, 6, 4, 2, 1, 1, classes=3, epochs=6),
    Task("quick regressor", 50, 8, 1, 2, 2, 1, epochs=6),
)


def estimator(task: Task, **changes: Any) -> Any:
    """Return the estimator with everything random or adaptive switched off, but the initial weights."""
    settings = {
        "covariance": "sample",
        "hidden": (HIDDEN,) * task.layers,
        "order": task.order,
        "readout": "mean",
        "node_dropout": 0.0,
        "averaging": 0.0,
        "standardize": False,
        "batch_size": None,
        "max_epochs": task.epochs,
        "patience": 10**6,
        "device": "cpu",
        "random_state": 0,
    }
    if task.classes:
        return SVNNClassifier(**{**settings, **changes})
    return SVNNRegressor(loss="squared", **{**settings, **changes})


def initial_state(task: Task, data: tuple[np.ndarray, ...]) -> tuple[dict[str, torch.Tensor], Any]:
    """Return the weights that a fit starts from, and the covariance: one epoch of steps too small to move them."""
    still = estimator(task, lr=1e-30, weight_decay=0.0, max_epochs=1)
    still.fit(data[0], data[1], validation_data=data[2:])
    for norm in still.module_.norms:
        norm.reset_running_stats()
    C = still.covariance_
    return still.module_.state_dict(), np.asarray(C.toarray() if hasattr(C, "toarray") else C, dtype=np.float64)


def fit_ours(task: Task, data: tuple[np.ndarray, ...]) -> tuple[list[float], list[float]]:
    """Return the training losses and the times at which the epochs ended, from the call of ``fit`` on."""
    ends = [time.perf_counter()]
    model = estimator(task, callbacks=[lambda _: ends.append(time.perf_counter())])
    model.fit(data[0], data[1], validation_data=data[2:])
    return model.history_["train_loss"], ends


def fit_textbook(
    task: Task, data: tuple[np.ndarray, ...], state: dict[str, torch.Tensor], C: np.ndarray
) -> tuple[list[float], list[float]]:
    ends = [time.perf_counter()]
    settings = estimator(task).get_params()
    shift = dense_shift(torch.from_numpy(C / np.linalg.norm(C, 2)).float())
    outputs = task.classes or 1
    module = TextbookSVNN(task.features, outputs, settings["hidden"], task.order, settings["mlp"], shift)
    module.load_state_dict(state)
    optimizer = torch.optim.Adam(module.parameters(), lr=settings["lr"], weight_decay=settings["weight_decay"])
    x, y, x_valid, y_valid = map(torch.from_numpy, data)
    if not task.classes:
        y, y_valid = y.float()[:, None], y_valid.float()[:, None]
    loss = nn.functional.cross_entropy if task.classes else nn.functional.mse_loss
    losses, best, best_state = [], float("inf"), None
    for _ in range(task.epochs):
        module.train()
        optimizer.zero_grad()
        objective = loss(module(x), y)
        objective.backward()
        optimizer.step()
        losses.append(objective.item())
        module.eval()
        with torch.no_grad():
            validation = loss(module(x_valid), y_valid).item()
        if validation < best:
            best, best_state = validation, copy.deepcopy(module.state_dict())
        ends.append(time.perf_counter())
    module.load_state_dict(best_state)
    return losses, ends


def compare(task: Task, rounds: int) -> dict[str, Any]:
    data = task.data()
    state, C = initial_state(task, data)
    epochs: dict[str, list[float]] = {"ours": [], "textbook": []}
    losses, setup = {}, 0.0
    for _ in range(rounds):
        for name in epochs:
            losses[name], ends = fit_ours(task, data) if name == "ours" else fit_textbook(task, data, state, C)
            taken = np.diff(ends).tolist()
            epochs[name] += taken[1:]
            if name == "ours":
                setup = max(taken[0] - statistics.median(taken[1:]), 0.0)
    difference = max(abs(a / b - 1) for a, b in zip(*(losses[n][:COMPARED] for n in epochs), strict=True))
    if not difference < 1e-4:
        raise AssertionError(
            f"{task.name}, L={task.layers}: the losses of the first epochs differ by {difference:.1g}."
        )
    rates = {name: 1 / statistics.median(taken) for name, taken in epochs.items()}
    ratio = rates["ours"] / rates["textbook"]
    return {
        "task": task.name,
        "shape": f"{task.rows}×{task.nodes}×{task.features}",
        "order": task.order,
        "layers": task.layers,
        "epochs/s": rates,
        "before the first epoch (s)": setup,
        "loss difference": difference,
        "ratio": ratio,
        "asked": task.asked,
        "met": ratio >= 0.9 * task.asked,
    }


def measure(rates: dict[str, float], quick: bool = False) -> list[dict[str, Any]]:
    rows = []
    for task in QUICK if quick else TASKS:
        rows.append(compare(task, rounds=1 if quick else 3))
        print(f"  {task.name}, L={task.layers}: {rows[-1]['ratio']:.2f} × textbook", flush=True)
    return rows


def report(rows: list[dict[str, Any]]) -> str:
    headers = ["task", "t × N × F", "K", "L", "textbook", "ours", "×", "asked", "met", "setup (s)", "loss difference"]
    table = [
        [row["task"], row["shape"], row["order"], row["layers"]]
        + [number(row["epochs/s"][name]) for name in ("textbook", "ours")]
        + [f"{row['ratio']:.2f}", row["asked"], "yes" if row["met"] else "no"]
        + [f"{row['before the first epoch (s)']:.2f}", f"{row['loss difference']:.0e}"]
        for row in rows
    ]
    return (
        "## Training: epochs per second\n\n"
        "Full batches, a fifth more rows validated in every epoch. Setup: what fit does before its first epoch,\n"
        f"not counted in the rate. Loss difference: the largest, relative, over the first {COMPARED} epochs.\n\n"
        + markdown(headers, table)
        + f"\n\nMultiples met within 10 %: {sum(row['met'] for row in rows)} of {len(rows)}."
    )


if __name__ == "__main__":
    run_part(__doc__, "training", measure, report)
