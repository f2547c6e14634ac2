"""The deep MNIST network against NumPy, dropout included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.harness import train_here
from tests.trainer.reference_cnn import loss_and_gradient
from trainer.checkpoint import read_arrays
from trainer.data import load_mnist
from trainer.models import build_model, cnn, evaluate

pytestmark = pytest.mark.tensorflow


def batch(first: int = 0, count: int = 8) -> tuple[np.ndarray, np.ndarray]:
    train = load_mnist().train.part(slice(first, first + count))
    return train.images.astype(np.float32) / 255, train.labels.astype(np.int32)


def computed(*tensors: Any) -> Any:
    import tensorflow as tf

    return [np.asarray(t) for t in tf.nest.map_structure(lambda t: t.numpy(), tensors)]


def test_it_is_the_network_of_deep_mnist() -> None:
    model = build_model("cnn")
    assert model.shapes == (
        *((5, 5, 1, 32), (32,)),
        *((5, 5, 32, 64), (64,)),
        *((3136, 1024), (1024,)),
        *((1024, 10), (10,)),
    )
    assert model.size == 3_274_634


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_loss_and_gradient_equal_numpys(dropout: float) -> None:
    import tensorflow as tf

    model = cnn((4, 6), 20, dropout, seed=3)
    vector = model.initial(3, "scaled") + np.float32(0.01)
    images, labels = batch()
    loss, gradient = tf.function(model.gradient)(tf.constant(vector), images, labels)
    mask = computed(model.mask(images, labels))[0] if dropout else np.ones((8, 20))
    expected = loss_and_gradient(vector, model.shapes, images, labels, mask)
    assert float(loss) == pytest.approx(expected[0], rel=1e-5)
    # float32 against float64
    np.testing.assert_allclose(gradient.numpy(), expected[1], atol=2e-6)


def test_dropout_is_a_function_of_the_batch_and_the_seed_and_of_nothing_else() -> None:
    model, other = build_model("cnn", seed=1), build_model("cnn", seed=2)
    (first, again, elsewhere, reseeded) = computed(
        model.mask(*batch(0)), model.mask(*batch(0)), model.mask(*batch(8)), other.mask(*batch(0))
    )
    np.testing.assert_array_equal(first, again)
    assert set(np.unique(first)) == {0.0, 2.0}
    assert np.mean(first == 0) == pytest.approx(0.5, abs=0.03)
    for different in (elsewhere, reseeded):
        assert 0.4 < np.mean(first != different) < 0.6
    assert np.mean(computed(build_model("cnn", dropout=0.2).mask(*batch(0)))[0] == 1.25) > 0.75
    assert build_model("mlp").mask(*batch(0)) is None


def test_evaluation_drops_nothing() -> None:
    model = cnn((2, 3), 10, 0.9, seed=0)
    vector = model.initial(1, "scaled")
    test = load_mnist().test.part(slice(0, 40))
    images = test.images.astype(np.float32) / 255
    expected, _ = loss_and_gradient(vector, model.shapes, images, test.labels, np.ones((40, 10)))
    assert evaluate(model, vector, test)[1] == pytest.approx(expected, rel=1e-5)


def test_it_learns(tmp_path: Path) -> None:
    settings = {"model": "cnn", "optimizer": "adam", "batch_size": 20, "eval_every": 0}
    train_here(tmp_path, **settings, steps_per_call=5, steps=20)
    vector = read_arrays(tmp_path / "weights.npz")[0]["parameters"]
    test = load_mnist().test.part(slice(0, 1000))
    assert evaluate(build_model("cnn"), vector, test)[0] > 0.5
