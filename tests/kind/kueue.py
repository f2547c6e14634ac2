"""The real Kueue of the cluster: its pod integration, and queues that a test may change."""

from __future__ import annotations

import json
import os
from typing import Any

from tests.kind.cluster import kubectl, listed
from tests.launchers import until

SYSTEM = ("-n", "kueue-system")
CONTROLLER = "deployment/kueue-controller-manager"
CONFIG = "controller_manager_config.yaml"
VISIBILITY = "apiservice/v1beta1.visibility.kueue.x-k8s.io"
NAMESPACE = f"tfcluster-queue-{os.getpid()}"
API = "kueue.x-k8s.io/v1beta1"


def is_installed() -> bool:
    return kubectl(*SYSTEM, "get", CONTROLLER, "-o", "name", check=False) != ""


def manage_pods(wanted: bool = True) -> None:
    """Switch Kueue's pod integration on or off, and wait until Kueue works like that."""
    config = json.loads(kubectl(*SYSTEM, "get", "configmap", "kueue-manager-config", "-o", "json"))
    off, on = '#  - "pod"\n', '  - "pod"\n'
    text = config["data"][CONFIG]
    changed = text.replace(off, on) if wanted else text.replace(f"\n{on}", f"\n{off}")
    if changed != text:
        patch = json.dumps({"data": {CONFIG: changed}})
        kubectl(*SYSTEM, "patch", "configmap", "kueue-manager-config", "-p", patch)
        start_again()


def start_again() -> None:
    """Start Kueue again and wait until it answers.

    Without it no pod in the cluster can be made or changed: its webhooks are asked about each.
    After a restart of the API server it would come back only after ever longer pauses.
    """
    kubectl(*SYSTEM, "rollout", "restart", CONTROLLER)
    kubectl(*SYSTEM, "rollout", "status", CONTROLLER, "--timeout=100s")
    # Pods that are going away would still answer for a moment.
    manager = ("control-plane=controller-manager", SYSTEM[1])
    until(lambda: len(listed("pods", *manager)) == 1, "one Kueue to be left", timeout=60)
    # While an API is away, the cluster deletes namespaces only in part.
    kubectl("wait", "--for=condition=Available", VISIBILITY, "--timeout=100s")


def make_queue(cpu: str) -> None:
    """A cluster queue with so much CPU, and a local queue `lab` of it in the tests' namespace."""
    spec = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": NAMESPACE}},
        "stopPolicy": "None",
        "resourceGroups": [
            {
                "coveredResources": ["cpu"],
                "flavors": [
                    {"name": NAMESPACE, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
                ],
            }
        ],
    }
    apply("ResourceFlavor", NAMESPACE)
    apply("ClusterQueue", NAMESPACE, spec)
    apply("LocalQueue", "lab", {"clusterQueue": NAMESPACE}, namespace=NAMESPACE)


def apply(kind: str, name: str, spec: dict[str, Any] | None = None, **meta: str) -> None:
    doc = {"apiVersion": API, "kind": kind, "metadata": {"name": name, **meta}}
    kubectl("apply", "-f", "-", stdin=json.dumps({**doc, **({"spec": spec} if spec else {})}))


def remove_queues() -> None:
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--timeout=90s")
    for kind in ("clusterqueue", "resourceflavor"):
        kubectl("delete", kind, NAMESPACE, "--ignore-not-found", "--timeout=60s")


def stop_queue(policy: str) -> None:
    """None, Hold (admits no more) or HoldAndDrain (evicts as well)."""
    patch = json.dumps({"spec": {"stopPolicy": policy}})
    kubectl("patch", "clusterqueue", NAMESPACE, "--type=merge", "-p", patch)


def workloads() -> list[dict[str, Any]]:
    return listed("workloads.kueue.x-k8s.io", namespace=NAMESPACE)


def used() -> str:
    """The CPU that the queue has given away."""
    queue = json.loads(kubectl("get", "clusterqueue", NAMESPACE, "-o", "json"))
    (flavor,) = queue["status"]["flavorsUsage"]
    return str(flavor["resources"][0]["total"])
