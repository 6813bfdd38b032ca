"""The command line, in this process and in its own."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pandas as pd

from svnn.cli._commands import app


def svnn(*arguments, cwd=None, **environment):
    """Run a command as a user does."""
    command = [sys.executable, "-m", "svnn.cli", *map(str, arguments)]
    environment = {k: v for k, v in {**os.environ, **environment}.items() if v is not None}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False, timeout=300)


def inside(capsys, *arguments):
    """Run a command in this process, which is quicker; return its exit code and what it said."""
    code = 0
    try:
        app([str(argument) for argument in arguments])
    except SystemExit as end:
        code = end.code or 0
    said = capsys.readouterr()
    return code, said.out, said.err


def people(n=60, seed=0):
    """A table of people: text, numbers, one missing value, and an age that follows from two columns."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, n))
    age = 50 + 10 * a - 5 * b + rng.standard_normal(n)
    frame = pd.DataFrame({"person": [f"p{i // 4:02d}" for i in range(n)], "a": a, "b": b})
    frame["sex"] = np.where(rng.random(n) < 0.5, "f", "m")
    frame["noise"] = rng.standard_normal(n)
    frame["age"] = age
    frame.loc[3, "noise"] = np.nan
    return frame
