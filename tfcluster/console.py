"""What people see. Data goes to stdout; notices, warnings and errors go to stderr.

Nothing heavy is imported here: every command passes through this module.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO

from tfcluster.errors import Problem, SpecProblems, TfclusterError

COLOR_CHOICES = ("auto", "always", "never")
STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "1;31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
STATE_STYLES = {
    "pending": "dim",
    "starting": "yellow",
    "running": "cyan",
    "serving": "cyan",
    "succeeded": "green",
    "failed": "red",
    "stopped": "yellow",
}

_choice = "auto"


def choose_color(choice: str) -> None:
    """Set whether to colour: auto, always or never, for the rest of this process."""
    global _choice
    _choice = choice


def colored(stream: TextIO) -> bool:
    """Whether what goes to this stream may be coloured."""
    if _choice != "auto":
        return _choice == "always"
    return (
        not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and is_terminal(stream)
    )


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def paint(text: str, style: str | None, on: bool = True) -> str:
    """The text in a style, or as it is."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style and on and text else text


def data(text: str) -> None:
    """Write a line of data to stdout."""
    sys.stdout.write(text + "\n")


def say(text: str) -> None:
    """Write a notice to stderr."""
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def success(text: str) -> None:
    say(success_line(text))


def success_line(text: str) -> str:
    return f"{paint('✓', 'green', colored(sys.stderr))} {text}"


def warn(text: str) -> None:
    say(f"{paint('warning:', 'yellow', colored(sys.stderr))} {text}")


def show_error(error: TfclusterError) -> None:
    """One `error:` line, the evidence, and a `hint:`; for a spec, every problem of it."""
    if isinstance(error, SpecProblems):
        for problem in error.problems:
            say("\n".join(problem_lines(problem)) + "\n")
        say(error.message)
        return
    say("\n".join([labelled("error:", "red", error.message), *error.evidence, *hint(error.hint)]))


def problem_lines(problem: Problem) -> list[str]:
    """A mistake in a spec, with its place and the line itself."""
    lines = [labelled("error:", "red", problem.message)]
    if problem.place:
        lines.append(f"  --> {problem.place}")
    if problem.snippet:
        lines.append(problem.snippet)
    return [*lines, *hint(problem.hint)]


def hint(text: str | None) -> list[str]:
    return [labelled("hint:", "cyan", text)] if text else []


def labelled(label: str, style: str, text: str) -> str:
    return f"{paint(label, style, colored(sys.stderr))} {text}"


# -- Tables ------------------------------------------------------------------------------------


def cell_width(text: str) -> int:
    """How many columns a terminal needs for this text."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def clipped(text: str, width: int) -> str:
    """The text, cut to `width` columns with an ellipsis."""
    if cell_width(text) <= width:
        return text
    kept, used = "", 1
    for char in text:
        used += cell_width(char)
        if used > width:
            break
        kept += char
    return kept + "…" if width > 0 else ""


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: int | None = None,
    style: Callable[[str, str], str | None] | None = None,
    on: bool = False,
) -> list[str]:
    """Aligned columns, two blanks apart. `style` names a cell's style from its column and text.

    TASK      STATE    STEP
    ps-0      serving
    worker-0  running  640/1200
    """
    body = [[" ".join(cell.splitlines()) for cell in row] for row in rows]
    widths = [
        max(map(cell_width, (name, *(row[column] for row in body))))
        for column, name in enumerate(header)
    ]
    lines = []
    for row in (list(header), *body):
        line, left = "", width
        for column, cell in enumerate(row):
            text = cell if left is None else clipped(cell, left)
            padding = widths[column] + 2 - cell_width(text) if column < len(row) - 1 else 0
            name = header[column]
            wanted = "bold" if row[column] is name else style(name, text) if style else None
            line += paint(text, wanted, on) + " " * padding
            left = None if left is None else max(0, left - cell_width(text) - padding)
        lines.append(line.rstrip())
    return lines


def state_style(column: str, cell: str) -> str | None:
    return STATE_STYLES.get(cell) if column == "STATE" else None


# -- Data formats ------------------------------------------------------------------------------


def yaml_lines(value: Any, indent: str = "") -> list[str]:
    """JSON-like data as YAML; strings are quoted as in JSON, which YAML reads alike."""
    import json

    if isinstance(value, dict) and value:
        lines = []
        for key, item in value.items():
            if isinstance(item, dict | list) and item:
                deeper = indent + ("  " if isinstance(item, dict) else "")
                lines += [f"{indent}{key}:", *yaml_lines(item, deeper)]
            else:
                lines.append(f"{indent}{key}: {json.dumps(item, ensure_ascii=False)}")
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            first, *rest = yaml_lines(item, indent + "  ")
            lines += [f"{indent}- {first[len(indent) + 2 :]}", *rest]
        return lines
    return [indent + json.dumps(value, ensure_ascii=False)]
