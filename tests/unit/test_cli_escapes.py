"""No command lets an escape sequence through that a spec, a record or a name contains."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.records import SUCCESS, write_run
from tfcluster.cli import main
from tfcluster.events import Cause

HOSTILE = "a\x1b[2J\x1b]0;title\x07\x9b31m\r\x08\u202eb"


@pytest.fixture(autouse=True)
def empty_world(monkeypatch, tmp_path):
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TFCLUSTER_JOB", raising=False)
    monkeypatch.chdir(tmp_path)


def told(capsysbinary, *arguments: str) -> str:
    """All that a command prints; it must not contain what a terminal obeys."""
    assert main(list(arguments)) in (0, 1, 2, 3, 5)
    out, err = capsysbinary.readouterr()
    text = (out + err).decode()
    assert not {char for char in text if not char.isprintable() and char not in "\n\t"}, text
    return text


def write_spec(path, **changes) -> None:
    spec = {
        "name": "odd",
        "command": ["sh", "-c", HOSTILE],
        "env": {"X": HOSTILE},
        "workdir": HOSTILE,
        "logdir": HOSTILE,
        "roles": {"worker": {}},
        **changes,
    }
    path.write_text("{% raw %}" + json.dumps(spec) + "{% endraw %}")


@pytest.mark.parametrize(
    "words",
    [
        "plan",
        "plan worker-0",
        "plan -o json",
        "plan worker-0 -o json",
        "validate",
        "diff",
        "up -d",
        "render --target docker --set image=python",
        "render --target kubernetes --set image=python --set logdir=null --set workdir=/x",
    ],
)
def test_commands_that_print_parts_of_a_spec(capsysbinary, monkeypatch, tmp_path, words):
    # On a terminal; only there a rendered script is not printed byte for byte.
    monkeypatch.setattr("tfcluster.console.is_terminal", lambda stream: True)
    write_spec(tmp_path / "cluster.yaml")
    text = told(capsysbinary, "--color", "never", *words.split())
    assert "a" in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", f"{HOSTILE}.yaml"],
        ["validate", "--set", f"{HOSTILE}=1"],
        ["validate", "--set", f"roles.worker.replicas={HOSTILE}"],
        ["validate", "--var", f"{HOSTILE}=1"],
        ["validate", "--backend", HOSTILE],
        ["plan", f"{HOSTILE}-0"],
        ["logs", HOSTILE],
        ["status", "--job", HOSTILE],
        ["status", "--run", HOSTILE],
        ["logs", "--since", HOSTILE],
        ["logs", "--include", f"({HOSTILE}"],
        ["logs", f"--{HOSTILE}"],
        ["scale", HOSTILE],
        [HOSTILE],
    ],
)
def test_what_is_said_about_odd_arguments(capsysbinary, tmp_path, arguments):
    write_run()
    write_spec(tmp_path / "cluster.yaml")
    assert "error: " in told(capsysbinary, *arguments)


@pytest.mark.parametrize(
    "words",
    [
        *("status", "status -o wide", "status -o json", "status -o yaml", "ps", "ps --all"),
        *("events", "events -o json", "history", "logs", "logs -o json", "wait", "up -d"),
    ],
)
def test_commands_that_look_at_a_run(capsysbinary, words):
    failed = replace(SUCCESS[1], state="failed", reason=HOSTILE, address=HOSTILE, exit_code=1)
    run = write_run(
        observed=(failed,),
        cause=Cause(task="worker-0", reason=HOSTILE, lines=(HOSTILE,), exit_code=1),
        result={"accuracy": HOSTILE, HOSTILE: HOSTILE},
        logs={"worker-0.0": [HOSTILE.replace("\r", "")]},
    )
    run.note("warning", HOSTILE, data={"x": HOSTILE})
    assert told(capsysbinary, *words.split())
