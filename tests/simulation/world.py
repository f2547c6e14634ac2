"""Launchers of one job in one process, on simulated time, with faults drawn from a seed.

The protocol is the real one (tfcluster.launch.member); only sockets, clocks and programs are not.
A task's launcher can be killed and replaced, paused, or cut off from others; programs finish or
fail when the seed says so. Everything that happens follows from the seed.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tfcluster.launch.member import Member
from tfcluster.launch.neighbours import Link, Links
from tfcluster.launch.ranks import rank_order

DELAY = (0.0005, 0.02)  # of a message
NOTICED = 3.0  # how long an attempt to connect to a machine that does not answer takes
RETRANSMITTED = 0.5
STOP_GRACE = 1.0
TICK = 0.5
START_TIMEOUT = 120.0


@dataclass(frozen=True)
class Faults:
    """How many of each, drawn at random over the life of the job."""

    kills: int = 0
    pauses: int = 0
    cuts: int = 0
    failures: int = 0
    together: bool = False  # whether all programs end at the same moment


@dataclass
class Wire:
    """One connection; messages arrive in order, and not at all while its ends are cut off."""

    ends: tuple[Node, Node]
    open: bool = True
    arrives: list[float] = field(default_factory=lambda: [0.0, 0.0])


class End(Link):
    """One side of a wire."""

    def __init__(self, world: World, wire: Wire, side: int):
        self.world, self.wire, self.side = world, wire, side
        self.other: End = self
        self.incarnation = wire.ends[side].incarnation

    @property
    def node(self) -> Node:
        return self.wire.ends[self.side]

    def send(self, message: dict[str, Any]) -> None:
        self.node.sent += 1
        self.world.deliver(self.wire, self, message)

    def close(self) -> None:
        self.world.deliver(self.wire, self, None)


class Node(Links):
    """One task: its launcher, and the program that this launcher would run."""

    def __init__(self, world: World, rank: int):
        self.world, self.rank = world, rank
        self.sent = self.connects = self.most_links = 0
        self.incarnation = 0
        self.alive = False
        self.paused_until = 0.0
        self.waiting: list[Callable[[], None]] = []
        self.member: Member
        self.program = "waiting"  # waiting, running, finished, failed, stopped
        self.runs = 0  # how often the program was started
        self._outcome: tuple[str, str | None] | None = None
        self.left_at: float | None = None
        self.disturbed_until = 0.0  # it was away until then: killed, paused or cut off
        self.links: set[End] = set()

    @property
    def outcome(self) -> tuple[str, str | None] | None:
        return self._outcome

    @outcome.setter
    def outcome(self, value: tuple[str, str | None]) -> None:
        if self._outcome is None:
            self.world.open -= 1
        self._outcome = value

    # -- Life

    def start(self) -> None:
        self.alive = True
        self.incarnation += 1
        self.program = "waiting"
        self.started = self.world.now
        world = self.world
        self.member = Member(
            self.rank,
            world.roles,
            world.required,
            self,
            world.now,
            patience=START_TIMEOUT,
            role_of=world.role_of,
            tell=self.hear,
        )
        own = self.incarnation
        self.world.after(self.world.random.uniform(0, TICK), lambda: self.tick(own))
        if own > 1:
            self.world.after(1.0, self.when_alive(self.be_briefed))

    def be_briefed(self) -> None:
        """Keepers tell a launcher that they have put in another's place how others ended."""
        gone = [node for node in self.world.nodes if not node.alive]
        ended = {node.rank for node in gone if node.program == "finished"}
        self.member.learn_finals(self.world.now, ended)
        left = {self.world.names[node.rank] for node in gone if node.program == "failed"}
        for cause in self.world.failed:
            if cause["task"] in left:
                self.member.fail(self.world.now, cause)

    def hear(self, kind: str, value: Any) -> None:
        if kind == "ready" and self.program == "waiting":
            self.maybe_run()
        elif kind == "finished" and self.program in ("waiting", "running"):
            self.program = "finished"
            self.world.after(0.01, self.when_alive(self.finish))
        elif kind == "verdict":
            self.world.after(0.01, self.when_alive(self.obey))

    def when_alive(self, action: Callable[[], None]) -> Callable[[], None]:
        own = self.incarnation

        def act() -> None:
            if self.alive and self.incarnation == own:
                self.world.at_node(self, action)

        return act

    def maybe_run(self) -> None:
        needs = self.world.needs(self.rank)
        if self.program == "waiting" and needs <= self.member.facts.ready:
            self.program = "running"
            self.runs += 1
            self.member.report(self.world.now, {"state": "running"})
            length, code = self.world.script[self.rank]
            if length is not None:
                self.world.after(length, self.when_alive(lambda: self.exit(code)))

    def exit(self, code: int) -> None:
        if self.program != "running":
            return
        if code == 0:
            self.program = "finished"
            self.member.learn_finals(self.world.now, {self.rank})
            self.finish()
        else:
            self.program = "failed"
            cause = {"task": self.world.names[self.rank], "kind": "exit", "exitCode": code}
            cause.update(reason=f"exit code {code}", lines=[], time=self.world.now)
            self.world.failed.append(cause)
            self.member.fail(self.world.now, cause)
            self.member.end(self.world.now)

    def finish(self) -> None:
        self.member.end(self.world.now)

    def obey(self) -> None:
        if self.program in ("waiting", "running"):
            self.program = "stopped"
            own = self.world.random.uniform(0, STOP_GRACE)
            self.world.after(own, self.when_alive(lambda: self.member.end(self.world.now)))

    def tick(self, own: int) -> None:
        if not self.alive or own != self.incarnation:
            return

        def look() -> None:
            now = self.world.now
            self.member.tick(now)
            self.maybe_run()
            if self.member.may_leave(now):
                self.leave()
            elif self.waited_in_vain(now):
                self.outcome = ("silence", None)
                self.die()

        self.world.at_node(self, look)
        if self.alive:
            self.world.after(TICK, lambda: self.tick(own))

    def waited_in_vain(self, now: float) -> bool:
        if self.program == "waiting":
            return now - self.started > START_TIMEOUT
        return self.program == "running" and self.member.unheard(now) > START_TIMEOUT

    def leave(self) -> None:
        verdict = self.member.facts.verdict
        cause = (verdict or {}).get("cause") or {}
        state = "succeeded" if self.program == "finished" else (verdict or {}).get("state")
        self.outcome = (str(state), cause.get("task") if state != "succeeded" else None)
        if self.program == "failed":
            self.outcome = ("failed", cause.get("task"))
        self.member.leave()
        self.left_at = self.world.now
        self.die()

    def die(self) -> None:
        self.alive = False
        for link in list(self.links):
            link.close()
        self.links.clear()

    # -- Links

    def connect(self, rank: int) -> None:
        self.connects += 1
        self.world.connect(self, self.world.nodes[rank])


class World:
    """All launchers of a job."""

    def __init__(self, seed: int, roles: dict[str, int], *, serving: set[str], faults: Faults):
        self.random = random.Random(seed)
        self.seed = seed
        self.names = rank_order(roles, serving)
        ranks = {name: rank for rank, name in enumerate(self.names)}
        self.roles = {
            role: [ranks[f"{role}-{index}"] for index in range(count)]
            for role, count in roles.items()
        }
        self.role_of = {rank: name for name, all_ in self.roles.items() for rank in all_}
        self.serving = serving
        self.serving_ranks = {rank for name in serving for rank in self.roles[name]}
        self.required = {
            r for name, all_ in self.roles.items() if name not in serving for r in all_
        }
        self.now = 0.0
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.numbers = itertools.count()
        self.cut: set[int] = set()  # ranks that nobody reaches
        self.failed: list[dict[str, Any]] = []
        self.last_end = 0.0
        self.open = len(self.names)  # tasks that have not ended
        self.nodes = [Node(self, rank) for rank in range(len(self.names))]
        self.script: list[tuple[float | None, int]] = []
        self.write_script(faults)
        for node in self.nodes:
            self.after(self.random.uniform(0, 3), node.start)

    def needs(self, rank: int) -> set[str]:
        return set() if rank in self.serving_ranks else self.serving

    def write_script(self, faults: Faults) -> None:
        """Draw when programs end, and every fault."""
        pick = self.random
        serving = self.serving_ranks
        for rank in range(len(self.names)):
            length = 20.0 if faults.together else pick.uniform(5, 60)
            self.script.append((None, 0) if rank in serving else (length, 0))
        ending = [rank for rank in range(len(self.names)) if rank not in serving]
        for rank in pick.sample(ending, min(faults.failures, len(ending))):
            self.script[rank] = (pick.uniform(1, 50), pick.randrange(1, 100))
        # Low ranks are the hubs, so every other fault is meant for one of them.
        for number in range(faults.kills + faults.pauses + faults.cuts):
            low = number % 2 == 0
            rank = pick.randrange(min(6, len(self.names)) if low else len(self.names))
            node, when = self.nodes[rank], pick.uniform(0.5, 70)
            if number < faults.kills:
                self.after(when, self.kill(node, pick.uniform(0.2, 8)))
            elif number < faults.kills + faults.pauses:
                self.after(when, self.pause(node, pick.uniform(0.5, 30)))
            else:
                self.after(when, self.cut_off(node, pick.uniform(0.5, 30)))

    # -- Faults

    def kill(self, node: Node, replaced_after: float) -> Callable[[], None]:
        def act() -> None:
            if node.alive:
                over = node.program in ("finished", "failed")
                node.die()
                node.disturbed_until = max(node.disturbed_until, self.now + replaced_after)
                # What has finished or failed for good is on disk, and is not run again.
                if not over:
                    self.after(replaced_after, node.start)
                else:
                    node.outcome = ("killed", None)
                    self.after(1.0, self.speak_for)

        return act

    def speak_for(self) -> None:
        """A keeper tells a launcher that lives how tasks ended that were killed in saying so."""
        listening = [n for n in self.nodes if n.alive and self.now >= n.paused_until]
        if listening:
            self.random.choice(listening).be_briefed()

    def pause(self, node: Node, length: float) -> Callable[[], None]:
        def act() -> None:
            if node.alive:
                node.paused_until = self.now + length
                node.disturbed_until = max(node.disturbed_until, self.now + length)
                self.after(length, lambda: self.resume(node))

        return act

    def resume(self, node: Node) -> None:
        if self.now >= node.paused_until:
            waiting, node.waiting = node.waiting, []
            for action in waiting:
                if node.alive:
                    action()

    def cut_off(self, node: Node, length: float) -> Callable[[], None]:
        def act() -> None:
            self.cut.add(node.rank)
            node.disturbed_until = max(node.disturbed_until, self.now + length)
            self.after(length, lambda: self.cut.discard(node.rank))

        return act

    # -- Time and messages

    def after(self, delay: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (self.now + delay, next(self.numbers), action))

    def at_node(self, node: Node, action: Callable[[], None]) -> None:
        """Now, or when a paused node goes on."""
        if self.now < node.paused_until:
            node.waiting.append(action)
        else:
            action()

    def connect(self, asker: Node, peer: Node) -> None:
        own = asker.incarnation
        blocked = asker.rank in self.cut or peer.rank in self.cut
        silent = blocked or (peer.alive and self.now < peer.paused_until)
        delay = NOTICED if silent else self.random.uniform(*DELAY)

        def answer() -> None:
            if not asker.alive or asker.incarnation != own:
                return
            if silent or not peer.alive:
                self.at_node(asker, lambda: asker.member.refused(self.now, peer.rank))
                return
            wire = Wire((asker, peer))
            ends = (End(self, wire, 0), End(self, wire, 1))
            ends[0].other, ends[1].other = ends[1], ends[0]
            for end, node in zip(ends, wire.ends, strict=True):
                node.links.add(end)
                node.most_links = max(node.most_links, len(node.links))
            self.at_node(peer, lambda: peer.member.accepted(self.now, asker.rank, ends[1]))
            self.at_node(asker, lambda: asker.member.connected(self.now, peer.rank, ends[0]))

        self.after(delay, answer)

    def deliver(self, wire: Wire, sender: End, message: dict[str, Any] | None) -> None:
        """A message, or None for the end of the connection, to the other side."""
        if not wire.open:
            return
        receiver = sender.other
        if message is None:
            wire.open = False
            for end, node in ((sender, sender.node), (receiver, receiver.node)):
                node.links.discard(end)
        self.carry(receiver, message)

    def carry(self, end: End, message: dict[str, Any] | None) -> None:
        """Messages arrive in order; while an end is cut off, TCP keeps them and tries again."""
        if end.node.rank in self.cut or end.other.node.rank in self.cut:
            self.after(RETRANSMITTED, lambda: self.carry(end, message))
            return
        when = max(self.now + self.random.uniform(*DELAY), end.wire.arrives[end.side])
        end.wire.arrives[end.side] = when
        heapq.heappush(self.queue, (when, next(self.numbers), lambda: self.arrive(end, message)))

    def arrive(self, end: End, message: dict[str, Any] | None) -> None:
        node = end.node
        if not node.alive or node.incarnation != end.incarnation:
            return

        def take() -> None:
            if not node.alive or node.incarnation != end.incarnation:
                return
            if message is None:
                node.member.closed(self.now, end)
            else:
                node.member.received(self.now, end, message)

        self.at_node(node, take)

    def run(self, until: float = 400.0) -> None:
        """Until nothing is left to happen, or time is over."""
        while self.queue and self.queue[0][0] <= until:
            self.now, _, action = heapq.heappop(self.queue)
            action()
            if self.open == 0:
                return
