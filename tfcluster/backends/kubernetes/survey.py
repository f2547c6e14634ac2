"""A look at a cluster before anything is deployed: does the job fit?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfcluster.backends.kubernetes.api import ApiError, Cluster
from tfcluster.backends.kubernetes.connect import connect
from tfcluster.backends.kubernetes.fit import (
    Verdict,
    nodes_from,
    place,
    quota_problems,
    suggestions,
)
from tfcluster.backends.kubernetes.plan import plan
from tfcluster.errors import MissingError

if TYPE_CHECKING:
    from tfcluster.spec.model import JobSpec


def survey(spec: JobSpec, base: Path) -> dict[str, Any]:
    """The answer of `tfcluster fit`, as plain data."""
    cluster = connect(spec.kubernetes.context, spec.kubernetes.namespace)
    wanted = plan(spec, None, base)
    nodes = nodes_from(everything(cluster, "nodes"), everything(cluster, "pods"))
    verdict = place(wanted, nodes)
    quota = quota_problems(wanted, quotas(cluster))
    changes = [] if verdict.fits else suggestions(wanted, nodes, verdict)
    return {
        "job": spec.name,
        "target": f"context {cluster.context}, namespace {cluster.namespace}",
        "tasks": wanted.size,
        "nodes": len(nodes),
        **asdict(verdict if not verdict.fits else Verdict(True)),
        "fits": verdict.fits and not quota,
        "quota": quota,
        "suggestions": changes,
    }


def everything(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    """All nodes, or all pods of the cluster: what is free is not to be seen in one namespace."""
    try:
        return cluster.listed(f"/api/v1/{kind}")[0]
    except ApiError as error:
        if error.status != 403:
            raise
        raise MissingError(
            f"fit has to look at the {kind} of the whole cluster, and may not",
            evidence=list(error.evidence),
            hint="ask for: tfcluster rbac --nodes",
        ) from None


def quotas(cluster: Cluster) -> list[dict[str, Any]]:
    path = f"/api/v1/namespaces/{cluster.namespace}/resourcequotas"
    try:
        return cluster.listed(path)[0]
    except ApiError as error:
        if error.status == 403:
            return []
        raise
