"""What this machine can give to tasks: ports, cores, memory limits, GPUs. Or why not."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tfcluster.backends.capacity import Machine, Shortage, refuse_shortages, shortages
from tfcluster.errors import MissingError
from tfcluster.quantities import format_bytes

if TYPE_CHECKING:
    from tfcluster.spec.model import JobSpec

LOOPBACK = "127.0.0.1"


def free_ports(count: int, allowed: range, taken: set[int]) -> list[int]:
    """`count` ports that nobody listens on now, from a random start so that two jobs rarely meet.

    The range lies below the ephemeral ports, so that no outgoing connection takes one of them
    between now and the moment when the task listens.
    """
    ports = list(allowed)
    start = random.randrange(len(ports))
    found: list[int] = []
    for port in ports[start:] + ports[:start]:
        if len(found) == count:
            break
        if port not in taken and is_free(port):
            found.append(port)
    if len(found) < count:
        raise MissingError(
            f"{count} free ports are needed, {ports[0]}-{ports[-1]} has {len(found)}",
            hint="widen local.port_range",
        )
    return found


def is_free(port: int) -> bool:
    # TensorFlow's server listens on every interface, so that is what has to be free.
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def usable_cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def machine() -> Machine:
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Machine("this machine", len(usable_cores()), memory)


def check_resources(spec: JobSpec) -> None:
    """Refuse what local processes cannot be given or held to, with all that is wrong at once."""
    found = [*limit_shortages(spec), *shortages(spec, machine(), spec.roles)]
    found += shm_shortages(spec)
    wanted = any(role.gpus for role in spec.roles.values())
    found += gpu_shortages(spec, gpu_devices(spec)) if wanted else []
    refuse_shortages(found)


def limit_shortages(spec: JobSpec) -> Iterator[Shortage]:
    for name, role in spec.roles.items():
        limited = role.cpu is not None or role.memory is not None
        if limited and sys.platform != "linux":
            yield Shortage(
                f"roles.{name}: cpu and memory limits of local processes need Linux",
                "leave them out here, or use a container backend",
                forbidden=True,
            )
        if role.cpu is not None and role.cpu != int(role.cpu):
            yield Shortage(
                f"roles.{name}.cpu: local processes can only be held to whole cores",
                f"write cpu: {max(1, round(role.cpu))}, or use a container backend",
                forbidden=True,
            )


def shm_shortages(spec: JobSpec) -> Iterator[Shortage]:
    if spec.shm is None:
        return
    available = shutil.disk_usage("/dev/shm").total if os.path.exists("/dev/shm") else 0
    if spec.shm.bytes > available:
        has = format_bytes(available)
        yield Shortage(
            f"shm: {spec.shm} asked for, /dev/shm of this machine has {has}",
            "local processes share the machine's /dev/shm; remove shm or enlarge it",
        )


def gpu_shortages(spec: JobSpec, devices: Sequence[str]) -> Iterator[Shortage]:
    """GPUs are not shared, so all tasks together have to find enough."""
    wanted = {name: role for name, role in spec.roles.items() if role.gpus}
    total = sum(role.gpus * role.replicas for role in wanted.values())
    if total > len(devices):
        asked = ", ".join(f"{role.replicas} {name} x {role.gpus}" for name, role in wanted.items())
        yield Shortage(
            f"{total} GPUs are asked for ({asked}), this machine has {len(devices)}",
            "set gpus: 0 to train on the CPU, or list the devices in local.gpus",
        )


def divide_cores(spec: JobSpec, order: list[str]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Per role and index the cores of each task that asks for some, dealt out in turn."""
    cores = usable_cores()
    dealt: dict[str, dict[str, tuple[int, ...]]] = {}
    position = 0
    for name in order:
        role = spec.roles[name]
        if role.cpu is None:
            continue
        share = {}
        for index in range(role.replicas):
            picked = [cores[(position + step) % len(cores)] for step in range(int(role.cpu))]
            share[str(index)] = tuple(sorted(picked))
            position += int(role.cpu)
        dealt[name] = share
    return dealt


def gpu_devices(spec: JobSpec, environ: Mapping[str, str] = os.environ) -> list[str]:
    """The GPUs to divide: those the spec names, else those this process may see, else all."""
    if spec.local.gpus is not None:
        return [str(device) for device in spec.local.gpus]
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [device.strip() for device in visible.split(",") if device.strip()]
    if shutil.which("nvidia-smi") is None:
        return []
    try:
        listing = subprocess.run(
            ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=10, check=False
        )
    except subprocess.TimeoutExpired:
        raise MissingError(
            "nvidia-smi -L did not answer within 10 s", hint="is the NVIDIA driver healthy?"
        ) from None
    lines = [line for line in listing.stdout.splitlines() if line.startswith("GPU ")]
    return [str(number) for number in range(len(lines))]


def divide_gpus(spec: JobSpec, order: list[str]) -> dict[str, dict[str, dict[str, str]]]:
    """Per role and index the CUDA_VISIBLE_DEVICES of each task that asks for GPUs."""
    wanted = {name: spec.roles[name] for name in order if spec.roles[name].gpus}
    if not wanted:
        return {}
    devices = gpu_devices(spec)
    refuse_shortages(list(gpu_shortages(spec, devices)))
    left = iter(devices)
    return {
        name: {
            str(index): {"CUDA_VISIBLE_DEVICES": ",".join(next(left) for _ in range(role.gpus))}
            for index in range(role.replicas)
        }
        for name, role in wanted.items()
    }
