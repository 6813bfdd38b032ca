"""A ``fit`` that succeeds or changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Fit = TypeVar("Fit", bound=Callable[..., Any])


def at_once(fit: Fit) -> Fit:
    """Let an estimator's ``fit`` work on a copy, and take over all that it learned only when it is done.

    A fit that fails or is interrupted leaves the model of an earlier one as it was. A ``fit`` starts without what an
    earlier one learned, the attributes that end in ``_``; a ``partial_fit`` goes on from them.
    """
    goes_on = fit.__name__ == "partial_fit"

    @wraps(fit)
    def fitted_at_once(self: Any, *args: object, **kwargs: object) -> object:
        trial = object.__new__(type(self))
        trial.__dict__.update({k: v for k, v in self.__dict__.items() if goes_on or not k.endswith("_")})
        fit(trial, *args, **kwargs)
        # One assignment, which nothing can interrupt; parameters set meanwhile, by a callback, stay.
        self.__dict__ = {**trial.__dict__, **self.get_params(deep=False)}
        return self

    return cast(Fit, fitted_at_once)
