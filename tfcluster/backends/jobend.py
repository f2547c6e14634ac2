"""How a job ends, read off the records of its tasks: what a keeper may say, and carry out.

Launchers end a job among themselves. A keeper knows more in two cases: a task's launcher was killed
before it could say how its task ended, and a launcher does not answer although the job is over.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tfcluster.launch import exits
from tfcluster.launch.record import ENDED, Cause, TaskRecord, given_up

SPEAK_AFTER = 2.0  # seconds that launchers have to tell each other
OVERDUE = 25.0  # seconds after which a launcher that has not ended its task never will


@dataclass(frozen=True)
class Ends:
    """Which tasks have succeeded, what failed first, and whether that decides about the job."""

    succeeded: tuple[str, ...]
    cause: Cause | None
    decided: bool

    def messages(self) -> list[dict[str, Any]]:
        """What to tell a launcher, so that all of them know."""
        found: list[dict[str, Any]] = []
        if self.succeeded:
            found.append({"tell": "finished", "tasks": list(self.succeeded)})
        if self.cause is not None:
            found.append({"tell": "failed", "cause": self.cause})
        return found

    def rule_for(self, task: str) -> TaskRecord:
        """How a task ends whose launcher does not carry out the rule itself."""
        words = "its launcher did not answer and was ended"
        now = time.time()
        if self.cause is None:
            return {
                "task": task,
                "state": "succeeded",
                "kind": exits.JOB_DONE,
                "exitCode": 0,
                "reason": f"the job is done; {words}",
                "ended": now,
                "cause": None,
            }
        if task == self.cause["task"]:  # others have said that it failed
            return {
                "task": task,
                "state": "failed",
                "kind": self.cause["kind"],
                "exitCode": self.cause["exitCode"],
                "reason": self.cause["reason"],
                "ended": now,
                "cause": self.cause,
            }
        first = f"{self.cause['task']} failed ({self.cause['reason']})"
        return {
            "task": task,
            "state": "stopped",
            "kind": exits.PEER_FAILED,
            "exitCode": exits.EXIT_PEER_FAILED,
            "reason": f"stopped because {first}; {words}",
            "ended": now,
            "cause": self.cause,
        }


def ends_of(records: Mapping[str, TaskRecord], required: Iterable[str]) -> Ends:
    """What the records of all tasks say about the end of their job."""
    succeeded = tuple(
        task
        for task, record in records.items()
        if record.get("state") == "succeeded" and record.get("kind") != exits.JOB_DONE
    )
    # One that was stopped carries the cause of which it was told.
    causes = [
        cause
        for record in records.values()
        if record.get("state") in ("failed", "stopped") and (cause := record.get("cause"))
    ]
    cause = min(causes, key=lambda found: found["time"]) if causes else None
    without = {
        name
        for record in records.values()
        if record.get("state") == "succeeded"
        for name in given_up(record.get("result"))
    }
    done = all(
        task in without or records.get(task, {}).get("state") == "succeeded" for task in required
    )
    return Ends(succeeded, cause, decided=done or cause is not None)


@dataclass(frozen=True)
class Duty:
    """What a keeper has to do now."""

    ends: Ends
    tell: tuple[str, ...] = ()  # launchers to tell how tasks ended; one that hears it is enough
    brief: tuple[str, ...] = ()  # launchers in the place of others, each to be told
    end: tuple[str, ...] = ()  # tasks whose launchers do not carry out the rule


class JobWatch:
    """Remembers since when things are as they are, and says what follows from it."""

    def __init__(self, required: Iterable[str], stop_grace: float):
        self.required = tuple(required)
        self.overdue = OVERDUE + stop_grace
        self.decided: float | None = None  # since when it is clear how the job ends
        self.told: float | None = None
        self.replaced: dict[str, float] = {}

    def note_replaced(self, task: str, now: float) -> None:
        """Another launcher runs this task: it may not know what the one before knew."""
        self.replaced[task] = now

    def look(self, records: Mapping[str, TaskRecord], now: float) -> Duty:
        """What has to be done, from what is known of all tasks."""
        ends = ends_of(records, self.required)
        open_tasks = tuple(t for t, record in records.items() if record.get("state") not in ENDED)
        brief = tuple(task for task, at in self.replaced.items() if now - at > SPEAK_AFTER)
        for task in brief:
            del self.replaced[task]
        if not ends.decided or not open_tasks:
            self.decided = self.told = None
            return Duty(ends, brief=brief)
        if self.decided is None:
            self.decided = now
        waited = now - max(self.decided, self.told or self.decided)
        tell = open_tasks if waited > SPEAK_AFTER else ()
        if tell:
            self.told = now
        end = open_tasks if now - self.decided > self.overdue else ()
        return Duty(ends, tell, brief, end)
