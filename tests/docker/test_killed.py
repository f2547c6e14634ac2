"""Containers and commands that are killed, stopped or paused by others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.docker.conftest import alive_keeper, containers, networks
from tests.launchers import until
from tfcluster.launch.wire import ask

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
COUNTING = (
    "import os, time; print('attempt', os.environ['TFCLUSTER_ATTEMPT'], flush=True); "
    "time.sleep(0 if os.environ['TFCLUSTER_ATTEMPT'] != '0' else 600) "
    "if os.environ['TFCLUSTER_INDEX'] == '1' else None"
)


# -- Containers that are killed


def test_a_killed_container_is_replaced_and_counted(job, engine):
    job.up(job.spec(COUNTING, restarts=1))
    job.says("worker-1", b"attempt 0")
    engine.api.kill(f"{job.name}-worker-1", "SIGKILL")
    status = job.over()
    assert status.state == "succeeded"
    assert {task.task: task.restarts for task in status.tasks}["worker-1"] == 1
    assert job.log("worker-1") == b"attempt 0\nattempt 1\n"
    assert job.log("worker-1", attempts="previous") == b"attempt 0\n"


def test_a_container_killed_beyond_its_limit_is_the_named_cause(job, engine):
    job.up(job.spec(SLEEP, restarts=0))
    job.says("worker-1", b"up")
    job.says("worker-0", b"up")
    engine.api.kill(f"{job.name}-worker-1", "SIGKILL")
    status = job.over()
    assert status.state == "failed"
    assert (status.cause.task, status.cause.exit_code) == ("worker-1", 137)
    assert "SIGKILL" in status.cause.reason
    assert status.cause.lines == ("up",)
    reasons = {task.task: task.reason for task in status.tasks}
    assert reasons["worker-0"].startswith("stopped because worker-1 failed")


def test_a_removed_container_is_replaced(job, engine):
    job.up(job.spec(COUNTING, restarts=1))
    job.says("worker-1", b"attempt 0")
    engine.api.remove_container(f"{job.name}-worker-1", force=True)
    assert job.over().state == "succeeded"


def test_a_container_stopped_by_hand_is_replaced_and_counted(job, engine):
    job.up(job.spec(COUNTING, restarts=1))
    job.says("worker-1", b"attempt 0")
    engine.api.stop(f"{job.name}-worker-1")
    status = job.over()
    assert status.state == "succeeded"
    assert {task.task: task.restarts for task in status.tasks}["worker-1"] == 1
    assert job.log("worker-1") == b"attempt 0\nattempt 1\n"


def test_a_container_stopped_by_hand_beyond_its_limit_is_the_named_cause(job, engine):
    job.up(job.spec(SLEEP, restarts=0))
    job.says("worker-1", b"up")
    engine.api.stop(f"{job.name}-worker-1")
    status = job.over()
    assert status.state == "failed"
    assert (status.cause.task, status.cause.exit_code) == ("worker-1", 143)
    assert "SIGTERM" in status.cause.reason and status.cause.lines == ("up",)


def test_down_ends_a_paused_container_and_keeps_what_it_said(job, engine):
    job.up(job.spec(SLEEP))
    job.says("worker-1", b"up")
    for task in ("ps-0", "worker-1"):
        job.pause(task)
    job.down()
    assert job.status().state == "stopped" and job.log("worker-1") == b"up\n"
    assert containers(engine, job) == {} and networks(engine, job) == []


def test_up_replaces_a_paused_container_that_changed(job, engine):
    job.up(job.spec(SLEEP))
    before = job.identity_of_running("worker-1")
    job.pause("worker-1")
    job.up(job.spec(SLEEP, roles={"worker": {"env": {"COLOUR": "blue"}}}))
    assert job.identity_of_running("worker-1") != before


def test_out_of_memory_is_named_with_its_limit(job):
    greedy = "block = b'x' * (400 << 20); print('never')"
    job.up(job.spec(greedy, workers=1, restarts=0, roles={"worker": {"memory": "200Mi"}}))
    cause = job.over().cause
    assert (cause.task, cause.exit_code) == ("worker-0", 137)
    assert "out of memory" in cause.reason and "limit 200 MiB" in cause.reason


def test_without_its_keeper_the_job_goes_on_and_is_read_from_the_engine(job, engine):
    code = "import time\nfor n in range(60): print('line', n, flush=True); time.sleep(0.1)"
    job.up(job.spec(code))
    job.says("worker-1", b"line 3")
    os.kill(job.run.files.read_keeper()["pid"], signal.SIGKILL)
    assert job.task("worker-1").state == "running"
    assert job.over().state == "succeeded"
    expected = b"".join(b"line %d\n" % n for n in range(60))
    assert job.log("worker-1") == expected
    job.down()
    assert job.log("worker-1") == expected
    assert containers(engine, job) == {}


# -- Containers without a network


def test_a_hub_that_is_cut_off_for_good_does_not_keep_the_job_running(job):
    job.up(job.spec("import time; print('up', flush=True); time.sleep(5)"))
    job.says("worker-0", b"up")
    job.task_is("ps-0", "serving")
    job.cut_off("ps-0")
    status = job.over()
    assert status.state == "succeeded"
    assert {task.task: task.exit_code for task in status.tasks} == {
        "ps-0": 0,
        "worker-0": 0,
        "worker-1": 0,
    }


def test_a_hub_that_is_cut_off_is_stood_in_for_and_is_the_hub_again_when_it_is_back(job, engine):
    if not engine.is_local:
        pytest.skip("needs an engine whose containers can be reached from here")
    wait = "import os, time\nprint('up', flush=True)\n"
    job.up(job.spec(wait + "while not os.path.exists('/tmp/go'): time.sleep(0.1)", restarts=0))
    for task in ("worker-0", "worker-1"):
        job.says(task, b"up")
    job.task_is("ps-0", "serving")
    address, key = job.control_address("worker-1"), job.run.files.require_key()

    def seen_by(hub: str, tasks: int) -> bool:
        try:
            table = ask(address, key, "worker-1", {"ask": "job"})
        except OSError:  # nobody has noticed yet that the hub is away
            return False
        return (table["hub"], len(table["tasks"])) == (hub, tasks)

    until(lambda: seen_by("ps-0", 3), "the hub to know all tasks")
    job.cut_off("ps-0")
    until(lambda: seen_by("worker-0", 2), "worker-0 to stand in for the hub", 60)
    job.heal("ps-0")
    until(lambda: seen_by("ps-0", 3), "ps-0 to be the hub again, and to know all tasks", 60)
    for task in ("worker-0", "worker-1"):
        job.inside(task, "touch /tmp/go")
    status = job.over()
    assert status.state == "succeeded"
    assert [(task.exit_code, task.restarts) for task in status.tasks] == [(0, 0)] * 3


def test_a_failure_reaches_a_hub_that_is_cut_off_for_good(job):
    job.up(job.spec("import time; print('up', flush=True); time.sleep(5); exit(7)", restarts=0))
    job.says("worker-0", b"up")
    job.task_is("ps-0", "serving")
    job.cut_off("ps-0")
    status = job.over()
    assert (status.state, status.cause.exit_code) == ("failed", 7)
    assert job.task("ps-0").reason.startswith(f"stopped because {status.cause.task} failed")


# -- Commands that are killed


@pytest.mark.parametrize("seconds", [0.8, 1.4, 2.0])
def test_an_up_that_was_killed_is_cleaned_by_down_and_up_works_again(
    job, engine, tmp_path, seconds
):
    (tmp_path / "cluster.yaml").write_text(json.dumps(job.spec(SLEEP)))
    up = subprocess.Popen(
        [sys.executable, "-m", "tfcluster", "up", "-d"],
        cwd=tmp_path,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(seconds)
    up.kill()
    up.wait()
    job.up(job.spec(SLEEP))
    assert job.task_is("worker-1", "running")
    assert sorted(containers(engine, job)) == ["ps-0", "worker-0", "worker-1"]
    job.down()
    assert containers(engine, job) == {} and networks(engine, job) == []
    names = [volume["Name"] for volume in engine.api.volumes()["Volumes"] or ()]
    assert [
        name for name in names if name.startswith("tfcluster-contract-") and "launch" in name
    ] == []


def test_up_after_the_keepers_death_watches_again(job, engine):
    job.up(job.spec(COUNTING, restarts=1))
    job.says("worker-1", b"attempt 0")
    os.kill(job.run.files.read_keeper()["pid"], signal.SIGKILL)
    until(lambda: not alive_keeper(job), "the keeper to be gone")
    engine.api.kill(f"{job.name}-worker-1", "SIGKILL")
    job.up(job.spec(COUNTING, restarts=1))
    assert job.over().state == "succeeded"
    assert job.log("worker-1") == b"attempt 0\nattempt 1\n"
