"""Jobs from Python, as the commands have them: `job = tfcluster.up("cluster.yaml")`.

Nothing here prints. What the command line says on the way goes to `say`; what a spec is warned of
becomes a SpecWarning; what goes wrong is one of the exceptions of `tfcluster.errors`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcluster.archive import Run
from tfcluster.commands import options
from tfcluster.commands.consent import Call, Consent
from tfcluster.commands.down import end_job
from tfcluster.commands.fetch import fetch_written
from tfcluster.commands.logs import chosen
from tfcluster.commands.outcome import check_outcome
from tfcluster.commands.wait import wait_for_end
from tfcluster.converge import deploy
from tfcluster.errors import SpecWarning
from tfcluster.events import JobStatus, LogLine, LogQuery
from tfcluster.fetching import Fetched
from tfcluster.plan import require_plan
from tfcluster.programs import Wanted, make_spec
from tfcluster.tail import Filter

if TYPE_CHECKING:
    from tfcluster.spec.loader import LoadedSpec

Say = Callable[[str], None]


def ignore(text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Job:
    """One run of a job. It goes on when this object, or the Python that made it, is gone."""

    _run: Run

    def __repr__(self) -> str:
        return f"<tfcluster job {self.name}, run {self.run} on {self.backend}>"

    @property
    def name(self) -> str:
        """The job's name."""
        return self._run.job

    @property
    def run(self) -> str:
        """The run's id, as in `tfcluster logs --run ID`."""
        return self._run.id

    @property
    def backend(self) -> str:
        """Where it runs: local, docker or kubernetes."""
        return self._run.backend

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of its tasks, as in worker-1."""
        return require_plan(self._run).task_names

    def status(self) -> JobStatus:
        """How the job stands, or how it ended: its state, and every task."""
        return options.status_of(self._run)

    def logs(
        self,
        *tasks: str,
        follow: bool = False,
        tail: int | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> Iterator[LogLine]:
        """What tasks, or those of a role, have printed, oldest line first.

        With `follow` it goes on until the job has ended. `tail` is the last lines of each task;
        times are seconds since the epoch.
        """
        names = options.select_tasks(require_plan(self._run), tasks) if tasks else ()
        query = LogQuery(tasks=names, follow=follow, since=since, until=until)
        return chosen(self._run, query, Filter(), tail, None)

    def wait(self, timeout: float | None = None) -> JobStatus:
        """Wait until the job has ended: how, if it succeeded.

        JobFailed if it did not succeed, and names the first cause; WaitTimeout after `timeout`
        seconds, and the job goes on.
        """
        status = wait_for_end(self._run, timeout)
        check_outcome(self._run, status)
        return status

    @property
    def result(self) -> Mapping[str, Any] | None:
        """What the program has reported as its result; None as long as it has not."""
        return self.status().result

    def fetch(self, *words: str, to: str | os.PathLike[str] | None = None) -> Fetched:
        """Bring what tasks have written to a folder here; tasks, roles and patterns choose."""
        return fetch_written(self._run, words, None if to is None else Path(to))

    def down(self, grace: float | None = None) -> None:
        """End the job, politely for `grace` seconds; its logs are kept. Safe to call twice."""
        end_job(self._run, grace)


def up(
    spec: str | os.PathLike[str] = "cluster.yaml",
    *,
    backend: str | None = None,
    variables: Mapping[str, object] | None = None,
    overrides: Mapping[str, object] | Sequence[str] = (),
    yes: bool = False,
    say: Say = ignore,
) -> Job:
    """Start the job of a spec, or make it what the spec says, and leave it running.

    `variables` are those of the template, `overrides` change the spec by path, as in
    {"roles.worker.replicas": 4}. Where this would end or restart tasks that run, it raises
    UsageError unless `yes`. `say` hears of what takes long, such as the build of an image.
    """
    path = options.spec_path(os.fspath(spec), None)
    given = {name: as_text(value) for name, value in (variables or {}).items()}
    loaded = options.read_spec(path, given, as_overrides(overrides), backend)
    return start(Call(loaded, backend, yes, consent="yes=True"), say)


def run(
    program: str | os.PathLike[str],
    *,
    args: Sequence[object] = (),
    workers: int | None = None,
    ps: int | None = None,
    chief: bool = False,
    evaluator: bool = False,
    gpus: int = 0,
    strategy: str | None = None,
    backend: str | None = None,
    image: str | None = None,
    code: str | None = None,
    requirements: str | Sequence[str] | None = None,
    env: Mapping[str, str] | None = None,
    name: str | None = None,
    overrides: Mapping[str, object] | Sequence[str] = (),
    yes: bool = False,
    say: Say = ignore,
) -> Job:
    """Start a program as it is, without a spec, as `tfcluster run` does, and leave it running.

    `code` is the folder that is sent, if it is not the program's own. `requirements` is a file or
    a list of packages; requirements.txt beside the program is taken unless it is an empty list.
    """
    packages = requirements if isinstance(requirements, str | None) else tuple(requirements)
    wanted = Wanted(
        words=(os.fspath(program), *map(str, args)),
        workers=workers,
        ps=ps,
        chief=chief,
        evaluator=evaluator,
        gpus=gpus,
        strategy=strategy,
        name=name,
        image=image,
        env=dict(env or {}),
        code=code,
        requirements=packages,
    )
    where = options.chosen_backend(backend)
    made = make_spec(wanted, where, None, as_overrides(overrides))
    for line in made.words:
        say(line)
    return start(Call(made.loaded, backend, yes, command="run", consent="yes=True"), say)


def find(
    job: str | None = None,
    *,
    spec: str | os.PathLike[str] | None = None,
    run: str | None = None,
) -> Job:
    """A job that was brought up before, by any process: the one that the commands would choose.

    That is the job named, that of the spec, or the one of this folder; its latest run, or `run`.
    """
    return Job(options.find_job_run(None if spec is None else os.fspath(spec), job, run))


def start(call: Call, say: Say) -> Job:
    """Deploy what a call asks for, with no question to anyone."""
    tell_warnings(call.loaded)
    done = deploy(call.loaded, folder=Path.cwd(), say=say, agree=Consent(call).check)
    return Job(done.run)


def tell_warnings(loaded: LoadedSpec) -> None:
    for text in loaded.warnings:
        warnings.warn(text, SpecWarning, stacklevel=4)


def as_text(value: object) -> str:
    """A value as it is written after --var NAME= or --set PATH=: as YAML."""
    if isinstance(value, str):
        return value
    import json

    return json.dumps(value)


def as_overrides(given: Mapping[str, object] | Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    if isinstance(given, Mapping):
        return tuple(f"{path}={as_text(value)}" for path, value in given.items())
    return tuple(given)
