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

from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from tfcluster.launch.facts import Facts
from tfcluster.launch.messages import (
    Message,
    check_cause,
    check_verdict,
    take_mapping,
    take_rank,
)
from tfcluster.launch.presence import Presence
from tfcluster.launch.ranks import MOST_CHILDREN, SCANNED, pack, unpack
from tfcluster.launch.search import PROBE_EVERY, Search

BEAT = 4.0  # seconds between two signs of life
DEAF = 13.0  # a neighbour that gives none for this long is not counted on
FIRST_GATHER, LAST_GATHER = 0.2, 2.0  # facts that can wait are gathered so long
LINGER = 20.0  # how long the hub stays for tasks that are being replaced just now
MOST_VISITORS = 448  # neighbours that only deliver how their task ended, and go
MOST_QUESTIONS = 1000  # that are passed on and not answered yet


class Link:
    """A connection to another launcher, as the protocol sees it."""

    def send(self, message: Message) -> None:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Links:
    """What the protocol needs of the world."""

    def connect(self, rank: int) -> None:
        """Begin to connect; `Member.connected` or `Member.refused` follows."""
        raise NotImplementedError


class Child:
    """A neighbour below us, and what is known of the tasks that it speaks for."""

    def __init__(self, rank: int, now: float):
        self.rank = rank
        self.heard = self.spoken = now
        self.tasks: Dict[int, Message] = {}
        self.knows_verdict = False
        self.stays = False  # and is not only here to say that its task has ended


class Member:
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
        self.rank, self.links, self.tell = rank, links, tell
        self.patience = patience  # how long news that no other task has heard is kept
        self.facts = Facts(required)
        self.presence = Presence(rank, roles, role_of, now)
        self.search = Search(rank, now)
        self.parent: Optional[Link] = None
        self.parent_rank: Optional[int] = None
        self.parent_heard = self.parent_spoken = now
        self.children: Dict[Link, Child] = {}
        self.heard_of = False  # whether a hub has confirmed that our own task has succeeded
        self.turned_away = 0
        self.is_hub = rank == 0
        self.doing: Message = {"state": "starting"}
        self.leaving_since: Optional[float] = None  # since when our own task has ended
        # News that waits to be passed on.
        self.news_up: Dict[int, Optional[Message]] = {}
        self.finals_up: Set[int] = set()
        self.finals_down: Set[int] = set()
        self.gather_until: Optional[float] = None
        self.gather, self.gathered_at = FIRST_GATHER, now
        # Questions that were passed on: who asked.
        self.questions: Dict[str, Tuple[Optional[Link], Optional[Callable[[Message], None]]]] = {}
        self.question_count = 0

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
            return self.is_hub and bool(self.children)
        if any(not child.knows_verdict for child in self.children.values()):
            return False
        return not self.is_hub or not self.presence.unaware(self.facts.finals)

    def _owes_word(self) -> bool:
        """Whether a task that we speak for has ended, and the hub has not confirmed that yet."""
        unconfirmed = self.facts.finals - self.facts.confirmed
        return any(rank in unconfirmed for rank in self.presence.counts)

    def leave(self) -> None:
        """Say goodbye, so that no one waits for us."""
        self._send_down({"t": "gone", "finals": pack(self.facts.finals)})
        if self.parent is not None:
            self.parent.send({"t": "bye"})

    def unheard(self, now: float) -> float:
        """For how long the hub has heard of no task whose success is still needed."""
        return now - self.presence.last_required if self.is_hub else 0.0

    # -- Questions

    def query(self, answer: Callable[[Message], None]) -> None:
        """What every task is doing: asked of the hub, answered by `answer`."""
        if self.parent is None:
            answer(self.table())
            return
        self.question_count += 1
        self._ask(f"{self.rank}.{self.question_count}", None, answer)

    def _ask(
        self, number: str, link: Optional[Link], answer: Optional[Callable[[Message], None]]
    ) -> None:
        if self.parent is not None and len(self.questions) < MOST_QUESTIONS:
            self.questions[number] = (link, answer)
            self.parent.send({"t": "ask", "id": number})

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
        found = {self.rank: self.doing}
        for child in self.children.values():
            found.update(child.tasks)
        return found

    # -- Connections

    def connected(self, now: float, rank: int, link: Link) -> None:
        """A connection that we asked for is there."""
        self.search.succeeded()
        if self.parent is not None or rank >= self.rank:
            link.close()
            return
        self.parent, self.parent_rank = link, rank
        self.parent_heard = self.parent_spoken = now
        link.send(self._greeting())
        self.news_up.clear()
        self.finals_up.clear()

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

    def refused(self, now: float, rank: int, unknown: bool = False) -> None:
        """A connection that we asked for cannot be made; `unknown` if its host has no address."""
        self.search.refused(rank, now, unknown)

    def accepted(self, now: float, rank: int, link: Link) -> None:
        """Another launcher has connected to us and shown that it is one of ours."""
        if rank <= self.rank or len(self.children) >= MOST_CHILDREN + MOST_VISITORS:
            link.send({"t": "full", "try": self._others_for(rank)})
            link.close()
            return
        for other, child in list(self.children.items()):
            if child.rank == rank:  # it was cut off, or replaced, before we noticed
                self.closed(now, other)
                other.close()
        self.children[link] = Child(rank, now)

    def _others_for(self, rank: int) -> List[int]:
        """A few of our children that may have room for this task, others each time."""
        below = sorted(child.rank for child in self.children.values() if child.rank < rank)
        self.turned_away += 1
        start = self.turned_away * SCANNED % len(below) if below else 0
        return (below[start:] + below[:start])[:SCANNED]

    def _is_full(self, newcomer: Child) -> bool:
        """Whether there is no room for one that stays; who only delivers its end finds some."""
        staying = sum(child.stays for child in self.children.values() if child is not newcomer)
        return staying >= MOST_CHILDREN

    def closed(self, now: float, link: Link) -> None:
        """A connection has ended."""
        if link is self.parent:
            lost = self.parent_rank
            self._forget_parent()
            self.search.begin(now, None if lost in self.facts.finals else lost)
            return
        child = self.children.pop(link, None)
        if child is None:
            return
        if child.knows_verdict:
            self.presence.aware.update(child.tasks)
        for rank in child.tasks:
            self._depart(rank, now)
        self._flush_up(now)

    def _forget_parent(self) -> None:
        self.parent, self.parent_rank = None, None
        self.questions.clear()

    def _seek(self, now: float) -> None:
        """Without a parent: go on trying to find one; who has tried in vain is the hub."""
        if self.parent is not None or self.rank == 0 or self.search.connecting:
            return
        if self.facts.verdict is not None and not self.is_hub:
            return  # whoever told us the verdict tells the others too
        rank = self.search.next_rank(now, self.facts.finals)
        if self.search.in_vain and not self.is_hub:
            self.is_hub = True
            self.presence.become_hub(now)
            self.tell("hub", True)
        if rank is not None:
            self.links.connect(rank)

    # -- Messages

    def received(self, now: float, link: Link, message: Message) -> None:
        """Take in what a neighbour says; ValueError if it makes no sense."""
        if link is self.parent:
            self.parent_heard = now
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
                self.parent.send({"t": "known"})
                self.parent_spoken = now
        elif kind == "answer":
            link, answer = self.questions.pop(str(message.get("id")), (None, None))
            if link is not None and link in self.children:
                link.send(message)
            elif answer is not None:
                answer(take_mapping(message.get("table")))
        elif kind in ("gone", "full"):
            self._turned_away(now, message)

    def _turned_away(self, now: float, message: Message) -> None:
        """Our parent leaves, or has no room for us: go on with the next candidate at once."""
        link, lost = self.parent, self.parent_rank
        if message["t"] == "gone":
            self._learn_finals(unpack(message.get("finals", []), self.presence.size), now)
        self._forget_parent()
        if link is not None:
            link.close()
        if message["t"] == "gone":
            self.search.skip(now, lost, self.facts.finals)
        else:
            hints = message.get("try", [])
            if not isinstance(hints, list) or not all(type(rank) is int for rank in hints):
                raise ValueError("expected ranks")
            self.search.follow(now, [rank for rank in hints if 0 <= rank < self.rank])
        self._seek(now)

    def _step_down(self) -> None:
        """We have a parent that answers, so another is the hub."""
        self.search.found_once = True
        self.search.probe_pause = PROBE_EVERY
        if self.is_hub:
            self.is_hub = False
            self.presence.silent.clear()
            self.tell("hub", False)
            self.tell("silent", {})

    def _from_child(self, now: float, link: Link, child: Child, message: Message) -> None:
        kind = message.get("t")
        if kind == "join" and not message.get("ended") and self._is_full(child):
            link.send({"t": "full", "try": self._others_for(child.rank)})
            self.closed(now, link)
            link.close()
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
                self._ask(number, link, None)
        elif kind == "bye":
            child.knows_verdict = True
            self.closed(now, link)
            link.close()

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
            self.news_up[rank] = None

    def _note_task(self, rank: int, doing: Message) -> None:
        if self.parent is not None:
            self.news_up[rank] = doing

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
            self.finals_up |= new
        elif ranks:
            # Also what we knew already: a task may wait for us to say so.
            self._gather(ranks, now)
        self._decide(now)

    def _gather(self, ranks: Set[int], now: float) -> None:
        self.finals_down |= ranks
        if self.gather_until is None:
            if now - self.gathered_at > 3 * LAST_GATHER:
                self.gather = FIRST_GATHER
            self.gather_until = now + self.gather
            self.gather = min(self.gather * 1.5, LAST_GATHER)

    def _learn_ready(self, names: Set[str]) -> None:
        new = self.facts.add_ready(names)
        if new:
            self._send_down({"t": "news", "ready": sorted(new)})
            self.tell("ready", set(self.facts.ready))

    def _learn_cause(self, cause: Message, now: float) -> None:
        if self.facts.add_cause(cause, now):
            if self.parent is not None:
                self.parent.send({"t": "up", "cause": cause})
                self.parent_spoken = now
            self._decide(now)

    def _learn_verdict(self, verdict: Message) -> None:
        if self.facts.add_verdict(verdict):
            for child in self.children.values():
                child.knows_verdict = False
            self._send_down({"t": "news", "verdict": verdict})
            self.tell("verdict", verdict)

    def _decide(self, now: float) -> None:
        """Whoever has no parent gives the verdict as soon as the facts allow one."""
        if self.parent is None and self.is_hub:
            verdict = self.facts.decide(now)
            if verdict is not None:
                self._learn_verdict(verdict)

    # -- Passing on, and the clock

    def _send_down(self, message: Message) -> None:
        for link in list(self.children):
            link.send(message)

    def _flush_up(self, now: float) -> None:
        if self.parent is None or not (self.news_up or self.finals_up):
            return
        tasks = {str(rank): doing for rank, doing in self.news_up.items()}
        self.parent.send({"t": "up", "tasks": tasks, "finals": pack(self.finals_up)})
        self.parent_spoken = now
        self.news_up, self.finals_up = {}, set()

    def tick(self, now: float) -> None:
        """What the clock alone brings: signs of life, patience that ends, gathered news."""
        self._check_children(now)
        self._check_parent(now)
        self._seek(now)
        if self.gather_until is not None and now >= self.gather_until:
            finals, self.finals_down, self.gather_until = self.finals_down, set(), None
            self.gathered_at = now
            self.facts.confirmed |= finals
            self._send_down({"t": "news", "finals": pack(finals)})
        if self.parent is None and self.is_hub:
            self._learn_ready(self.presence.complete_roles())
        self._decide(now)
        if self.is_hub and self.presence.watch(now, self.facts.finals, self.facts.required):
            self.tell("silent", dict(self.presence.silent))

    def _check_children(self, now: float) -> None:
        for link, child in list(self.children.items()):
            if now - child.heard > DEAF:
                self.closed(now, link)
                link.close()
            elif now - child.spoken > BEAT:
                link.send({"t": "beat"})
                child.spoken = now

    def _check_parent(self, now: float) -> None:
        if self.parent is None:
            return
        if now - self.parent_heard > DEAF:
            link = self.parent
            self._forget_parent()
            self.search.begin(now, None)  # it may listen and yet not answer
            link.close()
        elif now - self.parent_spoken > BEAT:
            self.parent.send({"t": "beat"})
            self.parent_spoken = now
