"""The peers that a task waits for before its program starts, and what keeps them."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Set

from tfcluster.launch.edges import edges_of
from tfcluster.launch.plan import (
    LaunchPlan,
    control_address,
    program_address,
    split_task,
    tasks_of,
)
from tfcluster.launch.wire import ask, listens


class Peers:
    """Those whom one task needs. `table()` asks the hub who is there."""

    def __init__(
        self, plan: LaunchPlan, task: str, key: bytes, table: Callable[[], Dict[str, Any]]
    ):
        self.plan, self.task, self.key, self.table = plan, task, key, table
        self.role = split_task(plan, task)[0]

    @property
    def needs(self) -> List[str]:
        return self.plan["roles"][self.role].get("needs", [])

    def have_come(self, ready: Set[str]) -> bool:
        """Whether every needed launcher is there, whatever its program does."""
        return all(name in ready for name in self.needs)

    def missing(self, ready: Set[str], name_them: bool) -> Optional[List[str]]:
        """None if all are there; else their names, where they are wanted (it costs a question)."""
        absent = [name for name in self.needs if name not in ready]
        if absent:
            if not name_them:
                return []
            table = self.table()
            known = {*table["tasks"], *table["finals"]}
            wanted = [task for task in tasks_of(self.plan, absent) if task != self.task]
            return [task for task in wanted if task not in known] or wanted
        if self.plan.get("barrier") != "ports":
            return None
        deaf = [peer for peer, address in edges_of(self.plan, self.task) if listens(address)]
        return (deaf if name_them else []) if deaf else None

    def explain(self, peer: str) -> str:
        """A peer that we wait for: where it should be, and what happens there instead."""
        address = control_address(self.plan, peer)
        error: Optional[str] = None
        try:
            ask(address, self.key, peer, {"ask": "state"})
        except (OSError, ValueError) as found:
            error = getattr(found, "strerror", None) or str(found)
        if error is None:
            address = program_address(self.plan, peer)
            error = listens(address) or "it has just come"
        return f"{peer} at {address[0]}:{address[1]}: {error}"
