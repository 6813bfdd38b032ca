"""The passes run on torch's own threads, leave no thread behind, and survive a fork."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from svnn.operators import _cpu_passes

FORK = """
import multiprocessing, os, signal, sys
import numpy as np, torch
import svnn
from svnn.operators import _cpu_passes

torch.set_num_threads(2)
rng = np.random.default_rng(0)
C = np.where(rng.random((600, 600)) < 0.05, rng.standard_normal((600, 600)), 0)
operator = svnn.as_operator((C + C.T) / 50, backend="csr")
x, weight = torch.tensor(rng.standard_normal((8, 600, 16))), torch.tensor(rng.standard_normal((3, 16, 16)))
X = rng.standard_normal((30, 600))


def work():
    big = torch.ones(400_000).sin().sum().double()[None]  # torch's own threads
    filtered = operator.filter(x, weight).flatten()
    covariance = svnn.HardThreshold(density=0.01, dense_limit=0).fit(X).covariance_
    return torch.cat([big, filtered, torch.tensor(covariance.data)])


def child(expected):
    signal.alarm(60)  # a child that hangs is ended, which is an exit status of its own
    sys.exit(0 if torch.allclose(work(), expected, rtol=1e-4) else 1)


def check():
    expected = work()
    process = multiprocessing.get_context("fork").Process(target=child, args=(expected,))
    process.start()
    process.join()
    assert process.exitcode == 0, f"multiprocessing: {process.exitcode}"
    if (pid := os.fork()) == 0:
        child(expected)
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"fork: {status}"
    assert torch.equal(work(), expected)  # the parent goes on as before


check()
_cpu_passes._gnu_parallel = lambda: None  # plain threads in its place
check()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")
def test_a_forked_process_computes_the_same():
    """On OpenMP's threads and on plain ones, by fork alone and by multiprocessing."""
    found = subprocess.run([sys.executable, "-c", FORK], timeout=240, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


def libraries(*paths):
    return [{"user_api": "blas", "filepath": "/somewhere/libopenblas.so"}] + [
        {"user_api": "openmp", "filepath": str(path)} for path in paths
    ]


OWN = Path(torch.__file__).resolve().parent / "lib"


@pytest.mark.parametrize(
    ("loaded", "expected"),
    [
        ([OWN / "libgomp-a34b3233.so.1"], OWN / "libgomp-a34b3233.so.1"),
        (["/sklearn.libs/libgomp-e985bcbb.so.1.0.0", OWN / "libgomp.so.1"], OWN / "libgomp.so.1"),
        (["/usr/lib/libgomp.so.1"], "/usr/lib/libgomp.so.1"),
        (["/usr/lib/libgomp.so.1", "/sklearn.libs/libgomp-e985bcbb.so.1.0.0"], None),
        ([OWN / "libiomp5.so"], None),
        ([OWN / "libiomp5.so", "/usr/lib/libgomp.so.1"], None),
        (["/opt/lib/libomp.dylib"], None),
        ([], None),
    ],
)
def test_the_runtime_that_torch_uses_is_the_one_called(monkeypatch, loaded, expected):
    """Another copy of the runtime would be a second team of threads; without GNU's, plain threads serve."""
    opened = []

    class Library:
        def __init__(self, path):
            opened.append(path)
            self.GOMP_parallel = lambda: None

    monkeypatch.setattr(_cpu_passes, "threadpool_info", lambda: libraries(*loaded))
    monkeypatch.setattr(_cpu_passes.ctypes, "CDLL", Library)
    found = _cpu_passes._gnu_parallel.__wrapped__()
    assert opened == ([] if expected is None else [str(expected)])
    assert (found is None) == (expected is None)


def test_here_torch_would_find_the_same_function():
    """The linker, asked for the function from within torch's library, gives the address that is called."""
    library = OWN / "libtorch_cpu.so"
    if _cpu_passes._gnu_parallel() is None or not library.exists():
        pytest.skip("torch does not use GNU's OpenMP here")
    address = ctypes.cast(ctypes.CDLL(str(library)).GOMP_parallel, ctypes.c_void_p).value
    assert ctypes.cast(_cpu_passes._gnu_parallel(), ctypes.c_void_p).value == address


def test_an_interrupt_waits_for_the_threads_that_still_write(monkeypatch):
    begun, go, written = threading.Event(), threading.Event(), []

    def function(data):
        if threading.current_thread() is threading.main_thread():
            begun.wait(60)
            threading.Timer(0.2, go.set).start()
            raise KeyboardInterrupt
        begun.set()
        go.wait(60)
        written.append(data)

    monkeypatch.setattr(_cpu_passes, "_gnu_parallel", lambda: None)
    monkeypatch.setattr(_cpu_passes, "_C_FUNCTION", lambda address: function)
    job = np.zeros(1, dtype=np.int64)
    with pytest.raises(KeyboardInterrupt):
        _cpu_passes.run(0, job, 2)
    assert written == [job.ctypes.data]


def test_threads_that_come_too_late_leave_the_job_alone(monkeypatch):
    """The job may be gone by then; the calling thread has done all of it."""
    callers, busy = [], threading.Event()

    def function(data):
        callers.append(threading.current_thread())

    monkeypatch.setattr(_cpu_passes, "_gnu_parallel", lambda: None)
    monkeypatch.setattr(_cpu_passes, "_C_FUNCTION", lambda address: function)
    others = [_cpu_passes.pool(2).submit(busy.wait, 60) for _ in range(2)]
    _cpu_passes.run(0, np.zeros(1, dtype=np.int64), 2)
    busy.set()
    assert [other.result() for other in others] == [True, True]
    assert _cpu_passes.pool(2).submit(int).result() == 0  # what was handed in before has had its turn
    assert callers == [threading.main_thread()]
