"""A job of many small pods: it starts, ends and goes, and asks for no more names than it must."""

from __future__ import annotations

import re

from tests.kind import cluster
from tests.kind.jobs import ClusterJob

FEW, MANY = 10, 60
SLACK = 20  # queries per pod that a slow start may cost beyond its share
REQUESTS = re.compile(r"^coredns_dns_requests_total\{.*\} (\S+)$", re.MULTILINE)
NAP = ["sh", "-c", "echo up; sleep 5"]


def queries() -> float:
    """All that the cluster's name servers were ever asked."""
    pods = cluster.listed("pods", "k8s-app=kube-dns", "kube-system")
    total = 0.0
    for pod in pods:
        name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/kube-system/pods/{name}:9153/proxy/metrics"
        found = REQUESTS.findall(cluster.kubectl("get", "--raw", path))
        assert found, f"{name} does not count its requests"
        total += sum(float(count) for count in found)
    return total


def queries_per_pod(job: ClusterJob, pods: int) -> float:
    """Run a job of one server and workers from its start to its end."""
    roles = {
        "keeper": {"command": ["sleep", "600"], "serves": True},
        "worker": {"command": NAP, "replicas": pods - 1},
    }
    for role in roles.values():
        # For a launcher, and for one that is called to tell it something.
        role.update(cpu=0.01, memory="64Mi")
    before = queries()
    job.up(job.spec_of(roles, start_timeout=300))
    status = job.over(600)
    assert status.state == "succeeded", status
    assert len(status.tasks) == pods
    assert {task.exit_code for task in status.tasks} == {0}
    asked = (queries() - before) / pods
    job.down()
    assert job.leftovers() == ""
    return asked


def test_sixty_pods_start_end_and_go_and_ask_for_few_names(job):
    few = queries_per_pod(job, FEW)
    many = queries_per_pod(job, MANY)
    print(f"queries per pod: {few:.1f} of {FEW} pods, {many:.1f} of {MANY}")
    assert many <= 1.5 * few + SLACK
