"""The hub is a task like any other: killed, stopped or cut off, the job ends as it promises to.

At the start no worker's program runs yet, in the middle both do, and at the end one has finished.
"""

from __future__ import annotations

import time

import pytest

from tests.contract.jobs import HOLD
from tests.launchers import until

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
WORK = f"{HOLD}print('done', flush=True)"
FAIL = f"{HOLD}raise SystemExit(7)"
WORKERS = ("worker-0", "worker-1")
AWAY = 2.0  # seconds for which a hub is stopped or cut off when all the others have ended
LONG = 180.0  # seconds in which every job here is over, whatever else the machine has to do


@pytest.fixture
def starting(job):
    """A job whose hub, ps-0, is there, and whose workers wait because it does not listen yet."""
    settings = {"barrier": "ports", "start_timeout": LONG, "restarts": 2}
    job.up(job.spec("print('up'); print('done')", ps=f"{HOLD}{job.serve}", **settings))
    job.says("ps-0", b"up")
    return job


@pytest.fixture
def working(job):
    """A job whose hub is ps-0, with two workers that go on as long as the test likes."""

    def make(**settings):
        job.up(job.spec(WORK, restarts=2, **settings))
        for task in WORKERS:
            job.says(task, b"up")
        job.task_is("ps-0", "serving")
        return job

    return make


@pytest.fixture
def ending(working):
    """A job of which worker-0 has finished and is gone; worker-1 goes on."""
    job = working()
    job.let_go("worker-0")
    job.task_is("worker-0", "succeeded")
    return job


def assert_succeeded(job) -> None:
    status = job.over(LONG)
    assert status.state == "succeeded", status
    codes = {task.task: task.exit_code for task in status.tasks}
    assert codes == {"ps-0": 0, "worker-0": 0, "worker-1": 0}
    for task in WORKERS:
        assert job.log(task).split() == [b"up", b"done"], f"{task} has to run once"


def replaced(job) -> None:
    until(lambda: job.task("ps-0").restarts == 1, "the hub to be replaced", LONG)


def test_a_hub_that_is_killed_at_the_start_is_replaced_and_the_job_succeeds(starting):
    starting.kill_launcher("ps-0")
    replaced(starting)
    until(lambda: starting.log("ps-0").count(b"up") == 2, "its program to start again", LONG)
    starting.let_go("ps-0")
    assert_succeeded(starting)


def test_a_hub_that_is_killed_in_the_middle_is_replaced_and_the_job_succeeds(working):
    job = working()
    job.kill_launcher("ps-0")
    replaced(job)
    job.let_go(*WORKERS)
    assert_succeeded(job)


def test_a_hub_that_is_killed_at_the_end_still_learns_who_had_finished(ending):
    ending.kill_launcher("ps-0")
    ending.let_go("worker-1")
    assert_succeeded(ending)


def test_a_hub_that_is_stopped_at_the_start_is_the_named_cause(job):
    short = job.surroundings.short
    job.up(job.spec(SLEEP, start_timeout=short, restarts=0, ps=f"import time; time.sleep({short})"))
    until(lambda: job.task("ps-0").state in ("starting", "running", "serving"), "the hub", LONG)
    job.pause("ps-0")
    try:
        assert job.becomes(lambda status: status.state == "failed", "the job to fail", LONG)
        cause = job.status().cause
        assert cause is not None and "ps-0" in f"{cause.task} {cause.reason}"
    finally:
        job.resume("ps-0")


def test_a_hub_that_is_stopped_in_the_middle_and_goes_on_later_loses_nothing(working):
    job = working()
    job.pause("ps-0")
    job.let_go(*WORKERS)
    for task in WORKERS:
        job.says(task, b"done")
    time.sleep(AWAY)
    job.resume("ps-0")
    assert_succeeded(job)


def test_a_hub_that_is_stopped_at_the_end_for_good_does_not_keep_the_job_running(working):
    job = working(stop_grace=2)
    job.let_go("worker-0")
    job.task_is("worker-0", "succeeded")
    job.pause("ps-0")
    job.let_go("worker-1")
    assert job.over(LONG).state == "succeeded"


def test_a_hub_that_is_cut_off_at_the_start_is_joined_once_it_is_back(starting):
    starting.cut_off("ps-0")
    time.sleep(AWAY)
    starting.heal("ps-0")
    starting.let_go("ps-0")
    assert_succeeded(starting)


def test_a_hub_that_is_cut_off_in_the_middle_loses_nothing(working):
    job = working()
    job.cut_off("ps-0")
    job.let_go(*WORKERS)
    for task in WORKERS:
        job.says(task, b"done")
    time.sleep(AWAY)
    job.heal("ps-0")
    assert_succeeded(job)


def test_a_hub_that_is_cut_off_at_the_end_still_learns_who_has_finished(ending):
    ending.cut_off("ps-0")
    ending.let_go("worker-1")
    ending.says("worker-1", b"done")
    time.sleep(AWAY)
    ending.heal("ps-0")
    assert_succeeded(ending)


def test_the_first_cause_is_kept_when_the_hub_is_killed_just_then(job):
    job.up(job.spec(FAIL, restarts={"limit": 2, "on": [137]}))
    for task in WORKERS:
        job.says(task, b"up")
    job.task_is("ps-0", "serving")
    job.kill_launcher("ps-0")
    job.let_go("worker-1")
    status = job.over(LONG)
    assert status.state == "failed"
    assert status.cause is not None
    assert (status.cause.task, status.cause.exit_code) == ("worker-1", 7)
