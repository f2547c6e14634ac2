"""EASGD, synchronous elastic averaging SGD: workers explore on their own, on a rubber band.

    x_i <- x_i - eta g_i - alpha (x_i - x~)
    x~  <- x~ + alpha sum_i (x_i - x~)             alpha = eta rho, the x_i as they were before

Paper: S. Zhang, A. Choromanska, Y. LeCun, "Deep Learning with Elastic Averaging SGD", 2015
(arXiv:1412.6651), equations 5 and 6.

Deviations:
* With a `window` of more than 1, window - 1 plain local steps come before each elastic one.
* A worker's x_i starts from x~ whenever the worker joins: at the start, after a restart, and after
  a lost parameter server. Checkpoints hold x~, not the x_i.

The global step counts elastic updates, each made by all workers together. x~ is what is evaluated.
"""

from __future__ import annotations

from typing import Any

from trainer.algorithms.elastic import alpha_of, check_elastic
from trainer.cluster import ClusterInfo
from trainer.graph import Step, WorkerGraph
from trainer.local import local_steps
from trainer.scheme import Scheme
from trainer.settings import Settings


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """Any number of workers and ps tasks, as long as n alpha <= 1."""
    most = 1 / len(cluster.trainers)
    check_elastic("easgd", cluster, settings, most, "aeamsgd has momentum")


def scheme(cluster: ClusterInfo, settings: Settings) -> Scheme:
    """All together, at every step unless there is a window."""
    return Scheme(settings.window or 1, needed=len(cluster.trainers))


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """One elastic step, after the plain ones that the window adds."""
    import tensorflow as tf

    eta, alpha = worker.settings.learning_rate, alpha_of(worker.settings)
    collector, w = worker.collector, worker.scheme.window
    own = worker.local.like_parameters("x")

    def local(gradient: Any, x: Any, _: Any) -> tuple[Any, Any]:
        return x - eta * gradient(x), x

    with tf.control_dependencies(after[1:]):
        x = own.read_value()
    centre = collector.pull(after[:1])
    done = local_steps(worker, number, local, x, x)
    after_gradient, before = done.values  # of the last step, which is the elastic one
    d = alpha * (before - centre.vector)

    given = collector.contribute(d, centre, w, 1.0)  # x~ <- x~ + alpha sum_i (x_i - x~)
    # A worker that joins again in the middle may have contributed before: then no elastic part.
    moved = own.assign(after_gradient - tf.cast(given.accepted, tf.float32) * d, read_value=False)
    return Step(done.losses, staleness=given.staleness, done=[given.done, moved])
