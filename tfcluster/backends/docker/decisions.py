"""What follows from what was seen of a task whose container does not run: a table, as a function.

The container's exit code decides. It is the launcher's own last word unless the launcher was
killed, so a program that has ended is never started again, however little of its log was read.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from enum import Enum

ENGINE_CODES = frozenset({125, 126, 127})  # the launcher could not be started


class Container(Enum):
    """What has become of a container that does not run."""

    ENDED = "ended"
    NEVER_RAN = "never ran"
    GONE = "gone"


class Step(Enum):
    """What to do about it."""

    WAIT = "wait"  # more will be known soon
    PUBLISH = "publish"  # the launcher's last report is how the task ended
    CONCLUDE = "conclude"  # the exit code is how the task ended
    REPLACE = "replace"  # another container, and a failure more
    BRING_BACK = "bring back"  # another container; the task is not to blame
    FAIL = "fail"  # the container was killed, and that was the last time


@dataclass(frozen=True)
class Seen:
    """One task: its container, its launcher's last words, and how often it may still fail."""

    container: Container
    exit_code: int | None = None  # None if the container was gone before it was known
    announced: str = ""  # the final state that the launcher has reported
    stopped: bool = False  # and that it was a signal from outside
    spoke: bool = True  # whether the launcher has ever reported anything
    engine_restarted: bool = False
    waited: bool = False  # long enough to see an engine go away that was shutting down
    failures: int = 0
    restarts: int = 0
    restart_on: tuple[int, ...] | None = None

    @property
    def code(self) -> int:
        return 137 if self.exit_code is None else self.exit_code


def is_killed(code: int | None) -> bool:
    """Whether an exit code says that the launcher had no last word of its own."""
    return code is None or code > 128 or code in ENGINE_CODES


def decide(seen: Seen) -> Step:
    if seen.container is Container.NEVER_RAN:
        return Step.BRING_BACK
    if not is_killed(seen.exit_code):
        agrees = (seen.announced == "succeeded") == (seen.exit_code == 0)
        return Step.PUBLISH if seen.announced and agrees else Step.CONCLUDE
    if seen.stopped and not seen.engine_restarted and not seen.waited:
        return Step.WAIT
    if seen.announced and not seen.stopped:
        return Step.PUBLISH
    if seen.engine_restarted:
        return Step.BRING_BACK
    allowed = seen.restart_on is None or seen.code in seen.restart_on
    # A launcher that never spoke will not do better the next time.
    again = seen.spoke and allowed and seen.failures < seen.restarts
    return Step.REPLACE if again else Step.FAIL


def words_of(seen: Seen, ending: str) -> str:
    """Why a container ended whose launcher did not mean to; `ending` is how the engine saw it."""
    if not seen.stopped:
        return ending
    name = signal.Signals(seen.code - 128).name if 128 < seen.code < 160 else "a signal"
    return f"its launcher was told to stop by {name}, and not by tfcluster"
