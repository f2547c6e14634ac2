"""The files of a person's code, in order; refused if they may not or cannot be sent."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfcluster.archive import home
from tfcluster.code.ignoring import (
    Layer,
    compiled,
    is_ignored,
    is_never_code,
    layers_above,
    matches,
    read_layers,
)
from tfcluster.code.secrets import looks_secret_name
from tfcluster.errors import MissingError, UsageError
from tfcluster.quantities import format_bytes

if TYPE_CHECKING:
    from tfcluster.spec.loader import LoadedSpec

LIMIT = 100 << 20  # bytes of all files together, unless code.limit says otherwise
MAX_FILES = 20_000
SHOWN = 8
OUT = "leave files out with .tfclusterignore (written like .gitignore) or code.ignore"
WAYS_OUT = f"{OUT}; mount data with volumes, or read it from where it is; or build an image"


@dataclass(frozen=True)
class Rules:
    """What a spec says about its code."""

    ignore: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    limit: int = LIMIT
    outputs: tuple[Path, ...] = ()  # what runs write, and the spec: never part of the code


@dataclass(frozen=True)
class Entry:
    """One file, or one link that stays inside; the path has slashes and starts at the folder."""

    path: str
    size: int = 0
    executable: bool = False
    link: str | None = None


def list_code(folder: Path, rules: Rules) -> list[Entry]:
    """Every file to send, by path. Raises if one looks secret, leaves the folder, or all are large.

    Only names and sizes are looked at: this is quick however much there is.
    """
    if not folder.is_dir():
        raise MissingError(f"code: there is no folder {folder}")
    folder = folder.resolve()
    outside: list[tuple[str, str]] = []
    found: list[Entry] = []
    for entry in walk(folder, rules, outside):
        found.append(entry)
        if len(found) > MAX_FILES:
            refuse_amount(folder, found, f"more than {MAX_FILES:,} files")
    refuse_outside(outside)
    allowed = compiled(rules.allow)
    refuse_secrets(
        entry.path
        for entry in found
        if looks_secret_name(entry.path) and not matches(allowed, entry.path)
    )
    size = sum(entry.size for entry in found)
    if size > rules.limit:
        limit = format_bytes(rules.limit)
        refuse_amount(folder, found, f"{format_bytes(size)}B, and the limit is {limit}B")
    if not found:
        raise UsageError(f"code: there is no file to send in {folder}")
    return sorted(found, key=lambda entry: entry.path)


def walk(folder: Path, rules: Rules, outside: list[tuple[str, str]]) -> Iterator[Entry]:
    last = Layer(compiled(rules.ignore))
    outputs = {os.path.realpath(path) for path in rules.outputs} - {str(folder)}
    waiting: list[tuple[str, Sequence[Layer]]] = [("", layers_above(folder))]
    while waiting:
        below, layers = waiting.pop()
        here = folder / below
        layers = [*layers, *read_layers(here, below=below)]
        for item in scanned(here):
            path = below + item.name
            is_folder = item.is_dir(follow_symlinks=False)
            if is_never_code(item) or item.path in outputs:
                continue
            if is_ignored([*layers, last], path + "/" if is_folder else path):
                continue
            if is_folder:
                waiting.append((path + "/", layers))
            elif item.is_symlink():
                yield from kept_link(folder, path, outside)
            elif item.is_file():
                status = item.stat()
                yield Entry(path, status.st_size, bool(status.st_mode & stat.S_IXUSR))


def scanned(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as items:
            return list(items)
    except OSError as error:
        raise UsageError(
            f"code: cannot read {folder}: {error.strerror}", hint=f"{OUT}, or allow it to be read"
        ) from None


def kept_link(folder: Path, path: str, outside: list[tuple[str, str]]) -> Iterator[Entry]:
    """A link that stays inside, made relative; one that leaves the folder is noted."""
    target = os.readlink(folder / path)
    parent = os.path.realpath(folder / os.path.dirname(path))
    real = os.path.realpath(os.path.join(parent, target))
    if not Path(real).is_relative_to(folder):
        outside.append((path, target))
        return
    yield Entry(path, link=os.path.relpath(real, parent))


# -- Refusals ----------------------------------------------------------------------------------


def refuse_outside(links: Sequence[tuple[str, str]]) -> None:
    if links:
        rows = [f"  {path} -> {target}" for path, target in sorted(links)]
        raise UsageError(
            "code: a link leads out of the folder, where tasks elsewhere cannot follow",
            evidence=shortened(rows),
            hint=f"copy what it points to into the folder, or {OUT}",
        )


def refuse_secrets(paths: Iterable[str]) -> None:
    rows = [f"  {path}" for path in sorted(paths)]
    if rows:
        raise UsageError(
            f"code: {'a file looks' if len(rows) == 1 else f'{len(rows)} files look'} secret, and"
            " would be sent to every task",
            evidence=shortened(rows),
            hint=f"{OUT}; if a file is no secret, name it: code: {{allow: [{rows[0].strip()}]}}",
        )


def refuse_amount(folder: Path, found: Sequence[Entry], what: str) -> None:
    raise UsageError(f"code: {folder} has {what}", evidence=largest(found), hint=WAYS_OUT)


def largest(found: Sequence[Entry]) -> list[str]:
    """The largest files and folders at the top, so that it is clear what to leave out."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for entry in found:
        head, slash, _ = entry.path.partition("/")
        sizes[head + slash] += entry.size
        counts[head + slash] += 1
    rows = []
    for name, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]:
        files = f" ({counts[name]:,})" if name.endswith("/") else ""
        rows.append(f"  {format_bytes(size) + 'B':>10}  {name}{files}")
    inside = sorted((e for e in found if "/" in e.path), key=lambda e: (-e.size, e.path))[:3]
    rows += [f"  {format_bytes(entry.size) + 'B':>10}  {entry.path}" for entry in inside]
    return rows


def shortened(rows: Sequence[str]) -> list[str]:
    more = len(rows) - SHOWN
    return [*rows[:SHOWN], *([f"  … and {more} more"] if more > 0 else [])]


def rules_of(loaded: LoadedSpec) -> Rules:
    """The rules of a spec. It is no code itself: another comment in it must restart no task."""
    spec, base, code = loaded.spec, loaded.base, loaded.spec.code
    assert code is not None
    outputs = [home(), *([loaded.path] if loaded.path else [])]
    outputs += [base / path for path in (spec.logdir, spec.checkpoints) if path]
    return Rules(
        ignore=tuple(code.ignore),
        allow=tuple(code.allow),
        limit=code.limit.bytes if code.limit else LIMIT,
        outputs=(*outputs, base / f"{spec.name}-output", base / f"{spec.name}-logs"),
    )
