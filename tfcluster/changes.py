"""Differences as data: what has to happen to each task, and why; which fields have changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tfcluster.plan import Plan, RolePlan


@dataclass(frozen=True)
class Change:
    """What has to happen to one task, and why."""

    action: str  # create, replace, keep or remove
    task: str
    why: str = ""


@dataclass(frozen=True)
class ObjectChange:
    """What has to happen to one object of a backend's server, and the fields that differ."""

    action: str  # create, update, replace or remove
    kind: str
    name: str
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True)
class FieldChange:
    """A field of an object: what it was, and what it is or would be; None where it is not."""

    path: str
    before: Any
    after: Any


def compare(old: Plan | None, new: Plan) -> tuple[Change, ...]:
    """The changes that lead from the old plan's tasks to the new plan's."""
    before = old.digests() if old else {}
    after = new.digests()
    changes = [
        Change("create", task)
        if task not in before
        else Change("keep", task)
        if before[task] == digest
        else Change("replace", task, difference(old, new, task))
        for task, digest in after.items()
    ]
    return (*changes, *(Change("remove", task) for task in before if task not in after))


def difference(old: Plan | None, new: Plan, task: str) -> str:
    """Which parts of a task's plan differ, in words."""
    assert old is not None
    name = task.rpartition("-")[0]
    parts = role_parts(old.role(name)) ^ role_parts(new.role(name))
    changed = sorted({part for part, _ in parts})
    if (old.code and old.code.digest) != (new.code and new.code.digest):
        changed.append("code")
    before = {role.role: role.replicas for role in old.roles}
    after = {role.role: role.replicas for role in new.roles}
    # Everybody's host list holds everybody, so a change of one count concerns all tasks.
    changed += sorted(
        f"{role} count (TF_CONFIG is fixed at start)"
        for role in {*before, *after}
        if before.get(role) != after.get(role)
    )
    return ", ".join(part for part in changed if part != "replicas") or "job settings"


def role_parts(role: RolePlan) -> set[tuple[str, str]]:
    ignored = {"addresses", "control", "cpus", "task_env", "digest", "role", "interpreter"}
    return {
        (key.replace("argv", "arguments"), json.dumps(value, sort_keys=True))
        for key, value in asdict(role).items()
        if key not in ignored
    }


# -- Two objects, field by field ---------------------------------------------------------------


def differences(before: Any, after: Any, path: str = "") -> Iterator[FieldChange]:
    """The smallest fields that differ; list items are told apart by name where they have one."""
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            where = f"{path}.{key}" if path else str(key)
            yield from differences(before.get(key), after.get(key), where)
    elif is_named(before) and is_named(after):
        old, new = ({item["name"]: item for item in items} for items in (before, after))
        for name in dict.fromkeys((*old, *new)):
            yield from differences(old.get(name), new.get(name), f"{path}[{name}]")
    else:
        yield FieldChange(path, before, after)


def is_named(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(item, Mapping) and "name" in item for item in value
    )
