"""What theory says must come out, on small versions of the experiments."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from svnn.functional import sample_moments
from svnn.paper.experiments._models import SyntheticSettings, train_on_truth
from svnn.paper.experiments._output import summarise
from svnn.paper.experiments.stability_samples import compare_estimates
from svnn.paper.experiments.stochastic_synthetic import StochasticSettings, measure, realisations, sparsifiers
from svnn.paper.experiments.support_recovery import SupportSettings, recover

SETTINGS = SyntheticSettings(epochs=15, samples=600)
SIZES = [100, 400, 1600]


def where(rows, **conditions):
    """Return the rows that have these values."""
    return [row for row in rows if all(row.get(name) == value for name, value in conditions.items())]


def means(rows, by, values):
    return summarise(pd.DataFrame(rows), by, values).to_dict("records")


@pytest.mark.parametrize("density", [0.05, 0.2])
def test_hard_and_soft_thresholding_recover_block_supports_as_samples_grow(density):
    sizes = [25, 100, 800]
    rows = recover("block", density, 0, SupportSettings(N=60, sizes=tuple(sizes), draws=2))
    for name in ("hard", "soft"):
        f1 = [where(rows, estimator=name, T=T)[0]["f1"] for T in sizes]
        assert f1[0] < 0.9 and f1 == sorted(f1) and f1[-1] > 0.99
    # The sample covariance says that all pairs are related; random sparsifiers never recover all.
    assert all(row["recall"] == 1 and row["precision"] < 1.1 * density for row in where(rows, estimator="sample"))
    assert where(rows, estimator="ACV", T=800)[0]["f1"] < 0.9
    assert where(rows, estimator="RCV p=0.5", T=800)[0]["f1"] < where(rows, estimator="hard", T=800)[0]["f1"] / 2


@pytest.fixture(scope="module")
def stability():
    rows = []
    for repeat in range(2):
        trained = train_on_truth("SparseCov", SETTINGS, repeat)
        rows += compare_estimates(trained, SIZES, [10, 20, 50], seed=repeat)
    return means(rows, ["model", "T"], ["mae_change", "embedding_error", "covariance_error", "mae", "density"])


@pytest.mark.parametrize("T", SIZES)
@pytest.mark.parametrize("model", ["S-VNN, hard", "S-VNN, soft"])
def test_thresholded_estimates_are_closer_to_the_truth_and_so_are_the_networks_embeddings(stability, model, T):
    (sparse,), (dense,) = where(stability, model=model, T=T), where(stability, model="VNN, sample covariance", T=T)
    assert sparse["covariance_error_mean"] < dense["covariance_error_mean"]
    assert 0 < sparse["embedding_error_mean"] < dense["embedding_error_mean"]
    if T > 100:  # with T = N nothing is kept; from there on the pairs that are kept bring it closer to the truth
        (bare,) = where(stability, model="VNN, diagonal only", T=T)
        assert sparse["density_mean"] > 0.02 and bare["density_mean"] == 0
        assert sparse["covariance_error_mean"] < bare["covariance_error_mean"]
        assert sparse["embedding_error_mean"] < bare["embedding_error_mean"]


def test_pca_svm_is_the_least_stable(stability):
    for T in SIZES:
        error = {row["model"]: row for row in where(stability, T=T)}
        for pca in ("PCA-SVM, dense", "PCA-SVM, sparse"):
            for model in ("S-VNN, hard", "S-VNN, soft"):
                assert error[pca]["embedding_error_mean"] > 2 * error[model]["embedding_error_mean"]
                assert error[pca]["mae_change_mean"] > error[model]["mae_change_mean"]
            # With T = N the powers of a sample covariance of twice the norm are no better than PCA.
            if T > 100:
                assert error[pca]["embedding_error_mean"] > error["VNN, sample covariance"]["embedding_error_mean"]


@pytest.fixture(scope="module")
def stochastic():
    settings = StochasticSettings(epochs=15, samples=600, levels=(0.1, 0.5, 0.9), draws=3)
    rows = [row | {"dataset": d} for d in ("LargeCov", "SmallCov") for row in measure(d, 0, settings)]
    return means(rows, ["dataset", "method", "p"], ["mae", "filter_bias", "filter_variance", "embedding_error"])


def test_rcv_degrades_as_p_falls_on_large_covariances_and_much_less_on_small_ones(stochastic):
    loss = {}
    for dataset in ("LargeCov", "SmallCov"):
        (dense,) = where(stochastic, dataset=dataset, method="sample covariance")
        part = where(stochastic, dataset=dataset, method="RCV")
        loss[dataset] = [row["mae_mean"] / dense["mae_mean"] - 1 for row in part]  # p = 0.1, 0.5, 0.9
    assert loss["LargeCov"] == sorted(loss["LargeCov"], reverse=True) and loss["LargeCov"][0] > 2
    assert abs(loss["SmallCov"][0]) < loss["LargeCov"][0] / 10


def test_the_bias_explains_it_and_dividing_by_the_probabilities_removes_it(stochastic):
    for p in (0.1, 0.5, 0.9):
        (biased,) = where(stochastic, dataset="LargeCov", method="RCV", p=p)
        (budget,) = where(stochastic, dataset="LargeCov", method="ACV, budget, unbiased", p=p)
        assert biased["filter_bias_mean"] > 5 * biased["filter_variance_mean"]
        assert budget["filter_bias_mean"] < 0.1 * biased["filter_bias_mean"]
        assert budget["mae_mean"] < biased["mae_mean"]
        assert budget["embedding_error_mean"] < biased["embedding_error_mean"]


def test_sparsified_matrices_are_really_other_matrices_and_the_network_feels_it():
    trained = train_on_truth("LargeCov", SyntheticSettings(epochs=2, samples=200), 0, N=30)
    C = sample_moments(trained.standardised(trained.train[0])).covariance
    base = trained.model.on(C).embed(trained.test[0])
    assert np.abs(base - trained.model.embed(trained.test[0])).max() > 1e-3
    seen = set()
    for how in sparsifiers(C, [0.5], seed=0):
        for sparse in realisations(C, how, draws=2, seed=0):
            assert np.abs(sparse - C).max() > 0.1
            change = np.abs(trained.model.on(sparse).embed(trained.test[0]) - base).max()
            assert change > 1e-3
            seen.add(round(float(change), 9))
    assert len(seen) == 12


def test_biased_and_unbiased_forms_share_their_masks():
    C = sample_moments(np.random.default_rng(0).standard_normal((50, 12))).covariance
    ways = {(how.method, how.p): how for how in sparsifiers(C, [0.3], seed=1)}
    for rule, p in (("RCV", 0.3), ("ACV", None), ("ACV, budget", 0.3)):
        plain, unbiased = (
            next(iter(realisations(C, ways[name, p], 1, seed=2))) for name in (rule, f"{rule}, unbiased")
        )
        assert ((plain != 0) == (unbiased != 0)).all() or rule == "RCV"  # RCV's smallest probabilities are floored
        assert np.abs(unbiased).sum() > np.abs(plain).sum()


def test_all_methods_are_there():
    C = np.eye(5) + 0.1
    assert list(dict.fromkeys(how.method for how in sparsifiers(C, [0.5], 0))) == [
        "RCV",
        "RCV, unbiased",
        "ACV",
        "ACV, unbiased",
        "ACV, budget",
        "ACV, budget, unbiased",
    ]
