"""One task as a container: the same data for `up`, for `render --target docker` and for compose."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfcluster.backends.docker.planned import PIDS_LIMIT, DockerRole, docker_role, site_of
from tfcluster.backends.owner import owner_here
from tfcluster.launch.plan import LaunchPlan
from tfcluster.plan import Plan

LABEL = "io.tfcluster"
HOME_LABEL = f"{LABEL}.home"  # on what `up` makes: which state folder has the record
LAUNCH = "/tfcluster"  # where the launch volume is mounted
CODE_PART = "code.0"  # the archive of the code in it
TRAINER_USER = (1000, 1000)  # as in images/trainer/Dockerfile
# What a container of somebody's own image keeps, if it runs as root: to write to folders of other
# users, to give files away, to become another user (gosu), and to end a program that has done so.
# The rest of Docker's own choice (raw sockets, device files, …) has to be asked for.
KEPT_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "KILL", "SETGID", "SETUID")
# Of a container that does one thing of ours.
HELPER_LIMITS: dict[str, Any] = {
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges"],
    "pids_limit": 1024,
}
# Finds a Python that can run the launcher; images differ in where they keep it.
FIND_PYTHON = (
    "for p in python3 python /usr/local/bin/python3 /usr/bin/python3 /opt/conda/bin/python3; do "
    'command -v "$p" >/dev/null 2>&1 && '
    '"$p" -c "import sys; sys.exit(sys.version_info < (3, 8))" 2>/dev/null && '
    'exec "$p" -I "$@"; done; '
    'echo "tfcluster: this image has no Python 3.8 or later for the launcher" >&2; exit 127'
)


@dataclass(frozen=True)
class Mount:
    """A bind (a folder of the host) or a volume (kept by the engine)."""

    kind: str  # bind, folder (a bind that is created if missing) or volume
    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True)
class Container:
    """Everything that makes one task's container."""

    task: str
    name: str
    host: str
    image: str
    launcher: tuple[str, ...]  # the launcher's arguments
    labels: Mapping[str, str]
    mounts: tuple[Mount, ...]
    network: str
    ports: tuple[int, ...] = ()
    publish: str = ""  # the host's address on which the ports are published
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    hardened: bool = False  # on a read-only root
    capabilities: tuple[str, ...] = ()  # all others are dropped
    pids_limit: int = PIDS_LIMIT
    memory: int | None = None
    cpus: float | None = None
    shm: int | None = None
    gpus: tuple[str, ...] = ()
    runtime: str | None = None

    @property
    def entrypoint(self) -> tuple[str, ...]:
        return ("/bin/sh", "-c", FIND_PYTHON, "tfcluster-launcher")


def network_name(job: str) -> str:
    return f"tfcluster-{job}"


def output_volume(job: str, run: str) -> str:
    return f"tfcluster-{job}-{run}"


def launch_volume(job: str, run: str) -> str:
    return f"tfcluster-{job}-{run}-launch"


def labels(plan: Plan, run: str, task: str = "", *, placed: bool = True) -> dict[str, str]:
    """What marks everything of a run: its task, and where it was brought up from, if `placed`."""
    marks = {f"{LABEL}.job": plan.job, f"{LABEL}.run": run}
    if placed:
        marks |= owner_here(site_of(plan).base).marks(f"{LABEL}.")
    if task:
        role, _, index = task.rpartition("-")
        marks |= {f"{LABEL}.task": task, f"{LABEL}.role": role, f"{LABEL}.index": index}
        marks[f"{LABEL}.digest"] = plan.role(role).digest
    return marks


def container_of(
    plan: Plan, run: str, task: str, *, attempt: int = 0, failures: int = 0, report: bool = True
) -> Container:
    """The container of one task of a run."""
    role_name, _, number = task.rpartition("-")
    role, index = plan.role(role_name), int(number)
    made, site = docker_role(role), site_of(plan)
    arguments = [f"{LAUNCH}/launcher.py", "--plan", f"{LAUNCH}/launch.json", "--task", task]
    if report:
        arguments += ["--report", "--attempt", str(attempt), "--restarts-used", str(failures)]
        # Its record is not needed; its exit code then says whether the launcher itself was killed.
        arguments += ["--final", "/dev/null"]
    addresses = {host.name: host.address for host in site.hosts}
    host, ports = made.hosts[index], made.ports[index]
    return Container(
        task=task,
        name=f"{plan.job}-{task}",
        host=host,
        image=made.image,
        launcher=tuple(arguments),
        labels=labels(plan, run, task, placed=report),
        mounts=(*task_mounts(plan, run, made), launch_mount(plan, run)),
        network=site.network or network_name(plan.job),
        ports=ports or (),
        publish=addresses[host] if ports else "",
        environment=gpu_environment(made, index),
        user=trainer_user(made) if made.bundled else None,
        hardened=made.bundled,
        capabilities=capabilities_of(made),
        pids_limit=made.pids_limit,
        memory=role.resources.memory,
        cpus=role.resources.cpu,
        shm=made.shm,
        gpus=(made.gpus[index] or ()) if not is_old_runtime(made) else (),
        runtime=made.runtime,
    )


def launch_mount(plan: Plan, run: str) -> Mount:
    return Mount("volume", launch_volume(plan.job, run), LAUNCH, read_only=True)


def task_mounts(plan: Plan, run: str, made: DockerRole) -> tuple[Mount, ...]:
    return tuple(
        Mount("volume", output_volume(plan.job, run), entry.target)
        if entry.source is None
        else Mount(entry.kind, entry.source, entry.target, entry.read_only)
        for entry in made.mounts
    )


def capabilities_of(made: DockerRole) -> tuple[str, ...]:
    """What programs keep; the trainer's image runs as a user, and needs nothing."""
    return () if made.bundled else tuple(sorted({*KEPT_CAPABILITIES, *made.capabilities}))


def is_old_runtime(made: DockerRole) -> bool:
    """`runtime: nvidia` chooses GPUs by a variable, not by device requests."""
    return made.runtime == "nvidia"


def gpu_environment(made: DockerRole, index: int) -> dict[str, str]:
    if not is_old_runtime(made):
        return {}
    return {"NVIDIA_VISIBLE_DEVICES": ",".join(made.gpus[index] or ()) or "void"}


def trainer_user(made: DockerRole) -> str | None:
    """Whoever owns the host's folder that the trainer writes to, so that the files are theirs."""
    for entry in made.mounts:
        if entry.kind == "folder" and entry.source and os.path.isdir(entry.source):
            owner = os.stat(entry.source)
            return f"{owner.st_uid}:{owner.st_gid}"
    return None


def container_launch(plan: Plan, run: str) -> LaunchPlan:
    """The launch plan as launchers inside containers read it."""
    launch = plan.launch(run)
    for role in launch["roles"].values():
        # The kernel holds a container to its limit; the launcher only has to name it.
        role["memory_cap"], role["memory_limit"] = role["memory_limit"], None
        role["env_files"] = [f"{LAUNCH}/env/{n}.env" for n in range(len(role["env_files"]))]
    return launch


# -- As the engine's API wants it --------------------------------------------------------------


def create_arguments(api: Any, container: Container, log_driver: str, init: bool) -> dict[str, Any]:
    """The arguments of the SDK's create_container."""
    from docker.types import LogConfig

    host_config = api.create_host_config(
        binds=None,
        mounts=[api_mount(mount) for mount in container.mounts],
        network_mode=container.network,
        port_bindings={f"{p}/tcp": (published_on(container), p) for p in container.ports},
        init=init,
        tmpfs={"/tmp": "rw,exec,mode=1777"} if container.hardened else None,
        read_only=container.hardened,
        cap_drop=["ALL"],
        cap_add=list(container.capabilities) or None,
        pids_limit=container.pids_limit,
        security_opt=["no-new-privileges"],
        mem_limit=container.memory,
        memswap_limit=container.memory,
        nano_cpus=int(container.cpus * 1e9) if container.cpus else None,
        shm_size=container.shm,
        device_requests=device_requests(container),
        runtime=container.runtime,
        restart_policy={"Name": "no"},
        log_config=LogConfig(type=log_driver, config=LOG_OPTIONS.get(log_driver, {})),
    )
    return {
        "image": container.image,
        "name": container.name,
        "hostname": container.name,
        "entrypoint": list(container.entrypoint),
        "command": list(container.launcher),
        "environment": dict(container.environment),
        "labels": dict(container.labels),
        "user": container.user,
        "ports": [(port, "tcp") for port in container.ports],
        "host_config": host_config,
        "networking_config": api.create_networking_config(
            {container.network: api.create_endpoint_config(aliases=[container.name])}
        ),
    }


# The `local` driver keeps bytes as they are; json-file replaces what is not UTF-8.
LOG_OPTIONS = {"local": {"max-size": "200m", "max-file": "5"}}


def published_on(container: Container) -> str:
    """The one address to publish on; a name leaves the choice to the engine."""
    import ipaddress

    try:
        return str(ipaddress.ip_address(container.publish))
    except ValueError:
        return ""


def api_mount(mount: Mount) -> dict[str, Any]:
    kind = "volume" if mount.kind == "volume" else "bind"
    return {
        "Type": kind,
        "Source": mount.source,
        "Target": mount.target,
        "ReadOnly": mount.read_only,
    }


def device_requests(container: Container) -> list[dict[str, Any]] | None:
    if not container.gpus:
        return None
    ids = list(container.gpus)
    return [{"Driver": "", "Count": 0, "DeviceIDs": ids, "Capabilities": [["gpu"]], "Options": {}}]
