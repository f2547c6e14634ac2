"""A real terminal: the live table, and Ctrl-C once and twice."""

from __future__ import annotations

import os
import re
import signal

from tests.launchers import until
from tests.terminal.conftest import PHASES, STUBBORN

CTRL_C = "\x03"
FOREVER = 100_000


def test_up_shows_a_live_table_below_the_lines_and_ends_with_the_result(world):
    world.write(steps=40)
    terminal = world.terminal("up")
    terminal.shows("worker-1  running")
    assert terminal.end() == 0
    screen = [line.rstrip() for line in terminal.screen() if line.strip()]
    assert screen[0] == "✓ cluster.yaml is valid"
    assert re.fullmatch(r"✓ 2 tasks started \(run \w+\)", screen[1])
    table = next(n for n, line in enumerate(screen) if line.startswith(" TASK"))
    lines = screen[2:table]
    assert sorted(lines) == sorted(
        f"worker-{index} | step {step}" for index in (0, 1) for step in range(5, 41, 5)
    )
    assert screen[table:-1] == [
        " TASK      STATE      STEP                RATE  LOSS",
        " worker-0  succeeded  40/40 ━━━━━━━━━━━━  20/s  0.025",
        " worker-1  succeeded  40/40 ━━━━━━━━━━━━  20/s  0.025",
    ]
    assert re.fullmatch(
        r"✓ Done in [\d.]+ s: test accuracy 0\.971, global step 80\. "
        r"TensorBoard: tfcluster tensorboard",
        screen[-1],
    )
    assert "tfcluster-progress" not in terminal.received.decode()


def test_up_shows_phase_elapsed_time_and_time_left(world):
    world.write(PHASES)
    terminal = world.terminal("up", "--no-logs")
    terminal.shows("worker-1  running  importing")
    terminal.shows("toy (run ")
    terminal.shows("): running for ")
    (world.folder / "train").touch()
    until(
        lambda: re.search(r"running  training  1/40 .* 3[89] s", shown(terminal)), "the time left"
    )
    (world.folder / "save").touch()
    terminal.shows("worker-1  running  saving")
    terminal.press(CTRL_C)
    assert terminal.end() == 130


def shown(terminal) -> str:
    return "\n".join(terminal.screen())


def test_the_bar_moves(world):
    world.write(steps=200)
    terminal = world.terminal("up", "--no-logs")
    terminal.shows("/200 ━")
    first = terminal.screen()
    until(lambda: terminal.screen() != first, "another frame")
    terminal.press(CTRL_C)
    assert terminal.end() == 130


def test_lines_go_to_a_file_while_the_table_stays_on_the_terminal(world, tmp_path):
    world.write(steps=10)
    with open(tmp_path / "train.log", "wb") as log:
        terminal = world.terminal("up", stdout=log)
        assert terminal.end() == 0
    lines = (tmp_path / "train.log").read_text().splitlines()
    assert sorted(lines) == [
        "worker-0 | step 10",
        "worker-0 | step 5",
        "worker-1 | step 10",
        "worker-1 | step 5",
    ]
    assert "TASK" in "\n".join(terminal.screen())
    assert "step 5" not in "\n".join(terminal.screen())


def test_colours_are_on_at_a_terminal_and_off_with_no_color(world):
    world.write(steps=2)
    assert world.terminal("status", "--job", "nobody").end() == 3
    terminal = world.terminal("up")
    assert terminal.end() == 0
    assert b"\x1b[32m" in terminal.received
    world.env["NO_COLOR"] = "1"
    terminal = world.terminal("up")
    assert terminal.end() == 0
    assert not re.search(rb"\x1b\[[0-9;]*m", terminal.received)


def test_ctrl_c_stops_the_job_politely_and_says_so_at_once(world):
    world.write(steps=FOREVER)
    terminal = world.terminal("up")
    terminal.shows("worker-1 | step 5")
    terminal.press(CTRL_C)
    terminal.shows("Stopping 2 tasks politely")
    assert terminal.end() == 130
    screen = "\n".join(terminal.screen())
    assert "press Ctrl-C again to kill" in screen
    assert "✓ Stopped 2 tasks; logs are kept: tfcluster logs --run " in screen
    assert world.status()["state"] == "stopped"
    assert world.left_behind() == []


def test_a_second_ctrl_c_kills_what_does_not_stop(world):
    world.write(STUBBORN, stop_grace="10m")
    terminal = world.terminal("up")
    terminal.shows("worker-0 | here")
    terminal.shows("worker-1 | here")
    terminal.press(CTRL_C)
    terminal.shows("worker-1 | not yet")
    assert terminal.process.poll() is None
    terminal.press(CTRL_C)
    terminal.shows("Killing.")
    assert terminal.end() == 130
    assert world.left_behind() == []


def test_up_asks_before_it_ends_a_run_and_can_watch_it_instead(world):
    world.write(steps=FOREVER)
    assert world("up", "-d", "--set", "env.MORE=1").returncode == 0
    run = world.status()["run"]
    terminal = world.terminal("up")
    terminal.shows("watch it as it is]")
    screen = "\n".join(line.rstrip() for line in terminal.screen())
    assert f'This would end run {run} of job "toy" and begin a new one:' in screen
    assert "it was brought up with --set env.MORE=1" in screen
    assert "hint: as it runs now: tfcluster up --set env.MORE=1" in screen
    terminal.press("\r")
    assert terminal.end() == 1
    assert "Nothing was changed; the job goes on." in "\n".join(terminal.screen())
    assert (world.status()["run"], world.status()["state"]) == (run, "running")
    terminal = world.terminal("up")
    terminal.shows("watch it as it is]")
    terminal.press("w\r")
    terminal.shows(f"running already, unchanged (run {run})")
    terminal.shows("worker-1 | step")
    ended = world.terminal("up", "-d")
    ended.shows("watch it as it is]")
    ended.press("y\r")
    assert ended.end() == 0
    assert terminal.end() == 5
    new = world.status()["run"]
    words = f"was ended by `tfcluster up` in {world.folder}, to begin run {new}"
    assert words in " ".join("\n".join(terminal.screen()).split())  # it may be wrapped
    assert "SIGTERM" not in "\n".join(terminal.screen())


def test_ctrl_c_on_logs_detaches_and_the_job_keeps_running(world):
    world.write(steps=FOREVER)
    assert world("up", "-d").returncode == 0
    terminal = world.terminal("logs", "-f")
    terminal.shows("step 5")
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    assert 'job "toy" keeps running' in "\n".join(terminal.screen())
    assert world.status()["state"] == "running"


def test_exec_it_gives_the_command_the_terminal_and_ctrl_c_is_for_the_command(world):
    world.write(steps=FOREVER)
    assert world("up", "-d").returncode == 0
    terminal = world.terminal("exec", "-it", "worker-1", "--", "sh", "-i")
    terminal.press("tty && sleep 600; echo $TFCLUSTER_TASK again\n")
    terminal.shows("/dev/pts/")
    terminal.press(CTRL_C)
    terminal.press("echo $TFCLUSTER_TASK still; exit 7\n")
    assert terminal.end() == 7
    assert "worker-1 still" in "\n".join(terminal.screen())
    assert world("exec", "worker-1", "--", "sh", "-c", "test -t 0").returncode == 1


def test_sigterm_ends_up_and_leaves_the_job_running(world):
    world.write(steps=FOREVER)
    terminal = world.terminal("up")
    terminal.shows("step 5")
    os.kill(terminal.process.pid, signal.SIGTERM)
    assert terminal.end() == 143
    assert "Told to stop by SIGTERM. The job goes on: tfcluster logs -f" in terminal.screen()[-2]
    assert world.status()["state"] == "running"
    assert world("down").returncode == 0


def test_a_failure_is_explained_below_the_table(world):
    world.write(env={"STEPS": "1000", "FAIL": "worker-1"})
    terminal = world.terminal("up")
    assert terminal.end() == 5
    screen = "\n".join(line.rstrip() for line in terminal.screen())
    assert re.search(
        r"error: worker-1 failed: exit code 1\n(  cause: .*\n)?  worker-1 \| boom\n", screen
    )
    assert "worker-0: stopped because worker-1 failed" in screen


def test_status_watch_redraws_until_the_job_has_ended(world):
    world.write(steps=60)
    assert world("up", "-d").returncode == 0
    terminal = world.terminal("status", "--watch")
    terminal.shows("running")
    assert terminal.end() == 0
    screen = [line for line in terminal.screen() if line.strip()]
    assert screen[0].startswith("toy (run ") and "succeeded" in screen[0]
    assert sum(line.startswith("worker-") for line in screen) == 2
