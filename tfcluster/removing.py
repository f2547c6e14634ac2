"""Looking at runs and at what they have left, and taking it away. Nothing here prints or asks."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tfcluster.archive import Run, entries, jobs_folder
from tfcluster.backends import load_backend
from tfcluster.backends.processes import find_processes
from tfcluster.belongings import Belonging
from tfcluster.cleaning import Candidate, Host, Removal, Survey
from tfcluster.disk import folder_size
from tfcluster.errors import DamagedFile, TfclusterError, UsageError
from tfcluster.joblock import job_lock

LOCK_PATIENCE = 30.0
SHOWN = 10
GRACE = 1.0  # seconds for what is left of a run that does not run any more


def every_run() -> list[Run]:
    """Every run with a folder, the damaged ones included."""
    return [Run.at(path) for job in entries(jobs_folder()) for path in entries(job / "runs")]


def look_at(run: Run) -> Candidate:
    """What the files of a run say; asks no engine or cluster."""
    found = Candidate(run, run.place)
    try:
        record, final = run.record, run.final_status()
        hosts = tuple((record.backend, host) for host in load_backend(record.backend).hosts(run))
    except TfclusterError:  # damaged, or of a backend that this version does not have
        return replace(found, hosts=noted_engines(run))
    found = replace(found, state=record.state, created=record.created, hosts=hosts)
    if final is None:
        return found
    return replace(found, state=final.state, ended=final.ended or record.ended, over=True)


def look_closely(one: Candidate) -> Candidate:
    """How large it is, and whether it runs: of one with damaged files, whether a process lives."""
    one = replace(one, size=folder_size(one.run.path))
    if one.over:
        return one
    try:
        status = load_backend(one.run.backend).observe(one.run) if one.readable else None
    except DamagedFile:
        status = None
    except TfclusterError as error:
        return replace(one, problem=error)
    if status is None:
        return replace(one, state="damaged", live=bool(find_processes(one.run.path)))
    live = bool(status.tasks) and not status.over
    return replace(one, state=status.state, ended=status.ended, live=live)


def noted_engines(run: Run) -> tuple[Host, ...]:
    """The Docker engines of a run whose record cannot be read."""
    with contextlib.suppress(DamagedFile):
        return tuple(("docker", host["engine"]) for host in run.files.read_engines())
    return ()


def survey_hosts(candidates: Sequence[Candidate], hosts: Iterable[Host]) -> Survey:
    """Ask each of these hosts what runs have left there."""
    found, silent = {}, {}
    for host in dict.fromkeys(hosts):
        runs = [one.run for one in candidates if host in one.hosts]
        try:
            found[host] = load_backend(host[0]).survey(host[1], runs)
        except TfclusterError as error:
            silent[host] = error
    return Survey(found, silent)


def default_hosts() -> list[Host]:
    """Hosts that may have something of ours although no record says so."""
    backends = ("local", "docker")
    return [(name, host) for name in backends for host in load_backend(name).default_hosts()]


# -- Taking it away ----------------------------------------------------------------------------


def carry_out(removal: Removal, *, force: bool = False) -> Iterator[str]:
    """Remove it all, run by run; yields what has been removed, in words.

    The folder of a run goes last, so that a removal that was cut short can be repeated. A run that
    cannot be removed does not keep the others; its error is raised at the end.
    """
    problems: list[TfclusterError] = []
    for one in removal.runs:
        own = [pair for pair in removal.belongings if pair[1].known_as == one.known_as]
        try:
            with job_lock(one.place, "rm", patience=LOCK_PATIENCE):
                refuse_live([look_closely(look_at(one.run))])
                end_rest(one, force)
                yield from remove_all(own)
                remove_folder(one.run.path)
            yield f'run {one.run.id} of "{one.run.job}"'
        except TfclusterError as error:
            problems.append(error)
    runs = {one.known_as for one in removal.runs}
    yield from remove_all([pair for pair in removal.belongings if pair[1].known_as not in runs])
    if problems:
        raise problems[0]


def refuse_live(doomed: Sequence[Candidate], survey: Survey | None = None) -> None:
    """Raise if one of these runs is at work; of a damaged one its containers tell it too."""
    active = {one.known_as for _, one in survey.each() if one.active} if survey else set()
    live = [one.run for one in doomed if one.live or (not one.over and one.known_as in active)]
    if live:
        names = ", ".join(f'{run.id} of "{run.job}"' for run in live[:SHOWN])
        raise UsageError(
            f"{'a run is' if len(live) == 1 else 'runs are'} still running: {names}",
            hint=f"end it first: tfcluster down --run {live[0].id}",
        )


def end_rest(one: Candidate, force: bool) -> None:
    """End what is left of a run that has not been ended properly."""
    if not one.readable:
        return  # no process of it lives
    try:
        backend = load_backend(one.run.backend)
        if one.run.final_status() is None or backend.leftovers(one.run):
            backend.delete(one.run, grace=GRACE)
    except DamagedFile:
        return  # as above
    except TfclusterError:
        if not force:
            raise


def remove_all(pairs: Sequence[tuple[Host, Belonging]]) -> Iterator[str]:
    by_host: dict[Host, list[Belonging]] = {}
    for host, one in pairs:
        by_host.setdefault(host, []).append(one)
    for (backend, name), things in by_host.items():
        load_backend(backend).remove(name, things)
        yield from (one.words for one in things)


def remove_folder(folder: Path) -> None:
    """The folder of a run, and that of its job's runs when it was the last."""
    try:
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        else:
            shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise TfclusterError(
            f"cannot remove {error.filename or folder}: {error.strerror}",
            hint=f"remove it by hand: rm -r {folder}",
        ) from None
    with contextlib.suppress(OSError):
        folder.parent.rmdir()
