"""Ends what programs left running once both their launcher and the run's keeper are dead.

A program dies with its launcher, but what it has started does not. The keeper cleans up after a
killed launcher; this process does it if the keeper was killed too. It ends with the run.
"""

from __future__ import annotations

import time
from pathlib import Path

from tfcluster.archive import Run
from tfcluster.backends.processes import LAUNCHER, PROGRAM, Found, alive, find_processes, kill_all
from tfcluster.errors import TfclusterError
from tfcluster.launch.record import Process
from tfcluster.launch.system import process_start

LOOK_EVERY = 0.5


def main(path: str, keeper: str) -> int:
    run = Run.at(Path(path))
    watched: Process = {"pid": int(keeper), "start": process_start(int(keeper))}
    while alive(watched):
        time.sleep(LOOK_EVERY)
    while not is_taken_care_of(run) and (launchers := end_orphans(run)):
        while all(one.alive for one in launchers) and not is_taken_care_of(run):
            time.sleep(LOOK_EVERY)
    return 0


def is_taken_care_of(run: Run) -> bool:
    """Whether the run has ended, or another keeper watches."""
    try:
        return run.final_status() is not None or alive(run.files.read_keeper())
    except TfclusterError:
        return False  # a damaged file says nothing; the processes do


def end_orphans(run: Run) -> list[Found]:
    """Kill what programs left whose launcher is dead; the launchers that live."""
    found = find_processes(run.path)
    launchers = [one for one in found if one.part == LAUNCHER]
    living = {one.task for one in launchers}
    kill_all(one for one in found if one.part == PROGRAM and one.task not in living)
    return launchers
