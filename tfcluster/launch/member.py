"""A task's part in the control plane: finds its hub, passes news on, decides how the job ends.

Pure protocol. It talks through `Links` and reads time from what it is given, so that the same code
runs over sockets (control.py) and over a simulation of ten thousand tasks (tests/simulation.py).

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

from tfcluster.launch.ranks import MOST_CHILDREN, candidates, pack, unpack

Message = Dict[str, Any]

BEAT = 4.0  # seconds between two signs of life
DEAF = 13.0  # a neighbour that gives none for this long is not counted on
FIRST_PATIENCE = 3.0  # how long one candidate for a parent is tried at the start
PATIENCE = 1.0  # and later
FIRST_RETRY, LAST_RETRY = 0.1, 1.0
PROBE_EVERY = 3.0  # a hub of higher rank asks so often whether one of lower rank is back
MOST_PROBE = 15.0
SETTLE = 0.3  # how long the hub waits for an earlier cause than the first it hears of
FIRST_GATHER, LAST_GATHER = 0.2, 2.0  # facts that can wait are gathered so long
LINGER = 20.0  # how long the hub stays for tasks that are being replaced just now
SILENT_AFTER = 15.0  # when the hub says of a task that it does not answer


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


class Member:
    """One launcher among those of a run."""

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
        self.patience = patience  # how long a success that nobody has heard of is kept
        self.roles = roles  # role -> the ranks of its tasks
        self.size = sum(len(ranks) for ranks in roles.values())
        self.role_of = role_of or {r: name for name, ranks in roles.items() for r in ranks}
        self.unseen = {name: len(ranks) for name, ranks in roles.items()}
        self.required = required
        # Facts.
        self.finals: Set[int] = set()
        self.confirmed: Set[int] = set()  # of these the hub has said that it knows
        self.ready: Set[str] = set()
        self.cause: Optional[Message] = None
        self.verdict: Optional[Message] = None
        self.verdict_shared = False  # whether another task knows it
        # The tree.
        self.parent: Optional[Link] = None
        self.parent_rank: Optional[int] = None
        self.parent_heard = self.parent_spoken = now
        self.children: Dict[Link, Child] = {}
        self.is_hub = rank == 0
        self.joined_once = False
        # Looking for a parent.
        self.round = 0
        self.left: List[int] = []
        self.trying: Optional[int] = None
        self.connecting = False
        self.try_until = self.retry_at = now
        self.retry_pause = FIRST_RETRY
        self.probe_pause = PROBE_EVERY
        # This task.
        self.doing: Message = {"state": "starting"}
        self.ended = False
        self.leaving_since: Optional[float] = None
        # The hub's own books.
        self.cause_since: Optional[float] = None
        self.absent: Dict[int, float] = {}  # tasks that were there and are not, since when
        self.silent: Dict[int, float] = {}
        self.counts: Dict[int, int] = {rank: 1}  # how many neighbours speak for a task
        self.seen: Set[int] = set()
        self.aware: Set[int] = set()  # tasks that have gone and knew the verdict
        self.last_required = now
        # News that waits to be passed on.
        self.news_up: Dict[int, Optional[Message]] = {}
        self.finals_up: Set[int] = set()
        self.finals_down: Set[int] = set()
        self.gather_until: Optional[float] = None
        self.gather = FIRST_GATHER
        self.gathered_at = now
        self.seen.add(rank)
        self.unseen[self.role_of[rank]] -= 1
        self.queries: Dict[str, Tuple[Optional[Link], Optional[Callable[[Message], None]]]] = {}
        self.query_count = 0

    # -- What this task says of itself

    def report(self, now: float, doing: Message) -> None:
        """What our own task is doing now, for the hub to know."""
        self.doing = doing
        self._note_task(self.rank, doing)
        self._flush_up(now)

    def succeed(self, now: float) -> None:
        """Our own program has finished."""
        self._learn_finals({self.rank}, now)
        self._flush_up(now)

    def fail(self, now: float, cause: Message) -> None:
        """A task, ours or one that can no longer speak for itself, has failed for good."""
        self._learn_cause(cause, now)
        self._flush_up(now)

    def learn_finals(self, now: float, ranks: Set[int]) -> None:
        """These tasks have succeeded, as a keeper knows."""
        self._learn_finals(ranks, now)
        self._flush_up(now)

    def end(self, now: float) -> None:
        """Our task has ended; from now on we only stay for the sake of others."""
        self.ended = True
        self.leaving_since = now

    def may_leave(self, now: float) -> bool:
        """Whether nobody needs us any more, or we have waited long enough."""
        if self.leaving_since is None:
            return False
        unheard_of = self.joined_once and not self.verdict_shared
        longest = max(LINGER, self.patience) if unheard_of else min(LINGER, self.patience)
        if now - self.leaving_since > longest:
            return True
        if self.verdict is None:
            if self.rank in self.finals and self.parent is not None:
                return self.rank in self.confirmed
            # The hub has finished first: its children know what it knows, and one takes over.
            return self.rank in self.finals and self.is_hub and bool(self.children)
        if any(not child.knows_verdict for child in self.children.values()):
            return False
        return not self.is_hub or not self._unaware()

    def leave(self) -> None:
        """Say goodbye, so that nobody waits for us."""
        last = {"t": "gone", "finals": pack(self.finals)}
        for link in list(self.children):
            link.send(last)
        if self.parent is not None:
            self.parent.send({"t": "bye"})

    def _unaware(self) -> Set[int]:
        """The tasks that may still come, or come back, and do not know the verdict."""
        known = self.finals | self.aware | set(self.counts)
        return {rank for rank in range(self.size) if rank not in known}

    # -- Questions

    def query(self, answer: Callable[[Message], None]) -> None:
        """What every task is doing: asked of the hub, answered by `answer`."""
        if self.parent is None:
            answer(self.table())
            return
        self.query_count += 1
        number = f"{self.rank}.{self.query_count}"
        self.queries[number] = (None, answer)
        self.parent.send({"t": "ask", "id": number})

    def table(self) -> Message:
        """All tasks as the hub knows them, by rank."""
        return {
            "hub": self.rank,
            "tasks": {str(rank): doing for rank, doing in sorted(self._all_doing().items())},
            "finals": pack(self.finals),
            "silent": {str(rank): since for rank, since in self.silent.items()},
            "verdict": self.verdict,
        }

    def _all_doing(self) -> Dict[int, Message]:
        found = {self.rank: self.doing}
        for child in self.children.values():
            found.update(child.tasks)
        return found

    # -- Connections

    def connected(self, now: float, rank: int, link: Link) -> None:
        """A connection that we asked for is there."""
        self.connecting = False
        if self.parent is not None or rank >= self.rank:
            link.close()
            return
        self.parent, self.parent_rank = link, rank
        self.parent_heard = self.parent_spoken = now
        self.trying = None
        link.send(self._greeting())
        self.news_up.clear()
        self.finals_up.clear()

    def _greeting(self) -> Message:
        """All that a new parent has to know of us and of those we speak for."""
        return {
            "t": "join",
            "finals": pack(self.finals),
            "ready": sorted(self.ready),
            "cause": self.cause,
            "verdict": self.verdict,
            "tasks": {str(rank): doing for rank, doing in self._all_doing().items()},
        }

    def refused(self, now: float, rank: int) -> None:
        """A connection that we asked for cannot be made."""
        self.connecting = False
        if rank == self.trying:
            self.retry_at = now + self.retry_pause
            self.retry_pause = min(self.retry_pause * 2, LAST_RETRY)

    def accepted(self, now: float, rank: int, link: Link) -> None:
        """Another launcher has connected to us and shown that it is one of ours."""
        if rank <= self.rank or len(self.children) >= MOST_CHILDREN or self._has_left():
            link.send({"t": "full"})
            link.close()
            return
        for other, child in list(self.children.items()):
            if child.rank == rank:  # it was cut off, or replaced, before we noticed
                self.closed(now, other)
                other.close()
        self.children[link] = Child(rank, now)

    def _has_left(self) -> bool:
        return self.ended and self.verdict is None and self.rank in self.finals

    def closed(self, now: float, link: Link) -> None:
        """A connection has ended."""
        if link is self.parent:
            self._lose_parent(now)
            return
        child = self.children.pop(link, None)
        if child is None:
            return
        if child.knows_verdict:
            self.aware.update(child.tasks)
        for rank in child.tasks:
            self._count(rank, -1, now)
        self._flush_up(now)

    def _lose_parent(self, now: float) -> None:
        lost, self.parent, self.parent_rank = self.parent_rank, None, None
        self.queries.clear()
        self.left = []
        self.round = 0
        self._try(lost if lost is not None and lost not in self.finals else None, now)

    # -- Looking for a parent

    def _try(self, rank: Optional[int], now: float) -> None:
        self.trying = rank
        self.retry_at, self.retry_pause = now, FIRST_RETRY
        patience = PATIENCE if self.joined_once else FIRST_PATIENCE
        self.try_until = now + patience

    def _seek(self, now: float) -> None:
        """Without a parent: go on trying to find one; who has tried all is the hub."""
        if self.parent is not None or self.rank == 0 or self.connecting:
            return
        if self.verdict is not None and not self.is_hub:
            return  # whoever told us the verdict tells the others too
        if self.trying is not None and (now > self.try_until or self.trying in self.finals):
            self.trying = None
            self.retry_at = now
        if self.trying is None:
            if now < self.retry_at:
                return
            if not self.left:
                self._next_round(now)
            if not self.left or now < self.retry_at:
                return
            self._try(self.left.pop(0), now)
        if now >= self.retry_at and self.trying is not None:
            self.connecting = True
            self.links.connect(self.trying)

    def _next_round(self, now: float) -> None:
        """All candidates of a round have been tried, or none was yet."""
        if self.round:
            self._become_hub(now)
            self.joined_once = True
            self.retry_at = now + self.probe_pause
            self.probe_pause = min(self.probe_pause * 1.5, MOST_PROBE)
        self.left = candidates(self.rank, self.round, self.finals)
        self.round += 1
        if not self.left:
            self._become_hub(now)
            self.retry_at = now + MOST_PROBE

    def _become_hub(self, now: float) -> None:
        if not self.is_hub:
            self.is_hub = True
            self.last_required = now
            for rank in range(self.size):
                if rank not in self.counts and rank in self.seen:
                    self.absent.setdefault(rank, now)
            self.tell("hub", True)
            self._check_ready()

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
            self.joined_once = True
            self._step_down()
            self._take_facts(now, message, down=True)
            self.verdict_shared = self.verdict_shared or message.get("verdict") is not None
            if self.verdict is not None and self.parent is not None:
                self.parent.send({"t": "known"})
                self.parent_spoken = now
        elif kind == "answer":
            link, answer = self.queries.pop(str(message.get("id")), (None, None))
            if link is not None and link in self.children:
                link.send(message)
            elif answer is not None:
                answer(_mapping(message.get("table")))
        elif kind in ("gone", "full"):
            if kind == "gone":
                self._learn_finals(unpack(message.get("finals", []), self.size), now)
            self._turned_away(now, kind)

    def _turned_away(self, now: float, kind: str) -> None:
        """Our parent leaves, or has no room for us: go on with the next candidate at once."""
        link, lost = self.parent, self.parent_rank
        self.parent, self.parent_rank = None, None
        self.queries.clear()
        if link is not None:
            link.close()
        if kind == "gone":
            self.left = [r for r in candidates(self.rank, 0, self.finals) if r != lost]
            self.round = 1
        self.trying, self.retry_at = None, now
        self._seek(now)

    def _step_down(self) -> None:
        if self.is_hub:
            self.is_hub = False
            self.silent.clear()
            self.tell("hub", False)
            self.tell("silent", {})
        self.probe_pause = PROBE_EVERY

    def _from_child(self, now: float, link: Link, child: Child, message: Message) -> None:
        kind = message.get("t")
        if kind in ("join", "up"):
            tasks = _mapping(message.get("tasks", {}))
            for text, doing in tasks.items():
                self._take_doing(now, child, _rank(text, self.size), doing)
            self._take_facts(now, message, down=False)
            if kind == "join":
                link.send(self._facts_for(child))
                child.spoken = now
            self._flush_up(now)
        elif kind == "known":
            child.knows_verdict = self.verdict_shared = True
        elif kind == "ask":
            self._pass_question(link, message)
        elif kind == "bye":
            child.knows_verdict = True
            self.closed(now, link)
            link.close()

    def _pass_question(self, link: Link, message: Message) -> None:
        number = str(message.get("id"))
        if self.parent is None:
            link.send({"t": "answer", "id": number, "table": self.table()})
        elif len(self.queries) < 1000:
            self.queries[number] = (link, None)
            self.parent.send({"t": "ask", "id": number})

    def _take_doing(self, now: float, child: Child, rank: int, doing: Any) -> None:
        if doing is None:
            if child.tasks.pop(rank, None) is not None:
                self._count(rank, -1, now)
            return
        if rank not in child.tasks:
            self._count(rank, +1, now)
        child.tasks[rank] = _mapping(doing)
        self._note_task(rank, child.tasks[rank])

    def _note_task(self, rank: int, doing: Message) -> None:
        if self.parent is not None:
            self.news_up[rank] = doing

    def _count(self, rank: int, change: int, now: float) -> None:
        """One more, or one less, of our neighbours speaks for this task."""
        count = self.counts.get(rank, 0) + change
        if count > 0:
            self.counts[rank] = count
            self.absent.pop(rank, None)
            if self.silent.pop(rank, None) is not None:
                self.tell("silent", dict(self.silent))
            self._see(rank)
        else:
            self.counts.pop(rank, None)
            if rank not in self.finals:
                self.absent.setdefault(rank, now)
            if self.parent is not None:
                self.news_up[rank] = None

    def _facts_for(self, child: Child) -> Message:
        """The hub's children know all that it knows; further down it would only be a load."""
        concerned = self.confirmed if self.is_hub else self.confirmed.intersection(child.tasks)
        return {
            "t": "news",
            "finals": pack(concerned),
            "ready": sorted(self.ready),
            "verdict": self.verdict,
        }

    def _take_facts(self, now: float, message: Message, *, down: bool) -> None:
        ready = message.get("ready", [])
        if not isinstance(ready, list) or not all(name in self.roles for name in ready):
            raise ValueError("unknown roles")
        self._learn_finals(unpack(message.get("finals", []), self.size), now, down=down)
        self._learn_ready(set(ready))
        cause, verdict = message.get("cause"), message.get("verdict")
        if cause is not None:
            self._learn_cause(check_cause(cause, self.size), now)
        if verdict is not None:
            self._learn_verdict(check_verdict(verdict, self.size), now)

    # -- Facts

    def _learn_finals(self, ranks: Set[int], now: float, *, down: bool = False) -> None:
        new = ranks - self.finals
        if new:
            self.finals |= new
            for rank in new:
                self.absent.pop(rank, None)
                if self.silent.pop(rank, None) is not None:
                    self.tell("silent", dict(self.silent))
            if not down and self.parent is not None:
                self.finals_up |= new
            for rank in new:
                self._see(rank)
            if self.rank in new:
                self.tell("finished", None)
        if ranks and down:
            self.confirmed |= ranks
            for link, child in list(self.children.items()):
                concerned = ranks.intersection(child.tasks)
                if concerned:
                    link.send({"t": "news", "finals": pack(concerned)})
        elif ranks and self.parent is None:
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
        new = names - self.ready
        if new:
            self.ready |= new
            self._send_down({"t": "news", "ready": sorted(new)})
            self.tell("ready", set(self.ready))

    def _see(self, rank: int) -> None:
        """This task has been there; the hub says when that is true of every task of a role."""
        if rank not in self.seen:
            self.seen.add(rank)
            self.unseen[self.role_of[rank]] -= 1
            if self.unseen[self.role_of[rank]] == 0:
                self._check_ready()

    def _check_ready(self) -> None:
        if self.parent is None and self.is_hub:
            self._learn_ready({name for name, count in self.unseen.items() if count == 0})

    def missing(self) -> List[int]:
        """The tasks of roles that are not complete and that have not been heard of, as we know."""
        return [
            rank
            for name, ranks in self.roles.items()
            if name not in self.ready
            for rank in ranks
            if rank not in self.seen
        ]

    def _learn_cause(self, cause: Message, now: float) -> None:
        if self.verdict is not None or not _is_earlier(cause, self.cause):
            return
        self.cause = cause
        if self.parent is not None:
            self.parent.send({"t": "up", "cause": cause})
            self.parent_spoken = now
        self.cause_since = self.cause_since or now
        self._decide(now)

    def _learn_verdict(self, verdict: Message, now: float) -> None:
        known = self.verdict
        if known is not None and (known == verdict or not _is_better(verdict, known)):
            return
        self.verdict = verdict
        if verdict.get("cause"):
            self.cause = verdict["cause"]
        for child in self.children.values():
            child.knows_verdict = False
        self._send_down({"t": "news", "verdict": verdict})
        self.tell("verdict", verdict)

    def _decide(self, now: float) -> None:
        """Whoever has no parent gives the verdict as soon as the facts allow one."""
        if self.verdict is not None or self.parent is not None or not self.is_hub:
            return
        if self.required <= self.finals:
            self._learn_verdict({"state": "succeeded", "cause": None}, now)
        elif self.cause is not None:
            self.cause_since = self.cause_since or now
            if now - self.cause_since >= SETTLE:
                self._learn_verdict({"state": "failed", "cause": self.cause}, now)

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
        self.news_up = {}
        self.finals_up = set()

    def tick(self, now: float) -> None:
        """What the clock alone brings: signs of life, patience that ends, gathered news."""
        self._check_neighbours(now)
        self._check_ready()
        self._seek(now)
        if self.gather_until is not None and now >= self.gather_until:
            finals, self.finals_down, self.gather_until = self.finals_down, set(), None
            self.gathered_at = now
            self.confirmed |= finals
            self._send_down({"t": "news", "finals": pack(finals)})
            for child in self.children.values():
                child.spoken = now
        self._decide(now)
        if self.is_hub:
            self._watch_absent(now)

    def _check_neighbours(self, now: float) -> None:
        for link, child in list(self.children.items()):
            if now - child.heard > DEAF:
                self.closed(now, link)
                link.close()
            elif now - child.spoken > BEAT:
                link.send({"t": "beat"})
                child.spoken = now
        if self.parent is not None:
            if now - self.parent_heard > DEAF:
                link = self.parent
                self._lose_parent(now)
                self.trying = None  # it may listen and yet not answer
                link.close()
            elif now - self.parent_spoken > BEAT:
                self.parent.send({"t": "beat"})
                self.parent_spoken = now

    def _watch_absent(self, now: float) -> None:
        """The hub knows who does not answer, and whether anyone is left who decides."""
        for rank, since in self.absent.items():
            if now - since > SILENT_AFTER and rank not in self.silent and rank not in self.finals:
                self.silent[rank] = since
                self.tell("silent", dict(self.silent))
        others = self.required - self.finals - {self.rank}
        if not others or any(rank in self.counts for rank in others):
            self.last_required = now

    def unheard(self, now: float) -> float:
        """For how long the hub has heard of no task whose success is still needed."""
        return now - self.last_required if self.is_hub else 0.0


# -- What messages may hold ----------------------------------------------------------------------


def _mapping(value: Any) -> Message:
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    return value


def _rank(text: str, size: int) -> int:
    rank = int(text)
    if not 0 <= rank < size:
        raise ValueError("no such task")
    return rank


def check_cause(value: Any, size: int) -> Message:
    """A cause of failure in which every field is what it has to be."""
    cause = _mapping(value)
    lines = cause.get("lines")
    sound = (
        isinstance(cause.get("task"), str)
        and isinstance(cause.get("reason"), str)
        and isinstance(cause.get("kind", ""), str)
        and isinstance(cause.get("exitCode"), (int, type(None)))
        and isinstance(cause.get("time"), (int, float))
        and isinstance(lines, list)
        and all(isinstance(line, str) for line in lines)
    )
    if not sound:
        raise ValueError("this is no cause of failure")
    return cause


def check_verdict(value: Any, size: int) -> Message:
    """A verdict in which every field is what it has to be."""
    verdict = _mapping(value)
    if verdict.get("state") == "succeeded":
        return {"state": "succeeded", "cause": None}
    if verdict.get("state") == "failed":
        return {"state": "failed", "cause": check_cause(verdict.get("cause"), size)}
    raise ValueError("this is no verdict")


def _order(cause: Message) -> Tuple[float, str]:
    return (float(cause["time"]), str(cause["task"]))


def _is_earlier(cause: Message, other: Optional[Message]) -> bool:
    return other is None or _order(cause) < _order(other)


def _is_better(verdict: Message, known: Message) -> bool:
    """Of two verdicts that hubs gave while they could not hear each other, one has to count."""
    if verdict["state"] != known["state"]:
        return bool(verdict["state"] == "failed")
    return verdict["state"] == "failed" and _is_earlier(verdict["cause"], known["cause"])
