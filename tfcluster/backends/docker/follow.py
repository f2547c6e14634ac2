"""Following a container's log while it runs, and reading the rest of it afterwards."""

from __future__ import annotations

import contextlib
import threading
import time

from tfcluster.backends.docker.decisions import Container, Seen, Step, decide, is_killed
from tfcluster.backends.docker.engines import Engine, Unreachable
from tfcluster.backends.docker.frames import ContainerGone
from tfcluster.backends.docker.logs import TaskReader, read_on, read_to_end
from tfcluster.backends.docker.status import Ending, ending_of
from tfcluster.backends.reports import was_stopped
from tfcluster.errors import TfclusterError

RECONNECT_EVERY = 0.5
REFUSALS = 20  # of an engine that answers, but not with the log


def read_rest(engine: Engine, reader: TaskReader, container: str, ending: Ending) -> str:
    """Read all that is left of an ended container's log; what is missing after that, in words."""
    if ending.code is None:
        return ending.words
    reader.begin_container(container)
    # Written down first: the container may be removed before all is read.
    reader.update(containerExit=ending.code)
    whole = read_to_end(engine, reader, container, expects_end=not is_killed(ending.code))
    return "" if whole else "the launcher's last lines are not there"


def read_ended(engine: Engine, container: str, reader: TaskReader) -> str:
    """Read a container that no keeper watches: its log, and how its task ended if it has.

    Returns how the container ended, in words; "" while it runs.
    """
    if reader.over:
        return ""
    ending = ending_of(engine, container)
    if ending is None:
        read_on(engine, reader, container)
        return ""
    with contextlib.suppress(ContainerGone):
        read_rest(engine, reader, container, ending)
    if reader.over:
        return ""
    announced = (reader.final or {}).get("state", "")
    seen = Seen(Container.ENDED, ending.code, announced, was_stopped(reader.final), waited=True)
    step = decide(seen)
    if step is Step.PUBLISH:
        reader.settle()
    elif step is Step.CONCLUDE:
        reader.conclude(seen.code)
    return ending.words


class Follower:
    """Reads one container's log to its end, in a thread of its own, through lost connections."""

    def __init__(self, engine: Engine, reader: TaskReader, container: str):
        self.engine, self.reader, self.container = engine, reader, container
        self.ending: Ending | None = None  # None while the container runs
        self.done = False  # nothing more will be read
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self) -> None:
        try:
            missing = self.read_through()
            if missing:
                words = f"its log could not be read to its end: {missing}"
                self.reader.run.note("warning", words, self.reader.task)
        finally:
            self.done = True

    def read_through(self) -> str:
        """Through lost connections, and through a limited number of other errors."""
        problem = ""
        for _ in range(REFUSALS):
            try:
                return self.read()
            except ContainerGone as error:
                # Who has seen the job's end may remove it before we have looked once more.
                return "" if self.reader.ended else error.message
            except (TfclusterError, OSError) as error:
                problem = " ".join([str(error), *getattr(error, "evidence", ())])
            time.sleep(RECONNECT_EVERY)
        return problem

    def read(self) -> str:
        """Until the container has ended and all is read; what is missing then, in words."""
        while True:
            try:
                self.ending = ending_of(self.engine, self.container)
                if self.ending is not None:
                    return read_rest(self.engine, self.reader, self.container, self.ending)
                read_on(self.engine, self.reader, self.container, follow=True)
                self.ending = ending_of(self.engine, self.container)
            except Unreachable:
                pass  # the keeper knows how long to be patient with an engine
            if self.ending is None:
                time.sleep(RECONNECT_EVERY)
