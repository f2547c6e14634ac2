"""How the parts of a spec fit together: one small check per rule, all of them always run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from tfcluster.redaction import looks_secret
from tfcluster.similar import closest, did_you_mean
from tfcluster.spec.ending import some_role_ends, success_names_roles_that_end
from tfcluster.spec.field_types import DNS_LABEL
from tfcluster.spec.findings import Finding, Path
from tfcluster.spec.model import JobSpec
from tfcluster.spec.parts import MAX_ROLES, MAX_TASKS, Volume

MAX_NAME = 63
TRAINER_ROLES = ("chief", "ps", "worker", "evaluator")
PS_ALGORITHMS = frozenset(
    {
        *("hogwild", "async", "sync", "downpour", "downpour-sgd", "agn", "sagn", "dynsgd"),
        *("easgd", "aeasgd", "aeamsgd", "coordinator"),
    }
)
CHIEF_ALGORITHMS = frozenset({"coordinator", "in-graph"})
NO_PS_ALGORITHMS = frozenset({"allreduce", "model-parallel"})
ONE_PROCESS_ALGORITHMS = frozenset({"single", "towers", "sweep", "ensemble"})
_RESERVED_ENV = re.compile(r"TF_CONFIG|TFCLUSTER_.*")

Check = Callable[[JobSpec], Iterator[Finding]]


def check_spec(spec: JobSpec) -> list[Finding]:
    """Every mistake of sense in a spec whose shape is right."""
    too_many = list(_counts(spec))
    if too_many:
        # Nothing else is worth the time that it would take.
        return too_many
    return [finding for check in CHECKS for finding in check(spec)]


def warnings_of(spec: JobSpec) -> tuple[str, ...]:
    """What is allowed but probably not meant."""
    out = [
        f"{where}.{name}: a secret should not be written into the spec; use env_from"
        for where, env in _envs(spec)
        for name, value in env.items()
        if looks_secret(name) and value
    ]
    for role in spec.roles:
        match = closest(role, TRAINER_ROLES)
        if role not in TRAINER_ROLES and match is not None:
            out.append(f'roles.{role}: TensorFlow knows no role "{role}"; did you mean "{match}"?')
    return tuple(out)


def _envs(spec: JobSpec) -> Iterator[tuple[str, dict[str, str]]]:
    yield "env", spec.env
    for name, role in spec.roles.items():
        yield f"roles.{name}.env", role.env


def _some_role(spec: JobSpec) -> Iterator[Finding]:
    if not spec.roles:
        hint = "for example roles: {worker: {replicas: 2}}"
        yield Finding(("roles",), "roles: at least one role is needed", hint, "key")


def _role_names(spec: JobSpec) -> Iterator[Finding]:
    for name in spec.roles:
        if reason := _bad_role_name(name):
            message, hint = reason
            yield Finding(("roles", name), message, hint, "key")


def _bad_role_name(name: str) -> tuple[str, str] | None:
    """Message and hint for a name that no role can have."""
    if re.fullmatch(DNS_LABEL, name) is None:
        hint = "use lower-case letters, digits and -, a letter first, no - last"
        return f'"{name}" cannot be a role\'s name', hint
    if re.search(r"-[0-9]+$", name):
        message = f'"{name}" cannot be a role\'s name: it looks like a task'
        return message, "leave out the number at the end"
    return None


def _name_lengths(spec: JobSpec) -> Iterator[Finding]:
    names = [f"{spec.name}-{role}-{part.replicas - 1}" for role, part in spec.roles.items()]
    longest = max(names, key=len, default="")
    if len(longest) > MAX_NAME:
        shown = longest if len(longest) <= 100 else f"{longest[:60]}…{longest[-20:]}"
        message = f'the task name "{shown}" has {len(longest)} characters, {MAX_NAME} are allowed'
        hint = f"shorten name by {len(longest) - MAX_NAME} or more"
        yield Finding(("name",), message, hint, needs=(("roles",),))


def _counts(spec: JobSpec) -> Iterator[Finding]:
    if len(spec.roles) > MAX_ROLES:
        message = f"roles: {len(spec.roles):,} roles, at most {MAX_ROLES} are allowed"
        yield Finding(("roles",), message, "use replicas for tasks that do the same", "key")
    count = sum(role.replicas for role in spec.roles.values())
    if count > MAX_TASKS:
        message = f"roles: {count:,} tasks in all, at most {MAX_TASKS:,} are allowed"
        yield Finding(("roles",), message, "lower the replicas of some roles", "key")


def _single_tasks(spec: JobSpec) -> Iterator[Finding]:
    for name in ("chief", "evaluator"):
        if name in spec.roles and spec.roles[name].replicas > 1:
            message = f"roles.{name}.replicas: TensorFlow allows one {name}"
            yield Finding(("roles", name, "replicas"), message, "write replicas: 1")


def _ps_gpus(spec: JobSpec) -> Iterator[Finding]:
    if "ps" in spec.roles and spec.roles["ps"].gpus > 0:
        message = "roles.ps.gpus: a ps runs without GPUs; its GPUs are hidden from TensorFlow"
        yield Finding(("roles", "ps", "gpus"), message, "remove gpus here; ask for them on worker")


def _ports(spec: JobSpec) -> Iterator[Finding]:
    if spec.ports.tensorflow == spec.ports.control:
        message = f"ports: tensorflow and control cannot both be {spec.ports.control}"
        places: tuple[Path, ...] = (("ports", "tensorflow"), ("ports", "control"))
        yield Finding(("ports",), message, at="key", needs=places)


def _program(spec: JobSpec) -> Iterator[Finding]:
    """Either the bundled trainer, or a command for every role."""
    if spec.train is not None:
        yield from _nothing_beside_train(spec)
        return
    if spec.command is None:
        without = [name for name, role in spec.roles.items() if role.command is None]
        if len(without) == len(spec.roles):
            hint = "add train: {} for the bundled trainer, or command: [python, train.py]"
            needs: tuple[Path, ...] = (("train",), ("command",))
            yield Finding((), "the spec needs train or command", hint, "key", needs)
        else:
            for name in without:
                message = f"roles.{name}: there is no command for this role"
                hint = "add command here, or at the top of the spec for every role"
                needs = (("train",), ("command",), ("roles", name, "command"))
                yield Finding(("roles", name), message, hint, "key", needs)


def _nothing_beside_train(spec: JobSpec) -> Iterator[Finding]:
    if spec.command is not None:
        message = "command and train cannot both be given"
        hint = "remove train to run your own program, or command to use the bundled trainer"
        yield Finding(("command",), message, hint, "key", (("train",),))
    if spec.args:
        message = "args goes with command, not with train"
        yield Finding(("args",), message, "settings of the trainer belong under train", "key")
    if spec.code is not None:
        message = "code goes with command; the bundled trainer has its own"
        hint = "remove code, or train to run your own program"
        yield Finding(("code",), message, hint, "key", (("train",),))
    if spec.requirements is not None:
        message = "requirements goes with command; the bundled trainer has what it needs"
        hint = "remove requirements, or train to run your own program"
        yield Finding(("requirements",), message, hint, "key", (("train",),))
    if spec.strategy is not None:
        message = "strategy goes with command; with train the algorithm decides it"
        yield Finding(("strategy",), message, "remove strategy", "key")
    for name, role in spec.roles.items():
        for key in ("command", "args"):
            if getattr(role, key):
                message = f"roles.{name}.{key} cannot be given together with train"
                yield Finding(("roles", name, key), message, None, "key", (("train",),))


def _images(spec: JobSpec) -> Iterator[Finding]:
    """Your own program in a container needs an image that has it, or code to bring it there."""
    if spec.backend == "local" or spec.image is not None:
        return
    if spec.train is not None or spec.code is not None:
        return
    if all(role.image is None for role in spec.roles.values()):
        message = f"backend {spec.backend} needs an image to run your command in"
        hint = "add code: . to bring your files there, or image: with one that has them"
        needs: tuple[Path, ...] = (("image",), ("train",), ("roles",), ("command",))
        yield Finding(("backend",), message, hint, needs=needs)


def _reserved_variables(spec: JobSpec) -> Iterator[Finding]:
    places: list[tuple[Path, dict[str, str]]] = [(("env",), spec.env)]
    places += [(("roles", name, "env"), role.env) for name, role in spec.roles.items()]
    for path, env in places:
        for name in env:
            if _RESERVED_ENV.fullmatch(name):
                message = f"{name} is set by tfcluster for every task and cannot be given here"
                yield Finding((*path, name), message, "remove it", "key")


def _volume_targets(spec: JobSpec) -> Iterator[Finding]:
    shared: dict[str, Path] = {}
    yield from _targets(spec.volumes, ("volumes",), shared)
    for name, role in spec.roles.items():
        yield from _targets(role.volumes, ("roles", name, "volumes"), dict(shared))


def _targets(volumes: list[Volume], path: Path, seen: dict[str, Path]) -> Iterator[Finding]:
    for index, volume in enumerate(volumes):
        target = volume.target.rstrip("/") or "/"
        here: Path = (*path, index, "target")
        if target in seen:
            yield Finding(
                here, f"two volumes are mounted at {target}", None, "value", (seen[target],)
            )
        seen[target] = here


def _algorithm_roles(spec: JobSpec) -> Iterator[Finding]:
    """The trainer's algorithms need certain roles."""
    if spec.train is None or not spec.roles:
        return
    algorithm = spec.algorithm or ""
    missing = [role for role, needed in _required(algorithm) if needed and role not in spec.roles]
    given = "algorithm" in spec.train.chosen
    path: Path = ("train", "algorithm") if given else ("train",)
    about = f"train.algorithm {algorithm}"
    for role in missing:
        hint = f"add roles.{role}" if given else "set train.algorithm"
        yield Finding(
            path, f"{about} needs a {role} role", hint, needs=(("roles", role), ("train",))
        )
    if not {"worker", "chief"} & set(spec.roles) and "worker" not in missing:
        needs: tuple[Path, ...] = (("roles", "worker"), ("roles", "chief"))
        yield Finding(path, "train needs a worker role", "add roles.worker", needs=needs)
    if algorithm in ONE_PROCESS_ALGORITHMS:
        yield from _one_process(spec, algorithm)
    if algorithm in NO_PS_ALGORITHMS and "ps" in spec.roles:
        message = f"roles.ps: train.algorithm {algorithm} uses no ps"
        yield Finding(("roles", "ps"), message, "remove roles.ps", "key", (path,))
    if algorithm == "model-parallel" and "chief" not in spec.roles:
        yield from _chief_for_several(spec, path)
    yield from _unknown_roles(spec)


def _chief_for_several(spec: JobSpec, path: Path) -> Iterator[Finding]:
    if "worker" in spec.roles and spec.roles["worker"].replicas > 1:
        message = "train.algorithm model-parallel over several workers needs a chief role"
        hint = "add roles.chief, or write roles.worker.replicas: 1 to use the devices of one"
        needs: tuple[Path, ...] = (("roles", "worker", "replicas"), ("roles", "chief"))
        yield Finding(path, message, hint, needs=needs)


def _required(algorithm: str) -> list[tuple[str, bool]]:
    chief = algorithm in CHIEF_ALGORITHMS
    return [("ps", algorithm in PS_ALGORITHMS), ("chief", chief), ("worker", chief)]


def _one_process(spec: JobSpec, algorithm: str) -> Iterator[Finding]:
    needs: tuple[Path, ...] = (("train", "algorithm"),)
    tasks = {
        name: role.replicas for name, role in spec.roles.items() if name in ("chief", "worker")
    }
    if sum(tasks.values()) > 1:
        message = f"train.algorithm {algorithm} runs in one process, and there are "
        message += " and ".join(f"{n} {name}{'s' * (n > 1)}" for name, n in tasks.items())
        role = "worker" if "worker" in tasks else "chief"
        path: Path = ("roles", role, "replicas") if tasks[role] > 1 else ("roles", role)
        hint = "write replicas: 1, or add roles.ps and train.algorithm: hogwild"
        yield Finding(path, message, hint, "key", needs)
    if "ps" in spec.roles:
        message = f"roles.ps: train.algorithm {algorithm} uses no ps"
        yield Finding(("roles", "ps"), message, "remove roles.ps", "key", needs)


def _unknown_roles(spec: JobSpec) -> Iterator[Finding]:
    for name in spec.roles:
        if name not in TRAINER_ROLES and not _bad_role_name(name):
            message = f'the bundled trainer has no role "{name}"'
            hint = did_you_mean(name, TRAINER_ROLES) or f"it has {', '.join(TRAINER_ROLES)}"
            yield Finding(("roles", name), message, hint, "key")


def _docker_hosts(spec: JobSpec) -> Iterator[Finding]:
    names: set[str] = set()
    tasks = {f"{role}-{i}" for role, part in spec.roles.items() for i in range(part.replicas)}
    known = tasks | set(spec.roles)
    for index, host in enumerate(spec.docker.hosts):
        path: Path = ("docker", "hosts", index)
        if host.name in names:
            yield Finding((*path, "name"), f'two Docker hosts are called "{host.name}"')
        names.add(host.name)
        for place, task in enumerate(host.tasks or []):
            if task not in known:
                message = f'there is no task or role "{task}"'
                hint = did_you_mean(task, spec.roles if len(known) > 1000 else known)
                yield Finding((*path, "tasks", place), message, hint, needs=(("roles",),))


def _live_code(spec: JobSpec) -> Iterator[Finding]:
    if spec.code is not None and spec.code.live and spec.backend != "local":
        message = f"code.live: tasks on {spec.backend} do not see this machine's folder"
        hint = "remove live: a snapshot of the folder is sent"
        yield Finding(("code", "live"), message, hint, "key", (("backend",),))


CHECKS: tuple[Check, ...] = (
    _some_role,
    _role_names,
    _name_lengths,
    _single_tasks,
    _ps_gpus,
    success_names_roles_that_end,
    some_role_ends,
    _ports,
    _program,
    _images,
    _live_code,
    _reserved_variables,
    _volume_targets,
    _algorithm_roles,
    _docker_hosts,
)
