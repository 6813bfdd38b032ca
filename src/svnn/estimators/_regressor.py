"""Regression with a sparse covariance neural network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Self, cast, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from svnn._types import ColumnLike, CovarianceLike, DataLike, MatrixLike, RandomState
from svnn._validation import at_once
from svnn.estimators._base import BaseSVNN, variance_of
from svnn.estimators._rules import SVNN_REGRESSOR
from svnn.estimators._units import NumberTargets
from svnn.estimators.training import Callback, plain_torch


class SVNNRegressor(RegressorMixin, BaseSVNN):
    """Regression with a sparse covariance neural network.

    Estimates the covariance of the features, sparsifies it, and trains networks whose layers are polynomials of it, or
    of its logarithm.

    Parameters
    ----------
    covariance : name, estimator or matrix, default="hard"
        The covariance whose polynomials filter the data: "sample" (the dense VNN), "hard", "soft", "adaptive", "acv",
        "rcv", "ledoit_wolf", "oas", "graphical_lasso", "factors", "banding", "tapering", "significant", "tyler",
        "huber", or any estimator with ``fit`` and ``covariance_``, from svnn or elsewhere, which is fitted on the
        standardised training rows only. A symmetric matrix or operator is used as it is, on the scale of the
        standardised features; it need not be positive semidefinite: sparsified covariances often are not.
    use : {"auto", "covariance", "log", "precision"}, default="auto"
        What the filters are polynomials of: the estimator's ``covariance_``; its logarithm
        (:func:`svnn.functional.log_covariance`), in which directions of small variance count as much as those of large
        variance, and which is dense; or its ``precision_``, which is what graphical lasso makes sparse. "auto" is the
        logarithm up to 1000 features, and the covariance beyond, for a matrix of your own and where realisations are
        drawn in training.
    order : int or "auto", default="auto"
        K, the number of shifts of every filter; 0 ignores the covariance. "auto" is 5 for the logarithm of the
        covariance, otherwise 2.
    members : int, default=8
        Number of networks that are trained at once, each with its own weights, dropout, held-out rows and best epoch.
        Predictions are averaged; how far they differ says how sure they are.
    hidden : sequence of int, default=(8,)
        Values per node after each layer; its length is the number of layers.
    activation : {"leaky_relu", "relu", "elu", "gelu", "silu", "tanh", "identity"}, default="silu"
        The function that is applied to the values after each layer.
    readout : {"mean", "weighted", "flatten"}, default="weighted"
        How the nodes become one vector per sample. "weighted" learns weights of the nodes. "mean" averages over them,
        as the paper does: it cannot tell nodes apart and is usually less accurate, but transfers to another N.
        "flatten" feeds every node to the head.
    heads : int or "auto", default="auto"
        Number of weight vectors of the weighted readout. "auto" is one for each target, from 4 to 32.
    mlp : sequence of int, default=(32,)
        Hidden sizes of the head; empty for a linear head.
    batch_norm : bool, default=False
        Whether the values after each layer are normalised over the batch.
    dropout : float in [0, 1), default=0.0
        Share of the values after each layer that are set to zero at random during training.
    node_dropout : float in [0, 1), default=0.1
        Share of the nodes left out of a sample's readout at random during training.
    resample : {"fixed", "epoch", "forward", "shift"}, default="fixed"
        For a stochastic covariance (ACV, RCV): train on one realisation, or draw a fresh one every epoch, every forward
        pass, or every shift of every layer. Prediction always uses ``covariance_``.
    covariance_per : {"table", "sample", "group"}, default="table"
        What has a covariance of its own. "table": all rows share one. "sample": each row of X, of shape (t, N, F), has
        that of its F values, such as the connectivity of a subject whose N regions were measured F times, or of a
        window of returns. "group": the rows of each of the ``groups`` given to ``fit`` and ``predict`` share one. Where
        rows come with matrices of their own, give them to ``fit`` and ``predict`` as ``shift=``. The network has the
        same weights for all of them.
    shrink : bool, default=True
        Whether the outputs are shrunk towards a constant, by the share that held-out rows trust. Where the rows are few
        and nothing is learned, that constant alone is predicted.
    loss : {"huber", "squared", "absolute"}, default="huber"
        What is minimised, on the scale of the standardised targets (their own scale with ``standardize=False``).
        "huber" is squared up to 0.5 and absolute beyond: outliers weigh less.
    standardize : bool, default=True
        Whether every feature, and every target, gets mean 0 and standard deviation 1 in the training rows.
    lr : float, default=0.01
        Learning rate of Adam.
    weight_decay : float, default=1e-5
        Strength of the penalty on the squares of the weights, as Adam applies it.
    schedule : {"one_cycle", "constant"}, default="one_cycle"
        How the learning rate changes. "one_cycle" rises to ``lr`` in the first third of the epochs and then falls to
        zero; the weights are averaged over the last steps, and the first layer works on uncorrelated signals.
        "constant" is plain Adam, as in the paper.
    max_epochs : int or "auto", default="auto"
        The most epochs to train for. "auto" is 1000 with a constant learning rate. With one cycle it is 120, and down
        to 40 where an epoch has many batches or there are many features.
    patience : int or None, default=30
        Number of epochs without a better validation loss after which training stops; None never stops early. The best
        weights are kept.
    batch_size : int, "auto" or None, default="auto"
        Rows of a gradient step. "auto" is 64, or fewer (a power of two) where an epoch would have less than about four
        steps; None takes all rows at once.
    validation_fraction : float in [0, 1), default=0.1
        Share of the rows held out for early stopping where ``fit`` gets no ``validation_data``; 0 watches the training
        loss instead. Each of several members holds out other rows, at most half of them.
    warm_start : bool, default=False
        Whether ``fit`` starts from the weights of the last ``fit`` or ``partial_fit`` in place of random ones. All else
        is learned anew. Networks of another shape are an error.
    device : str, default="auto"
        "auto" is the GPU where there is one.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the split, the weights, the batches and the realisations.
    verbose : int, default=0
        1 shows the progress: a bar on a terminal, lines in scripts and notebooks.
    callbacks : sequence of callables, default=()
        Each is called after every epoch with a dict of ``epoch``, ``train_loss``, ``valid_loss`` and ``best_loss``;
        returning True stops the training. :class:`svnn.estimators.callbacks.Checkpoint` lets a long fit be resumed.

    Attributes
    ----------
    module_ : svnn.nn.SVNN or svnn.nn.Members
        The trained network, or several of them that predict together.
    covariance_estimator_ : estimator or None
        The fitted estimator of the covariance; None where a matrix was given or rows have covariances of their own, and
        after ``load`` for classes that are neither svnn's nor scikit-learn's.
    covariance_ : csr_array or ndarray of shape (N, N)
        The covariance of the standardised features. Where rows have covariances of their own, the mean of those of the
        training rows.
    operator_ : CovarianceOperator
        The shift: the covariance divided by its spectral norm, ``operator_.scale``; with ``use="log"`` the logarithm
        of that, and ``operator_.scale`` is 1.
    out_of_fold_ : ndarray of the shape of y or None
        Predictions for training rows by members that saw neither them nor their covariance;
        NaN for rows that no member held out; None where no rows were.
    history_ : dict of lists
        ``train_loss`` and ``valid_loss`` of every epoch; ``best_epoch`` of every member, from 1.
        ``history_.to_frame()`` is a frame of pandas with a row for every epoch.
    n_iter_ : int
        Number of epochs trained.
    n_features_in_ : int
        Number of features, N.
    feature_names_in_ : ndarray of shape (N,)
        Names of the features, where X has named columns.

    See Also
    --------
    SVNNClassifier : the same for labels.
    BlendRegressor : weighs S-VNNs against other models.
    svnn.nn.SVNN : the network alone, as a torch module.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn import SVNNRegressor
    >>> from svnn.paper import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=200, n_features=20, random_state=0)
    >>> model = SVNNRegressor(covariance="hard", max_epochs=50, random_state=0)
    >>> model.fit(data.X[:150], data.y[:150]).predict(data.X[150:]).shape
    (50,)
    >>> bool(model.score(data.X[150:], data.y[150:]) > 0.1)
    True

    How far off may a prediction be?

    >>> mean, std = model.predict(data.X[150:], return_std=True)
    >>> mean.shape, std.shape, bool((std > 0).all())
    ((50,), (50,), True)

    The fitted covariance estimator says what it found, here the share of the covariances that it kept:

    >>> 0 < model.covariance_estimator_.density_ < 1
    True
    """

    _rules = SVNN_REGRESSOR
    _are_labels = False

    def __init__(
        self,
        *,
        covariance: CovarianceLike | MatrixLike = "hard",
        use: str = "auto",
        order: int | str = "auto",
        members: int = 8,
        hidden: Sequence[int] = (8,),
        activation: str = "silu",
        readout: str = "weighted",
        heads: int | str = "auto",
        mlp: Sequence[int] = (32,),
        batch_norm: bool = False,
        dropout: float = 0.0,
        node_dropout: float = 0.1,
        resample: str = "fixed",
        covariance_per: str = "table",
        shrink: bool = True,
        loss: str = "huber",
        standardize: bool = True,
        lr: float = 0.01,
        weight_decay: float = 1e-5,
        schedule: str = "one_cycle",
        max_epochs: int | str = "auto",
        patience: int | None = 30,
        batch_size: int | str | None = "auto",
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        device: str = "auto",
        random_state: RandomState = None,
        verbose: int = 0,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.covariance = covariance
        self.use = use
        self.order = order
        self.members = members
        self.hidden = hidden
        self.activation = activation
        self.readout = readout
        self.heads = heads
        self.mlp = mlp
        self.batch_norm = batch_norm
        self.dropout = dropout
        self.node_dropout = node_dropout
        self.resample = resample
        self.covariance_per = covariance_per
        self.shrink = shrink
        self.loss = loss
        self.standardize = standardize
        self.lr = lr
        self.weight_decay = weight_decay
        self.schedule = schedule
        self.max_epochs = max_epochs
        self.patience = patience
        self.batch_size = batch_size
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.callbacks = callbacks

    @at_once
    @plain_torch()
    def partial_fit(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        validation_data: tuple[DataLike, ColumnLike] | None = None,
    ) -> Self:
        """Update the model with new rows; the first call is :meth:`fit`.

        The covariance is updated by the ``partial_fit`` of its estimator, the filters are re-expressed on it, and the
        networks are trained for 10 epochs with the new rows, at a tenth of ``lr``. Means and scales of the
        standardisation, and the number by which the covariance is divided, stay as they were in the first call: filters
        are polynomials of the same units. ``history_`` and ``n_iter_`` are those of the last call.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
            Rows in the order of time, where the covariance has a ``halflife``; one is enough after the first call.
        y : array of shape (t,), or (t, n_outputs)
        sample_weight : array of shape (t,), optional
            Only ratios within one call count.
        validation_data : tuple (X, y), optional
            The epoch of the least loss on it is kept; by default that of the least training loss.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Where the covariance estimator has no ``partial_fit``, as "ledoit_wolf", "adaptive" and ``tau="cv"``.
        """
        from svnn.estimators._partial_fit import check_can_update, updated

        if not hasattr(self, "fitted_"):
            check_can_update(self)
            return self._fit(X, y, sample_weight, validation_data=validation_data)
        self.fitted_, self.shift_ = updated(self, X, y, sample_weight, validation_data)
        return self

    @overload
    def predict(
        self,
        X: DataLike,
        return_std: Literal[False] = False,
        *,
        shift: ArrayLike | None = ...,
        groups: ColumnLike | None = ...,
    ) -> np.ndarray: ...

    @overload
    def predict(
        self, X: DataLike, return_std: Literal[True], *, shift: ArrayLike | None = ..., groups: ColumnLike | None = ...
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: DataLike, return_std: bool = False, *, shift: ArrayLike | None = None, groups: ColumnLike | None = None
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Return the predicted targets, of shape (t,) or (t, n_outputs) as ``y`` had in ``fit``.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        return_std : bool, default=False
            Whether to return standard deviations, of the same shape, too: how far a target is expected to lie from
            its prediction. Two things count: how far the members disagree about this row, and how far the targets of
            held-out rows with such predictions lay from them in ``fit``.
        shift : array of shape (t, N, N), optional
            The matrix of every row, for a model that was fitted with such.
        groups : array of shape (t,), optional
            The group of every row, with ``covariance_per="group"``.
        """
        outputs = self._outputs(X, shift=shift, groups=groups)
        predicted, noise = outputs.mean(0), self.fitted_.noise
        targets = cast(NumberTargets, self.fitted_.targets)
        mean = targets.decode(predicted)
        if not return_std:
            return mean
        if noise is None and len(outputs) == 1:
            raise ValueError("return_std=True needs several members, or a validation_fraction above 0 in fit.")
        variance = variance_of(outputs)
        if noise is not None:
            variance = variance + noise.variance(predicted, np.zeros_like(predicted))
        std: np.ndarray = np.sqrt(variance) * targets.standardizer.scale
        return mean, std.reshape(mean.shape)

    def score(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        shift: ArrayLike | None = None,
        groups: ColumnLike | None = None,
    ) -> float:
        """Return the R² of the predictions; ``shift`` and ``groups`` as in :meth:`predict`."""
        from sklearn.metrics import r2_score  # slow to import

        return float(r2_score(y, self.predict(X, shift=shift, groups=groups), sample_weight=sample_weight))

    def _member_deviation(self, X: DataLike, **rows: object) -> np.ndarray:
        """Return the standard deviations (t, n_outputs) of the members' predictions, in units of ``y``."""
        outputs = self._outputs(X, **rows)  # type: ignore[arg-type]
        scale = cast(NumberTargets, self.fitted_.targets).standardizer.scale
        found: np.ndarray = np.sqrt(variance_of(outputs)) * scale
        return found
