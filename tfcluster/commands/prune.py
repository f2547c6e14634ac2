"""`tfcluster prune`: remove old runs of every job, and what no record tells of any more."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.archive import Run
from tfcluster.belongings import Belonging, home_mark
from tfcluster.cleaning import (
    Candidate,
    Host,
    Survey,
    choose_old,
    find_strays,
    find_unused,
    plan_removal,
)
from tfcluster.commands import options
from tfcluster.commands.removal import settle, size_text
from tfcluster.commands.rm import DryRun, Force, Yes, runs_in
from tfcluster.errors import DamagedFile
from tfcluster.plan import stored_plan
from tfcluster.removing import default_hosts, every_run, look_at, look_closely, survey_hosts
from tfcluster.tables import counted

EXAMPLES = (
    ("tfcluster prune --dry-run", "what would go, with sizes"),
    ("tfcluster prune --older-than 7d", "what ended a week ago"),
    ("tfcluster prune --keep 3 --job mnist --yes", "all but three"),
)
DEFAULT_KEEP = 1


def command(
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="DURATION", help="Only runs that ended before, as 7d."
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep", metavar="N", min=0, help="Of each job.  [default: 1; 0 with --older-than]"
        ),
    ] = None,
    file: options.File = None,
    job: options.Job = None,
    unrecorded: Annotated[
        bool,
        typer.Option(
            "--unrecorded", help="Also what other state folders have left; others may need it."
        ),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
) -> int:
    """Remove old runs of all jobs, with everything that they have left anywhere.

    Runs that are running stay. Volumes and other things on engines whose run has no record here
    any more go too, if this state folder made them, and what was installed for requirements that
    no run has any more. Asks first on a terminal; elsewhere it needs
    --yes.
    """
    age = None if older_than is None else options.seconds(older_than, "--older-than")
    least = keep if keep is not None else 0 if age is not None else DEFAULT_KEEP
    runs = every_run()
    everyone = [look_at(run) for run in runs]
    wanted = everyone
    if job is not None or file is not None:
        chosen = runs_in(options.find_job(file, job), runs)
        wanted = [one for one in everyone if one.run in chosen]
    every_job = wanted is everyone
    looked = [look_closely(one) for one in wanted]
    doomed = choose_old(looked, older_than=age, keep=least, now=time.time())
    survey = survey_hosts(everyone, hosts_to_ask(everyone if every_job else doomed, every_job))
    removal = plan_removal(doomed, everyone, survey, force=force)
    for error in survey.silent.values():
        console.warn(f"not looked at: {error.message}")
    if every_job:
        strays = chosen_strays(survey, everyone, unrecorded)
        going = [one.run for one in removal.runs]
        staying = [run for run in runs if run not in going]
        unused = unused_requirements(survey, staying, None if unrecorded else home_mark())
        removal = replace(removal, belongings=(*removal.belongings, *strays, *unused))
    return settle(removal, doing="prune", yes=yes, dry_run=dry_run, force=force)


def unused_requirements(
    survey: Survey, staying: Sequence[Run], mark: str | None
) -> list[tuple[Host, Belonging]]:
    """What was made for requirements and is needed no more; nothing if a run cannot say it."""
    needed: set[str] = set()
    for run in staying:
        try:
            plan = stored_plan(run)
        except DamagedFile:
            return []
        needed |= plan.made_for_requirements if plan else set()
    return find_unused(survey, needed, mark)


def hosts_to_ask(candidates: Sequence[Candidate], every_job: bool) -> list[Host]:
    """Where these runs have been and, for every job, where others may have been."""
    hosts = [host for one in candidates for host in one.hosts]
    return [*hosts, *default_hosts()] if every_job else hosts


def chosen_strays(
    survey: Survey, everyone: Sequence[Candidate], unrecorded: bool
) -> list[tuple[Host, Belonging]]:
    """What no run here tells of; that of others only if it is asked for."""
    own, others = find_strays(survey, {one.known_as for one in everyone}, home_mark())
    if unrecorded:
        return [*own, *others]
    if others:
        size = size_text(sum(one.size or 0 for _, one in others))
        console.say(
            f"Left alone: {counted(len(others), 'thing')} of other state folders ({size}); "
            "see them: tfcluster prune --unrecorded --dry-run"
        )
    return own
