"""Networks as pure functions of a list of parameters.

A model knows the shapes of its parameters and computes logits from them; it owns no variables. So
the same model works with parameters that live on a parameter server, in a local copy, or in a file.
For the wire, the list becomes one flat vector: one large message costs much less than many small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trainer.data import Examples, normalised
from trainer.layers import CLASSES, PIXELS, Layer, convolution, dense
from trainer.settings import Settings

EVALUATION_BATCH = 1000


@dataclass(frozen=True)
class Model:
    """Layers one after the other, and what training and evaluation need to know of them."""

    name: str
    layers: tuple[Layer, ...]
    dropout: float = 0.0  # of the values before the last layer, in training only
    seed: int = 0  # of dropout

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of all parameters, in the order in which they travel."""
        return tuple(shape for layer in self.layers for shape in layer.shapes)

    @property
    def sizes(self) -> list[int]:
        """The number of elements of each parameter."""
        return [math.prod(shape) for shape in self.shapes]

    @property
    def size(self) -> int:
        """The length of the flat vector."""
        return sum(self.sizes)

    def split(self, vector: Any) -> list[Any]:
        """The flat vector (a tensor) as a list of parameters."""
        import tensorflow as tf

        pieces = tf.split(vector, self.sizes)
        return [tf.reshape(p, s) for p, s in zip(pieces, self.shapes, strict=True)]

    def join(self, parameters: Sequence[Any]) -> Any:
        """The list of parameters (tensors) as one flat vector."""
        import tensorflow as tf

        return tf.concat([tf.reshape(p, [-1]) for p in parameters], axis=0)

    def forward(self, parameters: Sequence[Any], images: Any, mask: Any = None) -> Any:
        """Logits of a batch; `mask` multiplies the values before the last layer (dropout)."""
        parameters, values = list(parameters), images
        for layer in self.layers:
            own, parameters = parameters[: len(layer.shapes)], parameters[len(layer.shapes) :]
            if layer is self.layers[-1] and mask is not None:
                values = values * mask
            values = layer.apply(own, values)
        return values

    def loss(self, parameters: Sequence[Any], images: Any, labels: Any) -> Any:
        """Mean softmax cross entropy of a batch, as training sees it: with dropout."""
        return mean_cost(self.forward(parameters, images, self.mask(images, labels)), labels)

    def mask(self, images: Any, labels: Any) -> Any:
        """The dropout mask of a batch: 0 or 1 / (1 - dropout); None for a model without dropout.

        Its seed is made from the batch, so that a training step is a pure function of parameters
        and batch: the same after a restart, another one for every batch, in every algorithm.
        """
        import tensorflow as tf

        if not self.dropout:
            return None
        places = tf.range(1, tf.shape(labels)[0] + 1, dtype=tf.int32)
        pixels = tf.cast(tf.reduce_sum(tf.round(images * 255.0)), tf.int32)
        mark = tf.reduce_sum(places * tf.cast(labels, tf.int32))
        shape = [tf.shape(images)[0], self.layers[-1].shapes[0][0]]
        chance = tf.random.stateless_uniform(shape, tf.stack([self.seed + mark, pixels]))
        return tf.where(chance >= self.dropout, 1.0 / (1.0 - self.dropout), 0.0)

    def gradient(self, vector: Any, images: Any, labels: Any) -> tuple[Any, Any]:
        """The loss of a batch and its gradient, flat like `vector` (graph mode only)."""
        # Differentiating by the list and joining once is cheaper than differentiating by the
        # vector, which would pad every parameter's gradient to full length and add them up.
        loss, gradients = self.gradients(self.split(vector), images, labels)
        return loss, self.join(gradients)

    def gradients(self, parameters: Sequence[Any], images: Any, labels: Any) -> tuple[Any, Any]:
        """The loss of a batch and its gradient by each parameter (graph mode only)."""
        import tensorflow as tf

        loss = self.loss(parameters, images, labels)
        return loss, tf.gradients(loss, list(parameters))

    def initial(self, seed: int, init: str) -> np.ndarray:
        """The flat vector that training starts from; the same seed gives the same vector."""
        random = np.random.default_rng(seed)
        return np.concatenate([_initial(random, shape, init).ravel() for shape in self.shapes])


@dataclass(frozen=True)
class Judged:
    """The network to evaluate and to save, and what else is to be said about it."""

    model: Model
    vector: np.ndarray
    details: dict[str, Any] = field(default_factory=dict)  # for result.json
    meta: dict[str, Any] = field(default_factory=dict)  # for the file of weights


def model_from(settings: Settings) -> Model:
    """The model that the settings name."""
    return build_model(
        settings.model, settings.hidden, settings.activation, settings.dropout, settings.seed
    )


def build_model(
    name: str,
    hidden: Sequence[int] = (100,),
    activation: str = "sigmoid",
    dropout: float = 0.5,
    seed: int = 0,
) -> Model:
    """`softmax` has no hidden layer, `mlp` one for each width in `hidden`.

    `cnn` is the network of TensorFlow's old tutorial "Deep MNIST for experts": two convolutions
    of 5 x 5 with 32 and 64 filters, each with a pool of 2 x 2, 1024 rectified units, dropout.
    """
    if name == "cnn":
        return cnn((32, 64), 1024, dropout, seed)
    widths = [PIXELS, *(hidden if name == "mlp" else ())]
    layers = [dense(a, b, activation) for a, b in itertools.pairwise(widths)]
    return Model(name, (*layers, dense(widths[-1], CLASSES, None)))


def cnn(filters: tuple[int, int], units: int, dropout: float, seed: int) -> Model:
    """The deep MNIST network with other numbers of filters and units."""
    layers = (
        convolution(28, 1, filters[0]),
        convolution(14, filters[0], filters[1]),
        dense(7 * 7 * filters[1], units, "relu"),
        dense(units, CLASSES, None),
    )
    return Model("cnn", layers, dropout, seed)


def mean_cost(logits: Any, labels: Any) -> Any:
    """Mean softmax cross entropy."""
    import tensorflow as tf

    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def evaluate(model: Model, vector: np.ndarray, examples: Examples) -> tuple[float, float]:
    """Accuracy and mean cross entropy over all the examples, with the given parameters."""
    import tensorflow as tf

    right, cost = 0, 0.0
    # Without a device name TensorFlow would choose one of several virtual ones as it likes.
    with tf.device("/device:GPU:0" if tf.config.list_physical_devices("GPU") else "/device:CPU:0"):
        parameters = model.split(tf.constant(vector))
        for start in range(0, len(examples), EVALUATION_BATCH):
            part = examples.part(slice(start, start + EVALUATION_BATCH))
            logits = model.forward(parameters, normalised(tf.constant(part.images)))
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=part.labels.astype(np.int32), logits=logits
            )
            right += int(np.sum(np.argmax(logits.numpy(), axis=1) == part.labels))
            cost += float(tf.reduce_sum(losses))
    return right / len(examples), cost / len(examples)


def _initial(random: np.random.Generator, shape: tuple[int, ...], init: str) -> np.ndarray:
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    if init == "normal":
        return random.standard_normal(shape, np.float32)
    # Glorot: a weight of a convolution is used once for every place of its window.
    limit = math.sqrt(6.0 / (math.prod(shape[:-2]) * sum(shape[-2:])))
    return random.uniform(-limit, limit, shape).astype(np.float32)
