"""The graph of one worker: its data, its model, the shared state, and its training steps.

Between-graph replication: every worker builds this graph for itself. What lies on a /job:ps device
is the same variable for all of them, because it has the same name; the rest is the worker's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.cluster import ClusterInfo
from trainer.data import Batches, Examples, batches_per_epoch, shard_for
from trainer.models import model_from
from trainer.optimizers import optimizer_from
from trainer.settings import Settings
from trainer.state import SharedState


@dataclass(frozen=True)
class Step:
    """The graph of one training step."""

    loss: Any  # of this step's batch, before its update
    staleness: Any  # updates by others that this one did not know of
    done: Any  # the operation after which the next step of this worker may begin


@dataclass(frozen=True)
class Outcome:
    """What one call into TensorFlow did."""

    losses: np.ndarray  # one for each step of the call
    staleness: np.ndarray  # likewise
    updates: int  # the global step after the call
    steps: np.ndarray  # every worker's number of steps after the call
    stop: bool  # the chief wants everyone to end


BuildStep = Callable[["WorkerGraph", Any, list[Any]], Step]


class WorkerGraph:
    """Builds the graph; `call(session, ...)` then runs some steps of it."""

    def __init__(
        self, settings: Settings, cluster: ClusterInfo, train: Examples, build_step: BuildStep
    ) -> None:
        import tensorflow as tf

        replicas = len(cluster.trainers)
        examples = shard_for(train, settings.data_order, cluster.replica, replicas)
        self.per_epoch = batches_per_epoch(examples, settings.batch_size)
        self.model = model_from(settings)
        self.most_steps = min(settings.steps_per_call, settings.log_every)
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device(worker_device(cluster)):
            self.state = SharedState(
                size=self.model.size,
                optimizer=optimizer_from(settings),
                devices=ps_devices(cluster),
                workers=replicas,
                replica=cluster.replica,
            )
            self.batches = Batches(examples, settings.batch_size, settings.seed, cluster.replica)
            self._number = tf.compat.v1.placeholder(tf.int64, [])
            self._fetches = {n: self._chain(build_step, n) for n in {1, self.most_steps}}
        self.graph.finalize()

    def load_data(self, session: Any) -> None:
        """Put this worker's examples into its memory."""
        session.run(self.batches.loader, self.batches.feed)

    def calls(self, session: Any) -> dict[int, Callable[[int], Outcome]]:
        """For each number of steps, the function that makes them: number of the first -> Outcome.

        A prepared callable spares TensorFlow's bookkeeping of every `session.run`.
        """
        return {count: self._call(session, fetch) for count, fetch in self._fetches.items()}

    def _call(self, session: Any, fetches: list[Any]) -> Callable[[int], Outcome]:
        prepared = session.make_callable(fetches, [self._number])

        def call(first: int) -> Outcome:
            losses, staleness, updates, steps, stop = prepared(first)
            return Outcome(losses, staleness, int(updates), steps, bool(stop))

        return call

    def _chain(self, build_step: BuildStep, count: int) -> list[Any]:
        """Steps one after the other, each with a forward pass of its own, in one call."""
        import tensorflow as tf

        steps: list[Step] = []
        for k in range(count):
            after = [steps[-1].done] if steps else []
            steps.append(build_step(self, self._number + k, after))
        losses = tf.stack([step.loss for step in steps])
        staleness = tf.stack([step.staleness for step in steps])
        return [losses, staleness, *self.state.after([steps[-1].done])]


def worker_device(cluster: ClusterInfo) -> str:
    """Where this worker computes."""
    return "" if cluster.alone else f"/job:{cluster.role}/task:{cluster.index}"


def ps_devices(cluster: ClusterInfo) -> list[str]:
    """Where the shared variables live: on every ps task, or here if there is none."""
    if not cluster.ps:
        return [f"{worker_device(cluster)}/device:CPU:0"]
    return [f"/job:ps/task:{i}/device:CPU:0" for i in range(len(cluster.ps))]
