"""A cluster inside this process: real servers and sessions, and steps in an order of our choice."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from tests.trainer.harness import free_ports
from trainer.algorithms import load_algorithm
from trainer.cluster import cluster_from
from trainer.data import load_mnist
from trainer.graph import Outcome, WorkerGraph
from trainer.scheme import scheme_of
from trainer.session import start_server
from trainer.settings import settings_from

TRAIN = load_mnist().train
_KEPT: list[Any] = []  # servers and sessions have no clean end


class Workers:
    """`workers` graphs of one algorithm with their sessions, and one shared state."""

    def __init__(self, workers: int = 2, ps: int = 1, **settings: Any) -> None:
        import tensorflow as tf

        small = {"model": "mlp", "hidden": [20], "batch_size": 10, "seed": 5, "threads": 1}
        self.settings = settings_from({**small, **settings})
        addresses = [f"127.0.0.1:{port}" for port in free_ports(ps + workers)]
        hosts = {"ps_hosts": ",".join(addresses[:ps]), "worker_hosts": ",".join(addresses[ps:])}
        self.graphs: list[WorkerGraph] = []
        self.sessions: list[Any] = []
        for index in range(ps):
            cluster = cluster_from(**hosts, job_name="ps", task_index=index)
            _KEPT.append(start_server(cluster, self.settings))
        for index in range(workers):
            cluster = cluster_from(**hosts, job_name="worker", task_index=index)
            server = start_server(cluster, self.settings)
            algorithm = load_algorithm(self.settings, cluster)
            scheme = scheme_of(algorithm, self.settings, cluster)
            graph = WorkerGraph(
                self.settings, cluster, TRAIN, algorithm.step, layout=None, scheme=scheme
            )
            config = tf.compat.v1.ConfigProto(
                device_filters=["/job:ps", f"/job:worker/task:{index}"]
            )
            session = tf.compat.v1.Session(server.target, graph=graph.graph, config=config)
            self.graphs.append(graph)
            self.sessions.append(session)
            _KEPT.extend([server, session])
        self.start = self.graphs[0].model.initial(5, "scaled")
        state = self.graphs[0].state
        state.fill(self.sessions[0], state.first_snapshot(self.start), started=0.0)
        for graph, session in zip(self.graphs, self.sessions, strict=True):
            graph.load_data(session)
            graph.local.reset(session)
        self.calls = [g.calls(s) for g, s in zip(self.graphs, self.sessions, strict=True)]
        self.next = [0] * workers

    def exchange(self, worker: int, count: int = 1) -> Outcome:
        """Some exchanges of one worker, in one call."""
        outcome = self.calls[worker][count](self.next[worker])
        self.next[worker] += count * self.graphs[worker].scheme.window
        return outcome

    def together(self, workers: Sequence[int], count: int = 1) -> list[Outcome]:
        """An exchange of each of these workers at the same time, for those that wait."""
        with ThreadPoolExecutor(len(workers)) as threads:
            return list(threads.map(lambda i: self.exchange(i, count), workers))

    def parameters(self) -> np.ndarray:
        """x~ now."""
        return self.graphs[0].state.snapshot(self.sessions[0]).parameters

    def batch(self, worker: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The images and labels that the worker uses in its step of this number."""
        import tensorflow as tf

        chosen = self.graphs[worker].batches.indices(tf.constant(number, tf.int64)).numpy()
        return TRAIN.images[chosen] / 255, TRAIN.labels[chosen]

    def own(self, worker: int, name: str = "x") -> np.ndarray:
        """A local variable of a worker."""
        graph = self.graphs[worker]
        vector: np.ndarray = self.sessions[worker].run(graph.local.values[name])
        return vector
