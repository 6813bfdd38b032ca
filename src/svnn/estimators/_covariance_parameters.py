"""The parameters of covariance networks, and what becomes of those that name a covariance."""

from __future__ import annotations

from svnn._parameters import (
    anything,
    boolean,
    check_parameters,
    declared,
    either,
    fitted,
    integer,
    number,
    one_of,
    parameter,
)
from svnn._types import CovarianceLike, HasCovariance, Matrix, MatrixLike
from svnn.operators import CovarianceOperator


@declared
class GivenCovariance:
    """The parameters that name a covariance, and what comes of them."""

    covariance: CovarianceLike = parameter(
        default="hard",
        rule=anything("str or estimator"),
        doc="""The covariance whose polynomials filter the data: "sample" (the dense VNN), "hard", "soft", "adaptive",
        "acv", "rcv", "ledoit_wolf", "oas", "graphical_lasso", "factors", "banding", "tapering", "significant", any
        estimator with ``fit`` and ``covariance_`` from svnn or elsewhere, or "precomputed" with ``shift=``. It is
        fitted on the training rows only, after standardisation.
        """,
    )
    shift: MatrixLike | None = parameter(
        default=None,
        rule=anything("matrix of shape (N, N)"),
        doc="""The symmetric matrix for ``covariance="precomputed"``, on the scale of the standardised features. It need
        not be positive semidefinite: sparsified covariances often are not.""",
    )

    covariance_estimator_: HasCovariance | None = fitted(
        kind="estimator or None",
        doc="""The fitted estimator of the covariance; None with ``covariance="precomputed"``, where rows have
        covariances of their own, and after ``load`` for classes that are neither svnn's nor scikit-learn's.""",
    )
    covariance_: Matrix = fitted(
        kind="csr_array or ndarray of shape (N, N)",
        doc="""The covariance of the standardised features. Where rows have covariances of their own, the mean of those
        of the training rows.""",
    )
    operator_: CovarianceOperator = fitted(
        kind="CovarianceOperator",
        doc="""The shift: the covariance divided by its spectral norm, ``operator_.scale``; with ``use="log"`` the
        logarithm of that, and ``operator_.scale`` is 1.""",
    )

    def _check_parameters(self) -> None:
        check_parameters(self)
        precomputed = isinstance(self.covariance, str) and self.covariance == "precomputed"
        if precomputed and self.shift is None:
            raise ValueError('covariance="precomputed" needs the matrix as shift=.')
        if not precomputed and self.shift is not None:
            raise ValueError('shift= is used with covariance="precomputed" only; drop it or set covariance.')


@declared
class FilterParameters:
    """The parameters of covariance filters, and of the networks of them."""

    use: str = parameter(
        default="auto",
        rule=one_of("auto", "covariance", "log", "precision"),
        doc="""What the filters are polynomials of: the estimator's ``covariance_``; its logarithm
        (:func:`svnn.functional.log_covariance`), in which directions of small variance count as much as those of large
        variance; or its ``precision_``, which is what graphical lasso makes sparse. "auto" is the logarithm up to 1000
        features, and the covariance beyond, for a ``shift=`` of your own and where realisations are drawn in training.
        """,
    )
    order: int | str = parameter(
        default="auto",
        rule=either(integer(0), "auto"),
        doc="""K, the number of shifts of every filter; 0 ignores the covariance. "auto" is 5 for the logarithm of the
        covariance, otherwise 2.""",
    )
    members: int = parameter(
        default=8,
        rule=integer(1),
        doc="""Number of networks that are trained at once, each with its own weights, dropout, held-out rows and best
        epoch. Predictions are averaged; how far they differ says how sure they are.""",
    )
    basis: str = parameter(
        default="orthonormal",
        rule=one_of("orthonormal", "powers"),
        doc="""How the first layer's filters are parametrised in training. "orthonormal" replaces the shifted signals
        by combinations of them that are uncorrelated in the training data: the same filters, found faster. Fitted
        filters are always stored by their powers of the covariance.""",
    )
    blend: bool = parameter(
        default=True,
        rule=boolean(),
        doc="""Whether half of the members ignore the covariance, and a linear model (ridge regression, or a linear
        discriminant) takes part as well. ``blend_`` says how much each counts: those weights have the least loss on
        the held-out rows. A single member, and members with ``readout="mean"``, which knows nothing about single nodes,
        are blended with a constant only. False trains all members with edges and averages them as they are.""",
    )
    resample: str = parameter(
        default="fixed",
        rule=one_of("fixed", "epoch", "forward", "shift"),
        doc="""For a stochastic covariance (ACV, RCV): train on one realisation, or draw a fresh one every epoch, every
        forward pass, or every shift of every layer. Prediction always uses ``covariance_``.""",
    )
    cache_bytes: int = parameter(
        default=2**30,
        rule=number(),
        kind="int",
        doc="""Memory for the first layer's shifted signals, which are computed once and used in every epoch while they
        fit; 0 computes them anew in every step.""",
    )
    node_dropout: float = parameter(
        default=0.1,
        rule=number(0, 1),
        doc="Share of the nodes left out of a sample's readout at random during training.",
    )
    covariance_per: str = parameter(
        default="table",
        rule=one_of("table", "sample", "group"),
        doc="""What has a covariance of its own. "table": all rows share one. "sample": each row of X, of shape
        (t, N, F), has that of its F values, such as the connectivity of a subject whose N regions were measured F
        times, or of a window of returns. "group": the rows of each of the ``groups`` given to ``fit`` and ``predict``
        share one. Where rows come with matrices of their own, give them to ``fit`` and ``predict`` as ``shift=``. The
        network has the same weights for all of them.""",
    )


@declared
class GoingOnParameters:
    """The parameters of networks that go on when new rows come."""

    warm_start: bool = parameter(
        default=False,
        rule=boolean(),
        doc="""Whether ``fit`` starts from the weights of the last ``fit`` or ``partial_fit`` in place of random ones.
        All else is learned anew. Networks of another shape are an error.""",
    )
    halflife: float | None = parameter(
        default=None,
        rule=either(number(above=True), None),
        doc="""Number of rows after which a row counts half as much in the covariance, in ``fit`` and in
        ``partial_fit``, and in the linear model when ``partial_fit`` updates it; the last row is the newest. None
        counts all rows alike.""",
    )
    partial_epochs: int = parameter(
        default=10, rule=integer(1), doc="Number of epochs that ``partial_fit`` trains for with the new rows."
    )
    partial_lr: float = parameter(
        default=1e-3,
        rule=number(above=True),
        doc="Learning rate of ``partial_fit``, constant; smaller than ``lr``, since the weights are good already.",
    )
