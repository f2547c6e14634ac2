"""Tasks as containers, on one Docker engine or on several. State lives in labels and log streams.

Every container runs the launcher; what the launcher reports in its log is read by the run's keeper
(or, if that was killed, by whoever looks) into the run's folder, so that logs and states outlive
containers and engines.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tfcluster.archive import Run, latest_run
from tfcluster.backends import Backend
from tfcluster.backends.docker.containers import container_of
from tfcluster.backends.docker.engines import Engine, Unreachable, current_engine
from tfcluster.backends.docker.exec import run_inside, tell
from tfcluster.backends.docker.follow import read_ended
from tfcluster.backends.docker.lifecycle import stop_containers
from tfcluster.backends.docker.logs import TaskReader
from tfcluster.backends.docker.site import clean_site, engine_names, engines, run_engines
from tfcluster.backends.docker.status import containers_of
from tfcluster.backends.keeping import sole_reader, stale, taken_over
from tfcluster.backends.logfiles import read_logs
from tfcluster.backends.processes import alive
from tfcluster.backends.records import refuse_ended, run_status, settle_stopped
from tfcluster.backends.start import start_keeper
from tfcluster.errors import TfclusterError
from tfcluster.events import JobStatus, LogLine, LogQuery
from tfcluster.place import place_of
from tfcluster.plan import Plan, require_plan, stored_plan
from tfcluster.requirements import read_requirements
from tfcluster.results import Results

if TYPE_CHECKING:
    from tfcluster.belongings import Belonging
    from tfcluster.changes import Change
    from tfcluster.checkpoints import CheckpointFolder
    from tfcluster.code.snapshot import Snapshot
    from tfcluster.fetching import Output, Wanted
    from tfcluster.spec.model import JobSpec

KEEPER = "tfcluster.backends.docker.keeper"


class DockerBackend(Backend):
    """See `tfcluster.backends.Backend` for what each method promises."""

    def check(self, spec: JobSpec, base: Path) -> None:
        from tfcluster.backends.docker.plan import check

        check(spec, base)

    def plan(
        self, spec: JobSpec, run: Run | None, base: Path, code: Snapshot | None = None
    ) -> Plan:
        from tfcluster.backends.docker.plan import plan

        return plan(spec, run, base, code)

    def checkpoint_folder(
        self, spec: JobSpec, run: Run | None, base: Path
    ) -> CheckpointFolder | None:
        from tfcluster.backends.docker.plan import checkpoint_folder

        return checkpoint_folder(spec, run, base)

    def ensure_free(self, spec: JobSpec, base: Path) -> None:
        from tfcluster.backends.docker.claim import ensure_free
        from tfcluster.backends.docker.plan import engines_of

        for engine in engines_of(spec):
            ensure_free(engine, place_of(spec.name, base))

    def prepare(self, spec: JobSpec, base: Path, say: Callable[[str], None]) -> None:
        """Have every image on every engine: pulled, built or copied; says so."""
        from tfcluster.backends.docker.images import provide_images

        wanted = read_requirements(spec, base)
        provide_images(self.plan(spec, None, base), wanted, say)
        run = latest_run(place_of(spec.name, base))
        if run is not None and run.backend == "docker" and is_unkept(run):
            say("The run's keeper was gone (a reboot?); watching again")
            start_keeper(run, KEEPER)

    def apply(self, run: Run, plan: Plan, changes: Sequence[Change]) -> None:
        from tfcluster.backends.docker.apply import apply

        try:
            with taken_over(run):
                # Until the new keeper says that it is there, nothing counts as started.
                run.files.forget_keeper()
                apply(run, plan, changes)
        finally:
            if run.final_status() is None and run.files.read_keeper() is None:
                start_keeper(run, KEEPER)

    # -- observe

    def observe(self, run: Run) -> JobStatus:
        final = run.final_status()
        if final is not None:
            return final
        plan = stored_plan(run)
        keeper = run.files.read_keeper()
        if plan is None or keeper is None:
            state = "stopped" if stale(run) else "pending"
            return JobStatus(run.job, run.id, "docker", state)
        lost: dict[str, str] = {}
        if not alive(keeper):
            with sole_reader(run, wait=False) as mine:
                if mine and (final := run.final_status()) is not None:
                    return final
                lost = self._catch_up(run, plan) if mine else {}
        return run_status(run, plan, lost=lost)

    def _catch_up(self, run: Run, plan: Plan) -> dict[str, str]:
        """Without a keeper, read what the engines have; why some tasks will not come back."""
        lost: dict[str, str] = {}
        there: dict[str, tuple[Engine, str]] = {}
        for engine in engines(plan).values():
            found = containers_of(engine, run)
            there.update({task: (engine, container["Id"]) for task, container in found.items()})
        for task in plan.task_names:
            with contextlib.closing(TaskReader(run, task)) as reader:
                words = read_ended(*there[task], reader) if task in there else "was never started"
                if words and not reader.over and stale(run):
                    lost[task] = f"{words}, and the run's keeper is gone"
        return lost

    # -- logs, exec, restart

    def logs(self, run: Run, query: LogQuery) -> Iterator[LogLine]:
        self.observe(run)
        return read_logs(run.logs, query, lambda: self.observe(run).over)

    def exec(self, run: Run, task: str, argv: Sequence[str], *, terminal: bool = False) -> int:
        plan, engine = self._where(run, task)
        return run_inside(engine, plan, task, argv, terminal=terminal)

    def send_output(self, run: Run, task: str, wanted: Wanted) -> Output:
        from tfcluster.backends.docker.output import output_archive

        plan, engine = self._where(run, task)
        return output_archive(engine, run, plan, task)

    def restart(self, run: Run, tasks: Sequence[str]) -> None:
        refuse_ended(self.observe(run), tasks)
        for task in tasks:
            plan, engine = self._where(run, task)
            tell(engine, plan, task, {"tell": "restart"})

    def _where(self, run: Run, task: str) -> tuple[Plan, Engine]:
        plan = require_plan(run)
        return plan, engines(plan)[container_of(plan, run.id, task).host]

    # -- delete

    def delete(
        self, run: Run, *, grace: float, keep_going: Callable[[], bool] = lambda: True
    ) -> None:
        if run.final_status() is not None:
            return
        plan = stored_plan(run)
        hosts = run_engines(run, plan) if plan else {}
        unreachable: list[Unreachable] = []
        with taken_over(run):
            for engine in hosts.values():
                try:
                    self._end_on(engine, run, grace, keep_going)
                except Unreachable as error:
                    unreachable.append(error)
            if unreachable:
                raise unreachable[0]
            settle_stopped(run, run_status(run, plan))

    def _end_on(
        self, engine: Engine, run: Run, grace: float, keep_going: Callable[[], bool]
    ) -> None:
        there = containers_of(engine, run)
        stop_containers(engine, list(there.values()), grace, keep_going)
        for task, container in there.items():
            with contextlib.closing(TaskReader(run, task)) as reader:
                read_ended(engine, container["Id"], reader)
        clean_site(engine, run)

    # -- what the tasks wrote

    def tensorboard(
        self, run: Run, port: int, ready: Callable[[], None], say: Callable[[str], None]
    ) -> int:
        """Show the run in TensorBoard on this port until Ctrl-C."""
        from tfcluster.backends.docker.tensorboard import serve

        return serve(run, require_plan(run), port, ready, say)

    def results(self, plan: Plan, run: Run) -> tuple[Results, ...]:
        from tfcluster.backends.docker.results import results_of

        return results_of(plan, run.id)

    # -- what runs leave behind

    def hosts(self, run: Run) -> list[str]:
        return engine_names(run)

    def default_hosts(self) -> list[str]:
        """The current engine, if it is on this machine and answers."""
        engine = Engine(current_engine())
        with contextlib.suppress(TfclusterError):
            if engine.is_local:
                engine.ping()
                return [engine.reference]
        return []

    def survey(self, host: str, runs: Sequence[Run]) -> list[Belonging]:
        from tfcluster.backends.docker.belongings import survey

        return survey(Engine(host))

    def remove(self, host: str, belongings: Sequence[Belonging]) -> None:
        from tfcluster.backends.docker.belongings import remove

        remove(Engine(host), belongings)


def is_unkept(run: Run) -> bool:
    """Whether a run goes on whose keeper was killed."""
    keeper = run.files.read_keeper()
    return keeper is not None and not alive(keeper) and run.final_status() is None


BACKEND = DockerBackend()
