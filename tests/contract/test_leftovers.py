"""What programs start and leave behind is gone with them, whoever dies first. Local processes."""

from __future__ import annotations

import contextlib
import os
import signal

import psutil
import pytest

from tests.contract.jobs import Job
from tests.launchers import until
from tfcluster.launch.system import process_start

# A daemon as the textbook makes it: two forks, a session of its own, an empty environment.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {become}
    os._exit(0)
os.wait()
time.sleep(0.5)
"""
PLAIN = "open({path!r}, 'a').write(str(os.getpid()) + '\\n'); time.sleep(600); os._exit(0)"
BARE = (
    "open({path!r}, 'a').write(str(os.getpid()) + '\\n'); "
    "os.execve('/bin/sleep', ['sleep', '600'], {{}})"
)


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    made = Job("local", tmp_path)
    yield made
    made.down()


def daemons(path) -> list[int]:
    with contextlib.suppress(FileNotFoundError):
        return [int(line) for line in path.read_text().split()]
    return []


def gone(pids: list[int]) -> bool:
    return bool(pids) and all(process_start(pid) is None for pid in pids)


@pytest.mark.parametrize("become", [PLAIN, BARE], ids=["plain", "without-environment"])
def test_a_daemon_does_not_outlive_the_program_that_succeeded(job, tmp_path, become):
    path = tmp_path / "daemons"
    code = DAEMON.format(become=become.format(path=str(path)))
    job.up(job.spec(code, ps=None, workers=1))
    assert job.over().state == "succeeded"
    assert gone(daemons(path))


def test_a_daemon_does_not_outlive_a_restart_of_its_program(job, tmp_path):
    path = tmp_path / "daemons"
    code = DAEMON.format(become=PLAIN.format(path=str(path)))
    code += "sys.exit(1 if os.environ['TFCLUSTER_ATTEMPT'] == '0' else 0)"
    job.up(job.spec(code, ps=None, workers=1, restarts=1))
    assert job.over().state == "succeeded"
    assert len(daemons(path)) == 2 and gone(daemons(path))


def test_what_a_shell_started_dies_when_launcher_and_keeper_are_killed(job, tmp_path):
    path = tmp_path / "daemons"
    child = f"echo $$ >> {path}; sleep 600"
    code = f"import subprocess; subprocess.Popen(['sh', '-c', {child!r}]).wait()"
    job.up(job.spec(code, ps=None, workers=1))
    until(lambda: daemons(path), "the shell to be up")
    keeper = job.run.files.read_keeper()
    os.kill(keeper["pid"], signal.SIGKILL)
    job.kill_launcher("worker-0")
    until(lambda: gone(daemons(path)), "the shell to be gone", 15)
    marked = str(job.run.path)
    left = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TFCLUSTER_RUN_FOLDER") == marked:
                left.append(process)
    psutil.wait_procs(left, timeout=15)
    assert [process for process in left if process.is_running()] == []


def test_sigterm_from_outside_is_not_a_stop_by_the_user(job):
    job.up(job.spec("import time; print('up', flush=True); time.sleep(600)", restarts=0))
    job.says("worker-1", b"up")
    os.kill(job.launcher_pid("worker-1"), signal.SIGTERM)
    status = job.over()
    assert status.state == "failed"
    assert status.cause is not None and status.cause.task == "worker-1"
    assert status.cause.reason == ("its launcher was told to stop by SIGTERM, and not by tfcluster")


def test_a_launcher_told_to_go_from_outside_is_replaced_where_restarts_allow_it(job):
    wait = "import os, time; print('up', flush=True); "
    wait += "time.sleep(600 if os.environ['TFCLUSTER_ATTEMPT'] == '0' else 0)"
    job.up(job.spec(wait, workers=1, restarts=1))
    job.says("worker-0", b"up")
    os.kill(job.launcher_pid("worker-0"), signal.SIGTERM)
    status = job.over()
    assert status.state == "succeeded"
    assert {task.task: task.restarts for task in status.tasks}["worker-0"] == 1
