"""The run's own Workload: what it asks for, and which step follows from what is seen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.fake_kube import FakeApi
from tests.unit.kube import (
    QUEUED,
    SHORT,
    WORKLOADS,
    documents,
    found,
    gated,
    plan_of,
    rendered,
    says,
)
from tfcluster.backends.kubernetes import kueue, state
from tfcluster.backends.kubernetes.keeper import Keeper
from tfcluster.backends.kubernetes.run import obstacle_of
from tfcluster.backends.kubernetes.watch import Seen as Watched
from tfcluster.backends.kubernetes.workload import (
    DIGEST,
    Seen,
    decide,
    digest_of,
    phase_of,
    workload_of,
)

PODS = "/api/v1/namespaces/default/pods"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
SERVED = "/apis/kueue.x-k8s.io/v1beta1"
DIGESTED = digest_of(plan_of(QUEUED))


def jobs(**spec: Any) -> dict[str, Any]:
    docs = documents(rendered(QUEUED))
    made = {role: found(docs, "Job", f"small-{role}") for role in ("ps", "worker")}
    for role, job in made.items():
        job["metadata"]["uid"] = f"uid-{role}"
        job["spec"].update(spec)
    return made


def workload(*conditions: tuple[str, str], digest: str = DIGESTED, **meta: str) -> dict[str, Any]:
    entries = [{"type": k, "status": s, "message": f"{k} is {s}"} for k, s in conditions]
    return {
        "metadata": {"name": "g", "annotations": {DIGEST: digest}, **meta},
        "spec": {"active": True},
        "status": {"conditions": entries},
    }


# -- What is asked for


def test_a_workload_has_a_pod_set_per_role_without_the_gate():
    plan = plan_of(QUEUED)
    made = workload_of(plan, jobs())
    assert made["metadata"]["name"] == kueue.group_of(plan)
    assert made["metadata"]["labels"]["tfcluster.io/run"] == plan.site["run"]
    assert {owner["uid"] for owner in made["metadata"]["ownerReferences"]} == {
        "uid-ps",
        "uid-worker",
    }
    assert made["spec"]["queueName"] == "lab"
    assert [(e["name"], e["count"]) for e in made["spec"]["podSets"]] == [("ps", 1), ("worker", 2)]
    assert "schedulingGates" not in str(made)
    assert made["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["name"] == "task"
    assert made["spec"]["priority"] == 0  # without it, Kueue's visibility server panics


def test_a_workload_has_the_priority_of_its_pods():
    classed = jobs()
    classed["worker"]["spec"]["template"]["spec"]["priorityClassName"] = "high"
    spec = workload_of(plan_of(QUEUED), classed, priority=7)["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("high", 7)
    assert spec["priorityClassSource"] == "scheduling.k8s.io/priorityclass"


# -- What follows

IN = (("QuotaReserved", "True"), ("Admitted", "True"))


@pytest.mark.parametrize(
    ("seen", "phase"),
    [
        (None, "none"),
        (workload(), "new"),
        (workload(("QuotaReserved", "False")), "waiting"),
        (workload(("QuotaReserved", "True"), ("Admitted", "False")), "waiting"),
        (workload(*IN), "admitted"),
        (workload(*IN, ("Evicted", "True")), "evicted"),
        (workload(*IN, ("Evicted", "False")), "admitted"),
        (workload(("QuotaReserved", "False"), ("Evicted", "True")), "waiting"),
        (workload(*IN, digest="of other pods"), "stale"),
        (workload(*IN, deletionTimestamp="x"), "going"),
    ],
)
def test_the_phase_of_a_workload(seen, phase):
    assert phase_of(seen, DIGESTED) == phase


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        (Seen("unknown", gated=3), ""),
        (Seen("going", gated=3), ""),
        (Seen("none"), ""),
        (Seen("none", gated=3), "create"),
        (Seen("none", free=3), "create"),  # somebody deleted it while the job runs
        (Seen("none", suspended=True), ""),
        (Seen("none", held=True, suspended=True), "resume"),
        (Seen("new", gated=3), ""),
        (Seen("new", free=3), ""),
        (Seen("waiting", gated=3), ""),
        (Seen("waiting", free=3), "stop"),
        (Seen("waiting", free=1, held=True), ""),
        (Seen("waiting", held=True, suspended=True), "resume"),
        (Seen("waiting", suspended=True), "leave"),
        (Seen("admitted", gated=3), "open"),
        (Seen("admitted", gated=1, free=2), "open"),
        (Seen("admitted", free=3), ""),
        (Seen("admitted"), ""),  # between two pods
        (Seen("admitted", free=1, suspended=True), ""),
        (Seen("admitted", suspended=True), "leave"),
        (Seen("evicted", free=3), "stop"),
        (Seen("evicted", free=1, held=True), ""),
        (Seen("evicted", held=True, suspended=True), "leave"),
        (Seen("evicted", gated=3), "leave"),
        (Seen("stale", gated=1, free=2), "leave"),
    ],
)
def test_the_next_step(seen, step):
    assert decide(seen) == step


# -- What is done


@pytest.fixture
def keeper(api, kube_run):
    """Of a run whose pods are gated, and which Kueue has left alone for long enough."""
    keeper = Keeper(kube_run, plan_of(QUEUED), api.cluster(patience=0.5))
    keeper.view.take("jobs", Watched("all", tuple(jobs().values())))
    pods = [gated(task, **{kueue.MANAGED: ""}) for task in keeper.plan.task_names]
    keeper.view.take("pods", Watched("all", tuple(pods)))
    api.put("/apis/kueue.x-k8s.io", "v1beta1")
    api.fail(f"{WORKLOADS}/{keeper.admission.queue.group}", 404)
    clock = iter(range(0, 10_000, 20))
    keeper.admission.clock = lambda: next(clock)
    keeper.admission.look()
    return keeper


def asked(api: FakeApi, method: str) -> list[str]:
    return [path for how, path in api.asked if how == method]


def put(api: FakeApi, keeper: Keeper, status: dict[str, Any]) -> None:
    group = keeper.admission.queue.group
    api.put(WORKLOADS, group, status=status, spec={})
    api.objects[f"{WORKLOADS}/{group}"]["metadata"]["annotations"] = {DIGEST: DIGESTED}


def problem(keeper: Keeper) -> state.Problem:
    return keeper.admission.problem(gated(**{kueue.MANAGED: ""}), None, [])


def test_a_workload_is_made_for_pods_that_kueue_leaves_alone(api, keeper):
    assert asked(api, "POST") == []
    assert problem(keeper).kind == "queued"
    api.fail(f"{WORKLOADS}/", 404)
    keeper.admission.look()
    assert asked(api, "POST") == [WORKLOADS]
    put(api, keeper, says("QuotaReserved", "False", SHORT))
    keeper.admission.look()
    assert problem(keeper).message == f'waits in queue "lab": {SHORT}'
    put(api, keeper, workload(*IN)["status"])
    keeper.admission.look()
    keeper.admission.look()
    assert len(asked(api, "PATCH")) == 3
    assert all(path.startswith(PODS) for path in asked(api, "PATCH"))


def test_an_evicted_job_is_held_in_kueues_words_until_its_pods_are_gone(api, keeper):
    put(api, keeper, workload(*IN, ("Evicted", "True"))["status"])
    running = [gated(task, **{kueue.MANAGED: ""}) for task in keeper.plan.task_names]
    for pod in running:
        pod["spec"] = {}
    keeper.view.take("pods", Watched("all", tuple(running)))
    keeper.admission.look()
    assert asked(api, "PATCH") == [f"{JOBS}/small-ps", f"{JOBS}/small-worker"]
    held = jobs(suspend=True)
    for job in held.values():
        job["metadata"]["annotations"] = {state.EVICTED: "it is stopped"}
        job["status"] = {"conditions": [{"type": "Suspended", "status": "True"}]}
    keeper.view.take("jobs", Watched("all", tuple(held.values())))
    assert state.suspension(held["ps"]).message == "evicted by Kueue: it is stopped"
    keeper.admission.look()
    assert asked(api, "DELETE") == []
    keeper.view.take("pods", Watched("deleted", tuple(running)))
    keeper.admission.look()
    assert len(asked(api, "DELETE")) == 1


@pytest.mark.parametrize(
    ("part", "right"), [(f"{WORKLOADS}/", "get workloads"), (WORKLOADS, "create workloads")]
)
def test_a_missing_right_is_named_with_the_command_that_gives_it(api, keeper, part, right):
    if "create" in right:
        api.fail(f"{WORKLOADS}/", 404)
    api.fail(part, 403)
    keeper.admission.look()
    found = problem(keeper)
    assert f"the right to {right}.kueue.x-k8s.io in namespace default" in found.message
    record = {"state": "pending", "problem": {**found.to_dict(), "since": 0.0}}
    error = obstacle_of(keeper.run, keeper.plan, "ps-0", record)
    assert "tfcluster rbac --queue" in error.hint


def test_the_workload_goes_when_the_run_is_over_also_for_a_later_keeper(api, keeper):
    put(api, keeper, workload(*IN)["status"])
    later = Keeper(keeper.run, keeper.plan, keeper.cluster)
    later.admission.end()
    assert len(asked(api, "DELETE")) == 1


def test_the_workload_of_kueue_itself_is_left_alone(api, keeper):
    api.put(WORKLOADS, keeper.admission.queue.group, status=workload(*IN)["status"])
    later = Keeper(keeper.run, keeper.plan, keeper.cluster)
    later.admission.look()
    later.admission.end()
    assert asked(api, "DELETE") == asked(api, "PATCH") == []
