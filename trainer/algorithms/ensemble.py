"""Ensemble: networks that differ only in their seed, one per device; their predictions averaged.

    for every network k:   x_k <- x_k - eta g(x_k),  from first weights and batches of its own
    prediction             p(y | image) = mean_k p_k(y | image)

Paper: L. K. Hansen, P. Salamon, "Neural Network Ensembles", 1990.

Deviations:
* Probabilities are averaged; the paper takes votes.
* All networks have the same shape, and see all of the data, each in an order of its own.
* Networks keep in step: none begins its next step before all have made this one.

`networks` says how many (left out: one for each device); network k has seed `seed + k`. The file
of weights holds all of them, and `python -m trainer eval` averages them again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from trainer.algorithms.roles import need_one_process
from trainer.cluster import ClusterInfo
from trainer.data import Mnist
from trainer.devices import local_devices
from trainer.graph import Step, WorkerGraph
from trainer.layout import Layout
from trainer.models import Judged
from trainer.networks import Networks, gradients, networks_layout, report_cards
from trainer.settings import Settings


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """One worker and nobody else."""
    need_one_process(cluster, "ensemble")


def members(settings: Settings, count: int) -> list[Settings]:
    """The settings of each network."""
    return [replace(settings, seed=settings.seed + k) for k in range(count)]


def layout(cluster: ClusterInfo, settings: Settings) -> Layout:
    """A network for every device, or as many as were asked for."""
    count = settings.networks or len(local_devices(cluster, settings))
    return networks_layout(cluster, settings, members(settings, count))


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """One step of every network."""
    import tensorflow as tf

    x = worker.state.pull(after)
    losses, found = gradients(worker, number, x)
    pushed = worker.state.push_pieces(found, x)  # x_k <- x_k - eta g_k
    return Step(tf.add_n(losses) / len(losses), pushed.updates - 1 - x.updates, pushed.operation)


def judge(model: Networks, vector: np.ndarray, data: Mnist) -> Judged:
    """All of them together; each by itself goes into result.json."""
    cards = report_cards(model, vector, data) if len(data.validation) else []
    return Judged(model, vector, {"networks": cards}, {"networks": len(model.members)})
