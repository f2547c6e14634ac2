"""Watches and logs through everything that breaks them, against an API server that misbehaves."""

from __future__ import annotations

import random

import pytest

from tests.launchers import until
from tests.unit.fake_kube import FakeApi
from tfcluster.backends.kubernetes import logs
from tfcluster.backends.kubernetes.api import ApiError, Unreachable
from tfcluster.backends.kubernetes.logs import Follower, PodReader, parse_line
from tfcluster.backends.kubernetes.watch import watched
from tfcluster.launch.lines import UNENDED, state_line

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def run(kube_run, monkeypatch):
    monkeypatch.setattr(logs, "RECONNECT_EVERY", 0.02)
    return kube_run


# -- Requests


@pytest.mark.parametrize("fault", [429, 500, 503, "cut"])
def test_what_passes_is_asked_again(api, fault):
    api.put(PODS, "a")
    api.fail(PODS, fault, fault)
    items, _ = api.cluster().listed(PODS)
    assert [item["metadata"]["name"] for item in items] == ["a"]
    assert len(api.asked) == 3


@pytest.mark.parametrize("fault", [400, 403, 404, 409, 422])
def test_a_refusal_is_final(api, fault):
    api.fail(PODS, fault)
    with pytest.raises(ApiError) as raised:
        api.cluster().listed(PODS)
    assert raised.value.status == fault
    assert len(api.asked) == 1


def test_an_api_server_that_stays_away_is_named_within_the_patience(api):
    cluster = api.cluster(patience=0.5)
    api.close()
    with pytest.raises(Unreachable, match="the API server of fake does not answer"):
        cluster.listed(PODS)


def test_a_conflict_says_what_and_who(api):
    api.fail("configmaps", 409)
    doc = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    with pytest.raises(ApiError) as raised:
        api.cluster().apply(doc)
    assert raised.value.status == 409


# -- Watches


def states(api: FakeApi, wanted: int, **options):
    """What a watcher believes after every change, until it believes `wanted` different things."""
    known: dict[str, str] = {}
    for seen in watched(api.cluster(), PODS, pause=lambda _: None, **options):
        names = {thing["metadata"]["name"]: thing.get("phase") for thing in seen.objects}
        if seen.kind == "all":
            known = names
        elif seen.kind == "deleted":
            for name in names:
                known.pop(name)
        else:
            known.update(names)
        if len(known) == wanted:
            return known
    return known


@pytest.mark.parametrize("fault", ["cut", ("cut", 0), ("cut", 1), 500, 410, 429])
def test_a_watch_that_breaks_goes_on_and_misses_nothing(api, fault):
    api.put(PODS, "a", phase="Running")
    api.fail("watch=true", fault, fault)
    for name in "bcd":
        api.put(PODS, name, phase="Pending")
    assert states(api, 4) == {"a": "Running", "b": "Pending", "c": "Pending", "d": "Pending"}


def test_a_version_that_is_too_old_begins_with_a_new_list(api):
    api.put(PODS, "a")
    watch = watched(api.cluster(), PODS, pause=lambda _: None)
    assert next(watch).kind == "all"
    api.oldest = api.version + 1
    api.put(PODS, "b")
    again = next(watch)
    assert again.kind == "all"
    assert {thing["metadata"]["name"] for thing in again.objects} == {"a", "b"}


# -- Logs


def stamp(number: int) -> str:
    """Times with ten lines in the same second, not all of them in order."""
    jitter = (number % 3) * 7
    return f"2026-01-31T12:{number // 600:02d}:{number // 10 % 60:02d}.{number % 10}0{jitter:07d}Z"


def logged(run, task: str = "worker-0") -> list[bytes]:
    lines = []
    for path in sorted(run.logs.glob(f"{task}.*.log")):
        lines += [record.split(b" ", 3)[3] for record in path.read_bytes().splitlines()]
    return lines


def follow(api, reader, ended=None) -> Follower:
    made = Follower(api.cluster(0.2), reader, "pod", "uid", ended or (lambda: "pod" in api.ended))
    made.start()
    return made


@pytest.mark.parametrize("seed", range(6))
def test_no_line_is_lost_or_repeated_however_often_the_stream_breaks(api, run, seed):
    chance = random.Random(seed)
    expected = [b"line %d" % number for number in range(120)]
    faults = ["cut", 500, 503, *(("cut", chance.randrange(60)) for _ in range(8))]
    chance.shuffle(faults)
    api.fail("/log", *faults)
    for number, line in enumerate(expected[:60]):
        api.say("pod", stamp(number), line + b"\n")
    follower = follow(api, PodReader(run, "worker-0"))
    until(lambda: len(logged(run)) > 20, "some lines")
    for number, line in enumerate(expected[60:], start=60):
        api.say("pod", stamp(number), line + b"\n")
    api.end("pod")
    until(lambda: follower.drained, "the log to be read")
    assert logged(run) == expected


def test_equal_lines_at_the_same_moment_are_all_kept(api, run):
    for _ in range(3):
        api.say("pod", stamp(1), b"same\n")
    api.fail("/log", ("cut", 2))
    api.end("pod")
    follower = follow(api, PodReader(run, "worker-0"))
    until(lambda: follower.drained, "the log to be read")
    assert logged(run) == [b"same"] * 3


def test_a_new_reader_goes_on_where_the_killed_one_ended(api, run):
    for number in range(30):
        api.say("pod", stamp(number), b"line %d\n" % number)
    first = follow(api, PodReader(run, "worker-0"))
    until(lambda: len(logged(run)) == 30, "the first lines")
    first.stopped.set()
    for number in range(30, 60):
        api.say("pod", stamp(number), b"line %d\n" % number)
    api.end("pod")
    second = follow(api, PodReader(run, "worker-0"))
    until(lambda: second.drained, "the log to be read")
    assert logged(run) == [b"line %d" % number for number in range(60)]


def state(run, **content) -> bytes:
    return state_line(run.files.require_key(), "worker-0", content) + b"\n"


def test_attempts_and_states_are_told_from_the_stream(api, run):
    reader = PodReader(run, "worker-0")
    script = [
        state(run, begin=0),
        state(run, begin=0),
        b"first\n",
        state(run, begin=1),
        b"last of the first\n",  # overtaken by the other stream's mark
        state(run, begin=1),
        state(run, state="running", attempt=1, reason=""),
        b"second\n",
        b'tfcluster-progress {"step": 3}\n',
        b"no end" + UNENDED + b"\n",
    ]
    for number, line in enumerate(script):
        api.say("pod", stamp(number), line)
    api.end("pod")
    follower = follow(api, reader)
    until(lambda: follower.drained, "the log to be read")
    first = (run.logs / "worker-0.0.log").read_bytes()
    second = (run.logs / "worker-0.1.log").read_bytes()
    assert b"F first\n" in first and b"last of the first" in first
    assert b"F second\n" in second and b"P no end\n" in second
    assert reader.record["state"] == "running"
    assert reader.record["progress"] == {"step": 3}
    assert list(reader.lines) == ["second", "no end"]


def test_a_second_pods_attempts_are_counted_on(api, run):
    reader = PodReader(run, "worker-0")
    reader.begin_pod("one")
    for text in (state(run, begin=0), b"a\n", state(run, begin=1), state(run, begin=1), b"b\n"):
        reader.feed(logs.Line(stamp(1), text))
    reader.begin_pod("two")
    for text in (state(run, begin=1), b"c\n"):
        reader.feed(logs.Line(stamp(2), text))
    reader.close()
    assert sorted(path.name for path in run.logs.iterdir()) == [
        "worker-0.0.log",
        "worker-0.1.log",
        "worker-0.2.log",
    ]


def test_a_pod_that_is_gone_ends_the_reading(api, run):
    api.fail("/log", 404)
    follower = follow(api, PodReader(run, "worker-0"), ended=lambda: False)
    until(lambda: follower.drained, "the reader to give up")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"2026-01-31T12:00:00Z x\n", ("2026-01-31T12:00:00.000000000Z", b"x\n")),
        (b"2026-01-31T12:00:00.5+01:00 x", ("2026-01-31T11:00:00.500000000Z", b"x")),
        (b"2026-01-31T12:00:00.123456789Z \n", ("2026-01-31T12:00:00.123456789Z", b"\n")),
    ],
)
def test_times_are_read_in_every_form(text, expected):
    line = parse_line(text)
    assert (line.stamp, line.data) == expected


def test_what_the_kubelet_says_itself_is_no_line_of_the_program():
    assert parse_line(b"unable to retrieve container logs for containerd://1\n") is None
