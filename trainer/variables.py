"""Variables that several tasks share: one for each name and device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def over_variable(index: int) -> Any:
    """The variable that tells ps task `index` to end."""
    import tensorflow as tf

    return shared_variable(f"over_{index}", [], tf.int64)


def read_there(variable: Any) -> Any:
    """The value, still on the variable's device: only who uses it elsewhere has it sent."""
    import tensorflow as tf

    with tf.device(variable.device):
        return variable.read_value()


def assign_of(variable: Any) -> tuple[Any, Any]:
    """A placeholder, and the operation that gives the variable the value fed there."""
    import tensorflow as tf

    feed = tf.compat.v1.placeholder(variable.dtype, variable.shape)
    return feed, variable.assign(feed, read_value=False)


def shared_variable(name: str, shape: Sequence[int], dtype: Any) -> Any:
    """A variable on the device that is set around this call, the same for all who name it so."""
    import tensorflow as tf

    return tf.compat.v1.get_variable(
        name,
        shape,
        dtype,
        initializer=tf.compat.v1.zeros_initializer(),
        trainable=False,
        use_resource=True,
    )
