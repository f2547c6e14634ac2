"""The networks against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.trainer.reference import loss_and_gradient
from trainer.data import Examples
from trainer.models import build_model, evaluate

pytestmark = pytest.mark.tensorflow

MODELS = [("softmax", (), "sigmoid"), ("mlp", (100,), "sigmoid"), ("mlp", (30, 20), "tanh")]
MODELS += [("mlp", (50,), "relu")]


def examples(count: int, seed: int = 0) -> Examples:
    random = np.random.default_rng(seed)
    images = random.integers(0, 256, (count, 784), dtype=np.uint8)
    return Examples(images, random.integers(0, 10, count, dtype=np.uint8))


def test_sizes() -> None:
    assert build_model("softmax").size == 7850
    assert build_model("mlp").size == 79510
    assert build_model("mlp", (30, 20)).shapes[2:4] == ((30, 20), (20,))


@pytest.mark.parametrize(("name", "hidden", "activation"), MODELS)
def test_loss_and_gradient_equal_numpys(
    name: str, hidden: tuple[int, ...], activation: str
) -> None:
    import tensorflow as tf

    model = build_model(name, hidden, activation)
    vector = model.initial(3, "scaled")
    batch = examples(20)
    images, labels = batch.images.astype(np.float32) / 255, batch.labels.astype(np.int32)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        found = session.run(model.gradient(tf.constant(vector), images, labels))
    loss, gradient = loss_and_gradient(vector, model.shapes, activation, images, labels)
    assert found[0] == pytest.approx(loss, rel=1e-5)
    np.testing.assert_allclose(found[1], gradient, atol=1e-6)


def test_split_and_join_are_each_others_opposite() -> None:
    model = build_model("mlp", (7,))
    vector = np.arange(model.size, dtype=np.float32)
    parts = model.split(vector)
    assert [tuple(p.shape) for p in parts] == [(784, 7), (7,), (7, 10), (10,)]
    np.testing.assert_array_equal(model.join(parts), vector)


def test_first_weights_come_from_the_seed() -> None:
    model = build_model("mlp")
    np.testing.assert_array_equal(model.initial(1, "scaled"), model.initial(1, "scaled"))
    assert not np.array_equal(model.initial(1, "scaled"), model.initial(2, "scaled"))
    normal = model.initial(1, "normal")[:78400]
    assert abs(normal.mean()) < 0.02
    assert normal.std() == pytest.approx(1, abs=0.02)
    assert not model.initial(1, "normal")[78400:78500].any(), "biases start at zero"


def test_evaluation_counts_every_example() -> None:
    model = build_model("softmax")
    some = examples(2345)
    vector = np.zeros(model.size, np.float32)
    vector[-10 + 3] = 1.0  # a network that always says 3
    accuracy, cost = evaluate(model, vector, some)
    assert accuracy == np.mean(some.labels == 3)
    expected = np.log(np.e + 9) - np.mean(some.labels == 3)
    assert cost == pytest.approx(expected, rel=1e-5)
