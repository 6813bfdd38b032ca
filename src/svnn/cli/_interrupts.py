"""What Ctrl-C (SIGINT) and SIGTERM do: before the work begins they end the program at once, later in good order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopped(KeyboardInterrupt):
    """A signal arrived during the work; ``args[0]`` is its number."""


def leave_at_once() -> None:
    """Make a signal end the process at once.

    This is for the time of imports. Nothing can be lost then, and some modules turn an exception that interrupts their
    import into another one.
    """
    for each in _SIGNALS:
        signal.signal(each, _leave)


@contextmanager
def stopping_in_order() -> Iterator[None]:
    """Make a signal raise an exception, so that results are kept and processes end; a second one ends all at once."""
    before = {each: signal.signal(each, _stop) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"svnn: stopped.\n")
    os._exit(128 + number)


def _stop(number: int, frame: FrameType | None) -> None:
    leave_at_once()
    raise Stopped(number)
