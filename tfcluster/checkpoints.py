"""The bundled trainer's checkpoints, as far as `up` and `diff` have to know them.

The trainer writes checkpoint-000012.npz: a zip file with a NumPy array in each entry. `updates`
(one number) and `meta` (one text, JSON) are read here without NumPy.
"""

from __future__ import annotations

import ast
import contextlib
import json
import re
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAME = re.compile(r"checkpoint-(\d+)\.npz")
MAGIC = b"\x93NUMPY"
LARGEST = 1 << 20  # bytes of an entry that is read here
FITTING = ("model", "hidden", "activation", "optimizer")  # what a checkpoint has to agree with


@dataclass(frozen=True)
class Checkpoint:
    """One checkpoint: which, of which run, and how far it is."""

    number: int
    step: int
    run: str
    finished: bool  # whether that training came to its end
    settings: Mapping[str, Any] = field(default_factory=dict)  # those in FITTING


@dataclass(frozen=True)
class CheckpointFolder:
    """Where a run finds checkpoints; `path` is None if this machine cannot look into it."""

    name: str
    path: Path | None = None


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint in a folder that can be read, as the trainer looks for it."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return None
    numbers = {name: int(match[1]) for name in names if (match := NAME.fullmatch(name))}
    for name, number in sorted(numbers.items(), key=lambda pair: -pair[1]):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile):
            return read_checkpoint(folder / name, number)
    return None


def read_checkpoint(path: Path, number: int) -> Checkpoint:
    with zipfile.ZipFile(path) as file:
        meta = json.loads(read_entry(file, "meta"))
        step = read_entry(file, "updates")
    settings = {name: meta[name] for name in FITTING if name in meta}
    return Checkpoint(number, int(step), str(meta["run"]), bool(meta["finished"]), settings)


def read_entry(file: zipfile.ZipFile, name: str) -> Any:
    """The one value of an array without dimensions: a text or a number."""
    with file.open(f"{name}.npy") as stream:
        data = stream.read(LARGEST + 1)
    if not data.startswith(MAGIC) or len(data) > LARGEST:
        raise ValueError(f"{name}: not an array that is expected here")
    form = "<H" if data[6] == 1 else "<I"
    begin = 8 + struct.calcsize(form)
    end = begin + struct.unpack_from(form, data, 8)[0]
    header = ast.literal_eval(data[begin:end].decode("latin-1"))
    if header["shape"] != ():
        raise ValueError(f"{name}: not one value")
    if header["descr"].startswith("<U"):
        return data[end:].decode("utf-32-le").rstrip("\0")
    return struct.unpack_from({"<i8": "<q"}[header["descr"]], data, end)[0]
