"""Tasks as processes of this machine. State lives in the run's folder, with pid and start time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tfcluster.archive import Run
from tfcluster.backends import Backend
from tfcluster.backends.keeping import alive, stale, start_keeper, stop_keeper, sweep, watched
from tfcluster.backends.logfiles import read_logs
from tfcluster.backends.records import job_status, observed, refuse_ended, settle_stopped
from tfcluster.errors import TfclusterError
from tfcluster.events import JobStatus, LogLine, LogQuery, Observed
from tfcluster.files import make_folder
from tfcluster.launch import exits
from tfcluster.launch import plan as launch_plan
from tfcluster.launch.record import Process, TaskRecord
from tfcluster.launch.system import signal_group
from tfcluster.launch.wire import ask

if TYPE_CHECKING:
    from tfcluster.changes import Change
    from tfcluster.plan import Plan
    from tfcluster.spec.model import JobSpec

KEEPER = "tfcluster.backends.local.keeper"


class LocalBackend(Backend):
    """See `tfcluster.backends.Backend` for what each method promises."""

    def check(self, spec: JobSpec, base: Path) -> None:
        from tfcluster.backends.local.plan import check

        check(spec, base)

    def plan(self, spec: JobSpec, run: Run | None, base: Path) -> Plan:
        from tfcluster.backends.local.plan import plan

        return plan(spec, run, base)

    # -- apply

    def apply(self, run: Run, plan: Plan, changes: Sequence[Change]) -> None:
        stop_keeper(run)
        gone = [change.task for change in changes if change.action in ("replace", "remove")]
        self._stop_tasks(run, gone, plan.stop_grace, lambda: True)
        run.files.forget_tasks(gone)
        base = run.record.base
        run.files.write_launch({**plan.launch(run.id), "base": base})
        for folder in (plan.logdir, plan.checkpoints):
            if folder and run.files.output in (Path(folder), *Path(folder).parents):
                make_folder(Path(folder))
            elif folder:
                Path(folder).mkdir(parents=True, exist_ok=True)
        start_keeper(run, KEEPER, folder=base)

    # -- observe

    def observe(self, run: Run) -> JobStatus:
        final = run.final_status()
        if final is not None:
            return final
        launch = run.files.read_launch()
        if launch is None:
            state = "stopped" if stale(run) else "pending"
            return JobStatus(run.job, run.id, "local", state)
        kept = watched(run) or not stale(run)
        names = launch_plan.tasks_of(launch)
        records = [run.files.read_task(task) or {} for task in names]
        tasks = tuple(
            seen_locally(launch, task, record, kept)
            for task, record in zip(names, records, strict=True)
        )
        return job_status(run, tasks, records)

    # -- logs, exec, restart

    def logs(self, run: Run, query: LogQuery) -> Iterator[LogLine]:
        return read_logs(run.logs, query, lambda: self.observe(run).over)

    def exec(self, run: Run, task: str, argv: Sequence[str]) -> int:
        launch = run.files.require_launch()
        role, index = launch_plan.split_task(launch, task)
        entry = launch["roles"][role]
        env = {**os.environ, **launch_plan.read_env_files(entry["env_files"])}
        env.update(launch_plan.program_env(launch, role, index))
        try:
            return exits.exit_code_of(
                subprocess.call(list(argv), env=env, cwd=entry["workdir"] or launch["base"])
            )
        except FileNotFoundError:
            raise TfclusterError(f'command not found: "{argv[0]}"') from None

    def restart(self, run: Run, tasks: Sequence[str]) -> None:
        launch = run.files.require_launch()
        refuse_ended(self.observe(run), tasks)
        for task in tasks:
            address = launch_plan.control_address(launch, task)
            ask(address, run.files.require_key(), task, {"tell": "restart"})

    # -- delete

    def delete(
        self, run: Run, *, grace: float, keep_going: Callable[[], bool] = lambda: True
    ) -> None:
        if run.final_status() is not None:
            return
        stop_keeper(run)
        launch = run.files.read_launch()
        tasks = launch_plan.tasks_of(launch) if launch else []
        self._stop_tasks(run, tasks, grace, keep_going)
        sweep(run)
        settle_stopped(run, self.observe(run))
        sweep(run)  # a keeper that had looked just before that

    def _stop_tasks(
        self, run: Run, tasks: Sequence[str], grace: float, keep_going: Callable[[], bool]
    ) -> None:
        records: list[TaskRecord] = [run.files.read_task(task) or {} for task in tasks]
        launchers = [r["launcher"] for r in records if alive(r.get("launcher"))]
        for one in launchers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(cast(int, one["pid"]), signal.SIGTERM)
        # The launcher itself kills its program after stop_grace; what is left then is killed here.
        wait_gone(launchers, grace + 1.0, keep_going)
        for record in records:
            for process in (record.get("launcher"), record.get("program")):
                if process and process["pid"] and alive(process):
                    signal_group(process["pid"], signal.SIGKILL)


def seen_locally(
    launch: launch_plan.LaunchPlan, task: str, record: TaskRecord, kept: bool
) -> Observed:
    """One task from what is known of it. Without a keeper nobody will replace a dead launcher."""
    role, index = launch_plan.split_task(launch, task)
    seen = observed(task, launch_plan.addresses(launch["roles"][role])[index], record)
    if seen.over or alive(record.get("launcher")):
        return seen
    if kept:
        return replace(seen, state="starting" if record else "pending")
    reason = "its launcher and the run's keeper were killed" if record else "was never started"
    return replace(seen, state="stopped", reason=reason, kind=exits.LAUNCHER_KILLED)


def wait_gone(processes: Sequence[Process], seconds: float, keep_going: Callable[[], bool]) -> None:
    """Until these processes are gone, the time is over, or somebody has lost patience."""
    deadline = time.monotonic() + seconds
    while any(alive(process) for process in processes):
        if time.monotonic() > deadline or not keep_going():
            return
        time.sleep(0.02)


BACKEND = LocalBackend()
