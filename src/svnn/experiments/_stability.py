"""What the two stability figures share: one trained network, and PCA-SVM, on estimated covariances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from svnn.covariance import HardThreshold, SampleCovariance, SoftThreshold
from svnn.estimators.baselines import PCASVMRegressor
from svnn.experiments._jobs import Row, derive_seed
from svnn.experiments._synthetic import Trained

QUARTILES = ("mae_change", "embedding_error", "covariance_error")
MEASURES = ("mae", "mae_change", "embedding_error", "embedding_distance", "covariance_error")


def compare_estimates(trained: Trained, sizes: Sequence[int], settings: Mapping[str, Any], seed: int) -> list[Row]:
    """Return a row for every model, estimate and number of samples, and one for the true covariance.

    The threshold is chosen by sample splitting. The universal one, which hardly lets a spurious pair through, is too
    large to be close to the truth at every T: soft thresholding shrinks what it keeps by as much.
    """
    pool = trained.standardised(trained.samples(max(sizes), derive_seed(seed, "pool")))
    svm = pca_svm(trained, settings["components"])
    estimates: dict[str, tuple[Any, Any]] = {
        "S-VNN, hard": (trained.model, HardThreshold(tau="cv", random_state=seed)),
        "S-VNN, soft": (trained.model, SoftThreshold(tau="cv", random_state=seed)),
        "VNN (sample covariance)": (trained.model, SampleCovariance()),
        "PCA-SVM, dense": (svm, SampleCovariance()),
        "PCA-SVM, sparse": (svm, HardThreshold(tau="cv", random_state=seed)),
    }
    X, y = trained.X_test, trained.y_test
    rows: list[Row] = []
    for name, (model, estimator) in estimates.items():
        for T in sizes:
            C = estimator.fit(pool[:T]).covariance_
            error = np.linalg.norm(C - trained.covariance, 2) / np.linalg.norm(trained.covariance, 2)
            changes = compare(model, model.on(C), X, y)
            rows.append({"T": T, "model": name, **changes, "covariance_error": float(error), "density": density(C)})
    truth: dict[str, Any] = {"VNN, true covariance": trained.model, "PCA-SVM, true covariance": svm}
    for name, model in truth.items():
        mae = float(abs(model.predict(X) - y).mean())
        rows += [{"T": T, "model": name, "mae": mae} for T in sizes]
    return rows


def compare(base: Any, moved: Any, X: np.ndarray, y: np.ndarray) -> Row:
    """Return what changes between one model on two covariances: the error, and the embeddings.

    ``embedding_error`` is ``‖U - U₀‖ / ‖U₀‖`` over all rows, ``embedding_distance`` the mean over rows of ``‖u - u₀‖``.
    """
    before, after = (abs(model.predict(X) - y).mean() for model in (base, moved))
    start = base.embed(X)
    change = moved.embed(X) - start
    return {
        "mae": float(after),
        "mae_change": float(after - before),
        "embedding_error": float(np.linalg.norm(change) / np.linalg.norm(start)),
        "embedding_distance": float(np.linalg.norm(change.reshape(len(X), -1), axis=1).mean()),
    }


def pca_svm(trained: Trained, components: Sequence[int]) -> PCASVMRegressor:
    """Return PCA-SVM on the true covariance, the number of components chosen by validation error."""
    fitted = []
    for k in sorted({min(k, trained.X_train.shape[1]) for k in components}):
        model = PCASVMRegressor(n_components=k, covariance="precomputed", shift=trained.covariance)
        fitted.append(model.fit(trained.X_train, trained.y_train))
    return min(fitted, key=lambda model: abs(model.predict(trained.X_validation) - trained.y_validation).mean())


def density(C: Any) -> float:
    """Return the share of off-diagonal entries that are not zero."""
    n = C.shape[0]
    kept = C.count_nonzero() if sp.issparse(C) else np.count_nonzero(C)
    return float((kept - np.count_nonzero(C.diagonal())) / (n * (n - 1)))
