"""The algorithms: one file each, loaded by name when it is used.

An algorithm is a module with

    check(cluster, settings)     raises SettingsError, with the reason, where it cannot work
    step(worker, number, after)  builds the graph of one training step: `number` counts this
                                 worker's steps from 0, `after` is what must have happened before

Everything else (data, variables, sessions, evaluation, checkpoints) is the same for all of them.
A module may also have

    scheme(cluster, settings)    how often its workers exchange, if not at every step, and whether
                                 they wait for each other
    layout(cluster, settings)    where its graph keeps parameters and data, if not as usual
    SERVING                      the roles that only serve in it, if not just ps
    make_run(job)                another implementation of the verbs of the training loop, for
                                 TF2's strategies, which have no sessions; it needs no `step`
    judge(model, vector, data)   which network to evaluate and save, for those that train several
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any, Protocol

from trainer.algorithms.needs import refuse_unused
from trainer.cluster import ClusterInfo
from trainer.graph import Step, WorkerGraph
from trainer.settings import Settings

ALGORITHMS = {
    "single": "trainer.algorithms.single",
    "hogwild": "trainer.algorithms.hogwild",
    "async": "trainer.algorithms.hogwild",
    "sync": "trainer.algorithms.sync",
    "downpour": "trainer.algorithms.downpour",
    "downpour-sgd": "trainer.algorithms.downpour_sgd",
    "agn": "trainer.algorithms.agn",
    "sagn": "trainer.algorithms.sagn",
    "dynsgd": "trainer.algorithms.dynsgd",
    "easgd": "trainer.algorithms.easgd",
    "aeasgd": "trainer.algorithms.aeasgd",
    "aeamsgd": "trainer.algorithms.aeamsgd",
    "allreduce": "trainer.algorithms.allreduce",
    "coordinator": "trainer.algorithms.coordinator",
    "in-graph": "trainer.algorithms.in_graph",
    "model-parallel": "trainer.algorithms.model_parallel",
    "towers": "trainer.algorithms.towers",
    "sweep": "trainer.algorithms.sweep",
    "ensemble": "trainer.algorithms.ensemble",
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
    refuse_unused(algorithm_name(settings, cluster), settings)
    module.check(cluster_for(module, cluster), settings)
    return module  # type: ignore[no-any-return]


def cluster_for(algorithm: Any, cluster: ClusterInfo) -> ClusterInfo:
    """The cluster as the algorithm sees it: where a chief drives, the workers only serve."""
    if "chief" not in cluster.jobs:
        return cluster
    return replace(cluster, serving=getattr(algorithm, "SERVING", cluster.serving))
