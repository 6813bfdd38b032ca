"""Results of the functions of this package: arrays with names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


def pandas() -> Any:
    """Import pandas, which only frames need."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("to_frame() needs pandas: pip install pandas.") from error
    return pandas


@dataclass(frozen=True, repr=False, eq=False)
class Contributions:
    """Contributions of named parts to the predictions of a model.

    Attributes
    ----------
    contributions : ndarray of shape (t, M) or (t, M, m)
        What each of M parts adds to the prediction of each of t samples, in the units of the prediction; for several
        outputs m of them.
    names : ndarray of shape (M,)
    outputs : ndarray of shape (m,) or None
        The outputs: labels of classes, or numbers of targets. None where a sample has one number.
    prediction : ndarray of shape (t,) or (t, m)
    """

    contributions: np.ndarray
    names: np.ndarray
    outputs: np.ndarray | None
    prediction: np.ndarray

    @property
    def importance(self) -> np.ndarray:
        """The mean absolute contributions over the samples, (M,) or (M, m)."""
        return np.asarray(abs(self.contributions).mean(0))

    def top(self, n: int = 10, sample: int | None = None, output: Any = None) -> list[tuple[str, float]]:
        """Return the names that contribute most, and how much.

        Parameters
        ----------
        n : int, default=10
        sample : int, optional
            The row of ``X`` whose contributions are ranked by their size, and returned with their signs. By default
            these are mean absolute contributions over all samples.
        output : label or number, optional
            One of ``outputs``. By default the mean over all outputs, which needs ``sample=None``.
        """
        values = self.importance if sample is None else self._of(sample)
        if self.outputs is None and output is not None:
            raise ValueError("output is for models of several outputs only; drop it.")
        if self.outputs is not None:
            if output is not None:
                values = values[:, self._column(output)]
            elif sample is None:
                values = values.mean(1)
            else:
                raise ValueError(f"output must name one of {self.outputs.tolist()} where sample is given.")
        order = np.argsort(-abs(values), kind="stable")[: max(n, 0)]
        return [(str(self.names[i]), float(values[i])) for i in order]

    def to_frame(self) -> Any:
        """Return a pandas frame with a row per sample and a column per name, or per output and name."""
        pd = pandas()
        names = [str(name) for name in self.names]
        if self.outputs is None:
            return pd.DataFrame(self.contributions, columns=names)
        columns = pd.MultiIndex.from_product([self.outputs.tolist(), names], names=["output", "name"])
        return pd.DataFrame(self.contributions.swapaxes(1, 2).reshape(len(self.contributions), -1), columns=columns)

    def _of(self, sample: int) -> np.ndarray:
        if not -len(self.contributions) <= sample < len(self.contributions):
            raise ValueError(f"sample={sample} is none of the {len(self.contributions)} rows.")
        values: np.ndarray = self.contributions[sample]
        return values

    def _column(self, output: Any) -> int:
        assert self.outputs is not None
        column = np.flatnonzero(self.outputs == output)
        if len(column) != 1:
            raise ValueError(f"output={output!r} is none of {self.outputs.tolist()}.")
        return int(column[0])

    def __repr__(self) -> str:
        shape = " x ".join(str(size) for size in self.contributions.shape)
        first = ", ".join(f"{name} {value:.3g}" for name, value in self.top(3))
        return f"{type(self).__name__}({shape}; largest on average: {first})"


@dataclass(frozen=True, repr=False, eq=False)
class FeatureContributions(Contributions):
    """Contributions of features; ``baseline + contributions.sum(1)`` is ``prediction``.

    Beside the attributes of :class:`Contributions`:

    Attributes
    ----------
    baseline : float or ndarray of shape (m,)
        The prediction for the baseline.
    n_points : int
        The largest number of points on the path from the baseline to a sample.
    """

    baseline: Any
    n_points: int


@dataclass(frozen=True, repr=False, eq=False)
class EigenvectorContributions(Contributions):
    """Contributions of directions; ``baseline + contributions.sum(1) + rest`` is ``prediction``.

    Beside the attributes of :class:`Contributions`, and the ``baseline`` of :class:`FeatureContributions`:

    Attributes
    ----------
    rest : ndarray of shape (t,) or (t, m)
        The contribution of all other directions.
    eigenvalues : ndarray of shape (M,)
        In descending order. Sparsified covariances can have negative ones.
    explained_variance_ratio : ndarray of shape (M,)
        The eigenvalues divided by the trace of the covariance.
    eigenvectors : ndarray of shape (N, M)
        The directions; the largest entry of each is positive.
    """

    baseline: Any
    rest: np.ndarray
    eigenvalues: np.ndarray
    explained_variance_ratio: np.ndarray
    eigenvectors: np.ndarray


@dataclass(frozen=True, repr=False, eq=False)
class EdgeContributions(Contributions):
    """Contributions of edges: the change of each prediction without the edge. They do not add up to the prediction.

    Beside the attributes of :class:`Contributions`:

    Attributes
    ----------
    edges : ndarray of shape (M, 2)
        The numbers i < j of the features that each edge connects.
    weights : ndarray of shape (M,)
        The entries of the matrix, before it is scaled for the network.
    """

    edges: np.ndarray
    weights: np.ndarray
