"""What a plan keeps for Docker is JSON on the outside, with names and types on the inside."""

from __future__ import annotations

import json

import pytest

from tests.unit.specs import load
from tfcluster.backends.docker.plan import plan
from tfcluster.backends.docker.planned import Host, PlannedMount, docker_role, site_of
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
