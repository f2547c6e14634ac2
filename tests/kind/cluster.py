"""The real cluster that these tests use, and a namespace of their own in it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tfcluster.backends.kubernetes.rbac import render_rbac

CONTEXT = os.environ.get("TFCLUSTER_KIND_CONTEXT", "kind-tfc")
# Of this process alone: a namespace that an earlier run left may be on its way out for long.
NAMESPACE = os.environ.get("TFCLUSTER_KIND_NAMESPACE", f"tfcluster-tests-{os.getpid()}")
IMAGE = "python:3.11-slim"


def kubectl(*args: str, stdin: str | None = None, check: bool = True) -> str:
    """As the cluster's administrator."""
    environ = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    done = subprocess.run(
        ["kubectl", "--context", CONTEXT, *args],
        input=stdin,
        capture_output=True,
        text=True,
        env=environ,
        timeout=120,
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def listed(kind: str, selector: str = "", namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    args = ["get", kind, "-n", namespace, "-o", "json"]
    return json.loads(kubectl(*args, *(["-l", selector] if selector else [])))["items"]


def phases(job: str, namespace: str = NAMESPACE) -> dict[str, str]:
    """Pod name to phase."""
    pods = listed("pods", f"tfcluster.io/job={job}", namespace)
    return {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods}


def make_namespace(name: str, **labels: str) -> None:
    meta = {"name": name, "labels": {"app.kubernetes.io/part-of": "tfcluster-tests", **labels}}
    doc = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta}
    kubectl("apply", "-f", "-", stdin=json.dumps(doc))


def restricted(name: str) -> None:
    """A namespace that admits only restricted pods, and somebody with the documented Role."""
    make_namespace(name, **{"pod-security.kubernetes.io/enforce": "restricted"})
    text = render_rbac(namespace=name, service_account="tester")
    kubectl("apply", "-f", "-", stdin=text)


def kubeconfig_of_tester(folder: Path, namespace: str = NAMESPACE) -> Path:
    """A kubeconfig that can do what the Role allows, and nothing else."""
    config = json.loads(kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    token = kubectl("create", "token", "tester", "-n", namespace, "--duration=4h").strip()
    config["users"] = [{"name": "tester", "user": {"token": token}}]
    context = config["contexts"][0]["context"]
    context.update(user="tester", namespace=namespace)
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path
