"""Images with requirements: their names, how they are built, and clusters that cannot get them."""

from __future__ import annotations

import io
import tarfile

import pytest

from tests.unit.kube import SMALL, documents, rendered_plan, task_of
from tfcluster.backends.docker.plan import plan as plan_docker
from tfcluster.backends.docker.planned import docker_role
from tfcluster.backends.kubernetes.plan import plan as plan_kubernetes
from tfcluster.backends.kubernetes.requirements import provide_requirements
from tfcluster.backends.kubernetes.yaml_text import flow
from tfcluster.errors import UsageError
from tfcluster.layers import Layer, index_settings, layer_recipe
from tfcluster.requirements import Requirements
from tfcluster.spec.loader import load_spec_text

WANTED = Requirements(("one==1",), "r.txt")


def spec_for(backend: str, **more: object):
    given = {**SMALL, "image": "python:3.11-slim", "requirements": ["one==1"], **more}
    return load_spec_text(flow(given), backend=backend).spec


def test_an_image_is_named_by_its_base_and_its_requirements():
    name = Layer("a:1", WANTED).image
    assert name.startswith("tfcluster-requirements:")
    assert Layer("b:1", WANTED).image != name != Layer("a:1", Requirements(("one==2",), "")).image
    assert Layer("a:1", WANTED, "r.example/me/").image == f"r.example/me/{name}"


def test_a_plan_has_the_image_with_requirements_and_the_one_below(tmp_path):
    image = Layer("python:3.11-slim", WANTED).image
    roles = [docker_role(role) for role in plan_docker(spec_for("docker"), None, tmp_path).roles]
    assert {(role.image, role.base) for role in roles} == {(image, "python:3.11-slim")}
    always = {"policy": "always"}
    for cluster, expected, pull in [
        ({}, image, "IfNotPresent"),
        ({"registry": "r.example/me"}, f"r.example/me/{image}", "Always"),
    ]:
        spec = spec_for("kubernetes", kubernetes=cluster, image_pull=always)
        made = plan_kubernetes(spec, None, tmp_path)
        assert expected in made.made_for_requirements
        task = task_of(documents(rendered_plan(made)), "worker")
        assert (task["image"], task["imagePullPolicy"]) == (expected, pull)


@pytest.mark.parametrize("user", ["", "1000:1000"])
def test_a_layer_runs_as_the_image_below_did_and_brings_pip_along(user):
    recipe = layer_recipe(Layer("a:1", WANTED), user, {"x": "y"})
    with tarfile.open(fileobj=io.BytesIO(recipe.context)) as archive:
        names = archive.getnames()
        read = {name: archive.extractfile(name).read() for name in names}  # type: ignore[union-attr]
    lines = read["Dockerfile"].decode().splitlines()
    assert ("USER 0" in lines, lines[-1] == "USER ${RUN_AS}") == (bool(user), bool(user))
    assert recipe.arguments.get("RUN_AS", "") == user and recipe.arguments["BASE"] == "a:1"
    assert read["requirements.txt"] == b"one==1\n" and recipe.labels["x"] == "y"
    assert any(name.startswith("pip-") for name in names)


def test_a_password_in_the_address_of_an_index_does_not_reach_an_image():
    env = {"PIP_INDEX_URL": "https://me:hunter2@e.org/", "PIP_TRUSTED_HOST": "e.org", "X": "1"}
    assert index_settings(env) == {"PIP_TRUSTED_HOST": "e.org"}


def test_a_cluster_without_a_registry_is_refused_with_the_ways_out(tmp_path):
    with pytest.raises(UsageError, match="nodes of prod cannot get") as refused:
        provide_requirements(spec_for("kubernetes"), tmp_path, "prod", lambda _: None)
    assert "kubernetes.registry" in str(refused.value.hint)
    assert "an image that has the packages" in str(refused.value.hint)
