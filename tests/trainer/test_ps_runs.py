"""Real clusters of algorithms that wait or make local steps, and what a lost task does to them."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.trainer.harness import Cluster

pytestmark = [pytest.mark.tensorflow, pytest.mark.slow]

MakeCluster = Callable[..., Cluster]

# Quick to learn; no evaluation in between.
RELU = {"activation": "relu", "eval_every": 0, "checkpoint_seconds": 0.5, "tensorboard": "false"}


def test_sync_with_a_backup_survives_a_stopped_worker_and_a_killed_chief(
    cluster: MakeCluster,
) -> None:
    settings = {"algorithm": "sync", "backups": 1, "learning_rate": 0.4, "epochs": 3}
    run = cluster({**RELU, **settings}, ps=1, worker=3)
    run.start()
    run.wait_for_step("worker-0", 100)
    run.signal("worker-2", signal.SIGSTOP)
    reached = run.progress("worker-0")[-1]["step"]
    run.wait_for_step("worker-0", reached + 200)  # they do not wait for it
    run.signal("worker-2", signal.SIGCONT)
    run.kill("worker-0")
    run.start("worker-0")
    assert [run.wait(f"worker-{i}") for i in range(3)] == [0, 0, 0]
    result = run.result()
    assert result["accuracy"] >= 0.95
    assert result["global_step"] == 3 * 550
    assert result["gradients"]["used"] == 2 * result["global_step"]
    steps = [p["step"] for p in run.progress("worker-0")]
    assert steps == sorted(steps), "the restarted chief began again from nothing"


KILLED = {  # settings, workers, and the accuracy that is reached whoever is killed
    "sync": ({"backups": 1, "learning_rate": 0.4, "epochs": 3}, 3, 0.95),
    "agn": ({"window": 8, "learning_rate": 0.5, "epochs": 12}, 2, 0.95),
    "aeasgd": ({"window": 10, "learning_rate": 0.2, "epochs": 8}, 2, 0.96),
}


@pytest.mark.parametrize("victim", ["worker-0", "worker-1", "ps-0"])
@pytest.mark.parametrize("algorithm", KILLED)
def test_a_killed_task_comes_back_and_the_run_ends_in_the_same_band(
    cluster: MakeCluster, algorithm: str, victim: str
) -> None:
    settings, workers, accuracy = KILLED[algorithm]
    run = cluster({**RELU, "algorithm": algorithm, **settings}, ps=1, worker=workers)
    run.start()
    for i in range(2):
        run.wait_for_step(f"worker-{i}", 500)
    run.kill(victim)
    run.start(victim)
    assert [run.wait(f"worker-{i}") for i in range(workers)] == [0] * workers
    result = run.result()
    assert result["accuracy"] >= accuracy
    wanted = settings["epochs"] * 550
    if algorithm == "sync":
        assert result["global_step"] == wanted
    else:
        # Each makes all its steps, the last ones in a shorter window. A window that was counted
        # while its worker was being killed can make it one window more.
        steps = {task: part["steps"] for task, part in result["per_task"].items()}
        assert wanted <= steps.pop(victim, wanted) <= wanted + settings["window"]
        assert set(steps.values()) == {wanted}
    if algorithm == "agn":
        assert result["global_step"] in (1650, 1651)
    if victim == "ps-0":
        assert "Resuming at global step" in run.log("worker-0")
    else:
        steps = [p["step"] for p in run.progress(victim)]
        assert steps == sorted(steps), "the restarted worker began again from nothing"


def test_of_two_ps_one_is_killed_and_the_run_goes_on(cluster: MakeCluster) -> None:
    settings = {"algorithm": "hogwild", "learning_rate": 0.2, "epochs": 3}
    run = cluster({**RELU, **settings}, ps=2, worker=2)
    run.start()
    run.wait_for_step("worker-0", 300)
    run.kill("ps-1")
    run.start("ps-1")
    assert [run.wait(f"worker-{i}") for i in range(2)] == [0, 0]
    assert run.result()["accuracy"] >= 0.95
    assert "Resuming at global step" in run.log("worker-0")


@pytest.mark.parametrize("algorithm", ["hogwild", "sync", "agn", "aeasgd"])
def test_the_deep_network_trains_under_every_kind_of_exchange(
    cluster: MakeCluster, algorithm: str
) -> None:
    settings = {"model": "cnn", "optimizer": "sgd", "learning_rate": 0.05, "batch_size": 20}
    run = cluster({**RELU, "algorithm": algorithm, **settings, "steps": 24}, ps=2, worker=2)
    run.start()
    assert [run.wait(f"worker-{i}") for i in range(2)] == [0, 0]
    result = run.result()
    assert result["settings"]["model"] == "cnn"
    assert result["accuracy"] > 0.15, "it has learned nothing at all"
    assert min(part["steps"] for part in result["per_task"].values()) >= 1
