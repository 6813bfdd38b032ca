from __future__ import annotations

import importlib
import json
import os
import re
import signal
import sys
import threading
import time

import numpy as np
import pytest

import cluster_toys as toys
from cli.helpers import inside, people
from svnn import _cluster, _workers
from svnn._jobs import Job
from svnn._workers import run_jobs
from svnn.cli import Stopped
from svnn.comparison import _compare, compare
from svnn.paper.experiments._runner import RunFolder, Settings, run

distributed = pytest.importorskip("distributed")
benchmark = importlib.import_module("cluster")

LINEAR = ["ridge", "always the mean"]
TABLE = np.arange(2000.0)
KEYS = range(6)


@pytest.fixture(scope="module")
def cluster(forkserver):
    """A scheduler in this process, and two worker processes, which are started again however often they die."""
    import dask

    settings = {
        "distributed.deploy.lost-worker-timeout": "1h",
        "distributed.worker.multiprocessing-method": forkserver.get_start_method(),
    }
    how = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with dask.config.set(settings), distributed.LocalCluster(**how) as cluster:
        yield cluster


@pytest.fixture
def empty():
    """A scheduler without workers."""
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture
def table(rng):
    X = rng.standard_normal((200, 8))
    return X, X @ np.arange(8.0) + rng.standard_normal(200)


def waited_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def by_number(ends):
    return {job.key["number"]: ended for job, ended in ends}


# -- what is computed ---------------------------------------------------------------------------------------


def test_the_scores_are_those_of_this_process(cluster, table):
    told = []
    here = compare(*table, quick=True, models=LINEAR, random_state=4)
    by_address = compare(
        *table,
        quick=True,
        models=LINEAR,
        random_state=4,
        scheduler=cluster.scheduler_address,
        callback=lambda *state: told.append(state[:2]),
    )
    with distributed.Client(cluster, set_as_default=False) as client:
        by_client = compare(*table, quick=True, models=LINEAR, random_state=4, scheduler=client, n_jobs=1)
        assert client.status == "running"  # it is the caller's
    assert here.to_dict(seconds=False) == by_address.to_dict(seconds=False) == by_client.to_dict(seconds=False)
    assert told == [(done, 10) for done in range(1, 11)]


def test_a_large_array_is_sent_once_and_shared(cluster, monkeypatch):
    sent = []
    real = distributed.Client.submit

    def spy(client, function, *args, **kwargs):
        sent.append((function.__name__, args))
        return real(client, function, *args, **kwargs)

    monkeypatch.setattr(distributed.Client, "submit", spy)
    jobs = [Job(toys.add, {"number": n}, {"table": TABLE}) for n in KEYS]
    ends = by_number(run_jobs(jobs, scheduler=cluster.scheduler_address))
    assert {n: ended["rows"] for n, ended in ends.items()} == {
        n: [{"sum": TABLE.sum() + n, "writeable": False}] for n in KEYS
    }
    assert [name for name, _ in sent].count("hold") == 1 and TABLE.flags.writeable
    calls = [args[1] for name, args in sent if name == "run_job"]
    assert len(calls) == 6 and max(map(len, calls)) < 500 < TABLE.nbytes


def test_jobs_compute_on_one_thread(cluster):
    ends = by_number(run_jobs([Job(toys.threads, {"number": n}) for n in KEYS], scheduler=cluster.scheduler_address))
    assert [ended["rows"] for ended in ends.values()] == [[{"threads": 1}]] * 6


def test_several_jobs_in_one_process_compute_on_one_thread_each():
    """Also where the first to come is the first to leave; afterwards the numbers of threads are those of before."""
    import torch
    from threadpoolctl import threadpool_info, threadpool_limits

    def blas():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    came, go, seen = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()], []

    def job(number):
        with _cluster.one_thread():
            came[number].set()
            go[number].wait(30)
            seen.append((number, blas(), torch.get_num_threads()))

    before, set_to_two = torch.get_num_threads(), threading.Thread(target=threadpool_limits, args=(2, "blas"))
    limits = threadpool_limits()
    try:
        torch.set_num_threads(2)
        set_to_two.start()
        set_to_two.join()  # a thread that has ended leaves the choice to others
        assert blas() == {2}
        threads = [threading.Thread(target=job, args=(number,)) for number in (0, 1)]
        for number in (0, 1):
            threads[number].start()
            came[number].wait(30)
        for number in (0, 1):
            go[number].set()
            threads[number].join()
        assert seen == [(0, {1}, 1), (1, {1}, 1)] and blas() == {2} and torch.get_num_threads() == 2
    finally:
        limits.restore_original_limits()
        torch.set_num_threads(before)


def test_jobs_that_run_alone(cluster, tmp_path):
    for alone, n_jobs in ((True, None), (False, 1)):
        jobs = [Job(toys.alone, {"number": n}, {"folder": str(tmp_path)}, alone=alone) for n in KEYS]
        ends = run_jobs(jobs, n_jobs, cluster.scheduler_address)
        assert {ended["status"] for _, ended in ends} == {"done"}


# -- what goes wrong ----------------------------------------------------------------------------------------


def test_workers_that_die_lose_nothing(cluster, tmp_path):
    """Where both die, the array that the jobs share is on no worker any more."""
    assert waited_for(lambda: len(cluster.scheduler.workers) == 2)

    def at_work():
        return {int(path.name.split("-")[1]) for path in tmp_path.glob("*-*")}

    def kill():
        waited_for(lambda: len(at_work()) == 2)
        for process in at_work():
            os.kill(process, signal.SIGKILL)
        time.sleep(0.5)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    jobs = [Job(toys.wait_for_go, {"number": n}, {"folder": str(tmp_path), "table": TABLE}) for n in KEYS]
    ends = by_number(run_jobs(jobs, scheduler=cluster.scheduler_address))
    thread.join()
    assert {n: ended.get("rows") for n, ended in ends.items()} == {n: [{"sum": TABLE.sum() + n}] for n in KEYS}
    assert len(list(tmp_path.glob("*-*"))) >= 6 + 2  # these jobs have begun twice


def test_a_job_that_kills_its_workers_fails_and_no_other(cluster, monkeypatch):
    monkeypatch.setattr(cluster.scheduler, "allowed_failures", 0)  # so that it dies twice, not eight times
    others = [Job(toys.add, {"number": n}, {"table": TABLE}) for n in KEYS]
    ends = by_number(run_jobs([Job(toys.die, {"number": -1}), *others], scheduler=cluster.scheduler_address))
    dead = ends.pop(-1)
    assert dead["status"] == "failed" and dead["error"].startswith(
        "every Dask worker that ran this job died, also when"
    )
    assert len(ends) == 6 and {ended["status"] for ended in ends.values()} == {"done"}


def test_a_job_that_fails_says_the_same_as_here(cluster):
    jobs = [Job(toys.fail, {"number": n}) for n in KEYS]
    ends, expected = by_number(run_jobs(jobs, scheduler=cluster.scheduler_address)), by_number(run_jobs(jobs[:1]))
    assert ends[0]["error"] == expected[0]["error"] == "ValueError: no luck with 0"
    assert {ended["status"] for ended in ends.values()} == {"failed"}


def test_another_svnn_on_the_cluster_is_refused(cluster, table, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(_cluster, "__version__", "0.0.1")
        message = r"scheduler: this is svnn 0\.0\.1, but the scheduler has svnn .*, and 1 more differ: install"
        with pytest.raises(ValueError, match=message):
            compare(*table, quick=True, models=LINEAR, scheduler=cluster.scheduler_address)
    monkeypatch.setattr(_cluster, "check_versions", lambda client: None)  # as where a worker comes later
    monkeypatch.setattr(_cluster, "__version__", "0.0.1")
    with pytest.raises(ValueError, match=r"scheduler: A worker has svnn .*, and the run svnn 0\.0\.1"):
        compare(*table, quick=True, models=LINEAR, scheduler=cluster.scheduler_address)


def test_no_worker_is_said_and_given_up(empty, table, monkeypatch, capsys):
    monkeypatch.setattr(_workers, "_SECONDS_BETWEEN_CHECKS", 0.01)
    monkeypatch.setattr(_cluster, "_CHECKS_TO_GIVE_UP", 3)
    with pytest.raises(ConnectionError, match="no worker for minutes"):
        compare(*table, quick=True, models=LINEAR, scheduler=empty.scheduler_address)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("svnn: the Dask scheduler has no worker; waiting. `dask worker")
    assert waited_for(lambda: not empty.scheduler.tasks)


def test_a_scheduler_that_ends_in_the_middle(empty):
    thread = threading.Thread(target=lambda: (waited_for(lambda: empty.scheduler.tasks), empty.close()))
    thread.start()
    with pytest.raises(ConnectionError, match="has ended, or has dropped the jobs"):
        list(run_jobs([Job(toys.fail, {"number": 0})], scheduler=empty.scheduler_address))
    thread.join()


def test_nobody_answers(table, monkeypatch):
    monkeypatch.setattr(_cluster, "_SECONDS_TO_CONNECT", 0.2)
    for address in ("tcp://127.0.0.1:1", "nonsense", "fly://127.0.0.1:1"):
        with pytest.raises(ConnectionError, match=r"scheduler: no Dask scheduler answers at .* `dask scheduler`"):
            compare(*table, quick=True, models=LINEAR, scheduler=address)
    with pytest.raises(ValueError, match=r"scheduler must be an address, a distributed\.Client or None, got 8786"):
        compare(*table, quick=True, models=LINEAR, scheduler=8786)


def test_somebody_else_listens(table, monkeypatch):
    import socket

    monkeypatch.setattr(_cluster, "_SECONDS_TO_CONNECT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ConnectionError, match="no Dask scheduler"):
        compare(*table, quick=True, models=LINEAR, scheduler=f"tcp://127.0.0.1:{silent.getsockname()[1]}")


def test_a_client_that_is_closed(cluster, table):
    with distributed.Client(cluster, set_as_default=False) as client:
        pass
    with pytest.raises(ValueError, match="scheduler is a client that is asynchronous or not connected"):
        compare(*table, quick=True, models=LINEAR, scheduler=client)


def test_without_distributed_the_extra_is_named(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r'distributed: pip install "svnn\[dask\]"'):
        compare(*table, quick=True, models=LINEAR, scheduler="tcp://127.0.0.1:8786")


# -- runs and commands --------------------------------------------------------------------------------------


def plan(settings, rows):
    jobs = [Job(toys.add, {"number": n}, {"table": TABLE}) for n in range(12)]
    return [*jobs, Job(toys.add, {"number": rows[0]["sum"]}, {"table": TABLE}, alone=True)] if rows else jobs


def test_a_run_that_is_interrupted_goes_on(cluster, tmp_path, monkeypatch):
    real, written = RunFolder.append, []

    def append(store, record):
        real(store, record)
        written.append(record["name"])
        if len(written) == 3:
            raise Stopped(signal.SIGINT)

    monkeypatch.setattr(RunFolder, "append", append)
    with pytest.raises(Stopped):
        run("toys", plan, Settings(), tmp_path / "there", scheduler=cluster.scheduler_address)
    assert waited_for(lambda: not cluster.scheduler.tasks)  # all that was submitted is called off
    assert len(written) == len((tmp_path / "there/results.jsonl").read_text().splitlines()) == 3
    there = run("toys", plan, Settings(), tmp_path / "there", scheduler=cluster.scheduler_address)
    assert len(written) == len(set(written)) == 13  # nothing was run twice
    here = run("toys", lambda *given: [*plan(*given)], Settings(), tmp_path / "here")
    strip = [{k: v for k, v in row.items() if k != "writeable"} for row in there.rows]
    assert strip == [{k: v for k, v in row.items() if k != "writeable"} for row in here.rows] and len(strip) == 13


def test_svnn_compare(cluster, tmp_path, monkeypatch, capsys):
    asked, run_plan = [], _compare.run

    def spy(plan, name, n_jobs, scheduler, callback):
        asked.append((scheduler, n_jobs))
        return run_plan(plan, name, n_jobs, scheduler, callback)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_compare, "run", spy)
    monkeypatch.setitem(_compare.MODELS, "regression", tuple(LINEAR))
    people(300).to_csv("people.csv", index=False)
    arguments = ("compare", "people.csv", "--target", "age", "--drop", "person", "--quick", "--json")
    there = inside(capsys, *arguments, "--scheduler", cluster.scheduler_address)
    here = inside(capsys, *arguments, "--jobs", "1")
    assert there == here and there[0] == 0 and list(json.loads(there[1])["models"]) == LINEAR
    assert asked == [(cluster.scheduler_address, None), (None, 1)]


def test_svnn_reproduce(cluster, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("svnn.paper.experiments.q_insights.plots", lambda found, settings: {})
    arguments = ("reproduce", "q-insights", "--quick")
    there = inside(capsys, *arguments, "--out", tmp_path / "there", "--scheduler", cluster.scheduler_address)
    here = inside(capsys, *arguments, "--out", tmp_path / "here", "--jobs", "1")
    assert there[0] == here[0] == 0, there
    files = [path.name for path in (tmp_path / "here/q-insights").glob("*.csv") if path.name != "timings.csv"]
    for name in files:
        assert (tmp_path / "there/q-insights" / name).read_bytes() == (tmp_path / "here/q-insights" / name).read_bytes()
    assert "results.csv" in files


@pytest.mark.parametrize("command", [("compare", "people.csv", "--target", "age"), ("reproduce", "q-insights")])
def test_a_wrong_address_is_one_line_and_code_2(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_cluster, "_SECONDS_TO_CONNECT", 0.2)
    people().to_csv("people.csv", index=False)
    code, out, err = inside(capsys, *command, "--scheduler", "tcp://127.0.0.1:1")
    assert code == 2 and out == "" and err.count("\n") == 1
    assert err.startswith("svnn: scheduler: no Dask scheduler answers at 'tcp://127.0.0.1:1'.")
    assert os.listdir() == ["people.csv"]


def test_ctrl_c_ends_in_order(empty, tmp_path, capsys):
    """Without workers, so that it comes while jobs wait."""

    def interrupt():
        assert waited_for(lambda: empty.scheduler.tasks)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    arguments = ("reproduce", "q-insights", "--quick", "--out", tmp_path)
    code, _, err = inside(capsys, *arguments, "--scheduler", empty.scheduler_address)
    thread.join()
    lines = [line for line in err.splitlines() if "no worker; waiting" not in line]
    assert code == 130 and lines == ["svnn: stopped; the same command continues from here."]
    assert waited_for(lambda: not empty.scheduler.tasks)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nobody is killed on this system")
def test_a_covariance_loses_nothing_where_a_worker_dies(cluster):
    """In the manner of ``benchmarks/cluster.py``: the one that holds most of the data dies while tasks are left."""
    row = benchmark.compare(benchmark.QUICK, lambda X, model: benchmark.with_a_death(X, model, cluster))
    row = json.loads(json.dumps(row))  # the edges differ nowhere, and somebody was killed
    assert row["edges"] > 0 and row["pairs computed"] >= 10
    table = benchmark.report(row)
    assert "| 900 × 200" in table and "two workers, one of them killed" in table
    for name, count in (("edges", row["edges"]), ("pairs of panels computed", row["pairs computed"])):
        assert re.search(rf"^\| {name} +\| {count:,} +\|$", table, re.MULTILINE)
