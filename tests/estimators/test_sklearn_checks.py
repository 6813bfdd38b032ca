"""scikit-learn's own checks, on quick settings of the estimators."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from svnn import SVNNClassifier, SVNNRegressor

QUICK = {"members": 2, "max_epochs": 30, "hidden": (8,), "random_state": 0}

#: Checks that cannot hold for a network trained by stochastic gradients with a held-out part.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "repeating a row changes the random split into training and validation rows and the batches; "
        "scikit-learn exempts its own SGD estimators from this check for the same reason"
    )
}


@parametrize_with_checks(
    [SVNNRegressor(**QUICK), SVNNClassifier(**QUICK)], expected_failed_checks=lambda estimator: EXPECTED_FAILURES
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
