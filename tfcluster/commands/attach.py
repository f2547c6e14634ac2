"""Follow a run on this terminal: its tasks as they change, its lines as they come, Ctrl-C."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass

from tfcluster.archive import Run
from tfcluster.backends import load_backend
from tfcluster.commands.outcome import is_settled
from tfcluster.converge import bring_down
from tfcluster.events import JobStatus, LogLine, LogQuery
from tfcluster.folding import Folding
from tfcluster.interrupts import Presses
from tfcluster.launch.system import start_thread
from tfcluster.live import Display
from tfcluster.tables import counted
from tfcluster.tail import Filter, Style, format_default, select

LOOK_EVERY = 0.25
TICK = 0.1
BATCH = 1000  # lines shown at a time, so that the table and Ctrl-C get their turn
LOG_PATIENCE = 5.0  # for the last lines of a run that is over


class Pump:
    """Reads a run's lines in a thread of its own, so that waiting for them holds nothing up."""

    def __init__(self, run: Run, query: LogQuery):
        # Bounded: a reader that is slow must slow us down, not fill the memory.
        self.lines: queue.Queue[LogLine | BaseException | None] = queue.Queue(10_000)
        self.ended = False
        self.thread = start_thread(self.read, run, query)

    def read(self, run: Run, query: LogQuery) -> None:
        try:
            for line in load_backend(run.backend).logs(run, query):
                self.lines.put(line)
        except BaseException as error:  # handed on to the main thread
            self.lines.put(error)
        self.lines.put(None)

    def take(self, patience: float) -> list[LogLine]:
        """The lines that are there; waits up to `patience` seconds for the first."""
        if self.ended:
            time.sleep(patience)
        taken: list[LogLine] = []
        while not self.ended and len(taken) < BATCH:
            try:
                item = self.lines.get(block=not taken, timeout=patience)
            except queue.Empty:
                break
            if item is None:
                self.ended = True
            elif isinstance(item, BaseException):
                raise item
            else:
                taken.append(item)
        return taken


class Stopper:
    """Brings a run down in a thread of its own, while its last lines are still shown."""

    def __init__(self, run: Run, grace: float, presses: Presses):
        self.error: BaseException | None = None
        self.thread = start_thread(self.stop, run, grace, presses)

    def stop(self, run: Run, grace: float, presses: Presses) -> None:
        try:
            bring_down(run, grace=grace, command="up", keep_going=lambda: presses.count < 2)
        except BaseException as error:  # handed on to the main thread
            self.error = error

    @property
    def done(self) -> bool:
        if self.thread.is_alive():
            return False
        if self.error is not None:
            raise self.error
        return True


@dataclass
class Attachment:
    """One run, shown until `enough` says so, the run is over, or Ctrl-C has stopped it."""

    run: Run
    display: Display
    presses: Presses
    style: Style
    grace: float
    query: LogQuery | None = None
    folding: Folding | None = None
    enough: Callable[[JobStatus], bool] = lambda status: False
    deadline: float | None = None
    timed_out: bool = False
    interrupted: bool = False
    detached: bool = False
    said_killing: bool = False

    def follow(self) -> JobStatus:
        """The status seen last."""
        backend = load_backend(self.run.backend)
        pump = Pump(self.run, self.query) if self.query else None
        stopper: Stopper | None = None
        over_since: float | None = None
        next_look = 0.0
        status = JobStatus(self.run.job, self.run.id, self.run.backend, "pending")
        while True:
            self.show(pump.take(TICK) if pump else [])
            if pump is None:
                time.sleep(TICK)
            if self.presses.count and stopper is None and backend.detaches:
                self.detached = True
                return status
            if self.presses.count and stopper is None:
                self.interrupted = True
                stopper = self.begin_stop(status)
            elif self.presses.count > 1 and stopper is not None:
                self.say_killing()
            now = time.monotonic()
            if now >= next_look:
                status = backend.observe(self.run)
                self.display.update(status)
                obstacle = None if status.over else backend.stuck(self.run)
                if obstacle is not None:
                    raise obstacle
                next_look = time.monotonic() + max(LOOK_EVERY, 3 * (time.monotonic() - now))
            if status.over and over_since is None:
                over_since = now
            if stopper is not None:
                ended = stopper.done
            else:
                ended = is_settled(self.run, status, over_since) or self.enough(status)
            if ended:
                break
            if self.deadline is not None and now > self.deadline:
                self.timed_out = True
                break
        if pump is not None and not self.timed_out:
            self.show_rest(pump)
        status = backend.observe(self.run)
        self.display.update(status)
        return status

    def begin_stop(self, status: JobStatus) -> Stopper:
        left = sum(not task.over for task in status.tasks) or len(status.tasks)
        self.display.notice(
            f"Stopping {counted(left, 'task')} politely (up to {self.grace:g} s); "
            "press Ctrl-C again to kill."
        )
        return Stopper(self.run, self.grace, self.presses)

    def say_killing(self) -> None:
        if not self.said_killing:
            self.said_killing = True
            self.display.notice("Killing.")

    def show(self, lines: list[LogLine]) -> None:
        shown = select(lines, Filter(), self.folding)
        text = b"".join(format_default(line, self.style) for line in shown)
        if text:
            self.display.write(text)

    def show_rest(self, pump: Pump) -> None:
        """What was printed last; the reader ends by itself once the run is over."""
        deadline = time.monotonic() + LOG_PATIENCE
        while not pump.ended and time.monotonic() < deadline:
            self.show(pump.take(TICK))
