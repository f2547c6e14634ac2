"""A real terminal: the live table, and Ctrl-C once and twice."""

from __future__ import annotations

import os
import re
import signal

from tests.launchers import until
from tests.terminal.conftest import STUBBORN

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
        " TASK      STATE      STEP                    RATE  LOSS",
        " worker-0  succeeded  40/40 ━━━━━━━━━━━━━━━━  20/s  0.025",
        " worker-1  succeeded  40/40 ━━━━━━━━━━━━━━━━  20/s  0.025",
    ]
    assert re.fullmatch(
        r"✓ Done in [\d.]+ s: test accuracy 0\.971, global step 80\. "
        r"TensorBoard: tfcluster tensorboard",
        screen[-1],
    )
    assert "tfcluster-progress" not in terminal.received.decode()


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


def test_ctrl_c_on_logs_detaches_and_the_job_keeps_running(world):
    world.write(steps=FOREVER)
    assert world("up", "-d").returncode == 0
    terminal = world.terminal("logs", "-f")
    terminal.shows("step 5")
    terminal.press(CTRL_C)
    assert terminal.end() == 130
    assert 'job "toy" keeps running' in "\n".join(terminal.screen())
    assert world.status()["state"] == "running"


def test_sigterm_ends_up_and_leaves_the_job_running(world):
    world.write(steps=FOREVER)
    terminal = world.terminal("up")
    terminal.shows("step 5")
    os.kill(terminal.process.pid, signal.SIGTERM)
    assert terminal.end() == 143
    assert world.status()["state"] == "running"
    assert world("down").returncode == 0


def test_a_failure_is_explained_below_the_table(world):
    world.write(env={"STEPS": "1000", "FAIL": "worker-1"})
    terminal = world.terminal("up")
    assert terminal.end() == 5
    screen = "\n".join(line.rstrip() for line in terminal.screen())
    assert "error: worker-1 failed: exit code 1\n  worker-1 | boom\n" in screen
    assert "worker-0: stopped because worker-1 failed" in screen


def test_status_watch_redraws_until_the_job_has_ended(world):
    world.write(steps=60)
    assert world("up", "-d").returncode == 0
    terminal = world.terminal("status", "--watch")
    terminal.shows("running")
    assert terminal.end() == 0
    screen = [line for line in terminal.screen() if line.strip()]
    assert screen[0].startswith("toy (run ") and "succeeded" in screen[0]
    assert len(screen) == 5
