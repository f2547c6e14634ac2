"""What the pods of a role are made of, as the templates need it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from tfcluster.backends.kubernetes.gang import gang_of, named
from tfcluster.backends.kubernetes.site import Mount, container_of, site_of
from tfcluster.launch.proof import KEY_FILE
from tfcluster.plan import Plan, RolePlan

TOPOLOGY = {"host": "kubernetes.io/hostname", "zone": "topology.kubernetes.io/zone"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
GRACE_SLACK = 5.0  # for the launcher, after its program has had the job's own stop_grace


def pod_view(plan: Plan, role: RolePlan, config: str) -> dict[str, Any]:
    """The values of pod.yaml.j2, without its labels."""
    mounts, volumes = volumes_of(plan, role, config)
    container = container_of(role)
    return {
        "container": "task",
        "subdomain": True,
        "host": f"{plan.job}-{role.role}-0.{plan.job}",
        "annotations": group_annotations(plan),
        "grace": math.ceil(plan.stop_grace + GRACE_SLACK),
        "settings": settings(plan, role),
        "image": container.image,
        "pull": container.pull,
        "counts": True,
        "report": True,
        "index_from": None,
        "port_name": "tensorflow",
        "env_from": list(container.env_from),
        "resources": resources(role),
        "mounts": mounts,
        "volumes": volumes,
    }


def group_annotations(plan: Plan) -> dict[str, str]:
    gang = gang_of(site_of(plan).gang)
    return named(gang.annotations, plan.job) if gang else {}


def group_settings(plan: Plan) -> dict[str, Any]:
    """How the pod's spec says that it belongs to the job's group."""
    gang = gang_of(site_of(plan).gang)
    if gang is None:
        return {}
    field, name = gang.pod_field or ("", "")
    return {"schedulerName": gang.scheduler, **({field: {name: plan.job}} if field else {})}


def settings(plan: Plan, role: RolePlan) -> dict[str, Any]:
    """The optional fields of a pod's spec."""
    container = container_of(role)
    wanted: dict[str, Any] = {
        **group_settings(plan),
        "serviceAccountName": container.service_account,
        "priorityClassName": container.priority_class,
        "runtimeClassName": container.runtime_class,
        "imagePullSecrets": [{"name": name} for name in container.pull_secrets],
        "nodeSelector": dict(container.node_selector),
        "tolerations": list(container.tolerations),
        "affinity": affinity(plan, role),
        "topologySpreadConstraints": spread(plan, role),
        "resourceClaims": [resource_claim(claim) for claim in container.claims],
    }
    return {key: value for key, value in wanted.items() if value}


def spread(plan: Plan, role: RolePlan) -> list[dict[str, Any]]:
    """As even as can be over the nodes that the pods may use at all."""
    topology = TOPOLOGY.get(container_of(role).spread or "")
    if topology is None:
        return []
    chosen = {"tfcluster.io/role": role.role, "tfcluster.io/run": site_of(plan).run}
    return [
        {
            "maxSkew": 1,
            "topologyKey": topology,
            "whenUnsatisfiable": "DoNotSchedule",
            "nodeTaintsPolicy": "Honor",
            "labelSelector": {"matchLabels": chosen},
        }
    ]


def affinity(plan: Plan, role: RolePlan) -> dict[str, Any]:
    """The person's own, and after it what `spread` and `ps_near_workers` ask for."""

    def on_one_host(of: str) -> dict[str, Any]:
        chosen = {"tfcluster.io/role": of, "tfcluster.io/run": site_of(plan).run}
        return {"topologyKey": TOPOLOGY["host"], "labelSelector": {"matchLabels": chosen}}

    container = container_of(role)
    found = {key: dict(value) for key, value in container.affinity.items()}
    wanted = []
    if container.spread == "one-per-host":
        wanted.append(("podAntiAffinity", REQUIRED, on_one_host(role.role)))
    if role.role == "ps" and container.ps_near_workers:
        near = {"weight": 100, "podAffinityTerm": on_one_host("worker")}
        wanted.append(("podAffinity", PREFERRED, near))
    for part, rule, term in wanted:
        section = found.setdefault(part, {})
        section[rule] = [*section.get(rule, ()), term]
    return found


def resource_claim(claim: Mapping[str, str]) -> dict[str, str]:
    kinds = {"claim": "resourceClaimName", "template": "resourceClaimTemplateName"}
    return {
        "name": claim["name"],
        **{field: claim[key] for key, field in kinds.items() if claim.get(key)},
    }


def resources(role: RolePlan) -> dict[str, Any]:
    """Requests and limits are the same: what a task may use is what is set aside for it."""
    container = container_of(role)
    amounts: dict[str, Any] = {}
    if role.resources.cpu is not None:
        amounts["cpu"] = quantity(role.resources.cpu)
    if container.memory is not None:
        amounts["memory"] = container.memory
    devices = {}
    if role.resources.gpus:
        devices[container.gpu_resource] = role.resources.gpus
    claims = [{"name": claim["name"]} for claim in container.claims]
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
    storage, container = site_of(plan).storage, container_of(role)

    def add(name: str, path: str, volume: dict[str, Any], read_only: bool = False) -> None:
        mounts.append(
            {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
        )
        volumes.append({"name": name, **volume})

    if config is not None:
        sources: list[dict[str, Any]] = [
            {"configMap": {"name": name}}
            for name in (f"{plan.job}-launcher", config, *code_maps(plan))
        ]
        item = {"key": KEY_FILE, "path": KEY_FILE, "mode": 0o440}
        sources.append({"secret": {"name": f"{plan.job}-control", "items": [item]}})
        add("tfcluster", "/tfcluster", {"projected": {"sources": sources}}, read_only=True)
    add("tmp", "/tmp", {"emptyDir": {}})
    if container.shm and config is not None:
        memory = {"medium": "Memory", "sizeLimit": container.shm}
        add("shm", "/dev/shm", {"emptyDir": memory})
    if storage is not None:
        claim = {"claimName": storage.claim}
        add("storage", storage.target, {"persistentVolumeClaim": claim})
    for number, volume in enumerate(container.volumes):
        add(f"volume-{number}", volume.target, volume_source(volume), volume.read_only)
    for name, path in unmounted(plan, role):
        add(name, path, {"emptyDir": {}})
    return mounts, volumes


def code_maps(plan: Plan) -> list[str]:
    """The names of the ConfigMaps with the parts of the code: they say what is in them."""
    if plan.code is None:
        return []
    digest, count = plan.code.digest[:12], len(plan.code.parts)
    return [f"{plan.job}-code-{digest}-{number}" for number in range(count)]


def volume_source(volume: Mount) -> dict[str, Any]:
    if volume.kind == "claim":
        read_only = {"readOnly": True} if volume.read_only else {}
        return {"persistentVolumeClaim": {"claimName": volume.name, **read_only}}
    if volume.kind == "secret":
        return {"secret": {"secretName": volume.name}}
    return {"configMap": {"name": volume.name}}


def unmounted(plan: Plan, role: RolePlan) -> list[tuple[str, str]]:
    """The folders that tasks write to and that lie on no volume; the root cannot be written."""
    covered = [PurePosixPath("/tmp")]
    storage = site_of(plan).storage
    if storage is not None:
        covered.append(PurePosixPath(storage.target))
    covered += [PurePosixPath(volume.target) for volume in container_of(role).volumes]
    found = []
    for name, path in (("output", plan.logdir), ("checkpoints", plan.checkpoints)):
        if path and not any(PurePosixPath(path).is_relative_to(root) for root in covered):
            found.append((name, path))
            covered.append(PurePosixPath(path))
    return found
