"""A timeline as lines of text: a bar per task, then what each letter stands for.

              0 s                                    9.8 s
    ps-0      .iiisssssssssssssssssssssssssssssssssssss
    worker-0  .wiiiiiiTTTTTTTTTTTTTTTTTTTTTTTTTTTTeeevv

Letters, so that it can be read without colours; the colours come on top.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfcluster import console
from tfcluster.cells import cell_width, clipped
from tfcluster.tables import clock
from tfcluster.timeline import spans as kinds
from tfcluster.timeline.spans import KINDS, Span, Timeline, totals

WIDEST, NARROWEST = 100, 20  # columns of a bar
LONGEST_NAME = 24
MOST_TASKS = 40
# Kind -> its letter and its colour.
MARKS = {
    kinds.PENDING: (".", "dim"),
    kinds.PULLING: ("p", "magenta"),
    kinds.WAITING: ("w", "yellow"),
    kinds.IMPORTING: ("i", "blue"),
    kinds.TRAINING: ("T", "green"),
    kinds.EVALUATING: ("e", "cyan"),
    kinds.SAVING: ("s", "magenta"),
    kinds.STALLED: ("X", "red"),
    kinds.RESTARTING: ("R", "red"),
    kinds.SERVING: ("-", "dim"),
    kinds.RUNNING: ("r", "green"),
    kinds.OTHER: ("o", "cyan"),
}


def draw(timeline: Timeline, width: int, *, on: bool = False) -> list[str]:
    """The bars within `width` columns, and the table that explains them."""
    names = max([cell_width(task) for task in timeline.tasks] + [4])
    names = min(names, LONGEST_NAME)
    cells = max(NARROWEST, min(WIDEST, width - names - 2))
    lines = [" " * (names + 2) + scale(timeline.seconds, cells)]
    shown = list(timeline.tasks.items())
    for task, spans in shown[:MOST_TASKS]:
        name = clipped(task, names)
        padding = " " * (names + 2 - cell_width(name))
        lines.append(name + padding + bar(spans, timeline, cells, on=on))
    if len(shown) > MOST_TASKS:
        lines.append(f"({len(shown) - MOST_TASKS} more tasks; -o json has them all)")
    return [*lines, "", *explain(timeline, on=on)]


def scale(seconds: float, cells: int) -> str:
    """`0 s            4.9 s            9.8 s` over the bar."""
    middle, end = clock(seconds / 2), clock(seconds)
    if len(middle) + len(end) + 8 > cells:
        return "0 s" + end.rjust(cells - 3)
    half = "0 s".ljust(cells // 2) + middle
    return half + end.rjust(cells - len(half))


def bar(spans: Sequence[Span], timeline: Timeline, cells: int, *, on: bool = False) -> str:
    """One letter per cell: of what the task was at for most of that time."""
    letters = [longest(spans, *cell(timeline, number, cells)) for number in range(cells)]
    text, last = "", None
    pieces: list[list[str]] = []
    for kind in letters:
        if kind != last:
            pieces.append([kind, ""])
        pieces[-1][1] += MARKS[kind][0] if kind else " "
        last = kind
    for kind, piece in pieces:
        text += console.paint(piece, MARKS[kind][1], on) if kind else piece
    return text.rstrip()


def cell(timeline: Timeline, number: int, cells: int) -> tuple[float, float]:
    """The moments between which a cell lies."""
    length = timeline.seconds / cells
    return timeline.begin + number * length, timeline.begin + (number + 1) * length


def longest(spans: Sequence[Span], start: float, end: float) -> str:
    """The kind that fills most of the time between; a restart is shown however short it is."""
    sums: dict[str, float] = {}
    for span in spans:
        shared = min(end, span.end) - max(start, span.start)
        if shared > 0:
            sums[span.kind] = sums.get(span.kind, 0.0) + shared
    if kinds.RESTARTING in sums:
        return kinds.RESTARTING
    return max(sums, key=lambda kind: sums[kind]) if sums else ""


def explain(timeline: Timeline, *, on: bool = False) -> list[str]:
    """What each letter stands for: how long all tasks were at it, and which one the longest."""
    by_task = {task: totals(spans) for task, spans in timeline.tasks.items()}
    whole = sum(sum(found.values()) for found in by_task.values())
    rows = []
    for kind in KINDS:
        each = {task: found[kind] for task, found in by_task.items() if kind in found}
        if not each:
            continue
        most = max(each, key=lambda task: each[task])
        share = f"{100 * sum(each.values()) / whole:.0f} %" if whole else ""
        name = f"{MARKS[kind][0]} {kind}"
        rows.append([name, clock(sum(each.values())), share, f"{most} {clock(each[most])}"])
    styles = {f"{letter} {kind}": style for kind, (letter, style) in MARKS.items()}
    header = ["PHASE", "ALL TASKS", "SHARE", "MOST"]
    return console.table(
        header, rows, style=lambda column, text: styles.get(text) if column == "PHASE" else None,
        on=on,
    )  # fmt: skip
