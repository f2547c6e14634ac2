"""AEAMSGD, asynchronous elastic averaging SGD with Nesterov's momentum in the local steps.

    every w steps:  d = alpha (x - x~);  x~ += d;  x -= d         alpha = eta rho
    every step:     v <- delta v;  x += v;  g = grad(x);  x -= eta g;  v -= eta g

Paper: S. Zhang, A. Choromanska, Y. LeCun, "Deep Learning with Elastic Averaging SGD", 2015
(arXiv:1412.6651), algorithm 2 (EAMSGD). delta is the setting `momentum`.

Deviations: those of aeasgd.py; v starts from zero whenever the worker joins.
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
    """Any number of workers and of ps tasks; sgd, for the momentum is in the rule; alpha <= 1."""
    check_elastic("aeamsgd", cluster, settings, 1.0, "set momentum, and leave optimizer out")


def scheme(cluster: ClusterInfo, settings: Settings) -> Scheme:
    """An exchange after every window."""
    return Scheme(window_of(settings))


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """A window of local steps with momentum, then the elastic exchange."""
    import tensorflow as tf

    eta, delta = worker.settings.learning_rate, worker.settings.momentum
    own, velocity = worker.local.like_parameters("x"), worker.local.zeros("v")

    def local(gradient: Any, x: Any, v: Any) -> tuple[Any, Any]:
        v = delta * v
        x = x + v
        g = gradient(x)
        return x - eta * g, v - eta * g

    with tf.control_dependencies(after[1:]):  # no need to wait for the parameter server
        start = own.read_value(), velocity.read_value()
    done = local_steps(worker, number, local, *start)
    x, v = done.values
    with tf.control_dependencies(after[:1]):
        d, pushed = worker.state.add_towards(x, alpha_of(worker.settings), worker.window)
    moved = own.assign(x - d, read_value=False), velocity.assign(v, read_value=False)
    return Step(done.losses, staleness=0, done=[pushed.operation, *moved])
