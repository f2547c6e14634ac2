"""What launchers know for sure of their job. Facts only grow, so any order of merging will do."""

from __future__ import annotations

from typing import Optional, Set

from tfcluster.launch.messages import Message, is_better, is_earlier

SETTLE = 0.3  # how long the hub waits for an earlier cause than the first it hears of


class Facts:
    """Tasks that have succeeded, roles that are complete, the earliest cause, the verdict."""

    def __init__(self, required: Set[int]):
        self.required = required
        self.finals: Set[int] = set()
        self.confirmed: Set[int] = set()  # of these the hub has said that it knows
        self.ready: Set[str] = set()
        self.cause: Optional[Message] = None
        self.cause_since: Optional[float] = None
        self.verdict: Optional[Message] = None
        self.verdict_shared = False  # whether another task knows it

    def add_finals(self, ranks: Set[int]) -> Set[int]:
        """Take these in; those that are new."""
        new = ranks - self.finals
        self.finals |= new
        return new

    def add_ready(self, names: Set[str]) -> Set[str]:
        new = names - self.ready
        self.ready |= new
        return new

    def add_cause(self, cause: Message, now: float) -> bool:
        """Take it in if it is the earliest, and nothing is decided yet."""
        if self.verdict is not None or not is_earlier(cause, self.cause):
            return False
        self.cause = cause
        self.cause_since = self.cause_since or now
        return True

    def add_verdict(self, verdict: Message) -> bool:
        known = self.verdict
        if known is not None and (known == verdict or not is_better(verdict, known)):
            return False
        self.verdict = verdict
        self.cause = verdict.get("cause") or self.cause
        return True

    def decide(self, now: float) -> Optional[Message]:
        """The verdict that the facts allow, if they do and there is none yet."""
        if self.verdict is not None:
            return None
        if self.required <= self.finals:
            return {"state": "succeeded", "cause": None}
        if self.cause is None:
            return None
        self.cause_since = self.cause_since or now
        settled = now - self.cause_since >= SETTLE
        return {"state": "failed", "cause": self.cause} if settled else None
