"""MNIST: whole or refused; every example once per epoch."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest

from trainer.data import (
    SHIPPED,
    TEST,
    TRAIN,
    Batches,
    Examples,
    batches_per_epoch,
    load_mnist,
    load_test,
    shard_for,
)
from trainer.errors import SettingsError, TrainerError


def test_the_shipped_files_are_all_of_mnist() -> None:
    data = load_mnist()
    assert (len(data.train), len(data.validation), len(data.test)) == (55000, 5000, 10000)
    assert data.train.images.shape == (55000, 784)
    assert sorted(set(data.train.labels)) == list(range(10))
    assert np.bincount(data.test.labels)[1] == 1135


@pytest.mark.parametrize("name", [*TRAIN, *TEST])
@pytest.mark.parametrize("place", [0.5, 0.999])
def test_a_flipped_byte_is_refused_and_the_file_named(
    tmp_path: Path, name: str, place: float
) -> None:
    for path in SHIPPED.glob("*.gz"):
        shutil.copy(path, tmp_path)
    damaged = tmp_path / f"{name}.gz"
    content = bytearray(damaged.read_bytes())
    content[int(len(content) * place)] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(TrainerError, match=f"{name}.gz is damaged"):
        load_mnist(str(tmp_path))


@pytest.mark.parametrize("place", [5, 1000])
def test_not_one_byte_of_the_shipped_files_may_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    folder = shutil.copytree(SHIPPED, tmp_path / "data")
    monkeypatch.setattr("trainer.data.SHIPPED", folder)
    content = bytearray((folder / f"{TEST[1]}.gz").read_bytes())
    content[place] ^= 1
    (folder / f"{TEST[1]}.gz").write_bytes(content)
    with pytest.raises(TrainerError, match=f"{TEST[1]}.gz is damaged"):
        load_test()


def test_raw_files_and_files_packed_by_others_are_read_too(tmp_path: Path) -> None:
    images, labels = (gzip.decompress((SHIPPED / f"{name}.gz").read_bytes()) for name in TEST)
    (tmp_path / TEST[0]).write_bytes(images)
    (tmp_path / f"{TEST[1]}.gz").write_bytes(gzip.compress(labels, 1))
    np.testing.assert_array_equal(load_test(str(tmp_path)).images, load_test().images)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=r"cannot read .*t10k-images-idx3-ubyte"):
        load_test(str(tmp_path))


def numbered(count: int) -> Examples:
    return Examples(np.zeros((count, 784), np.uint8), np.arange(count, dtype=np.uint8))


def test_shards_are_disjoint_and_of_equal_size() -> None:
    shards = [shard_for(numbered(20), "shard", i, 3).labels for i in range(3)]
    assert [len(s) for s in shards] == [6, 6, 6]
    assert len(set(np.concatenate(shards))) == 18
    assert len(shard_for(numbered(20), "shuffle", 1, 3)) == 20


def test_a_batch_larger_than_the_data_is_refused() -> None:
    with pytest.raises(SettingsError, match="batch_size 21 is more than the 20 examples"):
        batches_per_epoch(numbered(20), 21)


@pytest.mark.tensorflow
def test_every_example_comes_once_per_epoch_in_an_order_of_its_own() -> None:
    import tensorflow as tf

    def epoch(seed: int, replica: int, number: int) -> list[int]:
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            batches = Batches(numbered(20), 5, seed, replica)
            steps = range(number * 4, number * 4 + 4)
            chosen = [batches.batch(tf.constant(s, tf.int64))[1] for s in steps]
            session.run(batches.loader, batches.feed)
            return [int(label) for batch in session.run(chosen) for label in batch]

    orders = [epoch(1, 0, 0), epoch(1, 0, 1), epoch(1, 1, 0), epoch(2, 0, 0)]
    assert all(sorted(order) == list(range(20)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    assert epoch(1, 0, 0) == orders[0]
