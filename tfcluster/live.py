"""What `up` shows while a job runs: a live table on a terminal, a line per change elsewhere.

On a terminal the table stays at the bottom and log lines scroll by above it. The table is drawn on
stderr and the lines go to stdout, so that `tfcluster up > train.log` keeps the lines alone.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Protocol, TextIO

from tfcluster import console, tables
from tfcluster.cells import clipped, visible_width
from tfcluster.events import JobStatus, Observed
from tfcluster.glyphs import glyph
from tfcluster.launch.exits import WAITING

MOST_PHASES = 8  # that are told of an attempt, off a terminal
INTEREST = {"failed": 0, "starting": 1, "pending": 2, "stopped": 3, "running": 4, "serving": 5}


class Display(Protocol):
    """Where `up` shows what happens."""

    def update(self, status: JobStatus) -> None:
        """Show the tasks as they are now."""

    def write(self, lines: bytes) -> None:
        """Pass log lines on to stdout."""

    def notice(self, text: str) -> None:
        """Say something beside the table."""

    def close(self) -> None:
        """Leave the terminal as it was; what was shown last stays."""


def open_display() -> Display:
    """A live table where stderr is a terminal that can do it, plain lines elsewhere."""
    if console.is_terminal(sys.stderr) and os.environ.get("TERM", "dumb") != "dumb":
        return LiveDisplay(sys.stderr)
    return PlainDisplay()


class PlainDisplay:
    """One line on stderr per change of a task's state, and one for each phase of an attempt."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[str, str, int]] = {}
        self.phases: dict[str, set[str]] = {}
        self.problems: dict[str, str] = {}

    def update(self, status: JobStatus) -> None:
        for task in status.tasks:
            shown = (task.state, task.reason, task.restarts)
            before = self.seen.get(task.task)
            if shown != before and (before is not None or task.state != "pending"):
                self.seen[task.task] = shown
                if before is None or before[2] != task.restarts:
                    self.phases[task.task] = set()
                console.say(f"{task.task}: {tables.state_text(task)}")
            self.tell_phase(task)
            self.tell_problem(task)

    def tell_problem(self, task: Observed) -> None:
        """What is wrong although the task goes on, and that it is over."""
        now, before = tables.problem(task), self.problems.get(task.task, "")
        self.problems[task.task] = now
        if now != before and not task.over:
            console.say(f"{task.task}: {now or 'no longer: ' + before}")

    def tell_phase(self, task: Observed) -> None:
        """A phase that comes again, as saving does, is no news; a wait is in the reason."""
        told, phase = self.phases.setdefault(task.task, set()), tables.phase(task)
        if phase and phase not in told and task.kind != WAITING and len(told) < MOST_PHASES:
            told.add(phase)
            console.say(f"{task.task}: {phase}")

    def write(self, lines: bytes) -> None:
        console.write_bytes(lines)

    def notice(self, text: str) -> None:
        console.say(text)

    def close(self) -> None:
        pass


class Region:
    """Lines at the bottom of a terminal that are redrawn in place."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.drawn: list[str] = []

    def draw(self, lines: Sequence[str]) -> None:
        ready = [console.shown(line) for line in lines]
        if ready and ready == self.drawn:
            return
        # One write per frame, so that nothing half-drawn is ever on the screen.
        frame = self.changing(ready) or self.erasing() + "".join(f"{line}\n" for line in ready)
        self.stream.write(frame)
        self.stream.flush()
        self.drawn = ready

    def erase(self) -> None:
        self.stream.write(self.erasing())
        self.stream.flush()
        self.drawn = []

    def keep(self) -> None:
        """Leave on the screen what is there."""
        self.drawn = []

    def changing(self, ready: Sequence[str]) -> str:
        """What rewrites only the lines that differ; empty if all have to be drawn again."""
        columns = terminal_size(self.stream).columns
        if len(ready) != len(self.drawn):
            return ""
        if any(visible_width(line) >= columns for line in (*ready, *self.drawn)):
            return ""  # a line that the terminal wraps takes more rows than one
        pairs = zip(self.drawn, ready, strict=True)
        rows = ["\n" if old == new else f"{new}\x1b[K\n" for old, new in pairs]
        return f"\x1b[{len(rows)}A\r" + "".join(rows)

    def erasing(self) -> str:
        """What takes the lines off the screen; what a narrower window has wrapped counts too."""
        if not self.drawn:
            return "\r\x1b[J"
        columns = max(1, terminal_size(self.stream).columns)
        rows = sum(max(1, -(-visible_width(line) // columns)) for line in self.drawn)
        return f"\x1b[{rows}A\r\x1b[J"


class LiveDisplay:
    """A table that stays below the log lines."""

    def __init__(self, stream: TextIO) -> None:
        self.region = Region(stream)
        self.status: JobStatus | None = None

    def update(self, status: JobStatus) -> None:
        self.status = status
        self.redraw()

    def write(self, lines: bytes) -> None:
        self.region.erase()
        console.write_bytes(lines)
        self.redraw()

    def notice(self, text: str) -> None:
        self.region.draw(text.splitlines())
        self.region.keep()
        self.redraw()

    def close(self) -> None:
        self.region.keep()

    def redraw(self) -> None:
        if self.status is not None:
            stream = self.region.stream
            size = terminal_size(stream)
            color = console.colored(stream)
            self.region.draw(table_lines(self.status, size.columns, size.lines, color))


def terminal_size(stream: TextIO) -> os.terminal_size:
    """The size of the terminal behind this very stream."""
    try:
        return os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        return shutil.get_terminal_size()


def table_lines(status: JobStatus, columns: int, rows: int, color: bool) -> list[str]:
    """The table, no wider and no higher than the terminal; what is left out is counted.

    While the job runs, a line above says for how long it has.
    """
    room = max(3, rows - 5)
    tasks, more = fitting(status.tasks, room)
    header, body = tables.task_rows(tasks, bars=True)
    lines = console.table(
        header, body, width=max(20, columns - 2), style=console.state_style, on=color
    )
    head = [] if status.over or not status.started else [tables.headline(status, whole=True)]
    head = [clipped(line, columns - 2) for line in head]
    return [f" {line}" for line in (*head, *lines, *([more] if more else []))]


def fitting(tasks: Sequence[Observed], room: int) -> tuple[list[Observed], str]:
    """As many tasks as fit, those in trouble first, and a line about the others."""
    if len(tasks) <= room:
        return list(tasks), ""
    order = sorted(
        range(len(tasks)), key=lambda place: (INTEREST.get(tasks[place].state, 9), place)
    )
    shown = set(order[: room - 1])
    counts: dict[str, int] = {}
    for place, task in enumerate(tasks):
        if place not in shown:
            counts[task.state] = counts.get(task.state, 0) + 1
    rest = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return [tasks[place] for place in sorted(shown)], f"{glyph('…')} and {rest}"
