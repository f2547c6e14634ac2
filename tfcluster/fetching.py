"""Results on their way back: from the stream of a task to a folder of this machine."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcluster.errors import TfclusterError
from tfcluster.launch.handover import LEFT_OUT, is_wanted
from tfcluster.launch.unpack import BadArchive, unpack_tar
from tfcluster.plan import stored_plan
from tfcluster.quantities import format_bytes

if TYPE_CHECKING:
    from tfcluster.archive import Run
    from tfcluster.plan import ResultsPlan

EVERYTHING = ("*",)
IGNORED = "# Results of runs, brought here by tfcluster.\n*\n"


@dataclass(frozen=True)
class Wanted:
    """Which files of a task are asked for."""

    files: tuple[str, ...] = EVERYTHING
    limit: int = 1 << 60


@dataclass(frozen=True)
class Output:
    """A task's files on their way: the pieces of a tar, and the folder in it that they are in."""

    pieces: Iterable[bytes]
    top: str = ""


Send = Callable[["Run", str, Wanted], Output]  # a backend's send_output


@dataclass(frozen=True)
class Fetched:
    """What has arrived."""

    folder: str
    files: int = 0
    size: int = 0
    left_out: tuple[str, ...] = ()

    def plus(self, other: Fetched) -> Fetched:
        return replace(
            self,
            files=self.files + other.files,
            size=self.size + other.size,
            left_out=(*self.left_out, *other.left_out),
        )

    @property
    def text(self) -> str:
        """`3 files, 1.2MiB, in results/train-7f3a`, and what was too much."""
        files = f"{self.files} file{'s' * (self.files != 1)}"
        more = f"; {len(self.left_out)} left out: too large" if self.left_out else ""
        return f"{files}, {format_bytes(self.size)}B, in {self.folder}{more}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": self.folder,
            "files": self.files,
            "size": self.size,
            "leftOut": list(self.left_out),
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Fetched:
        return cls(data["folder"], data["files"], data["size"], tuple(data["leftOut"]))


class Chunks(io.RawIOBase):
    """Pieces of bytes as a file that can be read once."""

    def __init__(self, pieces: Iterable[bytes]):
        self.pieces: Iterator[bytes] = iter(pieces)
        self.rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self.rest:
            piece = next(self.pieces, None)
            if piece is None:
                return 0
            self.rest = piece
        count = min(len(buffer), len(self.rest))
        buffer[:count], self.rest = self.rest[:count], self.rest[count:]
        return count


def receive(output: Output, folder: Path, wanted: Wanted) -> Fetched:
    """Unpack a task's archive into a folder: only what is wanted, and nothing outside it."""
    state = {"size": 0, "files": 0}
    left_out: list[str] = []

    def choose(member: Any) -> bool:
        member.name = below(member.name, output.top)
        if not member.isreg():
            return False
        if member.name == LEFT_OUT:
            named = archive.extractfile(member)
            left_out.extend(map(str, json.loads(named.read(1 << 20)) if named else ()))
            return False
        if not is_wanted(member.name, wanted.files):
            return False
        if state["size"] + member.size > wanted.limit:
            left_out.append(member.name)
            return False
        state["size"] += member.size
        state["files"] += 1
        folder.mkdir(parents=True, exist_ok=True)
        return True

    try:
        reader = io.BufferedReader(Chunks(output.pieces), 1 << 16)
        if not reader.peek(1):
            return Fetched(str(folder))
        with tarfile.open(fileobj=reader, mode="r|") as archive:
            unpack_tar(archive, str(folder), choose=choose)
    except (tarfile.TarError, BadArchive, EOFError, ValueError) as error:
        raise TfclusterError(f"results did not arrive whole: {error}") from None
    except OSError as error:
        words = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        raise TfclusterError(f"results cannot be written: {words}") from None
    return Fetched(str(folder), state["files"], state["size"], tuple(left_out))


def below(name: str, top: str) -> str:
    return name[len(top) + 1 :] if top and name.startswith(f"{top}/") else name


def results_folder(run: Run, to: str) -> Path:
    """Where the results of a run belong: a folder of its own, which git leaves alone."""
    return Path(run.record.folder) / to / f"{run.job}-{run.id}"


def fetch(send: Send, run: Run, tasks: Iterable[str], folder: Path, wanted: Wanted) -> Fetched:
    """What these tasks have written, each in a folder of its own."""
    total = Fetched(str(folder))
    for task in tasks:
        output = send(run, task, wanted)
        total = total.plus(receive(output, folder / task, wanted))
    return total


def bring_results(send: Send, run: Run) -> None:
    """At the end of a run: what its spec asks for, in the folder that it was brought up from."""
    plan = stored_plan(run)
    if plan is None or plan.results is None:
        return
    folder = results_folder(run, plan.results.to)
    total = Fetched(str(folder))
    for task in plan.task_names:
        try:
            total = total.plus(fetch(send, run, [task], folder, wanted_by(plan.results)))
        except TfclusterError as error:
            run.note("warning", f"its results were not fetched: {error.message}", task)
    note_results(run, total)


def note_results(run: Run, total: Fetched) -> None:
    """Write down what has come back."""
    if total.files:
        keep_from_git(Path(total.folder))
    if total.files or total.left_out:
        run.files.write_results(total.to_dict())
        run.note("results", total.text)


def keep_from_git(folder: Path) -> None:
    """What was brought back is no code: not git's, and not that of the next run."""
    mark = folder.parent / ".gitignore"
    if not mark.exists():
        mark.write_text(IGNORED)


def wanted_by(results: ResultsPlan) -> Wanted:
    return Wanted(results.files, results.limit)


def known_results(run: Run) -> Fetched | None:
    """What has come back of a run."""
    return run.files.read_results(Fetched.from_dict)
