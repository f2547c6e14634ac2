"""The results of a job's runs: found, and deleted while the records of the runs stay."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfcluster.archive import Run
from tfcluster.backends import load_backend
from tfcluster.belongings import Belonging, home_mark
from tfcluster.cleaning import Host, find_strays, plan_removal
from tfcluster.disk import folder_size
from tfcluster.errors import TfclusterError
from tfcluster.plan import stored_plan
from tfcluster.removing import every_run, look_at, remove_all, survey_hosts
from tfcluster.results import Results


@dataclass(frozen=True)
class Output:
    """Where runs have written to."""

    runs: tuple[Run, ...]
    folders: tuple[tuple[Path, int], ...] = ()  # the runs' own, with their bytes
    belongings: tuple[tuple[Host, Belonging], ...] = ()
    named: tuple[str, ...] = ()  # folders of the person's own, which may hold more
    silent: tuple[TfclusterError, ...] = ()  # hosts that could not be asked


def find_output(runs: Sequence[Run]) -> Output:
    """The folders, volumes and claims of these runs, and of runs of theirs without a record.

    A claim is counted only if no other run needs it.
    """
    everyone = [look_at(run) for run in every_run()]
    doomed = [one for one in everyone if one.run in runs]
    survey = survey_hosts(everyone, [host for one in doomed for host in one.hosts])
    going = plan_removal(doomed, everyone, survey, force=True).belongings
    jobs = {(host, one.run.job) for one in doomed for host in one.hosts}
    own, _ = find_strays(survey, {one.known_as for one in everyone}, home_mark())
    lost = [(host, one) for host, one in own if (host, one.job) in jobs]
    results = [one for run in runs for one in results_of(run)]
    outputs = [run.files.output for run in runs if run.files.output.is_dir()]
    return Output(
        runs=tuple(runs),
        folders=tuple((folder, folder_size(folder)) for folder in outputs),
        belongings=tuple(pair for pair in (*going, *lost) if pair[1].holds_results),
        named=tuple(dict.fromkeys(one.path for one in results if is_named(one, runs))),
        silent=tuple(survey.silent.values()),
    )


def results_of(run: Run) -> tuple[Results, ...]:
    plan = stored_plan(run)
    return load_backend(run.backend).results(plan, run) if plan else ()


def is_named(one: Results, runs: Sequence[Run]) -> bool:
    """Whether it is a folder that a spec names."""
    own = [run.files.output for run in runs]
    path = Path(one.path)
    return one.is_here and path.is_dir() and not any(o in (path, *path.parents) for o in own)


def delete_output(output: Output) -> Iterator[str]:
    """Delete the results and forget where they were; yields what was deleted, in words."""
    for folder, _ in output.folders:
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise TfclusterError(
                f"cannot delete {error.filename or folder}: {error.strerror}"
            ) from None
        yield str(folder)
    yield from remove_all(output.belongings)
    gone = {(one.name, host[1]) for host, one in output.belongings}
    for run in output.runs:
        forget(run, gone)


def forget(run: Run, gone: set[tuple[str, str]]) -> None:
    """Have the run's record no longer name places that are gone."""
    status = run.final_status()
    if status is None:
        return
    kept = tuple(one for one in status.results if is_there(one, gone))
    if kept != status.results:
        run.files.write_status(replace(status, results=kept))


def is_there(one: Results, gone: set[tuple[str, str]]) -> bool:
    if one.is_here:
        return Path(one.path).is_dir()
    host = f"{one.host}/{one.namespace}" if one.namespace else one.host
    return (one.name, host) not in gone
