"""Which Python `python` in a command is, and what is said of one that lacks a module."""

from __future__ import annotations

import json
import sys

import pytest

from tests.launchers import World, role
from tfcluster.backends.local.interpreters import choose
from tfcluster.cli import main
from tfcluster.commands.outcome import advice
from tfcluster.events import Cause
from tfcluster.interpreter import (
    IN_ENVIRONMENT,
    ON_PATH,
    OWN_HAS_TENSORFLOW,
    OWN_NOT_ON_PATH,
    Interpreter,
)
from tfcluster.launch import exits
from tfcluster.launch.python import missing_module

OWN = "/own/bin/python"
ACTIVE = {"VIRTUAL_ENV": "/env"}


@pytest.mark.parametrize(
    ("found", "env", "lacks", "expected"),
    [
        (None, {}, False, Interpreter("python", OWN, OWN_NOT_ON_PATH)),
        (None, ACTIVE, True, Interpreter("python", OWN, OWN_NOT_ON_PATH)),
        ("/usr/bin/python", {}, False, Interpreter("python", "/usr/bin/python", ON_PATH)),
        (
            "/usr/bin/python",
            {},
            True,
            Interpreter("python", OWN, OWN_HAS_TENSORFLOW, "/usr/bin/python"),
        ),
        ("/own/bin/python", {}, True, Interpreter("python", OWN, ON_PATH)),
        ("/env/bin/python", ACTIVE, True, Interpreter("python", "/env/bin/python", IN_ENVIRONMENT)),
        (
            "/conda/bin/python",
            {"CONDA_PREFIX": "/conda"},
            True,
            Interpreter("python", "/conda/bin/python", IN_ENVIRONMENT),
        ),
        (
            "/usr/bin/python",
            ACTIVE,
            True,
            Interpreter("python", OWN, OWN_HAS_TENSORFLOW, "/usr/bin/python"),
        ),
    ],
)
def test_path_wins_unless_it_has_none_or_one_without_the_tensorflow_of_ours(
    found, env, lacks, expected
):
    assert choose("python", found, env, OWN, lambda _: lacks) == expected


def test_an_interpreter_says_why_it_was_chosen():
    assert Interpreter("python", OWN, OWN_NOT_ON_PATH).text == (
        "/own/bin/python (tfcluster's own; PATH has no python)"
    )
    assert Interpreter("python", OWN, OWN_HAS_TENSORFLOW, "/usr/bin/python").text == (
        "/own/bin/python (tfcluster's own; /usr/bin/python has no TensorFlow)"
    )


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """A spec that says `python`, in a folder where PATH finds no python."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("TFCLUSTER_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    spec = "name: toy\ncommand: [python, train.py]\nroles: {worker: {replicas: 1}}\n"
    (tmp_path / "cluster.yaml").write_text(spec)


def test_plan_says_which_python_is_used(spec, capsys):
    assert main(["plan"]) == 0
    words = f"python: {sys.executable} (tfcluster's own; PATH has no python)"
    assert words in capsys.readouterr().out.splitlines()
    assert main(["plan", "worker-0"]) == 0
    shown = capsys.readouterr().out
    assert f"command    {sys.executable} train.py" in shown
    assert f"python     {sys.executable} (tfcluster's own" in shown
    assert main(["plan", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["interpreters"]["worker"]
    assert (found["name"], found["source"]) == ("python", OWN_NOT_ON_PATH)


def test_which_python_is_used_does_not_make_a_task_another(spec, tmp_path, monkeypatch, capsys):
    def digest() -> str:
        assert main(["plan", "-o", "json"]) == 0
        return json.loads(capsys.readouterr().out)["tasks"][0]["digest"]

    before = digest()
    (tmp_path / "empty" / "python").symlink_to("/bin/true")
    (tmp_path / "empty" / "python").chmod(0o755)
    assert digest() == before


# A module that is not there.


@pytest.mark.parametrize(
    ("lines", "module"),
    [
        (["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'a'"], "a"),
        (["ModuleNotFoundError: No module named 'a.b'; 'a' is not a package"], "a.b"),
        (["/usr/bin/python3: No module named train"], "train"),
        (["trainer: error: ModuleNotFoundError: No module named 'x' (--debug shows where)"], "x"),
        (["ModuleNotFoundError: No module named 'a'", "a note of the program"], "a"),
        (["ModuleNotFoundError: No module named 'a'", *"1234"], None),
        (["we found No module named 'a' in the data"], None),
        (["ValueError: no"], None),
        ([], None),
    ],
)
def test_a_missing_module_is_found_in_the_last_lines(lines, module):
    assert missing_module(lines) == module


def test_a_launcher_names_the_module_and_the_interpreter(tmp_path):
    code = "import nowhere_to_be_found"
    world = World(tmp_path, {"worker": role([sys.executable, "-c", code])}).start()
    try:
        world.wait("worker-0")
        cause = world.record("worker-0")["cause"]
    finally:
        world.close()
    assert cause["kind"] == exits.MODULE_MISSING
    assert (cause["module"], cause["python"]) == ("nowhere_to_be_found", sys.executable)
    assert cause["reason"] == f"exit code 1: {sys.executable} has no module 'nowhere_to_be_found'"


def test_a_launcher_runs_python_under_its_own_where_path_has_none(tmp_path):
    nowhere = {"PATH": str(tmp_path)}
    code = "import sys; print(sys.executable)"
    world = World(tmp_path, {"worker": role(["python3", "-c", code], env=nowhere)}).start()
    try:
        assert world.wait("worker-0") == 0
        assert world.out("worker-0").decode().strip() == sys.executable
        assert f"PATH has no python3; using {sys.executable}" in world.err("worker-0")
    finally:
        world.close()


@pytest.mark.parametrize(
    ("module", "python", "backend", "part"),
    [
        (
            "json.tool",
            "/usr/bin/python3",
            "local",
            f"has json.tool: use it (command: [{sys.executable}, …])",
        ),
        ("not_there", "/usr/bin/python3", "local", f"({sys.executable}) has no not_there either"),
        ("not_there", sys.executable, "local", f"install it ({sys.executable} -m pip install"),
        ("not_there", "/usr/bin/python3", "docker", "install not_there in the image"),
    ],
)
def test_the_hint_says_whether_the_own_interpreter_has_the_module(module, python, backend, part):
    cause = Cause("w-0", 1, "", kind=exits.MODULE_MISSING, module=module, python=python)
    assert part in advice(cause, backend)
