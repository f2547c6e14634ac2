"""What the workers share: variables on the parameter servers.

    parameters   one flat vector, cut into as many contiguous pieces of (nearly) equal size as
                 there are ps tasks, each with the optimizer's slots beside it
    updates      how often the parameters were changed: the global step
    steps[i]     how many steps worker i has made; it survives the worker
    joined[i], finished[i]   set by worker i at its start and its end
    staleness[i] sum, maximum and number of the staleness that worker i has seen, set at its end
    ready        1 once the chief has filled everything in; 0 while it restores
    stop         1 when the chief wants everyone to end early
    over_k       1 when task k is needed no more; one on every task that only serves
    started      when training began, in seconds since 1970 by the chief's clock

A process alone has the same variables on its own device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.exchanges import Exchanges
from trainer.optimizers import Optimizer
from trainer.variables import assign_of, over_variable, shared_variable


@dataclass(frozen=True)
class Snapshot:
    """The values that a checkpoint keeps."""

    parameters: np.ndarray
    slots: np.ndarray  # [number of slots, size]
    updates: int
    steps: np.ndarray  # [workers]


@dataclass(frozen=True)
class Counters:
    """The small values, read in one call."""

    updates: int
    steps: np.ndarray
    joined: np.ndarray
    finished: np.ndarray
    staleness: np.ndarray  # [workers, (sum, maximum, number)]
    stop: bool
    started: float


def piece_sizes(size: int, pieces: int) -> list[int]:
    """Cut `size` into contiguous pieces that differ by at most one."""
    return [size // pieces + (i < size % pieces) for i in range(pieces)]


class SharedState(Exchanges):
    """The shared variables and the operations on them, for one worker's graph."""

    def __init__(
        self,
        size: int,
        optimizer: Optimizer,
        devices: Sequence[str],
        workers: int,
        replica: int,
        sizes: Sequence[int] | None = None,  # of the pieces, if not equal
        optimizers: Sequence[Optimizer] | None = None,  # of the pieces, if not the same
        servers: Sequence[str] | None = None,  # the devices of the tasks that only serve
    ) -> None:
        import tensorflow as tf

        self._optimizer = optimizer
        self._optimizers = optimizers or [optimizer] * len(devices)
        self.workers = workers
        self.replica = replica
        self.sizes = list(sizes or piece_sizes(size, len(devices)))
        self._pieces: list[Any] = []
        self._slots: list[list[Any]] = []  # [piece][slot]
        self._over: list[Any] = []
        self._extras: list[tuple[Any, Any]] = []
        self._after_stop: list[Any] = []
        for i, (device, length) in enumerate(zip(devices, self.sizes, strict=True)):
            with tf.device(device):
                self._pieces.append(shared_variable(f"parameters_{i}", [length], tf.float32))
                names = [f"slot{k}_{i}" for k in range(len(optimizer.slot_starts))]
                self._slots.append([shared_variable(name, [length], tf.float32) for name in names])
        for i, server in enumerate(devices if servers is None else servers):
            with tf.device(server):
                self._over.append(over_variable(i))
        self._counter_device = devices[0]
        with tf.device(self._counter_device):
            self._updates = shared_variable("updates", [], tf.int64)
            self._steps = shared_variable("steps", [workers], tf.int64)
            self._joined = shared_variable("joined", [workers], tf.int64)
            self._finished = shared_variable("finished", [workers], tf.int64)
            self._staleness = shared_variable("staleness", [workers, 3], tf.float64)
            self._ready = shared_variable("ready", [], tf.int64)
            self._stop = shared_variable("stop", [], tf.int64)
            self._started = shared_variable("started", [], tf.float64)
        self._build_calls()

    def extend(self, variable: Any, first: Any) -> Any:
        """One more variable, of an algorithm's own; `fill` gives it its first value."""
        self._assigns[variable.name] = assign_of(variable)
        self._extras.append((variable, first))
        return variable

    def after_stop(self, operation: Any) -> None:
        """What has to run when everyone is told to end."""
        self._after_stop.append(operation)

    @property
    def updates(self) -> Any:
        """The variable that counts the updates."""
        return self._updates

    @property
    def devices(self) -> list[str]:
        """Where the pieces are; the counters are on the first."""
        return [piece.device for piece in self._pieces]

    # What the run calls, with a session.

    def is_ready(self, session: Any) -> bool:
        """Whether every variable on every ps has its value."""
        if not session.run(self.initialised):
            return False
        return bool(session.run(self._ready_now))

    def fill(self, session: Any, snapshot: Snapshot, started: float) -> None:
        """Give every variable its value; workers that are waiting go on when this is done."""
        cuts = np.cumsum(self.sizes)[:-1]
        values: list[tuple[Any, Any]] = [
            (self._updates, snapshot.updates),
            (self._steps, snapshot.steps),
            (self._joined, np.zeros(self.workers)),
            (self._finished, np.zeros(self.workers)),
            (self._staleness, np.zeros((self.workers, 3))),
            (self._stop, 0),
            (self._started, started),
            *((over, 0) for over in self._over),
            *self._extras,
        ]
        values += zip(self._pieces, np.split(snapshot.parameters, cuts), strict=True)
        for k in range(len(self._optimizer.slot_starts)):
            column = [slots[k] for slots in self._slots]
            values += zip(column, np.split(snapshot.slots[k], cuts), strict=True)
        self._set(session, [(self._ready, 0)])
        self._set(session, values)
        self._set(session, [(self._ready, 1)])

    def first_snapshot(self, parameters: np.ndarray) -> Snapshot:
        """The state before the first update."""
        slots = np.array(self._optimizer.slot_starts, np.float32)[:, None]
        return Snapshot(
            parameters=parameters,
            slots=np.repeat(slots, len(parameters), axis=1),
            updates=0,
            steps=np.zeros(self.workers, np.int64),
        )

    def snapshot(self, session: Any) -> Snapshot:
        """The state now. Others may be changing it: pieces can be some updates apart."""
        pieces, slots, updates, steps = session.run(self._everything)
        columns = [np.concatenate([piece[k] for piece in slots]) for k in range(len(slots[0]))]
        vector = np.concatenate(pieces)
        stacked = np.stack(columns) if columns else np.zeros((0, len(vector)), np.float32)
        return Snapshot(vector, stacked, int(updates), steps)

    def counters(self, session: Any) -> Counters:
        """The small values now."""
        updates, steps, joined, finished, staleness, stop, started = session.run(self._small)
        flags = joined.astype(bool), finished.astype(bool)
        return Counters(int(updates), steps, *flags, staleness, bool(stop), float(started))

    def mark_joined(self, session: Any) -> None:
        """This worker is there."""
        session.run(self._join)

    def mark_finished(self, session: Any, staleness: Sequence[float]) -> None:
        """This worker has done all its steps and has seen this staleness (sum, maximum, number)."""
        session.run(self._set_staleness, {self._own_staleness: staleness})
        session.run(self._finish)

    def tell_to_stop(self, session: Any) -> None:
        """Every worker ends after the call that it is in."""
        self._set(session, [(self._stop, 1)])
        for operation in self._after_stop:
            session.run(operation)

    def release(self, session: Any) -> None:
        """Nobody needs the parameter servers any more."""
        self._set(session, [(over, 1) for over in self._over])

    def set_started(self, session: Any, when: float) -> None:
        """Training begins now."""
        self._set(session, [(self._started, when)])

    # All operations are built here, once: a graph that grows while it runs gets slower.

    def _build_calls(self) -> None:
        import tensorflow as tf

        slots = [slot for piece in self._slots for slot in piece]
        flags = [self._joined, self._finished, self._staleness, self._stop, self._started]
        small = [self._updates, self._steps, *flags]
        variables = [*self._pieces, *slots, *small, self._ready, *self._over]
        self.initialised = tf.reduce_all(tf.stack([v.is_initialized() for v in variables]))
        self._ready_now = self._ready.read_value()
        self._everything = (
            [piece.read_value() for piece in self._pieces],
            [[slot.read_value() for slot in piece] for piece in self._slots],
            self._updates.read_value(),
            self._steps.read_value(),
        )
        self._small = [variable.read_value() for variable in small]
        self._own_staleness = tf.compat.v1.placeholder(tf.float64, [3])
        self._join = self._set_row(self._joined, 1)
        self._finish = self._set_row(self._finished, 1)
        self._set_staleness = self._set_row(self._staleness, self._own_staleness)
        self._assigns: dict[str, tuple[Any, Any]] = {}
        for variable in variables:
            self._assigns[variable.name] = assign_of(variable)

    def _set_row(self, variable: Any, value: Any) -> Any:
        """Set this worker's row of a variable and touch no other's."""
        import tensorflow as tf

        with tf.device(variable.device):
            row = tf.cast(tf.expand_dims(value, 0), variable.dtype)
            return tf.raw_ops.ResourceScatterUpdate(
                resource=variable.handle, indices=[self.replica], updates=row
            )

    def _set(self, session: Any, values: Sequence[tuple[Any, Any]]) -> None:
        pairs = [(*self._assigns[variable.name], value) for variable, value in values]
        session.run([assign for _, assign, _ in pairs], {feed: value for feed, _, value in pairs})
