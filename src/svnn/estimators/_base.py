"""Base of the S-VNN regressor and classifier: one ``fit``, the fitted values, and what can be done with them."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from svnn._parameters import check_parameters
from svnn._summary import FittedSummary
from svnn._types import ColumnLike, CovarianceLike, DataLike, MatrixLike, RandomState
from svnn._validation import at_once
from svnn.estimators._data import Data, check_signals, prepare
from svnn.estimators._evaluate import evaluate, networks_of
from svnn.estimators._held_out import HeldOut
from svnn.estimators._history import History
from svnn.estimators._members import Networks, filter_order, n_folds, train_members, warm_networks
from svnn.estimators._model_file import PathLike
from svnn.estimators._noise import Noise, learn_noise
from svnn.estimators._per_sample import PerSample, RowMatrices, check_no_shift
from svnn.estimators._shift import Shift, learn_shift, shift_on
from svnn.estimators._summary import network_facts
from svnn.estimators._units import Standardizer, Targets, softmax
from svnn.estimators.training import pick_device, plain_torch
from svnn.functional._array import generator
from svnn.nn import SVNN, Members

#: Training rows by which the members' agreement is measured.
_AGREEMENT_ROWS = 1000


@dataclass(frozen=True)
class Fitted:
    """Values that ``fit`` learned, beside the shift.

    Attributes
    ----------
    module : SVNN or Members
        The trained network, or several of them that predict together.
    standardizer, targets : Standardizer, Targets
        The units of the features and of what is predicted.
    n_values : int
        Values per node, F.
    standardize : bool
        Whether features were standardised.
    history : History
    out_of_fold : ndarray or None
        Predictions, or probabilities, for the rows of the caller's table that were held out; NaN for the others.
    noise : Noise or None
        How far targets lie from predictions, in standardised units; None where no row was held out.
    unseen : tuple of int
        Classes that were announced but had no rows yet.
    """

    module: SVNN | Members
    standardizer: Standardizer
    targets: Targets
    n_values: int
    standardize: bool
    history: History
    out_of_fold: np.ndarray | None = None
    noise: Noise | None = None
    unseen: tuple[int, ...] = ()

    @property
    def networks(self) -> list[SVNN]:
        """The members as a list."""
        return networks_of(self.module)


def fitted_property(path: str, doc: str) -> property:
    """Return a property that reads part of a value that ``fit`` stored, such as "shift_.covariance".

    Before ``fit`` there is no such attribute.
    """
    name, read = path.partition(".")[0], attrgetter(path)

    def get(model: Any) -> Any:
        if name not in vars(model):
            raise AttributeError(f"this {type(model).__name__} is not fitted yet; call fit first.")
        return read(model)

    return property(get, doc=doc)


def predictor_tags(tags: Tags, model: Any) -> Tags:
    """Return the tags of an estimator of numbers or labels from tables (t, N) and signals (t, N, F)."""
    tags.non_deterministic = model.random_state is None
    tags.input_tags.three_d_array = True
    tags.target_tags.multi_output = not model._are_labels
    return tags


class BaseSVNN(FittedSummary):
    """Base of :class:`SVNNRegressor` and :class:`SVNNClassifier`: all that does not depend on what is predicted."""

    fitted_: Fitted
    shift_: Shift
    n_features_in_: int
    random_state: RandomState
    _are_labels: ClassVar[bool]
    _kept_by_fit: ClassVar = ("fitted_",)  # for warm_start

    @at_once
    @plain_torch()
    def fit(
        self,
        X: DataLike,
        y: ColumnLike,
        sample_weight: ColumnLike | None = None,
        *,
        validation_data: tuple[Any, ...] | None = None,
        groups: ColumnLike | None = None,
        shift: ArrayLike | None = None,
    ) -> Self:
        """Learn the covariance of the training rows, and train the networks on it.

        Parameters
        ----------
        X : array or data frame of shape (t, N) or (t, N, F)
        y : array of shape (t,), or (t, n_outputs) for regression
        sample_weight : array of shape (t,), optional
            Weights of the samples in the loss, and in the covariance where that is one of svnn's own
            estimators (scikit-learn's take no weights). Only their ratios count.
        validation_data : tuple (X, y), optional
            Data for early stopping. By default ``validation_fraction`` of the rows are held out. Where rows come with
            matrices or groups, theirs are its third part.
        groups : array of shape (t,), optional
            Rows of one group (a subject, say) never fall on both sides of that split. With ``covariance_per="group"``
            they share a covariance.
        shift : array of shape (t, N, N), optional
            A symmetric matrix for every row, in place of the covariance of the data. The same is then given to
            ``predict``. All are divided by one number, the mean of their spectral norms. A signal that is the same in
            every row is centred away by the standardisation: where the matrices say it all, give them as ``X`` too.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight, validation_data=validation_data, groups=groups, shift=shift)

    def _fit(
        self, X: DataLike, y: ColumnLike, sample_weight: ColumnLike | None, *, shift: Any = None, **given: Any
    ) -> Self:
        check_parameters(self)
        rng = generator(self.random_state)
        seed, device = int(rng.integers(2**31)), pick_device(self.device)
        per_sample = PerSample.of(self, shift, seed)
        data = prepare(
            self,
            X,
            y,
            sample_weight,
            seed=seed,
            are_labels=self._are_labels,
            shift=shift,
            per_sample=per_sample,
            n_folds=n_folds(self),
            **given,
        )
        learned = learn_shift(self, data, per_sample, seed, device)
        start = []
        if self.warm_start and hasattr(self, "fitted_"):
            start = warm_networks(self, self.fitted_.networks, data, filter_order(self, learned.use))
        networks = train_members(self, data, learned, seed=seed, rng=rng, start=start)
        return self._keep(data, learned, networks)

    def _keep(self, data: Data, shift: Shift, networks: Networks) -> Self:
        """Take over what was learned."""
        module = networks.members[0] if len(networks.members) == 1 else Members(networks.members)
        module, held = module.to(shift.operator.device).eval(), networks.held_out
        noise = None
        if held is not None and held.weight.any() and not self._are_labels:
            some = np.flatnonzero(data.training.weight)[:_AGREEMENT_ROWS]
            matrices = None if data.training.matrices is None else data.training.matrices[some]
            outputs = evaluate(module, shift, data.training.signals[some], matrices)
            agreement = np.zeros_like(held.outputs)
            noise = learn_noise(held.outputs, agreement, held.targets, held.weight, variance_of(outputs).mean(0))
        self.shift_ = shift
        self.fitted_ = Fitted(
            module,
            data.standardizer,
            data.targets,
            data.n_values,
            bool(self.standardize),
            networks.history,
            None if held is None else _out_of_fold(held, data),
            noise,
        )
        return self

    # -- fitted attributes --------------------------------------------------------------------------

    module_ = fitted_property("fitted_.module", "The trained network, or several of them that predict together.")
    history_ = fitted_property("fitted_.history", "The losses of every epoch.")
    out_of_fold_ = fitted_property("fitted_.out_of_fold", "Predictions for training rows by members that saw neither.")
    covariance_estimator_ = fitted_property("shift_.estimator", "The fitted estimator of the covariance.")
    covariance_ = fitted_property("shift_.covariance", "The covariance of the standardised features.")
    operator_ = fitted_property("shift_.operator", "The shift: what the filters are polynomials of.")

    @property
    def n_iter_(self) -> int:
        """Number of epochs trained."""
        return len(self.history_["train_loss"])

    # -- prediction ---------------------------------------------------------------------------------

    def _signals(
        self, X: DataLike, shift: object = None, groups: ColumnLike | None = None
    ) -> tuple[np.ndarray, RowMatrices | None]:
        """Return standardised signals (t, N, F), and the matrices of rows that have their own."""
        check_is_fitted(self)
        Z = self.fitted_.standardizer(check_signals(self, X, self.fitted_.n_values))
        if not np.isfinite(Z).all():
            raise ValueError("X holds values too far from those of the training data to compute with.")
        if self.shift_.per_sample is None:
            check_no_shift(shift)
            return Z, None
        return Z, self.shift_.per_sample.matrices(Z, shift, groups)

    @plain_torch()
    def _outputs(
        self, X: DataLike, *, shift: object = None, groups: ColumnLike | None = None, embed: bool = False
    ) -> np.ndarray:
        """Return the outputs of all members, (members, t, n_outputs), or the embeddings, for every row of ``X``."""
        Z, matrices = self._signals(X, shift, groups)
        return evaluate(self.fitted_.module, self.shift_, Z, matrices, embed)

    def embed(self, X: DataLike, *, shift: ArrayLike | None = None, groups: ColumnLike | None = None) -> np.ndarray:
        """Return the node embeddings before the readout, of shape (t, N, members * hidden[-1]).

        ``shift`` and ``groups`` are those of the rows, as in ``predict``.
        """
        return self._outputs(X, shift=shift, groups=groups, embed=True)

    def row_covariances(self, X: DataLike, *, groups: ColumnLike | None = None) -> np.ndarray:
        """Return the covariances of the rows, of shape (t, N, N), with ``covariance_per`` "sample" or "group".

        They are on the scale of the standardised features. What :meth:`to_torch` and :meth:`export` make of such a
        model takes them as its second input, ``shift``.
        """
        _, matrices = self._signals(X, None, groups)
        if matrices is None:
            raise ValueError('row_covariances is for models with covariance_per="sample" or "group".')
        return matrices.matrices[matrices.index]

    # -- the trained network elsewhere --------------------------------------------------------------

    @plain_torch()
    def on(self, covariance: CovarianceLike | MatrixLike, X: DataLike | None = None) -> Self:
        """Return the same trained network on another covariance.

        Parameters
        ----------
        covariance : matrix, operator, fitted or unfitted estimator, or name
            On the scale of the standardised features. What is not fitted yet is fitted on ``X``.
        X : array of shape (t, N') or (t, N', F), optional
            Data to fit it on. With another N the training means and scales do not apply: those of
            ``X`` are used, or none where ``X`` is not given (features then have to come
            standardised, and a warning says so).

        Returns
        -------
        A fitted estimator that shares the weights. With the same N it applies exactly the same
        filters, the matrix divided by the same number as in training, so that outputs can be
        compared. With another N (which needs ``readout="mean"``) the matrix is scaled to unit
        spectral norm as in training. A model whose rows have covariances of their own becomes one with this covariance
        for all rows.
        """
        other = model_on(self, covariance, X)
        if X is None and other.n_features_in_ != self.n_features_in_ and self.fitted_.standardize:
            warnings.warn(
                f"the means and scales of {self.n_features_in_} features do not apply to {other.n_features_in_}: "
                "features have to come standardised. Give rows of them as X= to learn their means and scales.",
                stacklevel=3,  # beyond plain_torch
            )
        return other

    @plain_torch()
    def to_torch(self, dtype: torch.dtype = torch.float32) -> torch.fx.GraphModule:
        """Return the fitted model as a plain torch module that takes X in its own units.

        It holds everything that ``predict`` does: standardisation, shift, members and decoding. It is made of torch's
        own operations, needs no svnn to run, and is in evaluation mode in main memory.

        Parameters
        ----------
        dtype : torch.dtype, default=torch.float32
            ``torch.float32`` or ``torch.float64``. In double precision predictions are those of ``predict`` up to
            rounding. Single precision is faster; where features are nearly multiples of each other, as in spectra, it
            keeps four to five digits.

        Returns
        -------
        torch.fx.GraphModule
            From a tensor of shape (t, N), or (t, N, F) as in ``fit``, to predictions of the shape of ``predict``; a
            classifier's gives probabilities of shape (t, n_classes), and ``model.classes_[module(X).argmax(1)]`` are
            the labels. Nothing is checked but the shape: NaN gives NaN. Where rows have covariances of their own, these
            are the second input, of shape (t, N, N): what ``fit`` got as ``shift``, or ``model.row_covariances(X)``.

        Examples
        --------
        >>> import torch
        >>> from sklearn.datasets import load_iris
        >>> from svnn import SVNNClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> module = SVNNClassifier(max_epochs=5, members=2, random_state=0).fit(X, y).to_torch()
        >>> module(torch.tensor(X[:3])).shape
        torch.Size([3, 3])
        """
        from svnn.estimators._export import plain_module

        check_is_fitted(self)
        return plain_module(self, dtype)

    @plain_torch()
    def export(self, path: PathLike, dtype: torch.dtype = torch.float32) -> None:
        """Write :meth:`to_torch` to a file that runs without svnn; any number of rows can be predicted with it.

        Parameters
        ----------
        path : path
            ``.onnx`` for ONNX (``pip install "svnn[export]"``), ``.pt2`` for ``torch.export.load``. The file is
            replaced in one step, as by :meth:`save`.
        dtype : torch.dtype, default=torch.float32
            Of the computation and of the input ``X``.

        Notes
        -----
        An ONNX file takes ``X`` (and ``shift``, where rows have covariances of their own) and gives ``prediction``, or
        ``probabilities`` and ``label``. Its metadata hold the version of svnn, the name of the estimator, and the names
        of features and classes as JSON. A ``.pt2`` file has them as extra files, and its output is that of
        :meth:`to_torch`. Labels that are neither numbers nor truth values are text. Sparse covariances of up to 2048
        features are stored as dense matrices, larger ones by their entries.

        Examples
        --------
        >>> import os, tempfile, torch
        >>> from sklearn.datasets import load_iris
        >>> from svnn import SVNNRegressor
        >>> X, _ = load_iris(return_X_y=True)
        >>> model = SVNNRegressor(max_epochs=5, members=2, random_state=0).fit(X[:, 1:], X[:, 0])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.pt2")
        ...     model.export(path)
        ...     program = torch.export.load(path)
        >>> program.module()(torch.tensor(X[:5, 1:], dtype=torch.float32)).shape
        torch.Size([5])
        """
        from svnn.estimators._export import export

        check_is_fitted(self)
        export(self, path, dtype)

    def save(self, path: PathLike) -> None:
        """Write the fitted estimator to ``path``: one safetensors file, its header in JSON.

        :func:`svnn.load` reads it back. ``callbacks`` are not stored. A subclass of your own is
        stored too, with those of its parameters and attributes that are numbers, text, arrays, or lists and dicts of
        them; name it in ``svnn.load(path, classes=[...])``.

        The file is replaced in one step: a save that fails leaves the old one. A symbolic link stays, its target is
        written; permissions are those of the old file, or what the umask gives.
        """
        from svnn.estimators._storage import save

        save(self, path)

    def report(self, X: DataLike, y: ColumnLike | None, path: str | Path) -> Path:
        """Write one HTML file about the model and these rows: :func:`svnn.reporting.write_report`."""
        check_is_fitted(self)
        check_one_covariance(self, "a report")
        from svnn.reporting import write_report

        return write_report(path, model=self, X=X, y=y)

    # -- what it says of itself ---------------------------------------------------------------------

    def _summary(self) -> Mapping[str, str]:
        return network_facts(self) if "fitted_" in vars(self) else {}

    def __sklearn_tags__(self) -> Tags:
        return predictor_tags(super().__sklearn_tags__(), self)


def variance_of(outputs: np.ndarray) -> np.ndarray:
    """Return the variance of members' outputs (members, …), zero for a single one."""
    found: np.ndarray = outputs.var(0, ddof=1) if len(outputs) > 1 else np.zeros(outputs.shape[1:])
    return found


def check_one_covariance(model: BaseSVNN, name: str) -> None:
    """Raise an error where rows have covariances of their own, which ``name`` does not know about."""
    if model.shift_.per_sample is not None:
        raise ValueError(f"{name} is for models with one covariance; here every row, or group, has its own.")


def _out_of_fold(held: HeldOut, data: Data) -> np.ndarray | None:
    """Return the predictions, or probabilities, for held-out rows at their places in the caller's table."""
    if held.places is None:
        return None
    targets = data.targets
    predicted = softmax(held.outputs) if targets.are_labels else targets.decode(held.outputs)
    found = np.full((data.n_rows, *predicted.shape[1:]), np.nan)
    found[held.places] = predicted
    return found


def model_on(model: BaseSVNN, covariance: CovarianceLike | MatrixLike, X: DataLike | None = None) -> Any:
    """Return a fitted model on another covariance, as :meth:`BaseSVNN.on`, for callers that know about its units."""
    check_is_fitted(model)
    other, fitted, signals = copy.copy(model), model.fitted_, None
    standardizer = fitted.standardizer
    if X is not None:
        signals = check_signals(copy.copy(model), X)
        if signals.shape[2] != fitted.n_values:
            raise ValueError(
                f"X has {signals.shape[2]} values per node, the network was trained with {fitted.n_values}."
            )
        if signals.shape[1] != model.n_features_in_:
            standardizer = Standardizer.fit(signals, np.ones(len(signals)), active=fitted.standardize)
    shift = shift_on(model.shift_, covariance, None if signals is None else standardizer(signals))
    n = shift.operator.shape[0]
    if signals is not None and signals.shape[1] != n:
        raise ValueError(f"the covariance has {n} features, X has {signals.shape[1]}.")
    if n != model.n_features_in_:
        readout = fitted.networks[0].readout.kind
        if readout != "mean":
            raise ValueError(
                f'the network was trained on {model.n_features_in_} features with readout="{readout}", '
                f'which learns about each of them; it cannot run on {n}. Train with readout="mean" to transfer.'
            )
        other.n_features_in_ = n
        other.__dict__.pop("feature_names_in_", None)
        standardizer = Standardizer.identity() if X is None else standardizer
    other.shift_, other.fitted_ = shift, replace(fitted, standardizer=standardizer)
    return other
