"""The record of a run: which job, from where, with what, since when. `record.json`, declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tfcluster.files import NUMBER, check_shape

VERSION = 1
NONE = type(None)
JSON_NAMES = {"source_hash": "sourceHash", "ended_by": "endedBy"}
SHAPE: dict[str, tuple[type, ...]] = {
    "job": (str,),
    "run": (str,),
    "backend": (str,),
    "folder": (str,),
    "base": (str,),
    "created": NUMBER,
}
MORE: dict[str, tuple[type, ...]] = {
    "spec": (str, NONE),
    "sourceHash": (str,),
    "variables": (dict,),
    "overrides": (list,),
    "state": (str,),
    "ended": (*NUMBER, NONE),
    "applied": (*NUMBER, NONE),
    "context": (str, NONE),
    "namespace": (str, NONE),
    "cleaned": (bool,),
    "endedBy": (dict, NONE),
}
ENDED_BY: dict[str, tuple[type, ...]] = {
    "command": (str,),
    "folder": (str,),
    "pid": (int,),
    "run": (str, NONE),
}


@dataclass(frozen=True)
class EndedBy:
    """The command that ended a run before the run came to its own end."""

    command: str  # up or down
    folder: str  # where it was called
    pid: int
    run: str | None = None  # the run that `up` began instead; without one it was Ctrl-C

    @property
    def words(self) -> str:
        """`ended by `tfcluster down` in /home/ann/mnist`."""
        if self.run is not None:
            return f"ended by `tfcluster {self.command}` in {self.folder}, to begin run {self.run}"
        if self.command == "up":
            return f"ended by Ctrl-C on `tfcluster up` in {self.folder}"
        return f"ended by `tfcluster {self.command}` in {self.folder}"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EndedBy:
        check_shape(data, ENDED_BY)
        return cls(**{key: data[key] for key in ENDED_BY})


@dataclass(frozen=True)
class RunRecord:
    """What is written down when a run begins, and the little that changes afterwards."""

    job: str
    run: str
    backend: str
    folder: str  # where `up` was called
    base: str  # what relative paths of the spec are relative to
    created: float
    spec: str | None = None
    source_hash: str = ""
    # What `scale` needs to read the spec again; the value of a secret is None, in an override
    # masked, and asked for then.
    variables: Mapping[str, str | None] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    state: str = "pending"
    ended: float | None = None
    applied: float | None = None  # when `up` last changed something
    context: str | None = None  # of the kubeconfig
    namespace: str | None = None
    cleaned: bool = False  # whether the cluster holds nothing of the run any more
    ended_by: EndedBy | None = None  # written before the first task is told to end

    def to_dict(self) -> dict[str, Any]:
        found = {
            JSON_NAMES.get(one.name, one.name): getattr(self, one.name) for one in fields(self)
        }
        found["variables"], found["overrides"] = dict(self.variables), list(self.overrides)
        found["endedBy"] = self.ended_by.to_dict() if self.ended_by else None
        return {"schemaVersion": VERSION, **found}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunRecord:
        """The record; a ValueError says what is wrong with it."""
        check_shape(data, {**SHAPE, **{key: MORE[key] for key in MORE if key in data}})
        unknown = sorted(data.keys() - SHAPE.keys() - MORE.keys() - {"schemaVersion"})
        if unknown:
            raise ValueError(f"{unknown[0]}: unknown")
        names = {JSON_NAMES.get(one.name, one.name): one.name for one in fields(cls)}
        values = {names[key]: value for key, value in data.items() if key in names}
        values["overrides"] = tuple(data.get("overrides", ()))
        ended_by = data.get("endedBy")
        values["ended_by"] = EndedBy.from_dict(ended_by) if ended_by is not None else None
        return cls(**values)
