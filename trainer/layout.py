"""Where a graph keeps its parameters and its data, and how much one step of it does.

Most algorithms have the usual layout: parameters cut evenly over the ps tasks, data in the
worker's own memory, one batch per step. An algorithm that spreads its graph over several devices
says so by a function `layout(cluster, settings)` in its module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainer.cluster import ClusterInfo
from trainer.models import Model, model_from
from trainer.optimizers import Optimizer, optimizer_from
from trainer.settings import Settings
from trainer.state import piece_sizes


@dataclass(frozen=True)
class Piece:
    """A part of the parameters: where it lives, how long it is, what changes it."""

    device: str
    size: int
    optimizer: Optimizer


@dataclass(frozen=True)
class Reader:
    """A set of examples in the memory of a device, drawn from by one replica of several."""

    device: str
    replica: int
    replicas: int


@dataclass(frozen=True)
class Layout:
    """What a graph consists of."""

    model: Model
    pieces: tuple[Piece, ...]
    readers: tuple[Reader, ...]
    batches: int = 1  # that one step uses
    updates: int = 1  # that one step makes


def layout_of(algorithm: Any, settings: Settings, cluster: ClusterInfo) -> Layout:
    """The layout that the algorithm asks for, or the usual one."""
    own = getattr(algorithm, "layout", None)
    return own(cluster, settings) if own else usual_layout(cluster, settings)


def usual_layout(cluster: ClusterInfo, settings: Settings) -> Layout:
    """Even pieces on the ps tasks (or here, if there is none), and one reader: this task."""
    model, optimizer = model_from(settings), optimizer_from(settings)
    reader = Reader(worker_device(cluster), cluster.replica, len(cluster.trainers))
    return Layout(model, even_pieces(cluster, model.size, optimizer), (reader,))


def even_pieces(cluster: ClusterInfo, size: int, optimizer: Optimizer) -> tuple[Piece, ...]:
    """The parameters, cut evenly over the ps tasks."""
    devices = ps_devices(cluster)
    sizes = piece_sizes(size, len(devices))
    return tuple(Piece(d, s, optimizer) for d, s in zip(devices, sizes, strict=True))


def worker_device(cluster: ClusterInfo) -> str:
    """Where this worker computes."""
    return "" if cluster.alone else f"/job:{cluster.role}/task:{cluster.index}"


def ps_devices(cluster: ClusterInfo) -> list[str]:
    """Where the shared variables live: on every ps task, or here if there is none."""
    if not cluster.ps:
        return [f"{worker_device(cluster)}/device:CPU:0"]
    return [f"/job:ps/task:{i}/device:CPU:0" for i in range(len(cluster.ps))]


def server_devices(cluster: ClusterInfo) -> list[str]:
    """One device of every task that only serves."""
    tasks = (task.rpartition("-") for task in cluster.served)
    return [f"/job:{role}/task:{index}/device:CPU:0" for role, _, index in tasks]
