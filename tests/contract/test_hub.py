"""The hub is a task like any other: killed, stopped or cut off, the job ends as it promises to."""

from __future__ import annotations

import time

import pytest

from tests.launchers import until

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
WORK = "import os, time\nprint('up', flush=True)\ntime.sleep({seconds})\nprint('done', flush=True)"
FAIL = "import sys, time; print('up', flush=True); time.sleep({seconds}); sys.exit(7)"


@pytest.fixture
def working(job):
    """A job whose hub is ps-0, with two workers that take a while."""

    def make(seconds: float = 20.0, **settings):
        job.up(job.spec(WORK.format(seconds=seconds), restarts=2, **settings))
        for task in ("worker-0", "worker-1"):
            job.says(task, b"up")
        job.task_is("ps-0", "serving")
        return job

    return make


def test_a_hub_that_is_killed_in_the_middle_is_replaced_and_the_job_succeeds(working):
    job = working(12)
    job.kill_launcher("ps-0")
    status = job.over(120)
    assert status.state == "succeeded"
    assert {task.task: task.exit_code for task in status.tasks} == {
        "ps-0": 0,
        "worker-0": 0,
        "worker-1": 0,
    }
    assert next(task for task in status.tasks if task.task == "ps-0").restarts == 1


def test_a_hub_that_is_stopped_in_the_middle_and_goes_on_later_loses_nothing(working):
    job = working(6)
    job.pause("ps-0")
    job.says("worker-0", b"done")
    job.says("worker-1", b"done")
    time.sleep(4)
    job.resume("ps-0")
    assert job.over(120).state == "succeeded"


def test_a_hub_that_is_stopped_at_the_end_for_good_does_not_keep_the_job_running(working):
    job = working(4, stop_grace=2)
    job.says("worker-0", b"up")
    job.pause("ps-0")
    status = job.over(180)
    assert status.state == "succeeded"


def test_a_hub_that_is_stopped_at_the_start_is_the_named_cause(job):
    short = job.surroundings.short + 4
    job.up(job.spec(SLEEP, start_timeout=short, restarts=0, ps=f"import time; time.sleep({short})"))
    until(lambda: job.task("ps-0").state in ("starting", "running", "serving"), "the hub", 60)
    job.pause("ps-0")
    try:
        assert job.becomes(lambda status: status.state == "failed", "the job to fail", 120)
        cause = job.status().cause
        assert cause is not None and "ps-0" in f"{cause.task} {cause.reason}"
    finally:
        job.resume("ps-0")


def test_a_hub_that_is_cut_off_for_a_while_loses_nothing(working):
    job = working(8)
    job.cut_off("ps-0")
    job.says("worker-0", b"done")
    time.sleep(3)
    job.heal("ps-0")
    assert job.over(120).state == "succeeded"


def test_the_first_cause_is_kept_when_the_hub_is_killed_just_then(job):
    job.up(job.spec(FAIL.format(seconds=6), restarts={"limit": 2, "on": [137]}))
    job.says("worker-1", b"up")
    job.task_is("ps-0", "serving")
    time.sleep(4)
    job.kill_launcher("ps-0")
    status = job.over(120)
    assert status.state == "failed"
    assert status.cause is not None
    assert (status.cause.task.rpartition("-")[0], status.cause.exit_code) == ("worker", 7)
