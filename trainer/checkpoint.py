"""Files that are either whole or not there: checkpoints and final weights.

Both are plain .npz files that any NumPy can read, with two entries more: `meta` (JSON) and
`sha256`, a checksum over everything else. A file is written beside its place, flushed to disk and
then renamed, so a crash leaves the one before untouched. Whatever is not a whole checkpoint is
passed over with a warning, in favour of the one before it; if none is left, that is an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainer.errors import TrainerError, warn
from trainer.state import Snapshot


class DamagedFile(TrainerError):
    """The content of a file is not what was written."""


class NoneWhole(TrainerError):
    """There are checkpoints, and none of them can be used."""


@dataclass(frozen=True)
class Checkpoint:
    """A snapshot with what is known about it."""

    snapshot: Snapshot
    meta: Mapping[str, Any]
    path: Path


class Checkpoints:
    """The last few checkpoints of a folder, numbered in the order in which they were saved."""

    _NAME = re.compile(r"checkpoint-(\d+)\.npz")

    def __init__(self, folder: Path, keep: int) -> None:
        self._folder = folder
        self._keep = keep

    def save(self, snapshot: Snapshot, meta: Mapping[str, Any]) -> Path:
        """Write the next checkpoint, then remove the oldest beyond those to keep."""
        numbered = self._numbered()
        number = numbered[-1][0] + 1 if numbered else 1
        path = self._folder / f"checkpoint-{number:06d}.npz"
        arrays = {
            "parameters": snapshot.parameters,
            "slots": snapshot.slots,
            "updates": np.array(snapshot.updates, np.int64),
            "steps": snapshot.steps,
        }
        write_arrays(path, arrays, meta)
        own = [old for _, old in numbered if _is_file(old)]
        for old in own[: max(0, len(own) + 1 - self._keep)]:
            with contextlib.suppress(OSError):  # too many is no reason to stop
                old.unlink()
        return path

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole; others are named in a warning.

        None if there is no checkpoint; NoneWhole if there are some and none is whole.
        """
        numbered = self._numbered()
        for _, path in reversed(numbered):
            try:
                return _read_checkpoint(path)
            except TrainerError as error:
                warn(f"{error}; trying the checkpoint before it")
        if numbered:
            raise NoneWhole(
                f"none of the checkpoints in {self._folder} is whole ({len(numbered)} tried); "
                "put a good one there, or start from the beginning with resume: never"
            )
        return None

    def _numbered(self) -> list[tuple[int, Path]]:
        """Everything that is named like a checkpoint, by number."""
        try:
            paths = list(self._folder.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise TrainerError(f"cannot read {self._folder}: {error.strerror}") from error
        found = [(self._NAME.fullmatch(path.name), path) for path in paths]
        return sorted((int(match[1]), path) for match, path in found if match)


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _read_checkpoint(path: Path) -> Checkpoint:
    if not _is_file(path):
        raise DamagedFile(f"{path} is not a file")
    arrays, meta = read_arrays(path)
    missing = {"parameters", "slots", "updates", "steps"} - arrays.keys()
    if missing:
        raise DamagedFile(f"{path} is not a checkpoint: it has no {', '.join(sorted(missing))}")
    snapshot = Snapshot(
        parameters=arrays["parameters"],
        slots=arrays["slots"],
        updates=int(arrays["updates"]),
        steps=arrays["steps"],
    )
    return Checkpoint(snapshot, meta, path)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    """Write an .npz with meta data and checksum, whole or not at all."""
    content: dict[str, Any] = {**arrays, "meta": np.array(json.dumps(meta))}
    content["sha256"] = np.array(_digest(content))
    write_whole(path, lambda file: np.savez(file, **content))


def write_whole(path: Path, write: Any) -> None:
    """Call `write(file)` on a new file, which takes the place of `path` once it is on disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise TrainerError(f"cannot write {path}: {error.strerror or error}") from error


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the meta data of a file that `write_arrays` wrote."""
    try:
        with np.load(path, allow_pickle=False) as file:
            content = {name: file[name] for name in file.files}
    except FileNotFoundError:
        raise TrainerError(f"{path} does not exist") from None
    except Exception as error:  # there is no end to what a damaged zip file makes zipfile raise
        raise DamagedFile(f"{path} is damaged: {error}") from None
    if "sha256" not in content or "meta" not in content:
        raise DamagedFile(f"{path} was not written by this trainer: it has no checksum")
    expected = str(content.pop("sha256"))
    if _digest(content) != expected:
        raise DamagedFile(f"{path} is damaged: its checksum does not match")
    meta: dict[str, Any] = json.loads(str(content.pop("meta")))
    return content, meta


def _digest(arrays: Mapping[str, np.ndarray]) -> str:
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        total.update(array.tobytes())
    return total.hexdigest()
