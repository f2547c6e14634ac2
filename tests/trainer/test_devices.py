"""Several devices in one process: towers, model parallelism, sweeps, ensembles; GPU settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.harness import train_here
from tests.trainer.reference import Optimizer, loss_and_gradient
from trainer.__main__ import main
from trainer.algorithms import load_algorithm
from trainer.algorithms.model_parallel import cut
from trainer.algorithms.sweep import grid
from trainer.checkpoint import read_arrays
from trainer.cluster import ClusterInfo, cluster_from
from trainer.data import load_mnist
from trainer.devices import device_options, hide_devices, local_devices
from trainer.errors import SettingsError
from trainer.graph import WorkerGraph
from trainer.layout import layout_of
from trainer.models import build_model, evaluate
from trainer.networks import Networks
from trainer.settings import settings_from

pytestmark = pytest.mark.tensorflow

ALONE = ClusterInfo()
SMALL = {"hidden": [20], "batch_size": 12, "steps_per_call": 4, "seed": 5}


class Stepped:
    """Some steps of an algorithm in one process, in this one."""

    def __init__(self, calls: tuple[int, ...] = (4, 1), **values: Any) -> None:
        import tensorflow as tf

        self.settings = settings_from({**SMALL, **values})
        self.train = load_mnist().train
        algorithm = load_algorithm(self.settings, ALONE)
        layout = layout_of(algorithm, self.settings, ALONE)
        self.graph = WorkerGraph(self.settings, ALONE, self.train, algorithm.step, layout)
        self.model, state = self.graph.model, self.graph.state
        self.start = self.model.initial(self.settings.seed, self.settings.init)
        config = tf.compat.v1.ConfigProto(**device_options(ALONE, self.settings))
        self.losses: list[float] = []
        with tf.compat.v1.Session(graph=self.graph.graph, config=config) as session:
            state.fill(session, state.first_snapshot(self.start), started=0.0)
            self.graph.load_data(session)
            prepared, first = self.graph.calls(session), 0
            for count in calls:
                self.losses.extend(prepared[count](first).losses)
                first += count
            self.end = state.snapshot(session)
        self.steps = first

    def devices(self) -> set[str]:
        """Where the operations of the first step are."""
        operations = self.graph.graph.get_operations()
        return {op.device.rpartition("device:")[2] for op in operations if op.device}


def numpys(settings: Any, steps: int) -> np.ndarray:
    """What plain training in NumPy makes of the same start and the same batches."""
    import tensorflow as tf

    from trainer.data import Batches

    train, model = load_mnist().train, build_model("mlp", settings.hidden, settings.activation)
    x = model.initial(settings.seed, settings.init).astype(np.float64)
    rule = Optimizer(settings.optimizer, settings.learning_rate, len(x))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batches = Batches(train, settings.batch_size, settings.seed, replica=0)
        chosen = session.run([batches.indices(tf.constant(s, tf.int64)) for s in range(steps)])
    for part in chosen:
        images, labels = train.images[part] / 255, train.labels[part]
        _, g = loss_and_gradient(x, model.shapes, settings.activation, images, labels)
        x = rule.update(x, g)
    return x


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("devices", [1, 3])
def test_towers_make_the_steps_of_one_process(devices: int, optimizer: str) -> None:
    run = Stepped(algorithm="towers", devices=devices, optimizer=optimizer)
    assert {f"CPU:{i}" for i in range(devices)} <= run.devices()
    assert run.end.updates == 5
    # float32 against float64, and sums in another order
    np.testing.assert_allclose(run.end.parameters, numpys(run.settings, 5), atol=2e-5)


@pytest.mark.parametrize("optimizer", ["momentum", "adagrad"])
def test_a_network_cut_across_devices_makes_the_steps_of_one_that_is_not(optimizer: str) -> None:
    run = Stepped(
        algorithm="model-parallel", devices=3, hidden=[20, 15], optimizer=optimizer, batch_size=10
    )
    assert {"CPU:0", "CPU:1", "CPU:2"} <= run.devices()
    assert [piece.size for piece in run.graph.layout.pieces] == [784 * 20 + 20, 315, 160]
    np.testing.assert_allclose(run.end.parameters, numpys(run.settings, 5), atol=2e-5)


def test_layers_are_cut_in_order_and_not_finer_than_they_are() -> None:
    model = build_model("cnn")
    assert [len(group) for group in cut(model, 3)] == [1, 1, 2]
    assert cut(model, 1) == [model.layers]
    with pytest.raises(SettingsError, match=r"softmax has 1 layer\(s\), which cannot be cut"):
        cut(build_model("softmax"), 2)


def test_every_network_of_a_sweep_trains_as_if_alone() -> None:
    run = Stepped(
        algorithm="sweep", optimizer="adam", sweep_learning_rates=[0.001, 0.01], sweep_hidden=[7, 9]
    )
    assert isinstance(run.model, Networks)
    members = grid(run.settings)
    assert [(s.learning_rate, s.hidden) for s in members] == [
        (0.001, (7,)),
        (0.001, (9,)),
        (0.01, (7,)),
        (0.01, (9,)),
    ]
    for own, part in zip(members, run.model.parts(run.end.parameters), strict=True):
        np.testing.assert_allclose(part, numpys(own, 5), atol=2e-5)


def test_a_network_that_diverges_does_not_end_the_sweep() -> None:
    calls = (4,) * 10
    run = Stepped(calls, algorithm="sweep", activation="relu", sweep_learning_rates=[0.1, 1e25])
    assert np.isfinite(run.losses).all()
    best = load_algorithm(run.settings, ALONE).judge(  # type: ignore[attr-defined]
        run.model, run.end.parameters, load_mnist()
    )
    assert best.details["best"]["learning_rate"] == 0.1
    np.testing.assert_allclose(best.vector, run.model.parts(run.end.parameters)[0])


def test_an_ensemble_says_the_mean_of_what_its_networks_say() -> None:
    import tensorflow as tf

    run = Stepped(algorithm="ensemble", networks=3, devices=2, learning_rate=0.5)
    seeds = [own.seed for own in run.model.members]
    assert seeds == [5, 6, 7]
    parts = run.model.parts(run.end.parameters)
    for own, part in zip(run.model.members, parts, strict=True):
        np.testing.assert_allclose(part, numpys(own, 5), atol=2e-5)
    test = load_mnist().test.part(slice(0, 500))
    images = tf.constant(test.images / 255, tf.float32)
    model = build_model("mlp", (20,))
    said = [tf.nn.softmax(model.forward(model.split(tf.constant(p)), images)) for p in parts]
    mean = np.mean([chances.numpy() for chances in said], axis=0)
    accuracy, cost = evaluate(run.model, run.end.parameters, test)
    assert accuracy == pytest.approx(np.mean(mean.argmax(1) == test.labels))
    assert cost == pytest.approx(-np.log(mean[np.arange(500), test.labels]).mean(), rel=1e-5)


def test_the_best_network_is_saved_and_an_ensemble_can_be_evaluated_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"steps": 40, "hidden": [20], "eval_every": 0, "resume": "never"}
    rates = {"algorithm": "sweep", "sweep_learning_rates": [0.5, 0.001]}
    train_here(tmp_path, **small, **rates, weights_name="best", saved_model=True)
    told = [x for x in capsys.readouterr().out.splitlines() if x.startswith("Test-Accuracy")]
    assert main(["eval", "--weights", str(tmp_path / "best.npz")]) == 0
    assert told[0] in capsys.readouterr().out
    check_saved_model(tmp_path / "best", tmp_path / "best.npz")

    train_here(tmp_path, **small, algorithm="ensemble", networks=3, weights_name="all")
    told = [x for x in capsys.readouterr().out.splitlines() if x.startswith("Test-Accuracy")]
    assert main(["eval", "--weights", str(tmp_path / "all.npz")]) == 0
    assert told[0] in capsys.readouterr().out


def check_saved_model(folder: Path, weights: Path) -> None:
    import tensorflow as tf

    images = load_mnist().test.images[:50]
    served = tf.saved_model.load(str(folder)).signatures["serving_default"](tf.constant(images))
    model = build_model("mlp", (20,))
    vector = tf.constant(read_arrays(weights)[0]["parameters"])
    logits = model.forward(model.split(vector), tf.constant(images / 255, tf.float32))
    np.testing.assert_allclose(served["logits"].numpy(), logits.numpy(), atol=1e-4)
    np.testing.assert_array_equal(served["classes"], logits.numpy().argmax(1))


TWO = cluster_from(worker_hosts="a:1,b:1", job_name="worker", task_index=0)
PS = cluster_from(ps_hosts="c:1", worker_hosts="a:1", job_name="worker", task_index=0)


@pytest.mark.parametrize(
    ("values", "cluster", "message"),
    [
        ({"algorithm": "towers"}, TWO, "towers trains in one process, but this cluster has 2"),
        ({"algorithm": "ensemble"}, PS, "ensemble trains in one process"),
        ({"algorithm": "sweep"}, ALONE, "sweep has nothing to compare"),
        ({"sweep_seeds": [1, 2], "validation_size": 0}, ALONE, "set validation_size"),
        ({"sweep_hidden": [1, 2], "model": "cnn"}, ALONE, "sweep_hidden is for mlp"),
        ({"algorithm": "model-parallel"}, PS, "remove the ps"),
        ({"algorithm": "model-parallel"}, TWO, "needs a chief, which drives the workers"),
        ({"algorithm": "in-graph"}, TWO, "in-graph needs a chief"),
        ({"algorithm": "coordinator"}, PS, "coordinator needs a chief"),
        ({"algorithm": "allreduce"}, PS, "allreduce keeps the parameters on the workers"),
        ({"algorithm": "allreduce", "gpu_memory_fraction": 0.5}, TWO, "use gpu_growth"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(
    values: dict[str, Any], cluster: ClusterInfo, message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        load_algorithm(settings_from({"algorithm": "sweep", **values}), cluster)


def test_a_batch_that_cannot_be_divided_is_refused() -> None:
    with pytest.raises(SettingsError, match="batch_size 12 cannot be divided evenly among 5"):
        Stepped(algorithm="towers", devices=5)


def test_gpu_settings_become_what_tensorflow_calls_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    settings = settings_from(
        {"gpu_memory_fraction": 0.4, "gpu_growth": True, "visible_devices": "0, 1"}
        | {"soft_placement": False, "log_placement": True}
    )
    options = device_options(ALONE, settings)
    assert options["gpu_options"].per_process_gpu_memory_fraction == pytest.approx(0.4)
    assert options["gpu_options"].allow_growth
    assert (options["allow_soft_placement"], options["log_device_placement"]) == (False, True)
    assert "device_count" not in options
    hide_devices(ALONE, settings)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
    hide_devices(ClusterInfo({"ps": ("a:1",)}, "ps", 0), settings)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
    for bad in ("first", "0,0", ""):
        with pytest.raises(SettingsError, match="visible_devices: expected different numbers"):
            hide_devices(ALONE, settings_from({"visible_devices": bad}))


def test_devices_have_the_tasks_name_in_a_cluster() -> None:
    worker = cluster_from(worker_hosts="a:1", job_name="worker", task_index=0)
    settings = settings_from({"algorithm": "towers", "devices": 3})
    assert local_devices(worker, settings)[2] == "/job:worker/task:0/device:CPU:2"
    assert local_devices(ALONE, settings_from({})) == ["/device:CPU:0", "/device:CPU:1"]
    assert device_options(worker, settings)["device_count"] == {"CPU": 3}
