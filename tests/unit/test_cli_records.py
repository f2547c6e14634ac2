"""What `status` and `history` say of a run besides its tasks: settings, end, results."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ruamel.yaml import YAML

from tests.unit.records import SUCCESS, tasks, write_run
from tfcluster.cli import main
from tfcluster.events import Cause, JobStatus, Progress
from tfcluster.results import Results
from tfcluster.runrecord import EndedBy

VOLUME = Results("logdir", "volume", "/output", "tfcluster-mnist-7f3a", "office", copy="docker cp")


@pytest.fixture(autouse=True)
def empty_world(monkeypatch, tmp_path):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TFCLUSTER_JOB", raising=False)
    monkeypatch.chdir(tmp_path)


def output(capsys, *arguments: str) -> str:
    assert main(list(arguments)) == 0
    return capsys.readouterr().out


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


def document(capsys, *arguments: str) -> dict:
    return json.loads(output(capsys, *arguments, "-o", "json"), parse_constant=refuse)


# -- status


def test_status_as_json_says_what_the_run_was_brought_up_from_and_where_its_results_are(
    capsys, tmp_path
):
    spec = tmp_path / "cluster.yaml"
    spec.write_text("name: mnist\n")
    folder = Results("logdir", "folder", str(tmp_path / "out"))
    write_run(
        spec=spec,
        results=(folder,),
        variables={"workers": "4", "api_token": "hunter2"},
        overrides=("train.epochs=10",),
    )
    found = document(capsys, "status")
    assert found["elapsed"] == pytest.approx(9.84)
    assert (found["spec"], found["folder"]) == (str(spec), str(tmp_path))
    assert found["variables"] == {"api_token": None, "workers": "4"}
    assert found["overrides"] == ["train.epochs=10"]
    assert found["results"] == [folder.to_dict()]
    assert YAML(typ="safe").load(output(capsys, "status", "-o", "yaml")) == found


def test_status_names_the_place_of_results_and_wide_how_to_copy_them(capsys, tmp_path):
    (tmp_path / "weights.npz").touch()
    here = Results("checkpoints", "folder", str(tmp_path))
    write_run(results=(VOLUME, here))
    assert output(capsys, "status").splitlines()[-2:] == [
        "Results (logdir): Docker volume tfcluster-mnist-7f3a (/output) on office",
        f"Results (checkpoints): {tmp_path}",
    ]
    assert "  copy: docker cp" in output(capsys, "status", "-o", "wide").splitlines()


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), 10**500, -(10**40), "\ud800", "\x9b2J", [[[[[[[[[[[[1]]]]]]]]]]]]],
)
def test_status_is_strict_json_whatever_a_program_reports(capsys, value):
    run = write_run(result={"value": value, "na\udfffme": value})
    run.settle(replace(run.final_status(), result={"value": value}))
    found = document(capsys, "status")
    assert list(found["result"]) == ["value"]
    assert (
        YAML(typ="safe").load(output(capsys, "status", "-o", "yaml"))["result"] == found["result"]
    )


def test_a_run_that_could_not_be_started_says_why(capsys):
    run = write_run(observed=())
    run.note("failed", "could not be started: no such image")
    run.settle(JobStatus("mnist", run.id, "local", "failed"))
    assert "Reason: could not be started: no such image" in output(capsys, "status")
    assert document(capsys, "status")["reason"] == "could not be started: no such image"


# -- history


def test_history_says_which_settings_differ_from_the_run_before(capsys):
    write_run(settings="train: {epochs: 2}\nroles: {worker: {replicas: 2}}\n")
    write_run(settings="train: {epochs: 10}\nroles: {worker: {replicas: 2}}\n")
    write_run(settings="train: {epochs: 10, seed: 3}\nroles: {worker: {replicas: 3}}\n")
    write_run(settings="train: {epochs: 10}\nroles: {worker: {replicas: 3}}\n")
    header, *lines = output(capsys, "history").splitlines()
    start = header.index("CHANGED")
    assert [line[start:].strip() for line in lines] == [
        "train.seed unset",
        "roles.worker.replicas=3, train.seed=3",
        "train.epochs=10",
        "",
    ]
    changed = document(capsys, "history")["runs"][2]["changed"]
    assert changed == [{"path": "train.epochs", "before": 2, "after": 10}]


def test_a_long_list_of_changes_is_cut_in_the_table_only(capsys):
    write_run(settings="env: {A: '1'}")
    write_run(settings=json.dumps({"env": {f"NAME_{n}": "value" for n in range(9)}}))
    header, line, _ = output(capsys, "history").splitlines()
    assert len(line[header.index("CHANGED") :]) <= 44 and line.endswith("…")
    assert "env.NAME_8=value" in output(capsys, "history", "-o", "wide")


def test_history_has_the_last_loss_and_the_reason_of_a_failure(capsys):
    early = replace(SUCCESS[1], progress=Progress(step=9, loss=0.3), progressed=1.0)
    late = replace(SUCCESS[2], progress=Progress(step=2, loss="nan"), progressed=2.0)
    write_run(observed=(early, late))
    cause = Cause("worker-1", 137, "out of memory: killed by the system")
    write_run(observed=tasks(ps_0="stopped", worker_1="failed"), cause=cause)
    failed, diverged = document(capsys, "history")["runs"]
    assert (failed["reason"], diverged["loss"]) == (
        "worker-1: out of memory: killed by the system",
        "nan",
    )
    header, *lines = output(capsys, "history").splitlines()
    assert lines[0].endswith("worker-1: out of memory: killed by the system")
    assert lines[1][header.index("LOSS") :].split()[0] == "nan"


def test_history_says_what_ended_a_run_that_was_replaced(capsys):
    run = write_run(observed=tasks(worker_0="stopped"))
    by = EndedBy("up", "/home/ann/mnist", 1, "7f3a09")
    run.settle(replace(run.final_status(), ended_by=by))
    assert document(capsys, "history")["runs"][0]["reason"] == by.words
    assert f"Reason: {by.words}" in output(capsys, "status")


def test_history_names_the_places_of_all_runs_once(capsys, tmp_path):
    for _ in range(3):
        run = write_run()
        own = Results("logdir", "folder", str(run.files.output))
        run.settle(replace(run.final_status(), results=(own,)))
    write_run(results=(VOLUME,))
    assert main(["history"]) == 0
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "Results of a run: Docker volume tfcluster-mnist-7f3a (/output) on office",
        f"Results of a run: {run.files.output.parent.parent}/RUN/output",
    ]
    assert str(run.files.output) in output(capsys, "history", "-o", "wide")
    assert document(capsys, "history")["runs"][1]["results"] == [own.to_dict()]


def test_a_kept_spec_that_cannot_be_read_hides_no_run(capsys):
    write_run(settings="a: 1")
    write_run().files.spec_file.write_bytes(b"{\xff: [")
    write_run(settings="a: 2")
    assert [run["changed"] for run in document(capsys, "history")["runs"]] == [[], [], []]
