"""TF2's strategies with real processes; in-graph replication with real servers in this one.

That killed workers come back is tested with the examples, under the launcher.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.trainer.harness import Cluster, free_ports
from tests.trainer.reference import Optimizer, loss_and_gradient
from trainer.algorithms import cluster_for, load_algorithm
from trainer.checkpoint import read_arrays
from trainer.cluster import ClusterInfo
from trainer.data import load_mnist
from trainer.graph import Outcome, WorkerGraph
from trainer.layout import layout_of
from trainer.models import build_model
from trainer.session import start_server
from trainer.settings import settings_from

pytestmark = pytest.mark.tensorflow

MakeCluster = Callable[..., Cluster]
SMALL = {"hidden": 20, "batch_size": 10, "seed": 5, "eval_every": 0, "steps_per_call": 4}
_KEPT: list[Any] = []  # servers and sessions have no clean end


def indices(number: int, seed: int, replica: int) -> np.ndarray:
    """The examples of a worker's batch."""
    import tensorflow as tf

    from trainer.data import Batches

    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batches = Batches(load_mnist().train, 10, seed, replica)
        found: np.ndarray = session.run(batches.indices(tf.constant(number, tf.int64)))
    return found


def numpys_mean(steps: int, workers: int, optimizer: str, rate: float) -> np.ndarray:
    """Synchronous training in NumPy: the mean of the gradients of all workers' batches."""
    train, model = load_mnist().train, build_model("mlp", (20,))
    x = model.initial(5, "scaled").astype(np.float64)
    rule = Optimizer(optimizer, rate, len(x))
    for number in range(steps):
        total = np.zeros(len(x))
        for worker in range(workers):
            chosen = indices(number, 5, worker)
            images, labels = train.images[chosen] / 255, train.labels[chosen]
            total += loss_and_gradient(x, model.shapes, "sigmoid", images, labels)[1]
        x = rule.update(x, total / workers)
    return x


def driven(steps: int, roles: dict[str, int], **values: Any) -> tuple[np.ndarray, list[Outcome]]:
    """Steps of a chief that drives servers: the parameters at the end, and every call's outcome."""
    import tensorflow as tf

    settings = settings_from({**SMALL, "hidden": [20], "threads": 1, **values})
    ports = iter(free_ports(1 + sum(roles.values())))
    counts = {"chief": 1, **roles}
    jobs = {r: tuple(f"127.0.0.1:{next(ports)}" for _ in range(n)) for r, n in counts.items()}
    algorithm = load_algorithm(settings, ClusterInfo(jobs, "chief", 0))
    tasks = [(role, index) for role, hosts in jobs.items() for index in range(len(hosts))]
    clusters = [cluster_for(algorithm, ClusterInfo(jobs, *task)) for task in tasks]
    servers = [start_server(each, settings) for each in clusters]
    _KEPT.extend(servers)
    cluster, server = clusters[0], servers[0]
    layout = layout_of(algorithm, settings, cluster)
    graph = WorkerGraph(settings, cluster, load_mnist().train, algorithm.step, layout)
    session = tf.compat.v1.Session(server.target, graph=graph.graph)
    _KEPT.append(session)
    start = graph.state.first_snapshot(graph.model.initial(5, "scaled"))
    graph.state.fill(session, start, started=0.0)
    graph.load_data(session)
    calls, outcomes = graph.calls(session), []
    for first in range(0, steps, 4):
        outcomes.append(calls[4](first))
    return graph.state.snapshot(session).parameters, outcomes


@pytest.mark.parametrize("ps", [0, 2])
def test_in_graph_replication_equals_numpys_mean_of_all_batches(ps: int) -> None:
    roles = {"worker": 2, "ps": ps} if ps else {"worker": 2}
    found, outcomes = driven(8, roles, algorithm="in-graph", optimizer="momentum")
    assert (outcomes[-1].updates, outcomes[-1].steps.tolist()) == (8, [8])
    np.testing.assert_allclose(found, numpys_mean(8, 2, "momentum", 0.05), atol=2e-5)


def test_asynchronous_in_graph_replication_makes_an_update_of_every_gradient() -> None:
    roles = {"worker": 2, "ps": 1}
    _, outcomes = driven(40, roles, algorithm="in-graph", synchronous=False)
    assert (outcomes[-1].updates, outcomes[-1].steps.tolist()) == (80, [40])
    staleness = np.concatenate([outcome.staleness for outcome in outcomes])
    assert len(staleness) == 80 and staleness.min() >= 0
    assert staleness.max() >= 1, "the replicas waited for each other"
    assert np.mean(outcomes[-1].losses) < np.mean(outcomes[0].losses)


def test_layers_on_two_tasks_equal_one_network() -> None:
    found, _ = driven(8, {"worker": 2}, algorithm="model-parallel", optimizer="adagrad")
    np.testing.assert_allclose(found, numpys_mean(8, 1, "adagrad", 0.05), atol=2e-5)


def finish(run: Cluster, *tasks: str) -> dict[str, Any]:
    """Start everything, wait for these tasks, end those that only serve."""
    run.start()
    assert [run.wait(task) for task in tasks] == [0] * len(tasks), run.log(tasks[0])
    for task in run.tasks:
        if task not in tasks:
            assert run.terminate(task) == 0
    return run.result()


def weights(run: Cluster) -> np.ndarray:
    return read_arrays(run.checkpoints / "weights.npz")[0]["parameters"]


def test_allreduce_equals_numpys_mean_of_all_batches(cluster: MakeCluster) -> None:
    settings = {**SMALL, "algorithm": "allreduce", "optimizer": "adam", "steps": 10}
    run = cluster(settings, chief=1, worker=1)
    result = finish(run, "chief-0", "worker-0")
    assert (result["global_step"], result["samples"]) == (10, 200)
    assert {task: p["steps"] for task, p in result["per_task"].items()} == {
        "chief-0": 10,
        "worker-0": 10,
    }
    # float32 against float64; Adam divides by small numbers, which makes rounding larger
    np.testing.assert_allclose(weights(run), numpys_mean(10, 2, "adam", 0.001), atol=2e-5)


def test_a_cost_that_is_no_number_ends_every_worker(cluster: MakeCluster) -> None:
    settings = {"algorithm": "allreduce", "activation": "relu", "learning_rate": 1e30, "steps": 50}
    run = cluster(settings, worker=2)
    run.start()
    assert [run.wait("worker-0"), run.wait("worker-1")] == [1, 1]
    for task in run.tasks:
        assert "trainer: error: the cost became nan at step" in run.log(task)


def test_a_worker_that_does_not_come_is_named(cluster: MakeCluster) -> None:
    run = cluster({"algorithm": "allreduce", "start_seconds": 8}, worker=2)
    run.start("worker-0")
    assert run.wait("worker-0") == 1
    assert "trainer: error: worker-1 did not join within 8 s" in run.log("worker-0")


def test_a_coordinator_with_one_worker_equals_numpy(cluster: MakeCluster) -> None:
    settings = {**SMALL, "algorithm": "coordinator", "optimizer": "adam", "steps": 10}
    run = cluster(settings, chief=1, worker=1, ps=1)
    result = finish(run, "chief-0")
    assert result["global_step"] == 10
    np.testing.assert_allclose(weights(run), numpys_mean(10, 1, "adam", 0.001), atol=2e-5)
