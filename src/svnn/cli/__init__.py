"""The command line: ``svnn``.

Exit codes: 0 when all went well, 1 when the work failed, 2 when the request cannot be met, and 128 plus the number of
the signal when a signal stopped the run. This file imports nothing slow, so that Ctrl-C works from the first moment.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> None:
    """Run the command line. An error is one line, without a stack trace."""
    leave_at_once()
    from svnn.cli._commands import app

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a character that the terminal does not know becomes a question mark
    code: object = 0
    try:
        app()
    except SystemExit as end:
        code = end.code
    except (OSError, ValueError) as error:
        code = _complain(error)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        code = code or _complain(error)
        # At its exit Python would flush again, and print the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)  # type: ignore[arg-type]  # it takes whatever SystemExit holds


def _complain(error: Exception) -> int:
    """Print what went wrong, unless the reader of our output has left; return the exit code."""
    if not isinstance(error, BrokenPipeError):
        print(f"svnn: {error}", file=sys.stderr)
    return 1


# -- Ctrl-C (SIGINT) and SIGTERM: before the work begins they end the program at once, later in good order ----------


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
