"""Several networks that train side by side in one process, one or more on each device.

Their parameters are the pieces of one vector, so that checkpoints, restarts and reports are the
same as for one network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trainer.cluster import ClusterInfo
from trainer.data import Mnist
from trainer.devices import local_devices
from trainer.exchanges import Pulled
from trainer.graph import WorkerGraph
from trainer.layout import Layout, Piece, Reader
from trainer.models import Model, build_model, evaluate, model_from
from trainer.optimizers import optimizer_from
from trainer.settings import Settings, settings_from


def model_of(meta: Mapping[str, Any]) -> Model:
    """The model whose parameters a file of weights holds, from what the file says about them."""
    model = build_model(meta["model"], meta["hidden"], meta["activation"])
    if not meta.get("networks"):
        return model
    names = ("model", "hidden", "activation")
    settings = settings_from({name: meta[name] for name in names})
    return networks_of([settings] * int(meta["networks"]))


def networks_of(members: Sequence[Settings]) -> Networks:
    """Networks with these settings, as one model."""
    layers = tuple(layer for own in members for layer in model_from(own).layers)
    return Networks("networks", layers, members=tuple(members))


@dataclass(frozen=True)
class Networks(Model):
    """Networks as one model: its prediction is the mean of theirs."""

    members: tuple[Settings, ...] = ()  # each network's own

    @property
    def models(self) -> list[Model]:
        """The networks one by one."""
        return [model_from(settings) for settings in self.members]

    def forward(self, parameters: Sequence[Any], images: Any, mask: Any = None) -> Any:
        """The logarithm of the mean of all networks' probabilities, which serves as logits."""
        import tensorflow as tf

        parameters, chances = list(parameters), []
        for model in self.models:
            own, parameters = parameters[: len(model.shapes)], parameters[len(model.shapes) :]
            chances.append(tf.nn.softmax(model.forward(own, images)))
        return tf.math.log(tf.add_n(chances) / len(chances) + 1e-30)

    def initial(self, seed: int, init: str) -> np.ndarray:
        """Each network starts from its own seed."""
        return np.concatenate([model_from(s).initial(s.seed, init) for s in self.members])

    def parts(self, vector: np.ndarray) -> list[np.ndarray]:
        """Each network's own parameters."""
        return np.split(vector, np.cumsum([model.size for model in self.models])[:-1])


def networks_layout(
    cluster: ClusterInfo, settings: Settings, members: Sequence[Settings]
) -> Layout:
    """Network k lives on device k, and on the first device again when there are no more."""
    devices = local_devices(cluster, settings)[: len(members)]
    pieces = [
        Piece(devices[k % len(devices)], model_from(own).size, optimizer_from(own))
        for k, own in enumerate(members)
    ]
    return Layout(
        model=networks_of(members),
        pieces=tuple(pieces),
        readers=tuple(Reader(device, 0, 1) for device in devices),
        batches=len(members),
    )


def gradients(worker: WorkerGraph, number: Any, x: Pulled) -> tuple[list[Any], list[Any]]:
    """Loss and gradient of every network, each at its own parameters and on its own batch."""
    import tensorflow as tf

    assert isinstance(worker.model, Networks)
    losses, found = [], []
    for k, own in enumerate(worker.model.members):
        with tf.device(worker.layout.pieces[k].device):
            reader = worker.readers[k % len(worker.readers)].with_seed(own.seed, replica=0)
            images, labels = reader.batch(number)
            loss, g = model_from(own).gradient(x.pieces[k], images, labels)
        losses.append(loss)
        found.append(g)
    return losses, found


def report_cards(model: Networks, vector: np.ndarray, data: Mnist) -> list[dict[str, Any]]:
    """How each network does on the held-out images, with the settings in which it differs."""
    cards = []
    for own, network, part in zip(model.members, model.models, model.parts(vector), strict=True):
        accuracy, cost = evaluate(network, part, data.validation)
        card: dict[str, Any] = {"learning_rate": own.learning_rate, "seed": own.seed}
        card |= {"hidden": list(own.hidden)} if own.model == "mlp" else {}
        cards.append({**card, "accuracy": round(accuracy, 4), "cost": round(cost, 5)})
    return cards
