"""What a fit on a cluster takes, before it is started: tasks, bytes that move, memory, arithmetic."""

from __future__ import annotations

import math
from typing import NamedTuple

from svnn.covariance.tiles._cluster_panels import panel_width
from svnn.covariance.tiles._cluster_results import AT_ONCE, merging_tasks

#: Bytes of the counts and sums that a task returns for a given number of edges.
_HISTOGRAM = 2**16 * 16
#: Numbers of each feature that a task returns beyond the ``k`` that are asked for.
_BEYOND_K = 5


class Plan(NamedTuple):
    """What a fit takes, in bytes, float32 operations and seconds; ``print`` shows it as a table.

    What moves to pair panels and to merge answers is an upper bound, as long as no worker dies. ``held_per_worker`` are
    the panels that stay with a worker, ``working_per_worker`` is what its tasks need beside them: two panels, and both
    side by side.
    """

    n_features: int
    n_samples: int
    workers: int
    width: int
    panels: int
    passes: int
    tasks: int
    panel_bytes: int
    table_bytes: int
    moved_to_panels: int
    moved_to_pairs: int
    moved_to_merges: int
    held_per_worker: int
    working_per_worker: int
    operations: int
    seconds: float

    @property
    def pairs(self) -> int:
        """Pairs of panels, a panel and itself included."""
        return self.panels * (self.panels + 1) // 2

    def __str__(self) -> str:
        moved = self.moved_to_panels + self.moved_to_pairs + self.moved_to_merges
        rows = {
            "panels": f"{self.panels:,} of {self.width:,} features, {_size(self.panel_bytes)} each",
            "pairs of panels": f"{self.pairs:,}",
            "passes over the pairs": f"{self.passes}",
            "tasks": f"{self.tasks:,}",
            "standardised table": _size(self.table_bytes),
            "held by a worker": _size(self.held_per_worker),
            "in use by its tasks": _size(self.working_per_worker),
            "moved to form panels": f"about {_size(self.moved_to_panels)}",
            "moved to pair them": f"at most {_size(self.moved_to_pairs)}",
            "moved to merge answers": f"at most {_size(self.moved_to_merges)}" if self.moved_to_merges else "nothing",
            "moved by a worker": f"at most {_size(moved / self.workers)}",
            "arithmetic": f"{self.operations:.2g} operations, {self.seconds / 3600:.2g} hours",
        }
        return "\n".join(f"{name:<24}{text}" for name, text in rows.items())


def plan(
    n_features: int,
    n_samples: int,
    *,
    workers: int,
    gflops: float,
    question: str = "threshold",
    k: int = 10,
    threads: int = 1,
    memory: float = 4e9,
    item_bytes: int = 4,
) -> Plan:
    """Return what a fit on a cluster takes.

    Parameters
    ----------
    n_features, n_samples : int
    workers : int
    gflops : float
        Float32 operations of a worker in a second, in units of 10⁹: measure a matrix product.
    question : {"threshold", "density", "top_k"}
        One threshold takes one pass over all pairs; a number of edges two: count, then collect; the largest of each
        feature two as well. (Ties may take another.)
    k : int
        Of "top_k".
    threads : int
        Of each worker.
    memory : float
        Bytes of each worker.
    item_bytes : int
        Of a number in the source, 4 or 8.

    Returns
    -------
    Plan
    """
    width = panel_width(n_features, n_samples, workers * threads, memory / threads)
    panels = math.ceil(n_features / width)
    pairs = panels * (panels + 1) // 2
    panel, table = 4 * width * n_samples, 4 * (-(-n_features // 128) * 128) * n_samples
    passes, tasks, answers = 1, 2 * panels + pairs, 0
    if question == "density":
        merges = merging_tasks(pairs)
        passes, tasks, answers = 2, tasks + pairs + merges, (pairs + merges) * _HISTOGRAM
    elif question == "top_k":
        # An answer is about two panels, and goes to the tasks that merge those about each.
        first, part = math.ceil(panels / AT_ONCE), 4 * width * (k + _BEYOND_K)
        merges = first + merging_tasks(first)
        passes, tasks = 2, tasks + pairs + panels * merges
        answers = (4 * (pairs - panels) + panels + panels * merges) * part
    # A task mostly runs where one of its panels is, and fetches the other; at worst it fetches both.
    fetched = (2 * pairs - panels) * panel
    operations = passes * n_features**2 * n_samples
    return Plan(
        n_features=n_features,
        n_samples=n_samples,
        workers=workers,
        width=width,
        panels=panels,
        passes=passes,
        tasks=tasks,
        panel_bytes=panel,
        table_bytes=table,
        moved_to_panels=item_bytes * n_features * n_samples,
        moved_to_pairs=passes * fetched,
        moved_to_merges=answers,
        held_per_worker=math.ceil(panels / workers) * panel,
        working_per_worker=threads * 4 * panel,
        operations=operations,
        seconds=operations / (workers * gflops * 1e9),
    )


def _size(number: float) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> _size(1.5e9), _size(2_000)
    ('1.5 GB', '2 kB')
    """
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if number >= factor:
            return f"{number / factor:.3g} {unit}"
    return f"{number / 1e3:.3g} kB"
