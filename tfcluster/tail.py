r"""Log lines: which ones, and how they look. Pure functions; nothing here reads or writes.

    ps-0     | listening on 127.0.0.1:20000
    worker-0 | step 100, loss 0.291
    worker-1 | step 100, loss 0.287

Only the prefix is coloured, by the task's name alone, so that a task keeps its colour from one call
to the next, whatever other tasks there are. What programs print is shown without the escape
sequences that could garble the terminal; colours stay if colours are on. `-o raw` gives the exact
bytes.
"""

from __future__ import annotations

import json
import re
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from tfcluster.errors import UsageError
from tfcluster.escapes import ESCAPE, SGR, disarmed_json
from tfcluster.events import SCHEMA_VERSION, LogLine
from tfcluster.launch.lines import PROGRESS, RESULT
from tfcluster.times import exact_moment

if TYPE_CHECKING:
    from tfcluster.folding import Folding

FORMATS = ("default", "raw", "json")
# No red: red is for errors.
PALETTE = ("36", "33", "32", "35", "34", "96", "93", "92", "95", "94")
ROLE_COLORS = {"ps": 0, "worker": 1, "chief": 4, "evaluator": 9}  # where each role begins
HIGHLIGHT = "30;43"


# -- Which lines -------------------------------------------------------------------------------


def pattern(text: str, option: str) -> re.Pattern[str]:
    """The compiled expression; a bad one is the caller's mistake."""
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(
            f"{option}: not a regular expression: {error}",
            evidence=[f"  {text}"] + ([f"  {' ' * error.pos}^"] if error.pos is not None else []),
            hint="put a backslash before characters that are meant as they are",
        ) from None


def parse_when(text: str, now: float | None = None) -> float:
    """Seconds since the epoch for "10m" (ago), "2026-01-31T12:00:00Z" or 1769860800."""
    from tfcluster.quantities import parse_duration

    if re.fullmatch(r"\d{9,}(\.\d+)?", text):
        return float(text)
    try:
        return (time.time() if now is None else now) - parse_duration(text)
    except ValueError:
        pass
    try:
        return parse_moment(text)
    except ValueError:
        raise UsageError(
            f'"{text}" is neither a duration nor a time',
            hint='write 90s, 10m, 1h30m (ago), or a time such as "2026-01-31T12:00:00"',
        ) from None


def parse_moment(text: str) -> float:
    """ISO 8601, also with a Z and with any number of decimals, which Python 3.10 does not read."""
    parts = re.fullmatch(r"(.*:\d\d)(\.\d+)?(?:([zZ])|([+-]\d\d):?(\d\d))?", text)
    if parts is None:
        return datetime.fromisoformat(text).timestamp()
    whole, fraction, utc, hours, minutes = parts.groups("")
    zone = "+00:00" if utc else f"{hours}:{minutes}" if hours else ""
    return datetime.fromisoformat(whole + zone).timestamp() + float(fraction or 0)


@dataclass(frozen=True)
class Filter:
    """Which lines to show."""

    include: tuple[re.Pattern[str], ...] = ()
    exclude: tuple[re.Pattern[str], ...] = ()
    attempt: int | None = None
    reports: bool = False  # show progress and result lines as well

    def wants(self, line: LogLine) -> bool:
        if self.attempt is not None and line.attempt != self.attempt:
            return False
        if not self.reports and line.data.startswith((PROGRESS, RESULT)):
            return False
        if not (self.include or self.exclude):
            return True
        text = line.text
        if any(expression.search(text) for expression in self.exclude):
            return False
        return not self.include or any(expression.search(text) for expression in self.include)


def select(
    lines: Iterable[LogLine], wanted: Filter, folding: Folding | None = None
) -> Iterator[LogLine]:
    """The lines that are wanted, without those that are folded away."""
    chosen = (line for line in lines if wanted.wants(line))
    return chosen if folding is None else (line for line in chosen if not folding.hides(line))


def last_lines(lines: Iterable[LogLine], count: int) -> list[LogLine]:
    """The last `count` lines of each task, in the order in which they came."""
    kept: dict[str, deque[tuple[int, LogLine]]] = {}
    for number, line in enumerate(lines):
        kept.setdefault(line.task, deque(maxlen=count)).append((number, line))
    found = [pair for queue in kept.values() for pair in queue]
    return [line for _, line in sorted(found, key=lambda pair: pair[0])]


# -- How they look -----------------------------------------------------------------------------


def printable(data: bytes, color: bool) -> str:
    """What a program printed, as it may be shown on a terminal."""
    text = data.decode("utf-8", "replace")
    if text.isprintable():
        return text
    # A bar that redraws itself ends as what it showed last.
    text = next((part for part in reversed(text.split("\r")) if part.strip()), "")

    def one(match: re.Match[str]) -> str:
        found = match.group(0)
        return found if color and SGR.fullmatch(found) else ""

    text = ESCAPE.sub(one, text)
    return text + "\x1b[0m" if color and "\x1b[" in text else text


@dataclass(frozen=True)
class Style:
    """How lines are written."""

    names: Sequence[str] = ()
    prefix: bool = True
    timestamps: bool = False
    color: bool = False
    highlight: tuple[re.Pattern[str], ...] = ()
    prefixes: dict[str, bytes] = field(default_factory=dict)

    def prefix_of(self, task: str) -> bytes:
        if not self.prefixes:
            width = max(map(len, self.names), default=0)
            for name in self.names:
                self.prefixes[name] = self.painted(name, width)
        if task not in self.prefixes:
            self.prefixes[task] = self.painted(task, max(map(len, self.prefixes), default=0))
        return self.prefixes[task]

    def painted(self, task: str, width: int) -> bytes:
        text = f"{task:{width}} | "
        shown = f"\x1b[{color_of(task)}m{text}\x1b[0m" if self.color else text
        return shown.encode()


def color_of(task: str) -> str:
    """A task's colour: from its name alone, and another one than its neighbour's."""
    role, _, index = task.rpartition("-")
    start = ROLE_COLORS.get(role, zlib.crc32(role.encode()))
    return PALETTE[(start + int(index if index.isdigit() else 0)) % len(PALETTE)]


def format_default(line: LogLine, style: Style) -> bytes:
    """`worker-1 | text`."""
    text = printable(line.data, style.color)
    if style.color:
        for expression in style.highlight:
            text = expression.sub(
                lambda found: f"\x1b[{HIGHLIGHT}m{found[0]}\x1b[0m" if found[0] else "", text
            )
    when = exact_moment(line.time) + " " if style.timestamps else ""
    prefix = style.prefix_of(line.task) if style.prefix else b""
    return prefix + f"{when}{text}\n".encode()


def format_raw(line: LogLine, style: Style) -> bytes:
    """The bytes of the program, and nothing else."""
    return line.data + b"\n" if line.complete else line.data


def format_json(line: LogLine, style: Style) -> bytes:
    """One JSON object per line."""
    record = {
        "schemaVersion": SCHEMA_VERSION,
        "task": line.task,
        "attempt": line.attempt,
        "time": line.time,
        "stream": line.stream,
        "line": line.text,
    }
    return disarmed_json(json.dumps(record, ensure_ascii=False)).encode() + b"\n"


FORMATTERS: dict[str, Callable[[LogLine, Style], bytes]] = {
    "default": format_default,
    "raw": format_raw,
    "json": format_json,
}
