"""What a task has written: sent as one archive, and held until it has been fetched.

What writes archives is imported by those that send one: a launcher needs none of it.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import json
import os
from typing import IO, Any, List, Sequence, Tuple

from tfcluster.launch.plan import LaunchPlan, output_of

FETCHED = "/tmp/tfcluster/fetched"  # made in a task's container when its results have arrived
LEFT_OUT = ".tfcluster-left-out"  # names the files that were too much, in the archive itself


class Steady(io.RawIOBase):
    """A file as long as it was when it was opened, whatever its writer does meanwhile."""

    def __init__(self, path: str):
        self.file = open(path, "rb")  # noqa: SIM115
        self.left = self.size = os.fstat(self.file.fileno()).st_size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        wanted = self.left if size < 0 else min(size, self.left)
        data = self.file.read(wanted).ljust(wanted, b"\0")
        self.left -= wanted
        return data

    def close(self) -> None:
        self.file.close()
        super().close()


def is_wanted(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path below the folder, or a file's name, matches one of these patterns."""
    name = os.path.basename(path)
    return any(
        fnmatch.fnmatchcase(path, pattern) or fnmatch.fnmatchcase(name, pattern)
        for pattern in patterns
    )


def written_files(folder: str, patterns: Sequence[str]) -> List[Tuple[int, str]]:
    """Size and path of the files below a folder that match, the smallest first; no links."""
    found: List[Tuple[int, str]] = []
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            below = os.path.relpath(path, folder)
            if os.path.isfile(path) and not os.path.islink(path) and is_wanted(below, patterns):
                found.append((os.path.getsize(path), below))
    return sorted(found)


def send_files(folder: str, patterns: Sequence[str], limit: int, target: IO[bytes]) -> None:
    """Write the files to a stream as a tar; those beyond the limit are only named."""
    import tarfile

    left_out: List[str] = []
    sent = 0
    with tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for size, below in written_files(folder, patterns):
            if sent + size > limit:
                left_out.append(below)
                continue
            try:
                source = Steady(os.path.join(folder, below))
            except OSError:
                continue  # it is gone again
            with source:
                add(archive, below, source.size, source)
            sent += size
        if left_out:
            data = json.dumps(left_out).encode()
            add(archive, LEFT_OUT, len(data), io.BytesIO(data))


def add(archive: Any, name: str, size: int, source: Any) -> None:
    import tarfile

    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    archive.addfile(info, source)


def make_output(plan: LaunchPlan, task: str) -> None:
    """The folder for what the task writes."""
    folder = output_of(plan, task)
    if folder:
        with contextlib.suppress(OSError):  # a program that writes there says more than we could
            os.makedirs(folder, exist_ok=True)


def time_to_stay(plan: LaunchPlan, task: str) -> float:
    """For how many seconds a task that has ended waits until its files are fetched."""
    wanted = plan.get("results")
    if not wanted or not wanted["wait"]:
        return 0.0
    return wanted["wait"] if written_files(output_of(plan, task), wanted["files"]) else 0.0


def is_fetched() -> bool:
    return os.path.exists(FETCHED)


def mark_fetched() -> None:
    os.makedirs(os.path.dirname(FETCHED), exist_ok=True)
    open(FETCHED, "w").close()
