"""Processes that run jobs, each one job at a time. If a process dies, only the job that it was running fails."""

from __future__ import annotations

import multiprocessing as mp
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from types import ModuleType
from typing import Literal, NotRequired, Self, TypedDict

from svnn._jobs import Job, Row

#: Every worker uses one thread, however many workers there are. So results do not depend on ``--jobs``.
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")

#: Held while a process starts, since that changes what all threads see for a moment.
_STARTING = threading.Lock()


class Ended(TypedDict):
    """How a job ended: with rows, or with an error."""

    status: Literal["done", "failed"]
    rows: NotRequired[list[Row]]
    error: NotRequired[str]
    seconds: float


class Workers:
    """Up to ``size`` processes, started when there is work for them and stopped at the end of the ``with`` block."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._idle: list[_Worker] = []
        self._busy: dict[_Worker, Job] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in (*self._idle, *self._busy):
            worker.process.terminate()
        for worker in (*self._idle, *self._busy):
            worker.process.join()
            worker.connection.close()

    def work(self, jobs: Iterable[Job], size: int | None = None) -> Iterator[tuple[Job, Ended]]:
        """Yield every job as it ends, and how it ended; at most ``size`` jobs run at the same time."""
        waiting = list(jobs)[::-1]
        size = min(size or self.size, self.size)
        while waiting or self._busy:
            while waiting and len(self._busy) < size:
                with _held_back():
                    worker = self._idle.pop() if self._idle else _Worker()
                    job = self._busy[worker] = waiting.pop()
                with suppress(OSError):  # a worker that died while idle is noticed below
                    worker.connection.send((job.run, {**job.key, **job.arguments}))
            ready = wait([worker.connection for worker in self._busy])
            for worker in [worker for worker in self._busy if worker.connection in ready]:
                job = self._busy.pop(worker)
                try:
                    ended: Ended = worker.connection.recv()
                    self._idle.append(worker)
                except (EOFError, OSError):
                    ended = {"status": "failed", "error": worker.cause_of_death(), "seconds": 0.0}
                yield job, ended


class _Worker:
    def __init__(self) -> None:
        context = mp.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        with _STARTING, _single_threaded(), _without_program():
            self.process.start()
        theirs.close()

    def cause_of_death(self) -> str:
        self.process.join(10)
        code = self.process.exitcode
        return f"the process ended with exit code {code}" + (" (killed: out of memory?)" if code == -9 else "")


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Tell the next process, by its environment, to use one thread."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _without_program() -> Iterator[None]:
    """Keep the next process from running the program again that starts it.

    Python does that to find functions of the program. Jobs need none, and a program without
    ``if __name__ == "__main__"`` would start processes in every process.
    """
    program = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program


@contextmanager
def _held_back() -> Iterator[None]:
    """Make Ctrl-C and SIGTERM wait until the end of the block, in which a process starts.

    If the start were interrupted halfway, the new process would find only half of what it needs, and nobody would end
    it. The new process starts with SIGINT blocked, because only the parent is to react to Ctrl-C.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    came: list[int] = []
    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    handlers = {each: handler for each, handler in handlers.items() if callable(handler)}
    resource_tracker.ensure_running()  # otherwise the first process starts it, which unblocks SIGINT
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


def _serve(connection: Connection) -> None:
    """Run the jobs that come through ``connection`` until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent reacts to Ctrl-C, and ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")  # warnings of many processes would hide the progress bar
    while True:
        try:
            run, arguments = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(run_here(run, arguments))


def run_here(run: Callable[..., list[Row]], arguments: Mapping[str, object]) -> Ended:
    """Call the function of a job in this process, and say how it ended."""
    start = time.perf_counter()
    try:
        ended: Ended = {"status": "done", "rows": run(**arguments), "seconds": 0.0}
    except Exception as error:
        ended = {"status": "failed", "error": f"{type(error).__name__}: {error}", "seconds": 0.0}
    ended["seconds"] = time.perf_counter() - start
    return ended


def _end_with_parent() -> None:
    """End this process as soon as its parent has ended, also when the parent was killed."""
    parent = mp.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
