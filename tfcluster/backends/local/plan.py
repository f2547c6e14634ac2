"""From a spec to a plan of local processes, refusing what local processes cannot honour."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfcluster.archive import Run
from tfcluster.backends.local.resources import (
    LOOPBACK,
    check_limits,
    divide_cores,
    divide_gpus,
    free_ports,
)
from tfcluster.errors import MissingError, UsageError
from tfcluster.plan import Plan, Site, plan_job, stored_plan

if TYPE_CHECKING:
    from tfcluster.spec.model import JobSpec
    from tfcluster.spec.parts import Volume


def check(spec: JobSpec, base: Path) -> None:
    """Raise unless this machine can run the spec as it is."""
    for refuse in (refuse_containers, refuse_volumes, refuse_references):
        refuse(spec, base)
    check_limits(spec)
    divide_gpus(spec, list(spec.roles))
    check_programs(spec, base)


def refuse_containers(spec: JobSpec, base: Path) -> None:
    images = {"image": spec.image}
    images |= {f"roles.{name}.image": role.image for name, role in spec.roles.items()}
    for where, image in images.items():
        if image is not None:
            raise UsageError(
                f'{where}: local processes run on this machine, not in "{image}"',
                hint="remove it, or use --backend docker or kubernetes",
            )
    if "ports" in spec.model_fields_set:
        raise UsageError(
            "ports: local tasks share one machine, so each gets a free port of its own",
            hint="remove it, or choose local.port_range",
        )
    if spec.shm is not None:
        available = shutil.disk_usage("/dev/shm").total if Path("/dev/shm").exists() else 0
        if spec.shm.bytes > available:
            raise MissingError(
                f"shm: {spec.shm} is asked for, /dev/shm of this machine has {available} bytes",
                hint="local processes share the machine's /dev/shm; remove shm or enlarge it",
            )


def refuse_volumes(spec: JobSpec, base: Path) -> None:
    volumes: list[Volume] = list(spec.volumes)
    volumes += [volume for role in spec.roles.values() for volume in role.volumes]
    for volume in volumes:
        same = volume.source is not None and (base / volume.source).resolve() == Path(volume.target)
        if not same or volume.read_only:
            raise UsageError(
                f"volumes: local processes see this machine's folders, {volume.target} cannot be"
                " mounted",
                hint="use the folder itself, or a container backend",
            )


def refuse_references(spec: JobSpec, base: Path) -> None:
    for source in spec.env_from:
        if source.file is None:
            raise UsageError(
                "env_from: secrets and config maps live in a Kubernetes cluster",
                hint="use `env_from: [{file: PATH}]` for local processes",
            )
        if not (base / source.file).is_file():
            raise MissingError(f"env_from: there is no file {source.file}")


def check_programs(spec: JobSpec, base: Path) -> None:
    """A missing program or folder is cheaper to report now than after a start."""
    if spec.train is not None and not trainer_ready():
        raise MissingError(
            "the bundled trainer needs TensorFlow, and this Python has none",
            evidence=[f"  {sys.executable}"],
            hint='run: pip install "tfcluster[trainer]"',
        )
    for name, role in spec.roles.items():
        workdir = base / (role.workdir or spec.workdir or ".")
        if not workdir.is_dir():
            raise MissingError(f"roles.{name}: there is no folder {workdir}")
        command = role.command or spec.command
        if command and "$(" not in command[0] and not found(command[0], workdir):
            raise MissingError(
                f'roles.{name}: command not found: "{command[0]}"',
                hint="give a path, or install it where PATH finds it",
            )


def found(command: str, workdir: Path) -> bool:
    if os.sep in command:
        return os.access(workdir / command, os.X_OK)
    return shutil.which(command) is not None


def trainer_ready() -> bool:
    from importlib.util import find_spec

    return find_spec("tensorflow") is not None


def plan(spec: JobSpec, run: Run | None, base: Path) -> Plan:
    """Loopback addresses: new free ports, or those that the tasks of this run have already."""
    old = stored_plan(run) if run else None
    known = known_addresses(old)
    wanted = [(name, index) for name, role in spec.roles.items() for index in range(role.replicas)]
    new = [pair for pair in wanted if pair not in known]
    taken = {int(address.rpartition(":")[2]) for pair in known.values() for address in pair}
    ports = iter(free_ports(2 * len(new), spec.local.ports, taken))
    for pair in new:
        known[pair] = (f"{LOOPBACK}:{next(ports)}", f"{LOOPBACK}:{next(ports)}")
    output = run.files.output if run else base / f"{spec.name}-output"
    absolute = spec.model_copy(
        update={
            "logdir": str((base / spec.logdir).resolve()) if spec.logdir else None,
            "checkpoints": str((base / spec.checkpoints).resolve()) if spec.checkpoints else None,
        }
    )
    site = Site(
        backend="local",
        python=sys.executable,
        address=lambda role, index: known[role, index],
        logdir=str(output),
        checkpoints=str(output / "checkpoints"),
        bind=LOOPBACK,
    )
    return on_this_machine(plan_job(absolute, site), spec, base)


def on_this_machine(plan: Plan, spec: JobSpec, base: Path) -> Plan:
    """Add what only this machine knows: cores, GPUs, absolute folders."""
    order = [role.role for role in plan.roles]
    cores, gpus = divide_cores(spec, order), divide_gpus(spec, order)
    roles = tuple(
        replace(
            role,
            workdir=str(base / role.workdir) if role.workdir else str(base),
            env_files=tuple(str(base / path) for path in role.env_files),
            cpus=cores.get(role.role, {}),
            task_env=gpus.get(role.role, {}),
        )
        for role in plan.roles
    )
    return replace(plan, roles=roles)


def known_addresses(old: Plan | None) -> dict[tuple[str, int], tuple[str, str]]:
    if old is None:
        return {}
    return {
        (role.role, index): (role.addresses[index], role.control[index])
        for role in old.roles
        for index in range(role.replicas)
    }
