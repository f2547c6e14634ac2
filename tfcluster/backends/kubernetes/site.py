"""What only this backend reads of a plan: where the job runs, and what the pods of a role are.

A plan keeps both as plain data. `site_of` and `container_of` are the border: what they return has
names and types, and nothing else in this backend looks into the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from tfcluster.plan import Plan, RolePlan

KEPT = 256  # parsed mappings


@dataclass(frozen=True)
class Ports:
    tensorflow: int
    control: int


@dataclass(frozen=True)
class Storage:
    """The job's own claim, and where every pod mounts it."""

    size: str
    access: str
    storage_class: str | None
    claim: str
    target: str


@dataclass(frozen=True)
class KubernetesSite:
    """Where and how a run is in its cluster."""

    run: str
    namespace: str | None
    context: str | None
    gang: str | None
    queue: str | None
    ports: Ports
    tensorboard: bool
    storage: Storage | None
    ttl: float | None

    def to_dict(self) -> dict[str, Any]:
        return dict(as_json(asdict(self)))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> KubernetesSite:
        storage = data["storage"]
        parsed = {
            "ports": Ports(**data["ports"]),
            "storage": Storage(**storage) if storage is not None else None,
        }
        return cls(**{**data, **parsed})


@dataclass(frozen=True)
class Mount:
    """A claim, secret or config map of the namespace in a folder of the pods."""

    kind: str  # claim, secret, config_map
    name: str
    target: str
    read_only: bool


@dataclass(frozen=True)
class KubernetesRole:
    """What the pods of a role are made of. Mappings are parts of a pod, as Kubernetes writes them.

    All of it is in the role's digest: a change replaces the role's tasks.
    """

    image: str
    pull: str
    pull_secrets: tuple[str, ...]
    env_from: tuple[Mapping[str, Any], ...]
    volumes: tuple[Mount, ...]
    shm: str | None
    memory: str | None
    gpu_resource: str
    claims: tuple[Mapping[str, str], ...]
    node_selector: Mapping[str, str]
    tolerations: tuple[Mapping[str, Any], ...]
    affinity: Mapping[str, Any]
    spread: str | None
    ps_near_workers: bool
    runtime_class: str | None
    priority_class: str | None
    service_account: str | None
    pod_template: Mapping[str, Any]
    queue: str | None = None  # of the site too; here because another queue means other pods

    def to_dict(self) -> dict[str, Any]:
        found = dict(as_json(asdict(self)))
        if self.queue is None:
            del found["queue"]
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> KubernetesRole:
        lists = ("pull_secrets", "env_from", "claims", "tolerations")
        parsed = {
            **{key: tuple(data[key]) for key in lists},
            "volumes": tuple(Mount(**volume) for volume in data["volumes"]),
        }
        return cls(**{**data, **parsed})


def as_json(value: Any) -> Any:
    """The same as it comes back from a file: lists for tuples."""
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value


def site_of(plan: Plan) -> KubernetesSite:
    return parse_site(Same(plan.site))


def container_of(role: RolePlan) -> KubernetesRole:
    return parse_role(Same(role.container))


class Same:
    """A mapping that equals only itself, so that what was parsed once is found again."""

    def __init__(self, data: Mapping[str, Any]):
        self.data = data

    def __hash__(self) -> int:
        return id(self.data)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.data is self.data


@lru_cache(KEPT)
def parse_site(same: Same) -> KubernetesSite:
    return KubernetesSite.from_dict(same.data)


@lru_cache(KEPT)
def parse_role(same: Same) -> KubernetesRole:
    return KubernetesRole.from_dict(same.data)
