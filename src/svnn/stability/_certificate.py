"""A certified bound on how far a trained network moves when its covariance does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import nn

from svnn._types import DataLike, Matrix, MatrixLike
from svnn.nn import SVNN
from svnn.operators import CSROperator
from svnn.stability._bounds import ROUNDING, Spectrum, apply_bank, bank_change
from svnn.stability._inputs import check_numbers
from svnn.stability._network import (
    ACTIVATION_SLOPES,
    Layer,
    Network,
    NetworkParts,
    Shifts,
    folded_layers,
    networks_in,
    output_slopes,
    parts_on,
    signals_for_network,
)

#: Hidden values held at once when signals pass the network.
_VALUES = 2**23


@dataclass(frozen=True)
class LayerTerms:
    r"""The contribution of one layer to a :class:`Certificate`.

    Attributes
    ----------
    change : float
        Bound on :math:`\|B_l(\hat C) - B_l(C)\|`.
    gain, gain_hat : float
        Bounds on :math:`\|B_l(C)\|` and :math:`\|B_l(\hat C)\|`.
    bias : float
        Norm of the bias that the layer adds to every signal, :math:`\sqrt N \|b_l\|`.
    norm : float
        :math:`n_l`, the norm of the output of the layer on C: a bound, or with signals the exact value.
    error : float
        :math:`e_l`, a bound on how far the output of the layer moves.
    """

    change: float
    gain: float
    gain_hat: float
    bias: float
    norm: float
    error: float


@dataclass(frozen=True)
class Certificate:
    r"""A bound on how far a network moves from one covariance to another; ``float(certificate)`` is ``output``.

    Attributes
    ----------
    output : float
        Bound on the Euclidean norm of the change of the output: for a regressor of the prediction in the units of
        the target, for a classifier of the logits (probabilities move at most half as far), for a module of
        ``forward``. With several signals this is the largest of their bounds.
    embedding : float
        Bound on the Frobenius norm of the change of the node embeddings.
    layers : tuple of LayerTerms
        What each layer contributes; with several signals, for the one with the largest bound.
    readout, head : float
        Lipschitz constants of the readout and of the MLP head, which follow the layers.
    norm : float
        Norm of the (standardised) input.
    scale : float
        The number that both covariances are divided by.
    failure_probability : float
        Probability that some Lanczos bound is too small. It is 0 with ``deterministic=True``, and for small networks
        on few features, where all norms are computed; it is always below 1e-10.
    per_sample : ndarray of shape (t,) or None
        The bound on the output for each signal, where signals are given.
    members : tuple of Certificate
        Where several networks predict together, the certificate of each. The bound on their output is the weighted sum
        of theirs; ``layers``, ``readout`` and ``head`` are those of the member with the largest bound.
    """

    output: float
    embedding: float
    layers: tuple[LayerTerms, ...]
    readout: float
    head: float
    norm: float
    scale: float
    failure_probability: float
    per_sample: np.ndarray | None = None
    members: tuple[Certificate, ...] = ()

    def __float__(self) -> float:
        return self.output

    def __str__(self) -> str:
        if self.members:
            bounds = ", ".join(f"{member.output:.4g}" for member in self.members)
            return f"output    <= {self.output:.4g}, the weighted mean over members: {bounds}"
        head = ("layer", "|B(Ĉ)-B(C)|", "|B(C)|", "|B(Ĉ)|", "bias", "norm", "error")
        lines = ["".join(f"{name:>13}" for name in head)]
        lines.append(f"{0:13d}{'':52}{self.norm:13.4g}{0.0:13.4g}")
        for number, t in enumerate(self.layers, 1):
            values = (t.change, t.gain, t.gain_hat, t.bias, t.norm, t.error)
            lines.append(f"{number:13d}" + "".join(f"{value:13.4g}" for value in values))
        lines.append(f"embedding <= {self.embedding:.4g}")
        lines.append(f"output    <= {self.output:.4g}  (readout {self.readout:.4g}, head {self.head:.4g})")
        if self.failure_probability:
            lines.append(f"except with probability {self.failure_probability:.1g}")
        return "\n".join(lines)


def certificate(
    model: Network,
    C: MatrixLike,
    C_hat: MatrixLike,
    X: DataLike | None = None,
    *,
    norm: float = 1.0,
    deterministic: bool = False,
) -> Certificate:
    r"""Bound how far the output of a trained network moves when its covariance changes from C to :math:`\hat C`.

    Parameters
    ----------
    model : SVNN, or fitted S-VNN or blend
        The bound is for its predictions: without dropout, batch norm with its running statistics. In a blend only
        S-VNNs with edges move, each with its weight.
    C, C_hat : matrices of shape (N, N), operators or fitted covariance estimators
        Dense or sparse, also with negative eigenvalues; for an estimator on the scale of its standardised features, as
        ``model.on`` takes them. The bound depends on the matrices alone, not on how they are stored.
    X : array, optional
        Signals: data as for ``predict``, or (…, N, in_features) for a module. The bound is then for these signals,
        each on its own, and uses the exact norms of their hidden signals on C.
    norm : float, default=1.0
        Without ``X``, the bound holds for every input with Frobenius norm at most this, *in standardised
        units* for an estimator; N standardised features have a norm of about :math:`\sqrt N`.
    deterministic : bool, default=False
        Leave out the Lanczos iterations, whose bounds fail with probability below 1e-10.

    Returns
    -------
    Certificate

    Notes
    -----
    With :math:`B_l(C) = \sum_k C^k \otimes W_{lk}^T` the filter bank of layer l, batch norm
    folded into its weights and bias, and an activation with :math:`\sigma(0) = 0`, :math:`|\sigma(a)| \le |a|` and
    Lipschitz constant s,

    .. math:: n_l &= \|B_l(C)\|\, n_{l-1} + \sqrt N \|b_l\|, \\
              e_l &= s \big( \|B_l(\hat C) - B_l(C)\|\, n_{l-1}
                     + \|B_l(\hat C)\|\, e_{l-1} \big), \qquad e_0 = 0,

    bound the norm of the output of layer l and its change; biases cancel in the latter. The readout
    and the MLP head multiply :math:`e_L` by their Lipschitz constants. This replaces the bound
    :math:`L F^{L-1} \beta` of Thm. 2, which needs filters of gain at most 1.

    Both covariances are divided by the same number, so that the same filters are compared. For an estimator this is
    the scale of its training, as in ``model.on``; for a module with ``normalize=True`` it is the norm of C (run the
    module on ``svnn.as_operator(C_hat).normalized(certificate.scale)`` to compare); a module with
    ``normalize=False`` divides by nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn import SVNNRegressor
    >>> from svnn.paper import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=100, n_features=10, random_state=0)
    >>> model = SVNNRegressor(covariance="sample", hidden=(4, 4), max_epochs=20, shrink=False, random_state=0)
    >>> model = model.fit(data.X, data.y)
    >>> C_hat = np.where(abs(model.covariance_) > 0.1, model.covariance_, 0.0)
    >>> bound = certificate(model, model.covariance_, C_hat, data.X)
    >>> moved = abs(model.on(C_hat).predict(data.X) - model.predict(data.X))
    >>> bool((moved <= bound.per_sample).all()), len(bound.layers)
    (True, 2)
    """
    if X is None:
        check_numbers(0, norm=norm)
    found = []
    for weight, part in networks_in(model):
        parts, shifts = parts_on(part, C, C_hat)
        signals = float(norm) if X is None else signals_for_network(part, X, shifts.before.shape[0])
        spectra = [Spectrum.of(M, deterministic) for M in (shifts.before, shifts.after, shifts.after - shifts.before)]
        share = weight / len(parts.networks)
        found += [
            (share, _of_network(parts, network, shifts, spectra, signals, deterministic)) for network in parts.networks
        ]
    return found[0][1] if len(found) == 1 and found[0][0] == 1 else _of_mean(found)


def _of_network(
    parts: NetworkParts,
    network: SVNN,
    shifts: Shifts,
    spectra: list[Spectrum],
    signals: np.ndarray | float,
    deterministic: bool,
) -> Certificate:
    """Return the certificate of one network, for signals (t, N, F) or for all inputs up to a norm."""
    A, B, scale = shifts
    n, layers = A.shape[0], folded_layers(network)
    failure = sum(spectrum.failure for spectrum in spectra)
    slope = ACTIVATION_SLOPES[type(network.activation)]
    if isinstance(signals, np.ndarray):
        norms = _hidden_norms(A, layers, network.activation, signals)
    else:
        norms = [np.array([signals])]
    errors, rows = [np.zeros_like(norms[0])], []
    for number, (weight, bias) in enumerate(layers):
        change, risk = bank_change(weight, A, B, spectra, deterministic)
        gain, gain_hat = (spectrum.gain(weight) for spectrum in spectra[:2])
        shift = float(np.sqrt(n) * np.linalg.norm(bias))
        if not isinstance(signals, np.ndarray):
            norms.append(gain * norms[-1] + shift)
        errors.append(slope * (change * norms[number] + gain_hat * errors[-1]))
        rows.append((change, gain, gain_hat, shift))
        failure += risk

    readout, head = output_slopes(network, n, parts.units)
    outputs = errors[-1] * readout * head * (1 + ROUNDING)
    worst = int(errors[-1].argmax())
    return Certificate(
        output=float(outputs[worst]),
        embedding=float(errors[-1][worst]) * (1 + ROUNDING),
        layers=tuple(
            LayerTerms(*row, norm=float(size[worst]), error=float(error[worst]))
            for row, size, error in zip(rows, norms[1:], errors[1:], strict=True)
        ),
        readout=readout,
        head=head,
        norm=float(norms[0][worst]),
        scale=scale,
        failure_probability=failure,
        per_sample=outputs if isinstance(signals, np.ndarray) else None,
    )


def _hidden_norms(C: Matrix, layers: list[Layer], activation: nn.Module, signals: np.ndarray) -> list[np.ndarray]:
    """Return the norms of the signals and of the output of every layer on C, each of shape (t,)."""
    widest = max(layer.weight.shape[2] for layer in layers)
    rows = max(1, _VALUES // (signals.shape[1] * widest))
    runs_on = C if isinstance(C, np.ndarray) else CSROperator.from_scipy(C)  # several times faster than scipy
    parts = []
    for start in range(0, len(signals), rows):
        u = signals[start : start + rows]
        norms = [np.linalg.norm(u, axis=(1, 2))]
        for weight, bias in layers:
            u = activation(torch.from_numpy(apply_bank(runs_on, u, weight) + bias)).numpy()
            norms.append(np.linalg.norm(u, axis=(1, 2)))
        parts.append(norms)
    return list(np.concatenate(parts, axis=1))


def _of_mean(found: list[tuple[float, Certificate]]) -> Certificate:
    """Return the certificate of the weighted sum of several networks, and of their embeddings side by side."""
    weights, members = zip(*found, strict=True)
    bounds: Any = [member.output if member.per_sample is None else member.per_sample for member in members]
    mean = np.tensordot(weights, np.asarray(bounds), 1) * (1 + ROUNDING)
    worst = max(members, key=attrgetter("output"))
    return replace(
        worst,
        output=float(np.max(mean)),
        embedding=float(np.linalg.norm([member.embedding for member in members])) * (1 + ROUNDING),
        failure_probability=sum(member.failure_probability for member in members),
        per_sample=None if worst.per_sample is None else mean,
        members=members,
    )


def largest_filter_change(model: Network, C: MatrixLike, C_hat: MatrixLike) -> float:
    r"""Return :math:`\beta` of the paper's Thm. 2, :math:`\max_{l,f,g} \|H^l_{fg}(\hat C) - H^l_{fg}(C)\|`.

    Parameters
    ----------
    model, C, C_hat : as for :func:`certificate`

    Returns
    -------
    float
        The exact spectral norm for the filter that moves most. Every filter is formed as a dense matrix, so this is
        for small networks and few features.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.nn import SVNN
    >>> network = SVNN(1, 1, hidden=(4, 4), order=1, normalize=False)
    >>> round(largest_filter_change(network, np.eye(3), np.eye(3)), 12)
    0.0
    """
    largest = 0.0
    for _, part in networks_in(model):
        parts, shifts = parts_on(part, C, C_hat)
        A, B = (M if isinstance(M, np.ndarray) else M.toarray() for M in shifts[:2])
        powers = [np.eye(len(A)), np.eye(len(A))]
        changes = []
        for _ in range(parts.networks[0].order + 1):
            changes.append(powers[1] - powers[0])
            powers = [powers[0] @ A, powers[1] @ B]
        for weight, _ in (layer for network in parts.networks for layer in folded_layers(network)):
            filters = np.einsum("kfg,kij->fgij", weight, np.array(changes))
            largest = max(largest, float(np.abs(np.linalg.eigvalsh(filters)).max()))
    return largest
