"""The bytes of a model file: tensors and a JSON header, in the safetensors format.

Writing leaves the old file or the new one, never half of one. Reading believes nothing: sizes are compared with
the file before memory is taken, and a checksum covers the header and every tensor with its type and shape.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

#: An object of JSON.
Json: TypeAlias = dict[str, Any]
PathLike: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]

FORMAT_VERSION = 1
#: Bytes of the JSON before the tensors beyond which a file is refused: a million feature names have room.
LARGEST_HEADER = 64 * 2**20
_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class ModelFileError(ValueError):
    """The file is not a model, is damaged, or was written by a newer version."""


def given_path(path: PathLike) -> Path:
    """Return the path that the user means: text, bytes or a path object, with ``~`` for the home folder."""
    return Path(os.path.expanduser(os.fsdecode(path)))


# -- writing ------------------------------------------------------------------------------------------------


def write_model(path: PathLike, tensors: Mapping[str, Tensor], header: Json) -> None:
    """Write tensors and header to ``path``; whatever goes wrong, a file that was there stays as it was."""
    stored = {key: value.detach().cpu().contiguous() for key, value in tensors.items()}
    table = {key: _described(key, value) for key, value in stored.items()}
    try:
        text = json.dumps({**header, "format": FORMAT_VERSION, "tensors": table})
    except (TypeError, ValueError) as error:
        raise ValueError(f"the model cannot be stored without pickle: {error}.") from error
    header = json.loads(text)
    text = json.dumps({**header, "checksum": checksum(stored, header)})
    with replacing(given_path(path)) as file:
        _write_safetensors(file, stored, {"svnn": text})


def _described(key: str, value: Tensor) -> list[object]:
    if value.dtype not in _DTYPES:
        raise ValueError(f"{key} has the type {value.dtype}, which a model file cannot hold.")
    return [_DTYPES[value.dtype], list(value.shape)]


def _write_safetensors(file: IO[bytes], tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write the format tensor by tensor, without a copy of all of them in memory."""
    table: Json = {"__metadata__": metadata}
    end = 0
    # The widest types first: every tensor then begins at a multiple of its element's size.
    keys = sorted(tensors, key=lambda key: (-tensors[key].element_size(), key))
    for key in keys:
        dtype, shape = _described(key, tensors[key])
        start, end = end, end + tensors[key].numel() * tensors[key].element_size()
        table[key] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    head = json.dumps(table).encode()
    head += b" " * (-len(head) % 8)
    if len(head) > LARGEST_HEADER:
        raise ValueError(
            f"names, labels and history of the model take {len(head)} bytes, more than the {LARGEST_HEADER} that a "
            "model file may hold."
        )
    file.write(len(head).to_bytes(8, "little") + head)
    for key in keys:
        file.write(_raw(tensors[key]))


def _raw(value: Tensor) -> memoryview:
    """Return the bytes of a contiguous tensor in main memory, without a copy."""
    # numpy has no bytes of an empty array to show
    return value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else memoryview(b"")


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Yield a new file that takes the place of ``path`` at the end, or vanishes if something goes wrong.

    A link stays, and what it points to is replaced. The new file has the permissions of the old one, or those that
    the umask gives. Its temporary name is unique, so that several may write to one path: the last one wins.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent} to write {target.name} to.")
    mode = None
    if target.exists():
        if not target.is_file():
            raise FileExistsError(f"{path} is not a plain file and is not replaced by a model; choose another name.")
        if not os.access(target, os.W_OK):
            raise PermissionError(f"{path} may not be written to.")
        mode = stat.S_IMODE(target.stat().st_mode)
    part = target.with_name(f".svnn-{secrets.token_hex(8)}.part")
    try:
        with _new_file(part) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            part.chmod(mode)
        os.replace(part, target)
    except BaseException:  # Ctrl-C too: nothing is left beside the file
        part.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _new_file(path: Path) -> IO[bytes]:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        return os.fdopen(os.open(path, flags, 0o666), "wb")
    except OSError as error:  # of the subclass that the number stands for
        raise OSError(error.errno, f"the folder {path.parent} cannot be written to ({error.strerror}).") from error


def _sync_folder(folder: Path) -> None:
    """Bring the new name to the disk, on systems where folders can be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# -- reading ------------------------------------------------------------------------------------------------


def read_model(path: Path) -> tuple[dict[str, Tensor], Json]:
    """Return the tensors and the header that :func:`write_model` wrote; anything else is a ``ModelFileError``."""
    try:
        if not path.exists():
            raise FileNotFoundError(f"there is no model file {path}.")
        if not path.is_file():
            raise ModelFileError(f"{path} is a folder or a special file, not a model.")
        header = _read_header(path)
        with safe_open(path, framework="pt") as file:
            # Copied: what safetensors returns may lie in the file itself, which others can overwrite.
            tensors = {key: file.get_tensor(key).clone() for key in file.keys()}  # noqa: SIM118
    except (FileNotFoundError, ModelFileError):
        raise
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error.strerror or error}).") from error
    except (SafetensorError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a safetensors file or is damaged: {error}") from error
    _check_header(path, header, tensors)
    return tensors, header


def _read_header(path: Path) -> Json:
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise ValueError(f"its header claims {length} bytes, the file has {size}.")
        if length > LARGEST_HEADER:
            raise ValueError(f"its header has {length} bytes, more than the {LARGEST_HEADER} allowed.")
        outer = _parse(file.read(length))
    metadata = outer.get("__metadata__", {}) if isinstance(outer, dict) else {}
    if not isinstance(metadata, dict) or not isinstance(metadata.get("svnn"), str):
        raise ModelFileError(f"{path} is a safetensors file, but not one that svnn wrote.")
    try:
        header = _parse(metadata["svnn"])
        if not isinstance(header, dict):
            raise TypeError(f"it is a {type(header).__name__}")
    except (ValueError, TypeError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its header cannot be read ({error}).") from error
    return header


def _parse(text: str | bytes) -> Any:
    return json.loads(text, object_pairs_hook=_without_repeats)


def _without_repeats(pairs: list[tuple[str, object]]) -> Json:
    """Make a dict of JSON's pairs; a name given twice would mean one thing to one reader and another to the next."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is given twice")
    return found


def _check_header(path: Path, header: Json, tensors: Mapping[str, Tensor]) -> None:
    version = header.get("format")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFileError(f"{path} is damaged: its header cannot be read (format {version!r}).")
    if version > FORMAT_VERSION:
        raise ModelFileError(f"{path} has format {version}; this svnn reads up to {FORMAT_VERSION}. Upgrade svnn.")
    if "checksum" not in header:
        raise ModelFileError(f"{path} is damaged: its header cannot be read (no checksum).")
    try:
        table = {key: _described(key, value) for key, value in tensors.items()}
        same = header["checksum"] == checksum(tensors, header) and header.get("tensors") == table
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its header cannot be read ({error}).") from error
    if not same:
        raise ModelFileError(f"{path} is damaged: its contents do not match their checksum.")


def checksum(tensors: Mapping[str, Tensor], header: Json) -> str:
    """Return a digest of the tensors and of the header without its checksum."""
    rest = {key: value for key, value in header.items() if key != "checksum"}
    digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode())
    for key in sorted(tensors):
        digest.update(key.encode())
        digest.update(_raw(tensors[key].detach().contiguous()))
    return digest.hexdigest()
