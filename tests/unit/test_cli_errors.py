"""The one place where errors end: what is printed, and which exit code it becomes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.unit.records import write_run
from tfcluster import cli
from tfcluster.cli import COMMANDS, hoisted, load_command, main
from tfcluster.commands.exec import wants_terminal


@pytest.fixture(autouse=True)
def empty_world(monkeypatch, tmp_path):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TFCLUSTER_JOB", raising=False)
    monkeypatch.chdir(tmp_path)


def test_an_unknown_command_is_a_usage_error_with_a_suggestion(capsys):
    assert main(["stauts"]) == 2
    assert (
        capsys.readouterr().err == 'error: unknown command "stauts"\nhint: did you mean "status"?\n'
    )


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["up", "--wiat"], "--wait"),
        (["status", "-o", "xml"], "'xml' is not one of"),
        (["logs", "-n", "many"], "--tail"),
        (["tensorboard", "--port", "99999"], "less than or equal to 65535"),
        (["tensorboard", "--port", "0"], "greater than or equal to 1"),
        (["exec"], "TASK"),
        (["exec", "worker-0"], "tfcluster exec worker-0 -- env"),
        (["exec", "--bogus", "worker-0", "ls"], "--bogus"),
        (["--color", "pink", "status"], "'pink' is not one of"),
        (["wait", "--timeout", "soon"], '--timeout "soon"'),
        (["up", "--var", "workers"], "expected NAME=VALUE"),
        (["up", "a.yaml", "-f", "b.yaml"], "two specs"),
    ],
)
def test_a_wrong_call_exits_2_and_says_what_is_wrong(capsys, arguments, part):
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and "hint: " in err
    assert part in err


def test_nothing_there_exits_3(capsys):
    assert main(["status"]) == 3
    assert main(["status", "--job", "mnist"]) == 3
    assert main(["up"]) == 3
    assert "tfcluster init" in capsys.readouterr().err


def test_a_broken_spec_exits_2_with_every_problem(capsys, tmp_path):
    (tmp_path / "cluster.yaml").write_text("name: X\nrolls: {}\nbackend: loca\n")
    assert main(["validate"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("error: ") >= 3
    assert "--> cluster.yaml:2:1" in err


def test_no_arguments_show_the_help_and_exit_0(capsys):
    assert main([]) == 0
    assert "Usage: tfcluster" in capsys.readouterr().out


def test_a_bug_leaves_its_traceback_in_a_file_that_the_message_names(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tfcluster.commands.version.tensorflow_version", lambda: 1 / 0)
    assert main(["version"]) == 1
    err = capsys.readouterr().err
    assert "Traceback" not in err and "ZeroDivisionError" in err
    (path,) = (tmp_path / "home" / "crashes").iterdir()
    assert str(path) in err
    assert "ZeroDivisionError" in path.read_text()


def test_debug_prints_tracebacks_and_keeps_the_exit_code(capsys):
    assert main(["status", "--debug"]) == 3
    err = capsys.readouterr().err
    assert "Traceback" in err and "error: no job" in err


def test_an_interrupt_exits_130(monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr("tfcluster.commands.version.tensorflow_version", interrupt)
    assert main(["version"]) == 130


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    write_run(logs={"worker-0.0": ["x" * 1000] * 9})
    command = f"{sys.executable} -m tfcluster logs --job mnist; echo code $? >&2"
    done = subprocess.run(
        ["sh", "-c", f"( {command} ) | true"], env=os.environ, capture_output=True, text=True
    )
    assert done.stderr in ("code 141\n", "code 0\n")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["logs", "-f", "--color", "never"], ["--color", "never", "logs", "-f"]),
        (["up", "--color=always", "--debug"], ["--color=always", "--debug", "up"]),
        (["exec", "w-0", "ls", "--color"], ["exec", "w-0", "ls", "--color"]),
        (["logs", "--", "--debug"], ["logs", "--", "--debug"]),
        (["up", "--color"], ["up", "--color"]),
    ],
)
def test_global_options_may_follow_the_verb(given, expected):
    assert hoisted(given) == expected


@pytest.mark.parametrize("name", COMMANDS)
def test_every_verb_has_a_module_a_help_text_and_the_summary_of_the_table(name, capsys):
    assert load_command(name).short_help == COMMANDS[name][1]
    assert main([name, "--help"]) == 0
    assert f"Usage: tfcluster {name}" in capsys.readouterr().out


def test_the_help_lists_every_verb(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in COMMANDS)


def test_values_that_are_not_plain_still_go_typers_way(capsys):
    assert main(["logs", "-n", "-1"]) == 2
    assert "greater than or equal to 0" in capsys.readouterr().err


def test_colours_can_be_set_in_the_environment(capsys, monkeypatch):
    monkeypatch.setenv("TFCLUSTER_COLOR", "always")
    assert main(["stauts"]) == 2
    main(["validate", "nowhere.yaml"])
    assert "\x1b[1;31merror:\x1b[0m" in capsys.readouterr().err
    cli.console.choose_color("auto")


@pytest.mark.parametrize(
    ("asked", "stdin", "stdout", "expected"),
    [
        (None, True, True, True),
        (None, True, False, False),
        (None, False, True, False),
        (True, True, False, True),
        (True, False, True, False),
        (False, True, True, False),
    ],
)
def test_a_command_gets_a_terminal_if_there_is_one_or_if_asked(asked, stdin, stdout, expected):
    assert wants_terminal(asked, stdin, stdout) is expected


@pytest.mark.parametrize("count", ["9" * 5000, "0", "-1", "1e3", "\u0664" * 99])
def test_scale_to_an_impossible_number_is_a_wrong_call(capsys, monkeypatch, count):
    write_run()
    monkeypatch.setattr("tfcluster.commands.options.running", lambda run: None)
    assert main(["scale", f"worker={count}"]) == 2
    assert "expected ROLE=N" in capsys.readouterr().err
