"""The control port: the member of the control plane on real sockets, in one thread of its own.

A fixed number of threads, whatever connects: this one never waits for a socket, and a second one
makes connections, because looking up names cannot be done without waiting.
"""

from __future__ import annotations

import contextlib
import queue
import selectors
import socket
import threading
import time
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Set

from tfcluster.launch.answers import Answers, with_names
from tfcluster.launch.lobby import Lobby, Visitor
from tfcluster.launch.member import Member
from tfcluster.launch.neighbours import Link, Links
from tfcluster.launch.plan import LaunchPlan, control_address, required_tasks
from tfcluster.launch.proof import LONGEST_MESSAGE, Door, Session
from tfcluster.launch.ranks import rank_order
from tfcluster.launch.system import start_thread
from tfcluster.launch.wire import Stream, join

CALM, BUSY = 1.0, 0.1  # seconds between two looks at the clock


class Peer(Link):
    """A proven connection to another launcher."""

    def __init__(self, control: Control, stream: Stream, session: Session):
        self.control, self.stream, self.session = control, stream, session

    def send(self, message: Dict[str, Any]) -> None:
        if self.stream.open and not self.stream.write(self.session.seal(message)):
            self.control.post(lambda: self.control.drop(self))
        self.control.watch(self)

    def close(self) -> None:
        self.stream.flush()
        self.control.forget(self)


class Control(Links):
    """One task's control port and its place in the control plane.

    `hear(kind, value)` is called, in this thread, with what the task has to know: ready, verdict,
    finished, silent, hub, restart. `describe()` says what the task is, for whoever asks.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        task: str,
        key: bytes,
        hear: Callable[[str, Any], None],
        describe: Callable[[], Dict[str, Any]],
    ):
        self.plan, self.task, self.key, self.hear = plan, task, key, hear
        roles = {name: role["replicas"] for name, role in plan["roles"].items()}
        serving = [name for name, role in plan["roles"].items() if role.get("serves")]
        self.names = rank_order(roles, serving)
        self.ranks = ranks = {name: rank for rank, name in enumerate(self.names)}
        self.member = Member(
            ranks[task],
            {name: [ranks[f"{name}-{i}"] for i in range(count)] for name, count in roles.items()},
            {ranks[name] for name in required_tasks(plan)},
            self,
            time.monotonic(),
            patience=plan["start_timeout"],
            tell=self.pass_on,
        )
        self.selector = selectors.DefaultSelector()
        self.posted: "queue.SimpleQueue[Callable[[], None]]" = queue.SimpleQueue()
        self.wanted: "queue.SimpleQueue[int]" = queue.SimpleQueue()
        self.answers = Answers(plan["run"], self.names, self.member, hear, describe)
        self.lobby = Lobby(self.selector, Door(key, task), ranks, self.welcome, self.answers.answer)
        self.waker, self.woken = socket.socketpair()
        self.may_go = threading.Event()
        self.running = False
        self.over = False

    # -- From other threads

    def start(self) -> None:
        """Listen; OSError if the port, or a thread, cannot be had."""
        port = control_address(self.plan, self.task)[1]
        self.lobby.listen(self.plan.get("bind", "0.0.0.0"), port)
        self.woken.setblocking(False)
        self.waker.setblocking(False)
        self.selector.register(self.woken, selectors.EVENT_READ, None)
        start_thread(self.run)
        start_thread(self.make_connections)
        self.running = True

    def post(self, action: Callable[[], None]) -> None:
        """Have something done in the control thread."""
        self.posted.put(action)
        with contextlib.suppress(OSError):
            self.waker.send(b".")

    def report(self, doing: Dict[str, Any]) -> None:
        self.post(lambda: self.member.report(time.monotonic(), doing))

    def speak_for(self, task: str, kind: str, code: int, reason: str) -> None:
        """A task that does not answer counts as failed."""
        cause = {"task": task, "kind": kind, "exitCode": code, "reason": reason, "lines": []}
        cause["time"] = time.time()
        self.post(lambda: self.member.fail(time.monotonic(), cause))

    def settle(
        self, state: str, cause: Optional[Dict[str, Any]], without: Sequence[str] = ()
    ) -> None:
        """Our task has ended like this, and completed the job without those that it gave up."""

        def act() -> None:
            now = time.monotonic()
            if state == "succeeded" and self.task in self.required:
                given_up = {self.ranks[name] for name in without if name in self.ranks}
                self.member.learn_finals(now, {self.member.rank, *given_up})
            if state == "failed" and cause is not None:
                self.member.fail(now, cause)
            self.member.end(now)

        self.post(act)

    def say_goodbye(self, longest: float) -> None:
        """Return when no other task needs us, or after `longest` seconds; then we are gone."""
        self.may_go.wait(longest)
        done = threading.Event()

        def act() -> None:
            self.member.leave()
            self.over = True
            done.set()

        self.post(act)
        done.wait(2.0)

    @property
    def required(self) -> Set[str]:
        return {self.names[rank] for rank in self.member.facts.required}

    def unheard(self) -> float:
        """For how long no task that decides about the job was heard of, if we are the hub."""
        return self.member.unheard(time.monotonic())

    def open_required(self) -> List[str]:
        """The tasks whose success is still needed."""
        left = self.member.facts.required - self.member.facts.finals
        return [self.names[rank] for rank in sorted(left)]

    def has_place(self) -> bool:
        """Whether we have heard from the others, or there are none."""
        member = self.member
        if member.parent is not None:
            return member.search.found_once
        return member.is_hub and (bool(member.children) or member.presence.size == 1)

    def job_table(self, patience: float = 1.0) -> Dict[str, Any]:
        """What every task is doing, as the hub says; what we know ourselves if it is silent."""
        answered = threading.Event()
        found: List[Dict[str, Any]] = []

        def take(table: Dict[str, Any]) -> None:
            found.append(table)
            answered.set()

        self.post(lambda: self.member.query(take))
        answered.wait(patience)
        table = found[0] if found else self.member.table()
        return with_names(table, self.plan["run"], self.names)

    # -- The control thread

    def run(self) -> None:
        while not self.over:
            for key, _events in self.selector.select(self.pause()):
                if key.fileobj is self.lobby.listener:
                    self.lobby.accept()
                elif key.fileobj is self.woken:
                    with contextlib.suppress(OSError):
                        self.woken.recv(4096)
                elif isinstance(key.data, Peer):
                    self.serve_peer(key.data)
                elif isinstance(key.data, Visitor):
                    self.lobby.serve(key.data)
            self.run_posted()
            self.look_at_clock()

    def pause(self) -> float:
        member = self.member
        waits = member.gathering.until is not None or member.leaving_since is not None
        seeks = member.parent is None and not member.is_hub
        decides = member.facts.cause is not None and member.facts.verdict is None
        return BUSY if waits or seeks or decides or self.answers.waiting else CALM

    def run_posted(self) -> None:
        while True:
            try:
                action = self.posted.get_nowait()
            except queue.Empty:
                return
            action()

    def look_at_clock(self) -> None:
        now = time.monotonic()
        self.member.tick(now)
        if self.member.may_leave(now):
            self.may_go.set()
        self.answers.look_at_clock(now)
        self.lobby.look_at_clock(now)

    def welcome(self, name: str, stream: Stream, session: Session) -> None:
        """Another launcher has connected and shown its proof."""
        peer = Peer(self, stream, session)
        self.selector.modify(stream.socket, selectors.EVENT_READ, peer)
        self.member.accepted(time.monotonic(), self.ranks[name], peer)

    def serve_peer(self, peer: Peer) -> None:
        lines, more = peer.stream.read_lines()
        try:
            for line in lines:
                if not peer.stream.open:
                    return
                self.member.received(time.monotonic(), peer, peer.session.open(line))
        except (ValueError, KeyError, TypeError):
            more = False
        if peer.stream.open and not (more and peer.stream.flush()):
            self.drop(peer)
        else:
            self.watch(peer)

    def watch(self, peer: Peer) -> None:
        """Wait for room to write only while there is something to write."""
        if peer.stream.open:
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.stream.unsent else 0)
            with contextlib.suppress(KeyError, ValueError):
                self.selector.modify(peer.stream.socket, events, peer)

    def drop(self, peer: Peer) -> None:
        """A connection that has ended, or that makes no sense."""
        if peer.stream.open:
            self.forget(peer)
            self.member.closed(time.monotonic(), peer)

    def forget(self, peer: Peer) -> None:
        if peer.stream.open:
            with contextlib.suppress(KeyError, ValueError):
                self.selector.unregister(peer.stream.socket)
            peer.stream.close()

    def pass_on(self, kind: str, value: Any) -> None:
        """What the member says, in the words of tasks instead of ranks."""
        if kind == "silent":
            offset = time.time() - time.monotonic()
            value = {self.names[rank]: since + offset for rank, since in value.items()}
        self.hear(kind, value)

    # -- Making connections

    def connect(self, rank: int) -> None:
        self.wanted.put(rank)

    def make_connections(self) -> None:
        """The one thread that may wait for names and for peers that do not answer."""
        while True:
            rank = self.wanted.get()
            peer = self.names[rank]
            try:
                address = control_address(self.plan, peer)
                made = join(address, self.key, self.task, peer)
            except (OSError, ValueError) as error:
                self.post(partial(self.lose, rank, isinstance(error, socket.gaierror)))
                continue
            self.post(partial(self.take, rank, *made))

    def lose(self, rank: int, unknown: bool) -> None:
        self.member.refused(time.monotonic(), rank, unknown)

    def take(self, rank: int, connection: socket.socket, session: Session) -> None:
        stream = Stream(connection, LONGEST_MESSAGE)
        peer = Peer(self, stream, session)
        self.selector.register(connection, selectors.EVENT_READ, peer)
        self.member.connected(time.monotonic(), rank, peer)
