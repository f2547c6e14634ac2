"""The record of a run: which job, from where, with what, since when. `record.json`, declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from tfcluster.files import NUMBER, check_shape

VERSION = 1
NONE = type(None)
JSON_NAMES = {"source_hash": "sourceHash"}
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
}


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
    # What `scale` needs to read the spec again; the value of a secret is None, and asked for then.
    variables: Mapping[str, str | None] = field(default_factory=dict)
    overrides: tuple[str, ...] = ()
    state: str = "pending"
    ended: float | None = None
    applied: float | None = None  # when `up` last changed something
    context: str | None = None  # of the kubeconfig
    namespace: str | None = None
    cleaned: bool = False  # whether the cluster holds nothing of the run any more

    def to_dict(self) -> dict[str, Any]:
        found = {
            JSON_NAMES.get(one.name, one.name): getattr(self, one.name) for one in fields(self)
        }
        found["variables"], found["overrides"] = dict(self.variables), list(self.overrides)
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
        return cls(**values)
