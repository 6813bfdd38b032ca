"""A Dask cluster: the way to its scheduler, the check that it has the same svnn, and jobs on its workers.

The scheduler imports this file too, so nothing heavy is imported at its top.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

from svnn import __version__
from svnn._jobs import Ended, Job, Row, failed, run_here
from svnn._progress import write_line

if TYPE_CHECKING:
    import numpy as np
    from distributed import Client, Future

#: The address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``, or a client that is connected to one.
Scheduler: TypeAlias = "str | Client"

#: Seconds after which an address is given up.
_SECONDS_TO_CONNECT = 5
#: Arrays of at least this many bytes travel once to each worker, not once with each job.
_LARGE = 10_000
#: Seconds to wait for a result that is on its way.
_SECONDS_FOR_RESULT = 2.0
#: Checks without any worker after which the run says that it waits, and after which it gives up.
_CHECKS_TO_SAY, _CHECKS_TO_GIVE_UP = 1, 150


def check_scheduler(scheduler: Scheduler) -> None:
    """Raise an error where jobs cannot be sent to the scheduler: nobody answers, or svnn is another one there."""
    with connected(scheduler) as client:
        check_versions(client)


@contextmanager
def connected(scheduler: Scheduler) -> Iterator[Client]:
    """Yield a client of the scheduler. It is closed afterwards, unless it is the caller's own."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError('A Dask scheduler needs the package distributed: pip install "svnn[dask]".') from error
    if isinstance(scheduler, Client):
        if scheduler.asynchronous or scheduler.status != "running":
            raise ValueError(
                "scheduler is a client that is asynchronous or not connected; make one by Client(address)."
            )
        yield scheduler
        return
    if not isinstance(scheduler, str):
        raise ValueError(f"scheduler must be an address, a distributed.Client or None, got {scheduler!r}.")
    client = _connect(scheduler)
    try:
        yield client
    finally:
        client.close()


def _connect(address: str) -> Client:
    from distributed import Client

    with ThreadPoolExecutor(1) as thread:  # in notebooks this one has an event loop already
        error = thread.submit(asyncio.run, _greet(address)).exception()
    if error is not None:
        raise ConnectionError(
            f"scheduler: no Dask scheduler answers at {address!r}. Start one with `dask scheduler`, which prints its "
            "address, such as tcp://10.0.0.1:8786."
        ) from error
    return Client(address, timeout=_SECONDS_TO_CONNECT, set_as_default=False)


async def _greet(address: str) -> None:
    """Raise an error where no Dask scheduler answers.

    A client would say so too, but one that cannot connect does not go away in order.
    """
    from distributed import Security
    from distributed.comm.core import connect

    async with asyncio.timeout(_SECONDS_TO_CONNECT):  # connect would wait for ever where somebody listens and is silent
        comm = await connect(address, timeout=_SECONDS_TO_CONNECT, **Security().get_connection_args("client"))
        await comm.close()


def check_versions(client: Client) -> None:
    """Raise a ``ValueError`` where the scheduler or a worker has another svnn, or none."""

    def look() -> str:  # inside, so that it travels as code: svnn may be missing there
        try:
            import svnn
        except ImportError:
            return "no svnn"
        return f"svnn {svnn.__version__}"

    found = {"the scheduler": client.run_on_scheduler(look)}
    answers = client.run(look, on_error="return")
    found |= {f"the worker {name}": what for name, what in answers.items() if isinstance(what, str)}
    others = [f"{who} has {what}" for who, what in found.items() if what != f"svnn {__version__}"]
    if others:
        more = f", and {len(others) - 2} more differ" if len(others) > 2 else ""
        raise ValueError(
            f"scheduler: this is svnn {__version__}, but {', '.join(others[:2])}{more}: install svnn {__version__} "
            "on all machines of the cluster."
        )


# -- here: jobs for the workers -------------------------------------------------------------------------------


class ClusterPool:
    """The workers of a Dask cluster as a pool for :func:`svnn._workers.run_jobs`.

    A job computes on one thread, so results do not depend on where it runs.

    Dask itself runs jobs again whose workers died (up to ``distributed.scheduler.allowed-failures`` times). joblib's
    backend for Dask would do but for one thing: it scatters large arrays, and those are lost with the last worker that
    has them. Here they are tasks that return what they were given, which the scheduler can run again.
    """

    cause_of_death = (
        "every Dask worker that ran this job died, also when it ran alone; perhaps it needs too much memory (the logs "
        "of the workers say more)"
    )

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._held: dict[int, tuple[np.ndarray, Future[Any]]] = {}
        self._silent_checks = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._client: Client = stack.enter_context(connected(self._scheduler))
            check_versions(self._client)
            self._exit = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        with self._exit:
            self._held.clear()

    def submit(self, job: Job) -> Future[Any]:
        """Return the future of a job."""
        import numpy as np
        from distributed.protocol.pickle import dumps

        arguments = {**job.key, **job.arguments}
        shared = {
            name: self._hold(value)
            for name, value in arguments.items()
            if isinstance(value, np.ndarray) and value.nbytes >= _LARGE
        }
        call = dumps((job.run, {name: value for name, value in arguments.items() if name not in shared}))
        return self._client.submit(run_job, __version__, call, shared, pure=False)

    def _hold(self, array: np.ndarray) -> Future[Any]:
        """Return a future of an array, the same for all jobs that have this array."""
        import dask

        held = self._held.get(id(array))
        if held is None or held[1].status == "error":
            with dask.config.set({"distributed.admin.large-graph-warning-threshold": array.nbytes + 2**20}):
                future = self._client.submit(hold, array, pure=False)
            self._held[id(array)] = held = array, future
        return held[1]

    def result(self, future: Future[Any]) -> Ended | None:
        """Return how a job ended, or None where its workers died.

        A ``TimeoutError`` says that the result was lost with its worker on the way, and is computed again.
        """
        from distributed import KilledWorker

        try:
            return future.result(timeout=_SECONDS_FOR_RESULT)
        except TimeoutError:
            raise
        except KilledWorker:
            return None
        except OtherVersion as error:
            raise ValueError(f"scheduler: {error}") from None
        except (Exception, asyncio.CancelledError) as error:
            if future.cancelled():
                raise ConnectionError("The Dask scheduler has ended, or has dropped the jobs of this run.") from None
            return failed(f"{type(error).__name__}: {error}")

    def check(self) -> None:
        """Report that there is no worker, and give up after a while."""
        self._silent_checks = 0 if self._client.nthreads() else self._silent_checks + 1
        start = "`dask worker ADDRESS` starts one, with the address of the scheduler"
        if self._silent_checks == _CHECKS_TO_SAY:
            write_line(f"svnn: the Dask scheduler has no worker; waiting. {start}.")
        if self._silent_checks >= _CHECKS_TO_GIVE_UP:
            raise ConnectionError(f"The Dask scheduler has had no worker for minutes, so the run ends: {start}.")

    def cancel(self, futures: Sequence[Future[Any]]) -> None:
        """Take jobs off the cluster."""
        with suppress(Exception):  # where the scheduler is gone there is nothing to take off
            self._client.cancel(futures)


# -- there: what the workers run ------------------------------------------------------------------------------


class OtherVersion(Exception):
    """A worker has another svnn than the run that sent it a job."""


def hold(array: np.ndarray) -> np.ndarray:
    """Return an array that the jobs on a worker share, so none of them can write to it."""
    shared = array.view()
    shared.flags.writeable = False
    return shared


def run_job(version: str, call: bytes, shared: Mapping[str, object]) -> Ended:
    """Run a job on one thread, and return how it ended.

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
    with one_thread():
        return cast("list[Row]", run(**arguments, **shared))


_lock = threading.Lock()
_limits: Any = None
_jobs_at_work = 0


@contextmanager
def one_thread() -> Iterator[None]:
    """Let a job compute on one thread, also where a worker runs several jobs at the same time.

    BLAS has one number of threads for the whole process: the first job sets it to one, and the last one restores it.
    OpenMP and torch have a number for each thread, and every job sets its own.
    """
    global _limits, _jobs_at_work
    import torch
    from threadpoolctl import threadpool_limits

    with _lock:
        if not _jobs_at_work:
            _limits = threadpool_limits(1, user_api="blas"), torch.get_num_threads()
        _jobs_at_work += 1
    try:
        with threadpool_limits(1, user_api="openmp"):
            torch.get_num_threads()  # a thread's first call takes the number for new ones; then it can be changed
            torch.set_num_threads(1)
            yield
    finally:
        with _lock:
            blas, torch_threads = _limits
            torch.set_num_threads(torch_threads)
            _jobs_at_work -= 1
            if not _jobs_at_work:
                blas.restore_original_limits()
