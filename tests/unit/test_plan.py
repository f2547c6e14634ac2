"""From a spec to tasks: what each is told, and when it counts as changed."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from tfcluster.changes import compare
from tfcluster.commands.plan import done_when
from tfcluster.errors import MissingError
from tfcluster.plan import Plan, Site, plan_job
from tfcluster.spec.loader import load_spec_text


def site(port: int = 2222) -> Site:
    return Site(
        backend="local",
        python="python3",
        address=lambda role, index: (f"{role}-{index}:{port}", f"{role}-{index}:{port + 1}"),
        logdir="/logs",
        checkpoints="/checkpoints",
    )


def plan_of(roles: dict[str, Any], *, port: int = 2222, **settings: Any) -> Plan:
    spec: dict[str, Any] = {"name": "job", "roles": roles, **settings}
    if "train" not in spec:
        spec.setdefault("command", ["python", "train.py"])
    return plan_job(load_spec_text(json.dumps(spec)).spec, site(port))


BOTH = {"ps": {"replicas": 1}, "worker": {"replicas": 2}}


def test_a_plan_is_the_same_after_a_trip_through_json():
    plan = plan_of(BOTH, env={"A": "1"}, restarts={"limit": 2, "on": [1, 137]}, success="all")
    assert plan.success == ("worker",)
    assert Plan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


def test_a_plan_cannot_be_changed_by_accident():
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan_of(BOTH).job = "other"  # type: ignore[misc]


def test_tasks_are_in_the_order_chief_ps_worker_evaluator_others():
    roles = {name: {} for name in ("zeta", "worker", "evaluator", "chief", "ps", "alpha")}
    assert plan_of(roles).task_names == (
        "chief-0",
        "ps-0",
        "worker-0",
        "evaluator-0",
        "alpha-0",
        "zeta-0",
    )


def test_classic_flags_are_filled_in_per_task():
    args = ["--ps_hosts=$(PS_HOSTS)", "--worker_hosts=$(WORKER_HOSTS)", "--task_index=$(INDEX)"]
    task = plan_of(BOTH, args=args).task("worker-1")
    assert task.argv[2:] == (
        "--ps_hosts=ps-0:2222",
        "--worker_hosts=worker-0:2222,worker-1:2222",
        "--task_index=1",
    )


@pytest.mark.parametrize(
    ("strategy", "roles", "cluster"),
    [
        ("between-graph", {"chief", "ps", "worker", "evaluator"}, {"chief", "ps", "worker"}),
        ("between-graph", {"ps", "worker", "mine"}, {"ps", "worker", "mine"}),
        ("multi-worker", {"chief", "worker", "evaluator"}, {"chief", "worker"}),
        ("multi-worker", {"worker", "mine"}, {"worker"}),
        ("coordinator", {"chief", "ps", "worker"}, {"chief", "ps", "worker"}),
    ],
)
def test_tf_config_has_the_roles_of_its_strategy(strategy, roles, cluster):
    plan = plan_of({role: {} for role in roles}, strategy=strategy)
    for task in plan.tasks():
        assert set(task.tf_config["cluster"]) == cluster
        assert task.tf_config["task"] == {"type": task.role, "index": 0}


def test_train_settings_become_flags_of_the_trainer():
    train = {"algorithm": "hogwild", "batch_size": 50, "hidden": [64, 32]}
    argv = plan_of(BOTH, train=train).task("worker-0").argv
    assert argv[:3] == ("python3", "-m", "trainer")
    flags = dict(zip(argv[3::2], argv[4::2], strict=True))
    assert flags["--batch_size"] == "50"
    assert flags["--hidden"] == "64,32"
    assert flags["--logdir"] == "/logs"


def test_a_role_that_asks_for_no_gpu_sees_none():
    launch = plan_of({"ps": {}, "worker": {"gpus": 1}}).launch("r")
    assert launch["roles"]["ps"]["mask_gpus"] is True
    assert launch["roles"]["worker"]["mask_gpus"] is False


def test_values_that_look_secret_are_masked_where_a_task_is_shown():
    task = plan_of(BOTH, env={"API_TOKEN": "s3cret", "PLAIN": "x"}).task("worker-0")
    shown = task.to_dict()
    assert shown["env"]["API_TOKEN"] == "***"
    assert shown["env"]["PLAIN"] == "x"
    assert task.env["API_TOKEN"] == "s3cret"


def test_an_unknown_task_lists_the_known_ones():
    with pytest.raises(MissingError) as error:
        plan_of(BOTH).task("worker-7")
    assert error.value.hint == "tasks: ps-0, worker-0, worker-1"


def actions(old: Plan | None, new: Plan) -> dict[str, str]:
    return {change.task: change.action for change in compare(old, new)}


def test_other_ports_change_no_task():
    assert set(actions(plan_of(BOTH), plan_of(BOTH, port=3333)).values()) == {"keep"}


def test_a_change_of_one_role_replaces_only_its_tasks_and_says_what_changed():
    new = plan_of({"ps": {}, "worker": {"replicas": 2, "env": {"A": "1"}}})
    changes = {change.task: change for change in compare(plan_of(BOTH), new)}
    assert changes["ps-0"].action == "keep"
    assert (changes["worker-1"].action, changes["worker-1"].why) == ("replace", "env")


def test_a_change_of_a_count_replaces_everyone_because_host_lists_are_fixed_at_start():
    new = plan_of({"ps": {}, "worker": {"replicas": 3}})
    changes = {change.task: change for change in compare(plan_of(BOTH), new)}
    assert changes["ps-0"].action == "replace"
    assert changes["ps-0"].why == "worker count (TF_CONFIG is fixed at start)"
    assert changes["worker-2"].action == "create"
    assert actions(new, plan_of(BOTH))["worker-2"] == "remove"


def test_needs_follow_the_strategy():
    roles = {"chief": {}, "ps": {}, "worker": {"replicas": 2}}
    between = plan_of(roles)
    assert between.role("worker").needs == ("ps",)
    assert between.role("ps").listens and not between.role("worker").listens
    coordinator = plan_of(roles, strategy="coordinator")
    assert coordinator.role("chief").needs == ("ps", "worker")
    assert coordinator.role("worker").listens
    for plan in (between, coordinator):
        assert all(role.serves == role.listens for role in plan.roles)


def test_a_role_that_is_only_declared_to_serve_need_not_listen():
    plan = plan_of({"reader": {"serves": True}, "learner": {}})
    launch = plan.launch("r")
    assert launch["success"] == ["learner"]
    ends = {name: (role["serves"], role["listens"]) for name, role in launch["roles"].items()}
    assert ends == {"reader": (True, False), "learner": (False, False)}


@pytest.mark.parametrize("changes", [{"success": "ps"}, {"success": ["ps", "worker"]}])
def test_a_ps_that_decides_about_the_job_listens_but_does_not_serve_for_ever(changes):
    ps = plan_of(BOTH, **changes).role("ps")
    assert (ps.serves, ps.listens) == (False, True)


def test_a_ps_may_be_declared_to_end_by_itself():
    plan = plan_of({"ps": {"serves": False}, "worker": {}}, success="all")
    assert plan.success == ("ps", "worker")
    assert (plan.role("ps").serves, plan.role("ps").listens) == (False, True)


@pytest.mark.parametrize(
    ("success", "words"),
    [
        ("chief", "the chief has succeeded"),
        ("workers", "all workers have succeeded"),
        ("all", "all tasks of chief, worker and data have succeeded"),
        ("data", "data has succeeded"),
        (["chief", "data"], "all tasks of chief and data have succeeded"),
    ],
)
def test_a_plan_says_when_the_job_is_done(success, words):
    roles = {"chief": {}, "ps": {}, "worker": {"replicas": 2}, "data": {}}
    assert done_when(plan_of(roles, success=success)) == words


def test_a_lone_worker_needs_nobody():
    plan = plan_of({"worker": {}}, strategy="multi-worker")
    assert not plan.role("worker").serves and not plan.role("worker").listens
    assert [task.name for task in plan.tasks()] == ["worker-0"]
