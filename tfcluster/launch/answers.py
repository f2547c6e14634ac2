"""What a launcher answers to commands and keepers that ask, and does when they tell it to."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List, Tuple

from tfcluster.launch.member import Member
from tfcluster.launch.messages import check_cause
from tfcluster.launch.proof import Session
from tfcluster.launch.wire import Stream

HUB_SECONDS = 1.0  # by then the hub has answered a question, or we do


def with_names(table: Dict[str, Any], run: str, names: List[str]) -> Dict[str, Any]:
    """The hub's table with the names of tasks instead of their ranks."""
    finals = {rank for first, last in table["finals"] for rank in range(first, last + 1)}
    return {
        "run": run,
        "hub": names[table["hub"]],
        "tasks": {names[int(rank)]: doing for rank, doing in table["tasks"].items()},
        "finals": [names[rank] for rank in sorted(finals)],
        "silent": {names[int(rank)]: since for rank, since in table["silent"].items()},
        "verdict": table["verdict"],
    }


class Answers:
    """One launcher's answers. `describe()` is its own record."""

    def __init__(
        self,
        run: str,
        names: List[str],
        member: Member,
        hear: Callable[[str, Any], None],
        describe: Callable[[], Dict[str, Any]],
    ):
        self.run, self.names, self.member = run, names, member
        self.ranks = {name: rank for rank, name in enumerate(names)}
        self.hear, self.describe = hear, describe
        self.waiting: List[Tuple[float, Callable[[Dict[str, Any]], None]]] = []

    def answer(self, stream: Stream, session: Session, message: Dict[str, Any]) -> None:
        """One question of a command or a keeper; ValueError if it makes no sense."""
        now, told = time.monotonic(), message.get("tell")
        if message.get("ask") == "job":
            self.ask_hub(stream, session, now)
            return
        if told == "restart":
            self.hear("restart", None)
        elif told == "failed":
            self.member.fail(now, check_cause(message.get("cause")))
        elif told == "finished":
            tasks = message.get("tasks")
            if not isinstance(tasks, list) or not all(name in self.ranks for name in tasks):
                raise ValueError("unknown tasks")
            self.member.learn_finals(now, {self.ranks[name] for name in tasks})
        elif told is not None or message.get("ask") != "state":
            stream.write(session.seal({"error": "this launcher does not know that message"}))
            return
        stream.write(session.seal(self.describe()))

    def ask_hub(self, stream: Stream, session: Session, now: float) -> None:
        """What every task is doing: the hub's answer, or our own while the hub is silent."""
        answered: List[bool] = []

        def reply(table: Dict[str, Any]) -> None:
            if stream.open and not answered:
                answered.append(True)
                stream.write(session.seal(with_names(table, self.run, self.names)))

        self.waiting.append((now + HUB_SECONDS, reply))
        self.member.query(reply)

    def look_at_clock(self, now: float) -> None:
        """Answer for a hub that has not."""
        late = [reply for until, reply in self.waiting if now > until]
        self.waiting = [entry for entry in self.waiting if now <= entry[0]]
        for reply in late:
            reply(self.member.table())
