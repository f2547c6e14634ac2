"""Ctrl-C from the first instruction on: exit code 130, at most a line, nothing left running."""

from __future__ import annotations

import signal
import sys
import time

import pytest

from tests.launchers import until
from tests.runs.presses import SPEC, judge, press

MOMENTS = 8


@pytest.fixture
def spec(tfcluster):
    (tfcluster.folder / "cluster.yaml").write_text(SPEC)


def test_a_press_at_any_moment_of_the_start_is_130_and_leaves_nothing(tfcluster, spec):
    begun = time.monotonic()
    assert tfcluster("up", "-d").returncode == 0
    length = 1.2 * (time.monotonic() - begun)
    tfcluster("down")
    for number in range(MOMENTS):
        code, said = press(tfcluster, "up", after=length * number / MOMENTS)
        assert judge(code, said) in ("130", "interpreter"), (number, code, said)
        assert tfcluster.left_behind() == [], (number, said)


def test_a_press_while_up_detaches_stops_what_was_started(tfcluster, spec):
    command = tfcluster.start("up", "-d")
    until(lambda: list(tfcluster.home.rglob("plan.json")), "the run to begin", timeout=60)
    command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert command.returncode == 130, said
    assert "Stopping as soon as the tasks are started" in said
    assert "Watch it" not in said
    assert tfcluster.left_behind() == []


def test_a_press_among_the_imports_prints_no_traceback(tfcluster):
    """The first import of the command line waits, so that the press surely falls there."""
    code = (
        "import sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'typer':\n"
        "            print('importing', flush=True)\n"
        "            time.sleep(60)\n"
        "sys.meta_path.insert(0, Slow())\n"
        "import runpy; runpy.run_module('tfcluster', run_name='__main__')\n"
    )
    tfcluster.argv = lambda *args: [sys.executable, "-c", code, *args]
    command = tfcluster.start("up")
    assert command.stdout is not None and command.stdout.readline() == "importing\n"
    command.send_signal(signal.SIGINT)
    assert command.communicate(timeout=60) == ("", "")
    assert command.returncode == 130
