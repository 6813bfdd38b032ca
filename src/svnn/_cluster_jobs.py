"""Jobs on the workers of a Dask cluster. If a worker dies, its jobs run again on another."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from svnn import __version__
from svnn._cluster import Scheduler, check_versions, connected
from svnn._cluster_tasks import OtherVersion, hold, run_job
from svnn._jobs import Job
from svnn._progress import write_line
from svnn._workers import Ended, Workers

if TYPE_CHECKING:
    from distributed import Client, Future

#: Arrays of at least so many bytes travel once to each worker, not once with each job.
_LARGE = 10_000
#: Seconds between two looks at a cluster from which nothing is heard.
_SECONDS_BETWEEN_LOOKS = 2.0
#: Looks without any worker after which the run says that it waits, and after which it gives up.
_LOOKS_TO_SAY, _LOOKS_TO_GIVE_UP = 1, 150


class ClusterJobs:
    """The workers of a Dask cluster, which run jobs as :class:`svnn._workers.Workers` does.

    Parameters
    ----------
    scheduler : str or distributed.Client
        The address of the scheduler, or a client. A client stays open.
    size : int, optional
        At most so many jobs run at the same time. By default the workers have all jobs to choose from.

    Notes
    -----
    A job computes on one thread, so results do not depend on where it runs. A job whose workers died again and again
    (``distributed.scheduler.allowed-failures`` + 1 times) may have been next to the one that killed them. So it runs
    once more at the end, alone, and fails where its workers die again.

    Large arrays are tasks of their own, which return what they were given: where the last worker that has such an array
    dies, the scheduler runs the task again. Data that are scattered would be lost.
    """

    def __init__(self, scheduler: Scheduler, size: int | None = None) -> None:
        self.scheduler, self.size = scheduler, size
        self._busy: dict[object, tuple[Job, Future[Any]]] = {}
        self._ended: SimpleQueue[Future[Any]] = SimpleQueue()
        self._held: dict[int, tuple[np.ndarray, Future[Any]]] = {}
        self._looks = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._client: Client = stack.enter_context(connected(self.scheduler))
            check_versions(self._client)
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        with self._exit, suppress(Exception):  # where the scheduler is gone there is nothing to call off
            self._client.cancel([future for _, future in self._busy.values()])
            self._busy.clear()
            self._held.clear()

    def work(self, jobs: Iterable[Job], size: int | None = None) -> Iterator[tuple[Job, Ended]]:
        """Yield every job as it ends, and how it ended; at most ``size`` jobs run at the same time."""
        limits = [limit for limit in (size, self.size) if limit]
        suspects: list[Job] = []
        for job, ended in self._work(list(jobs), min(limits, default=None)):
            if ended is None:
                suspects.append(job)
            else:
                yield job, ended
        for job, ended in self._work(suspects, 1):
            yield job, ended or {"status": "failed", "error": _KILLED, "seconds": 0.0}

    def _work(self, jobs: list[Job], size: int | None) -> Iterator[tuple[Job, Ended | None]]:
        """Yield every job as it ends; None where its workers died."""
        waiting = jobs[::-1]
        while waiting or self._busy:
            while waiting and (size is None or len(self._busy) < size):
                self._submit(waiting.pop())
            future = self._next()
            job = self._busy[future.key][0]
            try:
                ended = self._result(future)
            except TimeoutError:  # it was lost with its worker before it came here, and is computed again
                future.add_done_callback(self._ended.put)
                continue
            del self._busy[future.key]
            yield job, ended

    def _submit(self, job: Job) -> None:
        from distributed.protocol.pickle import dumps

        arguments = {**job.key, **job.arguments}
        shared = {
            name: self._hold(value)
            for name, value in arguments.items()
            if isinstance(value, np.ndarray) and value.nbytes >= _LARGE
        }
        call = dumps((job.run, {name: value for name, value in arguments.items() if name not in shared}))
        future = self._client.submit(run_job, __version__, call, shared, pure=False)
        self._busy[future.key] = job, future
        future.add_done_callback(self._ended.put)

    def _hold(self, array: np.ndarray) -> Future[Any]:
        """Return a future of an array, the same for all jobs that have this array."""
        import dask

        found = self._held.get(id(array))
        if found is None or found[1].status == "error":
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": array.nbytes + 2**20}):
                future = self._client.submit(hold, array, pure=False)
            self._held[id(array)] = found = array, future
        return found[1]

    def _next(self) -> Future[Any]:
        """Return the next future that has ended, and look after the cluster in the meantime."""
        while True:
            try:
                return self._ended.get(timeout=_SECONDS_BETWEEN_LOOKS)
            except Empty:
                self._look()

    def _look(self) -> None:
        """Say that there is no worker, and after a while give up."""
        self._looks = 0 if self._client.nthreads() else self._looks + 1
        start = "`dask worker ADDRESS` starts one, with the address of the scheduler"
        if self._looks == _LOOKS_TO_SAY:
            write_line(f"svnn: the Dask scheduler has no worker; waiting. {start}.")
        if self._looks >= _LOOKS_TO_GIVE_UP:
            raise ConnectionError(f"The Dask scheduler has had no worker for minutes, so the run ends: {start}.")

    def _result(self, future: Future[Any]) -> Ended | None:
        """Return how a job ended, or None where its workers died."""
        from distributed import KilledWorker

        try:
            return future.result(timeout=_SECONDS_BETWEEN_LOOKS)
        except TimeoutError:
            raise
        except KilledWorker:
            return None
        except OtherVersion as error:
            raise ValueError(f"scheduler: {error}") from None
        except (Exception, CancelledError) as error:
            if future.cancelled():
                raise ConnectionError("The Dask scheduler has ended, or has dropped the jobs of this run.") from None
            return {"status": "failed", "error": f"{type(error).__name__}: {error}", "seconds": 0.0}


_KILLED = (
    "every Dask worker that ran this job died, also when it ran alone; perhaps it needs too much memory (the logs of "
    "the workers say more)"
)


def workers(size: int | None, scheduler: Scheduler | None) -> Workers | ClusterJobs:
    """Return what runs jobs: ``size`` processes of this machine, by default one, or the workers of a cluster."""
    return Workers(size or 1) if scheduler is None else ClusterJobs(scheduler, size)
