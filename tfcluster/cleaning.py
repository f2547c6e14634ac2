"""Which runs can be removed, and what goes with them: decisions alone, from what was found."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tfcluster.archive import Run
from tfcluster.belongings import ENVIRONMENT, IMAGE, Belonging
from tfcluster.errors import TfclusterError
from tfcluster.place import Place

FOR_REQUIREMENTS = (ENVIRONMENT, IMAGE)
Host = tuple[str, str]  # a backend, and what it calls one of its hosts


@dataclass(frozen=True)
class Candidate:
    """A run that might be removed."""

    run: Run
    place: Place
    state: str = "damaged"
    created: float = 0.0
    ended: float | None = None
    live: bool = False
    size: int = 0  # bytes of its folder
    over: bool = False  # whether it is written down how it ended
    hosts: tuple[Host, ...] = ()
    problem: TfclusterError | None = None  # why it is not known whether it runs

    @property
    def readable(self) -> bool:
        """Whether its record could be read."""
        return self.created > 0

    @property
    def known_as(self) -> tuple[str, str]:
        """The labels of what it has left."""
        return self.run.job, self.run.id


@dataclass(frozen=True)
class Survey:
    """What was found where runs have been, and which of these places do not answer."""

    found: Mapping[Host, Sequence[Belonging]] = field(default_factory=dict)
    silent: Mapping[Host, TfclusterError] = field(default_factory=dict)

    def each(self) -> Iterable[tuple[Host, Belonging]]:
        return ((host, one) for host, things in self.found.items() for one in things)


@dataclass(frozen=True)
class Removal:
    """What is to go: runs with their folders, and what is left of them elsewhere."""

    runs: tuple[Candidate, ...] = ()
    belongings: tuple[tuple[Host, Belonging], ...] = ()
    blocked: tuple[tuple[Candidate, TfclusterError], ...] = ()  # these stay, and why

    @property
    def size(self) -> int:
        """Bytes, as far as they are known."""
        elsewhere = sum(one.size or 0 for _, one in self.belongings)
        return sum(one.size for one in self.runs) + elsewhere


def choose_old(
    candidates: Iterable[Candidate], *, older_than: float | None, keep: int, now: float
) -> list[Candidate]:
    """The runs that have ended, beyond the last `keep` of each job, and older than so many seconds.

    What runs, or may run, is never chosen; what is damaged has to be named to be removed.
    """
    chosen = []
    seen: dict[Place, int] = {}
    for one in sorted(candidates, key=lambda found: -found.created):
        position = seen[one.place] = seen.get(one.place, 0) + 1
        age = now - (one.ended or one.created)
        usable = not one.live and one.problem is None and one.readable
        if usable and position > keep and (older_than is None or age > older_than):
            chosen.append(one)
    return chosen


def plan_removal(
    doomed: Sequence[Candidate], everyone: Sequence[Candidate], survey: Survey, *, force: bool
) -> Removal:
    """What goes with these runs. One that was on a host that does not answer stays, unless forced.

    What belongs to all runs of a job, such as a claim, goes with the last of them.
    """
    blocked = [] if force else [(one, why) for one in doomed if (why := obstacle(one, survey))]
    kept_back = {one.run.path for one, _ in blocked}
    going = [one for one in doomed if one.run.path not in kept_back]
    runs = {one.known_as for one in going}
    staying = {one.run.path for one in everyone} - {one.run.path for one in going}
    needed = {
        (host, one.run.job) for one in everyone if one.run.path in staying for host in one.hosts
    }
    used = {(host, one.run.job) for one in going for host in one.hosts}
    belongings = [
        (host, one)
        for host, one in survey.each()
        if (one.job, one.run) in runs
        or (not one.run and (host, one.job) in used and (host, one.job) not in needed)
    ]
    return Removal(tuple(going), tuple(belongings), tuple(blocked))


def find_unused(
    survey: Survey, needed: Collection[str], mark: str | None
) -> list[tuple[Host, Belonging]]:
    """What was made for requirements that no run has which stays; with a mark, only what it made.

    `needed` names what these runs have.
    """
    return [
        (host, one)
        for host, one in survey.each()
        if one.kind in FOR_REQUIREMENTS and one.name not in needed and mark in (None, one.home)
    ]


def obstacle(one: Candidate, survey: Survey) -> TfclusterError | None:
    """Why it cannot be said that nothing of a run will be left."""
    return next((survey.silent[host] for host in one.hosts if host in survey.silent), one.problem)


def find_strays(
    survey: Survey, known: Collection[tuple[str, str]], mark: str
) -> tuple[list[tuple[Host, Belonging]], list[tuple[Host, Belonging]]]:
    """What no record here tells of: of this state folder, and of others that may still need it.

    Nothing of a run that is at work is among them.
    """
    strays = [(host, one) for host, one in survey.each() if one.run and one.known_as not in known]
    active = {(host, one.known_as) for host, one in strays if one.active}
    quiet = [(host, one) for host, one in strays if (host, one.known_as) not in active]
    own_runs = {(host, one.known_as) for host, one in quiet if one.home == mark}
    own = [pair for pair in quiet if (pair[0], pair[1].known_as) in own_runs]
    return own, [pair for pair in quiet if pair not in own]
