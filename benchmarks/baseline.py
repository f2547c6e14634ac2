"""The old style of distributed TensorFlow on today's TensorFlow: what the trainer is compared with.

    python benchmarks/baseline.py --ps_hosts=h:2222 --worker_hosts=h:2223,h:2224 \\
        --job_name=worker --task_index=0

One process per task, as people wrote it for TensorFlow 1: `replica_device_setter` puts one variable
per layer on the parameter servers, every step feeds its batch by `feed_dict` and writes a summary,
a monitored session waits for the chief, and parameter servers never end. The network is 784-100-10
with sigmoid, weights from N(0, 1), SGD, batches of 100.

Differences from what was written then, each in its favour or needed to measure: workers look for
the chief every 0.2 s instead of every 30, the cross entropy is taken from the logits (so that a
high learning rate does not end in NaN), the first weights can be scaled to the layer's size, and
the chief can evaluate in the middle.
"""

from __future__ import annotations

import argparse
import gzip
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

PIXELS, HIDDEN, CLASSES = 784, 100, 10
SHIPPED = Path(__file__).resolve().parent.parent / "trainer" / "data"
VALIDATION = 5000  # training images that are not trained on: the split of the old MNIST reader
RECOVERY_WAIT_SECONDS = 0.2


def parse_flags() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ps_hosts", required=True, help="comma-separated host:port")
    parser.add_argument("--worker_hosts", required=True, help="comma-separated host:port")
    parser.add_argument("--job_name", required=True, choices=["ps", "worker"])
    parser.add_argument("--task_index", type=int, default=0)
    parser.add_argument("--batch_size", type=int, default=100)
    parser.add_argument("--learning_rate", type=float, default=0.001)
    parser.add_argument("--epochs", type=int, default=20, help="passes of each worker")
    parser.add_argument("--init", choices=["normal", "scaled"], default="normal")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--frequency", type=int, default=100, help="batches between log lines")
    parser.add_argument("--logs_path", help="folder of the summaries; left out: a new one")
    parser.add_argument("--data_dir", type=Path, default=SHIPPED)
    parser.add_argument("--eval_every", type=int, default=0, help="global steps; 0: at the end")
    parser.add_argument("--target_accuracy", type=float, help="end when the chief sees it")
    return parser.parse_args()


class DataSet:
    """Images as float32 and one-hot labels in NumPy arrays, handed out batch by batch."""

    def __init__(self, folder: Path, name: str, skip: int, seed: int) -> None:
        images = gzip.decompress((folder / f"{name}-images-idx3-ubyte.gz").read_bytes())
        labels = gzip.decompress((folder / f"{name}-labels-idx1-ubyte.gz").read_bytes())
        pixels = np.frombuffer(images, np.uint8, offset=16).reshape(-1, PIXELS)[skip:]
        classes = np.frombuffer(labels, np.uint8, offset=8)[skip:]
        self.images = pixels.astype(np.float32) / 255.0
        self.labels = np.eye(CLASSES, dtype=np.float32)[classes]
        self._random = np.random.default_rng(seed)
        self._at = len(self.images)

    def __len__(self) -> int:
        return len(self.images)

    def next_batch(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """The next `size` examples; every pass over the data begins with a shuffle."""
        if self._at + size > len(self.images):
            order = self._random.permutation(len(self.images))
            self.images, self.labels = self.images[order], self.labels[order]
            self._at = 0
        chosen = slice(self._at, self._at + size)
        self._at += size
        return self.images[chosen], self.labels[chosen]


class Network:
    """The graph of one worker, with everything in it by name."""

    def __init__(self, tf: Any, flags: argparse.Namespace) -> None:
        self.global_step = tf.train.get_or_create_global_step()
        self.x = tf.placeholder(tf.float32, [None, PIXELS], name="x-input")
        self.y_ = tf.placeholder(tf.float32, [None, CLASSES], name="y-input")
        tf.set_random_seed(flags.seed)
        shapes = [PIXELS, HIDDEN], [HIDDEN, CLASSES]
        # The same spread as the trainer's `init: scaled`.
        spread = [1.0 if flags.init == "normal" else math.sqrt(2.0 / sum(s)) for s in shapes]
        with tf.name_scope("weights"):
            w1, w2 = (
                tf.Variable(tf.random_normal(shape, stddev=stddev))
                for shape, stddev in zip(shapes, spread, strict=True)
            )
        with tf.name_scope("biases"):
            b1 = tf.Variable(tf.zeros([HIDDEN]))
            b2 = tf.Variable(tf.zeros([CLASSES]))
        with tf.name_scope("softmax"):
            hidden = tf.nn.sigmoid(tf.add(tf.matmul(self.x, w1), b1))
            logits = tf.add(tf.matmul(hidden, w2), b2)
        with tf.name_scope("cross_entropy"):
            losses = tf.nn.softmax_cross_entropy_with_logits_v2(labels=self.y_, logits=logits)
            self.cost = tf.reduce_mean(losses)
        with tf.name_scope("train"):
            optimizer = tf.train.GradientDescentOptimizer(flags.learning_rate)
            self.train_op = optimizer.minimize(self.cost, global_step=self.global_step)
        with tf.name_scope("accuracy"):
            right = tf.equal(tf.argmax(logits, 1), tf.argmax(self.y_, 1))
            self.accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
        tf.summary.scalar("cost", self.cost)
        tf.summary.scalar("accuracy", self.accuracy)
        self.summary = tf.summary.merge_all()


def monitored_session(tf: Any, server: Any, is_chief: bool) -> Any:
    """What MonitoredTrainingSession returns, with less patience for the chief."""
    if is_chief:
        return tf.train.MonitoredTrainingSession(server.target, is_chief=True)

    class Worker(tf.train.WorkerSessionCreator):  # type: ignore[misc]
        def _get_session_manager(self) -> Any:
            manager = super()._get_session_manager()
            manager._recovery_wait_secs = RECOVERY_WAIT_SECONDS
            return manager

    return tf.train.MonitoredSession(Worker(master=server.target))


def train(tf: Any, flags: argparse.Namespace, cluster: Any, server: Any) -> None:
    """Step through the epochs: feed, run, write the summary, and now and then say so."""
    worker = f"/job:worker/task:{flags.task_index}"
    with tf.device(tf.train.replica_device_setter(worker_device=worker, cluster=cluster)):
        network = Network(tf, flags)
    data = DataSet(flags.data_dir, "train", VALIDATION, flags.seed + flags.task_index)
    test = DataSet(flags.data_dir, "t10k", 0, 0)
    everything = {network.x: test.images, network.y_: test.labels}
    is_chief = flags.task_index == 0
    writer = tf.summary.FileWriter(flags.logs_path or tempfile.mkdtemp(), tf.get_default_graph())
    batches, own, next_evaluation = len(data) // flags.batch_size, 0, flags.eval_every
    with monitored_session(tf, server, is_chief) as session:
        began = since = time.time()
        for epoch in range(flags.epochs):
            for batch in range(batches):
                images, labels = data.next_batch(flags.batch_size)
                _, cost, summary, step = session.run(
                    [network.train_op, network.cost, network.summary, network.global_step],
                    feed_dict={network.x: images, network.y_: labels},
                )
                writer.add_summary(summary, step)
                own += 1
                if own % flags.frequency == 0 or batch + 1 == batches:
                    now = time.time()
                    print(
                        f"Step: {step + 1},  Epoch: {epoch + 1:2d},  "
                        f"Batch: {batch + 1:3d} of {batches:3d},  Cost: {cost:.4f},  "
                        f"AvgTime: {(now - since) * 1000 / flags.frequency:3.2f}ms",
                        flush=True,
                    )
                    since = now
                if is_chief and flags.eval_every and step >= next_evaluation:
                    next_evaluation = (step // flags.eval_every + 1) * flags.eval_every
                    seconds = time.time() - began
                    accuracy = session.run(network.accuracy, everything)
                    print(f"After {seconds:.3f} s: Test-Accuracy: {accuracy:.4f}", flush=True)
                    if flags.target_accuracy and accuracy >= flags.target_accuracy:
                        return
        print(f"Test-Accuracy: {session.run(network.accuracy, everything):.4f}")
        print(f"Total Time: {time.time() - began:.2f}s")
        print(f"Final Cost: {cost:.4f}")
        print("done", flush=True)


def main() -> None:
    flags = parse_flags()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    cluster = tf.train.ClusterSpec(
        {"ps": flags.ps_hosts.split(","), "worker": flags.worker_hosts.split(",")}
    )
    server = tf.train.Server(cluster, job_name=flags.job_name, task_index=flags.task_index)
    if flags.job_name == "ps":
        server.join()
    train(tf, flags, cluster, server)
    sys.stdout.flush()
    os._exit(0)  # closing a session waits for tasks that may be gone already


if __name__ == "__main__":
    main()
