"""Whether a job fits on nodes with taints, quotas and GPUs, and the smallest change that would."""

from __future__ import annotations

import json
import os

import jsonschema
import pytest

from tests.unit.kube import GOLDEN, SMALL, documents, found, plan_of, rendered
from tfcluster.backends.kubernetes.fit import amount, nodes_from, place, quota_problems, suggestions
from tfcluster.backends.kubernetes.rbac import render_rbac
from tfcluster.errors import UsageError


def node(
    name, *, cpu="4", memory="8Gi", gpus=0, taints=(), labels=None, ready=True, cordoned=False
):
    capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
    if gpus:
        capacity["nvidia.com/gpu"] = str(gpus)
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {"taints": list(taints), "unschedulable": cordoned},
        "status": {
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def busy(on, **requests):
    container = {"name": "c", "resources": {"requests": requests}}
    return {"spec": {"nodeName": on, "containers": [container]}, "status": {"phase": "Running"}}


def job(workers=2, cluster=None, **worker):
    roles = {"ps": {}, "worker": {"replicas": workers, **worker}}
    return plan_of({**SMALL, "roles": roles, **({"kubernetes": cluster} if cluster else {})})


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", 0.5), ("2", 2), (3, 3), ("1Gi", 2**30), ("1e3", 1000), ("2k", 2000)],
)
def test_quantities(text, value):
    assert float(amount(text)) == value


def test_a_job_that_fits_fits():
    nodes = nodes_from([node("a"), node("b")], [busy("a", cpu="1")])
    assert place(job(cpu=2, memory="2Gi"), nodes).fits


def test_what_pods_have_asked_for_is_taken():
    nodes = nodes_from([node("a", cpu="2")], [busy("a", cpu="1500m")])
    verdict = place(job(1, cpu=1), nodes)
    assert not verdict.fits
    assert verdict.reasons == ("a has too little cpu left (0.5 of 1)",)


def test_gpus_are_counted_and_the_largest_number_that_fits_is_offered():
    nodes = nodes_from([node("a", gpus=2), node("b", gpus=2)], [])
    plan = job(2, gpus=3)
    verdict = place(plan, nodes)
    assert (verdict.role, verdict.placed, verdict.wanted) == ("worker", 0, 2)
    assert suggestions(plan, nodes, verdict) == ["--set roles.worker.gpus=2"]


def test_fewer_workers_are_offered_where_that_is_enough():
    nodes = nodes_from([node("a", gpus=2), node("b", gpus=1)], [])
    plan = job(8, gpus=1)
    assert "--set roles.worker.replicas=3" in suggestions(plan, nodes, place(plan, nodes))


def test_taints_selectors_and_affinity_are_honoured():
    taint = {"key": "gpu", "effect": "NoSchedule"}
    nodes = nodes_from([node("a", taints=[taint], labels={"disk": "ssd"})], [])
    assert place(job(), nodes).reasons == ("a has the taint gpu",)
    tolerant = {"tolerations": [{"key": "gpu", "operator": "Exists"}]}
    assert place(job(cluster=tolerant), nodes).fits
    picky = {**tolerant, "node_selector": {"disk": "hdd"}}
    assert place(job(cluster=picky), nodes).reasons == ("a lacks the label disk=hdd",)


def test_nodes_that_are_away_or_cordoned_do_not_count():
    nodes = nodes_from([node("a", ready=False), node("b", cordoned=True)], [])
    assert place(job(), nodes).reasons == ("there is no ready node",)


def test_spreading_keeps_nodes_free():
    nodes = nodes_from([node("a", gpus=4), node("b", gpus=1)], [])
    assert place(job(4, gpus=1), nodes).fits
    verdict = place(job(4, gpus=1, cluster={"spread": "host"}), nodes)
    assert not verdict.fits


def test_one_task_per_host_needs_as_many_hosts():
    nodes = nodes_from([node("a"), node("b")], [])
    assert place(job(2, cluster={"spread": "one-per-host"}), nodes).fits
    verdict = place(job(3, cluster={"spread": "one-per-host"}), nodes)
    assert (verdict.placed, verdict.wanted) == (2, 3)
    offered = suggestions(job(3, cluster={"spread": "one-per-host"}), nodes, verdict)
    assert "--set kubernetes.spread=null" in offered


def test_quotas_are_summed_up():
    quota = {
        "metadata": {"name": "team"},
        "status": {
            "hard": {"requests.cpu": "4", "pods": "10", "requests.nvidia.com/gpu": "1"},
            "used": {"requests.cpu": "1", "pods": "8"},
        },
    }
    assert quota_problems(job(2, cpu=2, gpus=1), [quota]) == [
        "quota team: requests.cpu: 4 asked for, 3 left",
        "quota team: pods: 3 asked for, 2 left",
        "quota team: requests.nvidia.com/gpu: 2 asked for, 1 left",
    ]


# -- Rights


def test_the_role_is_stable_and_names_no_wildcard():
    text = render_rbac(namespace="team", service_account="ci", user="ann", nodes=True)
    golden = GOLDEN / "rbac.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()
    for doc in documents(text):
        for rule in doc.get("rules", []):
            assert "*" not in json.dumps(rule)


# -- Operators


@pytest.mark.parametrize(("target", "kind"), [("jobset", "JobSet"), ("tfjob", "TFJob")])
@pytest.mark.parametrize("name", ["small", "gang"])
def test_operators_objects_follow_their_schemas(target, kind, name):
    text = rendered((GOLDEN / f"{name}.yaml").read_text(), target)
    schema = json.loads((GOLDEN / f"{target}.schema.json").read_text())
    jsonschema.validate(found(documents(text), kind), schema)


def test_the_pods_of_operators_are_pods():
    import kubernetes_validate

    for target, kind in (("jobset", "JobSet"), ("tfjob", "TFJob")):
        thing = found(documents(rendered(SMALL, target)), kind)
        if kind == "JobSet":
            templates = [
                entry["template"]["spec"]["template"] for entry in thing["spec"]["replicatedJobs"]
            ]
        else:
            templates = [entry["template"] for entry in thing["spec"]["tfReplicaSpecs"].values()]
        for template in templates:
            doc = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}}
            kubernetes_validate.validate({**doc, "template": template}, "1.34", strict=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"roles": {"worker": {}, "reader": {}}}, 'no role "reader"'),
        ({"roles": {"worker": {}, "evaluator": {}}, "success": "all"}, "cannot say success: "),
        ({"success": "ps"}, r"cannot say success: \[ps\]"),
    ],
)
def test_what_a_tfjob_cannot_say_is_refused(changes, message):
    with pytest.raises(UsageError, match=message):
        rendered({**SMALL, **changes}, "tfjob")
    assert rendered({**SMALL, **changes}, "jobset")


def test_the_number_of_objects_does_not_grow_with_the_tasks():
    def count(workers: int) -> int:
        return len(documents(rendered({**SMALL, "roles": {"worker": {"replicas": workers}}})))

    assert count(2) == count(2000)
