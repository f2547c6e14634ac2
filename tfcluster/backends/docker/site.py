"""What a run needs on an engine besides its containers: a network, volumes, the launcher in one."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tfcluster.archive import Run, runs_of
from tfcluster.backends.docker.containers import (
    CODE_PART,
    HOME_LABEL,
    LABEL,
    LAUNCH,
    TRAINER_USER,
    Container,
    container_launch,
    container_of,
    labels,
    launch_volume,
    network_name,
)
from tfcluster.backends.docker.engines import Engine, translated
from tfcluster.backends.docker.lifecycle import CLEAN_PATIENCE, remove_container
from tfcluster.backends.docker.planned import Host, docker_role, site_of
from tfcluster.belongings import home_mark
from tfcluster.code.snapshot import archive_bytes
from tfcluster.errors import DamagedFile, TfclusterError
from tfcluster.launch.bundle import source as launcher_source
from tfcluster.launch.proof import KEY_FILE
from tfcluster.plan import Plan, stored_plan


def engines(plan: Plan) -> dict[str, Engine]:
    """The engines of a plan, by the host's name; "" is the only one."""
    return {host.name: engine_of(host) for host in site_of(plan).hosts}


def engine_of(host: Host) -> Engine:
    return Engine(host.engine, host.name, host.address)


def note_engines(run: Run, plan: Plan) -> None:
    """Write down where the run has been, so that a change of hosts forgets none of them."""
    known = noted_hosts(run)
    hosts = [*known, *(host for host in site_of(plan).hosts if host not in known)]
    run.files.write_engines([host.to_dict() for host in hosts])


def noted_hosts(run: Run) -> list[Host]:
    return [Host.from_dict(host) for host in run.files.read_engines()]


def run_engines(run: Run, plan: Plan) -> dict[str, Engine]:
    """The engines of the plan, and those that earlier plans of the run used."""
    found, hosts = engines(plan), site_of(plan).hosts
    for host in noted_hosts(run):
        if host not in hosts:
            found[f"{host.name} {host.engine}"] = engine_of(host)
    return found


def engine_names(run: Run) -> list[str]:
    """Every engine that the run has been on, as far as its files can be read."""
    found: list[Host] = []
    with contextlib.suppress(DamagedFile):
        found += noted_hosts(run)
    with contextlib.suppress(DamagedFile):
        plan = stored_plan(run)
        found += site_of(plan).hosts if plan else ()
    return list(dict.fromkeys(host.engine for host in found))


def tasks_on(plan: Plan, host: str) -> list[str]:
    return [
        f"{role.role}-{index}"
        for role in plan.roles
        for index, where in enumerate(docker_role(role).hosts)
        if where == host
    ]


def listed(engine: Engine, job: str, run: str | None = None) -> list[dict[str, Any]]:
    """The job's (or the run's) containers on an engine, ended ones included."""
    wanted = [f"{LABEL}.job={job}", *([f"{LABEL}.run={run}"] if run else [])]
    with translated(engine):
        found: list[dict[str, Any]] = engine.api.containers(all=True, filters={"label": wanted})
    return found


# -- Before the containers ---------------------------------------------------------------------


def prepare_site(engine: Engine, run: Run, plan: Plan) -> None:
    """Make the network, the volumes and the launch files of a run; keeps what is there."""
    tasks = tasks_on(plan, engine.name)
    if not tasks:
        return
    clear_leftovers(engine, run, plan)
    own = {**labels(plan, run.id), HOME_LABEL: home_mark()}
    if site_of(plan).network is None:
        with translated(engine, "the job's network"):
            make_network(engine, run, plan, own)
    containers = [container_of(plan, run.id, task) for task in tasks]
    for container in containers:
        for mount in container.mounts:
            if mount.kind == "folder" and engine.is_local:
                make_folder(Path(mount.source), container.hardened)
    fresh = make_volumes(engine, containers, own)
    upload(engine, run, plan, containers[0], fresh)


def networks_of(engine: Engine, job: str) -> list[dict[str, Any]]:
    name = network_name(job)
    with translated(engine):
        return [net for net in engine.api.networks(names=[name]) if net["Name"] == name]


def clear_leftovers(engine: Engine, run: Run, plan: Plan) -> None:
    """Remove what earlier runs of the job left; whoever calls this holds the job's claim."""
    for found in listed(engine, plan.job):
        if found["Labels"].get(f"{LABEL}.run", "") != run.id:
            with translated(engine):
                remove_container(engine, found["Id"])


def make_network(engine: Engine, run: Run, plan: Plan, own: dict[str, str]) -> None:
    """The job's own network. One that another run has left may be removed by it at any time."""
    there = networks_of(engine, plan.job)
    for network in there:
        if (network.get("Labels") or {}).get(f"{LABEL}.run") != run.id:
            remove_network(engine, network["Id"])
    if not networks_of(engine, plan.job):
        engine.api.create_network(
            network_name(plan.job), driver="bridge", labels=own, check_duplicate=True
        )


def make_folder(folder: Path, for_trainer: bool) -> None:
    """A folder of this machine for results; new ones belong to whom the trainer runs as."""
    if folder.is_dir():
        return
    try:
        folder.mkdir(parents=True)
        if for_trainer and os.getuid() == 0:
            os.chown(folder, *TRAINER_USER)
    except OSError as error:
        raise TfclusterError(f"cannot make the folder {folder}: {error.strerror}") from None


def make_volumes(engine: Engine, containers: Iterable[Container], own: dict[str, str]) -> set[str]:
    """Create the named volumes that are missing; their names."""
    names = {m.source for c in containers for m in c.mounts if m.kind == "volume"}
    with translated(engine, "volumes"):
        there = {volume["Name"] for volume in engine.api.volumes()["Volumes"] or ()}
        for name in sorted(names - there):
            engine.api.create_volume(name, labels=own)
    return names - there


def upload(engine: Engine, run: Run, plan: Plan, model: Container, fresh: set[str]) -> None:
    """Put the launcher, the launch plan and the env files into the launch volume.

    The engine unpacks an archive into a container that never runs: this works for any image, for
    engines on other machines, and shows no value in `docker inspect`.
    """
    mounts = [
        {"Type": "volume", "Source": mount.source, "Target": mount.target, "ReadOnly": False}
        for mount in model.mounts
        if mount.kind == "volume" and (mount.source in fresh or mount.target == LAUNCH)
    ]
    opened = [str(mount["Target"]) for mount in mounts if mount["Target"] != LAUNCH]
    with translated(engine, f"preparing {model.image}"):
        made = engine.api.create_container(
            model.image,
            entrypoint=["/tfcluster-helper"],
            labels=labels(plan, run.id),
            host_config=engine.api.create_host_config(mounts=mounts, network_mode="none"),
        )
        try:
            engine.api.put_archive(made["Id"], "/", launch_archive(run, plan, opened))
        finally:
            remove_container(engine, made["Id"])


def launch_archive(run: Run, plan: Plan, opened: list[str]) -> bytes:
    """A tar with the launch files, and with the new volumes that anybody may write to."""
    launch = container_launch(plan, run.id)
    files = {
        "launcher.py": launcher_source().encode(),
        "launch.json": json.dumps(launch).encode(),
        KEY_FILE: run.files.require_key().hex().encode(),
    }
    if plan.code:
        files[CODE_PART] = archive_bytes(plan.code.digest)
    base = Path(site_of(plan).base)
    sources = plan.roles[0].env_files
    files |= {f"env/{n}.env": (base / path).read_bytes() for n, path in enumerate(sources)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for target in opened:
            # A new volume belongs to root; whoever the image runs as has to be able to write.
            entry = tarfile.TarInfo(target.strip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            archive.addfile(entry)
        for name, data in files.items():
            entry = tarfile.TarInfo(f"{LAUNCH.strip('/')}/{name}")
            entry.size, entry.mode = len(data), 0o444
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


# -- Afterwards --------------------------------------------------------------------------------


def clean_site(engine: Engine, run: Run) -> None:
    """Remove all of a run from an engine, except the volume with its results."""
    with translated(engine, "cleaning up"):
        deadline = time.monotonic() + CLEAN_PATIENCE
        remove_containers(engine, run)
        # A command that was killed may have asked for a container that the engine makes only now.
        while not volume_removed(engine, launch_volume(run.job, run.id), deadline):
            time.sleep(0.3)
            remove_containers(engine, run)
        remove_networks(engine, run)


def remove_containers(engine: Engine, run: Run) -> None:
    found = listed(engine, run.job, run.id)
    if found:
        with ThreadPoolExecutor(min(8, len(found))) as pool:
            list(pool.map(lambda item: remove_container(engine, item["Id"]), found))


def volume_removed(engine: Engine, name: str, deadline: float) -> bool:
    """False while a container uses the volume; after the deadline that is an error."""
    from docker.errors import APIError, NotFound

    try:
        engine.api.remove_volume(name, force=True)
    except NotFound:
        pass
    except APIError as error:
        if "in use" not in str(error.explanation) or time.monotonic() > deadline:
            raise
        return False
    return True


def remove_networks(engine: Engine, run: Run) -> None:
    """Those of this job's runs: a network that an earlier run could not remove is used again."""
    ours = {known.id for known in runs_of(run.place)} | {run.id}
    for network in engine.api.networks(filters={"label": f"{LABEL}.job={run.job}"}):
        if (network.get("Labels") or {}).get(f"{LABEL}.run") in ours:
            remove_network(engine, network["Id"])


def remove_network(engine: Engine, identifier: str) -> None:
    from docker.errors import APIError, NotFound

    try:
        engine.api.remove_network(identifier)
    except NotFound:
        pass
    except APIError as error:
        # A container of the person's own, joined by hand, keeps the network alive.
        if "active endpoints" not in str(error.explanation):
            raise
