"""An installation shows that it works, on a terminal and elsewhere, and why it failed."""

from __future__ import annotations

import sys

import pytest

from tests.terminal.screen import Terminal
from tests.unit.specs import GOLDEN
from tools import patience

ROOT = GOLDEN.parent.parent.parent
SLOW = """
import pathlib, time
def wait_for(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.02)
print('Collecting big<2,>=1 (from tfcluster==0.1)', flush=True)
wait_for('one')
print('Installing collected packages: a, b, c', flush=True)
wait_for('two')
"""


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        (
            "Collecting tensorflow-cpu<2.22,>=2.19 (from tfcluster==0.1)",
            "collecting tensorflow-cpu",
        ),
        (
            "  Downloading tensorflow_cpu-2.21.0-cp311-manylinux_2_27_x86_64.whl (233.5 MB)",
            "downloading tensorflow_cpu (233.5 MB)",
        ),
        ("  Using cached six-1.17.0-py2.py3-none-any.whl (11 kB)", "found six"),
        ("Installing collected packages: a, b, c", "unpacking 3 packages"),
        ("  Building editable for tfcluster (pyproject.toml): started", "building tfcluster"),
        ("  Installing build dependencies: started", "preparing the build"),
        ("Requirement already satisfied: pip", ""),
        ("", ""),
    ],
)
def test_a_line_of_pip_tells_what_it_is_at(line, phase):
    assert patience.phase_of(line) == phase


def test_off_a_terminal_there_is_a_line_now_and_then(tmp_path, monkeypatch):
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        for words, name in (("collecting", "one"), ("unpacking", "two")):
            if words in text:
                (tmp_path / name).touch()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(patience, "LINE_EVERY", 0.0)
    monkeypatch.setattr(patience, "say", say)
    assert patience.run("Installing", [sys.executable, "-c", SLOW]) == 0
    assert said[0] == "Installing\n" and said[-1].startswith("  done in 0:")
    phases = [line.split(maxsplit=1)[1].strip() for line in said[1:-1]]
    assert [phase for phase in dict.fromkeys(phases) if phase != "starting"] == [
        "collecting big",
        "unpacking 3 packages",
    ]


def test_a_quick_one_is_two_lines(capsys):
    assert patience.run("Installing", [sys.executable, "-c", "print('Collecting x')"]) == 0
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_what_failed_is_shown(capsys):
    failing = "print('Collecting x'); print('ERROR: no room'); raise SystemExit(7)"
    assert patience.run("Installing", [sys.executable, "-c", failing]) == 7
    assert capsys.readouterr().err.splitlines() == ["Installing", "Collecting x", "ERROR: no room"]


def test_on_a_terminal_one_line_is_rewritten(tmp_path):
    call = f"patience.run('Installing', [{sys.executable!r}, '-c', {SLOW!r}])"
    argv = [sys.executable, "-c", f"from tools import patience; {call}"]
    terminal = Terminal(argv, env={"PYTHONPATH": str(ROOT)}, cwd=tmp_path)
    terminal.shows("collecting big")
    (tmp_path / "one").touch()
    terminal.shows("unpacking 3 packages")
    (tmp_path / "two").touch()
    assert terminal.end() == 0
    screen = [line for line in terminal.screen() if line.strip()]
    assert screen[0] == "Installing" and screen[1].startswith("  done in 0:")
    assert len(screen) == 2
