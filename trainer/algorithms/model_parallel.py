"""Model parallelism: the layers of one network are cut across tasks, or across local devices.

    h_0 = batch                     on the first place
    h_k = layers_k(x_k, h_{k-1})    on place k, where x_k lives; h_{k-1} crosses the wire
    g_k = gradient by x_k           on place k; the gradient by h_k crosses back
    x_k <- x_k - eta g_k

Paper: J. Dean et al., "Large Scale Distributed Deep Networks", 2012, section 3.

Deviations:
* The paper cuts within layers as well; here a place has whole layers, one after the other.
* One batch at a time: while one place computes, the others wait for it. (Pipelining several
  small batches, as GPipe does, would change that, not the result.)
* The mathematics are those of `single`; only the place of things differs.
* With another `optimizer` than sgd, its rule takes the place of the update; its slots lie with x_k.

With a chief and workers, the places are the worker tasks, which only serve. In one process, they
are its devices (`devices`): GPUs, or virtual CPU devices.
"""

from __future__ import annotations

from typing import Any

from trainer.cluster import ClusterInfo
from trainer.devices import local_devices
from trainer.errors import SettingsError
from trainer.graph import Step, WorkerGraph
from trainer.layers import Layer
from trainer.layout import Layout, Piece, Reader
from trainer.models import Model, mean_cost, model_from
from trainer.optimizers import optimizer_from
from trainer.settings import Settings

SERVING = ("ps", "worker")


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """A chief with workers that serve, or one process alone; no ps."""
    if cluster.ps:
        raise SettingsError(
            "algorithm model-parallel keeps each layer's parameters where the layer is computed; "
            "remove the ps"
        )
    if len(cluster.trainers) > 1:
        raise SettingsError(
            "algorithm model-parallel needs a chief, which drives the workers, or one worker alone"
        )


def layout(cluster: ClusterInfo, settings: Settings) -> Layout:
    """A piece of the parameters on every place, the data on the first."""
    workers = [f"/job:worker/task:{i}" for i in range(len(cluster.served))]
    places = workers or local_devices(cluster, settings)
    model, optimizer = model_from(settings), optimizer_from(settings)
    groups = cut(model, len(places))
    pieces = tuple(
        Piece(place, Model("part", group).size, optimizer)
        for place, group in zip(places, groups, strict=True)
    )
    return Layout(model, pieces, (Reader(places[0], 0, 1),))


def cut(model: Model, places: int) -> list[tuple[Layer, ...]]:
    """The layers in as many groups as there are places, the later groups not the smaller ones."""
    if places > len(model.layers):
        raise SettingsError(
            f"{model.name} has {len(model.layers)} layer(s), which cannot be cut across {places} "
            "places; use fewer devices or workers, or a deeper model"
        )
    ends = [len(model.layers) * (k + 1) // places for k in range(places)]
    starts = [0, *ends[:-1]]
    return [model.layers[a:b] for a, b in zip(starts, ends, strict=True)]


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """Forward from place to place, backward the same way, and an update on every place."""
    import tensorflow as tf

    model, places = worker.model, [piece.device for piece in worker.layout.pieces]
    x = worker.state.pull(after)
    parts = [Model("part", group) for group in cut(model, len(places))]
    with tf.device(places[0]):
        images, labels = worker.batches.batch(number)
        values, parameters = images, []
    for part, place, piece in zip(parts, places, x.pieces, strict=True):
        with tf.device(place):
            parameters.append(part.split(piece))
            mask = model.mask(images, labels) if part is parts[-1] else None
            values = part.forward(parameters[-1], values, mask)
    with tf.device(places[-1]):
        loss = mean_cost(values, labels)
    flat = [parameter for own in parameters for parameter in own]
    gradients = tf.compat.v1.gradients(loss, flat, colocate_gradients_with_ops=True)
    pushed = worker.state.push_pieces(_joined(parts, places, gradients), x)  # x_k <- x_k - eta g_k
    return Step(loss, pushed.updates - 1 - x.updates, pushed.operation)


def _joined(parts: list[Model], places: list[str], gradients: list[Any]) -> list[Any]:
    """The gradients by each place's parameters as one vector per place."""
    import tensorflow as tf

    joined = []
    for part, place in zip(parts, places, strict=True):
        own, gradients = gradients[: len(part.shapes)], gradients[len(part.shapes) :]
        with tf.device(place):
            joined.append(part.join(own))
    return joined
