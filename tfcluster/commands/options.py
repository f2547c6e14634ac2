"""Options that several verbs share, and what they mean: which spec, which job, which tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tfcluster import console
from tfcluster.archive import Run, all_places, find_run, runs_of
from tfcluster.errors import DamagedFile, MissingError, SpecProblems, UsageError
from tfcluster.jobs import DEFAULT_SPEC, latest_runs, select_job
from tfcluster.place import Place

if TYPE_CHECKING:
    from tfcluster.events import JobStatus
    from tfcluster.plan import Plan
    from tfcluster.spec.loader import LoadedSpec


def complete_job(incomplete: str) -> list[str]:
    jobs = dict.fromkeys(place.job for place in all_places())
    return [job for job in jobs if job.startswith(incomplete)]


def complete_task(ctx: typer.Context, incomplete: str) -> list[str]:
    """Roles and tasks of the job meant."""
    plan = plan_meant(ctx)
    found = [*(role.role for role in plan.roles), *plan.task_names] if plan else []
    return [name for name in found if name.startswith(incomplete)]


def plan_meant(ctx: typer.Context) -> Plan | None:
    """The plan of the job meant, from the archive alone; None if anything keeps us from it."""
    import contextlib

    from tfcluster.plan import stored_plan

    with contextlib.suppress(Exception):
        given = ctx.params
        return stored_plan(find_job_run(given.get("file"), given.get("job"), given.get("run")))
    return None


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """The runs of the job meant, newest first."""
    import contextlib

    found: list[Run] = []
    with contextlib.suppress(Exception):
        found = runs_of(find_job(ctx.params.get("file"), ctx.params.get("job")))
    return [run.id for run in found if run.id.startswith(incomplete)]


def complete_role(ctx: typer.Context, incomplete: str) -> list[str]:
    """`worker=`, for scale."""
    plan = plan_meant(ctx)
    names = [f"{role.role}=" for role in plan.roles] if plan else []
    return [name for name in names if name.startswith(incomplete)]


def complete_backend(incomplete: str) -> list[str]:
    from tfcluster.backends import BACKENDS

    return [name for name in BACKENDS if name.startswith(incomplete)]


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
    typer.Option(
        metavar="NAME",
        help="Where to run.  [env var: TFCLUSTER_BACKEND]",
        autocompletion=complete_backend,
    ),
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
    str | None,
    typer.Option(
        "--run",
        metavar="ID",
        help="An earlier run (see history).",
        autocompletion=complete_run,
    ),
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
    for number, pair in enumerate(pairs or (), start=1):
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier():
            # Not what was written: without a name that says so, it may still be a secret.
            shown = f' "{name}=…"' if equals else f" number {number}" if number > 1 else ""
            message = f"--var{shown}: expected NAME=VALUE{'' if equals else ', and there is no ='}"
            raise UsageError(message, hint="as in --var workers=4")
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
    loaded = read_spec(spec_path(spec, file), variables(var), tuple(changes or ()), backend)
    for warning in loaded.warnings:
        console.warn(warning)
    return loaded


def read_spec(
    path: Path | None, given: Mapping[str, str], changes: Sequence[str], backend: str | None
) -> LoadedSpec:
    """A spec with what a call and the environment change in it; what to warn of is in it."""
    from tfcluster.spec.loader import load_spec

    path = path or Path(DEFAULT_SPEC)
    loaded = load_spec(
        path,
        variables=dict(given),
        overrides=tuple(changes),
        backend=chosen_backend(backend),
    )
    # Messages name the file as the person did; records have to find it from any folder.
    return replace(loaded, path=path.resolve())


def chosen_backend(backend: str | None) -> str | None:
    """The backend that a call or the environment names; the spec's own if neither does."""
    return backend or os.environ.get("TFCLUSTER_BACKEND") or None


def shown_path(loaded: LoadedSpec) -> str:
    """The spec's file, relative to here if it is here or below."""
    if loaded.path is None:
        return "the spec"
    here = Path.cwd().resolve()
    return str(loaded.path.relative_to(here) if here in loaded.path.parents else loaded.path)


# -- Jobs and runs -----------------------------------------------------------------------------


def find_job(file: str | None, job: str | None) -> Place:
    """The job meant: flags first, then TFCLUSTER_JOB, then what is in this folder."""
    path = spec_path(None, file)
    if job is None and path is None:
        job = os.environ.get("TFCLUSTER_JOB") or None
    try:
        return select_job(path, job)
    except SpecProblems:
        # The spec was broken after `up`; the job that came from it can still be looked at.
        place = job_from((path or Path(DEFAULT_SPEC)).resolve())
        if place is None:
            raise
        return place


def job_from(path: Path) -> Place | None:
    runs = [run for run in latest_runs() if run.record.spec == str(path)]
    newest = max(runs, key=lambda run: run.record.created, default=None)
    return newest.place if newest else None


def find_job_run(file: str | None, job: str | None, run: str | None = None) -> Run:
    """The run meant: the latest of the job meant, unless one is named, which may be any job's."""
    if run is None:
        return find_latest(file, job)
    try:
        return find_run(find_job(file, job), run)
    except MissingError:
        if (found := find_anywhere(run, job)) is None:
            raise
    except UsageError:
        if (found := find_anywhere(run, job)) is None:
            hint = "list them: tfcluster ps -a, tfcluster history --job NAME"
            raise MissingError(f'no job has a run "{run}"', hint=hint) from None
    return found


def find_latest(file: str | None, job: str | None) -> Run:
    """The latest run of the job meant; that its record is gone is said, if it still runs."""
    place = None
    try:
        place = find_job(file, job)
        return find_run(place)
    except (MissingError, DamagedFile):
        from tfcluster.lost import tell_lost

        tell_lost(place, job)
        raise


def find_anywhere(run: str, job: str | None) -> Run | None:
    """The only run whose id starts so, of any job or of those with this name."""
    named = [place for place in all_places() if job in (None, place.job)]
    found = [one for place in named for one in runs_of(place) if one.id.startswith(run)]
    if len(found) > 1:
        raise UsageError(
            f'several runs start with "{run}"',
            evidence=[f"  {one.id}  {one.place}" for one in found[:10]],
            hint="write more of the id",
        )
    return found[0] if found else None


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


def refuse_files(words: Sequence[str] | None, verb: str) -> None:
    """Explain `logs -f cluster.yaml`: with most verbs -f names the spec, with these it follows."""
    from tfcluster.quick import is_path

    for word in words or ():
        if is_path(word):
            raise UsageError(
                f'"{word}" is a file, not a task; with {verb}, -f means --follow',
                hint=f"name the spec with --file: tfcluster {verb} -f --file {word}",
            )


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
    console.data(console.json_text(value, indent=indent))
