"""Who is in the cluster, and which of them this process is.

TensorFlow's own convention is the environment variable TF_CONFIG:

    {"cluster": {"ps": ["host:2222"], "worker": ["host:2223", "host:2224"]},
     "task": {"type": "worker", "index": 1}}

The flags `--ps_hosts --worker_hosts --job_name --task_index` of older scripts say the same and win
over TF_CONFIG. With neither, the process trains alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer.errors import SettingsError

ROLES = ("chief", "worker", "ps", "evaluator")


@dataclass(frozen=True)
class ClusterInfo:
    """The addresses of every role, and this task's role and index."""

    jobs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    role: str = "worker"
    index: int = 0
    serving: tuple[str, ...] = ("ps",)  # the roles that only serve; the others train

    @property
    def alone(self) -> bool:
        """Whether this process is the whole cluster."""
        return not self.jobs

    @property
    def task(self) -> str:
        """The task's name, such as worker-1."""
        return f"{self.role}-{self.index}"

    @property
    def trainers(self) -> tuple[str, ...]:
        """The tasks that train, chief first; a task's place here is its replica number."""
        if self.alone:
            return ("worker-0",)
        roles = [role for role in ("chief", "worker") if role not in self.serving]
        return tuple(f"{r}-{i}" for r in roles for i in range(len(self.jobs.get(r, ()))))

    @property
    def replica(self) -> int:
        """This task's place among the trainers."""
        return self.trainers.index(self.task)

    @property
    def is_chief(self) -> bool:
        """The chief initialises, saves and evaluates: worker 0, unless there is a chief role."""
        return self.task == self.trainers[0]

    @property
    def ps(self) -> tuple[str, ...]:
        """The addresses of the parameter servers."""
        return self.jobs.get("ps", ())

    @property
    def served(self) -> dict[str, str]:
        """The tasks that only serve and their addresses, in a fixed order."""
        return {
            f"{role}-{i}": address
            for role in self.serving
            for i, address in enumerate(self.jobs.get(role, ()))
        }

    @property
    def tasks_on_this_machine(self) -> int:
        """How many tasks have the same host in their address as this one."""
        if self.alone:
            return 1
        host = host_of(self.jobs[self.role][self.index])
        return sum(host_of(a) == host for addresses in self.jobs.values() for a in addresses)


def host_of(address: str) -> str:
    """The host of host:port."""
    return address.rpartition(":")[0]


def cluster_from(
    ps_hosts: str | None = None,
    worker_hosts: str | None = None,
    job_name: str | None = None,
    task_index: int | None = None,
    tf_config: str | None = None,
) -> ClusterInfo:
    """The cluster as the flags say, else as TF_CONFIG says, else this process alone."""
    if any(value is not None for value in (ps_hosts, worker_hosts, job_name, task_index)):
        return _from_flags(ps_hosts, worker_hosts, job_name, task_index)
    return _from_tf_config(os.environ.get("TF_CONFIG", "") if tf_config is None else tf_config)


def _from_flags(
    ps_hosts: str | None, worker_hosts: str | None, job_name: str | None, task_index: int | None
) -> ClusterInfo:
    if job_name is None or worker_hosts is None or task_index is None:
        raise SettingsError(
            "--job_name, --task_index and --worker_hosts belong together; give all of them"
        )
    jobs: dict[str, Any] = {"worker": worker_hosts.split(",")}
    if ps_hosts:
        jobs["ps"] = ps_hosts.split(",")
    return _checked(jobs, job_name, task_index, "--job_name/--task_index")


def _from_tf_config(text: str) -> ClusterInfo:
    if not text.strip():
        return ClusterInfo()
    try:
        config = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"TF_CONFIG is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise SettingsError("TF_CONFIG must be a JSON object with the keys cluster and task")
    jobs = config.get("cluster") or {}
    if not jobs:
        return ClusterInfo()
    task = config.get("task")
    if not isinstance(jobs, dict) or not isinstance(task, dict) or "type" not in task:
        raise SettingsError(
            'TF_CONFIG needs "cluster" and "task", like '
            '{"cluster": {"ps": ["h:1"], "worker": ["h:2"]}, "task": {"type": "ps", "index": 0}}'
        )
    return _checked(jobs, task["type"], task.get("index", 0), "TF_CONFIG task")


def _checked(jobs: Mapping[str, Any], role: Any, index: Any, source: str) -> ClusterInfo:
    addresses: dict[str, tuple[str, ...]] = {}
    for name, hosts in jobs.items():
        if name not in ROLES:
            raise SettingsError(f"unknown role {name!r}; the trainer knows {', '.join(ROLES)}")
        if not isinstance(hosts, list) or not hosts:
            raise SettingsError(f"the addresses of {name} must be a list that is not empty")
        addresses[name] = tuple(_address(name, host) for host in hosts)
    everyone = [a for hosts in addresses.values() for a in hosts]
    twice = sorted({a for a in everyone if everyone.count(a) > 1})
    if twice:
        raise SettingsError(f"two tasks have the same address {twice[0]}")
    if isinstance(index, str) and index.isdecimal():
        index = int(index)
    if not isinstance(index, int) or isinstance(index, bool) or index < 0:
        raise SettingsError(f"{source}: the index must be 0 or more, not {index!r}")
    if role not in addresses:
        raise SettingsError(f"{source}: role {role!r} is not in the cluster ({', '.join(jobs)})")
    if index >= len(addresses[role]):
        count = len(addresses[role])
        raise SettingsError(f"{source}: {role}-{index} does not exist, the cluster has {count}")
    if len(addresses.get("chief", ())) > 1:
        raise SettingsError("a cluster has at most one chief")
    if not (addresses.get("worker") or addresses.get("chief")):
        raise SettingsError("the cluster has no worker")
    return ClusterInfo(addresses, role, index)


def _address(role: str, address: Any) -> str:
    host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise SettingsError(f"{role} address {address!r} is not host:port")
    return str(address).strip()


def cores() -> int:
    """The cores this process may use, counting affinity and a container's CPU limit."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
        count = min(count, max(1, int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup v2 here, or the quota is "max"
        pass
    return count


def threads_for(cluster: ClusterInfo, wanted: int | None) -> int:
    """TensorFlow threads for this task: more threads than cores only make tasks wait."""
    return wanted or max(1, cores() // cluster.tasks_on_this_machine)
