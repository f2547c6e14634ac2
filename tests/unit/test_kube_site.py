"""What only the Kubernetes backend reads of a plan: plain data there, names and types here."""

from __future__ import annotations

import json

import pytest

from tests.unit.kube import GOLDEN, SMALL, plan_of
from tfcluster.backends.kubernetes.site import (
    KubernetesRole,
    KubernetesSite,
    container_of,
    site_of,
)
from tfcluster.plan import Plan

SPECS = ("small", "everything", "storage", "gang")


@pytest.mark.parametrize("name", SPECS)
def test_a_plan_from_a_file_says_the_same_as_the_one_that_was_written(name):
    plan = plan_of((GOLDEN / f"{name}.yaml").read_text())
    again = Plan.from_dict(json.loads(json.dumps(plan.to_dict())))
    assert site_of(again) == site_of(plan)
    assert [container_of(role) for role in again.roles] == [container_of(r) for r in plan.roles]


@pytest.mark.parametrize("name", SPECS)
def test_both_are_plain_data_in_the_plan_and_come_back_as_they_were(name):
    plan = plan_of((GOLDEN / f"{name}.yaml").read_text())
    assert json.loads(json.dumps(plan.site)) == plan.site
    assert KubernetesSite.from_dict(plan.site).to_dict() == plan.site
    for role in plan.roles:
        assert json.loads(json.dumps(role.container)) == role.container
        assert KubernetesRole.from_dict(role.container).to_dict() == role.container


def test_parsing_is_done_once_per_plan():
    plan = plan_of(SMALL)
    assert site_of(plan) is site_of(plan)
    assert container_of(plan.roles[0]) is container_of(plan.roles[0])
    assert container_of(plan.roles[0]) is not container_of(plan.roles[1])
