"""Synchronous SGD, with backup workers and with a learning rate for each worker.

    x  <- x~                              everyone pulls the same parameters
    g_i = gradient of worker i's batch at x
    x~ <- x~ - eta mean(g_i)              from the first N of N + b gradients

Papers: J. Chen, X. Pan, R. Monga, S. Bengio, R. Jozefowicz, "Revisiting Distributed Synchronous
SGD", 2016 (arXiv:1604.00981), for the backup workers: of N + b workers the update takes the first N
gradients and drops the others, so that it never waits for the b slowest. With `backups: 0` it is
plain SGD with a batch N times as large.

With `learning_rates`, worker i scales its gradient: x~ <- x~ - mean(eta_i g_i).

Deviations:
* The paper adds up gradients on the parameter server's accumulators, one per variable, and a
  coordinator makes the update. Here all parameters are one flat vector, and the worker whose
  gradient is the N-th makes the update, under a lock (see collector.py); no task's death blocks
  the rest for longer than its restart takes.
* The paper also keeps a moving average of the parameters for evaluation; this does not.
* A worker waits for the update that it has contributed to. One whose gradient came too late
  drops it and goes on with the newest parameters at once.
* With another `optimizer` than sgd, its rule takes the mean gradient. With `learning_rates` only
  sgd makes sense: the others divide the scale of a gradient out again.

A step is counted by every worker for each of its gradients, also for one that was dropped; the
global step counts updates. Staleness is that of dropped gradients; used ones have none.
"""

from __future__ import annotations

from typing import Any

from trainer.algorithms.needs import need_ps, need_sgd, needed_of
from trainer.cluster import ClusterInfo
from trainer.collector import Update
from trainer.errors import SettingsError
from trainer.graph import Step, WorkerGraph
from trainer.scheme import Scheme
from trainer.settings import Settings


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """Any number of ps tasks; more workers than backups; a learning rate for each, or for none."""
    need_ps("sync", cluster)
    needed_of("sync", cluster, settings)
    rates, workers = settings.learning_rates, len(cluster.trainers)
    if rates is None:
        return
    if len(rates) != workers:
        raise SettingsError(f"learning_rates has {len(rates)} rates for {workers} workers")
    need_sgd("sync with learning_rates", settings, "the others divide a gradient's scale out again")


def scheme(cluster: ClusterInfo, settings: Settings) -> Scheme:
    """All together, at every step."""
    return Scheme(needed=needed_of("sync", cluster, settings))


def mean_update(worker: WorkerGraph) -> Update:
    """x~ <- x~ - eta mean(g_i), or what another optimizer makes of the mean."""
    needed, settings = worker.scheme.needed, worker.settings
    if settings.learning_rates:  # eta_i is in g_i
        return -1.0 / needed
    if settings.optimizer == "sgd":
        return -settings.learning_rate / needed
    return lambda sums, t: worker.state.apply([s / needed for s in sums], t)


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """One pull, one gradient, and the update that it becomes a part of."""
    collector, rates = worker.collector, worker.settings.learning_rates
    x = collector.pull(after)
    images, labels = worker.batches.batch(number)
    loss, g = worker.model.gradient(x.vector, images, labels)

    mine = rates[worker.cluster.replica] * g if rates else g
    given = collector.contribute(mine, x, 1, mean_update(worker))
    return Step(loss, staleness=given.staleness, done=given.done)
