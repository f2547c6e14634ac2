"""Networks as pure functions of a list of parameters.

A model knows the shapes of its parameters and computes logits from them; it owns no variables. So
the same model works with parameters that live on a parameter server, in a local copy, or in a file.
For the wire, the list becomes one flat vector: one large message costs much less than many small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.data import Examples, normalised
from trainer.settings import Settings

PIXELS, CLASSES = 784, 10
EVALUATION_BATCH = 1000


@dataclass(frozen=True)
class Model:
    """Shapes of the parameters, and `forward(parameters, images) -> logits`."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    forward: Callable[[Sequence[Any], Any], Any]

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

    def loss(self, parameters: Sequence[Any], images: Any, labels: Any) -> Any:
        """Mean softmax cross entropy of a batch."""
        import tensorflow as tf

        logits = self.forward(parameters, images)
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )

    def gradient(self, vector: Any, images: Any, labels: Any) -> tuple[Any, Any]:
        """The loss of a batch and its gradient, flat like `vector` (graph mode only)."""
        import tensorflow as tf

        # Differentiating by the list and joining once is cheaper than differentiating by the
        # vector, which would pad every parameter's gradient to full length and add them up.
        parameters = self.split(vector)
        loss = self.loss(parameters, images, labels)
        return loss, self.join(tf.gradients(loss, parameters))

    def initial(self, seed: int, init: str) -> np.ndarray:
        """The flat vector that training starts from; the same seed gives the same vector."""
        random = np.random.default_rng(seed)
        return np.concatenate([_initial(random, shape, init).ravel() for shape in self.shapes])


def model_from(settings: Settings) -> Model:
    """The model that the settings name."""
    return build_model(settings.model, settings.hidden, settings.activation)


def build_model(name: str, hidden: Sequence[int] = (100,), activation: str = "sigmoid") -> Model:
    """`softmax` has no hidden layer; `mlp` has one for each width in `hidden`."""
    widths = (PIXELS, *(hidden if name == "mlp" else ()), CLASSES)
    shapes: list[tuple[int, ...]] = []
    for inputs, outputs in itertools.pairwise(widths):
        shapes += [(inputs, outputs), (outputs,)]

    def forward(parameters: Sequence[Any], images: Any) -> Any:
        import tensorflow as tf

        function = {"sigmoid": tf.sigmoid, "tanh": tf.tanh, "relu": tf.nn.relu}[activation]
        layers = list(zip(parameters[::2], parameters[1::2], strict=True))
        values = images
        for weights, biases in layers[:-1]:
            values = function(tf.matmul(values, weights) + biases)
        weights, biases = layers[-1]
        return tf.matmul(values, weights) + biases

    return Model(name, tuple(shapes), forward)


def evaluate(model: Model, vector: np.ndarray, examples: Examples) -> tuple[float, float]:
    """Accuracy and mean cross entropy over all the examples, with the given parameters."""
    import tensorflow as tf

    right, cost = 0, 0.0
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
    limit = math.sqrt(6.0 / sum(shape))
    return random.uniform(-limit, limit, shape).astype(np.float32)
