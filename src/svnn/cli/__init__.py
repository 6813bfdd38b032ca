"""The command line: ``svnn``.

Exit codes: 0 when all went well, 1 when the work failed, 2 when the request cannot be met, and 128 plus the number of
the signal when a signal stopped the run. This file imports nothing slow, so that Ctrl-C works from the first moment.
"""

from __future__ import annotations

import os
import sys

from svnn.cli._interrupts import leave_at_once


def main() -> None:
    """Run the command line. An error is told in one line, without a stack trace."""
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
    """Say what went wrong, unless the reader of our output has left; return the exit code."""
    if not isinstance(error, BrokenPipeError):
        print(f"svnn: {error}", file=sys.stderr)
    return 1
