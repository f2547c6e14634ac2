"""The launchers that one is connected to, above and below, and what they wait to hear of it."""

from __future__ import annotations

from typing import Callable, Dict, Optional, Set, Tuple

from tfcluster.launch.messages import Message, take_mapping
from tfcluster.launch.ranks import MOST_CHILDREN, SCANNED, pack

MOST_VISITORS = 448  # neighbours that only deliver how their task ended, and go
MOST_QUESTIONS = 1000  # that are passed on and not answered yet
FIRST_GATHER, LAST_GATHER = 0.2, 2.0  # facts that can wait are gathered so long
QUIET = 3.0  # a hub whose own task has finished stays until no other has for so long


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


class Parent:
    """The neighbour above us."""

    def __init__(self, rank: int, link: Link, now: float):
        self.rank, self.link = rank, link
        self.heard = self.spoken = now

    def send(self, now: float, message: Message) -> None:
        self.link.send(message)
        self.spoken = now


class Child:
    """A neighbour below us, and what is known of the tasks that it speaks for."""

    def __init__(self, rank: int, now: float):
        self.rank = rank
        self.heard = self.spoken = now
        self.tasks: Dict[int, Message] = {}
        self.knows_verdict = False
        self.stays = False  # and is not only here to say that its task has ended


class Children(Dict[Link, Child]):
    """All neighbours below us, by their connection."""

    turned_away = 0

    def send(self, message: Message) -> None:
        for link in list(self):
            link.send(message)

    def doing(self) -> Dict[int, Message]:
        """What every task below us is doing."""
        found: Dict[int, Message] = {}
        for child in self.values():
            found.update(child.tasks)
        return found

    def all_know_verdict(self) -> bool:
        return all(child.knows_verdict for child in self.values())

    def has_door(self) -> bool:
        """Whether one more may come in, at least to deliver how its task ended."""
        return len(self) < MOST_CHILDREN + MOST_VISITORS

    def has_room(self, newcomer: Child) -> bool:
        """Whether one more may stay; who only delivers its end needs no room."""
        staying = sum(child.stays for child in self.values() if child is not newcomer)
        return staying < MOST_CHILDREN

    def refusal(self, rank: int) -> Message:
        """There is no room; a few children that may have some, others each time."""
        below = sorted(child.rank for child in self.values() if child.rank < rank)
        self.turned_away += 1
        start = self.turned_away * SCANNED % len(below) if below else 0
        return {"t": "full", "try": (below[start:] + below[:start])[:SCANNED]}


class Upward:
    """Changes that wait to be told to the parent."""

    def __init__(self) -> None:
        self.tasks: Dict[int, Optional[Message]] = {}
        self.finals: Set[int] = set()

    def clear(self) -> None:
        self.tasks, self.finals = {}, set()

    def take(self) -> Optional[Message]:
        """The message that tells them, if there are any."""
        if not (self.tasks or self.finals):
            return None
        tasks = {str(rank): doing for rank, doing in self.tasks.items()}
        message: Message = {"t": "up", "tasks": tasks, "finals": pack(self.finals)}
        self.clear()
        return message


class Gathering:
    """Successes that are told to the children together, after a moment."""

    def __init__(self, now: float):
        self.ranks: Set[int] = set()
        self.until: Optional[float] = None
        self.pause, self.told = FIRST_GATHER, now

    def is_quiet(self, now: float) -> bool:
        """Whether no task has succeeded for a while: where all end at once, one hub hears all."""
        return self.until is None and now - self.told > QUIET

    def add(self, ranks: Set[int], now: float) -> None:
        self.ranks |= ranks
        if self.until is None:
            if now - self.told > 3 * LAST_GATHER:
                self.pause = FIRST_GATHER
            self.until = now + self.pause
            self.pause = min(self.pause * 1.5, LAST_GATHER)

    def take(self, now: float) -> Set[int]:
        """Those whose moment is over."""
        if self.until is None or now < self.until:
            return set()
        found, self.ranks, self.until, self.told = self.ranks, set(), None, now
        return found


class Questions:
    """What was asked of the hub through us: who asked, and what is done with the answer."""

    def __init__(self, rank: int):
        self.rank, self.count = rank, 0
        self.open: Dict[str, Tuple[Optional[Link], Optional[Callable[[Message], None]]]] = {}

    def ask(self, parent: Parent, answer: Callable[[Message], None]) -> None:
        """Ask for ourselves."""
        self.count += 1
        self._send(parent, f"{self.rank}.{self.count}", None, answer)

    def pass_on(self, parent: Parent, number: str, link: Link) -> None:
        """Ask for a child."""
        self._send(parent, number, link, None)

    def _send(
        self,
        parent: Parent,
        number: str,
        link: Optional[Link],
        answer: Optional[Callable[[Message], None]],
    ) -> None:
        if len(self.open) < MOST_QUESTIONS:
            self.open[number] = (link, answer)
            parent.link.send({"t": "ask", "id": number})

    def answered(self, message: Message, children: Children) -> None:
        link, answer = self.open.pop(str(message.get("id")), (None, None))
        if link is not None and link in children:
            link.send(message)
        elif answer is not None:
            answer(take_mapping(message.get("table")))
