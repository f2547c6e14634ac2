"""The ways between programs: which a task needs, and whether they can be gone.

Each watch runs in a thread of its own until it knows, and says what it found with `found`.
"""

from __future__ import annotations

import time
from typing import Callable, List, Tuple

from tfcluster.launch.exits import EXIT_NOT_STARTED, NOT_LISTENING, UNREACHABLE, Stop
from tfcluster.launch.plan import LaunchPlan, program_address, split_task
from tfcluster.launch.program import Program
from tfcluster.launch.wire import listens


def edges_of(plan: LaunchPlan, task: str) -> List[Tuple[str, Tuple[str, int]]]:
    """The programs that this task's program talks to, and where.

    Where all tasks of a role talk to all, each proves the way to its neighbour, so that the work of
    a task does not grow with their number.
    """
    role, index = split_task(plan, task)
    found = []
    for name in plan["roles"][role].get("needs", []):
        count = plan["roles"][name]["replicas"]
        if name == role:
            indexes = [(index + 1) % count] if count > 1 else []
        else:
            indexes = list(range(count))
        found += [f"{name}-{number}" for number in indexes]
    return [(peer, program_address(plan, peer)) for peer in found]


def edge_patience(plan: LaunchPlan) -> float:
    """How long others wait for a program to listen: the program's own task reports it first."""
    return plan["start_timeout"] * 1.25 + 2


def watch_edges(
    plan: LaunchPlan, task: str, is_over: Callable[[], bool], found: Callable[[Stop], None]
) -> None:
    """Notice that the port of a program that ours needs cannot be reached from here."""
    deadline = time.monotonic() + edge_patience(plan)
    edges = edges_of(plan, task)
    pause = 0.5
    while edges and not is_over():
        time.sleep(pause)
        pause = min(pause * 1.5, 3.0)
        errors = [(peer, address, listens(address)) for peer, address in edges]
        edges = [(peer, address) for peer, address, error in errors if error]
        if edges and time.monotonic() > deadline:
            peer, (host, port), error = next(entry for entry in errors if entry[2])
            reason = f"{task} cannot reach {peer} at {host}:{port}: {error}"
            found(Stop("failed", EXIT_NOT_STARTED, UNREACHABLE, reason, peer))
            return


def watch_own_port(
    plan: LaunchPlan,
    task: str,
    program: Program,
    is_over: Callable[[], bool],
    listening: Callable[[], None],
    found: Callable[[Stop], None],
) -> None:
    """A program that others need must listen by start_timeout, or its task fails."""
    own, timeout = program_address(plan, task), plan["start_timeout"]
    deadline = time.monotonic() + timeout
    while program.running and not is_over():
        error = listens(own) and listens(("127.0.0.1", own[1]))
        if error is None:
            listening()
            return
        if time.monotonic() > deadline:
            reason = f"nothing listens on port {own[1]} after {timeout:g} s: {error}"
            found(Stop("failed", EXIT_NOT_STARTED, NOT_LISTENING, reason))
            return
        time.sleep(0.1)
