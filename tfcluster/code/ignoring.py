"""Which files of a folder are left out: as git does it, and what never belongs to a program."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

IGNORE_FILES = (".gitignore", ".tfclusterignore")  # in this order: the second has the last word
# Never code, and often large. A folder with pyvenv.cfg or conda-meta in it is an environment.
NEVER_FOLDERS = frozenset(
    {
        *(".git", ".hg", ".svn", "__pycache__", ".ipynb_checkpoints", ".eggs", "node_modules"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox", ".hypothesis"),
    }
)
NEVER_ENDINGS = (".pyc", ".pyo", ".swp", "~")
NEVER_FILES = frozenset({".DS_Store"})
ENVIRONMENT_MARKS = frozenset({"pyvenv.cfg", "conda-meta"})


@dataclass(frozen=True)
class Layer:
    """The patterns of one ignore file; `above` and `below` place it against the code's folder."""

    spec: Any
    above: str = ""  # the path from the file's folder down to the code's, if it is further up
    below: str = ""  # the path from the code's folder down to the file's

    def verdict(self, path: str) -> bool | None:
        """Whether a path is ignored, or expressly not; None if no pattern is about it."""
        if not path.startswith(self.below):
            return None
        found: bool | None = self.spec.check_file(self.above + path[len(self.below) :]).include
        return found


def is_ignored(layers: Sequence[Layer], path: str) -> bool:
    """Whether the last pattern that is about this path ignores it; folders end with a slash."""
    for layer in reversed(layers):
        verdict = layer.verdict(path)
        if verdict is not None:
            return verdict
    return False


def matches(patterns: Any, path: str) -> bool:
    return bool(patterns.match_file(path))


def compiled(lines: Iterable[str]) -> Any:
    """Patterns as in a .gitignore."""
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def layers_above(folder: Path) -> list[Layer]:
    """The ignore files between the root of the repository and the folder, which apply to it too."""
    roots = [above for above in folder.parents if (above / ".git").exists()]
    if not roots or (folder / ".git").exists():
        return []
    chain = [above for above in folder.parents if above.is_relative_to(roots[0])]
    found = []
    for above in reversed(chain):
        down = folder.relative_to(above).as_posix() + "/"
        found += read_layers(above, above_path=down)
    return found


def read_layers(folder: Path, *, above_path: str = "", below: str = "") -> list[Layer]:
    """The ignore files of one folder."""
    found = []
    for name in IGNORE_FILES:
        path = folder / name
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            found.append(Layer(compiled(lines), above_path, below))
    return found


def is_never_code(entry: os.DirEntry[str]) -> bool:
    """Caches, environments, what editors leave."""
    if not entry.is_dir(follow_symlinks=False):
        is_lock = entry.name.startswith(".#") and entry.is_symlink()
        return entry.name in NEVER_FILES or entry.name.endswith(NEVER_ENDINGS) or is_lock
    if entry.name in NEVER_FOLDERS:
        return True
    return any(os.path.lexists(os.path.join(entry.path, mark)) for mark in ENVIRONMENT_MARKS)
