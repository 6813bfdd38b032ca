"""Compiled kernels are kept on disk, for exactly the sources that they were compiled from."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import svnn
from kernel_spy import BANKS, OF_TILES, TILES
from svnn._compiled import load

if load(BANKS) is None:
    pytest.skip("numba is switched off or not installed", allow_module_level=True)

from numba.core import config

from svnn import _jit

PACKAGE = Path(svnn.__file__).parent
#: Compiles one small kernel, whose constants are another file's, and says where it is kept and what it does.
DRAW = """
import sys
import numpy as np
from svnn._compiled import load
from svnn.functional import pair_uniforms

kernels = load("svnn.covariance.tiles._tile_kernels")

tile = np.ones((4, 128), dtype=np.float32)
kernels.draw(tile, 0, 200, 0.5, 0.0, 7)
expected = pair_uniforms(7, np.arange(4)[:, None], np.arange(200, 328)) < 0.5
assert ((tile == 1) == expected).all()
print(kernels.draw.stats.cache_path, "".join(str(int(value)) for value in tile.ravel()))
"""


def draw(*, folder=PACKAGE, script=DRAW, **environment):
    """Start the script in a process of its own, with a package from ``folder``."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("NUMBA_", "XDG_", "SVNN_"))}
    return subprocess.Popen(
        [sys.executable, "-c", script],
        env={**kept, "PYTHONPATH": str(folder.parent), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process):
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out.split()


def imports(name):
    """Yield the modules that a file of the package imports from."""
    for node in ast.walk(ast.parse((PACKAGE / name).read_text())):
        if isinstance(node, ast.ImportFrom):
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_all_that_kernels_are_made_of_is_among_the_sources():
    compiled = [
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(module.split(".")[0] == "numba" for module in imports(path.relative_to(PACKAGE)))
        and path.name != "_compiled.py"  # which only looks whether numba is there
    ]
    assert len(compiled) >= 2  # the decorators, and the filter banks with vectors of their own
    modules = {module for name in [*compiled, "covariance/tiles/_tile_kernels.py"] for module in imports(name)}
    used = {module.removeprefix("svnn.").replace(".", "/") + ".py" for module in modules if module.startswith("svnn.")}
    assert {*compiled, *used} <= set(_jit.SOURCES)
    assert all((PACKAGE / name).is_file() for name in _jit.SOURCES)


def test_numba_keeps_every_kernel_in_our_folder():
    folder = str(_jit.cache_folder())
    tiles = load(TILES)
    paths = [getattr(tiles, name).stats.cache_path for name in OF_TILES]
    paths += [work._cache.cache_path for work in (load(BANKS).work32, load(BANKS).work64)]
    assert len(paths) == 8 and all(path.startswith(folder) for path in paths)
    assert folder != config.CACHE_DIR  # other people's functions stay where they were


def test_an_edit_of_another_file_is_seen(tmp_path):
    """numba alone would go on with what it compiled before: the file of the kernel is the same."""
    copy = tmp_path / "package" / "svnn"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    first = answer(draw(folder=copy, **cache))
    assert answer(draw(folder=copy, **cache)) == first
    masks = copy / "functional" / "masks.py"
    text = masks.read_text()
    assert "0xBF58476D1CE4E5B9" in text
    masks.write_text(text.replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5BB"))
    second = answer(draw(folder=copy, **cache))
    assert second[0] != first[0] and second[1] != first[1]
    assert len(list((tmp_path / "cache" / "svnn" / "kernels").iterdir())) == 2


def test_two_processes_compile_at_the_same_time(tmp_path):
    processes = [draw(NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    first, second = map(answer, processes)
    assert first == second and first[0].startswith(str(tmp_path))


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", pytest.param("HOME", marks=pytest.mark.slow)])
def test_a_folder_that_cannot_be_written_is_no_obstacle(tmp_path, variable):
    (tmp_path / "file").touch()  # no folder can be made in a file, whoever asks
    place, _ = answer(draw(**{variable: str(tmp_path / "file"), "TMPDIR": str(tmp_path)}))
    assert Path(place).is_relative_to(tmp_path / f"svnn-{os.getuid()}" / "kernels")


def test_without_any_folder_kernels_are_compiled_in_memory(tmp_path):
    (tmp_path / "file").touch()
    nowhere = str(tmp_path / "file")
    script = f"import scipy.stats, tempfile; tempfile.tempdir = {nowhere!r}" + DRAW  # scipy itself needs a folder
    place, _ = answer(draw(script=script, NUMBA_CACHE_DIR=nowhere))
    assert place == "None"


@pytest.fixture
def only_temporary(monkeypatch, tmp_path):
    """A user without a folder for caches, and a folder of temporary files."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"svnn-{os.getuid()}"


def test_a_temporary_folder_is_the_users_alone(only_temporary):
    assert _jit.cache_folder.__wrapped__().is_relative_to(only_temporary)
    assert only_temporary.stat().st_mode & 0o777 == 0o700
    only_temporary.chmod(0o777)  # somebody else could put code there
    assert _jit.cache_folder.__wrapped__() is None


def test_a_temporary_folder_is_not_a_link(only_temporary, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    only_temporary.symlink_to(tmp_path / "elsewhere")
    assert _jit.cache_folder.__wrapped__() is None


def test_the_last_few_states_of_the_sources_are_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    others = [tmp_path / "svnn" / "kernels" / f"state{age}" for age in np.random.default_rng(0).permutation(6)]
    for other in others:
        other.mkdir(parents=True)
        (other / "kernel.nbi").touch()
        age = 1000 * int(other.name[-1]) + 1000
        os.utime(other, (os.stat(tmp_path).st_mtime - age,) * 2)
    (tmp_path / "svnn" / "data").mkdir()
    folder = _jit.cache_folder.__wrapped__()
    assert {path.name for path in folder.parent.iterdir()} == {folder.name, "state0", "state1"}
    assert (tmp_path / "svnn" / "data").is_dir()


def test_numbas_own_setting_is_back_after_an_error():
    before = config.CACHE_DIR
    with pytest.raises(TypeError):
        _jit.cached_njit()("not a function")
    assert before == config.CACHE_DIR
