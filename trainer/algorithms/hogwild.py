"""HogWild: every worker changes the shared parameters whenever it has a gradient, without a lock.

    x  <- x~                       pull
    g  =  gradient of one batch at x
    x~ <- x~ - eta g               push; others may have changed x~ in the meantime

Paper: F. Niu, B. Recht, C. Re, S. Wright, "HOGWILD!: A Lock-Free Approach to Parallelizing
Stochastic Gradient Descent", 2011 (arXiv:1106.5730). With parameter servers it is the
asynchronous SGD of J. Dean et al., "Large Scale Distributed Deep Networks", 2012, with an exchange
at every step.

Deviations:
* The paper's threads share one machine's memory; these workers share parameter servers.
* The paper's gradients are sparse and touch few components; these are dense and touch them all.
* A pull copies each ps task's piece as a whole. Updates of one piece may overlap in the ps task,
  as in the paper, but not with a read of it.
* Batches instead of single examples; each worker has its own shuffle, or its own shard.
* With another `optimizer` than sgd, its rule takes the place of the push; its slots are shared
  and changed without a lock as well.

The staleness of an update is the number of updates by others between its pull and its push.
"""

from __future__ import annotations

from typing import Any

from trainer.cluster import ClusterInfo
from trainer.errors import SettingsError
from trainer.graph import Step, WorkerGraph
from trainer.settings import Settings


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """Any number of workers and of ps tasks, but at least one of each."""
    if not cluster.ps:
        raise SettingsError(
            "algorithm hogwild keeps its parameters on parameter servers, but there is no ps; "
            "add a ps to the cluster, or use single"
        )


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """One pull, one gradient, one push."""
    x = worker.state.pull(after)
    images, labels = worker.batches.batch(number)
    loss, g = worker.model.gradient(x.vector, images, labels)
    pushed = worker.state.push(g, x)  # x~ <- x~ - eta g
    return Step(loss, staleness=pushed.since(x), done=pushed.operation)
