"""What only local processes promise: they outlive commands, and nothing outlives `down`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.contract.jobs import Job
from tests.launchers import until
from tfcluster.archive import Run, create_run
from tfcluster.backends.processes import MARK, alive
from tfcluster.commands import outcome
from tfcluster.errors import MissingError, UsageError

SLEEP = "import time; print('up', flush=True); time.sleep(600)"


@pytest.fixture
def job(tmp_path, home):
    made = Job("local", tmp_path)
    yield made
    made.down()


def processes_of(job: Job) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == str(job.run.path):
                found.append(process)
        except psutil.Error:
            continue
    return found


def launcher_pid(job: Job, task: str) -> int:
    return int(job.run.files.read_task(task)["launcher"]["pid"])


def test_no_process_is_left_when_the_job_has_ended(job):
    job.up(job.spec("print('hi')"))
    job.over()
    until(lambda: not processes_of(job), "every process of the run to be gone")
    assert job.run.final_status().state == "succeeded"


def test_the_run_survives_the_command_that_started_it(job, tmp_path):
    (tmp_path / "cluster.yaml").write_text(json.dumps(job.spec(SLEEP)))
    code = (
        "from pathlib import Path; from tfcluster.converge import deploy; "
        "from tfcluster.spec.loader import load_spec; "
        f"spec = load_spec(Path({str(tmp_path / 'cluster.yaml')!r})); "
        "print(deploy(spec, folder=Path.cwd()).run.path, flush=True); "
        "import time; time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as command:
        path = command.stdout.readline().decode().strip()
        command.kill()
    job.run = Run(job.name, Path(path).name, Path(path))
    assert job.task_is("worker-1", "running")
    time.sleep(0.3)
    assert len(processes_of(job)) == 8  # three launchers and programs, a keeper, a guard


def test_a_killed_launcher_is_replaced_and_counted(job):
    code = (
        "import os, time; print('attempt', os.environ['TFCLUSTER_ATTEMPT'], flush=True); "
        "time.sleep(0 if os.environ['TFCLUSTER_ATTEMPT'] == '1' else 600) "
        "if os.environ['TFCLUSTER_INDEX'] == '1' else None"
    )
    job.up(job.spec(code, restarts=1))
    job.says("worker-1", b"attempt 0")
    os.kill(launcher_pid(job, "worker-1"), signal.SIGKILL)
    status = job.over()
    assert status.state == "succeeded"
    assert {task.task: task.restarts for task in status.tasks}["worker-1"] == 1


def test_a_launcher_killed_beyond_its_limit_is_the_named_cause(job):
    job.up(job.spec(SLEEP, restarts=0))
    job.says("worker-1", b"up")
    os.kill(launcher_pid(job, "worker-1"), signal.SIGKILL)
    status = job.over()
    assert status.state == "failed"
    assert status.cause.task == "worker-1"
    assert "SIGKILL" in status.cause.reason


def test_without_its_keeper_the_job_goes_on_and_down_cleans_up(job):
    job.up(job.spec(SLEEP))
    job.says("worker-1", b"up")
    os.kill(job.run.files.read_keeper()["pid"], signal.SIGKILL)
    assert job.task("worker-1").state == "running"
    job.down()
    assert processes_of(job) == []
    assert job.status().state == "stopped"


def test_up_after_the_keepers_death_adopts_the_tasks_that_live(job):
    job.up(job.spec(SLEEP))
    before = job.task_is("worker-1", "running").pid
    job.task_is("worker-0", "running")
    os.kill(job.run.files.read_keeper()["pid"], signal.SIGKILL)
    os.kill(launcher_pid(job, "worker-0"), signal.SIGKILL)
    job.up(job.spec(SLEEP, roles={"ps": {"env": {"NEW": "1"}}}))
    assert job.task_is("worker-0", "running")
    assert job.task("worker-1").pid == before


def test_down_kills_what_nobody_wrote_down(job):
    """A command killed between starting a process and recording it leaves only the mark."""
    job.up(job.spec(SLEEP))
    env = {**os.environ, MARK: str(job.run.path)}
    stray = subprocess.Popen(["sleep", "600"], env=env, start_new_session=True)
    job.down()
    assert stray.wait(10) == -signal.SIGKILL


def test_down_does_not_touch_a_process_that_took_over_a_pid(job):
    job.up(job.spec(SLEEP))
    job.says("worker-0", b"up")
    bystander = subprocess.Popen(["sleep", "600"], start_new_session=True)
    record = job.run.files.read_task("worker-0")
    record["program"] = {"pid": bystander.pid, "start": "1"}
    assert not alive(record["program"])
    (job.run.path / "tasks" / "worker-0.json").write_text(json.dumps(record))
    job.down()
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_another_folders_job_of_the_same_name_runs_beside_it_and_is_not_ended(job, tmp_path):
    (tmp_path / "b").mkdir()
    other = Job("local", tmp_path / "b")
    try:
        job.up(job.spec(SLEEP, workers=1, ps=None))
        before = job.identity_of_running("worker-0")
        other.up(other.spec(SLEEP, workers=1, ps=None, env={"LEARNING_RATE": "2"}))
        assert other.task_is("worker-0", "running") and other.run.id != job.run.id
        assert job.identity_of_running("worker-0") == before
        down = [sys.executable, "-m", "tfcluster", "down"]
        subprocess.run(down, check=True, cwd=tmp_path / "b", timeout=60)
        assert processes_of(other) == []
        assert job.identity_of_running("worker-0") == before
    finally:
        other.down()


def empty_run(folder: Path) -> Run:
    return create_run(
        "contract",
        backend="local",
        folder=folder,
        base=folder,
        spec=None,
        source="",
        variables={},
    )


def test_the_down_command_also_ends_an_earlier_run_that_somebody_still_watches(job, tmp_path):
    job.up(job.spec(SLEEP))
    job.says("worker-1", b"up")
    later = empty_run(tmp_path)
    command = [sys.executable, "-m", "tfcluster", "down", "--job", "contract"]
    subprocess.run(command, check=True, cwd=tmp_path, timeout=60)
    assert processes_of(job) == []
    assert job.run.final_status().state == "stopped"
    assert later.final_status().state == "stopped"


def test_up_waits_for_a_keeper_that_lives_and_not_for_one_that_died(job):
    """An ended task may linger for a while; its keeper writes the last word after that."""
    job.up(job.spec(SLEEP))
    over = replace(job.status(), state="succeeded", tasks=())
    assert over.over
    long_ago = time.monotonic() - outcome.SETTLE_SECONDS - 1
    assert not outcome.is_settled(job.run, over, long_ago)
    os.kill(job.run.files.read_keeper()["pid"], signal.SIGKILL)
    until(lambda: outcome.is_settled(job.run, over, long_ago), "the keeper's death to be seen")


def test_a_run_whose_command_died_before_starting_anything_is_cleaned_by_down(job, tmp_path):
    job.run = empty_run(tmp_path)
    job.down()
    assert job.status().state == "stopped"
    job.up(job.spec("print('hi')"))
    assert job.over().state == "succeeded"


def test_addresses_are_loopback_and_ports_are_free_ones(job):
    plan = job.up(job.spec(SLEEP)).plan
    addresses = [a for role in plan.roles for a in (*role.addresses, *role.control)]
    assert {address.split(":")[0] for address in addresses} == {"127.0.0.1"}
    assert len(set(addresses)) == 6
    taken = socket.create_server(("127.0.0.1", 0))
    assert f"127.0.0.1:{taken.getsockname()[1]}" not in addresses


def test_control_ports_listen_on_loopback_only(job):
    job.up(job.spec(SLEEP))
    job.task_is("worker-0", "running")
    launchers = [psutil.Process(launcher_pid(job, task)) for task in ("ps-0", "worker-0")]
    listening = [
        connection.laddr.ip
        for process in launchers
        for connection in process.net_connections()
        if connection.status == "LISTEN"
    ]
    assert listening and set(listening) == {"127.0.0.1"}


def test_gpus_are_divided_and_masked_where_none_are_asked_for(job):
    show = "import os; print('devices', os.environ['CUDA_VISIBLE_DEVICES'], flush=True)"
    serve = show + "; " + job.spec("")["roles"]["ps"]["command"][2]
    spec = job.spec(show, ps=serve, roles={"worker": {"gpus": 2}}, local={"gpus": [0, 1, 2, 5]})
    job.up(spec)
    job.over()
    assert job.log("worker-0") == b"devices 0,1\n"
    assert job.log("worker-1") == b"devices 2,5\n"
    assert job.log("ps-0").startswith(b"devices \n")


def test_more_gpus_than_there_are_is_refused_before_anything_starts(job):
    with pytest.raises(MissingError, match=r"4 GPUs are asked for .* this machine has 1"):
        job.up(job.spec(SLEEP, roles={"worker": {"gpus": 2}}, local={"gpus": [0]}))
    assert job.run is None


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
def test_cpu_holds_a_task_to_its_cores(job):
    show = "import os; print('cores', len(os.sched_getaffinity(0)))"
    job.up(job.spec(show, roles={"worker": {"cpu": 1}}))
    job.over()
    assert job.log("worker-0") == b"cores 1\n"


def test_memory_over_the_limit_is_named_as_such(job):
    greedy = "import time; block = b'x' * (300 << 20); time.sleep(600)"
    job.up(job.spec(greedy, workers=1, restarts=0, roles={"worker": {"memory": "100Mi"}}))
    cause = job.over().cause
    assert (cause.task, cause.exit_code) == ("worker-0", 137)
    assert "limit of 100 MiB" in cause.reason


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": "someone/else"}, "not in"),
        ({"roles": {"worker": {"cpu": 0.5}}}, "whole cores"),
        ({"volumes": [{"name": "data", "target": "/data"}]}, "cannot be mounted"),
        ({"env_from": [{"secret": "keys"}]}, "Kubernetes cluster"),
        ({"ports": {"tensorflow": 2222}}, "free port of its own"),
    ],
)
def test_what_local_processes_cannot_honour_is_refused(job, changes, message):
    with pytest.raises(UsageError, match=message):
        job.up(job.spec(SLEEP, **changes))


def test_a_command_that_is_not_there_is_refused_before_anything_starts(job):
    spec = job.spec(SLEEP, roles={"worker": {"command": ["no-such-program"]}})
    with pytest.raises(MissingError, match=r'roles\.worker: command not found: "no-such-program"'):
        job.up(spec)


def test_relative_paths_are_relative_to_the_spec(job, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "main.py").write_text("print('found')")
    spec = job.spec("", workdir="code", logdir="logs")
    spec["roles"]["worker"]["command"] = [sys.executable, "main.py"]
    plan = job.up(spec).plan
    job.over()
    assert job.log("worker-0") == b"found\n"
    assert plan.logdir == str(tmp_path / "logs")
    assert (tmp_path / "logs").is_dir()
