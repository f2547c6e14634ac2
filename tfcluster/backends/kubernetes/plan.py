"""From a spec to a plan of pods, refusing what a cluster cannot honour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from tfcluster.backends.kubernetes.site import (
    KubernetesRole,
    KubernetesSite,
    Mount,
    Ports,
    Storage,
)
from tfcluster.checkpoints import CheckpointFolder
from tfcluster.code.delivery import CODE, check_packed, count_parts
from tfcluster.code.planned import CodePlan
from tfcluster.errors import UsageError
from tfcluster.plan import Plan, Site, plan_job
from tfcluster.requirements import Requirements, read_requirements

if TYPE_CHECKING:
    from tfcluster.archive import Run
    from tfcluster.code.snapshot import Snapshot
    from tfcluster.spec.backends import Toleration
    from tfcluster.spec.model import JobSpec
    from tfcluster.spec.parts import Volume

OUTPUT = "/output"
PULL = {"always": "Always", "missing": "IfNotPresent", "never": "Never"}
OWN_PATHS = ("/tfcluster", "/tmp", "/dev/shm")


def plan(spec: JobSpec, run: Run | None, base: Path, code: Snapshot | None = None) -> Plan:
    """The plan of this spec in a cluster: addresses are names, the same in every run."""
    check(spec)
    ports = spec.ports
    wanted = read_requirements(spec, base)

    def address(role: str, index: int) -> tuple[str, str]:
        host = f"{spec.name}-{role}-{index}.{spec.name}"
        return f"{host}:{ports.tensorflow}", f"{host}:{ports.control}"

    def planned(logdir: str) -> Plan:
        site = Site(
            backend="kubernetes",
            python="python3",
            address=address,
            logdir=logdir,
            checkpoints=f"{logdir.rstrip('/')}/checkpoints",
            container=lambda role: container(spec, role, wanted).to_dict(),
            code=planned_code(code),
            hands_over=True,
        )
        return plan_job(spec, site)

    made = planned(spec.logdir or OUTPUT)
    run_id = run.id if run else made.content_id
    if spec.kubernetes.storage and spec.logdir is None:
        # The claim outlives the run, so every run has a folder of its own there.
        made = planned(f"{OUTPUT}/{run_id}")
    settings = KubernetesSite(
        run=run_id,
        namespace=spec.kubernetes.namespace,
        context=spec.kubernetes.context,
        gang=spec.kubernetes.gang,
        queue=spec.kubernetes.queue,
        ports=Ports(ports.tensorflow, ports.control),
        tensorboard=spec.tensorboard,
        storage=storage(spec),
        ttl=spec.kubernetes.ttl,
    )
    return replace(made, site=settings.to_dict())


def planned_code(code: Snapshot | None) -> CodePlan | None:
    if code is None:
        return None
    check_packed(code)
    return CodePlan.of(code, CODE, tuple(f"/tfcluster/code.{n}" for n in range(count_parts(code))))


def storage(spec: JobSpec) -> Storage | None:
    """The job's own claim and where it is mounted."""
    wanted = spec.kubernetes.storage
    if wanted is None:
        return None
    return Storage(**wanted.model_dump(), claim=f"{spec.name}-output", target=OUTPUT)


def checkpoint_folder(spec: JobSpec, run: Run | None) -> CheckpointFolder | None:
    """Where checkpoints are, if on a claim: pods take with them what is elsewhere."""
    given = spec.checkpoints or (spec.logdir and f"{spec.logdir.rstrip('/')}/checkpoints")
    if given:
        return CheckpointFolder(f"{given} of a claim") if claimed(spec, given) else None
    stored = spec.kubernetes.storage is not None and run is not None
    return CheckpointFolder(f"{OUTPUT}/{run.id} of the job's claim") if stored and run else None


def container(spec: JobSpec, name: str, wanted: Requirements | None) -> KubernetesRole:
    """What the role's pods are made of."""
    from tfcluster.layers import layered

    role, cluster = spec.roles[name], spec.kubernetes
    below = role.image or spec.image or bundled_image(spec)
    loaded = wanted is not None and cluster.registry is None  # there is nowhere to pull it from
    claims = [claim.model_dump(exclude_none=True) for claim in cluster.resource_claims]
    return KubernetesRole(
        image=layered(below, wanted, cluster.registry),
        pull=PULL["missing" if loaded else spec.image_pull.policy],
        pull_secrets=tuple(spec.image_pull.secrets),
        env_from=tuple(reference(source.secret, source.config_map) for source in spec.env_from),
        volumes=tuple(mount(volume) for volume in (*spec.volumes, *role.volumes)),
        shm=str(spec.shm) if spec.shm is not None else None,
        memory=str(role.memory) if role.memory is not None else None,
        gpu_resource=cluster.gpu_resource,
        claims=tuple(claims) if name != "ps" else (),
        node_selector=dict(cluster.node_selector),
        tolerations=tuple(toleration(entry) for entry in cluster.tolerations),
        affinity=cluster.affinity,
        spread=cluster.spread,
        ps_near_workers=cluster.ps_near_workers,
        runtime_class=cluster.runtime_class,
        priority_class=cluster.priority_class,
        service_account=cluster.service_account,
        pod_template=cluster.pod_template,
        queue=cluster.queue,
    )


def bundled_image(spec: JobSpec) -> str:
    from tfcluster.images import trainer_image

    return trainer_image(gpu=any(role.gpus for role in spec.roles.values()))


def reference(secret: str | None, config_map: str | None) -> dict[str, Any]:
    if secret is not None:
        return {"secretRef": {"name": secret}}
    return {"configMapRef": {"name": config_map}}


def mount(volume: Volume) -> Mount:
    kinds = {"claim": volume.claim, "secret": volume.secret, "config_map": volume.config_map}
    kind, name = next((key, value) for key, value in kinds.items() if value is not None)
    return Mount(kind, str(name), volume.target, volume.read_only)


def toleration(entry: Toleration) -> dict[str, Any]:
    data = entry.model_dump(exclude_none=True)
    seconds = data.pop("toleration_seconds", None)
    return data if seconds is None else {**data, "tolerationSeconds": seconds}


# -- What cannot be honoured -------------------------------------------------------------------


def check(spec: JobSpec) -> None:
    """Raise unless a cluster could run the spec as it is written. Asks no cluster."""
    for problem in problems(spec):
        raise problem


def problems(spec: JobSpec) -> Iterator[UsageError]:
    yield from volume_problems(spec)
    for source in spec.env_from:
        if source.file is not None:
            yield UsageError(
                f"env_from: the file {source.file} is on this machine, pods run elsewhere",
                hint=f"kubectl create secret generic NAME --from-env-file={source.file}, then "
                "env_from: [{secret: NAME}]",
            )
    for key in ("logdir", "checkpoints"):
        path = getattr(spec, key)
        if path is not None and not path.startswith("/"):
            yield UsageError(
                f'{key}: "{path}" has to be an absolute path inside the containers',
                hint="for example /output, with a volume (claim) mounted there",
            )
    yield from workdir_problems(spec)
    yield from template_problems(spec)
    yield from storage_problems(spec)
    if spec.tensorboard and not claimed(spec, spec.logdir or OUTPUT):
        yield UsageError(
            f"tensorboard: its pod sees {spec.logdir or OUTPUT} only if a volume is shared",
            hint="kubernetes: {storage: {size: 10Gi}}, or "
            "volumes: [{claim: NAME, target: " + (spec.logdir or OUTPUT) + "}]",
        )


def workdir_problems(spec: JobSpec) -> Iterator[UsageError]:
    for name, role in spec.roles.items():
        workdir = role.workdir or spec.workdir
        if workdir is not None and not workdir.startswith("/") and spec.code is None:
            yield UsageError(
                f"roles.{name}: workdir {workdir} is a folder in the container, and not absolute",
                hint="write an absolute path; or bring your files there with code: .",
            )


def storage_problems(spec: JobSpec) -> Iterator[UsageError]:
    storage, spread = spec.kubernetes.storage, spec.kubernetes.spread
    several = any(role.replicas > 1 for role in spec.roles.values())
    if storage and storage.access == "ReadWriteOnce" and spread and several:
        yield UsageError(
            f"kubernetes: spread: {spread} wants several nodes, and storage with access: "
            "ReadWriteOnce can be mounted on one only",
            hint="storage: {access: ReadWriteMany}, if the storage class can; or leave spread out",
        )


def volume_problems(spec: JobSpec) -> Iterator[UsageError]:
    volumes = [("volumes", volume) for volume in spec.volumes]
    for name, role in spec.roles.items():
        volumes += [(f"roles.{name}.volumes", volume) for volume in role.volumes]
    for where, volume in volumes:
        if volume.source is not None:
            yield UsageError(
                f"{where}: {volume.source} is a folder of this machine, pods run elsewhere",
                hint="copy it into the image or a claim; a node's own folder: "
                "kubernetes.pod_template with a hostPath volume",
            )
        if volume.name is not None:
            yield UsageError(
                f'{where}: "{volume.name}" is a Docker volume',
                hint="use claim: NAME, a PersistentVolumeClaim of the namespace",
            )
        own = (*OWN_PATHS, *([OUTPUT] if spec.kubernetes.storage else []))
        if volume.target.rstrip("/") in ("", *own):
            yield UsageError(f"{where}: nothing can be mounted at {volume.target}")


def template_problems(spec: JobSpec) -> Iterator[UsageError]:
    template = spec.kubernetes.pod_template
    unknown = sorted(set(template) - {"metadata", "spec"})
    if unknown:
        yield UsageError(
            f"kubernetes.pod_template: unknown key {unknown[0]}",
            hint="a pod template has metadata and spec",
        )
    pod = template.get("spec") or {}
    containers = pod.get("containers") if isinstance(pod, dict) else None
    for entry in containers or []:
        if not isinstance(entry, dict) or not entry.get("name"):
            yield UsageError(
                "kubernetes.pod_template: every container needs a name",
                hint='the task\'s own container is called "task"',
            )


def claimed(spec: JobSpec, path: str) -> bool:
    """Whether a path lies on a volume that all pods share."""
    targets = [volume.target for volume in spec.volumes if volume.claim is not None]
    targets += [OUTPUT] if spec.kubernetes.storage else []
    return any(PurePosixPath(path).is_relative_to(target) for target in targets)
