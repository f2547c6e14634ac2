"""Which cluster: a context of the kubeconfig, or the one that we run in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tfcluster.backends.kubernetes.api import Cluster
from tfcluster.errors import MissingError

TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


def connect(context: str | None = None, namespace: str | None = None) -> Cluster:
    """The cluster of a kubeconfig context (the current one if None), or the one we run in."""
    import urllib3
    from kubernetes import client

    config: Any = client_config()

    configuration = client.Configuration()
    urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
    try:
        contexts, current = config.list_kube_config_contexts()
    except config.ConfigException as error:
        if context is None and TOKEN.is_file():
            config.load_incluster_config(configuration)
            own = TOKEN.with_name("namespace").read_text().strip()
            return made(configuration, "in-cluster", namespace or own)
        raise no_kubeconfig(error) from None
    known = {entry["name"]: entry for entry in contexts}
    name: str = context or (current or {}).get("name") or ""
    if name not in known:
        raise MissingError(
            f'kubeconfig has no context "{name}"' if name else "kubeconfig has no current context",
            hint=f"contexts: {', '.join(sorted(known)) or 'none'}",
        )
    try:
        config.load_kube_config(
            context=name, client_configuration=configuration, persist_config=False
        )
    except (config.ConfigException, OSError, ValueError) as error:
        raise MissingError(f'context "{name}" cannot be used: {error}') from None
    own = known[name]["context"].get("namespace") or "default"
    return made(configuration, name, namespace or own)


def made(configuration: Any, context: str, namespace: str) -> Cluster:
    from kubernetes import client

    # A log stream per task has to fit.
    configuration.connection_pool_maxsize = 128
    pool = client.ApiClient(configuration).rest_client.pool_manager
    return Cluster(configuration, pool, context, namespace)


def client_config() -> Any:
    from kubernetes import config

    return config


def no_kubeconfig(error: Exception) -> MissingError:
    where = os.environ.get("KUBECONFIG") or "~/.kube/config"
    return MissingError(
        "there is no Kubernetes cluster to talk to",
        evidence=[f"  {where}: {error}"],
        hint="for a cluster on this machine: kind create cluster",
    )
