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
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple, TypeVar, cast, dataclass_transform

import numpy as np

Value = TypeVar("Value")
Class = TypeVar("Class", bound=type)


class Rule(NamedTuple):
    """What a parameter may be: in words that follow "must be", as a test, and as a type for the documentation."""

    words: str
    holds: Callable[..., bool]
    kind: str


def parameter(
    *,
    default: Value,
    rule: Rule | None = None,
    doc: str = "",
    kind: str = "",
    positional: bool = False,
    instead_of: tuple[str, ...] = (),
    like: type | None = None,
) -> Value:
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
    instead_of : tuple of str
        Parameters that make the same choice: where this one is given, they have to stay at their defaults.
    like : type, optional
        A class that declares a parameter of this name. Its rule and its sentence hold here too.
    """
    metadata: dict[str, object] = {"like": like}
    if like is None:
        assert rule is not None, "a parameter has a rule, or is like another one"
        metadata = {"rule": rule, "doc": inspect.cleandoc(doc), "kind": kind or rule.kind, "instead_of": instead_of}
    field: Any = dataclasses.field(default=default, metadata=metadata, kw_only=not positional)
    return field


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
def declared(cls: Class) -> Class:
    """Give a class the ``__init__`` and the documentation of its declared parameters."""
    for name, field in vars(cls).items():
        if isinstance(field, dataclasses.Field) and "like" in field.metadata:
            field.metadata = {each.name: each for each in dataclasses.fields(field.metadata["like"])}[name].metadata
    dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)
    cls.__doc__ = _documented(cls)
    return cls


def check_parameters(estimator: Any) -> None:
    """Raise a ``ValueError`` that names the first parameter whose value is not allowed."""
    fields = {field.name: field for field in dataclasses.fields(estimator)}
    for name, field in fields.items():
        value, rule = getattr(estimator, name), field.metadata["rule"]
        if not rule.holds(value):
            raise ValueError(f"{name} must be {rule.words}, got {value!r}.")
        for other in field.metadata["instead_of"] if value is not field.default else ():
            if getattr(estimator, other) != fields[other].default:
                raise ValueError(
                    f"{name}={value!r} and {other}={getattr(estimator, other)!r} both choose; give only one of them."
                )


# -- what parameters may be -----------------------------------------------------------------------


def is_allowed(
    value: object,
    types: tuple[type, ...] = (),
    low: float = -math.inf,
    high: float = sys.float_info.max,
    options: tuple[str | None, ...] = (),
    pattern: re.Pattern[str] | None = None,
) -> bool:
    """Say whether ``value`` is one of the options, a text of the pattern, or a number of these types in an interval.

    True and False are no numbers, unless ``bool`` is among the types.
    """
    if value is None or isinstance(value, str):
        return value in options or (value is not None and pattern is not None and bool(pattern.fullmatch(value)))
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        return False
    return bool(low <= cast(float, value) <= high)


def is_integer(value: object, least: float = -math.inf) -> bool:
    """Say whether ``value`` is an integer of at least ``least``; True and False are none."""
    return is_allowed(value, (Integral,), least)


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
    return Rule(
        words,
        partial(is_allowed, types=(Real,), low=low, high=math.nextafter(below, -math.inf)),
        f"float {kind}".strip(),
    )


def share(*, above: bool = False) -> Rule:
    """A number from 0 (larger than it with ``above``) to 1."""
    words, low = ("a number in (0, 1]", math.ulp(0.0)) if above else ("a number between 0 and 1", 0.0)
    kind = "float in (0, 1]" if above else "float in [0, 1]"
    return Rule(words, partial(is_allowed, types=(Real,), low=low, high=1.0), kind)


def one_of(*options: str | None) -> Rule:
    """One of some words, or None where that is among them."""
    named = ", ".join("None" if option is None else f'"{option}"' for option in options)
    return Rule(f"one of {options}", partial(is_allowed, options=options), f"{{{named}}}")


def boolean(*, optional: bool = False) -> Rule:
    """True or False, or a number that stands for one; with ``optional`` also None."""
    words = "True, False or None" if optional else "True or False"
    options = (None,) if optional else ()
    holds = partial(is_allowed, types=(bool, np.bool_, Integral), options=options)
    return Rule(words, holds, "bool or None" if optional else "bool")


#: A size of memory as text: a number and a unit, such as "1.5GB" or "64 MiB".
MEMORY_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]I?)?B?\s*", re.IGNORECASE)


def memory_size() -> Rule:
    """A number of bytes, a text such as "1.5GB", or None."""
    holds = partial(is_allowed, types=(Real,), low=math.ulp(0.0), options=(None,), pattern=MEMORY_SIZE)
    return Rule('a number of bytes, a text such as "1GB", or None', holds, "int, str or None")


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
    """What a ``rule`` for numbers allows, or one of some words, or None where that is among them."""
    shown = ["None" if other is None else f'"{other}"' for other in others]
    holds = partial(rule.holds, options=others)
    return Rule(", ".join(shown) + f" or {rule.words}", holds, f"{rule.kind}, " + " or ".join(shown))


# -- documentation --------------------------------------------------------------------------------

#: The sections that follow "Parameters" in numpydoc's order.
_LATER = re.compile(r"^(Attributes|See Also|Notes|References|Examples)\n-+$", re.MULTILINE)


def _documented(cls: type) -> str:
    """Return the docstring of a class with a "Parameters" section from its declarations."""
    text = inspect.cleandoc(cls.__dict__.get("__doc__") or cls.__name__)
    lines = ["Parameters", "----------"]
    own = inspect.get_annotations(cls)
    for field in sorted(dataclasses.fields(cls), key=lambda field: field.name not in own):  # inherited ones last
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
