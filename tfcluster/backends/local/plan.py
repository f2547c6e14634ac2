"""From a spec to a plan of local processes, refusing what local processes cannot honour."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tfcluster.archive import Run
from tfcluster.backends.local.environment import Environment, plan_environment
from tfcluster.backends.local.interpreters import with_interpreter
from tfcluster.backends.local.resources import (
    LOOPBACK,
    check_resources,
    divide_cores,
    divide_gpus,
    free_ports,
)
from tfcluster.code.planned import CodePlan
from tfcluster.errors import MissingError, UsageError
from tfcluster.interpreter import WITH_REQUIREMENTS, Interpreter
from tfcluster.launch.plan import read_env_files
from tfcluster.launch.python import PYTHON_NAMES
from tfcluster.launch.script import missing_script
from tfcluster.plan import Plan, RolePlan, Site, own_argv, plan_job, stored_plan
from tfcluster.requirements import read_requirements

if TYPE_CHECKING:
    from tfcluster.code.snapshot import Snapshot
    from tfcluster.spec.model import JobSpec
    from tfcluster.spec.parts import Volume


def check(spec: JobSpec, base: Path) -> None:
    """Raise unless this machine can run the spec as it is."""
    for refuse in (refuse_containers, refuse_volumes, refuse_references, refuse_unwritable):
        refuse(spec, base)
    check_resources(spec)
    read_requirements(spec, base)
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
        try:
            read_env_files([str(base / source.file)])
        except ValueError as error:
            raise UsageError(str(error), hint="one NAME=value in a line, in UTF-8") from None


def refuse_unwritable(spec: JobSpec, base: Path) -> None:
    """Folders that programs have to write to; the run's own are elsewhere."""
    for name, given in (("logdir", spec.logdir), ("checkpoints", spec.checkpoints)):
        if given is not None and (problem := unwritable(base / given)):
            raise UsageError(
                f"{name}: {given} cannot be written: {problem}",
                hint=f"choose another folder with {name}",
            )


def unwritable(folder: Path) -> str:
    """Why nothing can be written in this folder, which need not be there yet; else nothing."""
    there = folder
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        return f"{there} is not a folder"
    if not os.access(there, os.W_OK | os.X_OK):
        flags = os.statvfs(there).f_flag
        reason = os.strerror(errno.EROFS if flags & os.ST_RDONLY else errno.EACCES)
        return f"{there}: {reason}"
    return ""


def check_programs(spec: JobSpec, base: Path) -> None:
    """A missing program or folder is cheaper to report now than after a start."""
    if spec.train is not None and not trainer_ready():
        raise MissingError(
            "the bundled trainer needs TensorFlow, and this Python has none",
            evidence=[f"  {sys.executable}"],
            hint='run: pip install "tfcluster[trainer]"',
        )
    for name, role in spec.roles.items():
        workdir = program_base(spec, base) / (role.workdir or spec.workdir or ".")
        if not workdir.is_dir():
            raise MissingError(f"roles.{name}: there is no folder {workdir}")
        command = own_argv(spec, role)
        if command and "$(" not in command[0] and not found(command[0], workdir):
            raise MissingError(
                f'roles.{name}: command not found: "{command[0]}"',
                hint="give a path, or install it where PATH finds it",
            )
        script = missing_script(command, str(workdir)) if command else None
        if script is not None and "$(" not in script:
            raise MissingError(
                f"roles.{name}: there is no file {script}",
                hint="paths in command are relative to workdir, or else to the folder of the spec",
            )


def program_base(spec: JobSpec, base: Path) -> Path:
    """What relative folders of programs are in: the code, or the spec's folder."""
    return base / spec.code.folder if spec.code else base


def found(command: str, workdir: Path) -> bool:
    if os.sep in command:
        return os.access(workdir / command, os.X_OK)
    if command in PYTHON_NAMES:
        return True  # tfcluster's own, if PATH has none
    return shutil.which(command) is not None


def trainer_ready() -> bool:
    from importlib.util import find_spec

    return find_spec("tensorflow") is not None


def plan(spec: JobSpec, run: Run | None, base: Path, code: Snapshot | None = None) -> Plan:
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
    made = planned_environment(spec, base)
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
        settings={"ports": spec.local.port_range},
        code=planned_code(code, run),
        requirements=made.key if made else "",
    )
    return on_this_machine(plan_job(absolute, site), spec, base, old, made)


def planned_environment(spec: JobSpec, base: Path) -> Environment | None:
    """The environment that has the spec's requirements; the same one for all roles."""
    return plan_environment(read_requirements(spec, base), {**os.environ, **spec.env})


def planned_code(code: Snapshot | None, run: Run | None) -> CodePlan | None:
    """A snapshot in the run's folder; the folder itself if it is live, or there is no run."""
    if code is None:
        return None
    own = run is not None and not code.live
    return CodePlan.of(code, str(run.files.code) if own and run else code.folder)


def on_this_machine(
    plan: Plan, spec: JobSpec, base: Path, old: Plan | None, made: Environment | None
) -> Plan:
    """Add what only this machine knows: cores, GPUs, absolute folders, the Python to use."""
    before = {role.role: role for role in old.roles} if old else {}
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
    if made is not None:
        roles = tuple(in_environment(role, made) for role in roles)
    else:
        roles = tuple(with_interpreter(role, before.get(role.role)) for role in roles)
    return replace(plan, roles=roles)


def in_environment(role: RolePlan, made: Environment) -> RolePlan:
    """The role with its programs from this environment."""
    role = replace(role, env={**role.env, **made.variables(role.env)})
    name = role.argv[0]
    if name not in PYTHON_NAMES:
        return role
    chosen = Interpreter(name, made.python, WITH_REQUIREMENTS, made.base)
    return replace(role, argv=(made.python, *role.argv[1:]), interpreter=chosen)


def known_addresses(old: Plan | None) -> dict[tuple[str, int], tuple[str, str]]:
    if old is None:
        return {}
    return {
        (role.role, index): (role.addresses[index], role.control[index])
        for role in old.roles
        for index in range(role.replicas)
    }
