"""Which job: its name and the folder of its spec. The same name elsewhere is another job."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

MARK = "@"  # between the name and the rest of a key; no job's name has one


@dataclass(frozen=True, order=True)
class Place:
    """A job and where it belongs."""

    job: str
    folder: str  # of its spec; "" if no record of the job can be read
    key: str  # names the folder of its records

    def __str__(self) -> str:
        return f"{self.job} in {self.folder}" if self.folder else self.job


def place_of(job: str, folder: str | os.PathLike[str]) -> Place:
    """The job of this name that belongs to this folder."""
    path = os.path.abspath(folder)
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:10]
    return Place(job, path, f"{job}{MARK}{digest}")


def place_in_records(key: str) -> Place:
    """The job whose records are kept under this key, with no record of it that could be read."""
    return Place(job_in(key), "", key)


def job_in(key: str) -> str:
    """The job's name in a key. Older versions used the name alone as the key."""
    return key.partition(MARK)[0]
