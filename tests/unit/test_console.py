"""What people see: colours, tables, errors."""

from __future__ import annotations

import io

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
    assert lines[1] == "\x1b[1;31mfailed\x1b[0m  failed"


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
    ],
)
def test_yaml_output_reads_back_as_it_was(value):
    text = "\n".join(console.yaml_lines(value))
    assert YAML(typ="safe").load(text) == value
