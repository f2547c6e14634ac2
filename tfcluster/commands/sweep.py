"""`tfcluster sweep`: the job with every combination of some settings, ranked by their results."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tfcluster import console, tables
from tfcluster.archive import Run, latest_run
from tfcluster.code.snapshot import snapshot_of
from tfcluster.commands import options
from tfcluster.commands.down import end_job
from tfcluster.commands.outcome import reason_of
from tfcluster.converge import deploy, place_for
from tfcluster.errors import (
    EXIT_INTERRUPTED,
    EXIT_JOB_FAILED,
    EXIT_OK,
    TfclusterError,
    UsageError,
)
from tfcluster.events import SCHEMA_VERSION, JobStatus
from tfcluster.interrupts import raised_interrupts
from tfcluster.live import Region, terminal_size
from tfcluster.sweeps import (
    Cell,
    Measure,
    cell_name,
    choose_measure,
    make_cells,
    parse_axis,
    rank,
)
from tfcluster.tables import clock, counted

if TYPE_CHECKING:
    from tfcluster.spec.loader import LoadedSpec
    from tfcluster.spec.model import JobSpec

EXAMPLES = (
    ("tfcluster sweep --grid train.learning_rate=0.01,0.05", "of the spec"),
    ("tfcluster sweep --arg lr=0.1,0.01 -n 2", "a flag, 2 at a time"),
    ("tfcluster sweep --grid train.window=1,10 --by cost", "least first"),
)
LOOK_EVERY = 0.5
WAITING, RUNNING = "waiting", "running"


@dataclass
class Trial:
    """A cell and what became of it."""

    cell: Cell
    loaded: LoadedSpec
    state: str = WAITING
    run: Run | None = None
    status: JobStatus | None = None
    reason: str = ""
    known: bool = False  # from an earlier sweep

    @property
    def is_over(self) -> bool:
        return self.state not in (WAITING, RUNNING)

    @property
    def result(self) -> Mapping[str, Any] | None:
        return self.status.result if self.status else None

    @property
    def seconds(self) -> float | None:
        status = self.status
        if status is None or status.started is None or status.ended is None:
            return None
        return status.ended - status.started

    def take(self, status: JobStatus) -> None:
        self.status = status
        if status.over:
            self.state = status.state
            self.reason = reason_of(self.run, status) if self.run else ""

    def to_dict(self, place: int, measure: Measure | None) -> dict[str, Any]:
        return {
            "rank": place,
            "settings": {axis.name: value for axis, value in self.cell.settings},
            "state": self.state,
            "value": measure.of(self.result) if measure else None,
            "result": self.result,
            "seconds": self.seconds,
            "job": self.loaded.spec.name,
            "run": self.run.id if self.run else None,
            "reason": self.reason,
        }


def command(
    spec: options.Spec = None,
    file: options.File = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH=A,B", help="A setting of the spec (repeatable)."),
    ] = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=A,B", help="A flag of your own program (repeatable)."),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The number of the result to rank by; -NAME if less is better.  [default: "
            "accuracy, or loss]",
        ),
    ] = None,
    at_once: Annotated[
        int | None,
        typer.Option(
            "--at-once", "-n", metavar="N", min=1, help="Jobs at a time.  [default: what fits]"
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Run those too that have succeeded before.")
    ] = False,
    var: options.Var = None,
    set_: options.Set = None,
    backend: options.Backend = None,
    output: Annotated[
        Literal["table", "json"], typer.Option("--output", "-o", help="The form of the output.")
    ] = "table",
) -> int:
    """Run the job with every combination of some settings, and rank them by their results.

    Each combination is a job of its own, named JOB-DIGEST, with logs and history like any other.
    As many run at a time as the machine or the cluster has room for. A sweep that was interrupted
    goes on when it is called again: what has succeeded is not run twice. Exit code 5 if a job
    failed.
    """
    axes = [parse_axis(text) for text in grid or ()]
    axes += [parse_axis(text, argument=True) for text in arg or ()]
    cells = make_cells(axes)
    base = options.load(spec, file, var, set_, backend)
    if arg:
        refuse_arguments(base.spec)
    sweep = Sweep(
        [make_trial(cell, base, set_ or (), backend) for cell in cells],
        [axis.name for axis in axes],
        at_once,
    )
    if not again:
        sweep.find_known()
    code = sweep.run()
    measure = choose_measure(by, [trial.result or {} for trial in sweep.trials])
    if output == "json":
        options.print_json(sweep.to_dict(base.spec.name, measure))
    else:
        console.data("\n".join(sweep.table(measure)))
        sweep.say_best(measure, options.shown_path(base), set_ or ())
    return code


def refuse_arguments(spec: JobSpec) -> None:
    """Raise where a flag would not reach the program."""
    if spec.train is not None:
        raise UsageError(
            "--arg is for programs of your own; this spec has train",
            hint="as in --grid train.learning_rate=0.01,0.05",
        )
    own = next((name for name, role in spec.roles.items() if role.args), None)
    if own is not None:
        raise UsageError(
            f"--arg: role {own} has args of its own, which take the place of the job's",
            hint=f'as in --grid \'roles.{own}.args=["--lr=0.1"],["--lr=0.01"]\'',
        )


def make_trial(cell: Cell, base: LoadedSpec, changes: Sequence[str], backend: str | None) -> Trial:
    """The spec of a cell, under a name of its own and with folders of its own."""
    overrides = (*changes, *cell.overrides(tuple(base.spec.args or ())))
    loaded = options.read_spec(base.path, base.variables, overrides, backend)
    code = snapshot_of(loaded)
    content = loaded.spec.model_dump(mode="json")
    name = cell_name(base.spec.name, content, code.digest if code else "")
    own = [f"name={name}"]
    for key in ("logdir", "checkpoints"):
        if folder := getattr(loaded.spec, key):
            own.append(f"{key}={os.path.join(folder, name)}")
    loaded = options.read_spec(base.path, base.variables, (*overrides, *own), backend)
    return Trial(cell, dataclasses.replace(loaded, warnings=()))


class Sweep:
    """Trials in order; as many at a time as there is room for."""

    def __init__(self, trials: list[Trial], names: list[str], at_once: int | None):
        self.trials, self.names, self.at_once = trials, names, at_once
        self.region = Region(sys.stderr) if is_live() else None
        self.asked = 0.0

    # -- Carrying it out

    def find_known(self) -> None:
        """Take up what an earlier sweep has done, or has left running."""
        for trial in self.trials:
            run = latest_run(place_for(trial.loaded))
            if run is None:
                continue
            status = options.readable_status(run)
            if status is None or (status.over and status.state != "succeeded"):
                continue
            trial.run, trial.known = run, status.over
            trial.state = RUNNING
            trial.take(status)
        known = sum(trial.known for trial in self.trials)
        if known:
            console.say(f"{known} of {counted(len(self.trials), 'job')} had succeeded before")

    def run(self) -> int:
        """Until all are over; the exit code."""
        try:
            with raised_interrupts(), self.drawn():
                while not all(trial.is_over for trial in self.trials):
                    self.look()
                    self.start_some()
                    self.draw()
                    time.sleep(LOOK_EVERY)
        except KeyboardInterrupt:
            self.stop()
            return EXIT_INTERRUPTED
        failed = any(trial.state != "succeeded" for trial in self.trials)
        return EXIT_JOB_FAILED if failed else EXIT_OK

    def stop(self) -> None:
        """End what runs; what is done is kept."""
        for trial in self.running:
            if trial.run is not None:
                end_job(trial.run)
                trial.state, trial.reason = "stopped", "the sweep was interrupted"
        console.say("Interrupted. The same command goes on with what is left.")

    @property
    def running(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.state == RUNNING]

    def look(self) -> None:
        for trial in self.running:
            assert trial.run is not None
            trial.take(options.status_of(trial.run))
            if trial.is_over:
                end_job(trial.run)  # what an ended job still occupies
                self.tell(trial)

    def start_some(self) -> None:
        for trial in self.trials:
            if trial.state != WAITING:
                continue
            if not self.has_room(trial.loaded):
                return
            self.start(trial)

    def start(self, trial: Trial) -> None:
        try:
            done = deploy(trial.loaded, folder=Path.cwd(), say=self.say)
        except UsageError:
            raise
        except TfclusterError as error:
            trial.state, trial.reason = "failed", error.message
            self.tell(trial)
            return
        trial.run, trial.state = done.run, RUNNING
        if self.region is None:
            console.say(f"{trial.cell.label}: started (run {done.run.id})")

    def has_room(self, loaded: LoadedSpec) -> bool:
        """Whether one more job can run now; the first always may try."""
        running = self.running
        if not running:
            return True
        if len(running) >= (self.at_once or len(self.trials)):
            return False
        if loaded.spec.backend == "kubernetes":
            return self.cluster_has_room(loaded, running)
        return self.at_once is not None or len(running) < jobs_that_fit(loaded.spec)

    def cluster_has_room(self, loaded: LoadedSpec, running: Sequence[Trial]) -> bool:
        """As `tfcluster fit` says, once all that was started before has its place.

        Whoever may not see the nodes cannot be told: then it is one at a time, or as many as asked.
        """
        placed = all(
            trial.status is not None and all(task.state != "pending" for task in trial.status.tasks)
            for trial in running
        )
        if not placed or time.monotonic() - self.asked < 4 * LOOK_EVERY:
            return False
        self.asked = time.monotonic()
        from tfcluster.backends.kubernetes.survey import survey

        try:
            return bool(survey(loaded.spec, loaded.base)["fits"])
        except TfclusterError:
            return self.at_once is not None

    # -- Showing it

    def say(self, text: str) -> None:
        if self.region is None:
            console.say(text)

    def tell(self, trial: Trial) -> None:
        if self.region is None:
            words = tables.result_text(trial.result)
            said = ", ".join(word for word in (trial.state, trial.reason, words) if word)
            console.say(f"{trial.cell.label}: {said}")

    @contextmanager
    def drawn(self) -> Iterator[None]:
        try:
            yield
        finally:
            if self.region is not None:
                self.region.erase()

    def draw(self) -> None:
        if self.region is None:
            return
        size = terminal_size(self.region.stream)
        done = sum(trial.is_over for trial in self.trials)
        head = f"{tables.bar(done / len(self.trials))} {done} of {counted(len(self.trials), 'job')}"
        order = {RUNNING: 0, "failed": 1, WAITING: 3}
        shown = sorted(self.trials, key=lambda trial: order.get(trial.state, 2))
        room = max(3, size.lines - 6)
        lines = console.table(
            (*self.names, "STATE", "STEP", "RATE", "RESULT"),
            [self.live_row(trial) for trial in shown[:room]],
            width=max(20, size.columns - 2),
            style=console.state_style,
            on=console.colored(self.region.stream),
        )
        self.region.draw([head, *(f" {line}" for line in lines)])

    def live_row(self, trial: Trial) -> tuple[str, ...]:
        progress = furthest(trial.status)
        result = tables.result_text(trial.result)
        values = [value for _, value in trial.cell.settings]
        steps = "" if trial.is_over else tables.steps(progress)
        rate = "" if trial.is_over else tables.rate(progress)
        return (*values, trial.state, steps, rate, result or trial.reason)

    def ranked(self, measure: Measure | None) -> list[Trial]:
        values = [measure.of(trial.result) if measure else None for trial in self.trials]
        values = [
            value if trial.state == "succeeded" else None
            for value, trial in zip(values, self.trials, strict=True)
        ]
        return [
            self.trials[place] for place in rank(values, lowest=bool(measure and measure.lowest))
        ]

    def table(self, measure: Measure | None) -> list[str]:
        header = ("RANK", *self.names, measure.name.upper() if measure else "RESULT", "STATE")
        rows = []
        for place, trial in enumerate(self.ranked(measure), start=1):
            value = measure.of(trial.result) if measure else None
            seconds = trial.seconds
            rows.append(
                (
                    str(place) if trial.state == "succeeded" and value is not None else "",
                    *(text for _, text in trial.cell.settings),
                    "" if value is None else tables.number(value),
                    trial.state,
                    "" if seconds is None else clock(seconds),
                    trial.run.id if trial.run else "",
                    trial.reason if trial.state != "succeeded" else "",
                )
            )
        return console.table((*header, "DURATION", "RUN", "REASON"), rows)

    def say_best(self, measure: Measure | None, path: str, changes: Sequence[str]) -> None:
        """The best cell, and how to run the job like that."""
        best = self.ranked(measure)[0]
        value = measure.of(best.result) if measure else None
        if measure is None or value is None or best.state != "succeeded":
            if any(trial.state == "succeeded" for trial in self.trials):
                results = [trial.result or {} for trial in self.trials]
                numbers = {
                    k for found in results for k in found if Measure(k).of(found) is not None
                }
                known = sorted(numbers)
                words = "let the program print `tfcluster-result {…}`"
                wanted = f" called {measure.name}" if measure else ""
                has = f"the results have {', '.join(known)}" if known else words
                console.say(f"No number{wanted} to rank by: {has}.")
            return
        console.success(f"Best: {best.cell.label} ({measure.name} {tables.number(value)})")
        given = (*changes, *best.cell.overrides(tuple(self.plain_args(best))))
        words = " ".join(f"--set {shlex.quote(change)}" for change in given)
        console.say(f"  tfcluster up {shlex.quote(path)} {words}")

    def plain_args(self, trial: Trial) -> list[str]:
        """The program's arguments without those that the sweep has added."""
        flags = sum(axis.argument for axis, _ in trial.cell.settings)
        args = list(trial.loaded.spec.args or ())
        return args[: len(args) - flags] if flags else args

    def to_dict(self, job: str, measure: Measure | None) -> dict[str, Any]:
        cells = [
            trial.to_dict(place, measure)
            for place, trial in enumerate(self.ranked(measure), start=1)
        ]
        chosen = dataclasses.asdict(measure) if measure else None
        return {"schemaVersion": SCHEMA_VERSION, "job": job, "by": chosen, "cells": cells}


def is_live() -> bool:
    return console.is_terminal(sys.stderr) and os.environ.get("TERM", "dumb") != "dumb"


def furthest(status: JobStatus | None) -> Any:
    """The progress of the task that has come furthest."""
    found = [task.progress for task in (status.tasks if status else ()) if task.progress]
    return max(found, key=lambda progress: progress.step or 0, default=None)


def jobs_that_fit(spec: JobSpec) -> int:
    """How many jobs like this the machine's cores can take: at least one."""
    cores = len(os.sched_getaffinity(0))
    wanted = sum((role.cpu or 1) * role.replicas for role in spec.roles.values())
    return max(1, int(cores // wanted)) if wanted else 1
