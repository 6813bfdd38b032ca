"""Rules for the parameters of estimators, and the check of their values against them.

A class writes out its ``__init__`` and the documentation of its parameters, and says in ``_rules`` what each of them
may be: a :class:`Rule` by name.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np


class Rule(NamedTuple):
    """A condition on a parameter: in words that follow "must be", as a test, and as a type for the documentation.

    Without a test every value is allowed.
    """

    words: str
    holds: Callable[[Any], bool] | None
    kind: str


def check_parameters(estimator: Any) -> None:
    """Raise a ``ValueError`` that names the first parameter whose value is not allowed.

    A class says in ``_rules`` what its parameters may be, and in ``_exclusive`` which pairs of them may not be set
    together: one of each pair has to have its default.
    """
    rules: Mapping[str, Rule] = estimator._rules
    for name, rule in rules.items():
        value = getattr(estimator, name)
        if rule.holds is not None and not rule.holds(value):
            raise ValueError(f"{name} must be {rule.words}, got {value!r}.")
    defaults = {name: each.default for name, each in inspect.signature(type(estimator).__init__).parameters.items()}
    for pair in getattr(estimator, "_exclusive", ()):
        given = {name: getattr(estimator, name) for name in pair}
        if all(name in defaults and not _same(value, defaults[name]) for name, value in given.items()):
            shown = " and ".join(f"{name}={value!r}" for name, value in given.items())
            raise ValueError(f"{shown} are mutually exclusive; set only one of them.")


def _same(value: object, default: object) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


# -- what parameters may be -----------------------------------------------------------------------


def is_allowed(
    value: Any,
    types: tuple[type, ...] = (),
    low: float = -math.inf,
    high: float = sys.float_info.max,
    options: Sequence[str | None] = (),
    pattern: re.Pattern[str] | None = None,
    otherwise: Callable[[Any], bool] | None = None,
) -> bool:
    """Return whether ``value`` is one of the options, a text of the pattern, or a number of these types in an interval.

    True and False are numbers only where ``bool`` is among the types; other values have no interval. ``otherwise``
    decides in the place of types and interval.

    Examples
    --------
    >>> is_allowed(3, (Integral,), low=1), is_allowed(True, (Integral,)), is_allowed("b", options=["a"])
    (True, False, False)
    """
    if value is None or isinstance(value, str):
        return value in options or (value is not None and pattern is not None and bool(pattern.fullmatch(value)))
    if otherwise is not None:
        return otherwise(value)
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return False
    # numpy would round the ends of the interval to the precision of its own numbers.
    plain: Any = value.item() if isinstance(value, np.generic) else value
    is_number = isinstance(plain, Real)
    return not is_number or bool(low <= plain <= high)


def integer(least: int) -> Rule:
    """An integer of at least ``least``."""
    words = "a positive integer" if least == 1 else f"an integer >= {least}"
    return Rule(words, partial(is_allowed, types=(Integral,), low=least), "int")


def number(least: float = 0.0, below: float = math.inf, *, above: bool = False) -> Rule:
    """A finite number from ``least`` (larger than it with ``above``) and less than ``below``."""
    if below < math.inf:
        words = kind = f"in {'(' if above else '['}{least:g}, {below:g})"
    elif least == -math.inf:
        words, kind = "a number", ""
    else:
        words, kind = "a positive number" if above and not least else f"a number >= {least:g}", ""
    low = math.nextafter(least, math.inf) if above else least
    holds = partial(is_allowed, types=(Real,), low=low, high=math.nextafter(below, -math.inf))
    return Rule(words, holds, f"float {kind}".strip())


def share(*, above: bool = False) -> Rule:
    """A number from 0 (larger than it with ``above``) to 1."""
    words, low = ("a number in (0, 1]", math.ulp(0.0)) if above else ("a number between 0 and 1", 0.0)
    kind = "float in (0, 1]" if above else "float in [0, 1]"
    return Rule(words, partial(is_allowed, types=(Real,), low=low, high=1.0), kind)


def one_of(*options: str | None) -> Rule:
    """One of some words, or None where that is among them."""
    return Rule(f"one of {options}", partial(is_allowed, options=options), f"{{{', '.join(_quoted(options))}}}")


def either(rule: Rule, *others: str | None) -> Rule:
    """Values that ``rule`` allows, or one of some words, or None where that is among them."""
    shown = _quoted(others)
    holds = partial(is_allowed, options=others, otherwise=rule.holds)
    kind = ", ".join([rule.kind, *shown[:-1]]) + f" or {shown[-1]}"
    return Rule(", ".join(shown) + f" or {rule.words}", holds, kind)


def boolean(*, optional: bool = False) -> Rule:
    """True or False, or a number that stands for one; with ``optional`` also None."""
    words = "True, False or None" if optional else "True or False"
    holds = partial(is_allowed, types=(bool, np.bool_, Integral), options=(None,) if optional else ())
    return Rule(words, holds, "bool or None" if optional else "bool")


#: A size of memory as text: a number and a unit, such as "1.5GB" or "64 MiB".
MEMORY_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?\s*", re.IGNORECASE)


def memory_size() -> Rule:
    """A number of bytes, a text such as "1.5GB", or None."""
    holds = partial(is_allowed, types=(Real,), low=math.ulp(0.0), options=(None,), pattern=MEMORY_SIZE)
    return Rule('a number of bytes, a text such as "1GB", or None', holds, "int, str or None")


def sizes(least: int = 0) -> Rule:
    """A sequence of positive integers, at least ``least`` of them."""
    few = f", at least {'one' if least == 1 else least}" if least else ""
    holds = partial(_is_sequence, each=partial(is_allowed, types=(Integral,), low=1), least=least)
    return Rule(f"a sequence of positive integers such as (32,){few}", holds, "sequence of int")


def callables() -> Rule:
    """A sequence of functions or other objects that can be called."""
    return Rule("a sequence of callables", partial(_is_sequence, each=callable), "sequence of callables")


def class_weights() -> Rule:
    """Weights of classes: None, "balanced" or a dict of numbers."""
    words = 'None, "balanced" or a dict of finite numbers >= 0, not all of them zero'
    holds = partial(is_allowed, options=(None, "balanced"), otherwise=_is_dict_of_weights)
    return Rule(words, holds, 'dict, "balanced" or None')


def seed() -> Rule:
    """Anything that random numbers can start from."""
    holds = partial(is_allowed, types=(object, bool), low=0, options=(None,))
    return Rule("None, an integer >= 0 or a random generator", holds, "int, Generator, RandomState or None")


def anything(kind: str) -> Rule:
    """Any value: another part of the program checks it; ``kind`` is its type in the documentation."""
    return Rule("given", None, kind)


def _is_sequence(value: Any, each: Callable[[Any], bool], least: int = 0) -> bool:
    """Return whether ``value`` is a list, tuple or array of at least ``least`` entries that are each allowed."""
    listed = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim == 1)
    return listed and not isinstance(value, str) and len(value) >= least and all(map(each, value))


def _is_dict_of_weights(value: Any) -> bool:
    if not isinstance(value, Mapping) or not all(isinstance(weight, Real) for weight in value.values()):
        return False
    return all(0 <= float(weight) < math.inf for weight in value.values()) and any(value.values())


def _quoted(values: Sequence[object]) -> list[str]:
    return [f'"{value}"' if isinstance(value, str) else repr(value) for value in values]
