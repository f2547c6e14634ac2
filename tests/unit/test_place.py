"""A job is its name and the folder of its spec: which one is meant, and how they are kept apart."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.unit.records import tasks, write_run
from tfcluster.archive import Run, all_places, home, latest_run, runs_of
from tfcluster.cli import main
from tfcluster.place import place_of

STOPPED = tasks(worker_0="stopped")


@pytest.fixture(autouse=True)
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TFCLUSTER_JOB", raising=False)
    for name in ("a", "b", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")


@pytest.fixture
def two(tmp_path) -> tuple[Run, Run]:
    """Two jobs called mnist: the one of `a` has succeeded, the one of `b` was stopped."""
    return write_run(folder=tmp_path / "a"), write_run(folder=tmp_path / "b", observed=STOPPED)


def as_older_versions_did(run: Run) -> Run:
    """The run as it was kept when a job was its name alone."""
    target = home() / "jobs" / run.job / "runs" / run.id
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(run.path, target)
    return Run.at(target)


def test_the_same_name_in_another_folder_is_another_job(two, tmp_path):
    assert [run.id for run in runs_of(place_of("mnist", tmp_path / "a"))] == [two[0].id]
    assert [run.id for run in runs_of(place_of("mnist", tmp_path / "b"))] == [two[1].id]
    assert [place.folder for place in all_places()] == [str(tmp_path / "a"), str(tmp_path / "b")]


def test_a_key_is_one_plain_name_of_a_folder(tmp_path):
    for folder in ("/", "/a b/ü\n/../x", str(tmp_path), "/" + "x" * 4000):
        key = place_of("mnist", folder).key
        assert key.startswith("mnist@") and "/" not in key and len(key) < 80 and key.isascii()
    assert place_of("mnist", "/a/../b/").key == place_of("mnist", "/b").key


def test_ps_tells_jobs_of_the_same_name_apart_by_their_folders(two, tmp_path, capsys):
    assert main(["ps", "-a"]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert header.split()[-1] == "FOLDER"
    assert [line.split()[-1] for line in lines] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert main(["ps", "-a", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["jobs"]
    assert [(row["run"], row["folder"]) for row in rows] == [
        (two[0].id, str(tmp_path / "a")),
        (two[1].id, str(tmp_path / "b")),
    ]


def test_a_name_means_the_job_of_this_folder(two, tmp_path, monkeypatch, capsys):
    for folder, run in zip(("a", "b"), two, strict=True):
        monkeypatch.chdir(tmp_path / folder)
        assert main(["status", "--job", "mnist"]) == 0
        assert f"run {run.id}" in capsys.readouterr().out


def test_a_name_with_a_spec_means_the_job_of_the_folder_of_that_spec(two, tmp_path, capsys):
    (tmp_path / "b" / "cluster.yaml").write_text("not: read\n")
    assert main(["status", "--job", "mnist", "--file", str(tmp_path / "b")]) == 0
    assert f"run {two[1].id}" in capsys.readouterr().out


def test_a_name_that_two_folders_have_is_asked_about(two, tmp_path, capsys):
    assert main(["status", "--job", "mnist"]) == 2
    err = capsys.readouterr().err
    assert 'which job "mnist"?' in err and "--file" in err and "--run" in err
    assert f"  mnist  {tmp_path / 'a'}\n  mnist  {tmp_path / 'b'}\n" in err
    assert main(["down", "--job", "mnist"]) == 2


def test_a_run_is_found_by_its_id_from_any_folder(two, capsys):
    for arguments in (["--run", two[1].id], ["--job", "mnist", "--run", two[1].id]):
        assert main(["status", *arguments]) == 0
        assert f"run {two[1].id}" in capsys.readouterr().out
    assert main(["status", "--run", "zzz"]) == 3
    assert 'no job has a run "zzz"' in capsys.readouterr().err
    assert main(["status", "--job", "other", "--run", two[1].id]) == 3


def test_a_job_that_only_another_folder_has_is_not_taken_for_this_ones(two, tmp_path, capsys):
    spec = tmp_path / "elsewhere" / "cluster.yaml"
    spec.write_text("name: mnist\ncommand: [sleep]\nroles: {worker: {replicas: 1}}\n")
    assert main(["status"]) == 3
    err = capsys.readouterr().err
    assert f"never been brought up from {tmp_path / 'elsewhere'}" in err
    assert f"in {tmp_path / 'a'}\n" in err


def test_runs_that_older_versions_have_written_belong_to_the_folders_in_their_records(
    two, tmp_path, monkeypatch, capsys
):
    old = [as_older_versions_did(run) for run in two]
    new = write_run(folder=tmp_path / "a")
    a, b = (place_of("mnist", tmp_path / name) for name in ("a", "b"))
    assert all_places() == [a, b]
    assert [run.id for run in runs_of(a)] == [new.id, old[0].id]
    assert latest_run(b) == old[1] and old[1].place == b
    monkeypatch.chdir(tmp_path / "b")
    assert main(["logs", "--job", "mnist"]) == 0
    assert main(["ps", "-a"]) == 0
    assert old[1].id in capsys.readouterr().out


def test_a_run_of_an_older_version_can_be_ended(two, tmp_path, monkeypatch, capsys):
    old = as_older_versions_did(two[1])
    old.files.status_file.unlink()
    monkeypatch.chdir(tmp_path / "b")
    assert main(["down", "--job", "mnist"]) == 0
    status = old.final_status()
    assert status is not None and status.state == "stopped"
    assert Path(old.path).is_dir() and "Stopped" in capsys.readouterr().err
