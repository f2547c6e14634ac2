"""The algorithms: one file each, loaded by name when it is used.

An algorithm is a module with

    check(cluster, settings)     raises SettingsError, with the reason, where it cannot work
    step(worker, number, after)  builds the graph of one training step: `number` counts this
                                 worker's steps from 0, `after` is what must have happened before

Everything else (data, variables, sessions, evaluation, checkpoints) is the same for all of them.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol

from trainer.cluster import ClusterInfo
from trainer.graph import Step, WorkerGraph
from trainer.settings import Settings

ALGORITHMS = {
    "single": "trainer.algorithms.single",
    "hogwild": "trainer.algorithms.hogwild",
    "async": "trainer.algorithms.hogwild",
}


class Algorithm(Protocol):
    """What an algorithm's module provides."""

    def check(self, cluster: ClusterInfo, settings: Settings) -> None: ...

    def step(self, worker: WorkerGraph, number: Any, after: list[Any]) -> Step: ...


def algorithm_name(settings: Settings, cluster: ClusterInfo) -> str:
    """The algorithm that the settings name, or the natural one for this cluster."""
    return settings.algorithm or ("hogwild" if cluster.ps else "single")


def load_algorithm(settings: Settings, cluster: ClusterInfo) -> Algorithm:
    """The module of the algorithm, after it has agreed to this cluster and these settings."""
    module: Any = importlib.import_module(ALGORITHMS[algorithm_name(settings, cluster)])
    module.check(cluster, settings)
    return module  # type: ignore[no-any-return]
