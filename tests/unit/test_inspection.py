"""What a look at a program finds: a table of programs as tutorials and old posts write them."""

from __future__ import annotations

import pytest

from tfcluster.inspection import ProgramTraits, imported_names, inspect_program

KERAS = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = build()
"""
EXPERIMENTAL = """
from tensorflow.distribute.experimental import MultiWorkerMirroredStrategy
strategy = MultiWorkerMirroredStrategy()
"""
COORDINATOR = """
import tensorflow as tf
resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(resolver.cluster_spec(), job_name=resolver.task_type)
    server.join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
"""
ARGPARSE = """
import argparse, tensorflow as tf
parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts", type=str)
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name")
parser.add_argument("--task_index", type=int)
parser.add_argument("--lr", type=float)
server = tf.train.Server(cluster, job_name=FLAGS.job_name)
"""
TF_APP = """
import tensorflow as tf
flags = tf.app.flags
flags.DEFINE_string("job_name", None, "worker or ps")
flags.DEFINE_integer("task_index", 0, "worker_hosts")
flags.DEFINE_string("ps_hosts", "localhost:2222", "ps_hosts")
flags.DEFINE_string("worker_hosts", "localhost:2223", "")
"""
DASHES = """
import click
@click.option("--ps-hosts")
@click.option("--worker-hosts")
@click.option("--job", "role")
@click.option("--task", type=int)
def main(**given): ...
"""
SERVER = """
import json, os, tensorflow.compat.v1 as tf
server = tf.train.Server(json.loads(os.environ["TF_CONFIG"])["cluster"])
with tf.train.MonitoredTrainingSession(master=server.target): ...
"""
OLD_PS = """
import tensorflow as tf
strategy = tf.compat.v1.distribute.experimental.ParameterServerStrategy()
tf.estimator.train_and_evaluate(estimator, train, evaluate)
server = tf.distribute.Server({})
"""
SINGLE = """
import argparse, tensorflow as tf
parser = argparse.ArgumentParser()
parser.add_argument("--task", help="which task to train")
parser.add_argument("--job")
strategy = tf.distribute.MirroredStrategy()
"""
HOSTS = ("--ps_hosts=$(PS_HOSTS)", "--worker_hosts=$(WORKER_HOSTS)")
TASK = ("--job_name=$(ROLE)", "--task_index=$(INDEX)")


@pytest.mark.parametrize(
    ("source", "strategy", "arguments", "line"),
    [
        (KERAS, "multi-worker", (), 3),
        (EXPERIMENTAL, "multi-worker", (), 2),
        (COORDINATOR, "coordinator", (), 7),
        (ARGPARSE, "between-graph", (*HOSTS, *TASK), 4),
        (TF_APP, "between-graph", (*HOSTS, *TASK), 6),
        (
            DASHES,
            "between-graph",
            (
                *("--ps-hosts=$(PS_HOSTS)", "--worker-hosts=$(WORKER_HOSTS)"),
                *("--job=$(ROLE)", "--task=$(INDEX)"),
            ),
            3,
        ),
        (SERVER, "between-graph", (), 3),
        (OLD_PS, "between-graph", (), 5),
        (SINGLE, None, (), None),
        ("print 'python 2'\nMultiWorkerMirroredStrategy", None, (), None),
        ("# MultiWorkerMirroredStrategy\n'tf.train.Server'\n", None, (), None),
        ("\0", None, (), None),
    ],
)
def test_what_a_program_says_of_itself(source, strategy, arguments, line):
    traits = inspect_program({"train.py": source})
    assert traits.strategy == strategy
    assert traits.arguments == arguments
    assert (traits.evidence and traits.evidence.line) == line


def test_the_evidence_names_file_and_line():
    traits = inspect_program({"train.py": "import model", "model.py": KERAS})
    assert str(traits.evidence) == "MultiWorkerMirroredStrategy in model.py:3"


def test_a_program_that_says_nothing_has_no_traits():
    assert inspect_program({"train.py": "print('hello')"}) == ProgramTraits()


def test_imports_by_their_dotted_names():
    text = "import a.b, c\nfrom d import e\nfrom . import f\nfrom .g import h\n"
    assert imported_names(text) == ("a.b", "c", "d", "d.e", "g", "g.h")
