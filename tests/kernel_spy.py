"""Which of the compiled kernels ran, and on how many threads."""

from __future__ import annotations

from typing import Any

import pytest

from svnn._compiled import load
from svnn.operators import _cpu_passes

BANKS, TILES = "svnn.operators._cpu_kernels", "svnn.covariance.tiles._tile_kernels"
#: The kernels of a tile: functions that Python calls.
OF_TILES = ("compress", "draw", "histogram", "histogram_inside", "largest", "symmetric")


class Kernels:
    """The kernels under a test, of ``kind`` "numba" or "plain" (none), and a record of those that ran.

    Filter banks are called "bank32" and "bank64" after their precision, the kernels of the tiles by their own names.
    """

    def __init__(self, kind: str, n_threads: int) -> None:
        self.kind, self.n_threads = kind, n_threads
        self.ran: dict[str, int] = {}  # name: the largest number of threads

    def must_have_run(self, *names: str, on_threads: int = 1) -> None:
        """Check that these kernels did the work, on so many threads at least once; without numba, that none did."""
        if self.kind == "plain":
            assert not self.ran
            return
        for name in names:
            assert self.ran.get(name, 0) >= on_threads, f"{name} is not among the kernels that ran: {self.ran}"

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Record every call from now on."""
        self._watch_jobs(patch, _cpu_passes, "bank", BANKS)
        tiles = load(TILES)
        for name in OF_TILES if tiles is not None else ():
            self._watch_function(patch, tiles, name)

    def _watch_jobs(self, patch: pytest.MonkeyPatch, module: Any, name: str, kernels: str) -> None:
        run = module.run

        def recorded(address: int, job: Any, n_threads: int) -> None:
            run(address, job, n_threads)
            self._record(f"{name}{8 * job[load(kernels).SIZE]}", n_threads)

        patch.setattr(module, "run", recorded)

    def _watch_function(self, patch: pytest.MonkeyPatch, module: Any, name: str) -> None:
        function = getattr(module, name)

        def recorded(*args: Any) -> Any:
            result = function(*args)
            self._record(name, 1)
            return result

        patch.setattr(module, name, recorded)

    def _record(self, name: str, n_threads: int) -> None:
        self.ran[name] = max(self.ran.get(name, 0), n_threads)
