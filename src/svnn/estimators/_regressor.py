"""Regression with a sparse covariance neural network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import _check_y
from torch import Tensor
from torch.nn import functional

from svnn.estimators._base import BaseSVNN
from svnn.estimators._docs import document
from svnn.estimators._standardize import Standardizer
from svnn.functional._array import is_torch, to_numpy

#: Losses of every value; the Huber loss is scaled to agree with the squared one near zero.
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "huber": lambda output, y: 2 * functional.huber_loss(output, y, reduction="none", delta=0.5),
    "squared": lambda output, y: functional.mse_loss(output, y, reduction="none"),
    "absolute": lambda output, y: functional.l1_loss(output, y, reduction="none"),
}


class SVNNRegressor(RegressorMixin, BaseSVNN):
    __doc__ = document(
        """Regression with a sparse covariance neural network.

    Estimates the covariance of the features, sparsifies it, and trains a network whose layers are
    polynomials of it.
""",
        """
    See Also
    --------
    SVNNClassifier : the same for labels.
    svnn.nn.SVNN : the network alone, as a torch module.

    Examples
    --------
    >>> import numpy as np
    >>> from svnn import SVNNRegressor
    >>> from svnn.datasets import make_sparse_cov
    >>> data = make_sparse_cov(n_samples=200, n_features=20, random_state=0)
    >>> model = SVNNRegressor(covariance="hard", max_epochs=50, random_state=0)
    >>> model.fit(data.X[:150], data.y[:150]).predict(data.X[150:]).shape
    (50,)
    >>> bool(model.score(data.X[150:], data.y[150:]) > 0.1)
    True
    """,
        extra="""    loss : {"huber", "squared", "absolute"}, default="huber"
        What is minimised, on the scale of the standardised targets (their own scale with
        ``standardize=False``). "huber" is squared up to 0.5 and absolute beyond: outliers weigh less,
        small errors are treated as the squared loss treats them.
""",
        node_dropout="0.2",
        heads="4",
        mlp="(32,)",
        target=", and the targets,",
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
        heads: int = 4,
        mlp: Sequence[int] = (32,),
        node_dropout: float = 0.2,
        loss: str = "huber",
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
        self.loss = loss

    def _encode_targets(self, y: Any, reset: bool) -> np.ndarray:
        if y is None:
            raise ValueError(f"This {type(self).__name__} estimator requires y to be passed, but the target y is None.")
        y = to_numpy(y) if is_torch(y) else y
        y = _check_y(y, multi_output=True, y_numeric=True).astype(np.float64)
        columns = y.shape[1:]
        if reset:
            self._target_shape = columns
        elif columns != self._target_shape:
            raise ValueError(f"validation targets have shape {y.shape}, training targets (t, {self._target_shape}).")
        return y.reshape(len(y), -1)

    def _learn_target_scale(self, y: np.ndarray, weight: np.ndarray) -> None:
        self._target_standardizer = Standardizer.fit(y, weight, active=self.standardize)

    def _scale_targets(self, y: np.ndarray) -> np.ndarray:
        return self._target_standardizer(y).astype(np.float32)

    def _n_outputs(self, y: np.ndarray) -> int:
        return y.shape[1]

    def _loss(self, output: Tensor, y: Tensor) -> Tensor:
        return LOSSES[self.loss](output, y).mean(-1)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.loss not in LOSSES:
            raise ValueError(f"loss must be one of {tuple(LOSSES)}, got {self.loss!r}.")

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted targets, of shape (t,) or (t, n_outputs) as ``y`` had in ``fit``."""
        output = self._output(X)
        return self._target_standardizer.inverse(output).reshape(len(output), *self._target_shape)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags
