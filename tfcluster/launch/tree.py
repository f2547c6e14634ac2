"""A launcher's place in the tree: its parent, its children, and whether it is the hub.

`Member` says what travels along the connections; here is only how they are made, kept and lost.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional

from tfcluster.launch.facts import Facts
from tfcluster.launch.messages import Message
from tfcluster.launch.neighbours import Child, Children, Link, Links, Parent, Questions, Upward
from tfcluster.launch.presence import Presence
from tfcluster.launch.search import PROBE_EVERY, Search

BEAT = 4.0  # seconds between two signs of life
DEAF = 13.0  # a neighbour that gives none for this long is not counted on


class Tree:
    """The connections of one launcher, kept alive and replaced by rule."""

    def __init__(
        self,
        rank: int,
        links: Links,
        facts: Facts,
        presence: Presence,
        now: float,
        tell: Callable[[str, Any], None],
    ):
        self.rank, self.links, self.tell = rank, links, tell
        self.facts, self.presence = facts, presence
        self.search = Search(rank, now)
        self.parent: Optional[Parent] = None
        self.children = Children()
        self.upward = Upward()  # what the parent does not know yet
        self.questions = Questions(rank)
        self.is_hub = rank == 0

    # -- What travels: see Member

    def _greeting(self) -> Message:
        """All that a new parent has to know of us and of those we speak for."""
        raise NotImplementedError

    def _lose(self, child: Child, now: float) -> None:
        """A child is gone, and no longer speaks for its tasks."""
        raise NotImplementedError

    # -- Connections come and go

    def connected(self, now: float, rank: int, link: Link) -> None:
        """A connection that we asked for is there."""
        self.search.succeeded()
        if self.parent is not None or rank >= self.rank:
            link.close()
            return
        self.parent = Parent(rank, link, now)
        link.send(self._greeting())
        self.upward.clear()

    def refused(self, now: float, rank: int, unknown: bool = False) -> None:
        """A connection that we asked for cannot be made; `unknown` if its host has no address."""
        self.search.refused(rank, now, unknown)

    def accepted(self, now: float, rank: int, link: Link) -> None:
        """Another launcher has connected to us and shown that it is one of ours."""
        if rank <= self.rank or not self.children.has_door():
            link.send(self.children.refusal(rank))
            link.close()
            return
        for other, child in list(self.children.items()):
            if child.rank == rank:  # it was cut off, or replaced, before we noticed
                self._drop(now, other)
        self.children[link] = Child(rank, now)

    def closed(self, now: float, link: Link) -> None:
        """A connection has ended."""
        if self.parent is not None and link is self.parent.link:
            lost = self.parent.rank
            self._forget_parent()
            self.search.begin(now, None if lost in self.facts.finals else lost)
            return
        child = self.children.pop(link, None)
        if child is not None:
            self._lose(child, now)

    def _drop(self, now: float, link: Link) -> None:
        """End the connection to a child."""
        self.closed(now, link)
        link.close()

    def _forget_parent(self) -> None:
        self.parent = None
        self.questions.open.clear()

    def _leave_parent(self) -> Optional[int]:
        """End the connection to our parent, if there is one; its rank."""
        if self.parent is None:
            return None
        link, lost = self.parent.link, self.parent.rank
        self._forget_parent()
        link.close()
        return lost

    # -- Another parent, or none

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

    def _go_elsewhere(self, now: float, hints: object) -> None:
        """Our parent has no room for us: go on at once with those that it names."""
        self._leave_parent()
        if not isinstance(hints, list) or not all(type(rank) is int for rank in hints):
            raise ValueError("expected ranks")
        known: List[int] = [rank for rank in hints if 0 <= rank < self.rank]
        self.search.follow(now, known)
        self._seek(now)

    def _go_on(self, now: float) -> None:
        """Our parent leaves: go on at once with the next candidate."""
        lost = self._leave_parent()
        self.search.skip(now, lost, self.facts.finals)
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

    # -- Signs of life

    def _check_children(self, now: float) -> None:
        for link, child in list(self.children.items()):
            if now - child.heard > DEAF:
                self._drop(now, link)
            elif now - child.spoken > BEAT:
                link.send({"t": "beat"})
                child.spoken = now

    def _check_parent(self, now: float) -> None:
        if self.parent is None:
            return
        if now - self.parent.heard > DEAF:
            self._leave_parent()
            self.search.begin(now, None)  # it may listen and yet not answer
        elif now - self.parent.spoken > BEAT:
            self.parent.send(now, {"t": "beat"})
