"""List, then watch, through everything that ends a watch: time, the network, the API server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tfcluster.backends.kubernetes.api import ApiError, Cluster, Unreachable
from tfcluster.errors import TfclusterError

WATCH_SECONDS = 60  # a silent connection is taken for dead soon after
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0
GONE = 410  # the version is older than what the server remembers


@dataclass(frozen=True)
class Seen:
    """What a watch reports: everything (`all`), one object (`changed`, `deleted`), or `trouble`."""

    kind: str
    objects: tuple[dict[str, Any], ...] = ()
    error: TfclusterError | None = None


def watched(
    cluster: Cluster,
    path: str,
    selector: str = "",
    *,
    going: Callable[[], bool] = lambda: True,
    pause: Callable[[float], Any] = time.sleep,
) -> Iterator[Seen]:
    """First `all`, then changes, for ever. After a gap that cannot be bridged, `all` again."""
    version: str | None = None
    wait = FIRST_PAUSE
    while going():
        try:
            if version is None:
                items, version = cluster.listed(path, selector)
                yield Seen("all", tuple(items))
            for change in cluster.watch(path, version, selector, WATCH_SECONDS):
                wait = FIRST_PAUSE
                kind, thing = change["type"], change["object"]
                if kind == "ERROR":
                    raise ApiError(int(thing.get("code", 0)), str(thing.get("message", "")))
                version = thing["metadata"]["resourceVersion"]
                if kind == "BOOKMARK":
                    continue
                yield Seen("deleted" if kind == "DELETED" else "changed", (thing,))
                if not going():
                    return
        except (ApiError, Unreachable, ValueError) as error:
            # ValueError: a line that was cut in the middle.
            if isinstance(error, ApiError) and error.status == GONE:
                version = None
                continue
            if isinstance(error, TfclusterError):
                yield Seen("trouble", error=error)
            pause(wait)
            wait = min(wait * 2, LONGEST_PAUSE)


class Watcher(threading.Thread):
    """Hands on what a watch reports, from a thread of its own."""

    def __init__(
        self,
        name: str,
        cluster: Cluster,
        path: str,
        selector: str,
        hand_on: Callable[[str, Seen], None],
    ):
        super().__init__(daemon=True)
        self.kind, self.cluster, self.path, self.selector = name, cluster, path, selector
        self.hand_on = hand_on
        self.stopped = threading.Event()

    def run(self) -> None:
        for seen in watched(
            self.cluster,
            self.path,
            self.selector,
            going=lambda: not self.stopped.is_set(),
            pause=self.stopped.wait,
        ):
            self.hand_on(self.kind, seen)
