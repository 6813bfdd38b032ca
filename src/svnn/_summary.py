"""The printed form of fitted estimators."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Mapping
from functools import cache
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import estimator_html_repr

_TABLE = '<table style="margin: 0.3em 0; border-collapse: collapse; font-size: 0.9em"><tbody>{rows}</tbody></table>'
_ROW = (
    '<tr><th style="text-align: left; padding: 0.1em 1em 0.1em 0; font-weight: normal; opacity: 0.7">{name}</th>'
    '<td style="text-align: left; padding: 0.1em 0">{value}</td></tr>'
)


class FittedSummary(BaseEstimator):
    """An estimator that, once fitted, prints a line of facts after its parameters, and a table in notebooks.

    A subclass says in ``_summary`` what the facts are. Without any, as before ``fit``, all is as scikit-learn has it.
    """

    def _summary(self) -> Mapping[str, str]:
        """Return what is to be said of the fitted estimator: names of facts, and the facts in words."""
        return {}

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        # scikit-learn breaks lines only for classes that have its own __repr__.
        plain: Any = object.__new__(_with_plain_repr(type(self)))  # type: ignore[arg-type]  # classes can be hashed
        plain.__dict__ = self.__dict__
        text: str = BaseEstimator.__repr__(plain, N_CHAR_MAX)
        facts = self._summary()
        if not facts:
            return text
        said = "fitted: " + ", ".join(facts.values())
        said = said.replace(" %", "\xa0%")  # not at the end of a line, where a number would stand alone
        return f"{text}\n" + textwrap.fill(said, 100, initial_indent="  ", subsequent_indent="  ").replace("\xa0", " ")

    def _repr_html_inner(self) -> str:
        """Return the table of facts above scikit-learn's diagram; ``_repr_html_`` returns this method."""
        diagram: str = estimator_html_repr(self)
        rows = "".join(
            _ROW.format(name=html.escape(name), value=html.escape(value)) for name, value in self._summary().items()
        )
        return _TABLE.format(rows=rows) + diagram if rows else diagram

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def kept_edges(n: int, density: float, of: str = "") -> str:
    """Return in words how many of the pairs of n features are edges, of the matrix that ``of`` names.

    Examples
    --------
    >>> kept_edges(68, 0.25), kept_edges(3, 1 / 3, "the precision")
    ('570 of 2,278 edges kept (25 %)', '1 of 3 edges of the precision kept (33.3 %)')
    >>> kept_edges(1000, 0.9999), kept_edges(1, 0.0)
    ('499,450 of 499,500 edges kept (over 99.9 %)', 'no edges')
    """
    pairs = n * (n - 1) // 2
    if not pairs:
        return "no edges"
    share = "over 99.9" if 0.9995 <= density < 1 else f"{100 * density:.3g}"
    return f"{round(density * pairs):,} of {pairs:,} edges {f'of {of} ' if of else ''}kept ({share} %)"


@cache
def _with_plain_repr(kind: type) -> type:
    """Return a class of the same name and parameters that scikit-learn prints."""
    return type(kind.__name__, (kind,), {"__repr__": BaseEstimator.__repr__, "__module__": kind.__module__})
