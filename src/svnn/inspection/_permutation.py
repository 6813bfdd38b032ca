"""Permutation importance of groups of correlated features."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform
from sklearn.metrics import check_scoring
from sklearn.utils import check_consistent_length

from svnn._types import ColumnLike, DataLike, Matrix, RandomState
from svnn.functional._array import generator
from svnn.inspection._fitted import BLENDS, Model, check_model, feature_index, feature_names, network_part, signals_of
from svnn.inspection._results import pandas


@dataclass(frozen=True, repr=False, eq=False)
class GroupedPermutationImportance:
    """The loss of a score when the values of a group of features are permuted among the samples.

    Attributes
    ----------
    importances : ndarray of shape (n_groups, n_repeats)
    groups : tuple of ndarray
        The columns of each group.
    names : ndarray of shape (n_groups,)
        The names of its features, separated by commas; of more than three the first one and how many there are.
    score : float
        The score of the data as they are.
    """

    importances: np.ndarray
    groups: tuple[np.ndarray, ...]
    names: np.ndarray
    score: float

    @property
    def importances_mean(self) -> np.ndarray:
        """The mean over the repeats, (n_groups,)."""
        return np.asarray(self.importances.mean(1))

    @property
    def importances_std(self) -> np.ndarray:
        """The standard deviation over the repeats, (n_groups,)."""
        return np.asarray(self.importances.std(1))

    def top(self, n: int = 10) -> list[tuple[str, float]]:
        """Return the names of the n groups that matter most, and by how much the score drops without them."""
        order = np.argsort(-self.importances_mean, kind="stable")[: max(n, 0)]
        return [(str(self.names[i]), float(self.importances_mean[i])) for i in order]

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per group: name, size, mean and standard deviation."""
        sizes = [len(group) for group in self.groups]
        columns = {"name": self.names, "size": sizes, "mean": self.importances_mean, "std": self.importances_std}
        return pandas().DataFrame(columns)

    def __repr__(self) -> str:
        first = ", ".join(f"{name} {value:.3g}" for name, value in self.top(3))
        return f"GroupedPermutationImportance({len(self.groups)} groups; score {self.score:.3g}; largest: {first})"


def grouped_permutation_importance(
    model: Model,
    X: DataLike,
    y: ColumnLike,
    *,
    groups: Sequence[Sequence[Any]] | None = None,
    threshold: float = 0.7,
    n_repeats: int = 5,
    scoring: str | Callable[..., float] | None = None,
    random_state: RandomState = None,
) -> GroupedPermutationImportance:
    """Measure how much a score drops when correlated features are permuted together.

    Where features are correlated, a network that cannot see one of them reads the others, and permuting one alone makes
    samples that do not exist. Whole groups are therefore permuted, so that the values of a group stay those of one
    sample.

    Parameters
    ----------
    model : S-VNN or blend
        Fitted. A blend may have any parts.
    X : array or data frame of shape (t, N) or (t, N, F)
        Better data that ``fit`` did not see.
    y : array of shape (t,) or (t, n_outputs)
    groups : sequence of sequences of column numbers or names, optional
        The features that are permuted together. Those in no group stay as they are. By default the groups come from the
        covariance of the S-VNN: average linkage of the absolute correlations.
    threshold : float in (0, 1], default=0.7
        The mean absolute correlation above which clusters of features become one. Covariances that the model's
        estimator removed count as zero.
    n_repeats : int, default=5
    scoring : str or callable, optional
        As in scikit-learn; by default ``model.score``.
    random_state : int, generator or None, default=None

    Returns
    -------
    GroupedPermutationImportance

    See Also
    --------
    sklearn.inspection.permutation_importance : permutes one feature at a time, of any estimator.

    Notes
    -----
    The model predicts once for every group and repeat. With thousands of features, give ``groups`` of those that
    :func:`feature_contributions` names.

    Examples
    --------
    >>> from svnn import SVNNRegressor, inspection
    >>> from svnn.paper import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=100, n_features=8, random_state=0)
    >>> X, y = data.X, data.y
    >>> model = SVNNRegressor(max_epochs=5, random_state=0).fit(X, y)
    >>> found = inspection.grouped_permutation_importance(model, X, y, groups=[[0, 1], [2]], random_state=0)
    >>> found.importances.shape, found.names.tolist()
    ((2, 5), ['x0, x1', 'x2'])
    """
    check_model(model)
    if int(n_repeats) != n_repeats or n_repeats < 1:
        raise ValueError(f"n_repeats must be an integer >= 1, got {n_repeats!r}.")
    signals, names = signals_of(model, X), feature_names(model)
    check_consistent_length(signals, y)
    if groups is None:
        columns = _correlated(network_part(model)[1].covariance_, threshold)
    else:
        columns = [np.array([feature_index(f, names, "groups") for f in group], dtype=np.int64) for group in groups]
        if any(not len(group) for group in columns):
            raise ValueError("groups holds an empty group; leave it out.")
    plain = _without_names(model)
    score = check_scoring(plain, scoring)
    rng = generator(random_state)
    flat = signals.shape[2] == 1

    def scored(values: np.ndarray) -> float:
        return float(score(plain, values[..., 0] if flat else values, y))

    whole = scored(signals)
    importances = np.empty((len(columns), int(n_repeats)))
    mixed = signals.copy()
    for place, group in enumerate(columns):
        for repeat in range(int(n_repeats)):
            mixed[:, group] = signals[rng.permutation(len(signals))][:, group]
            importances[place, repeat] = whole - scored(mixed)
        mixed[:, group] = signals[:, group]
    return GroupedPermutationImportance(importances, tuple(columns), _group_names(columns, names), whole)


def _without_names(model: Any) -> Any:
    """Return a copy for data without names."""
    plain = copy.copy(model)
    vars(plain).pop("feature_names_in_", None)
    if isinstance(model, BLENDS):
        parts = {name: _without_names(part) for name, part in model.parts_.items()}
        plain.fitted_ = replace(model.fitted_, parts=parts)
    return plain


def _correlated(C: Matrix, threshold: float) -> list[np.ndarray]:
    """Return groups of columns by average linkage of absolute correlations, in the order of their first columns.

    Clusters of average linkage below a distance never leave a connected part of the graph of pairs below it, so each
    part is clustered alone: no N x N matrix is made of a sparse one.
    """
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must be a number above 0 and up to 1, got {threshold!r}.")
    sizes = np.sqrt(np.maximum(C.diagonal(), 0.0))
    inverse = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
    entries = sp.coo_array(C)
    values = np.minimum(abs(entries.data) * inverse[entries.row] * inverse[entries.col], 1.0)
    R = sp.csr_array((values, (entries.row, entries.col)), shape=C.shape)
    labels = connected_components(threshold <= R, directed=False)[1]
    order = np.argsort(labels, kind="stable")
    groups = []
    for part in np.split(order, np.flatnonzero(np.diff(labels[order])) + 1):
        if len(part) < 3:
            groups.append(part)
            continue
        distance = 1 - R[part][:, part].toarray()
        np.fill_diagonal(distance, 0.0)
        condensed = squareform((distance + distance.T) / 2, checks=False)
        cluster = fcluster(linkage(condensed, "average"), 1 - threshold, criterion="distance")
        groups.extend(part[cluster == label] for label in np.unique(cluster))
    return sorted(groups, key=lambda group: int(group[0]))


def _group_names(columns: list[np.ndarray], names: np.ndarray) -> np.ndarray:
    texts = []
    for group in columns:
        members = [str(name) for name in names[group]]
        short = f"{members[0]} and {len(members) - 1} others"
        texts.append(", ".join(members) if len(members) <= 3 else short)
    return np.array(texts, dtype=object)
