"""A progress bar for long work. It shows on a terminal only, so that pipes and logs stay clean."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(description: str, total: int, verbose: bool) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each of the ``total`` steps; it moves the bar where there is one."""
    if not verbose or not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bar:
        task = bar.add_task(description, total=total)
        yield lambda: bar.advance(task)
