"""What `tfcluster doctor` says about a cluster: each look by itself, each with a fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tfcluster.backends.kubernetes.api import ApiError, Cluster
from tfcluster.backends.kubernetes.connect import connect
from tfcluster.backends.kubernetes.fit import amount
from tfcluster.checks import Check
from tfcluster.errors import TfclusterError

OLDEST = (1, 31)  # the first in which Jobs have all that we use without a feature gate
NEEDED = {
    ("batch", "jobs"): "get list watch create patch delete",
    ("", "services"): "get list create patch delete",
    ("", "configmaps"): "get list create patch delete",
    ("", "secrets"): "create patch delete",
    ("networking.k8s.io", "networkpolicies"): "get list create patch delete",
    ("", "pods"): "get list watch delete",
    ("", "pods/log"): "get",
    ("", "events"): "list watch",
    ("", "pods/exec"): "create",
}
ENFORCERS = ("calico", "cilium", "antrea", "weave-net", "kube-router")


def cluster_checks(context: str | None = None, namespace: str | None = None) -> list[Check]:
    """Everything about the cluster; if it cannot be reached, only that."""
    try:
        cluster = connect(context, namespace)
        cluster.patience = 3.0
        version = cluster.json("GET", "/version")
    except TfclusterError as error:
        said = " ".join([error.message, *(line.strip() for line in error.evidence)])
        return [
            Check("Kubernetes", "warn", f"{said}; `backend: kubernetes` needs it", error.hint or "")
        ]
    looks: tuple[Callable[[Cluster], Iterator[Check]], ...] = (rights, nodes, storage, policies)
    return [
        reachable(cluster, version),
        *(found for look in looks for found in guarded(look, cluster)),
    ]


def guarded(look: Callable[[Cluster], Iterator[Check]], cluster: Cluster) -> Iterator[Check]:
    """What a look finds; what may not be looked at is not a fault."""
    try:
        yield from look(cluster)
    except ApiError as error:
        name = f"Cluster {look.__name__}"
        if error.status == 403:
            yield Check(name, "ok", "not visible with your rights (tfcluster rbac --nodes)")
        else:
            yield Check(name, "warn", error.message)


def reachable(cluster: Cluster, version: dict[str, Any]) -> Check:
    text = f"context {cluster.context}, namespace {cluster.namespace}, {version['gitVersion']}"
    digits = [
        "".join(char for char in version[key] if char.isdigit()) for key in ("major", "minor")
    ]
    if tuple(int(part or 0) for part in digits) < OLDEST:
        return Check("Kubernetes", "warn", text, f"upgrade to {OLDEST[0]}.{OLDEST[1]} or later")
    return Check("Kubernetes", "ok", text)


def rights(cluster: Cluster) -> Iterator[Check]:
    """One question for all rules, instead of one for each."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": cluster.namespace},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    rules = cluster.json("POST", path, body=body)["status"].get("resourceRules") or []
    missing = [
        f"{verb} {resource}"
        for (group, resource), verbs in NEEDED.items()
        for verb in verbs.split()
        if not any(allows(rule, group, resource, verb) for rule in rules)
    ]
    if missing:
        shown = ", ".join(missing[:6]) + (" …" if len(missing) > 6 else "")
        fix = f"have an administrator apply: tfcluster rbac -n {cluster.namespace} --user YOU"
        yield Check("Cluster rights", "warn", f"missing: {shown}", fix)
    else:
        yield Check("Cluster rights", "ok", "all that tfcluster needs")


def allows(rule: dict[str, Any], group: str, resource: str, verb: str) -> bool:
    def covers(key: str, value: str) -> bool:
        return bool({"*", value} & set(rule.get(key) or []))

    return covers("apiGroups", group) and covers("resources", resource) and covers("verbs", verb)


def nodes(cluster: Cluster) -> Iterator[Check]:
    items, _ = cluster.listed("/api/v1/nodes")
    ready = [node for node in items if node_is_ready(node)]
    away = sorted(node["metadata"]["name"] for node in items if node not in ready)
    message = f"{len(ready)} of {len(items)} ready"
    verdict = "ok" if not away else "warn"
    yield Check("Nodes", verdict, message, f"kubectl describe node {away[0]}" if away else "")
    yield gpus(ready)


def node_is_ready(node: dict[str, Any]) -> bool:
    conditions = node["status"].get("conditions") or []
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def gpus(items: list[dict[str, Any]]) -> Check:
    """GPUs that nodes offer, and nodes that are labelled with a GPU and offer none."""
    offered: dict[str, int] = {}
    silent = []
    for node in items:
        capacity = node["status"].get("allocatable") or {}
        found = {key: int(amount(capacity[key])) for key in capacity if is_gpu(key)}
        for key, count in found.items():
            offered[key] = offered.get(key, 0) + count
        labels = node["metadata"].get("labels") or {}
        if labels.get("nvidia.com/gpu.present") == "true" and not any(found.values()):
            silent.append(node["metadata"]["name"])
    text = ", ".join(f"{count} {key}" for key, count in sorted(offered.items()) if count) or "none"
    if silent:
        fix = "is the device plugin running? kubectl get pods -A | grep device-plugin"
        return Check("Cluster GPUs", "warn", f"{text}; {silent[0]} has one and offers none", fix)
    return Check("Cluster GPUs", "ok", text)


def is_gpu(resource: str) -> bool:
    return "/" in resource and ("gpu" in resource or "/mig-" in resource)


def storage(cluster: Cluster) -> Iterator[Check]:
    items, _ = cluster.listed("/apis/storage.k8s.io/v1/storageclasses")
    key = "storageclass.kubernetes.io/is-default-class"
    default = [
        item["metadata"]["name"]
        for item in items
        if (item["metadata"].get("annotations") or {}).get(key) == "true"
    ]
    if default:
        yield Check("Storage", "ok", f"default storage class {default[0]}")
    else:
        fix = "name a class in the claims that you mount (volumes: [{claim: …}])"
        yield Check("Storage", "warn", "no default storage class", fix)


def policies(cluster: Cluster) -> Iterator[Check]:
    """Whether network policies are enforced cannot be asked; who usually does can be seen."""
    items, _ = cluster.listed("/apis/apps/v1/namespaces/kube-system/daemonsets")
    names = [item["metadata"]["name"] for item in items]
    known = [name for name in names if any(word in name for word in ENFORCERS)]
    if known:
        yield Check("Network policies", "ok", f"{known[0]} is there, which enforces them")
    else:
        fix = "ask your administrator; without, any pod in the cluster reaches TensorFlow's ports"
        yield Check("Network policies", "warn", "unknown whether they are enforced", fix)
