"""What a plan keeps for Docker: where the job runs, and what each role's containers are made of.

`Plan.site` and `RolePlan.container` are plain JSON, so that plans can be stored and compared; these
are the same with names and types. `site_of` and `docker_role` are the only ways in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tfcluster.plan import Plan, RolePlan

PIDS_LIMIT = 4096  # of plans that were stored before they named one


@dataclass(frozen=True)
class Host:
    """One engine of the job."""

    name: str  # empty for the only one
    engine: str  # a URL or a context's name
    address: str  # how the other hosts reach it

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "engine": self.engine, "address": self.address}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Host:
        return cls(data["name"], data["engine"], data["address"])


@dataclass(frozen=True)
class DockerSite:
    """Where a job runs."""

    hosts: tuple[Host, ...]
    network: str | None  # None for one of the job's own
    tensorboard: bool
    base: str  # the folder that the spec's relative paths start from

    def to_dict(self) -> dict[str, Any]:
        return {
            "hosts": [host.to_dict() for host in self.hosts],
            "network": self.network,
            "tensorboard": self.tensorboard,
            "base": self.base,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DockerSite:
        return cls(
            hosts=tuple(Host.from_dict(host) for host in data["hosts"]),
            network=data["network"],
            tensorboard=data["tensorboard"],
            base=data["base"],
        )


@dataclass(frozen=True)
class PlannedMount:
    """A mount of a role; the run's own output volume has no source until there is a run."""

    kind: str  # bind, folder (a bind that is created if missing), volume or output
    source: str | None
    target: str
    read_only: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "source": self.source,
            "target": self.target,
            "readOnly": self.read_only,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PlannedMount:
        return cls(data["kind"], data["source"], data["target"], data["readOnly"])


@dataclass(frozen=True)
class DockerRole:
    """What a role's containers are made of. Hosts, ports and GPUs have an entry for every task."""

    image: str
    bundled: bool  # whether it is the trainer's image, which comes with tfcluster
    pull: str  # always, missing or never
    mounts: tuple[PlannedMount, ...]
    shm: int | None
    runtime: str | None
    hosts: tuple[str, ...]
    ports: tuple[tuple[int, ...] | None, ...]  # published ones, if there are several hosts
    gpus: tuple[tuple[str, ...] | None, ...]
    capabilities: tuple[str, ...] = ()  # asked for, besides those that the image keeps
    pids_limit: int = PIDS_LIMIT
    base: str = ""  # the image below, if `image` has requirements on top of it

    def to_dict(self) -> dict[str, Any]:
        return {
            "image": self.image,
            **({"base": self.base} if self.base else {}),
            "bundled": self.bundled,
            "pull": self.pull,
            "mounts": [mount.to_dict() for mount in self.mounts],
            "shm": self.shm,
            "runtime": self.runtime,
            "hosts": list(self.hosts),
            "ports": [None if ports is None else list(ports) for ports in self.ports],
            "gpus": [None if gpus is None else list(gpus) for gpus in self.gpus],
            "capabilities": list(self.capabilities),
            "pidsLimit": self.pids_limit,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DockerRole:
        return cls(
            image=data["image"],
            bundled=data["bundled"],
            pull=data["pull"],
            mounts=tuple(PlannedMount.from_dict(mount) for mount in data["mounts"]),
            shm=data["shm"],
            runtime=data["runtime"],
            hosts=tuple(data["hosts"]),
            ports=tuple(None if ports is None else tuple(ports) for ports in data["ports"]),
            gpus=tuple(None if gpus is None else tuple(gpus) for gpus in data["gpus"]),
            capabilities=tuple(data.get("capabilities", ())),
            pids_limit=data.get("pidsLimit", PIDS_LIMIT),
            base=data.get("base", ""),
        )


def site_of(plan: Plan) -> DockerSite:
    return DockerSite.from_dict(plan.site)


def docker_role(role: RolePlan) -> DockerRole:
    return DockerRole.from_dict(role.container)
