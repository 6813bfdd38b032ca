"""A covariance whose edges are learned together with the network that it shifts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from svnn.functional._matrix import numpy_matrix
from svnn.operators import CovarianceOperator, as_operator

if TYPE_CHECKING:
    from svnn._types import MatrixLike

MODES = ("soft", "straight-through", "concrete")
PER = ("edge", "node", "matrix")
#: The interval that hard-concrete variables are stretched to before they are cut off at 0 and 1.
_LOW, _HIGH = -0.1, 1.1
#: Where hard-concrete variables start: their middle is 0 or 1 from log(11) on.
_SURE = 2.5
#: The first threshold where none is given, relative to the mean size of the entries.
_FIRST = 0.1


class LearnedSparsifier(nn.Module):
    r"""A sparse covariance with learned edges, which starts at an estimated one.

    .. math:: S_{ij} = \operatorname{sign}(c_{ij}) \max(|c_{ij}| - \tau_{ij}, 0) \quad\text{or}\quad
              S_{ij} = z_{ij} c_{ij}

    with learned thresholds :math:`\tau_{ij} > 0` or learned masks :math:`z_{ij}`. S is symmetric and has the variances
    on its diagonal. Pairs whose covariance is zero have no parameter: they stay zero.

    Parameters
    ----------
    covariance : matrix, operator or fitted estimator
        The estimated covariance, of shape (N, N).
    mode : {"soft", "straight-through", "concrete"}, default="soft"
        - "soft": soft thresholding. The thresholds are a softplus of the parameters. An edge that is zero has no
          gradient of its own; it comes back where a threshold that it shares with others falls.
        - "straight-through": masks of 0 and 1, the signs of the parameters. In the backward pass they count as
          sigmoids, so that edges can also come back.
        - "concrete": hard-concrete variables (Louizos et al. 2018), which are exactly 0 or 1 with positive probability
          and in between otherwise. Drawn anew in every pass while training; in evaluation mode they are fixed.
    threshold : float, default=0.0
        Where to start: with "soft" at ``soft_threshold(covariance, threshold)``, otherwise at
        ``hard_threshold(covariance, threshold)`` (in evaluation mode, for "concrete"). Edges below it can come back.
        With 0 the start is the covariance itself.
    per : {"edge", "node", "matrix"}, default="edge"
        Which entries share a threshold of "soft"; that of two nodes is their mean. Masks are those of edges.
    temperature : float, default=2/3
        How far from zero parameters still move a mask; small numbers make masks that are decided early.
    dtype : torch.dtype, optional
        By default torch's.

    Attributes
    ----------
    parameter : Parameter of shape (edges,), (N,) or (1,)
    density : float
        Share of the pairs that are edges now.

    Shapes
    ------
    result : (N, N)

    See Also
    --------
    svnn.covariance : sparsifiers that do not look at the task.

    References
    ----------
    C. Louizos, M. Welling, D. P. Kingma. Learning sparse neural networks through L0 regularization. ICLR 2018.

    Examples
    --------
    >>> import torch
    >>> from svnn.nn import SVNN, LearnedSparsifier
    >>> C = torch.tensor([[1.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 1.0]])
    >>> shift = LearnedSparsifier(C, "straight-through", threshold=0.2)
    >>> shift()
    tensor([[ 1.0000,  0.5000,  0.0000],
            [ 0.5000,  1.0000, -0.3000],
            [ 0.0000, -0.3000,  1.0000]], grad_fn=<AddBackward0>)

    It is trained with the network that it is given to, and a penalty on the edges:

    >>> network = SVNN(1, 1, hidden=(4,))
    >>> loss = network(torch.randn(5, 3, 1), shift()).square().mean() + 0.1 * shift.penalty()
    >>> loss.backward()
    >>> shift.parameter.grad.shape
    torch.Size([3])
    >>> shift.to_operator()
    DenseOperator(N=3, density=0.778, float32, cpu)
    """

    rows: Tensor
    columns: Tensor
    entries: Tensor
    diagonal: Tensor
    unit: Tensor

    def __init__(
        self,
        covariance: MatrixLike,
        mode: str = "soft",
        *,
        threshold: float = 0.0,
        per: str = "edge",
        temperature: float = 2 / 3,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if mode not in MODES:
            raise ValueError(f"mode must be one of {MODES}, got {mode!r}.")
        if per not in PER or (per != "edge" and mode != "soft"):
            raise ValueError(f'per must be "edge", or with mode="soft" one of {PER}; got {per!r} with mode={mode!r}.')
        if not 0 <= threshold < math.inf:
            raise ValueError(f"threshold must be a number >= 0, got {threshold!r}.")
        if not 0 < temperature < math.inf:
            raise ValueError(f"temperature must be a positive number, got {temperature!r}.")
        self.mode, self.per, self.temperature = mode, per, float(temperature)
        dtype = dtype or torch.get_default_dtype()
        C = numpy_matrix(covariance, "covariance")
        rows, columns, values = sp.find(sp.triu(C, 1))
        self.register_buffer("rows", torch.from_numpy(rows.astype(np.int64)))
        self.register_buffer("columns", torch.from_numpy(columns.astype(np.int64)))
        self.register_buffer("diagonal", torch.tensor(C.diagonal(), dtype=dtype))
        entries = torch.from_numpy(values)
        unit = float(entries.abs().mean()) if len(entries) else 1.0
        self.register_buffer("unit", torch.tensor(unit, dtype=dtype))
        start = float(threshold)
        if mode == "soft" and not start:  # what the first threshold takes away is added before
            start = _FIRST * unit
            entries = entries + start * entries.sign()
        self.register_buffer("entries", entries.to(dtype))
        self.parameter = nn.Parameter(self._first(entries, start / unit, unit).to(dtype))

    def _first(self, entries: Tensor, threshold: float, unit: float) -> Tensor:
        """Return the parameters to start with, for a threshold in units of the entries' mean size."""
        if self.mode == "soft":
            size = {"edge": len(entries), "node": len(self.diagonal), "matrix": 1}[self.per]
            first = threshold + math.log(-math.expm1(-threshold))  # its softplus is the threshold
            return torch.full((size,), first, dtype=torch.float64)
        margin = entries.abs() / unit - threshold
        if self.mode == "straight-through":
            return margin
        return torch.where(margin >= 0, _SURE, -_SURE) + margin.clamp(-1, 1)

    # -- the matrix -------------------------------------------------------------------------------

    def forward(self, generator: torch.Generator | None = None) -> Tensor:
        """Return the (N, N) matrix, through which gradients reach the parameters.

        ``generator`` is what "concrete" draws from in training; by default torch's.
        """
        if self.mode == "soft":
            values = self._thresholded()
        else:
            values = self.entries * (self._drawn(generator) if self._draws else self._mask())
        n = len(self.diagonal)
        upper = values.new_zeros(n, n).index_put((self.rows, self.columns), values)
        return upper + upper.T + torch.diag(self.diagonal)

    @property
    def _draws(self) -> bool:
        return self.mode == "concrete" and self.training

    def _thresholded(self) -> Tensor:
        tau = self.unit * nn.functional.softplus(self.parameter)
        if self.per == "node":
            tau = (tau[self.rows] + tau[self.columns]) / 2
        return self.entries.sign() * (self.entries.abs() - tau).clamp_min(0)

    def _mask(self) -> Tensor:
        """Return the masks of the edges that do not depend on chance."""
        if self.mode == "concrete":
            return _cut_off(torch.sigmoid(self.parameter))
        smooth = torch.sigmoid(self.parameter / self.temperature)
        return (self.parameter >= 0).to(smooth) + smooth - smooth.detach()

    def _drawn(self, generator: torch.Generator | None) -> Tensor:
        home = self.parameter.device if generator is None else generator.device
        uniform = torch.rand(self.parameter.shape, generator=generator, device=home, dtype=self.parameter.dtype)
        noise = torch.logit(uniform.to(self.parameter.device), eps=torch.finfo(self.parameter.dtype).eps)
        return _cut_off(torch.sigmoid((noise + self.parameter) / self.temperature))

    # -- how sparse it is ---------------------------------------------------------------------------

    def penalty(self) -> Tensor:
        """Return how much is left, for the loss.

        With "soft" the sum of the absolute values off the diagonal, relative to that before thresholding. Otherwise the
        share of all pairs that are edges: the expected one for "concrete", and one of sigmoids for "straight-through".
        """
        if self.mode == "soft":
            whole = self.entries.abs().sum() if len(self.entries) else self.unit
            return self._thresholded().abs().sum() / whole
        if self.mode == "concrete":
            chances = torch.sigmoid(self.parameter - self.temperature * math.log(-_LOW / _HIGH))
        else:
            chances = torch.sigmoid(self.parameter / self.temperature)
        return chances.sum() / self._n_pairs

    @property
    def _n_pairs(self) -> int:
        n = len(self.diagonal)
        return max(n * (n - 1) // 2, 1)

    @property
    def density(self) -> float:
        """Share of the pairs that are edges now, in evaluation mode."""
        return int(torch.count_nonzero(self._values())) / self._n_pairs

    @torch.no_grad()
    def _values(self) -> Tensor:
        return self._thresholded() if self.mode == "soft" else self.entries * self._mask()

    def sparsified(self) -> sp.csr_array:
        """Return the matrix in evaluation mode, without its zeros and without gradients."""
        values = self._values().cpu()
        kept = values != 0
        rows, columns = self.rows.cpu()[kept].numpy(), self.columns.cpu()[kept].numpy()
        upper = sp.coo_array((values[kept].numpy(), (rows, columns)), shape=(len(self.diagonal),) * 2)
        return sp.csr_array(upper + upper.T + sp.diags_array(self.diagonal.cpu().numpy()))

    def to_operator(self) -> CovarianceOperator:
        """Return that matrix as a shift, in the backend that suits it."""
        return as_operator(self.sparsified(), device=self.diagonal.device, dtype=self.diagonal.dtype)

    def extra_repr(self) -> str:
        return f"{self.mode}, N={len(self.diagonal)}, edges={len(self.entries)}, per={self.per}"


def _cut_off(sigmoid: Tensor) -> Tensor:
    """Stretch numbers between 0 and 1 a little, and cut off what lies beyond."""
    return (sigmoid * (_HIGH - _LOW) + _LOW).clamp(0, 1)
