"""The layers that networks are made of, each a pure function of its own parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

PIXELS, CLASSES = 784, 10
WINDOW = 5  # of a convolution


@dataclass(frozen=True)
class Layer:
    """Shapes of the parameters, and `apply(parameters, values) -> values`."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    apply: Callable[[Sequence[Any], Any], Any]


def dense(inputs: int, outputs: int, activation: str | None) -> Layer:
    """Every value into every unit; no activation makes logits."""

    def apply(parameters: Sequence[Any], values: Any) -> Any:
        import tensorflow as tf

        weights, biases = parameters
        sums = tf.matmul(values, weights) + biases
        functions = {"sigmoid": tf.sigmoid, "tanh": tf.tanh, "relu": tf.nn.relu}
        return functions[activation](sums) if activation else sums

    return Layer(f"dense {inputs}-{outputs}", ((inputs, outputs), (outputs,)), apply)


def convolution(side: int, inputs: int, filters: int) -> Layer:
    """A rectified convolution that keeps the side of the images, then a pool that halves it.

    Values come in and go out flat, [batch, side * side * channels], so that layers can be
    cut apart anywhere.
    """

    def apply(parameters: Sequence[Any], values: Any) -> Any:
        import tensorflow as tf

        weights, biases = parameters
        images = tf.reshape(values, [-1, side, side, inputs])
        sums = tf.nn.conv2d(images, weights, strides=1, padding="SAME") + biases
        pooled = tf.nn.max_pool2d(tf.nn.relu(sums), ksize=2, strides=2, padding="SAME")
        return tf.reshape(pooled, [-1, (side // 2) ** 2 * filters])

    shapes = ((WINDOW, WINDOW, inputs, filters), (filters,))
    return Layer(f"convolution {inputs}-{filters}", shapes, apply)
