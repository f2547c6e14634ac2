"""The parameter-server algorithms in NumPy, written to be obviously right, in float64.

`gradient(worker, number, x)` is the gradient of the batch that a worker uses in its step of this
number. Each algorithm is a class with the centre x~ and one method that does one exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.trainer.reference import Optimizer

Gradient = Callable[[int, int, np.ndarray], np.ndarray]


class Algorithm:
    """x~, and how many steps each worker has made."""

    def __init__(self, start: np.ndarray, gradient: Gradient, workers: int, eta: float) -> None:
        self.centre = start.astype(np.float64)
        self.gradient = gradient
        self.eta = eta
        self.steps = [0] * workers

    def grad(self, worker: int, x: np.ndarray) -> np.ndarray:
        self.steps[worker] += 1
        return self.gradient(worker, self.steps[worker] - 1, x)


class Agn(Algorithm):
    def exchange(self, worker: int, window: int) -> None:
        x, a = self.centre.copy(), np.zeros_like(self.centre)
        for _ in range(window):
            g = -self.eta * self.grad(worker, x)
            a += g
            x += g
        self.centre += a / window


class Downpour(Algorithm):
    """A whole turn of n_push and n_fetch, whose least common multiple is `turn`."""

    rule: Optimizer

    def exchange(self, worker: int, turn: int, n_push: int, n_fetch: int) -> None:
        x, a = self.centre.copy(), np.zeros_like(self.centre)
        for step in range(1, turn + 1):
            g = self.grad(worker, x)
            a += g
            x -= self.eta * g
            if step % n_push == 0:
                self.centre = self.rule.update(self.centre, a)
                a = np.zeros_like(a)
            if step % n_fetch == 0:
                x = self.centre.copy()


class Dynsgd(Algorithm):
    def exchange(self, worker: int, window: int, staleness: int = 0) -> None:
        x = self.centre.copy()
        for _ in range(window):
            x -= self.eta * self.grad(worker, x)
        self.centre = self.centre + (x - self.centre) / (staleness + 1)


class Elastic(Algorithm):
    """aeasgd, and aeamsgd with a delta: every worker has its own x and v."""

    alpha, delta = 0.0, 0.0

    def begin(self) -> None:
        self.own = [self.centre.copy() for _ in self.steps]
        self.velocity = [np.zeros_like(self.centre) for _ in self.steps]

    def exchange(self, worker: int, window: int) -> None:
        x, v = self.own[worker], self.velocity[worker]
        for _ in range(window):
            v = self.delta * v
            x = x + v
            g = self.grad(worker, x)
            x = x - self.eta * g
            v = v - self.eta * g
        d = self.alpha * (x - self.centre)
        self.centre = self.centre + d
        self.own[worker], self.velocity[worker] = x - d, v


class Sync(Algorithm):
    rule: Optimizer

    def exchange(self, workers: Sequence[int], rates: Sequence[float] | None = None) -> None:
        gradients = [self.grad(worker, self.centre) for worker in workers]
        if rates:
            scaled = [rates[i] * g for i, g in zip(workers, gradients, strict=True)]
            self.centre = self.centre - np.mean(scaled, axis=0)
        else:
            self.centre = self.rule.update(self.centre, np.mean(gradients, axis=0))


class Sagn(Algorithm):
    rule: Optimizer

    def exchange(self, workers: Sequence[int], window: int) -> None:
        means = []
        for worker in workers:
            x, a = self.centre.copy(), np.zeros_like(self.centre)
            for _ in range(window):
                g = self.grad(worker, x)
                a += g
                x -= self.eta * g
            means.append(a / window)
        self.centre = self.rule.update(self.centre, np.mean(means, axis=0))


class Easgd(Algorithm):
    alpha = 0.0

    def begin(self) -> None:
        self.own = [self.centre.copy() for _ in self.steps]

    def exchange(self, window: int = 1) -> None:
        changes = []
        for worker in range(len(self.steps)):
            for _ in range(window - 1):
                x = self.own[worker]
                self.own[worker] = x - self.eta * self.grad(worker, x)
            x = self.own[worker]
            d = self.alpha * (x - self.centre)
            self.own[worker] = x - self.eta * self.grad(worker, x) - d
            changes.append(d)
        self.centre = self.centre + np.sum(changes, axis=0)
