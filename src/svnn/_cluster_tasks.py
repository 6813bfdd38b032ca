"""What the workers of a Dask cluster run. Nothing heavy is imported here, because the scheduler imports it too."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from svnn import __version__
from svnn._jobs import Row
from svnn._workers import Ended, run_here

if TYPE_CHECKING:
    import numpy as np


class OtherVersion(Exception):
    """A worker has another svnn than the run that sent it a job."""


def hold(array: np.ndarray) -> np.ndarray:
    """Return an array that the jobs on a worker share, so none of them can write to it."""
    shared = array.view()
    shared.flags.writeable = False
    return shared


def run_job(version: str, call: bytes, shared: Mapping[str, object]) -> Ended:
    """Run a job on one thread, and say how it ended.

    Parameters
    ----------
    version : str
        The version of svnn that the job comes from.
    call : bytes
        The pickled function of the job, and its arguments but for the shared ones. Only the worker unpickles it.
    shared : dict
        Arguments that other jobs have too.
    """
    if version != __version__:
        raise OtherVersion(f"A worker has svnn {__version__}, and the run svnn {version}: install the same there.")
    return run_here(_call, {"call": call, "shared": shared})


def _call(call: bytes, shared: Mapping[str, object]) -> list[Row]:
    run, arguments = pickle.loads(call)
    with _one_thread():
        return cast("list[Row]", run(**arguments, **shared))


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let a job compute on one thread, also where a worker runs several jobs at the same time.

    BLAS has one number of threads for the whole process, which a :class:`_Keeper` holds at one while there are jobs.
    OpenMP and torch have a number for each thread, and every job sets its own.
    """
    import torch
    from threadpoolctl import threadpool_limits

    torch_threads = _keeper.come()
    try:
        with threadpool_limits(1, user_api="openmp"):
            torch.get_num_threads()  # a thread's first call takes the number for new ones; then it can be changed
            torch.set_num_threads(1)
            yield
    finally:
        torch.set_num_threads(torch_threads)
        _keeper.leave()


class _Keeper:
    """A thread that keeps BLAS at one thread from when the first job comes until the last has left.

    It is a thread of its own, because threadpoolctl lets only one thread at a time change this number, and the job that
    came first may leave before the others.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs = self._torch_threads = 0

    def come(self) -> int:
        """Count a job in; return the number of torch's threads before any came."""
        with self._lock:
            if not self._jobs:
                import torch

                self._torch_threads = torch.get_num_threads()
                self._ready, self._over = threading.Event(), threading.Event()
                self._thread = threading.Thread(target=self._keep, daemon=True)
                self._thread.start()
                self._ready.wait()
            self._jobs += 1
            return self._torch_threads

    def leave(self) -> None:
        """Count a job out."""
        with self._lock:
            self._jobs -= 1
            if not self._jobs:
                self._over.set()
                self._thread.join()

    def _keep(self) -> None:
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1, user_api="blas"):
            self._ready.set()
            self._over.wait()


_keeper = _Keeper()
