"""What a diagnosis says: one cause, its evidence, what followed from it, what to do next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

NOTHING = "nothing-wrong"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Verdict:
    """Why a job failed or stands still. `certain` is False where the evidence allows for more."""

    kind: str
    sentence: str
    task: str | None = None
    where: str = ""  # in the person's own code: train.py:12 in main
    time: float | None = None
    evidence: tuple[str, ...] = ()
    followed: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    certain: bool = True

    @property
    def summary(self) -> str:
        """The cause on one line, with the place in the person's own code."""
        place = f" ({self.where})" if self.where and self.where not in self.sentence else ""
        return f"{self.sentence}{place}{'' if self.certain else ' (not certain)'}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def fold(entries: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """(task, words) as lines, tasks of which the same is true on one: `worker-0, worker-2: …`."""
    grouped: dict[str, list[str]] = {}
    for task, words in entries:
        grouped.setdefault(words, []).append(task)
    lines = []
    for words, tasks in grouped.items():
        names = ", ".join(tasks[:4]) + (f" and {len(tasks) - 4} more" if len(tasks) > 4 else "")
        lines.append(f"{names}: {words}")
    return tuple(lines)
