"""The sections of a spec that only one backend reads."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, model_validator

from tfcluster.similar import did_you_mean
from tfcluster.spec.field_types import (
    Duration,
    FreeForm,
    Frozen,
    Label,
    Size,
    Text,
    matching,
    nothing_is,
    shown,
    wrong,
)

_ENGINE = re.compile(r"(?:ssh|unix|tcp|npipe)://\S+|[A-Za-z0-9][\w.+-]*")


def _port_range(value: str) -> str:
    match = re.fullmatch(r"([0-9]{1,5})-([0-9]{1,5})", value)
    if match is None:
        raise wrong(f"expected two ports, got {shown(value)}", 'write "20000-32000"')
    first, last = int(match[1]), int(match[2])
    if not 1024 <= first <= last <= 65535:
        raise wrong(f"expected ports from 1024 to 65535, the smaller first, got {shown(value)}")
    return value


def _engine(value: str) -> str:
    if _ENGINE.fullmatch(value) is None:
        hint = "write a context's name, ssh://user@host or unix:///var/run/docker.sock"
        raise wrong(f"expected a Docker context or an engine's URL, got {shown(value)}", hint)
    return value


def _gpu(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"[\w.:/-]+", value):
        return value
    raise wrong(f"expected a GPU's number or UUID, got {shown(value)}")


# What Linux calls them, without CAP_.
CAPABILITIES = {
    *("AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF"),
    *("CHECKPOINT_RESTORE", "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID"),
    *("IPC_LOCK", "IPC_OWNER", "KILL", "LEASE", "LINUX_IMMUTABLE", "MAC_ADMIN"),
    *("MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_RAW"),
    *("PERFMON", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT"),
    *("SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "WAKE_ALARM"),
}


def _capability(value: str) -> str:
    name = value.upper().removeprefix("CAP_")
    if name == "ALL":
        raise wrong("ALL would take every guard away", "name the capabilities that are needed")
    if name not in CAPABILITIES:
        hint = did_you_mean(name, CAPABILITIES) or "names are as in SYS_PTRACE: man 7 capabilities"
        raise wrong(f"expected a Linux capability, got {shown(value)}", hint)
    return name


_GPU_SCHEMA = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}
Gpu = Annotated[int | str, PlainValidator(_gpu), WithJsonSchema(_GPU_SCHEMA)]


class LocalSection(Frozen):
    """What the local backend needs to know."""

    gpus: list[Gpu] | None = Field(
        default=None, description="The GPUs to divide among tasks, by number or UUID; all if unset."
    )
    port_range: Annotated[str, AfterValidator(_port_range)] = Field(
        default="20000-32000", description="Where free ports are looked for, first and last."
    )

    @property
    def ports(self) -> range:
        """The ports of `port_range`."""
        first, last = self.port_range.split("-")
        return range(int(first), int(last) + 1)


class DockerHost(Frozen):
    """One machine with a Docker engine."""

    name: Label = Field(description="What the host is called here.")
    engine: Annotated[Text, AfterValidator(_engine)] = Field(
        description="Its Docker context, or an ssh://, unix:// or tcp:// URL."
    )
    address: Text = Field(description="The address at which the other hosts reach it.")
    tasks: list[Text] | None = Field(
        default=None, description="The tasks (worker-1) or roles it runs; shared out if unset."
    )
    gpus: list[Gpu] | None = Field(
        default=None, description="Its GPUs to divide, by number or UUID; docker.gpus if unset."
    )


class DockerSection(Frozen):
    """What the docker backend needs to know."""

    hosts: Annotated[list[DockerHost], nothing_is(list)] = Field(
        default=[], description="The hosts to run on; the current Docker context if empty."
    )
    network: Text | None = Field(
        default=None, description="An existing network to join instead of the job's own."
    )
    runtime: Text | None = Field(default=None, description="The container runtime, such as nvidia.")
    gpus: list[Gpu] | None = Field(
        default=None,
        description="The GPUs of each host to divide among its tasks, by number or UUID; counted"
        " from 0 if unset.",
    )
    capabilities: Annotated[
        list[Annotated[Text, AfterValidator(_capability)]], nothing_is(list)
    ] = Field(
        default=[],
        description="Capabilities that programs of your own images get besides those they keep,"
        " as in [SYS_PTRACE].",
    )
    pids_limit: Annotated[int, Field(ge=64, le=4194304)] = Field(
        default=4096,
        description="How many processes and threads a task's container may have at once.",
    )


class Toleration(Frozen):
    """A node taint that the job's pods accept, in Kubernetes' words."""

    key: Text | None = Field(default=None, description="The taint's key; every key if unset.")
    operator: Literal["Equal", "Exists"] = Field(
        default="Equal", description="Whether the value must be equal or any value will do."
    )
    value: str | None = Field(default=None, description="The taint's value.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="The taint's effect; every effect if unset."
    )
    toleration_seconds: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="How long a NoExecute taint is borne."
    )


class ResourceClaim(Frozen):
    """Devices by dynamic resource allocation: an existing claim, or a template for new ones."""

    name: Label = Field(description="What the claim is called inside the pod.")
    claim: Text | None = Field(default=None, description="An existing ResourceClaim to share.")
    template: Text | None = Field(
        default=None, description="A ResourceClaimTemplate; every pod gets a claim of its own."
    )

    @model_validator(mode="after")
    def _one_source(self) -> ResourceClaim:
        if (self.claim is None) == (self.template is None):
            raise wrong("a resource claim takes either claim or template")
        return self


class Storage(Frozen):
    """A PersistentVolumeClaim of the job's own, for what its tasks write."""

    size: Size = Field(description="How much room to claim, as in 10Gi.")
    storage_class: Text | None = Field(
        default=None, description="The storage class; the cluster's default if unset."
    )
    access: Literal["ReadWriteOnce", "ReadWriteMany"] = Field(
        default="ReadWriteOnce",
        description="Whether pods of one node share it or of any; not every class can do the"
        " latter.",
    )


class KubernetesSection(Frozen):
    """What the kubernetes backend needs to know."""

    namespace: Label | None = Field(
        default=None, description="The namespace; the context's own if unset."
    )
    context: Text | None = Field(
        default=None, description="The kubeconfig context; naming it pins the job to it."
    )
    node_selector: Annotated[dict[str, str], nothing_is(dict)] = Field(
        default={}, description="The labels that a node must have."
    )
    tolerations: Annotated[list[Toleration], nothing_is(list)] = Field(
        default=[], description="The node taints that pods accept."
    )
    affinity: FreeForm = Field(default={}, description="A pod's affinity, as Kubernetes writes it.")
    spread: Literal["host", "zone", "one-per-host"] | None = Field(
        default=None,
        description="Spreads a role's tasks evenly over hosts or zones, or lets no two share a"
        " host.",
    )
    ps_near_workers: bool = Field(
        default=False, description="Prefers hosts with workers for parameter servers."
    )
    runtime_class: Text | None = Field(default=None, description="The pods' runtime class.")
    priority_class: Text | None = Field(default=None, description="The pods' priority class.")
    service_account: Text | None = Field(
        default=None, description="The pods' service account; its token is not mounted."
    )
    queue: Text | None = Field(default=None, description="The Kueue queue that admits the job.")
    gang: Literal["native", "volcano", "coscheduling"] | None = Field(
        default=None,
        description="Places all tasks or none: by Kubernetes 1.36 itself, Volcano or"
        " scheduler-plugins.",
    )
    gpu_resource: Text = Field(
        default="nvidia.com/gpu", description="The resource that a GPU is requested as."
    )
    resource_claims: Annotated[list[ResourceClaim], nothing_is(list)] = Field(
        default=[], description="Devices by dynamic resource allocation."
    )
    storage: Storage | None = Field(
        default=None,
        description="A claim for checkpoints and summaries, which outlives pods and down.",
    )
    ttl: Duration | None = Field(
        default=None, description="Deletes Jobs and pods so long after they ended; never if unset."
    )
    registry: (
        Annotated[
            Text,
            matching(r"^[A-Za-z0-9][A-Za-z0-9.:/_-]*$", "expected a registry, and a path in it"),
        ]
        | None
    ) = Field(
        default=None,
        description="Where images with requirements are pushed, and pulled from by the nodes.",
    )
    pod_template: FreeForm = Field(
        default={}, description="A PodTemplateSpec that is merged over every task's own."
    )
