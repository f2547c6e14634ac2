"""What the pods of a role are made of, as the templates need it."""

from __future__ import annotations

import math
from pathlib import PurePosixPath
from typing import Any

from tfcluster.plan import Plan, RolePlan

SCHEDULERS = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}
TOPOLOGY = {"host": "kubernetes.io/hostname", "zone": "topology.kubernetes.io/zone"}
GRACE_SLACK = 5.0  # for the launcher, after its program has had the job's own stop_grace


def pod_view(plan: Plan, role: RolePlan, config: str) -> dict[str, Any]:
    """The values of pod.yaml.j2, without its labels."""
    mounts, volumes = volumes_of(plan, role, config)
    container = role.container
    return {
        "container": "task",
        "subdomain": True,
        "host": f"{plan.job}-{role.role}-0.{plan.job}",
        "annotations": group_annotations(plan),
        "grace": math.ceil(plan.stop_grace + GRACE_SLACK),
        "settings": settings(plan, role),
        "image": container["image"],
        "pull": container["pull"],
        "counts": True,
        "index_from": None,
        "port_name": "tensorflow",
        "env_from": container["env_from"],
        "resources": resources(role),
        "mounts": mounts,
        "volumes": volumes,
    }


def group_annotations(plan: Plan) -> dict[str, str]:
    return {"scheduling.k8s.io/group-name": plan.job} if plan.site["gang"] == "volcano" else {}


def settings(plan: Plan, role: RolePlan) -> dict[str, Any]:
    """The optional fields of a pod's spec."""
    container = role.container
    wanted: dict[str, Any] = {
        "schedulerName": SCHEDULERS.get(plan.site["gang"] or ""),
        "serviceAccountName": container["service_account"],
        "priorityClassName": container["priority_class"],
        "runtimeClassName": container["runtime_class"],
        "imagePullSecrets": [{"name": name} for name in container["pull_secrets"]],
        "nodeSelector": container["node_selector"],
        "tolerations": container["tolerations"],
        "affinity": container["affinity"],
        "topologySpreadConstraints": spread(plan, role),
        "resourceClaims": [resource_claim(claim) for claim in container["claims"]],
    }
    return {key: value for key, value in wanted.items() if value}


def spread(plan: Plan, role: RolePlan) -> list[dict[str, Any]]:
    """As even as can be over the nodes that the pods may use at all."""
    if role.container["spread"] is None:
        return []
    chosen = {"tfcluster.io/role": role.role, "tfcluster.io/run": plan.site["run"]}
    return [
        {
            "maxSkew": 1,
            "topologyKey": TOPOLOGY[role.container["spread"]],
            "whenUnsatisfiable": "DoNotSchedule",
            "nodeTaintsPolicy": "Honor",
            "labelSelector": {"matchLabels": chosen},
        }
    ]


def resource_claim(claim: dict[str, str]) -> dict[str, str]:
    kinds = {"claim": "resourceClaimName", "template": "resourceClaimTemplateName"}
    return {
        "name": claim["name"],
        **{field: claim[key] for key, field in kinds.items() if claim.get(key)},
    }


def resources(role: RolePlan) -> dict[str, Any]:
    """Requests and limits are the same: what a task may use is what is set aside for it."""
    amounts: dict[str, Any] = {}
    if role.resources.cpu is not None:
        amounts["cpu"] = quantity(role.resources.cpu)
    if role.container["memory"] is not None:
        amounts["memory"] = role.container["memory"]
    devices = {}
    if role.resources.gpus:
        devices[role.container["gpu_resource"]] = role.resources.gpus
    claims = [{"name": claim["name"]} for claim in role.container["claims"]]
    found = {"requests": amounts, "limits": {**amounts, **devices}, "claims": claims}
    return {key: value for key, value in found.items() if value}


def quantity(cores: float) -> str:
    """Cores as Kubernetes writes them, never rounded to nothing."""
    return str(int(cores)) if cores == int(cores) else f"{max(1, round(cores * 1000))}m"


# -- Volumes -----------------------------------------------------------------------------------


def volumes_of(
    plan: Plan, role: RolePlan, config: str | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Mounts and volumes: our own, then the person's, then a place for what is written."""
    mounts: list[dict[str, Any]] = []
    volumes: list[dict[str, Any]] = []

    def add(name: str, path: str, volume: dict[str, Any], read_only: bool = False) -> None:
        mounts.append(
            {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
        )
        volumes.append({"name": name, **volume})

    if config is not None:
        sources = [{"configMap": {"name": name}} for name in (f"{plan.job}-launcher", config)]
        add("tfcluster", "/tfcluster", {"projected": {"sources": sources}}, read_only=True)
    add("tmp", "/tmp", {"emptyDir": {}})
    if role.container["shm"] and config is not None:
        memory = {"medium": "Memory", "sizeLimit": role.container["shm"]}
        add("shm", "/dev/shm", {"emptyDir": memory})
    for number, volume in enumerate(role.container["volumes"]):
        add(f"volume-{number}", volume["target"], volume_source(volume), volume["read_only"])
    for name, path in unmounted(plan, role):
        add(name, path, {"emptyDir": {}})
    return mounts, volumes


def volume_source(volume: dict[str, Any]) -> dict[str, Any]:
    if volume["kind"] == "claim":
        read_only = {"readOnly": True} if volume["read_only"] else {}
        return {"persistentVolumeClaim": {"claimName": volume["name"], **read_only}}
    if volume["kind"] == "secret":
        return {"secret": {"secretName": volume["name"]}}
    return {"configMap": {"name": volume["name"]}}


def unmounted(plan: Plan, role: RolePlan) -> list[tuple[str, str]]:
    """The folders that tasks write to and that lie on no volume; the root cannot be written."""
    covered = [PurePosixPath("/tmp")]
    covered += [PurePosixPath(volume["target"]) for volume in role.container["volumes"]]
    found = []
    for name, path in (("output", plan.logdir), ("checkpoints", plan.checkpoints)):
        if path and not any(PurePosixPath(path).is_relative_to(root) for root in covered):
            found.append((name, path))
            covered.append(PurePosixPath(path))
    return found
