"""Sweep: a grid of settings, one network for each, side by side on the local devices.

    for every network k with settings k:   x_k <- x_k - eta_k g(x_k)

The grid is every combination of `sweep_learning_rates`, `sweep_hidden` and `sweep_seeds`. The best
network is the one with the highest accuracy on the held-out images (`validation_size`); its test
accuracy is the run's, and its weights are the ones that are saved. result.json lists all of them.

Paper: none for the idea; J. Bergstra, Y. Bengio, "Random Search for Hyper-Parameter Optimization",
2012, describe grid search and what is better where there are many settings.

Deviations:
* A network's training is the one of `single` with the same settings, batch by batch.
* Networks keep in step: none begins its next step before all have made this one.
* A network whose gradient is no longer finite stands still instead of ending the run.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from trainer.algorithms.roles import need_one_process
from trainer.cluster import ClusterInfo
from trainer.data import Mnist
from trainer.errors import SettingsError
from trainer.graph import Step, WorkerGraph
from trainer.layout import Layout
from trainer.models import Judged
from trainer.networks import Networks, gradients, networks_layout, report_cards
from trainer.settings import Settings

MOST_NETWORKS = 64


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """One worker and nobody else, something to try, and images to choose by."""
    need_one_process(cluster, "sweep")
    if len(grid(settings)) < 2:
        raise SettingsError(
            "algorithm sweep has nothing to compare; give sweep_learning_rates, sweep_hidden or "
            "sweep_seeds two values or more"
        )
    if len(grid(settings)) > MOST_NETWORKS:
        raise SettingsError(f"the grid has {len(grid(settings))} networks, at most {MOST_NETWORKS}")
    if settings.sweep_hidden and settings.model != "mlp":
        raise SettingsError(f"sweep_hidden is for mlp; {settings.model} has no widths to choose")
    if not settings.validation_size:
        raise SettingsError("algorithm sweep chooses by the held-out images: set validation_size")


def grid(settings: Settings) -> list[Settings]:
    """Every combination, the learning rate changing slowest."""
    rates = settings.sweep_learning_rates or (settings.learning_rate,)
    widths = [(w,) for w in settings.sweep_hidden] if settings.sweep_hidden else [settings.hidden]
    seeds = settings.sweep_seeds or (settings.seed,)
    return [
        replace(settings, learning_rate=rate, hidden=width, seed=seed)
        for rate, width, seed in itertools.product(rates, widths, seeds)
    ]


def layout(cluster: ClusterInfo, settings: Settings) -> Layout:
    """A network for every point of the grid."""
    return networks_layout(cluster, settings, grid(settings))


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """One step of every network; the loss told is the best network's."""
    import tensorflow as tf

    x = worker.state.pull(after)
    losses, found = gradients(worker, number, x)
    finite = [tf.where(tf.math.is_finite(g), g, 0.0) for g in found]
    pushed = worker.state.push_pieces(finite, x)  # x_k <- x_k - eta_k g_k
    stack = tf.stack(losses)
    best = tf.reduce_min(tf.where(tf.math.is_finite(stack), stack, float("inf")))
    return Step(best, pushed.updates - 1 - x.updates, pushed.operation)


def judge(model: Networks, vector: np.ndarray, data: Mnist) -> Judged:
    """The network that does best on the held-out images."""
    cards = report_cards(model, vector, data)
    best = max(range(len(cards)), key=lambda k: (cards[k]["accuracy"], -cards[k]["cost"]))
    return Judged(
        model=model.models[best],
        vector=model.parts(vector)[best],
        details={"networks": cards, "best": {"network": best, **cards[best]}},
        meta={"hidden": list(model.members[best].hidden)},
    )
