"""Jobs in a queue: how their pods are grouped, what is said while they wait, and how it ends."""

from __future__ import annotations

import time

import pytest

from tests.unit.kube import (
    QUEUED,
    SHORT,
    SMALL,
    WORKLOADS,
    documents,
    found,
    gated,
    plan_of,
    pod_of,
    rendered,
    says,
)
from tfcluster.backends.kubernetes import kueue
from tfcluster.backends.kubernetes.endings import how_it_ended
from tfcluster.backends.kubernetes.keeper import Keeper
from tfcluster.backends.kubernetes.kueue import Queue, group_of, leave
from tfcluster.backends.kubernetes.rbac import render_rbac
from tfcluster.backends.kubernetes.run import obstacle_of
from tfcluster.backends.kubernetes.watch import Seen
from tfcluster.errors import MissingError, WaitTimeout

PENDING = "/apis/visibility.kueue.x-k8s.io/v1beta1/namespaces/default/localqueues/lab"


@pytest.fixture
def keeper(api, kube_run):
    return Keeper(kube_run, plan_of(QUEUED), api.cluster(patience=0.5))


# -- Manifests


def test_all_pods_of_a_run_are_one_group_and_the_jobs_are_in_no_queue():
    docs = documents(rendered(QUEUED))
    group = group_of(plan_of(QUEUED))
    for role in ("ps", "worker"):
        assert "kueue" not in str(found(docs, "Job", f"small-{role}")["metadata"])
        pod = pod_of(docs, role)
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "lab"
        assert pod["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] == group
        assert pod["metadata"]["annotations"] == {
            "kueue.x-k8s.io/pod-group-total-count": "3",
            "kueue.x-k8s.io/retriable-in-group": "false",
        }
        assert pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/admission"}]


def test_without_a_queue_nothing_of_kueue_is_there():
    assert "kueue" not in rendered(SMALL)
    assert "TerminationTarget" not in rendered(SMALL)


def test_waiting_is_not_counted_against_the_deadline():
    assert "activeDeadlineSeconds" in rendered({**SMALL, "deadline": 60})
    assert "activeDeadlineSeconds" not in rendered({**QUEUED, "deadline": 60})


def test_an_eviction_by_kueue_is_not_a_failure():
    rules = found(documents(rendered(QUEUED)), "Job", "small-ps")["spec"]["podFailurePolicy"]
    patterns = {"type": "TerminationTarget", "status": "True"}
    assert {"action": "Ignore", "onPodConditions": [patterns]} in rules["rules"]


def test_another_queue_means_other_pods():
    other = {**QUEUED, "kubernetes": {"queue": "other"}}
    assert plan_of(QUEUED).roles[0].digest != plan_of(other).roles[0].digest


def test_an_operators_object_is_queued_and_its_pods_are_not():
    for target in ("jobset", "tfjob"):
        text = rendered(QUEUED, target)
        assert text.count("kueue.x-k8s.io/queue-name: lab") == 1
        assert "pod-group" not in text and "schedulingGates" not in text


def test_the_groups_name_is_a_label_however_long_the_jobs_is():
    plan = plan_of({**QUEUED, "name": "n" * 52})
    assert len(group_of(plan)) <= 63
    assert group_of(plan).endswith(plan.site["run"])


def test_the_role_gets_rights_for_a_queue_only_if_asked():
    assert "kueue" not in render_rbac()
    rules = documents(render_rbac(queue=True))[0]["rules"]
    (rule,) = [rule for rule in rules if rule["apiGroups"] == ["kueue.x-k8s.io"]]
    assert rule == {**rule, "resources": ["workloads"], "verbs": ["get", "create", "delete"]}
    assert {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]} in rules


# -- What is said


def test_a_waiting_task_says_kueues_words_and_its_place(api):
    api.put(WORKLOADS, "group", status=says("QuotaReserved", "False", SHORT))
    other = {"metadata": {"name": "other"}, "positionInLocalQueue": 0}
    own = {"metadata": {"name": "group"}, "positionInLocalQueue": 1}
    api.put(PENDING, "pendingworkloads", items=[other, own])
    problem = Queue(api.cluster(), "lab", "group").problem(gated(), [])
    assert problem.kind == "queued"
    assert problem.fatal_after is None
    assert problem.message == f'waits in queue "lab", place 2: {SHORT}'


def test_a_reserved_job_that_is_not_admitted_says_what_it_waits_for(api):
    checks = says("Admitted", "False", "Waiting for admission check budget")
    reserved = says("QuotaReserved", "True", "Quota reserved")
    both = [*reserved["conditions"], *checks["conditions"]]
    api.put(WORKLOADS, "group", status={"conditions": both})
    problem = Queue(api.cluster(), "lab", "group").problem(gated(), [])
    assert problem.message == 'waits in queue "lab": Waiting for admission check budget'
    assert not any("pendingworkloads" in path for _, path in api.asked)


@pytest.mark.parametrize("fault", [403, 404, 503])
def test_without_rights_or_answers_the_events_are_told_and_nothing_fails(api, fault):
    api.fail(WORKLOADS, *[fault] * 3)
    queue = Queue(api.cluster(), "lab", "group")
    assert queue.problem(gated(), []).message == 'waits in queue "lab"'
    told = [{"reason": "Pending", "message": SHORT}, {"reason": "Scheduled", "message": "no"}]
    assert queue.problem(gated(), told).message == f'waits in queue "lab": {SHORT}'


def test_kueue_is_asked_now_and_then_and_not_again_where_it_is_forbidden(api):
    clock = iter([0.0, 0.0, 1.0, 100.0, 100.0, 200.0, 200.0])
    api.fail(WORKLOADS, 403)
    queue = Queue(api.cluster(), "lab", "group", clock=lambda: next(clock))
    for _ in range(4):
        queue.problem(gated(), [])
    assert len(api.asked) == 1


def test_a_cluster_without_kueue_says_so_soon(api, keeper):
    pod = gated(**{kueue.MANAGED: ""})
    api.fail("/workloads/", 404)
    api.fail("/apis/kueue.x-k8s.io/v1beta1", 404)
    keeper.view.take("pods", Seen("all", (pod,)))
    keeper.admission.look()
    problem = keeper.admission.problem(pod, {}, [])
    assert problem.kind == "unmanaged"
    record = {"state": "pending", "problem": {**problem.to_dict(), "since": time.time() - 11}}
    error = obstacle_of(keeper.run, keeper.plan, "ps-0", record)
    assert isinstance(error, MissingError)
    assert "Kueue installed" in error.hint


def test_an_evicted_pod_says_by_whom_and_why():
    pod = gated()
    pod["status"] = says("TerminationTarget", "True", "Preempted to accommodate a workload")
    assert how_it_ended(pod, "worker-1")["reason"] == (
        "evicted by Kueue: Preempted to accommodate a workload"
    )


# -- What is done


def test_a_queue_is_waited_in_for_ever_and_start_timeout_begins_after_it(keeper):
    keeper.run.update(applied=time.time() - 3600)
    waiting = {"state": "pending", "problem": {"kind": "queued", "message": "", "since": 0.0}}
    waiting["problem"]["fatal_after"] = None
    assert obstacle_of(keeper.run, keeper.plan, "ps-0", waiting) is None
    slow = {"state": "pending", "problem": {**waiting["problem"], "kind": "slow"}}
    assert isinstance(obstacle_of(keeper.run, keeper.plan, "ps-0", slow), WaitTimeout)
    admitted = {**slow, "admitted": time.time() - 1}
    assert obstacle_of(keeper.run, keeper.plan, "ps-0", admitted) is None


def test_the_keeper_notes_when_a_task_was_admitted(keeper):
    reader = keeper.readers["ps-0"]
    keeper.waits(reader, kueue.queued_problem("lab", SHORT, None), None)
    assert "admitted" not in reader.record
    keeper.waits(reader, kueue.UNMANAGED, None)
    assert reader.record["admitted"] == pytest.approx(time.time(), abs=5)


def test_a_failed_job_is_over_though_tasks_of_it_were_never_admitted(api, keeper):
    for reader in keeper.readers.values():
        keeper.waits(reader, kueue.queued_problem("lab", SHORT, None), None)
    keeper.end_what_waits()
    assert keeper.open == ["ps-0", "worker-0", "worker-1"]
    keeper.readers["ps-0"].update(state="running", problem=None)
    keeper.end_what_waits()
    assert len(keeper.open) == 3
    keeper.publish(keeper.readers["ps-0"], {"state": "failed", "reason": "it failed"})
    keeper.end_what_waits()
    assert keeper.open == []
    record = keeper.readers["worker-1"].record
    assert (record["state"], record["problem"]) == ("stopped", None)
    assert record["reason"] == "never admitted; stopped because ps-0 failed"
    # What waits in the cluster must not start any more.
    assert ("PATCH", "/apis/batch/v1/namespaces/default/jobs/small-worker") in api.asked


def test_new_pods_of_a_group_that_kueue_holds_for_finished_queue_again(api, keeper):
    group = keeper.admission.queue.group
    api.put(WORKLOADS, group, status=says("Finished", "True", "Pods succeeded: 0/3."))
    going = {**gated(), "metadata": {**gated()["metadata"], "deletionTimestamp": "x"}}
    keeper.admission.problem(going, {}, [])
    assert ("DELETE", f"{WORKLOADS}/{group}") not in api.asked
    keeper.admission.problem(gated(), {}, [])
    assert ("DELETE", f"{WORKLOADS}/{group}") in api.asked


@pytest.mark.parametrize("fault", [403, 404])
def test_what_cannot_be_taken_out_of_the_queue_is_left_to_kueue(api, fault):
    api.fail(WORKLOADS, fault)
    assert leave(api.cluster(), "group") is False
    assert leave(api.cluster(), None) is False
