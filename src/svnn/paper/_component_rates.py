"""Principal components of a signal on an estimated covariance: Lemma 1 and Prop. 1."""

from __future__ import annotations

import numpy as np

from svnn._types import DataLike
from svnn.stability import _inputs


def pca_rate(t: int, eigenvalues: DataLike, constant: float = 1.0) -> float:
    r"""Return the leading term of Lemma 1: how far the principal components of a signal move, :math:`\|x\| \le 1`.

    Parameters
    ----------
    t : int
        Number of samples.
    eigenvalues : array of shape (N,)
        Of the true covariance.
    constant : float, default=1.0
        c, the constant that Lemma 1 leaves open.

    Returns
    -------
    float
        Infinite where an eigenvalue is repeated.

    Notes
    -----
    .. math:: \frac{c}{\sqrt t\, \min_j |\lambda_j - \lambda_{j+1}|}

    This is an order of magnitude, not a certificate: the constant hides :math:`\sqrt N` and :math:`\|C\|`. With c = 1
    the value falls as the units of the data shrink, while the components move as far as before. The proof takes
    :math:`\|v_i - \hat v_i\| \le \sqrt 2 \|E\| / \text{gap}` with the gap of the true eigenvalues; for C = diag(1, 0)
    and E = diag(-0.51, 0.51) the components change places, and :math:`\sqrt 2 > 0.51 \sqrt 2`. With
    :math:`2 \sqrt 2` it holds.

    Examples
    --------
    >>> pca_rate(100, [1.0, 1.5, 3.0])
    0.2
    """
    _inputs.check_numbers(0, constant=constant)
    _inputs.check_numbers(1, t=t)
    lam = np.sort(_inputs.numbers_in(eigenvalues))
    if lam.ndim != 1 or len(lam) < 2 or not np.isfinite(lam).all():
        raise ValueError(f"eigenvalues must be two or more finite numbers in one dimension, got shape {lam.shape}.")
    gap = np.diff(lam).min()
    return float(constant / (np.sqrt(t) * gap)) if gap else np.inf


def sparse_pca_rate(t: int, eigenvalues: DataLike, c0: float, constant: float = 1.0) -> float:
    r"""Return the leading term of Prop. 1: how far sparse principal components of a signal move, :math:`\|x\| \le 1`.

    Parameters
    ----------
    t, eigenvalues
        As in :func:`pca_rate`.
    c0 : float
        Largest number of non-zero entries in a row of the true covariance.
    constant : float, default=1.0
        c, the constant of the thresholding error, which Prop. 1 leaves out.

    Returns
    -------
    float
        Infinite where two eigenvalues are equal.

    Notes
    -----
    .. math:: \frac{c\, c_0 N \sqrt{2 \log N}}{\sqrt t\, \min_j |\lambda_j - \lambda_{j+1}|}

    This is an order of magnitude, not a certificate; it fails with the units as :func:`pca_rate` does, and by the same
    :math:`\sqrt 2` where :math:`2 \sqrt 2` is needed.

    Examples
    --------
    >>> round(sparse_pca_rate(100, [1.0, 1.5, 3.0], c0=2), 4)
    1.7788
    """
    _inputs.check_numbers(0, c0=c0, constant=constant)
    _inputs.check_numbers(1, t=t)
    n = np.size(_inputs.numbers_in(eigenvalues))
    return constant * c0 * n * float(np.sqrt(2 * np.log(n))) * pca_rate(t, eigenvalues)
