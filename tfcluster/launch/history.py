"""What a task was at and when, short enough to be kept in its record."""

from __future__ import annotations

import json
import threading
from typing import Any, Iterable, List, Mapping, Optional, Tuple

from tfcluster.launch.exits import RESTARTING, STALLED, WAITING
from tfcluster.launch.record import ENDED, Moment

MOST_MOMENTS = 120
LONGEST_WORD = 64  # characters of a phase that are kept
OVER = "ended"


class History:
    """The moments of one task, over its attempts, in order of time. Any thread may add one.

    When there are too many, the shortest stretch is given to the one before it, so that what took
    long is still there.
    """

    def __init__(self, moments: Iterable[Moment] = ()):
        self.moments: List[Moment] = list(moments)[-MOST_MOMENTS:]
        self.lock = threading.Lock()

    def become(self, record: Mapping[str, Any], now: float, since: Optional[float] = None) -> None:
        """The launcher, or who watches it, says that the task is in another state, `since` when."""
        state, peer = state_in(record)
        phase, when = "", since
        with self.lock:
            last: Moment = self.moments[-1] if self.moments else {}
            # Where a task has several pods, each launcher counts its own attempts.
            attempt = max(record.get("attempt") or 0, last.get("attempt", 0))
            if (state, peer, attempt) == (last.get("state"), last.get("peer"), last.get("attempt")):
                return
            if state == OVER:
                when = record.get("ended")
            elif state == STALLED:
                when = (record.get("doing") or {}).get("stalled")
            elif state == "running" and last.get("state") == STALLED:
                phase, when = self.moments[-2].get("phase", "") if self.moments[1:] else "", now
            moment: Moment = {"time": when or now, "attempt": attempt, "state": state}
            self.add(moment, peer=peer, phase=phase)

    def enter(self, phase: str, attempt: int, now: float) -> None:
        """The program says what it is at; nothing means that it does not say so any more.

        A log that is read late may tell it after the end of the task is known: `now` counts.
        """
        moment: Moment = {"time": now, "attempt": attempt, "state": "running"}
        with self.lock:
            place = len(self.moments)
            while place and self.moments[place - 1]["time"] > now:
                place -= 1
            self.add(moment, place, phase=phase[:LONGEST_WORD])

    def add(
        self,
        moment: Moment,
        place: Optional[int] = None,
        *,
        peer: Optional[str] = None,
        phase: str = "",
    ) -> None:
        """Put it at its place, by default behind all others, unless it says nothing new there."""
        if peer:
            moment["peer"] = peer
        if phase:
            moment["phase"] = phase
        place = len(self.moments) if place is None else place
        if place:
            last = self.moments[place - 1]
            if without_time(last) == without_time(moment):
                return
            moment["time"] = max(moment["time"], last["time"])
        self.moments.insert(place, moment)
        if len(self.moments) > MOST_MOMENTS:
            self.thin()

    def thin(self) -> None:
        """Forget the shortest stretch but the first and the last."""
        lengths = [
            (after["time"] - one["time"], number)
            for number, (one, after) in enumerate(zip(self.moments, self.moments[1:]))
        ]
        number = min(lengths[1:])[1]
        del self.moments[number]
        if without_time(self.moments[number - 1]) == without_time(self.moments[number]):
            del self.moments[number]

    def copy(self) -> List[Moment]:
        with self.lock:
            return list(self.moments)


def state_in(record: Mapping[str, Any]) -> Tuple[str, Optional[str]]:
    """What a record says that the task is at, and for whom it waits."""
    state, kind, doing = record.get("state"), record.get("kind"), record.get("doing") or {}
    if state in ENDED:
        return OVER, None
    if kind == WAITING:
        return "waiting", next(iter(doing.get("waitsFor") or ()), None)
    if kind == RESTARTING:
        return "restarting", None
    if state == "running" and (doing.get("stalled") or doing.get("stopped")):
        return STALLED, None
    return str(state), None


def without_time(moment: Moment) -> Tuple[Any, ...]:
    return tuple(moment.get(key) for key in ("attempt", "state", "phase", "peer"))


def is_moment(value: Any) -> bool:
    """Whether this is a moment, whoever has written it."""
    if not isinstance(value, dict) or type(value.get("time")) not in (int, float):
        return False
    words = (value.get("state", 0), value.get("phase", ""), value.get("peer", ""))
    return type(value.get("attempt")) is int and all(isinstance(word, str) for word in words)


def kept_moments(path: Optional[str]) -> List[Moment]:
    """What an earlier launcher of this task has written down, if anything."""
    try:
        with open(path or "", "rb") as file:
            found = json.load(file).get("history") or []
        return [moment for moment in found if is_moment(moment)]
    except (OSError, ValueError, AttributeError, TypeError):
        return []
