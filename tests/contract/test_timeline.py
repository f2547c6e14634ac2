"""Where the time went, told from what every backend keeps of a run."""

from __future__ import annotations

import itertools

from tests.launchers import until
from tfcluster.timeline.spans import timeline_of

# Says what it is at; the first attempt of worker-0 then waits to be killed.
PHASES = """
import json, os, time
def say(**said):
    print("tfcluster-progress " + json.dumps(said), flush=True)
time.sleep(0.3)
say(step=1)
if os.environ["TFCLUSTER_TASK"] == "worker-0" and os.environ["TFCLUSTER_ATTEMPT"] == "0":
    time.sleep(600)
time.sleep(0.3)
say(phase="saving")
time.sleep(0.3)
"""


def test_a_timeline_tells_phases_restarts_and_waits_also_after_down(job):
    job.up(job.spec(PHASES))
    until(lambda: job.task("worker-0").progress is not None, "worker-0 to train")
    job.kill_program("worker-0")
    status = job.over()
    assert status.state == "succeeded"
    timeline = timeline_of(job.run, status)
    kinds = {task: [span.kind for span in spans] for task, spans in timeline.tasks.items()}
    for task, spans in timeline.tasks.items():
        assert all(one.end == after.start for one, after in itertools.pairwise(spans))
        assert abs(spans[0].start - timeline.begin) < 1e-6, task
    assert kinds["ps-0"][-1] == "serving"
    first, _, second = " ".join(kinds["worker-0"]).partition(" restarting ")
    assert "importing training" in first or first.endswith("stalled")  # where killing takes long
    assert second == "importing training saving"
    assert " ".join(kinds["worker-1"]).endswith("importing training saving")
    saved = [span for span in timeline.tasks["worker-1"] if span.kind == "saving"]
    assert saved[0].seconds > 0.2
    job.down()
    assert timeline_of(job.run, job.run.final_status()).tasks == timeline.tasks


def test_a_timeline_goes_on_when_a_launcher_is_replaced(job):
    job.up(job.spec(PHASES, roles={"worker": {"restarts": 3}}))
    until(lambda: job.task("worker-0").progress is not None, "worker-0 to train")
    job.kill_launcher("worker-0")
    status = job.over()
    assert status.state == "succeeded"
    kinds = [span.kind for span in timeline_of(job.run, status).tasks["worker-0"]]
    assert kinds.count("training") == 2
    assert kinds[-1] == "saving"
