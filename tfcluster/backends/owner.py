"""Whose job it is, where a name is there once only: on a Docker engine, in a namespace."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from tfcluster.archive import Run, home
from tfcluster.errors import TfclusterError
from tfcluster.place import Place

KEYS = ("folder", "owner", "state-folder")


@dataclass(frozen=True)
class Owner:
    """The place that a job was brought up from, as it is written on what it consists of."""

    folder: str = ""  # of the spec; "" if an older version has not written it down
    who: str = ""  # user@host
    home: str = ""  # the state folder
    run: str = ""

    def marks(self, prefix: str) -> dict[str, str]:
        """As labels or annotations."""
        values = (self.folder, self.who, self.home)
        return {f"{prefix}{key}": value for key, value in zip(KEYS, values, strict=True)}

    @classmethod
    def from_marks(cls, marks: Mapping[str, str], prefix: str, run: str) -> Owner:
        folder, who, known_home = (marks.get(f"{prefix}{key}", "") for key in KEYS)
        return cls(folder, who, known_home, run)

    def words(self, *, with_home: bool) -> str:
        """`/home/ann/mnist (ann@laptop, run 7f3a)`."""
        known = [self.who, f"run {self.run}" if self.run else ""]
        known += [f"TFCLUSTER_HOME={self.home}"] if with_home and self.home else []
        more = ", ".join(part for part in known if part)
        return f"{self.folder or 'a folder that is not recorded'}{f' ({more})' if more else ''}"


def owner_here(folder: str, run: str = "") -> Owner:
    """Whoever calls this, with a spec in this folder."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return Owner(folder, f"{user}@{socket.gethostname()}", str(home()), run)


def owner_of(run: Run) -> Owner:
    return owner_here(run.place.folder, run.id)


class Taken(TfclusterError):
    """Another place has a job of this name there. Nothing of it was touched."""

    def __init__(
        self, place: Place, where: str, there: Owner, *, starting: bool = False, end: str = ""
    ):
        here = owner_here(place.folder)
        elsewhere = there.folder != here.folder or there.who != here.who
        doing = "is being brought up" if starting else "already runs"
        ending = f"cd {there.folder} && tfcluster down" if there.folder else end
        if not elsewhere and there.home:
            ending = f"TFCLUSTER_HOME={there.home} tfcluster down"
        super().__init__(
            f'a job "{place.job}" {doing} {where}, and it is not the one of this folder'
            if elsewhere
            else f'the job "{place.job}" of this folder {doing} {where}, from another state folder',
            evidence=[
                f"  there: {there.words(with_home=not elsewhere)}",
                f"  here:  {here.words(with_home=not elsewhere)}",
            ],
            hint=f"names are unique there. Choose another: --set name={place.job}-2. "
            f"Or end the other one: {ending or 'tfcluster down, where it was brought up'}",
        )
