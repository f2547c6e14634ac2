"""The least rights that tfcluster needs in a cluster, as manifests."""

from __future__ import annotations

from typing import Any

from tfcluster.backends.kubernetes.gang import GANGS
from tfcluster.backends.kubernetes.render import template


def render_rbac(
    *,
    namespace: str | None = None,
    name: str = "tfcluster",
    service_account: str | None = None,
    user: str | None = None,
    gang: str | None = None,
    queue: bool = False,
    nodes: bool = False,
) -> str:
    """A Role, and with somebody to give it to a binding; `queue` and `nodes` add rights."""
    place = {"namespace": namespace} if namespace else {}
    subjects: list[dict[str, Any]] = []
    if service_account:
        own = {"kind": "ServiceAccount", "name": service_account}
        subjects.append({**own, "namespace": namespace or "default"})
    if user:
        subjects.append({"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user})
    labels = {"app.kubernetes.io/managed-by": "tfcluster"}

    def head(given: str) -> dict[str, Any]:
        return {"name": given, **({} if given.endswith("-fit") else place), "labels": labels}

    return template("kubernetes/rbac.yaml.j2").render(
        head=head,
        name=name,
        service_account=service_account,
        subjects=subjects,
        groups=[GANGS[gang].group] if gang else [],
        queue=queue,
        nodes=nodes,
    )
