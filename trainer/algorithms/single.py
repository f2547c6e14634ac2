"""Plain stochastic gradient descent in one process: what the others are measured against.

    x <- x - eta g(x)

Paper: H. Robbins, S. Monro, "A Stochastic Approximation Method", 1951.

Deviations:
* The step size is constant instead of falling like 1/t.
* Batches are drawn without replacement within an epoch, not independently.
* With another `optimizer` than sgd, its rule takes the place of the update above.
"""

from __future__ import annotations

from typing import Any

from trainer.cluster import ClusterInfo
from trainer.errors import SettingsError
from trainer.graph import Step, WorkerGraph
from trainer.settings import Settings


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """One worker and nobody else."""
    if len(cluster.trainers) > 1 or cluster.ps:
        raise SettingsError(
            f"algorithm single trains in one process, but this cluster has {len(cluster.trainers)} "
            f"worker(s) and {len(cluster.ps)} ps; use hogwild"
        )


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """One update of the parameters by the gradient of one batch."""
    x = worker.state.pull(after)
    images, labels = worker.batches.batch(number)
    loss, g = worker.model.gradient(x.vector, images, labels)
    pushed = worker.state.push(g, x)  # x <- x - eta g
    return Step(loss, staleness=pushed.since(x), done=pushed.operation)
