"""Line charts side by side, as SVG text. No more than the benchmarks need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from xml.sax.saxutils import escape

Line = list[tuple[float, float]]

WIDTH, HEIGHT, MARGIN = 420, 320, 56
COLOURS = ("#0b6e99", "#d1495b", "#66a182", "#8d6a9f", "#b5793a")
TICKS = 5


@dataclass(frozen=True)
class Panel:
    """One chart: its title, and its lines by name."""

    title: str
    lines: dict[str, Line]

    @property
    def most(self) -> tuple[float, float]:
        """The upper ends of both axes."""
        points = [point for line in self.lines.values() for point in line]
        return round_up(max(x for x, _ in points)), round_up(max(y for _, y in points))


def draw(panels: list[Panel], across: str, up: str) -> str:
    """All panels in a row, each with axes from zero and a legend."""
    parts = [_panel(panel, i * WIDTH, across, up) for i, panel in enumerate(panels)]
    size = f'width="{WIDTH * len(panels)}" height="{HEIGHT}"'
    font = 'font-family="sans-serif" font-size="12"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{"".join(parts)}</svg>\n'
    )


def round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5, 10 times a power of ten: the end of an axis."""
    power = 10.0 ** math.floor(math.log10(max(value, 1e-9)))
    return next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= value)


def _panel(panel: Panel, left: int, across: str, up: str) -> str:
    wide, high = WIDTH - 2 * MARGIN, HEIGHT - 2 * MARGIN
    most_x, most_y = panel.most

    def place(x: float, y: float) -> tuple[float, float]:
        return left + MARGIN + x / most_x * wide, HEIGHT - MARGIN - y / most_y * high

    parts = [_text(left + WIDTH / 2, 24, panel.title, "middle")]
    for k in range(TICKS + 1):
        x, y = most_x * k / TICKS, most_y * k / TICKS
        parts.append(_line([place(x, 0), place(x, most_y)], "#dddddd"))
        parts.append(_line([place(0, y), place(most_x, y)], "#dddddd"))
        parts.append(_text(place(x, 0)[0], HEIGHT - MARGIN + 16, f"{x:g}", "middle"))
        parts.append(_text(left + MARGIN - 6, place(0, y)[1] + 4, f"{y:g}", "end"))
    parts.append(_text(left + WIDTH / 2, HEIGHT - 16, across, "middle"))
    parts.append(_text(left + MARGIN, MARGIN - 10, up, "middle"))
    for i, (name, points) in enumerate(panel.lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        parts.append(_line([place(*point) for point in points], colour, 2))
        parts.append(_text(left + MARGIN + 10, MARGIN + 16 * (i + 1), name, "start", colour))
    return "".join(parts)


def _line(points: list[tuple[float, float]], colour: str, width: int = 1) -> str:
    pairs = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{pairs}" fill="none" stroke="{colour}" stroke-width="{width}"/>\n'


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#333333") -> str:
    where = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"'
    return f"<text {where}>{escape(text)}</text>\n"
