"""Rows of ratios: pairs of numbers, the median of their ratios, and the limit it is held to."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any

HEAD = f"{'ours':>53} {'other':>11}  {'other is':19} {'ratio':>7}  {'all ratios':13} limit"


@dataclass(frozen=True)
class Limit:
    """How large a median ratio may be, or how small; with neither it is only shown."""

    measure: str
    most: float | None = None
    least: float | None = None
    aim: float | None = None

    @property
    def judges(self) -> bool:
        return self.most is not None or self.least is not None

    def holds(self, ratio: float) -> bool:
        too_large = self.most is not None and ratio > self.most
        too_small = self.least is not None and ratio < self.least
        return not too_large and not too_small

    def __str__(self) -> str:
        if not self.judges:
            return ""
        text = f"<= {self.most:g}" if self.most is not None else f">= {self.least:g}"
        return f"{text}, aim {self.aim:g}" if self.aim is not None else text


@dataclass(frozen=True)
class Row:
    """One line of the table: a number of either side for every pair."""

    case: str
    against: str
    limit: Limit
    ours: list[float]
    other: list[float]

    @property
    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.ours, self.other, strict=True)]

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def passed(self) -> bool:
        return self.limit.holds(self.ratio)

    def to_dict(self) -> dict[str, Any]:
        found = {"ratios": self.ratios, "ratio": self.ratio, "passed": self.passed}
        return {**asdict(self), **found}

    def __str__(self) -> str:
        ours, other = statistics.median(self.ours), statistics.median(self.other)
        spread = f"{min(self.ratios):.2f}..{max(self.ratios):.2f}"
        verdict = ("PASS" if self.passed else "FAIL") if self.limit.judges else ""
        return (
            f"{self.case:26} {self.limit.measure:14} {ours:11.5g} {other:11.5g}  "
            f"{self.against:19} {self.ratio:7.2f}  {spread:13} {self.limit!s:16} {verdict}"
        ).rstrip()
