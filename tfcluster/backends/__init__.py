"""Where tasks run. One protocol; each backend translates its SDK's errors into ours."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from tfcluster.errors import TfclusterError, UsageError

if TYPE_CHECKING:
    from tfcluster.archive import Run
    from tfcluster.belongings import Belonging
    from tfcluster.changes import Change, ObjectChange
    from tfcluster.checkpoints import CheckpointFolder
    from tfcluster.code.snapshot import Snapshot
    from tfcluster.events import JobStatus, LogLine, LogQuery
    from tfcluster.fetching import Output, Wanted
    from tfcluster.plan import Plan
    from tfcluster.results import Results
    from tfcluster.spec.model import JobSpec

BACKENDS = {
    "docker": "tfcluster.backends.docker.backend",
    "kubernetes": "tfcluster.backends.kubernetes.backend",
    "local": "tfcluster.backends.local.backend",
}


class Backend(Protocol):
    """What every backend can do. No method prints; what happened goes to the run's events."""

    detaches: bool = False  # whether Ctrl-C on `up` leaves the job running
    reapplies: bool = False  # whether `apply` mends what others changed, where no task has

    def ensure_free(self, spec: JobSpec, base: Path) -> None:
        """Raise if a job of this name, brought up from another place, runs where names are unique.

        Only a first look; `apply` claims the name so that two at once cannot both have it.
        """
        return None

    def prepare(self, spec: JobSpec, base: Path, say: Callable[[str], None]) -> None:
        """Do what takes long before a job can start, such as building an image, and say so."""
        return None

    def stuck(self, run: Run) -> TfclusterError | None:
        """What keeps the job from starting, once it is clear that waiting will not help."""
        return None

    def leftovers(self, run: Run) -> bool:
        """Whether an ended run still occupies something that `delete` would free."""
        return False

    def shows_board(self, run: Run) -> bool:
        """Whether `tfcluster tensorboard` has something to show of an ended run."""
        return True

    def checkpoint_folder(
        self, spec: JobSpec, run: Run | None, base: Path
    ) -> CheckpointFolder | None:
        """Where this run, or without one the next, finds checkpoints that were saved before."""
        return None

    def results(self, plan: Plan, run: Run) -> tuple[Results, ...]:
        """Where what the run's tasks write is kept, and how to read it; asks no server."""

    def hosts(self, run: Run) -> list[str]:
        """Where the run may have left something: engines, or namespaces; not this machine."""
        return []

    def default_hosts(self) -> list[str]:
        """Where runs may have left something that no record tells of, if it can be reached."""
        return []

    def survey(self, host: str, runs: Sequence[Run]) -> list[Belonging]:
        """What these runs have left there, and others of ours whose records are not here."""
        return []

    def remove(self, host: str, belongings: Sequence[Belonging]) -> None:
        """Take these away from there. Idempotent."""
        return None

    def review(self, run: Run | None, plan: Plan) -> list[ObjectChange]:
        """What the backend's own server would change, asked of it; nothing where there is none."""
        return []

    def suspend(self, run: Run, wanted: bool) -> None:
        """Free what the tasks occupy while the job stays, or start them again."""
        raise UsageError(
            f"jobs on {run.backend} cannot be suspended", hint="end it with: tfcluster down"
        )

    def check(self, spec: JobSpec, base: Path) -> None:
        """Raise unless all that the spec asks for can be honoured; paths are relative to `base`."""

    def plan(
        self, spec: JobSpec, run: Run | None, base: Path, code: Snapshot | None = None
    ) -> Plan:
        """The plan of this spec here: new addresses, or those of the run it continues.

        `code` is the snapshot that tasks are to have, if the spec asks for one.
        """

    def apply(self, run: Run, plan: Plan, changes: Sequence[Change]) -> None:
        """Make the changes true. Returns when every task was started, not when it is ready."""

    def observe(self, run: Run) -> JobStatus:
        """What is true now. An empty observation is "not found", never "succeeded"."""

    def logs(self, run: Run, query: LogQuery) -> Iterator[LogLine]:
        """The lines wanted, oldest first; with follow, until the run is over."""

    def exec(self, run: Run, task: str, argv: Sequence[str], *, terminal: bool = False) -> int:
        """Run a command in a task's surroundings, with our input and output; its exit code.

        With `terminal`, where our input is one, it gets one of its own.
        """

    def send_output(self, run: Run, task: str, wanted: Wanted) -> Output:
        """What a task has written under $TFCLUSTER_OUTPUT, as the pieces of a tar."""

    def restart(self, run: Run, tasks: Sequence[str]) -> None:
        """Start the programs of these tasks again, in place."""

    def delete(
        self, run: Run, *, grace: float, keep_going: Callable[[], bool] = lambda: True
    ) -> None:
        """End every task, politely for `grace` seconds or while keep_going() says so, then surely.

        Idempotent; afterwards nothing of the run is left running and its record is complete.
        """


def load_backend(name: str) -> Backend:
    """The backend called `name`, imported only now."""
    if name not in BACKENDS:
        raise UsageError(
            f'backend "{name}" is not part of this version',
            hint=f"known backends: {', '.join(sorted(BACKENDS))}",
        )
    module = importlib.import_module(BACKENDS[name])
    return cast(Backend, module.BACKEND)
