"""Who is there: the books that a launcher keeps of the tasks below it, and the hub of all."""

from __future__ import annotations

from typing import Dict, List, Optional, Set

SILENT_AFTER = 15.0  # when the hub says of a task that it does not answer


class Presence:
    """Which tasks have been there, which are, and since when the others are not."""

    def __init__(
        self, rank: int, roles: Dict[str, List[int]], role_of: Optional[Dict[int, str]], now: float
    ):
        self.rank = rank
        self.size = sum(len(ranks) for ranks in roles.values())
        self.role_of = role_of or {r: name for name, ranks in roles.items() for r in ranks}
        self.unseen = {name: len(ranks) for name, ranks in roles.items()}
        self.seen: Set[int] = set()
        self.counts: Dict[int, int] = {rank: 1}  # how many neighbours speak for a task
        self.absent: Dict[int, float] = {}  # tasks that were there and are not, since when
        self.silent: Dict[int, float] = {}  # those of them that are worth a word
        self.aware: Set[int] = set()  # tasks that have gone and knew the verdict
        self.last_required = now
        self.see(rank)

    def see(self, rank: int) -> None:
        """This task has been there."""
        if rank not in self.seen:
            self.seen.add(rank)
            self.unseen[self.role_of[rank]] -= 1

    def complete_roles(self) -> Set[str]:
        """The roles of which every task has been there."""
        return {name for name, count in self.unseen.items() if count == 0}

    def arrive(self, rank: int) -> bool:
        """One more neighbour speaks for the task; whether it was thought to be silent."""
        self.counts[rank] = self.counts.get(rank, 0) + 1
        self.absent.pop(rank, None)
        self.see(rank)
        return self.silent.pop(rank, None) is not None

    def depart(self, rank: int, now: float, finished: bool) -> bool:
        """One neighbour less speaks for the task; whether none is left."""
        count = self.counts.get(rank, 0) - 1
        if count > 0:
            self.counts[rank] = count
            return False
        self.counts.pop(rank, None)
        if not finished:
            self.absent.setdefault(rank, now)
        return True

    def finish(self, rank: int) -> bool:
        """The task has succeeded and may go; whether it was thought to be silent."""
        self.see(rank)
        self.absent.pop(rank, None)
        return self.silent.pop(rank, None) is not None

    def become_hub(self, now: float) -> None:
        self.last_required = now
        for rank in self.seen:
            if rank not in self.counts:
                self.absent.setdefault(rank, now)

    def watch(self, now: float, finals: Set[int], required: Set[int]) -> bool:
        """Look at the clock as the hub; whether more tasks are silent now."""
        late = [
            rank
            for rank, since in self.absent.items()
            if now - since > SILENT_AFTER and rank not in self.silent and rank not in finals
        ]
        for rank in late:
            self.silent[rank] = self.absent[rank]
        open_ranks = required - finals - {self.rank}
        if not open_ranks or any(rank in self.counts for rank in open_ranks):
            self.last_required = now
        return bool(late)

    def unaware(self, finals: Set[int]) -> bool:
        """Whether tasks may still come, or come back, that do not know the verdict."""
        known = finals | self.aware | set(self.counts)
        return any(rank not in known for rank in range(self.size))
