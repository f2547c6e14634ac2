"""Places in a source text, and mistakes shown at them."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from tfcluster.errors import Problem
from tfcluster.escapes import visible
from tfcluster.redaction import masked_line

MAX_SNIPPET = 100


@dataclass(frozen=True)
class Span:
    """A stretch of text by offsets, end excluded."""

    start: int
    end: int


@dataclass(frozen=True)
class Mistake:
    """One mistake before it is tied to a file: what it is, and where in the text.

    `first` is the earlier place that it collides with.
    """

    message: str
    span: Span | None = None
    hint: str | None = None
    first: Span | None = None


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column, counted from 1."""
    start = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, offset - start + 1


def problem_at(mistake: Mistake, text: str, name: str) -> Problem:
    """The mistake as a problem of the file `name`, with the line it is on."""
    if mistake.span is None:
        return Problem(mistake.message, name, hint=mistake.hint)
    line, column = line_and_column(text, mistake.span.start)
    message = mistake.message
    if mistake.first is not None:
        message += f" (first on line {line_and_column(text, mistake.first.start)[0]})"
    return Problem(
        message,
        name,
        line,
        column,
        snippet(text, line, column, mistake.span.end - mistake.span.start),
        mistake.hint,
    )


def snippet(text: str, line: int, column: int, length: int) -> str | None:
    """The line with its number, and carets under the place; None for an empty line."""
    lines = _lines(text)
    source = lines[line - 1].rstrip()
    shown = masked_line(lines, line - 1).rstrip()
    if not shown:
        return None
    width = max(1, min(length, len(source) - column + 1))
    if shown != source:
        width = max(1, min(width, len(shown) - column + 1))
    carets = f"{_blanks(source[: column - 1])}{'^' * width}" if column <= len(shown) else ""
    if len(shown) > MAX_SNIPPET:
        start = max(0, min(column - 1 - 20, len(shown) - MAX_SNIPPET))
        shown = f"…{shown[start : start + MAX_SNIPPET]}…" if start else f"{shown[:MAX_SNIPPET]}…"
        carets = carets[start - 1 :] if start else carets
        carets = carets[: len(shown)]
    gutter = " " * len(str(line))
    out = f"{line} | {_visible(shown)}"
    return f"{out}\n{gutter} | {carets}" if carets else out


@functools.lru_cache(maxsize=1)
def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n"))


def _blanks(text: str) -> str:
    """White space as wide as the text; a tab stays a tab, so that carets line up."""
    return "".join("\t" if char == "\t" else " " for char in text)


def _visible(text: str) -> str:
    """The text without characters that would move the cursor or change colours."""
    return "\t".join(map(visible, text.split("\t")))
