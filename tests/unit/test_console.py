"""What people see: colours, tables, errors."""

from __future__ import annotations

import io
import json

import pytest
from ruamel.yaml import YAML

from tfcluster import console
from tfcluster.errors import MissingError, Problem, SpecProblems


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def default_colors(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    yield
    console.choose_color("auto")


def test_auto_colours_a_terminal_and_nothing_else():
    assert console.colored(Terminal())
    assert not console.colored(io.StringIO())


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_auto_obeys_the_environment(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert not console.colored(Terminal())


def test_the_flag_wins_over_no_color(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    console.choose_color("always")
    assert console.colored(io.StringIO())
    console.choose_color("never")
    assert not console.colored(Terminal())


def test_a_table_is_aligned_and_has_no_trailing_blanks():
    lines = console.table(
        ["TASK", "STATE", "X"], [["ps-0", "serving", ""], ["worker-10", "up", "1"]]
    )
    assert lines == ["TASK       STATE    X", "ps-0       serving", "worker-10  up       1"]


def test_a_table_counts_wide_characters_as_two_columns():
    first, second = console.table(["A", "B"], [["日本", "x"]])[0:2]
    assert first == "A     B"
    assert second == "日本  x"


def test_a_table_is_cut_to_the_width_of_the_terminal():
    lines = console.table(["TASK", "REASON"], [["worker-0", "x" * 200]], width=30)
    assert max(map(len, lines)) == 30
    assert lines[1].endswith("…")


def test_a_cell_with_line_ends_stays_one_line():
    assert console.table(["A"], [["one\ntwo"]]) == ["A", "one two"]


def test_only_the_state_is_coloured():
    lines = console.table(
        ["STATE", "X"], [["failed", "failed"]], style=console.state_style, on=True
    )
    assert console.shown(lines[1]) == "\x1b[1;31mfailed\x1b[0m  failed"


def test_an_error_has_its_evidence_and_its_hint(capsys):
    console.show_error(MissingError("no job", evidence=["  a", "  b"], hint="do this"))
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error: no job\n  a\n  b\nhint: do this\n"


def test_every_problem_of_a_spec_is_shown_and_counted(capsys):
    problems = [
        Problem('unknown key "replica"', "cluster.yaml", 5, 5, "5 |     replica: 2", "did you?"),
        Problem("expected an integer", "--set roles.worker.replicas=four"),
    ]
    console.show_error(SpecProblems(problems))
    assert capsys.readouterr().err.splitlines() == [
        'error: unknown key "replica"',
        "  --> cluster.yaml:5:5",
        "5 |     replica: 2",
        "hint: did you?",
        "",
        "error: expected an integer",
        "  --> --set roles.worker.replicas=four",
        "",
        "2 problems in the spec",
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "b": [1, 2.5, None, True], "c": {"d": {"e": "x"}}, "empty": {}, "none": []},
        {"tasks": [{"task": "ps-0", "progress": {"step": 1}}, {"task": "w", "progress": None}]},
        {"text": 'quotes " and: colons\n- lines # no comment', "no": "no", "n": "1"},
        [],
        [[1, 2], ["x"]],
        "just text",
        {"no": 1, "a: b": 2, "- x": 3, "": 4, "line\u2028end": "\x85 and \x9b31m"},
    ],
)
def test_yaml_and_json_output_read_back_as_it_was(value):
    assert YAML(typ="safe").load(console.yaml_text(value)) == value
    assert json.loads(console.json_text(value)) == value


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is not JSON")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (10**400, "inf"),
        (10**30, 1e30),
        (1 << 62, 1 << 62),
        ("half \ud800", "half \ufffd"),
        ((1, [2.5, True, None]), [1, [2.5, True, None]]),
    ],
)
def test_whatever_is_in_a_value_its_json_is_strict(value, shown):
    text = console.json_text({"value": value})
    assert json.loads(text.encode(), parse_constant=refuse) == {"value": shown}
    assert YAML(typ="safe").load(console.yaml_text({"value": value})) == {"value": shown}


def test_a_value_that_is_too_deep_is_cut_off():
    deep: object = 1
    for _ in range(5000):
        deep = [deep]
    assert console.json_text(deep).count("[") == console.DEEPEST + 1


# What specs, records, logs, engines and file names may contain.
HOSTILE = "\x1b[2Jred\x1b[31m\x1b]0;title\x07\x1b]8;;http://x\x1b\\ \x9b31m \r \x08 \u202e \x1bc!"


def test_no_escape_sequence_of_others_is_shown():
    assert console.shown(HOSTILE) == "�red��� �31m � � � �!"
    assert console.shown("two\n\tlines") == "two\n\tlines"


@pytest.mark.parametrize("style", sorted(console.STYLES))
def test_only_colours_of_this_process_are_colours(style):
    ours = console.shown(console.paint("text", style))
    assert ours == f"\x1b[{console.STYLES[style]}mtext\x1b[0m"
    assert console.shown(ours) == "�text�"


def test_a_painted_text_may_contain_anything():
    assert console.shown(console.paint(HOSTILE, "red")).count("\x1b") == 2


def test_whatever_is_printed_is_fit_for_a_terminal(capsys):
    console.data(HOSTILE)
    console.say(HOSTILE)
    console.warn(HOSTILE)
    console.success(HOSTILE)
    console.show_error(MissingError(HOSTILE, evidence=[HOSTILE], hint=HOSTILE))
    problem = Problem(HOSTILE, HOSTILE, 1, 1, HOSTILE, HOSTILE)
    console.show_error(SpecProblems([problem]))
    console.data("\n".join(console.table([HOSTILE], [[HOSTILE]])))
    console.data(console.json_text({HOSTILE: HOSTILE}, indent=2))
    console.data(console.yaml_text({"a": [HOSTILE]}))
    written = capsys.readouterr()
    assert not [c for c in written.out + written.err if not c.isprintable() and c != "\n"]


def test_json_with_escape_sequences_means_the_same():
    assert json.loads(console.json_text([HOSTILE])) == [HOSTILE]


def test_a_rendered_text_is_exact_in_a_pipe_and_harmless_on_a_terminal(monkeypatch):
    pipe, terminal = io.StringIO(), Terminal()
    for stream in (pipe, terminal):
        monkeypatch.setattr("sys.stdout", stream)
        console.artifact(HOSTILE)
    assert pipe.getvalue() == HOSTILE
    assert "\x1b" not in terminal.getvalue()


def test_of_very_many_problems_the_first_twenty_are_shown(capsys):
    console.show_error(SpecProblems([Problem(f"number {n}") for n in range(25)], more=1_000_000))
    lines = [line for line in capsys.readouterr().err.splitlines() if line]
    assert lines[:-2] == [f"error: number {n}" for n in range(20)]
    assert lines[-2] == "1,000,025 problems in the spec; these are the first 20"
    assert lines[-1].startswith("hint: ")
