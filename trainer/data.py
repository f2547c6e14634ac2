"""MNIST: read, checked, split, and held in the graph's memory.

No step feeds data: each worker keeps its images in memory as uint8, and batch number `s` is a pure
function of (seed, replica, s). A restarted worker therefore goes on with exactly the batches that
it has not used yet.
"""

from __future__ import annotations

import copy
import gzip
import hashlib
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trainer.errors import SettingsError, TrainerError

SHIPPED = Path(__file__).with_name("data")
TRAIN = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
TEST = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@dataclass(frozen=True)
class Examples:
    """Images as uint8 [n, 784] and their labels as uint8 [n]."""

    images: np.ndarray
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def part(self, choose: slice) -> Examples:
        """Some of the examples."""
        return Examples(self.images[choose], self.labels[choose])


@dataclass(frozen=True)
class Mnist:
    """The training set, what was held out of it, and the test set."""

    train: Examples
    validation: Examples
    test: Examples


def load_mnist(data_dir: str | None = None, validation_size: int = 5000) -> Mnist:
    """Read and check the four files; the first `validation_size` images are held out."""
    folder = SHIPPED if data_dir is None else Path(data_dir)
    everything = _read_examples(folder, TRAIN)
    return Mnist(
        train=everything.part(slice(validation_size, None)),
        validation=everything.part(slice(0, validation_size)),
        test=load_test(data_dir),
    )


def load_test(data_dir: str | None = None) -> Examples:
    """The test set alone."""
    return _read_examples(SHIPPED if data_dir is None else Path(data_dir), TEST)


def shard_for(examples: Examples, data_order: str, replica: int, replicas: int) -> Examples:
    """What one worker draws from: everything, or every n-th example, as many for each worker."""
    if data_order == "shuffle":
        return examples
    return examples.part(slice(replica, len(examples) // replicas * replicas, replicas))


def batches_per_epoch(examples: Examples, batch_size: int) -> int:
    """Whole batches in one pass; what is left over sits out this pass, by chance of the shuffle."""
    if batch_size > len(examples):
        raise SettingsError(
            f"batch_size {batch_size} is more than the {len(examples)} examples a worker draws from"
        )
    return len(examples) // batch_size


class Batches:
    """The batches of one worker, from data in the memory of its device.

    `loader` fills that memory once per process; `batch(number)` builds the graph of one batch.
    """

    def __init__(self, examples: Examples, batch_size: int, seed: int, replica: int) -> None:
        import tensorflow as tf

        self._examples = examples
        self._batch_size = batch_size
        self.per_epoch = batches_per_epoch(examples, batch_size)
        self._seed = self.draw_seed(seed, replica)
        self._images = _memory("images", examples.images)
        self._labels = _memory("labels", examples.labels)
        self._feeds = [
            tf.compat.v1.placeholder(tf.uint8, variable.shape)
            for variable in (self._images, self._labels)
        ]
        self.loader = tf.group(
            self._images.assign(self._feeds[0], read_value=False),
            self._labels.assign(self._feeds[1], read_value=False),
        )

    @property
    def feed(self) -> dict[Any, np.ndarray]:
        """What `loader` is fed."""
        return dict(zip(self._feeds, (self._examples.images, self._examples.labels), strict=True))

    def with_seed(self, seed: int, replica: int) -> Batches:
        """Other batches of the same examples, from the same memory."""
        other = copy.copy(self)
        other._seed = self.draw_seed(seed, replica)
        return other

    @staticmethod
    def draw_seed(seed: int, replica: int) -> int:
        """The shuffle takes two seeds: this one for who draws, the other for the epoch."""
        return (seed * 1_000_003 + replica) % 2**31

    def indices(self, number: Any) -> Any:
        """Which examples batch `number` holds: a new permutation of all of them every epoch."""
        import tensorflow as tf

        epoch, position = number // self.per_epoch, number % self.per_epoch
        places = position * self._batch_size + tf.range(self._batch_size, dtype=tf.int64)
        seed = tf.stack([tf.constant(self._seed, tf.int64), epoch])
        return tf.random.experimental.index_shuffle(places, seed, len(self._examples) - 1)

    def batch(self, number: Any) -> tuple[Any, Any]:
        """Batch `number` (an int64 tensor): images as float32 from 0 to 1, labels as int32."""
        import tensorflow as tf

        chosen = self.indices(number)
        images = tf.gather(self._images.read_value(), chosen)
        labels = tf.gather(self._labels.read_value(), chosen)
        return normalised(images), tf.cast(labels, tf.int32)


def normalised(images: Any) -> Any:
    """uint8 grey values as float32 from 0 to 1."""
    import tensorflow as tf

    return tf.cast(images, tf.float32) * (1.0 / 255.0)


def _memory(name: str, values: np.ndarray) -> Any:
    import tensorflow as tf

    return tf.compat.v1.get_variable(
        name,
        values.shape,
        tf.uint8,
        initializer=tf.compat.v1.zeros_initializer(),
        trainable=False,
        use_resource=True,
    )


def _read_examples(folder: Path, names: tuple[str, str]) -> Examples:
    images, labels = (_idx(folder / name, _read_checked(folder, name)) for name in names)
    if len(images) != len(labels):
        raise TrainerError(f"{folder}: {names[0]} and {names[1]} differ in length")
    return Examples(images.reshape(len(images), -1), labels)


def _read_checked(folder: Path, name: str) -> bytes:
    """The raw content of one file, which is exactly what its checksum says."""
    gzipped, raw = folder / f"{name}.gz", folder / name
    path = gzipped if gzipped.exists() else raw
    try:
        content = path.read_bytes()
        sums = checksums(folder)
        if folder == SHIPPED:
            # The packed file is a fifth of the size, and not one byte of it may differ.
            _check(path, content, sums.get(path.name))
            return gzip.decompress(content)
        content = gzip.decompress(content) if path == gzipped else content
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise TrainerError(f"{path} is damaged ({error}); get a new copy of it") from None
    except OSError as error:
        raise TrainerError(f"cannot read {path}: {error.strerror}") from None
    _check(path, content, sums.get(name))
    return content


def checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file, from the folder itself or else as shipped."""
    own = folder / "SHA256SUMS"
    text = (own if own.exists() else SHIPPED / "SHA256SUMS").read_text(encoding="ascii")
    pairs = [line.split() for line in text.splitlines() if line.strip()]
    return {name.lstrip("*"): digest for digest, name in pairs}


def _check(path: Path, content: bytes, expected: str | None) -> None:
    if expected is None:
        raise TrainerError(f"{path} has no checksum in SHA256SUMS")
    if hashlib.sha256(content).hexdigest() != expected:
        raise TrainerError(
            f"{path} is damaged: its SHA-256 is not {expected[:16]}...; get a new copy"
        )


def _idx(path: Path, content: bytes) -> np.ndarray:
    """Decode the idx format: two zeros, a type, the number of dimensions, their sizes, the data."""
    zeros, kind, dimensions = struct.unpack(">HBB", content[:4])
    if zeros or kind != 8 or not dimensions:
        raise TrainerError(f"{path} is not an idx file of bytes")
    start = 4 + 4 * dimensions
    shape = struct.unpack(f">{dimensions}I", content[4:start])
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
