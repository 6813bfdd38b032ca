"""Classification with a sparse covariance neural network."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from svnn._types import ColumnLike, CovarianceLike, DataLike, MatrixLike, RandomState
from svnn._validation import at_once
from svnn.estimators._base import BaseSVNN, fitted_property
from svnn.estimators._rules import SVNN_CLASSIFIER
from svnn.estimators._units import check_targets, softmax
from svnn.estimators.training import Callback, plain_torch


class SVNNClassifier(ClassifierMixin, BaseSVNN):
    """Classification with a sparse covariance neural network.

    Two or more classes, labels of any type. Estimates the covariance of the features, sparsifies it, and trains
    networks whose layers are polynomials of it, or of its logarithm, on the cross-entropy.

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
    hidden : sequence of int, default=(12,)
        Values per node after each layer; its length is the number of layers.
    activation : {"leaky_relu", "relu", "elu", "gelu", "silu", "tanh", "identity"}, default="silu"
        The function that is applied to the values after each layer.
    readout : {"mean", "weighted", "flatten"}, default="weighted"
        How the nodes become one vector per sample. "weighted" learns weights of the nodes. "mean" averages over them,
        as the paper does: it cannot tell nodes apart and is usually less accurate, but transfers to another N.
        "flatten" feeds every node to the head.
    heads : int or "auto", default="auto"
        Number of weight vectors of the weighted readout. "auto" is two for each class, from 8 to 32.
    mlp : sequence of int, default=()
        Hidden sizes of the head; empty for a linear head.
    batch_norm : bool, default=False
        Whether the values after each layer are normalised over the batch.
    dropout : float in [0, 1), default=0.0
        Share of the values after each layer that are set to zero at random during training.
    node_dropout : float in [0, 1), default=0.4
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
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the loss.
    standardize : bool, default=True
        Whether every feature gets mean 0 and standard deviation 1 in the training rows.
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
    classes_ : ndarray of shape (n_classes,)
        The labels, in order.
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
    out_of_fold_ : ndarray of shape (t, n_classes) or None
        Probabilities for training rows by members that saw neither them nor their covariance;
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
    SVNNRegressor : the same for numbers.
    BlendClassifier : weighs S-VNNs against other models.
    svnn.nn.SVNN : the network alone, as a torch module.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn import SVNNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVNNClassifier(max_epochs=50, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _rules = SVNN_CLASSIFIER
    _are_labels = True
    classes_ = fitted_property("fitted_.targets.classes", "The labels, in order.")

    def __init__(
        self,
        *,
        covariance: CovarianceLike | MatrixLike = "hard",
        use: str = "auto",
        order: int | str = "auto",
        members: int = 8,
        hidden: Sequence[int] = (12,),
        activation: str = "silu",
        readout: str = "weighted",
        heads: int | str = "auto",
        mlp: Sequence[int] = (),
        batch_norm: bool = False,
        dropout: float = 0.0,
        node_dropout: float = 0.4,
        resample: str = "fixed",
        covariance_per: str = "table",
        shrink: bool = True,
        class_weight: Mapping[Hashable, float] | str | None = None,
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
        self.class_weight = class_weight
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
        classes: ColumnLike | None = None,
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
        y : array of shape (t,)
        classes : array of shape (n_classes,), optional
            All labels that will ever come, in the first call; by default those of its ``y``. In later calls it may be
            left out.
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

        if hasattr(self, "fitted_"):
            if classes is not None:
                known = np.unique(check_targets(classes, are_labels=True))
                if not np.array_equal(known, self.classes_):
                    raise ValueError(
                        f"classes={known.tolist()} are not those of the first call, {self.classes_.tolist()}; leave "
                        "classes out, or fit again."
                    )
            self.fitted_, self.shift_ = updated(self, X, y, sample_weight, validation_data)
            return self
        check_can_update(self)
        self._fit(X, y, sample_weight, validation_data=validation_data, classes=classes)
        if classes is not None:
            unseen = np.setdiff1d(self.classes_, check_targets(y, are_labels=True))
            self.fitted_ = replace(self.fitted_, unseen=tuple(np.searchsorted(self.classes_, unseen).tolist()))
        return self

    def predict_proba(
        self, X: DataLike, *, shift: ArrayLike | None = None, groups: ColumnLike | None = None
    ) -> np.ndarray:
        """Return the probabilities of the classes, of shape (t, n_classes), in the order of ``classes_``.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        shift : array of shape (t, N, N), optional
            The matrix of every row, for a model that was fitted with such.
        groups : array of shape (t,), optional
            The group of every row, with ``covariance_per="group"``.
        """
        found: np.ndarray = softmax(self._outputs(X, shift=shift, groups=groups)).mean(0)
        return found

    def predict(self, X: DataLike, *, shift: ArrayLike | None = None, groups: ColumnLike | None = None) -> np.ndarray:
        """Return the most probable label of every row; ``shift`` and ``groups`` as in :meth:`predict_proba`."""
        probabilities = self.predict_proba(X, shift=shift, groups=groups)
        return self.fitted_.targets.decode(probabilities)

    def score(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        shift: ArrayLike | None = None,
        groups: ColumnLike | None = None,
    ) -> float:
        """Return the share of labels that are right; ``shift`` and ``groups`` as in :meth:`predict`."""
        from sklearn.metrics import accuracy_score  # slow to import

        return float(accuracy_score(y, self.predict(X, shift=shift, groups=groups), sample_weight=sample_weight))
