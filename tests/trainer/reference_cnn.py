"""The convolutional network in NumPy, written to be obviously right: loops over windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.trainer.reference import split

WINDOW, HALF = 5, 2


def convolve(images: np.ndarray, weights: np.ndarray) -> np.ndarray:
    side = images.shape[1]
    padded = np.pad(images, ((0, 0), (HALF, HALF), (HALF, HALF), (0, 0)))
    total = np.zeros((*images.shape[:3], weights.shape[-1]))
    for i in range(WINDOW):
        for j in range(WINDOW):
            total += padded[:, i : i + side, j : j + side] @ weights[i, j]
    return total


def convolve_back(
    images: np.ndarray, weights: np.ndarray, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Gradients by the weights and by the images."""
    side = images.shape[1]
    padded = np.pad(images, ((0, 0), (HALF, HALF), (HALF, HALF), (0, 0)))
    by_weights, by_padded = np.zeros(weights.shape), np.zeros(padded.shape)
    for i in range(WINDOW):
        for j in range(WINDOW):
            part = padded[:, i : i + side, j : j + side]
            by_weights[i, j] = np.einsum("nxyc,nxyf->cf", part, error)
            by_padded[:, i : i + side, j : j + side] += error @ weights[i, j].T
    return by_weights, by_padded[:, HALF:-HALF, HALF:-HALF]


def pool(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest of every 2 x 2, and a mask of where it was (the first, if there are several)."""
    n, side, _, filters = values.shape
    cells = values.reshape(n, side // 2, 2, side // 2, 2, filters).transpose(0, 1, 3, 5, 2, 4)
    flat = cells.reshape(*cells.shape[:4], 4)
    largest = np.zeros_like(flat)
    np.put_along_axis(largest, flat.argmax(-1)[..., None], 1, axis=-1)
    mask = largest.reshape(cells.shape).transpose(0, 1, 4, 2, 5, 3).reshape(values.shape)
    return flat.max(-1), mask


def spread(error: np.ndarray) -> np.ndarray:
    return error.repeat(2, axis=1).repeat(2, axis=2)


def loss_and_gradient(
    vector: np.ndarray,
    shapes: Sequence[tuple[int, ...]],
    images: np.ndarray,
    labels: np.ndarray,
    dropped: np.ndarray,
) -> tuple[float, np.ndarray]:
    """`dropped` multiplies the values of the dense layer."""
    w1, b1, w2, b2, w3, b3, w4, b4 = split(vector.astype(np.float64), shapes)
    first = images.astype(np.float64).reshape(-1, 28, 28, 1)
    sums1 = convolve(first, w1) + b1
    second, mask1 = pool(np.maximum(sums1, 0))
    sums2 = convolve(second, w2) + b2
    third, mask2 = pool(np.maximum(sums2, 0))
    flat = third.reshape(len(labels), -1)
    dense = np.maximum(flat @ w3 + b3, 0)
    kept = dense * dropped
    logits = kept @ w4 + b4
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    chances = exponents / exponents.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))
    loss = float(-np.log(chances[rows, labels]).mean())

    error = chances
    error[rows, labels] -= 1
    error /= len(labels)
    g4 = [kept.T @ error, error.sum(axis=0)]
    error = (error @ w4.T) * dropped * (dense > 0)
    g3 = [flat.T @ error, error.sum(axis=0)]
    error = (error @ w3.T).reshape(third.shape)
    error = spread(error) * mask2 * (sums2 > 0)
    by_w2, error2 = convolve_back(second, w2, error)
    g2 = [by_w2, error.sum(axis=(0, 1, 2))]
    error = spread(error2) * mask1 * (sums1 > 0)
    g1 = [convolve_back(first, w1, error)[0], error.sum(axis=(0, 1, 2))]
    return loss, np.concatenate([g.ravel() for g in (*g1, *g2, *g3, *g4)])
