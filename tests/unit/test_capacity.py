"""More than a machine has is refused before anything starts, all of it at once."""

from __future__ import annotations

import pytest

from tests.unit.specs import load
from tfcluster.backends.capacity import Machine, refuse_shortages, shortages
from tfcluster.backends.docker import plan as docker_plan
from tfcluster.backends.docker.engines import Engine
from tfcluster.backends.local import resources
from tfcluster.errors import MissingError, UsageError

GIB = 1 << 30
SPEC = """
name: big
backend: {backend}
command: [x]
roles: {{ps: {{{ps}}}, worker: {{replicas: 2, {worker}}}}}
{more}
"""


def spec_of(ps="", worker="", backend="local", more=""):
    return load(SPEC.format(ps=ps, worker=worker, backend=backend, more=more)).spec


@pytest.mark.parametrize(
    ("worker", "refused"),
    [
        ("cpu: 4, memory: 8Gi", []),
        ("cpu: 5", ["roles.worker.cpu: 5 cores asked for, this machine has 4"]),
        ("memory: 9Gi", ["roles.worker.memory: 9Gi asked for, this machine has 8Gi"]),
    ],
)
def test_one_task_cannot_have_more_than_the_whole_machine(worker, refused):
    found = shortages(spec_of(worker=worker), Machine("this machine", 4, 8 * GIB), {"worker", "ps"})
    assert [one.message for one in found] == refused


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(resources, "machine", lambda: Machine("this machine", 2, 4 * GIB))


def test_all_resources_of_all_roles_are_named_at_once(small):
    spec = spec_of("memory: 1Ti", "cpu: 2.5, gpus: 1", more="local: {gpus: [0]}\nshm: 9Ti")
    with pytest.raises(MissingError, match="5 of the resources") as caught:
        resources.check_resources(spec)
    told = "\n".join(caught.value.evidence)
    for words in ("roles.ps.memory: 1Ti", "whole cores", "2.5 cores", "2 GPUs", "shm: 9Ti"):
        assert words in told
    assert "write a memory below 4Gi" in caught.value.hint


def test_a_single_one_is_the_error_itself(small):
    with pytest.raises(UsageError, match=r"roles\.worker\.cpu: .* whole cores"):
        resources.check_resources(spec_of(worker="cpu: 1.5"))
    with pytest.raises(MissingError, match=r"^roles\.ps\.memory: 1Ti asked for"):
        resources.check_resources(spec_of("memory: 1Ti"))
    refuse_shortages([])


def test_docker_asks_every_engine_about_the_tasks_it_would_get(tmp_path, monkeypatch):
    hosts = [
        {"name": name, "engine": f"unix:///{name}", "address": "10.0.0.1", "tasks": [role]}
        for name, role in (("a", "ps"), ("b", "worker"))
    ]
    more = f"image: mine:1\ndocker: {{hosts: {hosts}}}"
    spec = spec_of("cpu: 3, memory: 3Gi", "cpu: 3, memory: 3Gi", "docker", more)
    sizes = {"a": (8, 2 * GIB), "b": (2, 8 * GIB)}
    monkeypatch.setattr(Engine, "ping", lambda self: None)
    monkeypatch.setattr(docker_plan, "machine_of", lambda e: Machine(e.label, *sizes[e.name]))
    with pytest.raises(MissingError) as caught:
        docker_plan.check(spec, tmp_path)
    assert caught.value.evidence == (
        '  roles.ps.memory: 3Gi asked for, host "a" (unix:///a) has 2Gi',
        '  roles.worker.cpu: 3 cores asked for, host "b" (unix:///b) has 2',
    )
