"""`rm`, `prune` and `down --volumes` on a real engine."""

from __future__ import annotations

import shutil

import pytest

from tests.docker.conftest import networks
from tests.launchers import until
from tfcluster.cli import main

WRITE = "import os; open(os.environ['TFCLUSTER_LOGDIR'] + '/made', 'w').write('x' * 5000)"
SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def own(job, monkeypatch, tmp_path):
    """The job, with its folder as the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TFCLUSTER_JOB", raising=False)
    yield job
    if job.run is not None and not job.run.path.exists():
        job.run = None  # nothing is left to bring down


def call(capsys, *arguments: str, code: int = 0) -> tuple[str, str]:
    found = main(list(arguments))
    out, err = capsys.readouterr()
    assert found == code, err
    return out, err


def finished(job, **settings) -> str:
    """A run that has come to its end; its id."""
    job.up(job.spec(WRITE, workers=1, ps=None, **settings))
    assert job.over().state == "succeeded"
    until(lambda: job.run.final_status() is not None, "the run to be settled", timeout=60)
    return job.run.id


def volumes(engine, job) -> list[str]:
    found = engine.api.volumes(filters={"label": f"io.tfcluster.job={job.name}"})["Volumes"] or ()
    return sorted(volume["Name"] for volume in found)


def test_three_runs_and_down_volumes_leave_no_volume(own, engine, capsys):
    runs = [finished(own) for _ in range(3)]
    names = sorted(f"tfcluster-{own.name}-{run}" for run in runs)
    assert volumes(engine, own) == names
    _, err = call(capsys, "down", "--volumes", code=2)
    assert all(f"  volume {name} on " in err and "KiB)" in err for name in names)
    call(capsys, "down", "--volumes", "--yes")
    assert volumes(engine, own) == []
    assert "Results" not in call(capsys, "status")[0]


def test_rm_and_prune_remove_volumes_with_records_and_without(own, engine, capsys):
    named = [{"name": "tfcluster-test-kept", "target": "/kept"}]
    old, lost, kept = finished(own, volumes=named), finished(own), finished(own)
    shutil.rmtree(own.run.path.with_name(lost))  # as remove_old does, or a person
    name = f"tfcluster-{own.name}-{{}}".format
    try:
        out, _ = call(capsys, "prune", "--dry-run")
        assert name(old) in out and name(lost) in out and name(kept) not in out
        call(capsys, "prune", "--yes")
        assert volumes(engine, own) == sorted([name(kept), "tfcluster-test-kept"])
        assert "Nothing to remove." in call(capsys, "prune", "--yes")[1]
        own.run.files.record_file.write_text("{")  # a damaged run is removed by its id
        call(capsys, "rm", kept, "--yes")
        assert volumes(engine, own) == ["tfcluster-test-kept"]
    finally:
        engine.api.remove_volume("tfcluster-test-kept", force=True)


def test_what_runs_is_not_removed_whatever_is_left_of_its_record(own, engine, capsys):
    own.up(own.spec(SLEEP, workers=1, ps=None))
    own.says("worker-0", b"up")
    _, err = call(capsys, "rm", own.run.id, "--yes", code=2)
    assert f"tfcluster down --run {own.run.id}" in err
    assert "Nothing to remove." in call(capsys, "prune", "--keep", "0", "--yes")[1]
    kept = own.run.files.record_file.read_text()
    own.run.files.record_file.write_text("{")
    assert "still running" in call(capsys, "rm", own.run.id, "--yes", code=2)[1]
    own.run.files.record_file.write_text(kept)
    assert own.task("worker-0").state == "running"
    own.down()
    call(capsys, "rm", own.run.id, "--yes")
    assert volumes(engine, own) == [] and networks(engine, own) == []
    assert not own.run.path.exists()


def test_a_volume_that_is_used_by_others_is_said_and_the_record_stays(own, engine, capsys):
    run = finished(own)
    name = f"tfcluster-{own.name}-{run}"
    host = engine.api.create_host_config(binds=[f"{name}:/x"])
    user = engine.api.create_container("python:3.11-slim", ["true"], host_config=host)
    try:
        _, err = call(capsys, "rm", run, "--yes", code=1)
        assert f"volume {name}" in err and "is used by a container of yours" in err
        assert own.run.path.is_dir()
    finally:
        engine.api.remove_container(user["Id"], force=True)
    call(capsys, "rm", run, "--yes")
    assert volumes(engine, own) == [] and not own.run.path.exists()
