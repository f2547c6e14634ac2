"""What `tfcluster build` decides, without an engine."""

from __future__ import annotations

import io
import tarfile
from types import SimpleNamespace

import pytest

from tfcluster import images
from tfcluster.backends.docker.images import push, push_failed
from tfcluster.commands import build
from tfcluster.errors import MissingError, TfclusterError


@pytest.fixture
def kind(tmp_path, monkeypatch):
    """A kind that writes down what it is asked."""
    (tmp_path / "kind").write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\nexit "${{KIND_CODE:-0}}"\n'
    )
    (tmp_path / "kind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path / "asked"


def test_load_puts_the_image_onto_the_nodes_of_a_cluster(kind, monkeypatch):
    build.load_into_kind("tfcluster/trainer:1", "tfc")
    assert kind.read_text() == "load docker-image tfcluster/trainer:1 --name tfc\n"
    monkeypatch.setenv("KIND_CODE", "1")
    with pytest.raises(TfclusterError, match="could not be loaded into kind cluster tfc"):
        build.load_into_kind("tfcluster/trainer:1", "tfc")


def test_load_without_kind_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingError, match="kind is not installed"):
        build.load_into_kind("tfcluster/trainer:1", "tfc")


def test_the_tag_follows_the_content_and_nothing_else(monkeypatch):
    first = images.trainer_image()
    assert images.trainer_image() == first and images.trainer_image(gpu=True) == f"{first}-gpu"
    files = images.context_files()
    changed = {**files, "code/launcher.py": files["code/launcher.py"] + b"\n"}
    monkeypatch.setattr(images, "context_files", lambda: changed)
    images.content_hash.cache_clear()
    try:
        assert images.trainer_image() != first
    finally:
        images.content_hash.cache_clear()


def test_the_context_holds_the_code_apart_from_the_data_and_no_leftovers():
    with tarfile.open(fileobj=io.BytesIO(images.context_archive())) as archive:
        names = archive.getnames()
    assert "Dockerfile" in names and "code/launcher.py" in names
    assert "code/trainer/__main__.py" in names
    assert "data/train-images-idx3-ubyte.gz" in names
    assert not [
        name for name in names if "__pycache__" in name or name.startswith("code/trainer/data/")
    ]


def test_buildx_gets_tags_arguments_and_labels():
    argv = images.build_command(images.trainer_recipe(gpu=True), ["a:1", "b:2"])
    assert argv[:3] == ["docker", "buildx", "build"] and argv[-1] == "-"
    assert "TENSORFLOW=tensorflow[and-cuda]" in argv and argv.count("--tag") == 2


def test_push_needs_a_name():
    with pytest.raises(TfclusterError, match="push where"):
        build.command(push=True)


@pytest.mark.parametrize(
    ("name", "said", "hint"),
    [
        ("localhost:5000/me/it", "no basic auth credentials", "docker login localhost:5000"),
        ("me/it", "denied: requested access to the resource is denied", "docker login"),
        ("example.com/it", "dial tcp: connection refused", "can the engine reach example.com?"),
        ("me/it", "dial tcp: i/o timeout", "can the engine reach the registry?"),
    ],
)
def test_a_failed_push_is_explained_by_what_docker_says(name, said, hint):
    error = push_failed(name, said)
    assert list(error.evidence) == [f"  Docker says: {said}"]
    assert error.hint is not None and error.hint.endswith(hint)


def test_a_push_counts_the_layers_that_have_arrived():
    """What an engine said of a push, shortened; there is no registry to push to in these tests."""
    said = [
        {"status": "The push refers to repository [example.com/it]"},
        {"status": "Preparing", "id": "a"},
        {"status": "Preparing", "id": "b"},
        {"status": "Layer already exists", "id": "c"},
        {"status": "Pushing", "id": "a", "progressDetail": {"current": 1}},
        {"status": "Mounted from me/it", "id": "b"},
        {"status": "Pushed", "id": "a"},
        {"status": "Pushed", "id": "a"},
        {"status": "1: digest: sha256:0 size: 1"},
    ]
    engine = SimpleNamespace(api=SimpleNamespace(push=lambda name, **_: iter(said)))
    lines: list[str] = []
    push(engine, "example.com/it:1", lines.append)
    assert [line.strip() for line in lines[1:]] == [
        f"{count} of 3 layers are there" for count in (1, 2, 3)
    ]
