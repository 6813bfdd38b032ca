"""The memory that may be used: the machine's, or less in a container."""

from __future__ import annotations

import os

import pytest

from svnn.covariance.tiles import _observations, memory_bytes
from svnn.sources._memory import process_memory

MACHINE = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 2**40
GIB = 2**30


def system(root, groups, files):
    """Write the files that Linux shows about control groups."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        path = root / "sys/fs/cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


@pytest.mark.parametrize(
    ("groups", "files", "expected"),
    [
        pytest.param("0::/\n", {"memory.max": str(GIB)}, GIB, id="a container, version 2"),
        pytest.param("0::/\n", {"memory.max": "max"}, MACHINE, id="no limit, version 2"),
        pytest.param("0::/a.slice/b.service\n", {"a.slice/b.service/memory.max": "1048576"}, 2**20, id="a service"),
        pytest.param(
            "0::/a.slice/b.service\n",
            {"a.slice/b.service/memory.max": "max", "a.slice/memory.max": "2097152"},
            2**21,
            id="the group above",
        ),
        pytest.param(
            "0::/a/b\n", {"a/memory.max": "4096", "a/b/memory.max": "8192", "memory.max": "max"}, 4096, id="smallest"
        ),
        pytest.param("0::/../../x\n", {"memory.max": "4096"}, 4096, id="a path outside of the container"),
        pytest.param(
            "5:cpu:/\n4:memory:/docker/0a1b\n0::/\n",
            {"memory/memory.limit_in_bytes": str(GIB)},
            GIB,
            id="a container, version 1",
        ),
        pytest.param(
            "4:cpu,memory:/job\n",
            {"memory/memory.limit_in_bytes": "9223372036854771712", "memory/job/memory.limit_in_bytes": "65536"},
            2**16,
            id="a job, version 1",
        ),
        pytest.param("4:memory:/\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, MACHINE, id="none, 1"),
        pytest.param("1:name=systemd:/\n", {"memory.max": "4096"}, MACHINE, id="no memory controller"),
    ],
)
def test_the_limit_of_a_container_counts(tmp_path, groups, files, expected):
    assert process_memory(system(tmp_path, groups, files)) == min(expected, MACHINE)


def test_without_control_groups_it_is_the_machines(tmp_path):
    assert process_memory(tmp_path) == MACHINE


def test_half_of_it_is_used(monkeypatch):
    monkeypatch.setattr(_observations, "process_memory", lambda: 1000)
    _observations._half_of_memory.cache_clear()
    try:
        assert memory_bytes(None) == 500
    finally:
        _observations._half_of_memory.cache_clear()
    assert memory_bytes("1KB") == 1000
