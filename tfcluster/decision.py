"""What `up` does, decided by one function for `up` and for `diff`. Pure: asks and changes nothing.

nothing runs                                        start    a new run
no task differs                                     nothing
some tasks differ                                   change   the run goes on
every task differs, or they run on another backend  replace  the run is ended, another begins
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfcluster.changes import Change, compare
from tfcluster.checkpoints import Checkpoint
from tfcluster.plan import Plan

NOTHING, START, CHANGE, REPLACE = "nothing", "start", "change", "replace"

# What becomes of the training.
GOES_ON = "goes-on"  # what holds it is not touched
AGAIN = "starts-again"  # there is no checkpoint that it could go on from
RESUMES = "resumes"  # from a checkpoint
REFUSED = "refused"  # the trainer will not go on from a checkpoint of another network
UNSEEN = "unseen"  # from whatever is in a folder that this machine cannot look into
PROGRAMS = "programs"  # a person's own programs start again; what they find is their affair


@dataclass(frozen=True)
class Running:
    """The run of the job that has not ended."""

    run: str
    backend: str
    plan: Plan | None
    open: tuple[str, ...]  # the tasks that have not ended


@dataclass(frozen=True)
class Saved:
    """What is in a folder of checkpoints, as far as this machine can see."""

    folder: str
    visible: bool = True
    newest: Checkpoint | None = None


@dataclass(frozen=True)
class Trainer:
    """What the bundled trainer is told about checkpoints."""

    resume: str = "auto"
    settings: Mapping[str, Any] = field(default_factory=dict)  # what a checkpoint has to agree with


@dataclass(frozen=True)
class Training:
    """What becomes of the training."""

    kind: str
    folder: str = ""
    checkpoint: Checkpoint | None = None
    misfit: str = ""  # the setting that keeps the trainer from going on


@dataclass(frozen=True)
class Decision:
    """What `up` does, and what follows from it."""

    kind: str  # nothing, start, change or replace
    changes: tuple[Change, ...]  # against what runs now: what becomes of each task
    training: Training
    ends: str | None = None  # the run that is ended
    disturbs: tuple[str, ...] = ()  # tasks that run now, and are ended or restarted
    saved: Saved | None = None  # what the run that is ended leaves behind


def decide(
    running: Running | None,
    plan: Plan,
    *,
    same_run: bool = False,
    trainer: Trainer | None = None,
    own: Saved | None = None,
    lasting: Saved | None = None,
) -> Decision:
    """What `up` does for a plan.

    `same_run` asks to go on in the run that is there even if every task differs, as `scale` does.
    `own` is what the running run has saved, `lasting` what the next run would find, if anything.
    """
    if running is None:
        changes = compare(None, plan)
        return Decision(START, changes, after_start(trainer, lasting))
    if running.backend != plan.backend:
        changes = moved(running, plan)
        training = after_start(trainer, lasting)
        return Decision(REPLACE, changes, training, running.run, running.open, own)
    changes = compare(running.plan, plan)
    if all(change.action == "keep" for change in changes):
        return Decision(NOTHING, changes, Training(GOES_ON))
    if same_run or any(change.action == "keep" for change in changes):
        gone = {change.task for change in changes if change.action in ("replace", "remove")}
        disturbs = tuple(task for task in running.open if task in gone)
        training = after_change(running, gone, trainer, own)
        return Decision(CHANGE, changes, training, None, disturbs)
    training = after_start(trainer, lasting)
    return Decision(REPLACE, changes, training, running.run, running.open, own)


def moved(running: Running, plan: Plan) -> tuple[Change, ...]:
    """The changes of a job that goes to another backend."""
    before = running.plan.task_names if running.plan else ()
    why = f"backend {running.backend} → {plan.backend}"
    both = [Change("replace", task, why) for task in plan.task_names if task in before]
    new = [Change("create", task) for task in plan.task_names if task not in before]
    return (*both, *new, *(Change("remove", t) for t in before if t not in plan.task_names))


def after_start(trainer: Trainer | None, lasting: Saved | None) -> Training:
    """What a new run goes on from."""
    if trainer is None:
        return Training(PROGRAMS, lasting.folder if lasting else "")
    if lasting is None or trainer.resume == "never":
        return Training(AGAIN, lasting.folder if lasting else "")
    if not lasting.visible:
        return Training(UNSEEN, lasting.folder)
    found = lasting.newest
    if found is None or (found.finished and trainer.resume != "always"):
        return Training(AGAIN, lasting.folder)
    return resumed(trainer, lasting.folder, found)


def after_change(
    running: Running, gone: set[str], trainer: Trainer | None, own: Saved | None
) -> Training:
    """What a run goes on from in which some tasks start again."""
    if trainer is None:
        return Training(PROGRAMS, own.folder if own else "")
    if holders(running.plan).isdisjoint(gone):
        return Training(GOES_ON)
    if own is not None and not own.visible:
        return Training(UNSEEN, own.folder)
    if own is None or own.newest is None:
        return Training(AGAIN, own.folder if own else "")
    return resumed(trainer, own.folder, own.newest)


def holders(plan: Plan | None) -> set[str]:
    """The tasks that hold what was learned: parameter servers, or else all that train."""
    names = plan.task_names if plan else ()
    servers = {name for name in names if name.rpartition("-")[0] == "ps"}
    return servers or set(names)


def resumed(trainer: Trainer, folder: str, found: Checkpoint) -> Training:
    for name, wanted in trainer.settings.items():
        if wanted is not None and name in found.settings and found.settings[name] != wanted:
            return Training(REFUSED, folder, found, name)
    return Training(RESUMES, folder, found)


# -- In words ----------------------------------------------------------------------------------


def training_words(training: Training, trainer_starts: str = "training starts again") -> str:
    """`training goes on from checkpoint 12 (global step 640)`."""
    kind, found, folder = training.kind, training.checkpoint, training.folder
    if kind == AGAIN:
        return trainer_starts
    if kind == GOES_ON:
        return "training goes on"
    if kind == UNSEEN:
        return f"training goes on from the newest checkpoint in {folder}, if any"
    if kind == PROGRAMS:
        return "the programs start again, and go on from what they have saved themselves, if at all"
    assert found is not None
    if kind == RESUMES:
        return f"training goes on from checkpoint {found.number} (global step {found.step})"
    have = found.settings[training.misfit]
    return (
        f"the trainer will refuse checkpoint {found.number} in {folder}: it was made with "
        f"{training.misfit} {have}"
    )
