"""Shared by the tests of Kubernetes manifests: specs in, parsed documents out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from tests.launchers import KEY
from tfcluster.backends.kubernetes import kueue
from tfcluster.backends.kubernetes.plan import plan
from tfcluster.backends.kubernetes.yaml_text import flow
from tfcluster.plan import Plan
from tfcluster.render import render_plan
from tfcluster.spec.loader import load_spec_text

GOLDEN = Path(__file__).parent.parent / "golden" / "manifests"
SMALL: dict[str, Any] = {
    "name": "small",
    "image": "python:3.11-slim",
    "command": ["python", "train.py"],
    "roles": {"ps": {}, "worker": {"replicas": 2}},
}
QUEUED: dict[str, Any] = {**SMALL, "kubernetes": {"queue": "lab"}}
WORKLOADS = "/apis/kueue.x-k8s.io/v1beta1/namespaces/default/workloads"
SHORT = "insufficient unused quota for cpu in flavor f, 100m more needed"


def plan_of(spec: dict[str, Any] | str) -> Plan:
    text = spec if isinstance(spec, str) else flow(spec)
    return plan(load_spec_text(text, backend="kubernetes").spec, None, Path("."))


def rendered(spec: dict[str, Any] | str, target: str = "kubernetes") -> str:
    return rendered_plan(plan_of(spec), target)


def rendered_plan(plan: Plan, target: str = "kubernetes") -> str:
    """With the same key whoever renders."""
    with mock.patch("tfcluster.render.user_key", return_value=KEY):
        return render_plan(plan, target)


def documents(text: str) -> list[dict[str, Any]]:
    """As kubectl reads them: YAML 1.1."""
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def found(docs: list[dict[str, Any]], kind: str, name: str = "") -> dict[str, Any]:
    """The one document of this kind (whose name starts so)."""
    (only,) = [
        doc for doc in docs if doc["kind"] == kind and doc["metadata"]["name"].startswith(name)
    ]
    return only


def pod_of(docs: list[dict[str, Any]], role: str, job: str = "small") -> dict[str, Any]:
    return found(docs, "Job", f"{job}-{role}")["spec"]["template"]


def task_of(docs: list[dict[str, Any]], role: str, job: str = "small") -> dict[str, Any]:
    containers = pod_of(docs, role, job)["spec"]["containers"]
    return next(container for container in containers if container["name"] == "task")


def launch_of(docs: list[dict[str, Any]], role: str, job: str = "small") -> dict[str, Any]:
    return json.loads(found(docs, "ConfigMap", f"{job}-{role}-")["data"]["launch.json"])


def gated(task: str = "worker-1", **labels: str) -> dict[str, Any]:
    """A pod that waits for Kueue."""
    role, _, index = task.rpartition("-")
    labels = {"tfcluster.io/role": role, kueue.MANAGED: "true", **labels}
    return {
        "metadata": {
            "name": f"small-{task}-x",
            "uid": task,
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "labels": labels,
            "annotations": {"batch.kubernetes.io/job-completion-index": index},
        },
        "spec": {"schedulingGates": [{"name": kueue.GATE}]},
        "status": {"phase": "Pending"},
    }


def says(kind: str, status: str, message: str) -> dict[str, Any]:
    """The status of a workload."""
    return {"conditions": [{"type": kind, "status": status, "message": message}]}
