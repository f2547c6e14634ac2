"""Tasks as processes of this machine. State lives in the run's folder, with pid and start time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfcluster.archive import Run
from tfcluster.backends import Backend
from tfcluster.backends.keeping import stop_keeper, sweep
from tfcluster.backends.local.look import look_at
from tfcluster.backends.local.results import results_of
from tfcluster.backends.logfiles import read_logs
from tfcluster.backends.processes import end_launchers, end_processes
from tfcluster.backends.records import refuse_ended, settle_stopped
from tfcluster.backends.start import start_keeper
from tfcluster.belongings import ENVIRONMENT, Belonging, home_mark
from tfcluster.checkpoints import CheckpointFolder
from tfcluster.errors import DamagedFile, MissingError, StateWarning, TfclusterError
from tfcluster.events import JobStatus, LogLine, LogQuery
from tfcluster.fetching import Output, Wanted
from tfcluster.files import make_folder
from tfcluster.launch import exits
from tfcluster.launch import plan as launch_plan
from tfcluster.launch.handover import send_files
from tfcluster.launch.unpack import unpack_code
from tfcluster.launch.wire import ask
from tfcluster.refusals import in_brief
from tfcluster.results import Results

if TYPE_CHECKING:
    from tfcluster.changes import Change
    from tfcluster.code.snapshot import Snapshot
    from tfcluster.plan import Plan
    from tfcluster.spec.model import JobSpec

KEEPER = "tfcluster.backends.local.keeper"
THIS_MACHINE = "this machine"


class LocalBackend(Backend):
    """See `tfcluster.backends.Backend` for what each method promises."""

    def check(self, spec: JobSpec, base: Path) -> None:
        from tfcluster.backends.local.plan import check

        check(spec, base)

    def plan(
        self, spec: JobSpec, run: Run | None, base: Path, code: Snapshot | None = None
    ) -> Plan:
        from tfcluster.backends.local.plan import plan

        return plan(spec, run, base, code)

    def checkpoint_folder(
        self, spec: JobSpec, run: Run | None, base: Path
    ) -> CheckpointFolder | None:
        if spec.checkpoints is not None:
            path = (base / spec.checkpoints).resolve()
        elif run is not None:
            path = run.files.output / "checkpoints"
        else:
            return None
        return CheckpointFolder(str(path), path)

    def prepare(self, spec: JobSpec, base: Path, say: Callable[[str], None]) -> None:
        """Have the environment with the spec's requirements: found, or installed now."""
        if spec.requirements is None:
            return
        from tfcluster.backends.local.environment import make_environment
        from tfcluster.backends.local.plan import planned_environment

        made = planned_environment(spec, base)
        if made is not None:
            make_environment(made, say)

    # -- apply

    def apply(self, run: Run, plan: Plan, changes: Sequence[Change]) -> None:
        try:
            self._start(run, plan, changes)
        except (OSError, TfclusterError) as error:
            with contextlib.suppress(OSError, TfclusterError):
                run.note("failed", f"could not be started: {error}")
            # Nothing is left half-started; tasks that ran before, and are kept, go on.
            if all(change.action != "keep" for change in changes):
                with contextlib.suppress(OSError, TfclusterError):
                    self.delete(run, grace=plan.stop_grace)
            else:
                new = [change.task for change in changes if change.action in ("create", "replace")]
                end_launchers(run.path, new, plan.stop_grace, lambda: True)
            raise

    def _start(self, run: Run, plan: Plan, changes: Sequence[Change]) -> None:
        stop_keeper(run)
        gone = [change.task for change in changes if change.action in ("replace", "remove")]
        end_launchers(run.path, gone, plan.stop_grace, lambda: True)
        run.files.forget_tasks(gone)
        base = run.record.base
        run.files.write_launch({**plan.launch(run.id), "base": base})
        for folder in (plan.logdir, plan.checkpoints):
            if folder and run.files.output in (Path(folder), *Path(folder).parents):
                make_folder(Path(folder))
            elif folder:
                Path(folder).mkdir(parents=True, exist_ok=True)
        if plan.code and plan.code.target == str(run.files.code) and not run.files.code.exists():
            archive = str(run.files.code_archive)
            unpack_code({**plan.code.launch(), "parts": [archive]})
        start_keeper(run, KEEPER, folder=base)

    # -- observe

    def observe(self, run: Run) -> JobStatus:
        return look_at(run)

    def results(self, plan: Plan, run: Run) -> tuple[Results, ...]:
        return results_of(plan.logdir, plan.checkpoints)

    # -- logs, exec, restart

    def logs(self, run: Run, query: LogQuery) -> Iterator[LogLine]:
        return read_logs(run.logs, query, lambda: self.observe(run).over)

    def exec(self, run: Run, task: str, argv: Sequence[str], *, terminal: bool = False) -> int:
        launch = run.files.require_launch()
        role, index = launch_plan.split_task(launch, task)
        entry = launch["roles"][role]
        try:
            env = {**os.environ, **launch_plan.read_env_files(entry["env_files"])}
        except ValueError as error:
            raise MissingError(
                str(error), hint="put the file back, or bring the job up again"
            ) from None
        env.update(launch_plan.program_env(launch, role, index))
        folder = entry["workdir"] or launch["base"]
        if terminal:  # Ctrl-C is for the command; a handler of ours is not handed down to it
            signal.signal(signal.SIGINT, lambda number, frame: None)
        try:
            return exits.exit_code_of(subprocess.call(list(argv), env=env, cwd=folder))
        except OSError as error:
            raise MissingError(
                f'"{argv[0]}" cannot be run beside {task}: {error.strerror}',
                evidence=[f"  folder: {folder}"],
                hint="is it installed here, on PATH, and executable?",
            ) from None

    def send_output(self, run: Run, task: str, wanted: Wanted) -> Output:
        folder = launch_plan.output_of(run.files.require_launch(), task)
        return Output(packed(folder, wanted))

    def restart(self, run: Run, tasks: Sequence[str]) -> None:
        launch = run.files.require_launch()
        refuse_ended(self.observe(run), tasks)
        for task in tasks:
            address = launch_plan.control_address(launch, task)
            ask(address, run.files.require_key(), task, {"tell": "restart"})

    # -- what runs leave behind

    def default_hosts(self) -> list[str]:
        return [THIS_MACHINE]

    def survey(self, host: str, runs: Sequence[Run]) -> list[Belonging]:
        return environments(host)

    def remove(self, host: str, belongings: Sequence[Belonging]) -> None:
        from tfcluster.backends.local.environment import remove_environment

        for one in belongings:
            remove_environment(one.name)

    # -- delete

    def delete(
        self, run: Run, *, grace: float, keep_going: Callable[[], bool] = lambda: True
    ) -> None:
        with contextlib.suppress(DamagedFile):
            if run.final_status() is not None:
                return
        end_processes(run.path, grace, keep_going)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", StateWarning)  # what counts is said below
                status = self.observe(run)
            settle_stopped(run, status)
        except (OSError, DamagedFile) as error:
            why = in_brief(error) if isinstance(error, OSError) else error.message
            words = f"every process has ended, but that cannot be written down: {why}"
            warnings.warn(words, StateWarning, stacklevel=2)
        sweep(run)  # a keeper that had looked just before that


def environments(host: str) -> list[Belonging]:
    """The environments with requirements; which job has asked for one is not written there."""
    from tfcluster.backends.local.environment import list_environments
    from tfcluster.disk import folder_size

    return [
        Belonging(ENVIRONMENT, path.name, host, job="", size=folder_size(path), home=home_mark())
        for path in list_environments()
    ]


def packed(folder: str, wanted: Wanted) -> Iterator[bytes]:
    """The files of a folder of this machine, on the way that those of other machines take."""
    with tempfile.TemporaryFile() as file:
        send_files(folder, wanted.files, wanted.limit, file)
        file.seek(0)
        while piece := file.read(1 << 20):
            yield piece


BACKEND = LocalBackend()
