"""The search for a parent: whom to try, how long, and when to give up and be the hub."""

from __future__ import annotations

from typing import List, Optional, Set

from tfcluster.launch.ranks import candidates

FIRST_PATIENCE = 3.0  # how long one candidate is tried at the start, when others may be starting
PATIENCE = 1.0  # and later
FIRST_RETRY, LAST_RETRY = 0.1, 1.0
UNKNOWN_RETRY = 2.0
MOST_LEFT = 32  # candidates of one round, hints included
PROBE_EVERY = 3.0  # a hub of higher rank asks so often whether one of lower rank is back
MOST_PROBE = 15.0


class Search:
    """Goes through the candidates, round by round, for as long as a task has no parent."""

    def __init__(self, rank: int, now: float):
        self.rank = rank
        self.round = 0
        self.left: List[int] = []
        self.trying: Optional[int] = None
        self.connecting = False
        self.found_once = False  # whether there has been a parent, or a first round without one
        self.try_until = self.retry_at = now
        self.retry_pause = FIRST_RETRY
        self.probe_pause = PROBE_EVERY

    def begin(self, now: float, first: Optional[int]) -> None:
        """Search again, from `first` on: a parent that was lost may just have been replaced."""
        self.left, self.round = [], 0
        self.try_one(first, now)

    def skip(self, now: float, lost: Optional[int], gone: Set[int]) -> None:
        """Go on at once with others than a parent that said that it leaves."""
        self.left = [rank for rank in candidates(self.rank, 0, gone) if rank != lost]
        self.round = 1
        self.go_on(now)

    def follow(self, now: float, hints: List[int]) -> None:
        """Go on with those whom a parent without room has named, then with the rest."""
        self.left = (hints + [rank for rank in self.left if rank not in hints])[:MOST_LEFT]
        self.round = min(self.round, 1)  # one of lower rank lives, so the search is not in vain
        self.go_on(now)
        if not self.left:
            self.retry_at = now + LAST_RETRY

    def go_on(self, now: float) -> None:
        self.trying, self.retry_at = None, now

    def try_one(self, rank: Optional[int], now: float) -> None:
        self.trying = rank
        self.retry_at, self.retry_pause = now, FIRST_RETRY
        self.try_until = now + (PATIENCE if self.found_once else FIRST_PATIENCE)

    def refused(self, rank: int, now: float, unknown: bool) -> None:
        """`unknown`: its name is not known yet; asking name servers often would be a storm."""
        self.connecting = False
        if rank == self.trying:
            self.retry_at = now + (UNKNOWN_RETRY if unknown else self.retry_pause)
            self.retry_pause = min(self.retry_pause * 2, LAST_RETRY)

    def succeeded(self) -> None:
        self.connecting = False
        self.trying = None

    def next_rank(self, now: float, gone: Set[int]) -> Optional[int]:
        """Whom to connect to now, if anyone."""
        if self.trying is not None and (now > self.try_until or self.trying in gone):
            self.go_on(now)
        if self.trying is None and now >= self.retry_at:
            if not self.left:
                self.next_round(now, gone)
            if self.left and now >= self.retry_at:
                self.try_one(self.left.pop(0), now)
        if self.trying is None or now < self.retry_at:
            return None
        self.connecting = True
        return self.trying

    def next_round(self, now: float, gone: Set[int]) -> None:
        """All candidates of a round were tried in vain, or none was yet."""
        if self.round:
            self.found_once = True
            self.retry_at = now + self.probe_pause
            self.probe_pause = min(self.probe_pause * 1.5, MOST_PROBE)
        self.left = candidates(self.rank, self.round, gone)
        self.round += 1
        if not self.left:
            self.round += 1
            self.retry_at = now + MOST_PROBE

    @property
    def in_vain(self) -> bool:
        """Whether a whole round has found no one."""
        return self.round > 1
