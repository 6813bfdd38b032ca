"""Regression with a sparse covariance neural network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svnn.estimators._base import BaseSVNN
from svnn.estimators._docs import LOSS, document
from svnn.estimators._targets import TrainedRegressor


class SVNNRegressor(TrainedRegressor, BaseSVNN):
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
        extra=LOSS,
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
