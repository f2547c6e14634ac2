"""The plan: every task with its address, argv, env, TF_CONFIG and resources. Frozen data.

A plan is stored per role, with what differs between tasks (host lists, TF_CONFIG) filled in on
demand: a job of 10,000 tasks stays a page of data, and planning costs grow with the tasks, not
with their square. The rules that fill it in live in the launcher, which applies the same ones.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tfcluster.archive import Run
from tfcluster.code.planned import CodePlan, workdir_in
from tfcluster.errors import MissingError
from tfcluster.files import read_versioned
from tfcluster.interpreter import Interpreter
from tfcluster.launch import plan as launch_plan
from tfcluster.redaction import masked_value, redacted_argv

if TYPE_CHECKING:
    from tfcluster.spec.model import JobSpec, RoleSpec

VERSION = 2  # of plan.json
RESULTS_LIMIT = 100 << 20  # bytes of one task, unless results.limit says otherwise
ROLE_ORDER = ("chief", "ps", "worker", "evaluator")


# -- The plan ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Resources:
    """What a task may use; None means no limit."""

    cpu: float | None = None
    memory: int | None = None
    gpus: int = 0


@dataclass(frozen=True)
class ResultsPlan:
    """What is brought back when the job ends, and to which folder beside the caller's."""

    files: tuple[str, ...]
    limit: int
    wait: float
    to: str

    def launch(self) -> launch_plan.ResultsEntry:
        return {"files": list(self.files), "limit": self.limit, "wait": self.wait}


@dataclass(frozen=True)
class StallPlan:
    """After how many seconds a task stands still, and what is done about it."""

    timeout: float
    action: str  # report, restart or fail

    def launch(self) -> launch_plan.StallRule:
        return {"timeout": self.timeout, "action": self.action}


@dataclass(frozen=True)
class RolePlan:
    """All tasks of one role. argv and env may hold placeholders such as $(INDEX)."""

    role: str
    replicas: int
    argv: tuple[str, ...]
    env: Mapping[str, str]
    env_files: tuple[str, ...]
    workdir: str | None
    restarts: int
    restart_on: tuple[int, ...] | None
    needs: tuple[str, ...]
    serves: bool  # ended when the job has succeeded, and not waited for
    listens: bool  # others need its TensorFlow port: it must listen by start_timeout
    resources: Resources
    addresses: tuple[str, ...] = ()
    control: tuple[str, ...] = ()
    cpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    task_env: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    container: Mapping[str, Any] = field(default_factory=dict)  # image, mounts, …: plain data
    digest: str = ""
    interpreter: Interpreter | None = None  # what `python` stands for, where that was looked up


@dataclass(frozen=True)
class Task:
    """One task, everything filled in."""

    name: str
    role: str
    index: int
    address: str
    control: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    tf_config: Mapping[str, Any]
    resources: Resources
    digest: str

    def to_dict(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "role": self.role,
            "index": self.index,
            "address": self.address,
            "control": self.control,
            "argv": redacted_argv(self.argv),
            "env": masked(self.env),
            "tfConfig": self.tf_config,
            "resources": asdict(self.resources),
            "digest": self.digest,
        }


@dataclass(frozen=True)
class Plan:
    """What one spec means on one backend."""

    job: str
    backend: str
    strategy: str
    success: tuple[str, ...]  # the roles whose tasks must all succeed
    start_timeout: float
    deadline: float | None
    stop_grace: float
    barrier: str
    cluster_roles: tuple[str, ...]
    roles: tuple[RolePlan, ...]
    logdir: str | None = None
    checkpoints: str | None = None
    bind: str = "0.0.0.0"
    code: CodePlan | None = None
    results: ResultsPlan | None = None
    stall: StallPlan | None = None
    requirements: str = ""  # the key of the environment that local tasks run in, if there is one
    site: Mapping[str, Any] = field(default_factory=dict)  # what only the backend reads

    def role(self, name: str) -> RolePlan:
        return next(role for role in self.roles if role.role == name)

    def address(self, task: str) -> str:
        """Where a task's TensorFlow is reached."""
        role, _, index = task.rpartition("-")
        return self.role(role).addresses[int(index)]

    @property
    def task_names(self) -> tuple[str, ...]:
        return tuple(
            f"{role.role}-{index}" for role in self.roles for index in range(role.replicas)
        )

    @property
    def writer(self) -> str:
        """The task that writes summaries and results: the chief, or the first worker."""
        names = [role.role for role in self.roles]
        return f"{next((role for role in ('chief', 'worker') if role in names), names[0])}-0"

    @property
    def size(self) -> int:
        return sum(role.replicas for role in self.roles)

    @property
    def content_id(self) -> str:
        """Stands for a run's id in what is rendered without one: the same spec, the same id."""
        digests = "".join(role.digest for role in self.roles)
        return hashlib.sha256(digests.encode()).hexdigest()[:6]

    @property
    def interpreter_lines(self) -> list[str]:
        """`python: /usr/bin/python (from PATH)`, once per interpreter that was looked up."""
        found = [role.interpreter for role in self.roles if role.interpreter is not None]
        return list(dict.fromkeys(f"{one.name}: {one.text}" for one in found))

    @property
    def made_for_requirements(self) -> set[str]:
        """The names of what holds its requirements."""
        images = {str(role.container.get("image", "")) for role in self.roles}
        return {self.requirements, *images} - {""}

    def digests(self) -> dict[str, str]:
        """Per task, what changes whenever the task would have to be replaced."""
        return {
            f"{role.role}-{index}": role.digest
            for role in self.roles
            for index in range(role.replicas)
        }

    def launch(self, run: str) -> launch_plan.LaunchPlan:
        """What launchers read."""
        return {
            "version": launch_plan.PLAN_VERSION,
            "job": self.job,
            "run": run,
            "success": list(self.success),
            "start_timeout": self.start_timeout,
            "deadline": self.deadline,
            "stop_grace": self.stop_grace,
            "barrier": self.barrier,
            "bind": self.bind,
            "logdir": self.logdir,
            "checkpoints": self.checkpoints,
            **({"code": self.code.launch()} if self.code else {}),
            **({"results": self.results.launch()} if self.results else {}),
            **({"stall": self.stall.launch()} if self.stall else {}),
            "cluster_roles": list(self.cluster_roles),
            "roles": {role.role: launch_role(role) for role in self.roles},
        }

    def tasks(self, run: str = "") -> Iterator[Task]:
        """Every task, in order."""
        launch = self.launch(run)
        for role in self.roles:
            for index in range(role.replicas):
                yield filled_task(launch, role, index)

    def task(self, name: str, run: str = "") -> Task:
        """One task by name."""
        launch = self.launch(run)
        try:
            role, index = launch_plan.split_task(launch, name)
        except ValueError:
            raise MissingError(
                f'job "{self.job}" has no task "{name}"', hint=known_tasks(self)
            ) from None
        return filled_task(launch, self.role(role), index)

    def to_dict(self) -> dict[str, Any]:
        return {"schemaVersion": VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """The plan; ValueError, KeyError or TypeError if this is none of this version."""
        if data.get("schemaVersion") != VERSION:
            raise ValueError(f"schemaVersion: {data.get('schemaVersion')} instead of {VERSION}")
        fields = {key: value for key, value in data.items() if key != "schemaVersion"}
        fields["roles"] = tuple(role_from_dict(role) for role in data["roles"])
        for name in ("success", "cluster_roles"):
            fields[name] = tuple(data[name])
        results = data.get("results")
        if results:
            fields["results"] = ResultsPlan(**{**results, "files": tuple(results["files"])})
        fields["stall"] = StallPlan(**data["stall"]) if data.get("stall") else None
        fields["code"] = CodePlan.from_dict(data["code"]) if data.get("code") else None
        return cls(**fields)


def stored_plan(run: Run) -> Plan | None:
    """The plan that a run follows now; None before it has one."""
    return read_versioned(run.files.plan_file, Plan.from_dict, versions=(VERSION,))


def require_plan(run: Run) -> Plan:
    """The plan of a run that has one; an error if it was never started."""
    plan = stored_plan(run)
    if plan is None:
        raise MissingError(f"run {run.id} was never started", hint="start it: tfcluster up")
    return plan


def role_from_dict(data: Mapping[str, Any]) -> RolePlan:
    lists = ("argv", "env_files", "needs", "addresses", "control")
    fields = {**data, **{name: tuple(data[name]) for name in lists}}
    fields["restart_on"] = None if data["restart_on"] is None else tuple(data["restart_on"])
    fields["resources"] = Resources(**data["resources"])
    fields["cpus"] = {key: tuple(value) for key, value in data["cpus"].items()}
    chosen = data.get("interpreter")
    fields["interpreter"] = Interpreter.from_dict(chosen) if chosen else None
    return RolePlan(**fields)


# -- What a task is started with ---------------------------------------------------------------


def launch_role(role: RolePlan) -> launch_plan.LaunchRole:
    return {
        "replicas": role.replicas,
        "argv": list(role.argv),
        "env": dict(role.env),
        "env_files": list(role.env_files),
        "workdir": role.workdir,
        "addresses": list(role.addresses),
        "control": list(role.control),
        "restarts": {
            "limit": role.restarts,
            "on": None if role.restart_on is None else list(role.restart_on),
        },
        "needs": list(role.needs),
        "serves": role.serves,
        "listens": role.listens,
        "mask_gpus": role.resources.gpus == 0,
        "memory_limit": role.resources.memory,
        "cpus": {index: list(cores) for index, cores in role.cpus.items()},
        "task_env": {index: dict(env) for index, env in role.task_env.items()},
    }


def filled_task(launch: launch_plan.LaunchPlan, role: RolePlan, index: int) -> Task:
    env = launch_plan.program_env(launch, role.role, index)
    return Task(
        name=f"{role.role}-{index}",
        role=role.role,
        index=index,
        address=role.addresses[index],
        control=role.control[index],
        argv=tuple(launch_plan.program_argv(launch, role.role, index)),
        env=env,
        tf_config=json.loads(env["TF_CONFIG"]),
        resources=role.resources,
        digest=role.digest,
    )


def masked(env: Mapping[str, str]) -> dict[str, str]:
    """The environment as it may be shown: values whose names look secret are hidden."""
    return {key: masked_value(key, value) for key, value in env.items()}


def known_tasks(plan: Plan) -> str:
    names = plan.task_names
    shown = ", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
    return f"tasks: {shown}"


# -- From spec to plan -------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """What a backend adds to a spec to make it a plan."""

    backend: str
    python: str
    address: Callable[[str, int], tuple[str, str]]  # role, index -> task and control host:port
    logdir: str
    checkpoints: str
    bind: str = "0.0.0.0"
    code: CodePlan | None = None
    requirements: str = ""
    hands_over: bool = False  # whether what a task writes goes with its container
    # role -> what its containers are made of, as JSON; part of the digest
    container: Callable[[str], Mapping[str, Any]] = lambda role: {}
    settings: Mapping[str, Any] = field(default_factory=dict)  # becomes Plan.site


def plan_job(spec: JobSpec, site: Site) -> Plan:
    """The plan of a spec at a site. The same spec gives the same digests at every site."""
    strategy = spec.effective_strategy
    order = [name for name in ROLE_ORDER if name in spec.roles]
    order += sorted(name for name in spec.roles if name not in ROLE_ORDER)
    counts = {name: spec.roles[name].replicas for name in order}
    plan = Plan(
        job=spec.name,
        backend=site.backend,
        strategy=strategy,
        success=spec.success_roles,
        start_timeout=spec.start_timeout,
        deadline=spec.deadline,
        stop_grace=spec.stop_grace,
        barrier=spec.barrier,
        cluster_roles=tuple(name for name in order if in_cluster(name, strategy)),
        roles=tuple(plan_role(spec, name, site) for name in order),
        logdir=spec.logdir or site.logdir,
        checkpoints=spec.checkpoints or site.checkpoints,
        bind=site.bind,
        code=site.code,
        results=plan_results(spec, site),
        stall=StallPlan(*spec.effective_stall),
        requirements=site.requirements,
        site=site.settings,
    )
    # Folders that the person has chosen; those of a run differ from run to run.
    chosen = {key: path for key in ("logdir", "checkpoints") if (path := getattr(spec, key))}
    # What is left to tfcluster is no reason to replace tasks.
    if spec.stall_timeout is not None or spec.on_stall is not None:
        chosen["stall"] = json.dumps(asdict(StallPlan(*spec.effective_stall)))
    digested = (with_digest(plan, role, counts, chosen) for role in plan.roles)
    return replace(plan, roles=tuple(digested))


def plan_results(spec: JobSpec, site: Site) -> ResultsPlan | None:
    wanted = spec.results
    if wanted is None:
        return None
    wait = wanted.wait if site.hands_over else 0.0
    limit = wanted.limit.bytes if wanted.limit else RESULTS_LIMIT
    return ResultsPlan(tuple(wanted.files), limit, wait, wanted.to)


def in_cluster(role: str, strategy: str) -> bool:
    """TensorFlow leaves the evaluator out of `cluster`; TF2 strategies know no other roles."""
    if role == "evaluator":
        return False
    return role in ROLE_ORDER or strategy in ("between-graph", "in-graph")


def plan_role(spec: JobSpec, name: str, site: Site) -> RolePlan:
    role = spec.roles[name]
    pairs = [site.address(name, index) for index in range(role.replicas)]
    restarts = spec.restarts_of(name)
    return RolePlan(
        role=name,
        replicas=role.replicas,
        argv=tuple(role_argv(spec, role, site)),
        env={**train_env(spec), **spec.env, **role.env},
        env_files=tuple(source.file for source in spec.env_from if source.file is not None),
        workdir=workdir_in(site.code, role.workdir or spec.workdir),
        restarts=restarts.limit,
        restart_on=None if restarts.on is None else tuple(restarts.on),
        needs=spec.needs_of(name),
        serves=name in spec.serving_roles,
        listens=name in spec.listening_roles,
        resources=Resources(role.cpu, role.memory.bytes if role.memory else None, role.gpus),
        addresses=tuple(task for task, _ in pairs),
        control=tuple(control for _, control in pairs),
        container=site.container(name),
    )


def own_argv(spec: JobSpec, role: RoleSpec) -> list[str] | None:
    """The command of the person's own program; None if the role runs the bundled trainer."""
    if role.command is not None:
        return [*role.command, *(role.args or ())]
    if spec.command is not None:
        return [*spec.command, *(role.args if role.args is not None else spec.args)]
    return None


def role_argv(spec: JobSpec, role: RoleSpec, site: Site) -> list[str]:
    own = own_argv(spec, role)
    if own is not None:
        return own
    argv = [site.python, "-m", "trainer"]
    if spec.train is not None:
        argv += spec.train.flags()
    return [*argv, "--logdir", "$(LOGDIR)", "--checkpoints", "$(CHECKPOINTS)"]


def train_env(spec: JobSpec) -> dict[str, str]:
    # A folder called trainer in the user's directory must not be taken for the bundled one.
    return {"PYTHONSAFEPATH": "1"} if spec.train is not None else {}


def with_digest(
    plan: Plan, role: RolePlan, counts: Mapping[str, int], folders: Mapping[str, str]
) -> RolePlan:
    """A digest over all that makes a task what it is, except where it happens to listen."""
    content = asdict(replace(role, addresses=(), control=(), cpus={}, task_env={}, digest=""))
    del content["interpreter"]  # found where the task runs, not said by the spec
    if plan.results:
        content["results"] = plan.results.launch()
    if plan.code:
        content |= plan.code.digested(role.workdir)
    if plan.requirements:
        content["requirements"] = plan.requirements
    shared = [plan.strategy, plan.success, plan.start_timeout, plan.deadline, plan.stop_grace]
    parts = [content, shared, plan.barrier, dict(counts), *([dict(folders)] if folders else [])]
    data = json.dumps(parts, sort_keys=True)
    return replace(role, digest=hashlib.sha256(data.encode()).hexdigest()[:16])
