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
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from tfcluster.launch.member import Link, Links, Member
from tfcluster.launch.messages import check_cause
from tfcluster.launch.plan import (
    LaunchPlan,
    control_address,
    required_tasks,
)
from tfcluster.launch.proof import CLIENT, LONGEST_HELLO, LONGEST_MESSAGE, Door, Session
from tfcluster.launch.ranks import rank_order
from tfcluster.launch.wire import Stream, join

HELLO_SECONDS = 3.0  # by then a connection has shown its proof
CLIENT_SECONDS = 15.0  # commands ask and go
HUB_SECONDS = 1.0  # by then the hub has answered a question, or we do
MOST_STRANGERS = 64  # connections without proof; the oldest make room for new ones
MOST_CLIENTS = 64
CALM, BUSY = 1.0, 0.1  # seconds between two looks at the clock
ACCEPT_PAUSE = 0.2  # when the system has no descriptor left


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


class Visitor:
    """A connection that has shown no proof yet, or a command that asks."""

    def __init__(self, stream: Stream):
        self.stream = stream
        self.session: Optional[Session] = None
        self.until = time.monotonic() + HELLO_SECONDS


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
        self.plan, self.task, self.key, self.hear, self.describe = plan, task, key, hear, describe
        roles = {name: role["replicas"] for name, role in plan["roles"].items()}
        serving = [name for name, role in plan["roles"].items() if role.get("serves")]
        self.names = rank_order(roles, serving)
        ranks = {name: rank for rank, name in enumerate(self.names)}
        self.ranks = ranks
        self.door = Door(key, task)
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
        self.visitors: "OrderedDict[Stream, Visitor]" = OrderedDict()
        self.unanswered: List[Tuple[float, Callable[[Dict[str, Any]], None]]] = []
        self.listener: Optional[socket.socket] = None
        self.accept_again: Optional[float] = None
        self.waker, self.woken = socket.socketpair()
        self.may_go = threading.Event()
        self.over = False

    # -- From other threads

    def start(self) -> None:
        """Listen; OSError if the port cannot be had."""
        port = control_address(self.plan, self.task)[1]
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self.plan.get("bind", "0.0.0.0"), port))
        listener.listen(512)
        listener.setblocking(False)
        self.listener = listener
        self.woken.setblocking(False)
        self.waker.setblocking(False)
        self.selector.register(listener, selectors.EVENT_READ, None)
        self.selector.register(self.woken, selectors.EVENT_READ, None)
        threading.Thread(target=self.run, daemon=True).start()
        threading.Thread(target=self.make_connections, daemon=True).start()

    def post(self, action: Callable[[], None]) -> None:
        """Have something done in the control thread."""
        self.posted.put(action)
        with contextlib.suppress(OSError):
            self.waker.send(b".")

    def report(self, doing: Dict[str, Any]) -> None:
        self.post(lambda: self.member.report(time.monotonic(), doing))

    def settle(self, state: str, cause: Optional[Dict[str, Any]]) -> None:
        """Our task has ended like this."""

        def act() -> None:
            now = time.monotonic()
            if state == "succeeded" and self.task in self.required:
                self.member.learn_finals(now, {self.member.rank})
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
        return self.with_names(found[0] if found else self.member.table())

    def with_names(self, table: Dict[str, Any]) -> Dict[str, Any]:
        """The hub's table with the names of tasks instead of their ranks."""
        finals = {rank for first, last in table["finals"] for rank in range(first, last + 1)}
        return {
            "run": self.plan["run"],
            "hub": self.names[table["hub"]],
            "tasks": {self.names[int(rank)]: doing for rank, doing in table["tasks"].items()},
            "finals": [self.names[rank] for rank in sorted(finals)],
            "silent": {self.names[int(rank)]: since for rank, since in table["silent"].items()},
            "verdict": table["verdict"],
        }

    # -- The control thread

    def run(self) -> None:
        while not self.over:
            for key, _events in self.selector.select(self.pause()):
                if key.fileobj is self.listener:
                    self.accept()
                elif key.fileobj is self.woken:
                    with contextlib.suppress(OSError):
                        self.woken.recv(4096)
                elif isinstance(key.data, Peer):
                    self.serve_peer(key.data)
                elif isinstance(key.data, Visitor):
                    self.serve_visitor(key.data)
            self.run_posted()
            self.look_at_clock()

    def pause(self) -> float:
        member = self.member
        waits = member.gather_until is not None or member.leaving_since is not None
        seeks = member.parent is None and not member.is_hub
        decides = member.facts.cause is not None and member.facts.verdict is None
        return BUSY if waits or seeks or decides or self.unanswered else CALM

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
        self.answer_for_hub(now)
        for stream, visitor in list(self.visitors.items()):
            if now > visitor.until:
                self.turn_away(stream)
        if self.accept_again is not None and now > self.accept_again and self.listener:
            self.accept_again = None
            self.selector.register(self.listener, selectors.EVENT_READ, None)

    def accept(self) -> None:
        assert self.listener is not None
        for _ in range(MOST_STRANGERS):
            try:
                connection, _address = self.listener.accept()
            except BlockingIOError:
                return
            except OSError:
                # No descriptor is left: strangers go, and those who wait are heard in a moment.
                for stream in list(self.visitors):
                    self.turn_away(stream)
                self.selector.unregister(self.listener)
                self.accept_again = time.monotonic() + ACCEPT_PAUSE
                return
            stream = Stream(connection, LONGEST_HELLO)
            visitor = Visitor(stream)
            self.visitors[stream] = visitor
            self.selector.register(connection, selectors.EVENT_READ, visitor)
            if len(self.visitors) > MOST_STRANGERS + MOST_CLIENTS:
                self.turn_away(next(iter(self.visitors)))

    def turn_away(self, stream: Stream) -> None:
        self.visitors.pop(stream, None)
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(stream.socket)
        stream.close()

    def serve_visitor(self, visitor: Visitor) -> None:
        lines, more = visitor.stream.read_lines()
        try:
            for line in lines:
                if visitor.stream not in self.visitors:
                    return
                if visitor.session is None:
                    self.open_door(visitor, line)
                else:
                    self.answer(visitor, visitor.session.open(line))
        except (ValueError, RecursionError):
            more = False
        if visitor.stream in self.visitors and not (more and visitor.stream.flush()):
            self.turn_away(visitor.stream)

    def open_door(self, visitor: Visitor, line: bytes) -> None:
        admitted = self.door.admit(line)
        if admitted is None:
            raise ValueError("a stranger")
        name, answer, session = admitted
        stream = visitor.stream
        if name == CLIENT:
            visitor.session, visitor.until = session, time.monotonic() + CLIENT_SECONDS
            stream.longest = LONGEST_MESSAGE
            stream.write(answer)
        elif name in self.ranks:
            del self.visitors[stream]
            stream.longest = LONGEST_MESSAGE
            stream.write(answer)
            peer = Peer(self, stream, session)
            self.selector.modify(stream.socket, selectors.EVENT_READ, peer)
            self.member.accepted(time.monotonic(), self.ranks[name], peer)
        else:
            raise ValueError("no task of this run")

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

    # -- Commands and keepers that ask

    def answer(self, visitor: Visitor, message: Dict[str, Any]) -> None:
        """One question of a command or a keeper; ValueError if it makes no sense."""
        assert visitor.session is not None
        session, stream, now = visitor.session, visitor.stream, time.monotonic()
        told = message.get("tell")
        if message.get("ask") == "job":
            self.pass_question(visitor.session, stream)
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

    def pass_question(self, session: Session, stream: Stream) -> None:
        """What every task is doing: the hub's answer, or our own while the hub is silent."""
        answered: List[bool] = []

        def reply(table: Dict[str, Any]) -> None:
            if stream.open and not answered:
                answered.append(True)
                stream.write(session.seal(self.with_names(table)))

        self.unanswered.append((time.monotonic() + HUB_SECONDS, reply))
        self.member.query(reply)

    def answer_for_hub(self, now: float) -> None:
        late = [reply for until, reply in self.unanswered if now > until]
        self.unanswered = [entry for entry in self.unanswered if now <= entry[0]]
        for reply in late:
            reply(self.member.table())

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
            except (OSError, ValueError):
                self.post(lambda rank=rank: self.member.refused(time.monotonic(), rank))  # type: ignore[misc]
                continue
            self.post(lambda rank=rank, made=made: self.take(rank, *made))  # type: ignore[misc]

    def take(self, rank: int, connection: socket.socket, session: Session) -> None:
        stream = Stream(connection, LONGEST_MESSAGE)
        peer = Peer(self, stream, session)
        self.selector.register(connection, selectors.EVENT_READ, peer)
        self.member.connected(time.monotonic(), rank, peer)
