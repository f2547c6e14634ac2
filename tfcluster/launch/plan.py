"""The launch plan: who is who in a job, and what each task's program is started with."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, TypedDict, Union

PLAN_VERSION = 2
NAMED_HOSTS = ("ps", "worker", "chief", "evaluator")  # the roles with a placeholder of their own


class RestartRule(TypedDict):
    """How often a program is started again, and after which exit codes (None: after all)."""

    limit: int
    on: Optional[List[int]]


class RoleAddresses(TypedDict):
    """Where the tasks of a role are: what a launcher has to know of every role.

    `addresses` (TensorFlow's) and `control` (the launchers') are lists of host:port, or one pattern
    with {index}, which keeps plans of many tasks small.
    """

    replicas: int
    addresses: Union[str, List[str]]
    control: Union[str, List[str]]
    serves: bool  # ended by rule, and not waited for


class LaunchRole(RoleAddresses, total=False):
    """A role whose programs this launcher may start."""

    argv: List[str]
    env: Dict[str, str]
    env_files: List[str]
    workdir: Optional[str]
    restarts: RestartRule
    needs: List[str]  # the roles whose launchers have to be there first
    listens: bool  # others need its port, so it has to listen by start_timeout
    mask_gpus: bool
    memory_limit: Optional[int]  # enforced by the launcher
    memory_cap: Optional[int]  # enforced by the container, named by the launcher
    cpus: Dict[str, List[int]]
    task_env: Dict[str, Dict[str, str]]


class CodeEntry(TypedDict):
    """A person's code: the parts of its archive, what is in them, and where it belongs."""

    parts: List[str]  # none if it is in its place already
    sha256: str
    target: str


class ResultsEntry(TypedDict):
    """Which of a task's files are wanted, and for how long it waits until they are fetched."""

    files: List[str]
    limit: int
    wait: float  # 0 where they stay when the task has gone


class StallRule(TypedDict):
    """After how many seconds a task stands still, and what is done then: see stalls."""

    timeout: float
    action: str


class LaunchPlan(TypedDict, total=False):
    """What every launcher of a run reads from launch.json."""

    version: int
    job: str
    run: str
    success: List[str]  # the roles whose tasks have to succeed
    start_timeout: float
    deadline: Optional[float]
    stop_grace: float
    stall: StallRule
    barrier: str
    bind: str
    logdir: Optional[str]
    checkpoints: Optional[str]
    base: Optional[str]  # the folder that programs run in, where their role names none
    code: Optional[CodeEntry]
    results: Optional[ResultsEntry]
    cluster_roles: List[str]
    roles: Dict[str, LaunchRole]


def check_plan(data: Any) -> LaunchPlan:
    """The plan, or a ValueError that says why this is none."""
    if not isinstance(data, dict) or "roles" not in data:
        raise ValueError("this is not a launch plan")
    if data.get("version") != PLAN_VERSION:
        raise ValueError(
            f"this is a launch plan of version {data.get('version')}, and this launcher reads"
            f" version {PLAN_VERSION}; render it again with the same tfcluster"
        )
    for key, kinds in (("run", str), ("job", str), ("success", list), ("roles", dict)):
        if not isinstance(data.get(key), kinds):
            raise ValueError(f"{key}: missing, or not what a launch plan has there")
    return data  # type: ignore[return-value]


def listed(given: Union[str, List[str]], replicas: int) -> List[str]:
    if isinstance(given, str):
        return [given.replace("{index}", str(index)) for index in range(replicas)]
    return list(given)


def addresses(role: RoleAddresses) -> List[str]:
    """A role's host:port list."""
    return listed(role["addresses"], role["replicas"])


def one_address(given: Union[str, List[str]], index: int) -> Tuple[str, int]:
    """Host and port of one task, without making the list of all."""
    text = given.replace("{index}", str(index)) if isinstance(given, str) else given[index]
    return split_address(text)


def split_address(address: str) -> Tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def tasks_of(plan: LaunchPlan, roles: Optional[Sequence[str]] = None) -> List[str]:
    """The names of all tasks, or of those of these roles."""
    names = list(plan["roles"]) if roles is None else roles
    return [f"{name}-{index}" for name in names for index in range(plan["roles"][name]["replicas"])]


def split_task(plan: LaunchPlan, task: str) -> Tuple[str, int]:
    """Role and index of a task of this plan; ValueError if it has no such task."""
    role, _, index = task.rpartition("-")
    if role in plan["roles"] and index.isdigit() and int(index) < plan["roles"][role]["replicas"]:
        return role, int(index)
    raise ValueError(f"no task {task!r} in this plan; it has {', '.join(tasks_of(plan)[:20])}")


def control_address(plan: LaunchPlan, task: str) -> Tuple[str, int]:
    """Where a task's launcher answers."""
    role, index = split_task(plan, task)
    return one_address(plan["roles"][role]["control"], index)


def program_address(plan: LaunchPlan, task: str) -> Tuple[str, int]:
    """Where a task's program listens."""
    role, index = split_task(plan, task)
    return one_address(plan["roles"][role]["addresses"], index)


def required_tasks(plan: LaunchPlan) -> List[str]:
    """The tasks whose success makes the job a success."""
    return tasks_of(plan, plan["success"])


def tf_config(plan: LaunchPlan, role: str, index: int) -> str:
    """TF_CONFIG as TensorFlow's TFConfigClusterResolver reads it; the index is an integer."""
    cluster = {name: addresses(plan["roles"][name]) for name in plan["cluster_roles"]}
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})


def placeholders(plan: LaunchPlan, role: str, index: int) -> Dict[str, str]:
    """What $(NAME) stands for in a task's arguments and variables."""
    entry = plan["roles"][role]
    own = addresses(entry)[index]
    names = {
        "JOB": plan["job"],
        "RUN": plan["run"],
        "TASK": f"{role}-{index}",
        "ROLE": role,
        "INDEX": str(index),
        "REPLICAS": str(entry["replicas"]),
        "ADDRESS": own,
        "PORT": str(split_address(own)[1]),
        "LOGDIR": plan.get("logdir") or "",
        "CHECKPOINTS": plan.get("checkpoints") or "",
    }
    for name in NAMED_HOSTS:
        hosts = addresses(plan["roles"][name]) if name in plan["roles"] else []
        names[f"{name.upper()}_HOSTS"] = ",".join(hosts)
    return names


def fill(text: str, names: Mapping[str, str]) -> str:
    """Replace $(NAME) for known names; $$(NAME) stays as $(NAME), unknown names are left alone."""

    def one(match: "re.Match[str]") -> str:
        if match.group(0).startswith("$$"):
            return match.group(0)[1:]
        return names.get(match.group(1), match.group(0))

    return re.sub(r"\$?\$\(([A-Z_]+)\)", one, text)


def program_argv(plan: LaunchPlan, role: str, index: int) -> List[str]:
    """The command of a task, filled in."""
    names = placeholders(plan, role, index)
    return [fill(part, names) for part in plan["roles"][role]["argv"]]


def output_of(plan: LaunchPlan, task: str) -> str:
    """The folder for what a task alone writes; "" if the plan knows no folder for results."""
    logdir = plan.get("logdir")
    return f"{logdir.rstrip('/')}/tasks/{task}" if logdir else ""


def program_env(plan: LaunchPlan, role: str, index: int) -> Dict[str, str]:
    """What the plan adds to a task's environment, filled in."""
    entry = plan["roles"][role]
    names = placeholders(plan, role, index)
    env = {
        "TF_CONFIG": tf_config(plan, role, index),
        "TFCLUSTER_JOB": plan["job"],
        "TFCLUSTER_RUN": plan["run"],
        "TFCLUSTER_TASK": f"{role}-{index}",
        "TFCLUSTER_ROLE": role,
        "TFCLUSTER_INDEX": str(index),
        "TFCLUSTER_LOGDIR": plan.get("logdir") or "",
        "TFCLUSTER_CHECKPOINTS": plan.get("checkpoints") or "",
        "TFCLUSTER_OUTPUT": output_of(plan, f"{role}-{index}"),
        "PYTHONUNBUFFERED": "1",
    }
    code = plan.get("code")
    if code:
        env["TFCLUSTER_CODE"] = code["target"]
    if entry.get("mask_gpus"):
        env["CUDA_VISIBLE_DEVICES"] = ""
    env.update(entry.get("task_env", {}).get(str(index), {}))
    env.update({key: fill(value, names) for key, value in entry.get("env", {}).items()})
    return env


ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_env_files(paths: Sequence[str]) -> Dict[str, str]:
    """KEY=VALUE lines; read only when a program starts, so that secrets are stored nowhere.

    ValueError says which file is wrong, in which line, and why; never what is written there.
    """
    env: Dict[str, str] = {}
    for path in paths:
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            raise ValueError(f"env_from: cannot read {path}: {error.strerror}") from None
        env.update(parse_env_file(content, path))
    return env


def parse_env_file(content: bytes, path: str) -> Dict[str, str]:
    """`A=b`, also after `export`, in quotes, with a comment behind; UTF-8, any line ends."""
    wide = content[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in content
    try:
        if wide:
            raise ValueError
        text = content.decode("utf-8-sig")
    except ValueError:
        kind = "UTF-16 or binary" if wide else "not UTF-8"
        raise ValueError(f"env_from: {path} is {kind}; save it as UTF-8") from None
    env: Dict[str, str] = {}
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key, equals, value = line.partition("=")
        words = key.split()
        if words[:1] == ["export"]:
            words = words[1:]
        if not equals or len(words) != 1 or not ENV_NAME.fullmatch(words[0]):
            raise ValueError(f"env_from: {path}:{number}: expected NAME=value")
        try:
            env[words[0]] = env_value(value.strip())
        except ValueError as error:
            raise ValueError(f"env_from: {path}:{number}: {error}") from None
    return env


def env_value(text: str) -> str:
    """What is meant by the text behind NAME=."""
    quote = text[:1]
    if quote not in ("'", '"'):
        return re.split(r"\s#", text, maxsplit=1)[0].rstrip()
    end = text.find(quote, 1)
    if end < 0:
        raise ValueError(f"a quote ({quote}) is opened and never closed")
    rest = text[end + 1 :].strip()
    if rest and not rest.startswith("#"):
        raise ValueError("something follows the closing quote")
    return text[1:end]
