"""Ends what programs left running once both their launcher and the run's keeper are dead.

A program dies with its launcher, but what it has started does not. The keeper cleans up after a
killed launcher; this process does it if the keeper was killed too. It ends with the run.
"""

from __future__ import annotations

import time
from pathlib import Path

from tfcluster.archive import Run
from tfcluster.backends.keeping import alive, sweep
from tfcluster.errors import TfclusterError
from tfcluster.events import ENDED
from tfcluster.launch import plan as launch_plan
from tfcluster.launch.system import process_start

LOOK_EVERY = 0.5


def main(path: str, keeper: str) -> int:
    run = Run.at(Path(path))
    watched = {"pid": int(keeper), "start": process_start(int(keeper))}
    while alive(watched):  # type: ignore[arg-type]
        if not run.path.is_dir():
            return 0
        time.sleep(LOOK_EVERY)
    while run.path.is_dir() and not is_taken_care_of(run):
        time.sleep(LOOK_EVERY)
    return 0


def is_taken_care_of(run: Run) -> bool:
    """Sweep up after dead launchers; True once none is left, or another keeper watches."""
    try:
        if run.final_status() is not None or alive(run.files.read_keeper()):
            return True
        launch = run.files.read_launch()
        living = 0
        for task in launch_plan.tasks_of(launch) if launch else ():
            record = run.files.read_task(task) or {}
            if alive(record.get("launcher")):
                living += 1
            elif record and record.get("state") not in ENDED:
                sweep(run, task)
        return living == 0
    except TfclusterError:
        return False  # a damaged file: `down` ends the run
