"""A certified bound on how far a trained network moves when its covariance does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from svnn.operators import plain_matrix
from svnn.stability import _inputs
from svnn.stability._network import (
    activation_slope,
    folded_layers,
    head_slope,
    hidden_norms,
    network,
    on_both,
    readout_norm,
    signals_of,
)
from svnn.stability._norms import ROUNDING, Spectrum, bank_change


@dataclass(frozen=True)
class LayerTerms:
    r"""What a layer adds to a :class:`Certificate`.

    Attributes
    ----------
    change : float
        Bound on :math:`\|B_l(\hat C) - B_l(C)\|`.
    gain, gain_hat : float
        Bounds on :math:`\|B_l(C)\|` and :math:`\|B_l(\hat C)\|`.
    bias : float
        Norm of what the layer adds to every signal, :math:`\sqrt N \|b_l\|`.
    norm : float
        :math:`n_l`, bound on (with signals: value of) the norm of the layer's output on C.
    error : float
        :math:`e_l`, bound on how far the layer's output moves.
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
        Bound on the Euclidean norm of the change of the output: of the prediction in the units of
        the target for a regressor, of the logits for a classifier (probabilities move at most
        half as far), of ``forward`` for a module. With signals, the largest over them.
    embedding : float
        Bound on the Frobenius norm of the change of the node embeddings.
    layers : tuple of LayerTerms
        With signals, those of the one with the largest bound.
    readout, head : float
        Lipschitz constants of what follows the layers.
    norm : float
        Norm of the (standardised) input.
    scale : float
        The number that both covariances are divided by.
    failure_probability : float
        Probability that some Lanczos bound is too small; 0 for N <= 1024 where every change is
        formed, and with ``deterministic=True``. Below 1e-10 always.
    per_sample : ndarray of shape (t,) or None
        The bound on the output for each signal, where signals are given.
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

    def __float__(self) -> float:
        return self.output

    def __str__(self) -> str:
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
    model: Any, C: Any, C_hat: Any, X: Any = None, *, norm: float = 1.0, deterministic: bool = False
) -> Certificate:
    r"""Bound how far a trained network's output moves when its covariance changes from C to :math:`\hat C`.

    Parameters
    ----------
    model : SVNN, or fitted SVNNRegressor or SVNNClassifier
        As in prediction: no dropout, batch norm with its running statistics.
    C, C_hat : matrices of shape (N, N), operators or fitted covariance estimators
        Dense or sparse, also indefinite; for an estimator on the scale of its standardised features, as
        ``model.on`` takes them.
    X : array, optional
        Signals: data as for ``predict``, or (…, N, in_features) for a module. The norms of the hidden
        signals on C are then exact and the bound is for these signals, each on its own.
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

    bound the norm of layer l's output and its change; biases cancel in the latter. The readout
    and the MLP head multiply :math:`e_L` by their Lipschitz constants. This takes the place of the paper's
    :math:`L F^{L-1} \beta` (Thm. 2), which needs filters of gain at most 1.

    Both covariances are divided by the same number, so that the same filters are compared: by the
    training scale for an estimator, as ``model.on`` does; by the norm of C for a module with
    ``normalize=True`` (run it on ``svnn.as_operator(C_hat).normalized(certificate.scale)`` to compare),
    by none with ``normalize=False``.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn import SVNNRegressor
    >>> from svnn.datasets import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=100, n_features=10, random_state=0)
    >>> model = SVNNRegressor(covariance="sample", hidden=(4, 4), max_epochs=20, random_state=0).fit(data.X, data.y)
    >>> C_hat = np.where(abs(model.covariance_) > 0.1, model.covariance_, 0.0)
    >>> bound = certificate(model, model.covariance_, C_hat, data.X)
    >>> moved = abs(model.on(C_hat).predict(data.X) - model.predict(data.X))
    >>> bool((moved <= bound.per_sample).all()), len(bound.layers)
    (True, 2)
    """
    module = network(model)
    before, after, model = on_both(model, module, C, C_hat)
    layers = folded_layers(module)
    if X is not None:
        signals = signals_of(model, module, X, before.shape[0])
        norms = hidden_norms(before, layers, module.activation, signals)
    else:
        _inputs.numbers(0, norm=norm)
        norms = [np.array([float(norm)])]
    A, B = (_inputs.matrix(plain_matrix(o)) for o in (before, after))
    spectra = [Spectrum.of(M, deterministic) for M in (A, B, B - A)]
    failure = sum(s.failure for s in spectra)
    slope, errors, rows = activation_slope(module.activation), [np.zeros_like(norms[0])], []
    for number, (weight, bias) in enumerate(layers):
        change, risk = bank_change(weight, A, B, spectra, deterministic)
        gain, gain_hat = (s.gain(weight) for s in spectra[:2])
        shift = float(np.sqrt(A.shape[0]) * np.linalg.norm(bias))
        if X is None:
            norms.append(gain * norms[-1] + shift)
        errors.append(slope * (change * norms[number] + gain_hat * errors[-1]))
        rows.append((change, gain, gain_hat, shift))
        failure += risk
    worst = int(errors[-1].argmax())
    readout, head = readout_norm(module, A.shape[0]), head_slope(model, module)
    outputs = errors[-1] * readout * head * (1 + ROUNDING)
    return Certificate(
        output=float(outputs[worst]),
        embedding=float(errors[-1][worst]) * (1 + ROUNDING),
        layers=tuple(
            LayerTerms(*row, norm=float(n[worst]), error=float(e[worst]))
            for row, n, e in zip(rows, norms[1:], errors[1:], strict=True)
        ),
        readout=readout,
        head=head,
        norm=float(norms[0][worst]),
        scale=1.0 if before.scale is None else before.scale,
        failure_probability=failure,
        per_sample=None if X is None else outputs,
    )


def largest_filter_change(model: Any, C: Any, C_hat: Any) -> float:
    r"""Return :math:`\max_{l,f,g} \|H^l_{fg}(\hat C) - H^l_{fg}(C)\|`, the paper's :math:`\beta`.

    Parameters
    ----------
    model, C, C_hat : as for :func:`certificate`

    Returns
    -------
    float
        The exact spectral norm for the filter that moves most. Forms every filter as a dense matrix:
        for small networks and N.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn.nn import SVNN
    >>> network = SVNN(1, 1, hidden=(4, 4), order=1, normalize=False)
    >>> round(largest_filter_change(network, np.eye(3), np.eye(3)), 12)
    0.0
    """
    module = network(model)
    before, after, _ = on_both(model, module, C, C_hat)
    A, B = (_inputs.dense(plain_matrix(o)) for o in (before, after))
    powers = [np.eye(len(A)), np.eye(len(A))]
    changes = []
    for _ in range(module.order + 1):
        changes.append(powers[1] - powers[0])
        powers = [powers[0] @ A, powers[1] @ B]
    largest = 0.0
    for weight, _ in folded_layers(module):
        filters = np.einsum("kfg,kij->fgij", weight, np.array(changes))
        largest = max(largest, float(np.abs(np.linalg.eigvalsh(filters)).max()))
    return largest
