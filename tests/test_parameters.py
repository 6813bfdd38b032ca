"""Parameters declared once: the signature, the documentation, the checks and what subclasses inherit."""

from __future__ import annotations

import inspect
import math
import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

from svnn import SVNNClassifier, SVNNRegressor
from svnn._parameters import (
    anything,
    boolean,
    callables,
    check_parameters,
    class_weights,
    declared,
    either,
    fitted,
    integer,
    memory_size,
    number,
    one_of,
    parameter,
    seed,
    share,
    sizes,
)
from svnn.paper import baselines

ESTIMATORS = [SVNNRegressor, SVNNClassifier, *(getattr(baselines, name) for name in baselines.__all__)]


@declared
class Ridge(BaseEstimator):
    """Linear regression with a penalty.

    Notes
    -----
    The penalty is the sum of squares.

    Examples
    --------
    >>> Ridge(alpha=3.0)
    Ridge(alpha=3.0)
    """

    alpha: float = parameter(default=1.0, rule=number(), doc="Strength of the penalty.")
    hidden: Sequence[int] = parameter(default=(32,), rule=sizes(least=1), doc="Sizes.\n\nOf all layers.")
    coef_: np.ndarray = fitted(kind="ndarray of shape (N,)", doc="The coefficients.")


@declared
class StrongRidge(Ridge):
    """Linear regression with a strong penalty."""

    alpha: float = 100.0
    solver: str = parameter(default="cg", rule=one_of("cg", "lu"), doc="How the equations are solved.")


@declared
class Choice(BaseEstimator):
    """Two parameters that make the same choice, and one that is like another class's."""

    tau: float = parameter(default=0.5, rule=number(), positional=True)
    density: float | None = parameter(default=None, rule=either(share(), None), instead_of=("tau",))
    alpha: float = parameter(default=7.0, like=Ridge)


# -- the signature ----------------------------------------------------------------------------------------


def test_the_signature_has_every_parameter_by_keyword_with_its_default():
    found = inspect.signature(StrongRidge)
    assert {name: p.default for name, p in found.parameters.items()} == {
        "alpha": 100.0,
        "hidden": (32,),
        "solver": "cg",
    }
    assert all(p.kind is p.KEYWORD_ONLY for p in found.parameters.values())
    assert found.parameters["alpha"].annotation == "float"
    with pytest.raises(TypeError, match="unexpected keyword argument 'beta'"):
        Ridge(beta=1)
    with pytest.raises(TypeError, match="positional argument"):
        Ridge(1.0)
    assert Choice(0.25).tau == 0.25


def test_own_parameters_stand_before_inherited_ones_and_changed_ones_keep_their_place():
    assert list(inspect.signature(StrongRidge).parameters) == ["solver", "alpha", "hidden"]
    assert list(inspect.signature(Choice).parameters) == ["tau", "density", "alpha"]
    names = list(inspect.signature(SVNNRegressor).parameters)
    assert names[:2] == ["covariance", "shift"] and names.index("order") < names.index("loss") < names.index("lr")


def test_scikit_learn_sees_the_parameters():
    model = StrongRidge(hidden=[2], solver="lu")
    assert model.get_params() == {"alpha": 100.0, "hidden": [2], "solver": "lu"}
    copied = clone(model)
    assert copied is not model and copied.get_params() == model.get_params()
    assert repr(model) == "StrongRidge(hidden=[2], solver='lu')" and repr(Ridge()) == "Ridge()"
    assert model.set_params(alpha=2).alpha == 2
    assert pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
    assert "coef_" not in vars(model) and not hasattr(model, "coef_")


def test_values_are_stored_as_they_are_given():
    given = [3, 4]
    assert Ridge(hidden=given).hidden is given
    assert Ridge(alpha="nonsense").alpha == "nonsense"  # checked in fit, not here


def test_two_equal_estimators_are_not_the_same():
    assert Ridge() != Ridge() and len({Ridge(), Ridge()}) == 2


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_estimators_say_each_parameter_once(kind):
    """Every parameter is in the signature and in the documentation, with the default that it has."""
    parameters = inspect.signature(kind).parameters
    assert set(parameters) == set(kind().get_params(deep=False))
    for name, each in parameters.items():
        assert each.kind is each.KEYWORD_ONLY
        shown = f'"{each.default}"' if isinstance(each.default, str) else repr(each.default)
        line = next(line for line in kind.__doc__.splitlines() if line.startswith(f"    {name} : "))
        assert line.endswith(f", default={shown}")
    for section in ("Parameters", "Attributes", "Examples"):
        assert kind.__doc__.count(f"    {section}\n    {'-' * len(section)}\n") == 1
    assert ("    classes_ : " in kind.__doc__) == ("Classifier" in kind.__name__)


def test_what_differs_between_the_two_networks():
    first, second = (inspect.signature(kind).parameters for kind in (SVNNRegressor, SVNNClassifier))
    assert set(first) ^ set(second) == {"loss", "class_weight"}
    differ = {name for name in set(first) & set(second) if first[name].default != second[name].default}
    assert differ == {"hidden", "mlp", "node_dropout"}


CODE = """
from parameters import declared, fitted, integer, parameter

@declared
class Base:
    order: int = parameter(default=2, rule=integer(0))
    n_iter_: int = fitted(kind="int")

@declared
class Network(Base):
    order: int = 3
    heads: int = parameter(default=4, rule=integer(1))

reveal_type(Network(order=3, heads=2).n_iter_)
Network(ordre=3)
Network(order="three")
Network(n_iter_=3)
Network(3)
"""


def test_type_checkers_see_the_signature(tmp_path):
    """mypy reads ``dataclass_transform``: it knows names and types without running the decorator."""
    pytest.importorskip("mypy")
    shutil.copy(inspect.getfile(declared), tmp_path / "parameters.py")
    (tmp_path / "user.py").write_text(CODE)
    (tmp_path / "mypy.ini").write_text(
        "[mypy]\n[mypy-numpy.*]\nfollow_imports = skip\n"
    )  # which takes a minute to read
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "user.py"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    expected = [
        'Revealed type is "(builtins.)?int"',
        'error: Unexpected keyword argument "ordre" for "Network"',
        'error: Argument "order" to "Network" has incompatible type "str"; expected "int"',
        'error: Unexpected keyword argument "n_iter_" for "Network"',
        'error: Too many positional arguments for "Network"',
    ]
    found = [line for line in answer.splitlines() if line.startswith("user.py")]
    assert len(found) == len(expected), answer
    for line, message in zip(found, expected, strict=True):
        assert re.search(message, line)


# -- the documentation ------------------------------------------------------------------------------------


def test_the_documentation_is_written_from_the_declarations():
    expected = """
    Linear regression with a penalty.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty.
    hidden : sequence of int, default=(32,)
        Sizes.

        Of all layers.

    Attributes
    ----------
    coef_ : ndarray of shape (N,)
        The coefficients.

    Notes
    -----
    The penalty is the sum of squares.

    Examples
    --------
    >>> Ridge(alpha=3.0)
    Ridge(alpha=3.0)
    """
    assert Ridge.__doc__ == expected.strip() + "\n    "


def test_a_subclass_inherits_notes_but_not_examples():
    text = inspect.getdoc(StrongRidge)
    assert text.startswith("Linear regression with a strong penalty.\n\nParameters\n----------\nsolver : ")
    assert (
        'solver : {"cg", "lu"}, default="cg"\n    How the equations are solved.\nalpha : float, default=100.0' in text
    )
    assert "Notes\n-----\nThe penalty is the sum of squares." in text and "Examples" not in text
    assert "coef_ : " in text


def test_a_parameter_like_another_has_its_rule_and_its_sentence():
    assert "alpha : float, default=7.0\n        Strength of the penalty." in Choice.__doc__
    with pytest.raises(ValueError, match="alpha must be a number >= 0, got -1"):
        check_parameters(Choice(alpha=-1))


# -- the checks -------------------------------------------------------------------------------------------


def test_the_first_wrong_parameter_is_named():
    check_parameters(StrongRidge())
    with pytest.raises(ValueError, match=r"^solver must be one of \('cg', 'lu'\), got 'qr'\.$"):
        check_parameters(StrongRidge(solver="qr"))
    with pytest.raises(ValueError, match=r"^hidden must be a sequence of positive integers .*, at least one, got \(\)"):
        check_parameters(Ridge(hidden=()))


def test_parameters_that_make_the_same_choice():
    check_parameters(Choice(density=0.1))
    check_parameters(Choice(tau=0.1))
    with pytest.raises(ValueError, match=r"density=0.1 and tau=0.2 are mutually exclusive; set only one of them\."):
        check_parameters(Choice(tau=0.2, density=0.1))


def test_a_users_subclass_with_an_init_of_its_own_is_checked_too():
    class Mine(Ridge):
        def __init__(self, *, offset=0.0, alpha=1.0):
            super().__init__(alpha=alpha)
            self.offset = offset

    assert clone(Mine(offset=2.0)).get_params() == {"offset": 2.0, "alpha": 1.0}
    with pytest.raises(ValueError, match="alpha must be"):
        check_parameters(Mine(alpha=-1))


class Plain(BaseEstimator):
    """A class that writes its ``__init__`` out.

    Parameters
    ----------
    tau : float, default=0.5
    density : float or None, default=None
    """

    _rules: ClassVar = {"tau": number(), "density": either(share(), None)}
    _exclusive = (("density", "tau"),)

    def __init__(self, *, tau=0.5, density=None):
        self.tau = tau
        self.density = density


def test_a_class_with_written_out_parameters_is_checked_by_its_rules():
    check_parameters(Plain())
    check_parameters(Plain(density=0.1))
    check_parameters(Plain(tau=np.float64(0.1)))
    with pytest.raises(ValueError, match=r"^tau must be a number >= 0, got -1\.$"):
        check_parameters(Plain(tau=-1))
    with pytest.raises(ValueError, match=r"^density=0.1 and tau=0.2 are mutually exclusive; set only one of them\.$"):
        check_parameters(Plain(tau=0.2, density=0.1))


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

    @declared
    class One(BaseEstimator):
        """One parameter."""

        value: object = parameter(default=None, rule=rule)

    for value in allowed:
        check_parameters(One(value=value))
    for value in forbidden:
        with pytest.raises(ValueError, match="value must be "):
            check_parameters(One(value=value))
    assert f"value : {rule.kind}, default=None" in One.__doc__


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1e6), st.booleans())
def test_the_ends_of_an_interval(value, width, above):
    rule = number(value, value + width, above=above)
    assert value + width == value or rule.holds(value) == (not above)
    assert not rule.holds(value + width)
    assert not rule.holds(math.nextafter(value, -math.inf))
