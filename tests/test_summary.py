"""What fitted estimators say of themselves."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from svnn import BlendRegressor, GraphicalLasso, HardThreshold, SampleCovariance, SVNNClassifier, SVNNRegressor, load
from svnn.paper.baselines import MLPRegressor

QUICK = {"max_epochs": 4, "members": 3, "device": "cpu", "random_state": 0}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 1)) + rng.standard_normal((80, 7))
    return X, X.sum(1)


@pytest.fixture(scope="module")
def model(data):
    return SVNNRegressor(covariance=HardThreshold(top_k=2), **QUICK).fit(*data)


def plain(estimator):
    """What scikit-learn prints for the parameters."""
    return re.sub(r"\n  fitted: (.|\n)*$", "", repr(estimator))


def test_a_fitted_model_says_how_large_how_sparse_and_how_good_it_is(model):
    edges = np.count_nonzero(np.triu(model.covariance_, 1))
    assert 0 < edges < 21
    loss = min(model.history_["valid_loss"])
    assert repr(model) == (
        "SVNNRegressor(covariance=HardThreshold(top_k=2), device='cpu', max_epochs=4,\n"
        "              members=3, random_state=0)\n"
        f"  fitted: N = 7, {edges} of 21 edges kept ({100 * edges / 21:.3g} %), 3 members, 4 epochs, "
        f"validation loss {loss:.4g}"
    )


def test_a_fitted_blend_says_how_much_each_part_counts(data):
    blend = BlendRegressor(SVNNRegressor(**QUICK), random_state=0).fit(*data)
    said = " ".join(repr(blend).split())
    assert "fitted: N = 7, " in said and "2 members, 4 epochs" in said
    assert said.endswith("blend: 0 % with edges, 0 % without edges, 100 % linear")


def test_before_fit_all_is_as_scikit_learn_has_it():
    class Theirs(BaseEstimator):
        def __init__(self, activation="silu", covariance="hard", max_epochs="auto", random_state=None):
            self.activation, self.covariance = activation, covariance
            self.max_epochs, self.random_state = max_epochs, random_state

    Theirs.__name__ = "SVNNRegressor"
    arguments = {"activation": "relu", "covariance": HardThreshold(top_k=3), "max_epochs": 1234, "random_state": 56789}
    ours = repr(SVNNRegressor(**arguments))
    assert ours == repr(Theirs(**arguments)) and "\n" in ours
    assert repr(SVNNRegressor()) == "SVNNRegressor()" and repr(HardThreshold()) == "HardThreshold()"


def test_clones_and_containers_of_fitted_models_can_be_printed(model, data):
    assert repr(clone(model)) == plain(model) and "fitted" not in repr(clone(model))
    pipeline = make_pipeline(StandardScaler(), SVNNRegressor(**QUICK)).fit(*data)
    assert "SVNNRegressor(" in repr(pipeline) and "fitted: N = 7" in repr(pipeline[-1])
    search = GridSearchCV(pipeline, {"svnnregressor__order": [1, 2]}, cv=2).fit(*data)
    assert "SVNNRegressor(" in repr(search) and "fitted: N = 7" in repr(search.best_estimator_[-1])
    for each in (pipeline, search):
        assert "svnnregressor" in each._repr_html_().lower()


def test_notebooks_show_a_table_above_scikit_learns_diagram(model):
    shown = model._repr_html_()
    assert shown.startswith("<table") and "sk-top-container" in shown
    facts = re.findall(r"<td[^>]*>([^<]*)</td>", shown[: shown.index("</table>")])
    assert facts == list(model._summary().values())
    bundle = model._repr_mimebundle_()
    assert bundle["text/html"].startswith("<table") and bundle["text/plain"] == repr(model)
    assert not clone(model)._repr_html_().startswith("<table")


def test_the_display_setting_of_scikit_learn_holds(model):
    with config_context(display="text"):
        assert list(model._repr_mimebundle_()) == ["text/plain"] and not hasattr(model, "_repr_html_")


def test_facts_are_escaped():
    class Odd(SampleCovariance):
        def _summary(self):
            return {"<b>": "a < b & c"}

    assert "<b>" not in Odd()._repr_html_().split("</table>")[0]
    assert "a &lt; b &amp; c" in Odd()._repr_html_()


def test_classifiers_single_members_and_models_from_files(data, tmp_path):
    X, y = data
    model = SVNNClassifier(**{**QUICK, "members": 1, "validation_fraction": 0.0}).fit(X, y > 0)
    assert "1 member, 4 epochs, no validation rows" in repr(model)
    model.save(tmp_path / "model")
    assert repr(load(tmp_path / "model")).splitlines()[-1] == repr(model).splitlines()[-1]


def test_the_graph_is_that_of_the_precision_where_filters_use_it(data):
    model = SVNNRegressor(covariance="graphical_lasso", use="precision", **QUICK).fit(*data)
    edges = np.count_nonzero(np.triu(model.covariance_estimator_.precision_, 1))
    assert f"{edges} of 21 edges of the precision kept" in repr(model)


@pytest.mark.parametrize(
    "X",
    [np.array, torch.as_tensor, lambda x: pd.DataFrame(x, columns=list("abcdefg"))],
    ids=["numpy", "torch", "frame"],
)
def test_covariance_estimators_say_how_sparse_they_are(X, data):
    estimator = HardThreshold(top_k=1, sparse_output=True).fit(X(data[0]))
    edges = round(estimator.density_ * 21)
    assert repr(estimator).splitlines() == [
        "HardThreshold(sparse_output=True, top_k=1)",
        f"  fitted: N = 7, {edges} of 21 edges kept ({100 * edges / 21:.3g} %)",
    ]
    assert "21 of 21 edges kept (100 %)" in repr(SampleCovariance().fit(X(data[0])))


def test_graphical_lasso_counts_the_edges_of_its_precision(data):
    estimator = GraphicalLasso(alpha=0.4).fit(data[0])
    edges = np.count_nonzero(np.triu(estimator.precision_, 1))
    assert f"{edges} of 21 edges of the precision kept" in repr(estimator)


def test_other_networks_print_as_before(data):
    assert "fitted" not in repr(MLPRegressor(max_epochs=2, device="cpu").fit(*data))
