"""The bundled trainer under the real command line, with TensorFlow."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.runs.cli import ROOT
from tests.runs.data_service import assert_data_service_ends_by_itself

pytest.importorskip("tensorflow", reason='needs TensorFlow: pip install "tfcluster[trainer]"')
pytestmark = [pytest.mark.tensorflow, pytest.mark.xdist_group("tensorflow")]

EXAMPLE = str(ROOT / "examples" / "mnist.yaml")


def test_the_example_trains_both_workers_take_part_and_every_ps_ends_by_itself(tfcluster):
    up = tfcluster("up", EXAMPLE)
    assert up.returncode == 0, up.stderr
    done, where = up.stderr.strip().splitlines()[-2:]
    assert "test accuracy 0." in done
    assert where.startswith("Results: ") and Path(where.partition(": ")[2]).is_dir()
    status = tfcluster.status()
    assert status["state"] == "succeeded"
    assert {task["task"]: task["exitCode"] for task in status["tasks"]} == {
        "ps-0": 0,
        "worker-0": 0,
        "worker-1": 0,
    }
    result = status["result"]
    assert result["accuracy"] >= 0.95
    updates = {task: entry["steps"] for task, entry in result["per_task"].items()}
    assert sum(updates.values()) == result["global_step"]
    assert min(updates.values()) >= 0.2 * sum(updates.values())
    after = tfcluster("logs", "worker-1")
    assert after.returncode == 0 and "worker-1 | " in after.stdout
    assert tfcluster("down").returncode == 0
    assert tfcluster("logs", "worker-1").stdout == after.stdout


def start_and_reach(tfcluster, *args: str):
    """`up` in the background, until worker-1 has made some steps; its pid as it was just then."""
    up = tfcluster.start("up", EXAMPLE, "--set", "train.epochs=40", *args)
    pids: list[int] = []

    def progressed(status: dict) -> bool:
        worker = next(task for task in status["tasks"] if task["task"] == "worker-1")
        if (worker["progress"] or {}).get("step", 0) > 100:
            pids.append(worker["pid"])
        return bool(pids)

    tfcluster.wait_for(progressed, "worker-1 to make steps")
    return up, pids[0]


def test_a_worker_killed_in_the_middle_is_restarted_and_the_job_succeeds(tfcluster):
    up, pid = start_and_reach(tfcluster, "--set", "train.steps=8000")
    os.kill(pid, signal.SIGKILL)
    _, err = up.communicate(timeout=240)
    assert up.returncode == 0, err
    assert tfcluster.task("worker-1")["restarts"] == 1
    assert tfcluster.task("worker-0")["restarts"] == 0


@pytest.mark.slow
def test_with_no_restarts_up_exits_5_and_explains(tfcluster):
    up, pid = start_and_reach(tfcluster, "--set", "restarts=0")
    live = tfcluster("logs", "worker-1", "-n", "1").stdout
    os.kill(pid, signal.SIGKILL)
    out, err = up.communicate(timeout=60)
    assert up.returncode == 5
    assert "worker-1 failed" in err and "SIGKILL" in err
    assert live.split("| ", 1)[1].strip() in out + err
    for task in ("ps-0", "worker-0"):
        assert tfcluster.task(task)["reason"].startswith("stopped because worker-1 failed")


OWN_PROGRAM = """
import json, os, sys
import tensorflow as tf
config = json.loads(os.environ["TF_CONFIG"])
task = config["task"]
server = tf.distribute.Server(config["cluster"], job_name=task["type"], task_index=task["index"])
if task["type"] == "ps":
    server.join()
# Without filters a worker waits for all others, also for one that has finished and is gone.
filters = ["/job:ps", f"/job:{task['type']}/task:{task['index']}"]
config = tf.compat.v1.ConfigProto(device_filters=filters)
with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
    total = tf.constant(20) + tf.constant(22)
    with tf.compat.v1.Session(server.target, config=config) as session:
        print("the ps computed", session.run(total), flush=True)
"""

OWN_SPEC = """
name: own
command: [python, {program}]
start_timeout: {timeout}
roles:
  ps: {{replicas: 1{ps}}}
  worker: {{replicas: 2}}
"""


def own_job(folder: Path, *, ps: str = "", timeout: int = 120) -> None:
    (folder / "train.py").write_text(OWN_PROGRAM)
    spec = OWN_SPEC.format(program="train.py", ps=ps, timeout=timeout)
    (folder / "cluster.yaml").write_text(
        spec.replace("[python,", f"[{json.dumps(os.sys.executable)},")
    )


def test_a_program_whose_ps_only_joins_ends_by_itself(tfcluster):
    own_job(tfcluster.folder)
    up = tfcluster("up")
    assert up.returncode == 0, up.stderr
    assert "worker-1 | the ps computed 42" in up.stdout
    assert tfcluster.task("ps-0")["exitCode"] == 0


def test_a_ps_that_never_comes_up_is_named_by_the_deadline(tfcluster):
    own_job(tfcluster.folder, ps=', command: [sleep, "600"]', timeout=15)
    up = tfcluster("up")
    assert up.returncode == 5, up.stderr
    assert "ps-0 failed: nothing listens on port" in up.stderr
    assert tfcluster.left_behind() == []


@pytest.mark.slow
def test_a_tf_data_service_ends_when_its_trainer_has_finished(tfcluster):
    assert_data_service_ends_by_itself(tfcluster)
