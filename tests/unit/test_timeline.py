"""Where the time went: from a task's moments to spans, bars, a picture and advice."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from tests.unit.records import START, tasks, write_run
from tfcluster.cli import main
from tfcluster.events import Event
from tfcluster.launch import exits
from tfcluster.launch.history import MOST_MOMENTS, History, kept_moments
from tfcluster.launch.progress import ProgressLog
from tfcluster.timeline.bars import MARKS, draw
from tfcluster.timeline.spans import KINDS, Span, Timeline, make_spans, pulls_of, with_pulls
from tfcluster.timeline.svg import COLORS, render_svg
from tfcluster.timeline.waste import WASTES, closing, largest_waste


def moment(time: float, state: str, phase: str = "", peer: str = "", attempt: int = 0) -> dict:
    found = {"time": time, "attempt": attempt, "state": state}
    return {**found, **({"phase": phase} if phase else {}), **({"peer": peer} if peer else {})}


def brief(spans) -> list[tuple]:
    return [(span.start, span.end, span.kind, span.about) for span in spans]


# -- What is kept of a task --------------------------------------------------------------------


def test_a_task_keeps_what_its_launcher_and_its_program_say():
    log = ProgressLog()
    history = log.history
    history.become({"state": "starting", "kind": exits.WAITING}, 1.0)
    doing = {"waitsFor": ["ps-0", "ps-1"]}
    history.become({"state": "starting", "kind": exits.WAITING, "doing": doing}, 2.0)
    history.become({"state": "running"}, 3.0)
    log.take({"phase": "importing"}, 0, 4.0)
    log.take({"step": 1}, 0, 5.0)
    log.take({"step": 2}, 0, 6.0)
    log.take({"phase": "saving"}, 0, 7.0)
    log.take({"phase": None}, 0, 8.0)
    history.become({"state": "running", "doing": {"stalled": 8.5}}, 30.0)
    log.take({"step": 3}, 0, 31.0)
    history.become({"state": "running"}, 31.5)
    history.become({"state": "starting", "kind": exits.RESTARTING, "attempt": 1}, 32.0)
    history.become({"state": "failed", "ended": 33.0, "attempt": 1}, 34.0)
    assert history.copy() == [
        moment(1.0, "waiting"),
        moment(2.0, "waiting", peer="ps-0"),
        moment(3.0, "running"),
        moment(4.0, "running", "importing"),
        moment(5.0, "running", "training"),
        moment(7.0, "running", "saving"),
        moment(8.0, "running", "training"),
        moment(8.5, "stalled"),
        moment(31.0, "running", "training"),
        moment(32.0, "restarting", attempt=1),
        moment(33.0, "ended", attempt=1),
    ]


def test_a_program_that_was_stopped_goes_on_with_what_it_was_at():
    history = History([moment(1.0, "running", "training")])
    history.become({"state": "running", "doing": {"since": 0.5, "stopped": True}}, 5.0)
    history.become({"state": "running", "doing": {"since": 0.5}}, 9.0, since=0.5)
    history.become({"state": "running", "doing": {"since": 0.5, "stopped": True}}, 11.0)
    history.become({"state": "starting", "kind": exits.RESTARTING}, 12.0, since=12.0)
    assert history.copy()[1:] == [
        moment(5.0, "stalled"),
        moment(9.0, "running", "training"),
        moment(11.0, "stalled"),
        moment(12.0, "restarting"),
    ]


def test_a_phase_that_is_read_after_the_end_is_put_where_it_was():
    history = History([moment(1.0, "running", "training")])
    history.become({"state": "succeeded", "ended": 9.0}, 10.0)
    history.enter("saving", 0, 5.0)
    spans = make_spans(history.copy(), 0.0, 9.0)
    assert [(span.kind, span.seconds) for span in spans] == [
        ("pending", 1.0),
        ("training", 4.0),
        ("saving", 4.0),
    ]


def test_a_history_stays_small_and_keeps_what_took_long():
    history = History()
    now = 0.0
    history.enter("training", 0, now)
    for number in range(10 * MOST_MOMENTS):
        now += 100.0 if number == 3 else 1.0
        history.enter("saving" if number % 2 == 0 else "training", 0, now)
    found = history.copy()
    assert len(found) <= MOST_MOMENTS
    assert [one["time"] for one in found] == sorted(one["time"] for one in found)
    spans = make_spans(found, 0.0, now)
    assert max(span.seconds for span in spans) >= 100.0
    assert sum(span.seconds for span in spans) == now


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"history": 7}', '{"history": [1, {"time": "x"}]}']
)
def test_a_damaged_record_has_no_moments(tmp_path, text):
    path = tmp_path / "worker-0.json"
    path.write_text(text)
    assert kept_moments(str(path)) == []
    assert kept_moments(str(tmp_path / "none")) == kept_moments(None) == []


# -- Spans -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moments", "spans"),
    [
        ([], [(0, 20, "pending", "")]),
        (
            [moment(2, "waiting"), moment(3, "waiting", peer="ps-0"), moment(9, "running")],
            [
                (0, 2, "pending", ""),
                (2, 3, "waiting", ""),
                (3, 9, "waiting", "ps-0"),
                (9, 20, "running", ""),
            ],
        ),
        (
            [moment(0, "running"), moment(4, "running", "training"), moment(15, "ended")],
            [(0, 4, "importing", ""), (4, 15, "training", "")],
        ),
        (
            [moment(0, "starting"), moment(4, "serving"), moment(15, "ended")],
            [(0, 4, "importing", ""), (4, 15, "serving", "")],
        ),
        (
            [moment(0, "running", "importing TensorFlow"), moment(4, "running", "building it")],
            [(0, 20, "importing", "")],
        ),
        (
            [moment(0, "running", "waiting for worker-0"), moment(5, "running", "dancing")],
            [(0, 5, "waiting", "worker-0"), (5, 20, "other", "dancing")],
        ),
        (
            [
                moment(0, "running", "training"),
                moment(5, "restarting", attempt=1),
                moment(6, "running", attempt=1),
                moment(9, "running", "training", attempt=1),
                moment(9.5, "stalled", attempt=1),
            ],
            [
                (0, 5, "training", ""),
                (5, 6, "restarting", ""),
                (6, 9, "importing", ""),
                (9, 9.5, "training", ""),
                (9.5, 20, "stalled", ""),
            ],
        ),
        ([moment(-5, "running"), moment(40, "serving")], [(0, 20, "importing", "")]),
    ],
)
def test_moments_become_spans_without_gaps(moments, spans):
    assert brief(make_spans(moments, 0, 20)) == spans


def test_pulling_is_cut_out_of_pending():
    events = [
        Event(1, "Pulling", "", "worker-0"),
        Event(2, "Pulling", "", "worker-1"),
        Event(4, "Pulled", "", "worker-0"),
        Event(5, "Pulled", "already present", "worker-0"),
    ]
    made = make_spans([moment(6, "running")], 0, 10)
    assert brief(with_pulls(made, pulls_of("worker-0", events, 10))) == [
        (0, 1, "pending", ""),
        (1, 4, "pulling", ""),
        (4, 6, "pending", ""),
        (6, 10, "running", ""),
    ]
    assert pulls_of("worker-1", events, 10) == [(2, 10)]
    assert pulls_of("ps-0", events, 10) == []


# -- Advice ------------------------------------------------------------------------------------


def picture(**spans: list[Span]) -> Timeline:
    found = {task.replace("_", "-"): tuple(each) for task, each in spans.items()}
    return Timeline("mnist", "7f3a", "succeeded", 0.0, 60.0, found)


PULLS = [Span(0, 40, "pulling"), Span(40, 41, "importing"), Span(41, 60, "serving")]


@pytest.mark.parametrize(
    ("timeline", "sentence", "advice"),
    [
        (
            picture(
                ps_0=PULLS, worker_1=[Span(0, 41, "waiting", "ps-0"), Span(41, 60, "training")]
            ),
            "worker-1 waited 41.0 s for ps-0, which was pulling meanwhile",
            "smaller image",
        ),
        (
            picture(worker_0=[Span(0, 20, "waiting", "data"), Span(20, 60, "training")]),
            "worker-0 waited 20.0 s for data",
            "tfcluster logs data",
        ),
        (
            picture(
                worker_0=[Span(0, 10, "saving"), Span(10, 20, "training"), Span(20, 30, "saving")]
            ),
            "worker-0 saved checkpoints for 20.0 s",
            "checkpoint_steps",
        ),
        (
            picture(worker_0=[Span(0, 30, "stalled")]),
            "made no progress for 30.0 s",
            "tfcluster why",
        ),
        (
            picture(worker_0=[Span(0, 30, "restarting")]),
            "restarted for 30.0 s",
            "worker-0 --previous",
        ),
        (picture(worker_0=[Span(0, 30, "waiting")]), "waited 30.0 s for its peers", "events"),
    ],
)
def test_the_largest_waste_is_named_with_what_reduces_it(timeline, sentence, advice):
    waste = largest_waste(timeline)
    assert waste is not None
    assert sentence in waste.sentence
    assert advice in waste.advice
    assert "{" not in waste.sentence + waste.advice


def test_what_is_short_or_is_work_is_no_waste():
    timeline = picture(worker_0=[Span(0, 2, "importing"), Span(2, 60, "training")])
    assert largest_waste(timeline) is None
    assert closing(timeline, None) == ["No task lost more than 3.0 s (5 %) to one thing."]
    assert largest_waste(picture()) is None


def test_every_kind_has_a_letter_and_a_colour_of_its_own():
    assert set(MARKS) == set(COLORS) == set(KINDS)
    assert len({letter for letter, _ in MARKS.values()}) == len(set(COLORS.values())) == len(KINDS)
    assert set(WASTES) < set(KINDS)


# -- Pictures ----------------------------------------------------------------------------------

GOLDEN = picture(
    ps_0=PULLS,
    worker_0=[Span(0, 6, "pending"), Span(6, 41, "waiting", "ps-0"), Span(41, 60, "training")],
    worker_1=[
        Span(0, 6, "pending"),
        Span(6, 41, "waiting", "ps-0"),
        Span(41, 45, "training"),
        Span(45, 46, "restarting"),
        Span(46, 50, "importing"),
        Span(50, 55, "training"),
    ],
)


def test_a_timeline_in_a_terminal_of_60_columns_looks_like_this():
    assert draw(GOLDEN, 60) == [
        "          0 s                      30.0 s          1 min 0 s",
        "ps-0      pppppppppppppppppppppppppppppppppi----------------",
        "worker-0  .....wwwwwwwwwwwwwwwwwwwwwwwwwwwwwTTTTTTTTTTTTTTTT",
        "worker-1  .....wwwwwwwwwwwwwwwwwwwwwwwwwwwwwTTTRRiiiTTTT",
        "",
        "PHASE         ALL TASKS   SHARE  MOST",
        ". pending     12.0 s      7 %    worker-0 6.0 s",
        "p pulling     40.0 s      23 %   ps-0 40.0 s",
        "w waiting     1 min 10 s  40 %   worker-0 35.0 s",
        "i importing   5.0 s       3 %    worker-1 4.0 s",
        "T training    28.0 s      16 %   worker-0 19.0 s",
        "R restarting  1.0 s       1 %    worker-1 1.0 s",
        "- serving     19.0 s      11 %   ps-0 19.0 s",
    ]


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_bars_fit_the_terminal_and_are_ascii(width):
    for line in draw(GOLDEN, width):
        assert len(line) <= max(width, 48)
        assert line.isascii()


def test_a_picture_is_sound_xml_whatever_tasks_are_called():
    hostile = {'<b>\x1b[31m&"-0': (Span(0, 60, "other", "</svg>\x00"),)}
    timeline = Timeline("j", "r", "failed", 0.0, 60.0, hostile)
    root = ElementTree.fromstring(render_svg(timeline, "a < b & c", ["hint: <x>"]))
    texts = [element.text for element in root.iter() if element.text]
    assert "a < b & c" in texts
    assert any("other (</svg>)" in text for text in texts)
    assert render_svg(Timeline("j", "r", "pending", 5.0, 5.0, {"w-0": ()}), "x")


# -- The command -------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    made = write_run(observed=tasks(ps_0="succeeded", worker_0="succeeded"))
    moments = [
        moment(START + 0.5, "waiting", peer="ps-0"),
        moment(START + 5, "running", "training"),
        moment(START + 9, "ended"),
    ]
    made.files.write_task(
        "worker-0", {"task": "worker-0", "state": "succeeded", "history": moments}
    )
    return made


def test_the_command_shows_bars_and_the_largest_waste(run, capsys):
    assert main(["timeline", "--job", "mnist"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^worker-0  \.+w+T+$", out, re.M)
    assert "Largest waste: ps-0 was pending for 9.8 s." in out


def test_the_command_writes_json_and_a_picture(run, capsys):
    picture = run.path / "t.svg"
    assert main(["timeline", "--job", "mnist", "-o", "json", "--out", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    totals = {task["task"]: task["totals"] for task in found["tasks"]}
    assert totals["worker-0"] == {"pending": 0.5, "waiting": 4.5, "training": 4.0}
    assert found["tasks"][1]["spans"][1]["about"] == "ps-0"
    assert found["waste"]["kind"] == "pending"
    ElementTree.parse(picture)
