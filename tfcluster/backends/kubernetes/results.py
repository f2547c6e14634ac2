"""Where a run in a cluster keeps its results: on a claim, or only in its pods."""

from __future__ import annotations

import json
import shlex
from typing import Any

from tfcluster.backends.kubernetes.site import KubernetesRole, container_of, site_of
from tfcluster.plan import Plan
from tfcluster.results import CLAIM, TASK, Results, is_below

READER_USER = 1000  # as the job's own pods


def results_of(plan: Plan, context: str, namespace: str) -> tuple[Results, ...]:
    """Where logdir and checkpoints are."""
    folders = (("logdir", plan.logdir), ("checkpoints", plan.checkpoints))
    return tuple(
        result_at(plan, holds, path, context, namespace) for holds, path in folders if path
    )


def result_at(plan: Plan, holds: str, path: str, context: str, namespace: str) -> Results:
    found = [(target, claim) for target, claim in claims(plan) if is_below(path, target)]
    if not found:
        return Results(holds, TASK, path, host=context, namespace=namespace)
    target, claim = max(found, key=lambda pair: len(pair[0]))
    command = copy_command(plan, claim, target, path, context, namespace)
    return Results(holds, CLAIM, path, claim, context, namespace, command)


def claims(plan: Plan) -> list[tuple[str, str]]:
    """Where the pods that write see claims: folder and claim."""
    storage = site_of(plan).storage
    own = [(storage.target, storage.claim)] if storage else []
    volumes = container_of(plan.role(plan.writer.rpartition("-")[0])).volumes
    return own + [(volume.target, volume.name) for volume in volumes if volume.kind == "claim"]


def copy_command(
    plan: Plan, claim: str, target: str, path: str, context: str, namespace: str
) -> str:
    """Copies a folder of a claim, through a pod that only waits for that and then goes."""
    role = container_of(plan.role(plan.writer.rpartition("-")[0]))
    name, folder = f"{plan.job}-copy", f"{plan.job}-{site_of(plan).run}"
    pod = json.dumps(reader(role, name, claim, target), separators=(",", ":"))
    parts = [("--context", context), ("--namespace", namespace)]
    words = [word for option, value in parts if value for word in (option, value)]
    kubectl = shlex.join(["kubectl", *words])
    run = ["run", name, "--restart=Never", f"--image={role.image}", f"--overrides={pod}"]
    return (
        f"{kubectl} {shlex.join(run)}"
        f" && {kubectl} wait --for=condition=Ready pod/{name}"
        f" && {kubectl} cp {shlex.quote(f'{name}:{path}')} {shlex.quote(folder)}"
        f"; {kubectl} delete pod {name} --now"
    )


def reader(role: KubernetesRole, name: str, claim: str, target: str) -> dict[str, Any]:
    """A pod that any namespace admits, with the claim and nothing to do."""
    container = {
        "name": name,
        "image": role.image,
        "imagePullPolicy": role.pull,
        "command": ["sleep", "3600"],
        "volumeMounts": [{"name": "results", "mountPath": target}],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    user = {"runAsNonRoot": True, "runAsUser": READER_USER, "runAsGroup": READER_USER}
    return {
        "spec": {
            "automountServiceAccountToken": False,
            "securityContext": {**user, "seccompProfile": {"type": "RuntimeDefault"}},
            **(
                {"imagePullSecrets": [{"name": secret} for secret in role.pull_secrets]}
                if role.pull_secrets
                else {}
            ),
            "volumes": [{"name": "results", "persistentVolumeClaim": {"claimName": claim}}],
            "containers": [container],
        }
    }
