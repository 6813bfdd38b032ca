"""Parameters: the signature, the documentation and the rules of every estimator, and the check of their values."""

from __future__ import annotations

import ast
import inspect
import math
import pickle
import re
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

from svnn import BlendClassifier, BlendRegressor, SVNNClassifier, SVNNRegressor
from svnn._parameters import (
    anything,
    boolean,
    callables,
    check_parameters,
    class_weights,
    either,
    integer,
    memory_size,
    number,
    one_of,
    seed,
    share,
    sizes,
)
from svnn.covariance import Spectral, WithinClass
from svnn.covariance._resolve import OURS
from svnn.estimators._linear import LinearClassifier, LinearRegressor
from svnn.paper import baselines
from svnn.preprocessing import WindowFeatures

NETWORKS = [SVNNRegressor, SVNNClassifier, *(getattr(baselines, name) for name in baselines.__all__)]
PREDICTORS = [*NETWORKS, BlendRegressor, BlendClassifier, LinearRegressor, LinearClassifier]
EVERY = [*OURS.values(), Spectral, WithinClass, WindowFeatures, *PREDICTORS]


def sections(kind):
    """Return the sections of the docstring of a class by name."""
    _, *rest = re.split(r"^(\w[\w ]*)\n-+\n", inspect.getdoc(kind), flags=re.M)
    assert len(set(rest[::2])) == len(rest[::2])
    return dict(zip(rest[::2], rest[1::2], strict=True))


def entries(kind, section):
    """Return what a section of the docstring says of each name: its type, and its sentences.

    An entry "name, name" without a type, whose only sentence is "As in :class:`X`.", stands for those of X.
    """
    found = {}
    parts = re.split(r"^(\w+(?:, \w+)*)(?: : (.*))?\n", sections(kind)[section], flags=re.M)[1:]
    for names, type_, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        other = re.fullmatch(r"As in :class:`(?:[a-z.]+\.)?(\w+)`\.", text.strip())
        if other:
            there = entries(next(each for each in EVERY if each.__name__ == other[1]), section)
            found |= {name: there[name] for name in names.split(", ")}
        else:
            found[names] = type_, text
    return found


# -- the signature and the documentation ------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVERY, ids=lambda kind: kind.__name__)
def test_signature_rules_and_documentation_agree(kind):
    parameters, documented = inspect.signature(kind).parameters, entries(kind, "Parameters")
    assert set(parameters) == set(kind._rules) == set(kind().get_params(deep=False))
    assert list(documented) == list(parameters)
    for name, each in parameters.items():
        rule, (words, default) = kind._rules[name], documented[name][0].rsplit(", default=", 1)
        assert ast.literal_eval(default) == each.default
        assert rule.holds is None or (rule.holds(each.default) and rule.kind == words)
    for pair in getattr(kind, "_exclusive", ()):
        assert set(pair) <= set(parameters)
    check_parameters(kind())


@pytest.mark.parametrize("kind", PREDICTORS, ids=lambda kind: kind.__name__)
def test_estimators_are_written_out_as_people_expect(kind):
    """Parameters by keyword, one of each section, and an ``__init__`` that can be read."""
    parameters = inspect.signature(kind).parameters.values()
    assert all(each.kind is each.KEYWORD_ONLY for each in parameters if each.name != "parts")
    assert list(sections(kind))[:2] == ["Parameters", "Attributes"] and list(sections(kind))[-1] == "Examples"
    assert ("classes_" in entries(kind, "Attributes")) == ("Classifier" in kind.__name__)
    source = inspect.getsource(kind.__init__)
    assert all(f"self.{name} = {name}\n" in source for name in inspect.signature(kind).parameters)


@pytest.mark.parametrize("kind", PREDICTORS, ids=lambda kind: kind.__name__)
def test_a_fitted_estimator_has_the_attributes_of_its_documentation(kind):
    X = pd.DataFrame(np.random.default_rng(0).standard_normal((40, 5)), columns=list("abcde"))
    y = X["a"] + X["b"] if "Regressor" in kind.__name__ else (X["a"] > 0).astype(int)
    parameters = inspect.signature(kind).parameters
    quick = {"max_epochs": 1, "members": 2, "n_components": 2, "random_state": 0}
    model = kind(**{name: value for name, value in quick.items() if name in parameters})
    if hasattr(model, "parts"):
        model.parts = (SVNNRegressor if kind is BlendRegressor else SVNNClassifier)(members=2, max_epochs=1)
    names = [name for names in entries(kind, "Attributes") for name in names.split(", ")]
    assert names and not any(hasattr(model, name) for name in names)
    model.fit(X, y)
    assert [name for name in names if not hasattr(model, name)] == []


def test_networks_have_few_parameters():
    assert all(len(inspect.signature(kind).parameters) <= 29 for kind in PREDICTORS)


def test_what_differs_between_the_two_networks():
    first, second = (inspect.signature(kind).parameters for kind in (SVNNRegressor, SVNNClassifier))
    assert set(first) ^ set(second) == {"loss", "class_weight"}
    assert [name for name in first if name != "loss"] == [name for name in second if name != "class_weight"]
    differ = {name for name in set(first) & set(second) if first[name].default != second[name].default}
    assert differ == {"hidden", "mlp", "node_dropout"}
    first, second = (entries(kind, "Parameters") for kind in (SVNNRegressor, SVNNClassifier))
    differ = {name for name in set(first) & set(second) if first[name][1] != second[name][1]}
    assert differ == {"heads", "standardize"}


# -- as scikit-learn sees them ----------------------------------------------------------------------------


def test_scikit_learn_sees_the_parameters():
    model = SVNNRegressor(hidden=[2], covariance="soft")
    assert model.get_params() | {"hidden": (8,), "covariance": "hard"} == SVNNRegressor().get_params()
    copied = clone(model)
    assert copied is not model and copied.get_params() == model.get_params()
    assert repr(model) == "SVNNRegressor(covariance='soft', hidden=[2])" and repr(SVNNRegressor()) == "SVNNRegressor()"
    assert model.set_params(lr=2).lr == 2
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    assert not hasattr(model, "module_") and "module_" not in vars(model)
    with pytest.raises(TypeError, match="unexpected keyword argument 'beta'"):
        SVNNRegressor(beta=1)
    with pytest.raises(TypeError, match="positional argument"):
        SVNNRegressor("hard")


def test_values_are_stored_as_they_are_given():
    sizes = [3, 4]
    assert SVNNRegressor(hidden=sizes).hidden is sizes
    assert SVNNRegressor(lr="nonsense").lr == "nonsense"  # checked in fit, not here


# -- the checks -------------------------------------------------------------------------------------------


class Plain(BaseEstimator):
    """Two parameters of which one may be set, and sizes."""

    _rules: ClassVar = {"tau": number(), "density": either(share(), None), "hidden": sizes(least=1)}
    _exclusive = (("density", "tau"),)

    def __init__(self, *, tau=0.5, density=None, hidden=(32,)):
        self.tau = tau
        self.density = density
        self.hidden = hidden


def test_the_first_wrong_parameter_is_named():
    check_parameters(Plain())
    check_parameters(Plain(tau=np.float64(0.1)))
    with pytest.raises(ValueError, match=r"^tau must be a number >= 0, got -1\.$"):
        check_parameters(Plain(tau=-1, hidden=()))
    with pytest.raises(ValueError, match=r"^hidden must be a sequence of positive integers .*, at least one, got \(\)"):
        check_parameters(Plain(hidden=()))


def test_parameters_that_make_the_same_choice():
    check_parameters(Plain(density=0.1))
    check_parameters(Plain(tau=0.1))
    check_parameters(Plain(tau=0.5, density=0.1))
    with pytest.raises(ValueError, match=r"^density=0.1 and tau=0.2 are mutually exclusive; set only one of them\.$"):
        check_parameters(Plain(tau=0.2, density=0.1))


def test_a_users_subclass_with_an_init_of_its_own_is_checked_too():
    class Mine(Plain):
        def __init__(self, *, offset=0.0, tau=1.0):
            super().__init__(tau=tau)
            self.offset = offset

    assert clone(Mine(offset=2.0)).get_params() == {"offset": 2.0, "tau": 1.0}
    check_parameters(Mine(tau=0.3))
    with pytest.raises(ValueError, match="tau must be"):
        check_parameters(Mine(tau=-1))


NAN = float("nan")
CASES = {
    "integer": (integer(1), [1, np.int64(3), np.uint8(2)], [0, -1, 1.0, True, "1", None, NAN, [1]]),
    "number": (number(), [0, 1e300, np.float32(0.5), np.int8(1)], [-1, math.inf, NAN, True, "1", None, 1j, [1]]),
    "positive": (number(above=True), [5e-324, 1], [0, -1, math.inf]),
    "interval": (number(0, 1), [0, 0.999, np.float64(0.5)], [1, -0.001, NAN, None]),
    "share": (share(), [0, 1, 0.5], [1.01, -0.01, NAN, True]),
    "positive share": (share(above=True), [1, 5e-324], [0, 1.01]),
    "words": (one_of("a", None), ["a", None], ["b", 1, ["a"], {}, np.array(["a", "b"])]),
    "boolean": (boolean(), [True, False, np.True_, 0, 1, np.int64(1)], [None, "yes", 0.5, [True], np.array([1, 2])]),
    "optional boolean": (boolean(optional=True), [True, None], ["yes"]),
    "sizes": (
        sizes(1),
        [(1,), [2, 3], np.array([4])],
        [(), 3, "12", (0,), (1.0,), np.array([[1]]), {1}, iter([1]), None],
    ),
    "no sizes": (sizes(), [(), [], np.array([], dtype=int)], [(0,), None]),
    "callables": (callables(), [(), [print, len]], [print, "abc", [1], None, iter([print])]),
    "weights": (
        class_weights(),
        [None, "balanced", {0: 1, "a": 0}],
        ["heavy", {}, {0: 0}, {0: -1}, {0: NAN}, {0: "a"}, 2],
    ),
    "seed": (seed(), [None, 0, np.int32(3), np.random.default_rng(0)], [-1, np.int64(-1)]),
    "either": (either(integer(1), "auto", None), ["auto", None, 3], ["other", 0, 1.5, [1]]),
    "either sizes": (either(sizes(), None), [None, (3,)], ["auto", (0,)]),
    "memory": (memory_size(), [None, 10, "1.5GB", "64 MiB"], ["much", 0, -1, ""]),
    "anything": (anything("object"), [None, 1, "x", object()], []),
}


@pytest.mark.parametrize("name", CASES)
def test_rules(name):
    rule, allowed, forbidden = CASES[name]

    class One(BaseEstimator):
        _rules: ClassVar = {"value": rule}

        def __init__(self, value=None):
            self.value = value

    for value in allowed:
        check_parameters(One(value=value))
    for value in forbidden:
        with pytest.raises(ValueError, match="value must be "):
            check_parameters(One(value=value))


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1e6), st.booleans())
def test_the_ends_of_an_interval(value, width, above):
    rule = number(value, value + width, above=above)
    assert value + width == value or rule.holds(value) == (not above)
    assert not rule.holds(value + width)
    assert not rule.holds(math.nextafter(value, -math.inf))
