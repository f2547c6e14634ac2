"""TF_CONFIG and the old flags: who is there, and who am I?"""

from __future__ import annotations

import json

import pytest

from trainer.cluster import ClusterInfo, cluster_from, threads_for
from trainer.errors import SettingsError

CLUSTER = {"ps": ["a:1"], "worker": ["a:2", "b:2"]}


def tf_config(cluster: object, role: object = "worker", index: object = 0) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})


def test_tf_config_says_who_is_there() -> None:
    info = cluster_from(tf_config=tf_config(CLUSTER, "worker", 1))
    assert (info.task, info.replica, info.is_chief, info.ps) == ("worker-1", 1, False, ("a:1",))
    assert info.trainers == ("worker-0", "worker-1")
    assert cluster_from(tf_config=tf_config(CLUSTER, "worker", 0)).is_chief


def test_a_chief_comes_before_the_workers() -> None:
    with_chief = {"chief": ["c:1"], **CLUSTER}
    info = cluster_from(tf_config=tf_config(with_chief, "worker", 0))
    assert info.trainers == ("chief-0", "worker-0", "worker-1")
    assert (info.replica, info.is_chief) == (1, False)
    assert cluster_from(tf_config=tf_config(with_chief, "chief", 0)).is_chief


def test_the_old_flags_say_the_same_and_win() -> None:
    flags = cluster_from("a:1", "a:2,b:2", "ps", 0, tf_config="nonsense")
    assert flags == cluster_from(tf_config=tf_config(CLUSTER, "ps", 0))


@pytest.mark.parametrize("text", ["", "  ", "{}", '{"cluster": {}}'])
def test_without_a_cluster_the_process_is_alone(text: str) -> None:
    info = cluster_from(tf_config=text)
    assert info == ClusterInfo()
    assert (info.alone, info.is_chief, info.task) == (True, True, "worker-0")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "TF_CONFIG is not JSON"),
        ("[]", "TF_CONFIG must be a JSON object"),
        (json.dumps({"cluster": CLUSTER}), 'TF_CONFIG needs "cluster" and "task"'),
        (tf_config(CLUSTER, "worker", 2), "worker-2 does not exist, the cluster has 2"),
        (tf_config(CLUSTER, "worker", -1), "the index must be 0 or more, not -1"),
        (tf_config(CLUSTER, "worker", 0.5), "the index must be 0 or more, not 0.5"),
        (tf_config(CLUSTER, "chief"), "role 'chief' is not in the cluster (ps, worker)"),
        (tf_config({"master": ["a:1"]}, "master"), "unknown role 'master'"),
        (tf_config({"worker": []}), "the addresses of worker must be a list"),
        (tf_config({"worker": {"0": "a:1"}}), "the addresses of worker must be a list"),
        (tf_config({"worker": ["a"]}), "worker address 'a' is not host:port"),
        (tf_config({"worker": ["a:0"]}), "worker address 'a:0' is not host:port"),
        (tf_config({"worker": [7]}), "worker address 7 is not host:port"),
        (tf_config({"ps": ["a:1"], "worker": ["a:1"]}), "two tasks have the same address a:1"),
        (tf_config({"ps": ["a:1"]}, "ps"), "the cluster has no worker"),
        (tf_config({"chief": ["a:1", "a:2"]}, "chief"), "at most one chief"),
    ],
)
def test_nonsense_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        cluster_from(tf_config=text)
    assert message in str(caught.value)


def test_half_of_the_flags_is_not_enough() -> None:
    with pytest.raises(SettingsError, match="belong together"):
        cluster_from(worker_hosts="a:1")


def test_threads_are_the_cores_divided_by_the_tasks_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainer.cluster.cores", lambda: 8)
    assert threads_for(ClusterInfo(), None) == 8
    assert threads_for(cluster_from(tf_config=tf_config(CLUSTER, "worker", 0)), None) == 4
    assert threads_for(cluster_from(tf_config=tf_config(CLUSTER, "worker", 1)), None) == 8
    assert threads_for(cluster_from(tf_config=tf_config(CLUSTER, "worker", 1)), 2) == 2
