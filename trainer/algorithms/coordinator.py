"""Coordinator: the chief schedules steps on whichever worker is free; parameters are on the ps.

A worker that is given the batches `first ... first + count - 1` does, for each of them:

    x  <- x~                       pull
    g  =  gradient of the batch at x
    x~ <- x~ - eta g               push; others may have changed x~ in the meantime

The update is the one of `hogwild`; what differs is who is in charge. Here only the chief runs a
program. Workers and ps serve, and a worker that dies merely makes the chief give its work to
another.

Paper: J. Dean et al., "Large Scale Distributed Deep Networks", 2012 (asynchronous SGD with
parameter servers). TensorFlow calls it ParameterServerStrategy with a ClusterCoordinator.

Deviations:
* One flat vector, cut over the ps tasks, instead of one variable per layer.
* `steps_per_call` steps are scheduled as one piece of work, and twice as many pieces as there are
  workers are under way at any time.
* Batches are numbered through by the chief, from one shuffle of all the data, so that every
  example comes once per pass whoever computes it; `data_order` has no meaning here. With `epochs`,
  there are as many passes as epochs times workers, as in the other asynchronous algorithms.
* A piece of work that is done again because its worker died may have been half done before.
* With another `optimizer` than sgd, its rule takes the place of the push.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import Any

import numpy as np

from trainer.algorithms.roles import need_chief_and_workers
from trainer.chief import Chief
from trainer.cluster import ClusterInfo
from trainer.eager import EagerState, NumberedBatches, StrategyRun, StrategyWorker
from trainer.errors import SettingsError
from trainer.graph import Outcome
from trainer.job import Job
from trainer.layout import Layout
from trainer.models import model_from
from trainer.optimizers import optimizer_from
from trainer.session import wait_for_servers
from trainer.settings import Settings
from trainer.state import piece_sizes
from trainer.watchdog import blame, deadline

SERVING = ("ps", "worker")
AHEAD = 2  # pieces of work under way for each worker


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """A chief, at least one worker and at least one ps."""
    need_chief_and_workers(cluster, "coordinator")
    if not cluster.ps:
        raise SettingsError(
            "algorithm coordinator keeps its parameters on parameter servers, but there is no ps; "
            "add one, or use in-graph"
        )


def make_run(job: Job) -> StrategyRun:
    """The verbs of the training loop, by ParameterServerStrategy."""
    return CoordinatorRun(job)


class CoordinatorRun(StrategyRun):
    """The chief's part; nobody else has one."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        settings, cluster = job.settings, job.cluster
        self._workers = len(cluster.jobs["worker"])
        wait_for_servers(cluster, settings.start_seconds)
        with deadline(settings.start_seconds, lambda: blame(cluster)):
            self._coordinator = make_coordinator(cluster)
        self._model, self._optimizer = model_from(settings), optimizer_from(settings)
        self._train = job.data.train
        self._batches = NumberedBatches(job.data.train, settings.batch_size, settings.seed)
        self.total = settings.steps or settings.epochs * self._batches.per_epoch * self._workers
        self._most = min(settings.steps_per_call, settings.log_every)
        self._under_way: deque[tuple[Any, int]] = deque()
        self._scheduled = 0
        self._shares: Counter[int] = Counter()
        self._build()
        worker: Any = StrategyWorker(self._model, self._state, Layout(self._model, (), ()))
        self._chief = Chief(job, worker, self.report)

    def _build(self) -> None:
        """Variables, which the strategy deals out to the ps tasks one after the other."""
        import tensorflow as tf

        sizes = piece_sizes(self._model.size, len(self._cluster.ps))

        def vectors() -> list[Any]:
            return [tf.Variable(np.zeros(size, np.float32), trainable=False) for size in sizes]

        with self._coordinator.strategy.scope():
            self._pieces = vectors()
            columns = [vectors() for _ in self._optimizer.slot_starts]
            self._count = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._slots = [list(row) for row in zip(*columns, strict=True)] or [[] for _ in sizes]
        self._state = EagerState(
            self._optimizer, self._pieces, self._slots, self._count, 1, self._watchdog
        )
        self._steps_call = tf.function(self._steps)
        # Sent to each worker once, as tensors; as constants of a function they would take minutes.
        self._data = tf.constant(self._train.images), tf.constant(self._train.labels)
        self._examples = iter(self._coordinator.create_per_worker_dataset(self._dataset))

    def _dataset(self) -> Any:
        """All examples as one element, and a number that tells this worker from the others."""
        import tensorflow as tf

        who = tf.random.uniform([], maxval=2**62, dtype=tf.int64)
        return tf.data.Dataset.from_tensors((*self._data, who)).repeat()

    def join(self) -> None:
        """Fill in the parameters."""
        import tensorflow as tf

        assert self._chief
        self._chief.prepare(None)
        self._updates = self._scheduled = int(self._count.numpy())
        self._chief.start_clock(None)
        self.report.begin(tf.Graph(), self._batches.per_epoch, self._updates)

    def step(self) -> Outcome:
        """Keep every worker busy, and take in the oldest piece of work."""
        import tensorflow as tf

        while len(self._under_way) < AHEAD * self._workers and self._scheduled < self.total:
            count = min(self._most, self.total - self._scheduled)
            numbers = tf.constant(self._scheduled, tf.int64), tf.constant(count, tf.int64)
            done = self._coordinator.schedule(self._steps_call, (self._examples, *numbers))
            self._under_way.append((done, count))
            self._scheduled += count
        done, count = self._under_way.popleft()
        with self._watchdog:
            losses, staleness, who = done.fetch()
        self._works()
        self._refuse_nan(losses)
        self._updates += count
        self._shares[int(who)] += count
        self._state.steps[0] = self._updates
        self._count_staleness(staleness)
        return Outcome(losses, staleness, self._updates, self._state.steps.copy(), False)

    def finish(self) -> None:
        """Let the work that is under way come in, then take the result."""
        with self._watchdog:
            for done, count in self._under_way:
                done.fetch()
                self._state.steps[0] += count
            self._under_way.clear()
            self._coordinator.join()
        super().finish()

    def _steps(self, examples: Any, first: Any, count: Any) -> tuple[Any, Any, Any]:
        """One piece of work, on a worker."""
        import tensorflow as tf

        all_images, all_labels, who = next(examples)
        losses = tf.TensorArray(tf.float32, size=tf.cast(count, tf.int32))
        staleness = tf.TensorArray(tf.int64, size=tf.cast(count, tf.int32))
        for k in tf.range(count):
            images, labels = self._batches.batch_of(all_images, all_labels, first + k)
            pulled = self._count.read_value()
            with tf.control_dependencies([pulled]):
                x = tf.concat([piece.read_value() for piece in self._pieces], axis=0)
            loss, g = self._model.gradient(x, images, labels)
            parts = tf.split(g, [piece.shape[0] for piece in self._pieces])
            for piece, slots, part in zip(self._pieces, self._slots, parts, strict=True):
                with tf.device(piece.device):  # x~ <- x~ - eta g
                    self._optimizer.apply(piece, slots, part, pulled + 1)
            pushed = self._count.assign_add(1, read_value=True)
            place = tf.cast(k, tf.int32)
            losses = losses.write(place, loss)
            staleness = staleness.write(place, pushed - 1 - pulled)
        return losses.stack(), staleness.stack(), who

    def _count_staleness(self, values: np.ndarray) -> None:
        total, highest, number = self._state.staleness
        highest = max(highest, float(values.max()))
        self._state.staleness = [total + float(values.sum()), highest, number + values.size]

    def conclude(self) -> None:
        """Say also how the work was shared."""
        shares = sorted(self._shares.values(), reverse=True)
        print(f"Steps by worker: {', '.join(map(str, shares))}", flush=True)
        super().conclude()


def make_coordinator(cluster: ClusterInfo) -> Any:
    """The ClusterCoordinator of this cluster, connected to every worker and ps."""
    import tensorflow as tf

    strategy = tf.distribute.ParameterServerStrategy(
        tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({role: list(hosts) for role, hosts in cluster.jobs.items()}),
            task_type="chief",
            task_id=0,
            rpc_layer="grpc",
        )
    )
    return tf.distribute.coordinator.ClusterCoordinator(strategy)
