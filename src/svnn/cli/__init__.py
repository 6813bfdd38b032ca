"""The command line: ``svnn``.

Exit codes: 0 when all went well, 1 when work failed, 2 for a request that cannot be met, 128 and the number of the
signal for a run that was stopped. This file imports nothing slow, so that Ctrl-C is understood from the first moment.
"""

from __future__ import annotations

import os
import sys

from svnn.cli._signals import leave_at_once


def main() -> None:
    """Run the command line; errors are one line, without a stack trace."""
    leave_at_once()
    from svnn.cli._commands import app

    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a terminal without some character still shows the rest
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python would try again, and complain itself
    sys.exit(code)  # type: ignore[arg-type]  # what SystemExit holds, it takes


def _complain(error: Exception) -> int:
    """Say what went wrong, unless it is that nobody reads any more; return the exit code."""
    if not isinstance(error, BrokenPipeError):
        print(f"svnn: {error}", file=sys.stderr)
    return 1
