"""The launcher with real programs: starting, restarting, ending by rule, and saying why."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest

from tests.launchers import SERVE_FOR_EVER, World, ps, python, role, until, worker
from tfcluster.launch import exits
from tfcluster.launch import plan as launch
from tfcluster.launch.system import process_start


@pytest.fixture
def world(tmp_path):
    made: list[World] = []

    def make(roles, **settings) -> World:
        made.append(World(tmp_path, roles, **settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


# -- What a task is told


def plan_of(**roles):
    return {
        "job": "j",
        "run": "r",
        "success": ["worker"],
        "cluster_roles": [name for name in roles if name != "evaluator"],
        "roles": {name: role(["x"], count) for name, count in roles.items()},
    }


def test_tf_config_has_an_integer_index_and_leaves_the_evaluator_out_of_the_cluster():
    plan = plan_of(chief=1, ps=1, worker=2, evaluator=1)
    config = json.loads(launch.tf_config(plan, "worker", 1))
    assert config["task"] == {"type": "worker", "index": 1}
    assert sorted(config["cluster"]) == ["chief", "ps", "worker"]
    assert len(config["cluster"]["worker"]) == 2
    evaluator = json.loads(launch.tf_config(plan, "evaluator", 0))
    assert evaluator["task"] == {"type": "evaluator", "index": 0}
    assert "evaluator" not in evaluator["cluster"]


def test_placeholders_are_filled_and_everything_else_is_left_alone():
    plan = plan_of(ps=1, worker=2)
    names = launch.placeholders(plan, "worker", 1)
    workers = ",".join(plan["roles"]["worker"]["addresses"])
    assert launch.fill("--worker_hosts=$(WORKER_HOSTS)", names) == f"--worker_hosts={workers}"
    assert launch.fill("$(ROLE)/$(INDEX) $(TASK)", names) == "worker/1 worker-1"
    assert launch.fill("$$(TASK) $(date) $(UNKNOWN) $TASK", names) == (
        "$(TASK) $(date) $(UNKNOWN) $TASK"
    )
    assert launch.fill("$(CHIEF_HOSTS)", names) == ""


def test_addresses_can_be_a_pattern_so_that_large_plans_stay_small():
    entry = {"replicas": 3, "addresses": "job-worker-{index}.job:2222"}
    assert launch.addresses(entry)[2] == "job-worker-2.job:2222"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "finished"),
        (1, "exit code 1"),
        (137, "killed by SIGKILL (exit code 137)"),
        (143, "killed by SIGTERM (exit code 143)"),
        (127, "exit code 127 (command not found)"),
    ],
)
def test_exit_codes_are_put_into_words(code, words):
    assert exits.describe_exit(code) == words


# -- Ending by rule


def test_a_ps_that_never_returns_ends_with_exit_0_when_the_workers_are_done(world):
    job = world({"ps": ps(replicas=2), "worker": worker("import time; time.sleep(0.3)", 2)}).start()
    assert job.codes() == {"ps-0": 0, "ps-1": 0, "worker-0": 0, "worker-1": 0}
    assert job.record("ps-0")["state"] == "succeeded"
    assert job.record("ps-0")["reason"] == "the job is done"


def test_with_success_chief_the_workers_are_stopped_when_the_chief_is_done(world):
    job = world(
        {"chief": worker(""), "ps": ps(), "worker": worker("import time; time.sleep(600)", 2)},
        success=["chief"],
    ).start()
    assert set(job.codes().values()) == {0}


def test_a_role_that_serves_but_that_nobody_needs_serves_at_once_and_is_ended_by_rule(world):
    """It has no port to listen on: the clock of start_timeout is not for it."""
    for_ever = "import time; time.sleep(600)"
    learn = "import pathlib, time\nwhile not pathlib.Path('{}').exists(): time.sleep(0.05)"
    go = world({}).folder / "go"
    job = world(
        {
            "reader": role(python(for_ever), 2, serves=True),
            "learner": role(python(learn.format(go))),
            "scorer": role(python(learn.format(go))),
        },
        success=["learner", "scorer"],
        start_timeout=3,
    ).start()
    for reader in ("reader-0", "reader-1"):
        job.state_becomes(reader, "serving")
    job.state_becomes("learner-0", "running")
    time.sleep(4)
    assert job.record("reader-0")["state"] == "serving"
    go.touch()
    assert set(job.codes().values()) == {0}
    assert job.record("reader-1")["reason"] == "the job is done"


def test_a_worker_that_finishes_first_is_gone_before_the_slowest(world):
    slow = "import os, time; time.sleep(600 if os.environ['TFCLUSTER_INDEX'] == '1' else 0)"
    job = world({"ps": ps(), "worker": worker(slow, 2)}).start()
    assert job.wait("worker-0") == 0
    job.state_becomes("worker-1", "running")
    assert "worker-0" in job.table("ps-0")["finals"]


def test_a_ps_replaced_after_a_worker_has_finished_still_learns_that_the_job_is_over(world):
    slow = (
        "import os, pathlib, time\n"
        "while os.environ['TFCLUSTER_INDEX'] == '1' and not pathlib.Path('{}').exists():\n"
        "    time.sleep(0.05)"
    )
    job = world({"ps": ps()})
    go = job.folder / "go"
    job = world({"ps": job.plan["roles"]["ps"], "worker": worker(slow.format(go), 2)})
    job.start()
    assert job.wait("worker-0") == 0
    job.processes["ps-0"].kill()
    job.processes["ps-0"].wait()
    job.start("ps-0")
    job.state_becomes("ps-0", "serving")
    go.touch()
    assert job.wait("worker-1") == 0
    assert job.wait("ps-0") == 0


# -- Failing


def test_the_first_cause_is_named_by_every_task_that_was_stopped_because_of_it(world):
    code = (
        "import os, sys, time\n"
        "if os.environ['TFCLUSTER_INDEX'] == '1':\n"
        "    print('the disk is gone', flush=True); time.sleep(0.5); sys.exit(7)\n"
        "time.sleep(600)"
    )
    job = world({"ps": ps(), "worker": worker(code, 2)}).start()
    peer_failed = exits.EXIT_PEER_FAILED
    assert job.codes() == {"ps-0": peer_failed, "worker-0": peer_failed, "worker-1": 7}
    cause = job.record("worker-1")["cause"]
    assert (cause["task"], cause["exitCode"]) == ("worker-1", 7)
    assert "the disk is gone" in cause["lines"]
    for task in ("ps-0", "worker-0"):
        assert job.record(task)["state"] == "stopped"
        assert job.record(task)["reason"] == "stopped because worker-1 failed (exit code 7)"
        assert job.record(task)["cause"]["task"] == "worker-1"


def test_a_crashed_program_is_started_again_with_the_same_address(world):
    code = (
        "import os, sys; print(os.environ['TF_CONFIG']); "
        "sys.exit(not int(os.environ['TFCLUSTER_ATTEMPT']))"
    )
    restarts = {"limit": 1, "on": None}
    job = world({"ps": ps(), "worker": worker(code, restarts=restarts)}).start()
    assert job.codes() == {"ps-0": 0, "worker-0": 0}
    assert job.record("worker-0")["restarts"] == 1
    first, second = job.out("worker-0").splitlines()
    assert first == second


def test_restarts_end_at_their_limit(world):
    restarts = {"limit": 2, "on": None}
    job = world({"worker": role(python("import sys; sys.exit(3)"), restarts=restarts)}).start()
    assert job.wait("worker-0") == 3
    assert job.record("worker-0")["attempt"] == 2


def test_only_the_chosen_exit_codes_are_retried(world):
    restarts = {"limit": 5, "on": [137]}
    job = world({"worker": role(python("import sys; sys.exit(3)"), restarts=restarts)}).start()
    assert job.wait("worker-0") == 3
    assert job.record("worker-0")["attempt"] == 0


def test_a_command_that_does_not_exist_fails_at_once_and_names_it(world):
    restarts = {"limit": 5, "on": None}
    job = world({"worker": role(["/no/such/program"], restarts=restarts)}).start()
    assert job.wait("worker-0") == 127
    assert "cannot start '/no/such/program'" in job.record("worker-0")["reason"]


def test_the_deadline_ends_the_job(world):
    job = world({"worker": role(["sleep", "600"])}, deadline=0.5).start()
    assert job.wait("worker-0") == exits.EXIT_DEADLINE
    assert "deadline of 0.5 s" in job.record("worker-0")["reason"]


# -- Waiting


def test_a_peer_whose_launcher_never_comes_is_named_with_its_address_and_error(world):
    job = world({"ps": ps(), "worker": worker("")}, start_timeout=0.5).start("worker-0")
    assert job.wait("worker-0") == exits.EXIT_NOT_STARTED
    reason = job.record("worker-0")["reason"]
    address = job.plan["roles"]["ps"]["control"][0]
    assert reason == f"waited 0.5 s for ps-0 at {address}: Connection refused"


@pytest.mark.parametrize("barrier", ["tasks", "ports"])
def test_a_ps_whose_program_never_listens_is_the_named_cause(world, barrier):
    job = world(
        {
            "ps": ps("import time; time.sleep(600)"),
            "worker": worker("import time; time.sleep(600)"),
        },
        start_timeout=4,  # every launcher is there by then, also on a busy machine
        barrier=barrier,
    ).start()
    codes = job.codes()
    assert codes == {"ps-0": exits.EXIT_NOT_STARTED, "worker-0": exits.EXIT_PEER_FAILED}
    port = job.plan["roles"]["ps"]["addresses"][0].split(":")[1]
    assert f"nothing listens on port {port} after 4 s" in job.record("ps-0")["reason"]
    assert job.record("worker-0")["reason"].startswith("stopped because ps-0 failed")


def test_with_barrier_ports_the_program_starts_only_when_its_peer_listens(world):
    late = "import time; time.sleep(1); " + SERVE_FOR_EVER
    connect = (
        "import os, socket; "
        "socket.create_connection(('127.0.0.1', int('$(PS_HOSTS)'.split(':')[1]))).close()"
    )
    job = world({"ps": ps(late), "worker": worker(connect)}, barrier="ports").start()
    assert job.codes() == {"ps-0": 0, "worker-0": 0}


def test_a_launcher_of_another_run_is_not_taken_for_a_peer(world, tmp_path):
    roles = {"ps": ps(), "worker": worker("")}
    stranger = world(roles)
    stranger.folder.joinpath("control.key").write_text("ab" * 32)
    stranger.start("ps-0").state_becomes("ps-0", "serving")
    job = world(roles, start_timeout=0.5).start("worker-0")
    assert job.wait("worker-0") == exits.EXIT_NOT_STARTED
    assert "it is not a launcher of this run" in job.record("worker-0")["reason"]


# -- What another attempt would not mend


@pytest.mark.parametrize(
    ("argv", "code", "reason"),
    [
        (
            [*python("")[:1], "-u", "nosuch.py"],
            2,
            "there is no file {folder}/nosuch.py (exit code 2)",
        ),
        (["sh", "-c", "nosuch-command"], 127, "exit code 127 (command not found)"),
        (["sh", "-c", "/"], 126, "exit code 126 (the command cannot be executed)"),
    ],
)
def test_a_script_or_command_that_is_not_there_is_not_tried_again(
    world, tmp_path, argv, code, reason
):
    restarts = {"limit": 3, "on": None}
    job = world({"worker": role(argv, restarts=restarts, workdir=str(tmp_path))}).start()
    assert job.codes() == {"worker-0": code}
    record = job.record("worker-0")
    assert (record["kind"], record["failures"]) == (exits.CANNOT_START, 0)
    assert record["reason"] == reason.format(folder=tmp_path)


def test_a_failure_shows_the_last_lines_of_the_last_attempt(world):
    code = "import os, sys; sys.exit('attempt ' + os.environ['TFCLUSTER_ATTEMPT'])"
    job = world({"worker": role(python(code), restarts={"limit": 1, "on": None})}).start()
    assert job.codes() == {"worker-0": 1}
    assert job.record("worker-0")["cause"]["lines"] == ["attempt 1"]


# -- Output and signals


def test_output_is_byte_exact_on_both_streams(world, tmp_path):
    data = random.Random(1).randbytes(300_000) + b"\nno line end"
    (tmp_path / "data").write_bytes(data)
    job = world({"worker": role(["sh", "-c", f"cat {tmp_path}/data; cat {tmp_path}/data >&2"])})
    job.start()
    assert job.wait("worker-0") == 0
    assert job.out("worker-0") == data
    assert (tmp_path / "worker-0.err").read_bytes() == data


def test_log_files_hold_every_byte_with_time_and_stream_per_attempt(world, tmp_path):
    from tfcluster.backends.logfiles import read_logs
    from tfcluster.events import LogQuery

    code = (
        "import os, sys; sys.stdout.write('out %s\\n' % os.environ['TFCLUSTER_ATTEMPT']); "
        "sys.stdout.flush(); sys.stderr.write('no end'); "
        "sys.exit(not int(os.environ['TFCLUSTER_ATTEMPT']))"
    )
    restarts = {"limit": 1, "on": None}
    job = world({"worker": role(python(code), restarts=restarts)})
    job.start(extra=("--log", str(tmp_path)))
    assert job.wait("worker-0") == 0
    lines = list(read_logs(tmp_path, LogQuery(), lambda: True))
    program = [line for line in lines if not line.data.startswith(b"tfcluster:")]
    assert [(line.attempt, line.stream, line.data, line.complete) for line in program] == [
        (0, "stdout", b"out 0", True),
        (0, "stderr", b"no end", False),
        (1, "stdout", b"out 1", True),
        (1, "stderr", b"no end", False),
    ]
    assert all(abs(line.time - time.time()) < 60 for line in lines)


def test_progress_and_result_lines_are_answered_on_the_control_port_and_passed_on(world):
    code = (
        'import time; print(\'tfcluster-progress {"step": 5, "total": 10}\', flush=True); '
        "print('tfcluster-progress not json', flush=True); "
        "print('tfcluster-result {\"accuracy\": 0.9}', flush=True); "
        "print('text', flush=True); time.sleep(600)"
    )
    job = world({"worker": role(python(code))}).start()
    job.state_becomes("worker-0", "running")
    until(lambda: "text" in job.ask("worker-0")["lines"], "the last line")
    answer = job.ask("worker-0")
    assert answer["progress"] == {"step": 5, "total": 10}
    assert answer["result"] == {"accuracy": 0.9}
    assert answer["lines"] == ["text"]
    assert job.out("worker-0").count(b"tfcluster-progress") == 2


def test_a_signal_reaches_the_program_and_its_children(world, tmp_path):
    code = (
        "import signal, subprocess, sys, time\n"
        "child = subprocess.Popen(['sleep', '600'])\n"
        "def end(*_): print('told', flush=True); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end); print(child.pid, flush=True); time.sleep(600)"
    )
    job = world({"worker": role(python(code))}).start()
    until(lambda: job.out("worker-0").strip(), "the program to be up")
    child = int(job.out("worker-0").split()[0])
    job.processes["worker-0"].terminate()
    assert job.wait("worker-0") == 128 + signal.SIGTERM
    assert b"told" in job.out("worker-0")
    assert job.record("worker-0")["state"] == "stopped"
    assert process_start(child) is None


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(world):
    code = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); "
        "print('up', flush=True); time.sleep(600)"
    )
    job = world({"worker": role(python(code))}, stop_grace=0.3).start()
    until(lambda: job.out("worker-0"), "the program to be up")
    job.processes["worker-0"].terminate()
    assert job.wait("worker-0") == 143
    assert "still there 0.3 s after SIGTERM" in job.err("worker-0")


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux")
def test_the_program_dies_with_its_launcher(world):
    job = world({"worker": role(["sleep", "600"])}).start()
    program = job.state_becomes("worker-0", "running")["program"]
    assert process_start(program["pid"]) == program["start"]
    job.processes["worker-0"].kill()
    until(lambda: process_start(program["pid"]) is None, "the program to be gone")


def test_a_restart_on_request_is_not_a_failure(world):
    job = world({"worker": role(["sleep", "600"])}).start()
    first = job.state_becomes("worker-0", "running")["program"]["pid"]
    job.ask("worker-0", tell="restart")
    until(lambda: job.record("worker-0")["attempt"] == 1, "the second attempt")
    again = job.state_becomes("worker-0", "running")
    assert again["program"]["pid"] != first
    assert again["failures"] == 0


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs Linux")
def test_a_program_over_its_memory_limit_is_killed_and_the_limit_is_named(world):
    code = "import time; block = b'x' * (200 << 20); time.sleep(600)"
    job = world({"worker": role(python(code), memory_limit=100 << 20)}).start()
    assert job.wait("worker-0") == 137
    assert "of a limit of 100 MiB" in job.record("worker-0")["reason"]


def test_masked_gpus_and_env_files_reach_the_program(world, tmp_path):
    (tmp_path / "secrets.env").write_text("# comment\nAPI_TOKEN='s3cret'\n")
    code = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'] == '', os.environ['API_TOKEN'])"
    entry = role(python(code), mask_gpus=True, env_files=[str(tmp_path / "secrets.env")])
    job = world({"worker": entry}).start()
    assert job.wait("worker-0") == 0
    assert job.out("worker-0") == b"True s3cret\n"
    assert "s3cret" not in (tmp_path / "launch.json").read_text()


@pytest.mark.parametrize("version", ["3.8", "3.9"])
def test_it_runs_under_old_pythons_that_images_have(world, version):
    found = shutil.which(f"python{version}")
    if found is None or subprocess.run([found, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"no python{version} here; install one to run this")
    job = world({"ps": ps(), "worker": worker("print('hello')", 2)}).start(interpreter=found)
    assert set(job.codes().values()) == {0}
