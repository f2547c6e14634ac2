"""Kubernetes manifests: golden files, the published schemas, hostile values, and size."""

from __future__ import annotations

import os
import re
import time

import kubernetes_validate
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.unit.kube import (
    GOLDEN,
    SMALL,
    documents,
    found,
    launch_of,
    plan_of,
    pod_of,
    rendered,
    rendered_plan,
    task_of,
)
from tfcluster.errors import UsageError
from tfcluster.launch import exits
from tfcluster.launch.plan import control_address, program_argv, program_env
from tfcluster.plan import filled_task
from tfcluster.render import render_plan

SPECS = sorted(path for path in GOLDEN.glob("*.yaml") if path.name.count(".") == 1)
LAUNCHER = re.compile(r"(  launcher.py: \|\n)(?:(?:    .*)?\n)+?(?=---\n)")


def without_launcher(text: str) -> str:
    """The manifests with the launcher's source left out, which has tests of its own."""
    return LAUNCHER.sub(r"\1    …\n", text)


@pytest.mark.parametrize("target", ["kubernetes", "jobset", "tfjob"])
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_manifests_are_as_they_were(path, target):
    """`UPDATE_GOLDEN=1 pytest tests/unit/test_kube_render.py` writes them anew."""
    golden = path.with_suffix(f".{target}.txt")
    try:
        text = without_launcher(rendered(path.read_text(), target))
    except UsageError as error:
        text = f"error: {error.message}\nhint: {error.hint}\n"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("version", ["1.31", "1.34"])
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_manifests_follow_the_schemas_of_kubernetes(path, version):
    for doc in documents(rendered(path.read_text())):
        if doc["kind"] == "Job":
            # Alpha in Kubernetes 1.36; these schemas have not heard of it.
            doc["spec"]["template"]["spec"].pop("schedulingGroup", None)
        if doc["kind"] != "PodGroup":
            kubernetes_validate.validate(doc, version, strict=True)


def test_rendering_twice_gives_the_same_text(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path))
    plan = plan_of(SMALL)
    assert render_plan(plan, "kubernetes") == render_plan(plan, "kubernetes")


def test_the_key_is_in_the_secret_and_nowhere_else():
    text = rendered(SMALL)
    key = found(documents(text), "Secret")["stringData"]["control.key"]
    assert len(bytes.fromhex(key)) == 32
    assert text.count(key) == 1


def test_names_resolve_and_fit_together():
    docs = documents(rendered(SMALL))
    service = found(docs, "Service")
    assert service["spec"]["clusterIP"] is None or service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    for role in ("ps", "worker"):
        pod = pod_of(docs, role)
        assert pod["spec"]["subdomain"] == service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
        sources = pod["spec"]["volumes"][0]["projected"]["sources"]
        names = [next(iter(source.values()))["name"] for source in sources]
        assert names == [
            "small-launcher",
            found(docs, "ConfigMap", f"small-{role}-")["metadata"]["name"],
            found(docs, "Secret")["metadata"]["name"],
        ]


def test_a_launcher_in_a_pod_finds_the_same_task_as_the_plan():
    plan = plan_of({**SMALL, "args": ["--hosts=$(WORKER_HOSTS)", "--index=$(INDEX)"]})
    launch = launch_of(documents(rendered_plan(plan)), "worker")
    task = filled_task(plan.launch(plan.site["run"]), plan.role("worker"), 1)
    assert program_argv(launch, "worker", 1) == list(task.argv)
    assert program_env(launch, "worker", 1) == task.env
    assert control_address(launch, "ps-0") == ("small-ps-0.small", 2223)


def test_gpus_are_limits_on_the_roles_that_ask_and_masked_elsewhere():
    spec = {**SMALL, "roles": {"ps": {}, "worker": {"replicas": 2, "gpus": 2}}}
    docs = documents(rendered(spec))
    assert task_of(docs, "worker")["resources"] == {"limits": {"nvidia.com/gpu": 2}}
    assert "resources" not in task_of(docs, "ps")
    assert launch_of(docs, "ps")["roles"]["ps"]["mask_gpus"] is True
    assert launch_of(docs, "worker")["roles"]["worker"]["mask_gpus"] is False


def test_any_gpu_resource_and_claims_by_dynamic_allocation():
    cluster = {
        "gpu_resource": "amd.com/gpu",
        "resource_claims": [{"name": "gpu", "template": "one-gpu"}],
    }
    spec = {**SMALL, "roles": {"ps": {}, "worker": {"gpus": 1}}, "kubernetes": cluster}
    docs = documents(rendered(spec))
    assert task_of(docs, "worker")["resources"]["limits"] == {"amd.com/gpu": 1}
    assert task_of(docs, "worker")["resources"]["claims"] == [{"name": "gpu"}]
    claim = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
    assert pod_of(docs, "worker")["spec"]["resourceClaims"] == [claim]
    assert "resourceClaims" not in pod_of(docs, "ps")["spec"]


def test_a_claim_of_the_jobs_own_holds_a_folder_for_every_run():
    plan = plan_of({**SMALL, "kubernetes": {"storage": {"size": "1Gi"}}})
    docs = documents(rendered_plan(plan))
    claim = found(docs, "PersistentVolumeClaim")
    assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}}
    assert "tfcluster.io/run" not in claim["metadata"]["labels"]
    assert plan.logdir == f"/output/{plan.site['run']}"
    mount = {"name": "storage", "mountPath": "/output"}
    assert mount in task_of(docs, "worker")["volumeMounts"]
    volumes = {volume["name"]: volume for volume in pod_of(docs, "ps")["spec"]["volumes"]}
    assert volumes["storage"]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert "output" not in volumes


def test_one_task_per_host_and_ps_near_workers_are_added_to_the_persons_own_affinity():
    own = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"mine": 1}]}}
    cluster = {"affinity": own, "spread": "one-per-host", "ps_near_workers": True}
    docs = documents(rendered({**SMALL, "kubernetes": cluster}))
    worker, ps = (pod_of(docs, role)["spec"]["affinity"] for role in ("worker", "ps"))
    first, second = worker["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert first == {"mine": 1}
    assert second["labelSelector"]["matchLabels"]["tfcluster.io/role"] == "worker"
    assert "podAffinity" not in worker
    (near,) = ps["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    chosen = near["podAffinityTerm"]["labelSelector"]["matchLabels"]
    assert chosen["tfcluster.io/role"] == "worker"


@pytest.mark.parametrize("gang", ["native", "volcano", "coscheduling"])
def test_every_pod_belongs_to_the_group_of_all(gang):
    docs = documents(rendered({**SMALL, "kubernetes": {"gang": gang}}))
    group = found(docs, "PodGroup")
    assert "3" in str(group["spec"])
    for role in ("ps", "worker"):
        pod = pod_of(docs, role)
        belongs = {
            "native": pod["spec"].get("schedulingGroup", {}).get("podGroupName"),
            "volcano": pod["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name"),
            "coscheduling": pod["metadata"]["labels"].get("scheduling.x-k8s.io/pod-group"),
        }
        assert belongs.pop(gang) == group["metadata"]["name"]
        assert not any(belongs.values())


def test_ended_jobs_are_deleted_after_their_time_to_live_if_one_is_set():
    def lives(spec: dict) -> list[object]:
        jobs = [doc for doc in documents(rendered(spec)) if doc["kind"] == "Job"]
        return [job["spec"].get("ttlSecondsAfterFinished") for job in jobs]

    assert lives({**SMALL, "kubernetes": {"ttl": "10m"}}) == [600, 600]
    assert lives(SMALL) == [None, None]


def test_pods_are_restricted_and_hold_no_token():
    for role in ("ps", "worker"):
        pod = pod_of(documents(rendered(SMALL)), role)["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not any("hostPath" in volume for volume in pod["volumes"])


def test_a_pod_is_ready_when_its_port_answers_only_if_others_need_that_port():
    docs = documents(rendered({**SMALL, "roles": {**SMALL["roles"], "reader": {"serves": True}}}))
    ports = {
        role: task_of(docs, role)["readinessProbe"]["tcpSocket"]["port"]
        for role in ("ps", "worker", "reader")
    }
    assert ports == {"ps": "tensorflow", "worker": "control", "reader": "control"}
    entry = launch_of(docs, "reader")["roles"]["reader"]
    assert (entry["serves"], entry["listens"]) == (True, False)


def test_only_the_same_job_may_connect():
    policy = found(documents(rendered(SMALL)), "NetworkPolicy")["spec"]
    (rule,) = policy["ingress"]
    assert rule == {"from": [{"podSelector": policy["podSelector"]}]}


def test_a_launchers_last_word_is_not_retried_and_a_killed_one_is():
    job = found(documents(rendered({**SMALL, "restarts": 2})), "Job", "small-worker")["spec"]
    assert job["backoffLimitPerIndex"] == 2
    ignore, final = job["podFailurePolicy"]["rules"]
    assert ignore["action"] == "Ignore"
    assert final["action"] == "FailIndex"
    assert {137, 143} <= set(final["onExitCodes"]["values"])
    assert not {1, exits.EXIT_KILLED, exits.EXIT_PEER_FAILED} & set(final["onExitCodes"]["values"])


def test_of_the_ways_to_be_killed_only_those_worth_a_restart_replace_a_pod():
    spec = {**SMALL, "restarts": {"limit": 4, "on": [3, 137]}}
    job = found(documents(rendered(spec)), "Job", "small-worker")["spec"]
    _, final = job["podFailurePolicy"]["rules"]
    assert final["onExitCodes"]["values"] == [137, 143]


def test_a_pod_template_is_merged_by_name():
    extra = {
        "metadata": {"labels": {"team": "no"}},
        "spec": {
            "hostNetwork": False,
            "containers": [{"name": "task", "env": [{"name": "A", "value": "1"}]}],
            "volumes": [{"name": "scratch", "hostPath": {"path": "/mnt"}}],
            "terminationGracePeriodSeconds": None,
        },
    }
    docs = documents(rendered({**SMALL, "kubernetes": {"pod_template": extra}}))
    pod, task = pod_of(docs, "worker"), task_of(docs, "worker")
    assert pod["metadata"]["labels"]["team"] == "no"
    assert {"name": "A", "value": "1"} in task["env"]
    assert task["image"] == "python:3.11-slim"
    assert pod["spec"]["volumes"][-1]["name"] == "scratch"
    assert "terminationGracePeriodSeconds" not in pod["spec"]


def test_a_change_of_one_role_leaves_the_others_text_alone():
    before = documents(rendered(SMALL))
    spec = {**SMALL, "roles": {"ps": {}, "worker": {"replicas": 2, "env": {"COLOUR": "blue"}}}}
    after = documents(rendered(spec))
    run = before[0]["metadata"]["labels"]["tfcluster.io/run"]
    new = after[0]["metadata"]["labels"]["tfcluster.io/run"]
    same = str(found(before, "Job", "small-ps")["spec"])
    assert re.sub(r"small-ps-\w{8}", "", same.replace(run, new)) == re.sub(
        r"small-ps-\w{8}", "", str(found(after, "Job", "small-ps")["spec"])
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"volumes": [{"source": "data", "target": "/data"}]}, "folder of this machine"),
        ({"volumes": [{"name": "data", "target": "/data"}]}, "Docker volume"),
        ({"volumes": [{"claim": "data", "target": "/tmp"}]}, "nothing can be mounted"),
        ({"env_from": [{"file": ".env"}]}, "on this machine"),
        ({"logdir": "logs"}, "absolute path"),
        (
            {
                "volumes": [{"claim": "data", "target": "/output"}],
                "kubernetes": {"storage": {"size": "1Gi"}},
            },
            "nothing can be mounted at /output",
        ),
        (
            {"kubernetes": {"storage": {"size": "1Gi"}, "spread": "host"}},
            "can be mounted on one only",
        ),
        ({"tensorboard": True}, "only if a volume is shared"),
        ({"kubernetes": {"pod_template": {"containers": []}}}, "unknown key containers"),
        ({"kubernetes": {"pod_template": {"spec": {"containers": [{}]}}}}, "needs a name"),
    ],
)
def test_what_a_cluster_cannot_honour_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        rendered({**SMALL, **changes})


hostile = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0{"), max_size=40)


@settings(
    deadline=None,
    max_examples=60,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(value=hostile, argument=hostile, label=hostile)
def test_values_stay_values_whatever_they_are(value, argument, label):
    spec = {
        **SMALL,
        "command": ["python", argument.replace("$", "")],
        "image": f"x{value}",
        "env": {"V": value.replace("$", "")},
        "kubernetes": {
            "node_selector": {"k": label},
            "queue": f"q{label}",
            "pod_template": {"metadata": {"annotations": {"a": label}}},
        },
    }
    docs = documents(rendered(spec))
    assert len(docs) == 8
    launch = launch_of(docs, "worker")["roles"]["worker"]
    assert launch["argv"] == spec["command"]
    assert launch["env"]["V"] == spec["env"]["V"]
    assert task_of(docs, "worker")["image"] == spec["image"]
    assert pod_of(docs, "worker")["spec"]["nodeSelector"] == {"k": label}
    assert pod_of(docs, "worker")["metadata"]["annotations"]["a"] == label
    labels = pod_of(docs, "worker")["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == f"q{label}"


def test_a_thousand_workers_cost_no_more_than_their_share():
    def seconds(workers: int) -> float:
        spec = {**SMALL, "roles": {"ps": {}, "worker": {"replicas": workers}}}
        begun = time.perf_counter()
        text = rendered(spec)
        assert len(text) < 250_000
        return time.perf_counter() - begun

    seconds(10)
    ratio = min(seconds(1000) for _ in range(3)) / min(seconds(100) for _ in range(3))
    assert ratio < 12
