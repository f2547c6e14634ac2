"""Exchanges with the shared parameters: pull, push, and what they are made of.

Every operation runs on the device of the variable that it reads or changes, so that as little as
possible travels: the parameters one way, a gradient or a change the other, and one small message
with all the numbers at the end of a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.optimizers import Optimizer
from trainer.variables import read_there


@dataclass(frozen=True)
class Pulled:
    """The parameters as one worker saw them, and how many updates they had had by then."""

    vector: Any
    updates: Any
    pieces: Sequence[Any] = ()  # the vector, as it is cut


@dataclass(frozen=True)
class Pushed:
    """The operation that finished an update, and the number of that update."""

    operation: Any
    updates: Any

    def since(self, pulled: Pulled) -> Any:
        """How many updates by others there were between a pull and this push.

        Computed where the counter is: on the worker it would take two more messages.
        """
        import tensorflow as tf

        with tf.device(self.updates.device):
            return self.updates - 1 - pulled.updates


class Exchanges:
    """The operations of algorithms on the shared state (see state.py, which has its variables)."""

    workers: int
    replica: int
    sizes: list[int]  # of the pieces
    _optimizers: Sequence[Optimizer]  # of the pieces
    _pieces: list[Any]
    _slots: list[list[Any]]  # [piece][slot]
    _counter_device: str
    _updates: Any
    _steps: Any
    _stop: Any

    def pull(self, after: Sequence[Any] = (), updates_first: bool = False) -> Pulled:
        """x <- x~, after the given operations. Pieces are read one by one, without a lock."""
        import tensorflow as tf

        with tf.control_dependencies(list(after)):
            updates = read_there(self._updates)
            with tf.control_dependencies([updates] if updates_first else []):
                pieces = [read_there(piece) for piece in self._pieces]
        vector = tf.concat(pieces, axis=0) if len(pieces) > 1 else pieces[0]
        return Pulled(vector, updates, pieces)

    def push(self, gradient: Any, pulled: Pulled, steps: Any = 1) -> Pushed:
        """Apply a gradient where the parameters live, then count the update and the step."""
        return self.push_pieces(self.cut(gradient), pulled, steps)

    def push_pieces(self, parts: Sequence[Any], pulled: Pulled, steps: Any = 1) -> Pushed:
        """`push` of a gradient that is cut like the parameters; `steps` is what it counts for."""
        import tensorflow as tf

        with tf.device(self._counter_device):
            t = pulled.updates + 1
        # The pull's number has to be read before this update counts, or staleness would be wrong.
        return self.count(steps, [*self.apply(parts, t), pulled.updates.op])

    def add(self, change: Any, pulled: Pulled, steps: Any = 1) -> Pushed:
        """x~ <- x~ + change, then count the update and the steps."""
        return self.count(steps, [*self.apply_changes(self.cut(change)), pulled.updates.op])

    def add_towards(self, x: Any, alpha: float, steps: Any = 1) -> tuple[Any, Pushed]:
        """d = alpha (x - x~);  x~ <- x~ + d, computed where the parameters live; (d, the push)."""
        import tensorflow as tf

        changes = []
        for piece, part in zip(self._pieces, self.cut(x), strict=True):
            with tf.device(piece.device):
                changes.append(alpha * (part - piece.read_value()))
        pushed = self.count(steps, self.apply_changes(changes))
        return tf.concat(changes, axis=0) if len(changes) > 1 else changes[0], pushed

    # What they are made of, for algorithms that put an exchange together themselves.

    def cut(self, vector: Any) -> list[Any]:
        """A flat vector in pieces like the parameters."""
        import tensorflow as tf

        return list(tf.split(vector, self.sizes)) if len(self._pieces) > 1 else [vector]

    def apply(self, parts: Sequence[Any], t: Any) -> list[Any]:
        """Change each piece by the optimizer's rule; t = 1 for the first update."""
        import tensorflow as tf

        applied = []
        together = zip(self._optimizers, self._pieces, self._slots, parts, strict=True)
        for optimizer, piece, slots, part in together:
            with tf.device(piece.device):
                applied.append(optimizer.apply(piece, slots, part, t))
        return applied

    def apply_changes(self, parts: Sequence[Any]) -> list[Any]:
        """Add to each piece."""
        import tensorflow as tf

        applied = []
        for piece, part in zip(self._pieces, parts, strict=True):
            with tf.device(piece.device):
                applied.append(piece.assign_add(part, read_value=False))
        return applied

    def apply_scaled(self, parts: Sequence[Any], factor: Any) -> list[Any]:
        """Add to each piece, times a factor, in one go."""
        import tensorflow as tf

        applied = []
        for piece, part in zip(self._pieces, parts, strict=True):
            with tf.device(piece.device):
                applied.append(
                    tf.raw_ops.ResourceApplyGradientDescent(
                        var=piece.handle, alpha=-factor, delta=part, use_locking=False
                    )
                )
        return applied

    def count(self, steps: Any, applied: Sequence[Any]) -> Pushed:
        """Count an update that is done, and the worker's steps that it is made of."""
        import tensorflow as tf

        counted = self.count_steps(steps, applied)
        with tf.device(self._counter_device), tf.control_dependencies(list(applied)):
            updates = tf.convert_to_tensor(self._updates.assign_add(1))
            done = tf.group(counted, updates)
        return Pushed(done, updates)

    def count_steps(self, steps: Any, after: Sequence[Any]) -> Any:
        """Count steps of this worker."""
        import tensorflow as tf

        own = np.eye(self.workers, dtype=np.int64)[self.replica] * steps
        with tf.device(self._counter_device), tf.control_dependencies(list(after)):
            return self._steps.assign_add(own, read_value=False)

    def packed(self, after: Any, staleness: Sequence[Any]) -> Any:
        """Everything small that a worker wants to know after a call, as one message.

        [updates, stop, steps of each worker, all values of staleness]
        """
        import tensorflow as tf

        with tf.device(self._counter_device):
            with tf.control_dependencies(tf.nest.flatten(after)):
                small = [self._updates.read_value(), self._stop.read_value()]
                steps = self._steps.read_value()
            flat = tf.nest.flatten(staleness)
            values = [tf.reshape(tf.cast(value, tf.int64), [-1]) for value in flat]
            return tf.concat([tf.stack(small), steps, *values], axis=0)

    def unpacked(self, values: np.ndarray) -> tuple[int, bool, np.ndarray, np.ndarray]:
        """(updates, stop, steps, staleness) from what `packed` made."""
        steps, staleness = np.split(values[2:], [self.workers])
        return int(values[0]), bool(values[1]), steps, staleness
