"""Classification with a sparse covariance neural network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svnn.estimators._base import BaseSVNN
from svnn.estimators._docs import CLASS_WEIGHT, CLASSES, document
from svnn.estimators._targets import TrainedClassifier


class SVNNClassifier(TrainedClassifier, BaseSVNN):
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
        extra=CLASS_WEIGHT,
        attributes=CLASSES,
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
