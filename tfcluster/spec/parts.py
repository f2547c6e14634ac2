"""The parts of a spec that every backend reads: roles, volumes, restarts, ports."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from tfcluster.spec.field_types import (
    Arguments,
    Command,
    Env,
    Frozen,
    Seconds,
    Size,
    Text,
    matching,
    nothing_is,
    shown,
    wrong,
)

MAX_REPLICAS = 10_000
MAX_TASKS = 20_000
MAX_ROLES = 100


def exactly_one(part: Frozen, names: tuple[str, ...], what: str) -> None:
    """Refuses a part that gives none or several of these keys."""
    given = [name for name in names if getattr(part, name) is not None]
    if not given:
        raise wrong(f"{what} needs one of {', '.join(names)}")
    if len(given) > 1:
        raise wrong(f"{what} takes one of {', '.join(names)}, got {' and '.join(given)}")


class EnvSource(Frozen):
    """Where more environment variables come from, by reference: nothing secret in the spec."""

    file: Text | None = Field(default=None, description="A file of NAME=value lines.")
    secret: Text | None = Field(default=None, description="A Kubernetes Secret, by name.")
    config_map: Text | None = Field(default=None, description="A Kubernetes ConfigMap, by name.")

    @model_validator(mode="after")
    def _one_source(self) -> EnvSource:
        exactly_one(self, ("file", "secret", "config_map"), "an env_from entry")
        return self


class Volume(Frozen):
    """Something mounted into every task: a folder, a named volume, a claim, a secret."""

    source: Text | None = Field(default=None, description="A folder or file of the host.")
    name: Text | None = Field(default=None, description="A named Docker volume.")
    claim: Text | None = Field(default=None, description="A Kubernetes PersistentVolumeClaim.")
    secret: Text | None = Field(default=None, description="A Kubernetes Secret.")
    config_map: Text | None = Field(default=None, description="A Kubernetes ConfigMap.")
    target: Annotated[Text, matching(r"^/[^\0\n]*$", "expected an absolute path")] = Field(
        description="Where the task finds it, an absolute path."
    )
    read_only: bool = Field(default=False, description="Whether the task may not write to it.")

    @model_validator(mode="after")
    def _one_source(self) -> Volume:
        exactly_one(self, ("source", "name", "claim", "secret", "config_map"), "a volume")
        return self


class CodeSpec(Frozen):
    """Your program's files: the same ones at the same place in every task, without an image."""

    folder: Text = Field(
        default=".", description="The folder that is sent; relative to the spec's own."
    )
    ignore: Annotated[list[Text], nothing_is(list)] = Field(
        default=[],
        description="What is left out, written as in .gitignore; .gitignore and .tfclusterignore"
        " of the folder count as well.",
    )
    allow: Annotated[list[Text], nothing_is(list)] = Field(
        default=[], description="Files that look like secrets and are none, as in .gitignore."
    )
    limit: Size | None = Field(
        default=None, description="The most that all files together may have; 100Mi if unset."
    )
    live: bool = Field(
        default=False,
        description="Local processes use the folder itself, and see what changes in it.",
    )


def _code(value: Any) -> Any:
    if isinstance(value, str):
        return {"folder": value}
    if value is not None and not isinstance(value, (dict, CodeSpec)):
        hint = "write code: ., or code: {folder: ., ignore: [data/]}"
        raise wrong(f"expected a folder or a mapping, got {shown(value)}", hint)
    return value


Code = Annotated[CodeSpec, BeforeValidator(_code, json_schema_input_type=str | CodeSpec)]


class ResultsSpec(Frozen):
    """What comes back to your folder at the end, from $TFCLUSTER_OUTPUT of each task."""

    files: Annotated[list[Text], nothing_is(list)] = Field(
        default=["*"], description='Patterns of paths or names, as in ["*.keras", "logs/*"].'
    )
    to: Text = Field(
        default="results", description="The folder; each run has one of its own in it."
    )
    limit: Size | None = Field(
        default=None, description="The most that is brought of one task; 100Mi if unset."
    )
    wait: Seconds = Field(
        default=60.0,
        description="Kubernetes: how long a pod that has ended waits until its files are fetched.",
    )


def _results(value: Any) -> Any:
    if isinstance(value, list):
        return {"files": value}
    if value is not None and not isinstance(value, (dict, ResultsSpec)):
        hint = 'write results: ["*"], or results: {files: ["*.keras"], limit: 1Gi}'
        raise wrong(f"expected a list or a mapping, got {shown(value)}", hint)
    return value


ResultsField = Annotated[
    ResultsSpec, BeforeValidator(_results, json_schema_input_type=list[str] | ResultsSpec)
]


def _requirements(value: Any) -> Any:
    if value is None or (isinstance(value, str) and value):
        return value
    if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
        return value
    hint = 'write requirements: requirements.txt, or requirements: ["einops>=0.8"]'
    raise wrong(f"expected a file or a list of packages, got {shown(value)}", hint)


RequirementsField = Annotated[
    str | list[str], BeforeValidator(_requirements, json_schema_input_type=str | list[str])
]


class RestartPolicy(Frozen):
    """How often a task's program is started again, and after which exit codes."""

    limit: int = Field(default=3, ge=0, le=1000, description="Restarts per task; 0 for none.")
    on: list[Annotated[int, Field(ge=1, le=255)]] | None = Field(
        default=None, description="The exit codes that are worth a restart; all if unset."
    )


def _restarts(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return {"limit": value}
    if value is not None and not isinstance(value, (dict, RestartPolicy)):
        hint = "write restarts: 3, or restarts: {limit: 3, on: [1, 137]}"
        raise wrong(f"expected an integer or a mapping, got {shown(value)}", hint)
    return value


Restarts = Annotated[
    RestartPolicy, BeforeValidator(_restarts, json_schema_input_type=int | RestartPolicy)
]
Volumes = Annotated[list[Volume], nothing_is(list)]


class Ports(Frozen):
    """The ports that tasks listen on where each task has an address of its own."""

    tensorflow: int = Field(default=2222, ge=1, le=65535, description="TensorFlow's gRPC port.")
    control: int = Field(default=2223, ge=1, le=65535, description="The launcher's control port.")


class ImagePull(Frozen):
    """When and with which credentials images are pulled."""

    policy: Literal["always", "missing", "never"] = Field(
        default="missing", description="When the image is pulled."
    )
    secrets: Annotated[list[Text], nothing_is(list)] = Field(
        default=[], description="Kubernetes image pull secrets, by name."
    )


class RoleSpec(Frozen):
    """One role of the job: how many tasks, what each gets, and what it does differently."""

    replicas: int = Field(
        default=1, ge=1, le=MAX_REPLICAS, description="How many tasks the role has."
    )
    gpus: int = Field(default=0, ge=0, le=1024, description="GPUs for each task.")
    cpu: Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)] | None = Field(
        default=None, description="CPU cores for each task; fractions are fine."
    )
    memory: Size | None = Field(default=None, description="Memory for each task, such as 2Gi.")
    image: Text | None = Field(default=None, description="The image, instead of the job's.")
    command: Command | None = Field(default=None, description="The program, instead of the job's.")
    args: Arguments | None = Field(default=None, description="The arguments, instead of the job's.")
    env: Env = Field(default={}, description="Variables on top of the job's.")
    workdir: Text | None = Field(
        default=None, description="The folder to run in, instead of the job's."
    )
    volumes: Volumes = Field(default=[], description="Volumes on top of the job's.")
    restarts: Restarts | None = Field(default=None, description="Restarts, instead of the job's.")
    serves: bool | None = Field(
        default=None,
        description="This role serves for ever: it is ended when the job has succeeded, and is not"
        " waited for. If unset, true for a ps that others need and for the workers of a coordinator"
        " or in-graph strategy.",
    )


Role = Annotated[RoleSpec, nothing_is(dict)]


def in_order(roles: dict[str, RoleSpec]) -> dict[str, RoleSpec]:
    """The roles in the order in which they are shown: chief, ps, worker, evaluator, others."""
    known = ["chief", "ps", "worker", "evaluator"]
    names = [name for name in known if name in roles]
    names += sorted(name for name in roles if name not in known)
    return {name: roles[name] for name in names}


Roles = Annotated[dict[str, Role], AfterValidator(in_order), nothing_is(dict)]


def _success(value: Any) -> str | list[str]:
    names = value if isinstance(value, list) else [value]
    if not names:
        raise wrong("expected at least one role, got an empty list", "write all, or name a role")
    for name in names:
        if not isinstance(name, str) or not name:
            hint = "write success: learner, or success: [chief, evaluator]"
            raise wrong(f"expected a role's name or a list of them, got {shown(name)}", hint)
    return list(names) if isinstance(value, list) else str(value)


_SUCCESS_SCHEMA = {
    "anyOf": [
        {"type": "string", "enum": ["chief", "workers", "all"]},
        {"type": "string", "minLength": 1, "x-kind": "a role"},
        {
            "type": "array",
            "minItems": 1,
            "items": {"type": "string", "minLength": 1, "x-kind": "roles"},
        },
    ]
}
Success = Annotated[str | list[str], PlainValidator(_success), WithJsonSchema(_SUCCESS_SCHEMA)]
