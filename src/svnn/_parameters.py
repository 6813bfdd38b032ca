"""Parameters of estimators, each declared once: its default, what it may be, and its sentence of documentation.

::

    @declared
    class Ridge(BaseEstimator):
        '''Linear regression with a penalty.'''

        alpha: float = parameter(default=1.0, rule=number(least=0), doc="Strength of the penalty.")

makes the ``__init__`` that scikit-learn expects (keywords only, stored as given), writes the "Parameters" section of
the docstring, and lets :func:`check_parameters` say what is wrong with a value. A subclass inherits the parameters of
its bases; it declares again only what differs.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import numpy as np

Value = TypeVar("Value")
Class = TypeVar("Class", bound=type)


class Rule(NamedTuple):
    """What a parameter may be: in words that follow "must be", as a test, and as a type for the documentation."""

    words: str
    holds: Callable[[Any], bool]
    kind: str


def parameter(*, default: Value, rule: Rule, doc: str = "", kind: str = "", positional: bool = False) -> Value:
    """Declare a parameter.

    Parameters
    ----------
    default : object
        What it is where nothing is given; nothing that can be changed in place.
    rule : Rule
        What it may be.
    doc : str
        Its sentence of documentation.
    kind : str
        Its type in the documentation, where the rule's own words are not the best ones.
    positional : bool
        Whether it may be given without its name.
    """
    metadata = {"rule": rule, "doc": inspect.cleandoc(doc), "kind": kind or rule.kind}
    field: Any = dataclasses.field(default=default, metadata=metadata, kw_only=not positional)
    return field


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
def declared(cls: Class) -> Class:
    """Give a class the ``__init__`` and the documentation of its declared parameters."""
    dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)
    cls.__doc__ = _documented(cls)
    return cls


def check_parameters(estimator: Any) -> None:
    """Raise a ``ValueError`` that names the first parameter whose value is not allowed."""
    for field in dataclasses.fields(estimator):
        value, rule = getattr(estimator, field.name), field.metadata["rule"]
        if not rule.holds(value):
            raise ValueError(f"{field.name} must be {rule.words}, got {value!r}.")


# -- what parameters may be -----------------------------------------------------------------------


def is_integer(value: object, least: float = -math.inf) -> bool:
    """Say whether ``value`` is an integer of at least ``least``; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def is_number(value: object) -> bool:
    """Say whether ``value`` is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def integer(least: int) -> Rule:
    """An integer of at least ``least``."""
    words = "a positive integer" if least == 1 else f"an integer >= {least}"
    return Rule(words, lambda value: is_integer(value, least), "int")


def number(least: float = 0.0, below: float = math.inf, *, above: bool = False) -> Rule:
    """A finite number from ``least`` (larger than it with ``above``) and less than ``below``."""
    if below < math.inf:
        words = kind = f"in {'(' if above else '['}{least:g}, {below:g})"
    else:
        words, kind = "a positive number" if above and not least else f"a number >= {least:g}", ""

    def holds(value: Any) -> bool:
        return is_number(value) and (float(value) > least if above else float(value) >= least) and float(value) < below

    return Rule(words, holds, f"float {kind}".strip())


def one_of(*options: str | None) -> Rule:
    """One of some words, or None where that is among them."""

    def holds(value: object) -> bool:
        return (value is None or isinstance(value, str)) and value in options

    named = ", ".join("None" if option is None else f'"{option}"' for option in options)
    return Rule(f"one of {options}", holds, f"{{{named}}}")


def boolean() -> Rule:
    """True or False, or a number that stands for one."""
    return Rule("True or False", lambda value: isinstance(value, (bool, np.bool_, Integral)), "bool")


def sizes(least: int = 0) -> Rule:
    """A sequence of at least ``least`` positive integers."""

    def holds(value: Any) -> bool:
        listed = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim == 1)
        return (
            listed and not isinstance(value, str) and len(value) >= least and all(is_integer(size, 1) for size in value)
        )

    few = f"at least {least} " if least else ""
    return Rule(f"a sequence of {few}positive integers such as (32,)", holds, "sequence of int")


def seed() -> Rule:
    """Anything that random numbers can start from."""

    def holds(value: Any) -> bool:
        return not isinstance(value, Integral) or int(value) >= 0

    return Rule("None, an integer >= 0 or a random generator", holds, "int, Generator, RandomState or None")


def anything(kind: str) -> Rule:
    """What another part of the program checks; ``kind`` is its type in the documentation."""
    return Rule("given", lambda value: True, kind)


def either(rule: Rule, *others: str | None) -> Rule:
    """What ``rule`` allows, or one of some words, or None where that is among them."""
    shown = ["None" if other is None else f'"{other}"' for other in others]

    def holds(value: object) -> bool:
        return (value in others) if value is None or isinstance(value, str) else rule.holds(value)

    return Rule(", ".join(shown) + f" or {rule.words}", holds, f"{rule.kind}, " + " or ".join(shown))


# -- documentation --------------------------------------------------------------------------------

#: The sections that follow "Parameters" in numpydoc's order.
_LATER = re.compile(r"^(Attributes|See Also|Notes|References|Examples)\n-+$", re.MULTILINE)


def _documented(cls: type) -> str:
    """Return the docstring of a class with a "Parameters" section from its declarations."""
    text = inspect.cleandoc(cls.__dict__.get("__doc__") or cls.__name__)
    lines = ["Parameters", "----------"]
    for field in dataclasses.fields(cls):
        lines.append(f"{field.name} : {field.metadata['kind']}, default={_shown(field.default)}")
        if field.metadata["doc"]:
            lines.append(textwrap.indent(field.metadata["doc"], "    "))
    section = "\n".join(lines)
    later = _LATER.search(text)
    at = later.start() if later else len(text)
    whole = "\n\n".join(part for part in (text[:at].rstrip(), section, text[at:].strip()) if part)
    return textwrap.indent(whole, "    ").lstrip() + "\n    "


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
