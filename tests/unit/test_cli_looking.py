"""The commands that look at a job that has ended."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from ruamel.yaml import YAML

from tests.unit.records import SUCCESS, tasks, write_run
from tfcluster.cli import main
from tfcluster.events import Cause, Progress
from tfcluster.launch import exits

LOGS = {"ps-0.0": ["up"], "worker-0.0": ["a", "b"], "worker-1.0": ["first"], "worker-1.1": ["c"]}
PROGRESS = 'tfcluster-progress {"step": 1}'


@pytest.fixture(autouse=True)
def empty_world(monkeypatch, tmp_path):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TFCLUSTER_JOB", raising=False)
    monkeypatch.chdir(tmp_path)


def output(capsys, *arguments: str, code: int = 0) -> str:
    assert main(list(arguments)) == code
    return capsys.readouterr().out


# status, ps, history, events


def test_status_shows_the_job_its_tasks_and_its_result(capsys):
    run = write_run(result={"accuracy": 0.97123, "global_step": 2400})
    assert output(capsys, "status").splitlines() == [
        f"mnist (run {run.id}, local): succeeded after 9.8 s",
        "TASK      STATE      STEP      RATE   LOSS   RESTARTS",
        "ps-0      succeeded                          0",
        "worker-0  succeeded  640/1200  412/s  0.291  0",
        "worker-1  succeeded  640/1200  412/s  0.291  0",
        "Result: test accuracy 0.971, global step 2400",
    ]


def test_status_as_json_is_the_documented_document(capsys):
    run = write_run(result={"accuracy": 0.97})
    document = json.loads(output(capsys, "status", "-o", "json"))
    assert document["schemaVersion"] == 1
    assert (document["job"], document["run"], document["backend"]) == ("mnist", run.id, "local")
    assert document["state"] == "succeeded" and document["result"] == {"accuracy": 0.97}
    wanted = {"task", "role", "index", "state", "reason", "exitCode", "restarts", "address"}
    assert all(wanted | {"progress"} <= set(task) for task in document["tasks"])
    assert YAML(typ="safe").load(output(capsys, "status", "-o", "yaml")) == document


def test_status_shows_a_loss_that_is_no_number(capsys):
    lost = Progress.from_dict({"step": 7, "loss": "nan", "accuracy": "-inf", "rate": "inf"})
    write_run(observed=(replace(SUCCESS[1], progress=lost),), result={"accuracy": math.nan})
    assert "nan" in output(capsys, "status").splitlines()[2].split()
    assert output(capsys, "status").endswith("Result: test accuracy nan\n")
    (task,) = json.loads(output(capsys, "status", "-o", "json"))["tasks"]
    assert task["progress"] == {"step": 7, "loss": "nan", "accuracy": "-inf"}


def test_status_by_name_and_wide(capsys):
    write_run()
    assert output(capsys, "status", "-o", "name") == "ps-0\nworker-0\nworker-1\n"
    assert "127.0.0.1:20000" in output(capsys, "status", "-o", "wide")


def test_an_earlier_run_can_be_looked_at(capsys):
    old = write_run(observed=tasks(worker_0="failed"))
    write_run()
    assert "succeeded" in output(capsys, "status")
    assert "failed" in output(capsys, "status", "--run", old.id)
    assert main(["status", "--run", "zzz"]) == 3


def test_ps_lists_tasks_or_every_job(capsys):
    write_run("mnist")
    write_run("other", observed=tasks(worker_0="stopped"))
    assert output(capsys, "ps", "--job", "mnist").splitlines()[0].startswith("TASK ")
    listed = output(capsys, "ps", "--all").splitlines()
    assert [line.split()[0] for line in listed] == ["JOB", "mnist", "other"]
    document = json.loads(output(capsys, "ps", "--all", "-o", "json"))
    assert [job["state"] for job in document["jobs"]] == ["succeeded", "stopped"]


def test_history_lists_runs_newest_first(capsys):
    first = write_run(result={"accuracy": 0.9})
    second = write_run(observed=tasks(worker_0="failed"))
    lines = output(capsys, "history").splitlines()
    assert [line.split()[0] for line in lines] == ["RUN", second.id, first.id]
    assert "9.8 s" in lines[2] and "0.900" in lines[2]
    document = json.loads(output(capsys, "history", "-o", "json"))
    assert [run["accuracy"] for run in document["runs"]] == [None, 0.9]


def test_a_result_among_the_events_is_said_in_words(capsys):
    run = write_run()
    result = {"accuracy": 0.97, "settings": {"seed": 1}}
    run.note("succeeded", "", data=result)
    last = output(capsys, "events").splitlines()[-1]
    assert last.split()[2:] == ["succeeded", "test", "accuracy", "0.970"]
    last = output(capsys, "events", "-o", "json").splitlines()[-1]
    assert (json.loads(last)["message"], json.loads(last)["data"]) == ("", result)


def test_events_of_an_older_tfcluster_and_cut_lines_do_not_stop_the_others(capsys):
    run = write_run()
    old = '{"schemaVersion": 1, "time": 1769860801.0, "kind": "failed", "message": "{\\"a\\": 1}"}'
    with open(run.files.events_file, "a") as file:
        file.write(f'{old}\n[]\n{{"time": "x"}}\n{{"ti')
    lines = output(capsys, "events").splitlines()
    assert [line.split()[2:] for line in lines[2:]] == [["failed", '{"a":', "1}"]]


def test_events_are_a_table_or_a_line_each(capsys):
    write_run()
    assert "waiting for peers" in output(capsys, "events")
    (line,) = output(capsys, "events", "-o", "json").splitlines()
    assert json.loads(line)["task"] == "worker-0"
    assert "waiting for peers" in output(capsys, "events", "-f")


# Which job.


def test_an_ambiguous_call_lists_the_jobs(capsys, tmp_path, monkeypatch):
    write_run("one")
    write_run("two")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert main(["status"]) == 2
    err = capsys.readouterr().err
    assert f"  one  {tmp_path}\n  two  {tmp_path}\n" in err and "--job" in err


def test_the_environment_names_the_job_and_flags_win_over_it(capsys, monkeypatch, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(f"name: {name}\n")
        write_run(name, spec=tmp_path / f"{name}.yaml", folder=tmp_path)
    monkeypatch.setenv("TFCLUSTER_JOB", "one")
    assert output(capsys, "status").startswith("one ")
    assert output(capsys, "status", "--job", "two").startswith("two ")
    assert output(capsys, "status", "-f", "two.yaml").startswith("two ")


def test_a_spec_that_was_broken_after_up_still_leads_to_its_job(capsys, tmp_path):
    spec = tmp_path / "cluster.yaml"
    spec.write_text("name: mnist\n")
    write_run("mnist", spec=spec)
    spec.write_text("name: [")
    assert output(capsys, "status").startswith("mnist ")


def test_a_folder_stands_for_its_spec(capsys, tmp_path):
    (tmp_path / "sub").mkdir()
    spec = tmp_path / "sub" / "cluster.yaml"
    spec.write_text("name: mnist\n")
    write_run("mnist", spec=spec)
    write_run("other")
    assert output(capsys, "status", "-f", "sub").startswith("mnist ")


# logs


def test_logs_are_merged_by_time_with_aligned_prefixes(capsysbinary):
    write_run(logs={"ps-0.0": ["up"], "worker-0.0": ["a", "b"]})
    assert main(["logs"]) == 0
    assert capsysbinary.readouterr().out == b"ps-0     | up\nworker-0 | a\nworker-0 | b\n"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["worker"], ["worker-0 | a", "worker-1 | first", "worker-1 | c", "worker-0 | b"]),
        (["worker-0", "ps"], ["ps-0     | up", "worker-0 | a", "worker-0 | b"]),
        (["worker-1", "--previous"], ["worker-1 | first"]),
        (["worker-1", "--attempt", "1"], ["worker-1 | c"]),
        (["worker-0", "-n", "1"], ["worker-0 | b"]),
        (["worker-0", "--no-prefix", "--exclude", "a"], ["b"]),
        (["--include", "^[bc]$", "--no-prefix"], ["c", "b"]),
        (["worker-0", "--since", "2026-01-31T12:00:01Z"], ["worker-0 | b"]),
        (["worker-0", "--until", "2026-01-31T12:00:00.5Z"], ["worker-0 | a"]),
        (["-f", "worker-0"], ["worker-0 | a", "worker-0 | b"]),
        (["-f", "-n", "1", "worker-0"], ["worker-0 | b"]),
    ],
)
def test_logs_can_be_chosen(capsys, arguments, expected):
    write_run(logs=LOGS)
    assert sorted(output(capsys, "logs", *arguments).splitlines()) == sorted(expected)


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (["logs", "worker-0", "-t", "-n1"], "worker-0 | 2026-01-31T17:45:01.000+05:45 b\n"),
        (["history"], "2026-01-31 17:45:00+05:45"),
        (["ps", "--all"], "2026-01-31 17:45:00+05:45"),
        (["events"], "+05:45  starting"),
    ],
)
def test_times_are_those_of_this_machines_zone_with_its_offset(capsys, nepal, call, shown):
    write_run(logs=LOGS)
    assert shown in output(capsys, *call)


def test_since_takes_what_timestamps_show(capsys, nepal):
    write_run(logs=LOGS)
    first = output(capsys, "logs", "worker-0", "-t").splitlines()[1].split()[2]
    assert output(capsys, "logs", "worker-0", "--since", first) == "worker-0 | b\n"


@pytest.mark.parametrize(
    ("arguments", "problem", "known"),
    [
        (["--attempt", "7"], "there is no attempt 7", "worker-1: attempts 0, 1"),
        (["worker-0", "--attempt", "1"], "there is no attempt 1", "worker-0: attempt 0\n"),
        (["worker-0", "--previous"], "no attempt before the last", "worker-0: attempt 0\n"),
        (["-f", "--attempt", "7"], "there is no attempt 7", "worker-1: attempts 0, 1"),
    ],
)
def test_an_attempt_that_is_not_there_exits_3_and_lists_those_that_are(
    capsys, arguments, problem, known
):
    write_run(logs=LOGS)
    assert main(["logs", *arguments]) == 3
    out, err = capsys.readouterr()
    assert out == "" and problem in err and known in err


def test_two_ways_to_name_an_attempt_are_one_too_many(capsys):
    write_run(logs=LOGS)
    assert main(["logs", "--previous", "--attempt", "0"]) == 2


def test_tail_counts_the_lines_that_are_shown(capsys):
    write_run(logs={"worker-0.0": ["a", "b", PROGRESS, PROGRESS]})
    assert output(capsys, "logs", "-n", "2", "--no-prefix") == "a\nb\n"


def test_raw_shows_progress_lines_and_nothing_of_ours(capsys):
    write_run(logs={"worker-0.0": ["a", PROGRESS]})
    assert output(capsys, "logs", "worker-0", "-o", "raw") == f"a\n{PROGRESS}\n"


def test_logs_as_json(capsys):
    write_run(logs={"worker-0.0": ["a"]})
    (line,) = output(capsys, "logs", "-o", "json").splitlines()
    record = json.loads(line)
    assert (record["task"], record["line"], record["attempt"]) == ("worker-0", "a", 0)


def test_an_unknown_task_exits_3_and_lists_the_tasks(capsys):
    write_run()
    assert main(["logs", "wroker"]) == 3
    err = capsys.readouterr().err
    assert "ps-0, worker-0, worker-1" in err and 'did you mean "worker"?' in err


# How it ended.


def failed_run():
    cause = Cause("worker-1", 137, "killed by SIGKILL (exit code 137)", ("step 1", "step 2"))
    words = "stopped because worker-1 failed (x)"
    observed = (
        replace(SUCCESS[0], state="stopped", reason=words, kind=exits.PEER_FAILED),
        SUCCESS[1],
        replace(SUCCESS[2], state="failed", exit_code=137, reason=cause.reason),
    )
    return write_run(observed=observed, cause=cause, logs={"worker-1.0": ["step 1", "step 2"]})


@pytest.mark.parametrize("arguments", [["wait"], ["logs", "-f"]])
def test_a_failed_job_exits_5_with_the_first_cause_its_last_lines_and_a_hint(capsys, arguments):
    failed_run()
    assert main(arguments) == 5
    assert capsys.readouterr().err.splitlines() == [
        "error: worker-1 failed: killed by SIGKILL (exit code 137)",
        "  cause: worker-1 was killed from outside (SIGKILL) (not certain); more: tfcluster why",
        "  worker-1 | step 1",
        "  worker-1 | step 2",
        "  ps-0: stopped because worker-1 failed (x)",
        "  worker-0: succeeded",
        "hint: it was killed, or the system ran out of memory (137 often means that). "
        "Restarts are set with roles.worker.restarts. all lines: tfcluster logs worker-1",
    ]


def test_logs_without_follow_exit_0_whatever_became_of_the_job(capsys):
    failed_run()
    assert "step 2" in output(capsys, "logs")


def test_wait_prints_one_line_for_a_job_that_succeeded(capsys):
    run = write_run(result={"accuracy": 0.971, "global_step": 2400})
    assert output(capsys, "wait") == (
        f"mnist (run {run.id}): Done in 9.8 s: test accuracy 0.971, global step 2400. "
        "TensorBoard: tfcluster tensorboard\n"
    )


def test_wait_for_a_stopped_job_exits_5(capsys):
    write_run(observed=tasks(worker_0="stopped"))
    assert main(["wait"]) == 5
    assert "was stopped" in capsys.readouterr().err


# Changing what has ended.


def test_down_of_nothing_is_quiet_and_exits_0(capsys):
    assert main(["down"]) == 0
    assert main(["down", "--job", "nobody"]) == 0
    assert main(["down", "--all"]) == 0
    write_run()
    assert main(["down"]) == 0
    out, err = capsys.readouterr()
    assert out == "" and "error" not in err


@pytest.mark.parametrize(
    "arguments", [["restart", "--all"], ["scale", "worker=3"], ["exec", "worker-0", "--", "env"]]
)
def test_what_needs_a_running_job_says_so_and_exits_3(capsys, arguments):
    write_run()
    assert main(arguments) == 3
    assert "not running" in capsys.readouterr().err


def test_volumes_are_not_deleted_unasked(capsys, tmp_path):
    run = write_run()
    plan = json.loads((run.path / "plan.json").read_text())
    plan["logdir"] = str(run.path / "output")
    (run.path / "output").mkdir()
    (run.path / "plan.json").write_text(json.dumps(plan))
    assert main(["down", "--volumes"]) == 2
    assert (run.path / "output").is_dir()
    assert main(["down", "--volumes", "--yes"]) == 0
    assert not (run.path / "output").exists()


def test_a_folder_that_the_spec_names_is_left_alone(capsys, tmp_path):
    run = write_run()
    plan = json.loads((run.path / "plan.json").read_text())
    plan["logdir"] = str(tmp_path / "mine")
    (tmp_path / "mine").mkdir()
    (run.path / "plan.json").write_text(json.dumps(plan))
    assert main(["down", "--volumes", "--yes"]) == 0
    assert (tmp_path / "mine").is_dir()
    assert "Left alone" in capsys.readouterr().err
