"""Updates that several workers make together, each of them from exactly as many contributions.

On the parameter servers:

    sum_k            the contributions to the next update so far, one on each ps task
    contributors     how many there are
    given[i]         the last update that worker i contributed to
    used, dropped    contributions that became part of an update, and those that did not
    last             the number of the last update; afterwards nothing is accepted
    token_i          a queue in which worker i waits for the next update

All but the queues is read and written under one lock, so the rules hold whatever happens outside:
a contribution counts if it was computed from the parameters as they still are, and if its worker
has not contributed to the same update before; the one that completes an update also makes it.
A token only wakes a waiting worker. One too many, after a restart, costs a gradient that is dropped
for being the second one; it cannot loosen the barrier. There is no task whose death stops the rest:
whoever comes last does the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.exchanges import Pulled
from trainer.lock import Lock
from trainer.state import SharedState
from trainer.variables import shared_variable

# How the sums of the contributions change the parameters: they are added times a factor, or by a
# function (sums, t) -> operations; t = 1 for the first update.
Update = float | Callable[[Sequence[Any], Any], Sequence[Any]]


@dataclass(frozen=True)
class Contributed:
    """What became of a contribution."""

    accepted: Any  # bool
    staleness: Any  # updates since its pull
    done: Any  # the update that it was for has been made; the worker may go on


@dataclass(frozen=True)
class Tally:
    """How many contributions there were."""

    used: int
    dropped: int


class Collector:
    """The operations by which one worker takes part."""

    def __init__(self, state: SharedState, needed: int, last: int) -> None:
        import tensorflow as tf

        self._state = state
        self._needed = needed
        self._replica = state.replica
        self._device = state.devices[0]
        self._sums = []
        for k, (device, size) in enumerate(zip(state.devices, state.sizes, strict=True)):
            with tf.device(device):
                variable = shared_variable(f"sum_{k}", [size], tf.float32)
            self._sums.append(state.extend(variable, np.zeros(size)))
        workers = state.workers
        with tf.device(self._device):
            self._contributors = self._number("contributors", 0)
            self._used, self._dropped = self._number("used", 0), self._number("dropped", 0)
            self._last = self._number("last", last)
            given = shared_variable("given", [workers], tf.int64)
            self._given = state.extend(given, np.zeros(workers))
            self._tokens = [
                tf.queue.FIFOQueue(-1, [tf.int64], [[]], shared_name=f"token_{i}")
                for i in range(workers)
            ]
            self._tally = [self._used.read_value(), self._dropped.read_value()]
            self._presence = [self._given.read_value(), state.updates.read_value()]
            state.after_stop(self._close())
        self._lock = Lock("collector", self._device)

    def pull(self, after: Sequence[Any] = ()) -> Pulled:
        """x <- x~. The number of updates is read first: if it is still right when the
        contribution arrives, then no update has come between the pieces either."""
        return self._state.pull(after, updates_first=True)

    def contribute(self, vector: Any, pulled: Pulled, steps: Any, update: Update) -> Contributed:
        """Hand in a vector, and wait until the update that it is for has been made."""
        import tensorflow as tf

        parts = []
        for variable, part in zip(self._sums, self._state.cut(vector), strict=True):
            with tf.device(variable.device):
                parts.append(tf.identity(part))
        with tf.device(self._device):
            seen = tf.identity(pulled.updates)
        # Counted before the update, so that whoever sees the update also sees the steps.
        counted = self._state.count_steps(steps, [*parts, seen])
        with tf.device(self._device):  # nothing may go to the worker and back under the lock
            (accepted, staleness), released = self._lock.hold(
                [counted], lambda: self._take(parts, seen, update)
            )
        return Contributed(accepted, staleness, self._wait([released]))

    def tally(self, session: Any) -> Tally:
        """The contributions so far."""
        return Tally(*map(int, session.run(self._tally)))

    def missing(self, session: Any) -> list[int]:
        """The workers that have not contributed to the next update yet."""
        given, updates = session.run(self._presence)
        return [i for i, last in enumerate(given) if last <= updates]

    def _take(
        self, parts: Sequence[Any], seen: Any, update: Update
    ) -> tuple[tuple[Any, Any], Sequence[Any]]:
        """Add a contribution to the sums if it counts; if that makes enough of them, update.

        Numbers that are 0 or 1 stand in for most branches: TensorFlow's take seconds to prepare.
        """
        import tensorflow as tf

        with tf.device(self._device):
            updates, last = self._state.updates.read_value(), self._last.read_value()
            given = self._given.read_value()
            # In a graph `==` compares the Python objects.
            accepted = tf.equal(seen, updates) & (given[self._replica] <= updates)
            accepted &= updates < last
            one = tf.cast(accepted, tf.int64)
            own = tf.one_hot(self._replica, self._state.workers, one, 0, dtype=tf.int64)
            noted = self._given.assign_add(own * (updates + 1 - given), read_value=False)
            dropped = self._dropped.assign_add(1 - one, read_value=False)
            with tf.control_dependencies([noted, dropped]):
                contributors = self._contributors.assign_add(one)
            full = accepted & (contributors >= self._needed)
        sums = []
        for variable, part in zip(self._sums, parts, strict=True):
            with tf.device(variable.device):
                # sum <- sum + part, or + 0, in one pass and in place
                added = tf.raw_ops.ResourceApplyGradientDescent(
                    var=variable.handle, alpha=-tf.cast(accepted, tf.float32), delta=part
                )
                with tf.control_dependencies([added]):
                    sums.append(variable.read_value())
        applied = self._apply(sums, full, updates + 1, update)
        return (accepted, updates - seen), self._next(sums, full, updates, applied)

    def _apply(self, sums: Sequence[Any], full: Any, t: Any, update: Update) -> Sequence[Any]:
        """Change the parameters if the sums are full."""
        import tensorflow as tf

        if isinstance(update, float):
            return self._state.apply_scaled(sums, tf.cast(full, tf.float32) * update)

        def change() -> Any:
            with tf.control_dependencies(list(update(sums, t))):
                return tf.constant(True)

        with tf.device(self._device):
            return [tf.cond(full, change, lambda: tf.constant(False))]

    def _next(
        self, sums: Sequence[Any], full: Any, updates: Any, applied: Sequence[Any]
    ) -> Sequence[Any]:
        """After an update: count it, empty the sums, and wake everyone. Else nothing changes."""
        import tensorflow as tf

        emptied = []
        for variable, total in zip(self._sums, sums, strict=True):
            with tf.device(variable.device), tf.control_dependencies(list(applied)):
                rest = total * (1.0 - tf.cast(full, tf.float32))
                emptied.append(variable.assign(rest, read_value=False))
        with tf.device(self._device):
            one = tf.cast(full, tf.int64)
            with tf.control_dependencies(emptied):
                gone = one * self._needed
                emptied.append(self._contributors.assign_sub(gone, read_value=False))
                emptied.append(self._used.assign_add(gone, read_value=False))
            with tf.control_dependencies(emptied):
                counted = self._state.updates.assign_add(one, read_value=False)
            with tf.control_dependencies([counted]):
                tokens = tf.fill([one], updates + 1)
                return [queue.enqueue_many(tokens) for queue in self._tokens]

    def _wait(self, after: Sequence[Any]) -> Any:
        """Until there is a token; takes all there are. Does not wait once everything is over."""
        import tensorflow as tf

        own = self._tokens[self._replica]
        with tf.device(self._device):
            with tf.control_dependencies(list(after)):
                there = own.size()
            with tf.control_dependencies([there]):
                over = self._state.updates.read_value() >= self._last.read_value()
            count = tf.where(over, 0, tf.maximum(there, 1))
            return own.dequeue_many(count).op

    def _close(self) -> Any:
        """Accept nothing more, and wake everyone."""
        import tensorflow as tf

        closed = self._last.assign(0, read_value=False)
        with tf.control_dependencies([closed]):
            return tf.group(*(queue.enqueue(tf.constant(0, tf.int64)) for queue in self._tokens))

    def _number(self, name: str, first: int) -> Any:
        import tensorflow as tf

        return self._state.extend(shared_variable(name, [], tf.int64), first)
