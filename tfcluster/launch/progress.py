"""What a program says of its progress, line by line, as one object: the newest of everything."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Optional, Tuple

from tfcluster.launch.history import History
from tfcluster.launch.record import Moment

PHASE_KEYS = frozenset({"phase", "waits_for"})
PROBLEM, PROBLEM_OVER = "problem", "problem-over"  # kinds of events
LONGEST_PROBLEM = 300  # characters
SETTLED_RATE = 0.5  # seconds between two steps that a rate can be told from


class ProgressLog:
    """The progress of one task, over its attempts.

    A line that only names a phase ({"phase": "saving"}), and in it the tasks that are waited for
    ("waits_for": ["ps-0"]), leaves the rest as it was. Every other line takes the place of all
    before it, so that a step after a phase means that the phase is over.
    What an attempt says first takes the place of what the one before it said.
    """

    def __init__(
        self,
        progress: Optional[Dict[str, Any]] = None,
        progressed: Optional[float] = None,
        moments: Iterable[Moment] = (),
    ):
        self.progress = progress
        self.progressed = progressed  # when the last step came
        self.changed = progressed  # when the last step came, or the last phase began
        self.attempt: Optional[int] = None
        self.first: Optional[Tuple[float, float]] = None  # the attempt's first step, and when
        self.history = History(moments)

    def take(self, said: Dict[str, Any], attempt: int, now: float) -> None:
        before = self.progress or {}
        if self.attempt is not None and attempt != self.attempt:
            before, self.first, self.progressed = {}, None, None
        self.attempt = attempt
        if "phase" in said and said.keys() <= PHASE_KEYS:
            rest = {key: value for key, value in before.items() if key not in PHASE_KEYS}
            if said.get("phase") != before.get("phase"):
                self.changed = now
            self.progress = {**rest, **said}
            self.history.enter(phase_in(self.progress), attempt, now)
            return
        # A step that is said again is no progress.
        if self.progressed is None or said.get("step") != before.get("step"):
            self.progressed = self.changed = now
        self.progress = self.with_rate(said, now)
        self.history.enter(phase_in(said), attempt, now)

    def with_rate(self, said: Dict[str, Any], now: float) -> Dict[str, Any]:
        """The same with the steps per second so far, where a program counts steps but not time."""
        step = said.get("step")
        if "rate" in said or isinstance(step, bool) or not isinstance(step, (int, float)):
            return said
        if self.first is None or step < self.first[0]:
            self.first = (step, now)
        elapsed = now - self.first[1]
        if elapsed < SETTLED_RATE or step == self.first[0]:
            return said
        return {**said, "rate": round((step - self.first[0]) / elapsed, 3)}


def phase_in(progress: Dict[str, Any]) -> str:
    """What a program is at: as it says, or training if it counts steps."""
    said = progress.get("phase")
    return str(said) if said else "training" if progress.get("step") is not None else ""


def problem_in(progress: Optional[Dict[str, Any]]) -> str:
    """What a program says to be wrong although it goes on."""
    said = (progress or {}).get("problem")
    return said[:LONGEST_PROBLEM] if isinstance(said, str) else ""
