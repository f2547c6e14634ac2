"""What `tfcluster` knows about the roles of these algorithms agrees with the trainer."""

from __future__ import annotations

import pytest

from tests.unit.specs import load, problems
from trainer.algorithms import load_algorithm
from trainer.cluster import ClusterInfo
from trainer.errors import SettingsError
from trainer.settings import settings_from

ROLES = ("chief", "worker", "ps")
CASES = [
    ("allreduce", {"worker": 2}, True),
    ("allreduce", {"chief": 1, "worker": 1}, True),
    ("allreduce", {"worker": 2, "ps": 1}, False),
    ("coordinator", {"chief": 1, "worker": 2, "ps": 1}, True),
    ("coordinator", {"chief": 1, "worker": 2}, False),
    ("coordinator", {"worker": 2, "ps": 1}, False),
    ("in-graph", {"chief": 1, "worker": 2, "ps": 1}, True),
    ("in-graph", {"chief": 1, "worker": 2}, True),
    ("in-graph", {"worker": 2}, False),
    ("in-graph", {"chief": 1, "ps": 1}, False),
    ("model-parallel", {"chief": 1, "worker": 2}, True),
    ("model-parallel", {"worker": 1}, True),
    ("model-parallel", {"worker": 2}, False),
    ("model-parallel", {"chief": 1, "worker": 2, "ps": 1}, False),
    ("towers", {"worker": 1}, True),
    ("towers", {"worker": 2}, False),
    ("ensemble", {"worker": 1, "ps": 1}, False),
]


@pytest.mark.parametrize(("algorithm", "roles", "works"), CASES)
def test_both_refuse_the_same(algorithm: str, roles: dict[str, int], works: bool) -> None:
    counts = ", ".join(f"{role}: {{replicas: {n}}}" for role, n in roles.items())
    spec = f"name: a\ntrain: {{algorithm: {algorithm}}}\nroles: {{{counts}}}"
    assert (problems(spec) == []) is works
    jobs = {role: tuple(f"{role}{i}:1" for i in range(n)) for role, n in roles.items()}
    cluster = ClusterInfo(jobs, next(role for role in ROLES if role in roles), 0)
    if works:
        load_algorithm(settings_from({"algorithm": algorithm}), cluster)
    else:
        with pytest.raises(SettingsError):
            load_algorithm(settings_from({"algorithm": algorithm}), cluster)


@pytest.mark.parametrize(
    ("algorithm", "roles", "success"),
    [
        ("in-graph", "chief: , worker: ", "chief"),
        ("model-parallel", "worker: ", "worker"),
        ("allreduce", "worker: {replicas: 3}", "worker"),
    ],
)
def test_who_has_to_succeed(algorithm: str, roles: str, success: str) -> None:
    spec = load(f"name: a\ntrain: {{algorithm: {algorithm}}}\nroles: {{{roles}}}").spec
    assert spec.success_roles == (success,)
