"""What the workers of a Dask cluster run. Nothing heavy is imported here, because the scheduler imports it too."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

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


_lock = threading.Lock()
_running = 0
_before: tuple[Any, int] | None = None


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let a job compute on one thread, also where a worker runs several jobs at the same time.

    BLAS has one number of threads for the whole process: the first of these jobs sets it to one, and the last sets it
    back. OpenMP and torch have a number for each thread, and every job sets its own.
    """
    import torch
    from threadpoolctl import threadpool_limits

    global _running, _before
    with _lock:
        if _before is None:
            _before = threadpool_limits(1, user_api="blas"), torch.get_num_threads()
        _running += 1
        blas, torch_threads = _before
    try:
        with threadpool_limits(1, user_api="openmp"):
            torch.set_num_threads(1)
            yield
    finally:
        with _lock:
            torch.set_num_threads(torch_threads)
            _running -= 1
            if not _running:
                blas.restore_original_limits()
                _before = None
