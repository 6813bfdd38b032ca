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
import sys
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
        given = vars(cls).get(name)
        if isinstance(given, dataclasses.Field) and "like" in given.metadata:
            model = {field.name: field for field in dataclasses.fields(given.metadata["like"])}
            given.metadata = model[name].metadata
        elif name in inherited and not isinstance(given, dataclasses.Field):
            old = inherited[name]
            again: Any = dataclasses.field(default=given, metadata=old.metadata, kw_only=bool(old.kw_only))
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
    """Raise a ``ValueError`` that names the first parameter whose value is not allowed.

    A class says in ``_rules`` what its parameters may be, and in ``_exclusive`` which pairs of them may not be set
    together: one of each pair has to have its default.
    """
    if dataclasses.is_dataclass(estimator):  # classes that are still declared
        _check_declared(estimator)
        return
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


def _check_declared(estimator: Any) -> None:
    fields = {field.name: field for field in dataclasses.fields(estimator) if field.init}
    for name, field in fields.items():
        value, rule = getattr(estimator, name), field.metadata["rule"]
        if rule.holds is not None and not rule.holds(value):
            raise ValueError(f"{name} must be {rule.words}, got {value!r}.")
        for other in field.metadata["instead_of"] if value is not field.default else ():
            if getattr(estimator, other) != fields[other].default:
                raise ValueError(
                    f"{name}={value!r} and {other}={getattr(estimator, other)!r} are mutually exclusive; set only one "
                    "of them."
                )


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
    """Say whether ``value`` is one of the options, a text of the pattern, or a number of these types in an interval.

    True and False are numbers only where ``bool`` is among the types; what is no number has no interval. ``otherwise``
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
    """What ``rule`` allows, or one of some words, or None where that is among them."""
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
    """What another part of the program checks; ``kind`` is its type in the documentation."""
    return Rule("given", None, kind)


def _is_sequence(value: Any, each: Callable[[Any], bool], least: int = 0) -> bool:
    """Say whether ``value`` is a list, tuple or array of at least ``least`` entries that are each allowed."""
    listed = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim == 1)
    return listed and not isinstance(value, str) and len(value) >= least and all(map(each, value))


def _is_dict_of_weights(value: Any) -> bool:
    if not isinstance(value, Mapping) or not all(isinstance(weight, Real) for weight in value.values()):
        return False
    return all(0 <= float(weight) < math.inf for weight in value.values()) and any(value.values())


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
