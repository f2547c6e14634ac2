"""Tasks that stand still: who is to blame, and what the plan wants done about it.

Only what is known for sure counts: a program that was stopped (SIGSTOP, `docker pause`), one whose
launcher does not answer, and one that has reported progress and does so no more. A program that
never reports progress is never said to stand still.
"""

from __future__ import annotations

import math
import time
from typing import Any, Collection, List, Mapping, NamedTuple, Optional, Set, Tuple

from tfcluster.launch.plan import StallRule
from tfcluster.launch.progress import ProgressLog

# What is done about a stall.
REPORT, RESTART, FAIL = "report", "restart", "fail"
# In these phases a program is expected to make steps; in any other one it says what it does.
STEPPING = (None, "", "training")
NAMED_WAITING = 4  # tasks that a message names
WORTH_A_WORD = 20.0  # seconds without progress
ASK_EVERY = 5.0  # seconds between two questions to the hub


class Stall(NamedTuple):
    """The task that keeps the others waiting, and since when."""

    task: str
    since: float
    stopped: bool  # whether its program was stopped; else it makes no progress
    waiting: Tuple[str, ...]  # the tasks that wait for it, as far as can be seen

    def words(self, now: float) -> str:
        """In one sentence, without the task's own name."""
        length = f"{now - self.since:.0f} s"
        what = f"no progress for {length}"
        if self.stopped:
            what = f"its program was stopped (SIGSTOP) {length} ago"
        names, left = ", ".join(self.waiting[:NAMED_WAITING]), len(self.waiting) - NAMED_WAITING
        more = f" and {left} more" if left > 0 else ""
        verb = "waits" if len(self.waiting) == 1 else "wait"
        return f"{what}; {names}{more} {verb} for it" if names else what


def still_since(log: ProgressLog, attempt: int, now: float, patience: float) -> Optional[float]:
    """Since when a program that has made steps in this attempt makes none, and does nothing else.

    None while that is no news.
    """
    if log.attempt != attempt or log.progressed is None or log.changed is None:
        return None
    progress = log.progress or {}
    busy = progress.get("phase") not in STEPPING and not waits_for(log)
    return None if busy or now - log.changed <= patience else log.changed


def waits_for(log: ProgressLog) -> List[str]:
    """The tasks that a program says it waits for."""
    named = (log.progress or {}).get("waits_for")
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def find_stall(
    tasks: Mapping[str, Mapping[str, Any]], silent: Collection[str], timeout: float, now: float
) -> Optional[Stall]:
    """Who is to blame, from what every task is doing; None while no task is for sure."""
    doing = {task: at for task, at in tasks.items() if not at.get("ended")}
    stopped = {task: at["stopped"] for task, at in doing.items() if at.get("stopped")}
    still = {task: at["stalled"] for task, at in doing.items() if at.get("stalled")}
    if stopped:
        first = min(stopped, key=lambda task: (stopped[task], task))
        waiting = tuple(sorted(set(still) - set(stopped)))
        late = now - stopped[first] > timeout
        return Stall(first, stopped[first], True, waiting) if late else None
    late_ones = [task for task, since in still.items() if now - since > timeout]
    if silent or not late_ones:
        return None  # the others wait for whoever does not answer
    first = follow_waits(min(late_ones, key=lambda task: (still[task], task)), doing)
    if first not in late_ones:
        return None  # it makes progress, or has not begun to
    return Stall(first, still[first], False, tuple(sorted(set(still) - {first})))


def follow_waits(task: str, doing: Mapping[str, Mapping[str, Any]]) -> str:
    """The task at the end of a chain of tasks that wait for each other."""
    passed = {task}
    while True:
        peers = [peer for peer in doing[task].get("waitsFor", ()) if peer in doing]
        if not peers or peers[0] in passed:
            return task
        task = peers[0]
        passed.add(task)


class StallWatch:
    """One task's look at its own program: what stands still, and whether that was told."""

    def __init__(self, rule: Optional[StallRule]):
        self.rule = rule
        self.told = False  # whether it was said that our program stands still
        self.asked = 0.0  # when the hub was asked last
        self.late: Set[str] = set()  # silent tasks that something was done about

    @property
    def timeout(self) -> float:
        return self.rule["timeout"] if self.rule else math.inf

    @property
    def action(self) -> str:
        return self.rule["action"] if self.rule else REPORT

    @property
    def patience(self) -> float:
        """After how long a program without progress is worth a word."""
        return min(WORTH_A_WORD, self.timeout)

    def own(self, doing: Mapping[str, Any], now: float) -> bool:
        """Whether our own program stands still for so long that it may be to blame."""
        since = doing.get("stopped") or doing.get("stalled")
        return since is not None and now - since > self.timeout

    def may_ask(self) -> bool:
        """Whether to ask the hub again: it costs a question."""
        due = time.monotonic() - self.asked > ASK_EVERY
        if due:
            self.asked = time.monotonic()
        return due

    def silent_for_long(self, silent: Mapping[str, float], now: float) -> List[str]:
        """Tasks that have not answered for too long, each of them once."""
        late = [task for task, since in silent.items() if now - since > self.timeout]
        new = [task for task in late if task not in self.late]
        self.late = set(late)
        return new
