"""Options that several verbs share, and what they mean: which spec, which job, which tasks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfcluster import console
from tfcluster.archive import Run, all_jobs, find_run, latest_run
from tfcluster.errors import DamagedFile, MissingError, SpecProblems, UsageError
from tfcluster.jobs import DEFAULT_SPEC, select_job

if TYPE_CHECKING:
    from tfcluster.events import JobStatus
    from tfcluster.plan import Plan
    from tfcluster.spec.loader import LoadedSpec


def complete_job(incomplete: str) -> list[str]:
    return [job for job in all_jobs() if job.startswith(incomplete)]


def complete_task(ctx: typer.Context, incomplete: str) -> list[str]:
    """Roles and tasks of the job meant, from the archive alone."""
    import contextlib

    from tfcluster.plan import require_plan

    found: list[str] = []
    with contextlib.suppress(Exception):
        run = find_job_run(ctx.params.get("file"), ctx.params.get("job"), ctx.params.get("run"))
        plan = require_plan(run)
        found = [*(role.role for role in plan.roles), *plan.task_names]
    return [name for name in found if name.startswith(incomplete)]


Spec = Annotated[
    str | None,
    typer.Argument(metavar="SPEC", help="The spec, or its folder.  [default: cluster.yaml]"),
]
File = Annotated[
    str | None, typer.Option("--file", "-f", metavar="SPEC", help="The spec, or its folder.")
]
# `logs -f` and `events -f` follow, so there the spec has no short option.
LongFile = Annotated[
    str | None, typer.Option("--file", metavar="SPEC", help="The spec, or its folder.")
]
Var = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="A variable of the template (repeatable)."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change the spec, as in roles.worker.replicas=4 (repeatable).",
    ),
]
Backend = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Where to run.  [env var: TFCLUSTER_BACKEND]"),
]
Job = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The job, by name.  [env var: TFCLUSTER_JOB]",
        autocompletion=complete_job,
    ),
]
RunId = Annotated[
    str | None, typer.Option("--run", metavar="ID", help="An earlier run (see history).")
]
Tasks = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TASK|ROLE",
        help="As in worker-1, or worker for all of them.",
        autocompletion=complete_task,
    ),
]


# -- Specs -------------------------------------------------------------------------------------


def spec_path(spec: str | None, file: str | None) -> Path | None:
    """The spec file named, if one is; a folder stands for its cluster.yaml."""
    if spec is not None and file is not None and spec != file:
        raise UsageError(f'two specs: "{spec}" and --file "{file}"', hint="name one of them")
    given = spec if spec is not None else file
    if given is None:
        return None
    path = Path(given)
    return path / DEFAULT_SPEC if path.is_dir() else path


def variables(pairs: Sequence[str] | None) -> dict[str, str]:
    found = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            raise UsageError(f'--var "{pair}": expected NAME=VALUE', hint="as in --var workers=4")
        found[name] = value
    return found


def load(
    spec: str | None,
    file: str | None,
    var: Sequence[str] | None,
    changes: Sequence[str] | None,
    backend: str | None,
) -> LoadedSpec:
    """The spec meant, with everything that the command line and the environment change in it."""
    from tfcluster.spec.loader import load_spec

    path = spec_path(spec, file) or Path(DEFAULT_SPEC)
    loaded = load_spec(
        path,
        variables=variables(var),
        overrides=tuple(changes or ()),
        backend=backend or os.environ.get("TFCLUSTER_BACKEND") or None,
    )
    for warning in loaded.warnings:
        console.warn(warning)
    # Messages name the file as the person did; records have to find it from any folder.
    return replace(loaded, path=path.resolve())


def shown_path(loaded: LoadedSpec) -> str:
    """The spec's file, relative to here if it is here or below."""
    if loaded.path is None:
        return "the spec"
    here = Path.cwd().resolve()
    return str(loaded.path.relative_to(here) if here in loaded.path.parents else loaded.path)


# -- Jobs and runs -----------------------------------------------------------------------------


def find_job(file: str | None, job: str | None) -> str:
    """The job meant: flags first, then TFCLUSTER_JOB, then what is in this folder."""
    path = spec_path(None, file)
    if job is None and path is None:
        job = os.environ.get("TFCLUSTER_JOB") or None
    try:
        return select_job(path, job)
    except SpecProblems:
        # The spec was broken after `up`; the job that came from it can still be looked at.
        name = job_from((path or Path(DEFAULT_SPEC)).resolve())
        if name is None:
            raise
        return name


def job_from(path: Path) -> str | None:
    records = {name: run.record for name in all_jobs() if (run := latest_run(name))}
    names = [name for name, record in records.items() if record.spec == str(path)]
    return max(names, key=lambda name: records[name].created, default=None)


def find_job_run(file: str | None, job: str | None, run: str | None = None) -> Run:
    """The run meant: the latest of the job meant, unless one is named."""
    return find_run(find_job(file, job), run)


def status_of(run: Run) -> JobStatus:
    """How the run stands, or how it ended."""
    from tfcluster.backends import load_backend

    return run.final_status() or load_backend(run.backend).observe(run)


def readable_status(run: Run) -> JobStatus | None:
    """As status_of; None, with a warning, if the run is damaged: it must not hide the others."""
    try:
        return status_of(run)
    except DamagedFile as error:
        console.warn(f"left out: {error.message}")
        return None


def running(run: Run) -> JobStatus:
    """The status of a run that has not ended; an error if it has."""
    status = status_of(run)
    if status.over or not status.tasks:
        raise MissingError(
            f'job "{run.job}" is not running (run {run.id}: {status.state})',
            hint="start it: tfcluster up",
        )
    return status


def select_tasks(plan: Plan, words: Sequence[str] | None) -> tuple[str, ...]:
    """The tasks that these roles and task names stand for, in the plan's order."""
    from tfcluster.plan import known_tasks
    from tfcluster.similar import did_you_mean

    if not words:
        return plan.task_names
    roles = {role.role for role in plan.roles}
    names = set(plan.task_names)
    chosen: set[str] = set()
    for word in words:
        if word in names:
            chosen.add(word)
        elif word in roles:
            chosen.update(f"{word}-{index}" for index in range(plan.role(word).replicas))
        else:
            raise MissingError(
                f'job "{plan.job}" has no task or role "{word}"',
                evidence=[f"  {known_tasks(plan)}"],
                hint=did_you_mean(word, roles | names),
            )
    return tuple(name for name in plan.task_names if name in chosen)


def seconds(text: str, option: str) -> float:
    """A duration given as an option."""
    from tfcluster.quantities import BadQuantity, parse_duration

    try:
        return parse_duration(text)
    except BadQuantity as error:
        raise UsageError(f'{option} "{text}": {error}', hint=error.hint) from None


def print_json(value: Any, *, indent: int | None = 2) -> None:
    import json

    console.data(json.dumps(value, indent=indent, ensure_ascii=False))
