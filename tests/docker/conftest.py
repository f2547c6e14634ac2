from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.contract.jobs import Job
from tfcluster.backends.docker.containers import container_launch
from tfcluster.launch.plan import control_address
from tfcluster.plan import stored_plan

if TYPE_CHECKING:
    from tfcluster.backends.docker.engines import Engine

HOSTS = os.environ.get("TFCLUSTER_TEST_HOSTS")  # the testbed's folder with sockets and ssh key
ENABLE = "TFCLUSTER_DOCKER_TESTS=1 python -m pytest tests/docker"


def missing() -> str:
    """Why these tests cannot run, if they cannot."""
    if not os.environ.get("TFCLUSTER_DOCKER_TESTS"):
        return f"needs a Docker engine; run: {ENABLE}"
    from tfcluster.backends.docker.engines import Engine, current_engine
    from tfcluster.errors import TfclusterError

    try:
        Engine(current_engine()).ping()
    except TfclusterError as error:
        # Asked for, so not to be passed over in silence.
        pytest.exit(f"TFCLUSTER_DOCKER_TESTS is set, but {error.message}", returncode=3)
    return ""


def pytest_collection_modifyitems(items):
    here = [item for item in items if "tests/docker/" in str(item.path)]
    reason = missing() if here else ""
    for item in here:
        if reason and "engine" in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason=reason))
        item.add_marker(pytest.mark.xdist_group("docker"))


@pytest.fixture
def engine():
    """The engine that the tests use."""
    from tfcluster.backends.docker.engines import Engine, current_engine

    return Engine(current_engine())


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A state folder of the test's own."""
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


class DockerJob(Job):
    """A job whose launchers are met with the engine's own means."""

    def __init__(self, engine: Engine, folder: Path):
        super().__init__("docker", folder)
        self.api = engine.api

    def container(self, task: str) -> str:
        return f"{self.name}-{task}"

    def kill_launcher(self, task: str) -> None:
        self.api.kill(self.container(task), "SIGKILL")

    def pause(self, task: str) -> None:
        self.api.pause(self.container(task))

    def resume(self, task: str) -> None:
        from docker.errors import APIError

        with contextlib.suppress(APIError):  # it is gone, or runs again
            self.api.unpause(self.container(task))

    def cut_off(self, task: str) -> None:
        self.api.disconnect_container_from_network(self.container(task), self.network)

    def heal(self, task: str) -> None:
        from docker.errors import NotFound

        name = self.container(task)
        # The keeper reaches launchers without the network: the job may be over and all of it gone.
        with contextlib.suppress(NotFound):
            self.api.connect_container_to_network(name, self.network, aliases=[name])

    @property
    def network(self) -> str:
        return f"tfcluster-{self.name}"

    def control_address(self, task: str) -> tuple[str, int]:
        """Where a launcher can be reached from here; the engine has to be of this machine."""
        details = self.api.inspect_container(self.container(task))
        address = details["NetworkSettings"]["Networks"][self.network]["IPAddress"]
        assert self.run is not None
        plan = stored_plan(self.run)
        assert plan is not None
        return address, control_address(container_launch(plan, self.run.id), task)[1]

    def inside(self, task: str, command: str) -> str:
        """What a shell in a task's container prints."""
        made = self.api.exec_create(self.container(task), ["sh", "-c", command])
        return self.api.exec_start(made["Id"]).decode()


@pytest.fixture
def job(engine, tmp_path, home):
    made = DockerJob(engine, tmp_path)
    yield made
    made.down()
    left = engine.api.containers(all=True, filters={"label": f"io.tfcluster.job={made.name}"})
    assert [item["Names"] for item in left] == []
    remove_volumes(engine, made)


def remove_volumes(engine, job) -> None:
    """Delete the results that runs of a test have left, as they should."""
    own = {"label": f"io.tfcluster.job={job.name}"}
    for volume in engine.api.volumes(filters=own)["Volumes"] or ():
        engine.api.remove_volume(volume["Name"], force=True)


def containers(engine, job):
    found = engine.api.containers(all=True, filters={"label": f"io.tfcluster.job={job.name}"})
    return {item["Labels"].get("io.tfcluster.task", ""): item for item in found}


def networks(engine, job):
    return engine.api.networks(filters={"label": f"io.tfcluster.job={job.name}"})


def alive_keeper(job) -> bool:
    from tfcluster.backends.keeping import alive

    return alive(job.run.files.read_keeper())
