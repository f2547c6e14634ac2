"""`up` does not end or restart what runs unless a person has said so."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.recording import RecordingBackend, write_checkpoint
from tfcluster.archive import latest_run
from tfcluster.cli import main
from tfcluster.commands.consent import Call, Consent
from tfcluster.converge import look_ahead
from tfcluster.errors import TfclusterError, UsageError
from tfcluster.place import place_of
from tfcluster.spec.loader import load_spec

SPEC = """
name: mnist
train: {learning_rate: {{ rate | default(0.2) }}}
roles:
  ps: {replicas: 1}
  worker: {replicas: 2}
"""


@pytest.fixture
def backend(tmp_path, monkeypatch) -> RecordingBackend:
    """A folder with a spec, and a backend that starts nothing."""
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TFCLUSTER_BACKEND", raising=False)
    made = RecordingBackend()
    monkeypatch.setattr("tfcluster.converge.load_backend", lambda name: made)
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    (work / "cluster.yaml").write_text(SPEC)
    return made


def up(*arguments: str, code: int = 0) -> None:
    assert main(["up", "-d", *arguments]) == code


def run_now():
    return latest_run(place_of("mnist", Path.cwd()))


def test_a_plain_up_does_not_end_a_run_that_was_started_with_overrides(backend, capsys):
    up("--set", "train.epochs=30", "--var", "rate=0.5")
    run = run_now()
    backend.calls, backend.step = [], 640
    capsys.readouterr()
    up(code=2)
    assert backend.calls == [] and run_now() == run and run.final_status() is None
    err = capsys.readouterr().err
    assert f'error: this would end run {run.id} of job "mnist" and begin a new one' in err
    assert ", at step 640 of 1200" in err and "what would be lost: 640 steps, " in err
    assert "  train.epochs: 30 → (not set)\n  train.learning_rate: 0.5 → 0.2\n" in err
    assert "brought up with --var rate=0.5 --set train.epochs=30" in err
    assert "training starts again" in err


def test_the_call_that_is_offered_changes_nothing(backend, capsys):
    up("--set", "train.epochs=30", "--var", "rate=0.5", "--set", "env.A=x y")
    backend.calls = []
    capsys.readouterr()
    up("--set", "train.epochs=30", code=2)
    hint = next(line for line in capsys.readouterr().err.splitlines() if line.startswith("hint: "))
    offered = hint.partition("as it runs now: tfcluster up ")[2].partition(". Or add --yes")[0]
    up(*shlex.split(offered))
    assert backend.calls == []
    assert "running already, unchanged" in capsys.readouterr().err


def test_with_yes_the_run_is_ended_and_another_begins(backend, capsys):
    up("--set", "train.epochs=30")
    old = run_now()
    backend.calls = []
    up("--yes")
    new = run_now()
    assert [(name, run) for name, run, _ in backend.calls] == [
        ("delete", old.id),
        ("apply", new.id),
    ]
    assert f"Run {old.id} was ended." in capsys.readouterr().err
    ended = old.record.ended_by
    assert ended is not None and (ended.command, ended.run) == ("up", new.id)
    (event,) = [event for event in old.events() if event.kind == "replaced"]
    assert event.message == f"ended by `tfcluster up` in {Path.cwd()}, to begin run {new.id}"
    assert event.data is not None and event.data["run"] == new.id


def test_a_change_that_restarts_some_tasks_is_asked_about_as_well(backend, capsys):
    up()
    backend.calls = []
    up("--set", "roles.worker.env.X=1", code=2)
    assert backend.calls == []
    err = capsys.readouterr().err
    assert "this would restart worker-0 and worker-1 of job" in err and "training goes on" in err
    backend.succeeded = {"worker-0", "worker-1"}  # then nothing that runs is touched
    up("--set", "roles.worker.env.X=1")
    assert [name for name, *_ in backend.calls] == ["apply"]


def test_what_does_not_touch_a_running_task_needs_no_yes(backend):
    up()
    run = run_now()
    up()
    assert run_now() == run and [name for name, *_ in backend.calls] == ["apply"]


def test_the_overrides_of_a_run_are_those_of_its_last_change(backend, capsys):
    up("--set", "train.epochs=30")
    up("--yes", "--set", "train.epochs=30", "--set", "roles.worker.env.X=1")
    assert run_now().record.overrides == ("train.epochs=30", "roles.worker.env.X=1")
    up(code=2)
    assert "--set train.epochs=30 --set roles.worker.env.X=1" in capsys.readouterr().err


def test_a_run_that_was_moved_to_another_backend_is_offered_with_it(backend, monkeypatch, capsys):
    docker = RecordingBackend("docker")
    both = {"local": backend, "docker": docker}
    for module in ("converge", "commands.up"):
        monkeypatch.setattr(f"tfcluster.{module}.load_backend", both.__getitem__)
    up("--backend", "docker")
    up(code=2)
    err = capsys.readouterr().err
    assert "as it runs now: tfcluster up --backend docker." in err
    assert 'backend: "docker" → (not set)' in err
    up("--backend", "local", code=2)
    assert "if that is wanted, add --yes" in capsys.readouterr().err


def test_no_secret_is_offered(backend, capsys):
    spec = SPEC.replace("train:", 'env: {API_TOKEN: "{{ token }}"}\ntrain:')
    Path("cluster.yaml").write_text(spec)
    up("--var", "token=hunter2", "--set", "env.API_KEY=hunter3")
    up("--var", "token=hunter4", "--set", "train.epochs=3", code=2)
    assert "hunter" not in capsys.readouterr().err


def test_the_checkpoint_that_stays_is_named(backend, capsys):
    up()
    folder = run_now().files.output / "checkpoints"
    write_checkpoint(folder, 12, 640)
    up("--set", "train.learning_rate=0.3", code=2)
    err = capsys.readouterr().err
    assert "its checkpoint 12 (global step 640) stays; to go on from it:" in err
    assert f"--set checkpoints={folder}" in err


def test_a_folder_that_outlives_runs_is_gone_on_from(backend, tmp_path, capsys):
    up("--set", "checkpoints=kept")
    write_checkpoint(tmp_path / "work" / "kept", 12, 600)
    backend.step = 640
    up("--set", "checkpoints=kept", "--set", "train.learning_rate=0.3", code=2)
    err = capsys.readouterr().err
    assert "training goes on from checkpoint 12 (global step 600)" in err
    assert "what would be lost: 40 steps since then" in err
    up("--set", "checkpoints=kept", "--set", "train.model=cnn", code=2)
    assert "the trainer will refuse checkpoint 12" in capsys.readouterr().err


# -- Between the question and the change ---------------------------------------------------------


def outlook(*overrides: str):
    return look_ahead(load_spec(Path("cluster.yaml"), overrides=overrides))


def test_consent_holds_for_what_was_asked_about_only(backend):
    up()
    call = Call(load_spec(Path("cluster.yaml"), overrides=("train.epochs=9",)))
    asked = outlook("train.epochs=9")
    agreed = Consent(call, decision=asked.decision, run=asked.run)
    agreed.check(asked)
    fewer = replace(asked, decision=replace(asked.decision, disturbs=("ps-0",)))
    agreed.check(fewer)
    for changed in ({"ends": "other"}, {"disturbs": (*asked.decision.disturbs, "worker-7")}):
        found = replace(asked, decision=replace(asked.decision, **changed))
        with pytest.raises(TfclusterError, match="has changed while you were asked"):
            agreed.check(found)


def test_a_job_that_came_up_since_is_not_ended_without_a_question(backend):
    call = Call(load_spec(Path("cluster.yaml"), overrides=("train.epochs=9",)))
    agreed = Consent(call)  # nothing ran, so nothing was asked
    up()
    with pytest.raises(UsageError, match="this would end run"):
        agreed.check(outlook("train.epochs=9"))
    replace(agreed, call=replace(call, yes=True)).check(outlook("train.epochs=9"))
