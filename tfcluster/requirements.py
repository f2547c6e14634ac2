"""What a program needs beside its own code: `requirements` of a spec, in pip's own words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfcluster.errors import MissingFile, UsageError

if TYPE_CHECKING:
    from tfcluster.spec.model import JobSpec

REQUIREMENTS_FILE = "requirements.txt"
RECIPE = "1"  # changes when the same requirements are to be installed in another way
COMMENT = re.compile(r"(^|\s+)#.*$")
INCLUDE = re.compile(r"(?:-r|--requirement)[\s=]*(\S+)$")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
CREDENTIALS = re.compile(r"https?://[^/\s@]+@", re.I)
HERE = re.compile(r"(-e\b|--editable\b|\.|/|file:)|.*@\s*file:", re.I)
CONSTRAINT = re.compile(r"(-c\b|--constraint\b)")
DEEPEST = 10  # files that include each other


@dataclass(frozen=True)
class Requirements:
    """The lines of a requirements file, without comments, and where they were written."""

    lines: tuple[str, ...]
    source: str  # the file, as the spec names it, or `requirements`

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in self.lines)

    @property
    def names(self) -> tuple[str, ...]:
        """The packages that are asked for, as they are written; options are none."""
        found = (NAME.match(line) for line in self.lines)
        return tuple(match.group(0) for match in found if match)

    def key(self, *base: str) -> str:
        """Stands for these requirements on top of something: the same ones, the same key."""
        content = "\0".join((RECIPE, self.text, *base))
        return hashlib.sha256(content.encode()).hexdigest()[:16]


def read_requirements(spec: JobSpec, base: Path) -> Requirements | None:
    """What a spec asks for; None if that is nothing."""
    given = spec.requirements
    if given is None:
        return None
    if isinstance(given, str):
        found = Requirements(tuple(file_lines(base / given, given)), given)
    else:
        found = Requirements(tuple(logical_lines("\n".join(given))), "requirements")
    for line in found.lines:
        refuse_line(line, found.source)
    return found if found.lines else None


def file_lines(path: Path, shown: str, depth: int = 0) -> Iterator[str]:
    """The lines of a file, with those of the files that it includes in their place."""
    if depth > DEEPEST:
        raise UsageError(f"requirements: {shown} includes itself")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise MissingFile(f"requirements: there is no file {shown}", hint=f"{path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"requirements: {shown} cannot be read: {error}") from None
    for line in logical_lines(text):
        include = INCLUDE.match(line)
        if include:
            yield from file_lines(path.parent / include.group(1), include.group(1), depth + 1)
        else:
            yield line


def logical_lines(text: str) -> Iterator[str]:
    """As pip reads them: continued lines are one, comments and empty lines are none."""
    for line in re.sub(r"\\\r?\n", "", text).splitlines():
        found = COMMENT.sub("", line).strip()
        if found:
            yield found


def refuse_line(line: str, source: str) -> None:
    """Raise for what would work on this machine alone, or would give a password away."""
    shown = f'requirements: "{CREDENTIALS.sub("https://…@", line)}" in {source}'
    if CREDENTIALS.search(line):
        raise UsageError(
            f"{shown} has a password in it, which images and records would keep",
            hint="give it to pip by PIP_INDEX_URL or ~/.netrc, and leave it out here",
        )
    if HERE.match(line):
        raise UsageError(
            f"{shown} is a folder or a file of this machine, which tasks do not have",
            hint="your own modules belong to code; or name a package, or an address of one",
        )
    if CONSTRAINT.match(line):
        raise UsageError(
            f"{shown}: files of constraints are not read", hint="write the versions themselves"
        )


def failed_requirement(wanted: Requirements, said: list[str]) -> str:
    """The requirement that pip complains of in its last errors; nothing if that is not clear."""
    complaints = " ".join(line for line in said if line.startswith("ERROR:")).lower()
    for line in wanted.lines:
        name = NAME.match(line)
        if name and re.search(
            rf"(?<![\w.-]){re.escape(name.group(0).lower())}(?![\w-])", complaints
        ):
            return line
    return ""
