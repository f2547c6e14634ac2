"""From a spec to a plan of containers, refusing what Docker cannot honour.

Names and addresses: on one engine every task is reached by its container's name, in the job's own
network; on several, by its host's address and a published port.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tfcluster.archive import Run
from tfcluster.backends.capacity import Machine, Shortage, refuse_shortages, shortages
from tfcluster.backends.docker.containers import CODE_PART, LAUNCH, output_volume
from tfcluster.backends.docker.engines import Engine, current_engine, translated
from tfcluster.backends.docker.hosts import Placement, place_tasks
from tfcluster.backends.docker.planned import DockerRole, DockerSite, Host, PlannedMount
from tfcluster.checkpoints import CheckpointFolder
from tfcluster.code.delivery import CODE
from tfcluster.code.planned import CodePlan
from tfcluster.errors import MissingError, UsageError
from tfcluster.launch.plan import read_env_files
from tfcluster.plan import Plan, Site, plan_job
from tfcluster.requirements import read_requirements
from tfcluster.results import is_below

if TYPE_CHECKING:
    from tfcluster.code.snapshot import Snapshot
    from tfcluster.spec.model import JobSpec
    from tfcluster.spec.parts import Volume

OUTPUT = "/output"
PYTHON = "python3"


@dataclass(frozen=True)
class Folder:
    """Where logdir or checkpoints are inside containers, and the host's folder behind it."""

    inside: str
    host: str | None = None


def engines_of(spec: JobSpec) -> list[Engine]:
    """The engines that a spec names, or the current one."""
    if not spec.docker.hosts:
        return [Engine(current_engine())]
    return [Engine(host.engine, host.name, host.address) for host in spec.docker.hosts]


def check(spec: JobSpec, base: Path) -> None:
    """Raise unless Docker can run the spec as it is; every engine is asked before anything runs."""
    refuse_references(spec, base)
    refuse_volumes(spec, base)
    for name in ("logdir", "checkpoints"):
        output_folder(spec, base, name)
    for name, role in spec.roles.items():
        workdir = role.workdir or spec.workdir
        if workdir is not None and not workdir.startswith("/") and spec.code is None:
            raise UsageError(
                f"roles.{name}: workdir {workdir} is a folder in the container, and not absolute",
                hint="write an absolute path; or bring your files there with code: .",
            )
    if spec.docker.network in ("host", "bridge", "none"):
        raise UsageError(
            f"docker.network: tasks find each other by names, and {spec.docker.network} has none",
            hint="leave it out, or name a network made with: docker network create",
        )
    refuse_capabilities(spec)
    placement = place_tasks(spec)
    found: list[Shortage] = []
    for engine in engines_of(spec):
        engine.ping()
        roles = {t.rpartition("-")[0] for t, host in placement.hosts.items() if host == engine.name}
        found += shortages(spec, machine_of(engine), roles)
    refuse_shortages(found)


def machine_of(engine: Engine) -> Machine:
    with translated(engine):
        info = engine.api.info()
    return Machine(engine.label, info["NCPU"], info["MemTotal"])


def refuse_references(spec: JobSpec, base: Path) -> None:
    for source in spec.env_from:
        if source.file is None:
            raise UsageError(
                "env_from: secrets and config maps live in a Kubernetes cluster",
                hint="use `env_from: [{file: PATH}]` with Docker",
            )
        if not (base / source.file).is_file():
            raise MissingError(f"env_from: there is no file {source.file}")
        try:
            read_env_files([str(base / source.file)])
        except ValueError as error:
            raise UsageError(str(error), hint="one NAME=value in a line, in UTF-8") from None
    if spec.image_pull.secrets:
        raise UsageError(
            "image_pull.secrets: these are secrets of a Kubernetes cluster",
            hint="with Docker, log in once: docker login",
        )


def refuse_capabilities(spec: JobSpec) -> None:
    """The trainer's image runs as a user, and capabilities are root's."""
    own = spec.image or any(role.image for role in spec.roles.values())
    if spec.docker.capabilities and not own:
        raise UsageError(
            "docker.capabilities: the trainer's image runs as a user and gets no capabilities",
            hint="leave it out, or name an image of your own that runs as root",
        )


def refuse_volumes(spec: JobSpec, base: Path) -> None:
    for volume in every_volume(spec):
        if volume.source is None and volume.name is None:
            raise UsageError(
                f"volumes: {volume.target} comes from a Kubernetes cluster",
                hint="with Docker use source (a folder) or name (a named volume)",
            )
        if volume.source is None:
            continue
        local = all(engine.is_local for engine in engines_of(spec))
        if not local and not os.path.isabs(volume.source):
            raise UsageError(
                f"volumes: {volume.source} is relative to the spec, and the engine is elsewhere",
                hint="write the absolute path that the folder has on the engine's machine",
            )
        if local and not spec.docker.hosts and not (base / volume.source).exists():
            raise MissingError(f"volumes: there is no {base / volume.source}")


def every_volume(spec: JobSpec) -> list[Volume]:
    return [*spec.volumes, *(volume for role in spec.roles.values() for volume in role.volumes)]


def output_folder(spec: JobSpec, base: Path, key: str) -> Folder:
    """Where logdir (or checkpoints) is: in a volume of the spec, on the host, or the run's own."""
    given: str | None = getattr(spec, key)
    if given is None:
        return Folder(OUTPUT if key == "logdir" else f"{OUTPUT}/checkpoints")
    if os.path.isabs(given) and any(
        is_below(given, volume.target) and not volume.read_only for volume in spec.volumes
    ):
        return Folder(given)
    if not os.path.isabs(given) and not all(engine.is_local for engine in engines_of(spec)):
        raise UsageError(
            f"{key}: {given} is relative to the spec, and the engine is elsewhere",
            hint="write an absolute path, or put it into a volume",
        )
    host = os.path.normpath(base / given)
    return Folder(host, host)


def checkpoint_folder(spec: JobSpec, run: Run | None, base: Path) -> CheckpointFolder | None:
    """Where checkpoints are: in a host's folder, in a volume of the spec, or in the run's own."""
    found = output_folder(spec, base, "checkpoints")
    here = not spec.docker.hosts and all(engine.is_local for engine in engines_of(spec))
    if found.host is not None:
        return CheckpointFolder(found.host, Path(found.host) if here else None)
    for volume in spec.volumes:
        if not is_below(found.inside, volume.target):
            continue
        if volume.source is None:
            return CheckpointFolder(f"volume {volume.name}")
        inside = os.path.relpath(found.inside, volume.target)
        path = Path(os.path.normpath(base / volume.source / inside))
        return CheckpointFolder(str(path), path if here else None)
    return CheckpointFolder(f"volume {output_volume(spec.name, run.id)}") if run else None


# -- The plan ----------------------------------------------------------------------------------


def plan(spec: JobSpec, run: Run | None, base: Path, code: Snapshot | None = None) -> Plan:
    """Addresses follow from the spec alone, so a run that goes on keeps the ones it has."""
    placement = place_tasks(spec)
    folders = {key: output_folder(spec, base, key) for key in ("logdir", "checkpoints")}
    site = Site(
        backend="docker",
        python=PYTHON,
        address=lambda role, index: addresses(spec, placement, f"{role}-{index}"),
        logdir=folders["logdir"].inside,
        checkpoints=folders["checkpoints"].inside,
        container=lambda role: planned_role(spec, role, base, placement, folders).to_dict(),
        settings=planned_site(spec, base).to_dict(),
        code=CodePlan.of(code, CODE, (f"{LAUNCH}/{CODE_PART}",)) if code else None,
    )
    inside = {key: folder.inside for key, folder in folders.items()}
    return plan_job(spec.model_copy(update=inside), site)


def addresses(spec: JobSpec, placement: Placement, task: str) -> tuple[str, str]:
    """host:port of the task and of its launcher."""
    host, ports = placement.addresses.get(task), placement.ports.get(task)
    if host is None or ports is None:
        name = f"{spec.name}-{task}"
        return f"{name}:{spec.ports.tensorflow}", f"{name}:{spec.ports.control}"
    return f"{host}:{ports[0]}", f"{host}:{ports[1]}"


def planned_site(spec: JobSpec, base: Path) -> DockerSite:
    return DockerSite(
        hosts=tuple(Host(e.name, e.reference, e.address) for e in engines_of(spec)),
        network=spec.docker.network,
        tensorboard=spec.tensorboard,
        base=str(base),
    )


def planned_role(
    spec: JobSpec,
    name: str,
    base: Path,
    placement: Placement,
    folders: Mapping[str, Folder],
) -> DockerRole:
    from tfcluster.images import trainer_image
    from tfcluster.layers import layered

    role = spec.roles[name]
    image = role.image or spec.image
    below = image or trainer_image(gpu=any(r.gpus for r in spec.roles.values()))
    wanted = read_requirements(spec, base)
    tasks = [f"{name}-{index}" for index in range(role.replicas)]
    return DockerRole(
        image=layered(below, wanted),
        base=below if wanted else "",
        bundled=image is None,
        pull=spec.image_pull.policy,
        mounts=tuple(mounts(spec, name, base, folders)),
        shm=spec.shm.bytes if spec.shm else None,
        runtime=spec.docker.runtime,
        hosts=tuple(placement.hosts[task] for task in tasks),
        ports=tuple(placement.ports.get(task) for task in tasks),
        gpus=tuple(placement.gpus.get(task) for task in tasks),
        capabilities=tuple(sorted(set(spec.docker.capabilities))) if image else (),
        pids_limit=spec.docker.pids_limit,
    )


def mounts(
    spec: JobSpec, name: str, base: Path, folders: Mapping[str, Folder]
) -> list[PlannedMount]:
    """Every mount of a role."""
    found: list[PlannedMount] = []
    for volume in [*spec.volumes, *spec.roles[name].volumes]:
        bind = volume.source is not None
        source = os.path.normpath(base / str(volume.source)) if bind else volume.name
        kind = "bind" if bind else "volume"
        found.append(PlannedMount(kind, source, volume.target, volume.read_only))
    own = any(is_below(folder.inside, OUTPUT) and not folder.host for folder in folders.values())
    if own and not any(is_below(OUTPUT, entry.target) for entry in found):
        found.append(PlannedMount("output", None, OUTPUT))
    for folder in folders.values():
        if folder.host and not any(is_below(folder.inside, entry.target) for entry in found):
            found.append(PlannedMount("folder", folder.host, folder.inside))
    return found
