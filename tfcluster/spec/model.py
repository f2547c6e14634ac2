"""The spec of a job: everything a cluster.yaml can say, as frozen, validated data.

Shape and types are checked here; how the parts fit together is checked in `checks`.
Load specs with tfcluster.spec.loader, which says where each mistake was written.
"""

from __future__ import annotations

import copy
import functools
from typing import Annotated, Any, Literal

from pydantic import Field, PlainValidator, SerializeAsAny, WithJsonSchema

from tfcluster.spec.backends import DockerSection, KubernetesSection, LocalSection
from tfcluster.spec.field_types import (
    Arguments,
    Command,
    Duration,
    Env,
    Frozen,
    Label,
    Seconds,
    Size,
    Text,
    nothing_is,
)
from tfcluster.spec.parts import (
    Code,
    EnvSource,
    ImagePull,
    Ports,
    RequirementsField,
    RestartPolicy,
    Restarts,
    ResultsField,
    Roles,
    RoleSpec,
    Success,
    Volumes,
)
from tfcluster.spec.train import TrainSpec, read_train, train_model

__all__ = ["JobSpec", "RestartPolicy", "RoleSpec", "TrainSpec", "json_schema"]

Backend = Literal["local", "docker", "kubernetes"]
Strategy = Literal["between-graph", "multi-worker", "coordinator", "in-graph"]

OWN_STALL = 300.0  # seconds, for programs that tfcluster knows nothing of
AFTER_RECOVERY = 15.0  # seconds

STRATEGY_OF_ALGORITHM: dict[str, Strategy] = {
    "allreduce": "multi-worker",
    "coordinator": "coordinator",
    "in-graph": "in-graph",
    "model-parallel": "in-graph",
}
STRATEGY_NEEDS: dict[Strategy, dict[str, tuple[str, ...]]] = {
    # strategy -> role -> the roles whose servers it needs
    "between-graph": {"chief": ("ps",), "worker": ("ps",), "evaluator": ("ps",)},
    "multi-worker": {"chief": ("worker",), "worker": ("chief", "worker")},
    "coordinator": {"chief": ("ps", "worker")},
    "in-graph": {"chief": ("ps", "worker"), "worker": ("ps",)},
}


class JobSpec(Frozen):
    """A job for a cluster of TensorFlow tasks."""

    name: Label = Field(description="The job's name; every task's name starts with it.")
    backend: Backend = Field(
        default="local", description="Where the job runs; --backend overrides it."
    )
    train: Annotated[
        SerializeAsAny[TrainSpec] | None, PlainValidator(read_train), WithJsonSchema({})
    ] = Field(default=None, description="Trains with the bundled trainer, with these settings.")
    image: Text | None = Field(
        default=None, description="The container image; the trainer's own for train, or with code."
    )
    command: Command | None = Field(
        default=None, description="Your own program instead of train, as a list."
    )
    args: Arguments = Field(
        default=[],
        description="The program's arguments; $(TASK), $(INDEX), $(PS_HOSTS) and the like are"
        " filled in per task.",
    )
    code: Code | None = Field(
        default=None,
        description="Your program's files, brought to every task: a folder, or folder, ignore,"
        " allow, limit and live.",
    )
    requirements: RequirementsField | None = Field(
        default=None,
        description="Python packages that your program needs: a requirements file, or a list.",
    )
    env: Env = Field(default={}, description="Environment variables of every task.")
    env_from: Annotated[list[EnvSource], nothing_is(list)] = Field(
        default=[], description="More variables, from files, secrets or config maps."
    )
    workdir: Text | None = Field(default=None, description="The folder that programs run in.")
    volumes: Volumes = Field(default=[], description="What is mounted into every task.")
    ports: Annotated[Ports, nothing_is(dict)] = Field(
        default=Ports(), description="The ports of tasks that have their own address."
    )
    strategy: Strategy | None = Field(
        default=None, description="How your own program distributes its work; shapes TF_CONFIG."
    )
    roles: Roles = Field(description="The roles and how many tasks each has.")
    success: Success | None = Field(
        default=None,
        description="Whose success ends the job: one role's, several roles', or that of all that do"
        " not serve for ever; if unset the chief's, else the workers', else all.",
    )
    restarts: Restarts = Field(
        default=RestartPolicy(), description="Restarts of each task: a number, or limit and on."
    )
    start_timeout: Duration = Field(
        default=120.0, description="How long tasks wait for each other to start."
    )
    deadline: Duration | None = Field(
        default=None, description="When the whole job must have ended."
    )
    stall_timeout: Duration | None = Field(
        default=None,
        description="How long a task may stand still: stopped, not answering, or without progress"
        " after it has reported some; if unset 15 s more than the trainer's recovery_seconds, or"
        " 5 minutes for your own program.",
    )
    on_stall: Literal["report", "restart", "fail"] | None = Field(
        default=None,
        description="What happens to a task that stands still and keeps the others waiting: it is"
        " reported, restarted as after a failure, or fails the job; if unset restart with train,"
        " else report.",
    )
    stop_grace: Seconds = Field(
        default=10.0, description="How long a task may take to stop before it is killed."
    )
    barrier: Literal["tasks", "ports"] = Field(
        default="tasks",
        description="What programs wait for: every task's launcher, or the ports they need.",
    )
    shm: Size | None = Field(default=None, description="Shared memory of each task.")
    image_pull: Annotated[ImagePull, nothing_is(dict)] = Field(
        default=ImagePull(), description="When and how images are pulled."
    )
    logdir: Text | None = Field(
        default=None, description="The folder for TensorBoard logs and results."
    )
    checkpoints: Text | None = Field(default=None, description="The folder for checkpoints.")
    results: ResultsField | None = Field(
        default=None,
        description="What comes back to your folder at the end: patterns of files in"
        " $TFCLUSTER_OUTPUT, or files, to, limit and wait.",
    )
    tensorboard: bool = Field(
        default=False, description="Whether a TensorBoard runs next to the job."
    )
    local: Annotated[LocalSection, nothing_is(dict)] = Field(
        default=LocalSection(), description="Settings of the local backend."
    )
    docker: Annotated[DockerSection, nothing_is(dict)] = Field(
        default=DockerSection(), description="Settings of the docker backend."
    )
    kubernetes: Annotated[KubernetesSection, nothing_is(dict)] = Field(
        default=KubernetesSection(), description="Settings of the kubernetes backend."
    )

    @property
    def algorithm(self) -> str | None:
        """The trainer's algorithm; None for a program of one's own."""
        return None if self.train is None else self.train.algorithm_for("ps" in self.roles)

    @property
    def effective_strategy(self) -> Strategy:
        """The strategy given, or the one that the algorithm implies."""
        if self.algorithm is not None:
            return STRATEGY_OF_ALGORITHM.get(self.algorithm, "between-graph")
        return self.strategy or "between-graph"

    def needs_of(self, role: str) -> tuple[str, ...]:
        """The roles of this spec whose servers the role needs."""
        needs = STRATEGY_NEEDS[self.effective_strategy].get(role, ())
        return tuple(need for need in needs if need in self.roles)

    @property
    def listening_roles(self) -> frozenset[str]:
        """The roles that others need, and whose programs only answer them: they must listen."""
        needed = {
            need
            for name, role in self.roles.items()
            for need in self.needs_of(name)
            if need != name or role.replicas > 1
        }
        all_answer = self.effective_strategy in ("coordinator", "in-graph")
        return frozenset(name for name in needed if name == "ps" or all_answer)

    @property
    def serving_roles(self) -> tuple[str, ...]:
        """The roles that serve for ever: declared, or needed by others and not named in success."""
        assumed = self.listening_roles - {self.role_meant(name) for name in self.success_names}
        return tuple(
            name
            for name, role in self.roles.items()
            if (name in assumed if role.serves is None else role.serves)
        )

    @property
    def success_names(self) -> tuple[str, ...]:
        """The names written under success; none if it is unset or all."""
        if isinstance(self.success, list):
            return tuple(self.success)
        return () if self.success in (None, "all") else (self.success,)

    def role_meant(self, name: str) -> str:
        """The role that a name under success stands for: "workers" is the role worker."""
        return "worker" if name == "workers" and name not in self.roles else name

    @property
    def success_roles(self) -> tuple[str, ...]:
        """The roles whose tasks must all succeed for the job to succeed, in the order of roles."""
        named = {self.role_meant(name) for name in self.success_names}
        if named:
            return tuple(name for name in self.roles if name in named)
        ending = tuple(name for name in self.roles if name not in self.serving_roles)
        for name in ("chief", "worker") if self.success is None else ():
            if name in ending:
                return (name,)
        return ending

    @property
    def effective_stall(self) -> tuple[float, str]:
        """After how many seconds a task stands still, and what is done about it.

        The trainer's tasks give up by themselves after recovery_seconds, and know why.
        """
        recovery = getattr(self.train, "recovery_seconds", None)
        usual = OWN_STALL if recovery is None else recovery + AFTER_RECOVERY
        action = self.on_stall or ("report" if self.train is None else "restart")
        return usual if self.stall_timeout is None else self.stall_timeout, action

    def restarts_of(self, role: str) -> RestartPolicy:
        """The role's own restart policy, or the job's."""
        return self.roles[role].restarts or self.restarts


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of cluster.yaml, for editors and for --set."""
    return copy.deepcopy(_schema_with(train_model()))


@functools.cache
def _schema_with(train_section: type[TrainSpec]) -> dict[str, Any]:
    schema = JobSpec.model_json_schema()
    train = train_section.model_json_schema()
    train["title"] = "TrainSpec"
    definitions = schema.setdefault("$defs", {})
    definitions.update(train.pop("$defs", {}))
    definitions["TrainSpec"] = train
    schema["properties"]["train"] = {
        "anyOf": [{"$ref": "#/$defs/TrainSpec"}, {"type": "null"}],
        "default": None,
        "description": JobSpec.model_fields["train"].description,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "tfcluster job",
    }
