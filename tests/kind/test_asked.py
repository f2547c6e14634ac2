"""What a spec can ask of a cluster, on a real one: storage, placement, an end, a preview."""

from __future__ import annotations

import json

import pytest

from tests.kind import cluster
from tests.kind.test_faults import SLEEP, TURNS, becomes_stuck, pod_of
from tests.launchers import until
from tfcluster.backends.kubernetes import connect
from tfcluster.cli import main
from tfcluster.converge import preview
from tfcluster.errors import MissingError, TfclusterError, WaitTimeout
from tfcluster.spec.loader import load_spec

REMEMBERS = (
    "import os, pathlib, time\n"
    "kept = pathlib.Path(os.environ['TFCLUSTER_CHECKPOINTS'], os.environ['TFCLUSTER_TASK'])\n"
    "kept.parent.mkdir(parents=True, exist_ok=True)\n"
    "print('found', kept.read_text() if kept.exists() else 'nothing', flush=True)\n"
    "kept.write_text('my work')\n"
    "time.sleep(600 if os.environ['TFCLUSTER_ATTEMPT'] == '0' else 0)"
)


def previewed(job, spec):
    path = job.folder / "cluster.yaml"
    path.write_text(json.dumps(spec))
    return preview(load_spec(path))


# -- Storage, and an end to everything


def test_what_a_pod_wrote_outlives_it_and_the_job_until_it_is_deleted(job):
    job.up(job.spec(REMEMBERS, workers=1, kubernetes={"storage": {"size": "16Mi"}}))
    job.says("worker-0", b"found nothing")
    cluster.kubectl("delete", "pod", "-n", cluster.NAMESPACE, pod_of("worker-0"), "--wait=false")
    assert job.over().state == "succeeded"
    assert job.log("worker-0") == b"found nothing\nfound my work\n"
    job.down()
    place = job.status().results[0]
    assert (place.kind, place.name) == ("claim", "contract-output")
    assert place.path == f"/output/{job.run.id}"
    (host,) = job.backend.hosts(job.run)
    (claim,) = job.backend.survey(host, [job.run])
    assert (claim.kind, claim.name, claim.size) == ("claim", "contract-output", 16 << 20)
    assert main(["rm", job.run.id, "--yes"]) == 0
    job.run = None
    until(lambda: not cluster.listed("pvc"), "the claim to be gone", timeout=60)


def test_an_ended_job_deletes_itself_and_its_log_stays(job):
    job.up(job.spec("print('done', flush=True)", workers=1, kubernetes={"ttl": 1}))
    assert job.over().state == "succeeded"
    gone = "the cluster to have deleted its pods"
    until(lambda: not cluster.phases("contract"), gone, timeout=60)
    assert job.status().state == "succeeded"
    assert job.log("worker-0") == b"done\n"


# -- Placement


@pytest.fixture
def cordoned():
    """Nodes that the test has drained; they take pods again afterwards."""
    nodes: list[str] = []
    yield nodes
    for node in nodes:
        cluster.kubectl("uncordon", node)


def test_tasks_of_a_drained_node_go_on_elsewhere_and_it_is_nobodys_failure(job, cordoned):
    job.up(job.spec(TURNS, restarts=0))
    job.says("worker-1", b"attempt 0")
    wanted = ("get", "pod", "-n", cluster.NAMESPACE, pod_of("worker-1"), "-o", "json")
    cordoned.append(json.loads(cluster.kubectl(*wanted))["spec"]["nodeName"])
    chosen = f"--pod-selector=tfcluster.io/run={job.run.id}"
    cluster.kubectl("drain", *cordoned, "--delete-emptydir-data", "--timeout=90s", chosen)
    until(lambda: job.status().over, "the job to be over", timeout=120)
    assert job.status().state == "succeeded", job.status()
    assert job.log("worker-1") == b"attempt 0\nattempt 1\n"
    assert any("drained" in event.message for event in job.run.events())


def test_a_third_worker_finds_no_host_of_its_own_on_two(job):
    cluster_section = {"spread": "one-per-host"}
    job.up(job.spec(SLEEP, workers=3, start_timeout=5, kubernetes=cluster_section))
    error = becomes_stuck(job, WaitTimeout)
    assert "anti-affinity" in error.message
    pods = cluster.listed("pods", "tfcluster.io/job=contract,tfcluster.io/role=worker")
    placed = [pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"]]
    assert len(placed) == len(set(placed)) == 2


def test_a_cluster_without_gangs_is_told_at_once_and_nothing_stays(job):
    with pytest.raises(MissingError, match="gang: native needs Kubernetes") as raised:
        job.up(job.spec(SLEEP, kubernetes={"gang": "native"}))
    assert "does not serve scheduling.k8s.io" in raised.value.evidence[0]
    assert cluster.listed("services", "tfcluster.io/job=contract") == []


def test_as_many_requests_for_many_tasks_as_for_few(job, monkeypatch):
    made = []
    really = connect.connect

    def counted(*args):
        made.append(really(*args))
        return made[-1]

    monkeypatch.setattr(connect, "connect", counted)

    def requests(workers: int) -> int:
        made.clear()
        # Pods that no node can take: the cluster has nothing to do but to know of them.
        job.up(job.spec(SLEEP, workers=workers, roles={"worker": {"gpus": 300}}))
        count = sum(each.requests for each in made)
        job.down()
        job.run = None
        return count

    few, many = requests(2), requests(60)
    assert many < few + 10, "what an earlier run left may cost a few; tasks must not"


# -- What would change


def test_a_preview_is_the_servers_own_and_changes_nothing(job):
    spec = job.spec(SLEEP)
    assert {change.action for change in previewed(job, spec).objects} == {"create"}
    assert cluster.listed("jobs", "tfcluster.io/job=contract") == []
    job.up(spec)
    job.says("worker-1", b"up")
    running = job.identity_of_running("worker-1")
    found = previewed(job, spec)
    assert found.objects == ()
    assert {change.action for change in found.decision.changes} == {"keep"}

    changed = job.spec(SLEEP, roles={"worker": {"cpu": 0.2}})
    objects = {(each.kind, each.name): each for each in previewed(job, changed).objects}
    worker = objects["Job", "contract-worker"]
    assert worker.action == "replace"
    fields = {field.path: field.after for field in worker.fields}
    asked = fields["spec.template.spec.containers[task].resources.limits"]
    assert asked == {"cpu": "200m"}
    assert ("Job", "contract-ps") not in objects
    assert job.identity_of_running("worker-1") == running


def test_the_longest_name_runs_and_can_be_previewed(job):
    job.name = "a-" * 26 + "ab"
    assert len(f"{job.name}-worker-1") == 63
    job.up(job.spec(SLEEP))
    job.says("worker-1", b"up")
    found = previewed(job, job.spec(SLEEP, roles={"worker": {"cpu": 0.2}})).objects
    assert ("replace", f"{job.name}-worker") in {(each.action, each.name) for each in found}


def test_what_somebody_deleted_is_seen_and_put_back(job):
    spec = job.spec(SLEEP)
    job.up(spec)
    job.says("worker-1", b"up")
    before = job.identity_of_running("worker-1")
    cluster.kubectl("delete", "networkpolicy", "-n", cluster.NAMESPACE, "contract")
    (missing,) = previewed(job, spec).objects
    assert (missing.action, missing.kind) == ("create", "NetworkPolicy")
    assert job.up(spec).unchanged
    assert previewed(job, spec).objects == ()
    assert job.identity_of_running("worker-1") == before


def test_a_field_that_somebody_else_holds_is_named_with_them(job):
    spec = job.spec(SLEEP)
    job.up(spec)
    job.says("worker-1", b"up")
    patch = json.dumps({"spec": {"selector": {"tfcluster.io/part": "another"}}})
    cluster.kubectl("patch", "service", "-n", cluster.NAMESPACE, "contract", "-p", patch)
    with pytest.raises(TfclusterError, match='Service "contract" was changed') as raised:
        previewed(job, spec)
    assert "kubectl-patch" in " ".join(raised.value.evidence)
