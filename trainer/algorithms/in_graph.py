"""In-graph replication: one client, the chief, builds one graph over every worker task.

Synchronous (`synchronous: true`):

    x_i <- x~                       on every worker i
    g_i =  gradient of worker i's batch at x_i
    x~  <- x~ - eta mean_i g_i

Asynchronous (`synchronous: false`): every worker i by itself

    x_i <- x~;  g_i = gradient;  x~ <- x~ - eta g_i

Paper: M. Abadi et al., "TensorFlow: Large-Scale Machine Learning on Heterogeneous Distributed
Systems", 2015 (arXiv:1603.04467), section 7: one client thread drives replicas in one graph.

Deviations:
* The workers only serve: they hold their data and compute, the chief's session drives them. The
  parameters live on the ps tasks, or on the chief if there is no ps.
* Asynchronous replicas have no client thread each, as in the paper, but a chain of
  `steps_per_call` steps each in one call; they meet where the call ends. Within a call nobody
  waits for anybody.
* With another `optimizer` than sgd, its rule takes the place of the update.

A step of the chief is one batch of every worker; the global step counts updates, so that an
asynchronous step counts as many as there are workers.
"""

from __future__ import annotations

from typing import Any

from trainer.algorithms.roles import need_chief_and_workers
from trainer.cluster import ClusterInfo
from trainer.graph import Step, WorkerGraph
from trainer.layout import Layout, Reader, even_pieces
from trainer.models import model_from
from trainer.optimizers import optimizer_from
from trainer.settings import Settings

SERVING = ("ps", "worker")


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """A chief and at least one worker; any number of ps."""
    need_chief_and_workers(cluster, "in-graph")


def layout(cluster: ClusterInfo, settings: Settings) -> Layout:
    """Data on every worker task, parameters on the ps tasks or on the chief."""
    n, model = len(cluster.jobs["worker"]), model_from(settings)
    return Layout(
        model=model,
        pieces=even_pieces(cluster, model.size, optimizer_from(settings)),
        readers=tuple(Reader(f"/job:worker/task:{i}", i, n) for i in range(n)),
        batches=n,
        updates=1 if settings.synchronous else n,
    )


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """One batch of every worker."""
    return (synchronous if worker.settings.synchronous else asynchronous)(worker, number, after)


def synchronous(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """One update by the mean of all gradients."""
    import tensorflow as tf

    x = worker.state.pull(after)
    found = [_gradient(worker, i, number, x) for i in range(len(worker.readers))]
    losses, gradients = zip(*found, strict=True)
    mean = tf.add_n(gradients) / len(gradients)
    pushed = worker.state.push(mean, x)  # x~ <- x~ - eta mean g
    return Step(tf.add_n(losses) / len(losses), pushed.updates - 1 - x.updates, pushed.operation)


def asynchronous(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """One update by each gradient; a worker's next step waits for its own last one only."""
    import tensorflow as tf

    n = len(worker.readers)
    losses, staleness, done = [], [], []
    for i in range(n):
        x = worker.state.pull(after[i : i + 1])
        loss, g = _gradient(worker, i, number, x)
        pushed = worker.state.push(g, x, steps=int(i == 0))  # x~ <- x~ - eta g_i
        losses.append(loss)
        staleness.append(pushed.updates - 1 - x.updates)
        done.append(pushed.operation)
    return Step(tf.add_n(losses) / n, tf.stack(staleness), done)


def _gradient(worker: WorkerGraph, i: int, number: Any, x: Any) -> tuple[Any, Any]:
    """Loss and gradient of worker i's batch, computed there."""
    import tensorflow as tf

    with tf.device(worker.layout.readers[i].device):
        images, labels = worker.readers[i].batch(number)
        loss, g = worker.model.gradient(tf.identity(x.vector), images, labels)
    return loss, g
