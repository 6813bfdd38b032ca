"""Failures of a check: an ``AssertionError`` with a whole sentence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import ParamSpec

import numpy as np
import numpy.typing as npt

Arguments = ParamSpec("Arguments")


def expect(condition: bool, sentence: str) -> None:
    """Raise an ``AssertionError`` with ``sentence`` unless the condition holds."""
    if not condition:
        raise AssertionError(sentence)


def expect_close(found: npt.ArrayLike, expected: npt.ArrayLike, sentence: str, *, rtol: float, atol: float) -> None:
    """Raise an ``AssertionError`` unless two arrays agree; it says where they differ most."""
    found, expected = np.asarray(found), np.asarray(expected)
    expect(found.shape == expected.shape, f"{sentence} Its shape is {found.shape}, expected {expected.shape}.")
    excess = np.abs(found - expected) - (atol + rtol * np.abs(expected))
    if not np.all(excess <= 0):  # NaN is not close to anything
        at = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
        where = f"Entry ({', '.join(map(str, at))})" if at else "It"
        raise AssertionError(f"{sentence} {where} is {found[at]:.6g}, expected {expected[at]:.6g}.")


@contextmanager
def expect_error(kind: type[Exception] | tuple[type[Exception], ...], sentence: str) -> Iterator[None]:
    """Raise an ``AssertionError`` unless the block raises an error of this kind."""
    try:
        yield
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{sentence} It raised {type(error).__name__}: {error}") from error
    raise AssertionError(f"{sentence} Nothing was raised.")


def run_checks(
    checks: Mapping[str, Callable[Arguments, None]],
    skip: Collection[str],
    *args: Arguments.args,
    **kwargs: Arguments.kwargs,
) -> None:
    """Run all checks but those in ``skip``; an unexpected error names the check that met it."""
    if isinstance(skip, str):
        raise ValueError(f"skip must be a collection of names, such as [{skip!r}], got a string.")
    if unknown := sorted(set(skip) - set(checks)):
        raise ValueError(f"skip has names that are no checks: {unknown}; the checks are {list(checks)}.")
    for name, check in checks.items():
        if name in skip:
            continue
        try:
            check(*args, **kwargs)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f'The check "{name}" met {type(error).__name__}: {error}') from error
