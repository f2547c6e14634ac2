"""Which task runs on which host, with which ports and GPUs there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfcluster.errors import UsageError

if TYPE_CHECKING:
    from tfcluster.spec.model import JobSpec


@dataclass
class Placement:
    """Per task. Addresses and ports are only there if tasks run on several hosts."""

    hosts: dict[str, str] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    ports: dict[str, tuple[int, ...]] = field(default_factory=dict)
    gpus: dict[str, tuple[str, ...]] = field(default_factory=dict)


def place_tasks(spec: JobSpec) -> Placement:
    """By name, then by role, then in turn over the hosts that name no tasks."""
    tasks = [f"{name}-{index}" for name, r in spec.roles.items() for index in range(r.replicas)]
    placement = Placement()
    hosts = spec.docker.hosts
    if hosts:
        placement.hosts = spread(spec, tasks)
    else:
        placement.hosts = dict.fromkeys(tasks, "")
    if len(hosts) > 1:
        known = {host.name: host.address for host in hosts}
        placement.addresses = {task: known[placement.hosts[task]] for task in tasks}
        placement.ports = choose_ports(spec, placement.hosts)
    placement.gpus = divide_gpus(spec, placement.hosts)
    return placement


def spread(spec: JobSpec, tasks: list[str]) -> dict[str, str]:
    """task -> host."""
    hosts = spec.docker.hosts
    named: dict[str, str] = {}
    for host in hosts:
        for task in host.tasks or ():
            if task in tasks and named.setdefault(task, host.name) != host.name:
                raise UsageError(
                    f'docker.hosts: {task} is given to "{named[task]}" and to "{host.name}"',
                    hint="a task runs on one host",
                )
    turns = {
        role: itertools.cycle([host.name for host in hosts if role in (host.tasks or ())])
        for role in spec.roles
        if any(role in (host.tasks or ()) for host in hosts)
    }
    others = itertools.cycle([host.name for host in hosts if host.tasks is None] or [""])
    placed: dict[str, str] = {}
    for task in tasks:
        role = task.rpartition("-")[0]
        placed[task] = named.get(task) or next(turns.get(role, others))
        if not placed[task]:
            raise UsageError(
                f"docker.hosts: no host is there for {task}",
                hint=f"add {task} or {role} to a host's tasks, or leave one host's tasks out",
            )
    return placed


def choose_ports(spec: JobSpec, hosts: dict[str, str]) -> dict[str, tuple[int, ...]]:
    """The task's and the launcher's port: those of the spec, and the next ones for further tasks.

    Inside the container the ports are the same, because TensorFlow listens on the port that the
    cluster knows.
    """
    used: dict[str, set[int]] = {}
    chosen: dict[str, tuple[int, ...]] = {}
    for task, host in hosts.items():
        taken = used.setdefault(host, set())
        pair = []
        for first in (spec.ports.tensorflow, spec.ports.control):
            port = next(port for port in itertools.count(first) if port not in taken)
            if port > 65535:
                raise UsageError(f'ports: too many tasks on host "{host}"', hint="lower ports")
            taken.add(port)
            pair.append(port)
        chosen[task] = tuple(pair)
    return chosen


def divide_gpus(spec: JobSpec, hosts: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Devices per task: those that the spec names for its host, else numbers from 0.

    Not a count, because that gives every container the same first GPUs.
    """
    named = {host.name: host.gpus for host in spec.docker.hosts}
    left: dict[str, Iterator[int | str]] = {}
    found: dict[str, tuple[str, ...]] = {}
    for task, host in hosts.items():
        count = spec.roles[task.rpartition("-")[0]].gpus
        if not count:
            continue
        devices = named.get(host) or spec.docker.gpus
        free = left.setdefault(host, itertools.count() if devices is None else iter(devices))
        found[task] = tuple(str(device) for device in itertools.islice(free, count))
        if len(found[task]) < count:
            raise UsageError(
                f"{task} asks for {count} GPUs, of those that the spec names {len(found[task])}"
                " are left for it",
                hint="name more in docker.gpus or docker.hosts[].gpus, or lower roles.*.gpus",
            )
    return found
