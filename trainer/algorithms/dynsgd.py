"""DynSGD: a push counts the less, the more pushes by others it has not seen.

    x  <- x~,  u_pull <- u
    w times {x -= eta grad(x)};  r = x - x~ as pulled      the worker's residual
    x~ += r / (u - u_pull + 1);  u += 1                    under one lock

Papers: J. Jiang, B. Cui, C. Zhang, L. Yu, "Heterogeneity-aware Distributed Parameter Servers", 2017
(SIGMOD), and J. Hermans' thesis "On Scalable Deep Learning and Parallelizing Gradient Descent",
2017, section 2.2, whose form this is.

Deviations:
* Jiang et al. keep a version for each part of the parameters and bound the staleness; here, as with
  Hermans, there is one counter for all and no bound.
* Parameters and counter are read under the lock as well, so the staleness is exact.

The global step is the counter u. The staleness of a push is u - u_pull.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainer.algorithms.needs import need_ps, need_sgd
from trainer.cluster import ClusterInfo
from trainer.exchanges import Pulled
from trainer.graph import Step, WorkerGraph
from trainer.local import local_steps
from trainer.lock import Lock
from trainer.scheme import Scheme, window_of
from trainer.settings import Settings
from trainer.state import SharedState


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """Any number of workers and of ps tasks; plain SGD."""
    need_ps("dynsgd", cluster)
    need_sgd("dynsgd", settings, "what is scaled down is the way that plain SGD went")


def scheme(cluster: ClusterInfo, settings: Settings) -> Scheme:
    """An exchange after every window."""
    return Scheme(window_of(settings))


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """A window of local steps, and the push of the residual, scaled by its staleness."""
    eta, state = worker.settings.learning_rate, worker.state
    lock = Lock("dynsgd", state.devices[0])

    def local(gradient: Any, x: Any) -> tuple[Any]:
        return (x - eta * gradient(x),)

    pulled = pull(lock, state, after)
    done = local_steps(worker, number, local, pulled.vector)
    r = done.values[0] - pulled.vector
    staleness, pushed = push(lock, state, r, pulled, worker.window)
    return Step(done.losses, staleness=staleness, done=pushed)


def pull(lock: Lock, state: SharedState, after: list[Any]) -> Pulled:
    """x <- x~ and u_pull <- u, under the lock."""

    def build() -> tuple[Pulled, Sequence[Any]]:
        pulled = state.pull()
        return pulled, [*pulled.pieces, pulled.updates]

    pulled, _ = lock.hold(after, build)
    return pulled


def push(lock: Lock, state: SharedState, r: Any, pulled: Pulled, steps: Any) -> tuple[Any, Any]:
    """x~ += r / (u - u_pull + 1);  u += 1, under the lock."""
    import tensorflow as tf

    parts = []
    for device, part in zip(state.devices, state.cut(r), strict=True):
        with tf.device(device):
            parts.append(tf.identity(part))
    with tf.device(state.devices[0]):
        u_pull = tf.identity(pulled.updates)

    def build() -> tuple[Any, Sequence[Any]]:
        with tf.device(state.devices[0]):
            staleness = state.updates.read_value() - u_pull
            scale = 1.0 / tf.cast(staleness + 1, tf.float32)
        scaled = []
        for device, part in zip(state.devices, parts, strict=True):
            with tf.device(device):
                scaled.append(part * scale)
        with tf.control_dependencies([staleness]):
            counted = state.count(steps, state.apply_changes(scaled))
        return staleness, [counted.operation]

    return lock.hold([*parts, u_pull], build)
