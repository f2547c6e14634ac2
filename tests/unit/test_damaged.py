"""Every file of a run folder damaged in four ways, then `status`, `logs`, `down`, `up`.

Nothing runs here, so that the whole table is quick; tests/runs/test_damaged.py has real processes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.records import plan, write_run
from tfcluster.archive import Run, all_places, runs_of
from tfcluster.cli import main
from tfcluster.converge import live_run
from tfcluster.place import place_of
from tfcluster.repair import ASIDE

JOB = "mnist"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TFCLUSTER_JOB", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cluster.yaml").write_text(
        "{name: mnist, command: ['true'], roles: {worker: {replicas: 1}}}"
    )
    return tmp_path


def open_run() -> Run:
    """A run whose processes are gone, and which nobody has ended."""
    run = write_run(JOB, logs={"worker-0.0": ["hello"], "worker-1.0": ["world"]})
    run.files.status_file.unlink()
    launch = replace(plan(JOB, worker=2), job=JOB).launch(run.id)
    run.files.write_launch({**launch, "base": str(Path.cwd())})
    for task in ("worker-0", "worker-1"):
        run.files.write_task(task, {"task": task, "run": run.id, "state": "running"})
    run.files.write_keeper({"pid": 1, "start": "7"})
    run.files.write_engines([])
    return run


def ended_run() -> Run:
    return write_run(JOB, logs={"worker-0.0": ["hello"]})


def half(text: str) -> str:
    return text[: len(text) // 2]


def other_version(text: str) -> str:
    data = json.loads(text)
    key = "version" if "version" in data else "schemaVersion"
    return json.dumps({**data, key: 99})


DAMAGES = {
    "half": half,
    "empty": lambda text: "",
    "other JSON": lambda text: '{"hello": "world"}',
    "other version": other_version,
}
# What `status` and `logs` exit with, and whether they name the file (they may not read it).
# The last column: whether `down` moves it aside.
FILES: dict[str, tuple[int, bool, int, bool, bool]] = {
    "record.json": (1, True, 1, True, True),
    "plan.json": (0, False, 1, True, True),
    "launch.json": (0, True, 0, False, True),
    "keeper.json": (0, True, 0, False, True),
    "tasks/worker-0.json": (0, True, 0, False, True),
    "status.json": (1, True, 0, False, True),
    "engines.json": (0, False, 0, False, True),
    "control.key": (0, False, 0, False, True),
    "spec.yaml": (0, False, 0, False, False),
    "events.jsonl": (0, False, 0, False, False),
    "logs/worker-0.0.log": (0, False, 0, False, False),
}
VERSIONED = {name for name in FILES if name.endswith(".json")}


def table() -> list[tuple[str, str]]:
    return [
        (name, how)
        for name in FILES
        for how in DAMAGES
        if how != "other version" or name in VERSIONED
    ]


def said(capsys) -> str:
    out, err = capsys.readouterr()
    text = out + err
    assert "Traceback" not in text and "bug" not in text
    return text


@pytest.mark.parametrize(("name", "how"), table())
def test_a_damaged_file_is_named_and_down_and_up_work(capsys, name, how):
    status, status_names, logs, logs_name, moves = FILES[name]
    run = ended_run() if name == "status.json" else open_run()
    path = run.path / name
    if name == "spec.yaml":
        path.write_text("name: mnist\n")
    path.write_text(DAMAGES[how](path.read_text()))
    for command, code, names in (("status", status, status_names), ("logs", logs, logs_name)):
        assert main([command]) == code, command
        text = said(capsys)
        assert not names or str(path) in text, command
        assert code == 0 or "hint: " in text
    assert main(["down"]) == 0
    text = said(capsys)
    aside = path.with_name(path.name + ASIDE)
    if moves and not (name == "control.key" and how == "half"):
        assert aside.exists() and aside.name in text and str(path) in text
    # What `up` asks first: it finds nothing in its way, and the run is over.
    assert live_run(place_of(JOB, Path.cwd())) is None
    final = run.final_status()
    assert final is not None and final.over
    assert main(["status"]) == 0
    assert main(["ps", "-a"]) == 0
    assert str(path) not in said(capsys)


@pytest.mark.parametrize("name", [name for name in FILES if name != "status.json"])
def test_a_file_that_is_gone_keeps_nothing_from_being_ended(capsys, name):
    run = open_run()
    (run.path / name).unlink(missing_ok=True)
    for command in (["status"], ["logs"], ["ps", "-a"], ["down"], ["down", "--all"]):
        assert main(command) in (0, 3)
        said(capsys)
    assert live_run(place_of(JOB, Path.cwd())) is None


def test_all_files_at_once(capsys):
    run = open_run()
    for path in (*run.path.glob("*.json"), *run.files.tasks.iterdir()):
        path.write_text("{")
    assert main(["down"]) == 0
    text = said(capsys)
    assert all(name in text for name in ("record.json", "plan.json", "worker-1.json"))
    assert [found.id for found in runs_of(place_of(JOB, Path.cwd()))] == [run.id]
    assert run.final_status() is not None


@pytest.mark.parametrize("how", DAMAGES)
def test_one_bad_record_keeps_ps_and_down_from_no_other_job(capsys, how, folder):
    good = open_run()
    (folder / "elsewhere").mkdir()
    bad = write_run("spoilt", folder=folder / "elsewhere")
    path = bad.files.record_file
    path.write_text(DAMAGES[how](path.read_text()))
    assert main(["ps", "-a"]) == 0
    out, err = capsys.readouterr()
    assert JOB in out and "spoilt" not in out
    assert err.count(f"warning: left out: {path}") == 1
    assert "tfcluster" in err.partition(str(path))[2]  # what to do
    assert main(["down", "--all"]) == 0
    assert good.final_status() is not None
    assert f"{path.name}{ASIDE}" in said(capsys)
    assert main(["ps", "-a"]) == 0
    assert "warning" not in said(capsys)


def test_events_that_cannot_be_read_are_counted(capsys):
    run = open_run()
    run.files.events_file.write_text('{"half\n[]\n')
    run.note("running", "it runs", "worker-0")
    assert main(["events"]) == 0
    out, err = capsys.readouterr()
    assert "it runs" in out
    assert f"warning: {run.files.events_file}: left out what cannot be read in it: 2 lines" in err


def test_a_run_that_nobody_starts_is_stopped_and_not_pending(capsys):
    """Its command was killed a moment ago: nothing will come of it."""
    run = open_run()
    for path in run.files.tasks.iterdir():
        path.unlink()
    assert main(["status"]) == 0
    out = capsys.readouterr().out
    assert "starting" not in out and "pending" not in out
    assert out.count("was never started") == 2
    run.files.launch_file.unlink()
    assert main(["status"]) == 0
    assert "stopped" in capsys.readouterr().out
    assert all_places()
