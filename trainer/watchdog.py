"""Ends the process when other tasks keep one call into TensorFlow waiting for too long.

TensorFlow's own time-outs do not end a call whose other end was stopped or cut off, and nothing in
Python can interrupt it. Ended with an error, the task is started again by its launcher, and joins
the others as soon as they answer.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from trainer.cluster import ClusterInfo
from trainer.errors import EXIT_PEER, give_up
from trainer.peers import name_silent

LOOK_SECONDS = 0.25
SLACK_SECONDS = 5.0  # by which TensorFlow's own time-outs, where they work, come first


class Watchdog:
    """`with watchdog:` around a call that needs other tasks."""

    def __init__(self, seconds: float, end: Callable[[float], None]) -> None:
        self.seconds = seconds  # how long a call may take
        self._end = end
        self._since: float | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        self._since = time.monotonic()

    def __exit__(self, *_: object) -> None:
        self._since = None

    def _watch(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            since = self._since
            if since is not None and time.monotonic() - since > self.seconds:
                self._end(self.seconds)
                return


class WatchedSession:
    """A session of which every call is watched."""

    def __init__(self, session: Any, watchdog: Watchdog) -> None:
        self._session, self._watchdog = session, watchdog

    def run(self, *arguments: Any) -> Any:
        """Like tf.compat.v1.Session.run."""
        with self._watchdog:
            return self._session.run(*arguments)

    def make_callable(self, *arguments: Any) -> Callable[..., Any]:
        """Like tf.compat.v1.Session.make_callable."""
        with self._watchdog:
            prepared = self._session.make_callable(*arguments)

        def call(*values: Any) -> Any:
            with self._watchdog:
                return prepared(*values)

        return call


def watchdog_for(cluster: ClusterInfo, seconds: float) -> Watchdog:
    """Ends this process, with the names of the tasks that do not answer."""

    def end(waited: float) -> None:
        give_up(f"{blame(cluster)} within {waited:g} s", EXIT_PEER)

    return Watchdog(seconds + SLACK_SECONDS, end)


def blame(cluster: ClusterInfo) -> str:
    """`ps-0 did not answer`, or that it is not known who keeps this task waiting."""
    names = name_silent(cluster)
    return f"{names} did not answer" if names else "no call to the other tasks came back"


@contextlib.contextmanager
def deadline(seconds: float, message: Callable[[], str]) -> Iterator[None]:
    """End the process with the message if what is inside takes longer; nothing else can."""
    words = lambda: f"{message()} within {seconds:g} s"  # noqa: E731
    timer = threading.Timer(seconds, lambda: give_up(words(), EXIT_PEER))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
