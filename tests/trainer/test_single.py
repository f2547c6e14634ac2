"""One process: the same parameters as NumPy, step by step, with distinct batches."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.trainer.harness import run_alone, train_here, trainer_env
from tests.trainer.reference import Optimizer, loss_and_gradient
from trainer.__main__ import main
from trainer.algorithms import load_algorithm
from trainer.checkpoint import read_arrays
from trainer.cluster import ClusterInfo, cluster_from
from trainer.data import load_mnist
from trainer.errors import SettingsError, TrainerError
from trainer.graph import WorkerGraph
from trainer.settings import settings_from

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adagrad", "adam"])
@pytest.mark.parametrize("model", ["softmax", "mlp"])
def test_eleven_steps_equal_numpys(model: str, optimizer: str) -> None:
    import tensorflow as tf

    settings = settings_from(
        {"model": model, "hidden": [20], "optimizer": optimizer, "batch_size": 10}
        | {"steps_per_call": 4, "seed": 5}
    )
    train = load_mnist().train
    cluster = ClusterInfo()
    worker = WorkerGraph(settings, cluster, train, load_algorithm(settings, cluster).step)
    start = worker.model.initial(5, "scaled")
    losses: list[float] = []
    with tf.compat.v1.Session(graph=worker.graph) as session:
        worker.state.fill(session, worker.state.first_snapshot(start), started=0.0)
        worker.load_data(session)
        calls = worker.calls(session)
        for count, first in ((4, 0), (1, 4), (4, 5), (1, 9), (1, 10)):
            losses.extend(calls[count](first).losses)
        end = worker.state.snapshot(session)
    assert (end.updates, end.steps.tolist()) == (11, [11])

    x, rule = start.astype(np.float64), Optimizer(optimizer, settings.learning_rate, len(start))
    for number in range(11):
        chosen = worker.batches.indices(tf.constant(number, tf.int64)).numpy()
        images, labels = train.images[chosen] / 255, train.labels[chosen]
        loss, gradient = loss_and_gradient(x, worker.model.shapes, "sigmoid", images, labels)
        assert losses[number] == pytest.approx(loss, rel=1e-4)
        x = rule.update(x, gradient)
    # float32 against float64; Adam divides by small numbers, which makes rounding larger.
    np.testing.assert_allclose(end.parameters, x, atol=2e-5)


def test_an_algorithm_says_why_it_cannot_use_a_cluster() -> None:
    two = cluster_from(worker_hosts="a:1,b:1", job_name="worker", task_index=0)
    with pytest.raises(SettingsError, match="single trains in one process"):
        load_algorithm(settings_from({"algorithm": "single"}), two)
    with pytest.raises(SettingsError, match="there is no ps"):
        load_algorithm(settings_from({"algorithm": "hogwild"}), ClusterInfo())


def test_a_run_leaves_everything_behind_and_its_weights_can_be_evaluated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs, saved = tmp_path / "logs", tmp_path / "saved"
    done = run_alone(
        *["--logdir", logs, "--checkpoints", saved, "--folder_no", 2, "--weights_name", "mine"],
        *["--target_accuracy", 0.9, "--eval_every", 100, "--epochs", 9, "--log_format", "json"],
    )
    assert (done.returncode, done.stderr) == (0, "")
    result = json.loads((logs / "2" / "result.json").read_text())
    assert 0.9 <= result["accuracy"] < 0.96
    assert result["global_step"] < 9 * 550, "the target did not end the run"
    assert result["samples"] == 100 * result["global_step"]
    assert 0 < result["time_to_accuracy"]["0.90"] <= result["train_seconds"]
    assert result["settings"]["weights_name"] == "mine"
    metrics = [json.loads(x) for x in (logs / "2/worker-0/metrics.jsonl").read_text().splitlines()]
    assert metrics[-1]["test_accuracy"] == result["accuracy"]
    assert all(json.loads(line)["task"] == "worker-0" for line in done.stdout.splitlines())

    board = EventAccumulator(str(logs / "2" / "worker-0")).Reload()
    assert set(board.Tags()["scalars"]) >= {"accuracy", "test_cost"}
    assert board.Tags()["graph"]

    assert main(["eval", "--weights", str(saved / "mine.npz")]) == 0
    assert f"Test-Accuracy: {result['accuracy']:.4f}\n" in capsys.readouterr().out
    assert main(["eval", "--weights", str(saved / "other.npz")]) == 1
    assert capsys.readouterr().err == f"trainer: error: {saved / 'other.npz'} does not exist\n"


def test_a_run_cut_short_goes_on_and_a_finished_one_starts_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"optimizer": "momentum", "eval_every": 0}
    train_here(tmp_path, **settings, steps=300)
    *_, before, newest = sorted(tmp_path.glob("checkpoint-*.npz"))
    reached = int(read_arrays(before)[0]["updates"])  # more than 0 where 300 steps take long
    content = newest.read_bytes()
    newest.write_bytes(content[: len(content) // 2])  # only the unfinished one before it is whole
    train_here(tmp_path, **settings, steps=300)
    resumed = capsys.readouterr()
    assert f"{newest.name} is damaged" in resumed.err
    assert reached < 300 and f"Resuming at global step {reached}" in resumed.out
    train_here(tmp_path, **settings, steps=300)
    assert "Resuming" not in capsys.readouterr().out
    train_here(tmp_path, **settings, steps=400, resume="always")
    assert "Resuming at global step 300" in capsys.readouterr().out
    with pytest.raises(TrainerError, match="has model mlp, not softmax; use another"):
        train_here(tmp_path, **settings, model="softmax", resume="always")


def test_checkpoints_by_steps_and_a_run_that_never_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    often = {"checkpoint_steps": 50, "checkpoint_seconds": 0, "eval_every": 0}
    train_here(tmp_path, **often, keep_checkpoints=9, steps=200)
    saved = [read_arrays(path) for path in sorted(tmp_path.glob("checkpoint-*.npz"))]
    updates = [int(arrays["updates"]) for arrays, _ in saved]
    assert [count // 50 for count in updates] == [0, 1, 2, 3, 4, 4]
    assert max(count % 50 for count in updates) <= 10, "later than the call in which it was due"
    capsys.readouterr()
    train_here(tmp_path, **often, steps=60, resume="never")
    assert "Resuming" not in capsys.readouterr().out


def test_a_run_ends_after_its_seconds(tmp_path: Path) -> None:
    done = run_alone("--epochs=100000", "--max_seconds=1", "--eval_every=0", "--logdir", tmp_path)
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["train_seconds"] >= 1
    assert 0 < result["global_step"] < 100000 * 550


def test_a_disk_without_room_is_named_and_the_last_checkpoint_stays(tmp_path: Path) -> None:
    train_here(tmp_path, hidden=[10], steps=20, eval_every=0)
    before = sorted(path.name for path in tmp_path.iterdir())
    # A larger network's checkpoint does not get past the limit on the size of files.
    program = "import sys, trainer.chief as c; from trainer.__main__ import main; "
    program += "c.LAST_SAVE_SECONDS = 0; sys.exit(main())"
    arguments = f"-c '{program}' --steps=20 --checkpoints={tmp_path}"
    command = f"ulimit -f 100; exec {sys.executable} {arguments}"
    done = subprocess.run(
        ["sh", "-c", command], env=trainer_env(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "trainer: error: cannot write " in done.stderr
    assert "File too large" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_save_that_fails_is_said_and_tried_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainer.chief.SAVE_AGAIN_SECONDS", 0.0)
    monkeypatch.setenv("TFCLUSTER_TASK", "worker-0")
    in_the_way = tmp_path / "saved"
    in_the_way.write_text("a file, not a folder")

    class Watching(io.StringIO):
        """Standard output; once progress tells of the problem, the way is cleared."""

        def write(self, text: str) -> int:
            if "no checkpoint since global step 0" in text and in_the_way.is_file():
                in_the_way.unlink()
            return super().write(text)

    out = Watching()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("trainer.report.PROGRESS_SECONDS", 0.0)
    train_here(in_the_way, checkpoint_seconds=0, eval_every=0, max_seconds=60, steps=400)
    problems = [line for line in out.getvalue().splitlines() if '"problem"' in line]
    assert json.loads(problems[0].partition(" ")[2])["problem"].startswith("no checkpoint since")
    assert "Checkpoint saved again at global step" in out.getvalue()
    assert '"problem"' not in out.getvalue().partition("saved again")[2]
    assert "no checkpoint since global step 0: cannot write" in capsys.readouterr().err
    assert list(in_the_way.glob("checkpoint-*.npz"))


@pytest.mark.parametrize("resume", ["auto", "never"])
def test_no_whole_checkpoint_left_stops_the_run_unless_it_never_resumes(
    tmp_path: Path, resume: str, capsys: pytest.CaptureFixture[str]
) -> None:
    train_here(tmp_path, steps=20, eval_every=0)
    for path in tmp_path.glob("checkpoint-*.npz"):
        path.write_bytes(b"half")
    if resume == "never":
        train_here(tmp_path, steps=20, eval_every=0, resume="never")
        assert "starting from the beginning" in capsys.readouterr().err
    else:
        with pytest.raises(TrainerError, match="none of the checkpoints in"):
            train_here(tmp_path, steps=20, eval_every=0)


def test_a_run_in_two_parts_equals_one_in_one_part(tmp_path: Path) -> None:
    settings = {"optimizer": "adam", "hidden": [10], "eval_every": 0, "batch_size": 50}
    train_here(tmp_path / "two", **settings, steps=30)
    train_here(tmp_path / "two", **settings, steps=60, resume="always")
    train_here(tmp_path / "one", **settings, steps=60)
    one, two = (read_arrays(tmp_path / each / "weights.npz")[0] for each in ("one", "two"))
    np.testing.assert_allclose(one["parameters"], two["parameters"], atol=1e-6)


def test_a_cost_that_is_no_number_stops_the_run_with_the_cause(tmp_path: Path) -> None:
    with pytest.raises(TrainerError) as caught:
        train_here(tmp_path, learning_rate=1e30, activation="relu", steps=50)
    assert str(caught.value).startswith("the cost became nan at step ")
    assert str(caught.value).endswith("(learning_rate 1e+30); try a smaller learning_rate")
    assert not (tmp_path / "weights.npz").exists()
