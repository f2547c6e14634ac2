"""The processes of runs, found by the mark in their environment: files may be damaged or gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfcluster.launch.record import Process
from tfcluster.launch.system import process_start

MARK = "TFCLUSTER_RUN_FOLDER"  # in the environment of everything that a run starts
KEEPER, LAUNCHER, GUARD, PROGRAM = "keeper", "launcher", "guard", "program"
PARTS = {".keeper": KEEPER, ".guard": GUARD, ".launch.__main__": LAUNCHER}
LAST_SECONDS = 1.0  # for a launcher, beyond the grace that it gives its program
KEEPER_SECONDS = 10.0
GONE_SECONDS = 10.0  # until the system has taken away what was killed


@dataclass(frozen=True)
class Found:
    """A process of a run."""

    folder: Path  # the run's
    pid: int
    start: str | None
    part: str
    task: str | None = None

    @property
    def alive(self) -> bool:
        return alive({"pid": self.pid, "start": self.start})


def alive(process: Process | None) -> bool:
    """Whether this very process lives; one with the same pid but a later start does not count."""
    pid, start = (process.get("pid"), process.get("start")) if process else (None, None)
    return bool(pid and start and process_start(pid) == start)


def find_processes(folder: Path) -> list[Found]:
    """The living processes of the run in this folder, or of every run below it."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environment = process.environ()
            marked = Path(environment.get(MARK) or "/")
            start = process_start(process.pid)
            if process.pid == os.getpid() or start is None:
                continue
            if folder in (marked, *marked.parents):
                part, task = part_of(process.cmdline())
                task = task or environment.get("TFCLUSTER_TASK")
                found.append(Found(marked, process.pid, start, part, task))
    return found


def part_of(argv: Sequence[str]) -> tuple[str, str | None]:
    """Which part of a run a command line is, and of which task if it is a launcher."""
    # As start.python_running writes it: python -I -c CODE MODULE ...
    if list(argv[1:3]) == ["-I", "-c"]:
        modules = [word for word in argv[4:6] if word.startswith("tfcluster.")]
        for ending, part in PARTS.items():
            if any(module.endswith(ending) for module in modules):
                return part, argv[argv.index("--task") + 1] if "--task" in argv else None
    return PROGRAM, None


# -- Ending them -------------------------------------------------------------------------------


def end_processes(folder: Path, grace: float, keep_going: Callable[[], bool]) -> int:
    """End all of a run, politely and then surely; how many launchers there were."""
    end_keepers(folder)
    count = end_launchers(folder, None, grace, keep_going)
    deadline = time.monotonic() + GONE_SECONDS
    while kill_all(find_processes(folder)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return count


def end_keepers(folder: Path) -> None:
    """Tell keepers to go, then kill them: they would replace what is ended afterwards."""
    keepers = [one for one in find_processes(folder) if one.part == KEEPER]
    signal_all(keepers, signal.SIGTERM)
    wait_gone(keepers, KEEPER_SECONDS, lambda: True)
    signal_all([one for one in keepers if one.alive], signal.SIGKILL)
    wait_gone(keepers, GONE_SECONDS, lambda: True)


def end_launchers(
    folder: Path, tasks: Iterable[str] | None, grace: float, keep_going: Callable[[], bool]
) -> int:
    """End the launchers of these tasks, or of all, with their programs; how many there were."""
    wanted = None if tasks is None else set(tasks)
    launchers = [
        one
        for one in find_processes(folder)
        if one.part == LAUNCHER and (wanted is None or one.task in wanted)
    ]
    signal_all(launchers, signal.SIGTERM)
    # A launcher kills its program after stop_grace itself; what is left then is killed here.
    wait_gone(launchers, grace + LAST_SECONDS, keep_going)
    kill_all(launchers)
    wait_gone(launchers, GONE_SECONDS, lambda: True)
    return len(launchers)


def signal_all(processes: Iterable[Found], number: int) -> None:
    for one in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(one.pid, number)


def kill_all(processes: Iterable[Found]) -> int:
    """Kill those that live, with all below them, marked or not; how many there were."""
    import psutil

    doomed = []
    for one in processes:
        if one.alive:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(one.pid)
                doomed += [process, *process.children(recursive=True)]
    for process in doomed:
        with contextlib.suppress(psutil.Error):
            process.kill()
    return len(doomed)


def wait_gone(processes: Sequence[Found], seconds: float, keep_going: Callable[[], bool]) -> None:
    """Until these processes are gone, the time is over, or somebody has lost patience."""
    deadline = time.monotonic() + seconds
    while any(one.alive for one in processes):
        if time.monotonic() > deadline or not keep_going():
            return
        time.sleep(0.02)
