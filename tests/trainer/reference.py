"""The same networks and optimizers in NumPy, written to be obviously right."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

ACTIVATIONS = {
    "sigmoid": (lambda z: 1 / (1 + np.exp(-z)), lambda a: a * (1 - a)),
    "tanh": (np.tanh, lambda a: 1 - a**2),
    "relu": (lambda z: np.maximum(z, 0), lambda a: (a > 0).astype(a.dtype)),
}


def split(vector: np.ndarray, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    parts, start = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        parts.append(vector[start : start + size].reshape(shape))
        start += size
    return parts


def loss_and_gradient(
    vector: np.ndarray,
    shapes: Sequence[tuple[int, ...]],
    activation: str,
    images: np.ndarray,
    labels: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Mean softmax cross entropy and its gradient, by hand, in float64."""
    parameters = split(vector.astype(np.float64), shapes)
    function, slope = ACTIVATIONS[activation]
    values = [images.astype(np.float64)]
    for weights, biases in zip(parameters[0:-2:2], parameters[1:-2:2], strict=True):
        values.append(function(values[-1] @ weights + biases))
    logits = values[-1] @ parameters[-2] + parameters[-1]
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances = exponents / exponents.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(chances[rows, labels]).mean())

    error = chances.copy()
    error[rows, labels] -= 1
    error /= len(labels)
    gradients: list[np.ndarray] = []
    for layer in reversed(range(len(values))):
        gradients = [values[layer].T @ error, error.sum(axis=0), *gradients]
        if layer:
            error = (error @ parameters[2 * layer].T) * slope(values[layer])
    return loss, np.concatenate([g.ravel() for g in gradients])


class Optimizer:
    """One of the four rules, with its memory."""

    def __init__(self, name: str, rate: float, size: int, momentum: float = 0.9) -> None:
        self.name, self.rate, self.momentum, self.t = name, rate, momentum, 0
        self.first = np.full(size, 0.1 if name == "adagrad" else 0.0)
        self.second = np.zeros(size)

    def update(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        self.t += 1
        if self.name == "sgd":
            return x - self.rate * g
        if self.name == "momentum":
            self.first = self.momentum * self.first + g
            return x - self.rate * self.first
        if self.name == "adagrad":
            self.first = self.first + g**2
            return x - self.rate * g / (np.sqrt(self.first) + 1e-7)
        self.first = 0.9 * self.first + 0.1 * g
        self.second = 0.999 * self.second + 0.001 * g**2
        rate = self.rate * np.sqrt(1 - 0.999**self.t) / (1 - 0.9**self.t)
        return x - rate * self.first / (np.sqrt(self.second) + 1e-8)
