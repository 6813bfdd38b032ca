"""Epochs per second of ``SVNNClassifier.fit`` and ``SVNNRegressor.fit`` against a textbook torch loop.

The same network, initial weights, Adam and batches, with a validation set evaluated in every epoch. The textbook
loop computes the dense powers anew in every step, as public code does. The losses of the first epochs have to agree.
Times are medians over rounds in which the two loops take turns.

The first part is the network of the paper, alone and on full batches; the second is what the default estimators train,
several members on batches of 64 rows.
"""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from _measure import markdown, number, run_part
from _peers import TextbookMember, TextbookSVNN, dense_shift
from torch import nn

from svnn import SVNNClassifier, SVNNRegressor
from svnn.estimators import _members, _trainers
from svnn.estimators.training._module_trainer import readout_rate
from svnn.nn import SVNN

HIDDEN, COMPARED = 32, 5


def clock() -> float:
    """Return the time: on a single thread that of this process, which others on the machine do not disturb."""
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def per_epoch(ends: list[float]) -> float:
    """Return the mean seconds of all epochs but the first, which also pays for what is done once.

    A mean and no median: the time of a process may move in ticks of some milliseconds, longer than an epoch.
    """
    return (ends[-1] - ends[1]) / (len(ends) - 2)


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
        "use": "covariance",
        "members": 1,
        "batch_norm": True,
        "activation": "leaky_relu",
        "mlp": (32,),
        "schedule": "constant",
        "hidden": (HIDDEN,) * task.layers,
        "order": task.order,
        "readout": "mean",
        "node_dropout": 0.0,
        "shrink": False,
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
    ends = [clock()]
    model = estimator(task, callbacks=[lambda _: ends.append(clock())])
    model.fit(data[0], data[1], validation_data=data[2:])
    return model.history_["train_loss"], ends


def fit_textbook(
    task: Task, data: tuple[np.ndarray, ...], state: dict[str, torch.Tensor], C: np.ndarray
) -> tuple[list[float], list[float]]:
    ends = [clock()]
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
        ends.append(clock())
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
            epochs[name].append(per_epoch(ends))
            if name == "ours":
                setup = max(ends[1] - ends[0] - per_epoch(ends), 0.0)
    difference = max(abs(a / b - 1) for a, b in zip(*(losses[n][:COMPARED] for n in epochs), strict=True))
    if not difference < 1e-4:
        raise AssertionError(
            f"{task.name}, L={task.layers}: the losses of the first epochs differ by {difference:.1g}."
        )
    return result(task, epochs, setup, difference)


def result(task: Task, epochs: dict[str, list[float]], setup: float, difference: float) -> dict[str, Any]:
    """Return what is reported, from the seconds of an epoch in every round."""
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


# -- what the default estimators train ------------------------------------------------------------

DEFAULT_TASKS = (
    Task("default, ADNI shape", 481, 68, 1, 5, 1, 3, epochs=20),
    Task("default, MHEALTH shape", 3239, 23, 128, 5, 1, 7, classes=12, epochs=4),
)
QUICK_DEFAULT_TASKS = (Task("quick default", 100, 6, 1, 5, 1, 1, epochs=4),)


@dataclass
class Seen:
    """What a fit started from and the steps that it took."""

    trainer: str = ""
    states: list[dict[str, torch.Tensor]] = field(default_factory=list)
    epochs: list[tuple[np.ndarray, list[int], list[float]]] = field(default_factory=list)


@contextmanager
def watched(seen: Seen) -> Iterator[None]:
    """Note the initial weights of the members, their batches and learning rates; filters are those of powers.

    Powers are what a textbook has; the steps cost the same as those on uncorrelated signals.
    """
    original = _members.member_trainer

    def noted_trainer(model: Any, networks: list[SVNN], *arguments: Any, **options: Any) -> Any:
        found = original(model, networks, *arguments, **options)
        seen.trainer = type(found.trainer).__name__
        seen.states += [copy.deepcopy(network.state_dict()) for network in networks]
        epoch: Callable[..., np.ndarray] = found.trainer.epoch

        def noted(order: np.ndarray, ends: list[int], rates: list[float], members: np.ndarray) -> np.ndarray:
            seen.epochs.append((order, ends, rates))
            return epoch(order, ends, rates, members)

        found.trainer.epoch = noted  # type: ignore[method-assign]
        return found

    with patch.object(_members, "member_trainer", noted_trainer), patch.object(_trainers, "_MOST_WHITENED", 0):
        yield


def default_estimator(task: Task, **changes: Any) -> Any:
    """Return the default estimator, for a few epochs on data that come standardised; no member stops early."""
    kind = SVNNClassifier if task.classes else SVNNRegressor
    settings = {"standardize": False, "max_epochs": task.epochs, "device": "cpu", "random_state": 0}
    settings |= {"shrink": False, "patience": None}
    return kind(**{**settings, **changes})


def fit_default(task: Task, data: tuple[np.ndarray, ...], **changes: Any) -> tuple[list[float], list[float], Any, Seen]:
    """Return the losses, the times at which epochs ended, the model, and how it was trained."""
    ends, seen = [clock()], Seen()
    model = default_estimator(task, callbacks=[lambda _: ends.append(clock())], **changes)
    with watched(seen):
        model.fit(data[0], data[1], validation_data=data[2:])
    return model.history_["train_loss"], ends, model, seen


def fit_textbook_members(
    task: Task, data: tuple[np.ndarray, ...], model: Any, seen: Seen
) -> tuple[list[float], list[float]]:
    """Train the same members on the same batches, each as a module of its own; return losses and times."""
    ends = [clock()]
    settings = model.get_params()
    x, y, x_valid, y_valid = map(torch.from_numpy, data)
    if not task.classes:
        y, y_valid = y.float()[:, None], y_valid.float()[:, None]
    loss = nn.functional.cross_entropy if task.classes else _huber
    shift = dense_shift(model.operator_.to_dense())
    heads = len(seen.states[0]["readout.weight"])
    members, optimizers = [], []
    for state in seen.states:
        member = TextbookMember(
            *(task.features, task.classes or 1, task.nodes, settings["hidden"][0], task.order, heads, settings["mlp"]),
            *(settings["node_dropout"], shift),
        )
        member.load_state_dict(state)
        members.append(member)
        pooled = [member.readout["weight"]]
        others = [p for p in member.parameters() if p is not pooled[0]]
        groups = [{"params": others}, {"params": pooled}]
        optimizers.append(torch.optim.Adam(groups, weight_decay=settings["weight_decay"]))
    losses = []
    for order, batch_ends, rates in seen.epochs:
        for member in members:
            member.train()
        rows, total = torch.from_numpy(order), 0.0
        for start, end, rate in zip([0, *batch_ends[:-1]], batch_ends, rates, strict=True):
            batch = rows[start:end]
            signals, targets = x[batch], y[batch]
            for member, optimizer in zip(members, optimizers, strict=True):
                optimizer.param_groups[0]["lr"] = rate
                optimizer.param_groups[1]["lr"] = rate * readout_rate(task.nodes)
                optimizer.zero_grad()
                objective = loss(member(signals), targets)
                objective.backward()
                optimizer.step()
                total += objective.item() * len(batch) / (len(rows) * len(members))
        losses.append(total)
        with torch.no_grad():
            for member in members:
                loss(member.eval()(x_valid), y_valid).item()
        ends.append(clock())
    return losses, ends


def _huber(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return nn.functional.smooth_l1_loss(output, y, beta=0.5)


def compare_default(task: Task, rounds: int) -> dict[str, Any]:
    """Check that both loops have the same losses where nothing is random, then time them with the defaults."""
    data = task.data()
    ours, _, model, seen = fit_default(task, data, node_dropout=0.0)
    theirs, _ = fit_textbook_members(task, data, model, seen)
    difference = max(abs(a / b - 1) for a, b in zip(ours[:COMPARED], theirs[:COMPARED], strict=True))
    if not difference < 1e-3:
        raise AssertionError(f"{task.name}: the losses of the first epochs differ by {difference:.1g}.")
    epochs: dict[str, list[float]] = {"ours": [], "textbook": []}
    setup = 0.0
    for _ in range(rounds):
        _, ends, model, seen = fit_default(task, data)
        epochs["ours"].append(per_epoch(ends))
        setup = max(ends[1] - ends[0] - per_epoch(ends), 0.0)
        _, ends = fit_textbook_members(task, data, model, seen)
        epochs["textbook"].append(per_epoch(ends))
    row = result(task, epochs, setup, difference)
    return row | {"members": len(seen.states), "trainer": seen.trainer}


def measure(rates: dict[str, float], quick: bool = False) -> list[dict[str, Any]]:
    rows = []
    for task in QUICK if quick else TASKS:
        rows.append(compare(task, rounds=1 if quick else 3))
        print(f"  {task.name}, L={task.layers}: {rows[-1]['ratio']:.2f} × textbook", flush=True)
    for task in QUICK_DEFAULT_TASKS if quick else DEFAULT_TASKS:
        rows.append(compare_default(task, rounds=1 if quick else 3))
        print(f"  {task.name}, {rows[-1]['trainer']}: {rows[-1]['ratio']:.2f} × textbook", flush=True)
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
        "Full batches; those named default train 8 members on batches of 64 rows, and both sides on the same batches.\n"
        "A fifth more rows are validated in every epoch. Setup: what fit does before its first epoch,\n"
        f"not counted in the rate. Loss difference: the largest, relative, over the first {COMPARED} epochs.\n\n"
        + markdown(headers, table)
        + f"\n\nMultiples met within 10 %: {sum(row['met'] for row in rows)} of {len(rows)}."
    )


if __name__ == "__main__":
    run_part(__doc__, "training", measure, report)
