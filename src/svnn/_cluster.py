"""The way to a Dask cluster: its scheduler by address or as a client, and whether it has the same svnn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from svnn import __version__

if TYPE_CHECKING:
    from distributed import Client

#: The address of a Dask scheduler, such as ``"tcp://10.0.0.1:8786"``, or a client that is connected to one.
Scheduler: TypeAlias = "str | Client"

#: Seconds after which an address is given up.
_SECONDS_TO_CONNECT = 5


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
