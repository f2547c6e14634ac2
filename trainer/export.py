"""The final network as a SavedModel, for `tf.saved_model.load`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from trainer.data import normalised
from trainer.errors import TrainerError
from trainer.models import Model


def save_model(folder: Path, model: Model, vector: np.ndarray) -> None:
    """Images as uint8 [n, 784] in, `logits` and `classes` out; whole or not at all."""
    import tensorflow as tf

    module = tf.Module()
    module.parameters_vector = tf.Variable(vector, trainable=False)

    @tf.function(input_signature=[tf.TensorSpec([None, 784], tf.uint8, name="images")])
    def serve(images: Any) -> dict[str, Any]:
        logits = model.forward(model.split(module.parameters_vector), normalised(images))
        return {"logits": logits, "classes": tf.argmax(logits, axis=1)}

    unfinished = folder.with_name(f".{folder.name}.tmp")
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        tf.saved_model.save(module, str(unfinished), signatures=serve)
        shutil.rmtree(folder, ignore_errors=True)
        unfinished.rename(folder)
    except OSError as error:
        raise TrainerError(f"cannot write {folder}: {error.strerror or error}") from error
