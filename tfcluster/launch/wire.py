"""Connections between launchers: a client that waits, and sockets that never do."""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Dict, Optional, Tuple

from tfcluster.launch.proof import CLIENT, LONGEST_MESSAGE, Asker, Session

ASK_TIMEOUT = 3.0
PIECE = 1 << 16
MOST_UNSENT = 16 << 20  # bytes that a neighbour may leave unread before it is given up


def ask(
    address: Tuple[str, int],
    key: bytes,
    task: str,
    message: Dict[str, Any],
    timeout: float = ASK_TIMEOUT,
) -> Dict[str, Any]:
    """Send a task's launcher one message and return its answer.

    OSError if it cannot be reached, ValueError if what answers is no launcher of this run.
    """
    with socket.create_connection(address, timeout=timeout) as connection:
        with connection.makefile("rb") as stream:
            session = shake_hands(connection, stream, key, CLIENT, task)
            connection.sendall(session.seal(message))
            line = stream.readline(LONGEST_MESSAGE)
            if not line.endswith(b"\n"):
                raise ValueError("closed the connection without an answer")
            return session.open(line)


def shake_hands(connection: socket.socket, stream: Any, key: bytes, own: str, peer: str) -> Session:
    """Prove each other; ValueError if the other side is not who it should be."""
    asker = Asker(key, own, peer)
    connection.sendall(asker.hello)
    line = stream.readline(256)
    if not line:
        raise ValueError("closed the connection: it is not a launcher of this run")
    return asker.welcomed(line)


def join(
    address: Tuple[str, int], key: bytes, own: str, peer: str, timeout: float = ASK_TIMEOUT
) -> Tuple[socket.socket, Session]:
    """A lasting connection to another launcher, its handshake done."""
    connection = socket.create_connection(address, timeout=timeout)
    try:
        # Unbuffered, so that nothing of what follows the welcome is swallowed here.
        with connection.makefile("rb", buffering=0) as stream:
            return connection, shake_hands(connection, ByteLines(stream), key, own, peer)
    except BaseException:
        connection.close()
        raise


class ByteLines:
    """Reads a line from an unbuffered stream, and not a byte more."""

    def __init__(self, stream: Any):
        self.stream = stream

    def readline(self, limit: int) -> bytes:
        line = b""
        while len(line) < limit and not line.endswith(b"\n"):
            byte = self.stream.read(1)
            if not byte:
                break
            line += byte
        return line


def listens(address: Tuple[str, int], timeout: float = 1.0) -> Optional[str]:
    """None if a TCP connection succeeds, else the error in words."""
    try:
        socket.create_connection(address, timeout=timeout).close()
    except OSError as error:
        return error.strerror or str(error) or "timed out"
    return None


class Stream:
    """A socket that is read and written piece by piece, and never waited for."""

    def __init__(self, connection: socket.socket, longest: int):
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = connection
        self.longest = longest
        self.unread = bytearray()
        self.unsent = bytearray()
        self.open = True

    def read_lines(self) -> Tuple[list, bool]:  # type: ignore[type-arg]
        """The whole lines that have arrived, and whether more may come."""
        try:
            data = self.socket.recv(PIECE)
        except (BlockingIOError, InterruptedError):
            return [], True
        except OSError:
            return [], False
        if not data:
            return [], False
        self.unread += data
        lines = []
        while True:
            end = self.unread.find(b"\n")
            if end < 0:
                break
            lines.append(bytes(self.unread[: end + 1]))
            del self.unread[: end + 1]
        return lines, len(self.unread) <= self.longest

    def write(self, data: bytes) -> bool:
        """Send what can be sent and keep the rest; False if the connection is of no use."""
        self.unsent += data
        return self.flush()

    def flush(self) -> bool:
        while self.unsent and self.open:
            try:
                sent = self.socket.send(self.unsent[:PIECE])
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                return False
            del self.unsent[:sent]
        return self.open and len(self.unsent) <= MOST_UNSENT

    def close(self) -> None:
        self.open = False
        with contextlib.suppress(OSError):
            self.socket.close()
