"""`tfcluster restart`, as several people or scripts call it at once."""

from __future__ import annotations

import json
import sys

import pytest

from tests.unit.records import tasks
from tfcluster.commands.restart import ASKED, told_already
from tfcluster.events import Event, JobStatus

SPEC = {
    "name": "again",
    "command": [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"],
    "roles": {"worker": {"replicas": 1}},
}


def test_four_restarts_at_once_are_one(tfcluster):
    (tfcluster.folder / "cluster.yaml").write_text(json.dumps(SPEC))
    assert tfcluster("up", "--wait").returncode == 0
    calls = [tfcluster.start("restart", "--all") for _ in range(4)]
    outputs = [call.communicate(timeout=120)[1] for call in calls]
    assert [call.returncode for call in calls] == [0, 0, 0, 0], outputs
    assert sum("Restarting worker-0" in text for text in outputs) == 1, outputs
    assert sum("another `tfcluster restart` is at it" in text for text in outputs) == 3
    tfcluster.wait_for(lambda status: status["tasks"][0]["restarts"] == 1, "one restart")
    assert tfcluster("restart", "worker-0").returncode == 0
    tfcluster.wait_for(lambda status: status["tasks"][0]["restarts"] == 2, "a second restart")
    assert tfcluster("down").returncode == 0


@pytest.mark.parametrize(
    ("asked", "restarts_then", "joins"),
    [
        (105.0, 0, True),  # after this command was called
        (95.0, 0, True),  # before, and it has not restarted yet
        (95.0, -1, False),  # before, and it has restarted since
        (50.0, 0, False),  # so long ago that it was not heard
    ],
)
def test_a_restart_that_is_under_way_is_joined(asked, restarts_then, joins):
    status = JobStatus("again", "r", "local", "running", tasks(worker_0="running"))
    told = told_already(
        [Event(asked, ASKED, "", data={"worker-0": restarts_then})], status, called=100, since=80
    )
    assert told == ({"worker-0"} if joins else set())
