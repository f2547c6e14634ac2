"""What is taken away with a run, and what is not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tfcluster.backends.kubernetes.apply import secrets_of

OWN = "tfcluster.io/job=mnist,tfcluster.io/run=a1"
OTHERS = "tfcluster.io/job=mnist,tfcluster.io/run!=a1"


@pytest.mark.parametrize(
    ("labels", "own", "others"),
    [
        ({"tfcluster.io/job": "mnist", "tfcluster.io/run": "a1"}, True, False),
        ({"tfcluster.io/job": "mnist", "tfcluster.io/run": "b2"}, False, True),
        ({"tfcluster.io/job": "another", "tfcluster.io/run": "a1"}, False, False),
        ({}, False, False),
        (None, False, False),
    ],
)
def test_only_the_secret_of_the_chosen_runs_is_found(labels, own, others):
    cluster = SimpleNamespace(labels_of=lambda *_: labels, path=lambda *parts: "/".join(parts))
    found = ["Secret/mnist-control"]
    assert secrets_of(cluster, OWN) == (found if own else [])
    assert secrets_of(cluster, OTHERS) == (found if others else [])
