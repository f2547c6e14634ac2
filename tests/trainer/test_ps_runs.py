"""Real clusters of algorithms that wait or make local steps, and what a lost task does to them."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.trainer.harness import Cluster

pytestmark = pytest.mark.tensorflow

MakeCluster = Callable[..., Cluster]

PATIENCE = 300.0  # seconds, for a machine that does other things as well

# Quick to learn; no evaluation in between.
RELU = {"activation": "relu", "eval_every": 0, "checkpoint_seconds": 0.5, "tensorboard": "false"}


def test_sync_with_a_backup_survives_a_stopped_worker_and_a_killed_chief(
    cluster: MakeCluster,
) -> None:
    settings = {"algorithm": "sync", "backups": 1, "learning_rate": 0.4, "epochs": 3}
    run = cluster({**RELU, **settings}, ps=1, worker=3)
    run.start()
    run.wait_for_step("worker-0", 100, PATIENCE)
    run.signal("worker-2", signal.SIGSTOP)
    reached = run.progress("worker-0")[-1]["step"]
    run.wait_for_step("worker-0", reached + 200, PATIENCE)  # they do not wait for it
    run.signal("worker-2", signal.SIGCONT)
    run.kill("worker-0")
    run.start("worker-0")
    assert [run.wait(f"worker-{i}", PATIENCE) for i in range(3)] == [0, 0, 0]
    result = run.result()
    assert result["accuracy"] >= 0.95
    assert result["global_step"] == 3 * 550
    assert result["gradients"]["used"] == 2 * result["global_step"]
    steps = [p["step"] for p in run.progress("worker-0")]
    assert steps == sorted(steps), "the restarted chief began again from nothing"


def test_agn_survives_a_killed_worker(cluster: MakeCluster) -> None:
    settings = {"algorithm": "agn", "window": 8, "learning_rate": 0.5, "epochs": 12}
    run = cluster({**RELU, **settings}, ps=1, worker=2)
    run.start()
    run.wait_for_step("worker-1", 500, PATIENCE)
    run.kill("worker-1")
    run.start("worker-1")
    assert [run.wait(f"worker-{i}", PATIENCE) for i in range(2)] == [0, 0]
    result = run.result()
    assert result["accuracy"] >= 0.95
    # Each makes all its steps, the last ones in a shorter window. A window that was counted while
    # its worker was being killed can make it one window more.
    steps = {task: part["steps"] for task, part in result["per_task"].items()}
    assert steps["worker-0"] == 6600
    assert 6600 <= steps["worker-1"] <= 6608
    assert result["global_step"] in (1650, 1651)


def test_aeasgd_survives_a_killed_ps(cluster: MakeCluster) -> None:
    settings = {"algorithm": "aeasgd", "window": 10, "learning_rate": 0.2, "epochs": 8}
    run = cluster({**RELU, **settings}, ps=1, worker=2)
    run.start()
    run.wait_for_step("worker-0", 1000, PATIENCE)
    run.wait_for_step("worker-1", 1000, PATIENCE)
    run.kill("ps-0")
    run.start("ps-0")
    assert [run.wait(f"worker-{i}", PATIENCE) for i in range(2)] == [0, 0]
    result = run.result()
    assert result["accuracy"] >= 0.96
    assert "Resuming at global step" in run.log("worker-0")
    assert {p["steps"] for p in result["per_task"].values()} == {4400}
