"""The files of a run folder: what readers make of damage, who may read them, which links count."""

from __future__ import annotations

import json
import os
import re
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tfcluster
from tests.unit.records import plan, tasks, write_run
from tfcluster import files
from tfcluster.archive import Run, create_run, find_run, runs_of
from tfcluster.cli import main
from tfcluster.errors import DamagedFile, StateWarning
from tfcluster.events import JobStatus
from tfcluster.joblock import job_lock
from tfcluster.launch import record as task_record
from tfcluster.place import place_of
from tfcluster.plan import stored_plan


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def make_run(job: str = "mnist") -> Run:
    here = Path.cwd()
    return create_run(
        job, backend="local", folder=here, base=here, spec=None, source="", variables={}
    )


def full_run() -> Run:
    """A run with every file that is read back."""
    run = make_run()
    run.files.write_plan(plan(worker=2).to_dict())
    run.files.write_launch(plan(worker=2).launch(run.id))
    run.files.write_task("worker-0", {"task": "worker-0", "run": run.id, "state": "running"})
    run.files.write_keeper({"pid": 1, "start": "7"})
    run.files.write_engines([{"name": "", "engine": "unix:///x", "address": ""}])
    run.settle(JobStatus("mnist", run.id, "local", "succeeded", tasks(worker_0="succeeded")))
    return run


# Per file: how it is read, and the key of its version.
READERS: dict[str, tuple[Any, str]] = {
    "record.json": (lambda run: run.files.read_record(), "schemaVersion"),
    "status.json": (lambda run: run.files.read_status(), "schemaVersion"),
    "plan.json": (stored_plan, "schemaVersion"),
    "launch.json": (lambda run: run.files.read_launch(), "version"),
    "keeper.json": (lambda run: run.files.read_keeper(), "schemaVersion"),
    "engines.json": (lambda run: run.files.read_engines(), "schemaVersion"),
    "tasks/worker-0.json": (lambda run: run.files.read_task("worker-0"), "version"),
}


def half(text: str, key: str) -> str:
    return text[: len(text) // 2]


def newer(text: str, key: str) -> str:
    return json.dumps({**json.loads(text), key: 99})


def other_object(text: str, key: str) -> str:
    return json.dumps({key: json.loads(text)[key], "hello": "world"})


DAMAGES = {
    "half": (half, "half written"),
    "empty": (lambda text, key: "", "is empty"),
    "not JSON": (lambda text, key: "hello", "not JSON"),
    "not text": (lambda text, key: b"\xff\xfe\x00", "not JSON"),
    "a list": (lambda text, key: "[1]", "holds a list instead of an object"),
    "null": (lambda text, key: "null", "holds null instead of an object"),
    "another object": (other_object, "not what tfcluster writes there"),
    "newer": (newer, "version 99, of a newer tfcluster"),
    "no version": (lambda text, key: "{}", "not what tfcluster writes there"),
}


def damage(path: Path, how: str, key: str) -> str:
    """Do this to a file; what its reader has to say of it."""
    change, words = DAMAGES[how]
    content = change(path.read_text(), key)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return words


@pytest.mark.parametrize("name", READERS)
def test_every_file_is_read_as_it_was_written(name):
    assert READERS[name][0](full_run())


@pytest.mark.parametrize("name", READERS)
def test_an_absent_file_is_nothing_and_no_error(name):
    run = full_run()
    (run.path / name).unlink()
    assert not READERS[name][0](run)


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_refused_with_its_path_what_is_wrong_and_a_hint(name, how):
    run = full_run()
    read, key = READERS[name]
    words = damage(run.path / name, how, key)
    with pytest.raises(DamagedFile) as caught:
        read(run)
    assert str(run.path / name) in caught.value.message
    assert words in caught.value.message
    assert caught.value.hint


def test_a_key_of_another_length_is_refused():
    run = make_run()
    assert len(run.files.read_key() or b"") == 32
    assert run.files.make_key() == run.files.read_key()
    run.files.key_file.write_bytes(b"short")
    with pytest.raises(DamagedFile, match="holds no key"):
        run.files.read_key()


@pytest.mark.parametrize("name", ["record.json", "status.json", "launch.json"])
def test_a_file_of_another_run_is_refused(name):
    run, other = full_run(), full_run()
    (run.path / name).write_bytes((other.path / name).read_bytes())
    with pytest.raises(DamagedFile, match=f"it belongs to run {other.id}"):
        READERS[name][0](run)


def test_a_record_of_another_task_is_refused():
    run = full_run()
    run.files.task_file("worker-1").write_bytes(run.files.task_file("worker-0").read_bytes())
    with pytest.raises(DamagedFile, match="it belongs to worker-0"):
        run.files.read_task("worker-1")


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("created", "yesterday", "created: expected a number"),
        ("created", True, "created: expected a number"),
        ("backend", None, "backend: expected text"),
        ("cleaned", "yes", "cleaned: expected true or false"),
        ("colour", "red", "colour: unknown"),
    ],
)
def test_a_record_with_a_field_of_another_type_or_an_unknown_one_is_refused(key, value, words):
    run = make_run()
    run.files.record_file.write_text(json.dumps({**run.record.to_dict(), key: value}))
    with pytest.raises(DamagedFile, match=words):
        run.files.read_record()


def test_task_records_carry_their_version_and_those_without_one_are_refused():
    run = full_run()
    path = run.files.task_file("worker-0")
    data = json.loads(path.read_text())
    assert data.pop("version") == task_record.RECORD_VERSION
    path.write_text(json.dumps(data))
    with pytest.raises(DamagedFile):
        run.files.read_task("worker-0")


def test_two_who_change_a_record_at_once_lose_nothing_of_each_other():
    run = make_run()
    other = threading.Thread(target=run.update, kwargs={"context": "kind"})
    with files.locked(run.files.record_lock):
        before = run.record
        other.start()
        other.join(0.3)
        assert other.is_alive()
        run.files.write_record(replace(before, namespace="ml"))
    other.join()
    assert (run.record.context, run.record.namespace) == ("kind", "ml")


def test_a_reader_never_sees_half_a_file():
    run = full_run()
    broken: list[Exception] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            try:
                assert run.files.read_record() and stored_plan(run)
            except Exception as error:
                broken.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(100):
        run.update(applied=float(number))
        run.files.write_plan(plan(worker=1 + number % 50).to_dict())
    stop.set()
    reader.join()
    assert not broken


# -- Listings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_record_hides_no_other_job_from_ps(capsys, how):
    write_run("good")
    bad = write_run("bad")
    damage(bad.files.record_file, how, "schemaVersion")
    assert main(["ps", "-a"]) == 0
    shown = capsys.readouterr()
    assert "good" in shown.out
    assert f"warning: left out: {bad.files.record_file}" in shown.err


def test_a_damaged_run_is_left_out_of_the_history_and_named_when_it_is_asked_for(capsys):
    old, new = write_run(), write_run()
    new.files.record_file.write_text("{")
    with pytest.warns(StateWarning, match=f"left out: {new.files.record_file}"):
        assert [run.id for run in runs_of(place_of("mnist", Path.cwd()))] == [old.id]
    assert main(["history"]) == 0
    assert old.id in capsys.readouterr().out
    with pytest.raises(DamagedFile, match="half written"):
        find_run(place_of("mnist", Path.cwd()), new.id)
    old.files.record_file.write_text("")
    with pytest.raises(DamagedFile), pytest.warns(StateWarning):
        find_run(place_of("mnist", Path.cwd()))


# -- Who may read --------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_files_are_the_users_alone_whatever_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        run = full_run()
        run.note("running", "")
        run.files.write_spec("name: mnist\n")
        run.files.write_manifests("kind: Job\n")
        run.files.mark_ending()
        run.update(applied=1.0)
        os.close(run.files.open_log("worker-0", 0))
        os.close(files.open_append(run.files.keeper_log))
        with files.locked(run.files.reader_lock), job_lock(run.place, "up"):
            pass
    finally:
        os.umask(before)
    for path in (tmp_path / "home").rglob("*"):
        mode = stat.S_IMODE(path.lstat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path
    assert {path.name for path in run.path.iterdir()} >= {"control.key", "ending", "spec.yaml"}


# -- Links ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", READERS)
def test_a_link_is_not_followed_to_read(tmp_path, name):
    run = full_run()
    elsewhere = tmp_path / "elsewhere"
    (run.path / name).rename(elsewhere)
    (run.path / name).symlink_to(elsewhere)
    with pytest.raises(DamagedFile, match="is a symbolic link"):
        READERS[name][0](run)


WRITERS = {
    "record.json": lambda run: run.files.write_record(run.record),
    "plan.json": lambda run: run.files.write_plan({}),
    "launch.json": lambda run: run.files.write_launch({}),
    "status.json": lambda run: run.files.write_status(JobStatus("a", "b", "local", "failed")),
    "events.jsonl": lambda run: run.note("x", "y"),
    "keeper.json": lambda run: run.files.write_keeper({"pid": 1, "start": "1"}),
    "engines.json": lambda run: run.files.write_engines([]),
    "spec.yaml": lambda run: run.files.write_spec("x"),
    "manifests.yaml": lambda run: run.files.write_manifests("x"),
    "ending": lambda run: run.files.mark_ending(),
    "tasks/worker-0.json": lambda run: run.files.write_task("worker-0", {}),
    "logs/worker-0.0.log": lambda run: run.files.open_log("worker-0", 0),
    "keeper.log": lambda run: files.open_append(run.files.keeper_log),
    "record.lock": lambda run: run.update(applied=1.0),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_link_is_not_followed_to_write(tmp_path, name):
    run = make_run()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("mine")
    (run.path / name).unlink(missing_ok=True)
    (run.path / name).symlink_to(elsewhere)
    with pytest.raises(DamagedFile, match="is a symbolic link"):
        WRITERS[name](run)
    assert elsewhere.read_text() == "mine"


def test_a_folder_that_is_a_link_is_not_entered(tmp_path):
    run = full_run()
    for folder in (run.files.tasks, run.files.logs):
        folder.rename(tmp_path / folder.name)
        folder.symlink_to(tmp_path / folder.name)
    for use in (
        lambda: run.files.read_task("worker-0"),
        lambda: run.files.write_task("worker-0", {}),
        lambda: run.files.forget_tasks(["worker-0"]),
        lambda: run.files.open_log("worker-0", 0),
        lambda: run.files.log_attempts("worker-0"),
    ):
        with pytest.raises(DamagedFile, match="is a symbolic link"):
            use()


def test_a_pipe_in_place_of_a_file_holds_nobody_up():
    run = make_run()
    os.mkfifo(run.files.status_file)
    with pytest.raises(DamagedFile, match="not an ordinary file"):
        run.final_status()


# -- One place -----------------------------------------------------------------------------------

NAMES = r"record|spec|plan|launch|status|keeper|engines|manifests|control|reader|events"
LITERAL = re.compile(
    rf"""["'/](?:{NAMES})\.(?:json|jsonl|yaml|log|lock|key)["']"""
    r"""|\.path\s*/|/\s*f?["'](?:tasks|logs|output|ending)["']|["']ending["']|\.\{\w+\}\.log"""
)
IN_CONTAINERS = re.compile(
    r"""(?:\{LAUNCH\}|/tfcluster)/launch\.json|"launch\.json": |launch\.json: """
)


def test_only_the_run_folder_knows_the_names_of_its_files():
    root = Path(tfcluster.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        where = str(path.relative_to(root))
        # The launcher is told its paths; it stands alone.
        if where in ("runfolder.py", "launcher.py") or where.startswith("launch/"):
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if LITERAL.search(IN_CONTAINERS.sub("", line)):
                found.append(f"{where}:{number}: {line.strip()}")
    assert not found
