"""Local steps: several of them between two exchanges, in one call into TensorFlow.

A worker makes them on a copy of the parameters in its own memory. Each step of the loop has a
forward pass of its own, at the parameters that the step before it left behind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainer.graph import WorkerGraph

Rule = Callable[..., Sequence["Parts"]]


class Parts(tuple[Any, ...]):
    """A vector as the parameters of the network: arithmetic as of a vector, without joining them.

    Joining and splitting the vector in every step would cost a fifth of the time of a step.
    """

    def __add__(self, other: Parts) -> Parts:  # type: ignore[override]
        return Parts(a + b for a, b in zip(self, other, strict=True))

    def __sub__(self, other: Parts) -> Parts:
        return Parts(a - b for a, b in zip(self, other, strict=True))

    def __rmul__(self, factor: Any) -> Parts:  # type: ignore[override]
        return Parts(factor * a for a in self)


@dataclass(frozen=True)
class LocalSteps:
    """What some local steps leave behind."""

    losses: Any  # one for each step
    values: tuple[Any, ...]  # the vectors that the rule works on, as they are after the last step


def local_steps(
    worker: WorkerGraph, first: Any, rule: Rule, *vectors: Any, count: Any = None
) -> LocalSteps:
    """Apply `rule(gradient, *values) -> values` once per step, `worker.window` times.

    `gradient(x)` is the gradient of the step's own batch at x; `first` is the number of the first
    batch. The rule sees the vectors in parts.
    """
    import tensorflow as tf

    count = tf.cast(worker.window if count is None else count, tf.int32)
    # Without the copy every step of the loop would wait for a message from the parameter server.
    start = [Parts(worker.model.split(tf.identity(vector))) for vector in vectors]

    def body(i: Any, losses: Any, values: list[Parts]) -> tuple[Any, Any, list[Parts]]:
        images, labels = worker.batches.batch(first + tf.cast(i, tf.int64))
        seen: list[Any] = []

        def gradient(x: Parts) -> Parts:
            loss, gradients = worker.model.gradients(x, images, labels)
            seen.append(loss)
            return Parts(gradients)

        values = list(rule(gradient, *map(Parts, values)))
        return i + 1, losses.write(i, seen[0]), [tuple(value) for value in values]

    _, losses, ended = tf.while_loop(
        lambda i, *_: i < count,
        body,
        (tf.constant(0), tf.TensorArray(tf.float32, count), [tuple(value) for value in start]),
        parallel_iterations=1,
    )
    return LocalSteps(losses.stack(), tuple(worker.model.join(value) for value in ended))


class LocalVariables:
    """Vectors that a worker keeps from one call to the next, in its own memory.

    They do not outlive their worker, and are no part of a checkpoint: `reset`, which is run
    whenever a worker joins, gives them their first values.
    """

    def __init__(self, state: Any, size: int) -> None:
        self._state = state
        self._size = size
        self._variables: dict[str, Any] = {}
        self._resets: list[Any] = []

    def like_parameters(self, name: str) -> Any:
        """A vector that starts as a copy of the shared parameters."""
        return self._made(name, lambda: self._state.pull().vector)

    def zeros(self, name: str) -> Any:
        """A vector that starts with zeros."""
        import tensorflow as tf

        return self._made(name, lambda: tf.zeros([self._size]))

    def reset(self, session: Any) -> None:
        """Give each its first value."""
        session.run(self._resets)

    @property
    def values(self) -> dict[str, Any]:
        """The variables by name."""
        return dict(self._variables)

    def _made(self, name: str, first: Callable[[], Any]) -> Any:
        import tensorflow as tf

        if name not in self._variables:
            with tf.control_dependencies(None):
                variable = tf.compat.v1.get_variable(
                    f"local_{name}", [self._size], trainable=False, use_resource=True
                )
                self._variables[name] = variable
                self._resets.append(variable.assign(first(), read_value=False))
        return self._variables[name]
