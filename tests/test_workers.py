"""Processes that run jobs, whatever program starts them."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
print("the program runs", flush=True)
from svnn._jobs import Job
from svnn._workers import run_jobs
ends = [ended for _, ended in run_jobs([Job(dict, {"a": i}) for i in range(4)], 2)]
print(sorted(ended["rows"]["a"] for ended in ends))
"""


@pytest.mark.parametrize("form", ["script", "module", "package", "stdin", "-c"])
def test_a_program_needs_no_main_guard(tmp_path, form):
    """The processes do not run the program again, which would start further ones."""
    (tmp_path / "script.py").write_text(PROGRAM)
    (tmp_path / "room").mkdir()
    (tmp_path / "room/__main__.py").write_text(PROGRAM)
    arguments = {"script": ["script.py"], "module": ["-m", "script"], "package": ["-m", "room"], "stdin": ["-"]}
    command = [sys.executable, *arguments.get(form, ["-c", PROGRAM])]
    text = PROGRAM if form == "stdin" else ""
    found = subprocess.run(command, input=text, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.splitlines() == ["the program runs", "[0, 1, 2, 3]"]
