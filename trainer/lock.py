"""A lock on a parameter server: what is done under it, one worker at a time does.

TensorFlow gives the lock back when the step that holds it ends, however it ends: a worker that is
killed does not keep it. Everything that comes from the worker must have arrived before the lock is
taken (`arrived`), so that nobody waits for a slow worker's network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class Lock:
    """One lock, the same for all workers that give it the same name and device."""

    def __init__(self, name: str, device: str) -> None:
        import tensorflow as tf

        self._device = device
        with tf.device(device):
            self._mutex = tf.raw_ops.MutexV2(shared_name=name)

    def hold(
        self, arrived: Sequence[Any], build: Callable[[], tuple[Any, Sequence[Any]]]
    ) -> tuple[Any, Any]:
        """Build operations that run under the lock, after `arrived` is there.

        `build` returns a result and everything that must be over before the lock is given back;
        this returns the result and the operation that gives it back.
        """
        import tensorflow as tf

        with tf.device(self._device), tf.control_dependencies(list(arrived)):
            held = tf.raw_ops.MutexLock(mutex=self._mutex)
        with tf.control_dependencies([held]):
            result, last = build()
        with tf.device(self._device), tf.control_dependencies(list(last)):
            return result, tf.raw_ops.ConsumeMutexLock(mutex_lock=held)
