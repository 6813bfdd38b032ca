"""Progress of long work: a bar on a terminal, and now and then a line in scripts, logs and notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn

#: Lines for the whole work, and the seconds after which there is one in any case.
_LINES, _SECONDS = 10, 5.0


@contextmanager
def progress(description: str, total: int, verbose: bool) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each of the ``total`` steps; it moves the bar, or writes a line now and then."""
    if not verbose:
        yield lambda: None
        return
    if not on_terminal():
        done, pace = 0, Pace(total)

        def count() -> None:
            nonlocal done
            done += 1
            if pace.due(done):
                write_line(f"{description}: {done} of {total}, {pace.left(done)}")

        yield count
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total)
        yield lambda: bar.advance(task)


def progress_bar(*more: ProgressColumn) -> Progress:
    """Return the bar of a command: it is shown in a terminal only, and disappears; ``more`` columns follow it."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    screen = Console(stderr=True)
    screen.quiet = not screen.is_terminal  # before version 14.3, rich ends even a disabled bar with an empty line
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), *more)
    return Progress(*columns, console=screen, transient=True, disable=screen.quiet, speed_estimate_period=600)


def console() -> Console:
    """Return the console that results are printed to; files and pipes get lines of 120 characters."""
    from rich.console import Console

    out = Console()
    if not out.is_terminal:
        out.width = 120
    return out


class Pace:
    """Decides when it is time for a line: at every tenth of the work, and whenever five seconds have passed.

    Parameters
    ----------
    total : int
        Number of steps.
    clock : callable
        Returns the time in seconds.

    Examples
    --------
    >>> pace = Pace(30, clock=lambda: 0.0)
    >>> [step for step in range(1, 31) if pace.due(step)]
    [3, 6, 9, 12, 15, 18, 21, 24, 27, 30]
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.clock = total, clock
        self.start = self.last = clock()
        self.tenths = 0

    def due(self, step: int) -> bool:
        """Return whether to write a line after this step; if so, the wait for the next one begins."""
        now, tenths = self.clock(), _LINES * step // max(self.total, 1)
        if tenths <= self.tenths and now - self.last < _SECONDS:
            return False
        self.last, self.tenths = now, tenths
        return True

    def left(self, step: int) -> str:
        """Return the time that the rest of the work will take at this pace, or that all of it took."""
        spent = self.clock() - self.start
        if step >= self.total:
            return f"done in {duration(spent)}"
        return f"{duration(spent / max(step, 1) * (self.total - step))} left"


def duration(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> duration(0.42), duration(8), duration(95), duration(7260)
    ('0.4 s', '8.0 s', '1 min 35 s', '2 h 1 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def on_terminal() -> bool:
    """Return whether standard error is a terminal, where a bar can move. Programs without windows have none at all."""
    return sys.stderr is not None and sys.stderr.isatty()


def write_line(text: str) -> None:
    """Write a line to standard error; in notebooks to standard output, as there the former looks like an error."""
    stream: TextIO = sys.stdout if "ipykernel" in sys.modules else sys.stderr
    print(text, file=stream, flush=True)
