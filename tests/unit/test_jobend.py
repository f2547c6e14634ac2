"""What a keeper has to do about the end of a job, from what the records of its tasks say."""

from __future__ import annotations

from tfcluster.backends.jobend import OVERDUE, SPEAK_AFTER, JobWatch, ends_of
from tfcluster.launch import exits

RUNNING = {"task": "x", "state": "running"}
DONE = {"task": "x", "state": "succeeded", "kind": exits.FINISHED}
BY_RULE = {"task": "x", "state": "succeeded", "kind": exits.JOB_DONE}


def failed(task: str, time: float) -> dict:
    cause = {"task": task, "kind": "exit", "exitCode": 1, "reason": "exit code 1", "lines": []}
    return {"task": task, "state": "failed", "cause": {**cause, "time": time}}


def test_the_job_is_decided_once_every_required_task_has_succeeded():
    required = ["worker-0", "worker-1"]
    half = ends_of({"ps-0": RUNNING, "worker-0": DONE, "worker-1": RUNNING}, required)
    assert (half.decided, half.succeeded) == (False, ("worker-0",))
    whole = ends_of({"ps-0": RUNNING, "worker-0": DONE, "worker-1": DONE}, required)
    assert whole.decided and whole.cause is None


def test_the_earliest_failure_decides():
    records = {"worker-0": failed("worker-0", 5.0), "worker-1": failed("worker-1", 3.0)}
    ends = ends_of(records, ["worker-0", "worker-1"])
    assert ends.decided and ends.cause is not None and ends.cause["task"] == "worker-1"


def test_a_task_that_was_ended_by_rule_is_not_reported_as_one_that_decided():
    ends = ends_of({"ps-0": BY_RULE, "worker-0": DONE}, ["worker-0"])
    assert ends.succeeded == ("worker-0",)


def test_nothing_is_done_while_nothing_is_decided():
    watch = JobWatch(["worker-0"], stop_grace=1.0)
    duty = watch.look({"ps-0": RUNNING, "worker-0": RUNNING}, 0.0)
    assert (duty.tell, duty.brief, duty.end) == ((), (), ())


def test_launchers_are_left_to_tell_each_other_then_told_then_ended():
    watch = JobWatch(["worker-0"], stop_grace=1.0)
    records = {"ps-0": RUNNING, "worker-0": DONE}
    assert watch.look(records, 0.0).tell == ()
    assert watch.look(records, SPEAK_AFTER + 0.1).tell == ("ps-0",)
    assert watch.look(records, SPEAK_AFTER + 0.5).tell == ()
    late = watch.look(records, OVERDUE + 1.1)
    assert late.end == ("ps-0",)
    assert late.ends.rule_for("ps-0")["state"] == "succeeded"
    assert watch.look({"ps-0": BY_RULE, "worker-0": DONE}, OVERDUE + 2).end == ()


def test_the_rule_for_a_task_of_a_failed_job_names_the_first_cause():
    ends = ends_of({"ps-0": RUNNING, "worker-1": failed("worker-1", 1.0)}, ["worker-1"])
    rule = ends.rule_for("ps-0")
    assert (rule["state"], rule["exitCode"]) == ("stopped", exits.EXIT_PEER_FAILED)
    assert "worker-1 failed" in rule["reason"]


def test_a_launcher_in_the_place_of_another_is_briefed_once():
    watch = JobWatch(["worker-0"], stop_grace=1.0)
    records = {"ps-0": RUNNING, "worker-0": RUNNING}
    watch.note_replaced("ps-0", 10.0)
    assert watch.look(records, 10.5).brief == ()
    assert watch.look(records, 10.0 + SPEAK_AFTER + 0.1).brief == ("ps-0",)
    assert watch.look(records, 20.0).brief == ()


def test_a_task_that_another_gave_up_does_not_hold_the_job():
    gave_up = {**DONE, "result": {"without": ["worker-1"]}}
    required = ["worker-0", "worker-1"]
    assert ends_of({"worker-0": gave_up, "worker-1": RUNNING}, required).decided
    still_running = {**RUNNING, "result": {"without": ["worker-1"]}}
    assert not ends_of({"worker-0": still_running, "worker-1": RUNNING}, required).decided


def test_a_task_of_which_the_others_were_told_that_it_failed_has_failed():
    told = {**failed("worker-1", 1.0), "state": "stopped"}
    ends = ends_of({"worker-0": told, "worker-1": RUNNING}, ["worker-0", "worker-1"])
    assert ends.decided
    assert ends.rule_for("worker-1")["state"] == "failed"
    assert ends.rule_for("ps-0")["state"] == "stopped"
