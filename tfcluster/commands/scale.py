"""`tfcluster scale`: another number of tasks in a role, in the same run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.archive import Run
from tfcluster.commands import options
from tfcluster.converge import Deployment, deploy
from tfcluster.errors import EXIT_OK, MissingError, UsageError
from tfcluster.plan import require_plan
from tfcluster.redaction import is_masked_override
from tfcluster.similar import did_you_mean
from tfcluster.tables import counted

EXAMPLES = (
    ("tfcluster scale worker=4", "four workers from now on"),
    ("tfcluster scale worker=4 ps=2 --job mnist", "two roles of a job by name"),
)


MOST_DIGITS = 9


def command(
    roles: Annotated[
        list[str],
        typer.Argument(
            metavar="ROLE=N", help="As in worker=4.", autocompletion=options.complete_role
        ),
    ],
    var: options.Var = None,
    set_: options.Set = None,
    file: options.File = None,
    job: options.Job = None,
) -> int:
    """Change how many tasks a role has, in the running job.

    Every program learns its peers from TF_CONFIG when it starts, so a change of one role's count
    starts all programs again; they go on from their checkpoints.
    """
    run = options.find_job_run(file, job)
    options.running(run)
    before = {role.role: role.replicas for role in require_plan(run).roles}
    wanted = counts(roles, before)
    spec = spec_of(run)
    overrides = [*remembered_overrides(run, set_ or ()), *(set_ or ())]
    overrides += [f"roles.{name}.replicas={count}" for name, count in wanted.items()]
    variables = remembered(run, options.variables(var))
    loaded = options.load(str(spec), None, variables, overrides, run.backend)
    if hashlib.sha256(loaded.source.encode()).hexdigest() != run.record.source_hash:
        console.warn(f"{spec.name} has changed since run {run.id} began; that is applied as well")
    deployment = deploy(loaded, folder=Path(run.record.folder), same_run=True)
    report(deployment, before, wanted)
    return EXIT_OK


def counts(words: list[str], known: dict[str, int]) -> dict[str, int]:
    """What was asked for, role by role."""
    wanted = {}
    for word in words:
        role, _, number = word.partition("=")
        if not number.isdecimal() or len(number) > MOST_DIGITS or int(number) < 1:
            raise UsageError(f'"{word}": expected ROLE=N', hint="as in: tfcluster scale worker=4")
        if role not in known:
            hint = did_you_mean(role, known) or f"roles: {', '.join(known)}"
            raise MissingError(f'the job has no role "{role}"', hint=hint)
        wanted[role] = int(number)
    return wanted


def spec_of(run: Run) -> Path:
    """The file that the run came from."""
    spec = run.record.spec
    if not spec:
        raise MissingError(
            f"run {run.id} was started without a spec",
            hint="start it again with another number: tfcluster run --workers N PROGRAM",
        )
    if not Path(spec).is_file():
        raise MissingError(
            f"the spec of run {run.id} is not there any more: {spec}",
            hint="use: tfcluster up SPEC --set roles.worker.replicas=N",
        )
    return Path(spec)


def remembered(run: Run, given: dict[str, str]) -> list[str]:
    """The variables that the job was brought up with; secret ones were not kept."""
    known = {**run.record.variables, **given}
    ask_again([f"--var {name}=…" for name, value in known.items() if value is None])
    return [f"{name}={value}" for name, value in known.items()]


def remembered_overrides(run: Run, given: Sequence[str]) -> list[str]:
    """The changes of the spec that the job was brought up with, less those given again."""
    again = {text.partition("=")[0] for text in given}
    known = [text for text in run.record.overrides if text.partition("=")[0] not in again]
    ask_again([f"--set {t.partition('=')[0]}=…" for t in known if is_masked_override(t)])
    return known


def ask_again(missing: list[str]) -> None:
    if missing:
        hint = f"give them again: {' '.join(missing)}"
        raise UsageError("the job was brought up with secrets", hint=hint)


def report(deployment: Deployment, before: dict[str, int], wanted: dict[str, int]) -> None:
    for role, count in wanted.items():
        console.success(f"{role}: {before[role]} → {count} (run {deployment.run.id})")
    restarted = sum(change.action == "replace" for change in deployment.changes)
    if deployment.unchanged:
        console.say("Nothing to change.")
    elif restarted:
        console.say(
            f"{counted(restarted, 'running task')} restarted: the list of hosts (TF_CONFIG) is "
            "fixed when a program starts. They go on from their checkpoints."
        )
