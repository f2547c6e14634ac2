"""What TensorFlow 2's strategies share: the verbs of the training loop without sessions.

`EagerState` answers the chief's questions as `SharedState` does, from variables that a strategy
made. `StrategyRun` has the verbs that `loop.py` calls, except for those that differ between the
strategies: `join` and `step`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.chief import Chief
from trainer.data import Batches, Examples, batches_per_epoch, normalised
from trainer.devices import set_eager_devices
from trainer.errors import PeerError, TrainerError
from trainer.graph import Outcome
from trainer.job import Job
from trainer.layout import Layout
from trainer.models import Model
from trainer.optimizers import Optimizer
from trainer.peers import name_silent
from trainer.report import Report
from trainer.state import Counters, Snapshot
from trainer.watchdog import SLACK_SECONDS, Watchdog, watchdog_for


class EagerState:
    """Parameters in pieces with their slots, and the counters of the run."""

    def __init__(
        self,
        optimizer: Optimizer,
        pieces: Sequence[Any],
        slots: Sequence[Sequence[Any]],  # [piece][slot]
        updates: Any,
        workers: int,
        watchdog: Watchdog,
    ) -> None:
        self._optimizer, self._watchdog = optimizer, watchdog
        self.pieces, self.slots, self.updates = pieces, slots, updates
        self._cuts = np.cumsum([piece.shape[0] for piece in pieces])[:-1]
        self._workers = workers
        self._filled = False
        self._started = 0.0
        self.stop = False
        self.steps = np.zeros(workers, np.int64)
        self.staleness = [0.0, 0.0, 0.0]  # sum, maximum, number

    def is_ready(self, session: None = None) -> bool:
        """Variables of a strategy die with the chief: a new process always fills them in."""
        return self._filled

    def fill(self, session: None, snapshot: Snapshot, started: float) -> None:
        """Give every variable its value."""
        for piece, value in zip(
            self.pieces, np.split(snapshot.parameters, self._cuts), strict=True
        ):
            piece.assign(value)
        for k in range(len(self._optimizer.slot_starts)):
            values = np.split(snapshot.slots[k], self._cuts)
            for slots, value in zip(self.slots, values, strict=True):
                slots[k].assign(value)
        self.updates.assign(snapshot.updates)
        self.steps = snapshot.steps.copy()
        self._started, self._filled = started, True

    def first_snapshot(self, parameters: np.ndarray) -> Snapshot:
        """The state before the first update."""
        slots = np.array(self._optimizer.slot_starts, np.float32)[:, None]
        stacked = np.repeat(slots, len(parameters), axis=1)
        return Snapshot(parameters, stacked, 0, np.zeros(self._workers, np.int64))

    def snapshot(self, session: None = None) -> Snapshot:
        """The state now."""
        kinds = range(len(self._optimizer.slot_starts))
        with self._watchdog:
            vector = np.concatenate([piece.numpy() for piece in self.pieces])
            columns = [np.concatenate([own[k].numpy() for own in self.slots]) for k in kinds]
            updates = int(self.updates.numpy())
        stacked = np.stack(columns) if columns else np.zeros((0, len(vector)), np.float32)
        return Snapshot(vector, stacked, updates, self.steps.copy())

    def counters(self, session: None = None) -> Counters:
        """The small values now."""
        everyone = np.ones(self._workers, bool)
        staleness = np.zeros((self._workers, 3))
        staleness[0] = self.staleness
        with self._watchdog:
            updates = int(self.updates.numpy())
        return Counters(
            updates, self.steps.copy(), everyone, everyone, staleness, self.stop, self._started
        )

    def tell_to_stop(self, session: None = None) -> None:
        """Everyone ends after the call that it is in."""
        self.stop = True

    def release(self, session: None = None) -> None:
        """The launcher ends what serves."""

    def set_started(self, session: None, when: float) -> None:
        """Training begins now."""
        self._started = when


class EagerBatches(Batches):
    """The batches of one worker outside of sessions."""

    def __init__(self, examples: Examples, batch_size: int, seed: int, replica: int) -> None:
        import tensorflow as tf

        self._examples, self._batch_size = examples, batch_size
        self.per_epoch = batches_per_epoch(examples, batch_size)
        self._seed = self.draw_seed(seed, replica)
        with tf.init_scope():
            self._images = tf.Variable(examples.images, trainable=False)
            self._labels = tf.Variable(examples.labels, trainable=False)


class NumberedBatches(EagerBatches):
    """Batches of examples that are handed to `batch_of`, because they lie somewhere else."""

    def __init__(self, examples: Examples, batch_size: int, seed: int) -> None:
        self._examples, self._batch_size = examples, batch_size
        self.per_epoch = batches_per_epoch(examples, batch_size)
        self._seed = self.draw_seed(seed, replica=0)

    def batch_of(self, images: Any, labels: Any, number: Any) -> tuple[Any, Any]:
        """Batch `number` of these images and labels."""
        import tensorflow as tf

        chosen = self.indices(number)
        labels = tf.cast(tf.gather(labels, chosen), tf.int32)
        return normalised(tf.gather(images, chosen)), labels


@dataclass(frozen=True)
class StrategyWorker:
    """What the chief wants to know of a worker."""

    model: Model
    state: EagerState
    layout: Layout


class StrategyRun(ABC):
    """The verbs of the training loop for a strategy; see run.py for what they promise."""

    def __init__(self, job: Job) -> None:
        set_eager_devices(job.settings)
        self._job, self._settings, self._cluster = job, job.settings, job.cluster
        self.report = Report(job.settings, job.cluster, job.logdir)
        # The first call also prepares what is called.
        patience = max(job.settings.start_seconds, job.settings.recovery_seconds)
        self._watchdog = watchdog_for(job.cluster, patience)
        self._chief: Chief | None = None
        self._updates = 0
        self._told_to_stop = False
        self.total = 0

    @property
    def lost_errors(self) -> tuple[type[Exception], ...]:
        """What a lost task looks like from here."""
        from tensorflow import errors

        return (
            errors.AbortedError,
            errors.CancelledError,
            errors.DeadlineExceededError,
            errors.FailedPreconditionError,
            errors.InternalError,
            errors.UnavailableError,
            errors.UnknownError,
        )

    @abstractmethod
    def join(self) -> None:
        """Meet the others and get the parameters ready."""

    @abstractmethod
    def step(self) -> Outcome:
        """Some steps in one call."""

    def done(self) -> bool:
        """Whether there is no step left to make."""
        return self._told_to_stop or self._updates >= self.total

    def keep_house(self) -> None:
        """The chief saves, evaluates and calls it a day when that is due."""
        if self._chief:
            self._told_to_stop = self._chief.keep_house(None, self._updates, 0)

    def finish(self) -> None:
        """The chief takes the result."""
        if self._chief:
            self._chief.take_result(None)

    def conclude(self) -> None:
        """Write down and say what came of it."""
        if self._chief:
            self._chief.conclude()
        else:
            self.report.ended(self._updates, accuracy=None, validation_cost=None)
        self.report.close()

    def recover(self, error: Exception) -> None:
        """A strategy does not survive the loss of a task; its processes do, by starting again."""
        names = name_silent(self._cluster)
        who = f"{names} did not answer" if names else "lost another task"
        raise PeerError(
            f"{who} at step {self._updates} ({type(error).__name__}); "
            "started again, training goes on from the newest checkpoint"
        ) from error

    def _works(self) -> None:
        """A call has come back: from now on, others may keep this task waiting for less long."""
        self._watchdog.seconds = self._settings.recovery_seconds + SLACK_SECONDS

    def _refuse_nan(self, losses: np.ndarray) -> None:
        bad = np.flatnonzero(~np.isfinite(losses))
        if len(bad):
            raise TrainerError(
                f"the cost became {losses[bad[0]]} at step {self._updates + int(bad[0]) + 1} "
                f"(learning_rate {self._settings.learning_rate:g}); try a smaller learning_rate"
            )
