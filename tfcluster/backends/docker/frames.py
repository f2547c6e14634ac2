"""An engine's log stream: lines and pieces of lines, with the engine's time for each."""

from __future__ import annotations

import calendar
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

from tfcluster.backends.docker.engines import Engine, translated
from tfcluster.errors import MissingError

STREAMS = {1: "stdout", 2: "stderr"}
HEADER = struct.Struct(">BxxxL")  # the stream's number, the length
BLOCK = 1 << 16


class ContainerGone(MissingError):
    """There is no such container any more."""


class Frame(NamedTuple):
    """One message of an engine: a line, or a piece of a long one."""

    stream: str
    stamp: str  # 2026-01-31T12:00:00.000000001Z, always this long
    data: bytes


def read_frames(engine: Engine, container: str, since: str, follow: bool) -> Iterator[Frame]:
    """A container's output from a time on; with follow until it has ended, or the engine gives up.

    An engine ends a stream that it follows when the container ends, even if a slow reader has not
    been sent all of it yet: only a read without follow, after that, leads to the end.
    """
    from docker.errors import NotFound

    api = engine.api
    params: dict[str, Any] = {"stdout": 1, "stderr": 1, "timestamps": 1, "follow": int(follow)}
    if since:
        params["since"] = unix_time(since)
    with translated(engine, "logs"):
        # The SDK's own logs() does not tell the two streams apart.
        response = api.get(
            api._url("/containers/{0}/logs", container),
            params=params,
            stream=True,
            timeout=(api.timeout, None if follow else api.timeout),
        )
        with closing(response):
            try:
                api._raise_for_status(response)
            except NotFound:
                raise ContainerGone(f"{engine.label} has no container {container[:12]}") from None
            yield from frames_in(response.raw.stream(BLOCK))


def frames_in(blocks: Iterable[bytes]) -> Iterator[Frame]:
    """The frames of a stream that comes in blocks of any size."""
    held = b""
    for block in blocks:
        held += block
        place = 0
        while len(held) >= place + HEADER.size:
            number, length = HEADER.unpack_from(held, place)
            begin = place + HEADER.size
            if len(held) < begin + length:
                break
            place = begin + length
            stamp, _, data = held[begin:place].partition(b" ")
            yield Frame(STREAMS.get(number, "stdout"), stamp.decode("ascii", "replace"), data)
        held = held[place:]


def unix_time(stamp: str) -> str:
    """Seconds and nanoseconds, as the engine wants `since`."""
    whole, _, fraction = stamp.rstrip("Z").partition(".")
    seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return f"{seconds}.{fraction.ljust(9, '0')}"
