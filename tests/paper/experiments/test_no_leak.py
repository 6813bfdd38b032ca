"""No leak: labels that nothing can know are predicted at chance, and test rows reach nothing that is learned.

Every loader reads files of noise with random labels (see ``labelled_noise``), and models are fitted with validation
rows and scored on test rows: all loaders with a few models, also the wearables as window features, and all models with
a few loaders. The same checks find a label in one input of each loader, and each model finds one in half of the inputs
of a small table. Where ``SVNN_DATA`` names real files, their labels are shuffled and a few models fitted.

A check is wrong about a model that knows nothing with a probability of about 10⁻⁶. The number of right answers is
binomial, at best with the share of the largest class; what a prediction gains over the median of the training targets
has a mean of zero at best, and Student's t tells whether it is more.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import cycle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from labelled_noise import WRITERS
from scipy import stats
from sklearn.utils import Bunch

from svnn import datasets, paper
from svnn.operators import CovarianceOperator
from svnn.paper.experiments import _real_data
from svnn.paper.experiments._models import LIBRARY, MODELS, NETWORKS, RealSettings, build, configurations
from svnn.paper.experiments._real_data import fit, fit_and_score
from svnn.preprocessing import WindowFeatures

FALSE_ALARM = 1e-6
GRID = {"layers": [1], "order": [2], "dropout": [0.0], "mlp": [[16]], "components": [2]}
SETTINGS = RealSettings(epochs=12, patience=12, batch_size=32, features=8)
#: The loaders that the experiments do not use, on small files; the others go through ``load_split``.
OTHERS = {
    "diagnosis": lambda: paper.load_thickness("braindev", target="dx"),
    "released": lambda: paper.load_released("SparseCov"),
    "meats": datasets.load_meats,
    "genes": lambda: datasets.load_genes("golub"),
    "stocks": lambda: datasets.load_stocks(window=3, horizon=1),  # days of targets do not overlap
}
QUICK = ("MLP", "PCA-SVM", "svnn Hard")
#: Loaders with a few models each, and models with a few loaders each.
PAIRS = [(name, model) for name in WRITERS for model in MODELS if model in QUICK or name in ("dsads", "ixi")]
REAL_MODELS = ("MLP", "Hard p=0.25")
#: Every other model with a loader of classes, the others with one of numbers.
ONE_EACH = [*zip(cycle(["genes", "stocks"]), MODELS, strict=False)]


@pytest.fixture(scope="session")
def splits(tmp_path_factory):
    """Return the split of made-up files by the name of the set, with or without the label among the inputs."""

    @cache
    def load(name: str, leak: bool = False) -> _real_data.Split:
        folder = tmp_path_factory.mktemp(name)
        WRITERS[_real_data.FEATURES.get(name, name)](folder, np.random.default_rng(0), leak)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SVNN_DATA", str(folder))
            _real_data._load.cache_clear()
            split = random_split(name, OTHERS[name]()) if name in OTHERS else _real_data.load_split(name, 0, seed=0)
            _real_data._load.cache_clear()
        return split

    return load


def random_split(name: str, data: Any) -> _real_data.Split:
    """Keep the split that there is; otherwise a fifth of the rows validates and a third tests."""
    order, fifth, third = np.random.default_rng(1).permutation(len(data.y)), len(data.y) // 5, len(data.y) // 3
    part = data.split
    if part is None:
        held = {"validation": order[:fifth].tolist(), "test": order[fifth : fifth + third].tolist()}
        part = datasets.split_by_groups(np.arange(len(data.y)), **held)
    return _real_data.Split(
        name, *((data.X[part == which], data.y[part == which]) for which in ("train", "validation", "test"))
    )


def make(model: str, split: _real_data.Split, **settings: Any) -> Any:
    estimator = build(model, is_classes(split), configurations(model, GRID)[0], replace(SETTINGS, **settings), 0)
    quick = {"max_observations": 30} if "max_observations" in estimator.get_params() else {}
    return estimator.set_params(**quick)


def is_classes(split: _real_data.Split) -> bool:
    return split.train[1].dtype.kind == "i"


def knows(estimator: Any, split: _real_data.Split) -> bool:
    """Whether the targets of test rows are predicted better than by chance."""
    (X, y), seen = split.test, split.train[1]
    predicted = estimator.predict(X)
    if is_classes(split):
        chance = np.bincount(seen).max() / len(seen)
        bound = stats.binom.isf(FALSE_ALARM, len(y), chance)
        assert bound < len(y), "too few rows to find out anything"
        return bool((predicted == y).sum() > bound)
    gained = abs(np.median(seen) - y) - abs(predicted - y)
    error = gained.std(ddof=1) / np.sqrt(len(y))
    return bool(gained.mean() > stats.t.isf(FALSE_ALARM, len(y) - 1) * error)


@pytest.mark.parametrize(("name", "model"), PAIRS)
def test_random_labels_are_predicted_at_chance(splits, name, model):
    split = splits(name)
    assert not knows(fit(make(model, split), split), split)


@pytest.mark.parametrize("model", QUICK)
@pytest.mark.parametrize("name", _real_data.FEATURES)
def test_random_labels_are_predicted_at_chance_from_window_features(splits, name, model):
    split = splits(name)
    assert not knows(fit(make(model, split), split), split)


@pytest.mark.parametrize("name", WRITERS)
def test_a_label_among_the_inputs_of_each_loader_is_found_out(splits, name):
    split = splits(name, leak=True)
    assert knows(fit(make("MLP", split), split), split)


@pytest.mark.parametrize("name", ["released", "genes"])
@pytest.mark.parametrize("model", MODELS)
def test_a_label_among_the_inputs_is_found_out_by_each_model(splits, name, model):
    split = splits(name, leak=True)
    assert knows(fit(make(model, split), split), split)


@pytest.mark.parametrize("name", ["mhealth", "ixi"])
def test_scores_are_those_of_test_rows(splits, monkeypatch, name):
    split = splits(name)
    monkeypatch.setattr("svnn.paper.experiments._real_data.load_split", lambda *_: split)
    (row,) = fit_and_score(name, "PCA-SVM", {"components": 20}, 0, SETTINGS)
    model = fit(build("PCA-SVM", split.classes, {"components": 20}, SETTINGS, 0), split)
    scores = {
        part: split.score(model.predict(getattr(split, part)[0]), part) for part in ("train", "validation", "test")
    }
    assert row["score"] == scores["test"] and row["validation"] == scores["validation"]
    assert len(set(scores.values())) == 3


def learned(estimator: Any) -> dict[str, list[np.ndarray]]:
    """Return all numbers of a fitted estimator but its weights and its noise, which follow from validation rows too."""
    parts = {**vars(estimator.fitted_), "shift": getattr(estimator, "shift_", None)}
    return {name: arrays(parts[name]) for name in parts if name not in ("module", "history", "noise", "out_of_fold")}


def arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, CovarianceOperator):
        value = value.to_dense()
    if sp.issparse(value):
        value = value.toarray()
    if isinstance(value, np.ndarray | np.generic | torch.Tensor | int | float):
        return [np.asarray(value)]
    parts = value if isinstance(value, list | tuple) else getattr(value, "__dict__", {}).values()
    return [array for part in parts for array in arrays(part)]


def same(first: dict[str, list[np.ndarray]], second: dict[str, list[np.ndarray]]) -> bool:
    assert first.keys() == second.keys()
    return all(
        len(a) == len(b) and all(map(np.array_equal, a, b))
        for a, b in zip(first.values(), second.values(), strict=True)
    )


@pytest.mark.parametrize(("name", "model"), ONE_EACH)
def test_scaling_and_covariance_follow_from_training_rows(splits, name, model):
    split = splits(name)
    X, y = split.validation
    wild = _real_data.Split(name, split.train, (1e3 * X + 7, y[::-1] if is_classes(split) else 1e3 * y), split.test)
    first, second = (fit(make(model, split, epochs=2), rows) for rows in (split, wild))
    state = learned(first)
    assert same(state, learned(second))
    # Not because nothing is looked at: validation rows do reach the loss, and training rows the state.
    assert model == "PCA-SVM" or first.history_["valid_loss"] != second.history_["valid_loss"]
    other = _real_data.Split(name, (split.train[0] ** 3, split.train[1]), split.validation, split.test)
    assert not same(state, learned(fit(make(model, split, epochs=2), other)))
    signals = split.train[0].reshape(*split.train[0].shape[:2], -1)
    np.testing.assert_allclose(first.fitted_.standardizer.mean, signals.mean(0), rtol=1e-4, atol=1e-8)
    np.testing.assert_allclose(first.fitted_.standardizer.scale, signals.std(0), rtol=1e-4)
    has_covariance = model in NETWORKS or model in LIBRARY or model == "PCA-SVM"
    assert bool(state["shift"] or state.get("covariance")) == has_covariance


@pytest.mark.parametrize(("name", "model"), ONE_EACH)
def test_a_row_is_predicted_alike_whatever_rows_are_beside_it(splits, name, model):
    split = splits(name)
    estimator = fit(make(model, split, epochs=2), split)
    output = next(
        getattr(estimator, how) for how in ("predict_proba", "decision_function", "predict") if hasattr(estimator, how)
    )
    X = split.test[0][:12]
    together, wild = output(X), 1e3 * X
    wild[::3] = X[::3]
    assert len(np.unique(together, axis=0)) > 1
    # Products of one row and of many are summed in another order; scikit-learn's kernel PCA divides that rounding by
    # small eigenvalues.
    exact = {"rtol": 1e-6, "atol": 1e-9} if model.startswith("Kernel PCA") else {"rtol": 1e-9, "atol": 1e-12}
    for i in range(0, 12, 3):
        np.testing.assert_allclose(output(X[i : i + 1])[0], together[i], **exact)
    np.testing.assert_allclose(output(wild)[::3], together[::3], **exact)


@pytest.mark.parametrize("name", _real_data.FEATURES)
def test_window_features_are_learned_from_training_rows(monkeypatch, name):
    rng = np.random.default_rng(0)
    part = np.repeat(["train", "validation", "test"], [20, 10, 10])
    X = rng.standard_normal((40, 3, 32))
    X[::4, 1] = 2.0  # a constant: its logarithms are at the floors, which fit learns
    wild = np.where((part == "train")[:, None, None], X, 1e3 * X)
    features = []
    for values in (X, wild):
        data = Bunch(X=values, y=np.tile([0, 1], 20), groups=np.arange(40), split=part)
        monkeypatch.setattr(_real_data, "_load", lambda _, data=data: data)
        features.append(_real_data.load_split(name, 0, seed=0))
    assert np.array_equal(features[0].train[0], features[1].train[0])
    alone = WindowFeatures().fit(X[part == "train"])
    assert np.array_equal(features[1].test[0], alone.transform(wild[part == "test"]))
    # Floors of all rows are others.
    assert not np.array_equal(alone.transform(X), WindowFeatures().fit(wild).transform(X))


REAL = {
    **{name: lambda name=name: _real_data._load(name) for name in _real_data.REAL},
    **OTHERS,
    **{f"released {name}": lambda name=name: paper.load_released(name) for name in ("LargeCov", "SmallCov")},
    "genes gordon": lambda: datasets.load_genes("gordon"),
}


@pytest.mark.parametrize("name", REAL)
def test_shuffled_labels_of_real_files_are_predicted_at_chance(data_folder, monkeypatch, name):
    try:
        data = REAL[name]()
    except FileNotFoundError:
        pytest.skip(f"{name} is not in SVNN_DATA")
    rng = np.random.default_rng(0)
    # As many of each class, so that few rows are enough to tell knowledge from chance.
    y = np.arange(len(data.y)) % len(np.unique(data.y)) if data.y.dtype.kind == "i" else data.y
    shuffled = Bunch(**{**data, "y": rng.permutation(y)})
    monkeypatch.setattr(_real_data, "_load", lambda _: shuffled)
    split = (
        _real_data.load_split(name, 0, seed=0, limit=300) if name in _real_data.REAL else random_split(name, shuffled)
    )
    models = REAL_MODELS if data.X.shape[1] < 5000 else ("MLP",)  # of genes no covariance is made
    for model in models:
        assert not knows(fit(make(model, split), split), split), model
