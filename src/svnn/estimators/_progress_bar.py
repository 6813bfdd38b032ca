"""The progress of a training for ``verbose=1``: a bar on a terminal, lines in scripts, logs and notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from svnn._progress import Pace, duration, on_terminal, write_line
from svnn.estimators.training import Callback, Training

Record = dict[str, float]


@contextmanager
def progress_bar(name: str, training: Training, verbose: int = 1) -> Iterator[Training]:
    """Yield the training with a callback that shows the progress, or without one where ``verbose`` is 0."""
    if not verbose:
        yield training
        return
    show = _bar if on_terminal() else _lines
    with show(name, training.max_epochs) as callback:
        yield replace(training, callbacks=(*training.callbacks, callback))


@contextmanager
def _lines(name: str, max_epochs: int) -> Iterator[Callback]:
    """Write a line at every tenth of the epochs, every few seconds, and where the training ends before its time."""
    pace, last = Pace(max_epochs), {"epoch": 0.0}

    def update(record: Record) -> None:
        nonlocal last
        last, epoch = record, int(record["epoch"])
        if pace.due(epoch):
            write_line(f"{name}: epoch {epoch} of {max_epochs}, {_losses(record)}, {pace.left(epoch)}")

    yield update
    if 0 < last["epoch"] < max_epochs:
        spent = duration(pace.clock() - pace.start)
        write_line(f"{name}: stopped after epoch {last['epoch']:.0f}, {_losses(last)}, done in {spent}")


def _losses(record: Record) -> str:
    train, valid = record["train_loss"], record["valid_loss"]
    held_out = "" if valid == train else f", held-out loss {valid:.4g}"  # without held-out rows they are the same
    return f"training loss {train:.4g}{held_out}"


@contextmanager
def _bar(name: str, max_epochs: int) -> Iterator[Callback]:
    """Draw a bar that moves with every epoch."""
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

        def update(record: Record) -> None:
            bar.update(
                task,
                completed=record["epoch"],
                train=record["train_loss"],
                valid=record["valid_loss"],
                best=record["best_loss"],
            )

        yield update
