"""The listening side of the control port: strangers, who get nothing, and commands that ask.

A bounded number of connections wait here without proof; the oldest make room for new ones.
"""

from __future__ import annotations

import selectors
import socket
import time
from collections import OrderedDict
from contextlib import suppress
from typing import Any, Callable, Container, Dict, Optional

from tfcluster.launch.proof import CLIENT, LONGEST_HELLO, LONGEST_MESSAGE, Door, Session
from tfcluster.launch.wire import Stream

HELLO_SECONDS = 3.0  # by then a connection has shown its proof
CLIENT_SECONDS = 15.0  # commands ask and go
MOST_STRANGERS = 64  # connections without proof
MOST_CLIENTS = 64
ACCEPT_PAUSE = 0.2  # when the system has no descriptor left


class Visitor:
    """A connection that has shown no proof yet, or a command that asks."""

    def __init__(self, stream: Stream):
        self.stream = stream
        self.session: Optional[Session] = None
        self.until = time.monotonic() + HELLO_SECONDS


class Lobby:
    """Whoever has connected and is not, or not yet, another launcher.

    `welcome(name, stream, session)` takes over the connection of a launcher that has shown its
    proof; `answer(stream, session, message)` answers a command, or raises ValueError.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        door: Door,
        tasks: Container[str],
        welcome: Callable[[str, Stream, Session], None],
        answer: Callable[[Stream, Session, Dict[str, Any]], None],
    ):
        self.selector, self.door, self.tasks = selector, door, tasks
        self.welcome, self.answer = welcome, answer
        self.visitors: "OrderedDict[Stream, Visitor]" = OrderedDict()
        self.listener: Optional[socket.socket] = None
        self.accept_again: Optional[float] = None

    def listen(self, host: str, port: int) -> None:
        """OSError if the port cannot be had."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
        listener.setblocking(False)
        self.listener = listener
        self.selector.register(listener, selectors.EVENT_READ, None)

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
        with suppress(KeyError, ValueError):
            self.selector.unregister(stream.socket)
        stream.close()

    def serve(self, visitor: Visitor) -> None:
        lines, more = visitor.stream.read_lines()
        try:
            for line in lines:
                if visitor.stream not in self.visitors:
                    return
                if visitor.session is None:
                    self.open_door(visitor, line)
                else:
                    message = visitor.session.open(line)
                    self.answer(visitor.stream, visitor.session, message)
        except (ValueError, RecursionError):
            more = False
        if visitor.stream in self.visitors and not (more and visitor.stream.flush()):
            self.turn_away(visitor.stream)

    def open_door(self, visitor: Visitor, line: bytes) -> None:
        admitted = self.door.admit(line)
        if admitted is None:
            raise ValueError("a stranger")
        name, greeting, session = admitted
        stream = visitor.stream
        if name == CLIENT:
            visitor.session, visitor.until = session, time.monotonic() + CLIENT_SECONDS
        elif name in self.tasks:
            del self.visitors[stream]
        else:
            raise ValueError("no task of this run")
        stream.longest = LONGEST_MESSAGE
        stream.write(greeting)
        if name != CLIENT:
            self.welcome(name, stream, session)

    def look_at_clock(self, now: float) -> None:
        for stream, visitor in list(self.visitors.items()):
            if now > visitor.until:
                self.turn_away(stream)
        if self.accept_again is not None and now > self.accept_again and self.listener:
            self.accept_again = None
            self.selector.register(self.listener, selectors.EVENT_READ, None)
