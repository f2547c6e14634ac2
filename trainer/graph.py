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
from trainer.collector import Collector
from trainer.data import Batches, Examples, shard_for
from trainer.layout import Layout, Reader, server_devices, usual_layout, worker_device
from trainer.local import LocalVariables
from trainer.scheme import Scheme
from trainer.settings import Settings
from trainer.state import SharedState


@dataclass(frozen=True)
class Step:
    """The graph of one training step."""

    loss: Any  # of this step's batch, before its update
    staleness: Any  # updates by others that this one did not know of
    done: Any  # the operation (or several) after which the next step of this worker may begin


@dataclass(frozen=True)
class Outcome:
    """What one call into TensorFlow did."""

    losses: np.ndarray  # one for each step of the call
    staleness: np.ndarray  # likewise
    updates: int  # the global step after the call
    steps: np.ndarray  # every worker's number of steps after the call
    stop: bool  # the chief wants everyone to end


BuildStep = Callable[["WorkerGraph", Any, list[Any]], Step]

# Local steps of one call, if several exchanges are chained in it: what a call costs beside its
# exchanges is little by then, and a worker looks up often enough.
LONGEST_CALL = 40


class WorkerGraph:
    """Builds the graph; `call(session, ...)` then runs some steps of it."""

    def __init__(
        self,
        settings: Settings,
        cluster: ClusterInfo,
        train: Examples,
        build_step: BuildStep,
        layout: Layout | None = None,
        scheme: Scheme | None = None,
    ) -> None:
        import tensorflow as tf

        self.settings, self.cluster = settings, cluster
        self.layout = layout = layout or usual_layout(cluster, settings)
        self.model = layout.model
        self.scheme = scheme = scheme or Scheme()
        self.window: Any = scheme.window  # of the exchange that is being built
        most = min(settings.log_every, max(settings.steps_per_call, LONGEST_CALL))
        self.most_steps = min(settings.steps_per_call, max(1, most // scheme.window))  # exchanges
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device(worker_device(cluster)):
            self.state = SharedState(
                size=self.model.size,
                optimizer=layout.pieces[0].optimizer,
                devices=[piece.device for piece in layout.pieces],
                workers=len(cluster.trainers),
                replica=cluster.replica,
                sizes=[piece.size for piece in layout.pieces],
                optimizers=[piece.optimizer for piece in layout.pieces],
                servers=server_devices(cluster),
            )
            self.readers = [self._batches(k, r, train) for k, r in enumerate(layout.readers)]
            self.batches = self.readers[0]
            self.per_epoch = self.batches.per_epoch
            self.total = scheme.total(settings, self.per_epoch)
            self.local = LocalVariables(self.state, self.model.size)
            self.collector: Any = None
            if scheme.lockstep:
                self.collector = Collector(self.state, scheme.needed, self.total)
            self._number = tf.compat.v1.placeholder(tf.int64, [])
            self._fetches = {n: self._chain(build_step, n) for n in {1, self.most_steps}}
            self._length = tf.compat.v1.placeholder(tf.int64, [])
            self._short = self._short_exchange(build_step)
        self.graph.finalize()

    def load_data(self, session: Any) -> None:
        """Put the examples into the memory of every device that reads them."""
        for batches in self.readers:
            session.run(batches.loader, batches.feed)

    def _batches(self, k: int, reader: Reader, train: Examples) -> Batches:
        import tensorflow as tf

        settings = self.settings
        examples = shard_for(train, settings.data_order, reader.replica, reader.replicas)
        with tf.device(reader.device), tf.compat.v1.variable_scope(f"reader_{k}"):
            return Batches(examples, settings.batch_size, settings.seed, reader.replica)

    def calls(self, session: Any) -> dict[int, Callable[[int], Outcome]]:
        """For each number of steps, the function that makes them: number of the first -> Outcome.

        A prepared callable spares TensorFlow's bookkeeping of every `session.run`.
        """
        return {count: self._call(session, fetch) for count, fetch in self._fetches.items()}

    def short_call(self, session: Any) -> Callable[[int, int], Outcome]:
        """One exchange after less than a whole window: (first number, length) -> Outcome."""
        return self._call(session, self._short, self._length)

    def _call(self, session: Any, fetches: list[Any], *feeds: Any) -> Callable[..., Outcome]:
        prepared = session.make_callable(fetches, [self._number, *feeds])

        def call(*values: int) -> Outcome:
            losses, packed, *_ = prepared(*values)
            updates, stop, steps, staleness = self.state.unpacked(packed)
            return Outcome(losses, staleness, updates, steps, stop)

        return call

    def _short_exchange(self, build_step: BuildStep) -> list[Any]:
        """For what is left when the steps are no multiple of the window."""
        if self.scheme.window == 1 or self.scheme.lockstep:
            return []
        self.window = self._length
        try:
            return self._chain(build_step, 1)
        finally:
            self.window = self.scheme.window

    def _chain(self, build_step: BuildStep, count: int) -> list[Any]:
        """Steps one after the other, each with a forward pass of its own, in one call."""
        import tensorflow as tf

        steps: list[Step] = []
        for k in range(count):
            after = tf.nest.flatten(steps[-1].done) if steps else []
            steps.append(build_step(self, self._number + k * self.window, after))
        losses = tf.concat([tf.reshape(step.loss, [-1]) for step in steps], axis=0)
        done = tf.nest.flatten(steps[-1].done)
        there = [operation for operation in done if operation.device == self.state.devices[0]]
        here = [operation for operation in done if operation not in there]
        return [losses, self.state.packed(there, [step.staleness for step in steps]), *here]
