"""What people see. Data goes to stdout; notices, warnings and errors go to stderr.

All of it leaves through `shown`: whatever specs, logs, engines or file names contain, the only
escape sequences that reach a terminal are the colours of this module.

Nothing heavy is imported here: every command passes through this module.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from tfcluster.cells import cell_width, clipped, wrapped
from tfcluster.errors import SHOWN_PROBLEMS, OutputError, Problem, SpecProblems, TfclusterError
from tfcluster.escapes import CONTROL, REPLACEMENT, SEQUENCE, disarmed, disarmed_json
from tfcluster.glyphs import glyph, with_glyphs

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
LEAST_FOLD = 20  # columns for the last cell of a table, or it is not folded within them
DEEPEST = 50  # of objects and lists in what is printed as data
PLAIN_KEY = re.compile(r"(?!(?:y|n|yes|no|on|off|true|false|null)$)[a-z_][\w.-]*", re.ASCII | re.I)

_choice = "auto"
# Marks the colours of this process. Text that contains escape sequences cannot know the number.
_OURS = str(10**8 + int.from_bytes(os.urandom(3), "big"))
_SEQUENCES = re.compile(rf"\x1b\[([0-9;]+);{_OURS}m|{SEQUENCE}|{CONTROL}")
_RISKY = re.compile(CONTROL)


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
    """The text in a style, or as it is. Only `shown` makes it fit for a terminal."""
    if not (style and on and text):
        return text
    return f"\x1b[{STYLES[style]};{_OURS}m{text}\x1b[0;{_OURS}m"


def shown(text: str) -> str:
    """The text as it may be written: the colours of `paint`, and no escape sequence of others."""
    if not _RISKY.search(text):
        return text
    return _SEQUENCES.sub(lambda match: f"\x1b[{match[1]}m" if match[1] else REPLACEMENT, text)


@contextmanager
def writing() -> Iterator[None]:
    """Around writes to stdout: what the system refuses there is said as such."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"the output cannot be written: {error.strerror}",
            hint="is the disk full that it goes to?",
        ) from error


def data(text: str) -> None:
    """Write a line of data to stdout."""
    with writing():
        sys.stdout.write(shown(text) + "\n")


def artifact(text: str) -> None:
    """Write a file's text to stdout: as it is, unless a terminal would obey what is in it."""
    with writing():
        sys.stdout.write(shown(text) if is_terminal(sys.stdout) else text)


def write_bytes(data: bytes) -> None:
    """Write bytes to stdout at once, behind whatever was written before."""
    with writing():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def flush() -> None:
    with writing():
        sys.stdout.flush()


def text(lines: Iterable[str], hang: int | None = None) -> None:
    """Write lines for people to stdout, broken between words where a terminal is too narrow."""
    width = columns(sys.stdout)
    data("\n".join(part for line in lines for part in wrapped(line, width, hang)))


def columns(stream: TextIO) -> int | None:
    """How wide the terminal behind this stream is; None if there is none."""
    if not is_terminal(stream):
        return None
    with suppress(OSError, ValueError):
        return os.get_terminal_size(stream.fileno()).columns or None
    return None


def say(text: str) -> None:
    """Write a notice to stderr, broken between words where a terminal is too narrow."""
    say_as_is("\n".join(flowed(text.split("\n"))))


def say_as_is(text: str) -> None:
    """Write to stderr; there is no place for a word about a stderr that is full."""
    with suppress(OSError):
        sys.stdout.flush()
    with suppress(OSError):
        sys.stderr.write(with_glyphs(shown(text)) + "\n")
        sys.stderr.flush()


def flowed(lines: Iterable[str]) -> list[str]:
    width = columns(sys.stderr)
    return [part for line in lines for part in wrapped(line, width)]


def success(text: str) -> None:
    say(success_line(text))


def success_line(text: str) -> str:
    return f"{paint(glyph('✓'), 'green', colored(sys.stderr))} {text}"


def warn(text: str) -> None:
    say(f"{paint('warning:', 'yellow', colored(sys.stderr))} {text}")


def show_error(error: TfclusterError) -> None:
    """One `error:` line, the evidence, and a `hint:`; for a spec, every problem of it."""
    if isinstance(error, SpecProblems):
        for problem in error.problems[:SHOWN_PROBLEMS]:
            say_as_is("\n".join(problem_lines(problem)) + "\n")
        hints = [problem.hint for problem in error.problems if problem.hint]
        more = [] if hints else hint("docs/spec.md and tfcluster schema say what every key may be")
        say("\n".join([error.message, *more]))
        return
    say("\n".join([labelled("error:", "red", error.message), *error.evidence, *hint(error.hint)]))


def problem_lines(problem: Problem) -> list[str]:
    """A mistake in a spec, with its place and the line itself."""
    lines = flowed([labelled("error:", "red", problem.message)])
    if problem.place:
        lines.append(f"  --> {problem.place}")
    if problem.snippet:
        lines.append(problem.snippet)  # its carets have to stay where they are
    return [*lines, *flowed(hint(problem.hint))]


def hint(text: str | None) -> list[str]:
    return [labelled("hint:", "cyan", text)] if text else []


def labelled(label: str, style: str, text: str) -> str:
    return f"{paint(label, style, colored(sys.stderr))} {text}"


# -- Tables ------------------------------------------------------------------------------------


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: int | None = None,
    style: Callable[[str, str], str | None] | None = None,
    on: bool = False,
    fold: int | None = None,
) -> list[str]:
    """Aligned columns, two blanks apart. `style` names a cell's style from its column and text.

    `width` cuts what is wider; `fold` goes on below, in the last column where it has room.

    TASK      STATE    STEP
    ps-0      serving
    worker-0  running  640/1200
    """
    body = [[" ".join(disarmed(cell).splitlines()) for cell in row] for row in rows]
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
        before = sum(widths[:-1]) + 2 * (len(widths) - 1)
        hang = before if fold is not None and before + LEAST_FOLD <= fold else None
        lines += wrapped(line.rstrip(), fold, hang)
    return lines


def state_style(column: str, cell: str) -> str | None:
    return STATE_STYLES.get(cell) if column == "STATE" else None


# -- Data formats ------------------------------------------------------------------------------


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Strict JSON, whatever a program or a file has put into the value."""
    from tfcluster.launch.lines import strict

    return encoded(strict(value, DEEPEST), indent)


def encoded(value: Any, indent: int | None = None) -> str:
    import json

    # Besides what moves a terminal's cursor, this escapes what YAML takes for line ends.
    return disarmed_json(json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False))


def yaml_text(value: Any) -> str:
    """JSON-like data as YAML; strings are quoted as in JSON, which YAML reads alike."""
    from tfcluster.launch.lines import strict

    return "\n".join(yaml_lines(strict(value, DEEPEST)))


def yaml_lines(value: Any, indent: str = "") -> list[str]:
    if isinstance(value, dict) and value:
        lines = []
        for key, item in value.items():
            name = key if PLAIN_KEY.fullmatch(key) else encoded(key)
            if isinstance(item, dict | list) and item:
                deeper = indent + ("  " if isinstance(item, dict) else "")
                lines += [f"{indent}{name}:", *yaml_lines(item, deeper)]
            else:
                lines.append(f"{indent}{name}: {encoded(item)}")
        return lines
    if isinstance(value, list) and value:
        lines = []
        for item in value:
            first, *rest = yaml_lines(item, indent + "  ")
            lines += [f"{indent}- {first[len(indent) + 2 :]}", *rest]
        return lines
    return [indent + encoded(value)]
