"""Proof between launchers: both ends of a connection show that they know the run's key.

    asker   -> tfc1 <from> <to> <nonce> <proof>      the asker knows the key, and means this task
    answerer -> <nonce> <proof>                      so does the answerer
    then, both ways: <proof> <JSON>                  made with a key of this connection alone

The answerer says nothing before the asker has shown its proof. Nonces are not taken twice, and
every message is counted, so that nothing that was overheard can be said again. Proofs are
HMAC-SHA256, cut to 128 bits, and compared in constant time.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from typing import Any, Dict, Optional, Tuple

from tfcluster.launch.mac import is_same, mac

KEY_FILE = "control.key"  # beside the launch plan
KEY_BYTES = 32
PROOF_DIGITS = 32
NONCE_DIGITS = 32
LONGEST_HELLO = 512  # bytes
LONGEST_MESSAGE = 4 << 20
REMEMBERED = 20_000  # nonces that are not taken again
CLIENT = "-"  # the name of an asker that is no task: a command or a keeper


def make_key() -> bytes:
    return os.urandom(KEY_BYTES)


def parse_key(text: bytes) -> bytes:
    """A key from its hexadecimal digits; ValueError if these are none, or too few."""
    try:
        key = bytes.fromhex(text.decode("ascii", "replace").strip())
    except ValueError:
        key = b""
    if len(key) < 16:
        raise ValueError("holds no key: expected at least 32 hexadecimal digits")
    return key


def read_key(path: str) -> bytes:
    """The run's key from its file."""
    with open(path, "rb") as file:
        return parse_key(file.read(4 * KEY_BYTES))


def prove(key: bytes, *parts: bytes) -> bytes:
    """A proof over these parts; their lengths are part of it."""
    text = b"".join(b"%d:" % len(part) + part for part in parts)
    return mac(key, text).hex()[:PROOF_DIGITS].encode()


def new_nonce() -> bytes:
    return os.urandom(NONCE_DIGITS // 2).hex().encode()


class Session:
    """One connection after its handshake: seals and opens messages, each of them once."""

    def __init__(self, key: bytes, asker: bytes, answerer: bytes, *, asks: bool):
        text = b"session" + asker + answerer
        self.key = mac(key, text)
        self.ours, self.theirs = (b"a", b"b") if asks else (b"b", b"a")
        self.sent = self.received = 0

    def seal(self, message: Dict[str, Any]) -> bytes:
        body = json.dumps(message, separators=(",", ":")).encode()
        proof = prove(self.key, self.ours, b"%d" % self.sent, body)
        self.sent += 1
        return proof + b" " + body + b"\n"

    def open(self, line: bytes) -> Dict[str, Any]:
        """The message; ValueError if it was not made for this place in this connection."""
        proof, _, body = line.rstrip(b"\n").partition(b" ")
        expected = prove(self.key, self.theirs, b"%d" % self.received, body)
        if not is_same(proof, expected):
            raise ValueError("a message without proof")
        self.received += 1
        try:
            message = json.loads(body)
        except RecursionError:
            raise ValueError("a message that is nested too deeply") from None
        if not isinstance(message, dict):
            raise ValueError("a message that is no object")
        return message


class Asker:
    """The side that connects."""

    def __init__(self, key: bytes, own: str, peer: str):
        self.key, self.nonce = key, new_nonce()
        names = own.encode(), peer.encode()
        proof = prove(key, b"hello", *names, self.nonce)
        self.hello = b" ".join((b"tfc1", *names, self.nonce, proof)) + b"\n"

    def welcomed(self, line: bytes) -> Session:
        """The session; ValueError if the other side does not know the key."""
        nonce, _, proof = line.rstrip(b"\n").partition(b" ")
        expected = prove(self.key, b"welcome", self.nonce, nonce)
        if len(nonce) != NONCE_DIGITS or not is_same(proof, expected):
            raise ValueError("is not a launcher of this run")
        return Session(self.key, self.nonce, nonce, asks=True)


class Door:
    """The side that is asked. It opens to those who know the key, and to each nonce once."""

    def __init__(self, key: bytes, own: str):
        self.key, self.own = key, own.encode()
        self.seen: "OrderedDict[bytes, None]" = OrderedDict()

    def admit(self, line: bytes) -> Optional[Tuple[str, bytes, Session]]:
        """Who asks, what to answer, and the session; None for strangers."""
        parts = line.rstrip(b"\n").split(b" ")
        if len(parts) != 5 or parts[0] != b"tfc1" or len(parts[3]) != NONCE_DIGITS:
            return None
        _, asker, meant, nonce, proof = parts
        expected = prove(self.key, b"hello", asker, meant, nonce)
        if not is_same(proof, expected) or meant != self.own or nonce in self.seen:
            return None
        self.seen[nonce] = None
        if len(self.seen) > REMEMBERED:
            self.seen.popitem(last=False)
        own = new_nonce()
        answer = own + b" " + prove(self.key, b"welcome", nonce, own) + b"\n"
        name = asker.decode("ascii", "replace")
        return name, answer, Session(self.key, nonce, own, asks=False)
