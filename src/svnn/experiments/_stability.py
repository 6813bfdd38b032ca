"""What the two stability figures share: one trained network, and PCA-SVM, on estimated covariances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from svnn.covariance import HardThreshold, SoftThreshold
from svnn.estimators.baselines import PCASVMRegressor
from svnn.experiments import _style as style
from svnn.experiments._draws import density
from svnn.experiments._jobs import Row, derive_seed
from svnn.experiments._synthetic import Trained
from svnn.experiments._tables import distinct, where
from svnn.functional import sample_moments

QUARTILES = ("mae_change", "embedding_error", "covariance_error")
MEASURES = ("mae", "mae_change", "embedding_error", "embedding_distance", "covariance_error", "density")


def compare_estimates(trained: Trained, sizes: Sequence[int], settings: Mapping[str, Any], seed: int) -> list[Row]:
    """Return a row for every model, estimate and number of samples, and one for the true covariance.

    The threshold is chosen by sample splitting. The universal one, which hardly lets a spurious pair through, is too
    large to be close to the truth at every T: soft thresholding shrinks what it keeps by as much. The diagonal alone
    tells what of the gain is due to the pairs that are kept, and what to those that are not.
    """
    pool = trained.standardised(trained.samples(max(sizes), derive_seed(seed, "pool")))
    svm = pca_svm(trained, settings["components"])
    hard, soft = HardThreshold(tau="cv", random_state=seed), SoftThreshold(tau="cv", random_state=seed)
    estimates: dict[str, tuple[Any, Callable[[np.ndarray], Any]]] = {
        "S-VNN, hard": (trained.model, lambda X: hard.fit(X).covariance_),
        "S-VNN, soft": (trained.model, lambda X: soft.fit(X).covariance_),
        "VNN, sample covariance": (trained.model, lambda X: sample_moments(X).covariance),
        "VNN, diagonal only": (trained.model, lambda X: np.diag(np.diag(sample_moments(X).covariance))),
        "PCA-SVM, dense": (svm, lambda X: sample_moments(X).covariance),
        "PCA-SVM, sparse": (svm, lambda X: hard.fit(X).covariance_),
    }
    X, y = trained.X_test, trained.y_test
    rows: list[Row] = []
    for name, (model, estimate) in estimates.items():
        for T in sizes:
            C = estimate(pool[:T])
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


def figure(summary: list[Row], x: str, values: list[int], label: str, error: str) -> Any:
    """Return the task's error and the embedding difference against samples or features.

    Errors differ between data sets, so the first panel shows what an estimate adds to them, on top of the mean error
    with the true covariance where ``error`` is "mae".
    """
    figure, axes = style.subplots(1, 3, width=4.0, height=3.4)
    shown = {
        "mae_change": {"mae": "test MAE", "mae_change": "change of the test MAE"}[error],
        "embedding_error": "relative embedding difference",
        "covariance_error": "relative error of the covariance",
    }
    truth = {"VNN": "VNN, true covariance", "SVM": "PCA-SVM, true covariance"}
    base = {kind: where(summary, model=name)[0]["mae_mean"] for kind, name in truth.items()}
    looks = style.look([name for name in distinct(summary, "model") if name not in truth.values()])
    for axis, (measure, title) in zip(axes[0], shown.items(), strict=True):
        for name, look in looks.items():
            if measure == "covariance_error" and "PCA" in name:
                continue  # the same estimates as those of the networks
            start = base["SVM" if "SVM" in name else "VNN"] if (error, measure) == ("mae", "mae_change") else 0.0
            style.curve(axis, where(summary, model=name), x, measure, base=start, label=name, **look)
        if (error, measure) == ("mae", "mae_change"):
            for kind, name in truth.items():
                style.reference(axis, base[kind], name)
        if (error, measure) == ("mae_change", "mae_change"):
            style.symlog_y(axis, 0.1)
        else:
            style.log_y(axis)
        style.sizes_axis(axis, values, label)
        axis.set_title(title)
    note = "medians, and bands of quartiles" + ("; errors: of the change, on top of the mean" if error == "mae" else "")
    style.legend_below(figure, axes[0, 0], note=note)
    return figure
