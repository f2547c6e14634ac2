"""Towers: one process, a copy of the network on each local device, the mean of their gradients.

    x_k <- x                        every device k gets the parameters, which live on the CPU
    g_k =  gradient of the k-th part of the batch, at x
    x   <- x - eta mean_k g_k

Paper: A. Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014
(arXiv:1404.5997), its data-parallel part; "towers" is the name in TensorFlow's CIFAR-10 tutorial.

Deviations:
* Every layer is data-parallel; the paper cuts its dense layers across devices instead.
* The batch is divided: `batch_size` examples per step in all, so that the result is the one of
  `single` whatever the number of devices. (With dropout, the masks of the parts differ from it.)
* With another `optimizer` than sgd, its rule takes the place of the update above.
"""

from __future__ import annotations

from typing import Any

from trainer.algorithms.roles import need_one_process
from trainer.cluster import ClusterInfo
from trainer.devices import local_devices
from trainer.errors import SettingsError
from trainer.graph import Step, WorkerGraph
from trainer.settings import Settings


def check(cluster: ClusterInfo, settings: Settings) -> None:
    """One worker and nobody else."""
    need_one_process(cluster, "towers")


def step(worker: WorkerGraph, number: Any, after: list[Any]) -> Step:
    """One gradient per device, one update by their mean."""
    import tensorflow as tf

    devices = local_devices(worker.cluster, worker.settings)
    if worker.settings.batch_size % len(devices):
        raise SettingsError(
            f"batch_size {worker.settings.batch_size} cannot be divided evenly "
            f"among {len(devices)} devices"
        )
    x = worker.state.pull(after)
    images, labels = (tf.split(part, len(devices)) for part in worker.batches.batch(number))
    losses, gradients = [], []
    for device, its_images, its_labels in zip(devices, images, labels, strict=True):
        with tf.device(device):
            loss, g = worker.model.gradient(x.vector, its_images, its_labels)
        losses.append(loss)
        gradients.append(g)
    mean = tf.add_n(gradients) / len(devices)
    pushed = worker.state.push(mean, x)  # x <- x - eta mean g
    return Step(tf.add_n(losses) / len(devices), pushed.updates - 1 - x.updates, pushed.operation)
