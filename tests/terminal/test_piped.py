"""The same commands off a terminal: plain lines, and the right streams and exit codes."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from tests.launchers import until

FOREVER = 100_000


def test_up_writes_lines_to_stdout_and_changes_to_stderr(world):
    world.write(steps=5)
    done = world("up")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["worker-0 | step 5", "worker-1 | step 5"]
    lines = done.stderr.splitlines()
    assert lines[0] == "✓ cluster.yaml is valid"
    assert "worker-1: succeeded" in lines
    assert lines[-1].startswith("✓ Done in ")
    assert "\x1b" not in done.stdout + done.stderr


WRITER = """
import os, pathlib
pathlib.Path(os.environ["TFCLUSTER_LOGDIR"], "answer.txt").write_text("42")
print('tfcluster-progress {"step": 1, "loss": NaN}')
"""


def test_plan_up_status_and_history_name_the_folder_that_the_program_wrote_to(world):
    world.write(WRITER)
    planned = json.loads(world("plan", "-o", "json").stdout)
    done = world("up")
    assert done.returncode == 0, done.stderr
    word, _, folder = done.stderr.splitlines()[-1].partition(": ")
    assert word == "Results" and Path(folder, "answer.txt").read_text() == "42"
    status = world.status()
    assert status["results"][0]["path"] == folder
    assert planned["results"][0]["path"].replace("RUN", status["run"]) == folder
    assert planned["logdir"] == planned["results"][0]["path"]
    assert {task["progress"]["loss"] for task in status["tasks"]} == {"nan"}
    assert f"Results: {folder}" in world("status").stdout.splitlines()
    (past,) = json.loads(world("history", "-o", "json").stdout)["runs"]
    assert (past["results"], past["loss"]) == (status["results"], "nan")


def test_up_that_is_left_alone_says_where_its_results_will_be(world):
    world.write(WRITER, logdir="out")
    done = world("up", "-d")
    assert f"Results (logdir): {world.folder}/out" in done.stderr.splitlines()


def test_no_logs_means_no_logs(world):
    world.write(steps=5)
    done = world("up", "--no-logs")
    assert (done.returncode, done.stdout) == (0, "")


def test_up_of_a_job_that_runs_unchanged_says_so_and_attaches(world):
    world.write("import os, time\nwhile not os.path.exists('go'): time.sleep(0.05)")
    assert world("up", "-d").returncode == 0
    attached = world.start("up")
    said = next(line for line in attached.stderr if "running already" in line)
    assert "2 tasks are running already, unchanged" in said
    (world.folder / "go").touch()
    _, rest = attached.communicate(timeout=60)
    assert attached.returncode == 0 and "Done in " in rest


def test_up_ends_a_run_only_with_yes_and_who_watched_it_is_told(world):
    world.write(steps=FOREVER)
    watching = world.start("up")
    world.wait_for(lambda status: status["state"] == "running", "the job to run")
    run = world.status()["run"]
    refused = world("up", "-d", "--set", "env.STEPS=7")
    assert refused.returncode == 2
    assert f"error: this would end run {run}" in refused.stderr and "--yes" in refused.stderr
    assert (world.status()["run"], world.status()["state"]) == (run, "running")
    done = world("up", "-d", "--yes", "--set", "env.STEPS=7")
    assert done.returncode == 0 and f"Run {run} was ended" in done.stderr
    out, err = watching.communicate(timeout=60)
    new = world.status()["run"]
    assert watching.returncode == 5
    assert f"ended by `tfcluster up` in {world.folder}, to begin run {new}" in err
    assert "SIGTERM" not in out + err


def test_wait_returns_once_every_task_runs(world):
    world.write(steps=FOREVER)
    done = world("up", "--wait")
    assert (done.returncode, done.stdout) == (0, "")
    assert world.status()["state"] == "running"
    assert world("wait", "--timeout", "0.5s").returncode == 4
    assert world("down").returncode == 0
    assert world("wait").returncode == 5


def test_wait_gives_up_after_its_timeout_and_the_job_goes_on(world):
    # The worker cannot start before the ps listens, which it never does.
    world.write(
        "import time; time.sleep(600)",
        start_timeout="10m",
        barrier="ports",
        roles={"ps": {"replicas": 1}, "worker": {"replicas": 1}},
    )
    done = world("up", "--wait", "--wait-timeout", "2s")
    assert done.returncode == 4
    assert "worker-0: starting" in done.stderr
    assert world.status()["state"] in ("starting", "running", "pending")


def test_down_from_another_shell_ends_up_with_5(world):
    world.write(steps=FOREVER)
    up = world.start("up")
    world.wait_for(lambda status: status["state"] == "running", "the job to run")
    down = world("down")
    assert down.returncode == 0 and "Stopped 2 tasks" in down.stderr
    _, err = up.communicate(timeout=60)
    assert up.returncode == 5
    assert f"was ended by `tfcluster down` in {world.folder}\n" in err
    assert "SIGTERM" not in err


def test_logs_follow_a_job_to_its_failure(world):
    world.write(env={"STEPS": "1000", "FAIL": "worker-1"})
    assert world("up", "-d").returncode == 0
    done = world("logs", "-f", "worker-1")
    assert done.returncode == 5
    assert "worker-1 | boom" in done.stdout
    assert "error: worker-1 failed: exit code 1" in done.stderr


def test_every_line_is_followed_once_and_in_order(world):
    world.write(
        "import sys\nfor n in range(3000): print('line', n)\nsys.stdout.flush()",
        roles={"worker": {"replicas": 1}},
    )
    done = world("up")
    assert done.stdout.splitlines() == [f"worker-0 | line {n}" for n in range(3000)]
    again = world("logs", "-f", "--no-prefix")
    assert again.stdout.splitlines() == [f"line {n}" for n in range(3000)]


def test_restart_scale_and_exec_change_a_running_job(world):
    world.write(steps=FOREVER)
    assert world("up", "--wait").returncode == 0
    assert world("restart").returncode == 2
    assert "Restarting worker-1" in world("restart", "worker-1").stderr
    until(lambda: world.task("worker-1")["restarts"] == 1, "the restart of worker-1")
    done = world("exec", "worker-1", "--", "sh", "-c", "echo $TFCLUSTER_TASK --color; exit 7")
    assert (done.returncode, done.stdout) == (7, "worker-1 --color\n")
    run = world.status()["run"]
    scaled = world("scale", "worker=3")
    assert scaled.returncode == 0 and "2 running tasks restarted" in scaled.stderr
    status = world.status()
    assert (status["run"], len(status["tasks"])) == (run, 3)
    assert world("scale", "wroker=3").returncode == 3
    assert world("scale", "worker=no").returncode == 2


def test_diff_exits_0_if_nothing_would_change_and_1_if_something_would(world):
    world.write(steps=FOREVER)
    assert world("diff").returncode == 1
    assert world("up", "-d").returncode == 0
    same = world("diff")
    assert (same.returncode, same.stdout) == (0, "")
    changed = world("diff", "--set", "env.STEPS=3")
    assert changed.returncode == 1
    assert changed.stdout.splitlines() == [
        "~ worker-0  start in a new run (env)",
        "~ worker-1  start in a new run (env)",
    ]
    document = json.loads(world("diff", "-o", "json").stdout)
    assert [change["action"] for change in document["changes"]] == ["keep", "keep"]


def test_plan_shows_tasks_and_hides_secrets(world):
    world.write(env={"STEPS": "1", "API_TOKEN": "hunter2"})
    table = world("plan")
    assert table.returncode == 0 and "worker-1" in table.stdout
    one = world("plan", "worker-1")
    assert '"index": 1' in one.stdout and "API_TOKEN=***" in one.stdout
    document = json.loads(world("plan", "-o", "json").stdout)
    assert [task["task"] for task in document["tasks"]] == ["worker-0", "worker-1"]
    assert "hunter2" not in table.stdout + one.stdout + json.dumps(document)
    assert world("plan", "worker-9").returncode == 3


def test_the_first_press_during_down_kills(world):
    world.write(
        "import signal, time\nsignal.signal(signal.SIGTERM, lambda *_: print('no', flush=True))\n"
        "while True: time.sleep(0.1)",
        stop_grace="10m",
    )
    assert world("up", "--wait").returncode == 0
    down = world.start("down")
    until(lambda: "no" in world("logs", "worker-0").stdout, "the polite request")
    down.send_signal(signal.SIGINT)
    _, err = down.communicate(timeout=60)
    assert down.returncode == 130
    assert "Killing what is left" in err
    assert world.left_behind() == []
