"""The examples of systems 1 to 4, started by `tfcluster up` with few steps."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launchers import until
from tests.runs.cli import ROOT, Cli
from trainer.checkpoint import read_arrays

pytest.importorskip("tensorflow", reason='needs TensorFlow: pip install "tfcluster[trainer]"')
pytestmark = [pytest.mark.tensorflow, pytest.mark.xdist_group("tensorflow")]

EXAMPLES = ROOT / "examples"
FEW = ("--set", "train.steps=60", "--set", "train.eval_every=0")


@pytest.fixture
def tfcluster(tmp_path: Path) -> Iterator[Cli]:
    folder = tmp_path / "work"
    folder.mkdir()
    cli = Cli(folder, tmp_path / "home")
    yield cli
    cli("down", "--all")
    assert cli.left_behind() == []


def up(tfcluster: Cli, name: str, *args: str) -> dict[str, Any]:
    """The result of an example that has to succeed, every task of it."""
    done = tfcluster("up", str(EXAMPLES / name), *args)
    assert done.returncode == 0, done.stdout + done.stderr
    status = tfcluster.status()
    assert {task["exitCode"] for task in status["tasks"]} == {0}
    result: dict[str, Any] = status["result"]
    return result


def test_there_is_a_test_for_every_example() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    for path in (EXAMPLES / "devices").glob("*.yaml"):
        assert f'"devices/{path.name}"' in text


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("devices/towers.yaml", marks=pytest.mark.slow),
        "devices/in-graph.yaml",
        pytest.param("devices/model-parallel.yaml", marks=pytest.mark.slow),
    ],
)
def test_spread_over_devices_or_tasks(tfcluster: Cli, name: str) -> None:
    result = up(tfcluster, name, *FEW)
    assert result["global_step"] == 60
    assert result["accuracy"] > 0.7


@pytest.mark.slow
def test_placement_is_told(tfcluster: Cli) -> None:
    result = up(tfcluster, "devices/placement.yaml", *FEW)
    assert result["settings"]["visible_devices"] == "0"
    assert "device:CPU:0" in tfcluster("logs", "worker-0").stdout


@pytest.mark.slow
def test_memory(tfcluster: Cli) -> None:
    result = up(tfcluster, "devices/memory.yaml", *FEW, "--set", "roles.worker.replicas=1")
    assert result["settings"]["gpu_memory_fraction"] == 0.4


@pytest.mark.slow
def test_a_sweep_finds_the_best_and_an_ensemble_averages(tfcluster: Cli) -> None:
    result = up(tfcluster, "devices/sweep.yaml", *FEW)
    assert len(result["networks"]) == 6
    assert result["best"]["accuracy"] == max(n["accuracy"] for n in result["networks"])
    result = up(tfcluster, "devices/ensemble.yaml", *FEW)
    assert [n["seed"] for n in result["networks"]] == [1, 2, 3, 4]
    assert result["accuracy"] > 0.7


def pid_after_the_first_steps(tfcluster: Cli, victim: str) -> int:
    """One look at the status each time: the run is short, and must not end before it is hit."""
    found: dict[str, Any] = {}

    def begun() -> bool:
        done = tfcluster("status", "-o", "json")
        tasks = json.loads(done.stdout)["tasks"] if done.returncode == 0 else []
        found.update({task["task"]: task["pid"] for task in tasks})
        return any((task["progress"] or {}).get("step", 0) > 0 for task in tasks)

    until(begun, "the first steps", timeout=240)
    return int(found[victim])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "victim", "steps"),
    [("devices/allreduce.yaml", "worker-1", 800), ("devices/coordinator.yaml", "worker-0", 2000)],
)
def test_a_killed_worker_of_a_strategy_comes_back(
    tfcluster: Cli, name: str, victim: str, steps: int
) -> None:
    few = ("--set", f"train.steps={steps}", "--set", "train.checkpoint_steps=50")
    process = tfcluster.start("up", str(EXAMPLES / name), *few, "--set", "train.eval_every=0")
    os.kill(pid_after_the_first_steps(tfcluster, victim), signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, out + err
    status = tfcluster.status()
    assert {task["exitCode"] for task in status["tasks"]} == {0}
    assert tfcluster.task(victim)["restarts"] == 1
    # The coordinator does again what its worker had half done.
    assert steps <= status["result"]["global_step"] <= steps + 10
    assert status["result"]["accuracy"] > 0.9


@pytest.mark.slow
def test_deep_mnist_leaves_its_weights(tfcluster: Cli) -> None:
    result = up(tfcluster, "deep-mnist.yaml", "--var", "steps=8", "--set", "train.eval_every=0")
    assert (result["settings"]["model"], result["global_step"]) == ("cnn", 8)
    found = list(tfcluster.home.rglob("deep-mnist.npz"))
    assert len(found) == 1
    assert read_arrays(found[0])[0]["parameters"].shape == (3_274_634,)


def test_deep_mnist_has_a_distributed_variant(tfcluster: Cli) -> None:
    done = tfcluster("validate", str(EXAMPLES / "deep-mnist.yaml"), "--var", "workers=2")
    assert "(1 ps, 2 workers, local)" in done.stdout + done.stderr


@pytest.mark.slow
def test_the_asynchronous_example_has_its_numbers_and_its_lines(tfcluster: Cli) -> None:
    result = up(tfcluster, "async-mlp.yaml", "--var", "workers=1", "--set", "train.epochs=1")
    settings = result["settings"]
    numbers = ("hidden", "activation", "init", "learning_rate", "batch_size", "seed", "optimizer")
    expected = [[100], "sigmoid", "normal", 0.001, 100, 1, "sgd"]
    assert [settings[name] for name in numbers] == expected
    assert result["global_step"] == 550
    log = tfcluster("logs", "worker-0").stdout
    assert "Epoch:  1,  Batch: 550 of 550,  Cost: " in log or "Total Time: " in log
    assert "Test-Accuracy: " in log and "Final Cost: " in log


def test_the_example_by_steps_has_its_lines(tfcluster: Cli) -> None:
    few = ("--set", "train.steps=200", "--set", "train.log_seconds=0")
    result = up(tfcluster, "steps.yaml", *few, "--set", "train.log_every=10")
    # A call of ten steps that is under way when the others reach the end is not taken back.
    assert 200 <= result["global_step"] <= 210
    log = tfcluster("logs", "worker-0").stdout
    assert ": Worker 0: training step " in log and "(global step:" in log
    assert "training step(s), validation cross entropy = " in log
