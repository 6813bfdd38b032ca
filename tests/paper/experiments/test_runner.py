from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace

import pytest
import toys

from svnn._jobs import Job, derive_seed
from svnn.paper.experiments import _runner
from svnn.paper.experiments._runner import RunFolder, Settings, run

SETTINGS = toys.ToySettings(repeats=2, pause=0.0)


def lines(folder):
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def start(folder, jobs, pause=0.05, lines=0):
    command = [sys.executable, toys.__file__, *map(str, (folder, jobs, pause, lines))]
    return subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE)


def test_a_run_that_is_killed_again_and_again_ends_with_the_bytes_of_one_that_was_not(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert start(whole, 1).wait(120) == 0
    for new in (1, 6):  # at the start, and in the middle; jobs are under way in two workers
        assert start(broken, 2, lines=new).wait(120) == -signal.SIGKILL
    assert 7 <= len(lines(broken)) < 16
    assert start(broken, 2).wait(120) == 0
    for name in ("results.csv", "summary.csv"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()
    done = [line["name"] for line in lines(broken)]
    assert len(done) == len(set(done)) == 16  # nothing was run twice


def test_a_torn_last_line_is_cut_off_and_its_job_run_again(tmp_path):
    first = run("toys", toys.plan, SETTINGS, tmp_path, workers=2)
    path = tmp_path / "results.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    second = run("toys", toys.plan, SETTINGS, tmp_path, workers=2)
    assert second.rows == first.rows
    assert len(lines(tmp_path)) == len(whole.splitlines())  # each can be read


def test_a_damaged_line_in_the_middle_is_an_error_that_names_it(tmp_path):
    run("toys", toys.plan, SETTINGS, tmp_path)
    path = tmp_path / "results.jsonl"
    text = path.read_text().splitlines(keepends=True)
    path.write_text("".join([text[0], "{broken\n", *text[1:]]))
    with pytest.raises(ValueError, match="line 2 is damaged"):
        run("toys", toys.plan, SETTINGS, tmp_path)


def test_failures_are_recorded_do_not_stop_the_rest_and_are_retried_when_asked(tmp_path):
    marker = tmp_path / "marker"

    def plan(settings, rows):
        good = [Job(toys.toss, {"model": "a", "repeat": r}, {"pause": 0}) for r in range(3)]
        bad = Job(toys.fail, {"model": "bad", "repeat": 0}, {"marker": str(marker)})
        dead = Job(toys.die, {"model": "dead", "repeat": 0})
        return [dead, bad, *good]

    outcome = run("toys", plan, Settings(), tmp_path, workers=2)
    assert {row["model"] for row in outcome.rows} == {"a"} and len(outcome.rows) == 6
    errors = {failure["model"]: failure["error"] for failure in outcome.failures}
    assert errors["bad"] == "ValueError: no luck with bad"
    assert "exit code -9" in errors["dead"]

    marker.touch()
    assert len(run("toys", plan, Settings(), tmp_path).failures) == 2  # not tried again unasked
    outcome = run("toys", plan, Settings(), tmp_path, retry_failed=True)
    assert [failure["model"] for failure in outcome.failures] == ["dead"]
    assert len(lines(tmp_path)) == 7


def test_timings_are_apart_from_results(tmp_path):
    outcome = run("toys", toys.plan, SETTINGS, tmp_path)
    assert all(set(row) <= {"model", "repeat", "draw", "score", "start"} for row in outcome.rows)
    assert set(outcome.timings[0]) == {"model", "repeat", "draw", "toss_seconds", "job_seconds"}


def test_other_settings_are_refused_but_more_repeats_build_on_what_is_there(tmp_path):
    run("toys", toys.plan, SETTINGS, tmp_path)
    with pytest.raises(ValueError, match=r"pause was 0.0, is now 0.1.*--out.*--fresh"):
        run("toys", toys.plan, replace(SETTINGS, pause=0.1), tmp_path)
    outcome = run("toys", toys.plan, replace(SETTINGS, repeats=3), tmp_path)
    assert len(outcome.rows) == 2 * 9 + 1
    assert len({line["name"] for line in lines(tmp_path)}) <= 3 * 3 + 2
    outcome = run("toys", toys.plan, replace(SETTINGS, pause=0.01), tmp_path, fresh=True)
    assert len(lines(tmp_path)) == len(outcome.rows) // 2 + 1 == 7


def test_the_manifest_says_what_was_run(tmp_path):
    run("toys", toys.plan, SETTINGS, tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["finished"] and manifest["jobs"] == 7 and manifest["failed"] == 0
    assert manifest["settings"] == asdict(SETTINGS)
    assert {"svnn", "numpy", "torch"} <= set(manifest["versions"])


def test_ctrl_c_leaves_what_was_finished_and_no_process(tmp_path):
    process = start(tmp_path, 2, pause=3.0)
    while process.poll() is None and not (tmp_path / "results.jsonl").exists():
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=120)
    assert process.returncode != 0 and error.count(b"Traceback") <= 1  # none from the workers
    assert lines(tmp_path)
    with pytest.raises(ProcessLookupError):  # noqa: PT012 - the tracker of multiprocessing takes a moment to leave
        for _ in range(6000):
            os.killpg(process.pid, 0)
            time.sleep(0.01)


def test_without_a_terminal_lines_tell_the_progress(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_runner, "_SECONDS_BETWEEN_LINES", -1.0)
    run("toys", toys.plan, SETTINGS, tmp_path)
    assert "toys: 3 of 6 jobs done\n" in capsys.readouterr().err


def test_seeds_follow_from_names_alone():
    assert derive_seed(0, "split", {"b": 1, "a": 2}) == derive_seed(0, "split", {"a": 2, "b": 1}) == 2119507625
    assert len({derive_seed(0, name, i) for name in "abc" for i in range(100)}) == 300


def test_workers_use_one_thread_however_many_there_are(tmp_path):
    def plan(settings, rows):
        return [Job(toys.threads, {"repeat": r}) for r in range(2)]

    before = dict(os.environ)
    assert [row["threads"] for row in run("threads", plan, Settings(), tmp_path, workers=2).rows] == ["1", "1"]
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    "line",
    [
        *("[]", "3", "null", "{}", '{"name": "x"}', '{"name": 3, "status": "done", "rows": [], "seconds": 1}'),
        *('{"name": "x", "status": "done"}', '{"name": "x", "status": "odd", "rows": [], "seconds": 1}'),
        *('{"name": "x", "status": "done", "rows": [3], "seconds": 1}', '{"name": "x", "status": "failed"}'),
        *('{"name": "x", "status": "done", "rows": [], "seconds": "1"}', "[" * 100_000),
    ],
    ids=lambda text: text[:60],
)
def test_a_damaged_line_of_results(tmp_path, line):
    settings = Settings(seed=0)
    RunFolder(tmp_path).describe(settings)
    (tmp_path / "results.jsonl").write_text(line + "\n")
    with pytest.raises(ValueError, match="line 1 is damaged"):
        RunFolder(tmp_path).open(settings)
