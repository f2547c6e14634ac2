"""What is said about pods that do not start or have ended, from the words of the API itself."""

from __future__ import annotations

import json

import pytest

from tfcluster.backends.kubernetes.endings import given_up, how_it_ended, is_final, when_ended
from tfcluster.backends.kubernetes.run import HINTS, hint_for
from tfcluster.backends.kubernetes.state import (
    create_problem,
    indexes,
    node_doubt,
    pod_problem,
    seconds,
    task_of,
)


def pod(state=None, *, conditions=(), image="some/image:1", memory=None, **status):
    container = {"name": "task", "image": image}
    if memory:
        container["resources"] = {"limits": {"memory": memory}}
    statuses = [{"name": "task", "state": state}] if state else []
    return {
        "metadata": {
            "name": "job-worker-1-abcde",
            "labels": {"tfcluster.io/role": "worker"},
            "annotations": {"batch.kubernetes.io/job-completion-index": "1"},
        },
        "spec": {"containers": [container], "nodeName": "node-7"},
        "status": {"containerStatuses": statuses, "conditions": list(conditions), **status},
    }


def waiting(reason, message=""):
    return {"waiting": {"reason": reason, "message": message}}


def ended(code, message="", reason="Error"):
    end = {"exitCode": code, "reason": reason, "message": message}
    return {"terminated": {**end, "finishedAt": "2026-01-31T12:00:00Z"}}


def test_a_pods_task_is_its_role_and_index():
    assert task_of(pod()) == "worker-1"
    assert task_of({"metadata": {"name": "stray"}}) is None


@pytest.mark.parametrize(
    ("thing", "events", "kind", "words", "fatal_after"),
    [
        (
            pod(
                conditions=[
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "message": "0/3 nodes are available: 2 Insufficient nvidia.com/gpu.",
                    }
                ]
            ),
            [],
            "unschedulable",
            "cannot be scheduled: 0/3 nodes are available: 2 Insufficient nvidia.com/gpu.",
            None,
        ),
        (
            pod(waiting("ErrImageNeverPull", "not present with pull policy of Never")),
            [],
            "image",
            'cannot pull "some/image:1": not present on the node',
            0.0,
        ),
        (
            pod(
                waiting(
                    "ErrImagePull",
                    "rpc error: code = NotFound desc = failed to pull and unpack image: failed to"
                    ' resolve reference "images.example/some/image:1": not found',
                )
            ),
            [],
            "image",
            'cannot pull "some/image:1": not found',
            10.0,
        ),
        (
            pod(waiting("ImagePullBackOff", "Back-off pulling image")),
            [{"reason": "Failed", "message": 'Failed to pull image "some/image:1": denied'}],
            "image",
            'Failed to pull image "some/image:1": denied',
            10.0,
        ),
        (
            pod(waiting("CreateContainerConfigError", 'secret "keys" not found')),
            [],
            "config",
            'its container cannot be made: secret "keys" not found',
            10.0,
        ),
        (
            pod(waiting("ContainerCreating")),
            [{"reason": "FailedMount", "message": 'MountVolume.SetUp failed: claim "x"'}],
            "mount",
            'MountVolume.SetUp failed: claim "x"',
            60.0,
        ),
        (
            pod(waiting("ContainerCreating")),
            [],
            "slow",
            "its container is being made on node-7",
            None,
        ),
    ],
)
def test_why_a_pod_does_not_start(thing, events, kind, words, fatal_after):
    problem = pod_problem(thing, events)
    assert problem.kind == kind
    assert words in problem.message
    assert problem.fatal_after == fatal_after
    assert hint_for(problem.to_dict(), "some-context")


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            'Error creating: pods "a" is forbidden: exceeded quota: small, requested: pods=1',
            "quota",
        ),
        (
            'Error creating: pods "a" is forbidden: violates PodSecurity "restricted:latest"',
            "security",
        ),
        ("Error creating: Internal error: webhook is away", "refused"),
    ],
)
def test_why_pods_are_not_even_created(message, kind):
    problem = create_problem([{"reason": "FailedCreate", "message": message}])
    assert problem.kind == kind
    assert "Error creating" not in problem.message


def test_a_kind_cluster_gets_its_own_hint():
    ours = {"kind": "image", "message": 'cannot pull "tfcluster/trainer:1": no such host'}
    assert hint_for(ours, "kind-tfc").endswith("tfcluster build --load tfc")
    other = {"kind": "image", "message": 'cannot pull "mine:1": no such host'}
    assert hint_for(other, "kind-tfc").endswith("kind load docker-image IMAGE --name tfc")


def test_the_launchers_last_word_is_taken():
    cause = {"task": "worker-1", "exitCode": 137, "reason": "killed", "lines": [], "time": 1.0}
    record = {
        "task": "worker-1",
        "state": "failed",
        "exitCode": 137,
        "reason": "killed",
        "cause": cause,
    }
    end = how_it_ended(pod(ended(119, json.dumps(record))), "worker-1")
    assert (end["state"], end["exitCode"], end["cause"]) == ("failed", 137, cause)
    assert is_final(end)


@pytest.mark.parametrize(
    ("said", "ended_after"),
    [(0.25, 0.25), (-3600.0, 0.0), (7200.0, 61.0), ("soon", 60.0), (float("nan"), 60.0)],
)
def test_a_launcher_knows_when_its_task_ended_within_the_life_of_its_pod(said, ended_after):
    begun = seconds("2026-01-31T12:00:00Z")
    times = {"startedAt": "2026-01-31T12:00:00Z", "finishedAt": "2026-01-31T12:01:00Z"}
    when = said if isinstance(said, str) else begun + said
    assert when_ended(times, when) - begun == ended_after


@pytest.mark.parametrize(
    ("thing", "words", "final"),
    [
        (
            pod(ended(137, reason="OOMKilled"), memory="200Mi"),
            "out of memory: killed at its limit of 200Mi",
            False,
        ),
        (pod(ended(137)), "its pod was killed by SIGKILL", False),
        (pod(ended(1, "Traceback")), "its launcher ended: exit code 1", True),
        (
            pod(ended(128, 'exec: "python3": not found', "StartError")),
            'cannot start: exec: "python3"',
            True,
        ),
        (
            pod(
                ended(143),
                conditions=[
                    {
                        "type": "DisruptionTarget",
                        "status": "True",
                        "reason": "EvictionByEvictionAPI",
                    }
                ],
            ),
            "evicted from node node-7 (drained)",
            False,
        ),
        (
            pod(None, phase="Failed", reason="Evicted", message="low on memory"),
            "evicted: low on memory",
            False,
        ),
        (
            pod(
                None,
                phase="Failed",
                conditions=[
                    {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC"}
                ],
            ),
            "node node-7 was lost",
            False,
        ),
    ],
)
def test_how_a_pod_ended_whose_launcher_could_not_say_it(thing, words, final):
    end = how_it_ended(thing, "worker-1")
    assert end["state"] == "failed"
    assert words in end["reason"]
    assert is_final(end) == final


def test_a_drain_is_named_even_if_the_launcher_only_saw_a_signal():
    record = {
        "task": "worker-1",
        "state": "stopped",
        "exitCode": 143,
        "reason": "stopped by SIGTERM",
    }
    disrupted = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    end = how_it_ended(pod(ended(143, json.dumps(record)), conditions=[disrupted]), "worker-1")
    assert "drained" in end["reason"]
    assert not is_final(end)


@pytest.mark.parametrize(
    ("ready", "at", "doubted"),
    [
        ("False", "2026-01-31T12:00:40Z", True),
        ("True", "2026-01-31T12:00:40Z", False),  # it is back
        ("False", "2026-01-31T11:00:00Z", False),  # an earlier story; it only is not ready yet
    ],
)
def test_a_node_that_was_lost_is_named_while_its_pods_are_said_to_run(ready, at, doubted):
    entry = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-31T12:00:40Z"}
    event = {"reason": "NodeNotReady", "lastTimestamp": at, "message": "Node is not ready"}
    doubt = node_doubt(pod({"running": {}}, conditions=[entry]), [event])
    assert ("node node-7 does not answer" in doubt) is doubted


def test_indexes_are_read_as_kubernetes_writes_them():
    assert indexes("0,2-4,7") == {0, 2, 3, 4, 7}
    assert indexes("") == indexes(None) == set()


def test_a_job_gives_up_on_failed_indexes_and_when_it_is_over():
    assert given_up({"status": {"failedIndexes": "1-2"}}, 2)
    assert not given_up({"status": {"failedIndexes": "1-2"}}, 3)
    failed = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    assert given_up(failed, 3)
    assert given_up(None, 0)


def test_times_are_utc():
    assert seconds("1970-01-01T00:01:00Z") == 60
    assert seconds("1970-01-01T00:01:00.500000Z") == 60.5
    assert seconds(None) is None


def test_every_kind_of_problem_has_a_hint():
    kinds = {"unschedulable", "image", "config", "mount", "quota", "security", "refused"}
    assert kinds | {"slow", "unmanaged", "forbidden"} == set(HINTS)
