"""``partial_fit``: the covariance is updated with new rows, the filters re-expressed on it, and trained a little."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from svnn._parameters import check_parameters
from svnn._types import ColumnLike, DataLike
from svnn.covariance._resolve import resolve
from svnn.estimators._base import BaseSVNN, Fitted, check_one_covariance
from svnn.estimators._data import Data, more_rows
from svnn.estimators._held_out import Fold, last_layer
from svnn.estimators._history import History
from svnn.estimators._members import filter_order, warm_networks
from svnn.estimators._per_sample import given_matrix
from svnn.estimators._shift import Shift, check_partial_fit, updated_shift
from svnn.estimators._trainers import member_trainer
from svnn.estimators.training import Training, train
from svnn.functional._array import generator, to_numpy
from svnn.nn import SVNN, CovarianceFilter, Members
from svnn.operators import CovarianceOperator

#: The epochs with new rows, and their learning rate relative to that of ``fit``: the weights are good already.
_EPOCHS, _RATE = 10, 0.1
#: The share of a power, as an amplitude, that has to be new for it to count.
_LEAST_SHARE = 1e-3


def check_can_update(model: BaseSVNN) -> None:
    """Raise an error where ``partial_fit`` will not be able to update the covariance of a model."""
    check_parameters(model)
    if given_matrix(model.covariance) is None:
        check_partial_fit(resolve(model.covariance))


def updated(
    model: BaseSVNN,
    X: DataLike,
    y: ColumnLike,
    sample_weight: ColumnLike | None = None,
    validation_data: tuple[Any, ...] | None = None,
) -> tuple[Fitted, Shift]:
    """Return the fitted values of a model after new rows."""
    check_parameters(model)
    check_one_covariance(model, "partial_fit")
    fitted, before = model.fitted_, model.shift_
    rng = generator(model.random_state)
    draws = torch.Generator().manual_seed(int(rng.integers(2**31)))
    data = more_rows(model, fitted, X, y, sample_weight, validation_data)
    shift = updated_shift(before, data.training.signals, data.given_weight)
    networks = warm_networks(model, fitted.networks, data, filter_order(model, shift.use))
    order = networks[0].order
    if order and hasattr(before.estimator, "_totals_"):
        change = torch.from_numpy(shift_change(before.operator, shift.operator, _second_moments(shift), order))
        for network in networks:
            re_express(network, change)
    newcomers = _newcomers(fitted, data)
    others = [k for k in range(data.targets.n_outputs) if k not in fitted.unseen]
    for network in networks:
        make_likely(newcomers, others, *last_layer(network))

    trainer = member_trainer(model, networks, Fold(data, shift), draws, rng, known=True)
    usual = Training.of(model, len(data.training.signals), data.training.signals.size)
    training = replace(usual, lr=_RATE * usual.lr, schedule="constant", max_epochs=_EPOCHS, patience=None)
    history = train(trainer.trainer, len(data.training.signals), training, draws)
    trainer.give_powers()
    module = networks[0] if len(networks) == 1 else Members(networks)
    module = module.to(shift.operator.device).eval()
    unseen = tuple(k for k in fitted.unseen if k not in newcomers)
    return replace(fitted, module=module, history=History(history), unseen=unseen), shift


def _second_moments(shift: Shift) -> np.ndarray:
    """Return the mean of z z' over all rows so far."""
    totals: Any = shift.estimator._totals_  # type: ignore[union-attr]
    return np.asarray(totals.covariance, dtype=np.float64) + np.outer(totals.location, totals.location)


def _newcomers(fitted: Fitted, data: Data) -> list[int]:
    """Return the classes announced in the first call that have their first rows now."""
    rows = data.training
    return [k for k in fitted.unseen if bool(((rows.targets == k) & (rows.weight > 0)).any())]


@torch.no_grad()
def make_likely(classes: list[int], others: list[int], weight: Tensor, bias: Tensor) -> None:
    """Give classes that had no rows before the mean output of the others: training made them all but impossible."""
    for k in classes:
        weight[k], bias[k] = weight[others].mean(0), bias[others].mean()


# -- filters on another shift ------------------------------------------------------------------------


def shift_change(old: CovarianceOperator, new: CovarianceOperator, second: np.ndarray, order: int) -> np.ndarray:
    r"""Return the matrix (K + 1, K + 1) that makes filters of one shift filters of another.

    For signals of second moments S, powers :math:`z = (x, Lx, …, L^K x)` of the old shift and z' of the new one, the
    filter V that is nearest to W has the least :math:`E\|V^T z' - W^T z\|^2`: it is
    :math:`V = E[z' z'^T]^{-1} E[z' z^T] W`. Powers that add next to nothing get no weight.

    Small eigenvalues of a sparsified covariance move a lot when rows come, and their logarithms more: a polynomial of
    order 5 with the same coefficients would be another function.
    """
    root = _root(second)
    before, after = (_powers(to_numpy(each.to_dense()).astype(np.float64), root, order) for each in (old, new))
    gram, cross = after @ after.T, after @ before.T
    T = np.zeros_like(gram)
    for i in range(order + 1):
        row = np.eye(order + 1)[i]
        for _ in range(2):  # the second time takes away what rounding left
            row = row - T.T @ (T @ (gram @ row))
        left = float(row @ gram @ row)
        if left > _LEAST_SHARE**2 * float(gram[i, i]) > 0:
            T[i] = row / left**0.5
    found: np.ndarray = T.T @ (T @ cross)
    return found


def _root(second: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(second)
    found: np.ndarray = vectors * np.sqrt(np.clip(values, 0, None))
    return found


def _powers(L: np.ndarray, root: np.ndarray, order: int) -> np.ndarray:
    """Return the powers of a shift, each times the root of the second moments and as a row."""
    found = [root]
    for _ in range(order):
        found.append(L @ found[-1])
    return np.array([each.ravel() for each in found])


@torch.no_grad()
def re_express(network: SVNN, change: Tensor) -> None:
    """Give a network the filters of the new shift, in every layer."""
    for layer in network.filters:
        weight = cast(CovarianceFilter, layer).weight
        weight.copy_(torch.tensordot(change.to(weight.device), weight.double(), 1))
