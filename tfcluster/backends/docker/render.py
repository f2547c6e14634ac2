"""What `up` does on Docker, as scripts for sh and as a compose.yaml: the same containers."""

from __future__ import annotations

import json
import math
import os
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfcluster.backends.docker.containers import (
    CODE_PART,
    FIND_PYTHON,
    LAUNCH,
    Container,
    Mount,
    container_launch,
    container_of,
    launch_volume,
    network_name,
    published_on,
)
from tfcluster.backends.docker.planned import docker_role, site_of
from tfcluster.backends.docker.site import tasks_on
from tfcluster.code.snapshot import archive_bytes
from tfcluster.errors import UsageError
from tfcluster.launch.bundle import source as launcher_source
from tfcluster.launch.plan import LaunchPlan
from tfcluster.plan import Plan
from tfcluster.render import control_key, environment, wrapped

INCLUDED = "/opt/tfcluster/launcher.py"  # where the trainer's image has the launcher
UNPACK = (
    "umask 022 && python3 -c 'import base64, sys, zlib; sys.stdout.buffer.write("
    "zlib.decompress(base64.b64decode(sys.stdin.read())))' > /tfcluster/launcher.py"
)


UNPACK_CODE = (
    "umask 022 && python3 -c 'import base64, sys; sys.stdout.buffer.write("
    f"base64.b64decode(sys.stdin.read()))' > {LAUNCH}/{CODE_PART}"
)


def rendered_containers(plan: Plan, host: str) -> list[Container]:
    """The containers of one host, without a keeper that listens to their launchers."""
    return [
        container_of(plan, plan.content_id, task, report=False) for task in tasks_on(plan, host)
    ]


def is_bundled(plan: Plan) -> bool:
    """Whether the launcher of the trainer's image will do; it may be too old to take code."""
    return plan.code is None and all(docker_role(role).bundled for role in plan.roles)


def rendered_launch(plan: Plan) -> LaunchPlan:
    return container_launch(plan, plan.content_id)


def env_files(plan: Plan) -> dict[str, str]:
    """Where variables from files are read inside containers -> the file on the host."""
    base = Path(site_of(plan).base)
    inside = next(iter(rendered_launch(plan)["roles"].values()))["env_files"]
    found = [os.path.normpath(base / path) for path in plan.roles[0].env_files]
    return dict(zip(inside, found, strict=True))


def grace(plan: Plan) -> int:
    return math.ceil(plan.stop_grace) + 1


# -- Scripts -----------------------------------------------------------------------------------


def render_docker(plan: Plan, *, legacy: bool = False) -> str:
    """The script of the only host."""
    scripts = render_scripts(plan, legacy=legacy)
    if len(scripts) > 1:
        raise UsageError(
            f"the job has {len(scripts)} hosts, and each has a script of its own",
            hint="write them into a folder: tfcluster render --target docker -o FOLDER/",
        )
    return next(iter(scripts.values()))


def render_scripts(plan: Plan, *, legacy: bool = False) -> dict[str, str]:
    """File name -> script, one for every host that has tasks."""
    hosts = [host.name for host in site_of(plan).hosts if tasks_on(plan, host.name)]
    return {script_name(plan, host): script(plan, host, hosts, legacy) for host in hosts}


def script_name(plan: Plan, host: str) -> str:
    return f"{host or plan.job}.sh"


def script(plan: Plan, host: str, hosts: list[str], legacy: bool) -> str:
    containers = rendered_containers(plan, host)
    mounts = [(mount, c.image) for c in containers for mount in c.mounts]
    own = launch_volume(plan.job, plan.content_id)
    volumes = {m.source: image for m, image in mounts if m.kind == "volume" and m.source != own}
    bundled = is_bundled(plan)
    template = environment().get_template("docker/run.sh.j2")
    return template.render(
        plan=plan,
        host=host,
        file=script_name(plan, host),
        tasks=[container.task for container in containers],
        others=[other for other in hosts if other != host],
        containers=containers,
        commands=[(c, run_command(c, bundled, legacy)) for c in containers],
        network=site_of(plan).network or network_name(plan.job),
        own_network=site_of(plan).network is None,
        launch_volume=own,
        folders=sorted({m.source for m, _ in mounts if m.kind == "folder"}),
        volumes=sorted(volumes.items()),
        launch=rendered_launch(plan),
        env_files=env_files(plan),
        shared_key=control_key(plan).hex() if len(hosts) > 1 else "",
        launcher="" if bundled else launcher_source(),
        unpack=UNPACK,
        code=wrapped(archive_bytes(plan.code.digest)) if plan.code else "",
        unpack_code=UNPACK_CODE,
        find_python=FIND_PYTHON,
        grace=grace(plan),
    )


def run_command(container: Container, bundled: bool, legacy: bool) -> str:
    """`docker run` as a person would type it, an option per line, every value quoted."""
    options = run_options(container, legacy)
    if bundled:
        start = [["--entrypoint", "python3"], [container.image]]
        arguments = ["-I", INCLUDED, *container.launcher[1:]]
        tail = shlex.join(arguments)
    else:
        start = [["--entrypoint", "/bin/sh"], [container.image]]
        tail = f'-c "$find_python" tfcluster-launcher {shlex.join(container.launcher)}'
    old = legacy and container.gpus
    # nvidia-docker takes the GPUs from a variable.
    head = f"NV_GPU={shlex.quote(','.join(container.gpus))} nvidia-docker" if old else '"$docker"'
    lines = [f"{head} run --detach", *(shlex.join(option) for option in [*options, *start]), tail]
    return " \\\n  ".join(lines)


def run_options(container: Container, legacy: bool) -> list[list[str]]:
    found = [["--name", container.name], ["--hostname", container.name]]
    found += [["--network", container.network], ["--init"]]
    where = published_on(container)
    at = f"[{where}]" if ":" in where else where
    found += [["--publish", f"{at}:{p}:{p}" if at else f"{p}:{p}"] for p in container.ports]
    found += [["--label", f"{key}={value}"] for key, value in container.labels.items()]
    found += [["--env", f"{key}={value}"] for key, value in container.environment.items()]
    found += [["--mount", mount_option(mount)] for mount in container.mounts]
    if container.user:
        found.append(["--user", container.user])
    if container.hardened:
        found += [["--read-only"], ["--tmpfs", "/tmp:rw,exec,mode=1777"]]
    found.append(["--cap-drop", "ALL"])
    found += [["--cap-add", name] for name in container.capabilities]
    found.append(["--security-opt", "no-new-privileges"])
    found.append(["--pids-limit", str(container.pids_limit)])
    if container.memory:
        found.append(["--memory", f"{container.memory}b", "--memory-swap", f"{container.memory}b"])
    if container.cpus:
        found.append(["--cpus", f"{container.cpus:g}"])
    if container.shm:
        found.append(["--shm-size", f"{container.shm}b"])
    if container.runtime:
        found.append(["--runtime", container.runtime])
    if container.gpus and not legacy:
        found.append(["--gpus", f'"device={",".join(container.gpus)}"'])
    return found


def mount_option(mount: Mount) -> str:
    """As --mount wants it: comma-separated values, in which a comma can be quoted."""
    kind = "volume" if mount.kind == "volume" else "bind"
    fields = [f"type={kind}", f"source={mount.source}", f"target={mount.target}"]
    if mount.read_only:
        fields.append("readonly")
    return ",".join(csv_field(field) for field in fields)


def csv_field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text


# -- Compose -----------------------------------------------------------------------------------

START = (
    'printf %s "$TFCLUSTER_LAUNCH" > /tmp/tfcluster-launch.json; '
    'umask 077; printf %s "$TFCLUSTER_KEY" > /tmp/control.key; umask 022; '
    "unset TFCLUSTER_LAUNCH TFCLUSTER_KEY; " + FIND_PYTHON
)


@dataclass(frozen=True)
class Service(Container):
    """A container as compose writes it."""

    arguments: tuple[str, ...] = ()


def render_compose(plan: Plan) -> str:
    """A compose.yaml of the job; compose knows one engine."""
    site = site_of(plan)
    if len(site.hosts) > 1:
        raise UsageError(
            "compose runs on one engine, and the job has several hosts",
            hint="use --target docker for a script per host, or remove docker.hosts",
        )
    if plan.code:
        raise UsageError(
            "code: compose has no way to bring files into a volume",
            hint="use --target docker, or an image that has the files, without code",
        )
    bundled = is_bundled(plan)
    services = [service(c, bundled) for c in rendered_containers(plan, site.hosts[0].name)]
    env = environment()
    env.filters["compose"] = compose_value
    env.filters["compose_block"] = compose_block
    return env.get_template("compose/compose.yaml.j2").render(
        plan=plan,
        containers=[{**vars(s), "mounts": [compose_mount(m) for m in s.mounts]} for s in services],
        start=START,
        launch_text=json.dumps(compose_launch(plan)),
        key=control_key(plan).hex(),
        secrets=list(env_files(plan).values()),
        network={"name": site.network, "external": True} if site.network else {},
        volumes=sorted({m.source for s in services for m in s.mounts if m.kind == "volume"}),
        launcher="" if bundled else launcher_source(),
        grace=grace(plan),
    )


def compose_launch(plan: Plan) -> LaunchPlan:
    """The launch plan; compose mounts the files with variables as secrets."""
    launch = rendered_launch(plan)
    for role in launch["roles"].values():
        role["env_files"] = [f"/run/secrets/env-{n}" for n in range(len(role["env_files"]))]
    return launch


def service(container: Container, bundled: bool) -> Service:
    """With the launch plan in a variable: compose cannot fill volumes."""
    arguments = list(container.launcher)
    arguments[0] = INCLUDED if bundled else arguments[0]
    arguments[arguments.index("--plan") + 1] = "/tmp/tfcluster-launch.json"
    mounts = tuple(mount for mount in container.mounts if mount.target != LAUNCH)
    return Service(**vars(replace(container, mounts=mounts)), arguments=tuple(arguments))


def compose_mount(mount: Mount) -> dict[str, Any]:
    kind = "volume" if mount.kind == "volume" else "bind"
    return {"type": kind, **{k: getattr(mount, k) for k in ("source", "target", "read_only")}}


def compose_value(value: Any) -> str:
    """JSON, which is YAML; compose would replace $NAME, so every $ is doubled."""
    return json.dumps(value, ensure_ascii=False).replace("$", "$$")


def compose_block(text: str) -> str:
    return "\n".join(
        f"      {line}" if line else "" for line in text.replace("$", "$$").splitlines()
    )
