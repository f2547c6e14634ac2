"""Whether a job can be scheduled on a cluster as it is now, and if not, what would fit.

A model of the scheduler that knows requests, taints, selectors, required node affinity, spreading
and quotas. It knows nothing of preemption, of volumes that are tied to a zone, or of autoscaling.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, NamedTuple

from tfcluster.backends.kubernetes.pods import resources
from tfcluster.backends.kubernetes.site import container_of, site_of
from tfcluster.plan import Plan, RolePlan
from tfcluster.quantities import format_bytes, parse_quantity

Amounts = dict[str, Decimal]
Object = Mapping[str, Any]


def amount(value: Any) -> Decimal:
    """A Kubernetes quantity: "500m", "2Gi", 3."""
    text = str(value)
    if text.endswith("m"):
        return Decimal(text[:-1]) / 1000
    try:
        return Decimal(text)
    except ArithmeticError:
        return Decimal(parse_quantity(text))


def amounts(entry: Mapping[str, Any] | None) -> Amounts:
    return {name: amount(value) for name, value in (entry or {}).items()}


@dataclass
class Node:
    """A node and what is left of it."""

    name: str
    labels: Mapping[str, str]
    taints: list[Object]
    free: Amounts
    placed: dict[str, int] = field(default_factory=dict)  # role -> tasks put here

    def copy(self) -> Node:
        return replace(self, free=dict(self.free), placed=dict(self.placed))


def nodes_from(nodes: Iterable[Object], pods: Iterable[Object]) -> list[Node]:
    """The nodes that are ready, less what the pods on them have asked for."""
    found = {
        node["metadata"]["name"]: Node(
            node["metadata"]["name"],
            node["metadata"].get("labels") or {},
            list(node.get("spec", {}).get("taints") or []),
            amounts(node["status"].get("allocatable")),
        )
        for node in nodes
        if is_ready(node)
    }
    for pod in pods:
        node = found.get(pod.get("spec", {}).get("nodeName", ""))
        if node is None or pod["status"].get("phase") in ("Succeeded", "Failed"):
            continue
        for container in pod["spec"].get("containers", []):
            asked = container.get("resources") or {}
            take(node.free, {**amounts(asked.get("limits")), **amounts(asked.get("requests"))})
        take(node.free, {"pods": Decimal(1)})
    return sorted(found.values(), key=lambda node: node.name)


def is_ready(node: Object) -> bool:
    if node.get("spec", {}).get("unschedulable"):
        return False
    conditions = node["status"].get("conditions") or []
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def take(free: Amounts, wanted: Amounts) -> None:
    for name, value in wanted.items():
        free[name] = free.get(name, Decimal(0)) - value


# -- One task on one node ----------------------------------------------------------------------


def asks_for(role: RolePlan) -> Amounts:
    wanted = resources(role)
    return {
        **amounts(wanted.get("limits")),
        **amounts(wanted.get("requests")),
        "pods": Decimal(1),
    }


class Refusal(NamedTuple):
    """Why a node cannot take a task: of which kind the obstacle is, and in words."""

    kind: str  # "label", "affinity", "taint", or "full"
    words: str


def refusal(node: Node, role: RolePlan) -> Refusal | None:
    """Why this node cannot take one more task of the role; None if it can."""
    container = container_of(role)
    for key, label in container.node_selector.items():
        if node.labels.get(key) != label:
            return Refusal("label", f"lacks the label {key}={label}")
    if not affinity_allows(node, container.affinity):
        return Refusal("affinity", "does not match the node affinity")
    for taint in node.taints:
        if taint["effect"] != "PreferNoSchedule" and not tolerated(taint, container.tolerations):
            return Refusal("taint", f"has the taint {taint['key']}")
    for name, value in asks_for(role).items():
        left = node.free.get(name, Decimal(0))
        if left < value:
            shown = f"{text_of(name, max(left, Decimal(0)))} of {text_of(name, value)}"
            return Refusal("full", f"has too little {name} left ({shown})")
    return None


def text_of(name: str, value: Decimal) -> str:
    if "memory" in name or "storage" in name:
        return format_bytes(int(value))
    return f"{float(value):g}"


def tolerated(taint: Object, tolerations: Iterable[Object]) -> bool:
    for entry in tolerations:
        if entry.get("effect") not in (None, taint["effect"]):
            continue
        if entry.get("key") is None and entry.get("operator") == "Exists":
            return True
        same = entry.get("key") == taint["key"]
        if same and entry.get("operator") == "Exists":
            return True
        if same and (entry.get("value") or "") == (taint.get("value") or ""):
            return True
    return False


def affinity_allows(node: Node, affinity: Object) -> bool:
    required = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    terms = required.get("nodeSelectorTerms") or []
    return not terms or any(
        all(matches(node.labels, rule) for rule in term.get("matchExpressions") or [])
        for term in terms
    )


def matches(labels: Mapping[str, str], rule: Object) -> bool:
    value, values = labels.get(rule["key"]), rule.get("values") or []
    operators = {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }
    return operators.get(rule["operator"], True)


# -- All tasks ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """Whether everything fits; if not, how many tasks of which role, and what each node says."""

    fits: bool
    role: str = ""
    placed: int = 0
    wanted: int = 0
    reasons: tuple[str, ...] = ()


def place(plan: Plan, nodes: Iterable[Node]) -> Verdict:
    """Put the tasks onto the nodes, the most demanding roles first."""
    left = [node.copy() for node in nodes]
    order = sorted(plan.roles, key=lambda role: [-role.resources.gpus, -(role.resources.cpu or 0)])
    for role in order:
        for count in range(role.replicas):
            able = [node for node in left if refusal(node, role) is None]
            able = evenly(able, left, role)
            if not able:
                return Verdict(False, role.role, count, role.replicas, reasons(left, role))
            # Fill up before spreading out, so that large tasks still find an empty node.
            chosen = min(able, key=lambda node: [node.free.get("cpu", Decimal(0)), node.name])
            take(chosen.free, asks_for(role))
            chosen.placed[role.role] = chosen.placed.get(role.role, 0) + 1
    return Verdict(True)


def evenly(able: list[Node], nodes: list[Node], role: RolePlan) -> list[Node]:
    """Of the nodes that could take a task, those that spreading allows."""
    spread = container_of(role).spread
    if spread == "one-per-host":
        return [node for node in able if not node.placed.get(role.role)]
    if spread != "host":
        return able
    usable = [node for node in nodes if not permanent(node, role)]
    least = min((node.placed.get(role.role, 0) for node in usable), default=0)
    return [node for node in able if node.placed.get(role.role, 0) <= least]


def permanent(node: Node, role: RolePlan) -> bool:
    """Whether labels or taints keep the role from this node, however empty it is."""
    why = refusal(node, role)
    return why is not None and why.kind != "full"


def reasons(nodes: list[Node], role: RolePlan) -> tuple[str, ...]:
    spread = Refusal("full", "is kept free by spreading")
    said = [(node.name, refusal(node, role) or spread) for node in nodes]
    return tuple(f"{name} {why.words}" for name, why in said) or ("there is no ready node",)


def quota_problems(plan: Plan, quotas: Iterable[Object]) -> list[str]:
    """What the namespace's quotas do not allow."""
    wanted: Amounts = {"pods": Decimal(plan.size), "count/jobs.batch": Decimal(len(plan.roles))}
    storage = site_of(plan).storage
    if storage is not None:
        wanted["persistentvolumeclaims"] = Decimal(1)
        wanted["requests.storage"] = amount(storage.size)
    for role in plan.roles:
        asked = resources(role)
        for part in ("requests", "limits"):
            for name, value in amounts(asked.get(part)).items():
                key = f"{part}.{name}"
                wanted[key] = wanted.get(key, Decimal(0)) + value * role.replicas
                if part == "limits" and "/" in name:
                    wanted[f"requests.{name}"] = wanted[key]
    for name in ("cpu", "memory"):
        if f"requests.{name}" in wanted:
            wanted[name] = wanted[f"requests.{name}"]
    found = []
    for quota in quotas:
        hard, used = amounts(quota["status"].get("hard")), amounts(quota["status"].get("used"))
        for name, limit in hard.items():
            left = limit - used.get(name, Decimal(0))
            if wanted.get(name, Decimal(0)) > left:
                asked_for, free = text_of(name, wanted[name]), text_of(name, left)
                label = quota["metadata"]["name"]
                found.append(f"quota {label}: {name}: {asked_for} asked for, {free} left")
    return found


# -- What would fit ----------------------------------------------------------------------------


def suggestions(plan: Plan, nodes: list[Node], verdict: Verdict) -> list[str]:
    """The smallest changes, each by itself, that make everything fit, as --set options."""
    role = plan.role(verdict.role)
    found = []
    for key, values in (
        ("gpus", range(role.resources.gpus - 1, -1, -1)),
        ("replicas", range(role.replicas - 1, 0, -1)),
        ("cpu", [step / 2 for step in range(int((role.resources.cpu or 0) * 2) - 1, 0, -1)]),
    ):
        best = first_that_fits(plan, nodes, role, key, list(values))
        if best is not None:
            found.append(f"--set roles.{role.role}.{key}={best:g}")
    container = container_of(role)
    if container.spread:
        changed = replace(role, container=replace(container, spread=None).to_dict())
        if place(with_role(plan, changed), nodes).fits:
            found.append("--set kubernetes.spread=null")
    return found


def first_that_fits(
    plan: Plan, nodes: list[Node], role: RolePlan, key: str, values: list[float]
) -> float | None:
    """The first (largest) value with which everything fits; what fits once fits below as well."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        if place(with_role(plan, changed(role, key, values[middle])), nodes).fits:
            high = middle
        else:
            low = middle + 1
    return values[low] if low < len(values) else None


def changed(role: RolePlan, key: str, value: float) -> RolePlan:
    if key == "replicas":
        return replace(role, replicas=int(value))
    if key == "gpus":
        return replace(role, resources=replace(role.resources, gpus=int(value)))
    return replace(role, resources=replace(role.resources, cpu=value))


def with_role(plan: Plan, role: RolePlan) -> Plan:
    return replace(plan, roles=tuple(role if old.role == role.role else old for old in plan.roles))
