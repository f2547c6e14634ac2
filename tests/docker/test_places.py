"""A name is there once on an engine: one place has it, the others are refused and touch nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.contract.jobs import Job
from tests.docker.conftest import containers, networks
from tests.launchers import until
from tfcluster.archive import runs_of
from tfcluster.backends.owner import Taken
from tfcluster.converge import preview
from tfcluster.place import place_of
from tfcluster.spec.loader import load_spec

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


def all_of(engine, job) -> list[str]:
    """What the engine has of a job, by id."""
    volumes = engine.api.volumes(filters={"label": f"io.tfcluster.job={job.name}"})["Volumes"] or ()
    found = [item["Id"] for item in (*containers(engine, job).values(), *networks(engine, job))]
    return sorted([*found, *(volume["Name"] for volume in volumes)])


def test_up_from_another_folder_is_refused_with_both_places_and_touches_nothing(
    job, engine, tmp_path
):
    job.up(job.spec(SLEEP, workers=1, ps=None))
    job.says("worker-0", b"up")
    before = all_of(engine, job)
    (tmp_path / "b").mkdir()
    other = Job("docker", tmp_path / "b")
    with pytest.raises(Taken) as refused:
        other.up(other.spec(SLEEP, workers=2, ps=None))
    there, here = refused.value.evidence
    assert f"there: {tmp_path} (" in there and f"run {job.run.id}" in there
    assert f"here:  {tmp_path / 'b'} (" in here
    assert "--set name=contract-2" in refused.value.hint
    assert f"cd {tmp_path} && tfcluster down" in refused.value.hint
    with pytest.raises(Taken):
        preview(load_spec(tmp_path / "b" / "cluster.yaml"))
    assert runs_of(place_of("contract", tmp_path / "b")) == []
    assert all_of(engine, job) == before
    assert job.task("worker-0").state == "running"
    job.down()
    other.up(other.spec("print('hi')", workers=1, ps=None))  # what has ended is not in the way
    assert other.over().state == "succeeded"
    other.down()


def test_of_two_state_folders_that_bring_up_a_job_at_once_one_wins_and_is_left_alone(
    job, engine, tmp_path
):
    path = tmp_path / "cluster.yaml"
    path.write_text(json.dumps(job.spec(SLEEP, start_timeout=60)))
    homes = [tmp_path / "home", tmp_path / "other-home"]
    calls = [
        subprocess.Popen(
            [sys.executable, "-m", "tfcluster", "up", "-d"],
            cwd=tmp_path,
            env={**os.environ, "TFCLUSTER_HOME": str(home)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for home in homes
    ]
    errors = [call.communicate(timeout=300)[1] for call in calls]
    try:
        assert sorted(call.returncode for call in calls) == [0, 1], errors
        winner = next(n for n, call in enumerate(calls) if call.returncode == 0)
        refusal = errors[1 - winner]
        assert "from another state folder" in refusal and str(homes[winner]) in refusal, errors
        until(lambda: running(engine, job) == ["ps-0", "worker-0", "worker-1"], "all to run", 60)
        marks = {
            item["Labels"]["io.tfcluster.state-folder"] for item in containers(engine, job).values()
        }
        assert marks == {str(homes[winner])}
        assert len(networks(engine, job)) == 1
    finally:
        for home in homes:
            env = {**os.environ, "TFCLUSTER_HOME": str(home)}
            down = [sys.executable, "-m", "tfcluster", "down", "--grace", "1s"]
            subprocess.run(down, cwd=tmp_path, env=env, check=True, timeout=120)
    assert containers(engine, job) == {} and networks(engine, job) == []


def running(engine, job) -> list[str]:
    return sorted(t for t, item in containers(engine, job).items() if item["State"] == "running")
