"""The example on a real cluster: trained by `tfcluster up`, and by `kubectl apply` alone."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import datetime

import pytest

from tests.kind import cluster
from tests.launchers import until
from tests.runs.cli import ROOT, Cli
from tests.runs.data_service import assert_data_service_ends_by_itself
from tfcluster.images import trainer_image

EXAMPLE = str(ROOT / "examples" / "kind.yaml")
QUICK = ("--set", "train.steps=600", "--set", "start_timeout=5m")


@pytest.fixture(scope="session")
def image():
    """The trainer's image, on the nodes; built and loaded if it is not there."""
    name = trainer_image()
    known = [
        text
        for node in json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
        for entry in node["status"].get("images") or []
        for text in entry.get("names") or []
    ]
    if not any(text.endswith(name) for text in known):
        argv = ["python", "-m", "tfcluster", "build", "--load", cluster.CONTEXT[len("kind-") :]]
        argv[0] = os.sys.executable
        done = subprocess.run(argv, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr
    return name


@pytest.fixture
def tfcluster(tmp_path, tester):
    folder = tmp_path / "work"
    folder.mkdir()
    cli = Cli(folder, tmp_path / "home")
    cli.env["KUBECONFIG"] = str(tester)
    yield cli
    cli("down", "--all")
    labels = "tfcluster.io/job=mnist"
    kinds = "jobs,services,configmaps,secrets,networkpolicies"
    cluster.kubectl("delete", kinds, "-n", cluster.NAMESPACE, "-l", labels)


def moment(stamp: str) -> float:
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def ends(job: str) -> dict[str, float]:
    return {
        pod["metadata"]["name"]: moment(
            pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
        )
        for pod in cluster.listed("pods", f"tfcluster.io/job={job}")
    }


def test_up_trains_on_two_nodes_and_everything_ends_by_itself(tfcluster, image):
    up = tfcluster("up", EXAMPLE, *QUICK, "--set", f"image={image}")
    assert up.returncode == 0, up.stderr
    assert f"Target: context {cluster.CONTEXT}, namespace {cluster.NAMESPACE}" in up.stderr
    assert "test accuracy 0." in up.stderr
    # The kubelet writes a pod's phase a moment after its container has ended.
    until(
        lambda: set(cluster.phases("mnist").values()) == {"Succeeded"},
        "every pod to have succeeded",
        timeout=30,
    )
    pods = cluster.listed("pods", "tfcluster.io/job=mnist")
    assert len(pods) == 3, "no pod was deleted or replaced on the way"
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    times = ends("mnist")
    last_worker = max(end for name, end in times.items() if "-worker-" in name)
    assert max(times.values()) - last_worker < 15
    before = tfcluster("logs", "worker-1", "--file", EXAMPLE).stdout
    assert "worker-1 | " in before
    assert tfcluster("down", "-f", EXAMPLE).returncode == 0
    assert tfcluster("logs", "worker-1", "--file", EXAMPLE).stdout == before


def test_kubectl_apply_alone_trains_and_ends_the_ps(tfcluster, image):
    made = tfcluster("render", EXAMPLE, *QUICK, "--set", f"image={image}")
    assert made.returncode == 0, made.stderr
    cluster.kubectl("apply", "-n", cluster.NAMESPACE, "-f", "-", stdin=made.stdout)
    until(
        lambda: set(cluster.phases("mnist").values()) == {"Succeeded"},
        "every pod to have succeeded",
        timeout=240,
    )
    log = cluster.kubectl(
        *("logs", "-n", cluster.NAMESPACE, "--tail=-1"),
        *("-l", "tfcluster.io/job=mnist,tfcluster.io/role=worker"),
    )
    assert "tfcluster-result" in log


@pytest.mark.parametrize("name", ["small", "everything"])
def test_a_real_api_server_accepts_what_is_rendered(tfcluster, name):
    cluster.make_namespace("training")
    spec = ROOT / "tests" / "golden" / "manifests" / f"{name}.yaml"
    made = tfcluster("render", str(spec), "--target", "kubernetes")
    assert made.returncode == 0, made.stderr
    cluster.kubectl("apply", "--dry-run=server", "-f", "-", stdin=made.stdout)


@pytest.fixture
def two_gpus():
    """Every worker node offers two GPUs that are not there, as a device plugin would."""
    nodes = [
        node["metadata"]["name"]
        for node in json.loads(
            cluster.kubectl(
                "get", "nodes", "-l", "!node-role.kubernetes.io/control-plane", "-o", "json"
            )
        )["items"]
    ]
    patch = json.dumps({"status": {"capacity": {"nvidia.com/gpu": "2"}}})
    for node in nodes:
        cluster.kubectl("patch", "node", node, "--subresource=status", "--type=merge", "-p", patch)
    yield nodes


PS = (
    "import os, socket, time; print('sees', repr(os.environ['CUDA_VISIBLE_DEVICES']), flush=True); "
    "s = socket.create_server(('', 2222)); time.sleep(600)"
)
WORKER = "import os; print('sees', os.environ.get('CUDA_VISIBLE_DEVICES'), flush=True)"
GPU_SPEC = f"""\
name: mnist
backend: kubernetes
image: python:3.11-slim
start_timeout: 30
roles:
  ps: {{command: [python3, -c, {json.dumps(PS)}]}}
  worker: {{replicas: 2, gpus: {{{{ gpus }}}}, command: [python3, -c, {json.dumps(WORKER)}]}}
"""


def test_workers_that_ask_get_gpus_and_the_ps_gets_none(tfcluster, two_gpus):
    (tfcluster.folder / "cluster.yaml").write_text(GPU_SPEC)
    up = tfcluster("up", "--var", "gpus=1")
    assert up.returncode == 0, up.stderr
    assert "ps-0     | sees ''" in up.stdout
    assert "worker-0 | sees None" in up.stdout
    limits = {
        pod["metadata"]["labels"]["tfcluster.io/role"]: pod["spec"]["containers"][0]["resources"]
        for pod in cluster.listed("pods", "tfcluster.io/job=mnist")
    }
    assert limits["worker"]["limits"]["nvidia.com/gpu"] == "1"
    assert "limits" not in limits["ps"]


def test_fit_says_before_what_the_scheduler_would_say_later(tfcluster, two_gpus):
    (tfcluster.folder / "cluster.yaml").write_text(GPU_SPEC)
    admin = Cli(tfcluster.folder, tfcluster.home)  # fit looks at the whole cluster
    assert admin("fit", "--var", "gpus=2").returncode == 0
    fit = admin("fit", "--var", "gpus=3")
    assert fit.returncode == 3
    assert "0 of 2 workers can be placed" in fit.stdout
    assert "--set roles.worker.gpus=2" in fit.stdout
    refused = tfcluster("fit", "--var", "gpus=2")
    assert refused.returncode == 3 and "tfcluster rbac --nodes" in refused.stderr


def test_a_tf_data_service_ends_when_its_trainer_has_finished(tfcluster, image):
    own = ("--backend", "kubernetes", "--set", f"image={image}", "--set", "code=.")
    assert_data_service_ends_by_itself(tfcluster, *own, "--set", "start_timeout=5m")
