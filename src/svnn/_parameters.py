"""Parameters of estimators, each declared once: its default, what it may be, and its sentence of documentation.

::

    @declared
    class Ridge(BaseEstimator):
        '''Linear regression with a penalty.'''

        alpha: float = parameter(default=1.0, rule=number(least=0), doc="Strength of the penalty.")
        coef_: np.ndarray = fitted(kind="ndarray of shape (N,)", doc="Coefficients of the features.")

makes the ``__init__`` that scikit-learn expects (keywords only, stored as given), writes the "Parameters" and
"Attributes" sections of the docstring, and lets :func:`check_parameters` say what is wrong with a value.

A subclass inherits the parameters, and the "Notes" and "References" of the docstring, of its bases. Where only a
default differs, it says just that::

    @declared
    class StrongRidge(Ridge):
        alpha: float = 100.0
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, TypeVar, dataclass_transform

import numpy as np

Value = TypeVar("Value")
Class = TypeVar("Class", bound=type)


class Rule(NamedTuple):
    """What a parameter may be: in words that follow "must be", as a test, and as a type for the documentation.

    Without a test every value is allowed.
    """

    words: str
    holds: Callable[[Any], bool] | None
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


def fitted(*, kind: str, doc: str = "", init: Literal[False] = False) -> Any:
    """Declare an attribute that ``fit`` sets: its type in the documentation, and its sentence."""
    return dataclasses.field(init=init, metadata={"doc": inspect.cleandoc(doc), "kind": kind}, kw_only=True)


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter, fitted))
def declared(cls: Class) -> Class:
    """Give a class the ``__init__`` and the documentation of its declared parameters.

    A class's own parameters stand before those that it inherits, in the signature and in the documentation.
    """
    bases = [base for base in reversed(cls.__mro__[1:]) if dataclasses.is_dataclass(base)]
    inherited = {field.name: field for base in bases for field in dataclasses.fields(base)}
    for name in inspect.get_annotations(cls):
        if name in inherited and not isinstance(vars(cls).get(name), dataclasses.Field):
            old, default = inherited[name], vars(cls)[name]
            again: Any = dataclasses.field(default=default, metadata=old.metadata, kw_only=bool(old.kw_only))
            setattr(cls, name, again)
    dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)

    home = {name: i for i, base in enumerate(cls.__mro__) for name in inspect.get_annotations(base)}
    fields = sorted(dataclasses.fields(cls), key=lambda field: home[field.name])
    place = {field.name: i for i, field in enumerate(fields)}
    init = vars(cls)["__init__"]
    signature = inspect.signature(init)
    ordered = sorted(signature.parameters.values(), key=lambda p: place[p.name] if p.kind is p.KEYWORD_ONLY else -1)
    init.__signature__ = signature.replace(parameters=ordered)
    cls.__doc__ = _documented(cls, fields)
    return cls


def check_parameters(estimator: Any) -> None:
    """Raise a ``ValueError`` that names the first parameter whose value is not allowed."""
    for field in dataclasses.fields(estimator):
        if not field.init or (rule := field.metadata["rule"]).holds is None:
            continue
        value = getattr(estimator, field.name)
        if not rule.holds(value):
            raise ValueError(f"{field.name} must be {rule.words}, got {value!r}.")


# -- what parameters may be -----------------------------------------------------------------------


def integer(least: int) -> Rule:
    """An integer of at least ``least``."""
    words = "a positive integer" if least == 1 else f"an integer >= {least}"
    return Rule(words, partial(is_integer, least=least), "int")


def number(least: float = 0.0, below: float = math.inf, *, above: bool = False) -> Rule:
    """A finite number from ``least`` (larger than it with ``above``) and less than ``below``."""
    if below < math.inf:
        words = kind = f"in {'(' if above else '['}{least:g}, {below:g})"
    else:
        words, kind = "a positive number" if above and not least else f"a number >= {least:g}", ""
        words += " and not infinite"
    return Rule(words, partial(is_number, least=least, below=below, above=above), f"float {kind}".strip())


def one_of(*options: str | None) -> Rule:
    """One of some words, or None where that is among them."""
    return Rule(f"one of {options}", partial(_is_word, options=options), f"{{{', '.join(_quoted(options))}}}")


def boolean() -> Rule:
    """True or False, or a number that stands for one."""
    return Rule("True or False", _is_truth_value, "bool")


def sizes(least: int = 0) -> Rule:
    """A sequence of positive integers, at least ``least`` of them."""
    few = f", at least {'one' if least == 1 else least}" if least else ""
    words = f"a sequence of positive integers such as (32,){few}"
    return Rule(words, partial(_are_sizes, least=least), "sequence of int")


def callables() -> Rule:
    """A sequence of functions or other objects that can be called."""
    return Rule("a sequence of callables", _are_callables, "sequence of callables")


def class_weights() -> Rule:
    """Weights of classes: None, "balanced" or a dict of numbers."""
    words = 'None, "balanced" or a dict of finite numbers >= 0, not all of them zero'
    return Rule(words, _are_class_weights, 'dict, "balanced" or None')


def seed() -> Rule:
    """Anything that random numbers can start from."""
    return Rule("None, an integer >= 0 or a random generator", _is_seed, "int, Generator, RandomState or None")


def anything(kind: str) -> Rule:
    """What another part of the program checks; ``kind`` is its type in the documentation."""
    return Rule("given", None, kind)


def either(rule: Rule, *others: str | None) -> Rule:
    """What ``rule`` allows, or one of some words, or None where that is among them."""
    shown = _quoted(others)
    holds = partial(_is_either, rule=rule, options=others)
    return Rule(", ".join(shown) + f" or {rule.words}", holds, f"{rule.kind}, " + " or ".join(shown))


def is_integer(value: object, least: float = -math.inf) -> bool:
    """Say whether ``value`` is an integer of at least ``least``; True and False are not."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def is_number(value: object, least: float = -math.inf, below: float = math.inf, above: bool = False) -> bool:
    """Say whether ``value`` is a real number in [least, below), or (least, below); True and False are not."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return least <= float(value) < below and not (above and float(value) == least)


def _is_word(value: object, options: Sequence[str | None]) -> bool:
    return (value is None or isinstance(value, str)) and value in options


def _is_truth_value(value: object) -> bool:
    return isinstance(value, (bool, np.bool_, Integral))


def _are_sizes(value: Any, least: int) -> bool:
    listed = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim == 1)
    if not listed or isinstance(value, str):
        return False
    return len(value) >= least and all(is_integer(size, 1) for size in value)


def _are_callables(value: object) -> bool:
    return isinstance(value, Sequence) and all(callable(each) for each in value)


def _are_class_weights(value: object) -> bool:
    if not isinstance(value, Mapping):
        return value is None or (isinstance(value, str) and value == "balanced")
    return all(isinstance(v, Real) and 0 <= float(v) < math.inf for v in value.values()) and any(value.values())


def _is_seed(value: object) -> bool:
    return not isinstance(value, Integral) or int(value) >= 0


def _is_either(value: object, rule: Rule, options: Sequence[str | None]) -> bool:
    if value is None or isinstance(value, str):
        return value in options
    return rule.holds is None or rule.holds(value)


# -- documentation --------------------------------------------------------------------------------

#: numpydoc's sections in their order; the first two are written from the declarations.
_SECTIONS = ("Parameters", "Attributes", "See Also", "Notes", "References", "Examples")
_HEADING = re.compile(rf"^({'|'.join(_SECTIONS)})\n-+\n", re.MULTILINE)


def _documented(cls: type, fields: Sequence[dataclasses.Field[Any]]) -> str:
    """Return the docstring of a class with the sections that follow from its declarations and its bases."""
    sections = _sections(vars(cls).get("__doc__") or cls.__name__)
    for base in cls.__mro__[1:]:
        if dataclasses.is_dataclass(base):
            above = _sections(base.__doc__ or "")
            sections = {**{name: above[name] for name in ("Notes", "References") if name in above}, **sections}
    written = {
        "Parameters": "\n".join(_entry(field) for field in fields if field.init),
        "Attributes": "\n".join(_entry(field) for field in fields if not field.init),
    }
    for name, entries in written.items():
        sections[name] = "\n".join(part for part in (entries, sections.get(name)) if part)
    headed = [f"{name}\n{'-' * len(name)}\n{sections[name]}" for name in _SECTIONS if sections.get(name)]
    return textwrap.indent("\n\n".join([sections[""], *headed]), "    ").lstrip() + "\n    "


def _sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring by name; what stands before the first one has the name ""."""
    start, *rest = _HEADING.split(inspect.cleandoc(text))
    return {"": start.strip(), **{name: body.strip("\n") for name, body in zip(rest[::2], rest[1::2], strict=True)}}


def _entry(field: dataclasses.Field[Any]) -> str:
    """Return the entry of a parameter or an attribute in its section."""
    default = "" if field.default is dataclasses.MISSING else f", default={_quoted([field.default])[0]}"
    doc = textwrap.indent("\n" + field.metadata["doc"], "    ") if field.metadata["doc"] else ""
    return f"{field.name} : {field.metadata['kind']}{default}{doc}"


def _quoted(values: Sequence[object]) -> list[str]:
    return [f'"{value}"' if isinstance(value, str) else repr(value) for value in values]
