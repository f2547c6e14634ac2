"""Python's tracebacks in a task's output: the exception, and the last frame of one's own code."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

BEGIN = re.compile(r"Traceback \(most recent call last\):\s*$")
FRAME = re.compile(r'\s+File "(?P<file>[^"]+)", line (?P<line>\d+)(?:, in (?P<function>.+))?$')
RAISED = re.compile(r"(?P<name>[A-Za-z_][\w.]*)(?:: (?P<message>.*))?$")
# Where code lies that the person has not written.
FOREIGN = re.compile(r"/(site|dist)-packages/|/lib/python\d|<frozen |<string>|<__array_function__")
NO_FRAMES = ("SyntaxError", "IndentationError", "TabError")


@dataclass(frozen=True)
class Raised:
    """An exception that ended a program, or a part of it."""

    name: str  # without its module: ValueError
    message: str
    file: str = ""
    line: int = 0
    function: str = ""
    own: bool = False  # whether the frame is of the person's own code
    begin: int = 0  # the index of the first line that tells of it
    at: int = 0  # the index of the line that names the exception

    @property
    def where(self) -> str:
        """`train.py:12 in main`."""
        inside = f" in {self.function}" if self.function and self.function != "<module>" else ""
        return f"{self.file}:{self.line}{inside}" if self.file else ""

    def seen_from(self, folder: str) -> Raised:
        """The same with its file named as the person knows it, if it is in this folder."""
        inside = f"{folder}/"
        if not folder or not self.file.startswith(inside):
            return self
        return replace(self, file=self.file[len(inside) :])

    @property
    def text(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


def find_raised(lines: Sequence[str]) -> Raised | None:
    """The last exception that the lines tell of in full, whatever noise follows it."""
    found = None
    for start, line in enumerate(lines):
        if BEGIN.search(line):
            found = read_raised(lines, start) or found
    return found or find_syntax_error(lines)


def read_raised(lines: Sequence[str], start: int) -> Raised | None:
    """The exception of the traceback that begins at this line."""
    frames: list[re.Match[str]] = []
    for at in range(start + 1, len(lines)):
        line = lines[at]
        frame = FRAME.match(line)
        if frame:
            frames.append(frame)
        elif line and not line[0].isspace():
            raised = RAISED.match(line)
            if raised is None or not looks_like_exception(raised["name"]):
                continue  # another process or thread wrote in between
            return make_raised(raised, frames, start, at)
    return None


def find_syntax_error(lines: Sequence[str]) -> Raised | None:
    """A program that could not be compiled has no traceback: a frame, the code, the error."""
    for at in range(len(lines) - 1, -1, -1):
        raised = RAISED.match(lines[at])
        if raised and raised["name"] in NO_FRAMES:
            for start in range(at - 1, max(-1, at - 7), -1):
                frame = FRAME.match(lines[start])
                if frame:
                    return make_raised(raised, [frame], start, at)
    return None


def looks_like_exception(name: str) -> bool:
    last = name.rpartition(".")[2]
    return last.endswith(("Error", "Exception", "Exit", "Interrupt", "Warning")) or (
        last[:1].isupper() and not last.isupper()
    )


def make_raised(
    raised: re.Match[str], frames: Sequence[re.Match[str]], begin: int, at: int
) -> Raised:
    own = [frame for frame in frames if not FOREIGN.search(frame["file"])]
    last = own[-1] if own else frames[-1] if frames else None
    name = raised["name"].rpartition(".")[2]
    message = (raised["message"] or "").strip()
    if last is None:
        return Raised(name, message, begin=begin, at=at)
    return Raised(
        name,
        message,
        file=last["file"],
        line=int(last["line"]),
        function=last["function"] or "",
        own=bool(own),
        begin=begin,
        at=at,
    )
