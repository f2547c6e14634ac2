"""A task's part in the control plane: finds its hub, passes news on, decides how the job ends.

Pure protocol. It talks through `Links` and reads time from what it is given, so that the same code
runs over sockets (control.py) and over a simulation of ten thousand tasks (tests/simulation).

What travels, and what it promises:
- Facts only grow: tasks that have succeeded, roles of which every task has been there, the earliest
  failure, the verdict. They are merged, so that it does not matter who hears what first, or twice.
- Upwards: facts, and of each task in the subtree what it is doing, as changes.
- Downwards: facts, as changes; those that can wait are gathered for a moment.
- The hub, which is whoever has no parent, gives the verdict: `succeeded` once every required task
  has, `failed` with the earliest cause. Everyone ends by the verdict, so that all agree.
- A task that has succeeded may go once its success came back from the hub. If the hub itself goes,
  its children know what it knew.
- Whatever the number of tasks, each has a bounded number of neighbours, and hears only of those
  that it speaks for; only the hub and its children know of all.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Set

from tfcluster.launch.exits import LINGER
from tfcluster.launch.facts import Facts
from tfcluster.launch.messages import (
    Message,
    check_cause,
    check_verdict,
    take_mapping,
    take_rank,
)
from tfcluster.launch.neighbours import Child, Gathering, Link, Links
from tfcluster.launch.presence import Presence
from tfcluster.launch.ranks import pack, unpack
from tfcluster.launch.tree import Tree


class Member(Tree):
    """One launcher among those of a run.

    `tell(kind, value)` says what its task has to know: ready, verdict, finished, silent, hub.
    """

    def __init__(
        self,
        rank: int,
        roles: Dict[str, List[int]],
        required: Set[int],
        links: Links,
        now: float,
        patience: float = 120.0,
        role_of: Optional[Dict[int, str]] = None,
        tell: Callable[[str, Any], None] = lambda kind, value: None,
    ):
        super().__init__(
            rank, links, Facts(required), Presence(rank, roles, role_of, now), now, tell
        )
        self.patience = patience  # how long news that no other task has heard is kept
        self.heard_of = False  # whether a hub has confirmed that our own task has succeeded
        self.doing: Message = {"state": "starting"}
        self.leaving_since: Optional[float] = None  # since when our own task has ended
        self.gathering = Gathering(now)

    # -- What this task says of itself

    def report(self, now: float, doing: Message) -> None:
        """What our own task is doing now, for the hub to know."""
        self.doing = doing
        self._note_task(self.rank, doing)
        self._flush_up(now)

    def learn_finals(self, now: float, ranks: Set[int]) -> None:
        """These tasks have succeeded: our own, or others as a keeper knows."""
        self._learn_finals(ranks, now)
        self._flush_up(now)

    def fail(self, now: float, cause: Message) -> None:
        """A task, ours or one that can no longer speak for itself, has failed for good."""
        self._learn_cause(cause, now)
        self._flush_up(now)

    def end(self, now: float) -> None:
        """Our task has ended; from now on we only stay for the sake of others."""
        self.leaving_since = now

    def may_leave(self, now: float) -> bool:
        """Whether no other task needs us any more, or we have waited long enough."""
        if self.leaving_since is None:
            return False
        unheard_of = self.search.found_once and not self.facts.verdict_shared
        longest = max(LINGER, self.patience) if unheard_of else min(LINGER, self.patience)
        if now - self.leaving_since > longest:
            return True
        if self.facts.verdict is None:
            if self.rank not in self.facts.finals or self._owes_word():
                return False
            if self.heard_of or self.parent is not None:
                return self.heard_of
            # The hub has finished first: its children know what it knows, and one takes over.
            return self.is_hub and bool(self.children) and self.gathering.is_quiet(now)
        if not self.children.all_know_verdict():
            return False
        return not self.is_hub or not self.presence.unaware(self.facts.finals)

    def _owes_word(self) -> bool:
        """Whether a task that we speak for has ended, and the hub has not confirmed that yet."""
        unconfirmed = self.facts.finals - self.facts.confirmed
        return any(rank in unconfirmed for rank in self.presence.counts)

    def leave(self) -> None:
        """Say goodbye, so that no one waits for us."""
        self.children.send({"t": "gone", "finals": pack(self.facts.finals)})
        if self.parent is not None:
            self.parent.link.send({"t": "bye"})

    def unheard(self, now: float) -> float:
        """For how long the hub has heard of no task whose success is still needed."""
        return now - self.presence.last_required if self.is_hub else 0.0

    # -- Questions

    def query(self, answer: Callable[[Message], None]) -> None:
        """What every task is doing: asked of the hub, answered by `answer`."""
        if self.parent is None:
            answer(self.table())
        else:
            self.questions.ask(self.parent, answer)

    def table(self) -> Message:
        """All tasks as the hub knows them, by rank."""
        silent = self.presence.silent
        return {
            "hub": self.rank,
            "tasks": {str(rank): doing for rank, doing in sorted(self._all_doing().items())},
            "finals": pack(self.facts.finals),
            "silent": {str(rank): since for rank, since in silent.items()},
            "verdict": self.facts.verdict,
        }

    def _all_doing(self) -> Dict[int, Message]:
        return {self.rank: self.doing, **self.children.doing()}

    # -- Connections: see Tree

    def _greeting(self) -> Message:
        """All that a new parent has to know of us and of those we speak for."""
        return {
            "t": "join",
            "ended": self.leaving_since is not None and not self.children,
            "finals": pack(self.facts.finals),
            "ready": sorted(self.facts.ready),
            "cause": self.facts.cause,
            "verdict": self.facts.verdict,
            "tasks": {str(rank): doing for rank, doing in self._all_doing().items()},
        }

    def _lose(self, child: Child, now: float) -> None:
        if child.knows_verdict:
            self.presence.aware.update(child.tasks)
        for rank in child.tasks:
            self._depart(rank, now)
        self._flush_up(now)

    # -- Messages

    def received(self, now: float, link: Link, message: Message) -> None:
        """Take in what a neighbour says; ValueError if it makes no sense."""
        if self.parent is not None and link is self.parent.link:
            self.parent.heard = now
            self._from_parent(now, message)
        elif link in self.children:
            self.children[link].heard = now
            self._from_child(now, link, self.children[link], message)

    def _from_parent(self, now: float, message: Message) -> None:
        kind = message.get("t")
        if kind == "news":
            self._step_down()
            self._take_facts(now, message, down=True)
            if message.get("verdict") is not None:
                self.facts.verdict_shared = True
            if self.facts.verdict is not None and self.parent is not None:
                self.parent.send(now, {"t": "known"})
        elif kind == "answer":
            self.questions.answered(message, self.children)
        elif kind == "gone":
            self._learn_finals(unpack(message.get("finals", []), self.presence.size), now)
            self._go_on(now)
        elif kind == "full":
            self._go_elsewhere(now, message.get("try", []))

    def _from_child(self, now: float, link: Link, child: Child, message: Message) -> None:
        kind = message.get("t")
        if kind == "join" and not message.get("ended") and not self.children.has_room(child):
            link.send(self.children.refusal(child.rank))
            self._drop(now, link)
        elif kind in ("join", "up"):
            child.stays = child.stays or (kind == "join" and not message.get("ended"))
            for text, doing in take_mapping(message.get("tasks", {})).items():
                self._take_doing(now, child, take_rank(text, self.presence.size), doing)
            self._take_facts(now, message, down=False)
            if kind == "join":
                link.send(self._facts_for(child))
                child.spoken = now
            self._flush_up(now)
        elif kind == "known":
            child.knows_verdict = self.facts.verdict_shared = True
        elif kind == "ask":
            number = str(message.get("id"))
            if self.parent is None:
                link.send({"t": "answer", "id": number, "table": self.table()})
            else:
                self.questions.pass_on(self.parent, number, link)
        elif kind == "bye":
            child.knows_verdict = True
            self._drop(now, link)

    def _take_doing(self, now: float, child: Child, rank: int, doing: Any) -> None:
        """What a child says of a task; None if it no longer speaks for it."""
        if doing is None:
            if child.tasks.pop(rank, None) is not None:
                self._depart(rank, now)
            return
        if rank not in child.tasks and self.presence.arrive(rank):
            self.tell("silent", dict(self.presence.silent))
        child.tasks[rank] = take_mapping(doing)
        self._note_task(rank, child.tasks[rank])

    def _depart(self, rank: int, now: float) -> None:
        none_left = self.presence.depart(rank, now, rank in self.facts.finals)
        if none_left and self.parent is not None:
            self.upward.tasks[rank] = None

    def _note_task(self, rank: int, doing: Message) -> None:
        if self.parent is not None:
            self.upward.tasks[rank] = doing

    def _facts_for(self, child: Child) -> Message:
        """The hub's children know all that it knows; further down it would only be a load."""
        known = self.facts.confirmed
        return {
            "t": "news",
            "finals": pack(known if self.is_hub else known.intersection(child.tasks)),
            "ready": sorted(self.facts.ready),
            "verdict": self.facts.verdict,
        }

    # -- Facts

    def _take_facts(self, now: float, message: Message, *, down: bool) -> None:
        ready = message.get("ready", [])
        known = self.presence.unseen
        if not isinstance(ready, list) or not all(name in known for name in ready):
            raise ValueError("unknown roles")
        self._learn_finals(unpack(message.get("finals", []), self.presence.size), now, down=down)
        self._learn_ready(set(ready))
        if message.get("cause") is not None:
            self._learn_cause(check_cause(message["cause"]), now)
        if message.get("verdict") is not None:
            self._learn_verdict(check_verdict(message["verdict"]))

    def _learn_finals(self, ranks: Set[int], now: float, *, down: bool = False) -> None:
        new = self.facts.add_finals(ranks)
        silent_ones = [rank for rank in new if self.presence.finish(rank)]
        if silent_ones:
            self.tell("silent", dict(self.presence.silent))
        if self.rank in new:
            self.tell("finished", None)
        if ranks and down:
            self.heard_of = self.heard_of or self.rank in ranks
            self.facts.confirmed |= ranks
            for link, child in list(self.children.items()):
                concerned = ranks.intersection(child.tasks)
                if concerned:
                    link.send({"t": "news", "finals": pack(concerned)})
        elif self.parent is not None:
            self.upward.finals |= new
        elif ranks:
            # Also what we knew already: a task may wait for us to say so.
            self.gathering.add(ranks, now)
        self._decide(now)

    def _learn_ready(self, names: Set[str]) -> None:
        new = self.facts.add_ready(names)
        if new:
            self.children.send({"t": "news", "ready": sorted(new)})
            self.tell("ready", set(self.facts.ready))

    def _learn_cause(self, cause: Message, now: float) -> None:
        if self.facts.add_cause(cause, now):
            if self.parent is not None:
                self.parent.send(now, {"t": "up", "cause": cause})
            self._decide(now)

    def _learn_verdict(self, verdict: Message) -> None:
        if self.facts.add_verdict(verdict):
            for child in self.children.values():
                child.knows_verdict = False
            self.children.send({"t": "news", "verdict": verdict})
            self.tell("verdict", verdict)

    def _decide(self, now: float) -> None:
        """Whoever has no parent gives the verdict as soon as the facts allow one."""
        if self.parent is None and self.is_hub:
            verdict = self.facts.decide(now)
            if verdict is not None:
                self._learn_verdict(verdict)

    # -- Passing on, and the clock

    def _flush_up(self, now: float) -> None:
        message = self.upward.take() if self.parent is not None else None
        if self.parent is not None and message is not None:
            self.parent.send(now, message)

    def tick(self, now: float) -> None:
        """What the clock alone brings: signs of life, patience that ends, gathered news."""
        self._check_children(now)
        self._check_parent(now)
        self._seek(now)
        finals = self.gathering.take(now)
        if finals:
            self.facts.confirmed |= finals
            self.children.send({"t": "news", "finals": pack(finals)})
        if self.parent is None and self.is_hub:
            self._learn_ready(self.presence.complete_roles())
        self._decide(now)
        if self.is_hub and self.presence.watch(now, self.facts.finals, self.facts.required):
            self.tell("silent", dict(self.presence.silent))
