"""The bundled trainer under the real command line, with TensorFlow."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.runs.cli import ROOT

pytest.importorskip("tensorflow", reason='needs TensorFlow: pip install "tfcluster[trainer]"')
pytestmark = [pytest.mark.tensorflow, pytest.mark.xdist_group("tensorflow")]

EXAMPLE = str(ROOT / "examples" / "mnist.yaml")


def test_the_example_trains_both_workers_take_part_and_every_ps_ends_by_itself(tfcluster):
    up = tfcluster("up", EXAMPLE)
    assert up.returncode == 0, up.stderr
    last = up.stderr.strip().splitlines()[-1]
    assert "test accuracy 0." in last
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
    """`up` in the background, until worker-1 has made some steps."""
    up = tfcluster.start("up", EXAMPLE, "--set", "train.epochs=40", *args)
    progressed = lambda status: any(  # noqa: E731
        task["task"] == "worker-1" and (task["progress"] or {}).get("step", 0) > 100
        for task in status["tasks"]
    )
    tfcluster.wait_for(progressed, "worker-1 to make steps")
    return up


def test_a_worker_killed_in_the_middle_is_restarted_and_the_job_succeeds(tfcluster):
    up = start_and_reach(tfcluster, "--set", "train.steps=8000")
    os.kill(tfcluster.task("worker-1")["pid"], signal.SIGKILL)
    _, err = up.communicate(timeout=240)
    assert up.returncode == 0, err
    assert tfcluster.task("worker-1")["restarts"] == 1
    assert tfcluster.task("worker-0")["restarts"] == 0


def test_with_no_restarts_up_exits_5_and_explains(tfcluster):
    up = start_and_reach(tfcluster, "--set", "restarts=0")
    live = tfcluster("logs", "worker-1", "-n", "1").stdout
    os.kill(tfcluster.task("worker-1")["pid"], signal.SIGKILL)
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
with tf.Graph().as_default(), tf.device("/job:ps/task:0"):
    total = tf.constant(20) + tf.constant(22)
    with tf.compat.v1.Session(server.target) as session:
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
