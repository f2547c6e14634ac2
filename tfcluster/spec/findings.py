"""Mistakes in a spec's data, by path; the loader knows where each path was written."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Finding:
    """One mistake: at which path, shown at its key or its value.

    `needs` are further paths that the judgement rests on: if one of them is itself a mistake,
    this finding may only be its consequence and is dropped.
    """

    path: Path
    message: str
    hint: str | None = None
    at: Literal["key", "value"] = "value"
    needs: tuple[Path, ...] = ()


def dotted(path: Path) -> str:
    """`roles.worker.replicas`, `volumes[0].target`."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        else:
            text = part if part.replace("-", "_").replace("/", "_").isidentifier() else f'"{part}"'
            out += f".{text}" if out else text
    return out


def without_consequences(findings: list[Finding], broken: Collection[Path]) -> list[Finding]:
    """The findings that do not rest on a value that is known to be wrong."""

    # Indices behind a wrong item of a list are not to be trusted, so the whole list counts.
    stems = {_stem(bad) for bad in broken}

    def sound(finding: Finding) -> bool:
        paths = [finding.path, *finding.needs]
        return not any(path[:end] in stems for path in paths for end in range(1, len(path) + 1))

    return [finding for finding in findings if sound(finding)]


def _stem(path: Path) -> Path:
    """The path up to its first index."""
    for position, part in enumerate(path):
        if isinstance(part, int):
            return path[:position]
    return path
