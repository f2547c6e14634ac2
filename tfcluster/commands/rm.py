"""`tfcluster rm`: remove runs, with everything that they have left anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from tfcluster import console
from tfcluster.archive import Run, all_places
from tfcluster.cleaning import plan_removal
from tfcluster.commands import options
from tfcluster.commands.removal import settle
from tfcluster.errors import UsageError
from tfcluster.place import Place
from tfcluster.removing import every_run, look_at, look_closely, refuse_live, survey_hosts

EXAMPLES = (
    ("tfcluster rm 7f3a", "one run, by the beginning of its id"),
    ("tfcluster rm mnist --yes", "all runs of a job"),
    ("tfcluster rm mnist --dry-run", "what would go, and how large it is"),
)
SHOWN = 10

Words = Annotated[
    list[str],
    typer.Argument(metavar="RUN|JOB…", help="Runs by id, or jobs for all of their runs."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Force = Annotated[
    bool,
    typer.Option("--force", help="Remove the record even if an engine or cluster is silent."),
]


def command(
    words: Words,
    file: options.File = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
) -> int:
    """Remove runs: records, logs, results, and what they have left on engines and in clusters.

    Containers, networks, volumes and claims of ours go too; folders and volumes that a spec names
    stay. A run that is running is refused. Asks first on a terminal; elsewhere it needs --yes.
    """
    runs = every_run()
    chosen = list(dict.fromkeys(run for word in words for run in named(word, runs, file)))
    everyone = [look_at(run) for run in runs]
    doomed = [look_closely(one) for one in everyone if one.run in chosen]
    refuse_live(doomed)
    survey = survey_hosts(everyone, [host for one in doomed for host in one.hosts])
    refuse_live(doomed, survey)
    removal = plan_removal(doomed, everyone, survey, force=force)
    return settle(removal, doing="rm", yes=yes, dry_run=dry_run, force=force)


def named(word: str, runs: Sequence[Run], file: str | None) -> list[Run]:
    """The runs that a word stands for: all of a job, or the one whose id begins so."""
    if any(place.job == word for place in all_places()):
        return runs_in(options.find_job(file, word), runs)
    matching = [run for run in runs if run.id.startswith(word)]
    if len(matching) > 1 and not any(run.id == word for run in matching):
        raise UsageError(
            f'several runs start with "{word}"',
            evidence=[f"  {run.id}  {run.place}" for run in matching[:SHOWN]],
            hint="write more of the id",
        )
    if not matching:
        console.say(f'There is no run or job "{word}".')
    return [run for run in matching if len(matching) == 1 or run.id == word]


def runs_in(place: Place, runs: Sequence[Run]) -> list[Run]:
    """The runs of a job, those with damaged records included."""
    return [run for run in runs if run.place == place or run.path.parent.parent.name == place.key]
