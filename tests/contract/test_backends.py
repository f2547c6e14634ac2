"""What every backend promises. Each test runs for real, on each backend in turn."""

from __future__ import annotations

import json
import threading

import pytest

from tests.launchers import until
from tfcluster.archive import latest_run
from tfcluster.errors import TfclusterError
from tfcluster.events import JobStatus, job_state

HELLO = "import os; print('hello from', os.environ['TFCLUSTER_TASK'], flush=True)"
SLEEP = "import time; print('up', flush=True); time.sleep(600)"
# Asks one task of each role given as arguments for a line, until it answers.
FETCH = """
import json, os, socket, sys, time
hosts = json.loads(os.environ["TF_CONFIG"])["cluster"]
for role in sys.argv[1:]:
    for address in hosts[role]:
        host, _, port = address.rpartition(":")
        until = time.time() + 60
        while True:
            try:
                with socket.create_connection((host, int(port)), timeout=5) as connection:
                    print("got", connection.makefile().readline().strip(), flush=True)
                    break
            except OSError:
                if time.time() > until:
                    raise
                time.sleep(0.1)
"""
# Answers everyone who connects with its own name, and never ends.
ANSWER = """
import os, socket
server = socket.create_server(("{}", $(PORT)))
while True:
    connection, _ = server.accept()
    with connection:
        connection.sendall(os.environ["TFCLUSTER_TASK"].encode() + b"\\n")
"""


def test_a_job_ends_by_itself_and_its_ps_with_exit_0(job):
    job.up(job.spec(HELLO))
    status = job.over()
    assert status.state == "succeeded"
    assert {task.task: task.exit_code for task in status.tasks} == {
        "ps-0": 0,
        "worker-0": 0,
        "worker-1": 0,
    }


def test_a_reader_that_never_ends_is_ended_when_the_learner_has_succeeded(job):
    reader = {"command": job.python(SLEEP), "serves": True}
    learner = {"command": job.python("import time; time.sleep(1); print('learnt')")}
    job.up(job.spec_of({"reader": reader, "learner": learner}))
    status = job.over()
    assert status.state == "succeeded"
    assert {task.task: task.exit_code for task in status.tasks} == {"learner-0": 0, "reader-0": 0}
    assert job.log("learner-0") == b"learnt\n"
    assert job.log("reader-0") == b"up\n"


def test_a_data_service_of_roles_of_any_name_ends_with_its_trainer(job):
    """Shaped like tf.data service: a dispatcher, servers of data, and whoever trains."""
    answer = ANSWER.format(job.surroundings.listens_on)
    register = FETCH.replace("sys.argv[1:]", "['dispatcher']")
    roles = {
        "dispatcher": {"command": job.python(answer), "serves": True},
        "data": {"command": job.python(register + answer), "serves": True, "replicas": 2},
        "trainer": {"command": [*job.python(FETCH), "dispatcher", "data"]},
    }
    job.up(job.spec_of(roles, success="trainer"))
    status = job.over()
    assert status.state == "succeeded"
    codes = {task.task: task.exit_code for task in status.tasks}
    assert codes == {"data-0": 0, "data-1": 0, "dispatcher-0": 0, "trainer-0": 0}
    assert job.log("trainer-0") == b"got dispatcher-0\ngot data-0\ngot data-1\n"
    assert job.log("data-1") == b"got dispatcher-0\n"


def test_of_several_roles_that_decide_every_one_has_to_succeed(job):
    roles = {
        "quick": {"command": job.python("")},
        "slow": {"command": job.python("import time; time.sleep(2); print('done')")},
        "other": {"command": job.python(SLEEP)},
    }
    job.up(job.spec_of(roles, success=["quick", "slow"]))
    assert job.over().state == "succeeded"
    assert job.log("slow-0") == b"done\n"


def test_one_of_several_deciding_roles_that_fails_fails_the_job(job):
    failing = job.python("import time; time.sleep(1); raise SystemExit(7)")
    roles = {"good": {"command": job.python("")}, "bad": {"command": failing}}
    roles["server"] = {"command": job.python(SLEEP), "serves": True}
    job.up(job.spec_of(roles, success=["good", "bad"], restarts=0))
    status = job.over()
    assert status.state == "failed"
    assert status.cause is not None
    assert (status.cause.task, status.cause.exit_code) == ("bad-0", 7)


def test_every_task_gets_its_own_tf_config_and_the_same_cluster(job):
    job.up(job.spec("import os; print(os.environ['TF_CONFIG'])"))
    job.over()
    configs = [json.loads(job.log(f"worker-{index}")) for index in (0, 1)]
    assert [config["task"] for config in configs] == [
        {"type": "worker", "index": 0},
        {"type": "worker", "index": 1},
    ]
    assert configs[0]["cluster"] == configs[1]["cluster"]
    assert {role: len(hosts) for role, hosts in configs[0]["cluster"].items()} == {
        "ps": 1,
        "worker": 2,
    }


def test_logs_are_the_same_live_after_the_end_and_after_down(job):
    code = "import sys, time\nfor n in range(20): print('line', n, flush=True); time.sleep(0.05)"
    job.up(job.spec(code))
    job.says("worker-1", b"line 3")
    followed = job.log("worker-1", follow=True)
    job.over()
    after = job.log("worker-1")
    job.down()
    expected = b"".join(b"line %d\n" % n for n in range(20))
    assert followed == after == job.log("worker-1") == expected


def test_a_killed_program_is_restarted_and_counted(job):
    code = (
        "import os, time; print('attempt', os.environ['TFCLUSTER_ATTEMPT'], flush=True); "
        "time.sleep(0 if os.environ['TFCLUSTER_ATTEMPT'] == '1' else 600) "
        "if os.environ['TFCLUSTER_INDEX'] == '1' else None"
    )
    job.up(job.spec(code, restarts=1))
    job.says("worker-1", b"attempt 0")
    job.kill_program("worker-1")
    status = job.over()
    assert status.state == "succeeded"
    assert {task.task: task.restarts for task in status.tasks}["worker-1"] == 1
    assert job.log("worker-1") == b"attempt 0\nattempt 1\n"
    assert job.log("worker-1", attempts="previous") == b"attempt 0\n"


def test_without_restarts_the_first_cause_is_named_and_the_others_say_so(job):
    job.up(job.spec("print('before', flush=True); " + SLEEP, restarts=0))
    job.says("worker-1", b"up")
    job.kill_program("worker-1")
    status = job.over()
    assert status.state == "failed"
    assert status.cause is not None
    assert (status.cause.task, status.cause.exit_code) == ("worker-1", 137)
    assert "SIGKILL" in status.cause.reason
    assert status.cause.lines == ("before", "up")
    reasons = {task.task: task.reason for task in status.tasks}
    for other in ("ps-0", "worker-0"):
        assert reasons[other].startswith("stopped because worker-1 failed")


def test_a_ps_that_never_listens_fails_the_job_by_its_deadline(job):
    job.up(job.spec(SLEEP, ps="import time; time.sleep(600)", start_timeout=job.surroundings.short))
    status = job.over()
    assert status.state == "failed"
    assert status.cause is not None
    assert status.cause.task == "ps-0"
    assert "nothing listens on port" in status.cause.reason


def test_up_of_an_unchanged_running_job_changes_nothing(job):
    first = job.up(job.spec(SLEEP))
    before = {task: job.identity_of_running(task) for task in first.plan.task_names}
    second = job.up(job.spec(SLEEP))
    assert second.unchanged
    assert second.run.id == first.run.id
    assert {task: job.identity(task) for task in before} == before


def test_up_replaces_only_the_tasks_that_changed(job):
    first = job.up(job.spec(SLEEP))
    before = {task: job.identity_of_running(task) for task in first.plan.task_names}
    changed = job.up(job.spec(SLEEP, roles={"worker": {"env": {"COLOUR": "blue"}}}))
    actions = {change.task: change.action for change in changed.changes}
    assert actions == {"ps-0": "keep", "worker-0": "replace", "worker-1": "replace"}
    assert changed.run.id == first.run.id
    job.becomes(lambda _: job.task("worker-0").state == "running", "the new worker")
    assert job.identity("ps-0") == before["ps-0"]
    assert job.identity("worker-0") != before["worker-0"]


def test_a_spec_that_changes_everything_begins_a_new_run(job):
    first = job.up(job.spec(SLEEP))
    second = job.up(job.spec(SLEEP, workers=1))
    assert second.run.id != first.run.id
    ended = first.run.final_status()
    assert ended is not None and ended.state == "stopped"


def test_scaling_goes_on_in_the_same_run_with_new_host_lists(job):
    show = "import os, time; print(os.environ['TF_CONFIG'], flush=True); time.sleep(600)"
    first = job.up(job.spec(show))
    job.says("worker-1", b"cluster")
    second = job.up(job.spec(show, workers=3), same_run=True)
    assert second.run.id == first.run.id
    job.says("worker-2", b"cluster")
    cluster = json.loads(job.log("worker-2"))["cluster"]
    assert len(cluster["worker"]) == 3
    third = job.up(job.spec(show, workers=1), same_run=True)
    assert {c.task: c.action for c in third.changes}["worker-2"] == "remove"
    assert [task.task for task in job.status().tasks] == ["ps-0", "worker-0"]


def test_down_ends_everything_and_can_be_repeated(job):
    job.up(job.spec(SLEEP))
    job.says("worker-0", b"up")
    job.down()
    status = job.status()
    assert status.state == "stopped"
    assert {task.state for task in status.tasks} == {"stopped"}
    job.down()
    assert job.status() == status


def test_up_works_again_after_down_as_a_new_run(job):
    first = job.up(job.spec(SLEEP)).run.id
    job.down()
    assert job.up(job.spec(HELLO)).run.id != first
    assert job.over().state == "succeeded"


def test_restart_starts_the_program_again_in_place(job):
    job.up(job.spec(SLEEP))
    before = job.identity_of_running("worker-1")
    job.backend.restart(job.run, ["worker-1"])
    until(lambda: job.identity("worker-1") != before, "another process")
    assert job.task_is("worker-1", "running").restarts == 1
    assert job.task("worker-0").restarts == 0


def test_exec_passes_environment_and_exit_code(job, capfd):
    job.up(job.spec(SLEEP))
    code = "import os, sys; print(os.environ['TFCLUSTER_TASK']); sys.exit(9)"
    assert job.backend.exec(job.run, "worker-1", job.python(code)) == 9
    assert capfd.readouterr().out == "worker-1\n"


def test_progress_and_result_reach_the_status_also_where_a_loss_is_no_number(job):
    code = (
        'print(\'tfcluster-progress {"step": 3, "total": 4, "loss": NaN}\', flush=True); '
        'print(\'tfcluster-result {"accuracy": 0.97, "cost": -1e400}\', flush=True)'
    )
    job.up(job.spec(code))
    status = job.over()
    worker = next(task for task in status.tasks if task.task == "worker-0")
    assert worker.progress is not None
    assert (worker.progress.step, worker.progress.total, worker.progress.loss) == (3, 4, "nan")
    assert status.result == {"accuracy": 0.97, "cost": "-inf"}


def test_of_two_ups_at_once_one_wins_and_the_other_says_so(job, monkeypatch):
    entered, go_on = threading.Event(), threading.Event()
    apply = type(job.backend).apply

    def slow_apply(*args):
        entered.set()
        go_on.wait(20)
        apply(*args)

    monkeypatch.setattr(type(job.backend), "apply", slow_apply)
    winner = threading.Thread(target=lambda: job.up(job.spec(SLEEP)))
    winner.start()
    assert entered.wait(20)
    with pytest.raises(TfclusterError, match="is being changed by `tfcluster up`"):
        job.up(job.spec(SLEEP))
    go_on.set()
    winner.join(20)
    assert job.task_is("worker-0", "running")


def test_a_run_that_was_never_applied_is_not_a_success(job):
    job.up(job.spec(HELLO))
    job.over()
    assert job_state(()) == "not found"
    assert JobStatus("j", "r", "local", job_state(())).over is False


def test_the_record_of_a_run_holds_spec_plan_events_and_exit_codes(job):
    job.up(job.spec(HELLO, env={"API_TOKEN": "s3cret"}))
    job.over()
    run = latest_run(job.run.place)
    until(lambda: run.final_status() is not None, "the run to be settled")
    assert "s3cret" not in (run.path / "spec.yaml").read_text()
    assert json.loads((run.path / "plan.json").read_text())["job"] == job.name
    kinds = [(event.task, event.kind) for event in run.events()]
    assert ("worker-1", "running") in kinds and ("worker-1", "succeeded") in kinds
    assert [task.exit_code for task in run.final_status().tasks] == [0, 0, 0]
