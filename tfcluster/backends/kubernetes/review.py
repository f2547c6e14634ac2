"""What applying manifests would change, as the API server itself says in a dry run.

So admission, defaults and conflicts with other people's changes are all part of the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tfcluster.backends.kubernetes.api import ApiError, Cluster
from tfcluster.backends.kubernetes.apply import owned
from tfcluster.backends.kubernetes.claim import is_claim
from tfcluster.changes import ObjectChange, differences

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
        if path not in wanted and not is_claim(thing):
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
