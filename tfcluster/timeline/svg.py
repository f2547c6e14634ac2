"""A timeline as an SVG file: a row per task, a rectangle per span, a legend."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from tfcluster.launch.lines import strict_text
from tfcluster.tables import clock
from tfcluster.timeline import spans as kinds
from tfcluster.timeline.spans import Span, Timeline, totals

WIDTH, ROW, BAR = 900, 26, 16
LETTER = 7.2  # how wide a letter of the font is, about
MARGIN, TOP = 16, 64
TICKS = 5
COLORS = {
    kinds.PENDING: "#d0d4da",
    kinds.PULLING: "#b48ead",
    kinds.WAITING: "#e3b341",
    kinds.IMPORTING: "#6e8fc7",
    kinds.TRAINING: "#4caf6d",
    kinds.EVALUATING: "#4db6c4",
    kinds.SAVING: "#8e6bbf",
    kinds.STALLED: "#d9534f",
    kinds.RESTARTING: "#e8833a",
    kinds.SERVING: "#b7dcc4",
    kinds.RUNNING: "#86c796",
    kinds.OTHER: "#9aa5b1",
}


def render_svg(timeline: Timeline, heading: str, notes: Iterable[str] = ()) -> str:
    """The whole file. `notes` are printed below the legend."""
    left = MARGIN + max([len(task) for task in timeline.tasks] + [4]) * LETTER + 12
    notes = list(notes)
    bottom = TOP + ROW * len(timeline.tasks)
    legend, depth = draw_legend(timeline, bottom + 30)
    height = depth + 20 * len(notes) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}"'
        f' viewBox="0 0 {WIDTH} {height:.0f}" font-family="ui-monospace, Menlo, Consolas,'
        ' DejaVu Sans Mono, monospace" font-size="12" fill="#24292f">',
        f"<title>{clean(heading)}</title>",
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>',
        text(MARGIN, 26, heading, "font-size='14' font-weight='bold'"),
        *draw_axis(timeline, left, bottom),
    ]
    for number, (task, spans) in enumerate(timeline.tasks.items()):
        top = TOP + number * ROW
        parts.append(text(MARGIN, top + 13, task))
        parts += [draw_span(timeline, span, left, top) for span in spans]
    parts += legend
    parts += [text(MARGIN, depth + 20 * n + 4, note) for n, note in enumerate(notes)]
    return "\n".join([*parts, "</svg>", ""])


def position(timeline: Timeline, moment: float, left: float) -> float:
    width = WIDTH - MARGIN - left
    share = (moment - timeline.begin) / timeline.seconds if timeline.seconds else 0.0
    return left + width * share


def draw_span(timeline: Timeline, span: Span, left: float, top: float) -> str:
    start = position(timeline, span.start, left)
    width = max(0.5, position(timeline, span.end, left) - start)
    about = f" ({span.about})" if span.about else ""
    title = clean(f"{span.kind}{about}: {clock(span.seconds)}")
    return (
        f'<rect x="{start:.1f}" y="{top:.0f}" width="{width:.1f}" height="{BAR}"'
        f' fill="{COLORS[span.kind]}"><title>{title}</title></rect>'
    )


def draw_axis(timeline: Timeline, left: float, bottom: float) -> list[str]:
    parts = []
    for tick in range(TICKS):
        seconds = timeline.seconds * tick / (TICKS - 1)
        x = position(timeline, timeline.begin + seconds, left)
        parts.append(
            f'<line x1="{x:.1f}" y1="{TOP - 8}" x2="{x:.1f}" y2="{bottom}" stroke="#e5e8eb"/>'
        )
        anchor = "end" if tick == TICKS - 1 else "middle" if tick else "start"
        label = clock(seconds) if tick else "0 s"
        parts.append(text(x, TOP - 14, label, f"text-anchor='{anchor}' fill='#57606a'"))
    return parts


def draw_legend(timeline: Timeline, top: float) -> tuple[list[str], float]:
    """What the colours mean, in as many rows as that takes, and where they end."""
    used = totals(span for spans in timeline.tasks.values() for span in spans)
    parts: list[str] = []
    x, y = float(MARGIN), top
    for kind in used:
        width = 34 + len(kind) * LETTER
        if x + width > WIDTH - MARGIN:
            x, y = float(MARGIN), y + 20
        parts.append(
            f'<rect x="{x:.1f}" y="{y - 10:.0f}" width="12" height="12" fill="{COLORS[kind]}"/>'
        )
        parts.append(text(x + 17, y, kind))
        x += width
    return parts, y + 26


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.0f}"{" " + more if more else ""}>{clean(words)}</text>'


def clean(words: str) -> str:
    """Text as XML may hold it."""
    return escape("".join(char for char in strict_text(words) if char.isprintable()))
