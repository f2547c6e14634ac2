"""What applying manifests would change, as the API server itself says in a dry run.

So admission, defaults and conflicts with other people's changes are all part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfcluster.backends.kubernetes.api import ApiError, Cluster
from tfcluster.backends.kubernetes.apply import owned
from tfcluster.changes import FieldChange, ObjectChange

Object = Mapping[str, Any]

IMMUTABLE = 422
TRIAL = "-dry-run"  # stands for an object that is deleted before it is made anew
LONGEST_TRIAL = 40  # characters kept of the name, so that the pods' names are not too long


def review(
    cluster: Cluster, docs: Iterable[Object], selector: str | None, gang: str | None
) -> list[ObjectChange]:
    """Every object that would be made, changed or removed; `selector` finds those of the run."""
    docs = list(docs)
    # A Secret holds the job's key: it may not be read, and changes with nothing but the run.
    visible = [doc for doc in docs if doc["kind"] != "Secret"]
    found = [change for doc in visible if (change := reviewed(cluster, doc)) is not None]
    wanted = {cluster.path_of(doc) for doc in docs}
    for path, thing in owned(cluster, selector, gang) if selector else ():
        if path not in wanted:
            found.append(ObjectChange("remove", thing["kind"], thing["metadata"]["name"]))
    return found


def reviewed(cluster: Cluster, doc: Object) -> ObjectChange | None:
    kind, name = doc["kind"], doc["metadata"]["name"]
    before = cluster.get(cluster.path_of(doc))
    if before is None:
        cluster.apply(doc, dry_run=True)
        return ObjectChange("create", kind, name)
    action = "update"
    try:
        after = cluster.apply(doc, dry_run=True)
    except ApiError as error:
        if error.status != IMMUTABLE:
            raise
        # A Job's pods cannot be changed, only made anew; a stand-in asks whether they may be.
        action, after = "replace", cluster.apply(renamed(doc), dry_run=True)
    changes = tuple(differences(relevant(before, doc), relevant(after, doc)))
    return ObjectChange(action, kind, name, changes) if changes else None


def renamed(doc: Object) -> dict[str, Any]:
    name = doc["metadata"]["name"][:LONGEST_TRIAL].rstrip("-") + TRIAL
    return {**doc, "metadata": {**doc["metadata"], "name": name}}


def relevant(thing: Any, ours: Object) -> Any:
    """The object without what the server and controllers keep in it for themselves."""
    meta = {key: value for key, value in thing["metadata"].items() if key in ours["metadata"]}
    meta.pop("name")
    rest = {key: value for key, value in thing.items() if key not in ("metadata", "status")}
    if thing.get("kind") == "Job":
        # The controller ties pods to their Job by labels that it makes itself.
        rest["spec"] = {key: value for key, value in rest["spec"].items() if key != "selector"}
        pod = rest["spec"]["template"]
        kept = ours["spec"]["template"]["metadata"]
        labels = {k: v for k, v in pod["metadata"]["labels"].items() if "job-name" not in k}
        labels = {key: value for key, value in labels.items() if "controller-uid" not in key}
        pod_meta = {key: pod["metadata"].get(key) for key in kept} | {"labels": labels}
        rest["spec"]["template"] = {**pod, "metadata": pod_meta}
    return {**rest, "metadata": meta}


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
