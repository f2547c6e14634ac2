"""How wide text is on a terminal, where it may be cut, and where it may be broken."""

from __future__ import annotations

import unicodedata

from tfcluster.escapes import SGR
from tfcluster.glyphs import glyph


def cell_width(text: str) -> int:
    """How many columns a terminal needs for this text."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def visible_width(text: str) -> int:
    """The same, for text with colours in it."""
    return cell_width(SGR.sub("", text))


def clipped(text: str, width: int) -> str:
    """The text, cut to `width` columns with an ellipsis."""
    if cell_width(text) <= width:
        return text
    end = glyph("…")
    kept, used = "", len(end)
    for char in text:
        used += cell_width(char)
        if used > width:
            break
        kept += char
    return kept + end if width >= len(end) else ""


def wrapped(line: str, width: int | None, hang: int | None = None) -> list[str]:
    """One line as several, none wider than `width`, broken between words where that can be.

    What follows the first is indented by `hang` columns, or by two more than the line itself.
    """
    if width is None or visible_width(line) <= width:
        return [line]
    blanks = len(line) - len(line.lstrip(" "))
    indent = " " * (blanks + 2 if hang is None else hang)
    lines, current = [], line[:blanks]
    for number, word in enumerate(line[blanks:].split(" ")):
        joined = f"{current} {word}" if number else current + word
        if number and visible_width(joined) > width and current.strip():
            lines.append(current.rstrip())
            current = indent + word
        else:
            current = joined
    return [*lines, current.rstrip()]
