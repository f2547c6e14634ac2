"""What goes wrong in a cluster, on a real one: what the job does, and what is said about it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.contract.jobs import Job
from tests.kind import cluster, kueue
from tests.launchers import until
from tfcluster.backends.kubernetes.render import render_kubernetes
from tfcluster.backends.kubernetes.state import seconds
from tfcluster.errors import MissingError, TfclusterError, WaitTimeout
from tfcluster.launch import exits

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
TURNS = (
    "import os, time\n"
    "print('attempt', os.environ['TFCLUSTER_ATTEMPT'], flush=True)\n"
    "first = os.environ['TFCLUSTER_ATTEMPT'] == '0' and os.environ['TFCLUSTER_INDEX'] == '1'\n"
    "time.sleep(600 if first else 3)"
)


def pod_of(task: str) -> str:
    (name,) = [
        name
        for name, phase in cluster.phases("contract").items()
        if name.startswith(f"contract-{task}-") and phase in ("Pending", "Running")
    ]
    return name


def becomes_stuck(job: Job, kind: type[Exception], timeout: float = 60) -> Exception:
    until(lambda: job.status() and job.backend.stuck(job.run), "the job to be stuck", timeout)
    error = job.backend.stuck(job.run)
    assert isinstance(error, kind), error
    return error


def test_a_deleted_pod_is_replaced_and_its_log_is_kept(job):
    job.up(job.spec(TURNS))
    job.says("worker-1", b"attempt 0")
    cluster.kubectl("delete", "pod", "-n", cluster.NAMESPACE, pod_of("worker-1"), "--wait=false")
    status = job.over()
    assert status.state == "succeeded", status
    assert job.log("worker-1") == b"attempt 0\nattempt 1\n"
    assert job.log("worker-1", attempts="previous") == b"attempt 0\n"
    assert {task.task: task.restarts for task in status.tasks}["worker-1"] == 1


def test_memory_over_the_limit_is_named_as_such(job):
    greedy = "import time; block = b'x' * (300 << 20); time.sleep(600)"
    job.up(job.spec(greedy, workers=1, restarts=0, roles={"worker": {"memory": "60Mi"}}))
    status = job.over()
    assert status.state == "failed"
    assert (status.cause.task, status.cause.exit_code) == ("worker-0", 137)
    assert "out of memory" in status.cause.reason
    ps = next(task for task in status.tasks if task.task == "ps-0")
    assert ps.reason.startswith("stopped because worker-0 failed")


def test_an_image_that_cannot_be_pulled_is_told_soon_and_in_the_kubelets_words(job):
    job.up(job.spec(SLEEP, image="registry.invalid/nobody/nothing:1"))
    error = becomes_stuck(job, MissingError)
    assert 'cannot pull "registry.invalid/nobody/nothing:1"' in error.message
    assert "no such host" in error.message or "lookup" in error.message
    assert job.status().tasks[0].reason in error.message


def test_an_image_that_is_not_on_the_node_is_told_at_once(job):
    job.up(job.spec(SLEEP, image="tfcluster/nothing:1", image_pull={"policy": "never"}))
    error = becomes_stuck(job, MissingError, timeout=30)
    assert "not present on the node" in error.message
    assert "kind load docker-image" in error.hint


def test_what_no_node_can_give_is_told_at_the_deadline_in_the_schedulers_words(job):
    spec = job.spec(SLEEP, start_timeout=5, roles={"worker": {"gpus": 300}})
    job.up(spec)
    until(lambda: "Insufficient" in job.task("worker-0").reason, "the scheduler's sentence")
    assert "nvidia.com/gpu" in job.task("worker-0").reason
    error = becomes_stuck(job, WaitTimeout)
    assert error.exit_code == 4
    assert "nodes are available" in error.message
    assert "tfcluster fit" in error.hint


@pytest.fixture
def small_quota():
    doc = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small", "namespace": cluster.NAMESPACE},
        "spec": {"hard": {"pods": "1"}},
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(doc))
    time.sleep(1)
    yield
    cluster.kubectl("delete", "resourcequota", "-n", cluster.NAMESPACE, "small")


def test_a_quota_that_is_too_small_is_named(job, small_quota):
    job.up(job.spec(SLEEP))
    error = becomes_stuck(job, MissingError)
    assert "exceeded quota: small" in error.message
    assert "quota" in error.hint


def test_a_namespace_that_refuses_the_pods_is_named(job):
    template = {"spec": {"hostNetwork": True}}
    job.up(job.spec(SLEEP, kubernetes={"pod_template": template}))
    error = becomes_stuck(job, MissingError)
    assert "violates PodSecurity" in error.message


def test_a_secret_that_is_not_there_is_named(job):
    job.up(job.spec(SLEEP, env_from=[{"secret": "nobody-made-it"}]))
    error = becomes_stuck(job, MissingError)
    assert "nobody-made-it" in error.message


def test_a_suspended_job_frees_its_nodes_and_goes_on_when_resumed(job):
    done = int(time.time()) + 60
    code = (
        "import os, time; print('up', flush=True)\n"
        f"while os.environ['TFCLUSTER_INDEX'] == '1' and time.time() < {done}: time.sleep(0.2)"
    )
    job.up(job.spec(code))
    job.says("worker-1", b"up")
    job.task_is("worker-0", "succeeded")
    job.backend.suspend(job.run, True)
    until(
        lambda: set(cluster.phases("contract").values()) <= {"Succeeded"},
        "all but worker-0 to go",
        timeout=60,
    )
    until(lambda: job.task("worker-1").reason == "suspended", "status to say so")
    job.backend.suspend(job.run, False)
    job.says("worker-1", b"up\nup")
    until(lambda: job.status().over, "the job to be over", timeout=150)
    assert job.status().state == "succeeded"


def test_what_somebody_else_deletes_is_said_and_ends(job):
    job.up(job.spec(SLEEP))
    job.says("worker-1", b"up")
    cluster.kubectl("delete", "jobs", "-n", cluster.NAMESPACE, "-l", "tfcluster.io/job=contract")
    status = job.over()
    assert status.state == "stopped"


def test_a_keeper_that_was_killed_is_replaced_and_nothing_is_lost(job):
    code = "import time\nfor n in range(100): print('line', n, flush=True); time.sleep(0.1)"
    job.up(job.spec(code, workers=1))
    job.says("worker-0", b"line 5")
    os.kill(job.run.files.read_keeper()["pid"], signal.SIGKILL)
    time.sleep(2)
    status = job.over()
    assert status.state == "succeeded"
    assert job.log("worker-0") == b"".join(b"line %d\n" % n for n in range(100))


def test_a_job_of_the_same_name_from_elsewhere_is_left_alone(job, tmp_path, monkeypatch):
    job.up(job.spec(SLEEP))
    job.says("worker-0", b"up")
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "another"))
    other = Job("kubernetes", tmp_path / "other")
    other.folder.mkdir()
    with pytest.raises(Exception, match="already runs in namespace"):
        other.up(other.spec(SLEEP))
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    assert job.task("worker-0").state == "running"
    (secret,) = cluster.listed("secrets", "tfcluster.io/job=contract")
    assert secret["metadata"]["labels"]["tfcluster.io/run"] == job.run.id


@pytest.fixture
def foreign_secret():
    own = ("secret", "contract-control", "-n", cluster.NAMESPACE)
    cluster.kubectl("create", own[0], "generic", *own[1:], "--from-literal=theirs=1")
    yield lambda: json.loads(cluster.kubectl("get", *own, "-o", "json"))
    cluster.kubectl("delete", *own)


def test_a_secret_of_somebody_else_is_neither_used_nor_deleted(job, foreign_secret):
    before = foreign_secret()
    with pytest.raises(TfclusterError, match='Secret "contract-control" is there already'):
        job.up(job.spec(SLEEP))
    assert foreign_secret() == before


def test_a_task_that_cannot_hear_of_the_end_ends_by_its_rule_though_no_pod_follows(job):
    job.up(job.spec("import time; print('up', flush=True); time.sleep(4)", restarts=0))
    job.says("worker-1", b"up")
    job.pause("ps-0")
    status = job.over(180)
    assert status.state == "succeeded", status
    ps = next(task for task in status.tasks if task.task == "ps-0")
    assert (ps.exit_code, ps.kind) == (0, exits.JOB_DONE)


def test_what_is_applied_is_what_is_rendered_byte_for_byte(job):
    made = job.up(job.spec(SLEEP))
    applied = (job.run.path / "manifests.yaml").read_text()
    assert applied == render_kubernetes(made.plan, job.run.files.require_key())
    # Exits 1 if the live objects differ from the text.
    difference = ("diff", "--server-side", "--field-manager=tfcluster", "-n", cluster.NAMESPACE)
    assert cluster.kubectl(*difference, "-f", "-", stdin=applied) == ""


def test_a_run_whose_context_is_gone_can_be_ended(job, monkeypatch, tmp_path):
    job.up(job.spec(SLEEP))
    job.says("worker-0", b"up")
    kubeconfig = Path(os.environ["KUBECONFIG"])
    empty = json.loads(kubeconfig.read_text())
    for entry in (*empty["contexts"], empty):
        entry["name" if "name" in entry else "current-context"] = "another"
    (tmp_path / "empty").write_text(json.dumps(empty))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "empty"))
    job.down()
    assert job.status().state == "stopped"
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    cluster.kubectl(
        *("delete", "jobs,services,configmaps,secrets,networkpolicies", "-n", cluster.NAMESPACE),
        *("-l", "tfcluster.io/job=contract"),
    )
    until(lambda: not cluster.phases("contract"), "the pods to be gone", timeout=60)


def controllers_lead_since(moment: float) -> bool:
    """Whether the cluster's own controllers work: without them no pod of a deleted Job goes."""
    text = cluster.kubectl(
        "get", "lease", "kube-controller-manager", "-n", "kube-system", "-o", "json"
    )
    return (seconds(json.loads(text)["spec"]["renewTime"]) or 0.0) > moment


def test_an_api_server_that_restarts_costs_no_line(job):
    node = f"{cluster.CONTEXT.removeprefix('kind-')}-control-plane"
    code = "import time\nfor n in range(200): print('line', n, flush=True); time.sleep(0.1)"
    job.up(job.spec(code, workers=1))
    job.says("worker-0", b"line 5")
    stop = (
        "for p in /proc/[0-9]*; do case \"$(tr '\\0' ' ' < $p/cmdline)\" in "
        "kube-apiserver*) kill ${p#/proc/};; esac; done"
    )
    killed = time.time()
    subprocess.run(["docker", "exec", node, "sh", "-c", stop], check=True, capture_output=True)
    # A static pod takes its time to come back.
    until(lambda: job.status().over, "the job to be over", timeout=240)
    assert job.status().state == "succeeded"
    assert job.log("worker-0") == b"".join(b"line %d\n" % n for n in range(200))
    # The scheduler and the controllers lose their leases with it, and start again.
    ready = ("wait", "--for=condition=Ready", "pod", "-n", "kube-system", "-l")
    cluster.kubectl(*ready, "tier=control-plane", "--timeout=110s")
    until(lambda: controllers_lead_since(killed), "the controllers to lead again", timeout=120)
    if kueue.is_installed():
        kueue.start_again()
