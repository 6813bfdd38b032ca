"""Run jobs in processes of this machine, or on a Dask cluster; results arrive one by one, as jobs end."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Any, Self

from svnn._cluster import ClusterPool, Scheduler
from svnn._jobs import Ended, Job, failed, run_here

#: Every process uses one thread, however many processes there are. So results do not depend on their number.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
#: Seconds between two checks of a pool that is silent.
_SECONDS_BETWEEN_CHECKS = 2.0
#: Seconds between two looks of a process at its parent.
_SECONDS_BETWEEN_LOOKS = 0.5


def run_jobs(
    jobs: Iterable[Job], n_jobs: int | None = None, scheduler: Scheduler | None = None
) -> Generator[tuple[Job, Ended], None, None]:
    """Yield every job as it ends, and how it ended; jobs that must run alone come last.

    A job fails with the error that it raises. Where a worker dies, the jobs that it may have been running run again one
    by one; only a job whose worker dies then, too, has failed. When the iterator is closed, all workers are stopped.

    Parameters
    ----------
    jobs : iterable of Job
    n_jobs : int, optional
        The number of processes, by default one. With a scheduler it is the largest number of jobs at the same time, by
        default as many as the cluster can run.
    scheduler : str or distributed.Client, optional
        The address of a Dask scheduler, or a client: the jobs run on its workers.
    """
    jobs = list(jobs)
    if not jobs:
        return
    with ProcessPool(min(n_jobs or 1, len(jobs))) if scheduler is None else ClusterPool(scheduler) as pool:
        limit = n_jobs or (1 if scheduler is None else len(jobs))
        for group, at_once in (([job for job in jobs if not job.alone], limit), ([j for j in jobs if j.alone], 1)):
            lost = []
            for job, ended in _completed(pool, group, at_once):
                if ended is None:
                    lost.append(job)
                else:
                    yield job, ended
            for job, ended in _completed(pool, lost, 1):
                yield job, ended or failed(pool.cause_of_death)


def _completed(
    pool: ProcessPool | ClusterPool, jobs: Sequence[Job], at_once: int
) -> Iterator[tuple[Job, Ended | None]]:
    """Yield every job as it ends; None where its worker died."""
    waiting = list(jobs[::-1])
    running: dict[Any, Job] = {}
    ended: SimpleQueue[Any] = SimpleQueue()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                future = pool.submit(waiting[-1])
                running[future] = waiting.pop()
                future.add_done_callback(ended.put)
            try:
                future = ended.get(timeout=_SECONDS_BETWEEN_CHECKS)
            except Empty:
                pool.check()
                continue
            try:
                result = pool.result(future)
            except TimeoutError:
                future.add_done_callback(ended.put)
                continue
            yield running.pop(future), result
    finally:
        pool.cancel(list(running))


class ProcessPool:
    """Processes of joblib, which do not run the program again that starts them.

    joblib's ``Parallel`` would do but for three things: when one process dies it forgets which of the other jobs have
    ended; it has no pool of a single process; and its processes hear Ctrl-C.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._pool: Any = None
        self.cause_of_death = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(kill_workers=True)

    def submit(self, job: Job) -> Any:
        """Return the future of a job; start the processes where none are there."""
        call = run_here, job.run, {**job.key, **job.arguments}
        if self._pool is None:
            self._pool = self._new()
        with _signals_held_back():
            try:
                return self._pool.submit(*call)
            except BrokenExecutor:  # a process died, and has taken the others with it
                self._pool = self._new()
                return self._pool.submit(*call)

    def _new(self) -> Any:
        from joblib.externals.loky import ProcessPoolExecutor

        return ProcessPoolExecutor(
            self._size, env=dict.fromkeys(_THREADS, "1"), initializer=_begin, initargs=(os.getpid(),)
        )

    def result(self, future: Any) -> Ended | None:
        """Return how a job ended, or None where its process died."""
        try:
            return future.result()
        except BrokenExecutor as error:
            codes = sorted(set(re.findall(r"-?\d+", str(error).rpartition("{")[2])))
            memory = " (killed: out of memory?)" if "-9" in codes else ""
            self.cause_of_death = f"the process ended with exit code {' or '.join(codes)}{memory}"
            return None
        except Exception as error:  # the job or its rows cannot be sent to another process
            return failed(f"{type(error).__name__}: {error}")

    def check(self) -> None:
        """Do nothing: the executor itself notices where a process is gone."""

    def cancel(self, futures: Sequence[Any]) -> None:
        """Do nothing: the processes end with the pool."""


def _begin(parent: int) -> None:
    """Prepare a new process for jobs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent reacts to Ctrl-C, and ends its workers
    warnings.simplefilter("ignore")  # warnings of many processes would hide the progress bar
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process soon after its parent has ended, also where the parent was killed."""
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Make Ctrl-C and SIGTERM wait until the end of the block, in which processes start.

    If the start were interrupted halfway, a new process would find only half of what it needs, and nobody would end it.
    The new processes start with SIGINT blocked, because only the parent is to react to Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    came: list[int] = []
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    handlers = {each: handler for each, handler in handlers.items() if callable(handler)}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        for each in handlers:  # another thread may receive the signal in spite of the mask, and hand it on
            signal.signal(each, lambda number, frame: came.append(number))
        yield
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    for number in came[:1]:
        signal.raise_signal(number)
