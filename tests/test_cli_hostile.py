"""The command line in the hands of a hurried user: one line, the right exit code, never a stack trace."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from svnn.cli._commands import app

RUN = ("reproduce", "q-insights", "--quick", "--jobs", "1", "--out", "here")


def start(*arguments, cwd, stdout=subprocess.PIPE, **environment):
    """Start ``svnn`` as a shell does: in a group of its own, with Ctrl-C at work."""
    return subprocess.Popen(
        [sys.executable, "-m", "svnn.cli", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def svnn(*arguments, cwd, **more):
    process = start(*arguments, cwd=cwd, **more)
    process.out, process.err = process.communicate(timeout=120)
    return process


def one_line(process, code):
    assert process.returncode == code, process.err
    assert "Traceback" not in process.err and "Exception ignored" not in process.err, process.err
    assert process.err.startswith("svnn: ") and process.err.count("\n") == 1, process.err
    return process.err


def wait_for(condition, process, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.01)


# -- what was asked for -----------------------------------------------------------------------------------


@pytest.fixture
def inside(tmp_path, monkeypatch, capsys):
    """Run a command that cannot be met in this process, which is quicker; return the one line it says."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as end:
            app(list(arguments))
        said = capsys.readouterr()
        assert end.value.code == 2 and said.out == ""
        assert said.err.startswith("svnn: ") and said.err.count("\n") == 1
        return said.err

    return run


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "-1"], "--seed must be"),
        (["--seed", str(2**32)], "--seed must be"),
        (["--repeats", "0"], "--repeats must be"),
        (["--repeats", "-3"], "--repeats must be"),
        (["--jobs", "0"], "--jobs must be"),
        (["--jobs", "-1"], "--jobs must be"),
        (["--datasets", "ixi"], "no choice of data sets"),
        (["--datasets", ","], "no choice of data sets"),
        (["--out", "file"], "file is not a folder"),
        (["--out", "file/below/it"], "file is not a folder"),
    ],
    ids=str,
)
def test_what_cannot_be_is_said_at_once_and_nothing_is_written(tmp_path, inside, arguments, message):
    (tmp_path / "file").write_text("")
    assert message in inside("reproduce", "q-insights", "--quick", *arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("datasets", [",", "", " , ", ",,,"])
def test_a_list_of_no_data_sets(inside, datasets):
    said = inside("reproduce", "stochastic-real", "--datasets", datasets)
    assert "--datasets names no data set" in said and "ixi" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--seed", "-1"], "--seed must be"),
        (["demo", "--quick", "--out", "file"], "file is not a folder"),
        (["reproduce", "fly"], "--list"),
        (["reproduce", "table", "--datasets", "fly"], "fly not known"),
        (["reproduce", "table", "--datasets", "adni1"], "adni1"),
    ],
    ids=str,
)
def test_other_requests_that_cannot_be(tmp_path, inside, monkeypatch, arguments, message):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SVNN_DATA", str(tmp_path))
    assert message in inside(*arguments)


def test_a_missing_package_is_named_with_the_extra_that_adds_it(tmp_path, inside, monkeypatch):
    monkeypatch.setattr("svnn.paper.experiments._reproduce.find_spec", lambda name: None)
    assert 'needs pandas and matplotlib: pip install "svnn[experiments]"' in inside("reproduce", "q-insights")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("arguments", ["fly", "demo --seed x", "reproduce table --fly", "reproduce"])
def test_usage_errors_have_the_same_code(capsys, arguments):
    with pytest.raises(SystemExit) as end:
        app(arguments.split())
    assert end.value.code == 2 and capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may do everything")
def test_a_folder_that_may_not_be_written_to(tmp_path, inside):
    (tmp_path / "here").mkdir(mode=0o500)
    assert "may not be written to" in inside(*RUN)


@pytest.mark.parametrize(
    "manifest",
    [
        *('{"settings": []}', '{"settings": null}', '{"settings": "quick"}', '{"settings": 3}'),
        *("{}", "[]", "3", "", "{", "\x00", "[" * 100_000),
    ],
    ids=lambda text: text[:20],
)
def test_a_damaged_manifest(tmp_path, inside, manifest):
    folder = tmp_path / "here/q-insights"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text(manifest)
    (folder / "results.jsonl").write_text("")
    assert "manifest.json cannot be read" in (said := inside(*RUN))
    assert "--fresh" in said and "--out" in said
    assert (folder / "manifest.json").read_text() == manifest  # and nothing is lost


@pytest.mark.slow
def test_a_damaged_manifest_as_a_user_sees_it(tmp_path):
    (tmp_path / "here/q-insights").mkdir(parents=True)
    (tmp_path / "here/q-insights/manifest.json").write_text('{"settings": []}')
    assert "manifest.json cannot be read" in one_line(svnn(*RUN, cwd=tmp_path), 2)


def test_names_in_brackets_and_a_terminal_without_unicode(tmp_path):
    arguments = ("reproduce", "q-insights", "--quick", "--repeats", "1", "--jobs", "1", "--out", "[/bold] [red]")
    process = svnn(*arguments, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert process.returncode == 0 and process.err == ""
    assert "[/bold] [red]/q-insights" in process.out and "The paper:" in process.out


# -- nobody reads -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments", [("reproduce", "--list"), ("--help",), ("--version",), (*RUN, "--repeats", "1")], ids=" ".join
)
def test_a_closed_pipe(tmp_path, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    process = svnn(*arguments, cwd=tmp_path, stdout=writer)
    os.close(writer)
    assert process.err == "" and process.returncode == 1
    if arguments[0] == RUN[0] and "--out" in arguments:
        assert (tmp_path / "here/q-insights/summary.csv").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("arguments", [("reproduce", "--list"), ("--version",)], ids=" ".join)
def test_a_full_disk(tmp_path, arguments):
    with open("/dev/full", "w") as full:
        assert "No space left" in one_line(svnn(*arguments, cwd=tmp_path, stdout=full), 1)


# -- Ctrl-C and its relatives -----------------------------------------------------------------------------

SLOW = "import os, pathlib, time\npathlib.Path(os.environ['MARK']).touch()\ntime.sleep(60)\n"
#: What some compiled modules make of an interrupted import.
WRAPPED = SLOW.replace(
    "time.sleep(60)", "try:\n    time.sleep(60)\nexcept BaseException:\n    raise ImportError('half')"
)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    ("module", "arguments", "text"),
    [("typer", RUN, SLOW), ("torch", RUN, WRAPPED), ("numpy", RUN, SLOW), ("sklearn", ("demo", "--quick"), WRAPPED)],
    ids=["typer", "torch", "numpy", "demo"],
)
def test_a_signal_in_the_first_moments(tmp_path, module, arguments, text, number, code):
    (tmp_path / "slow" / module).mkdir(parents=True)
    (tmp_path / "slow" / module / "__init__.py").write_text(text)
    (tmp_path / "work").mkdir()
    paths = os.pathsep.join([str(tmp_path / "slow"), os.environ.get("PYTHONPATH", "")])
    process = start(*arguments, cwd=tmp_path / "work", PYTHONPATH=paths, MARK=str(tmp_path / "mark"))
    wait_for((tmp_path / "mark").exists, process)
    os.killpg(process.pid, number)
    process.out, process.err = process.communicate(timeout=60)
    assert "stopped" in one_line(process, code)
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [
        ("manifest.json", signal.SIGINT, 130),
        ("results.jsonl", signal.SIGINT, 130),
        pytest.param("results.jsonl", signal.SIGTERM, 143, marks=pytest.mark.slow),
    ],
    ids=["processes start", "results come", "SIGTERM"],
)
def test_a_signal_in_the_middle_loses_nothing(tmp_path, moment, number, code):
    arguments = ("reproduce", "q-insights", "--quick", "--jobs", "2", "--repeats", "4", "--out", "here")
    results = tmp_path / "here/q-insights/results.jsonl"
    process = start(*arguments, cwd=tmp_path)
    wait_for((results.parent / moment).exists, process)
    if moment == results.name:
        wait_for(lambda: "\n" in results.read_text(), process)
    os.killpg(process.pid, number)
    process.out, process.err = process.communicate(timeout=60)
    assert "the same command continues" in one_line(process, code)
    if moment == results.name and number == signal.SIGINT:
        before = results.read_bytes()
        again = svnn(*arguments, cwd=tmp_path)
        assert again.returncode == 0 and again.err == ""
        assert results.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
        names = [json.loads(line)["name"] for line in results.read_text().splitlines()]
        assert len(names) == len(set(names)) == 4
