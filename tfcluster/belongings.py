"""What runs have left where they ran: on an engine, or in a namespace. Plain frozen data.

The record of a run, with the folder of its output, is on this machine and not counted here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from tfcluster.archive import home

CONTAINER, NETWORK, VOLUME, OBJECT, CLAIM = "container", "network", "volume", "object", "claim"
ENVIRONMENT, IMAGE = "environment", "image"  # with requirements, for all runs that have them
MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True)
class Belonging:
    """One thing of ours. `kind` and `name` say what it is, `host` where."""

    # container, network, volume; in a cluster: object (a Job, a Service, …) or claim;
    # for requirements: environment or image
    kind: str
    name: str
    host: str  # as the backend calls it, see Backend.hosts
    job: str
    run: str = ""  # empty if it belongs to all runs of the job
    size: int | None = None  # bytes, where that is known
    holds_results: bool = False
    active: bool = False  # whether it runs
    home: str = ""  # the mark of the state folder that made it, if it carries one

    @property
    def known_as(self) -> tuple[str, str]:
        """Whose it is, as its labels say."""
        return self.job, self.run

    @property
    def words(self) -> str:
        """`volume tfcluster-mnist-7f3a on ssh://me@10.0.0.1`."""
        return f"{self.kind} {self.name} on {self.host}"


def home_mark() -> str:
    """Stands for this state folder on this machine, so that others' things are left alone."""
    try:
        machine = MACHINE_ID.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        import platform

        machine = platform.node()
    return hashlib.sha256(f"{machine}\0{home()}".encode()).hexdigest()[:16]
