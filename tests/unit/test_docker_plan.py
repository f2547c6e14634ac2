"""What a plan keeps for Docker is JSON on the outside, with names and types on the inside."""

from __future__ import annotations

import json

import pytest

from tests.unit.specs import load
from tfcluster.backends.docker.containers import KEPT_CAPABILITIES, container_of
from tfcluster.backends.docker.plan import check, plan
from tfcluster.backends.docker.planned import DockerRole, Host, PlannedMount, docker_role, site_of
from tfcluster.errors import SpecProblems, UsageError
from tfcluster.plan import Plan

ONE = """
name: one
backend: docker
train: {}
tensorboard: true
roles: {ps: {}, worker: {replicas: 2}}
docker: {hosts: [{name: a, engine: "unix:///a", address: 10.0.0.1}]}
"""
TWO = """
name: two
backend: docker
image: mine:1
shm: 64Mi
volumes: [{source: /data, target: /data, read_only: true}, {name: kept, target: /kept}]
logdir: /results
roles: {ps: {command: [x]}, worker: {command: [x], replicas: 2, gpus: 1}}
docker:
  network: office
  runtime: nvidia
  hosts:
    - {name: a, engine: "unix:///a", address: 10.0.0.1}
    - {name: b, engine: "unix:///b", address: 10.0.0.2}
"""


@pytest.mark.parametrize("text", [ONE, TWO])
def test_both_ways_without_a_loss(text, tmp_path):
    made = plan(load(text).spec, None, tmp_path)
    stored = Plan.from_dict(json.loads(json.dumps(made.to_dict())))
    assert site_of(stored) == site_of(made)
    assert site_of(stored).to_dict() == stored.site
    for role in stored.roles:
        assert docker_role(role) == docker_role(made.role(role.role))
        assert docker_role(role).to_dict() == role.container


def test_a_plan_says_where_and_what(tmp_path):
    made = plan(load(TWO).spec, None, tmp_path)
    site, worker = site_of(made), docker_role(made.role("worker"))
    assert site.hosts == (Host("a", "unix:///a", "10.0.0.1"), Host("b", "unix:///b", "10.0.0.2"))
    assert (site.network, site.tensorboard, site.base) == ("office", False, str(tmp_path))
    assert (worker.image, worker.bundled) == ("mine:1", False)
    assert (worker.shm, worker.runtime) == (64 << 20, "nvidia")
    assert worker.mounts == (
        PlannedMount("bind", "/data", "/data", read_only=True),
        PlannedMount("volume", "kept", "/kept"),
        PlannedMount("output", None, "/output"),
        PlannedMount("folder", "/results", "/results"),
    )
    assert worker.hosts == ("b", "a")
    assert worker.ports == ((2222, 2223), (2224, 2225))
    assert worker.gpus == (("0",), ("0",))
    assert docker_role(made.role("ps")).gpus == (None,)


# -- What a program may do


def guarded(text, folder, task):
    found = container_of(plan(load(text).spec, None, folder), "run", task)
    return found.capabilities, found.pids_limit


def test_an_own_image_keeps_few_capabilities_and_the_trainers_none(tmp_path):
    assert guarded(TWO, tmp_path, "worker-0") == (KEPT_CAPABILITIES, 4096)
    assert guarded(ONE, tmp_path, "worker-0") == ((), 4096)


def test_more_can_be_asked_for(tmp_path):
    more = "docker:\n  capabilities: [cap_sys_ptrace, NET_RAW, KILL]\n  pids_limit: 100\n"
    capabilities, limit = guarded(TWO.replace("docker:\n", more), tmp_path, "ps-0")
    assert capabilities == tuple(sorted({*KEPT_CAPABILITIES, "SYS_PTRACE", "NET_RAW"}))
    assert limit == 100


def test_a_change_of_what_is_allowed_replaces_the_tasks(tmp_path):
    more = TWO.replace("docker:\n", "docker:\n  pids_limit: 100\n")
    before, after = (plan(load(text).spec, None, tmp_path) for text in (TWO, more))
    assert before.role("worker").digest != after.role("worker").digest


def test_capabilities_for_the_trainers_image_are_refused(tmp_path):
    text = ONE.replace("docker: {", "docker: {capabilities: [SYS_PTRACE], ")
    with pytest.raises(UsageError, match="gets no capabilities"):
        check(load(text).spec, tmp_path)


@pytest.mark.parametrize(
    ("value", "message", "hint"),
    [
        ("capabilities: [SYS_PTRACER]", "expected a Linux capability", 'mean "SYS_PTRACE"'),
        ("capabilities: [ALL]", "every guard", "name the capabilities"),
        ("pids_limit: 3", "64", ""),
    ],
)
def test_what_is_no_capability_or_limit_is_refused(value, message, hint):
    with pytest.raises(SpecProblems) as caught:
        load(TWO.replace("docker:\n", f"docker:\n  {value}\n"))
    (problem,) = caught.value.problems
    assert message in problem.message and hint in (problem.hint or "")


def test_a_plan_stored_by_an_earlier_version_can_be_read(tmp_path):
    stored = dict(plan(load(TWO).spec, None, tmp_path).role("worker").container)
    del stored["capabilities"], stored["pidsLimit"]
    assert DockerRole.from_dict(stored).capabilities == ()
