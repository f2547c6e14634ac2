"""Terminals that show nothing but ASCII, and lines that are wider than a terminal."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest

from tests.launchers import until
from tests.terminal.screen import Terminal
from tests.unit.records import tasks
from tfcluster import cells, console, glyphs, live, tables
from tfcluster.events import JobStatus


@pytest.fixture
def ascii_only():
    glyphs.choose_glyphs(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    yield
    glyphs.choose_glyphs()


@pytest.mark.parametrize(
    ("environ", "plain"),
    [
        ({"LANG": "C"}, True),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, True),  # what Python makes of the one before
        ({"LC_ALL": "POSIX", "LANG": "de_DE.UTF-8"}, True),
        ({"LC_ALL": "C.UTF-8", "LANG": "C"}, False),
        ({"LANG": "de_DE.UTF-8"}, False),
        ({"LANG": "C", "LC_CTYPE": "de_DE.UTF-8"}, False),
        ({"LC_CTYPE": "C.UTF-8"}, False),
        ({}, False),
    ],
)
def test_the_locale_says_whether_a_terminal_shows_more_than_ascii(environ, plain):
    assert glyphs.is_plain_locale(environ) is plain


def run(folder, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "cluster.yaml").write_text("name: a\ncommand: [sleep, '1']\nroles: {worker: {}}\n")
    env = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "LANG"))}
    env |= {"TFCLUSTER_HOME": str(folder / "home"), **variables}
    argv = [sys.executable, "-m", "tfcluster", *words]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, timeout=120)


@pytest.mark.parametrize(
    "variables",
    [{"LANG": "C"}, {"LC_ALL": "C"}, {"PYTHONIOENCODING": "latin-1", "LANG": "de_DE"}],
    ids=str,
)
def test_ascii_terminals_get_ok_and_no_question_marks(tmp_path, variables):
    done = run(tmp_path, "validate", **variables)
    assert done.stdout == b"ok cluster.yaml is valid (1 worker, local)\n"
    assert done.stderr == b""


def test_other_terminals_keep_their_marks(tmp_path):
    done = run(tmp_path, "validate", LANG="C.UTF-8")
    assert done.stdout.decode() == "✓ cluster.yaml is valid (1 worker, local)\n"


def test_bars_and_cut_texts_keep_their_width(ascii_only):
    assert tables.bar(0.4, 8) == "===     "
    assert tables.bar(0.45, 8) == "===-    "
    assert cells.clipped("a long text", 8) == "a lon..."
    status = JobStatus("a", "r", "local", "running", tasks(ps_0="serving", worker_0="running"))
    lines = live.table_lines(status, 40, 10, False)
    assert all(line.isascii() and len(line) < 40 for line in lines)


def test_notices_and_errors_are_ascii_too(ascii_only, capsys):
    console.success("1 → 2 …")
    assert capsys.readouterr().err == "ok 1 -> 2 ...\n"


def test_data_of_others_stays_as_it_is(ascii_only, capsys):
    console.data('{"loss": "a → b"}')
    assert capsys.readouterr().out == '{"loss": "a → b"}\n'


@pytest.mark.parametrize(
    ("line", "width", "expected"),
    [
        ("short", 10, ["short"]),
        ("one two three four", 9, ["one two", "  three", "  four"]),
        ("  in dented text", 10, ["  in", "    dented", "    text"]),
        ("averyverylongword and", 8, ["averyverylongword", "  and"]),
        ("a  b  c", 80, ["a  b  c"]),
        ("off a terminal nothing is wrapped", None, ["off a terminal nothing is wrapped"]),
        ("\x1b[1;31merror:\x1b[0m of two", 13, ["\x1b[1;31merror:\x1b[0m of two"]),
        ("日本 日本 日本", 10, ["日本 日本", "  日本"]),
    ],
)
def test_lines_are_broken_between_words(line, width, expected):
    assert cells.wrapped(line, width) == expected


def test_a_table_goes_on_in_its_last_column():
    rows = [["worker-0", "stopped because worker-1 failed (exit code 3)"]]
    assert console.table(["TASK", "REASON"], rows, fold=36) == [
        "TASK      REASON",
        "worker-0  stopped because worker-1",
        "          failed (exit code 3)",
    ]


def test_an_error_on_a_narrow_terminal_breaks_no_word(tmp_path):
    env = {**os.environ, "TFCLUSTER_HOME": str(tmp_path / "home")}
    argv = [sys.executable, "-m", "tfcluster", "completion", "tcsh"]
    terminal = Terminal(["sh", "-c", 'stty cols 30; exec "$@"', "sh", *argv], env=env, cwd=tmp_path)
    assert terminal.end() == 2
    until(lambda: any("fish" in line for line in terminal.screen()), "the hint")
    shown = [line.rstrip() for line in terminal.screen() if line.strip()]
    assert all(len(line) <= 30 for line in shown)
    words = " ".join(" ".join(shown).split())
    assert "as in: tfcluster completion bash. Shells: bash, zsh, fish" in words
