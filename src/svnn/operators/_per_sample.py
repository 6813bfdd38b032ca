"""Operators of several matrices, one for each sample, that are divided by norms of their own."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from svnn.operators._operator import CovarianceOperator
from svnn.operators._spectral_norm import EXACT_LIMIT, OnceDifferentiable, leading
from svnn.operators._tracing import traced


class PerSample(CovarianceOperator):
    """A shift with a matrix for each of B samples.

    Attributes
    ----------
    n_samples : int
        B.
    scale : Tensor of shape (B,) or None
        For a normalised operator, the numbers that its matrices were divided by, in double precision on the CPU.
    """

    n_samples: int
    _scales: np.ndarray | None = None  # not a tensor: it is not to be moved, cast or learned with the matrices
    _divided_in_trace: bool = False  # by numbers that are not known where torch compiles the code

    @property
    def scale(self) -> Any:  # type: ignore[override]
        """The numbers that the matrices were divided by, or None."""
        if self._divided_in_trace:
            return math.nan
        return None if self._scales is None else torch.from_numpy(self._scales.copy())

    def _set_scale(self, scale: Tensor | None) -> None:
        self._scales = None if scale is None else scale.detach().cpu().double().numpy()

    def get_extra_state(self) -> Tensor:
        """Return the scales, which are part of the state of a module; NaN for none."""
        return torch.tensor(np.nan, dtype=torch.float64) if self.scale is None else self.scale

    def set_extra_state(self, state: Tensor) -> None:
        """Take the scales from a state."""
        self._set_scale(state if state.ndim else None)

    @abstractmethod
    def _leading(self, vectors: bool) -> tuple[Tensor, Tensor | None]:
        """Return the eigenvalues of largest absolute value (B,), and their eigenvectors as a signal where asked to."""

    @abstractmethod
    def _sums(self, u: Tensor) -> Tensor:
        """Return the sums (B,) over the nodes of every sample of a signal with one value per node."""

    def norms(self) -> Tensor:
        """Return the spectral norm of every sample's matrix, of shape (B,), in double precision on the CPU."""
        return self._cached("norms", lambda: self._leading(vectors=False)[0].abs())

    def norm(self) -> float:
        """Return the largest of the spectral norms, which is that of the block-diagonal matrix."""
        return float(self.norms().max())

    def normalized(self, scale: float | Tensor | None = None) -> Self:
        r"""Return the operator of :math:`C_b / s_b`, which remembers the ``s_b`` as its ``scale``.

        Parameters
        ----------
        scale : float or Tensor of shape (B,), optional
            ``s``, one number for all samples or one for each. By default every matrix is divided by its own spectral
            norm (the zero matrix by 1), so that a batch is what a loop over its samples is.
        """
        if scale is None:
            if self.scale is not None:
                return self
            if traced():
                return self._traced_normalized()
            if not self.requires_grad:
                return self._cached("normalized", lambda: self.normalized(_positive(self.norms())))
            divisor = _positive(self._differentiable_norms())
            found = divisor.detach().cpu().double()
        else:
            found = torch.as_tensor(scale, dtype=torch.float64).detach().cpu()
            if found.shape not in ((), (self.n_samples,)) or not bool(((found > 0) & found.isfinite()).all()):
                raise ValueError(
                    f"scale must be a positive number or {self.n_samples} of them, one for each sample, got {scale!r}."
                )
            found = found.expand(self.n_samples).clone()
            divisor = found if self.scale is None else found / self.scale
        result = copy.copy(self)
        result._map(lambda v: v, 1 / divisor)
        result._set_scale(found)
        return result

    def _traced_normalized(self) -> Self:
        """Return the normalised operator where torch compiles, exports or transforms the code."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot be normalised in code that torch compiles; give the network "
            "operator.normalized(), made before."
        )

    def _differentiable_norms(self) -> Tensor:
        _, vectors = self._leading(vectors=True)
        assert vectors is not None
        v = vectors.to(self.device, self.dtype)
        with torch.enable_grad():
            norms = self._sums(v * (self @ v)).abs()
        result: Tensor = OnceDifferentiable.apply(norms, *self._tensors())
        return result

    def __repr__(self) -> str:
        scaled = ""
        if self.scale is not None:
            scaled = f", scale={float(self.scale.min()):.4g} to {float(self.scale.max()):.4g}"
        return (
            f"{type(self).__name__}(B={self.n_samples}, N={self.shape[-1]}, density={self.density:.3g}, "
            f"{str(self.dtype).removeprefix('torch.')}, {self.device}{scaled})"
        )


def common_scale(shifts: Sequence[CovarianceOperator]) -> Any:
    """Return what realisations of one matrix, or of one batch of matrices, are divided by: their largest norm.

    That is one number, or where all of them have several matrices, one for each sample.

    Examples
    --------
    >>> from svnn import as_operator
    >>> common_scale([as_operator(torch.eye(2)), as_operator(3 * torch.eye(2))])
    3.0
    """
    norms = [s.norms() for s in shifts if isinstance(s, PerSample)]
    if len(norms) == len(shifts) and len({len(each) for each in norms}) == 1:
        return _positive(torch.stack(norms).amax(0))
    return max(s.norm() for s in shifts) or 1.0


def leading_of_batch(matrices: Tensor, vectors: bool) -> tuple[Tensor, Tensor | None]:
    """Return the eigenvalues of largest absolute value of symmetric matrices (B, N, N), and their vectors (B, N, 1).

    Small matrices go to LAPACK in one call, without eigenvectors where none are asked for: 64 of 68 nodes take 9 ms,
    and 23 ms with eigenvectors, as much as a loop takes (one core of an x86 server).
    """
    from svnn.operators._dense import DenseOperator

    doubles = matrices.detach().double()
    if matrices.shape[-1] > EXACT_LIMIT:
        pairs = [leading(DenseOperator(matrix)) for matrix in doubles]
        found = torch.tensor([value for value, _ in pairs], dtype=torch.float64)
        return found, torch.stack([vector.cpu().double() for _, vector in pairs]) if vectors else None
    plain = doubles.cpu().numpy()
    values, basis = np.linalg.eigh(plain) if vectors else (np.linalg.eigvalsh(plain), None)
    best = np.abs(values).argmax(1)
    rows = np.arange(len(values))
    chosen = None if basis is None else torch.from_numpy(basis[rows, :, best][..., None])
    return torch.from_numpy(values[rows, best]), chosen


def _positive(norms: Tensor) -> Tensor:
    """Return the norms, and 1 for a matrix that is zero."""
    return torch.where(norms.detach() > 0, norms, torch.ones_like(norms))
