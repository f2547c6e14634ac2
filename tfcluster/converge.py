"""From what is there to what is wanted: plan, compare, carry out."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcluster.archive import (
    Run,
    asked_for,
    create_run,
    latest_run,
    new_run_id,
    whole_or_removed,
)
from tfcluster.backends import load_backend
from tfcluster.changes import Change, ObjectChange, compare
from tfcluster.checkpoints import FITTING, CheckpointFolder, newest_checkpoint
from tfcluster.code.snapshot import Snapshot, bring_back, keep_with_run, snapshot_of
from tfcluster.decision import NOTHING, REPLACE, START, Decision, Running, Saved, Trainer, decide
from tfcluster.errors import TfclusterError
from tfcluster.events import JobStatus
from tfcluster.joblock import job_lock, starting
from tfcluster.lost import refuse_lost
from tfcluster.place import Place, place_of
from tfcluster.plan import Plan, stored_plan
from tfcluster.quantities import format_bytes
from tfcluster.repair import backend_of
from tfcluster.runrecord import EndedBy
from tfcluster.tables import counted

if TYPE_CHECKING:
    from tfcluster.spec.loader import LoadedSpec
    from tfcluster.spec.model import JobSpec

LOCK_PATIENCE = 30.0  # `down` during `up` waits this long for it to have started everything


@dataclass(frozen=True)
class Deployment:
    """What `up` did: the run, its plan, the changes it made, and the run that it ended for that."""

    run: Run
    plan: Plan
    changes: tuple[Change, ...]
    ended: str | None = None

    @property
    def unchanged(self) -> bool:
        return all(change.action == "keep" for change in self.changes)


def live_run(place: Place) -> tuple[Run, JobStatus] | None:
    """The job's latest run, if it has not ended."""
    run = latest_run(place)
    if run is None or run.final_status() is not None:
        return None
    status = load_backend(run.backend).observe(run)
    return None if status.over or not status.tasks else (run, status)


# -- What `up` would do ------------------------------------------------------------------------


@dataclass(frozen=True)
class Outlook:
    """What `up` finds, and what it does about it."""

    run: Run | None  # the one that has not ended
    status: JobStatus | None
    plan: Plan
    decision: Decision
    code: Snapshot | None = None


def look_ahead(
    loaded: LoadedSpec, code: Snapshot | None = None, *, same_run: bool = False
) -> Outlook:
    """What `up` would do now, without doing it. `up` itself does what this says.

    `code` is what the folder of the code holds now; a run that goes on by `same_run` keeps its own.
    """
    spec, base = loaded.spec, loaded.base
    backend = load_backend(spec.backend)
    run, status = live_run(place_for(loaded)) or (None, None)
    if same_run:
        code = run_code(run, loaded)
    goes_on = run if run is not None and run.backend == spec.backend else None
    plan = backend.plan(spec, goes_on, base, code)
    decision = decide(
        running_now(run, status),
        plan,
        same_run=same_run,
        trainer=trainer_of(spec),
        own=saved_in(backend.checkpoint_folder(spec, goes_on, base)) if goes_on else None,
        lasting=saved_in(backend.checkpoint_folder(spec, None, base)),
    )
    return Outlook(run, status, plan, decision, code)


def running_now(run: Run | None, status: JobStatus | None) -> Running | None:
    if run is None or status is None:
        return None
    open_tasks = tuple(task.task for task in status.tasks if not task.over)
    return Running(run.id, run.backend, stored_plan(run), open_tasks)


def trainer_of(spec: JobSpec) -> Trainer | None:
    """What the bundled trainer would be told; None for a person's own programs."""
    if spec.train is None:
        return None
    given = spec.train.model_dump()
    return Trainer(given["resume"], {name: given[name] for name in FITTING})


def saved_in(folder: CheckpointFolder | None) -> Saved | None:
    if folder is None:
        return None
    newest = newest_checkpoint(folder.path) if folder.path else None
    return Saved(folder.name, folder.path is not None, newest)


@dataclass(frozen=True)
class Preview:
    """What `up` would do: to tasks, and to the objects that a backend's server has of them."""

    plan: Plan
    decision: Decision
    objects: tuple[ObjectChange, ...]


def preview(loaded: LoadedSpec) -> Preview:
    """What `up` would change, without changing it."""
    backend = load_backend(loaded.spec.backend)
    backend.check(loaded.spec, loaded.base)
    backend.ensure_free(loaded.spec, loaded.base)
    found = look_ahead(loaded, snapshot_of(loaded))
    run = found.run if found.run and found.run.backend == found.plan.backend else None
    return Preview(found.plan, found.decision, tuple(backend.review(run, found.plan)))


# -- Doing it ----------------------------------------------------------------------------------


def deploy(
    loaded: LoadedSpec,
    *,
    folder: Path,
    same_run: bool = False,
    say: Callable[[str], None] = lambda _: None,
    agree: Callable[[Outlook], None] = lambda _: None,
    begin: Callable[[], None] = lambda: None,
) -> Deployment:
    """Make the job what the spec says; `say` hears of what takes long, such as an image's build.

    `begin` is called before the first change: until then it can be interrupted without a trace.

    A job that is not running starts as a new run. In a running one unchanged tasks are left alone;
    where every task has changed, the run is ended and a new one begins, unless `same_run` asks to
    go on in it (so that checkpoints carry over, as `scale` wants). `agree` is asked before anything
    is changed, and raises if that is not wanted.
    """
    spec = loaded.spec
    backend = load_backend(spec.backend)
    base = loaded.base
    backend.check(spec, base)
    backend.ensure_free(spec, base)
    code = None if same_run else take_code(loaded, say)
    backend.prepare(spec, base, say)
    with job_lock(place_for(loaded), "up"):
        refuse_lost(place_for(loaded))
        found = look_ahead(loaded, code, same_run=same_run)
        agree(found)
        begin()
        decision, run, plan, code = found.decision, found.run, found.plan, found.code
        changes = decision.changes
        asked: dict[str, Any] = {
            "spec": loaded.path,
            "source": loaded.source,
            "variables": loaded.variables,
            "overrides": loaded.overrides,
        }
        if decision.kind in (START, REPLACE):
            run_id = new_run_id()
            if run is not None:
                end_run(run, EndedBy("up", str(folder), os.getpid(), run_id), spec.stop_grace)
            run = create_run(
                spec.name, run_id, backend=spec.backend, folder=folder, base=base, **asked
            )
            plan = backend.plan(spec, run, base, code)
            changes = compare(None, plan)
        assert run is not None
        with whole_or_removed(run) if decision.kind in (START, REPLACE) else nullcontext():
            write_spec(run, loaded)
            if code is not None:
                keep_with_run(code.digest, run.files.code_archive)
            if decision.kind != NOTHING or backend.reapplies:
                run.files.write_plan(plan.to_dict())
            if decision.kind != NOTHING:
                run.update(applied=time.time(), **asked_for(**asked))
        if decision.kind != NOTHING or backend.reapplies:
            with starting(run):
                backend.apply(run, plan, changes)
        return Deployment(run, plan, changes, decision.ends)


def end_run(
    run: Run, by: EndedBy, grace: float, keep_going: Callable[[], bool] = lambda: True
) -> None:
    """End a run's tasks; who watches it is told by whom."""
    # A full disk or a damaged record must not keep tasks running.
    with contextlib.suppress(TfclusterError, OSError):
        if run.final_status() is None:
            run.update(ended_by=by)
            run.note("replaced" if by.run else "down", by.words, data=by.to_dict())
    load_backend(backend_of(run)).delete(run, grace=grace, keep_going=keep_going)


def take_code(loaded: LoadedSpec, say: Callable[[str], None]) -> Snapshot | None:
    """The code as it is now; says how much is sent."""
    code = snapshot_of(loaded)
    if code is not None and not code.live:
        amount = f"{format_bytes(code.size)}B, {format_bytes(code.packed)}B packed"
        say(f"Code: {counted(code.files, 'file')}, {amount}")
    return code


def run_code(run: Run | None, loaded: LoadedSpec) -> Snapshot | None:
    """The code that a run has, whatever has changed in the folder since."""
    plan = stored_plan(run) if run else None
    if run is None or plan is None or plan.code is None:
        return take_code(loaded, lambda _: None)
    bring_back(plan.code.digest, run.files.code_archive)
    known = plan.code
    return Snapshot(known.digest, known.target, known.files, known.size, known.packed)


def place_for(loaded: LoadedSpec) -> Place:
    """The job that a spec describes: its name, in the spec's folder."""
    return place_of(loaded.spec.name, loaded.base)


def write_spec(run: Run, loaded: LoadedSpec) -> None:
    """Keep the spec as understood, for `history` and for a look at 3 a.m."""
    run.files.write_spec(loaded.masked_yaml())


def bring_down(
    run: Run,
    *,
    grace: float,
    command: str = "down",
    keep_going: Callable[[], bool] = lambda: True,
) -> None:
    """End a run. Safe to call twice, during `up`, and for a run that has ended."""
    with job_lock(run.place, command, patience=LOCK_PATIENCE, needed=False):
        by = EndedBy(command, str(Path.cwd()), os.getpid())
        end_run(run, by, grace, keep_going)
