"""Making a run on Docker what its plan says: retire, prepare, create, start; or undo it all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tfcluster.archive import Run, runs_of
from tfcluster.backends.docker.claim import claimed, own_runs
from tfcluster.backends.docker.containers import container_of, labels, output_volume
from tfcluster.backends.docker.engines import Engine, Unreachable, translated
from tfcluster.backends.docker.lifecycle import create, remove_container, start, stop_containers
from tfcluster.backends.docker.logs import TaskReader, read_to_end
from tfcluster.backends.docker.planned import site_of
from tfcluster.backends.docker.site import (
    clean_site,
    engines,
    note_engines,
    prepare_site,
    run_engines,
)
from tfcluster.backends.docker.status import containers_of
from tfcluster.backends.keeping import next_attempt, taken_over
from tfcluster.backends.records import read_records, run_status, settle_stopped
from tfcluster.errors import TfclusterError
from tfcluster.events import ENDED, JobStatus
from tfcluster.plan import Plan, stored_plan

if TYPE_CHECKING:
    from tfcluster.changes import Change

AT_ONCE = 4  # containers that are created or started at the same time


def apply(run: Run, plan: Plan, changes: Sequence[Change]) -> None:
    """Make the changes true, or leave nothing of the run behind and say why."""
    fresh = all(change.action == "create" for change in changes)
    note_engines(run, plan)
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(claimed(engines(plan).values(), run, plan))
        except BaseException as error:
            if fresh:  # one that runs goes on as it is
                settle_failed(run, "started", error)
            raise
        try:
            make_true(run, plan, changes)
        except BaseException as error:
            undo(run, plan, fresh=fresh)
            settle_failed(run, "started" if fresh else "changed", error)
            raise


def make_true(run: Run, plan: Plan, changes: Sequence[Change]) -> None:
    gone = [change.task for change in changes if change.action in ("replace", "remove")]
    hosts = engines(plan)
    end_unfinished(run)
    for engine in run_engines(run, plan).values():
        retire(engine, run, plan, gone)
    run.files.forget_tasks(gone)
    for engine in hosts.values():
        prepare_site(engine, run, plan)
    start_missing(run, plan, hosts)
    if site_of(plan).tensorboard:
        start_board(run, plan, hosts)


def end_unfinished(run: Run) -> None:
    """End earlier runs of the job whose start was cut short: more than containers is left."""
    for earlier in runs_of(run.place):
        if earlier.id == run.id or earlier.backend != "docker" or earlier.final_status():
            continue
        with taken_over(earlier):
            plan = stored_plan(earlier)
            for engine in run_engines(earlier, plan).values() if plan else ():
                try:
                    clean_site(engine, earlier)
                except Unreachable as error:
                    earlier.note("warning", f"not cleaned up: {error.message}")
            settle_stopped(earlier, run_status(earlier, plan))


def retire(engine: Engine, run: Run, plan: Plan, tasks: Sequence[str]) -> None:
    """End these tasks' containers politely, keep their logs, remove them."""
    there = containers_of(engine, run)
    chosen = {task: there[task] for task in tasks if task in there}
    stop_containers(engine, list(chosen.values()), plan.stop_grace, lambda: True)
    for task, container in chosen.items():
        with contextlib.closing(TaskReader(run, task)) as reader:
            read_to_end(engine, reader, container["Id"])
        with translated(engine, task):
            remove_container(engine, container["Id"])


def start_missing(run: Run, plan: Plan, hosts: dict[str, Engine]) -> None:
    """Create every container that is missing, then start them: an error of one stops all."""
    there = set()
    for engine in hosts.values():
        for task, container in containers_of(engine, run).items():
            if container["State"] == "created":  # left by a command that was killed
                with translated(engine, task):
                    remove_container(engine, container["Id"])
            else:
                there.add(task)
    records = read_records(run, plan)
    over = {task for task, record in records.items() if record.get("state") in ENDED}
    wanted = [task for task in plan.task_names if task not in there | over]
    made = [container_of(plan, run.id, task, attempt=next_attempt(run, task)) for task in wanted]

    def step(action: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(action, items))

    ours = own_runs(run.place)
    ids = step(lambda container: create(hosts[container.host], container, ours), made)
    pairs = list(zip(made, ids, strict=True))
    step(lambda pair: start(hosts[pair[0].host], pair[0], pair[1]), pairs)


def start_board(run: Run, plan: Plan, hosts: dict[str, Engine]) -> None:
    """`tensorboard: true`: beside the job, for as long as it runs."""
    from tfcluster.backends.docker import tensorboard as board

    engine = hosts[container_of(plan, run.id, plan.writer).host]
    running = engine.api.containers(filters={"label": f"{board.MARK}={run.id}"})
    if running:
        return
    own = {**labels(plan, run.id), board.MARK: run.id}
    port = board.start_board(engine, run, plan, 0, own, lambda _: None)[1]
    where = f" on {engine.label}" if engine.name else ""
    run.note("tensorboard", f"TensorBoard: http://127.0.0.1:{port}/{where}")


def settle_failed(run: Run, doing: str, error: BaseException) -> None:
    reason = getattr(error, "message", type(error).__name__)
    run.note("failed", f"could not be {doing}: {reason}")
    run.settle(JobStatus(run.job, run.id, "docker", "failed", ended=time.time()))


def undo(run: Run, plan: Plan, *, fresh: bool) -> None:
    """Leave nothing half-started behind. What earlier tasks of the run wrote is kept."""
    for engine in run_engines(run, plan).values():
        with contextlib.suppress(TfclusterError):
            clean_site(engine, run)
            if fresh:
                with translated(engine):
                    engine.api.remove_volume(output_volume(run.job, run.id), force=True)
