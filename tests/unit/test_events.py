"""What is observed, as data: whatever a program printed, it stays JSON and can be shown."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.records import tasks
from tfcluster import tables
from tfcluster.archive import Run, create_run
from tfcluster.backends.records import TaskRecord, job_status, observed
from tfcluster.commands.status import status_lines
from tfcluster.events import Cause, Event, JobStatus, Observed, Progress, implied_kind
from tfcluster.launch import exits

NUMBERS = st.one_of(
    st.integers(), st.floats(), st.integers(10**300, 10**400), st.integers(-(10**400), -(10**300))
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
FIELDS = st.sampled_from(["step", "total", "rate", "loss", "accuracy", "global_step", "x"])
SAID = st.dictionaries(FIELDS, VALUES, max_size=7)


def strict(value: Any) -> Any:
    """Through JSON as others read it, where NaN and Infinity are no numbers."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(json.dumps(value, allow_nan=False), parse_constant=refuse)


def status_of(progress: dict[str, Any], result: dict[str, Any]) -> JobStatus:
    seen = observed("worker-0", "", {"task": "worker-0", "state": "running", "progress": progress})
    data = JobStatus("mnist", "1", "local", "running", (seen,)).to_dict()
    return JobStatus.from_dict({**data, "result": result})


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SAID, SAID)
def test_a_status_is_json_and_can_be_shown_whatever_a_program_printed(progress, result):
    status, nowhere = status_of(progress, result), Run("mnist", "1", Path("/nowhere"))
    assert JobStatus.from_dict(strict(status.to_dict())) == status
    for wide in (False, True):
        assert status_lines(nowhere, status, wide=wide)
    tables.task_rows(status.tasks, bars=True)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400, -(10**400), True, "7"])
def test_progress_drops_what_is_no_number_that_can_be_shown(value):
    assert Progress.from_dict({"step": value, "loss": 0.5}) == Progress(loss=0.5)


def test_large_numbers_are_shown_with_an_exponent():
    progress = Progress(step=2**62, rate=1e300, loss=1e30)
    assert (tables.rate(progress), tables.loss(progress)) == ("1.0e+300/s", "1.0e+30")


def test_events_keep_their_data_both_ways():
    event = Event(1.0, "succeeded", "", None, {"accuracy": 0.5})
    assert Event.from_dict(strict(event.to_dict())) == event
    old = {"time": 1.0, "kind": "running", "message": "hello"}
    assert Event.from_dict(old) == Event(1.0, "running", "hello")
    assert Event.from_dict({**old, "data": {"x": math.nan}}).data == {"x": "nan"}


# -- Kinds ---------------------------------------------------------------------------------------


def test_kind_and_peer_survive_json():
    seen = replace(tasks(worker_0="failed")[0], kind=exits.OUT_OF_MEMORY, silent_since=5.0)
    assert Observed.from_dict(strict(replace(seen, progressed=4.0).to_dict())).progressed == 4.0
    assert Observed.from_dict(strict(seen.to_dict())) == seen
    cause = Cause("worker-0", 121, "words", kind=exits.PEER_MISSING, peer="ps-0")
    assert Cause.from_dict(strict(cause.to_dict())) == cause


@pytest.mark.parametrize(
    ("state", "code", "kind"),
    [
        ("succeeded", 0, exits.FINISHED),
        ("failed", 3, exits.PROGRAM_EXIT),
        ("failed", 137, exits.PROGRAM_KILLED),
        ("failed", exits.EXIT_KILLED, exits.PROGRAM_KILLED),
        ("failed", exits.EXIT_NOT_STARTED, exits.PEER_MISSING),
        ("failed", exits.EXIT_DEADLINE, exits.DEADLINE),
        ("failed", 127, exits.CANNOT_START),
        ("failed", None, ""),
        ("stopped", exits.EXIT_PEER_FAILED, exits.PEER_FAILED),
        ("stopped", 143, exits.SIGNALLED),
        ("stopped", None, exits.STOPPED),
        ("running", None, ""),
        ("running", 3, ""),
    ],
)
def test_where_no_kind_was_written_state_and_exit_code_imply_one(state, code, kind):
    assert implied_kind(state, code) == kind
    record = {"task": "worker-0", "state": state, "exitCode": code}
    assert observed("worker-0", "", record).kind == kind
    assert observed("worker-0", "", {**record, "kind": "own"}).kind == "own"


@pytest.mark.parametrize(
    ("state", "kind", "reason", "text"),
    [
        ("succeeded", exits.FINISHED, "finished", "succeeded"),
        ("succeeded", exits.FINISHED, "in other words", "succeeded"),
        ("succeeded", exits.JOB_DONE, "the job is done", "succeeded (the job is done)"),
        ("failed", exits.PROGRAM_EXIT, "exit code 3", "failed (exit code 3)"),
        ("failed", exits.PROGRAM_EXIT, "finished", "failed (finished)"),
        ("failed", exits.PROGRAM_EXIT, "failed", "failed (failed)"),
        ("stopped", exits.PEER_FAILED, "stopped because a failed", "stopped because a failed"),
        ("stopped", exits.STOPPED, "stopped", "stopped"),
        ("stopped", exits.LAUNCHER_KILLED, "was never started", "stopped (was never started)"),
        ("running", "", "", "running"),
    ],
)
def test_a_state_in_words_is_decided_by_its_kind(state, kind, reason, text):
    task = replace(tasks(worker_0=state)[0], kind=kind, reason=reason)
    assert tables.state_text(task) == text


# -- Progress that stops, launchers that do not answer --------------------------------------------

NOW = 1769860800.0


def row(task: Observed, monkeypatch) -> dict[str, str]:
    monkeypatch.setattr("time.time", lambda: NOW)
    header, (cells,) = tables.task_rows([task])
    return dict(zip(header, cells, strict=True))


def test_a_running_task_without_progress_says_for_how_long_and_has_no_rate(monkeypatch):
    task = replace(tasks(worker_0="running")[0], progressed=NOW - 35.4)
    shown = row(task, monkeypatch)
    assert shown["REASON"] == "no progress for 35 s"
    assert "RATE" not in shown
    assert "STEP" in shown


@pytest.mark.parametrize(
    "changes",
    [
        {"progressed": NOW - tables.STALL_SHOWN},
        {"progressed": None},
        {"progressed": NOW + 5},
        {"progressed": NOW - 99, "state": "succeeded"},
        {"progressed": NOW - 99, "state": "starting"},
    ],
)
def test_what_still_goes_on_or_has_ended_is_not_called_stalled(monkeypatch, changes):
    shown = row(replace(tasks(worker_0="running")[0], **changes), monkeypatch)
    assert "REASON" not in shown
    assert shown["RATE"] == "412/s"


def test_a_task_that_does_not_answer_says_since_when(monkeypatch):
    clock = time.strftime("%H:%M:%S", time.localtime(NOW - 60))
    task = replace(tasks(worker_0="running")[0], silent_since=NOW - 60, progressed=NOW - 99)
    assert row(task, monkeypatch)["REASON"].startswith(f"does not answer since {clock}")
    doubt = replace(task, reason="its node is not ready")
    assert row(doubt, monkeypatch)["REASON"].startswith("its node is not ready; does not answer")
    over = replace(task, state="succeeded")
    assert "REASON" not in row(over, monkeypatch)


def make_run(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path))
    here = {"folder": tmp_path, "base": tmp_path, "spec": None}
    return create_run("mnist", backend="local", source="", variables={}, **here)


def test_a_job_takes_the_hubs_word_on_who_is_silent(tmp_path, monkeypatch):
    run = make_run(tmp_path, monkeypatch)
    names = ("ps-0", "worker-0", "worker-1", "worker-2")
    records: list[dict[str, Any]] = [{"task": name, "state": "running"} for name in names]
    records[0]["silent"] = {"worker-0": 5.0, "worker-1": 6.0, "worker-2": "soon", "other-7": 1.0}
    records[2]["state"] = "succeeded"
    seen = tuple(observed(name, "", one) for name, one in zip(names, records, strict=True))
    status = job_status(run, seen, records, ())
    assert [task.silent_since for task in status.tasks] == [None, 5.0, None, None]
    records[0]["state"] = "succeeded"  # what it said then holds no longer
    status = job_status(run, seen, records, ())
    assert [task.silent_since for task in status.tasks] == [None] * 4


def test_a_record_takes_up_when_progress_came_and_forgets_the_kind_of_the_state_before(
    tmp_path, monkeypatch
):
    record = TaskRecord(make_run(tmp_path, monkeypatch), "worker-0")
    record.update(state="failed", kind=exits.OUT_OF_MEMORY)
    record.update(restarts=1)
    assert record.record["kind"] == exits.OUT_OF_MEMORY
    record.understand(b'tfcluster-progress {"step": 3, "loss": NaN}', 0, when=7.0)
    record.understand(b"tfcluster-progress {nonsense", 0, when=8.0)
    assert record.record["progress"] == {"step": 3, "loss": "nan"}
    assert record.record["progressed"] == 7.0
    record.update(state="starting")
    assert "kind" not in record.record
