"""Where the results of a run are, and how to read them. Plain frozen data, JSON both ways.

Each backend makes this from a plan, in one place: `results.py` of its package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

FOLDER, VOLUME, CLAIM, TASK = "folder", "volume", "claim", "task"
KINDS = (FOLDER, VOLUME, CLAIM, TASK)


@dataclass(frozen=True)
class Results:
    """One of the two folders that tasks write to."""

    holds: str  # logdir or checkpoints
    # folder: of a machine; volume: of a Docker engine; claim: of a Kubernetes namespace;
    # task: only in the tasks' own containers, and gone with them
    kind: str
    path: str  # on the machine; of a volume or claim: where tasks see it
    name: str = ""  # of the volume or claim
    host: str = ""  # the engine or the kubeconfig's context; empty for this machine
    namespace: str = ""  # of the claim
    copy: str = ""  # a command that copies it to a folder here, where it is not one already

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Results:
        """The same again; a ValueError says what is wrong with it."""
        found = {one.name: data.get(one.name, "") for one in fields(cls)}
        if found["kind"] not in KINDS or not all(isinstance(v, str) for v in found.values()):
            raise ValueError("results: of a kind that is not known")
        return cls(**found)

    @property
    def is_here(self) -> bool:
        """Whether it is a folder of this machine."""
        return self.kind == FOLDER and not self.host


def is_below(path: str, folder: str) -> bool:
    return path == folder.rstrip("/") or path.startswith(folder.rstrip("/") + "/")


def places(results: Iterable[Results]) -> list[Results]:
    """The folders, without one that lies in another."""
    found: list[Results] = []
    for one in results:
        where = (one.kind, one.name, one.host, one.namespace)
        others = [o for o in found if (o.kind, o.name, o.host, o.namespace) == where]
        if not any(is_below(one.path, other.path) for other in others):
            found.append(one)
    return found


def is_empty(one: Results) -> bool:
    """Whether a folder of this machine has nothing in it; of other places that is not known."""
    if not one.is_here:
        return False
    try:
        # Folders of the same run may be made beforehand; only files are results.
        return not any(path.is_file() for path in Path(one.path).rglob("*"))
    except OSError:
        return True


def place_text(one: Results) -> str:
    """`/home/ann/…/output`, `Docker volume tfcluster-mnist-7f3a (/output)`."""
    on = f" on {one.host}" if one.host else ""
    if one.kind == FOLDER:
        return f"{one.path}{on}"
    if one.kind == VOLUME:
        return f"Docker volume {one.name} ({one.path}){on}"
    if one.kind == CLAIM:
        where = f", namespace {one.namespace}" if one.namespace else ""
        of = f" of context {one.host}" if one.host else ""
        return f"claim {one.name} ({one.path}){where}{of}"
    return f"{one.path} of the tasks' own containers, gone with them: a volume would keep it"
