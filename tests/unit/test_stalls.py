"""Tasks that stand still: who is blamed, what is done, and what a program may give up."""

from __future__ import annotations

import json
import os
import signal

import pytest

from tests.launchers import World, ps, python, role, until, worker
from tfcluster.launch import exits
from tfcluster.launch.progress import ProgressLog
from tfcluster.launch.stalls import StallWatch, find_stall, still_since

NOW = 1000.0
LONG_AGO, JUST_NOW = 900.0, 995.0
RUNS = {"state": "running", "since": 0.0}
SERVES = {"state": "serving", "since": 0.0}


def still(since: float = LONG_AGO, *peers: str) -> dict:
    return {**RUNS, "stalled": since, "waitsFor": list(peers)}


def stopped(since: float = LONG_AGO, **more: object) -> dict:
    return {**RUNS, "stopped": since, **more}


@pytest.mark.parametrize(
    ("tasks", "silent", "blamed", "waiting"),
    [
        ({"worker-0": RUNS}, (), None, ()),
        ({"worker-0": still(JUST_NOW)}, (), None, ()),
        ({"worker-0": still()}, (), "worker-0", ()),
        # The stopped one is to blame, not those who wait for it, whoever stood still first.
        (
            {"ps-0": {**SERVES, "stopped": 910.0}, "worker-0": still(), "worker-1": still()},
            (),
            "ps-0",
            ("worker-0", "worker-1"),
        ),
        ({"ps-0": {**SERVES, "stopped": JUST_NOW}, "worker-0": still()}, (), None, ()),
        ({"worker-0": still(), "worker-1": RUNS}, ("ps-0",), None, ()),
        # Two without progress: the first of them, or the one that the first waits for.
        ({"worker-0": still(905.0), "worker-1": still(901.0)}, (), "worker-1", ("worker-0",)),
        ({"a-0": still(900.0, "b-0"), "b-0": still(910.0)}, (), "b-0", ("a-0",)),
        ({"a-0": still(900.0, "b-0"), "b-0": still(910.0, "a-0")}, (), "b-0", ("a-0",)),
        # One that waits for a task which makes progress does not stand still.
        ({"a-0": still(900.0, "b-0"), "b-0": RUNS}, (), None, ()),
        ({"a-0": still(900.0, "b-0"), "b-0": {"state": "starting"}}, (), None, ()),
        ({"a-0": still(900.0, "gone-0")}, (), "a-0", ()),
        ({"worker-0": {**stopped(), "ended": True}, "worker-1": RUNS}, (), None, ()),
    ],
)
def test_the_one_that_keeps_the_others_waiting_is_blamed(tasks, silent, blamed, waiting):
    stall = find_stall(tasks, silent, 60.0, NOW)
    assert (stall and stall.task) == blamed
    assert (stall.waiting if stall else ()) == waiting


@pytest.mark.parametrize(
    ("said", "attempt", "since"),
    [
        ([], 0, None),
        ([({"phase": "importing"}, 0, 10.0)], 0, None),  # it has made no step yet
        ([({"step": 1}, 0, 10.0)], 0, 10.0),
        ([({"step": 1}, 0, 10.0), ({"step": 1}, 0, 90.0)], 0, 10.0),  # the same step again
        ([({"step": 1}, 0, 10.0), ({"step": 2}, 0, 90.0)], 0, None),
        ([({"step": 1}, 0, 10.0), ({"phase": "saving"}, 0, 20.0)], 0, None),
        ([({"step": 1}, 0, 10.0), ({"phase": "training"}, 0, 20.0)], 0, 20.0),
        (
            [({"step": 1}, 0, 10.0), ({"phase": "meeting", "waits_for": ["b-0"]}, 0, 20.0)],
            0,
            20.0,
        ),
        ([({"step": 1}, 0, 10.0)], 1, None),  # of an attempt that is over
    ],
)
def test_only_a_program_that_has_made_steps_can_stand_still(said, attempt, since):
    log = ProgressLog()
    for line, number, now in said:
        log.take(line, number, now)
    assert still_since(log, attempt, 100.0, 30.0) == since


def test_without_a_rule_nothing_is_ever_done():
    watch = StallWatch(None)
    assert not watch.own({"stopped": 0.0}, 1e9)
    assert watch.silent_for_long({"a-0": 0.0}, 1e9) == []


def test_a_silent_task_is_told_once_and_again_after_it_has_answered():
    watch = StallWatch({"timeout": 10.0, "action": "fail"})
    assert watch.silent_for_long({"a-0": 0.0}, 5.0) == []
    assert watch.silent_for_long({"a-0": 0.0}, 11.0) == ["a-0"]
    assert watch.silent_for_long({"a-0": 0.0}, 12.0) == []
    assert watch.silent_for_long({}, 13.0) == []
    assert watch.silent_for_long({"a-0": 14.0}, 30.0) == ["a-0"]


STEPS = """
import time, sys
for step in range(10**6):
    print('tfcluster-progress {"step": %d}' % step, flush=True)
    time.sleep(0.05)
"""


def stalling(folder, action: str, limit: int = 1) -> World:
    roles = {
        "ps": ps(restarts={"limit": limit, "on": [77]}),
        "worker": worker(STEPS, 2, restarts={"limit": limit, "on": [77]}),
    }
    world = World(folder, roles, stall={"timeout": 1.0, "action": action}).start()
    until(
        lambda: (world.state_becomes("worker-1", "running")["progress"] or {}).get("step"), "step"
    )
    return world


def stop_program(world: World, task: str, number: int = signal.SIGSTOP) -> None:
    os.kill(world.record(task)["program"]["pid"], number)


def test_a_stopped_program_is_reported_until_it_goes_on(tmp_path):
    world = stalling(tmp_path, "report")
    try:
        stop_program(world, "worker-1")
        until(lambda: world.record("worker-1")["kind"] == exits.STALLED, "the stall to be told")
        record = world.record("worker-1")
        assert record["state"] == "running" and "SIGSTOP" in record["reason"]
        assert world.record("worker-0")["kind"] == ""
        stop_program(world, "worker-1", signal.SIGCONT)
        until(lambda: world.record("worker-1")["kind"] == "", "the stall to be over")
        assert world.record("worker-1")["reason"] == ""
    finally:
        world.close()


def test_a_stopped_server_is_restarted_whatever_exit_codes_are_worth_it(tmp_path):
    world = stalling(tmp_path, "restart")
    try:
        first = world.record("ps-0")["program"]["pid"]
        stop_program(world, "ps-0")
        until(lambda: world.record("ps-0")["attempt"] == 1, "another attempt")
        until(lambda: world.record("ps-0")["state"] == "serving", "ps-0 to serve again")
        record = world.record("ps-0")
        assert record["failures"] == 1 and record["program"]["pid"] != first
    finally:
        world.close()


def test_a_stall_fails_the_job_where_the_plan_says_so(tmp_path):
    world = stalling(tmp_path, "fail")
    try:
        stop_program(world, "worker-1")
        codes = world.codes()
        assert codes["worker-1"] == exits.EXIT_STALLED
        assert codes["ps-0"] == codes["worker-0"] == exits.EXIT_PEER_FAILED
        cause = world.record("worker-0")["cause"]
        assert (cause["task"], cause["kind"]) == ("worker-1", exits.STALLED)
    finally:
        world.close()


def test_a_job_ends_without_the_task_that_its_program_gave_up(tmp_path):
    result = json.dumps({"without": ["worker-1", "nobody-7"]})
    code = f"import sys, time\nif $(INDEX) == 0: print('tfcluster-result {result}')\n"
    code += "else: time.sleep(600)"
    roles = {"ps": ps(), "worker": role(python(code), 2, needs=["ps"])}
    world = World(tmp_path, roles).start()
    try:
        assert world.codes() == {"ps-0": 0, "worker-0": 0, "worker-1": 0}
        assert world.record("worker-1")["kind"] in (exits.GIVEN_UP, exits.JOB_DONE)
    finally:
        world.close()
