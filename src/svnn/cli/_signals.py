"""What Ctrl-C (SIGINT) and SIGTERM do: end a program that has not begun at once, and one at work in good order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal came while there was work; ``args[0]`` is its number."""


def leave_at_once() -> None:
    """End the process where a signal finds it.

    While modules are being imported nothing is at stake, and an exception would come out of them as anything but
    itself.
    """
    for each in _SIGNALS:
        signal.signal(each, _leave)


@contextmanager
def stopping_in_order() -> Iterator[None]:
    """Make a signal an exception, so that results are kept and processes ended; a second one does not wait for that."""
    before = {each: signal.signal(each, _stop) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _leave(number: int, frame: Any) -> None:
    os.write(2, b"svnn: stopped.\n")
    os._exit(128 + number)


def _stop(number: int, frame: Any) -> None:
    leave_at_once()
    raise Stopped(number)
