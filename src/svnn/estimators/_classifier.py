"""Classification with a sparse covariance neural network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.base import ClassifierMixin
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.utils import column_or_1d, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from torch import Tensor

from svnn.estimators._base import BaseSVNN
from svnn.estimators._docs import document
from svnn.functional._array import is_torch, to_numpy


class SVNNClassifier(ClassifierMixin, BaseSVNN):
    __doc__ = document(
        """Classification with a sparse covariance neural network.

    Two or more classes, labels of any type. Estimates the covariance of the features, sparsifies
    it, and trains a network whose layers are polynomials of it.
""",
        """
    See Also
    --------
    SVNNRegressor : the same for numbers.
    svnn.nn.SVNN : the network alone, as a torch module.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from svnn import SVNNClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVNNClassifier(max_epochs=50, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """,
        extra="""    class_weight : dict, "balanced" or None, default=None
        Weights of the classes in the loss.
""",
        attributes="""    classes_ : ndarray of the labels
""",
        node_dropout="0.4",
        heads="8",
        mlp="()",
        target="",
    )

    def __init__(
        self,
        *,
        covariance: Any = "hard",
        shift: Any = None,
        use: str = "covariance",
        hidden: Sequence[int] = (32,),
        order: int = 2,
        activation: str = "leaky_relu",
        dropout: float = 0.0,
        batch_norm: bool = True,
        readout: str = "weighted",
        heads: int = 8,
        mlp: Sequence[int] = (),
        node_dropout: float = 0.4,
        class_weight: Any = None,
        standardize: bool = True,
        lr: float = 0.01,
        weight_decay: float = 1e-5,
        max_epochs: int = 1000,
        patience: int = 100,
        tol: float = 0.0,
        batch_size: int | str | None = "auto",
        averaging: float = 0.99,
        validation_fraction: float = 0.1,
        resample: str = "fixed",
        cache_bytes: int = 2**30,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
        callbacks: Sequence[Any] = (),
    ) -> None:
        super().__init__(
            covariance=covariance,
            shift=shift,
            use=use,
            hidden=hidden,
            order=order,
            activation=activation,
            dropout=dropout,
            batch_norm=batch_norm,
            readout=readout,
            heads=heads,
            mlp=mlp,
            node_dropout=node_dropout,
            standardize=standardize,
            lr=lr,
            weight_decay=weight_decay,
            max_epochs=max_epochs,
            patience=patience,
            tol=tol,
            batch_size=batch_size,
            averaging=averaging,
            validation_fraction=validation_fraction,
            resample=resample,
            cache_bytes=cache_bytes,
            device=device,
            random_state=random_state,
            verbose=verbose,
            callbacks=callbacks,
        )
        self.class_weight = class_weight

    def _encode_targets(self, y: Any, reset: bool) -> np.ndarray:
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        y = column_or_1d(to_numpy(y) if is_torch(y) else y, warn=True)
        check_classification_targets(y)
        if reset:
            self.classes_, encoded = np.unique(y, return_inverse=True)
            if len(self.classes_) < 2:
                raise ValueError(f"y holds only one class, {self.classes_[0]!r}; a classifier needs at least two.")
            return encoded
        unknown = np.setdiff1d(y, self.classes_)
        if len(unknown):
            raise ValueError(f"the validation labels {unknown.tolist()} do not occur in training.")
        return np.searchsorted(self.classes_, y)

    def _n_outputs(self, y: np.ndarray) -> int:
        return len(self.classes_)

    def _row_weight(self, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
        if self.class_weight is None:
            return weight
        return weight * compute_sample_weight(self.class_weight, self.classes_[y])

    def _splitter(self, y: np.ndarray, size: int, seed: int) -> Any:
        counts = np.bincount(y)
        if counts.min() < 2 or min(size, len(y) - size) < len(counts):
            return super()._splitter(y, size, seed)
        return StratifiedShuffleSplit(1, test_size=size, random_state=seed)

    def _loss(self, output: Tensor, y: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(output, y, reduction="none")

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, of shape (t, n_classes), in the order of ``classes_``."""
        logits = self._output(X)
        odds = np.exp(logits - logits.max(1, keepdims=True))
        return odds / odds.sum(1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable label of every row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(1)]
