"""What the keeper of a run on Docker does about a container that does not run any more."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.launchers import KEY, until
from tests.unit.specs import load
from tfcluster.archive import Run
from tfcluster.backends.docker import follow, keeper, logs
from tfcluster.backends.docker.decisions import Container, Seen, Step, decide, is_killed
from tfcluster.backends.docker.engines import Engine, Unreachable
from tfcluster.backends.docker.frames import ContainerGone, Frame
from tfcluster.backends.docker.logs import TaskReader
from tfcluster.backends.docker.plan import plan
from tfcluster.backends.docker.status import Ending
from tfcluster.backends.jobend import Ends
from tfcluster.errors import TfclusterError
from tfcluster.events import state_of_code
from tfcluster.launch import exits, lines

ENDED = Seen(Container.ENDED, 137, restarts=1)
STOPPED = replace(ENDED, exit_code=143, announced="stopped", stopped=True)
GONE = Seen(Container.GONE, None, restarts=1)

TABLE = [
    # The launcher's exit code is its last word, whatever was read and whatever else is true.
    (replace(ENDED, exit_code=0), Step.CONCLUDE),
    (replace(ENDED, exit_code=0, announced="succeeded"), Step.PUBLISH),
    (replace(ENDED, exit_code=0, announced="failed"), Step.CONCLUDE),
    (replace(ENDED, exit_code=0, engine_restarted=True), Step.CONCLUDE),
    (replace(ENDED, exit_code=0, announced="stopped", stopped=True), Step.CONCLUDE),
    (replace(ENDED, exit_code=0, spoke=False), Step.CONCLUDE),
    (replace(GONE, exit_code=0), Step.CONCLUDE),
    (replace(ENDED, exit_code=1), Step.CONCLUDE),
    (replace(ENDED, exit_code=3, announced="failed"), Step.PUBLISH),
    (replace(ENDED, exit_code=3, announced="succeeded"), Step.CONCLUDE),
    (replace(ENDED, exit_code=119), Step.CONCLUDE),
    (replace(ENDED, exit_code=120), Step.CONCLUDE),
    (replace(ENDED, exit_code=120, announced="stopped"), Step.PUBLISH),
    (replace(ENDED, exit_code=121, engine_restarted=True), Step.CONCLUDE),
    (replace(ENDED, exit_code=124), Step.CONCLUDE),
    # A launcher that was killed is replaced as long as its role allows it.
    (ENDED, Step.REPLACE),
    (replace(ENDED, exit_code=139), Step.REPLACE),
    (replace(ENDED, exit_code=255), Step.REPLACE),
    (replace(ENDED, failures=1), Step.FAIL),
    (replace(ENDED, restarts=0), Step.FAIL),
    (replace(ENDED, restart_on=(1,)), Step.FAIL),
    (replace(ENDED, restart_on=(1, 137)), Step.REPLACE),
    (replace(ENDED, spoke=False), Step.FAIL),
    (replace(ENDED, exit_code=127, spoke=False), Step.FAIL),
    (replace(ENDED, exit_code=125), Step.REPLACE),
    (replace(ENDED, exit_code=126, announced="failed"), Step.PUBLISH),
    (GONE, Step.REPLACE),
    (replace(GONE, restarts=0), Step.FAIL),
    # Killed while it told its peers: it had said how its task ended.
    (replace(ENDED, announced="succeeded"), Step.PUBLISH),
    (replace(GONE, announced="succeeded"), Step.PUBLISH),
    (replace(GONE, announced="failed", engine_restarted=True), Step.PUBLISH),
    # What an engine did is not the task's failure.
    (replace(ENDED, engine_restarted=True, restarts=0), Step.BRING_BACK),
    (replace(GONE, engine_restarted=True, restarts=0), Step.BRING_BACK),
    (replace(STOPPED, engine_restarted=True, restarts=0), Step.BRING_BACK),
    (STOPPED, Step.WAIT),
    # A signal that no engine's shutdown explains is a killed launcher that found time to say so.
    (replace(STOPPED, waited=True), Step.REPLACE),
    (replace(STOPPED, waited=True, restarts=0), Step.FAIL),
    (replace(STOPPED, waited=True, failures=1), Step.FAIL),
    (replace(STOPPED, waited=True, restart_on=(1,)), Step.FAIL),
    (replace(STOPPED, waited=True, restart_on=(143,)), Step.REPLACE),
    (replace(GONE, announced="stopped", stopped=True, waited=True), Step.REPLACE),
    (Seen(Container.NEVER_RAN, 125, restarts=0), Step.BRING_BACK),
]


@pytest.mark.parametrize(("seen", "step"), TABLE, ids=str)
def test_what_was_seen_decides_what_to_do(seen, step):
    assert decide(seen) is step


def test_no_launcher_that_ended_by_itself_is_ever_replaced():
    again = (Step.REPLACE, Step.BRING_BACK)
    for code in range(256):
        for announced in ("", "succeeded", "failed", "stopped"):
            for restarted in (False, True):
                for container in (Container.ENDED, Container.GONE):
                    stopped = announced == "stopped"
                    seen = Seen(container, code, announced, stopped, True, restarted, restarts=9)
                    assert is_killed(code) or decide(seen) not in again, seen


def test_exit_codes_stand_for_states():
    found = {code: state_of_code(code) for code in (0, 1, 119, 120, 121, 124)}
    failed = dict.fromkeys((1, 119, 121, 124), "failed")
    assert found == {0: "succeeded", 120: "stopped", **failed}


# -- Reading to the end


@pytest.fixture
def run(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "tasks").mkdir()
    (tmp_path / "control.key").write_text(KEY.hex())
    return Run("job", "run1", tmp_path)


def frame(number: int, data: bytes, stream: str = "stdout") -> Frame:
    return Frame(stream, f"2026-01-31T12:00:00.{number:09d}Z", data)


def report(number: int, stream: str = "stderr", **fields) -> Frame:
    return frame(number, lines.state_line(KEY, "worker-0", fields) + b"\n", stream)


LINES = [frame(number, b"line %d\n" % number) for number in range(100, 200)]
LAST_WORDS = [
    report(300, state="succeeded", kind=exits.FINISHED, exitCode=0, reason="finished"),
    report(301, end=True),
    report(301, "stdout", end=True),
]


class FakeEngine:
    """A log, and how much of it each read gives; then how its container ended."""

    def __init__(self, monkeypatch, log, ending, *, gives=()):
        self.log, self.ending, self.gives, self.reads = log, ending, list(gives), []
        monkeypatch.setattr(logs, "read_frames", self.read_frames)
        monkeypatch.setattr(follow, "ending_of", self.ending_of)
        monkeypatch.setattr(logs, "READ_AGAIN", 0)
        monkeypatch.setattr(follow, "RECONNECT_EVERY", 0)

    def read_frames(self, engine, container, since, follow):
        self.reads.append("follow" if follow else "read")
        given = self.gives.pop(0) if self.gives else len(self.log)
        if isinstance(given, Exception):
            raise given
        yield from [entry for entry in self.log[:given] if entry.stamp >= since]

    def ending_of(self, engine, container):
        return self.ending if "follow" in self.reads else None


def followed(run: Run) -> follow.Follower:
    follower = follow.Follower(Engine("unix:///nowhere"), TaskReader(run, "worker-0"), "c1")
    follower.thread.join(10)
    assert follower.done
    return follower


def kept(run: Run) -> list[bytes]:
    records = (run.logs / "worker-0.0.log").read_bytes().splitlines()
    return [record.split(b" ", 3)[3] for record in records]


ALL = [b"line %d" % number for number in range(100, 200)]


def test_a_stream_that_the_engine_ends_early_is_read_on_to_its_end(run, monkeypatch):
    engine = FakeEngine(monkeypatch, LINES + LAST_WORDS, Ending(0, ""), gives=[30])
    follower = followed(run)
    assert engine.reads == ["follow", "read"]
    assert kept(run) == ALL
    assert follower.reader.record["state"] == "succeeded"
    assert [event.kind for event in run.events()] == ["succeeded"]


def test_the_last_lines_are_of_the_last_attempt(run, monkeypatch):
    begins = [report(201, begin=1), report(201, "stdout", begin=1)]
    log = [report(1, begin=0), *LINES, *begins, frame(202, b"of the second\n"), *LAST_WORDS]
    FakeEngine(monkeypatch, log, Ending(0, ""))
    assert list(followed(run).reader.lines) == ["of the second"]


def test_a_log_without_the_launchers_last_words_is_tried_again_then_named(run, monkeypatch):
    engine = FakeEngine(monkeypatch, LINES, Ending(0, ""))
    follower = followed(run)
    assert engine.reads == ["follow", *["read"] * logs.READS]
    assert kept(run) == ALL and not follower.reader.over
    assert ["could not be read to its end" in event.message for event in run.events()] == [True]


def test_the_log_of_a_killed_launcher_ends_where_nothing_is_added(run, monkeypatch):
    engine = FakeEngine(monkeypatch, LINES, Ending(137, "killed"), gives=[10, 50])
    follower = followed(run)
    assert engine.reads == ["follow", "read", "read", "read"]
    assert kept(run) == ALL and follower.ending.code == 137
    assert list(run.events()) == []


def test_a_launcher_killed_between_its_last_report_and_the_end_of_its_log(run, monkeypatch):
    engine = FakeEngine(monkeypatch, [*LINES, LAST_WORDS[0]], Ending(137, "killed"))
    reader = followed(run).reader
    assert engine.reads == ["follow", "read"]
    assert reader.final["state"] == "succeeded" and not reader.over


def test_a_lost_connection_loses_nothing(run, monkeypatch):
    away = [Unreachable("away"), 20, Unreachable("away"), TfclusterError("busy")]
    FakeEngine(monkeypatch, LINES + LAST_WORDS, Ending(0, ""), gives=away)
    assert followed(run).reader.over and kept(run) == ALL


def test_the_exit_code_is_remembered_when_the_container_goes_before_its_log_is_read(
    run, monkeypatch
):
    FakeEngine(monkeypatch, LINES, Ending(0, ""), gives=[10, ContainerGone("gone")])
    followed(run)
    assert TaskReader(run, "worker-0").record["containerExit"] == 0


@pytest.mark.parametrize(("log", "warnings"), [(LINES + LAST_WORDS, 0), (LINES, 1)])
def test_a_container_that_is_removed_is_missed_only_if_its_log_was_not_read(
    run, monkeypatch, log, warnings
):
    engine = FakeEngine(monkeypatch, log, None)

    def gone(_engine, _container):
        if "follow" in engine.reads:
            raise ContainerGone("gone")

    monkeypatch.setattr(follow, "ending_of", gone)
    followed(run)
    assert kept(run) == ALL
    assert [event.kind for event in run.events()].count("warning") == warnings


# -- The keeper

SPEC = """
name: job
backend: docker
image: python:3.11-slim
restarts: 1
roles: {worker: {command: [python3]}}
docker: {hosts: [{name: one, engine: "unix:///nowhere", address: 127.0.0.1}]}
"""


class Watched:
    """A keeper of one worker; what it asks of the engine is written down."""

    def __init__(self, run, monkeypatch, tmp_path):
        self.asked: list[str] = []
        for name, answer in (("create", "c2"), ("start", None), ("remove_container", None)):
            monkeypatch.setattr(keeper, name, self.noted(name, answer))
        self.keeper = keeper.Keeper(run, plan(load(SPEC).spec, None, tmp_path))
        self.reader = self.keeper.readers["worker-0"]
        self.engine = self.keeper.engines["one"]

    def noted(self, name, answer):
        return lambda *_: self.asked.append(name) or answer

    def look(self, state: str | None, *, restarted: bool = False) -> None:
        container = None if state is None else {"Id": "c1", "State": state}
        self.keeper.look_at("worker-0", self.engine, container, engine_restarted=restarted)
        follower = self.keeper.followers.get("worker-0")
        if follower is not None:
            follower.thread.join(10)


@pytest.fixture
def watched(run, monkeypatch, tmp_path):
    return Watched(run, monkeypatch, tmp_path)


def test_a_program_that_has_finished_is_not_started_again_though_nothing_says_so(
    watched, monkeypatch
):
    FakeEngine(monkeypatch, [report(1, state="running"), *LINES], Ending(0, ""))
    watched.look("running")
    watched.look("exited", restarted=True)
    assert watched.asked == []
    assert (watched.reader.record["state"], watched.reader.record["exitCode"]) == ("succeeded", 0)


def test_nothing_is_decided_before_the_log_is_read(watched, monkeypatch):
    FakeEngine(monkeypatch, [report(1, state="running"), *LINES], Ending(137, "killed"))
    watched.look("exited")
    assert watched.asked == [] and not watched.reader.over
    watched.look("exited")
    assert watched.asked == ["remove_container", "create", "start"]
    assert watched.reader.record["state"] == "starting"


def test_a_log_that_is_still_being_read_is_waited_for(watched, monkeypatch):
    go_on = threading.Event()
    FakeEngine(monkeypatch, LINES, Ending(137, "killed"))
    monkeypatch.setattr(follow, "read_rest", lambda *_: str(go_on.wait(10)))
    exited = {"Id": "c1", "State": "exited"}
    watched.keeper.look_at("worker-0", watched.engine, exited, False)
    follower = watched.keeper.followers["worker-0"]
    until(lambda: follower.ending is not None, "the container's end to be seen")
    for container in (exited, None):
        watched.keeper.look_at("worker-0", watched.engine, container, False)
    assert watched.keeper.followers["worker-0"] is follower
    assert watched.asked == [] and not watched.reader.over
    go_on.set()
    follower.thread.join(10)


def test_a_later_keeper_knows_the_exit_code_of_a_container_that_is_gone(watched):
    watched.reader.update(state="running", container="c1", containerExit=0)
    watched.look(None)
    assert watched.asked == [] and watched.reader.record["state"] == "succeeded"


def test_a_launcher_that_failed_without_a_word_is_the_named_cause(watched, monkeypatch):
    FakeEngine(monkeypatch, [report(1, state="running"), *LINES], Ending(119, "was killed"))
    watched.look("running")
    watched.look("exited")
    record = watched.reader.record
    assert (record["state"], record["exitCode"]) == ("failed", 119)
    assert record["cause"]["reason"] == "was killed"
    assert watched.asked == []


def test_a_launcher_that_somebody_stopped_is_replaced_after_a_while_and_then_fails(
    watched, monkeypatch
):
    stop = report(300, state="stopped", kind=exits.SIGNALLED, exitCode=143, reason="stopped")
    log = [report(1, state="running"), *LINES, stop, *LAST_WORDS[1:]]
    FakeEngine(monkeypatch, log, Ending(143, "its container was killed"))
    watched.look("exited")
    watched.look("exited")
    assert watched.asked == [] and not watched.reader.over
    monkeypatch.setattr(keeper, "DOUBT", -1)
    watched.keeper.doubts.clear()
    watched.look("exited")
    assert watched.asked == ["remove_container", "create", "start"]
    watched.reader.update(failures=1)
    watched.reader.final = lines.read_state(KEY, "worker-0", stop.data.rstrip())
    watched.look("exited")
    record = watched.reader.record
    assert (record["state"], record["kind"]) == ("failed", exits.LAUNCHER_KILLED)
    assert "SIGTERM" in record["reason"]


def test_an_engine_that_is_away_is_said_once(watched, run):
    for _ in range(3):
        watched.keeper.engine_lost("one", ["worker-0"], Unreachable("away"))
    assert [event.message for event in run.events()] == ["away"]
    del watched.keeper.lost["one"]
    watched.keeper.engine_lost("one", ["worker-0"], Unreachable("away again"))
    assert [event.message for event in run.events()] == ["away", "away again"]


def test_a_launcher_that_cannot_be_told_how_the_job_ended_is_named_once(watched, run, monkeypatch):
    def refuse(*_):
        raise TfclusterError("worker-0: refused", evidence=["  Docker says: it is paused"])

    monkeypatch.setattr(keeper, "tell", refuse)
    ends = Ends(("worker-0",), None, decided=True)
    for _ in range(3):
        watched.keeper.speak(ends, ["worker-0"])
    assert [event.message for event in run.events()] == [
        "no launcher could be told how tasks ended: worker-0: refused Docker says: it is paused"
    ]


def test_a_container_that_never_ran_makes_room_without_a_failure(watched):
    watched.reader.update(state="starting", failures=1)
    watched.look("created")
    assert watched.asked == ["remove_container", "create", "start"]
