"""A progress bar for ``verbose=1``: on a terminal only, so that pipes and logs stay clean."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from svnn.estimators.training import Callback


@contextmanager
def progress_bar(name: str, max_epochs: int) -> Iterator[list[Callback]]:
    """Yield the callbacks that draw the bar; an empty list where it is not to show."""
    if not sys.stderr.isatty():
        yield []
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("train {task.fields[train]:.4f}  valid {task.fields[valid]:.4f}  best {task.fields[best]:.4f}"),
        TimeElapsedColumn(),
    )
    nan = float("nan")
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=max_epochs, train=nan, valid=nan, best=nan)

        def update(record: dict[str, float]) -> None:
            bar.update(
                task,
                completed=record["epoch"],
                train=record["train_loss"],
                valid=record["valid_loss"],
                best=record["best_loss"],
            )

        yield [update]
