"""All-reduce: every worker has all the parameters, and all make the same update at once.

    g_i =  gradient of worker i's batch at x
    g   =  mean_i g_i               an all-reduce: every worker gets the mean
    x   <- x - eta g                on every worker, which therefore stay equal

Paper: P. Patarasuk, X. Yuan, "Bandwidth Optimal All-reduce Algorithms for Clusters of
Workstations", 2009 (the ring). TensorFlow calls it MultiWorkerMirroredStrategy.

Deviations:
* One all-reduce per step, of the flat vector of all gradients, instead of one per variable.
* Several steps in one call, in a `tf.range` loop; the workers meet at every step all the same.
* With another `optimizer` than sgd, its rule takes the place of the update above.

There are no parameter servers. If a worker dies, the others cannot go on without it: each ends
with an error, the launcher starts it again, and the chief spreads the newest checkpoint.
"""

from __future__ import annotations

import socket
from typing import Any

import numpy as np

from trainer.chief import Chief
from trainer.cluster import ClusterInfo
from trainer.data import shard_for
from trainer.eager import EagerBatches, EagerState, StrategyRun, StrategyWorker
from trainer.errors import SettingsError, TrainerError
from trainer.graph import Outcome
from trainer.job import Job
from trainer.layout import Layout
from trainer.models import model_from
from trainer.optimizers import optimizer_from
from trainer.peers import other_tasks
from trainer.phase import wait_for
from trainer.session import answers, wait_until
from trainer.settings import Settings
from trainer.watchdog import blame, deadline


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """Any number of workers, no ps."""
    if cluster.ps:
        raise SettingsError(
            "algorithm allreduce keeps the parameters on the workers; remove the ps"
        )
    if settings.gpu_memory_fraction:
        raise SettingsError(
            "gpu_memory_fraction: TensorFlow 2's strategies know no fraction; use gpu_growth"
        )


def make_run(job: Job) -> StrategyRun:
    """The verbs of the training loop, by MultiWorkerMirroredStrategy."""
    return AllReduceRun(job)


class AllReduceRun(StrategyRun):
    """One worker's part. All workers make the same calls in the same order."""

    def __init__(self, job: Job) -> None:
        super().__init__(job)
        settings, cluster = job.settings, job.cluster
        meet(other_tasks(cluster), cluster, settings.start_seconds)
        with deadline(settings.start_seconds, lambda: blame(cluster)):
            self._strategy = make_strategy(cluster, settings)
        self._local = self._strategy.num_replicas_in_sync // len(cluster.trainers)
        self._model, self._optimizer = model_from(settings), optimizer_from(settings)
        workers = len(cluster.trainers)
        examples = shard_for(job.data.train, settings.data_order, cluster.replica, workers)
        self._batches = EagerBatches(examples, settings.batch_size, settings.seed, cluster.replica)
        self._per_epoch = self._batches.per_epoch // self._local
        self.total = settings.steps or settings.epochs * self._per_epoch
        self._most = min(settings.steps_per_call, settings.log_every)
        self._build()
        if cluster.is_chief:
            layout = Layout(self._model, (), (), batches=self._local)
            worker: Any = StrategyWorker(self._model, self._state, layout)
            self._chief = Chief(job, worker, self.report)

    def _build(self) -> None:
        import tensorflow as tf

        zeros = np.zeros(self._model.size, np.float32)
        with self._strategy.scope():
            self._x = tf.Variable(zeros, trainable=False)
            self._slots = [tf.Variable(zeros, trainable=False) for _ in self._optimizer.slot_starts]
        workers = len(self._cluster.trainers)
        updates = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._state = EagerState(
            self._optimizer, [self._x], [self._slots], updates, workers, self._watchdog
        )
        self._spread_call = tf.function(self._spread)
        self._steps_call = tf.function(self._steps)

    def join(self) -> None:
        """The chief fills its own variables; then everyone takes the chief's."""
        import tensorflow as tf

        with deadline(self._settings.start_seconds, lambda: blame(self._cluster)):
            if self._chief:
                self._chief.prepare(None)
            spread = self._spread_call(tf.constant(float(self._cluster.is_chief)))
        self._set_updates(int(spread))
        example = tf.constant(0, tf.int64), tf.constant(self._most, tf.int64), tf.constant(0)
        graph = self._steps_call.get_concrete_function(*example).graph
        if self._chief:
            self._chief.start_clock(None)
        self.report.begin(graph, self._per_epoch, self._updates)

    def step(self) -> Outcome:
        """Some steps in one call, and whether the chief wants to stop."""
        import tensorflow as tf

        count = min(self._most, self.total - self._updates)
        # Python numbers would be traced anew at every call.
        numbers = tf.constant(self._updates, tf.int64), tf.constant(count, tf.int64)
        with self._watchdog:
            losses, stop = self._steps_call(*numbers, tf.constant(int(self._state.stop)))
            losses = losses.numpy()
        self._works()
        self._refuse_nan(losses)
        self._set_updates(self._updates + count)
        self._told_to_stop = bool(stop)
        steps = np.full(len(self._cluster.trainers), self._updates)
        return Outcome(losses, np.zeros(count), self._updates, steps, self._told_to_stop)

    def keep_house(self) -> None:
        """The chief's wish to stop becomes everyone's with the next call."""
        if self._chief:
            self._chief.keep_house(None, self._updates, 0)

    def _set_updates(self, updates: int) -> None:
        self._updates = updates
        self._state.updates.assign(updates)
        self._state.steps[:] = updates

    def _steps(self, first: Any, count: Any, stop: Any) -> tuple[Any, Any]:
        """The loop over steps; the losses and the chief's wish to stop cross the wire once."""
        import tensorflow as tf

        local = self._strategy.experimental_local_results
        losses = tf.TensorArray(tf.float32, size=tf.cast(count, tf.int32))
        for k in tf.range(count):
            loss = self._strategy.run(self._replica_step, (first + k,))
            losses = losses.write(tf.cast(k, tf.int32), local(loss)[0])
        told = self._strategy.run(self._replica_sum, (losses.stack(), stop))
        everyones_losses, stops = (local(part)[0] for part in told)
        return everyones_losses / self._strategy.num_replicas_in_sync, stops

    def _replica_step(self, number: Any) -> Any:
        """One step of one device of this worker."""
        import tensorflow as tf

        context = tf.distribute.get_replica_context()
        device = tf.cast(context.replica_id_in_sync_group % self._local, tf.int64)
        images, labels = self._batches.batch(number * self._local + device)
        loss, own = self._model.gradient(self._x.read_value(), images, labels)
        g = context.all_reduce(tf.distribute.ReduceOp.MEAN, own)  # mean_i g_i
        self._optimizer.apply(self._x, self._slots, g, number + 1)  # x <- x - eta g
        return loss

    def _replica_sum(self, *values: Any) -> Any:
        import tensorflow as tf

        context = tf.distribute.get_replica_context()
        here = [tf.identity(value) for value in values]  # on this replica's device
        return [context.all_reduce(tf.distribute.ReduceOp.SUM, value) for value in here]

    def _spread(self, own: Any) -> Any:
        """Everyone gets the chief's parameters, slots and number of updates."""
        import tensorflow as tf

        def spread(own: Any) -> Any:
            context, total = tf.distribute.get_replica_context(), tf.distribute.ReduceOp.SUM
            for variable in (self._x, *self._slots):
                # A chief with several devices would count as often as it has devices.
                value = context.all_reduce(total, variable.read_value() * own / self._local)
                tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value)
            updates = self._state.updates.read_value() * tf.cast(own, tf.int64)
            return context.all_reduce(total, updates) // self._local

        return self._strategy.experimental_local_results(self._strategy.run(spread, (own,)))[0]


def meet(peers: dict[str, str], cluster: ClusterInfo, seconds: float) -> None:
    """Listen on this worker's port until every other one has been seen to listen on its own.

    TensorFlow waits for the others as well, but for ever, and nothing in Python can interrupt it.
    """
    if not peers:
        return
    port = int(cluster.jobs[cluster.role][cluster.index].rpartition(":")[2])
    missing = dict(peers)

    def all_seen() -> bool:
        for task in [task for task, address in missing.items() if answers(address)]:
            del missing[task]
        return not missing

    try:
        listener = socket.create_server(("", port), backlog=128)
    except OSError as error:
        raise TrainerError(f"cannot listen on port {port}: {error.strerror}") from error
    with listener:
        wait_for(missing)
        wait_until(all_seen, seconds, lambda: f"{', '.join(missing)} did not join")


def make_strategy(cluster: ClusterInfo, settings: Settings) -> Any:
    """MultiWorkerMirroredStrategy for this cluster; it waits until all workers are there."""
    import tensorflow as tf

    if cluster.alone:
        return tf.distribute.MultiWorkerMirroredStrategy()
    return tf.distribute.MultiWorkerMirroredStrategy(
        cluster_resolver=tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec({role: list(hosts) for role, hosts in cluster.jobs.items()}),
            task_type=cluster.role,
            task_id=cluster.index,
            rpc_layer="grpc",
        ),
        communication_options=tf.distribute.experimental.CommunicationOptions(
            timeout_seconds=settings.recovery_seconds
        ),
    )
