"""Jobs in a queue of a real Kueue: in as a whole, out as a whole, in Kueue's own words.

First with Kueue as it is installed, when it does not manage pods; then with its pod integration.
To switch it takes a restart of Kueue, so that the order of the tests matters.
"""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.contract.jobs import Job
from tests.kind import cluster, kueue
from tests.kind.test_faults import SLEEP, becomes_stuck
from tests.launchers import until
from tfcluster.backends.kubernetes.rbac import render_rbac
from tfcluster.errors import MissingError

BRIEF = "print('trained', flush=True)"
RIGHTS = ("with the rights of rbac --queue", "without them")


@pytest.fixture(scope="module")
def queues():
    """A namespace for a queue."""
    if not kueue.is_installed():
        pytest.skip("needs Kueue in the cluster; run: testbed kueue")
    kueue.remove_queues()
    cluster.make_namespace(kueue.NAMESPACE, **{"pod-security.kubernetes.io/enforce": "restricted"})
    yield
    kueue.remove_queues()


@pytest.fixture(params=[True], ids=RIGHTS[:1])
def rights(request):
    return request.param


@pytest.fixture(params=[True], ids=["managed"])
def managed(request, queues):
    """Whether Kueue manages pods."""
    kueue.manage_pods(request.param)


@pytest.fixture
def jobs(tmp_path, home, managed, rights):
    """Makes jobs in a queue of 300 millicores; ends them all, and nothing of them stays."""
    kueue.make_queue("300m")
    tester = f"system:serviceaccount:{cluster.NAMESPACE}:tester"
    role = render_rbac(namespace=kueue.NAMESPACE, user=tester, queue=rights)
    cluster.kubectl("apply", "-f", "-", stdin=role)
    made: list[Job] = []

    def make(name: str) -> Job:
        folder = tmp_path / name
        folder.mkdir()
        made.append(Job("kubernetes", folder, name))
        return made[-1]

    yield make
    for job in made:
        job.down()
    kinds = "jobs,pods,services,configmaps,secrets,networkpolicies"
    left = ("get", kinds, "-n", kueue.NAMESPACE, "-l", "tfcluster.io/job", "-o", "name")
    assert cluster.kubectl(*left) == ""
    until(lambda: kueue.workloads() == [], "Kueue to have forgotten the jobs", timeout=60)


def asking(job: Job, worker: str, cpu: float = 0.1, queue: str = "lab", **settings):
    """One ps and two workers, each with so much CPU."""
    roles = {"ps": {"cpu": cpu}, "worker": {"cpu": cpu}}
    place = {"namespace": kueue.NAMESPACE, "queue": queue}
    return job.spec(worker, roles=roles, kubernetes=place, **settings)


def waits(job: Job, *words: str):
    """Every task waits, with these words in its reason."""

    def so(status):
        tasks = status.tasks
        return all(t.state == "pending" and all(w in t.reason for w in words) for t in tasks)

    return job.becomes(so, f"all tasks to wait with the words {words}")


def nothing_runs(name: str) -> bool:
    pods = cluster.listed("pods", f"tfcluster.io/job={name}", kueue.NAMESPACE)
    return bool(pods) and not any(pod["spec"].get("nodeName") for pod in pods)


# -- Kueue as it is installed: the keeper asks it for the whole job, and opens the gates

as_installed = pytest.mark.parametrize("managed", [False], ids=["as installed"], indirect=True)


@as_installed
def test_the_keeper_lets_a_job_in_that_fits_and_gives_its_quota_back(jobs):
    job = jobs("fits")
    job.up(asking(job, BRIEF))
    assert job.over().state == "succeeded"
    assert job.log("worker-1") == b"trained\n"
    assert kueue.workloads() == []
    until(lambda: kueue.used() == "0", "the quota to be free", timeout=60)


@as_installed
def test_jobs_wait_for_the_keeper_as_a_whole_until_room_appears(jobs):
    first, second, third = jobs("first"), jobs("second"), jobs("third")
    first.up(asking(first, SLEEP))
    first.says("worker-1", b"up")
    second.up(asking(second, BRIEF))
    short = "insufficient unused quota for cpu"
    waits(second, 'waits in queue "lab", place 1', short)
    third.up(asking(third, SLEEP))
    waits(third, 'waits in queue "lab", place 2', short)
    second.run.update(applied=time.time() - 3600)  # start_timeout is long over
    assert second.backend.stuck(second.run) is None
    assert nothing_runs("second") and nothing_runs("third")
    assert kueue.used() == "300m"
    third.down()
    assert len(kueue.workloads()) == 2
    first.down()
    assert second.over().state == "succeeded", second.status()


@as_installed
def test_a_job_too_big_for_its_queue_gets_in_when_the_quota_is_raised(jobs):
    job = jobs("big")
    job.up(asking(job, BRIEF, cpu=0.2))
    waits(job, "request > maximum capacity (600m > 300m)")
    assert nothing_runs("big")
    kueue.make_queue("600m")
    assert job.over().state == "succeeded", job.status()


@as_installed
def test_the_keeper_stops_an_evicted_job_and_lets_it_in_again(jobs):
    job = jobs("evicted")
    job.up(asking(job, SLEEP, restarts=0))
    job.says("worker-1", b"up")
    kueue.stop_queue("HoldAndDrain")
    waits(job, "is inactive")
    assert "evicted by Kueue: The ClusterQueue is stopped" in str(list(job.run.events()))
    assert nothing_runs("evicted")
    assert kueue.used() == "0"
    kueue.stop_queue("None")
    until(lambda: job.log("worker-1") == b"up\nup\n", "worker-1 to run again", timeout=120)


@as_installed
def test_a_later_keeper_opens_the_gate_of_a_new_pod_and_a_suspended_job_has_no_quota(jobs):
    job = jobs("killed")
    job.up(asking(job, SLEEP))
    job.says("worker-1", b"up")
    os.kill(job.run.files.read_keeper()["pid"], signal.SIGKILL)
    chosen = "tfcluster.io/role=worker,batch.kubernetes.io/job-completion-index=1"
    cluster.kubectl("delete", "pod", "-n", kueue.NAMESPACE, "-l", chosen, "--wait=false")
    until(lambda: job.log("worker-1") == b"up\nup\n", "worker-1 to run again", timeout=60)
    job.backend.suspend(job.run, True)
    waits(job, "suspended")
    until(lambda: kueue.used() == "0", "the quota to be free", timeout=60)
    job.backend.suspend(job.run, False)
    until(lambda: job.log("worker-1") == b"up\nup\nup\n", "worker-1 to run again", timeout=60)
    os.kill(job.run.files.read_keeper()["pid"], signal.SIGKILL)
    job.down()
    assert kueue.workloads() == []


@as_installed
@pytest.mark.parametrize("rights", [False], ids=RIGHTS[1:], indirect=True)
def test_without_its_rights_the_keeper_names_the_one_that_is_missing(jobs):
    job = jobs("slips")
    job.up(asking(job, SLEEP))
    error = becomes_stuck(job, MissingError)
    assert "the right to get workloads.kueue.x-k8s.io in namespace" in error.message
    assert "tfcluster rbac --queue" in error.hint
    assert nothing_runs("slips")


# -- With its pod integration, Kueue does it all by itself


def test_a_job_that_fits_trains_and_gives_its_quota_back(jobs):
    job = jobs("fits")
    job.up(asking(job, BRIEF))
    assert job.over().state == "succeeded"
    assert job.log("worker-1") == b"trained\n"
    until(lambda: kueue.used() == "0", "the quota to be free", timeout=60)


@pytest.mark.parametrize("rights", [True, False], ids=RIGHTS, indirect=True)
def test_a_job_waits_as_a_whole_and_is_admitted_when_room_appears(jobs, rights):
    first, second = jobs("first"), jobs("second")
    first.up(asking(first, SLEEP))
    first.says("worker-1", b"up")
    second.up(asking(second, BRIEF))
    status = waits(second, 'waits in queue "lab"', "insufficient unused quota for cpu")
    assert ("place 1" in status.tasks[0].reason) == rights
    second.run.update(applied=time.time() - 3600)  # start_timeout is long over
    assert second.backend.stuck(second.run) is None
    assert nothing_runs("second")
    assert kueue.used() == "300m"
    first.down()
    assert second.over().state == "succeeded", second.status()


def test_a_job_that_can_never_fit_says_so_and_goes_at_once(jobs):
    job = jobs("big")
    job.up(asking(job, SLEEP, cpu=0.2))
    waits(job, "request > maximum capacity (600m > 300m)")
    assert nothing_runs("big")
    begun = time.monotonic()
    job.down()
    assert time.monotonic() - begun < 45  # who waits for pods that never were, waits a minute


def test_a_queue_that_does_not_exist_or_is_stopped_is_named_by_kueue(jobs):
    lost = jobs("lost")
    lost.up(asking(lost, SLEEP, queue="nowhere"))
    waits(lost, 'waits in queue "nowhere"', "LocalQueue nowhere doesn't exist")
    kueue.stop_queue("Hold")
    held = jobs("held")
    held.up(asking(held, BRIEF))
    waits(held, f"ClusterQueue {kueue.NAMESPACE} is inactive")
    kueue.stop_queue("None")
    assert held.over().state == "succeeded"


def test_a_failed_job_frees_its_quota_though_nothing_of_it_is_deleted(jobs):
    job = jobs("fails")
    job.up(asking(job, "raise SystemExit(3)", restarts=0))
    assert job.over().state == "failed"
    until(lambda: kueue.used() == "0", "the quota to be free", timeout=60)
    assert len(cluster.phases("fails", kueue.NAMESPACE)) == 3


def test_a_killed_pod_of_an_admitted_job_is_replaced_and_joins_the_others(jobs):
    job = jobs("killed")
    job.up(asking(job, SLEEP))
    job.says("worker-1", b"up")
    chosen = "tfcluster.io/role=worker,batch.kubernetes.io/job-completion-index=1"
    cluster.kubectl("delete", "pod", "-n", kueue.NAMESPACE, "-l", chosen, "--wait=false")
    until(lambda: job.log("worker-1") == b"up\nup\n", "worker-1 to run again", timeout=60)
    assert job.task("worker-0").restarts == 0


def test_an_evicted_job_queues_again_and_it_is_not_a_failure(jobs):
    job = jobs("evicted")
    job.up(asking(job, SLEEP, restarts=0))
    job.says("worker-1", b"up")
    kueue.stop_queue("HoldAndDrain")
    is_told = "the eviction to be told in Kueue's words"
    until(lambda: "evicted by Kueue" in str(list(job.run.events())), is_told, timeout=60)
    waits(job, "is inactive")
    kueue.stop_queue("None")
    until(lambda: job.log("worker-1") == b"up\nup\n", "worker-1 to run again", timeout=120)


def test_a_suspended_job_holds_no_quota_and_queues_again_when_resumed(jobs):
    job = jobs("rests")
    job.up(asking(job, SLEEP))
    job.says("worker-1", b"up")
    job.backend.suspend(job.run, True)
    waits(job, "suspended")
    until(lambda: kueue.used() == "0", "the quota to be free", timeout=60)
    job.backend.suspend(job.run, False)
    until(lambda: job.log("worker-1") == b"up\nup\n", "worker-1 to run again", timeout=60)


def test_a_rendered_job_queues_and_trains_without_a_client(jobs, queues):
    job = jobs("rendered")
    kueue.stop_queue("Hold")
    job.up(asking(job, BRIEF))
    text = (job.run.path / "manifests.yaml").read_text()
    job.down()
    cluster.kubectl("apply", "-n", kueue.NAMESPACE, "-f", "-", stdin=text)
    until(lambda: kueue.workloads() != [], "the group to be queued", timeout=60)
    assert nothing_runs("rendered")
    kueue.stop_queue("None")

    def done():
        return set(cluster.phases("rendered", kueue.NAMESPACE).values()) == {"Succeeded"}

    until(done, "every pod to have succeeded", timeout=60)
    cluster.kubectl("delete", "-n", kueue.NAMESPACE, "-f", "-", stdin=text)


def test_a_job_that_has_failed_is_over_though_tasks_of_it_are_not_in_the_cluster(jobs):
    job = jobs("half")
    dies = f"{job.serve.replace('600', '12')}; raise SystemExit(3)"
    job.up(asking(job, SLEEP, ps=dies, restarts=0))
    job.says("worker-1", b"up")
    away = ("job/half-worker", "-n", kueue.NAMESPACE, "-p", '{"spec":{"suspend":true}}')
    cluster.kubectl("patch", *away)
    status = job.over()
    assert status.state == "failed"
    assert status.cause.task == "ps-0"
    told = {task.task: (task.state, task.reason) for task in status.tasks}
    assert told["worker-1"] == ("stopped", "suspended; stopped because ps-0 failed")
