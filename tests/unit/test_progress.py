"""What a program says of its progress: phases, steps, rates, and what is left."""

from __future__ import annotations

import json
import sys

import pytest

from tests.launchers import World, role, until
from tfcluster import tables
from tfcluster.backends.records import observed
from tfcluster.events import LONGEST_PHASE, Observed, Progress
from tfcluster.launch import exits
from tfcluster.launch.progress import LONGEST_PROBLEM, ProgressLog


def after(*said: tuple[dict, int, float]) -> ProgressLog:
    log = ProgressLog()
    for line, attempt, now in said:
        log.take(line, attempt, now)
    return log


@pytest.mark.parametrize(
    ("said", "progress", "progressed"),
    [
        ([({"phase": "importing"}, 0, 1.0)], {"phase": "importing"}, None),
        ([({"step": 5, "rate": 1.0}, 0, 1.0)], {"step": 5, "rate": 1.0}, 1.0),
        (
            [({"step": 5, "rate": 1.0}, 0, 1.0), ({"phase": "saving"}, 0, 2.0)],
            {"step": 5, "rate": 1.0, "phase": "saving"},
            1.0,
        ),
        (
            [({"phase": "saving"}, 0, 1.0), ({"step": 6, "rate": 1.0}, 0, 2.0)],
            {"step": 6, "rate": 1.0},
            2.0,
        ),
        (
            [({"step": 5}, 0, 1.0), ({"step": 5, "loss": 1.0}, 0, 9.0)],
            {"step": 5, "loss": 1.0},
            1.0,
        ),
        (
            [({"step": 5, "rate": 1.0}, 0, 1.0), ({"phase": "importing"}, 1, 2.0)],
            {"phase": "importing"},
            None,
        ),
        (
            [({"step": 5}, 0, 1.0), ({"step": 25}, 0, 5.0)],
            {"step": 25, "rate": 5.0},
            5.0,
        ),
        ([({"step": True}, 0, 1.0), ({"step": "x"}, 0, 5.0)], {"step": "x"}, 5.0),
    ],
)
def test_lines_of_progress_add_up(said, progress, progressed):
    log = after(*said)
    assert (log.progress, log.progressed) == (progress, progressed)


@pytest.mark.parametrize(
    ("given", "phase"),
    [
        ("training", "training"),
        ("  saving \n", "saving"),
        ("\x1b[31mred\x07", "[31mred"),
        ("x" * 500, "x" * LONGEST_PHASE),
        ("", None),
        (7, None),
        (["training"], None),
        (None, None),
    ],
)
def test_a_phase_is_short_and_can_be_shown(given, phase):
    assert Progress.from_dict({"phase": given}).phase == phase


def task(state: str = "running", **more) -> Observed:
    return Observed("worker-0", "worker", 0, state, **more)


@pytest.mark.parametrize(
    ("seen", "phase"),
    [
        (task(), ""),
        (task(progress=Progress(phase="importing TensorFlow")), "importing TensorFlow"),
        (task(progress=Progress(step=3)), "training"),
        (task(progress=Progress(step=3, phase="saving")), "saving"),
        (task("succeeded", progress=Progress(step=3, phase="saving")), ""),
        (task("starting", progress=Progress(step=3), kind=exits.RESTARTING), ""),
        (task("starting", progress=Progress(phase="importing")), "importing"),
        (task("starting", kind=exits.WAITING), "waiting for peers"),
        (task("starting", kind=exits.WAITING, waits_for=("ps-0",)), "waiting for ps-0"),
        (
            task("starting", kind=exits.WAITING, waits_for=("ps-0", "b", "c")),
            "waiting for ps-0 (+2)",
        ),
    ],
)
def test_a_phase_is_what_the_launcher_and_the_program_say(seen, phase):
    assert tables.phase(seen) == phase


@pytest.mark.parametrize(
    ("progress", "left"),
    [
        (Progress(step=640, total=1200, rate=70.0), "8 s"),
        (Progress(step=0, total=1200, rate=5.0), "4 min"),
        (Progress(step=0, total=3600 * 5, rate=1.0), "5 h 0 min"),
        (Progress(step=1300, total=1200, rate=5.0), "0 s"),
        (Progress(step=0, total=10**12, rate=1e-3), ""),
        (Progress(step=0, total=1200), ""),
        (Progress(step=0, total=1200, rate=0.0), ""),
        (Progress(step=0, total=1200, rate=-1.0), ""),
        (Progress(step=640, rate=70.0), ""),
        (None, ""),
    ],
)
def test_what_is_left_is_told_where_progress_tells_it(progress, left):
    assert tables.left(task(progress=progress), now=0.0) == left


def test_nothing_is_left_of_a_task_that_is_over_or_stands_still():
    progress = Progress(step=640, total=1200, rate=70.0)
    assert tables.left(task("failed", progress=progress), now=0.0) == ""
    assert tables.left(task(progress=progress, progressed=1.0), now=100.0) == ""


def test_whom_a_task_waits_for_is_in_its_record():
    record = {"state": "starting", "doing": {"state": "starting", "waitsFor": ["ps-0", 7]}}
    seen = observed("worker-0", "", record)
    assert seen.waits_for == ("ps-0",)
    assert Observed.from_dict(seen.to_dict()) == seen
    assert observed("worker-0", "", {"doing": {"waitsFor": 7}}).waits_for == ()


def test_a_launcher_tells_every_phase_even_one_that_comes_at_once_after_another(tmp_path):
    lines = ['{"step": 1, "total": 9}', '{"phase": "evaluating"}', '{"phase": "saving"}']
    code = "".join(f"print('tfcluster-progress ' + {line!r}, flush=True)\n" for line in lines)
    code += "import time; time.sleep(600)"
    world = World(tmp_path, {"worker": role([sys.executable, "-c", code])}).start()
    try:
        world.state_becomes("worker-0", "running")
        expected = {"step": 1, "total": 9, "phase": "saving"}
        until(lambda: world.record("worker-0")["progress"] == expected, "the last phase", 60)
    finally:
        world.close()


FULL = "no checkpoint since global step 40: no room on the disk"


def test_a_problem_is_shown_until_a_line_comes_without_it():
    log = after(({"step": 50, "problem": FULL}, 0, 1.0), ({"phase": "saving"}, 0, 2.0))
    troubled = observed("worker-0", "", {"state": "running", "progress": log.progress})
    assert tables.reason_text(troubled, 2.0) == FULL
    assert troubled.to_dict()["progress"]["problem"] == FULL
    log.take({"step": 51}, 0, 3.0)
    healed = observed("worker-0", "", {"state": "running", "progress": log.progress})
    assert tables.reason_text(healed, 3.0) == ""
    ended = observed("worker-0", "", {"state": "succeeded", "progress": {"problem": FULL}})
    assert tables.reason_text(ended, 3.0) == ""


def test_a_problem_is_one_line_of_text():
    assert Progress.from_dict({"problem": "a\x1b[2J\nb" + "x" * 1000}).problem.startswith("a[2Jb")
    assert len(Progress.from_dict({"problem": "x" * 1000}).problem) == LONGEST_PROBLEM
    assert Progress.from_dict({"problem": 7}).problem is None


TROUBLED = """
import json, time
for step, more in enumerate(({"problem": "no room"}, {})):
    print("tfcluster-progress", json.dumps({"step": step, **more}), flush=True)
    time.sleep(1.5)
"""


def test_a_launcher_notes_a_problem_and_its_end(tmp_path):
    world = World(tmp_path, {"worker": role([sys.executable, "-c", TROUBLED])})
    events = tmp_path / "events.jsonl"
    try:
        world.start(extra=("--events", str(events)))
        assert world.wait("worker-0") == 0
        seen = [json.loads(line) for line in events.read_text().splitlines()]
        told = [(one["kind"], one["message"]) for one in seen if one["kind"].startswith("problem")]
        assert told == [("problem", "no room"), ("problem-over", "")]
    finally:
        world.close()


def test_a_stopped_program_has_no_rate_and_says_since_when():
    record = {"state": "running", "progress": {"step": 5, "rate": 9.0}, "doing": {"stopped": 60.0}}
    stopped = observed("worker-0", "", record)
    header, rows = tables.task_rows([stopped])
    assert "RATE" not in header
    assert rows[0][-1].startswith("stopped (SIGSTOP) since ")
    assert stopped.to_dict()["stoppedSince"] == 60.0
    assert Observed.from_dict(stopped.to_dict()) == stopped
