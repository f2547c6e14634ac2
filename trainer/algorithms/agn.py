"""AGN, accumulated gradient normalisation: local steps, then the mean of their updates.

    w times {g = -eta grad(x); a += g; x += g}
    x~ += a / w
    x  <- x~

Paper: J. Hermans, G. Spanakis, R. Moeckel, "Accumulated Gradient Normalization", 2017
(arXiv:1710.02368), and chapter 4 of J. Hermans' thesis "On Scalable Deep Learning and Parallelizing
Gradient Descent", 2017. Dividing by w keeps the size of a push independent of the window, while its
direction is that of w steps; so windows can be long, and exchanges rare.

Deviations:
* x <- x~ happens at the start of a window instead of at the end of the one before: the same values,
  or newer ones.
* Pushes are added without a lock, so a pull may see some components of another worker's push and
  not yet the others.
* The last window of a worker is shorter if its steps are no multiple of w; it divides by its own
  length.

The global step counts pushes. Their staleness is the number of pushes by others since the pull.
"""

from __future__ import annotations

from typing import Any

from trainer.algorithms.needs import need_ps, need_sgd
from trainer.cluster import ClusterInfo
from trainer.graph import Step, WorkerGraph
from trainer.local import local_steps
from trainer.scheme import Scheme, window_of
from trainer.settings import Settings


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """Any number of workers and of ps tasks; plain SGD."""
    need_ps("agn", cluster)
    need_sgd("agn", settings, "what is accumulated and normalised are its steps")


def scheme(cluster: ClusterInfo, settings: Settings) -> Scheme:
    """An exchange after every window."""
    return Scheme(window_of(settings))


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """A window of local steps, and the push of their mean."""
    import tensorflow as tf

    eta, w = worker.settings.learning_rate, tf.cast(worker.window, tf.float32)

    def local(gradient: Any, x: Any, a: Any) -> tuple[Any, Any]:
        g = -eta * gradient(x)
        return x + g, a + g

    x = worker.state.pull(after)
    done = local_steps(worker, number, local, x.vector, tf.zeros_like(x.vector))
    _, a = done.values
    pushed = worker.state.add(a / w, x, worker.window)  # x~ += a / w
    return Step(done.losses, staleness=pushed.since(x), done=pushed.operation)
