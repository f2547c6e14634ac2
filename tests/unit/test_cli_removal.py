"""`rm`, `prune` and `down --volumes` on records of runs that have ended."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from tests.launchers import until
from tests.unit.records import START, write_run
from tfcluster.archive import latest_run, runs_of
from tfcluster.backends.docker.backend import DockerBackend
from tfcluster.backends.local.backend import LocalBackend
from tfcluster.belongings import VOLUME, Belonging, home_mark
from tfcluster.cli import main
from tfcluster.errors import MissingError
from tfcluster.place import place_of
from tfcluster.results import Results

ENGINE = "unix:///nowhere/docker.sock"


@pytest.fixture(autouse=True)
def empty_world(monkeypatch, tmp_path):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DOCKER_HOST", ENGINE)
    monkeypatch.delenv("TFCLUSTER_JOB", raising=False)
    monkeypatch.chdir(tmp_path)


def left(tmp_path, job: str = "mnist") -> list[str]:
    return [run.id for run in runs_of(place_of(job, tmp_path))]


def call(capsys, *arguments: str, code: int = 0) -> tuple[str, str]:
    found = main(list(arguments))
    out, err = capsys.readouterr()
    assert found == code, err
    return out, err


def on_docker(run, engine: str = ENGINE):
    """The same run, as if it had been on an engine."""
    run.files.write_record(replace(run.record, backend="docker"))
    run.files.plan_file.unlink()
    run.files.write_engines([{"name": "", "engine": engine, "address": ""}])
    return run


class FakeEngine:
    """What one engine has; removing is remembered."""

    def __init__(self, monkeypatch, *things: Belonging):
        self.things = list(things)
        monkeypatch.setattr(DockerBackend, "survey", lambda _, host, runs: list(self.things))
        monkeypatch.setattr(DockerBackend, "remove", self.remove)
        monkeypatch.setattr(DockerBackend, "default_hosts", lambda _: [ENGINE])
        monkeypatch.setattr(DockerBackend, "hosts", lambda _, run: [ENGINE])

    def remove(self, host, things) -> None:
        self.things = [one for one in self.things if one not in things]


def volume(run_id: str, job: str = "mnist", **more) -> Belonging:
    own = {"holds_results": True, "size": 3 << 20, **more}
    return Belonging(VOLUME, f"tfcluster-{job}-{run_id}", ENGINE, job, run_id, **own)


# -- rm


def test_rm_removes_a_run_and_says_so(capsys, tmp_path):
    first, second = write_run(), write_run()
    _, err = call(capsys, "rm", first.id[:5], "--yes")
    assert f'Removed run {first.id} of "mnist"' in err
    assert left(tmp_path) == [second.id]
    assert not first.path.exists()


def test_rm_of_a_job_removes_all_of_its_runs_and_no_other(capsys, tmp_path):
    runs, other = [write_run(), write_run()], write_run("other")
    call(capsys, "rm", "mnist", "--yes")
    assert not any(run.path.exists() for run in runs) and other.path.exists()
    assert left(tmp_path) == []


def test_rm_twice_is_no_error(capsys):
    run = write_run()
    call(capsys, "rm", run.id, "--yes")
    _, err = call(capsys, "rm", run.id, "--yes")
    assert f'There is no run or job "{run.id}".' in err and "Nothing to remove." in err


def test_a_dry_run_shows_sizes_and_removes_nothing(capsys, tmp_path):
    run = write_run(logs={"worker-0.0": ["x" * 100] * 30})
    run.files.output.mkdir()
    (run.files.output / "weights.npz").write_bytes(b"x" * (2 << 20))
    out, err = call(capsys, "rm", "mnist", "--dry-run")
    header, line = out.splitlines()
    assert header.split() == ["JOB", "RUN", "STATE", "ENDED", "SIZE", "WHAT"]
    assert line.split()[:3] == ["mnist", run.id, "succeeded"]
    assert "2MiB" in line and line.endswith("record, logs and output")
    assert "rm would remove 1 run (2MiB)." in err
    assert left(tmp_path) == [run.id]


def test_off_a_terminal_it_needs_yes(capsys, tmp_path):
    run = write_run()
    _, err = call(capsys, "rm", run.id, code=2)
    assert "--yes" in err and left(tmp_path) == [run.id]


def test_several_runs_that_begin_alike_are_listed(capsys, tmp_path):
    one, two = write_run(), write_run()
    for run, name in ((one, "aaa111"), (two, "aaa222")):
        run.path.rename(run.path.with_name(name))
    for name in ("aaa111", "aaa222"):
        path = one.path.with_name(name) / "record.json"
        path.write_text(path.read_text().replace(one.id, name).replace(two.id, name))
    _, err = call(capsys, "rm", "aaa", "--yes", code=2)
    assert "aaa111" in err and "aaa222" in err
    call(capsys, "rm", "aaa111", "--yes")
    assert left(tmp_path) == ["aaa222"]


def test_a_run_that_is_running_is_refused_with_what_to_do(capsys, tmp_path, monkeypatch):
    ended, run = write_run(), write_run()
    status = run.final_status()
    run.files.status_file.unlink()
    busy = replace(status, state="running", tasks=(replace(status.tasks[0], state="running"),))
    monkeypatch.setattr(LocalBackend, "observe", lambda *_: busy)
    _, err = call(capsys, "rm", "mnist", "--yes", code=2)
    assert f'still running: {run.id} of "mnist"' in err
    assert f"tfcluster down --run {run.id}" in err
    assert sorted(left(tmp_path)) == sorted([ended.id, run.id])


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"schemaVersion": 99}'])
@pytest.mark.parametrize("name", ["record.json", "status.json", "plan.json", "engines.json"])
def test_a_damaged_run_can_be_removed_by_its_id(capsys, tmp_path, name, text):
    run, other = write_run(), write_run()
    (run.path / name).write_text(text)
    call(capsys, "rm", run.id, "--yes")
    assert not run.path.exists() and left(tmp_path) == [other.id]


def test_a_damaged_run_goes_with_its_job(capsys, tmp_path):
    run, other = write_run(), write_run()
    run.files.record_file.write_text("{")
    call(capsys, "rm", "mnist", "--yes")
    assert not run.path.exists() and not other.path.exists()


def test_a_damaged_run_of_which_a_process_lives_is_refused(capsys):
    run = write_run()
    run.files.record_file.write_text("{")
    env = {**os.environ, "TFCLUSTER_RUN_FOLDER": str(run.path)}
    with subprocess.Popen([sys.executable, "-c", "input()"], env=env, stdin=subprocess.PIPE) as one:
        until(lambda: one.poll() is None, "the process to live")
        _, err = call(capsys, "rm", run.id, "--yes", code=2)
        one.kill()
    assert "still running" in err and run.path.is_dir()
    call(capsys, "rm", run.id, "--yes")
    assert not run.path.exists()


def test_a_run_whose_folder_is_a_link_loses_the_link_only(capsys, tmp_path):
    run = write_run()
    (tmp_path / "mine").mkdir()
    link = run.path.with_name("linked")
    link.symlink_to(tmp_path / "mine")
    call(capsys, "rm", "linked", "--yes")
    assert not link.is_symlink() and (tmp_path / "mine").is_dir()


def test_an_engine_that_does_not_answer_keeps_the_record_unless_forced(capsys, tmp_path):
    run, here = on_docker(write_run()), write_run()
    _, err = call(capsys, "rm", run.id, here.id, "--yes", code=3)
    assert f'run {run.id} of "mnist" stays: ' in err and "is not running" in err
    assert f"tfcluster rm --force {run.id}" in err
    assert left(tmp_path) == [run.id]
    call(capsys, "rm", run.id, "--yes", "--force")
    assert left(tmp_path) == []


def test_what_a_run_has_left_on_an_engine_goes_with_it(capsys, monkeypatch):
    run, other = on_docker(write_run()), on_docker(write_run())
    engine = FakeEngine(monkeypatch, volume(run.id), volume(other.id))
    out, _ = call(capsys, "rm", run.id, "--dry-run")
    assert out.splitlines()[2].split(maxsplit=3) == ["mnist", run.id, "3MiB", volume(run.id).words]
    call(capsys, "rm", run.id, "--yes")
    assert engine.things == [volume(other.id)]


# -- prune


def aged(days: float, job: str = "mnist"):
    run = write_run(job)
    then = START - days * 86400
    run.files.write_record(replace(run.record, created=then))
    run.settle(replace(run.final_status(), ended=then))
    return run


@pytest.fixture
def now(monkeypatch):
    monkeypatch.setattr("tfcluster.commands.prune.time.time", lambda: START)


def test_prune_keeps_the_last_run_of_each_job(capsys, tmp_path, now):
    runs = [aged(3), aged(2), aged(1)]
    lone = aged(90, "other")
    _, err = call(capsys, "prune", "--yes")
    assert left(tmp_path) == [runs[2].id] and left(tmp_path, "other") == [lone.id]
    assert "In all: 2 runs" in err


def test_prune_by_age_and_number(capsys, tmp_path, now):
    runs = [aged(30), aged(20), aged(8), aged(1)]
    call(capsys, "prune", "--older-than", "7d", "--keep", "3", "--yes")
    assert left(tmp_path) == [run.id for run in (runs[3], runs[2], runs[1])]
    call(capsys, "prune", "--older-than", "7d", "--yes")
    assert left(tmp_path) == [runs[3].id]
    _, err = call(capsys, "prune", "--older-than", "7d", "--yes")
    assert "Nothing to remove." in err


def test_prune_of_one_job_leaves_the_others_alone(capsys, tmp_path, now):
    aged(3)
    newest = aged(1)
    others = [aged(9, "other"), aged(5, "other")]
    call(capsys, "prune", "--job", "mnist", "--yes")
    assert left(tmp_path) == [newest.id]
    assert left(tmp_path, "other") == [others[1].id, others[0].id]


def test_prune_asks_and_a_dry_run_does_not(capsys, tmp_path, now):
    aged(3), aged(1)
    assert "--yes" in call(capsys, "prune", code=2)[1]
    out, _ = call(capsys, "prune", "--dry-run")
    assert len(out.splitlines()) == 2 and len(left(tmp_path)) == 2


@pytest.mark.parametrize("arguments", [["--older-than", "soon"], ["--keep", "-1"], ["--keep", "x"]])
def test_prune_refuses_what_it_does_not_understand(capsys, tmp_path, arguments):
    write_run(), write_run()
    call(capsys, "prune", *arguments, "--yes", code=2)
    assert len(left(tmp_path)) == 2


def test_prune_goes_on_where_one_engine_does_not_answer(capsys, tmp_path, now):
    away, old, new = on_docker(aged(9)), aged(8), aged(1)
    _, err = call(capsys, "prune", "--yes", code=3)
    assert left(tmp_path) == [new.id, away.id] and not old.path.exists()
    assert "stays" in err


def test_prune_finds_volumes_whose_record_is_gone_and_leaves_those_of_others(
    capsys, monkeypatch, now
):
    kept = on_docker(aged(1))
    lost, foreign = volume("aaaaaa", home=home_mark()), volume("bbbbbb", home="somewhere else")
    engine = FakeEngine(monkeypatch, lost, foreign, volume(kept.id, home=home_mark()))
    out, err = call(capsys, "prune", "--dry-run")
    assert lost.name in out and foreign.name not in out and kept.id not in out
    assert "Left alone: 1 thing of other state folders (3MiB)" in err
    call(capsys, "prune", "--yes")
    assert engine.things == [foreign, volume(kept.id, home=home_mark())]
    call(capsys, "prune", "--unrecorded", "--yes")
    assert engine.things == [volume(kept.id, home=home_mark())]


# -- down --volumes


def test_down_volumes_deletes_the_results_of_all_runs_and_forgets_the_places(
    capsys, tmp_path, monkeypatch
):
    runs = [on_docker(write_run()) for _ in range(3)]
    for run in runs:
        own = Results("logdir", "volume", "/output", volume(run.id).name, ENGINE)
        run.settle(replace(run.final_status(), results=(own,)))
    others = volume("cccccc", job="other")
    engine = FakeEngine(monkeypatch, *(volume(run.id) for run in runs), others)
    _, err = call(capsys, "down", "--volumes", code=2)
    assert all(f"{volume(run.id).words} (3MiB)" in err for run in runs)
    _, err = call(capsys, "down", "--volumes", "--yes")
    assert err.count("Deleted volume tfcluster-mnist-") == 3
    assert engine.things == [others]
    assert latest_run(place_of("mnist", tmp_path)).final_status().results == ()
    assert len(left(tmp_path)) == 3


def test_down_volumes_of_one_run_deletes_its_results_only(capsys, monkeypatch):
    first, second = on_docker(write_run()), on_docker(write_run())
    engine = FakeEngine(monkeypatch, volume(first.id), volume(second.id))
    call(capsys, "down", "--run", first.id, "--volumes", "--yes")
    assert engine.things == [volume(second.id)]


def test_down_volumes_says_which_engine_did_not_answer(capsys):
    on_docker(write_run())
    _, err = call(capsys, "down", "--volumes", "--yes", code=3)
    assert "results were left there: " in err and ENGINE in err


def test_local_results_of_all_runs_go_with_down_volumes(capsys):
    runs = [write_run(), write_run()]
    for run in runs:
        run.files.output.mkdir()
        (run.files.output / "w").write_bytes(b"x" * 2048)
    _, err = call(capsys, "down", "--volumes", code=2)
    assert all(f"{run.files.output} (2KiB)" in err for run in runs)
    call(capsys, "down", "--volumes", "--yes")
    assert not any(run.files.output.exists() for run in runs)
    assert all(run.path.is_dir() for run in runs)


def test_an_error_of_an_engine_is_told_as_what_it_is(capsys, monkeypatch, tmp_path):
    run = on_docker(write_run())
    engine = FakeEngine(monkeypatch, volume(run.id))

    def refuse(*_):
        raise MissingError("the volume is used by a container of yours")

    monkeypatch.setattr(DockerBackend, "remove", refuse)
    _, err = call(capsys, "rm", run.id, "--yes", code=3)
    assert "error: the volume is used" in err
    assert left(tmp_path) == [run.id] and engine.things
