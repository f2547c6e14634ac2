"""SAGN, synchronous accumulated gradient normalisation: the mean of a window, over all workers.

    x  <- x~
    w times {g = grad(x); a += g; x -= eta g}     local steps
    x~ <- x~ - eta mean(a_i / w)                  from the first N of N + b workers

Source: it is AGN (J. Hermans, G. Spanakis, R. Moeckel, "Accumulated Gradient Normalization", 2017,
arXiv:1710.02368) made synchronous as in J. Chen et al., "Revisiting Distributed Synchronous SGD",
2016 (arXiv:1604.00981); the name comes from a public guide to distributed TensorFlow.

Deviations:
* AGN's workers do not wait for each other; these do, unless there are `backups`.
* With another `optimizer` than sgd, its rule takes the mean of the window's gradients on the
  parameter server. Local steps are always plain SGD, with `local_learning_rate` if it is set.

The global step counts updates, each made from the windows of N workers.
"""

from __future__ import annotations

from typing import Any

from trainer.algorithms.needs import need_ps, needed_of
from trainer.algorithms.sync import mean_update
from trainer.cluster import ClusterInfo
from trainer.graph import Step, WorkerGraph
from trainer.local import local_steps
from trainer.scheme import Scheme, window_of
from trainer.settings import Settings


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """Any number of ps tasks, and more workers than backups."""
    need_ps("sagn", cluster)
    needed_of("sagn", cluster, settings)


def scheme(cluster: ClusterInfo, settings: Settings) -> Scheme:
    """All together, after every window."""
    return Scheme(window_of(settings), needed=needed_of("sagn", cluster, settings))


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """A window of local steps, and the update that its mean gradient becomes a part of."""
    import tensorflow as tf

    collector, w = worker.collector, worker.scheme.window
    eta = worker.settings.local_learning_rate or worker.settings.learning_rate

    def local(gradient: Any, x: Any, a: Any) -> tuple[Any, Any]:
        g = gradient(x)
        return x - eta * g, a + g

    x = collector.pull(after)
    done = local_steps(worker, number, local, x.vector, tf.zeros_like(x.vector))
    _, a = done.values
    given = collector.contribute(a / w, x, w, mean_update(worker))
    return Step(done.losses, staleness=given.staleness, done=given.done)
