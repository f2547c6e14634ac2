"""AEASGD, asynchronous elastic averaging SGD: as easgd, but nobody waits.

    every w steps:  d = alpha (x - x~);  x~ += d;  x -= d         alpha = eta rho
    every step:     x -= eta grad(x)

Paper: S. Zhang, A. Choromanska, Y. LeCun, "Deep Learning with Elastic Averaging SGD", 2015
(arXiv:1412.6651), algorithm 1.

Deviations:
* The worker's last exchange may come after less than w steps.
* The parameter server computes d, right before it adds it, so that one exchange is one message
  each way. Nothing is locked: of two exchanges at the same time each may miss the other.
* A worker's x starts from x~ whenever the worker joins: at the start, after a restart, and after a
  lost parameter server. Checkpoints hold x~, not the x of the workers.
* The exchange comes at the end of every w steps instead of at their start, where the paper's
  first one changes nothing; so the last steps of a run are not lost.

The global step counts exchanges; they have no staleness, for d is computed from x~ as it is. x~ is
what is evaluated.
"""

from __future__ import annotations

from typing import Any

from trainer.algorithms.elastic import alpha_of, check_elastic
from trainer.cluster import ClusterInfo
from trainer.graph import Step, WorkerGraph
from trainer.local import local_steps
from trainer.scheme import Scheme, window_of
from trainer.settings import Settings


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """Any number of workers and of ps tasks; plain SGD; alpha <= 1."""
    check_elastic("aeasgd", cluster, settings, 1.0, "aeamsgd has momentum")


def scheme(cluster: ClusterInfo, settings: Settings) -> Scheme:
    """An exchange after every window."""
    return Scheme(window_of(settings))


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """A window of local steps, then the elastic exchange."""
    import tensorflow as tf

    eta = worker.settings.learning_rate
    own = worker.local.like_parameters("x")

    def local(gradient: Any, x: Any) -> tuple[Any]:
        return (x - eta * gradient(x),)

    with tf.control_dependencies(after[1:]):  # no need to wait for the parameter server
        x = own.read_value()
    done = local_steps(worker, number, local, x)
    x = done.values[0]
    with tf.control_dependencies(after[:1]):
        d, pushed = worker.state.add_towards(x, alpha_of(worker.settings), worker.window)
    moved = own.assign(x - d, read_value=False)
    return Step(done.losses, staleness=0, done=[pushed.operation, moved])
