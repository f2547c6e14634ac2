"""Log lines: which ones, and how they look."""

from __future__ import annotations

import json
from datetime import datetime

import pytest

from tfcluster import tail
from tfcluster.errors import UsageError
from tfcluster.events import LogLine


def line(text: str | bytes, task: str = "worker-1", *, time: float = 0.0, **more) -> LogLine:
    data = text if isinstance(text, bytes) else text.encode()
    return LogLine(task, more.pop("attempt", 0), time, "stdout", data, **more)


def texts(lines) -> list[str]:
    return [entry.data.decode() for entry in lines]


# Which lines.


def test_progress_and_results_are_not_lines_for_people():
    lines = [line('tfcluster-progress {"step": 1}'), line("hello"), line("tfcluster-result {}")]
    assert texts(tail.select(lines, tail.Filter())) == ["hello"]
    assert len(list(tail.select(lines, tail.Filter(reports=True)))) == 3


def test_include_takes_any_match_and_exclude_wins():
    lines = [line(text) for text in ("loss 1", "step 2", "loss and step", "other")]
    wanted = tail.Filter(
        include=(tail.pattern("loss", "--include"), tail.pattern("^step", "--include")),
        exclude=(tail.pattern("and", "--exclude"),),
    )
    assert texts(tail.select(lines, wanted)) == ["loss 1", "step 2"]


def test_one_attempt_can_be_chosen():
    lines = [line("a", attempt=0), line("b", attempt=1)]
    assert texts(tail.select(lines, tail.Filter(attempt=1))) == ["b"]


def test_a_bad_expression_is_a_usage_error_that_points_at_the_place():
    with pytest.raises(UsageError) as caught:
        tail.pattern("a(b", "--include")
    assert "--include" in caught.value.message
    assert caught.value.evidence == ("  a(b", "   ^")


def test_last_lines_counts_per_task_and_keeps_the_order():
    lines = [line(f"{task}{n}", task) for n in range(3) for task in ("a", "b")]
    assert texts(tail.last_lines(lines, 2)) == ["a1", "b1", "a2", "b2"]
    assert tail.last_lines(lines, 0) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10m", 1_000_000_000 - 600),
        ("1h30m", 1_000_000_000 - 5400),
        ("90", 1_000_000_000 - 90),
        ("1769860800", 1769860800.0),
        ("1769860800.5", 1769860800.5),
        ("2026-01-31T12:00:00Z", 1769860800.0),
        ("2026-01-31T13:00:00+01:00", 1769860800.0),
        ("2026-01-31 13:00:00+0100", 1769860800.0),
        ("2026-01-31T12:00:00.5Z", 1769860800.5),
        ("2026-01-31T12:00:00.500000000Z", 1769860800.5),
        ("2026-01-31T12:00:00.25", datetime(2026, 1, 31, 12).timestamp() + 0.25),
        ("2026-01-31", datetime(2026, 1, 31).timestamp()),
    ],
)
def test_times_are_durations_ago_iso_times_or_seconds(text, expected):
    assert tail.parse_when(text, now=1_000_000_000) == expected


def test_a_time_that_cannot_be_read_says_what_can():
    with pytest.raises(UsageError, match="neither a duration nor a time") as caught:
        tail.parse_when("yesterday")
    assert caught.value.hint is not None and "10m" in caught.value.hint


# How they look.


def test_prefixes_are_padded_to_the_longest_name():
    style = tail.Style(names=("worker-10", "ps-0"))
    assert tail.format_default(line("x", "ps-0"), style) == b"ps-0      | x\n"
    assert tail.format_default(line("x", "worker-10"), style) == b"worker-10 | x\n"


def test_only_the_prefix_is_coloured():
    style = tail.Style(names=("worker-10", "ps-0"), color=True)
    shown = tail.format_default(line("text", "ps-0"), style)
    assert shown == f"\x1b[{tail.PALETTE[0]}mps-0      | \x1b[0mtext\n".encode()


def test_a_task_has_its_colour_by_its_name_alone():
    def color(task: str, *names: str) -> bytes:
        shown = tail.format_default(line("", task), tail.Style(names=names, color=True))
        return shown.partition(b"m")[0]

    for task in ("ps-0", "worker-1", "reader-3", "nothing"):
        alone = color(task, task)
        assert color(task, "a-0", "b-7", "worker-0", task) == color(task) == alone
    workers = [color(f"worker-{index}") for index in range(10)]
    assert len(set(workers)) == len(workers)
    assert color("ps-0") != color("worker-0") != color("chief-0") != color("ps-0")


def test_red_is_for_errors():
    assert not {"31", "91"} & set(tail.PALETTE)


def test_a_task_that_comes_later_gets_a_prefix_too():
    style = tail.Style(names=("worker-0",))
    assert tail.format_default(line("x", "worker-1"), style) == b"worker-1 | x\n"


def test_without_prefix_and_with_timestamps_of_the_local_zone(nepal):
    style = tail.Style(names=("w",), prefix=False, timestamps=True)
    shown = tail.format_default(line("x", time=1769860800.1239), style)
    assert shown == b"2026-01-31T17:45:00.123+05:45 x\n"


def test_matches_are_highlighted_only_where_colours_are_on():
    marks = (tail.pattern("o+", "--highlight"),)
    on = tail.Style(prefix=False, color=True, highlight=marks)
    off = tail.Style(prefix=False, highlight=marks)
    assert tail.format_default(line("boo"), on) == b"b\x1b[30;43moo\x1b[0m\n"
    assert tail.format_default(line("boo"), off) == b"boo\n"


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"plain \xe6\x97\xa5\xe6\x9c\xac", "plain 日本"),
        (b"bad \xff utf-8", "bad � utf-8"),
        (b"tab\tstays", "tab\tstays"),
        (b"\x1b[2J\x1b[1;1Hcleared", "cleared"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"bell\x07 back\x08 nul\x00", "bell back nul"),
        (b"\x1bcreset", "reset"),
        (b"1/3\r2/3\r3/3", "3/3"),
        (b"crlf\r", "crlf"),
        (b"\xc2\x9b2Jc1", "2Jc1"),
    ],
)
def test_what_could_garble_a_terminal_is_taken_out(data, shown):
    assert tail.printable(data, color=False) == shown
    assert tail.printable(data, color=True) == shown


def test_a_programs_own_colours_stay_where_colours_are_on_and_do_not_bleed():
    data = b"\x1b[31mred"
    assert tail.printable(data, color=True) == "\x1b[31mred\x1b[0m"
    assert tail.printable(data, color=False) == "red"


def test_raw_is_exact():
    data = b"\x1b[2J\xff\r tfcluster-progress"
    assert tail.format_raw(line(data), tail.Style()) == data + b"\n"
    assert tail.format_raw(line(data, complete=False), tail.Style()) == data


def test_json_is_one_object_per_line():
    shown = tail.format_json(line("é\x1b[0m", "ps-0", time=1.5, attempt=2), tail.Style())
    assert shown.endswith(b"\n") and shown.count(b"\n") == 1
    assert json.loads(shown) == {
        "schemaVersion": 1,
        "task": "ps-0",
        "attempt": 2,
        "time": 1.5,
        "stream": "stdout",
        "line": "é\x1b[0m",
    }
