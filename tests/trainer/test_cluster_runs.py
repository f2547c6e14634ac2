"""Real clusters of real processes, and what they promise when a task is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.trainer.harness import Cluster, free_ports, run_alone, trainer_env

pytestmark = pytest.mark.tensorflow

MakeCluster = Callable[..., Cluster]

# Quick to learn, and long enough (some seconds) to be hit in the middle.
RELU = {"activation": "relu", "learning_rate": 0.2, "eval_every": 0}


def test_two_workers_train_together_and_share_the_work(cluster: MakeCluster) -> None:
    run = cluster({**RELU, "epochs": 2}, ps=1, worker=2)
    run.start()
    assert [run.wait("worker-0"), run.wait("worker-1")] == [0, 0]
    assert run.terminate("ps-0") == 0
    result = run.result()
    assert result["accuracy"] >= 0.95
    assert result["global_step"] == 2200
    assert {t: p["steps"] for t, p in result["per_task"].items()} == {
        "worker-0": 1100,
        "worker-1": 1100,
    }
    assert result["staleness"]["max"] >= 1, "the workers did not train at the same time"
    assert run.progress("worker-1")[-1] | {"rate": 0, "loss": 0, "global_step": 0} == {
        "step": 1100,
        "total": 1100,
        "rate": 0,
        "loss": 0,
        "global_step": 0,
    }
    assert "tfcluster-result {" in run.log("worker-0")
    phases = run.phases("worker-0")
    assert phases[:2] == ["importing TensorFlow", "building the graph"]
    assert phases[-3:] in (
        ["training", "evaluating", "saving"],
        ["waiting for worker-1", "evaluating", "saving"],
    )
    assert run.phases("ps-0") == ["importing TensorFlow", None]
    assert "epoch 2, batch " in run.log("worker-1")
    assert list((run.logdir / "worker-1").glob("events.out.tfevents.*"))


@pytest.mark.slow
def test_steps_are_shared_by_all_workers(cluster: MakeCluster) -> None:
    run = cluster({**RELU, "steps": 500, "log_format": "steps"}, ps=1, chief=1, worker=1)
    run.start()
    assert [run.wait("chief-0"), run.wait("worker-0")] == [0, 0]
    result = run.result()
    assert 500 <= result["global_step"] <= 501
    assert sum(p["steps"] for p in result["per_task"].values()) == result["global_step"]
    assert min(p["share"] for p in result["per_task"].values()) >= 0.2
    assert "validation cross entropy = " in run.log("chief-0")


@pytest.mark.slow
def test_one_worker_and_two_ps_equal_one_process(cluster: MakeCluster, tmp_path: Path) -> None:
    settings = {"steps": 25, "optimizer": "adam", "learning_rate": 0.001, "eval_every": 0}
    run = cluster(settings, ps=2, worker=1)
    run.start()
    assert run.wait("worker-0") == 0
    flags = [f"--{k}={v}" for k, v in settings.items()]
    alone = run_alone(*flags, "--checkpoints", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    with np.load(run.checkpoints / "weights.npz") as there:
        with np.load(tmp_path / "alone" / "weights.npz") as here:
            np.testing.assert_allclose(there["parameters"], here["parameters"], atol=1e-5)


@pytest.mark.parametrize(
    "victim", [*(pytest.param(f"worker-{i}", marks=pytest.mark.slow) for i in (0, 1)), "ps-0"]
)
def test_a_killed_task_comes_back_and_the_run_ends_right(cluster: MakeCluster, victim: str) -> None:
    run = cluster({**RELU, "epochs": 4, "checkpoint_seconds": 0.5}, ps=1, worker=2)
    run.start()
    run.wait_for_step("worker-0", 400)
    run.wait_for_step("worker-1", 400)
    run.kill(victim)
    run.start(victim)
    assert [run.wait("worker-0"), run.wait("worker-1")] == [0, 0]
    result = run.result()
    assert result["accuracy"] >= 0.96
    # Nothing is done twice and nothing left out: a restarted worker goes on where it was. A step
    # that was counted while its worker was being killed can make it one more.
    assert 4400 <= result["global_step"] <= 4401
    assert all(2200 <= p["steps"] <= 2201 for p in result["per_task"].values())
    if victim == "ps-0":
        assert "Resuming at global step" in run.log("worker-0")
    else:
        first = [p["step"] for p in run.progress(victim)]
        assert first == sorted(first), "the restarted worker began again from nothing"


def test_a_ps_that_is_not_there_is_named(cluster: MakeCluster) -> None:
    run = cluster({"start_seconds": 1}, ps=1, worker=1)
    run.start("worker-0")
    assert run.wait("worker-0") == 1
    expected = f"trainer: error: ps-0 at {run.jobs['ps'][0]} did not accept a connection within 1 s"
    assert run.log("worker-0").splitlines()[-1] == expected


def test_a_worker_that_never_joins_is_named(cluster: MakeCluster) -> None:
    run = cluster({"start_seconds": 6}, ps=1, worker=2)
    run.start("ps-0")
    run.wait_for_line("ps-0", "serving on")
    run.start("worker-0")
    assert run.wait("worker-0") == 1
    assert "trainer: error: worker-1 did not join within 6 s" in run.log("worker-0")


def test_a_ps_that_does_not_come_back_ends_the_run_by_the_deadline(cluster: MakeCluster) -> None:
    run = cluster({**RELU, "epochs": 50, "recovery_seconds": 5}, ps=1, worker=1)
    run.start()
    run.wait_for_step("worker-0", 50)
    run.kill("ps-0")
    assert run.wait("worker-0") == 1
    assert "trainer: error: ps-0 at " in run.log("worker-0")
    assert "Traceback" not in run.log("worker-0")


@pytest.mark.slow
def test_without_a_launcher_the_ps_ends_when_the_workers_are_done(tmp_path: Path) -> None:
    ps, worker = (f"127.0.0.1:{port}" for port in free_ports(2))
    flags = [f"--ps_hosts={ps}", f"--worker_hosts={worker}", "--task_index=0", "--steps=20"]
    command = [sys.executable, "-m", "trainer", *flags]
    with open(tmp_path / "ps.log", "wb") as log:
        server = subprocess.Popen([*command, "--job_name=ps"], env=trainer_env(), stdout=log)
    try:
        trained = subprocess.run([*command, "--job_name=worker"], env=trainer_env(), timeout=300)
        assert trained.returncode == 0
        assert server.wait(60) == 0
    finally:
        server.kill()
        server.wait()
