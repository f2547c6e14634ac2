"""From what is there to what is wanted: plan, compare, carry out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfcluster.archive import Run, create_run, job_lock, latest_run
from tfcluster.backends import load_backend
from tfcluster.changes import Change, ObjectChange, compare
from tfcluster.events import JobStatus
from tfcluster.plan import Plan, stored_plan

if TYPE_CHECKING:
    from tfcluster.spec.loader import LoadedSpec

LOCK_PATIENCE = 30.0  # `down` during `up` waits this long for it to have started everything


@dataclass(frozen=True)
class Deployment:
    """What `up` did: the run, its plan, and the changes it made."""

    run: Run
    plan: Plan
    changes: tuple[Change, ...]

    @property
    def unchanged(self) -> bool:
        return all(change.action == "keep" for change in self.changes)


def live_run(job: str) -> tuple[Run, JobStatus] | None:
    """The job's latest run, if it has not ended."""
    run = latest_run(job)
    if run is None or run.final_status() is not None:
        return None
    status = load_backend(run.backend).observe(run)
    return None if status.over or not status.tasks else (run, status)


@dataclass(frozen=True)
class Preview:
    """What `up` would do: to tasks, and to the objects that a backend's server has of them."""

    plan: Plan
    changes: tuple[Change, ...]
    objects: tuple[ObjectChange, ...]


def preview(loaded: LoadedSpec) -> Preview:
    """What `up` would change, without changing it."""
    spec = loaded.spec
    backend = load_backend(spec.backend)
    backend.check(spec, base_folder(loaded))
    found = live_run(spec.name)
    run = found[0] if found and found[0].backend == spec.backend else None
    plan = backend.plan(spec, run, base_folder(loaded))
    changes = compare(stored_plan(run) if run else None, plan)
    return Preview(plan, changes, tuple(backend.review(run, plan)))


def deploy(
    loaded: LoadedSpec,
    *,
    folder: Path,
    same_run: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> Deployment:
    """Make the job what the spec says; `say` hears of what takes long, such as an image's build.

    A job that is not running starts as a new run. In a running one unchanged tasks are left alone;
    where every task has changed, the run is ended and a new one begins, unless `same_run` asks to
    go on in it (so that checkpoints carry over, as `scale` wants).
    """
    spec = loaded.spec
    backend = load_backend(spec.backend)
    base = base_folder(loaded)
    backend.check(spec, base)
    backend.prepare(spec, base, say)
    with job_lock(spec.name, "up"):
        found = live_run(spec.name)
        run = found[0] if found else None
        if run is not None:
            plan = backend.plan(spec, run if run.backend == spec.backend else None, base)
            changes = compare(stored_plan(run), plan)
            kept = any(change.action == "keep" for change in changes)
            if run.backend != spec.backend or not (kept or same_run):
                run.note("replaced", "ended, because up was called with another spec")
                load_backend(run.backend).delete(run, grace=spec.stop_grace)
                run = None
        if run is None:
            run = create_run(
                spec.name,
                backend=spec.backend,
                folder=folder,
                base=base,
                spec=loaded.path,
                source=loaded.source,
                variables=loaded.variables,
                overrides=loaded.overrides,
            )
            plan = backend.plan(spec, run, base)
            changes = compare(None, plan)
        write_spec(run, loaded)
        unchanged = all(change.action == "keep" for change in changes)
        if backend.reapplies or not unchanged:
            run.files.write_plan(plan.to_dict())
            if not unchanged:
                run.update(applied=time.time())
            backend.apply(run, plan, changes)
        return Deployment(run, plan, changes)


def base_folder(loaded: LoadedSpec) -> Path:
    """What relative paths in a spec are relative to: the folder of the spec."""
    return loaded.path.absolute().parent if loaded.path else Path.cwd()


def write_spec(run: Run, loaded: LoadedSpec) -> None:
    """Keep the spec as understood, for `history` and for a look at 3 a.m."""
    run.files.write_spec(loaded.masked_yaml())


def bring_down(run: Run, *, grace: float, keep_going: Callable[[], bool] = lambda: True) -> None:
    """End a run. Safe to call twice, during `up`, and for a run that has ended."""
    with job_lock(run.job, "down", patience=LOCK_PATIENCE):
        load_backend(run.backend).delete(run, grace=grace, keep_going=keep_going)
